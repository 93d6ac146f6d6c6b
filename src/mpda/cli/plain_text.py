"""Markdown of the experiments as plain text for a terminal; the files keep the Markdown."""

import re
import textwrap

# Characters of a line of prose, as in ``messages``.
_LINE_WIDTH = 96


def format_plain(text: str) -> str:
    """Convert Markdown to plain text.

    Parameters
    ----------
    text : str
        Paragraphs, headings, lists and tables in Markdown. Other lines are kept.

    Returns
    -------
    str
        Tables with aligned columns, headings that are underlined, long lines that are wrapped. A
        star behind an entry takes the place of bold type.
    """
    lines: list[str] = []
    table: list[str] = []
    for line in [*_replace_bold(text).splitlines(), ""]:
        if line.startswith("| "):
            table.append(line)
            continue
        lines += _align_columns(table)
        table = []
        if line.startswith("## "):
            title = line.removeprefix("## ")
            lines += [title, "-" * len(title)]
        elif len(line) > _LINE_WIDTH:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(line, _LINE_WIDTH, subsequent_indent=indent)
        else:
            lines.append(line)
    return "\n".join(lines).rstrip("\n")


def _replace_bold(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"\1 *", text).replace("Bold:", "*:")


def _align_columns(table: list[str]) -> list[str]:
    """Return the lines of a Markdown table with aligned columns."""
    cells = [[cell.strip() for cell in line[2:-2].split(" | ")] for line in table]
    # The second line has only hyphens.
    rows = [*cells[:1], *cells[2:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
