"""Tables in Markdown, and the same numbers as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from mpda.assessment import (
    ErrorEstimates,
    compute_fit_costs,
    differ_significantly,
    estimate_errors,
    find_best_methods,
)
from mpda.experiments._contenders import CONTENDERS
from mpda.experiments._protocol import PROBLEMS
from mpda.experiments._summary import READINGS, published, published_cell


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def error_table(found: ErrorEstimates, problems: Sequence[str], methods: Sequence[str]) -> str:
    """Mean error ± standard deviation (mean dimension); the best and its ties in bold, and among
    the paper's methods with a dagger."""
    in_paper = [name for name in methods if name in CONTENDERS and CONTENDERS[name].published]
    bold, dagger, most = {}, {}, {}
    for problem in problems:
        all_here = {name: found[problem, name] for name in methods if (problem, name) in found}
        most[problem] = max((cell.errors.size for cell in all_here.values()), default=0)
        bold[problem] = find_best_methods(all_here)
        dagger[problem] = find_best_methods({k: v for k, v in all_here.items() if k in in_paper})
    lines = []
    for name in methods:
        line = [name]
        for problem in problems:
            cell = found.get((problem, name))
            if cell is None:
                line.append("")
                continue
            spread = f" ± {cell.std:.2f}" if cell.errors.size > 1 else ""
            text = f"{cell.mean:.2f}{spread} ({cell.dimensions.mean():.1f})"
            if cell.errors.size < most[problem]:
                text += f" [{cell.errors.size} splits]"
            text = f"**{text}**" if name in bold[problem] else text
            line.append(text + (" †" if name in dagger[problem] else ""))
        lines.append(line)
    return markdown(["method", *(PROBLEMS[problem].title for problem in problems)], lines)


def comparison(found: ErrorEstimates, problems: Sequence[str], methods: Sequence[str]) -> str:
    """Ours, theirs, the difference, and whether our interval has their number."""
    lines = []
    for problem in problems:
        for name in methods:
            cell, theirs = found.get((problem, name)), published_cell(problem, name)
            if cell is None or theirs is None:
                continue
            low, high = cell.interval
            gap = cell.mean - theirs["error"]
            if cell.errors.size < 2:
                reading = ""
            elif low <= theirs["error"] <= high:
                reading = "agrees"
            else:
                reading = "ours is lower" if gap < 0 else "ours is higher"
            lines.append(
                [
                    PROBLEMS[problem].title,
                    name,
                    f"{cell.mean:.2f}",
                    f"{low:.2f} to {high:.2f}" if cell.errors.size > 1 else "",
                    f"{theirs['error']:.2f}",
                    f"{gap:+.2f}",
                    f"{cell.dimensions.mean():.1f}",
                    f"{theirs['dimension']:g}",
                    reading,
                ]
            )
    header = ["data", "method", "ours", "95 % interval", "paper", "difference"]
    return markdown([*header, "dimension", "paper's", "reading"], lines)


# Whose difference a reader asks for: what the ridge is worth, and what the search adds.
_PAIRS = (
    ("MPDA", "LFDA"),
    ("MPDA", "LFDA ridge"),
    ("MPDA tuned", "MPDA"),
    ("MPDA tuned", "LFDA ridge"),
    ("PMPDA", "MPDA"),
    ("PMPDA tuned", "PMPDA"),
    ("PMPDA tuned", "MPDA tuned"),
    ("PMPDA tuned", "LFDA ridge"),
)


def difference_table(found: ErrorEstimates, problems: Sequence[str], methods: Sequence[str]) -> str:
    """Mean error of one method less that of another; bold where a paired t-test tells them apart.

    Empty where no pair is among the methods.
    """
    lines = []
    for one, other in (pair for pair in _PAIRS if set(pair) <= set(methods)):
        line = [f"{one} beside {other}"]
        for problem in problems:
            both = found.get((problem, one)), found.get((problem, other))
            if both[0] is None or both[1] is None:
                line.append("")
                continue
            text = f"{both[0].mean - both[1].mean:+.2f}"
            line.append(f"**{text}**" if differ_significantly(both[0], both[1]) else text)
        lines.append(line)
    header = ["difference", *(PROBLEMS[problem].title for problem in problems)]
    return markdown(header, lines) if lines else ""


def cost_table(
    rows: Sequence[Mapping[str, Any]], problems: Sequence[str], methods: Sequence[str]
) -> str:
    """Median seconds of a fit with the chosen parameters, and its peak memory."""
    found = compute_fit_costs(rows)
    lines = []
    for name in methods:
        cost = [found.get((problem, name)) for problem in problems]
        if any(cost):
            lines.append([name, *(f"{c[0]:.3f} s, {c[1]:.0f} MiB" if c else "" for c in cost)])
    return markdown(["method", *(PROBLEMS[problem].title for problem in problems)], lines)


def table1(shapes: dict[str, tuple[int, int, int]]) -> str:
    """The statistics of the data sets beside the paper's."""
    theirs = published()["table1"]["rows"]
    lines = []
    for problem, (n, d, n_classes) in shapes.items():
        said = theirs.get(PROBLEMS[problem].dataset)
        drawn = PROBLEMS[problem].per_label
        share = f"{drawn} a label" if drawn else f"{100 * PROBLEMS[problem].train_share:.0f} %"
        paper = f"{said['n']}, {said['d']}, {said['C']}, {said['train_percent']} %" if said else ""
        lines.append([PROBLEMS[problem].title, str(n), str(d), str(n_classes), share, paper])
    return markdown(["data set", "n", "d", "C", "training", "paper"], lines)


def summary_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line for each problem, method and reading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *("problem", "method", "reading", "splits", "error", "sd", "low", "high"),
            *("dimension", "published_error", "published_dimension", "fit_seconds", "fit_mib"),
        ]
    )
    cost = compute_fit_costs(rows)
    for reading in READINGS:
        for (problem, method), cell in estimate_errors(rows, reading).items():
            theirs = published_cell(problem, method) or {}
            numbers = [cell.mean, cell.std, *cell.interval, cell.dimensions.mean()]
            writer.writerow(
                [
                    *(problem, method, reading, cell.errors.size),
                    *(f"{number:.4f}" for number in numbers),
                    *(theirs.get("error", ""), theirs.get("dimension", "")),
                    *cost.get((problem, method), ("", "")),
                ]
            )
    return out.getvalue()
