"""The docstrings of the package for Sphinx: plain text that becomes reStructuredText here."""

from __future__ import annotations

import re
from typing import Any

_FIELD = re.compile(r"(\w+(?:, \w+)*) : (.+)")


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what classes inherit from other packages, which have pages of their own."""
    inner = getattr(obj, "fget", obj)
    home = getattr(inner, "__module__", None) or getattr(inner, "__objclass__", object).__module__
    return None if home.startswith("mpda") else True


def literal_formulas(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """What stands indented in the text above the first section is a formula, kept as it is."""
    last = next((i for i, line in enumerate(lines) if line.startswith("---")), len(lines))
    for i in range(last - 1, 1, -1):
        before = [line for line in lines[:i] if line.strip()]
        begins = lines[i].startswith("    ") and not lines[i - 1].strip()
        if begins and not before[-1].startswith(" ") and not before[-1].endswith("::"):
            lines[i:i] = [".. code-block:: text", ""]


def listed_fields(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """The fields of a small class, written as ``name : what it is``, as a section of attributes."""
    if what != "class" or any(line.startswith("---") for line in lines):
        return
    begin = next((i for i, line in enumerate(lines[1:], start=1) if _FIELD.match(line)), None)
    if begin is None:
        return
    end = next((i for i in range(begin, len(lines)) if not lines[i].strip()), len(lines))
    listed = ["Attributes", "----------"]
    for line in lines[begin:end]:
        found = _FIELD.match(line)
        listed += [found[1], f"    {found[2]}"] if found else [f"    {line.strip()}"]
    lines[begin:] = [*lines[end:], "", *listed, ""]


def plain_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """|t| in a docstring is the length of t, and mean_ a name; reStructuredText has other uses."""
    inside = None  # the indentation of the line above a literal block
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if inside is not None and line.strip() and indent <= inside:
            inside = None
        if inside is None and not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(``.*?``|`.*?`)", line)
            parts[::2] = [_escaped(part) for part in parts[::2]]
            lines[number] = "".join(parts)
            if line.rstrip().endswith("::"):
                inside = indent


def _escaped(text: str) -> str:
    text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return re.sub(r"(?<=[a-zA-Z0-9])_(?!\w)", r"\\_", text)


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-skip-member", skip_foreign)
    # Numpydoc, at 500, takes the sections apart; bars and underscores are escaped in what it makes.
    app.connect("autodoc-process-docstring", literal_formulas, priority=90)
    app.connect("autodoc-process-docstring", listed_fields, priority=100)
    app.connect("autodoc-process-docstring", plain_text, priority=900)
    return {"version": "1", "parallel_read_safe": True}
