"""The coordinates in which a fit is carried out.

The samples are scaled by a power of two, which loses nothing and keeps squares of very large or
very small features finite. With no more samples than features, everything happens in the span of
the centred samples, which has fewer dimensions and in which every wanted direction lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._typing import Floats, Ints

# With samples below 1e-150 the square of 1 would be too large in the units of the points.
_LEAST_EXPONENT = -500


@dataclass(frozen=True)
class Frame:
    """The samples in the coordinates of a fit.

    points : (n, d) the samples times 2^-exponent
    rotated : (n, r) the points in the basis, from the first of them; None where there is no basis
    basis : (d, r) orthonormal, or None
    """

    points: Floats
    rotated: Floats | None
    basis: Floats | None
    exponent: int

    @property
    def dimension(self) -> int:
        """r, the number of coordinates."""
        return self.points.shape[1] if self.rotated is None else self.rotated.shape[1]

    @property
    def n_varying(self) -> int:
        """The number of features that are not constant."""
        return int(np.count_nonzero(np.ptp(self.points, axis=0)))

    @property
    def mean(self) -> Floats:
        """The mean of the samples in their own units (d,)."""
        return np.ldexp(self.points.mean(axis=0), self.exponent)

    @property
    def all_coordinates(self) -> Floats:
        """The coordinates of every sample (n, r), as ``part`` has them."""
        return self.points - self.points[0] if self.rotated is None else self.rotated

    def part(self, members: Ints) -> tuple[Floats, Floats]:
        """The points (m, d) of some samples and their coordinates (m, r).

        Coordinates count from the first point: differences of near numbers are exact, so samples
        far from the origin lose nothing. Points keep their values, and with them ties in distance.
        """
        points = self.points.take(members, axis=0)
        if self.rotated is None:
            return points, points - self.points[0]
        return points, self.rotated[members]

    def scaled(self, value: float) -> float:
        """A quantity in squared units of the samples, in squared units of the points."""
        return _shifted(value, -2 * self.exponent)

    def unscaled(self, value: float) -> float:
        """The reverse of ``scaled``."""
        return _shifted(value, 2 * self.exponent)

    def directions(self, vectors: Floats) -> Floats:
        """Directions (d, r) for the samples from directions for the coordinates."""
        return np.ldexp(self.turned(vectors), -self.exponent)

    def turned(self, vectors: Floats) -> Floats:
        """Vectors (d, r) in the axes of the samples, their lengths kept."""
        return vectors if self.basis is None else self.basis @ vectors


def frame(X: Floats) -> Frame:
    """The frame of the samples X (n, d)."""
    exponent = max(scale_exponent(X), _LEAST_EXPONENT)
    points = np.ldexp(X, -exponent, order="C")
    n, d = X.shape
    if n > d:
        return Frame(points, None, None, exponent)
    # Equal samples must stay equal to the last bit, so each distinct one is rotated once.
    distinct, copies = np.unique(points, axis=0, return_inverse=True)
    offsets = distinct - points[0]
    _, singular, directions = np.linalg.svd(offsets, full_matrices=False)
    basis = directions[singular > d * np.finfo(float).eps * singular[0]].T
    return Frame(points, (offsets @ basis)[copies.ravel()], basis, exponent)


def scale_exponent(X: Floats) -> int:
    """The power of two above the largest magnitude in X."""
    return int(np.frexp(np.abs(X).max())[1])


def _shifted(value: float, exponent: int) -> float:
    """value times 2^exponent, at most the largest float."""
    with np.errstate(over="ignore", under="ignore"):
        return min(float(np.ldexp(value, exponent)), float(np.finfo(float).max))
