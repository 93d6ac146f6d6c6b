"""Report page of the paper's experiments, made from the rows of ``mpda reproduce``.

It stands here and not in ``mpda.report``, which knows neither the problems nor the methods of the
paper.
"""

from pathlib import Path
from typing import Any

from mpda.assessment.significance import SPLITS_TEST
from mpda.exceptions import ReportError
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS
from mpda.experiments.row_store import Row, read_rows
from mpda.report import read_results
from mpda.report.collect import collect_comparison, collect_results


def load_results(path: str | Path, command: str | None = None) -> dict[str, Any]:
    """Load the results for a report page.

    Parameters
    ----------
    path : str or Path
        A results file, the ``rows.jsonl`` of ``mpda reproduce``, or a directory with one of them.
    command : str, default=None
        Command that makes a page of rows; a results file has its own.

    Returns
    -------
    dict
        As described for `mpda.report.render`.

    Raises
    ------
    ReportError
        If the file is neither, or has no finished row.
    """
    path = Path(path)
    command = command or f"mpda report {path} --out report.html"
    file = path / "rows.jsonl" if path.is_dir() else path
    if file.suffix == ".jsonl" and file.exists() and not (path / "results.json").exists():
        return _collect_rows(file, command)
    return read_results(path)


def _collect_rows(path: Path, command: str) -> dict[str, Any]:
    """Collect the finished rows of a file, methods in the order of the paper's table."""
    finished: dict[tuple[str, str, int], Row] = {}
    for row in read_rows(path):
        # Variants of one parameter (the sensitivity study) are not compared with methods.
        if row["status"] == "done" and row["method"] in CONTENDERS and row["problem"] in PROBLEMS:
            finished.setdefault((row["problem"], row["method"], row["seed"]), row)
    if not finished:
        raise ReportError(f"{path} has no row of a finished task: run mpda reproduce table2 first.")
    # Parallel tasks finish in any order, and the page lists methods in the order of their rows.
    order = [*PROBLEMS, *CONTENDERS]
    names = sorted(finished, key=lambda key: (order.index(key[0]), order.index(key[1])))
    rows = [finished[key] for key in names]
    n_problems, n_methods, n_seeds = (len(set(column)) for column in zip(*names, strict=True))
    counts = f"Problems: {n_problems}, methods: {n_methods}, splits: {n_seeds}."
    summary = [f"{counts} Bold: best, or not significantly worse ({SPLITS_TEST})."]
    how = (
        "1-NN error on the test samples of each split, at the number of components that "
        "cross-validation on the training samples selected"
    )
    titles = {name: problem.title for name, problem in PROBLEMS.items()}
    sections = {"comparison": collect_comparison(rows, how, titles)}
    return collect_results("The paper's experiments", command, summary, sections)
