"""Tables of the page: methods side by side, patches by class, parameters and versions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

_DASH = '<span class="none" title="not there">&ndash;</span>'


def methods_table(problem: dict[str, Any]) -> str:
    """One row for each method, the best and its ties in bold, with a bar that shows the error."""
    rows = problem["rows"]
    ends = [row.get("high") if row.get("high") is not None else row["error"] for row in rows]
    longest = max([end for end in ends if end is not None], default=1.0) or 1.0
    timed = any(row.get("seconds") is not None for row in rows)
    head = [
        "method",
        "error",
        "",
        "beside 1-NN",
        "components",
        *(["time of a fit"] if timed else []),
    ]
    body = []
    for row in rows:
        cells = [
            f'<th scope="row">{escape(row["method"])}{_best_mark(row, rows)}</th>',
            f'<td class="number">{_error(row)}</td>',
            f'<td class="bar" aria-hidden="true">{_bar(row, longest)}</td>',
            f'<td class="number">{_signed(row.get("beside"))}</td>',
            f'<td class="number">{_number(row.get("components"), 1).removesuffix(".0")}</td>',
        ]
        if timed:
            cells.append(f'<td class="number">{_seconds(row.get("seconds"))}</td>')
        mark = ' class="best"' if row.get("best") else ""
        body.append(f"<tr{mark}>{''.join(cells)}</tr>")
    name = f"Error of each method on {escape(problem['name'])}"
    return _table(name, head, body, numbers_from=1, kind="methods")


def problems_table(problems: Sequence[dict[str, Any]]) -> str:
    """Problems down, methods across, errors in the cells; the best and its ties in bold."""
    methods = list(dict.fromkeys(row["method"] for each in problems for row in each["rows"]))
    body = []
    for problem in problems:
        by_method = {row["method"]: row for row in problem["rows"]}
        cells = [f'<th scope="row">{escape(problem["name"])}</th>']
        for method in methods:
            row = by_method.get(method)
            best = row is not None and row.get("best")
            text = _DASH
            if row is not None:
                text = _error(row, unit="") + _best_mark(row, problem["rows"])
            cells.append(f'<td class="number{" best" if best else ""}">{text}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = ["problem", *(escape(method) for method in methods)]
    return _table("Error in per cent of each method on each problem", head, body, numbers_from=1)


def curves_table(curves: Sequence[dict[str, Any]]) -> str:
    """The numbers of the curves, for those who read rather than look."""
    dimensions = sorted({d for curve in curves for d in curve["dimensions"]})
    by_method = [dict(zip(c["dimensions"], c["error"], strict=True)) for c in curves]
    body = [
        f'<tr><th scope="row">{dimension:g}</th>'
        + "".join(
            f'<td class="number">{_number(each.get(dimension), 2)}</td>' for each in by_method
        )
        + "</tr>"
        for dimension in dimensions
    ]
    head = ["components", *(escape(curve["method"]) for curve in curves)]
    return _table("Error in per cent by number of components", head, body, numbers_from=1)


def patches_table(classes: Sequence[dict[str, Any]]) -> str:
    """How each class was cut."""
    body = []
    for each in classes:
        known = [value for value in each["linearity"] if value is not None]
        sizes = each["sizes"]
        mean = sum(known) / len(known) if known else None
        cells = [
            _number(each["patches"], 0),
            _number(sum(sizes) / len(sizes) if sizes else None, 1),
            _number(mean, 3),
            _number(max(known, default=None), 3),
        ]
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        body.append(f'<tr><th scope="row">{escape(each["label"])}</th>{numbers}</tr>')
    head = ["class", "patches", "mean size", "mean linearity", "largest"]
    return _table("Patches of each class", head, body, numbers_from=1)


def pairs_table(caption: str, pairs: dict[str, Any]) -> str:
    """Names and values."""
    body = [
        f'<tr><th scope="row">{escape(str(name))}</th>'
        f"<td><code>{escape(_value(value))}</code></td></tr>"
        for name, value in pairs.items()
    ]
    return f'<table class="pairs"><caption>{escape(caption)}</caption>{"".join(body)}</table>'


def per_cent(value: float) -> str:
    """An error that is read from afar: as many digits as say something."""
    return f"{value:.2f}" if value < 1.0 and value else f"{value:.1f}"


def _table(
    caption: str, head: Sequence[str], body: Sequence[str], *, numbers_from: int, kind: str = ""
) -> str:
    heads = "".join(
        f'<th scope="col"{" class=number" if i >= numbers_from and name else ""}>{name}</th>'
        for i, name in enumerate(head)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="{kind}"><caption class="hidden">{caption}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _best_mark(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """Best for the least error; tied for what is not told from it."""
    if not row.get("best"):
        return ""
    least = min(each["error"] for each in rows if each["error"] is not None)
    return f' <span class="tag">{"best" if row["error"] == least else "tied"}</span>'


def _error(row: dict[str, Any], unit: str = " %") -> str:
    if row["error"] is None:
        return _DASH
    spread = row.get("spread")
    after = "" if spread is None else f' <span class="spread">± {spread:.2f}</span>'
    return f"{row['error']:.2f}{after}{unit}"


def _bar(row: dict[str, Any], longest: float) -> str:
    if row["error"] is None:
        return ""
    place = 100.0 * row["error"] / longest
    low, high = row.get("low"), row.get("high")
    band = ""
    if low is not None and high is not None:
        start, end = 100.0 * max(low, 0.0) / longest, 100.0 * high / longest
        band = f'<i class="band" style="left:{start:.1f}%;width:{end - start:.1f}%"></i>'
    return f'<span class="track">{band}<i class="dot" style="left:{place:.1f}%"></i></span>'


def _signed(value: float | None) -> str:
    return _DASH if value is None else f"{value:+.2f}".replace("-", "&minus;")


def _number(value: float | None, digits: int) -> str:
    if value is None or not math.isfinite(value):
        return _DASH
    return f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return _DASH
    if value < 1.0:
        return f"{1000.0 * value:.0f} ms"
    return f"{value:.1f} s" if value < 100.0 else f"{value:.0f} s"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
