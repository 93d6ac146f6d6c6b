"""Tangent spaces, scatters, forms and their reduction against their definitions."""

import numpy as np
import pytest

import oracles
from cases import largest_angle, uncoupled_form, unequal_classes
from mpda import PMPDA
from mpda._lib.validation import validate_labelled
from mpda.discriminant import scatter
from mpda.discriminant import schur_complement as reduction
from mpda.discriminant import within_form as forms
from mpda.discriminant.class_stages import ClassStages, LocalClasses, sum_contributions
from mpda.discriminant.scatter import full_affinity_scatter, graph_scatter
from mpda.discriminant.schur_complement import eliminate_tangents
from mpda.discriminant.settings import ClassSettings
from mpda.discriminant.tangents import neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import WithinForm, tangent_form
from mpda.neighbors import graph as graphs
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints
from mpda.partition.split import known_partition


def case(seed, n=30, d=7, n_patches=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1)
    X[-4:] = X[:4]
    labels = np.concatenate([np.arange(n_patches), rng.integers(0, n_patches - 2, n - n_patches)])
    return X, labels


def bases_of(bundle):
    return [T[:, :m] for T, m in zip(bundle.bases, bundle.dimensions, strict=True)]


@pytest.mark.parametrize("energy", [0.0, 0.5, 0.95, 0.9999999, 1.0])
@pytest.mark.parametrize("d", [7, 40])  # more and fewer than the samples of a patch
@pytest.mark.parametrize("seed", range(5))
def test_tangents_are_the_fewest_principal_directions(seed, d, energy):
    X, labels = case(seed, d=d)
    bundle = patch_tangents(X, labels, energy)
    for p, T in enumerate(bases_of(bundle)):
        expected = oracles.tangent_basis(X[labels == p], energy)
        assert T.shape == expected.shape
        np.testing.assert_allclose(T.T @ T, np.eye(T.shape[1]), atol=1e-12)
        if T.shape[1]:
            assert largest_angle(T, expected) < 1e-7


def test_tangents_of_patches_of_very_different_sizes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    labels = np.repeat(np.arange(5), [1, 2, 17, 40, 240])
    bundle = patch_tangents(X, labels, 0.8)
    for p, T in enumerate(bases_of(bundle)):
        expected = oracles.tangent_basis(X[labels == p], 0.8)
        assert T.shape == expected.shape
        assert T.shape[1] == 0 or largest_angle(T, expected) < 1e-7


def test_identical_points_have_no_tangent_space():
    # Thirds: their mean is rounded, so a plain PCA would find directions in the rounding.
    X = np.tile(np.array([1.0, 2.0, 7.0]) / 3, (3, 1))
    assert patch_tangents(X, np.zeros(3, dtype=int), 0.95).dimensions.tolist() == [0]


def test_neighbourhood_tangents_are_those_of_the_sample_and_its_neighbours():
    X, _ = case(1)
    lists = build_class_graph(ClassPoints(X), 5).neighbors
    bundle = neighborhood_tangents(X, lists, 0.9)
    for i, T in enumerate(bases_of(bundle)):
        expected = oracles.tangent_basis(X[[i, *lists.indices[i]]], 0.9)
        assert T.shape == expected.shape
        assert largest_angle(T, expected) < 1e-7


def form_and_definition(X, labels, gamma):
    """The graph, the form and the same form as a sum of squares."""
    graph = build_class_graph(ClassPoints(X), 4)
    bundle = patch_tangents(X, labels, 0.9)
    W = oracles.union_weights(oracles.neighbors(oracles.distances(X), 4))
    S = oracles.within_form(X, W, labels, bases_of(bundle), gamma)
    return graph, tangent_form(EmbeddedGraph(X, graph), labels, bundle), S


@pytest.mark.parametrize("block", [0, 40, 128_000])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_the_form_are_those_of_the_sum_of_squares(seed, block, monkeypatch):
    if block:  # by differences; else by vertices
        monkeypatch.setattr(forms, "_VERTEX_LIMIT", 0)
        monkeypatch.setattr(forms, "_BLOCK_ENTRIES", block)
    X, labels = case(seed)
    d = X.shape[1]
    gamma, beta = 0.37, 0.21
    graph, form, S = form_and_definition(X, labels, gamma)
    scale = np.abs(S).max()
    np.testing.assert_allclose(
        graph_scatter(EmbeddedGraph(X, graph)), S[:d, :d], atol=1e-13 * scale
    )
    np.testing.assert_allclose(form.cross_columns(), -S[:d, d:], atol=1e-13 * scale)
    ridged = S[d:, d:] + beta * np.eye(form.size)
    np.testing.assert_allclose(form.tangent_block(gamma, beta), ridged, atol=1e-13 * scale)
    sparse = form.sparse_tangent_block(gamma, beta).toarray()
    np.testing.assert_allclose(sparse, ridged, atol=1e-13 * scale)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("beta", [0.0, 1e-6, 0.2])
@pytest.mark.parametrize("solver", ["dense", "single", "iterative", "sparse"])
def test_elimination_is_the_minimum_over_v(gamma, beta, solver, monkeypatch):
    if solver != "dense":
        monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    if solver in ("iterative", "sparse"):
        monkeypatch.setattr(reduction, "_FACTOR_LIMIT", 0)
    if solver == "sparse":
        monkeypatch.setattr(reduction, "_MAX_STEPS", 0)
    X, labels = case(3)
    d = X.shape[1]
    _, form, S = form_and_definition(X, labels, gamma)
    C = S[d:, d:] + beta * np.eye(form.size)
    expected = S[:d, d:] @ np.linalg.pinv(C, rcond=1e-12) @ S[d:, :d]
    found = eliminate_tangents(form, gamma, beta)
    np.testing.assert_allclose(found.taken, expected, atol=1e-9 * np.abs(expected).max())
    assert (found.taken == found.taken.T).all()
    if beta == 0.2:
        assert found.solver == solver


def test_elimination_where_some_tangent_direction_is_never_used():
    rng = np.random.default_rng(0)
    gaps = rng.normal(size=(6, 4))
    along = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 3))  # of rank 2
    cross, first_order = gaps.T @ along, along.T @ along
    form = uncoupled_form(cross[None], first_order[None])
    found = eliminate_tangents(form, 0.3, 0.0)
    assert found.solver == "range"
    expected = cross @ np.linalg.pinv(first_order, rcond=1e-10, hermitian=True) @ cross.T
    np.testing.assert_allclose(found.taken, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_packed_form_is_the_same_form(seed, monkeypatch):
    X, labels = case(seed)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    assert form.packed() is form  # too small to be worth it
    monkeypatch.setattr(forms, "_SMALL_BYTES", 0)
    packed = form.packed()
    assert packed.nbytes < form.nbytes
    again = packed.unpacked()
    used = form.used[:, :, None] & form.used[:, None, :]
    np.testing.assert_array_equal(again.cross * form.used[:, None], form.cross * form.used[:, None])
    np.testing.assert_array_equal(again.first_order * used, form.first_order * used)
    np.testing.assert_array_equal(again.pairs, form.pairs)
    np.testing.assert_array_equal(again.tangent_block(0.3, 0.1), form.tangent_block(0.3, 0.1))


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_the_sparse_block_does_not_depend_on_the_rows_made_at_a_time(rows, monkeypatch):
    monkeypatch.setattr(forms, "_ROWS", rows)
    X, labels = case(1)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    sparse = form.sparse_tangent_block(0.3, 0.1).toarray()
    np.testing.assert_array_equal(sparse, form.tangent_block(0.3, 0.1))


def test_what_corrections_do_not_bring_close_goes_to_a_sparse_factor(monkeypatch):
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    monkeypatch.setattr(reduction, "_SPARSE_PRICE", 1e-9)  # so that iterations seem cheap
    X, labels = case(3)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    assert eliminate_tangents(form, 0.3, 0.01).solver == "iterative"
    monkeypatch.setattr(reduction, "_TOLERANCE", 1e-7)  # below what single precision leaves
    monkeypatch.setattr(reduction, "_MAX_CORRECTIONS", 1)
    found = eliminate_tangents(form, 0.3, 1e-9)
    assert found.solver == "sparse"
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 10**6)
    exact = eliminate_tangents(form, 0.3, 1e-9).taken
    np.testing.assert_allclose(found.taken, exact, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("solver", ["single", "iterative"])
def test_small_ridges_are_solved_as_closely_as_by_a_dense_factor(solver, monkeypatch):
    X, labels = case(3)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    beta = 1e-4 * np.diag(form.tangent_block(0.3, 0.0)).mean()
    exact = eliminate_tangents(form, 0.3, beta).taken
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    if solver == "iterative":
        monkeypatch.setattr(reduction, "_FACTOR_LIMIT", 0)
    found = eliminate_tangents(form, 0.3, beta)
    assert found.solver == solver
    assert found.residual <= 1e-9
    np.testing.assert_allclose(found.taken, exact, atol=1e-14 * np.abs(exact).max())


def test_nothing_is_eliminated_where_nothing_is_tied():
    # Two samples without edges: S_vv = 0, and no ridge.
    bundle = patch_tangents(np.eye(2), np.zeros(2, dtype=int), 0.95)
    nothing = build_class_graph(ClassPoints(np.eye(2)), 0)
    form = tangent_form(EmbeddedGraph(np.eye(2), nothing), np.zeros(2, dtype=int), bundle)
    assert form.size == 1
    np.testing.assert_array_equal(eliminate_tangents(form, 0.0, 0.0).taken, np.zeros((2, 2)))


def test_elimination_squares_the_error_of_a_loose_solve(monkeypatch):
    X, labels = case(3)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    exact = eliminate_tangents(form, 0.3, 0.01).taken
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    monkeypatch.setattr(reduction, "_FACTOR_LIMIT", 0)
    monkeypatch.setattr(reduction, "_TOLERANCE", 1e-3)
    monkeypatch.setattr(reduction, "_SMALL_RIDGE", 0.0)
    loose = eliminate_tangents(form, 0.3, 0.01).taken
    error = np.abs(loose - exact).max() / np.abs(exact).max()
    assert 1e-13 < error < 1e-5


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_between_form_is_the_sum_over_pairs(seed, full, monkeypatch):
    monkeypatch.setattr(scatter, "_BLOCK_ENTRIES", 60)
    X, y = unequal_classes(seed)
    classes = LocalClasses(validate_labelled(PMPDA(), X, y))
    totals, _ = sum_contributions(classes, ClassSettings(5, 0.9, full_affinity=full))
    expected = oracles.between_form(X, y, 5, full)
    np.testing.assert_allclose(totals.between.form(), expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("limit", [0, 10**6])
def test_scatter_of_a_graph_with_edges_far_shorter_than_the_class(limit, monkeypatch):
    # Two clusters 1e8 apart with edges of length 1 inside: a Laplacian would lose every digit.
    monkeypatch.setattr(graphs, "_DENSE_LIMIT", limit)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X[20:] += 1e8
    graph = build_class_graph(ClassPoints(X), 4)
    gaps = X[graph.edges[:, 0]] - X[graph.edges[:, 1]]
    np.testing.assert_allclose(
        graph_scatter(EmbeddedGraph(X, graph)), 2 * gaps.T @ gaps, rtol=1e-12
    )
    near = rng.normal(size=(40, 3))
    graph = build_class_graph(ClassPoints(near), 4)
    gaps = near[graph.edges[:, 0]] - near[graph.edges[:, 1]]
    np.testing.assert_allclose(
        graph_scatter(EmbeddedGraph(near, graph)), 2 * gaps.T @ gaps, rtol=1e-12
    )


def test_a_form_with_tangent_spaces_of_very_unequal_dimension():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 30))
    labels = np.concatenate([np.zeros(60, dtype=int), np.arange(1, 101)])
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.95))
    assert form.used.size > 2 * form.size + 100
    dense = form.tangent_block(0.3, 0.1)
    np.testing.assert_array_equal(dense, form.sparse_tangent_block(0.3, 0.1).toarray())


def test_a_form_with_edges_far_shorter_than_the_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    labels = np.arange(40) // 5
    graph = build_class_graph(ClassPoints(X[:20]), 4)
    near = tangent_form(
        EmbeddedGraph(X[:20], graph), labels[:20], patch_tangents(X[:20], labels[:20], 0.9)
    )
    X[20:] += 1e8
    graph = build_class_graph(ClassPoints(X), 4)
    far = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    m = near.first_order.shape[1]
    found = far.first_order[:4, :m, :m]
    np.testing.assert_allclose(found, near.first_order, rtol=1e-9, atol=1e-9)


def test_full_spread_in_blocks_is_the_whole(monkeypatch):
    X, _ = case(2)
    graph = build_class_graph(ClassPoints(X), 4)
    whole = full_affinity_scatter(EmbeddedGraph(X, graph), X).distant
    monkeypatch.setattr(scatter, "_BLOCK_ENTRIES", 50)
    np.testing.assert_allclose(
        full_affinity_scatter(EmbeddedGraph(X, graph), X).distant, whole, rtol=1e-12
    )


def test_pmpda_is_mpda_with_one_sample_per_patch_and_neighbourhood_tangents():
    X, _ = case(4)
    graph = build_class_graph(ClassPoints(X), 5)
    bundle = neighborhood_tangents(X, graph.neighbors, 0.9)
    alone = known_partition(None, np.full(len(X), -1))
    by_patch = tangent_form(EmbeddedGraph(X, graph), alone.labels, bundle)
    samples = validate_labelled(PMPDA(), np.vstack([X, X + 9.0]), np.arange(2 * len(X)) // len(X))
    stages = ClassStages(samples, 0)
    by_sample = stages.within_form(ClassSettings(5, 0.9, full_affinity=False))
    np.testing.assert_allclose(by_patch.cross, by_sample.cross, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        by_patch.tangent_block(0.1, 1.0), by_sample.tangent_block(0.1, 1.0), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_a_balanced_form_has_identities_on_its_diagonal_and_the_same_minimum(beta):
    X, labels = case(3)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    balanced = form.balanced(0.3, beta)
    identities = np.eye(form.used.shape[1]) * form.used[:, None]
    np.testing.assert_allclose(balanced.first_order * form.used[:, None], identities, atol=1e-12)
    taken = eliminate_tangents(form, 0.3, beta).taken
    again = eliminate_tangents(balanced, 1.0, 0.0).taken
    np.testing.assert_allclose(again, taken, atol=1e-12 * np.abs(taken).max())


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_scale_of_a_form_decides_nothing(scale, monkeypatch):
    X, labels = case(3)
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    assert len(np.unique(form.dimensions)) > 1
    small = WithinForm(
        scale * form.cross,
        scale**2 * form.first_order,
        form.turning,
        form.pairs,
        form.couplings,
        form.used,
    )
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    taken = eliminate_tangents(form, 0.3, 0.2).taken
    again = eliminate_tangents(small, 0.3 * scale**2, 0.2 * scale**2).taken
    np.testing.assert_allclose(again, taken, atol=1e-9 * np.abs(taken).max())


@pytest.mark.parametrize("solver", ["single", "iterative"])
def test_tangent_directions_of_very_unequal_length_all_count(solver, monkeypatch):
    X, labels = case(3)
    X = X * np.geomspace(1.0, 1e-3, X.shape[1])
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 1.0))
    beta = 1e-9 * np.diag(form.tangent_block(0.0, 0.0)).mean()
    exact = eliminate_tangents(form, 0.0, beta).taken
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    if solver == "iterative":
        monkeypatch.setattr(reduction, "_FACTOR_LIMIT", 0)
    found = eliminate_tangents(form, 0.0, beta)
    assert found.solver == solver
    scale = np.sqrt(np.multiply.outer(np.diag(exact), np.diag(exact)))
    np.testing.assert_allclose(found.taken / scale, exact / scale, atol=1e-8)


@pytest.mark.parametrize("together", [1, 3, 100])
def test_products_by_the_rows_of_patches_are_products_with_the_block(together, monkeypatch):
    monkeypatch.setattr(reduction, "_GROUP", together)
    X, labels = case(1)
    labels[:2] = labels.max() + 1, labels.max() + 2  # two patches without tangent vectors
    labels = np.unique(labels, return_inverse=True)[1]
    graph = build_class_graph(ClassPoints(X), 4)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    assert len(np.unique(form.dimensions)) > 2
    assert (form.dimensions == 0).sum() >= 2
    C = form.sparse_tangent_block(1.0, 0.0)
    V = np.random.default_rng(0).normal(size=(form.size, 5))
    rows = reduction.row_blocks(form, 1.0)
    np.testing.assert_allclose(rows @ V, C @ V, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(rows.tocsr().toarray(), C.toarray())
    np.testing.assert_array_equal(rows.toarray(), C.toarray())
    single = rows.single() @ V.astype(np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, C @ V, rtol=1e-4, atol=1e-3)


def test_conjugate_gradients_that_come_on_too_slowly_give_way_to_a_factor(monkeypatch):
    # Along a curve of 100 patches a change at one end takes 100 steps to the other.
    X = np.column_stack([np.arange(300.0), np.sin(np.arange(300.0) / 20), np.zeros(300)])
    labels = np.arange(300) // 3
    graph = build_class_graph(ClassPoints(X), 2)
    form = tangent_form(EmbeddedGraph(X, graph), labels, patch_tangents(X, labels, 0.9))
    exact = eliminate_tangents(form, 10.0, 1e-3).taken
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    monkeypatch.setattr(
        reduction, "_attempts", lambda C, d: iter([("iterative", 8), ("single", 0)])
    )
    products = []
    whole = reduction.RowBlocks.__matmul__
    monkeypatch.setattr(
        reduction.RowBlocks,
        "__matmul__",
        lambda self, V: products.append(V.dtype.name) or whole(self, V),
    )
    found = eliminate_tangents(form, 10.0, 1e-3)
    assert found.solver == "single"
    assert reduction._FEWEST_STEPS <= products.count("float32") < 8
    np.testing.assert_allclose(found.taken, exact, atol=1e-8 * np.abs(exact).max())


def test_a_block_that_is_singular_in_single_precision_has_no_factor_there(monkeypatch):
    # Every tangent coordinate stands twice.
    rng = np.random.default_rng(1)
    lengths = rng.uniform(0.1, 2.0, size=(40, 2, 1))
    cross = np.tile(rng.normal(size=(40, 3, 2)), 2)
    form = uncoupled_form(cross, np.tile(lengths * np.eye(2), (2, 2)))
    exact = eliminate_tangents(form, 1.0, 0.0)
    assert exact.solver == "range"
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    assert reduction._factored(reduction.row_blocks(form, 1.0)) is None
    found = eliminate_tangents(form, 1.0, 0.0)
    assert found.solver == "iterative"
    np.testing.assert_allclose(found.taken, exact.taken, atol=1e-8 * np.abs(exact.taken).max())
