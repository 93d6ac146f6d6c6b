"""Results for reports, measured on bundled data: digits as images, wine with text labels."""

from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.datasets import load_digits, load_wine

from mpda.assessment import AssessmentProtocol, assess_methods, make_contender, select_model
from mpda.report import collect, to_json_types, verdict
from mpda.report.samples import ReportSamples

COMMAND = "mpda fit wine.csv --label cultivar --out wine.mpda"


@cache
def digits_results():
    X, y = (values[::4] for values in load_digits(return_X_y=True))
    names = tuple(f"pixel {i // 8},{i % 8}" for i in range(64))
    rows = np.arange(1, len(X) + 1)
    return _collect(ReportSamples("digits.csv", X, y.astype(str), "digit", names, rows), (8, 8))


@cache
def wine_results():
    wine = load_wine()
    y = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
    rows = np.arange(1, 179)
    return _collect(
        ReportSamples("wine.csv", wine.data, y, "cultivar", tuple(wine.feature_names), rows)
    )


def _collect(table, image_shape=None):
    contenders = [make_contender(name, search=False) for name in ("1-NN", "LDA", "LFDA", "MPDA")]
    protocol = AssessmentProtocol(n_folds=3, n_inner=2, scaled=True)
    rows = assess_methods(table.X, table.y, contenders, protocol).rows
    fixed = replace(protocol, n_components=5)
    model = select_model(table.X, table.y, contenders[-1], fixed).model
    mpda, Z = model["mpda"], model[:-1].transform(table.X)
    folds = [row for row in rows if row["method"] == "MPDA"]
    predicted = np.empty_like(table.y)
    for row in folds:
        predicted[row["tested"]] = row["predicted"]
    options = {"image_shape": image_shape}
    sections = {
        "data": collect.collect_data(table),
        "comparison": collect.collect_comparison(rows, "3-fold cross-validation", {"": table.name}),
        "model": collect.collect_model(model, table, "MPDA", image_shape),
        "embedding": collect.collect_embedding(
            Z, table, "MPDA", "training samples", predicted, **options
        ),
        "partition": collect.collect_partition(
            model[:-2].transform(table.X), table.y, mpda.patch_labels_, mpda.patch_linearity_
        ),
        "confusion": collect.collect_confusion(table.y, predicted, "1-NN on samples left out"),
    }
    summary = verdict.summarize_errors(rows, "MPDA", table.X.shape[1], mpda.n_components).sentences
    return to_json_types(collect.collect_results(f"{table.name}: MPDA", COMMAND, summary, sections))
