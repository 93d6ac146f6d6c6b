"""The coordinates in which a fit is carried out.

The samples are scaled by a power of two, which loses nothing and keeps squares of very large or
very small features finite. With no more samples than features, everything happens in the span of
the centred samples, which has fewer dimensions and in which every wanted direction lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._typing import Floats

# Absolute parameters far above the squares of tiny features: any larger changes nothing.
_LARGEST_RIDGE = 1e280


@dataclass(frozen=True)
class Frame:
    """points : (n, d) the samples times 2^-exponent; coordinates : (n, r); basis : (d, r) or None.

    ``coordinates`` is ``points`` itself where there is no basis.
    """

    points: Floats
    coordinates: Floats
    basis: Floats | None
    exponent: int

    @property
    def mean(self) -> Floats:
        """The mean of the samples in their own units (d,)."""
        return np.ldexp(self.points.mean(axis=0), self.exponent)

    def scaled(self, value: float) -> float:
        """A quantity in squared units of the samples, in squared units of the points."""
        return min(_shifted(value, -2 * self.exponent), _LARGEST_RIDGE)

    def unscaled(self, value: float) -> float:
        """The reverse of ``scaled``."""
        return _shifted(value, 2 * self.exponent)

    def directions(self, vectors: Floats) -> Floats:
        """Directions (d, r) for the samples from directions for the coordinates."""
        if self.basis is not None:
            vectors = self.basis @ vectors
        return np.ldexp(vectors, -self.exponent)


def frame(X: Floats) -> Frame:
    """The frame of the samples X (n, d)."""
    exponent = scale_exponent(X)
    points = np.ldexp(X, -exponent)
    n, d = X.shape
    if n > d:
        return Frame(points, points, None, exponent)
    # Equal samples must stay equal to the last bit, so each distinct one is rotated once.
    distinct, copies = np.unique(points, axis=0, return_inverse=True)
    offsets = distinct - points.mean(axis=0)
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
