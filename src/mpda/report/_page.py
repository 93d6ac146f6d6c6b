"""The page: sections, figures, style and script in one file that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from mpda._lib.atomic_write import write_atomically
from mpda.plotting.styles import COLORS
from mpda.report._results import checked
from mpda.report._sections import Section, sections, summary


def render(results: dict[str, Any]) -> str:
    """One HTML page that shows what the results hold, and works without a network.

    Parameters
    ----------
    results : dict
        "format" is "mpda results", "version" 1 and "made" says by which command, when and with
        which versions. The rest may be missing: "title", "summary", "data", "comparison", "model",
        "embedding", "partition", "confusion".

    Returns
    -------
    str

    Raises
    ------
    ReportError
        Where the results are not of this form; it names the entry.
    """
    results = checked(results)
    parts = sections(results)
    title = results.get("title") or "mpda"
    links = "".join(f'<a href="#{part.anchor}">{escape(part.name)}</a>' for part in parts)
    body = "".join(_section(part) for part in parts)
    charts = {name: chart for part in parts for name, chart in part.charts.items()}
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        facts=_facts(results.get("data") or {}),
        links=links,
        summary=summary(results),
        sections=body,
        style=_asset("page.css"),
        script=_asset("page.js"),
        plotly=_plotly_script() if charts else "",
        content=_embedded({"colors": list(COLORS), "charts": charts}),
    )


def write_page(results: dict[str, Any], path: str | Path) -> Path:
    """Write the page of the results to a file, beside and renamed into place; see ``render``."""
    return write_atomically(Path(path), render(results))


def _section(part: Section) -> str:
    kind = ' class="half"' if part.half else ""
    return (
        f'<section id="{part.anchor}"{kind} aria-labelledby="{part.anchor}-title">'
        f'<h2 id="{part.anchor}-title">{escape(part.title)}</h2>{part.html}</section>'
    )


def _facts(data: dict[str, Any]) -> str:
    """What the data are, in one line."""
    facts = []
    for key, one, many in (
        ("n_samples", "sample", "samples"),
        ("n_features", "feature", "features"),
    ):
        if data.get(key) is not None:
            facts.append(f"{data[key]:,} {one if data[key] == 1 else many}")
    if data.get("classes"):
        label = f" by {escape(data['label'])}" if data.get("label") else ""
        facts.append(f"{len(data['classes'])} classes{label}")
    if data.get("name"):
        facts.insert(0, escape(data["name"]))
    return " · ".join(facts)


def _asset(name: str) -> str:
    return (files("mpda.report") / "assets" / name).read_text(encoding="utf-8")


def _plotly_script() -> str:
    try:
        script: str = import_module("plotly.offline").get_plotlyjs()
    except ImportError as error:
        raise ImportError("The report needs plotly: pip install 'mpda[report]'.") from error
    return script.replace("</script", "<\\/script")


def _embedded(content: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever the data say."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
