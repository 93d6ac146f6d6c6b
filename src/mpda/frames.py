"""The coordinates in which a fit is carried out.

The samples are scaled by a power of two, which loses nothing and keeps squares of very large or
very small features finite. With no more samples than features, everything happens in the span of
the centred samples, which has fewer dimensions and in which every wanted direction lies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpda._typing import Floats, Ints

# With samples below 1e-150 the square of 1 would be too large in the units of the points.
_LEAST_EXPONENT = -500


# Entries of the samples that are scaled at a time where all of them are gone through.
_BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Frame:
    """The samples in the coordinates of a fit.

    samples : (n, d) as they were given; perhaps in single precision, perhaps not in memory
    exponent : the points are the samples times 2^-exponent, in double precision
    origin : (d,) the point from which coordinates count
    rotated : (n, r) the coordinates in the basis; None where there is no basis
    basis : (d, r) orthonormal, or None
    """

    samples: Floats
    exponent: int
    origin: Floats
    rotated: Floats | None = None
    basis: Floats | None = None

    @property
    def dimension(self) -> int:
        """r, the number of coordinates."""
        return self.samples.shape[1] if self.rotated is None else self.rotated.shape[1]

    @property
    def n_varying(self) -> int:
        """The number of features that are not constant."""
        return int(np.count_nonzero(self.samples.max(axis=0) != self.samples.min(axis=0)))

    @property
    def mean(self) -> Floats:
        """The mean of the samples in their own units (d,)."""
        n, d = self.samples.shape
        total = np.zeros(d)
        step = max(1, _BLOCK_ENTRIES // d)
        for start in range(0, n, step):
            total += self._scaled(self.samples[start : start + step]).sum(axis=0)
        return np.ldexp(total / n, self.exponent)

    @property
    def points(self) -> Floats:
        """All points (n, d)."""
        return self._scaled(self.samples)

    @property
    def all_coordinates(self) -> Floats:
        """The coordinates of every sample (n, r), as ``part`` has them."""
        return self.points - self.origin if self.rotated is None else self.rotated

    def any(self) -> bool:
        """Whether there is a sample other than 0."""
        return bool(self.samples.any())

    def at(self, exponent: int, origin: Floats) -> Frame:
        """The same samples in coordinates that are scaled so and count from there."""
        return Frame(self.samples, exponent, origin)

    def part(self, members: Ints) -> tuple[Floats, Floats]:
        """The points (m, d) of some samples and their coordinates (m, r).

        Coordinates count from one of the points: differences of near numbers are exact, so samples
        far from zero lose nothing. Points keep their values, and with them ties in distance.
        """
        points = self._scaled(self.samples.take(members, axis=0))
        if self.rotated is None:
            return points, points - self.origin
        return points, self.rotated[members]

    def _scaled(self, samples: Floats) -> Floats:
        return np.ldexp(samples.astype(np.float64, copy=False), -self.exponent, order="C")

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


def plain_frame(X: Floats) -> Frame:
    """The frame of the samples X (n, d) without a basis."""
    exponent = frame_exponent(X)
    return Frame(X, exponent, np.ldexp(X[0].astype(np.float64), -exponent))


def frame(X: Floats) -> Frame:
    """The frame of the samples X (n, d)."""
    n, d = X.shape
    plain = plain_frame(X)
    if n > d:
        return plain
    # Equal samples must stay equal to the last bit, so each distinct one is rotated once.
    distinct, copies = np.unique(plain.points, axis=0, return_inverse=True)
    offsets = distinct - plain.origin
    _, singular, directions = np.linalg.svd(offsets, full_matrices=False)
    basis = directions[singular > d * np.finfo(float).eps * singular[0]].T
    return replace(plain, rotated=(offsets @ basis)[copies.ravel()], basis=basis)


def frame_exponent(X: Floats) -> int:
    """The exponent of the frame of the samples X, or of their least and largest values."""
    return max(scale_exponent(X), _LEAST_EXPONENT)


def scale_exponent(X: Floats) -> int:
    """The power of two above the largest magnitude in X."""
    return int(np.frexp(max(abs(float(X.min())), abs(float(X.max()))))[1])


def _shifted(value: float, exponent: int) -> float:
    """value times 2^exponent, at most the largest float."""
    with np.errstate(over="ignore", under="ignore"):
        return min(float(np.ldexp(value, exponent)), float(np.finfo(float).max))
