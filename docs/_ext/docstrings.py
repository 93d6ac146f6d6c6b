"""Convert the docstrings of the package, plain text, to reStructuredText."""

from __future__ import annotations

import re
from typing import Any

_FIELD = re.compile(r"(\w+(?:, \w+)*) : (.+)")


def skip_foreign(app: Any, kind: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that a class inherits from other packages."""
    inner = getattr(obj, "fget", obj)
    home = getattr(inner, "__module__", None) or getattr(inner, "__objclass__", object).__module__
    return None if home.startswith("mpda") else True


def literal_formulas(
    app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make indented text above the first section a literal block: it is a formula."""
    last = next((i for i, line in enumerate(lines) if line.startswith("---")), len(lines))
    for i in range(last - 1, 1, -1):
        before = [line for line in lines[:i] if line.strip()]
        is_start = lines[i].startswith("    ") and not lines[i - 1].strip()
        if is_start and not before[-1].startswith(" ") and not before[-1].endswith("::"):
            lines[i:i] = [".. code-block:: text", ""]


def listed_fields(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make the fields of a small class, lines ``name : description``, a section of attributes."""
    if kind != "class" or any(line.startswith("---") for line in lines):
        return
    start = next((i for i, line in enumerate(lines[1:], start=1) if _FIELD.match(line)), None)
    if start is None:
        return
    end = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    section = ["Attributes", "----------"]
    for line in lines[start:end]:
        field = _FIELD.match(line)
        section += [field[1], f"    {field[2]}"] if field else [f"    {line.strip()}"]
    lines[start:] = [*lines[end:], "", *section, ""]


def plain_text(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape ``|t|`` and ``mean_``, which have another meaning in reStructuredText."""
    literal_indent = None  # indentation of the line above a literal block
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and line.strip() and indent <= literal_indent:
            literal_indent = None
        if literal_indent is None and not line.lstrip().startswith((">>>", "...", "..")):
            spans = re.split(r"(``.*?``|`.*?`)", line)
            spans[::2] = [_escape(span) for span in spans[::2]]
            lines[number] = "".join(spans)
            if line.rstrip().endswith("::"):
                literal_indent = indent


def _escape(text: str) -> str:
    text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return re.sub(r"(?<=[a-zA-Z0-9])_(?!\w)", r"\\_", text)


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-skip-member", skip_foreign)
    # Numpydoc, at 500, parses the sections; bars and underscores are escaped in its output.
    app.connect("autodoc-process-docstring", literal_formulas, priority=90)
    app.connect("autodoc-process-docstring", listed_fields, priority=100)
    app.connect("autodoc-process-docstring", plain_text, priority=900)
    return {"version": "1", "parallel_read_safe": True}
