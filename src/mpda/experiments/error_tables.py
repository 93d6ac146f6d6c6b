"""Tables of the experiments: Markdown for people, CSV for programs.

All of them are made from the rows of a run. ``mpda.assessment.estimate_errors`` turns rows into
estimates, one for each problem and method, with the errors of all splits. A row can be read in two
ways: at the number of components that is best on the test samples, as the paper does, or at the
number that cross-validation on the training samples selected.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import numpy as np

from mpda import assessment
from mpda._lib.array_types import Floats
from mpda.assessment import ErrorEstimate
from mpda.assessment.significance import RankComparison, compare_ranks
from mpda.experiments.paper_methods import CONTENDERS, SAME_SEARCH, SECOND_STAGE
from mpda.experiments.protocol import PROBLEMS
from mpda.experiments.published import find_published
from mpda.experiments.row_store import Row

Names = Sequence[str]
ErrorEstimates = Mapping[tuple[str, str], ErrorEstimate]  # by problem and method

READINGS = {
    "best": "at the number of components that is best on the test samples, as in the paper",
    "cv": "at the number of components that cross-validation on the training samples selected",
}
_CSV_COLUMNS = (
    "problem method reading splits error sd low high dimension published_error published_dimension "
    "fit_seconds fit_mib"
)
# Width in percentage points below which an interval says that two errors agree. Methods of the
# paper differ by a few points; intervals of two or three splits are often wider.
_AGREEMENT_WIDTH = 5.0
# Bootstrap samples: the ends of an interval are exact to less than a hundredth then.
_N_BOOTSTRAP = 2000
# Pairs for the table of differences. The paper compares MPDA, which has a ridge, with LFDA, which
# has none; "LFDA ridge" separates the two causes. Tuned methods are compared with those that have
# the same search, and with the search of the paper.
_COMPARED = {
    "MPDA": ("LFDA", "LFDA ridge"),
    "MPDA tuned": ("MPDA", *(name for name in SAME_SEARCH if "MPDA" not in name)),
    "PMPDA": ("MPDA",),
    "PMPDA tuned": ("PMPDA", "MPDA tuned", "LFDA tuned"),
}


def format_markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Format a table in Markdown.

    Parameters
    ----------
    header : sequence of str
        Titles of the columns.
    lines : iterable of sequences of str
        Entries of each line.

    Returns
    -------
    str
        The table without a newline at its end.
    """
    table = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in table)


def _titles(problems: Names) -> list[str]:
    return [PROBLEMS[problem].title for problem in problems]


def error_table(estimates: ErrorEstimates, problems: Names, methods: Names) -> str:
    """Make the table of errors, methods by problems.

    Parameters
    ----------
    estimates : mapping of (problem, method) to ErrorEstimate
        Errors of the splits.
    problems, methods : sequence of str
        Columns and lines of the table.

    Returns
    -------
    str
        Mean error ± standard deviation (mean number of components), in Markdown. Bold: best of the
        column, or not significantly worse. Dagger: likewise among the methods of the paper.
    """
    columns = []
    for problem in problems:
        column = {m: estimates[problem, m] for m in methods if (problem, m) in estimates}
        # Two tests: a better method beyond the paper must not hide which of the paper's is best.
        paper = {m: column[m] for m in column if m in CONTENDERS and CONTENDERS[m].published}
        best, best_of_paper = (
            assessment.find_best_methods(column),
            assessment.find_best_unpaired(paper),
        )
        n_splits = max((cell.errors.size for cell in column.values()), default=0)
        texts = {}
        for name, cell in column.items():
            text = _format_cell(cell, n_splits)
            text = f"**{text}**" if name in best else text
            texts[name] = text + (" †" if name in best_of_paper else "")
        columns.append(texts)
    lines = ([name, *(column.get(name, "") for column in columns)] for name in methods)
    return format_markdown(["method", *_titles(problems)], lines)


def _format_cell(cell: ErrorEstimate, n_splits: int) -> str:
    spread = f" ± {cell.std:.2f}" if cell.errors.size > 1 else ""
    # Failed tasks and interrupted runs leave means over fewer splits, which are less certain.
    missing = f" [{cell.errors.size} splits]" if cell.errors.size < n_splits else ""
    return f"{cell.mean:.2f}{spread} ({cell.component_counts.mean():.1f}){missing}"


def comparison_table(estimates: ErrorEstimates, problems: Names, methods: Names) -> str:
    """Make the table that compares our errors with the paper's.

    Parameters
    ----------
    estimates : mapping of (problem, method) to ErrorEstimate
        Errors of the splits, at the dimension that is best on the test samples.
    problems, methods : sequence of str
        Problems and methods, in the order of the lines.

    Returns
    -------
    str
        One line for each entry that the paper has too, in Markdown; empty if there is none.
        "agrees" means that the paper's error lies in our 95 % interval, and that this is narrower
        than 5 points; a wider one would agree with nearly everything and is "not precise enough".
    """
    lines = []
    for problem, name in product(problems, methods):
        cell, paper = estimates.get((problem, name)), find_published(problem, name)
        if cell is None or paper is None:
            continue
        low, high = cell.interval
        gap = cell.mean - paper.error
        line = [PROBLEMS[problem].title, name, f"{cell.mean:.2f}", f"{low:.2f} to {high:.2f}"]
        line += [f"{paper.error:.2f}", f"{gap:+.2f}", f"{cell.component_counts.mean():.1f}"]
        line += [f"{paper.dimension:g}", "ours is lower" if gap < 0 else "ours is higher"]
        if low <= paper.error <= high:
            line[-1] = "agrees" if high - low < _AGREEMENT_WIDTH else "not precise enough"
        if cell.errors.size < 2:  # one split has no interval
            line[3] = line[-1] = ""
        lines.append(line)
    header = ["data", "method", "ours", "95 % interval", "paper", "difference"]
    header += ["dimension", "paper's dimension", "verdict"]
    return format_markdown(header, lines) if lines else ""


def difference_table(estimates: ErrorEstimates, problems: Names, methods: Names) -> str:
    """Make the table of differences between the mean errors of related methods.

    Parameters
    ----------
    estimates : mapping of (problem, method) to ErrorEstimate
        Errors of the splits.
    problems, methods : sequence of str
        Columns of the table, and the methods of which pairs are formed.

    Returns
    -------
    str
        Differences in Markdown, bold where they are significant (corrected resampled t-test, 5 %,
        adjusted for the pairs of a column); empty if no pair is among the methods.
    """
    pairs = [(name, other) for name, others in _COMPARED.items() for other in others]
    pairs = [pair for pair in pairs if set(pair) <= set(methods)]
    lines = {pair: [f"{pair[0]} minus {pair[1]}"] for pair in pairs}
    for problem in problems:
        known = [p for p in pairs if all((problem, name) in estimates for name in p)]
        # All pairs of a column are tested together.
        column = [(estimates[problem, other], estimates[problem, name]) for name, other in known]
        comparisons = dict(zip(known, assessment.compare_errors(column), strict=True))
        for pair, line in lines.items():
            text = f"{comparisons[pair].difference:+.2f}" if pair in comparisons else ""
            bold = pair in comparisons and comparisons[pair].is_significant
            line.append(f"**{text}**" if bold else text)
    return format_markdown(["difference", *_titles(problems)], lines.values()) if lines else ""


def ratio_table(estimates: ErrorEstimates, problems: Names, methods: Names) -> str:
    """Make the table of the errors of second stages over the best error without one.

    Parameters
    ----------
    estimates : mapping of (problem, method) to ErrorEstimate
        Errors of the splits.
    problems, methods : sequence of str
        Columns of the table, and the methods that are compared.

    Returns
    -------
    str
        Ratios of mean errors in Markdown, with the geometric mean over data sets; empty if there
        is no second stage or nothing to compare it with. Problems of one data set count once in
        the mean: their ratios are averaged.
    """
    refined = [name for name in methods if name in SECOND_STAGE]
    pairs: dict[str, dict[str, tuple[ErrorEstimate, ErrorEstimate]]] = {n: {} for n in refined}
    best: dict[str, str] = {}
    for problem in problems:
        known = {m: estimates[problem, m] for m in methods if (problem, m) in estimates}
        others = [name for name in known if name not in SECOND_STAGE]
        if others:
            best[problem] = min(others, key=lambda name: known[name].mean)
            for name in set(refined) & known.keys():
                pairs[name][problem] = known[name], known[best[problem]]
    if not any(pairs.values()):
        return ""
    lines = [["best without refinement", *(best.get(problem, "") for problem in problems), "", ""]]
    for name, compared in pairs.items():
        ratios = {p: first.mean / second.mean for p, (first, second) in compared.items()}
        line = [name, *(f"{ratios[p]:.2f}" if p in ratios else "" for p in problems)]
        if ratios:
            n_datasets = len({PROBLEMS[problem].dataset for problem in ratios})
            low, high = np.percentile(_bootstrap_ratios(compared), [2.5, 97.5])
            line += [f"{_average_ratios(ratios):.3f} ({n_datasets})", f"{low:.2f} to {high:.2f}"]
        lines.append(line)
    header = ["ratio of mean errors", *_titles(problems), "geometric mean (data sets)", "interval"]
    return format_markdown(header, lines) + (
        "\n\nInterval: 95 % of the geometric means of bootstrap samples of the splits. It is too "
        "narrow, because splits share samples, and the best method is selected by its test errors."
    )


def _average_ratios(ratios: Mapping[str, Any]) -> Any:
    """Return the geometric mean over data sets; the problems of one data set count once."""
    by_dataset: dict[str, list[Any]] = {}
    for problem, ratio in ratios.items():
        by_dataset.setdefault(PROBLEMS[problem].dataset, []).append(np.log(ratio))
    return np.exp(np.mean([np.mean(logs, axis=0) for logs in by_dataset.values()], axis=0))


def _bootstrap_ratios(pairs: Mapping[str, tuple[ErrorEstimate, ErrorEstimate]]) -> Floats:
    """Return the average ratios of bootstrap samples of the splits that two methods share."""
    rng = np.random.default_rng(0)
    ratios = {}
    for problem, (first, second) in pairs.items():
        seeds, i, j = np.intersect1d(first.splits, second.splits, return_indices=True)
        draws = rng.integers(0, seeds.size, size=(_N_BOOTSTRAP, seeds.size))
        means = [errors[draws].mean(axis=1) for errors in (first.errors[i], second.errors[j])]
        ratios[problem] = means[0] / means[1]
    return np.asarray(_average_ratios(ratios))


def rank_methods(
    estimates: ErrorEstimates, problems: Names, methods: Names
) -> RankComparison | None:
    """Compare methods by their ranks over data sets.

    Parameters
    ----------
    estimates : mapping of (problem, method) to ErrorEstimate
        Errors of the splits.
    problems, methods : sequence of str
        What is compared. Problems of one data set, such as the two versions of the faces, count
        once: their errors are averaged. Methods that lack a problem are left out.

    Returns
    -------
    RankComparison or None
        None if there are fewer than two data sets or methods.
    """
    datasets = dict.fromkeys(PROBLEMS[problem].dataset for problem in problems)
    complete = [m for m in methods if all((problem, m) in estimates for problem in problems)]
    if len(datasets) < 2 or len(complete) < 2:
        return None
    errors = [
        [
            np.mean([estimates[p, m].mean for p in problems if PROBLEMS[p].dataset == dataset])
            for m in complete
        ]
        for dataset in datasets
    ]
    return compare_ranks(complete, errors)


def rank_table(comparison: RankComparison) -> str:
    """Make the table of average ranks.

    Parameters
    ----------
    comparison : RankComparison
        Ranks of methods over data sets.

    Returns
    -------
    str
        Methods by rank with the p-value of their difference from the first, in Markdown, and a line
        on the tests.
    """
    order = np.argsort(comparison.ranks, kind="stable")
    lines = [
        [
            comparison.methods[i],
            f"{comparison.ranks[i]:.2f}",
            f"{comparison.pairs[order[0], i]:.2g}",
        ]
        for i in order
    ]
    lines[0][-1] = ""
    header = ["method", "average rank", f"p of the difference from {comparison.methods[order[0]]}"]
    return (
        f"{format_markdown(header, lines)}\n\nData sets: {comparison.n_problems}. Friedman's test "
        f"that all ranks are equal: p = {comparison.p_value:.2g}. p-values of pairs are adjusted "
        f"by Holm. Critical difference (Nemenyi, 5 %): {comparison.critical_difference:.2f}."
    )


def leader_table(rows: Sequence[Row], problems: Names, methods: Names) -> str:
    """Make the table of the methods with the lowest mean error, by number of components.

    Parameters
    ----------
    rows : sequence of Row
        Rows of a run.
    problems, methods : sequence of str
        Lines of the table, and the methods that are compared.

    Returns
    -------
    str
        For each problem the numbers of components and their methods, in Markdown. MPDA and PMPDA
        count as one, as in the paper's statement about this figure.
    """
    curves = assessment.compute_error_curves(rows)
    lines = []
    for problem in problems:
        leaders: dict[int, tuple[float, str]] = {}
        for name in methods:
            if (problem, name) in curves:
                curve = curves[problem, name]
                for number, error in zip(curve.component_counts, curve.error, strict=True):
                    key = int(number)
                    title = "MPDA or PMPDA" if name in ("MPDA", "PMPDA") else name
                    leaders[key] = min(leaders.get(key, (np.inf, "")), (float(error), title))
        cells = []
        for name, run in groupby(sorted(leaders), key=lambda number: leaders[number][1]):
            numbers = list(run)
            extent = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
            cells.append(f"{extent}: {name}")
        if cells:
            lines.append([PROBLEMS[problem].title, "; ".join(cells)])
    return format_markdown(["data set", "components: method with the lowest mean error"], lines)


def cost_table(rows: Sequence[Row], problems: Names, methods: Names) -> str:
    """Make the table of the cost of a fit with the selected parameters.

    Parameters
    ----------
    rows : sequence of Row
        Rows of a run.
    problems, methods : sequence of str
        Columns and lines of the table.

    Returns
    -------
    str
        Median seconds and peak memory in Markdown, for the methods that have been measured.
    """
    table = assessment.compute_fit_costs(rows)
    lines = []
    for name in methods:
        line = [table.get((problem, name)) for problem in problems]
        if any(line):
            texts = (f"{cost[0]:.3f} s, {cost[1]:.0f} MiB" if cost else "" for cost in line)
            lines.append([name, *texts])
    return format_markdown(["method", *_titles(problems)], lines)


def summary_csv(rows: Sequence[Row]) -> str:
    """Write all numbers of the tables as CSV.

    Parameters
    ----------
    rows : sequence of Row
        Rows of a run.

    Returns
    -------
    str
        One line for each problem, method and reading.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS.split())
    costs = assessment.compute_fit_costs(rows)
    for reading in READINGS:
        for (problem, method), cell in assessment.estimate_errors(rows, reading).items():
            paper = find_published(problem, method)
            numbers = [cell.mean, cell.std, *cell.interval, cell.component_counts.mean()]
            line = [problem, method, reading, cell.errors.size, *(f"{x:.4f}" for x in numbers)]
            line += [paper.error, paper.dimension] if paper else ["", ""]
            writer.writerow([*line, *costs.get((problem, method), ("", ""))])
    return out.getvalue()
