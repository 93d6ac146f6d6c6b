"""Schur complements at many ridges beta, for one form and one gamma (searches over parameters).

The tangent block is reduced once to a shape in which one more ridge costs little. A block of
moderate size becomes tridiagonal, T = Q' S_vv Q, with which

    S_tv (S_vv + beta I)^-1 S_tv' = (Q' S_tv')' (T + beta I)^-1 (Q' S_tv')

is a tridiagonal solve. For a larger one block Lanczos steps from the columns of S_tv' give
orthonormal Q_1, Q_2, .. in which S_vv is block tridiagonal, with blocks D_j on the diagonal and E_j
below it. A ridge adds beta I to every D_j and changes nothing else. With Q_1 G_1 = S_tv', where
G_1 has as many rows as S_tv' has rank, block elimination is

    P_j = D_j + beta I - E_{j-1} P_{j-1}^-1 E_{j-1}',    G_{j+1} = -E_j P_j^-1 G_j,

the result is the sum of G_j' P_j^-1 G_j, and |G_{j+1}| is the residual norm after j steps.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dormqr, dpttrf, dpttrs, dsytrd, dsytrd_lwork

from mpda._lib.array_types import Floats
from mpda._lib.arrays import EPSILON, cholesky, column_dots, gram, maximum, solve_triangular
from mpda.discriminant.basis_products import BasisProducts, count_operations
from mpda.discriminant.block_rows import build_block_rows
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.schur_complement import eliminate_tangents
from mpda.discriminant.within_form import WithinForm

# Up to _TRIDIAGONAL_LIMIT unknowns a reduction to tridiagonal form takes the time of
# 2 + size / 600 Cholesky factors (measured); with more ridges than that it is faster.
_TRIDIAGONAL_LIMIT, _TRIDIAGONAL_FACTORS, _UNKNOWNS_PER_FACTOR = 2000, 2, 600
# With fewer unknowns or ridges Lanczos steps do not pay, nor with more unknowns if products are by
# blocks: nine ridges of PMPDA on a class of MNIST (154 features) were 3 times faster with 3,900
# unknowns and 1.3 times with 7,700.
_LANCZOS_MIN, _LANCZOS_MAX, _LANCZOS_MIN_RIDGES = 800, 8192, 4
# Usual ridges need 10 to 40 steps; smaller ones that need more are solved one by one.
_MAX_STEPS = 60
# Steps for an estimate of the time, and the speed of their products relative to that of a reduction
# to tridiagonal form.
_USUAL_STEPS, _PRODUCT_SPEED = 16, 1.2
# Residual norm relative to the right-hand side; the Schur complement has the square of its error.
_TOLERANCE = 1e-7
# Smallest pivot of a Cholesky factor, relative to its largest entry, for orthonormal columns.
_CHOLESKY_RATIO = 1e-6
# Singular values of S_tv', with columns of unit length, that are rounding.
_RANK_TOLERANCE = 1e-14


def eliminate_at_ridges(form: WithinForm, gamma: float, betas: Sequence[float]) -> list[Floats]:
    """Compute S_tv (S_vv + beta I)^-1 S_tv' for many ridges beta.

    Parameters
    ----------
    form : WithinForm
        Blocks of one class, NumPy arrays.
    gamma : float
        Weight of the second term of S.
    betas : sequence of float
        Ridges on v, in any order.

    Returns
    -------
    list of ndarray of shape (d, d)
        One matrix a ridge, as ``eliminate_tangents`` computes it.
    """
    size, n_betas = form.size, len(betas)
    matrices: list[Floats | None] = [None] * n_betas
    if size >= _LANCZOS_MIN and n_betas >= _LANCZOS_MIN_RIDGES:
        start = _StartBlock(form)
        is_fast = start.operations <= _PRODUCT_SPEED * 2.0 / 3.0 * size**3
        if is_fast and (size <= _LANCZOS_MAX or start.uses_bases):
            matrices = _eliminate_by_lanczos(form, gamma, betas, start)
    if (
        all(matrix is None for matrix in matrices)
        and 1 < size <= _TRIDIAGONAL_LIMIT
        and n_betas > _TRIDIAGONAL_FACTORS + size / _UNKNOWNS_PER_FACTOR
    ):
        matrices = _eliminate_tridiagonal(form, gamma, betas)
    return [
        eliminate_tangents(form, gamma, beta).matrix if matrix is None else matrix
        for beta, matrix in zip(betas, matrices, strict=True)
    ]


def _eliminate_tridiagonal(
    form: WithinForm, gamma: float, betas: Sequence[float]
) -> list[Floats | None]:
    """Return a matrix for each beta; None where S_vv + beta I is singular."""
    size, lwork = form.size, int(dsytrd_lwork(form.size, lower=1)[0])
    C = form.tangent_block(gamma, 0.0).T  # symmetric, and in the order of LAPACK
    reflectors, diagonal, below, scales, _ = dsytrd(C, lower=1, lwork=lwork, overwrite_a=1)
    rhs = np.array(form.off_diagonal_matrix().T, order="F")
    # Q leaves the first row as it is.
    rhs[1:] = dormqr("L", "T", reflectors[1:, :-1], scales, rhs[1:], lwork=64 * rhs.shape[1])[0]
    matrices: list[Floats | None] = []
    for beta in betas:
        pivots, factor, failed = dpttrf(diagonal + beta, below)
        singular = failed or pivots.min() <= size * EPSILON * pivots.max()
        solved = None if singular else symmetrize(rhs.T @ dpttrs(pivots, factor, rhs)[0])
        matrices.append(solved)
    return matrices


class _StartBlock:
    """Columns of S_tv' as Q_1 G_1, and the cost of Lanczos steps from them.

    The columns are scaled to unit length, so that one tolerance holds for all.
    """

    def __init__(self, form: WithinForm) -> None:
        rhs = form.off_diagonal_matrix().T
        self.lengths = np.sqrt(maximum(column_dots(rhs, rhs), np.finfo(float).tiny))
        Q, R = np.linalg.qr(rhs / self.lengths)
        left, values, right = np.linalg.svd(R)
        rank = max(1, int(np.count_nonzero(values > _RANK_TOLERANCE * values[0])))
        self.Q, self.G = Q @ left[:, :rank], values[:rank, None] * right[:rank]
        by_blocks, by_bases = _count_block_operations(form, rank), np.inf
        if form.bases is not None:
            by_bases = count_operations(form, rank)
        self.uses_bases = by_bases < by_blocks
        # Orthogonalisation and QR of the next block take the time of three products Q'V.
        step = min(by_blocks, by_bases) + 3.0 * form.size * rank**2
        self.operations = _USUAL_STEPS * step


def _count_block_operations(form: WithinForm, n_columns: int) -> float:
    """Count the multiplications of a product with the rows of S_vv."""
    n_patches, m = form.mask.shape
    return n_columns * m * m * (n_patches + 2.0 * len(form.pairs))


def _eliminate_by_lanczos(
    form: WithinForm, gamma: float, betas: Sequence[float], start: _StartBlock
) -> list[Floats | None]:
    """Return a matrix for each beta; None where the steps do not reach the tolerance."""
    C = BasisProducts(form, gamma) if start.uses_bases else build_block_rows(form, gamma)
    Q = start.Q
    previous, E = np.zeros_like(Q), np.zeros((Q.shape[1], Q.shape[1]))
    ridges = [_RidgeElimination(beta, start.G) for beta in betas]
    for _ in range(_MAX_STEPS):
        # No reorthogonalisation: as in conjugate gradients, its loss only delays convergence.
        V = C @ Q - previous @ E.T
        D = symmetrize(Q.T @ V)
        V -= Q @ D
        previous = Q
        Q, E = _orthonormalize(V)
        for ridge in ridges:
            if not ridge.done:
                ridge.step(D, E)
        if all(ridge.done for ridge in ridges):
            break
    scale = start.lengths[:, None] * start.lengths
    return [scale * ridge.matrix if ridge.converged else None for ridge in ridges]


def _orthonormalize(V: Floats) -> tuple[Floats, Floats]:
    """Return V = Q R by two Cholesky factors, in half the time of reflections; else by these."""
    scale = np.abs(V).max()
    if scale > 0.0:
        Q, R = V / scale, scale * np.eye(V.shape[1])
        for _ in range(2):  # the second factor removes the rounding of the first
            factor = cholesky(gram(Q))
            if factor is None or factor.diagonal().min() < _CHOLESKY_RATIO * factor.max():
                break
            Q, R = solve_triangular(factor, Q.T).T, factor.T @ R
        else:
            return Q, R
    return np.linalg.qr(V)


class _RidgeElimination:
    """Block elimination at one ridge, a Lanczos step at a time; ``matrix`` (d, d) adds up."""

    def __init__(self, beta: float, G: Floats) -> None:
        rank, d = G.shape
        self._beta = beta
        self._G = G
        self._update = np.zeros((rank, rank))
        self.matrix = np.zeros((d, d))
        self.done = self.converged = False

    def step(self, D: Floats, E: Floats) -> None:
        factor = cholesky(D + self._beta * np.eye(len(D)) - self._update)
        if factor is None:
            self.done = True
            return
        half, below = solve_triangular(factor, self._G), solve_triangular(factor, E.T)
        self.matrix += gram(half)
        self._update = gram(below)
        self._G = -below.T @ half
        residual = float(np.sqrt(column_dots(self._G, self._G).max()))
        self.done = self.converged = residual <= _TOLERANCE
