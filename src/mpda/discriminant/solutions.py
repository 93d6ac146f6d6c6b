"""From the two forms of a method to directions for its samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import array_namespace, eye
from mpda._lib.coordinates import Coordinates
from mpda.baselines.alignment import Fields
from mpda.discriminant.eigenproblem import (
    Directions,
    eigenpair_residual,
    fix_signs,
    normwise_residual,
    solve_eigenproblem,
    solve_least_squares,
    solve_smallest_eigenproblem,
)

# Products with matrices of some thousand rows stay finite.
LARGEST_STRENGTH = 1e303


@dataclass(frozen=True)
class Pencil:
    """S t = lambda M t.

    numerator : (d, d) S
    denominator : (d, d) M
    whole : (d, d) of what M is a difference; None where it is none
    """

    numerator: Array
    denominator: Array
    whole: Array | None = None


@dataclass(frozen=True)
class Solution:
    """The directions of a method for its samples.

    directions : the wanted ones first, with signs fixed
    ridge : what was added to a diagonal, in squared units of the samples
    residual : how well the directions solve their problem
    """

    directions: Directions
    ridge: float
    residual: float

    def first(self, r: int) -> Solution:
        return replace(self, directions=self.directions.first(r))


def largest(view: Coordinates, pencil: Pencil, alpha: float, n_components: int | None) -> Solution:
    """The directions of the largest eigenvalues; alpha is in units of the mean diagonal of M."""
    ridge, M = _ridged(pencil.denominator, alpha, view)
    found = solve_eigenproblem(pencil.numerator, M, ridge)
    kept = found.first(number_kept(found.eigenvalues.shape[0], n_components))
    residual = eigenpair_residual(pencil.numerator, M, kept)
    return _solution(view, kept, ridge, residual)


def smallest(view: Coordinates, pencil: Pencil, alpha: float, n_components: int | None) -> Solution:
    """The directions of the smallest eigenvalues; here the ridge is on S, which is to be small."""
    ridge, S = _ridged(pencil.numerator, alpha, view)
    found = solve_smallest_eigenproblem(S, pencil.denominator)
    kept = found.first(number_kept(found.eigenvalues.shape[0], n_components))
    return _solution(view, kept, ridge, normwise_residual(S, pencil.denominator, kept))


def least_squares(view: Coordinates, fields: Fields, alpha: float) -> Solution:
    """t = (M + ridge I)^-1 pulls, shortest where M is singular; the length of t has no unit.

    A direction that depends on those before it is left out.
    """
    ridge, M = _ridged(fields.within, alpha, view)
    t, condition = solve_least_squares(M, fields.pulls)
    unit = np.abs(M).max() or 1.0  # a ridge may make M as large as a float can be
    M, pulls = M / unit, fields.pulls / unit
    scale = np.linalg.norm(M) * np.linalg.norm(t) + np.linalg.norm(pulls)
    residual = float(np.linalg.norm(M @ t - pulls) / scale) if scale > 0.0 else 0.0
    chosen = _independent(t)
    directions = Directions(
        fields.energies[chosen], fix_signs(view.turned(t[:, chosen])), condition
    )
    return Solution(directions, view.unscaled(ridge), residual)


def _independent(vectors: Floats) -> Ints:
    """Which columns (d, r) are no combination of those before them, up to rounding."""
    lengths = np.linalg.norm(vectors, axis=0)
    chosen: list[int] = []
    basis = np.empty((len(vectors), 0))
    for i in np.flatnonzero(lengths > 1e-10 * lengths.max(initial=0.0)):
        rest = vectors[:, i] / lengths[i]
        for _ in range(2):  # once more for what rounding left
            rest = rest - basis @ (basis.T @ rest)
        if np.linalg.norm(rest) > 1e-8:
            chosen.append(int(i))
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
    return np.array(chosen, dtype=np.intp)


def number_kept(n_found: int, n_components: int | None) -> int:
    """How many directions are kept of those there are."""
    if n_found == 0:
        raise ValueError(
            "There is no direction to find: what the method makes large, or follows, is zero for "
            "these samples. The means of the classes may coincide, or the graph have no edges."
        )
    if n_components is None:
        return n_found
    if n_components > n_found:
        raise ValueError(
            f"n_components={n_components} is more than there is: only {n_found} directions can be "
            "told from rounding (an eigenvalue above 1e-10 of the largest where they are "
            "maximised). Ask for at most that many, or for None to keep them all."
        )
    return n_components


def _ridged(M: Array, alpha: float, view: Coordinates) -> tuple[float, Array]:
    """The ridge and M + ridge I, where alpha is a multiple of the mean diagonal of M."""
    trace = float(array_namespace(M).linalg.trace(M))
    unit = trace / view.n_varying if trace > 0.0 else view.scaled(1.0)
    ridge = alpha * unit
    if ridge > LARGEST_STRENGTH:
        raise ValueError(
            f"alpha={alpha:g} is too large for samples of this scale: products with it leave the "
            "range of floating-point numbers. Set a smaller value."
        )
    return ridge, M + ridge * eye(M.shape[0], M)


def _solution(view: Coordinates, kept: Directions, ridge: float, residual: float) -> Solution:
    directions = replace(kept, vectors=fix_signs(view.directions(kept.vectors)))
    return Solution(directions, view.unscaled(ridge), residual)
