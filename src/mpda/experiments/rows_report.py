"""Report page of the paper's experiments, made from the rows of ``mpda reproduce``."""

from pathlib import Path
from typing import Any

from mpda.exceptions import ReportError
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS
from mpda.experiments.row_store import Row, read_rows
from mpda.report import read_results
from mpda.report.collect import collect_comparison, collect_results


def load_results(path: str | Path) -> dict[str, Any]:
    """Load the results for a report page.

    Parameters
    ----------
    path : str or Path
        A results file, the ``rows.jsonl`` of ``mpda reproduce``, or a directory with one of them.

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
    file = path / "rows.jsonl" if path.is_dir() else path
    if file.suffix == ".jsonl" and file.exists() and not (path / "results.json").exists():
        return _collect_rows(file)
    return read_results(path)


def _collect_rows(path: Path) -> dict[str, Any]:
    """Collect the finished rows of a file, methods in the order of the paper's table."""
    finished: dict[tuple[str, str, int], Row] = {}
    for row in read_rows(path):
        if row["status"] == "done":
            finished.setdefault((row["problem"], row["method"], row["seed"]), row)
    if not finished:
        raise ReportError(f"{path} has no row of a finished task: run mpda reproduce first.")
    unknown = sorted({problem for problem, _, _ in finished} - set(PROBLEMS))
    if unknown:
        raise ReportError(f"{path} has rows of the unknown problem {unknown[0]!r:.40}.")
    # Variants of one parameter (the sensitivity study) are not compared with methods.
    variants = sorted({method for _, method, _ in finished} - set(CONTENDERS))
    methods = [row for row in finished.values() if row["method"] in CONTENDERS]
    rows = methods or list(finished.values())
    order = [*PROBLEMS, *CONTENDERS, *variants]
    rows.sort(key=lambda row: (order.index(row["problem"]), order.index(row["method"])))
    counts = {
        word: len({row[key] for row in rows})
        for word, key in (("method", "method"), ("problem", "problem"), ("split", "seed"))
    }
    text = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items())
    summary = [f"{text}. Bold: best, or not significantly worse (paired t-test, 5 %)."]
    if methods and variants:
        summary.append(
            f"Variants of one parameter ({len(variants)} values) are not on this page; draw them "
            "with mpda reproduce sensitivity."
        )
    how = (
        "1-NN error on the test samples of each split, at the number of components that "
        "cross-validation on the training samples selected"
    )
    titles = {name: problem.title for name, problem in PROBLEMS.items()}
    sections = {"comparison": collect_comparison(rows, how, titles)}
    command = f"mpda report {path} --out report.html"
    return collect_results("The paper's experiments", command, summary, sections)
