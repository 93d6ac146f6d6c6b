"""Neighbour searches by other libraries: candidates are ranked exactly, and checked."""

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsTransformer, RadiusNeighborsTransformer

from mpda import MPDA, PMPDA
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors import approximate_search
from mpda.neighbors.approximate_search import search_neighbors
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors

# The import of faiss warns about the types of its wrapper.
pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")


def curved_sheet(n, d=12, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1.0, 1.0, size=(n, 3))
    bent = np.column_stack([u, u**2, np.sin(3.0 * u)])
    return bent @ rng.normal(size=(bent.shape[1], d)) + 0.01 * rng.normal(size=(n, d))


def samples(kind):
    rng = np.random.default_rng(0)
    return {
        "sheet": curved_sheet(700),
        "lattice": rng.integers(0, 4, size=(300, 3)).astype(float),
        "duplicates": np.repeat(rng.normal(size=(60, 2)), 5, axis=0),
        "one sample": np.ones((1, 2)),
        "small": curved_sheet(5),
    }[kind]


def assert_equal_lists(lists, expected):
    np.testing.assert_array_equal(lists.indices, expected.indices)
    np.testing.assert_allclose(lists.distances, expected.distances, rtol=1e-12)


@pytest.mark.parametrize("kind", ["sheet", "one sample", "small"])
@pytest.mark.parametrize(
    "search",
    [
        "auto",
        "exact",
        KNeighborsTransformer(n_neighbors=8),
        KNeighborsTransformer(mode="connectivity", n_neighbors=9),
        RadiusNeighborsTransformer(radius=1e3),
    ],
    ids=str,
)
def test_exact_searches_agree(kind, search):
    points = ClassPoints(samples(kind))
    assert_equal_lists(search_neighbors(points, 8, search), find_neighbors(points, 8))


@pytest.mark.parametrize("kind", ["lattice", "duplicates"])
def test_ties_of_candidates_go_by_index(kind):
    # All other samples are candidates, so that ties are decided by the ranking alone.
    X = samples(kind)
    search = KNeighborsTransformer(n_neighbors=len(X) - 1)
    assert_equal_lists(
        search_neighbors(ClassPoints(X), 6, search), find_neighbors(ClassPoints(X), 6)
    )


def test_lists_are_on_the_device_of_the_samples(library):
    X = samples("sheet")
    lists = search_neighbors(ClassPoints(library(X)), 5, KNeighborsTransformer(n_neighbors=5))
    assert library.holds(lists.indices, "int64")
    assert library.holds(lists.distances)


@pytest.mark.parametrize("search", [KNeighborsTransformer(n_neighbors=4), PCA(2)], ids=str)
def test_too_few_neighbours_are_an_error(search):
    X = np.concatenate([curved_sheet(50, seed=c) + c for c in (0, 1)])
    model = MPDA(2, n_neighbors=4, partition_neighbors=6, neighbor_search=search)
    with pytest.raises(ValueError, match=r"at least 6 neighbours .* Set its n_neighbors to 6"):
        model.fit(X, np.repeat([0, 1], 50))


@pytest.mark.parametrize("value", [KNeighborsTransformer, BaseEstimator(), None, "cells"])
def test_other_values_are_refused(value):
    X = curved_sheet(40)
    with pytest.raises(ValueError, match="neighbor_search must be one of 'auto', 'exact', 'faiss'"):
        MPDA(neighbor_search=value).fit(X, np.arange(40) % 2)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_fit_with_a_transformer_is_the_exact_fit(method):
    X = np.concatenate([curved_sheet(n, seed=n) + c for c, n in enumerate((120, 90, 8))])
    y = np.repeat([0, 1, 2], [120, 90, 8])
    transformer = KNeighborsTransformer(n_neighbors=9)
    models = [
        method(3, n_neighbors=6, neighbor_search=search).fit(X, y)
        for search in ("exact", transformer)
    ]
    np.testing.assert_allclose(models[1].components_, models[0].components_, rtol=1e-8)
    assert not hasattr(transformer, "n_samples_fit_")


def test_grid_contains_searches():
    X = np.concatenate([curved_sheet(60, seed=c) + c for c in range(3)])
    grid = {"neighbor_search": ["exact", KNeighborsTransformer(n_neighbors=6)], "alpha": [0.1, 1.0]}
    search = DiscriminantSearchCV(MPDA(n_neighbors=5), grid, n_components=3, cv=2, refit=False)
    results = search.fit(X, np.repeat([0, 1, 2], 60)).cv_results_
    is_exact = results["param_neighbor_search"] == "exact"
    assert 0 < is_exact.sum() == (~is_exact).sum()
    scores = results["mean_test_score"]
    np.testing.assert_allclose(np.sort(scores[is_exact]), np.sort(scores[~is_exact]))


@pytest.fixture
def faiss_for_all_sizes(monkeypatch):
    """Searches small classes with faiss too; they would be searched exactly."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(approximate_search, "_MIN_FAISS_SIZE", 0)


def test_faiss_finds_nearly_all_neighbours(faiss_for_all_sizes):
    X = curved_sheet(3000)
    lists = search_neighbors(ClassPoints(X), 8, "faiss")
    exact = find_neighbors(ClassPoints(X), 8)
    assert lists.indices.shape == lists.distances.shape == (3000, 8)
    hits = (lists.indices[:, :, None] == exact.indices[:, None, :]).any(axis=1)
    assert hits.mean() > 0.9
    assert (lists.indices != np.arange(3000)[:, None]).all()
    assert (np.diff(lists.distances, axis=1) >= 0.0).all()
    apart = np.linalg.norm(X[:, None] - X[lists.indices], axis=2)
    np.testing.assert_allclose(lists.distances, apart, rtol=1e-12)
    again = search_neighbors(ClassPoints(X), 8, "faiss")
    np.testing.assert_array_equal(lists.indices, again.indices)


def test_faiss_searches_all_cells_where_the_nearest_are_too_small(faiss_for_all_sizes, monkeypatch):
    monkeypatch.setattr(approximate_search, "_N_PROBES", 1)
    # 20 samples by themselves have a cell with fewer than the 30 neighbours.
    X = np.concatenate([curved_sheet(880), curved_sheet(20, seed=1) + 1e3])
    lists = search_neighbors(ClassPoints(X), 30, "faiss")
    exact = find_neighbors(ClassPoints(X), 30)
    np.testing.assert_array_equal(lists.indices[880:, :19], exact.indices[880:, :19])
    assert np.isfinite(lists.distances).all()


def test_small_classes_are_searched_exactly_by_faiss():
    pytest.importorskip("faiss")
    points = ClassPoints(samples("lattice"))
    assert_equal_lists(search_neighbors(points, 6, "faiss"), find_neighbors(points, 6))


def test_missing_faiss_is_an_import_error_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r'pip install "mpda\[faiss\]"'):
        MPDA(neighbor_search="faiss").fit(np.eye(9), np.arange(9) % 2)
