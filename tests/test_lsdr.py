"""LSDR: known subspaces, the laws, budgets and what it refuses."""

import math
import time
import warnings

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from cases import largest_angle, orthonormal_rows, unequal_classes
from mpda import LSDR
from mpda.baselines.lsdr import subspace_search as dependence
from mpda.baselines.lsdr.density_ratio import (
    CentredSamples,
    Smoothing,
    smi_with_gradient,
)
from mpda.baselines.lsdr.grassmann import tangent_part


def rings(seed, n=200, d=8, spread=1.5):
    """A disc in a ring in 2 dimensions, among others of larger variance; and the 2 dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(y == 1, 2.0, 0.5) + 0.2 * rng.normal(size=n)
    noise = spread * rng.normal(size=(n, d - 2))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), noise])
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X @ turn.T, y, turn[:, :2]


def error_of_nearest(components, X, y):
    half = len(X) // 2
    Z = X @ components.T
    nearest = KNeighborsClassifier(1).fit(Z[:half], y[:half])
    return 1.0 - nearest.score(Z[half:], y[half:])


@pytest.mark.parametrize("seed", [0, 1])
def test_the_informative_subspace_is_found(seed):
    X, y, informative = rings(seed, n=300)
    train = slice(0, 150)
    model = LSDR(n_components=2).fit(X[train], y[train])
    angle = largest_angle(model.components_.T, informative)
    assert angle <= 0.15
    error = error_of_nearest(model.components_, X, y)
    assert error <= 0.03
    centred = X[train] - X[train].mean(axis=0)
    pca = np.linalg.svd(centred, full_matrices=False)[2][:2]
    random = [orthonormal_rows(2, 8, seed=s) for s in range(10)]
    assert largest_angle(pca.T, informative) > 1.0
    assert np.mean([largest_angle(W.T, informative) for W in random]) > 1.0
    assert error_of_nearest(pca, X, y) > 0.3
    assert np.mean([error_of_nearest(W, X, y) for W in random]) > 0.3


def test_one_start_has_fishers_directions_with_a_ridge():
    X, y = unequal_classes(0, sizes=(40, 20, 8))
    axes = dependence._principal_axes(X)
    points = axes.points
    between = sum(
        np.mean(y == c) * np.outer(points[y == c].mean(axis=0), points[y == c].mean(axis=0))
        for c in range(3)
    )
    total = points.T @ points / len(y)
    ridge = dependence._FISHER_RIDGE * np.trace(total) / len(total)
    directions = eigh(between, total + ridge * np.eye(len(total)))[1][:, ::-1]
    for r in (1, 2, 4):
        start = dependence._fisher_start(r, axes, y)
        np.testing.assert_allclose(start @ start.T, np.eye(r), atol=1e-12)
        fisher = start[: min(r, 2)].T  # three classes have two directions
        assert largest_angle(fisher, directions[:, : min(r, 2)]) < 1e-7
    # What is left over has the largest variance that is left.
    rest = np.eye(len(total)) - fisher @ fisher.T
    largest = np.linalg.eigh(rest @ total @ rest)[1][:, ::-1][:, :2]
    assert largest_angle(start[2:].T, largest) < 1e-7


def test_classes_with_equal_means_and_variances_are_told_apart():
    rng = np.random.default_rng(3)
    sides = rng.choice([-1.0, 1.0], size=(300, 2))
    X = np.column_stack([sides + 0.25 * rng.normal(size=(300, 2)), 1.5 * rng.normal(size=(300, 6))])
    y = (sides[:, 0] == sides[:, 1]).astype(int)
    model = LSDR(n_components=2).fit(X[:150], y[:150])
    assert error_of_nearest(model.components_, X, y) <= 0.05
    assert error_of_nearest(np.eye(8)[[3, 5]], X, y) > 0.4


def test_what_a_fit_leaves():
    X, y, _ = rings(2, n=120)
    X = 10.0 * X + 3000.0
    model = LSDR(n_components=2).fit(X, y)
    W, history = model.components_, model.history_
    assert pytest.approx(np.eye(2), abs=1e-12) == W @ W.T
    assert set(history) == {"objective", "gradient_norm", "step", "seconds"}
    assert {len(values) for values in history.values()} == {model.n_iter_ + 1}
    assert model.n_iter_ > 1
    assert (np.diff(history["objective"]) > 0).all()
    assert (np.diff(history["seconds"]) >= 0).all()
    assert history["step"][0] == 0.0
    assert (history["step"][1:] > 0).all()
    assert history["objective"][-1] == model.smi_
    assert model.stop_reason_ in ("gradient", "gain")
    # Width, ridge and SMI are those of the samples as they are, all of them centres.
    codes = y.astype(np.intp)
    everyone = [np.flatnonzero(codes == c) for c in (0, 1)]
    data = CentredSamples(X - X.mean(axis=0), codes, everyone)
    smi, gradient = smi_with_gradient(data, Smoothing(model.width_, model.ridge_), W)
    assert smi == pytest.approx(model.smi_, abs=1e-9)
    norm = np.linalg.norm(tangent_part(W, gradient))
    assert norm == pytest.approx(history["gradient_norm"][-1], abs=1e-8)
    # Principal axes of what it maps to, by decreasing variance, signs fixed.
    covariance = np.cov(model.transform(X).T)
    assert abs(covariance[0, 1]) <= 1e-9 * covariance[0, 0]
    assert covariance[0, 0] >= covariance[1, 1]
    assert (W[np.arange(2), np.abs(W).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize("init", ["pca", "random"])
def test_best_start_is_at_least_as_good_as_one(init):
    X, y, informative = rings(0, n=120, spread=2.0)
    best = LSDR(n_components=2).fit(X, y)
    alone = LSDR(n_components=2, init=init).fit(X, y)
    assert largest_angle(best.components_.T, informative) <= 0.1
    assert best.smi_ >= alone.smi_ - 1e-3


def test_a_given_start_is_where_it_starts():
    X, y, informative = rings(4)
    kept = LSDR(n_components=2, init=7.0 * informative.T, tol=10.0).fit(X, y)
    assert kept.history_["step"].tolist() == [0.0]
    assert kept.n_iter_ == 1
    assert largest_angle(kept.components_.T, informative) <= 1e-7


def test_default_dimension_and_its_bound():
    X, y = unequal_classes(6, sizes=(9, 9, 9, 9, 9), d=3)
    assert LSDR(max_iter=200).fit(X, y).components_.shape == (3, 3)
    assert LSDR().fit(X, y % 2).components_.shape == (1, 3)
    flat = np.column_stack([X, X[:, 0], np.ones(len(X))])
    assert LSDR(n_components=3, max_iter=200).fit(flat, y).components_.shape == (3, 5)
    with pytest.raises(ValueError, match=r"n_components=4 is more .* only 3 dimensions"):
        LSDR(n_components=4).fit(flat, y)


def fitted(X, y, **parameters):
    return LSDR(n_components=2, n_centers=40, n_folds=3, **parameters).fit(X, y)


@pytest.fixture(scope="module")
def law():
    X, y = unequal_classes(5, sizes=(20, 12, 16), d=6, duplicates=0)
    return X, y, fitted(X, y)


def test_order_of_samples_does_not_matter(law):
    X, y, model = law
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        again = fitted(X[order], y[order])
        assert again.components_ == pytest.approx(model.components_, abs=1e-12)


@pytest.mark.parametrize("names", [["b", "c", "a"], [5, -1, 2], [2.0, 1.0, 0.0]])
def test_names_of_classes_do_not_matter(law, names):
    X, y, model = law
    again = fitted(X, np.array(names)[y])
    assert again.components_ == pytest.approx(model.components_, abs=1e-12)
    assert again.classes_.tolist() == sorted(names)


@pytest.mark.parametrize("shift", [7.0, -1000.0])
def test_translation_does_not_matter(law, shift):
    X, y, model = law
    again = fitted(X + shift, y)
    assert largest_angle(again.components_.T, model.components_.T) <= 1e-5
    assert again.mean_ == pytest.approx(model.mean_ + shift)


@pytest.mark.parametrize("scale", [3.0, 1e-4, 1e-150, 1e150])
def test_scale_does_not_matter(law, scale):
    X, y, model = law
    again = fitted(scale * X, y)
    assert largest_angle(again.components_.T, model.components_.T) <= 1e-5
    assert again.width_ / scale == pytest.approx(model.width_, rel=1e-5)
    assert again.smi_ == pytest.approx(model.smi_, rel=1e-5)


def test_seeds_decide_and_are_repeatable(law):
    X, y, model = law
    assert np.array_equal(fitted(X, y).components_, model.components_)
    other = fitted(X, y, random_state=1)
    assert not np.array_equal(other.components_, model.components_)


def test_float32_in_float32_out(law):
    X, y, model = law
    single = fitted(X.astype(np.float32), y)
    assert single.components_.dtype == single.mean_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert largest_angle(single.components_.T.astype(float), model.components_.T) <= 1e-2


def hard_data():
    rng = np.random.default_rng(0)
    X, y = unequal_classes(8, sizes=(12, 9, 1), d=4)
    wide, wide_y = unequal_classes(9, sizes=(8, 7, 1), d=60)
    return {
        "tiny": (1e-150 * X, y),
        "huge": (1e150 * X, y),
        "far away": (X + 1e9, y),
        "constant features": (np.column_stack([X, np.full((len(X), 2), 0.1)]), y),
        "duplicated rows": (np.repeat(X[:5], 6, axis=0), np.arange(30) % 3),
        "mostly one point": (np.vstack([np.zeros((20, 3)), np.eye(3)]), np.arange(23) % 2),
        "more features than samples": (wide, wide_y),
        "two samples": (rng.normal(size=(2, 5)), np.array([0, 1])),
        "one feature": (X[:, :1], y),
        "one sample a class": (X[:6], np.arange(6)),
        "equal class means": (np.vstack([X - X.mean(axis=0)] * 2), np.repeat([0, 1], len(X))),
    }


@pytest.mark.parametrize("case", hard_data())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hard_data_give_a_finite_answer(case):
    X, y = hard_data()[case]
    model = LSDR().fit(X, y)
    W = model.components_
    assert pytest.approx(np.eye(len(W)), abs=1e-12) == W @ W.T
    assert np.isfinite(model.transform(X)).all()
    assert math.isfinite(model.smi_)
    assert 0.0 < model.width_ < math.inf
    assert (np.diff(model.history_["objective"]) > 0).all()


def test_budget_stops_the_fit_in_time_and_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 60)), rng.integers(0, 4, 600)
    begin = time.monotonic()
    with pytest.warns(ConvergenceWarning, match=r"max_time=0.3 seconds. Set a larger max_time"):
        model = LSDR(n_components=10, tol=0.0, max_iter=10**6, max_time=0.3).fit(X, y)
    assert time.monotonic() - begin < 1.5
    assert model.stop_reason_ == "max_time"
    assert np.isfinite(model.components_).all()


def test_too_few_iterations_are_told(law):
    X, y, _ = law
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 iterations. Set a larger max_iter"):
        model = fitted(X, y, max_iter=1)
    assert (model.stop_reason_, model.n_iter_) == ("max_iter", 1)


def test_progress_goes_to_stderr(law, capsys):
    X, y, _ = law
    model = fitted(X, y, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith(f"LSDR, ascent: iteration {model.n_iter_}, SMI {model.smi_:.6g}")
    fitted(X, y)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        ({"n_components": 1.5}, TypeError, "n_components must be an int"),
        ({"n_centers": 0}, ValueError, "n_centers must be at least 1"),
        ({"widths": []}, ValueError, "widths must be None or a sequence"),
        ({"widths": 1.0}, ValueError, "widths must be None or a sequence"),
        ({"widths": [1.0, 0.0]}, ValueError, "each of widths must be a number from"),
        ({"ridges": [0.0]}, ValueError, "each of ridges must be a number from 1e-10"),
        ({"ridges": ["a"]}, TypeError, "each of ridges must be"),
        ({"n_folds": 1}, ValueError, "n_folds must be at least 2, got 1"),
        ({"init": "lda"}, ValueError, r"init must be one of .* shape \(2, 6\), got 'lda'"),
        ({"init": None}, ValueError, r"init must be .* shape \(2, 6\)"),
        ({"init": [["a"]]}, ValueError, r"init must be .* shape \(2, 6\)"),
        ({"init": np.eye(3, 6)}, ValueError, r"shape \(2, 6\), got one of shape \(3, 6\)"),
        ({"init": np.full((2, 6), np.nan)}, ValueError, "not finite"),
        ({"init": np.ones((2, 6))}, ValueError, "got 1 independent of 2"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
        ({"tol": -1.0}, ValueError, "tol must be a finite number of at least 0"),
        ({"max_time": -1}, ValueError, "max_time must be a finite number of at least 0"),
        ({"random_state": "a"}, ValueError, "seed"),
    ],
)
def test_bad_parameters_are_named(law, parameters, error, message):
    X, y, _ = law
    with pytest.raises(error, match=message):
        LSDR(**{"n_components": 2} | parameters).fit(X, y)


def test_default_fits_converge_without_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            X, y = unequal_classes(seed, sizes=(25, 20, 15), d=5)
            model = clone(LSDR()).fit(X, y)
            assert model.stop_reason_ in ("gradient", "gain")


def test_one_far_sample_does_not_set_the_width():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    far = LSDR(n_components=2).fit(np.vstack([X, np.full((1, 5), 1e7)]), np.append(y, 0))
    assert far.width_ < 2.0
    assert far.smi_ > 0.2
