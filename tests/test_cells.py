"""Neighbours by cells: near the exact lists, honest about what they miss."""

import numpy as np
import pytest

from mpda import MPDA, PMPDA
from mpda.discriminant import sharing
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors import cells
from mpda.neighbors.cells import cell_lists, class_lists
from mpda.neighbors.graph import ClassPoints, find_neighbors, find_neighbors_blockwise


def sheet(n, d=12, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1.0, 1.0, size=(n, 3))
    bent = np.column_stack([u, u**2, np.sin(3.0 * u)])
    return bent @ rng.normal(size=(bent.shape[1], d)) + 0.01 * rng.normal(size=(n, d))


@pytest.fixture
def small_cells(monkeypatch):
    """Cells as small beside the class as they are beside a class of a hundred thousand."""
    monkeypatch.setattr(cells, "_CELL_SIZE", 20)
    monkeypatch.setattr(cells, "_LARGEST_CELL", 40)


def share_found(lists, exact):
    return np.mean(
        [np.isin(a, b).mean() for a, b in zip(exact.indices, lists.indices, strict=True)]
    )


@pytest.mark.parametrize("seed", range(3))
def test_few_neighbours_are_missed_and_the_recall_says_how_few(seed, small_cells):
    X = sheet(3000, seed=seed)
    found = cell_lists(X, 8)
    lists, recall = found.lists, found.recall
    exact = find_neighbors_blockwise(X, 8)
    share = share_found(lists, exact)
    assert found.search == "cells"
    assert share >= 0.96
    assert recall == pytest.approx(share, abs=0.02)
    assert lists.indices.shape == lists.distances.shape == (3000, 8)


def test_lists_are_in_order_without_the_sample_and_with_exact_distances(small_cells):
    X = sheet(2000)
    lists = cell_lists(X, 6).lists
    assert (lists.indices != np.arange(2000)[:, None]).all()
    assert (np.diff(lists.distances, axis=1) >= 0.0).all()
    apart = np.linalg.norm(X[:, None] - X[lists.indices], axis=2)
    np.testing.assert_allclose(lists.distances, apart, rtol=1e-12)
    again = cell_lists(X, 6).lists
    np.testing.assert_array_equal(lists.indices, again.indices)
    for row in lists.indices:
        assert np.unique(row).size == 6


def test_more_cells_are_probed_until_few_are_missed(small_cells, monkeypatch):
    monkeypatch.setattr(cells, "_PROBES", 1)
    monkeypatch.setattr(cells, "_LEAST_RECALL", 0.999)
    X = sheet(4000)
    probes = []
    nearest = cells._Cells.nearest

    def watched(self, rows, k, n_probes):
        probes.append(n_probes)
        return nearest(self, rows, k, n_probes)

    monkeypatch.setattr(cells._Cells, "nearest", watched)
    assert cell_lists(X, 8).recall >= 0.999
    assert len(probes) > 2
    assert probes == sorted(probes)


def test_where_cells_do_not_help_all_pairs_are_compared(small_cells):
    X = np.random.default_rng(0).normal(size=(800, 60))  # everything is equally far
    found = cell_lists(X, 8)
    lists, recall = found.lists, found.recall
    exact = find_neighbors_blockwise(X, 8)
    assert (found.search, recall) == ("exact", 1.0)
    np.testing.assert_array_equal(lists.indices, exact.indices)


@pytest.mark.parametrize("kind", ["one point", "two points", "lattice", "line", "outlier"])
def test_awkward_classes(kind, small_cells):
    rng = np.random.default_rng(0)
    X = {
        "one point": np.ones((700, 3)),
        "two points": np.repeat([[0.0, 0.0], [1.0, 1.0]], 350, axis=0),
        "lattice": rng.integers(0, 4, size=(900, 3)).astype(float),
        "line": np.arange(1200.0)[:, None],
        "outlier": np.vstack([rng.normal(size=(900, 2)), [[1e6, 1e6]]]),
    }[kind]
    found = cell_lists(X, 5)
    lists, recall = found.lists, found.recall
    exact = find_neighbors_blockwise(X, 5)
    assert recall >= 0.97
    assert (lists.distances[:, -1] <= exact.distances[:, -1]).mean() >= 0.95
    assert (lists.indices != np.arange(len(X))[:, None]).all()


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_small_classes_have_all_their_samples(n):
    X = sheet(n)
    found = cell_lists(X, 20)
    lists, recall = found.lists, found.recall
    exact = find_neighbors(ClassPoints(X), 20)
    assert recall == 1.0
    np.testing.assert_array_equal(lists.indices, exact.indices)


def test_auto_is_exact_up_to_its_size(monkeypatch, small_cells):
    points = ClassPoints(sheet(1500))
    exact = find_neighbors(points, 6).indices
    monkeypatch.setattr(cells, "EXACT_SIZE", 1500)
    found = class_lists(points, 6)
    assert (found.search, found.recall) == ("exact", 1.0)
    np.testing.assert_array_equal(found.lists.indices, exact)
    np.testing.assert_array_equal(class_lists(points, 6, "exact").lists.indices, exact)
    monkeypatch.setattr(cells, "EXACT_SIZE", 1499)
    by_cells = class_lists(points, 6, "cells").lists.indices
    np.testing.assert_array_equal(class_lists(points, 6).lists.indices, by_cells)
    np.testing.assert_array_equal(class_lists(points, 6, "exact").lists.indices, exact)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_a_fit_says_how_many_neighbours_it_found(method, small_cells):
    X = np.concatenate([sheet(1200, seed=0), sheet(900, seed=1) + 0.5, sheet(40, seed=2)])
    y = np.repeat([0, 1, 2], [1200, 900, 40])
    exact = method(3, n_neighbors=6).fit(X, y)
    np.testing.assert_array_equal(exact.neighbor_recall_, 1.0)
    assert set(exact.neighbor_search_) == {"exact"}
    near = method(3, n_neighbors=6, neighbor_search="cells").fit(X, y)
    assert (near.neighbor_recall_ >= 0.97).all()
    assert near.neighbor_search_ == ["cells", "exact", "exact"]
    assert near.neighbor_recall_.shape == (3,)
    ours, theirs = (np.linalg.qr(m.components_.T)[0] for m in (near, exact))
    assert np.linalg.svd(ours.T @ theirs, compute_uv=False).min() > 0.999


def test_a_grid_over_the_search_searches_in_every_way(monkeypatch):
    asked = []

    def watched(points, k, search):
        asked.append(search)
        return class_lists(points, k, search)

    monkeypatch.setattr(sharing, "class_lists", watched)
    X, y = np.concatenate([sheet(60, seed=c) + c for c in range(3)]), np.repeat([0, 1, 2], 60)
    grid = {"neighbor_search": ["exact", "cells"], "alpha": [0.1, 1.0]}
    search = DiscriminantSearchCV(MPDA(n_neighbors=5), grid, n_components=3, cv=2, refit=False)
    search.fit(X, y)
    assert sorted(asked) == ["cells"] * 6 + ["exact"] * 6
