"""Refinement of a map: the loss against its definition, laws, and the estimator."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.manifold import Isomap
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import (
    LFDA,
    MPDA,
    TSIMR,
    ManifoldPartition,
    NeighborhoodRefinement,
    load,
    save,
)
from mpda._lib.arrays import to_host
from mpda.exceptions import SmallClassWarning
from mpda.io import affine_map
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.grid import build_grid
from mpda.refinement.candidates import merge_candidates, search_candidates
from mpda.refinement.loss import CandidateSets, RefinementLoss
from mpda.refinement.optimize import RefinementSettings, refine_map


def slow(*values):
    """Mark parameters that repeat a law in a second or more."""
    return pytest.param(*values, marks=pytest.mark.slow)


def problem(n=60, d=6, r=3, seed=0):
    """Return samples of four classes, one of them with a single sample, and a start."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    y[-1] = 3
    X = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(4, d))[y]
    return X - X.mean(axis=0), y, rng.normal(size=(r, d))


def find_sets_slowly(Z, y, queries, n_own, n_all):
    """Return the candidate sets of the definition."""
    sets = []
    for i in queries:
        order = [j for j in np.argsort(((Z - Z[i]) ** 2).sum(axis=1), kind="stable") if j != i]
        sets.append({*order[:n_all], *[j for j in order if y[j] == y[i]][:n_own]})
    return sets


def evaluate_slowly(T, X, y, queries, sets, start, temperature, penalty):
    """Return the loss by its definition."""
    total = 0.0
    for i, candidates in zip(queries, sets, strict=True):
        terms = {j: np.exp(-((T @ (X[i] - X[j])) ** 2).sum() / temperature) for j in candidates}
        own = sum(term for j, term in terms.items() if y[j] == y[i])
        if any(y[j] == y[i] for j in candidates):
            total += np.log(sum(terms.values())) - np.log(own)
    n = len(queries)
    return total / n + penalty / n * ((T - start) ** 2).sum() / (start**2).sum()


def make_loss(X, y, start, queries, n_own=3, n_all=8, temperature=2.0, penalty=30.0):
    Z = X @ start.T
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    groups = [queries[y[queries] == label] for label in np.unique(y)]
    rows = np.concatenate(groups)
    candidates = merge_candidates(rows, search_candidates(Z, members, groups, n_own, n_all))
    is_own = (y[candidates] == y[rows][:, None]) & (candidates != rows[:, None])
    return RefinementLoss(X, CandidateSets(rows, candidates, is_own), start, temperature, penalty)


@pytest.mark.parametrize("n_queries", [60, 25])
def test_loss_and_gradient_are_those_of_the_definition(n_queries):
    X, y, start = problem()
    queries = np.sort(np.random.default_rng(1).choice(60, n_queries, replace=False))
    loss = make_loss(X, y, start, queries)
    rows = loss.sets.queries
    sets = find_sets_slowly(X @ start.T, y, rows, 3, 8)
    found = [set(row) - {i} for i, row in zip(rows, loss.sets.candidates, strict=True)]
    assert found == sets
    T = start + 0.3 * np.random.default_rng(2).normal(size=start.shape)
    value, gradient = loss(T)
    assert value == pytest.approx(evaluate_slowly(T, X, y, rows, sets, start, 2.0, 30.0), rel=1e-12)
    slow = approx_fprime(T.ravel(), lambda v: loss(v.reshape(T.shape))[0], 1e-6)
    np.testing.assert_allclose(gradient.ravel(), slow, atol=1e-6 * np.abs(slow).max())


def test_candidates_of_many_samples_are_those_of_few(monkeypatch):
    Z = np.random.default_rng(0).normal(size=(300, 7))
    members = [np.arange(0, 300, 3), np.setdiff1d(np.arange(300), np.arange(0, 300, 3))]
    queries = [each[:40] for each in members]
    sets = []
    for limit in (1000, 10):  # all products, and the search in single precision
        monkeypatch.setattr("mpda.refinement.candidates._DIRECT_SEARCH_SIZE", limit)
        sets.append(np.sort(search_candidates(Z, members, queries, 4, 12), axis=1))
    assert np.array_equal(*sets)


def test_merged_candidates_occur_once_and_never_the_query():
    queries = np.array([0, 5])
    merged = merge_candidates(queries, np.array([[1, 1, 0], [2, 5, 3]]), np.array([[4, 1], [2, 5]]))
    assert merged.tolist() == [[1, 4], [2, 3]]
    assert merge_candidates(queries, np.array([[1, 2], [5, 5]])).tolist() == [[1, 2], [5, 5]]


def refine(X, y, start, **options):
    settings = {"n_own_neighbors": 5, "n_candidates": 20, "penalty": 100.0, "temperature": 2.0}
    settings |= {"n_rounds": 3, "max_iter": 5, "tol": 1e-5} | options
    return refine_map(X, y, np.arange(len(y)), start, RefinementSettings(**settings))


def test_loss_never_increases_in_a_round():
    result = refine(*problem(n=120))
    assert len(result.losses) == 3
    for curve in result.losses:
        assert (np.diff(curve) <= 0.0).all()


def test_infinite_penalty_returns_the_start():
    X, y, start = problem()
    result = refine(X, y, start, penalty=1e12)
    np.testing.assert_allclose(result.components, start, rtol=1e-6)


@pytest.mark.parametrize("n", [40, 300])
def test_default_penalty_is_a_tenth_of_the_number_of_coefficients(n):
    X, y = load_digits(return_X_y=True)
    X, y = X[:n], y[:n] % 2
    X = np.column_stack([X, np.ones((n, 30))])  # constant features do not count
    penalty = 0.1 * 5 * min(np.count_nonzero(np.ptp(X, axis=0)), n - 1)
    start = FrozenEstimator(PCA(5).fit(X))
    fits = [
        NeighborhoodRefinement(start, radius=None, penalty=p).fit(X, y)
        for p in (None, penalty, 2 * penalty)
    ]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)
    assert np.abs(fits[0].components_ - fits[2].components_).max() > 1e-6


def test_samples_without_partners_leave_the_start():
    X, _, start = problem()
    assert refine(X, np.arange(len(X)), start).components is start
    copies = np.repeat(X[:20], 3, axis=0)  # every nearest sample of the class is a copy
    assert refine(copies, np.repeat(np.arange(20), 3), start).components is start


@pytest.mark.parametrize(
    "change",
    ["translation", "rotation", "scale", "order"],
)
def test_result_does_not_depend_on_the_coordinates(change):
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] + 0.01 * rng.normal(size=(300, 64)), y[:300]
    model = NeighborhoodRefinement(MPDA(5, alpha=0.5)).fit(X, y)
    Z = model.transform(X)
    if change == "translation":
        other = X + rng.normal(size=64)
    elif change == "rotation":
        other = X @ np.linalg.qr(rng.normal(size=(64, 64)))[0]
    else:
        other = X * (1e200 if change == "scale" else 1.0)
    order = rng.permutation(300) if change == "order" else np.arange(300)
    again = NeighborhoodRefinement(MPDA(5, alpha=0.5)).fit(other[order], y[order])
    Z_again = np.empty_like(Z)
    Z_again[order] = again.transform(other[order])
    signs = np.sign((Z * Z_again).sum(axis=0))
    ratio = np.linalg.norm(Z_again) / np.linalg.norm(Z)
    np.testing.assert_allclose(Z_again * signs / ratio, Z, atol=1e-4 * np.abs(Z).max())


def test_refinement_lowers_the_error_on_digits():
    X, y = load_digits(return_X_y=True)
    errors = np.zeros(2)
    for seed in range(3):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=0.25, random_state=seed, stratify=y
        )
        start = MPDA(15).fit(X_train, y_train)
        refined = NeighborhoodRefinement(FrozenEstimator(start)).fit(X_train, y_train)
        for i, model in enumerate((start, refined)):
            knn = KNeighborsClassifier(1).fit(model.transform(X_train), y_train)
            errors[i] += 1.0 - knn.score(model.transform(X_test), y_test)
    assert errors[1] < errors[0]


@pytest.mark.parametrize("dtype", ["float64", slow("float32")])
def test_array_libraries_give_the_same_map(library, dtype):
    X, y = load_digits(return_X_y=True)
    X = (X[:400] + 0.01 * np.random.default_rng(0).normal(size=(400, 64))).astype(dtype)
    y = y[:400]
    options = {"max_iter": 100, "n_rounds": 2, "tol": 1e-9 if dtype == "float64" else 1e-5}
    expected = NeighborhoodRefinement(LFDA(5, alpha=0.1), **options).fit(X, y)
    model = NeighborhoodRefinement(LFDA(5, alpha=0.1), **options).fit(library(X), y)
    assert library.holds(model.components_, dtype)
    assert library.holds(model.transform(library(X)), dtype)
    components = to_host(model.components_)
    tolerance = 1e-5 if dtype == "float64" else 1e-2
    scale = np.abs(expected.components_).max()
    np.testing.assert_allclose(components, expected.components_, atol=tolerance * scale)
    losses = [curve[-1] for curve in model.loss_curve_]
    reference = [curve[-1] for curve in expected.loss_curve_]
    np.testing.assert_allclose(losses, reference, rtol=1e-8 if dtype == "float64" else 1e-3)


def test_pipeline_keeps_its_earlier_steps():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] * np.linspace(0.1, 5, 64), y[:400]
    pipeline = make_pipeline(StandardScaler(), PCA(20), LFDA(6, alpha=0.1))
    model = NeighborhoodRefinement(pipeline, radius=None).fit(X, y)
    assert model.components_.shape == (6, 20)
    assert model.n_features_in_ == 64
    features = model.estimator_[:-1].transform(X)
    start = FrozenEstimator(model.estimator_[-1])
    alone = NeighborhoodRefinement(start, radius=None).fit(features, y)
    np.testing.assert_allclose(model.components_, alone.components_, rtol=1e-6, atol=1e-9)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, alone.transform(features), atol=1e-8)
    np.testing.assert_allclose(model.transform(model.inverse_transform(Z)), Z, atol=1e-8)


def test_search_has_three_stages():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    grid = {"estimator__alpha": [0.1, 1.0], "penalty": [100.0, 300.0], "temperature": [2.0]}
    search = DiscriminantSearchCV(NeighborhoodRefinement(), grid, n_components=16, cv=3).fit(X, y)
    results = search.cv_results_
    is_refined = np.array(["penalty" in point for point in results["params"]])
    # First every start without refinement, then the best start without it and with each penalty.
    assert not is_refined[: 2 * 16].any()
    assert np.array_equal(np.bincount(results["stage"])[1:3], [2 * 16, 3])
    starts = {point["estimator__alpha"] for point in results["params"][32:]}
    assert len(starts) == 1
    numbers = {point["n_components"] for point in results["params"][32:35]}
    assert len(numbers) == 1
    # Then this start and the best penalty with a few numbers of components.
    last = results["params"][35:]
    assert 1 < len({point["n_components"] for point in last}) <= 4
    penalties = [point.get("penalty") for point in last]
    best = results["params"][32:35][np.argmax(results["mean_test_score"][32:35])]
    assert penalties.count(None) == penalties.count(best["penalty"]) == len(last) / 2
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.best_index_ >= 35
    assert search.best_estimator_.n_components == search.best_params_["n_components"]
    assert search.predict(X[:5]).shape == (5,)
    row = int(np.flatnonzero(is_refined)[0])
    point = results["params"][row]
    # The second stage has folds of its own.
    folds = StratifiedKFold(3, shuffle=True, random_state=1).split(X, y)
    for number, (train, test) in enumerate(folds):
        model = NeighborhoodRefinement(MPDA(), **{k: v for k, v in point.items() if "__" not in k})
        model.set_params(estimator__alpha=point["estimator__alpha"]).fit(X[train], y[train])
        knn = KNeighborsClassifier(1).fit(model.transform(X[train]), y[train])
        expected = knn.score(model.transform(X[test]), y[test])
        assert results[f"split{number}_test_score"][row] == pytest.approx(expected, abs=0.013)


def test_search_ends_with_the_start_where_no_refinement_is_better():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    # Many steps at a very low temperature and without a penalty overfit.
    grid = {"penalty": [0.0], "temperature": [1e-3]}
    method = NeighborhoodRefinement(MPDA(alpha=1.0), n_rounds=2, max_iter=100)
    search = DiscriminantSearchCV(method, grid, n_components=(10,), cv=3).fit(X, y)
    assert search.cv_results_["stage"].tolist() == [1, 2, 2]
    assert search.best_params_ == {"n_rounds": 0, "radius": None, "n_components": 10}
    assert search.best_index_ == 1
    shares = []
    search.set_params(verbose=shares.append).fit(X, y)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    "start",
    [PCA(), slow(TruncatedSVD()), slow(LinearDiscriminantAnalysis()), LFDA(alpha=0.1)],
    ids=lambda e: type(e).__name__,
)
def test_search_from_other_starts(start):
    X, y = load_digits(return_X_y=True)
    X, y = X[:250], y[:250]
    pipeline = make_pipeline(StandardScaler(), NeighborhoodRefinement(start))
    grid = {"penalty": [300.0]}
    search = DiscriminantSearchCV(pipeline, grid, n_components=8, cv=2).fit(X, y)
    name = "neighborhoodrefinement__n_components"
    assert search.transform(X).shape == (250, search.best_params_[name])


@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
def test_search_from_a_truncated_svd_has_all_components(algorithm):
    X, y = load_digits(return_X_y=True)
    refine = NeighborhoodRefinement(TruncatedSVD(algorithm=algorithm), n_rounds=1)
    grid, options = {"penalty": [300.0]}, {"cv": 2, "refit": False}
    search = DiscriminantSearchCV(refine, grid, **options).fit(X[:100, 20:28], y[:100])
    numbers = search.cv_results_["param_n_components"]
    assert max(numbers) == (7 if algorithm == "arpack" else 8)
    with pytest.raises(ValueError, match=r"No grid point has any of n_components=\[9\]"):
        DiscriminantSearchCV(refine, grid, n_components=[9], **options).fit(X[:100, 20:28], y[:100])


def test_search_from_a_frozen_method_cuts_no_neighbors(recwarn):
    X, y, _ = problem(n=61)
    start = FrozenEstimator(MPDA(2, n_neighbors=15).fit(X, y))
    refine = NeighborhoodRefinement(start, n_rounds=1)
    recwarn.clear()  # of the fit of the start
    DiscriminantSearchCV(refine, {"penalty": [10.0]}, cv=2, n_components=2, refit=False).fit(X, y)
    assert not [w for w in recwarn if issubclass(w.category, SmallClassWarning)]


def test_search_has_the_warnings_and_ridges_of_the_start():
    X, y, _ = problem(n=61)
    X, y = X[y < 2], y[y < 2]
    X, y = np.vstack([X[y == 0], X[y == 1][:6]]), np.repeat([0, 1], [np.sum(y == 0), 6])
    refine = NeighborhoodRefinement(MPDA(alpha=7.0))
    grid = {"estimator__n_neighbors": [10], "penalty": [10.0]}
    with pytest.warns(SmallClassWarning, match=r"class 1 of fold 0 \(3 in all\)"):
        DiscriminantSearchCV(refine, grid, cv=2, n_components=2, refit=False).fit(X, y)
    assert build_grid(refine, {"estimator__alpha": [0.1, 2.0]}).ridges.tolist() == [0.1, 2.0]
    assert build_grid(refine, {"penalty": [0.1, 2.0]}).ridges.tolist() == [7.0, 7.0]


def test_ranks_are_those_of_the_last_stage_first():
    X, y = load_digits(return_X_y=True)
    grid = {"estimator__alpha": [0.1, 1.0], "penalty": [100.0]}
    refine = NeighborhoodRefinement(MPDA(n_neighbors=5))
    search = DiscriminantSearchCV(refine, grid, n_components=[2, 4], cv=2)
    table = search.fit(X[:300], y[:300]).cv_results_
    ranks, stage = table["rank_test_score"], table["stage"]
    assert ranks[stage == stage.max()].min() == 1
    for earlier, later in itertools.pairwise(np.unique(stage)):
        assert ranks[stage == earlier].min() > ranks[stage == later].max()


def test_search_refuses_frozen_earlier_steps_and_a_fit_unfitted_searches():
    X, y = pairs_and_more()
    frozen = FrozenEstimator(make_pipeline(StandardScaler(), MPDA(2, n_neighbors=5)).fit(X, y))
    NeighborhoodRefinement(frozen).fit(X, y)
    with pytest.raises(TypeError, match="frozen ones too, before the refinement"):
        DiscriminantSearchCV(NeighborhoodRefinement(frozen), {"penalty": [1.0]}, cv=2).fit(X, y)
    inner = DiscriminantSearchCV(MPDA(n_neighbors=5), {"alpha": [0.1]}, cv=2)
    with pytest.raises(TypeError, match="estimator must not be a search"):
        NeighborhoodRefinement(inner).fit(X, y)
    NeighborhoodRefinement(FrozenEstimator(inner.fit(X, y))).fit(X, y)


def test_classes_without_partners_are_named_as_the_reason():
    X, _ = pairs_and_more()
    with pytest.warns(UserWarning, match="Classes need at least two samples that differ"):
        NeighborhoodRefinement(PCA(2)).fit(X[:10], np.arange(10))


@pytest.mark.parametrize(
    "start", [KernelPCA(3), make_pipeline(StandardScaler(), Isomap()), TSIMR(), ManifoldPartition()]
)
def test_start_that_is_not_linear_is_refused_before_its_fit(start, monkeypatch):
    X, y = pairs_and_more()
    for kind in (KernelPCA, Isomap, TSIMR, ManifoldPartition):
        monkeypatch.setattr(kind, "fit", None)
    with pytest.raises(TypeError, match="estimator must be a linear method"):
        NeighborhoodRefinement(start).fit(X, y)
    with pytest.raises(TypeError, match="estimator must be a linear method"):
        DiscriminantSearchCV(NeighborhoodRefinement(start), {"penalty": [1.0]}).fit(X, y)


def test_search_refuses_a_grid_of_starts():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="must not have 'estimator'"):
        DiscriminantSearchCV(NeighborhoodRefinement(PCA()), {"estimator": [LFDA()]}).fit(X, y)


def test_steps_of_nested_pipelines():
    X, y, _ = problem()
    y[-1] = 0
    partly = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    last = MPDA(2, n_neighbors=3, unlabeled=-1)
    flat = NeighborhoodRefinement(make_pipeline(StandardScaler(), PCA(5), last))
    nested = NeighborhoodRefinement(make_pipeline(StandardScaler(), make_pipeline(PCA(5), last)))
    flat, nested = flat.fit(X, partly), nested.set_params(n_components=2).fit(X, partly)
    np.testing.assert_allclose(nested.components_, flat.components_, rtol=1e-6)
    np.testing.assert_allclose(nested.transform(X), flat.transform(X), atol=1e-8)
    twice = NeighborhoodRefinement(NeighborhoodRefinement(last, radius=None), radius=None)
    twice.fit(X, partly)
    assert twice.loss_curve_[0][0] < 1.2 * twice.estimator_.loss_curve_[-1][-1]


def test_frozen_last_step_is_cut():
    X, y, _ = problem()
    y[-1] = 0
    scaled = StandardScaler().fit_transform(X)
    frozen = FrozenEstimator(MPDA(n_neighbors=3).fit(scaled, y))
    model = NeighborhoodRefinement(make_pipeline(StandardScaler(), frozen), n_components=2)
    assert model.fit(X, y).transform(X).shape == (len(X), 2)
    assert len(frozen.estimator.components_) > 2


@pytest.mark.parametrize("start", [LinearDiscriminantAnalysis(), MPDA(3, n_neighbors=3)])
def test_signs_do_not_depend_on_names_of_classes(start):
    X, y, _ = problem()
    y[-1] = 0
    model = NeighborhoodRefinement(start).fit(X, y)
    renamed = NeighborhoodRefinement(start).fit(X, np.array(["z", "a", "m"])[y])
    largest = np.abs(model.components_).argmax(axis=1)
    assert (np.take_along_axis(model.components_, largest[:, None], axis=1) > 0.0).all()
    np.testing.assert_allclose(renamed.components_, model.components_, rtol=1e-4, atol=1e-6)
    assert ((model.components_ * model.start_components_).sum(axis=1) > 0.0).all()


def test_only_copies_as_candidates_are_reported():
    X, y, _ = problem()
    X, y = np.repeat(X[:10], 45, axis=0), np.repeat(y[:10], 45)
    with pytest.warns(ConvergenceWarning, match="Nothing was refined"):
        NeighborhoodRefinement(PCA(2)).fit(X, y)


def test_largest_penalty_in_single_precision():
    X, y, _ = problem()
    model = NeighborhoodRefinement(PCA(2), penalty=1e200).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(model.components_, model.start_components_, rtol=1e-6)


def test_search_refuses_a_pipeline_inside():
    X, y = load_digits(return_X_y=True)
    inside = NeighborhoodRefinement(make_pipeline(StandardScaler(), MPDA()))
    with pytest.raises(TypeError, match="before the refinement"):
        DiscriminantSearchCV(inside, {"penalty": [300.0]}).fit(X[:200], y[:200])


CONVERGED = {"n_rounds": 2, "max_iter": 2000, "tol": 1e-9}


@pytest.fixture(scope="module")
def converged():
    X, y = pairs_and_more()
    return X, y, NeighborhoodRefinement(LFDA(3, alpha=0.1), n_jobs=1, **CONVERGED).fit(X, y)


@pytest.mark.parametrize(
    ("entries", "n_jobs"),
    [(300, 2), (10_000, 2), *(slow(1, 1), slow(1, 2), slow(300, 1), slow(10_000, 1))],
)
def test_converged_map_does_not_depend_on_blocks_and_threads(
    monkeypatch, converged, entries, n_jobs
):
    X, y, expected = converged
    monkeypatch.setattr("mpda.refinement.loss._BLOCK_ENTRIES", entries)
    monkeypatch.setattr("mpda.neighbors.product_search.BLOCK_ENTRIES", entries)
    model = NeighborhoodRefinement(LFDA(3, alpha=0.1), n_jobs=n_jobs, **CONVERGED).fit(X, y)
    size = np.abs(expected.components_).max()
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-5 * size)
    losses = [curve[-1] for curve in model.loss_curve_]
    reference = [curve[-1] for curve in expected.loss_curve_]
    np.testing.assert_allclose(losses, reference, rtol=1e-8)


def test_far_own_samples_keep_their_digits():
    # The nearest sample of the own class is 50,000 tau farther than one of another class: the
    # exponentials of the own class underflow.
    X = np.array([[0.0], [0.1], [1.0], [1.1], [500.0], [500.1]])
    y = np.array([0, 1, 1, 0, 0, 1])
    rows = np.arange(6)
    candidates = np.array([[j for j in rows if j != i] for i in rows])
    sets = CandidateSets(rows, candidates, y[candidates] == y[:, None])
    T = np.ones((1, 1))
    value, gradient = RefinementLoss(X, sets, T, 5.0, 0.0)(T)
    squares = (X - X.T) ** 2 / 5.0
    expected = 0.0
    for i in rows:
        others = [j for j in rows if j != i]
        own = [j for j in others if y[j] == y[i]]
        expected += logsumexp(-squares[i, others]) - logsumexp(-squares[i, own])
    assert value == pytest.approx(expected / 6, rel=1e-12)
    assert value > 1e3
    step = 1e-6
    slope = (RefinementLoss(X, sets, T, 5.0, 0.0)(T + step)[0] - value) / step
    assert gradient[0, 0] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("value", [object(), -3, np.nan])
@pytest.mark.parametrize(
    "name",
    [
        "n_components",
        "n_own_neighbors",
        "n_candidates",
        "penalty",
        "temperature",
        "n_rounds",
        "max_iter",
        "tol",
        "max_queries",
    ],
)
def test_invalid_parameters_are_named(name, value):
    X, y = pairs_and_more()
    for start in (LFDA(alpha=0.1), FrozenEstimator(LFDA(2, n_neighbors=3).fit(X, y))):
        with pytest.raises((ValueError, TypeError), match=name):
            NeighborhoodRefinement(start, **{name: value}).fit(X, y)
    with pytest.raises(
        ValueError, match="temperature must be a finite number of at least 1e-12, got"
    ):
        NeighborhoodRefinement(start, temperature=0.0).fit(X, y)


def pairs_and_more():
    """Return the samples of the three classes of the problem that have several."""
    X, y, _ = problem()
    return X[y < 3], y[y < 3]


def test_copies_of_all_samples_do_not_stop_the_refinement():
    X, y = pairs_and_more()
    single = NeighborhoodRefinement(LFDA(2, n_neighbors=3), penalty=30.0).fit(X, y)
    twice = NeighborhoodRefinement(LFDA(2, n_neighbors=3), penalty=30.0)
    twice.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert single.n_iter_ > 0
    assert twice.n_iter_ > 0
    assert np.abs(twice.components_ - twice.start_components_).max() > 1e-6


def test_samples_without_a_label_have_a_part_in_the_first_map_only():
    X, y = pairs_and_more()
    y[::4] = -1
    start = MPDA(2, n_neighbors=5, unlabeled=-1, unlabeled_weight=0.0)
    found = NeighborhoodRefinement(start).fit(X, y)
    supervised = NeighborhoodRefinement(MPDA(2, n_neighbors=5)).fit(X[y >= 0], y[y >= 0])
    scale = np.abs(supervised.components_).max()
    np.testing.assert_allclose(found.components_, supervised.components_, atol=1e-6 * scale)


def test_frozen_model_cannot_give_more_components_than_it_has():
    X, y = pairs_and_more()
    frozen = FrozenEstimator(LFDA(2, n_neighbors=3).fit(X, y))
    with pytest.raises(ValueError, match="first map has at most 2 components"):
        NeighborhoodRefinement(frozen, n_components=5).fit(X, y)


def test_frozen_model_is_refined_on_its_own_features_only():
    X, y = pairs_and_more()
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    method = NeighborhoodRefinement(FrozenEstimator(LFDA(2, n_neighbors=3).fit(frame, y)))
    method.fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        method.fit(frame[frame.columns[::-1]], y)
    with pytest.raises(ValueError, match="feature names"):
        method.fit(frame[["f0", "f1"]], y)
    with pytest.raises(ValueError, match="X has 2 features, but the frozen LFDA was fitted to 6"):
        method.fit(X[:, :2], y)
    # A fit that fails leaves the model as it was.
    assert method.transform(frame).shape == (len(y), 2)


def test_map_that_collapses_is_not_used():
    X, y = pairs_and_more()
    # With one feature and no penalty the first step goes to 0, a stationary point.
    with pytest.warns(ConvergenceWarning, match="other than 0"):
        model = NeighborhoodRefinement(PCA(1), radius=None, penalty=0.0).fit(X[:, :1], y)
    np.testing.assert_allclose(np.abs(model.components_), 1.0)
    np.testing.assert_array_equal(model.components_, model.start_components_)


@pytest.mark.parametrize("radius", [None, 1.0])
@pytest.mark.parametrize("exponent", [-73, 63])
def test_single_precision_does_not_depend_on_the_scale(exponent, radius):
    X, y = pairs_and_more()
    X = (X - X.mean(axis=0)).astype(np.float32)
    # Only components: a mean would belong to one scale of X.
    start = PCA(2, svd_solver="full").fit(X.astype(np.float64))
    start = SimpleNamespace(components_=start.components_, mean_=np.zeros(X.shape[1]))
    method = NeighborhoodRefinement(start, n_components=2, radius=radius)
    expected = method.fit(X, y).components_
    assert method.n_iter_ > 0
    found = method.fit(np.ldexp(X, exponent), y).components_
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_samples_without_weight_are_never_drawn():
    X, y = pairs_and_more()
    weights = np.zeros(len(y))
    weights[::4] = 1.0
    for seed in range(5):
        method = NeighborhoodRefinement(PCA(2), max_queries=3, random_state=seed)
        assert np.isfinite(method.fit(X, y, sample_weight=weights).components_).all()
        assert method.n_iter_ > 0


def test_more_candidates_than_samples_are_all_samples():
    X, y = pairs_and_more()
    all_samples = NeighborhoodRefinement(PCA(2), n_candidates=len(y) - 1).fit(X, y)
    more = NeighborhoodRefinement(PCA(2), n_candidates=10**9, n_own_neighbors=10**9).fit(X, y)
    np.testing.assert_array_equal(more.components_, all_samples.components_)


def test_search_takes_folds_of_a_generator():
    X, y = pairs_and_more()
    folds = StratifiedKFold(3).split(X, y)
    method = NeighborhoodRefinement(LFDA(n_neighbors=3, alpha=0.1))
    search = DiscriminantSearchCV(method, {"penalty": [30.0]}, cv=folds, n_components=2)
    assert set(search.fit(X, y).cv_results_["stage"]) >= {1, 2}


def test_search_keeps_the_rounds_of_a_refinement_inside():
    X, y = pairs_and_more()
    method = NeighborhoodRefinement(NeighborhoodRefinement(LFDA(n_neighbors=3, alpha=0.1)))
    grid = {"estimator__n_rounds": [1], "penalty": [30.0]}
    search = DiscriminantSearchCV(method, grid, cv=3, n_components=[2]).fit(X, y)
    assert {row["estimator__n_rounds"] for row in search.cv_results_["params"]} == {1}


def test_weights_reach_the_last_step_with_metadata_routing():
    X, y = pairs_and_more()
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = NeighborhoodRefinement(make_pipeline(StandardScaler(), MPDA(2, n_neighbors=5)))
    expected = clone(model).fit(X, y, sample_weight=w).components_
    with sklearn.config_context(enable_metadata_routing=True):
        found = model.fit(X, y, sample_weight=w).components_
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_truncated_svd_and_empty_steps_can_be_refined_and_exported(tmp_path):
    X, y = pairs_and_more()
    for start in (TruncatedSVD(2), Pipeline([("a", "passthrough"), ("m", MPDA(2, n_neighbors=5))])):
        model = NeighborhoodRefinement(start).fit(X, y)
        linear = affine_map(model)
        np.testing.assert_allclose(linear(X), model.transform(X), atol=1e-9)
        save(model, tmp_path / "m.mpda")
        np.testing.assert_allclose(load(tmp_path / "m.mpda").transform(X), model.transform(X))
    remedy = make_pipeline(TruncatedSVD(4), MPDA(2, n_neighbors=5)).fit(X, y)
    np.testing.assert_allclose(affine_map(remedy)(X), remedy.transform(X), atol=1e-9)
    save(remedy, tmp_path / "r.mpda")
    np.testing.assert_allclose(load(tmp_path / "r.mpda").transform(X), remedy.transform(X))
