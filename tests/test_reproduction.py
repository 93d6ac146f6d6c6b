"""The paper's protocol, the methods of its comparison, and one task from samples to a row."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda.experiments import CONTENDERS, PROBLEMS, SEEDS, datasets, split
from mpda.experiments.paper_experiments import SENSITIVITY, SENSITIVITY_DEFAULTS, make_variants
from mpda.experiments.paper_methods import SAME_SEARCH, select_contenders
from mpda.experiments.protocol import equalize_histograms
from mpda.experiments.published import read_published
from mpda.experiments.task import Task, measure_errors, run_task
from mpda.model_selection import classification_curve

DIGITS = PROBLEMS["digits"]


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


def measure(contender, seed=1):
    return measure_errors(Task(DIGITS, contender, seed, ""), None)


def test_problems_and_seeds_are_those_of_the_paper():
    assert len(set(SEEDS)) == 20
    assert max(SEEDS) < 1000  # studies choose defaults on seeds from 1000 on
    table = read_published()["table1"]["rows"]
    assert {p.dataset for p in PROBLEMS.values() if p.published} == set(table)
    for name, row in table.items():
        assert 100 * PROBLEMS[name].train_share == row["train_percent"]


def test_splits_are_stratified_and_repeatable():
    samples = split(DIGITS, None, 3)
    assert len(samples.y) == 449
    shares = np.bincount(samples.y) / np.bincount(load_digits().target)
    np.testing.assert_allclose(shares, 0.25, atol=0.01)
    np.testing.assert_array_equal(samples.X, split(DIGITS, None, 3).X)
    assert not np.array_equal(samples.X, split(DIGITS, None, 4).X)
    train, test = ({row.tobytes() for row in X} for X in (samples.X, samples.X_test))
    assert not train & test


def test_usps_has_a_hundred_images_of_each_digit_in_two_classes(tmp_path, monkeypatch):
    y = np.repeat(np.arange(10), 250)
    X = np.column_stack([y, np.random.default_rng(0).normal(size=(2500, 3))])
    monkeypatch.setattr(datasets, "load", lambda name, directory: (X, y))
    for name, first_class in (("usps_eo", {0, 2, 4, 6, 8}), ("usps_sl", {0, 1, 2, 3, 4})):
        samples = split(PROBLEMS[name], tmp_path, 1)
        for X_half, y_half in ((samples.X, samples.y), (samples.X_test, samples.y_test)):
            digits = X_half[:, 0].astype(int)
            np.testing.assert_array_equal(np.bincount(digits), 100)
            np.testing.assert_array_equal(y_half, [int(d in first_class) for d in digits])
        assert not {row.tobytes() for row in samples.X} & {row.tobytes() for row in samples.X_test}


def test_usps_is_run_with_and_without_pca(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 250)
    X = rng.normal(size=(2500, 5)) @ rng.normal(size=(5, 110)) + 0.1 * rng.normal(size=(2500, 110))
    monkeypatch.setattr(datasets, "load", lambda name, directory: (X, y))
    lengths = {}
    for name in ("usps_eo", "usps_eo_raw"):
        row = run_task(Task(PROBLEMS[name], CONTENDERS["PCA"], 1, name), tmp_path)
        lengths[name] = max(row["dimensions"])
    assert lengths["usps_eo"] < 10
    assert lengths["usps_eo_raw"] == 110


def test_pmpda_has_a_smaller_grid_on_usps():
    (small,) = select_contenders(["PMPDA"], ["usps_eo", "usps_sl_raw"])
    (full,) = select_contenders(["PMPDA"], ["usps_eo", "semeion"])
    assert full is CONTENDERS["PMPDA"]
    assert small.name == "PMPDA"
    for name, values in small.grid.items():
        assert set(values) <= set(full.grid[name])
    assert set(small.grid["n_neighbors"]) < set(full.grid["n_neighbors"])


def test_histograms_are_equalized_as_in_a_textbook():
    images = np.random.default_rng(0).integers(0, 40, size=(5, 361)).astype(np.uint8)
    images[4] = 7
    equalized = equalize_histograms(images)
    for image, row in zip(images, equalized, strict=True):
        counts = [int(np.sum(image <= level)) for level in range(256)]
        lowest = counts[image.min()]
        for level, value in zip(image, row, strict=True):
            assert value == np.rint(255 * (counts[level] - lowest) / max(361 - lowest, 1))
    assert equalized[:4].max() == 255


def test_methods_are_those_of_the_paper_and_extensions():
    published = [name for name, contender in CONTENDERS.items() if contender.published]
    assert published == list(read_published()["table2"]["rows"])
    extensions = {"NCA", "shrinkage LDA", "LFDA ridge", "MFA ridge", *SAME_SEARCH}
    extensions |= {"MPDA refined", "MPDA refined Euclidean", "PCA refined", "NCA from MPDA"}
    extensions |= {"LFDA tuned refined", "MPDA tuned refined"}
    assert set(CONTENDERS) - set(published) == extensions
    assert {"MPDA tuned", "LFDA tuned", "MFA tuned", "ridge LDA tuned"} < set(SAME_SEARCH)
    for contender in map(CONTENDERS.__getitem__, SAME_SEARCH):
        assert contender.max_components == 60
        assert contender.grid["alpha"] == CONTENDERS["MPDA tuned"].grid["alpha"]
        # GMML has a position on a geodesic in place of the power.
        powers = contender.grid.get("eigenvalue_power", contender.grid.get("geodesic"))
        assert len(powers) >= len(CONTENDERS["MPDA tuned"].grid["eigenvalue_power"])
    for name in ("MFA", "LSDA", "LFDA", "LLTSA", "LPFE"):
        assert CONTENDERS[name].fixed["alpha"] == 0.0
        assert "alpha" not in CONTENDERS[name].grid
    for name in ("MPDA", "PMPDA"):
        contender, tuned = CONTENDERS[name], CONTENDERS[f"{name} tuned"]
        assert contender.fixed["tangent_alpha"] is None
        assert contender.fixed["eigenvalue_power"] == 0.0
        assert set(contender.grid) == {"n_neighbors", "gamma", "alpha"}
        assert set(tuned.grid) == {*contender.grid, "tangent_alpha", "eigenvalue_power"}


@pytest.mark.parametrize("shares_pca", [False, True])
def test_inner_folds_have_their_own_pca_unless_marked(monkeypatch, tmp_path, shares_pca):
    y = np.arange(200) % 4
    X = np.random.default_rng(0).normal(size=(200, 120)) + y[:, None]
    monkeypatch.setattr(datasets, "load", lambda name, directory: (X, y))
    sizes, fit_transform = [], PCA.fit_transform

    def record(pca, X, y=None):
        sizes.append(len(X))
        return fit_transform(pca, X, y)

    monkeypatch.setattr(PCA, "fit_transform", record)
    task = Task(PROBLEMS["semeion"], CONTENDERS["LDA"], 1, "", shares_pca)
    row = measure_errors(task, tmp_path)
    assert set(sizes) == ({50} if shares_pca else {50, 38, 37})
    assert row["test_share"] == 3.0
    other = replace(task, shares_pca=not shares_pca)
    assert task.fingerprint != other.fingerprint


def test_sensitivity_varies_one_parameter_over_the_published_values():
    assert SENSITIVITY_DEFAULTS["units"] == "absolute"
    for letter, default in (("k", 5), ("gamma", 1), ("M", 10), ("k'", 6)):
        parameter, values = SENSITIVITY[letter]
        assert SENSITIVITY_DEFAULTS[parameter] == default
        assert default in values
        for value, contender in make_variants(letter).items():
            fixed = contender.fixed.items()
            changed = {key for key, setting in fixed if setting != SENSITIVITY_DEFAULTS[key]}
            assert changed == (set() if value == default else {parameter})


def test_baseline_is_one_nearest_neighbour_on_the_samples():
    row = measure(CONTENDERS["1-NN"])
    samples = split(DIGITS, None, 1)
    model = KNeighborsClassifier(1).fit(samples.X, samples.y)
    n_wrong = np.count_nonzero(model.predict(samples.X_test) != samples.y_test)
    assert (row["wrong"], row["dimensions"], row["cv_dimension"]) == ([n_wrong], [64], 64)
    assert row["n_test"] == len(samples.y_test)


@pytest.mark.slow
def test_a_task_agrees_with_a_grid_search_of_scikit_learn():
    contender = replace(CONTENDERS["LFDA"], grid={"n_neighbors": (5, 10)}, max_components=20)
    samples = split(DIGITS, None, 2)
    row = measure(contender, seed=2)
    grid = {f"reduce__{key}": list(values) for key, values in contender.grid.items()}
    grid["reduce__n_components"] = list(range(1, 21))
    estimator = contender.method.estimator(**contender.fixed)
    steps = [("reduce", estimator), ("classify", KNeighborsClassifier(1))]
    folds = StratifiedKFold(4, shuffle=True, random_state=2)
    search = GridSearchCV(Pipeline(steps), grid, cv=folds).fit(samples.X, samples.y)
    point = {f"reduce__{key}": value for key, value in row["parameters"].items()}
    point["reduce__n_components"] = row["cv_dimension"]
    score = search.cv_results_["mean_test_score"][search.cv_results_["params"].index(point)]
    assert score == pytest.approx(search.best_score_)
    model = contender.method.estimator(**contender.fixed, **row["parameters"])
    shares = classification_curve(
        model.fit(samples.X, samples.y), samples.X, samples.y, samples.X_test, samples.y_test
    )
    assert row["dimensions"] == list(range(1, 21))
    np.testing.assert_array_equal(row["wrong"], np.rint(shares[:20] * row["n_test"]))
    assert row["fit_seconds"] > 0
    assert row["fit_mib"] > 0


def test_methods_without_nested_components_are_fitted_for_each_dimension():
    fixed = {"max_iter": 3, "tol": 1.0}
    row = measure(replace(CONTENDERS["NCA"], fixed=fixed, component_counts=(2, 5, 900)))
    assert row["dimensions"] == [2, 5]
    assert row["wrong"][0] > row["wrong"][1]
