"""Results wherever they are: what a command wrote, or the rows of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpda.exceptions import ReportError
from mpda.experiments import CONTENDERS, PROBLEMS, read_rows
from mpda.report import read_results
from mpda.report.collect import collect_comparison, collect_results


def load_results(path: str | Path) -> dict[str, Any]:
    """The results of a file or directory.

    Parameters
    ----------
    path : str or Path
        A results file, the rows.jsonl of ``mpda reproduce``, or a directory with one of them.
    """
    path = Path(path)
    rows = path / "rows.jsonl" if path.is_dir() else path
    if rows.suffix == ".jsonl" and rows.exists() and not (path / "results.json").exists():
        return _of_experiments(rows)
    return read_results(path)


def _of_experiments(path: Path) -> dict[str, Any]:
    """All rows of a file that are results; methods in the order of the paper's table."""
    done: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for row in read_rows(path):
        if row["status"] == "done":
            done.setdefault((row["problem"], row["method"], row["seed"]), row)
    if not done:
        raise ReportError(f"{path} has no row of a finished task: run mpda reproduce first.")
    unknown = sorted({problem for problem, _, _ in done} - set(PROBLEMS))
    if unknown:
        raise ReportError(f"{path} has rows of a problem that is not known: {unknown[0]!r:.40}.")
    # A method with one parameter varied is no method beside the others.
    varied = sorted({method for _, method, _ in done} - set(CONTENDERS))
    compared = [row for row in done.values() if row["method"] in CONTENDERS]
    rows, order = compared or list(done.values()), [*CONTENDERS, *varied]
    problems = [*PROBLEMS]
    rows.sort(key=lambda row: (problems.index(row["problem"]), order.index(row["method"])))
    titles = {name: problem.title for name, problem in PROBLEMS.items()}
    how = (
        "1-NN on the test part of each split, at the number of components that cross-validation on "
        "the training part chose; ± is the standard deviation over splits"
    )
    n_problems, n_methods = (len({row[key] for row in rows}) for key in ("problem", "method"))
    n_splits = len({row["seed"] for row in rows})
    counts = ", ".join(
        f"{n} {word if n == 1 else f'{word}s'}"
        for n, word in ((n_methods, "method"), (n_problems, "problem"), (n_splits, "split"))
    )
    summary = [
        f"{counts}; the best of a problem and what a paired t-test at 0.05 does not tell from it "
        "are in bold."
    ]
    if compared and varied:
        summary.append(
            f"Rows with one parameter varied ({len(varied)} values) are not on this page; "
            "mpda reproduce sensitivity draws them."
        )
    section = collect_comparison(rows, how, titles)
    command = f"mpda report {path} --out report.html"
    return collect_results("The paper's experiments", command, summary, {"comparison": section})
