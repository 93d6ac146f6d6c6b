"""The large numbers at the top of the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from mpda.assessment import BASELINE

# Methods whose error stands next to that of the main method, with their captions.
_REFERENCES = {BASELINE: "error of 1-NN on all features", "LDA": "error of LDA"}


@dataclass(frozen=True)
class KeyNumber:
    """A number with its unit, caption and a small note.

    Parameters
    ----------
    value, unit : str
        The number as text, and its unit.
    caption : str
        What was measured.
    note : str, default=""
        Uncertainty or size of the sample.
    """

    value: str
    unit: str
    caption: str
    note: str = ""


def find_key_numbers(results: dict[str, Any]) -> list[KeyNumber]:
    """Return the numbers for the top of the page, the most important one first.

    Parameters
    ----------
    results : dict
        Checked results.

    Returns
    -------
    list of KeyNumber
        Errors where they were measured, otherwise the sizes of data and model.
    """
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
        numbers = [_error_number(main, f"error of {name}")]
        references = (key for key in _REFERENCES if key in rows and key != name)
        numbers += [_error_number(rows[key], _REFERENCES[key]) for key in references]
        if (components := main.get("components")) is not None:
            count = f"{components:.1f}".removesuffix(".0")
            numbers.append(KeyNumber(count, "", f"components of {name}", of_features))
        return numbers
    numbers = []
    counts = results.get("confusion", {}).get("counts", [])
    if total := sum(map(sum, counts)):
        wrong = total - sum(row[i] for i, row in enumerate(counts))
        value, note = _format_percent(100.0 * wrong / total), f"{wrong} of {total} samples wrong"
        numbers.append(KeyNumber(value, "%", f"error of {method or '1-NN'}", note))
    if (n := results.get("model", {}).get("n_components")) is not None:
        numbers.append(KeyNumber(f"{n:g}", "", "components", of_features))
    if (n := results.get("data", {}).get("n_samples")) is not None:
        numbers.append(KeyNumber(f"{n:,}", "", "samples"))
    return numbers


def _error_number(row: dict[str, Any], caption: str) -> KeyNumber:
    note = ""
    if row.get("std") is not None:
        splits = f" over {row['n_splits']:g} splits" if row.get("n_splits") else ""
        note = f"± {row['std']:.2f}{splits}"
    return KeyNumber(_format_percent(row["error"]), "%", caption, note)


def _count_wins(problems: list[dict[str, Any]], method: str | None) -> list[KeyNumber]:
    """Count on how many problems a method is best or not significantly worse."""
    wins: Counter[str] = Counter()
    for row in (row for problem in problems for row in problem["rows"]):
        wins[row["method"]] += bool(row.get("best"))
    main = next((name for name in (method, "MPDA") if name in wins), None)
    names = [main or max(wins, key=wins.__getitem__), *_REFERENCES] if wins else []
    return [
        KeyNumber(str(wins[name]), f"of {len(problems)}", f"problems where {name} is best or tied")
        for name in dict.fromkeys(names)
        if name in wins
    ]


def _format_percent(value: float) -> str:
    return f"{value:.2f}" if 0.0 < value < 1.0 else f"{value:.1f}"
