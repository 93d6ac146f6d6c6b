"""A comparison as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from mpda.assessment._cells import FoldResult, compute_fit_costs, estimate_errors, find_best_methods
from mpda.assessment._nested import BASELINE


def format_error_table(rows: Sequence[FoldResult], title: str) -> list[str]:
    """One line a method: its error, how it compares with raw 1-NN, at how many components.

    A star marks the least error and what a paired t-test at 0.05 does not tell from it.
    """
    found = {name: cell for (_, name), cell in estimate_errors(rows, "cv").items()}
    cost = {name: seconds for (_, name), (seconds, _) in compute_fit_costs(rows).items()}
    best = find_best_methods(found) if len(found) > 1 else set()
    baseline = found[BASELINE].mean if BASELINE in found else None
    width = max(10, *(len(name) + 2 for name in found))
    lines = [f"{'':{width}}{title:>18}{'beside 1-NN':>13}{'components':>12}{'fit':>10}"]
    for name, cell in found.items():
        spread = f" ± {cell.spread:.2f}" if cell.errors.size > 1 else ""
        star = "*" if name in best else " "
        gain = ""
        if baseline is not None and name != BASELINE:
            gain = f"{cell.mean - baseline:+.2f}"
        lines.append(
            f"{name:{width}}{f'{cell.mean:.2f}{spread} %{star}':>18}{gain:>13}"
            f"{cell.dimensions.mean():12.1f}{_duration(cost.get(name)):>10}".rstrip()
        )
    return lines


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
