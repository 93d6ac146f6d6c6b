"""The coordinates in which a fit is carried out.

The samples are scaled by a power of two, which loses nothing and keeps squares of very large or
very small features finite. With no more samples than features, everything happens in the span of
the centred samples, which has fewer dimensions and in which every wanted direction lies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import (
    EPSILON,
    array_namespace,
    as_float,
    block_entries,
    iter_slices,
    ldexp,
    take,
    to_device,
    to_host,
    zeros,
)

# With samples below 1e-150 the square of 1 would be too large in the units of the points.
_LEAST_EXPONENT = -500


# Entries of the samples that are scaled at a time where all of them are gone through.
_BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Coordinates:
    """The samples in the coordinates of a fit.

    samples : (n, d) as they were given; perhaps in single precision, perhaps not in memory
    exponent : the points are the samples times 2^-exponent, in double precision
    origin : (d,) the point from which coordinates count
    rotated : (n, r) the coordinates in the basis; None where there is no basis
    basis : (d, r) orthonormal, or None
    """

    samples: Array
    exponent: int
    origin: Array
    rotated: Array | None = None
    basis: Array | None = None

    @property
    def dimension(self) -> int:
        """r, the number of coordinates."""
        return self.samples.shape[1] if self.rotated is None else self.rotated.shape[1]

    @property
    def n_varying(self) -> int:
        """The number of features that are not constant."""
        xp = array_namespace(self.samples)
        return int(xp.count_nonzero(xp.max(self.samples, axis=0) != xp.min(self.samples, axis=0)))

    @property
    def mean(self) -> Array:
        """The mean of the samples in their own units (d,)."""
        xp = array_namespace(self.samples)
        n, d = self.samples.shape
        total = zeros((d,), self.samples)
        for block in iter_slices(n, block_entries(self.samples, _BLOCK_ENTRIES) // d):
            total += xp.sum(self._scaled(self.samples[block, :]), axis=0)
        return ldexp(total / n, self.exponent)

    @property
    def points(self) -> Array:
        """All points (n, d)."""
        return self._scaled(self.samples)

    @property
    def all_coordinates(self) -> Array:
        """The coordinates of every sample (n, r), as ``part`` has them."""
        return self.points - self.origin if self.rotated is None else self.rotated

    def any(self) -> bool:
        """Whether there is a sample other than 0."""
        return bool(array_namespace(self.samples).any(self.samples != 0.0))

    def at(self, exponent: int, origin: Array) -> Coordinates:
        """The same samples in coordinates that are scaled so and count from there."""
        return Coordinates(self.samples, exponent, origin)

    def part(self, members: Ints) -> tuple[Array, Array]:
        """The points (m, d) of some samples and their coordinates (m, r).

        Coordinates count from one of the points: differences of near numbers are exact, so samples
        far from zero lose nothing. Points keep their values, and with them ties in distance.
        """
        places = to_device(members, self.samples)
        points = self._scaled(take(self.samples, places))
        if self.rotated is None:
            return points, points - self.origin
        return points, take(self.rotated, places)

    def _scaled(self, samples: Array) -> Array:
        return ldexp(as_float(samples), -self.exponent)

    def scaled(self, value: float) -> float:
        """A quantity in squared units of the samples, in squared units of the points."""
        return _shifted(value, -2 * self.exponent)

    def unscaled(self, value: float) -> float:
        """The reverse of ``scaled``."""
        return _shifted(value, 2 * self.exponent)

    def directions(self, vectors: Array) -> Array:
        """Directions (d, r) for the samples from directions for the coordinates."""
        return ldexp(self.turned(vectors), -self.exponent)

    def turned(self, vectors: Array) -> Array:
        """Vectors (d, r) in the axes of the samples, their lengths kept."""
        return vectors if self.basis is None else self.basis @ vectors


def scale_only(X: Array) -> Coordinates:
    """The frame of the samples X (n, d) without a basis."""
    exponent = frame_exponent(X)
    return Coordinates(X, exponent, ldexp(as_float(X[0, :]), -exponent))


def build_coordinates(X: Array) -> Coordinates:
    """The frame of the samples X (n, d)."""
    n, d = X.shape
    plain = scale_only(X)
    if n > d:
        return plain
    # Equal samples must stay equal to the last bit, so each distinct one is rotated once.
    points = plain.points
    _, first, copies = np.unique(to_host(points), axis=0, return_index=True, return_inverse=True)
    offsets = take(points, to_device(first, X)) - plain.origin
    xp = array_namespace(X)
    _, singular, directions = xp.linalg.svd(offsets, full_matrices=False)
    values = to_host(singular)
    basis = directions[: int((values > d * EPSILON * values[0]).sum()), :].T
    # What does not vary has no part in it, not even by rounding.
    basis = xp.where(xp.any(offsets != 0.0, axis=0)[:, None], basis, 0.0)
    return replace(plain, rotated=take(offsets @ basis, to_device(copies.ravel(), X)), basis=basis)


def frame_exponent(X: Array) -> int:
    """The exponent of the frame of the samples X, or of their least and largest values."""
    return max(scale_exponent(X), _LEAST_EXPONENT)


def scale_exponent(X: Array) -> int:
    """The power of two above the largest magnitude in X."""
    xp = array_namespace(X)
    return int(np.frexp(max(abs(float(xp.min(X))), abs(float(xp.max(X)))))[1])


def _shifted(value: float, exponent: int) -> float:
    """value times 2^exponent, at most the largest float."""
    with np.errstate(over="ignore", under="ignore"):
        return min(float(np.ldexp(value, exponent)), float(np.finfo(float).max))
