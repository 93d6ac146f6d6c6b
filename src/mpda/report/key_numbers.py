"""The top of the page: errors in large numbers, and sentences.

The numbers are from the comparison of methods, or from the confusion matrix if there is none. The
sentences are those of `mpda.report.verdict.summarize_errors`.
"""

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
    cards = "".join(_make_card(*item) for item in _collect_errors(results).items())
    keys = f'<dl class="keys">{cards}</dl>' if cards else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in results.get("summary", []))
    return keys + (f'<div class="sentences">{lines}</div>' if lines else "")


def _collect_errors(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return rows of the comparison by caption, that of the main method first.

    The confusion matrix gives the error where methods were not compared.
    """
    problems = results.get("comparison", {}).get("problems", [])
    method = results.get("model", {}).get("method") or BASELINE
    if len(problems) == 1:
        rows = {row["method"]: row for row in problems[0]["rows"] if row["error"] is not None}
        # A comparison without a model shows the method of the lowest error.
        if method not in rows and rows:
            method = min(rows, key=lambda name: rows[name]["error"])
        names = [name for name in dict.fromkeys([method, *_REFERENCES]) if name in rows]
        return {_REFERENCES.get(name, f"error of {name}"): rows[name] for name in names}
    counts = results.get("confusion", {}).get("counts", [])
    total, right = sum(map(sum, counts)), sum(row[i] for i, row in enumerate(counts))
    if problems or not total:  # several problems have no common error
        return {}
    return {f"error of {method}": {"error": 100.0 * (total - right) / total}}


def _make_card(caption: str, row: dict[str, Any]) -> str:
    error, note = row["error"], ""
    if row.get("low") is not None:
        note = f"95 % interval {row['low']:.1f} to {row['high']:.1f} %"
    elif row.get("std") is not None:
        splits = f" over {row['n_splits']:g} splits" if row.get("n_splits") else ""
        note = f"± {row['std']:.2f}{splits}"
    # One decimal would turn an error of 0.04 % into none.
    digits = 2 if 0.0 < error < 1.0 else 1
    return (
        f'<div class="key"><dt>{escape(caption)}</dt>'
        f'<dd><b>{error:.{digits}f}</b><span class="unit">%</span><small>{note}</small></dd></div>'
    )
