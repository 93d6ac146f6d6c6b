"""Refinement on a sphere, and the objective for whole classes: definitions, laws, the estimator."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA, NeighborhoodRefinement, WithinClassWhitening, load, save
from mpda._lib.arrays import to_host
from mpda.model_selection import DiscriminantSearchCV, classification_curve
from mpda.refinement.candidates import merge_candidates, search_candidates
from mpda.refinement.loss import CandidateSets, RefinementLoss
from mpda.refinement.optimize import RefinementSettings, refine_map

pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")

RADII = [None, 0.0, 0.5, 1.0, 10.0]
OBJECTIVES = ["nearest", "class"]


def problem(n=60, d=6, r=3, seed=0):
    """Return samples of three classes and of one with a single sample, and a start."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    y[-1] = 3
    X = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(4, d))[y]
    return X - X.mean(axis=0), y, rng.normal(size=(r, d))


def digits(n=300):
    X, y = load_digits(return_X_y=True)
    return X[:n] + 0.01 * np.random.default_rng(0).normal(size=(n, 64)), y[:n]


def project_slowly(Z, k):
    """Return the points of the definition."""
    if k is None:
        return Z
    rows = [[*z, k] if k > 0.0 else z for z in Z]
    return np.array([np.array(row) / np.sqrt(np.dot(row, row)) for row in rows])


def find_candidates(points, y):
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    rows = np.concatenate(members)
    candidates = merge_candidates(rows, search_candidates(points, members, members, 3, 8))
    return rows, candidates


def make_loss(X, y, start, k, objective, weights, temperature=0.7, penalty=30.0):
    rows, candidates = find_candidates(project_slowly(X @ start.T, k), y)
    is_own = (y[candidates] == y[rows][:, None]) & (candidates != rows[:, None])
    sets = CandidateSets(rows, candidates, is_own)
    options = {"weights": weights, "objective": objective, "radius": k}
    return RefinementLoss(X, sets, start, temperature, penalty, **options)


def evaluate_slowly(T, loss, y, k, objective):
    """Return the loss by its definition, sample after sample."""
    points = project_slowly(loss.X @ T.T, k)
    w = np.ones(len(y)) if loss.weights is None else loss.weights
    total = 0.0
    for i, row in zip(loss.sets.queries, loss.sets.candidates, strict=True):
        others = np.array([j for j in row if j != i])
        exponents = -((points[others] - points[i]) ** 2).sum(axis=1) / loss.temperature
        is_own = y[others] == y[i]
        if not is_own.any():
            continue
        log_all = logsumexp(exponents, b=w[others])
        if objective == "class":
            log_own = np.average(exponents[is_own], weights=w[others][is_own])
        else:
            log_own = logsumexp(exponents[is_own], b=w[others][is_own])
        total += w[i] * (log_all - log_own)
    start = loss.start
    total += loss.penalty * ((T - start) ** 2).sum() / (start**2).sum()
    return total / w[loss.sets.queries].sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("radius", RADII)
def test_loss_and_gradient_are_those_of_the_definition(radius, objective, weighted):
    X, y, start = problem()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else None
    k = None if radius is None else radius * np.sqrt(((X @ start.T) ** 2).sum(axis=1).mean())
    loss = make_loss(X, y, start, k, objective, weights)
    T = start + 0.3 * np.random.default_rng(2).normal(size=start.shape)
    value, gradient = loss(T)
    expected = evaluate_slowly(T, loss, y, k, objective)
    assert value == pytest.approx(expected, rel=1e-10)
    slopes = np.empty_like(T)
    for index in np.ndindex(T.shape):
        step = np.zeros_like(T)
        step[index] = 1e-5
        slopes[index] = (loss(T + step)[0] - loss(T - step)[0]) / 2e-5
    np.testing.assert_allclose(gradient, slopes, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_whole_class_sums_only_over_own_candidates_of_the_query(objective):
    """A sample without an own candidate adds nothing, and one candidate is the same to both."""
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    y = np.array([0, 0, 1, 2])
    rows = np.arange(4)
    candidates = np.array([[j for j in rows if j != i] for i in rows])
    sets = CandidateSets(rows, candidates, y[candidates] == y[:, None])
    T = np.ones((1, 1))
    value, _ = RefinementLoss(X, sets, T, 5.0, 0.0, objective=objective)(T)
    squares = (X - X.T) ** 2 / 5.0
    first = logsumexp(-squares[0, 1:]) + squares[0, 1]
    second = logsumexp(-squares[1, [0, 2, 3]]) + squares[0, 1]
    assert value == pytest.approx((first + second) / 4, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("radius", [0, 0.5, 1, 30])
def test_transform_gives_points_of_the_sphere(radius, dtype):
    X, y = digits()
    model = NeighborhoodRefinement(MPDA(5, alpha=0.5), radius=radius, temperature=2)
    Z = model.fit(X.astype(dtype), y).transform(X.astype(dtype))
    assert Z.dtype == model.components_.dtype == dtype
    assert Z.shape == (len(X), 5)
    assert model.components_.shape == (5 if radius == 0 else 4, 64)
    assert list(model.get_feature_names_out()) == [f"neighborhoodrefinement{i}" for i in range(5)]
    linear = (X - model.mean_) @ model.components_.astype(float).T
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(Z, project_slowly(linear, model.radius_), atol=tolerance)
    np.testing.assert_allclose(model.transform_linear(X), linear, rtol=1e-4, atol=1e-4)
    # The constant is in units of the first map.
    first = (X - model.mean_) @ model.start_components_.astype(float).T
    expected = radius * np.sqrt((first**2).sum(axis=1).mean())
    assert model.radius_ == pytest.approx(expected, rel=1e-12 if dtype == "float64" else 1e-5)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-6)
    euclid, cosine = (
        KNeighborsClassifier(1, metric=metric, algorithm="brute").fit(Z[::2], y[::2])
        for metric in ("euclidean", "cosine")
    )
    assert np.mean(euclid.predict(Z[1::2]) == cosine.predict(Z[1::2])) == 1.0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_infinite_radius_is_the_euclidean_geometry(objective):
    X, y = digits()
    start = FrozenEstimator(MPDA(5, alpha=0.5).fit(X, y))
    options = {"objective": objective}
    expected = NeighborhoodRefinement(start, radius=None, **options).fit(X, y)
    assert expected.radius_ is None
    infinite = NeighborhoodRefinement(start, radius=np.inf, **options).fit(X, y)
    np.testing.assert_array_equal(infinite.components_, expected.components_)
    np.testing.assert_array_equal(infinite.transform(X), expected.transform(X))
    far = NeighborhoodRefinement(start, n_components=6, radius=1e6, **options).fit(X, y)
    scale = np.abs(expected.components_).max()
    np.testing.assert_allclose(far.components_, expected.components_, atol=1e-7 * scale)
    # Also in single precision, in which all points of the sphere are equal.
    single = NeighborhoodRefinement(start, n_components=6, radius=1e6, **options)
    single.fit(X.astype(np.float32), y)
    assert single.n_iter_ > 10
    single.fit(np.float32(1e9) * X.astype(np.float32), y)
    assert np.isfinite(single.components_).all()
    assert single.n_iter_ > 10
    np.testing.assert_allclose(single.components_, expected.components_, atol=2e-2 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("radius", [0, 1])
@pytest.mark.parametrize("change", ["translation", "rotation", "scale", "tiny", "order"])
def test_result_does_not_depend_on_the_coordinates(change, radius):
    rng = np.random.default_rng(0)
    X, y = digits()
    method = NeighborhoodRefinement(MPDA(5, alpha=0.5), radius=radius)
    Z = method.fit(X, y).transform(X)
    if change == "translation":
        other = X + rng.normal(size=64)
    elif change == "rotation":
        other = X @ np.linalg.qr(rng.normal(size=(64, 64)))[0]
    else:
        other = X * {"scale": 1e150, "tiny": 1e-150, "order": 1.0}[change]
    order = rng.permutation(300) if change == "order" else np.arange(300)
    method.fit(other[order], y[order])
    Z_again = np.empty_like(Z)
    Z_again[order] = method.transform(other[order])
    signs = np.sign((Z * Z_again).sum(axis=0))
    np.testing.assert_allclose(Z_again * signs, Z, atol=1e-4)


@pytest.mark.parametrize("exponent", [-73, 63])
def test_single_precision_does_not_depend_on_the_scale(exponent):
    X, y = digits()
    X = X.astype(np.float32)
    start = PCA(4, svd_solver="full").fit(X.astype(np.float64))
    method = NeighborhoodRefinement(FrozenEstimator(start), radius=1)
    expected = method.fit(X, y).transform(X)
    scaled = np.ldexp(X, exponent)
    start = SimpleNamespace(
        components_=start.components_, mean_=np.ldexp(start.mean_, exponent), n_components=4
    )
    Z = clone(method).set_params(estimator=start).fit(scaled, y).transform(scaled)
    np.testing.assert_allclose(Z, expected, atol=1e-4)


def test_number_of_components_is_that_of_outputs():
    X, y = digits()
    frozen = LFDA(6, alpha=0.1).fit(X, y)
    all_rows = PCA(0.5).fit(X).n_components_
    cases = [  # outputs with radius 1 and 0
        (LFDA(6, alpha=0.1), 6, 6),
        (make_pipeline(StandardScaler(), LFDA(6, alpha=0.1)), 6, 6),
        (FrozenEstimator(frozen), 6, 6),
        (NeighborhoodRefinement(LFDA(6, alpha=0.1), n_rounds=1, radius=None), 6, 6),
        (NeighborhoodRefinement(LFDA(6, alpha=0.1), n_rounds=1, radius=1), 6, 6),
        (PCA(0.5), all_rows + 1, all_rows),
        (SimpleNamespace(components_=frozen.components_, mean_=frozen.mean_), 7, 6),
    ]
    for start, n_outputs, n_rows in cases:
        model = NeighborhoodRefinement(start, radius=1.0, n_rounds=1).fit(X, y)
        assert model.transform(X[:2]).shape == (2, n_outputs)
        assert len(model.components_) == n_outputs - 1
        assert model.set_params(n_components=3).fit(X, y).transform(X[:2]).shape == (2, 3)
        model.set_params(radius=0.0, n_components=None).fit(X, y)
        assert model.transform(X[:2]).shape == (2, n_rows)
        assert len(model.components_) == n_rows


def test_usual_geometry_is_a_sphere_beyond_three_outputs():
    X, y = digits()
    for n_outputs in (1, 2, 3, 4, 6):
        usual = NeighborhoodRefinement(LFDA(n_outputs, alpha=0.1), n_rounds=1).fit(X, y)
        assert usual.transform(X[:2]).shape == (2, n_outputs)
        assert (usual.radius_ is None) == (n_outputs <= 3)
        radius = None if n_outputs <= 3 else 1.0
        given = NeighborhoodRefinement(LFDA(n_outputs, alpha=0.1), n_rounds=1, radius=radius)
        np.testing.assert_array_equal(given.fit(X, y).transform(X), usual.transform(X))
        search = DiscriminantSearchCV(
            NeighborhoodRefinement(LFDA(alpha=0.1), n_rounds=1),
            {"n_rounds": [1]},
            n_components=[n_outputs],
            cv=2,
        ).fit(X, y)
        found = search.best_estimator_
        np.testing.assert_allclose(found.transform(X), usual.transform(X), atol=1e-9)


def test_numbers_that_do_not_exist_are_named():
    X, y = digits()
    frozen = FrozenEstimator(LFDA(3, alpha=0.1).fit(X, y))
    with pytest.raises(
        ValueError, match=r"first map has at most 3 components, 4 with the constant"
    ):
        NeighborhoodRefinement(frozen, n_components=5, radius=1).fit(X, y)
    for method in (
        NeighborhoodRefinement(frozen, n_components=1, radius=0.5),
        NeighborhoodRefinement(LFDA(1, alpha=0.1), radius=0.5),
    ):
        with pytest.raises(ValueError, match=r"n_components must be at least 2 with radius=0\.5"):
            method.fit(X, y)
    grid = {"n_rounds": [1]}  # without the choice of no refinement
    search = DiscriminantSearchCV(NeighborhoodRefinement(radius=0.5), grid, n_components=[1], cv=2)
    with pytest.raises(ValueError, match=r"n_components must be at least 2 with radius=0\.5"):
        search.fit(X, y)
    # The cosine of single numbers is 1 or -1, so there is nothing to refine.
    with pytest.warns(UserWarning, match="Nothing was refined"):
        assert NeighborhoodRefinement(frozen, n_components=1, radius=0).fit(X, y).radius_ == 0.0


@pytest.mark.parametrize("value", [-1, -1e-9, 1e10, np.nan, -np.inf, "1", True])
def test_invalid_radius_is_named(value):
    X, y = digits(60)
    message = r"radius must be a number from 0 to 1e\+06, \"auto\", None or inf, got"
    with pytest.raises((ValueError, TypeError), match=message):
        NeighborhoodRefinement(PCA(2), radius=value).fit(X, y)


def test_bad_input_has_a_clear_error():
    X, y = digits(60)
    with pytest.raises(ValueError, match="objective must be one of 'nearest', 'class', got 'all'"):
        NeighborhoodRefinement(PCA(2), objective="all").fit(X, y)
    for radius in (0, 1):
        refine = NeighborhoodRefinement(LFDA(2, alpha=0.1), radius=radius)
        plain = SimpleNamespace(components_=np.eye(4), mean_=np.zeros(4))
        for start in (LFDA(2, alpha=0.1), plain):
            with pytest.raises(ValueError, match="All samples of X are identical"):
                refine.set_params(estimator=start).fit(np.ones((60, 4)), y)
        blind = SimpleNamespace(components_=np.eye(65)[64:], mean_=np.zeros(65))
        with pytest.raises(ValueError, match="the first map maps all samples to 0"):
            refine.set_params(estimator=blind).fit(np.hstack([X, np.zeros((60, 1))]), y)


def test_sample_that_maps_to_0_stays_0():
    X, y = digits()
    start = SimpleNamespace(components_=np.eye(64)[10:20], mean_=X[7])
    with np.errstate(all="raise"):
        model = NeighborhoodRefinement(start, radius=0, temperature=2).fit(X, y)
        Z = model.transform(X[5:9])
    assert model.n_iter_ > 5
    assert np.isfinite(model.components_).all()
    np.testing.assert_array_equal(Z[2], 0.0)
    np.testing.assert_allclose(np.linalg.norm(Z[[0, 1, 3]], axis=1), 1.0)
    k = NeighborhoodRefinement(start, radius=1, temperature=2).fit(X, y)
    np.testing.assert_array_equal(k.transform(X[7:8])[0], np.eye(11)[10])


def test_weights_are_multiplicities():
    """Weight 2 is a sample that occurs twice where all samples are candidates."""
    X, y = digits(120)
    times = np.random.default_rng(0).integers(1, 3, len(X))
    start = FrozenEstimator(PCA(4).fit(X))
    options = {"n_rounds": 1, "max_iter": 300, "n_candidates": 500, "n_own_neighbors": 500}
    options |= {"radius": 1, "penalty": 20.0, "tol": 1e-10}
    weighted = NeighborhoodRefinement(start, **options).fit(X, y, times)
    # The constant and the centre are those of the repeated samples; the loss is not, because a
    # copy is a candidate of its original.
    repeated = NeighborhoodRefinement(start, **options).fit(
        np.repeat(X, times, axis=0), y.repeat(times)
    )
    assert weighted.radius_ == pytest.approx(repeated.radius_, rel=1e-12)
    equal = NeighborhoodRefinement(start, **options).fit(X, y, np.full(len(X), 3.0))
    plain = NeighborhoodRefinement(start, **options).fit(X, y)
    np.testing.assert_allclose(equal.components_, plain.components_, atol=1e-7)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weight_0_leaves_a_sample_out_of_every_sum(objective):
    X, y = digits(150)
    rng = np.random.default_rng(0)
    X_all, y_all = np.r_[X, 1e3 * rng.normal(size=(2, 64))], np.r_[y, 0, 1]
    # It stays in the neighbour lists, which have room for all here.
    refine = NeighborhoodRefinement(PCA(4), radius=1, objective=objective, n_candidates=200)
    refine.set_params(
        estimator=SimpleNamespace(components_=np.eye(64)[20:26], mean_=X.mean(axis=0))
    )
    weighted = refine.fit(X_all, y_all, np.r_[np.ones(len(X)), 0.0, 0.0])
    Z, k = weighted.transform(X), weighted.radius_
    np.testing.assert_allclose(Z, refine.fit(X, y).transform(X), atol=1e-9)
    assert refine.radius_ == pytest.approx(k, rel=1e-12)


@pytest.mark.parametrize("radius", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_samples_have_the_map_of_dense_ones(radius, weighted):
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = rng.poisson(0.3 + 0.8 * (rng.random((3, 30)) < 0.2)[y]).astype(float)
    X[:, :2] += 100.0 + rng.normal(size=(150, 2))  # columns without zeros, far from 0
    weights = rng.uniform(0.5, 2.0, 150) if weighted else None
    method = NeighborhoodRefinement(MPDA(5, n_neighbors=5, alpha=0.5), radius=radius)
    expected = method.fit(X, y, weights).transform(X)
    k = method.radius_
    found = method.fit(csr_array(X), y, weights)
    np.testing.assert_allclose(found.transform(csr_array(X)), expected, atol=1e-5)
    np.testing.assert_allclose(found.transform(X), expected, atol=1e-5)
    assert found.radius_ == pytest.approx(k, rel=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("radius", [0, 1])
def test_array_libraries_give_the_same_map(library, dtype, radius):
    X, y = digits(400)
    X = X.astype(dtype)
    # Few steps: with radius 0 the loss has kinks near samples that are mapped to 0.
    options = {"max_iter": 6, "n_rounds": 1, "radius": radius}
    options |= {"objective": "class", "temperature": 2.0}
    expected = NeighborhoodRefinement(LFDA(5, alpha=0.1), **options).fit(X, y)
    model = NeighborhoodRefinement(LFDA(5, alpha=0.1), **options).fit(library(X), y)
    assert library.holds(model.components_, dtype)
    Z = model.transform(library(X))
    assert library.holds(Z, dtype)
    tolerance = 1e-5 if dtype == "float64" else 2e-2
    np.testing.assert_allclose(to_host(Z), expected.transform(X), atol=tolerance)
    losses = model.loss_curve_[0][-1], expected.loss_curve_[0][-1]
    assert losses[0] == pytest.approx(losses[1], rel=1e-8 if dtype == "float64" else 1e-3)
    assert model.radius_ == pytest.approx(expected.radius_, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_converged_map_does_not_depend_on_blocks_and_threads(monkeypatch, n_jobs):
    X, y = digits(150)
    options = {"n_rounds": 2, "max_iter": 2000, "tol": 1e-9, "radius": 1, "temperature": 2}
    expected = NeighborhoodRefinement(LFDA(4, alpha=0.1), n_jobs=1, **options).fit(X, y)
    monkeypatch.setattr("mpda.refinement.loss._BLOCK_ENTRIES", 300)
    model = NeighborhoodRefinement(LFDA(4, alpha=0.1), n_jobs=n_jobs, **options).fit(X, y)
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-5)


def test_refinement_lowers_the_loss_in_every_round():
    X, y = digits()
    for radius, objective in itertools.product((0.0, 1.0), OBJECTIVES):
        model = NeighborhoodRefinement(MPDA(6), radius=radius, objective=objective).fit(X, y)
        for curve in model.loss_curve_:
            assert curve[-1] < curve[0]
            assert (np.diff(curve) <= 0.0).all()


def test_whole_class_objective_gathers_classes():
    """The mean squared distance to own samples, relative to all, is smaller than with "nearest"."""
    X, y = digits(600)
    spreads = {}
    for objective in OBJECTIVES:
        method = NeighborhoodRefinement(MPDA(10), radius=1, temperature=2, objective=objective)
        Z = method.set_params(penalty=10.0).fit(X[::2], y[::2]).transform(X[1::2])
        squares = 2.0 - 2.0 * Z @ Z.T
        own = y[1::2, None] == y[None, 1::2]
        spreads[objective] = squares[own].mean() / squares.mean()
    assert spreads["class"] < 0.95 * spreads["nearest"]


# Starts


def test_any_object_with_a_map_is_a_frozen_start():
    X, y = digits()
    fitted = IncrementalPCA(64).fit(X)  # of full rank, and in no list
    plain = SimpleNamespace(components_=fitted.components_, mean_=fitted.mean_)
    models = [
        NeighborhoodRefinement(start, radius=0, temperature=2, n_rounds=2).fit(X, y)
        for start in (FrozenEstimator(fitted), plain, FrozenEstimator(plain))
    ]
    for model in models:
        assert model.components_.shape == (64, 64)
        assert model.n_iter_ > 0
        np.testing.assert_allclose(model.mean_, fitted.mean_)
        np.testing.assert_array_equal(model.components_, models[0].components_)
    search = DiscriminantSearchCV(
        NeighborhoodRefinement(plain),
        {"radius": [0.0], "n_rounds": [0, 1]},
        n_components=[64],
        cv=2,
    )
    assert np.isfinite(search.fit(X, y).best_score_)
    with pytest.raises(TypeError, match="estimator must be a linear method"):
        NeighborhoodRefinement(IncrementalPCA(3)).fit(X, y)  # not frozen


@pytest.mark.parametrize(
    ("components", "mean", "message"),
    [
        (np.eye(3), np.zeros(4), r"got \(3, 3\) and \(4,\) of SimpleNamespace"),
        (np.ones(3), np.zeros(3), r"got \(3,\) and \(3,\)"),
        (np.full((2, 3), np.nan), np.zeros(3), "must be finite"),
        (np.zeros((2, 3)), np.zeros(3), "not all 0"),
        (
            np.eye(5),
            np.zeros(5),
            "X has 3 features, but the frozen SimpleNamespace was fitted to 5",
        ),
    ],
)
def test_start_with_wrong_shapes_is_refused(components, mean, message):
    X, y = digits(60)
    start = SimpleNamespace(components_=components, mean_=mean)
    with pytest.raises(ValueError, match=message):
        NeighborhoodRefinement(start).fit(X[:, 20:23], y)


def test_centre_of_the_sphere():
    X, y = digits()
    mean = X.mean(axis=0)
    for start in (PCA(3), TruncatedSVD(3), LFDA(3, alpha=0.1), None):
        model = NeighborhoodRefinement(start, radius=1, n_rounds=1).fit(X, y)
        np.testing.assert_allclose(model.mean_, mean, atol=1e-12)
    # A frozen model keeps its own, for example that of a larger database.
    frozen = FrozenEstimator(PCA(3).fit(X[:50]))
    model = NeighborhoodRefinement(frozen, radius=1, n_rounds=1).fit(X, y)
    np.testing.assert_allclose(model.mean_, frozen.estimator.mean_)
    no_mean = FrozenEstimator(TruncatedSVD(3).fit(X))
    model = NeighborhoodRefinement(no_mean, radius=1, n_rounds=1).fit(X, y)
    np.testing.assert_array_equal(model.mean_, 0.0)


def test_refinement_of_a_refinement_starts_from_its_linear_part():
    X, y = digits()
    first = NeighborhoodRefinement(MPDA(6), radius=1).fit(X, y)
    again = NeighborhoodRefinement(FrozenEstimator(first), radius=1, n_rounds=0).fit(X, y)
    np.testing.assert_allclose(again.components_, first.components_)
    np.testing.assert_allclose(again.transform(X).shape, (300, 6))


def test_methods_without_a_meaning_on_a_sphere_say_why():
    X, y = digits()
    model = NeighborhoodRefinement(MPDA(4), radius=1).fit(X, y)
    with pytest.raises(TypeError, match=r"does not exist on a sphere .*affine_map.*radius=None"):
        model.mahalanobis_matrix()
    cosine = NeighborhoodRefinement(MPDA(4), radius=0).fit(X, y)
    with pytest.raises(TypeError, match=r"does not exist with radius=0"):
        cosine.inverse_transform(X[:, :4])


def test_inverse_transform_finds_samples_with_these_points():
    X, y = digits()
    for start in (MPDA(4), make_pipeline(StandardScaler(), MPDA(4))):
        model = NeighborhoodRefinement(start, radius=1).fit(X, y)
        Z = model.transform(X)
        np.testing.assert_allclose(model.transform(model.inverse_transform(Z)), Z, atol=1e-9)
        means = np.array([Z[y == label].mean(axis=0) for label in range(10)])
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        found = model.transform(model.inverse_transform(means))
        np.testing.assert_allclose(found, means / lengths, atol=1e-9)
    with pytest.raises(ValueError, match="last column of X must be positive"):
        model.inverse_transform(-Z)
    with pytest.raises(ValueError, match="X has 3 columns, but NeighborhoodRefinement maps to 4"):
        model.inverse_transform(Z[:, :3])


# Search, files, pictures


@pytest.mark.parametrize("radius", [None, 0.0, 1.0])
def test_search_scores_are_those_of_a_fit(radius):
    X, y = digits()
    X = X + 50.0  # a mean that matters on a sphere
    method = NeighborhoodRefinement(MPDA(alpha=0.5), n_rounds=1, class_weight="balanced")
    folds = list(StratifiedKFold(3).split(X, y))
    grid = {"radius": [radius], "n_rounds": [0, 2], "objective": ["class"]}
    search = DiscriminantSearchCV(method, grid, n_components=[3, 6], cv=folds).fit(X, y)
    results = search.cv_results_
    for row, parameters in enumerate(results["params"]):
        model = clone(method).set_params(**parameters)
        for number, (train, test) in enumerate(folds):
            Z = model.fit(X[train], y[train]).transform(X[train])
            assert Z.shape[1] == parameters["n_components"]
            nearest = KNeighborsClassifier(1).fit(Z, y[train])
            expected = nearest.score(model.transform(X[test]), y[test])
            score = results[f"split{number}_test_score"][row]
            assert score == pytest.approx(expected, abs=0.011)
    assert search.transform(X).shape == (300, search.best_params_["n_components"])


def test_search_over_the_radius_compares_equal_numbers_of_outputs():
    X, y = digits()
    radii = [np.inf, 0, 0.5, 1, 2]
    method = NeighborhoodRefinement(LFDA(alpha=0.1), n_rounds=1)
    paths = list(method.fit_many(X, y, [{"radius": radius} for radius in radii], [5]))
    assert sorted(path.index for path in paths) == [0, 1, 2, 3, 4]
    for path in paths:
        assert path.first == path.n_outputs == 5
        assert len(path.components) == (5 if radii[path.index] in (0, np.inf) else 4)
        model = clone(method).set_params(radius=radii[path.index], n_components=5).fit(X, y)
        scale = np.abs(model.components_).max()
        rows = np.sign((path.components * model.components_).sum(axis=1))[:, None]
        np.testing.assert_allclose(rows * path.components, model.components_, atol=1e-4 * scale)
        assert path.radius == (None if model.radius_ is None else pytest.approx(model.radius_))
    search = DiscriminantSearchCV(method, {"radius": radii}, n_components=[1, 5], cv=2).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    is_scored = np.isfinite(scores)
    for parameters, scored in zip(search.cv_results_["params"], is_scored, strict=True):
        radius = parameters.get("radius")
        needs_two = radius is not None and 0 < radius < np.inf
        assert scored == (parameters["n_components"] == 5 or not needs_two)


@pytest.mark.parametrize("n_rounds", [0, 1])
@pytest.mark.parametrize("radius", [None, 1.0])
def test_search_of_a_refinement_of_a_refinement_on_a_sphere(radius, n_rounds):
    X, y = digits()
    inner = NeighborhoodRefinement(LFDA(alpha=0.1), n_rounds=1, radius=1)
    method = NeighborhoodRefinement(inner, n_rounds=n_rounds, radius=radius)
    (path,) = method.fit_many(X, y, [{}], [4])
    assert path.n_outputs == path.first == 4
    fitted = method.set_params(n_components=4).fit(X, y)
    assert fitted.transform(X).shape == (300, 4)
    assert (path.radius is None) == (fitted.radius_ is None) == (radius is None)
    found, expected = np.abs(path.components), np.abs(fitted.components_)
    np.testing.assert_allclose(found, expected, atol=1e-4 * expected.max())


def test_model_file_and_files_from_before(tmp_path):
    X, y = digits()
    model = NeighborhoodRefinement(MPDA(4), radius=1, objective="class").fit(X, y)
    save(model, tmp_path / "m.mpda")
    loaded = load(tmp_path / "m.mpda")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert (loaded.radius, loaded.objective) == (1, "class")
    assert loaded.radius_ == model.radius_
    old = NeighborhoodRefinement(MPDA(4), radius=None).fit(X, y)
    expected = old.transform(X)
    del old.radius, old.objective, old.radius_
    save_without_new_attributes = vars(old)
    assert "radius" not in save_without_new_attributes
    save(old, tmp_path / "old.mpda")
    loaded = load(tmp_path / "old.mpda")
    np.testing.assert_array_equal(loaded.transform(X), expected)
    assert loaded.radius_ is None


def test_rows_without_a_class_keep_their_part_in_the_first_map():
    X, y = digits(300)
    is_known = y < 5
    marked = np.where(is_known, y, -1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y))
    whitening = WithinClassWhitening(8)
    for options in ({}, {"sample_weight": weights}):
        start = clone(whitening).set_params(unlabeled=-1)
        model = NeighborhoodRefinement(start, n_rounds=0).fit(X, marked, **options)
        first = start.fit(X, marked, **options)
        np.testing.assert_allclose(model.mean_, first.mean_, atol=1e-12)
        refined = NeighborhoodRefinement(start, radius=0, n_rounds=1).fit(X, marked, **options)
        frozen = NeighborhoodRefinement(FrozenEstimator(first), radius=0, n_rounds=1)
        known = {name: values[is_known] for name, values in options.items()}
        frozen.fit(X[is_known], y[is_known], **known)
        np.testing.assert_allclose(refined.transform(X), frozen.transform(X), atol=1e-6)


def test_curve_of_a_map_to_a_sphere_is_that_of_smaller_maps():
    X, y = digits(300)
    train, test = slice(0, 200), slice(200, 300)
    data = X[train], y[train], X[test], y[test]
    curve = classification_curve(WithinClassWhitening(6).fit(X[train], y[train]), *data)
    assert curve.shape == (6,)
    for r in (2, 4, 6):
        small = WithinClassWhitening(r).fit(X[train], y[train])
        knn = KNeighborsClassifier(1).fit(small.transform(X[train]), y[train])
        assert curve[r - 1] == pytest.approx(1 - knn.score(small.transform(X[test]), y[test]))
    plain = LFDA(4, alpha=0.1).fit(X[train], y[train])
    knn = KNeighborsClassifier(1).fit(plain.transform(X[train]), y[train])
    assert classification_curve(plain, *data)[-1] == pytest.approx(
        1 - knn.score(plain.transform(X[test]), y[test])
    )
    refined = NeighborhoodRefinement(LFDA(4, alpha=0.1), n_rounds=1).fit(X[train], y[train])
    curve = classification_curve(refined, *data)
    assert curve.shape == (4,)
    assert np.isnan(curve[0])
    knn = KNeighborsClassifier(1).fit(refined.transform(X[train]), y[train])
    assert curve[-1] == pytest.approx(1 - knn.score(refined.transform(X[test]), y[test]))


@pytest.mark.parametrize("mean", [None, "no numbers"])
def test_start_with_other_attributes_is_named(mean):
    X, y = digits()
    start = SimpleNamespace(components_=np.eye(64)[:4].tolist(), mean_=X.mean(axis=0).tolist())
    assert NeighborhoodRefinement(start, n_rounds=1).fit(X, y).components_.shape == (4, 64)
    start.mean_ = mean
    with pytest.raises((TypeError, ValueError), match=r"components_ .*and mean_ of"):
        NeighborhoodRefinement(start).fit(X, y)


def test_pictures_show_the_map_before_the_projection():
    pytest.importorskip("matplotlib", reason="needs mpda[plot]")
    from mpda.plotting import EmbeddingDisplay, plot_components

    X, y = digits()
    pipeline = make_pipeline(StandardScaler(), NeighborhoodRefinement(MPDA(3), radius=1))
    model = make_pipeline(*pipeline.fit(X, y), KNeighborsClassifier(1)).fit(X, y)
    display = EmbeddingDisplay.from_estimator(model, X, y)
    expected = model[-2].transform_linear(model[0].transform(X))
    np.testing.assert_allclose(display.points, expected)
    assert display.component_names == ["NeighborhoodRefinement 1", "NeighborhoodRefinement 2"]
    search = DiscriminantSearchCV(
        NeighborhoodRefinement(MPDA()), {"radius": [0.0], "n_rounds": [1]}, n_components=[2], cv=2
    ).fit(X, y)
    display = EmbeddingDisplay.from_estimator(search, X, y)
    np.testing.assert_allclose(display.points, search.best_estimator_.transform_linear(X))
    assert len(plot_components(model, X=X).axes) == 2
    whitening = WithinClassWhitening(3).fit(X, y)
    display = EmbeddingDisplay.from_estimator(whitening, X, y)
    linear = (X - whitening.mean_) @ whitening.components_.T
    np.testing.assert_allclose(display.points, linear[:, :2], rtol=1e-6, atol=1e-8)


def test_data_frames_keep_their_names():
    X, y = digits(200)
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    model = NeighborhoodRefinement(MPDA(3), radius=1).set_output(transform="pandas")
    Z = model.fit(frame, y).transform(frame)
    assert list(Z.columns) == [f"neighborhoodrefinement{i}" for i in range(3)]
    assert model.feature_names_in_.tolist() == list(frame)


def test_core_takes_samples_that_are_not_centred():
    """Sparse samples are not centred: the centre is subtracted from products."""
    X, y, start = problem(n=90)
    settings = RefinementSettings(5, 20, 100.0, 2.0, 2, 50, 1e-9, radius=1.0)
    expected = refine_map(X, y, np.arange(90), start, settings)
    shift = np.random.default_rng(0).normal(size=6)
    shifted = refine_map(X + shift, y, np.arange(90), start, settings, centre=shift)
    assert shifted.radius == pytest.approx(expected.radius, rel=1e-12)
    np.testing.assert_allclose(shifted.components, expected.components, atol=1e-6)
