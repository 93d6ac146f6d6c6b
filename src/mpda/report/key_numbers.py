"""The top of the page: large numbers and sentences."""

from collections import Counter
from html import escape
from typing import Any

from mpda.assessment import BASELINE

# Methods whose error stands next to that of the main method, with their captions.
_REFERENCES = {BASELINE: "error of 1-NN on all features", "LDA": "error of LDA"}


def make_summary(results: dict[str, Any]) -> str:
    """Return the key numbers and the sentences at the top of the page.

    Parameters
    ----------
    results : dict
        Checked results.

    Returns
    -------
    str
        HTML.
    """
    cards = "".join(_make_cards(results))
    keys = f'<dl class="keys">{cards}</dl>' if cards else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in results.get("summary", []))
    return keys + (f'<div class="sentences">{lines}</div>' if lines else "")


def _make_cards(results: dict[str, Any]) -> list[str]:
    """Return errors where they were measured, otherwise the sizes of data and model."""
    problems = results.get("comparison", {}).get("problems", [])
    method = results.get("model", {}).get("method")
    n_features = results.get("data", {}).get("n_features")
    of_features = f"of {n_features} features" if n_features else ""
    if len(problems) > 1:
        return _count_wins(problems, method)
    rows = {row["method"]: row for p in problems for row in p["rows"] if row["error"] is not None}
    if rows:
        main = rows.get(method) or min(rows.values(), key=lambda row: row["error"])
        name = main["method"]
        cards = [_error_card(main, f"error of {name}")]
        references = (key for key in _REFERENCES if key in rows and key != name)
        cards += [_error_card(rows[key], _REFERENCES[key]) for key in references]
        if (components := main.get("components")) is not None:
            count = f"{components:.1f}".removesuffix(".0")
            cards.append(_card(count, "", f"components of {name}", of_features))
        return cards
    cards = []
    counts = results.get("confusion", {}).get("counts", [])
    if total := sum(map(sum, counts)):
        wrong = total - sum(row[i] for i, row in enumerate(counts))
        value, note = _format_percent(100.0 * wrong / total), f"{wrong} of {total} samples wrong"
        cards.append(_card(value, "%", f"error of {method or '1-NN'}", note))
    if (n := results.get("model", {}).get("n_components")) is not None:
        cards.append(_card(f"{n:g}", "", "components", of_features))
    if (n := results.get("data", {}).get("n_samples")) is not None:
        cards.append(_card(f"{n:,}", "", "samples"))
    return cards


def _error_card(row: dict[str, Any], caption: str) -> str:
    note = ""
    if row.get("std") is not None:
        splits = f" over {row['n_splits']:g} splits" if row.get("n_splits") else ""
        note = f"± {row['std']:.2f}{splits}"
    return _card(_format_percent(row["error"]), "%", caption, note)


def _count_wins(problems: list[dict[str, Any]], method: str | None) -> list[str]:
    """Count on how many problems a method is best or not significantly worse."""
    wins: Counter[str] = Counter()
    for row in (row for problem in problems for row in problem["rows"]):
        wins[row["method"]] += bool(row.get("best"))
    main = next((name for name in (method, "MPDA") if name in wins), None)
    names = [main or max(wins, key=wins.__getitem__), *_REFERENCES] if wins else []
    return [
        _card(str(wins[name]), f"of {len(problems)}", f"problems where {name} is best or tied")
        for name in dict.fromkeys(names)
        if name in wins
    ]


def _format_percent(value: float) -> str:
    return f"{value:.2f}" if 0.0 < value < 1.0 else f"{value:.1f}"


def _card(value: str, unit: str, caption: str, note: str = "") -> str:
    return (
        f'<div class="key"><dt>{escape(caption)}</dt>'
        f'<dd><b>{escape(value)}</b><span class="unit">{escape(unit)}</span>'
        f"<small>{escape(note)}</small></dd></div>"
    )
