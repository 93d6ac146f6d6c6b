"""Elimination of the tangent vectors: the Schur complement of the tangent block, class by class.

S' has no v, so minimising S over v is exact and leaves a d x d eigenproblem for t (EigenDecomp):

    min_v S(t, v) + beta |v|^2 = t' [ S_tt - S_tv (S_vv + beta I)^-1 S_tv' ] t

This module computes B C^-1 B' with B = -S_tv and C = S_vv + beta I. A small C is factorised. A
large one is scaled by its diagonal blocks (block Jacobi) and solved by conjugate gradients in
single precision with iterative refinement in double precision. A direct solver takes over where
that is slow (a Cholesky factor in single precision, refined likewise) or does not converge.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg.lapack import spotrf, spotrs
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    EPSILON,
    array_namespace,
    as_float,
    cholesky,
    column_dots,
    gram,
    is_host,
    is_numpy,
    iter_slices,
    maximum,
    safe_divide,
    solve_triangular,
    to_device,
    to_host,
    zeros,
)
from mpda.discriminant.block_rows import BlockRows, build_block_rows
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.within_form import WithinForm

# Up to this many unknowns a dense Cholesky factor in double precision is fastest (measured: 2000
# unknowns, 64 right-hand sides). On a device it is so up to the size at which it takes 2 GB.
_DENSE_LIMIT, _DEVICE_DENSE_LIMIT = 2000, 16384
# Up to this many unknowns there may be a dense factor in single precision, which takes 256 MB then.
_FACTOR_LIMIT = 8192
# An operation of a product with block rows takes six times as long as one of a dense factorisation
# (measured on 2 cores). Conjugate gradients may take the time of the factorisation, not more.
_SPARSE_PRICE = 6.0
# Conjugate gradients are not started for fewer than _MIN_STEPS steps: usual ridges need 3 to 10
# (classes of MNIST). Beyond _MAX_STEPS a direct solver is faster.
_MIN_STEPS, _MAX_STEPS = 4, 300
# Residual norm of the solutions relative to the right-hand sides. The Schur complement has the
# square of its error: 1e-8, and 1e-18 with a ridge below _SMALL_RIDGE times the mean diagonal of
# S_vv, where the difference of S_tt and the Schur complement may be small.
_TOLERANCE, _TIGHT_TOLERANCE, _SMALL_RIDGE = 1e-4, 1e-9, 1e-3
# Steps of iterative refinement. Each gains four digits or more, so more would gain nothing.
_MAX_REFINEMENTS = 5
# Right-hand sides in a block: products are at full speed from here on, and memory grows with it.
# On a device the number of kernel calls counts.
_BLOCK_COLUMNS, _DEVICE_COLUMNS = 80, 320


@dataclass(frozen=True)
class EliminationResult:
    """Schur complement term of one class, with the solver that computed it.

    Parameters
    ----------
    matrix : array of shape (d, d)
        S_tv (S_vv + beta I)^-1 S_tv'.
    solver : str
        "dense", a Cholesky factor in double precision; "range", eigenvectors of a singular block;
        "single", a Cholesky factor in single precision with iterative refinement; "iterative",
        conjugate gradients with iterative refinement; "sparse", a sparse LU factor; "none" if there
        are no tangent vectors.
    residual : float
        Largest residual norm of a solution relative to its right-hand side, 0 for a dense factor.
        The relative error of the matrix is about its square.
    """

    matrix: Array
    solver: str
    residual: float = 0.0


Solve = Callable[[Array], Array | None]
"""Approximate solutions (n, r) for right-hand sides in single precision; None if there are none."""


def eliminate_tangents(form: WithinForm, gamma: float, beta: float) -> EliminationResult:
    """Compute S_tv (S_vv + beta I)^-1 S_tv', the term that the Schur complement subtracts.

    It eliminates v from the eigenproblem (EigenDecomp).
    Where S_vv + beta I is singular (beta = 0) its pseudo-inverse takes the place of the inverse:
    S is positive semi-definite, so S_tv' lies in the range of S_vv.

    Parameters
    ----------
    form : WithinForm
        Blocks of one class.
    gamma : float
        Weight of the second term of S.
    beta : float
        Ridge on v.

    Returns
    -------
    EliminationResult
        The matrix, the solver and its residual norm.
    """
    size, d = form.size, form.off_diagonal.shape[1]
    if size == 0:
        return EliminationResult(zeros((d, d), form.off_diagonal), "none")
    if size <= (_DENSE_LIMIT if is_numpy(form.off_diagonal) else _DEVICE_DENSE_LIMIT):
        return _eliminate_dense(form.tangent_block(gamma, beta), form.off_diagonal_matrix())
    xp = array_namespace(form.off_diagonal)
    trace = float(xp.sum(xp.linalg.diagonal(form.first_order + gamma * form.coupling_diagonal)))
    tolerance = _TIGHT_TOLERANCE if beta * size < _SMALL_RIDGE * trace else _TOLERANCE
    # With ones on its diagonal C is in the range of single precision, and better conditioned.
    scaling = form.block_jacobi(gamma, beta)
    B = form.off_diagonal_matrix(scaling)
    C = build_block_rows(form, gamma, beta, scaling)
    for solver, solve in _approximate_solvers(C, B):
        result = _refine(C, B, solve, tolerance)
        if result is not None:
            return replace(result, solver=solver)
    return _eliminate_directly(C, B, singular=beta * size <= EPSILON * trace)


def _eliminate_dense(C: Array, B: Array) -> EliminationResult:
    """Return B C^-1 B' by Cholesky, or on the range of C where it is singular; C is overwritten."""
    xp = array_namespace(C)
    rounding = C.shape[0] * EPSILON
    diagonal = xp.asarray(xp.linalg.diagonal(C), copy=True)
    factor = cholesky(C, overwrite=True)
    if factor is not None:
        # Squared pivots of the factor bound the eigenvalues of C from inside.
        pivots = xp.linalg.diagonal(factor)
        if bool(xp.min(pivots) ** 2 > rounding * xp.max(pivots) ** 2):
            return EliminationResult(gram(solve_triangular(factor, B.T)), "dense")
    if is_numpy(C):  # the entries below the diagonal, which ``eigh`` reads, are still those of C
        np.fill_diagonal(C, diagonal)
    values, vectors = xp.linalg.eigh(C)
    # eigh sorts by increasing eigenvalue, so the null space comes first.
    null = int(xp.count_nonzero(values <= rounding * values[-1]))
    if null == C.shape[0]:
        return EliminationResult(zeros((B.shape[0], B.shape[0]), B), "range")
    half = vectors[:, null:].T @ B.T / xp.sqrt(values[null:])[:, None]
    return EliminationResult(gram(half), "range")


def _approximate_solvers(C: BlockRows, B: Array) -> Iterator[tuple[str, Solve]]:
    """Yield solvers in single precision to try in turn, with their names."""
    if C.size <= _FACTOR_LIMIT and is_numpy(B):
        # Number of steps that take the time of one dense factorisation, n^3 / 3 operations.
        n_steps = int(C.size**3 / 3.0 / (_SPARSE_PRICE * 2.0 * C.nnz * B.shape[0]))
        if n_steps >= _MIN_STEPS:
            yield (
                "iterative",
                partial(_conjugate_gradients, C.to_single(), min(n_steps, _MAX_STEPS)),
            )
        factor, failed = spotrf(C.to_single().to_array().T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            yield "single", lambda rhs: spotrs(factor, rhs, lower=1)[0]
    yield "iterative", partial(_conjugate_gradients, C.to_single(), _MAX_STEPS)


def _refine(C: BlockRows, B: Array, solve: Solve, tolerance: float) -> EliminationResult | None:
    """Return B C^-1 B' by iterative refinement of approximate solutions; None if they fail.

    With solutions X and residuals R = B' - C X it is B X + X'R, up to R'C^-1 R: the square of their
    error. R is small, so single precision is enough for the second term. Right-hand sides come in
    blocks, for memory.
    """
    xp = array_namespace(B)
    d, n = B.shape
    lengths = xp.sqrt(column_dots(B.T, B.T))
    lengths = xp.where(lengths == 0.0, 1.0, lengths)
    solutions, residuals = (as_float(zeros((n, d), B), single=True) for _ in range(2))
    product, largest = zeros((d, d), B), 0.0
    # Blocks of nearly equal width: products with a narrow last one would not be at full speed.
    step = _BLOCK_COLUMNS if is_host(B) else _DEVICE_COLUMNS
    for block in iter_slices(d, -(-d // -(-d // step))):
        rhs = residual = B[block, :].T / lengths[block]
        X = xp.zeros_like(rhs)
        for _ in range(_MAX_REFINEMENTS):
            correction = solve(as_float(residual, single=True))
            if correction is None:
                return None
            X += correction
            residual = rhs - C @ X
            norm = float(xp.sqrt(xp.max(column_dots(residual, residual))))
            if norm <= tolerance:
                break
        else:
            return None
        product[:, block] = B @ (X * lengths[block])
        solutions[:, block] = as_float(X, single=True)
        residuals[:, block] = as_float(residual, single=True)
        largest = max(largest, norm)
    second = as_float(solutions.T @ residuals) * (lengths[:, None] * lengths)
    return EliminationResult(symmetrize(product + second), "", largest)


def _conjugate_gradients(C: BlockRows, max_steps: int, rhs: Array) -> Array | None:
    """Return C^-1 rhs for all columns at once; None if it takes more steps.

    Right-hand sides are residuals of unit vectors, so the target of a column is relative to its
    length, but not below rounding. SciPy's ``cg`` solves for one column at a time, on the host.
    """
    xp = array_namespace(rhs)
    X = xp.zeros_like(rhs)
    residual, direction = xp.asarray(rhs, copy=True), xp.asarray(rhs, copy=True)
    squares = column_dots(rhs, rhs)
    # Half the tolerance: the recursive residual and the true one differ by rounding.
    target = (0.5 * _TOLERANCE) ** 2 * maximum(squares, _TIGHT_TOLERANCE**2)
    for _ in range(max_steps + 1):
        if bool(xp.all(squares <= target)):
            return X
        image = C @ direction
        curvature = column_dots(direction, image)
        length = safe_divide(squares, curvature, xp.zeros_like(squares))
        image *= length
        residual -= image
        # In the memory of the image: new memory of this size takes longer than the product.
        step = np.multiply(direction, length, out=image) if is_numpy(image) else direction * length
        X += step
        previous, squares = squares, column_dots(residual, residual)
        direction *= safe_divide(squares, previous, xp.zeros_like(squares))
        direction += residual
    return None


def _eliminate_directly(C: BlockRows, B: Array, *, singular: bool) -> EliminationResult:
    """Return B C^-1 B' by a direct solver on the host, for blocks on which the others fail."""
    B_host = to_host(B)
    if singular:  # a sparse factor of a singular matrix means nothing
        result = _eliminate_dense(C.to_array(), B_host)
        return replace(result, matrix=to_device(result.matrix, B))
    matrix = C.to_csr()
    X = splu(csc_array(matrix)).solve(np.ascontiguousarray(B_host.T))
    residual = B_host.T - matrix @ X
    squares = maximum(column_dots(B_host.T, B_host.T), np.finfo(float).tiny)
    norm = float(np.sqrt(np.max(column_dots(residual, residual) / squares)))
    product = symmetrize(B_host @ X + X.T @ residual)
    return EliminationResult(to_device(product, B), "sparse", norm)
