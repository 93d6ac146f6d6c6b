"""The demonstration: a comparison on the bundled digits, its table, picture and page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda import MPDA
from mpda.assessment import evaluate_model
from mpda.experiments import PROBLEMS, SEEDS, ExperimentResult, split
from mpda.experiments import demo as compared
from mpda.io.tables import Table
from mpda.report import collect, write_page, write_results


def write_demo(out: Path, jobs: int, progress: TextIO | None, command: str) -> ExperimentResult:
    """Errors on the digits of scikit-learn by a table, and all about one of the fits on a page."""
    outcome = compared(out, jobs, progress)
    results = _results(outcome, command)
    written = [
        write_results(results, out / "results.json"),
        write_page(results, out / "report.html"),
    ]
    return replace(outcome, files=[*written, *outcome.files])


def _results(outcome: ExperimentResult, command: str) -> dict[str, Any]:
    part = split(PROBLEMS["digits"], None, SEEDS[0])
    row = next(row for row in outcome.rows if row["method"] == "MPDA" and row["seed"] == SEEDS[0])
    method = MPDA(row["cv_dimension"], **row["parameters"])
    model = Pipeline([("mpda", method), ("neighbors", KNeighborsClassifier(1))])
    found = evaluate_model(model.fit(part.X, part.y), part.X_test, part.y_test)
    n, n_test = len(part.y), len(part.y_test)
    test = Table(
        "digits", part.X_test, part.y_test, "digit", _pixels(), np.arange(1, n_test + 1), {}
    )
    n_splits = len({row["seed"] for row in outcome.rows})
    how = (
        f"{n_splits} splits, 25 % of the samples train; components and parameters by "
        "cross-validation on the training part, errors of 1-NN on the rest"
    )
    sections = {
        "data": collect.collect_data(test) | {"name": "digits, test part of the first split"},
        "comparison": collect.collect_comparison(outcome.rows, how, {"digits": "digits"}),
        "model": collect.collect_model(model, test, (8, 8)),
        "embedding": collect.collect_embedding(
            found.Z,
            test,
            method.get_feature_names_out().tolist(),
            f"{n_test} test digits, by a map fitted to {n} others",
            found.predicted,
        ),
        "partition": collect.collect_partition(
            part.X, part.y, method.patch_labels_, method.patch_linearity_
        ),
        "confusion": collect.collect_confusion(
            found.y, found.predicted, f"1-NN on {n_test} test digits, first split"
        ),
    }
    summary = collect.summarize_errors(outcome.rows, "MPDA", 64)
    return collect.collect_results(
        "Handwritten digits: MPDA and others", command, summary, sections
    )


def _pixels() -> tuple[str, ...]:
    return tuple(f"row {i // 8}, column {i % 8}" for i in range(64))
