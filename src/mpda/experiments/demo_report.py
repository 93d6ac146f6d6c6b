"""Report page of the demonstration on scikit-learn's digits.

The comparison is that of `mpda.experiments.demo`. The model on the page is MPDA, fitted to the
first split with the parameters that cross-validation selected there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda import MPDA
from mpda.assessment import evaluate_model
from mpda.experiments.digits_demo import demo
from mpda.experiments.experiment import ExperimentResult
from mpda.experiments.protocol import PROBLEMS, SEEDS, split
from mpda.io.tables import Table
from mpda.report import collect, write_page, write_results


def write_demo(out: Path, jobs: int, progress: TextIO | None, command: str) -> ExperimentResult:
    """Compare methods on the digits, and write a report page about them.

    Parameters
    ----------
    out : Path
        Directory for the results, the page, tables and the figure.
    jobs : int
        Number of processes.
    progress : text stream or None
        Where lines on the progress are written.
    command : str
        Command line, for the page.

    Returns
    -------
    ExperimentResult
        That of `mpda.experiments.demo`, with the page and its results among the files.
    """
    result = demo(out, jobs, progress)
    results = _collect_results(result, command)
    files = [write_results(results, out / "results.json"), write_page(results, out / "report.html")]
    return replace(result, files=[*files, *result.files])


def _collect_results(result: ExperimentResult, command: str) -> dict[str, Any]:
    samples = split(PROBLEMS["digits"], None, SEEDS[0])
    X_test, y_test, n_test = samples.X_test, samples.y_test, len(samples.y_test)
    row = next(row for row in result.rows if (row["method"], row["seed"]) == ("MPDA", SEEDS[0]))
    mpda = MPDA(row["cv_dimension"], **row["parameters"])
    model = Pipeline([("mpda", mpda), ("neighbors", KNeighborsClassifier(1))])
    evaluation = evaluate_model(model.fit(samples.X, samples.y), X_test, y_test)
    pixels = tuple(f"row {i // 8}, column {i % 8}" for i in range(64))
    test = Table("digits", X_test, y_test, "digit", pixels, np.arange(1, n_test + 1), {})
    names = mpda.get_feature_names_out().tolist()
    n_splits = len({row["seed"] for row in result.rows})
    how = (
        f"1-NN error on the test samples of {n_splits} splits with 25 % training samples; "
        "components and parameters by cross-validation on the latter"
    )
    embedding = f"{n_test} test digits in the map that was fitted to {len(samples.y)} others"
    sections = {
        "data": collect.collect_data(test) | {"name": "digits, test samples of the first split"},
        "comparison": collect.collect_comparison(result.rows, how, {"digits": "digits"}),
        "model": collect.collect_model(model, test, (8, 8)),
        "embedding": collect.collect_embedding(
            evaluation.Z, test, names, embedding, evaluation.predicted
        ),
        "partition": collect.collect_partition(
            samples.X, samples.y, mpda.patch_labels_, mpda.patch_linearity_
        ),
        "confusion": collect.collect_confusion(
            evaluation.y, evaluation.predicted, f"1-NN on {n_test} test digits of the first split"
        ),
    }
    summary = collect.summarize_errors(result.rows, "MPDA", 64)
    title = "Handwritten digits: MPDA and other methods"
    return collect.collect_results(title, command, summary, sections)
