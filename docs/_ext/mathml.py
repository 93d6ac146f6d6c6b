"""Formulas as MathML, which browsers render without scripts, fonts or network.

Docutils converts LaTeX to MathML. A formula that it cannot convert is a warning, which is an error
of the build.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(node: nodes.Node | None, tex: str, *, block: bool) -> str:
    """Return the MathML of a formula."""
    try:
        # Docutils leaves the apostrophe of S'_t on the line; a prime is an exponent.
        markup = tex2mathml(tex.replace("'", r"^{\prime}"), as_block=block)
    except MathError as error:
        logger.warning("formula: %s in %r", error, tex, location=node)
        return f"<code>{escape(tex)}</code>"
    return re.sub(r"\s*\n\s*", "", markup)


def visit_math(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node, node.astext(), block=False))
    raise nodes.SkipNode


def visit_displaymath(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math", role="math"))
    self.body.append(mathml(node, node.astext(), block=True))
    if node["number"]:
        self.body.append(f'<span class="eqno">({node["number"]})</span>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_math, None),
        block_renderers=(visit_displaymath, None),
    )
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
