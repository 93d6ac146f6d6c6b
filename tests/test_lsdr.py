"""LSDR: known subspaces, invariance, budgets and rejected parameters."""

import math

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from cases import largest_angle, orthonormal_rows, unequal_classes
from mpda import LSDR
from mpda.baselines.lsdr.density_ratio import KernelSamples, Smoothing, compute_smi
from mpda.baselines.lsdr.grassmann import project_to_tangent
from mpda.baselines.lsdr.subspace_search import fisher_subspace


def slow(value):
    """Mark a parameter that repeats a law."""
    return pytest.param(value, marks=pytest.mark.slow)


def rings(seed, n=200, d=8, spread=1.5):
    """A disc in a ring in 2 dimensions, among others of larger variance; and the 2 dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(y == 1, 2.0, 0.5) + 0.2 * rng.normal(size=n)
    noise = spread * rng.normal(size=(n, d - 2))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), noise])
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X @ rotation.T, y, rotation[:, :2]


def nearest_neighbor_error(components, X, y):
    half, Z = len(X) // 2, X @ components.T
    return 1.0 - KNeighborsClassifier(1).fit(Z[:half], y[:half]).score(Z[half:], y[half:])


@pytest.mark.parametrize("seed", [0, slow(1)])
def test_informative_subspace_is_found(seed):
    X, y, informative = rings(seed, n=300)
    model = LSDR(n_components=2).fit(X[:150], y[:150])
    assert largest_angle(model.components_.T, informative) <= 0.15
    assert nearest_neighbor_error(model.components_, X, y) <= 0.03
    pca = np.linalg.svd(X[:150] - X[:150].mean(axis=0), full_matrices=False)[2][:2]
    random = [orthonormal_rows(2, 8, seed=s) for s in range(10)]
    assert largest_angle(pca.T, informative) > 1.0
    assert nearest_neighbor_error(pca, X, y) > 0.3
    assert np.mean([largest_angle(W.T, informative) for W in random]) > 1.0
    assert np.mean([nearest_neighbor_error(W, X, y) for W in random]) > 0.3


@pytest.mark.slow
def test_classes_with_equal_means_and_variances_are_separated():
    rng = np.random.default_rng(3)
    sides = rng.choice([-1.0, 1.0], size=(300, 2))
    X = np.column_stack([sides + 0.25 * rng.normal(size=(300, 2)), 1.5 * rng.normal(size=(300, 6))])
    y = (sides[:, 0] == sides[:, 1]).astype(int)
    model = LSDR(n_components=2).fit(X[:150], y[:150])
    assert nearest_neighbor_error(model.components_, X, y) <= 0.05
    assert nearest_neighbor_error(np.eye(8)[[3, 5]], X, y) > 0.4


def test_fisher_subspace_has_fishers_directions_with_a_ridge():
    X, y = unequal_classes(0, sizes=(40, 20, 8))
    centred = X - X.mean(axis=0)
    points = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    means = [points[y == c].mean(axis=0) for c in range(3)]
    between = sum(np.mean(y == c) * np.outer(means[c], means[c]) for c in range(3))
    total = points.T @ points / len(y)
    ridge = 0.1 * np.trace(total) / len(total)
    directions = eigh(between, total + ridge * np.eye(len(total)))[1][:, ::-1]
    for r in (1, 2, 4):
        start = fisher_subspace(r, points, y)
        np.testing.assert_allclose(start @ start.T, np.eye(r), atol=1e-12)
        fisher = start[: min(r, 2)].T  # three classes have two directions
        assert largest_angle(fisher, directions[:, : min(r, 2)]) < 1e-7
    # The other rows have the largest variance orthogonal to Fisher's directions.
    complement = np.eye(len(total)) - fisher @ fisher.T
    largest = np.linalg.eigh(complement @ total @ complement)[1][:, ::-1][:, :2]
    assert largest_angle(start[2:].T, largest) < 1e-7


def test_attributes_describe_the_ascent():
    X, y, _ = rings(2, n=120)
    X = 10.0 * X + 3000.0
    model = LSDR(n_components=2).fit(X, y)
    W, history = model.components_, model.history_
    assert pytest.approx(np.eye(2), abs=1e-12) == W @ W.T
    assert set(history) == {"objective", "gradient_norm", "step", "seconds"}
    assert {len(values) for values in history.values()} == {model.n_iter_ + 1}
    assert (np.diff(history["objective"]) > 0).all()
    assert history["step"][0] == 0.0
    assert (history["step"][1:] > 0).all()
    assert history["objective"][-1] == model.smi_
    assert model.stop_reason_ in ("gradient", "gain")
    # Width, ridge and SMI hold for the samples in their units, all of them centres.
    samples = KernelSamples(X - X.mean(axis=0), y, [np.flatnonzero(y == c) for c in (0, 1)], [])
    smi, gradient = compute_smi(samples, Smoothing(model.width_, model.ridge_), W)
    assert smi == pytest.approx(model.smi_, abs=1e-9)
    norm = np.linalg.norm(project_to_tangent(W, gradient))
    assert norm == pytest.approx(history["gradient_norm"][-1], abs=1e-8)
    # Rows are principal axes of the mapped samples, by decreasing variance, signs fixed.
    covariance = np.cov(model.transform(X).T)
    assert abs(covariance[0, 1]) <= 1e-9 * covariance[0, 0]
    assert covariance[0, 0] >= covariance[1, 1]
    assert (W[np.arange(2), np.abs(W).argmax(axis=1)] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("init", ["pca", "random"])
def test_best_start_is_not_worse_than_one(init):
    X, y, informative = rings(0, n=120, spread=2.0)
    best, single = (LSDR(n_components=2, init=start).fit(X, y) for start in ("best", init))
    assert largest_angle(best.components_.T, informative) <= 0.1
    assert best.smi_ >= single.smi_ - 1e-3


def test_init_array_is_the_start():
    X, y, informative = rings(4)
    model = LSDR(n_components=2, init=7.0 * informative.T, tol=10.0).fit(X, y)
    assert model.history_["step"].tolist() == [0.0]
    assert model.n_iter_ == 1
    assert largest_angle(model.components_.T, informative) <= 1e-7


def test_default_dimension_is_bounded_by_classes_and_rank():
    X, y = unequal_classes(6, sizes=(9, 9, 9, 9, 9), d=3)
    assert LSDR(max_iter=200).fit(X, y).components_.shape == (3, 3)
    assert LSDR().fit(X, y % 2).components_.shape == (1, 3)
    flat = np.column_stack([X, X[:, 0], np.ones(len(X))])
    assert LSDR(n_components=3, max_iter=200).fit(flat, y).components_.shape == (3, 5)
    with pytest.raises(ValueError, match=r"n_components=4 is more .* only 3 dimensions"):
        LSDR(n_components=4).fit(flat, y)


def fit_small(X, y, **parameters):
    return LSDR(n_components=2, n_centers=40, n_folds=3, **parameters).fit(X, y)


@pytest.fixture(scope="module")
def small_fit():
    X, y = unequal_classes(5, sizes=(20, 12, 16), d=6, duplicates=0)
    return X, y, fit_small(X, y)


@pytest.mark.parametrize("scale", [3.0, slow(1e-4), slow(1e-150), 1e150])
def test_width_has_the_unit_of_the_samples(small_fit, scale):
    X, y, model = small_fit
    scaled = fit_small(scale * X, y)
    assert scaled.width_ / scale == pytest.approx(model.width_, rel=1e-5)
    assert scaled.smi_ == pytest.approx(model.smi_, rel=1e-5)


def test_random_state_draws_other_centres(small_fit):
    X, y, model = small_fit
    other = fit_small(X, y, random_state=1)
    assert not np.array_equal(other.components_, model.components_)


def degenerate_data():
    X, y = unequal_classes(8, sizes=(12, 9, 1), d=4)
    return {
        "offset": (X + 1e9, y),
        "constant features": (np.column_stack([X, np.full((len(X), 2), 0.1)]), y),
        "duplicated rows": (np.repeat(X[:5], 6, axis=0), np.arange(30) % 3),
        "mostly one point": (np.vstack([np.zeros((20, 3)), np.eye(3)]), np.arange(23) % 2),
        "more features than samples": unequal_classes(9, sizes=(8, 7, 1), d=60),
        "two samples": (X[:2], np.array([0, 1])),
        "one feature": (X[:, :1], y),
        "one sample in a class": (X[:6], np.arange(6)),
        "equal class means": (np.vstack([X - X.mean(axis=0)] * 2), np.repeat([0, 1], len(X))),
    }


@pytest.mark.parametrize("case", degenerate_data())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_data_give_a_finite_result(case):
    X, y = degenerate_data()[case]
    model = LSDR().fit(X, y)
    W = model.components_
    assert pytest.approx(np.eye(len(W)), abs=1e-12) == W @ W.T
    assert np.isfinite(model.transform(X)).all()
    assert math.isfinite(model.smi_)
    assert 0.0 < model.width_ < math.inf


def test_limits_of_time_and_iterations_end_the_fit_with_a_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 60)), rng.integers(0, 4, 600)
    # Without the limit the fit would not end.
    with pytest.warns(ConvergenceWarning, match=r"max_time=0.3 seconds. Set a larger max_time"):
        model = LSDR(n_components=10, tol=0.0, max_iter=10**6, max_time=0.3).fit(X, y)
    assert model.stop_reason_ == "max_time"
    assert np.isfinite(model.components_).all()
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 iterations. Set a larger max_iter"):
        model = LSDR(n_components=2, max_iter=1).fit(X[:50], y[:50])
    assert (model.stop_reason_, model.n_iter_) == ("max_iter", 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"widths": []}, "widths must be None or a sequence"),
        ({"widths": [1.0, 0.0]}, "each of widths must be a number from"),
        ({"ridges": [0.0]}, "each of ridges must be a number from 1e-10"),
        ({"n_folds": 1}, "n_folds must be at least 2, got 1"),
        ({"init": "lda"}, r"init must be one of .* shape \(2, 6\), got 'lda'"),
        ({"init": None}, r"init must be .* shape \(2, 6\), got None"),
        ({"init": np.eye(3, 6)}, r"shape \(2, 6\), got one of shape \(3, 6\)"),
        ({"init": np.full((2, 6), np.nan)}, "init contains NaN"),
        ({"init": np.ones((2, 6))}, "got 1 independent of 2"),
        ({"max_time": -1}, "max_time must be a finite number of at least 0"),
    ],
)
def test_rejected_parameters_are_named(small_fit, parameters, message):
    X, y, _ = small_fit
    with pytest.raises(ValueError, match=message):
        LSDR(**{"n_components": 2} | parameters).fit(X, y)
