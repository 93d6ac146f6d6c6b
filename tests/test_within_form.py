"""The blocks of the within-class form, and their rows, against the sum of squares."""

import numpy as np
import pytest

import oracles
from cases import coupled_class
from mpda.discriminant import block_rows
from mpda.discriminant import within_form as within_form_module
from mpda.discriminant.block_rows import build_block_rows
from mpda.discriminant.tangents import patch_tangents
from mpda.discriminant.within_form import WithinFormBuilder, build_within_form
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints


def build_form(X, labels, energy=0.9):
    embedded = EmbeddedGraph(X, build_class_graph(ClassPoints(X), 4))
    return build_within_form(embedded, labels, patch_tangents(X, labels, energy))


def form_of_very_unequal_dimensions():
    X = np.random.default_rng(0).normal(size=(160, 30))
    return build_form(X, np.concatenate([np.zeros(60, dtype=int), np.arange(1, 101)]), 0.95)


@pytest.mark.parametrize("sums", ["dense", "products", "differences", "differences in blocks"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_blocks_are_those_of_the_sum_of_squares(seed, sums, is_weighted, monkeypatch):
    if sums != "dense":  # which serves small classes
        monkeypatch.setattr(within_form_module, "_DENSE_LIMIT", 0)
    if sums.startswith("differences"):  # which serve short edges and devices
        monkeypatch.setattr(EmbeddedGraph, "edges_are_short", True)
    if sums.endswith("blocks"):
        monkeypatch.setattr(within_form_module, "_BLOCK_ENTRIES", 40)
    X, labels = coupled_class(seed)
    d, gamma, beta = X.shape[1], 0.37, 0.21
    tangents = patch_tangents(X, labels, 0.9)
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, len(X)) if is_weighted else None
    embedded = EmbeddedGraph(X, build_class_graph(ClassPoints(X), 4), weights)
    builder = WithinFormBuilder(embedded, labels, tangents)
    form = builder.build()
    assert builder.nbytes == form.nbytes
    # Beyond the dimension of a patch its blocks are 0, so that the trace of S_vv is theirs.
    assert not form.mask.all()
    padding = ~(form.mask[:, :, None] & form.mask[:, None, :])
    assert not form.coupling_diagonal[padding].any()
    assert not form.first_order[padding].any()
    W = oracles.union_weights(oracles.neighbors(oracles.distances(X), 4))
    if is_weighted:
        W = W * np.outer(weights, weights) * weights.sum() / (weights @ weights)
    bases = [T[:, :m] for T, m in zip(tangents.bases, tangents.dimensions, strict=True)]
    S = oracles.within_form(X, W, labels, bases, gamma)
    scale = np.abs(S).max()
    np.testing.assert_allclose(form.off_diagonal_matrix(), -S[:d, d:], atol=1e-13 * scale)
    S_vv = S[d:, d:] + beta * np.eye(form.size)
    np.testing.assert_allclose(form.tangent_block(gamma, beta), S_vv, atol=1e-13 * scale)
    first_order = oracles.within_form(X, W, labels, bases, 0.0)[d:, d:]
    np.testing.assert_allclose(builder.first_order_trace, np.trace(first_order), rtol=1e-12)


def test_dense_matrix_does_not_depend_on_the_size_of_its_pieces(monkeypatch):
    form = form_of_very_unequal_dimensions()
    expected = form.tangent_block(0.37, 0.21)
    monkeypatch.setattr(within_form_module, "_BLOCK_ENTRIES", 3 * form.mask.shape[1] ** 2)
    np.testing.assert_array_equal(form.tangent_block(0.37, 0.21), expected)


def test_edges_far_shorter_than_the_class_are_not_lost():
    X = np.random.default_rng(0).normal(size=(40, 3))
    labels = np.arange(40) // 5
    near = build_form(X[:20], labels[:20])
    X[20:] += 1e8
    m = near.first_order.shape[1]
    blocks = build_form(X, labels).first_order[:4, :m, :m]
    np.testing.assert_allclose(blocks, near.first_order, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_block_jacobi_scaling_gives_identities_on_the_diagonal(beta):
    form = build_form(*coupled_class(3))
    F = form.block_jacobi(0.3, beta)
    scaled = F @ form.diagonal_blocks(0.3, beta) @ F
    identities = np.eye(form.mask.shape[1]) * form.mask[:, None]
    np.testing.assert_allclose(scaled * form.mask[:, None], identities, atol=1e-12)


@pytest.mark.parametrize("group_size", [1, 3, 100])
@pytest.mark.parametrize("case", ["empty tangent spaces", "unequal dimensions"])
def test_block_rows_are_those_of_the_dense_matrix(case, group_size, monkeypatch):
    # Groups of real size would hold all patches of one dimension.
    monkeypatch.setattr(block_rows, "_GROUP_SIZE", group_size)
    if case == "unequal dimensions":
        form = form_of_very_unequal_dimensions()
        assert form.mask.size > 2 * form.size + 100
    else:
        X, labels = coupled_class(1)
        labels[:2] = labels.max() + 1, labels.max() + 2
        form = build_form(X, np.unique(labels, return_inverse=True)[1])
        assert (form.dimensions == 0).sum() >= 2
    C = form.tangent_block(0.3, 0.1)
    rows = build_block_rows(form, 0.3, 0.1)
    np.testing.assert_allclose(rows.to_array(), C, atol=1e-15 * np.abs(C).max())
    np.testing.assert_array_equal(rows.to_csr().toarray(), rows.to_array())
    V = np.random.default_rng(0).normal(size=(form.size, 5))
    np.testing.assert_allclose(rows @ V, C @ V, rtol=1e-12, atol=1e-12)
    single = rows.to_single() @ V.astype(np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, C @ V, rtol=1e-4, atol=1e-3)


def test_scaled_block_rows_are_a_congruence():
    form = build_form(*coupled_class(3))
    F = form.block_jacobi(0.3, 0.2)
    dense = np.zeros((form.size, form.size))
    starts = np.cumsum(form.dimensions) - form.dimensions
    for block, start, m in zip(F, starts, form.dimensions, strict=True):
        dense[start : start + m, start : start + m] = block[:m, :m]
    expected = dense @ form.tangent_block(0.3, 0.2) @ dense
    scaled = build_block_rows(form, 0.3, 0.2, F).to_array()
    np.testing.assert_allclose(scaled, expected, atol=1e-12)
    B = form.off_diagonal_matrix()
    np.testing.assert_allclose(form.off_diagonal_matrix(F), B @ dense, atol=1e-12 * np.abs(B).max())
