"""Errors and times as text, for the output of ``mpda fit``, ``compare`` and ``demo``.

The report has the same numbers as an HTML table (`mpda.report.html_tables`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mpda.assessment.contender import BASELINE
from mpda.assessment.error_statistics import compute_fit_costs, estimate_errors, find_best_methods


def format_error_table(
    rows: Sequence[Mapping[str, Any]], title: str, methods: Sequence[str] = ()
) -> list[str]:
    """Format the errors of methods on one problem.

    Parameters
    ----------
    rows : sequence of FoldResult
        Results of one problem.
    title : str
        Heading of the column of errors.
    methods : sequence of str, default=()
        Methods about which sentences follow, as in `compare_methods`.

    Returns
    -------
    list of str
        A heading and one line for each method: error, difference from 1-NN on all features in
        percentage points, number of components and time of a fit. A star marks methods that are
        best or not significantly worse (`find_best_methods`).
    """
    estimates = {name: estimate for (_, name), estimate in estimate_errors(rows, "cv").items()}
    costs = {name: seconds for (_, name), (seconds, _) in compute_fit_costs(rows).items()}
    best = find_best_methods(estimates, methods) if len(estimates) > 1 else set()
    width = max(10, *(len(name) + 2 for name in estimates))
    lines = [f"{'':{width}}{title:>18}{'vs 1-NN':>13}{'components':>12}{'fit':>10}"]
    for name, estimate in estimates.items():
        star = "*" if name in best else " "
        difference = ""
        if BASELINE in estimates and name != BASELINE:
            difference = f"{estimate.mean - estimates[BASELINE].mean:+.2f}"
        line = (
            f"{name:{width}}{f'{estimate}{star}':>18}{difference:>13}"
            f"{estimate.component_counts.mean():12.1f}{format_duration(costs.get(name)):>10}"
        )
        lines.append(line.rstrip())
    return lines


def join_units(text: str) -> str:
    """Join numbers with what belongs to them, so that no line break separates them.

    Parameters
    ----------
    text : str
        Prose, such as "an error of 1.2 % (p = 0.03)".

    Returns
    -------
    str
        The text with no-break spaces.
    """
    for sign in (" %", " ± ", "p = "):
        text = text.replace(sign, sign.replace(" ", "\N{NO-BREAK SPACE}"))
    return text


def format_duration(seconds: float | None) -> str:
    """Format the time of a fit.

    Parameters
    ----------
    seconds : float or None
        None where it was not measured.

    Returns
    -------
    str
        In milliseconds below one second. Empty for None.
    """
    if seconds is None:
        return ""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
