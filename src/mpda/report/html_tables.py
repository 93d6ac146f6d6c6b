"""HTML tables of the page: methods, problems, curves, patches, features, parameters, commands.

All text from the data is escaped here. Values that were not measured are shown as a dash.
"""

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from mpda.assessment.text_table import format_duration
from mpda.report.retrieval import TITLES, compare_with_raw

_MISSING = '<span class="none" title="not measured">&ndash;</span>'
# Columns of a table that fit on a phone and on paper. Rows of wider ones become cards there.
_MAX_PHONE_COLUMNS, _MAX_PAPER_COLUMNS = 6, 11
Entry = dict[str, Any]


def methods_table(problem: Entry, *, tested: bool) -> str:
    """Return the table of the methods on one problem, one row for each method.

    Parameters
    ----------
    problem : dict
        Entry of "problems" of the section "comparison".
    tested : bool
        True if a test decided which methods are best or not significantly worse.

    Returns
    -------
    str
        HTML. Rows of methods that are best or not significantly worse have the class "best".
    """
    rows = problem["rows"]
    ends = [row.get("high") or row["error"] or 0.0 for row in rows]
    longest = max(ends, default=1.0) or 1.0  # all errors may be zero
    header = ["method", "error", "", "vs 1-NN", "components", "time of a fit"]
    body = []
    for row in rows:
        cells = [
            _cell(_format_error(row)),
            f'<td class="bar" aria-hidden="true">{_draw_interval(row, longest)}</td>',
            _cell(_format(row.get("difference"), "+.2f")),
            _cell(_format(row.get("components"), ".1f").removesuffix(".0")),
            _cell(format_duration(row.get("seconds")) or _MISSING),
        ]
        head = escape(row["method"]) + _best_tag(row, rows, tested=tested)
        if note := row.get("note"):
            head += f' <span class="spread">{escape(note)}</span>'
        body.append(_row(head, cells, "best" if row.get("best") else ""))
    return _table(f"Error of each method on {problem['name']}", header, body, "methods")


def problems_table(problems: Sequence[Entry], *, tested: bool) -> str:
    """Return the table of errors with one row for each problem and one column for each method.

    Parameters
    ----------
    problems : sequence of dict
        Entries of the section "comparison".
    tested : bool
        True if a test decided which methods are best or not significantly worse.

    Returns
    -------
    str
        HTML.
    """
    methods = list(dict.fromkeys(row["method"] for p in problems for row in p["rows"]))
    body = []
    for problem in problems:
        by_method = {row["method"]: row for row in problem["rows"]}
        cells = []
        for row in (by_method.get(method, {"error": None}) for method in methods):
            text = _format_error(row, unit="") + _best_tag(row, problem["rows"], tested=tested)
            cells.append(_cell(text, " best" if row.get("best") else ""))
        body.append(_row(escape(problem["name"]), cells, labels=methods))
    return _table("Error of each method on each problem in %", ["problem", *methods], body)


def retrieval_table(searches: Sequence[tuple[str, dict[str, Entry]]]) -> str:
    """Return measures of retrieval, one row for each and one column for each kind of vectors.

    Parameters
    ----------
    searches : sequence of (str, dict)
        Caption and rows of each kind of search; these stand side by side.

    Returns
    -------
    str
        HTML. Each cell has the 95 % interval, and says if a map is higher or lower than the raw
        vectors.
    """
    columns = [(title, name, row) for title, rows in searches for name, row in rows.items()]
    groups = "".join(
        f'<th scope="colgroup" class="number" colspan="{len(rows)}">{escape(title)}</th>'
        for title, rows in searches
    )
    labels = [f"{name}, {title}" for title, name, _ in columns]
    body = [
        _row(title, [_cell(_format_measure(row, name)) for *_, row in columns], labels=labels)
        for name, title in TITLES.items()
    ]
    counts = {
        "numbers of a vector": [f"{row['numbers']:,.1f}".removesuffix(".0") for *_, row in columns],
        "bytes as float32": [f"{row['bytes']:,}" for *_, row in columns],
        "queries": [f"{row['n_queries']:,}" for *_, row in columns],
    }
    body += [_row(title, [*map(_cell, cells)], labels=labels) for title, cells in counts.items()]
    table = _table("Measures of retrieval", ["", *(name for _, name, _ in columns)], body)
    return table.replace("<thead>", f'<thead><tr><th scope="col"></th>{groups}</tr>', 1)


def _format_measure(row: Entry, name: str) -> str:
    mean = row[name]
    if mean["value"] is None:
        return _MISSING
    change = compare_with_raw(row, name)
    word = f'<span class="change">{change}</span> ' if change else ""
    interval = f"{mean['low']:.3f} to {mean['high']:.3f}"
    return f'{word}{mean["value"]:.3f}<br><span class="spread">{interval}</span>'


def curves_table(curves: Sequence[Entry]) -> str:
    """Return the values of error curves.

    Parameters
    ----------
    curves : sequence of dict
        Curves of a problem.

    Returns
    -------
    str
        HTML, one row for each number of components.
    """
    errors = [dict(zip(c["dimensions"], c["error"], strict=True)) for c in curves]
    methods = [curve["method"] for curve in curves]
    body = [
        _row(f"{r:g}", [_cell(_format(values.get(r), ".2f")) for values in errors], labels=methods)
        for r in sorted(set().union(*errors))
    ]
    return _table("Error in % by number of components", ["components", *methods], body)


def storage_table(rows: Sequence[Entry]) -> str:
    """Return the values of the curves of bytes against quality.

    Parameters
    ----------
    rows : sequence of dict
        "rows" of the section "storage".

    Returns
    -------
    str
        HTML, one row for each map, type and number of components.
    """
    body = []
    for row in rows:
        cut = "" if row.get("cut_from") is None else f", cut from {row['cut_from']}"
        cells = [row["type"], f"{row['numbers']:,}", f"{row['bytes']:,}"]
        cells += [_format(100.0 * row[name], ".1f") for name in ("recall_at_1", "map_at_r")]
        body.append(_row(escape(row["method"] + cut), [_cell(escape(text)) for text in cells]))
    header = ["vectors", "type", "numbers", "bytes", "nearest right in %", "MAP@R in %"]
    return _table("Quality by bytes of a vector", header, body)


def patches_table(classes: Sequence[Entry]) -> str:
    """Return the numbers, sizes and linearities of the patches of each class.

    Parameters
    ----------
    classes : sequence of dict
        Classes of the section "partition".

    Returns
    -------
    str
        HTML.
    """
    body = []
    for entry in classes:
        linearity = [value for value in entry["linearity"] if value is not None]
        mean = sum(linearity) / len(linearity) if linearity else None
        size = sum(entry["sizes"]) / len(entry["sizes"]) if entry["sizes"] else None
        cells = [_format(entry["patches"], "d"), _format(size, ".1f")]
        cells += [_format(mean, ".3f"), _format(max(linearity, default=None), ".3f")]
        body.append(_row(escape(entry["label"]), [_cell(text) for text in cells]))
    header = ["class", "patches", "mean size", "mean linearity", "largest"]
    return _table("Patches of each class", header, body)


def bars_table(caption: str, names: Sequence[str], values: Sequence[float | None]) -> str:
    """Return values from -1 to 1 as bars, with their names and numbers.

    Parameters
    ----------
    caption : str
        Visible caption.
    names : sequence of str
        Names, from the top.
    values : sequence of float or None
        Values.

    Returns
    -------
    str
        HTML.
    """
    body = []
    for name, value in zip(names, values, strict=True):
        length = 50.0 * min(abs(value or 0.0), 1.0)
        start = 50.0 - length if (value or 0.0) < 0.0 else 50.0
        side = "down" if (value or 0.0) < 0.0 else "up"
        body.append(
            f'<tr><th scope="row">{escape(name)}</th><td class="track" aria-hidden="true"><span>'
            f'<i class="{side}" style="left:{start:.1f}%;width:{length:.1f}%"></i></span></td>'
            f"{_cell(_format(value, '+.2f'))}</tr>"
        )
    return (
        f'<table class="bars"><caption>{escape(caption)}</caption><tbody>{"".join(body)}</tbody>'
        "</table>"
    )


def command_block(command: str, label: str) -> str:
    """Return a command in a box with a button that copies it.

    Parameters
    ----------
    command : str
        Line for a terminal.
    label : str
        Description for screen readers.

    Returns
    -------
    str
        HTML.
    """
    return (
        f'<div class="command"><pre tabindex="0" aria-label="{escape(label)}">'
        f"<code>{mark_options(command)}</code></pre>"
        '<button type="button" data-copy>Copy</button></div>'
    )


def mark_options(text: str) -> str:
    """Return a text with the options of commands marked, which no line break divides.

    Parameters
    ----------
    text : str
        Sentence or command.

    Returns
    -------
    str
        HTML.
    """
    return re.sub(r"(?<!\S)--[a-z][a-z-]*", r'<span class="option">\g<0></span>', escape(text))


def pairs_table(caption: str, pairs: dict[str, Any]) -> str:
    """Return a table of names and values.

    Parameters
    ----------
    caption : str
        Visible caption.
    pairs : dict
        Values by name.

    Returns
    -------
    str
        HTML.
    """
    body = [
        f'<tr><th scope="row">{escape(str(name))}</th>'
        f"<td><code>{escape(value if isinstance(value, str) else repr(value))}</code></td></tr>"
        for name, value in pairs.items()
    ]
    return f'<table class="pairs"><caption>{escape(caption)}</caption>{"".join(body)}</table>'


def _table(caption: str, header: Sequence[str], body: Sequence[str], css_class: str = "") -> str:
    """Return a table that scrolls by keyboard, with a caption for screen readers."""
    columns = "".join(
        f'<th scope="col"{" class=number" if i and name else ""}>{escape(name)}</th>'
        for i, name in enumerate(header)
    )
    if len(header) > _MAX_PHONE_COLUMNS:
        css_class += " cards"
    if len(header) > _MAX_PAPER_COLUMNS:
        css_class += " paper-cards"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{css_class.strip()}"><caption class="hidden">{escape(caption)}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _row(
    head: str, cells: Sequence[str], css_class: str = "", labels: Sequence[str] | None = None
) -> str:
    """Return a row; labels name its cells where rows are shown as cards."""
    attribute = f' class="{css_class}"' if css_class else ""
    if labels is not None:
        cells = [
            cell.replace("<td", f'<td data-label="{escape(label)}"', 1)
            for cell, label in zip(cells, labels, strict=True)
        ]
    return f'<tr{attribute}><th scope="row">{head}</th>{"".join(cells)}</tr>'


def _cell(content: str, css_class: str = "") -> str:
    return f'<td class="number{css_class}">{content}</td>'


def _best_tag(row: Entry, rows: Sequence[Entry], *, tested: bool) -> str:
    """Return a tag: "lowest" for the lowest error, "tied" if a test found it not higher."""
    if not row.get("best"):
        return ""
    lowest = min(other["error"] for other in rows if other.get("best"))
    if row["error"] == lowest:
        return ' <span class="tag">lowest</span>'
    return ' <span class="tag" title="not significantly higher">tied</span>' if tested else ""


def _format_error(row: Entry, unit: str = " %") -> str:
    if row["error"] is None:
        return _MISSING
    std = row.get("std")
    suffix = unit if std is None else f' <span class="spread">± {std:.2f}{unit}</span>'
    return f"{row['error']:.2f}{suffix}"


def _draw_interval(row: Entry, longest: float) -> str:
    """Return a dot at the mean error on its 95 % interval."""
    if row["error"] is None:
        return ""
    low, high, band = row.get("low"), row.get("high"), ""
    if low is not None and high is not None:
        start, end = 100.0 * max(low, 0.0) / longest, 100.0 * high / longest
        band = f'<i class="band" style="left:{start:.1f}%;width:{end - start:.1f}%"></i>'
    position = 100.0 * row["error"] / longest
    return f'<span class="track">{band}<i class="dot" style="left:{position:.1f}%"></i></span>'


def _format(value: float | None, spec: str) -> str:
    if value is None or not math.isfinite(value):
        return _MISSING
    return f"{value:{spec}}".replace("-", "&minus;")  # as wide as a plus sign
