"""Schur complements at many ridges beta, for one form and one gamma (searches over parameters).

The tangent block is reduced once to a shape in which one more ridge costs little. A block of
moderate size becomes tridiagonal, T = Q' S_vv Q, with which

    S_tv (S_vv + beta I)^-1 S_tv' = (Q' S_tv')' (T + beta I)^-1 (Q' S_tv')

is a tridiagonal solve. For a larger one block Lanczos steps from the columns of S_tv' give
orthonormal Q_1, Q_2, .. in which S_vv is block tridiagonal, with blocks D_j on the diagonal and E_j
below it. A ridge adds beta I to every D_j and changes nothing else. With Q_1 G_1 = S_tv' block
elimination is

    P_j = D_j + beta I - E_{j-1} P_{j-1}^-1 E_{j-1}',    G_{j+1} = -E_j P_j^-1 G_j,

the result is the sum of G_j' P_j^-1 G_j, and |G_{j+1}| is the residual norm after j steps.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dormqr, dpttrf, dpttrs, dsytrd, dsytrd_lwork

from mpda._lib.array_types import Floats
from mpda._lib.arrays import EPSILON, cholesky, column_dots, gram, maximum, solve_triangular
from mpda.discriminant.block_rows import build_block_rows
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.schur_complement import eliminate_tangents
from mpda.discriminant.within_form import WithinForm

# Up to _TRIDIAGONAL_LIMIT unknowns a reduction to tridiagonal form takes the time of
# 2 + size / 600 Cholesky factors (measured); with more ridges than that it is faster.
_TRIDIAGONAL_LIMIT, _TRIDIAGONAL_FACTORS, _UNKNOWNS_PER_FACTOR = 2000, 2, 600
# Between these numbers of unknowns, and with at least 16 of them for each column of S_tv', block
# Lanczos steps take the time of fewer than four solves. Nine ridges of PMPDA on a class of MNIST
# (154 features): three times faster with 3,900 unknowns, 1.3 times with 7,700.
_LANCZOS_MIN, _LANCZOS_MAX, _LANCZOS_MIN_RIDGES, _LANCZOS_MIN_RATIO = 1500, 8192, 4, 16
# Usual ridges need 10 to 40 steps; smaller ones that need more are solved one by one.
_MAX_STEPS = 60
# Residual norm relative to the right-hand side; the Schur complement has the square of its error.
_TOLERANCE = 1e-8


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
    size, d, n_betas = form.size, form.off_diagonal.shape[1], len(betas)
    matrices: list[Floats | None] = [None] * n_betas
    if (
        max(_LANCZOS_MIN, _LANCZOS_MIN_RATIO * d) < size <= _LANCZOS_MAX
        and n_betas >= _LANCZOS_MIN_RIDGES
    ):
        matrices = _eliminate_by_lanczos(form, gamma, betas)
    elif (
        1 < size <= _TRIDIAGONAL_LIMIT
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


def _eliminate_by_lanczos(
    form: WithinForm, gamma: float, betas: Sequence[float]
) -> list[Floats | None]:
    """Return a matrix for each beta; None where the steps do not reach the tolerance."""
    C, rhs = build_block_rows(form, gamma), form.off_diagonal_matrix().T
    lengths = np.sqrt(maximum(column_dots(rhs, rhs), np.finfo(float).tiny))
    # Columns of unit length, so that one tolerance holds for every right-hand side.
    Q, E = np.linalg.qr(rhs / lengths)
    ridges = [_RidgeElimination(beta, E) for beta in betas]
    previous = np.zeros_like(Q)
    for _ in range(_MAX_STEPS):
        # No reorthogonalisation: as in conjugate gradients, its loss only delays convergence.
        V = C @ Q - previous @ E.T
        D = symmetrize(Q.T @ V)
        V -= Q @ D
        previous = Q
        Q, E = np.linalg.qr(V)
        for ridge in ridges:
            if not ridge.done:
                ridge.step(D, E)
        if all(ridge.done for ridge in ridges):
            break
    scale = lengths[:, None] * lengths
    return [scale * ridge.matrix if ridge.converged else None for ridge in ridges]


class _RidgeElimination:
    """Block elimination at one ridge, a Lanczos step at a time; ``matrix`` (d, d) adds up."""

    def __init__(self, beta: float, G: Floats) -> None:
        self._beta = beta
        self._G = G
        self._update = np.zeros_like(G)
        self.matrix = np.zeros_like(G)
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
