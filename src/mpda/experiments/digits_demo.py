"""Demonstration: the experiments' comparison on scikit-learn's digits, in about a minute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TextIO

from mpda import MPDA
from mpda.assessment import format_error_table
from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.paper_experiments import reproduce
from mpda.experiments.paper_figures import demo_figure, save_figure
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS, SEEDS, split

METHODS = ("1-NN", "PCA", "LDA", "LFDA", "LFDA ridge", "MPDA")
# Half of the paper's splits: the order of the methods is clear, and it takes half the time.
N_SPLITS = 10


def demo(out: Path, jobs: int, progress: TextIO | None) -> ExperimentResult:
    """Compare methods on the digits that come with scikit-learn.

    Parameters
    ----------
    out : Path
        Directory for rows, tables and the figure.
    jobs : int
        Number of processes.
    progress : text stream or None
        Where lines on the progress are written.

    Returns
    -------
    ExperimentResult
        A short table of test errors as text, and the files that were written.
    """
    options = ExperimentOptions(out, ["digits"], METHODS, N_SPLITS, jobs, progress=progress)
    result = reproduce("table2", options)
    samples = split(PROBLEMS["digits"], None, SEEDS[0])
    Z = MPDA(2).fit(samples.X, samples.y).transform(samples.X_test)
    figure = demo_figure(Z, samples.y_test, result.rows)
    files = [*save_figure(figure, out, "digits"), *result.files]
    order = list(CONTENDERS)
    rows = sorted(result.rows, key=lambda row: order.index(row["method"]))
    lines = [
        f"digits: 1797 images of 64 pixels, {N_SPLITS} splits, 25 % training; components and",
        "parameters by cross-validation on the training samples",
        "",
        *format_error_table(rows, "test error"),
        "",
        "* best, or not significantly worse (paired t-test, 5 %)",
    ]
    return replace(result, text="\n".join(lines), files=files)
