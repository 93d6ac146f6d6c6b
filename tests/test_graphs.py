"""Neighbour lists, graphs and affinities against their definitions."""

import tracemalloc

import numpy as np
import pytest

import oracles
from mpda.neighbors import neighbor_lists
from mpda.neighbors.graph import build_class_graph, local_affinity
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors


def samples(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 5))
    if kind == "ties":
        X = rng.integers(0, 3, size=(40, 4)).astype(float)
    elif kind == "duplicates":
        X[20:30] = X[3]
    elif kind == "offset":
        X += 1e7
    elif kind == "far":
        X[[3, 17, 30]] *= [[1e4], [1e9], [-1e13]]
    elif kind == "binary":
        X = rng.integers(0, 2, size=(120, 7)).astype(float)  # far more ties than candidates
    return X


@pytest.mark.parametrize("kind", ["plain", "ties", "duplicates", "offset", "far", "binary"])
@pytest.mark.parametrize("k", [1, 6, 39, 60])
@pytest.mark.parametrize("search", ["all pairs", "blocks", "candidates"])
def test_lists_are_the_nearest_with_ties_by_index(kind, k, search, monkeypatch):
    X = samples(kind)
    # Searches of large classes, on few samples.
    if search != "all pairs":
        monkeypatch.setattr(neighbor_lists, "_BLOCK_ENTRIES", 300)
        monkeypatch.setattr(neighbor_lists, "_SEARCH_ENTRIES", 300)
    if search == "candidates":
        monkeypatch.setattr(neighbor_lists, "_DIRECT_SEARCH_LIMIT", 0)
    D = oracles.distances(X)
    lists = find_neighbors(ClassPoints(X), k)
    assert lists.indices.tolist() == oracles.neighbors(D, k)
    np.testing.assert_allclose(
        lists.distances, np.take_along_axis(D, lists.indices, axis=1), rtol=1e-13
    )


def test_a_search_by_gram_products_recovers_distances_it_cannot_see():
    # 2500 points far from the origin in pairs 1e-6 apart: Gram products alone see 0 or noise.
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1250, 200)) * 100
    X = np.concatenate([centres, centres + 1e-6 / np.sqrt(200)])
    lists = find_neighbors(ClassPoints(X), 2)
    np.testing.assert_array_equal(lists.indices[:, 0], (np.arange(2500) + 1250) % 2500)
    np.testing.assert_allclose(lists.distances[:, 0], 1e-6, rtol=1e-6)


def test_a_far_sample_does_not_lengthen_the_search_of_the_others():
    X = np.random.default_rng(0).normal(size=(3000, 100))
    peaks = []
    for factor in (1.0, 300.0):
        X[0] *= factor
        tracemalloc.start()
        find_neighbors(ClassPoints(X), 10)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Rows that are searched again take all their distances in double precision.
    assert peaks[1] < 1.5 * peaks[0]


def test_candidates_keep_ties_of_numbers_that_are_not_whole(monkeypatch):
    # Squares of 0.1 add up to one value for every place of the terms only if added one by one.
    monkeypatch.setattr(neighbor_lists, "_DIRECT_SEARCH_LIMIT", 0)
    X = np.random.default_rng(0).integers(0, 2, size=(300, 64)) * 0.1
    apart = (X[:, None] != X).sum(axis=2)
    lists = find_neighbors(ClassPoints(X), 12)
    assert lists.indices.tolist() == oracles.neighbors(apart, 12)


@pytest.mark.parametrize("dense_limit", [500, 0])
def test_one_sample_has_no_neighbours(dense_limit, monkeypatch):
    # Sorted edges are for large classes.
    monkeypatch.setattr("mpda.neighbors.graph._DENSE_LIMIT", dense_limit)
    graph = build_class_graph(ClassPoints(np.ones((1, 3))), 5)
    assert graph.edges.shape == (0, 2)
    assert graph.neighbors.indices.shape == (1, 0)


@pytest.mark.parametrize("kind", ["plain", "ties", "duplicates"])
@pytest.mark.parametrize("dense_limit", [500, 0])
def test_graph_is_the_union_of_the_lists(kind, dense_limit, monkeypatch):
    monkeypatch.setattr("mpda.neighbors.graph._DENSE_LIMIT", dense_limit)
    X = samples(kind)
    D = oracles.distances(X)
    graph = build_class_graph(ClassPoints(X), 4)
    W = np.zeros_like(D)
    np.add.at(W, tuple(graph.edges.T), 1.0)
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    np.testing.assert_array_equal(W + W.T, oracles.union_weights(oracles.neighbors(D, 4)))
    np.testing.assert_allclose(graph.lengths, D[tuple(graph.edges.T)], rtol=1e-13)


@pytest.mark.parametrize("kind", ["plain", "ties", "duplicates"])
@pytest.mark.parametrize("k", [3, 12])
def test_affinity_is_scaled_by_the_kth_neighbour(kind, k):
    X = samples(kind)
    graph = build_class_graph(ClassPoints(X), k)
    A = oracles.affinity(oracles.distances(X), k, full=False)
    np.testing.assert_allclose(local_affinity(graph), A[tuple(graph.edges.T)], atol=1e-14)
    if kind == "duplicates" and k == 3:
        assert 1.0 in A[20:30, 20:30]  # where the scale is 0
