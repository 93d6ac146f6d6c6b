"""What eliminating v takes off S_tt at many ridges beta, for one form and one gamma.

The form is brought once into a shape in which one more ridge costs little. Of a block of moderate
size that is a tridiagonal T = Q' S_vv Q, with which

    S_tv (S_vv + beta I)^-1 S_tv' = (Q' S_tv')' (T + beta I)^-1 (Q' S_tv')

takes a tridiagonal solution. A larger block is met from S_tv only: Lanczos steps that begin with
its columns make orthonormal Q_1, Q_2, .. in which S_vv is block tridiagonal, with blocks D_j on the
diagonal and E_j below it. A ridge does not change them, only the D_j become D_j + beta I. With
Q_1 G_1 = S_tv' block elimination reads

    S_j = D_j + beta I - E_{j-1} S_{j-1}^-1 E_{j-1}',    G_{j+1} = -E_j S_j^-1 G_j,

what is taken is the sum of G_j' S_j^-1 G_j, and |G_{j+1}| is the residual after j steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dormqr, dpttrf, dpttrs, dsytrd, dsytrd_lwork

from mpda._lib.array_types import Floats
from mpda._lib.arrays import EPSILON, cholesky, column_dots, gram, maximum, solve_triangular
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.schur_complement import eliminate_tangents, row_blocks
from mpda.discriminant.within_form import WithinForm

# Up to this many unknowns a tridiagonal form takes the time of 2 + size / 600 factors.
_TRIDIAGONAL_LIMIT, _FEWEST_FACTORS, _UNKNOWNS_PER_FACTOR = 2000, 2, 600
# Between so many unknowns steps take the time of fewer than four factors, if that is at least so
# many times the columns of S_tv'.
_FEWEST_STEPPED, _MOST_STEPPED, _FEWEST_RIDGES, _FEWEST_BLOCKS = 1500, 8192, 4, 16
_MAX_STEPS = 60
# Of the residual beside the right side; what is taken has the square of its error.
_TOLERANCE = 1e-8


def eliminated_at(form: WithinForm, gamma: float, betas: Sequence[float]) -> list[Floats]:
    """Return the Schur complement S_tv (S_vv + beta I)^-1 S_tv' (d, d) for each beta."""
    found: list[Floats | None] = [None] * len(betas)
    if _is_stepped(form.size, form.cross.shape[1], len(betas)):
        found = _by_steps(form, gamma, betas)
    elif _is_tridiagonal(form.size, len(betas)):
        found = _by_tridiagonal_form(form, gamma, betas)
    return [
        eliminate_tangents(form, gamma, beta).taken if taken is None else taken
        for beta, taken in zip(betas, found, strict=True)
    ]


def _is_stepped(size: int, d: int, n_betas: int) -> bool:
    """Whether block Lanczos steps are faster than a factor for every ridge."""
    moderate = max(_FEWEST_STEPPED, _FEWEST_BLOCKS * d) < size <= _MOST_STEPPED
    return moderate and n_betas >= _FEWEST_RIDGES


def _is_tridiagonal(size: int, n_betas: int) -> bool:
    """Whether a tridiagonal form is faster than a factor for every ridge."""
    factors = _FEWEST_FACTORS + size / _UNKNOWNS_PER_FACTOR
    return 1 < size <= _TRIDIAGONAL_LIMIT and n_betas > factors


def _by_tridiagonal_form(
    form: WithinForm, gamma: float, betas: Sequence[float]
) -> list[Floats | None]:
    """What is taken at each beta; None where S_vv + beta I is singular."""
    size, width = form.size, int(dsytrd_lwork(form.size, lower=1)[0])
    C = form.tangent_block(gamma, 0.0).T  # symmetric, and in the order of LAPACK
    turns, diagonal, beside, scales, _ = dsytrd(C, lower=1, lwork=width, overwrite_a=1)
    sides = np.array(form.cross_columns().T, order="F")
    # Q leaves the first row as it is.
    sides[1:] = dormqr("L", "T", turns[1:, :-1], scales, sides[1:], lwork=64 * sides.shape[1])[0]
    found: list[Floats | None] = []
    for beta in betas:
        pivots, below, failed = dpttrf(diagonal + beta, beside)
        if failed or pivots.min() <= size * EPSILON * pivots.max():
            found.append(None)
        else:
            found.append(symmetrize(sides.T @ dpttrs(pivots, below, sides)[0]))
    return found


def _by_steps(form: WithinForm, gamma: float, betas: Sequence[float]) -> list[Floats | None]:
    """What is taken at each beta; None where the steps do not bring it below the tolerance."""
    C, sides = row_blocks(form, gamma), form.cross_columns().T
    lengths = np.sqrt(maximum(column_dots(sides, sides), np.finfo(float).tiny))
    Q, E = np.linalg.qr(sides / lengths)
    ridges = [_Ridge(beta, E) for beta in betas]
    before = np.zeros_like(Q)
    for _ in range(_MAX_STEPS):
        V = C @ Q - before @ E.T
        D = symmetrize(Q.T @ V)
        V -= Q @ D
        before = Q
        Q, E = np.linalg.qr(V)
        for ridge in ridges:
            if not ridge.is_done:
                ridge.step(D, E)
        if all(ridge.is_done for ridge in ridges):
            break
    scale = lengths[:, None] * lengths
    return [scale * ridge.taken if ridge.is_found else None for ridge in ridges]


class _Ridge:
    """Block elimination at one ridge, a Lanczos step at a time.

    taken : (d, d), from the steps so far
    """

    def __init__(self, beta: float, G: Floats) -> None:
        self._beta = beta
        self._G = G
        self._below = np.zeros_like(G)
        self.taken = np.zeros_like(G)
        self.is_done, self.is_found = False, False

    def step(self, D: Floats, E: Floats) -> None:
        factor = cholesky(D + self._beta * np.eye(len(D)) - self._below)
        if factor is None:
            self.is_done = True
            return
        half, beside = solve_triangular(factor, self._G), solve_triangular(factor, E.T)
        self.taken += gram(half)
        self._below = gram(beside)
        self._G = -beside.T @ half
        residual = float(np.sqrt(column_dots(self._G, self._G).max()))
        self.is_done = self.is_found = residual <= _TOLERANCE
