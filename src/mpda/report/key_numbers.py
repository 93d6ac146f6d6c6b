"""The top of the page: verdict, errors in large numbers, next commands, sentences, data check.

The numbers are from the comparison of methods, or from the confusion matrix if there is none. The
sentences are those of `mpda.report.verdict.summarize_errors`: the first one is the verdict, and the
one that begins with "Next:" stands above the commands.
"""

from html import escape
from typing import Any

import numpy as np

from mpda.assessment import BASELINE, CLASSIFIER
from mpda.assessment.significance import error_interval
from mpda.assessment.text_table import join_units
from mpda.report.html_tables import command_block, mark_options

# Methods whose error stands next to that of the main method, with their captions.
_REFERENCES = {
    BASELINE: "error of 1-NN on all features",
    "LDA": "error of LDA",
    CLASSIFIER: f"error of {CLASSIFIER}, without a map",
}


def make_summary(results: dict[str, Any], figure: str = "") -> str:
    """Return the verdict, the key numbers, the next commands and the other sentences.

    Parameters
    ----------
    results : dict
        Checked results.
    figure : str, default=""
        HTML of a figure that stands below the numbers, on the first screen.

    Returns
    -------
    str
        HTML.
    """
    verdict, *sentences = map(join_units, results.get("summary") or [""])
    html = f'<p class="verdict">{mark_options(verdict)}</p>' if verdict else ""
    errors = [_make_error_card(*item) for item in _collect_errors(results).items()]
    # The number of components stands next to the error that they give.
    cards = [*errors[:1], *_make_size_card(results), *errors[1:]]
    html += f'<dl class="keys">{"".join(cards)}</dl>' if cards else ""
    html += figure
    advice = [line for line in sentences if line.startswith("Next: ")]
    commands = results.get("next") or []
    if advice or commands:
        text = mark_options(advice[0] if advice else "Next:")
        blocks = (command_block(entry["command"], entry["purpose"]) for entry in commands)
        purposes = (f"<p>{escape(entry['purpose'])}</p>" for entry in commands)
        pairs = zip(purposes, blocks, strict=True)
        html += f'<div class="next"><p>{text}</p>{"".join(a + b for a, b in pairs)}</div>'
    lines = "".join(f"<p>{mark_options(line)}</p>" for line in sentences if line not in advice[:1])
    html += f'<div class="sentences">{lines}</div>' if lines else ""
    notes = results.get("data", {}).get("notes") or []
    items = "".join(f"<li>{mark_options(join_units(note))}</li>" for note in notes)
    heading = "<h2>Notes on the data and the measurement</h2>"
    return html + (f'{heading}<ul class="reasons">{items}</ul>' if items else "")


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
    low, high = error_interval(np.arange(total) >= right)
    error = 100.0 * (total - right) / total
    return {f"error of {method}": {"error": error, "low": low, "high": high}}


def _make_error_card(caption: str, row: dict[str, Any]) -> str:
    error, note = row["error"], ""
    if row.get("low") is not None:
        note = join_units(f"95 % interval {row['low']:.1f} to {row['high']:.1f} %")
    elif row.get("std") is not None:
        splits = f" over {row['n_splits']:g} splits" if row.get("n_splits") else ""
        note = f"± {row['std']:.2f}{splits}"
    # One decimal would turn an error of 0.04 % into none.
    digits = 2 if 0.0 < error < 1.0 else 1
    return _make_card(caption, f"{error:.{digits}f}", "%", note)


def _make_size_card(results: dict[str, Any]) -> list[str]:
    """Return the card with the number of components, where there is a model."""
    n_components = results.get("model", {}).get("n_components")
    if n_components is None:
        return []
    n_features = results.get("data", {}).get("n_features")
    note = "" if n_features is None else f"instead of {n_features:,} features"
    return [_make_card("components of a sample", f"{n_components:,}", "", note)]


def _make_card(caption: str, number: str, unit: str, note: str) -> str:
    suffix = f'<span class="unit">{unit}</span>' if unit else ""
    return (
        f'<div class="key"><dt>{escape(caption)}</dt>'
        f"<dd><b>{number}</b>{suffix}<small>{note}</small></dd></div>"
    )
