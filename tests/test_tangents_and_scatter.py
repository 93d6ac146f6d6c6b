"""Tangent spaces and scatter matrices against their definitions."""

import numpy as np
import pytest

import oracles
from cases import coupled_class, largest_angle, unequal_classes
from mpda.discriminant import scatter
from mpda.discriminant.scatter import (
    BetweenClassSums,
    edge_scatter,
    full_affinity_scatter,
    graph_scatter,
    neighbor_affinity_scatter,
)
from mpda.discriminant.tangents import neighborhood_tangents, patch_tangents
from mpda.neighbors import graph as graphs
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints


def embed(X, n_neighbors=4):
    return EmbeddedGraph(X, build_class_graph(ClassPoints(X), n_neighbors))


def assert_bases_are_principal_axes(tangents, groups, energy):
    for T, m, points in zip(tangents.bases, tangents.dimensions, groups, strict=True):
        expected = oracles.tangent_basis(points, energy)
        assert m == expected.shape[1]
        assert (T[:, m:] == 0.0).all()
        np.testing.assert_allclose(T[:, :m].T @ T[:, :m], np.eye(m), atol=1e-12)
        assert m == 0 or largest_angle(T[:, :m], expected) < 1e-7


@pytest.mark.parametrize("energy", [0.0, 0.5, 0.95, 0.9999999, 1.0])
@pytest.mark.parametrize("d", [7, 40])  # more and fewer than the samples of a patch
@pytest.mark.parametrize("seed", range(3))
def test_tangents_are_the_fewest_principal_axes(seed, d, energy):
    X, labels = coupled_class(seed, d=d)
    tangents = patch_tangents(X, labels, energy)
    assert_bases_are_principal_axes(tangents, [X[labels == p] for p in range(6)], energy)


def test_tangents_of_patches_of_very_different_sizes():
    X = np.random.default_rng(0).normal(size=(300, 4))
    labels = np.repeat(np.arange(5), [1, 2, 17, 40, 240])
    tangents = patch_tangents(X, labels, 0.8)
    assert_bases_are_principal_axes(tangents, [X[labels == p] for p in range(5)], 0.8)


def test_identical_points_have_no_tangent_space():
    # Thirds: their mean is rounded, so a plain PCA would find directions in the rounding.
    X = np.tile(np.array([1.0, 2.0, 7.0]) / 3, (3, 1))
    assert patch_tangents(X, np.zeros(3, dtype=int), 0.95).dimensions.tolist() == [0]


def test_neighborhood_tangents_use_the_sample_and_its_neighbors():
    X, _ = coupled_class(1)
    neighbors = build_class_graph(ClassPoints(X), 5).neighbors
    groups = [X[[i, *indices]] for i, indices in enumerate(neighbors.indices)]
    assert_bases_are_principal_axes(neighborhood_tangents(X, neighbors, 0.9), groups, 0.9)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_between_form_is_the_sum_over_pairs(seed, full, monkeypatch):
    # Blocks of real size would hold all pairs of these classes at once.
    monkeypatch.setattr(scatter, "_BLOCK_ENTRIES", 60)
    X, y = unequal_classes(seed)
    sums = None
    for c in np.unique(y):
        Z = X[y == c]
        embedded = embed(Z, 5)
        pairs = full_affinity_scatter(embedded, Z) if full else neighbor_affinity_scatter(embedded)
        of_class = BetweenClassSums.of_class(Z, pairs.distant)
        sums = of_class if sums is None else sums + of_class
    expected = oracles.between_form(X, y, 5, full)
    np.testing.assert_allclose(sums.form(), expected, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_allclose(sums.mean, X.mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("full", [False, True])
def test_near_and_distant_scatter_add_up_to_all_pairs(full):
    X, _ = coupled_class(2)
    pairs = full_affinity_scatter(embed(X), X) if full else neighbor_affinity_scatter(embed(X))
    gaps = (X[:, None] - X[None]).reshape(-1, X.shape[1])
    np.testing.assert_allclose(pairs.near + pairs.distant, gaps.T @ gaps, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("limit", [0, 10**6])  # sparse and dense Laplacians
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_edges_far_shorter_than_the_class_are_not_lost(offset, limit, monkeypatch):
    # Classes of 500 samples and more would be needed for sparse Laplacians.
    monkeypatch.setattr(graphs, "_DENSE_LIMIT", limit)
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[20:] += offset  # two clusters with edges of length 1 inside
    embedded = embed(X)
    edges = embedded.graph.edges
    gaps = X[edges[:, 0]] - X[edges[:, 1]]
    np.testing.assert_allclose(graph_scatter(embedded), 2 * gaps.T @ gaps, rtol=1e-12)
    weights = np.linspace(-1.0, 2.0, len(edges))
    expected = (gaps.T * weights) @ gaps
    np.testing.assert_allclose(edge_scatter(X, edges, weights), expected, rtol=1e-9)
