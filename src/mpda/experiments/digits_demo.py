"""Demonstration: the experiments' comparison on scikit-learn's digits, in about a minute.

The model on the report page is MPDA, fitted to the first split with the parameters that
cross-validation selected there.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda import MPDA
from mpda.assessment import Split, evaluate_model, format_error_table
from mpda.assessment.significance import SPLITS_TEST
from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.paper_experiments import reproduce
from mpda.experiments.paper_figures import demo_figure, save_figure
from mpda.experiments.protocol import PROBLEMS, SEEDS, split
from mpda.experiments.row_store import Row
from mpda.report import collect, verdict, write_page, write_results
from mpda.report.samples import ReportSamples

METHODS = ("1-NN", "PCA", "LDA", "LFDA", "LFDA ridge", "MPDA")
# Half of the paper's splits: the order of the methods is clear, and it takes half the time.
N_SPLITS = 10


def demo(
    out: Path, jobs: int, progress: TextIO | None, command: str = "mpda demo"
) -> ExperimentResult:
    """Compare methods on the digits that come with scikit-learn, and write a report page.

    Parameters
    ----------
    out : Path
        Directory for rows, tables, the figure, results.json and report.html.
    jobs : int
        Number of processes.
    progress : text stream or None
        Where lines on the progress are written.
    command : str, default="mpda demo"
        Command line, for the page.

    Returns
    -------
    ExperimentResult
        A short table of test errors as text, and the files that were written.
    """
    options = ExperimentOptions(out, ["digits"], METHODS, N_SPLITS, jobs, progress=progress)
    result = reproduce("table2", options)
    rows = sorted(result.rows, key=lambda row: METHODS.index(row["method"]))
    samples = split(PROBLEMS["digits"], None, SEEDS[0])
    # The figure has the defaults in two components; the page has the selected model.
    Z = MPDA(2).fit(samples.X, samples.y).transform(samples.X_test)
    figures = save_figure(demo_figure(Z, samples.y_test, rows), out, "digits")
    results = _collect_results(rows, samples, command)
    pages = [write_results(results, out / "results.json"), write_page(results, out / "report.html")]
    lines = [
        f"digits: 1797 images of 64 pixels, {N_SPLITS} splits, 25 % training; components and",
        "parameters by cross-validation on the training samples",
        "",
        *format_error_table(rows, "test error", ["MPDA"]),
        "",
        f"* best, or not significantly worse ({SPLITS_TEST})",
        "The digits are part of OptDigits, on which defaults and grids were chosen, too.",
    ]
    return replace(result, text="\n".join(lines), files=[*pages, *figures, *result.files])


def _collect_results(rows: list[Row], samples: Split, command: str) -> dict[str, Any]:
    """Collect the comparison, and MPDA on the first split, for the page."""
    n_test = len(samples.y_test)
    row = next(row for row in rows if (row["method"], row["seed"]) == ("MPDA", SEEDS[0]))
    mpda = MPDA(row["cv_dimension"], **row["parameters"])
    model = Pipeline([("mpda", mpda), ("neighbors", KNeighborsClassifier(1))])
    evaluation = evaluate_model(model.fit(samples.X, samples.y), samples.X_test, samples.y_test)
    Z, predicted = evaluation.Z, evaluation.predicted
    pixels = tuple(f"row {i // 8}, column {i % 8}" for i in range(64))
    numbers = np.arange(1, n_test + 1)
    test = ReportSamples("digits", samples.X_test, samples.y_test, "digit", pixels, numbers)
    how = (
        f"1-NN error on the test samples of {N_SPLITS} splits with 25 % training samples; "
        "components and parameters by cross-validation on the latter"
    )
    caption = f"{n_test} test digits in the map that was fitted to {len(samples.y)} others"
    patches = mpda.patch_labels_, mpda.patch_linearity_
    sections = {
        "data": collect.collect_data(test) | {"name": "digits, test samples of the first split"},
        "comparison": collect.collect_comparison(rows, how, {"digits": "digits"}, ["MPDA"]),
        "model": collect.collect_model(model, test, "MPDA", (8, 8)),
        "embedding": collect.collect_embedding(
            Z, test, "MPDA", caption, predicted, image_shape=(8, 8)
        ),
        "partition": collect.collect_partition(samples.X, samples.y, *patches),
        "confusion": collect.collect_confusion(samples.y_test, predicted, f"1-NN: {caption}"),
    }
    summary = verdict.summarize_errors(rows, "MPDA", 64, row["cv_dimension"]).sentences
    title = "Handwritten digits: MPDA and other methods"
    return collect.collect_results(title, command, summary, sections)
