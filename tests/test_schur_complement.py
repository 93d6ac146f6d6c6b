"""The Schur complement of the tangent block, at one ridge and at many, against its definition."""

from dataclasses import replace

import numpy as np
import pytest

from cases import coupled_class, uncoupled_form
from mpda._lib.threads import one_blas_thread
from mpda.discriminant import many_ridges
from mpda.discriminant import schur_complement as schur
from mpda.discriminant.basis_products import BasisProducts
from mpda.discriminant.many_ridges import eliminate_at_ridges
from mpda.discriminant.schur_complement import eliminate_tangents
from mpda.discriminant.tangents import neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import WithinFormBuilder, build_within_form
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints


def build_form(X, labels, energy=0.9, n_neighbors=4):
    embedded = EmbeddedGraph(X, build_class_graph(ClassPoints(X), n_neighbors))
    return build_within_form(embedded, labels, patch_tangents(X, labels, energy))


def define(form, gamma, beta, cutoff=1e-12):
    """Return S_tv (S_vv + beta I)^+ S_tv' from dense matrices."""
    B, C = form.off_diagonal_matrix(), form.tangent_block(gamma, beta)
    return B @ np.linalg.pinv(C, rcond=cutoff, hermitian=True) @ B.T


def assert_close(matrix, expected, tolerance):
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, expected, atol=tolerance * np.abs(expected).max())


def singular_form():
    """Every tangent coordinate stands twice, so S_vv is singular; S_tv' lies in its range."""
    rng = np.random.default_rng(1)
    lengths = rng.uniform(0.1, 2.0, size=(40, 2, 1))
    off_diagonal = np.tile(rng.normal(size=(40, 3, 2)), 2)
    return uncoupled_form(off_diagonal, np.tile(lengths * np.eye(2), (2, 2)))


@pytest.fixture
def force(monkeypatch):
    """Use one of the solvers of large blocks for blocks of any size.

    Blocks of more than 2000 or 8192 unknowns would take seconds.
    """

    def force_solver(solver):
        if solver != "dense":
            monkeypatch.setattr(schur, "_DENSE_LIMIT", 0)
        if solver in ("iterative", "sparse"):
            monkeypatch.setattr(schur, "_FACTOR_LIMIT", 0)
        if solver == "sparse":
            monkeypatch.setattr(schur, "_MAX_STEPS", 0)

    return force_solver


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("beta", [0.0, 1e-6, 0.2])
@pytest.mark.parametrize("solver", ["dense", "single", "iterative", "sparse"])
def test_every_solver_agrees_with_the_definition(gamma, beta, solver, force):
    force(solver)
    form = build_form(*coupled_class(3))
    result = eliminate_tangents(form, gamma, beta)
    assert_close(result.matrix, define(form, gamma, beta), 1e-9)
    if beta == 0.2:
        assert result.solver == solver


@pytest.mark.parametrize("solver", ["single", "iterative"])
def test_small_ridges_are_solved_to_a_tight_tolerance(solver, force):
    form = build_form(*coupled_class(3))
    beta = 1e-4 * np.diag(form.tangent_block(0.3, 0.0)).mean()
    expected = eliminate_tangents(form, 0.3, beta).matrix
    force(solver)
    result = eliminate_tangents(form, 0.3, beta)
    assert result.solver == solver
    assert result.residual <= 1e-9
    assert_close(result.matrix, expected, 1e-13)


@pytest.mark.parametrize("solver", ["single", "iterative"])
def test_tangent_directions_of_very_unequal_length_all_count(solver, force):
    X, labels = coupled_class(3)
    form = build_form(X * np.geomspace(1.0, 1e-3, X.shape[1]), labels, energy=1.0)
    beta = 1e-9 * np.diag(form.tangent_block(0.0, 0.0)).mean()
    expected = eliminate_tangents(form, 0.0, beta).matrix
    force(solver)
    result = eliminate_tangents(form, 0.0, beta)
    assert result.solver == solver
    scale = np.sqrt(np.multiply.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(result.matrix / scale, expected / scale, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("solver", ["single", "iterative"])
def test_result_does_not_depend_on_the_scale_of_samples(scale, solver, force):
    form = build_form(*coupled_class(3))
    scaled = replace(
        form, off_diagonal=scale * form.off_diagonal, first_order=scale**2 * form.first_order
    )
    force(solver)
    expected = eliminate_tangents(form, 0.3, 0.2).matrix
    matrix = eliminate_tangents(scaled, 0.3 * scale**2, 0.2 * scale**2).matrix
    assert_close(matrix, expected, 1e-9)


def test_error_is_the_square_of_the_residual(force, monkeypatch):
    form = build_form(*coupled_class(3))
    expected = eliminate_tangents(form, 0.3, 0.01).matrix
    force("iterative")
    monkeypatch.setattr(schur, "_TOLERANCE", 1e-3)  # loose enough to leave an error
    monkeypatch.setattr(schur, "_SMALL_RIDGE", 0.0)
    loose = eliminate_tangents(form, 0.3, 0.01).matrix
    assert 1e-13 < np.abs(loose - expected).max() / np.abs(expected).max() < 1e-5


def test_singular_block_is_solved_on_its_range(force):
    form = singular_form()
    expected = define(form, 1.0, 0.0)
    result = eliminate_tangents(form, 1.0, 0.0)
    assert result.solver == "range"
    assert_close(result.matrix, expected, 1e-9)
    force("single")  # the factor fails, conjugate gradients stay in the range
    result = eliminate_tangents(form, 1.0, 0.0)
    assert result.solver == "iterative"
    assert_close(result.matrix, expected, 1e-8)


def test_block_of_low_rank_is_solved_on_its_range():
    rng = np.random.default_rng(0)
    gaps = rng.normal(size=(6, 4))
    projected = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 3))  # of rank 2
    form = uncoupled_form((gaps.T @ projected)[None], (projected.T @ projected)[None])
    result = eliminate_tangents(form, 0.3, 0.0)
    assert result.solver == "range"
    np.testing.assert_allclose(result.matrix, define(form, 0.3, 0.0, 1e-10), rtol=1e-9)


def test_zero_block_gives_zero():
    # Two samples without edges: S_vv = 0, and no ridge.
    X, labels = np.eye(2), np.zeros(2, dtype=int)
    form = build_form(X, labels, n_neighbors=0)
    assert form.size == 1
    np.testing.assert_array_equal(eliminate_tangents(form, 0.0, 0.0).matrix, np.zeros((2, 2)))


def test_slow_conjugate_gradients_are_replaced_by_a_direct_solver(force, monkeypatch):
    # Along a curve of 100 patches information needs 100 steps from one end to the other.
    X = np.column_stack([np.arange(300.0), np.sin(np.arange(300.0) / 20), np.zeros(300)])
    form = build_form(X, np.arange(300) // 3, n_neighbors=2)
    expected = define(form, 10.0, 1e-3)
    force("single")
    monkeypatch.setattr(schur, "_MAX_STEPS", 8)
    monkeypatch.setattr(schur, "_MIN_STEPS", 0)
    result = eliminate_tangents(form, 10.0, 1e-3)
    assert result.solver == "single"
    assert_close(result.matrix, expected, 1e-8)
    monkeypatch.setattr(schur, "_FACTOR_LIMIT", 0)
    result = eliminate_tangents(form, 10.0, 1e-3)
    assert result.solver == "sparse"
    assert_close(result.matrix, expected, 1e-8)


def test_residual_of_a_sparse_factor_is_measured_and_corrected(force, monkeypatch):
    form = build_form(*coupled_class(3))
    expected = define(form, 0.1, 0.5)
    force("sparse")
    exact = schur.splu

    class RoughFactor:
        def __init__(self, matrix):
            self._factor = exact(matrix)

        def solve(self, rhs):
            return (1.0 + 1e-4) * self._factor.solve(rhs)

    # SuperLU is accurate on every block tried, so its error is simulated.
    monkeypatch.setattr(schur, "splu", RoughFactor)
    result = eliminate_tangents(form, 0.1, 0.5)
    assert result.solver == "sparse"
    assert result.residual == pytest.approx(1e-4, rel=1e-6)
    assert_close(result.matrix, expected, 1e-7)


def forms_for_ridges():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * np.arange(1, 7)
    X[-4:] = X[:4]
    X[:, 2] = 1.0  # constant: a row of zeros in S_tv
    embedded = EmbeddedGraph(X, build_class_graph(ClassPoints(X), 5))
    labels = np.unique(rng.integers(0, 30, 60), return_inverse=True)[1]
    neighborhoods = neighborhood_tangents(X, embedded.graph.neighbors, 0.95)
    return [
        WithinFormBuilder(embedded, np.arange(60), neighborhoods).build(keep_bases=True),
        WithinFormBuilder(embedded, labels, patch_tangents(X, labels, 1.0)).build(keep_bases=True),
    ]


@pytest.fixture(params=["tridiagonal", "lanczos", "lanczos by bases"])
def reduction(request, monkeypatch):
    """Reduce blocks of any size in one way, and count the ridges that are solved one by one."""
    # Lanczos steps serve blocks of more than 800 unknowns.
    limit = 10**6 if request.param == "tridiagonal" else -1
    monkeypatch.setattr(many_ridges, "_LANCZOS_MIN", limit)
    monkeypatch.setattr(many_ridges, "_LANCZOS_MIN_RIDGES", 1)
    monkeypatch.setattr(many_ridges, "_PRODUCT_SPEED", np.inf)
    n_operations = 0 if request.param == "lanczos by bases" else np.inf
    monkeypatch.setattr(many_ridges, "count_operations", lambda form, n_columns: n_operations)
    monkeypatch.setattr(many_ridges, "_TRIDIAGONAL_FACTORS", 0)
    single = []

    def eliminate(form, gamma, beta):
        single.append(beta)
        return eliminate_tangents(form, gamma, beta)

    monkeypatch.setattr(many_ridges, "eliminate_tangents", eliminate)
    with one_blas_thread():
        yield single


@pytest.mark.parametrize("gamma", [0.0, 0.01, 3.0])
@pytest.mark.parametrize("form", forms_for_ridges(), ids=["neighbourhoods", "patches"])
def test_many_ridges_agree_with_the_definition(form, gamma, reduction):
    unit = np.trace(form.tangent_block(gamma, 0.0)) / form.size
    betas = [unit * ridge for ridge in (1.0, 1e-4, 0.03, 10.0)]  # in any order
    for beta, matrix in zip(betas, eliminate_at_ridges(form, gamma, betas), strict=True):
        assert_close(matrix, define(form, gamma, beta), 1e-10)
    assert betas[-1] not in reduction  # a large ridge needs few steps


@pytest.mark.parametrize("scale", [1e-100, 1e-12, 1e12, 1e100])
def test_many_ridges_do_not_depend_on_the_scale_of_samples(scale, reduction):
    form = forms_for_ridges()[0]
    scaled = replace(
        form,
        off_diagonal=scale * form.off_diagonal,
        first_order=scale**2 * form.first_order,
        coupling_diagonal=scale**2 * form.coupling_diagonal,
        couplings=scale**2 * form.couplings,
        weights=scale**2 * form.weights,
    )
    betas = np.array([0.01, 0.2])
    matrices = eliminate_at_ridges(scaled, 0.3, betas * scale**2)
    for matrix, expected in zip(matrices, eliminate_at_ridges(form, 0.3, betas), strict=True):
        assert_close(matrix, expected, 1e-9)


def test_many_ridges_of_a_singular_block(reduction):
    form = singular_form()
    for beta, matrix in zip([0.0, 0.5], eliminate_at_ridges(form, 1.0, [0.0, 0.5]), strict=True):
        assert_close(matrix, define(form, 1.0, beta), 1e-9)


def test_pivot_of_rounding_counts_as_singular(reduction):
    for seed in range(20):  # in some of them every pivot is positive
        rng = np.random.default_rng(seed)
        A, W = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
        form = uncoupled_form((W @ A.T)[None], (A @ A.T)[None])
        matrices = eliminate_at_ridges(form, 1.0, [0.0, 0.1])
        assert_close(matrices[0], define(form, 1.0, 0.0, 1e-10), 1e-8)
        assert_close(matrices[1], define(form, 1.0, 0.1), 1e-9)


@pytest.mark.parametrize("reduction", ["lanczos", "lanczos by bases"], indirect=True)
def test_ridges_that_need_many_lanczos_steps_are_solved_one_by_one(reduction, monkeypatch):
    form = forms_for_ridges()[0]
    monkeypatch.setattr(many_ridges, "_MAX_STEPS", 4)  # fewer than a small ridge needs
    unit = np.linalg.norm(form.tangent_block(1.0, 0.0), 2)
    betas = [1e-6 * unit, 1e4 * unit]
    for beta, matrix in zip(betas, eliminate_at_ridges(form, 1.0, betas), strict=True):
        assert_close(matrix, define(form, 1.0, beta), 1e-10)
    assert reduction == betas[:1]


@pytest.mark.parametrize("n", [25, 60])
def test_products_by_bases_are_those_of_the_block(n):
    # 25 samples span 24 of the 30 dimensions.
    X = np.random.default_rng(0).normal(size=(n, 30))
    embedded = EmbeddedGraph(X, build_class_graph(ClassPoints(X), 5))
    tangents = neighborhood_tangents(X, embedded.graph.neighbors, 0.9)
    form = WithinFormBuilder(embedded, np.arange(n), tangents).build(keep_bases=True)
    V = np.random.default_rng(1).normal(size=(form.size, 3))
    expected = form.tangent_block(0.7, 0.0) @ V
    operator = BasisProducts(form, 0.7)
    np.testing.assert_allclose(operator @ V, expected, atol=1e-12 * np.abs(expected).max())
    assert operator._bases.shape[1] == (24 if n == 25 else 30)


def test_columns_are_orthonormal_however_they_depend_on_each_other():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(200, 6))
    for columns in (V, 1e-200 * V, 1e150 * V, V @ np.diag([1, 1, 1, 1e-9, 1, 1]), 0.0 * V):
        Q, R = many_ridges._orthonormalize(columns)
        np.testing.assert_allclose(Q @ R, columns, atol=1e-13 * np.abs(columns).max())
        np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-13)
