"""The paper's protocol, the rows of its comparison, and one task from samples to a row."""

import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda.assessment import Split, reduce_by_pca
from mpda.experiments import (
    CONTENDERS,
    PROBLEMS,
    SEEDS,
)
from mpda.experiments._cost import cost
from mpda.experiments._experiments import SENSITIVITY, SENSITIVITY_DEFAULTS, _variants
from mpda.experiments._protocol import equalized, split
from mpda.experiments._summary import (
    published,
)
from mpda.experiments._tasks import errors
from mpda.model_selection import classification_curve

DIGITS = PROBLEMS["digits"]
LFDA_ROW = replace(CONTENDERS["LFDA"], grid={"n_neighbors": (5, 10)})


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


# The protocol


def test_the_protocol_is_the_papers():
    assert len(set(SEEDS)) == 20
    assert max(SEEDS) < 1000  # studies choose rules and defaults from 1000 on
    for name, said in published()["table1"]["rows"].items():
        assert 100 * PROBLEMS[name].train_share == said["train_percent"]
    assert {p.dataset for p in PROBLEMS.values() if p.published} == set(
        published()["table1"]["rows"]
    )


def test_splits_are_stratified_and_repeatable():
    part = split(DIGITS, None, 3)
    assert len(part.y) == 449
    share = np.bincount(part.y) / np.bincount(load_digits().target)
    np.testing.assert_allclose(share, 0.25, atol=0.01)
    again, other = split(DIGITS, None, 3), split(DIGITS, None, 4)
    np.testing.assert_array_equal(part.X, again.X)
    assert not np.array_equal(part.X, other.X)
    rows = {row.tobytes() for row in part.X}
    assert len(rows & {row.tobytes() for row in part.X_test}) == 0


def test_usps_takes_a_hundred_of_each_digit_and_joins_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 250)
    X = rng.normal(size=(2500, 256)).astype(np.float32)
    X[:, 0] = y
    np.savez(tmp_path / "usps.npz", X=X, y=y)
    monkeypatch.setattr(
        "mpda.experiments.datasets._loading._checked", lambda entry, X, y, *a, **k: (X, y)
    )
    for name, small in (("usps_eo", {0, 2, 4, 6, 8}), ("usps_sl", {0, 1, 2, 3, 4})):
        part = split(PROBLEMS[name], tmp_path, 1)
        for X_part, y_part in ((part.X, part.y), (part.X_test, part.y_test)):
            digits = X_part[:, 0].astype(int)
            np.testing.assert_array_equal(np.bincount(digits), 100)
            np.testing.assert_array_equal(y_part, [int(digit in small) for digit in digits])


def test_pca_before_the_methods_sees_the_training_part_only():
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(60, 120)) * np.geomspace(1, 0.01, 120), rng.normal(size=(40, 120))
    labels = np.zeros(60), np.zeros(40)
    found = reduce_by_pca(Split(X, labels[0], X_test, labels[1]))
    pca = PCA().fit(X)
    n = int(np.searchsorted(np.cumsum(pca.explained_variance_ratio_), 0.95)) + 1
    np.testing.assert_allclose(np.abs(found.X), np.abs(pca.transform(X)[:, :n]), atol=1e-10)
    expected = np.abs(pca.transform(X_test)[:, :n])
    np.testing.assert_allclose(np.abs(found.X_test), expected, atol=1e-10)
    narrow = Split(X[:, :100], labels[0], X_test[:, :100], labels[1])
    assert reduce_by_pca(narrow) is narrow


def test_equalized_histograms_are_the_textbooks():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 40, size=(5, 361)).astype(np.uint8)
    images[4] = 7
    for image, found in zip(images, equalized(images), strict=True):
        counts = [int(np.sum(image <= level)) for level in range(256)]
        lowest = counts[image.min()]
        for level, value in zip(image, found, strict=True):
            whole = max(361 - lowest, 1)
            assert value == np.rint(255 * (counts[level] - lowest) / whole)
    assert equalized(images[:4]).max() == 255


# The rows of the comparison


def test_rows_are_those_of_the_paper_and_beyond():
    in_paper = [name for name, row in CONTENDERS.items() if row.published]
    assert in_paper == list(published()["table2"]["rows"])
    beyond = {"NCA", "shrinkage LDA", "LFDA ridge", "MFA ridge", "MPDA tuned", "PMPDA tuned"}
    assert set(CONTENDERS) - set(in_paper) == beyond
    for name in ("MFA", "LSDA", "LFDA", "LLTSA", "LPFE"):
        assert CONTENDERS[name].fixed["alpha"] == 0.0
        assert "alpha" not in CONTENDERS[name].grid
    for name in ("MPDA", "PMPDA"):
        row = CONTENDERS[name]
        assert row.fixed["tangent_alpha"] is None
        assert row.fixed["eigenvalue_power"] == 0.0
        assert set(row.grid) == {"n_neighbors", "gamma", "alpha"}
        tuned = CONTENDERS[f"{name} tuned"]
        assert set(tuned.grid) == {*row.grid, "tangent_alpha", "eigenvalue_power"}
    for name in ("MFA", "LFDA"):
        assert set(CONTENDERS[f"{name} ridge"].grid) == {*CONTENDERS[name].grid, "alpha"}
        kept = CONTENDERS[f"{name} ridge"].fixed
        assert kept == {"eigenvalue_power": CONTENDERS[name].fixed["eigenvalue_power"]}


def test_sensitivity_has_the_published_values():
    assert SENSITIVITY_DEFAULTS["units"] == "absolute"
    for name, default in (("k", 5), ("gamma", 1), ("M", 10), ("k'", 6)):
        parameter, values = SENSITIVITY[name]
        assert SENSITIVITY_DEFAULTS[parameter] == default
        assert default in values
        for value, row in _variants(name).items():
            changed = {k for k, v in row.fixed.items() if v != SENSITIVITY_DEFAULTS[k]}
            assert changed == (set() if value == default else {parameter})
    assert SENSITIVITY["k"][1] == tuple(range(1, 16))
    assert SENSITIVITY["M"][1] == tuple(range(5, 51, 5))
    np.testing.assert_allclose(np.log10(SENSITIVITY["gamma"][1]), range(-5, 6))


# Tasks


def test_baseline_is_one_nearest_neighbour_on_the_samples():
    row = errors(DIGITS, CONTENDERS["1-NN"], 1, None)
    part = split(DIGITS, None, 1)
    right = KNeighborsClassifier(1).fit(part.X, part.y).predict(part.X_test) == part.y_test
    assert row["wrong"] == [np.count_nonzero(~right)]
    assert row["dimensions"] == [64]
    assert row["cv_dimension"] == 64
    assert row["n_test"] == right.size


@pytest.mark.parametrize("name", ["LFDA", "LDA", "LSDR"])
def test_a_task_does_what_the_protocol_says_step_by_step(name):
    budget = {"max_iter": 2, "widths": (1.0,), "ridges": (0.1,), "init": "pca"}
    row = {
        "LFDA": LFDA_ROW,
        "LSDR": replace(CONTENDERS["LSDR"], fixed=budget, dimensions=(3, 6)),
    }.get(name, CONTENDERS[name])
    part = split(DIGITS, None, 2)
    found = errors(DIGITS, row, 2, None)
    folds = StratifiedKFold(4, shuffle=True, random_state=2)
    most = 9 if "LDA" in name else 20
    dimensions = row.dimensions or range(1, most + 1)
    grid = {f"reduce__{key}": list(values) for key, values in row.grid.items()}
    with pytest.warns() if name == "LSDR" else np.errstate():  # two iterations do not converge
        search = GridSearchCV(
            Pipeline(
                [
                    ("reduce", row.method.estimator(**row.fixed)),
                    ("classify", KNeighborsClassifier(1)),
                ]
            ),
            {**grid, "reduce__n_components": list(dimensions)},
            cv=folds,
        ).fit(part.X, part.y)
    table = search.cv_results_
    best = np.nanmax(table["mean_test_score"])
    if found["cv_dimension"] in dimensions:
        chosen = {f"reduce__{key}": value for key, value in found["parameters"].items()}
        chosen["reduce__n_components"] = found["cv_dimension"]
        place = table["params"].index(chosen)
        assert table["mean_test_score"][place] == pytest.approx(best)
    fitted = row.method.estimator(**row.fixed, **found["parameters"])
    if name != "LSDR":
        shares = classification_curve(
            fitted.fit(part.X, part.y), part.X, part.y, part.X_test, part.y_test
        )
        assert found["dimensions"] == list(range(1, len(shares) + 1))
        np.testing.assert_array_equal(found["wrong"], np.rint(shares * found["n_test"]))
    assert found["fit_seconds"] > 0
    assert found["fit_mib"] > 0


def test_methods_without_nested_components_are_fitted_for_each_dimension():
    row = replace(CONTENDERS["NCA"], fixed={"max_iter": 3, "tol": 1.0}, dimensions=(2, 5, 900))
    found = errors(DIGITS, row, 1, None)
    assert found["dimensions"] == [2, 5]
    assert found["wrong"][0] > found["wrong"][1]


def test_cost_is_time_and_memory():
    seconds, mib = cost(lambda: time.sleep(0.01 + 0 * np.ones(2**18).sum()))
    assert 0.01 < seconds < 1.0
    assert 2.0 < mib < 3.0
