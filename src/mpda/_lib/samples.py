"""Validated samples, and the coordinates in which a fit is computed.

Coordinates are shifted to a sample, scaled by a power of two where X is extremely large or small,
and rotated into the span of the samples where there are no more samples than features. Results
return to the units of X through ``Coordinates``. No other module handles scaling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mpda._lib import arrays
from mpda._lib.array_types import Array, Floats, Ints, Labels

# Entries of X that are converted to double precision at a time for their mean: 8 MB.
_BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Coordinates:
    """The map between samples and the coordinates of a fit.

    A sample x has the point p = 2^-exponent x and the coordinates B'(p - origin), where B is the
    basis (the identity if it is None).

    Attributes
    ----------
    exponent : int
        Binary exponent of the scale; 0 unless X is extremely large or small.
    origin : array of shape (n_features,)
        The first sample of positive weight, scaled. Differences of nearby numbers are exact, so
        samples far from zero lose no digits.
    basis : array of shape (n_features, n_coordinates) or None
        Orthonormal basis of the span of the centred samples, used where there are no more samples
        than features.
    """

    exponent: int
    origin: Array
    basis: Array | None = None

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.origin.shape[0] if self.basis is None else self.basis.shape[1]

    def rotate_back(self, vectors: Array) -> Array:
        """Return vectors (n_coordinates, r) in the axes of X (n_features, r)."""
        return vectors if self.basis is None else self.basis @ vectors

    def to_components(self, vectors: Array) -> Array:
        """Return directions (n_coordinates, r) as directions (n_features, r) in the units of X."""
        return arrays.ldexp(self.rotate_back(vectors), -self.exponent)

    def from_squared_units(self, value: float) -> float:
        """Convert a number in squared units of X to squared units of the points."""
        return _multiply_by_power(value, -2 * self.exponent)

    def to_squared_units(self, value: float) -> float:
        """Convert a number in squared units of the points to squared units of X."""
        return _multiply_by_power(value, 2 * self.exponent)


def _multiply_by_power(value: float, exponent: int) -> float:
    """Return value * 2^exponent, or the largest float if that overflows."""
    # Not infinity, because alpha = 0 times infinity would be nan.
    with np.errstate(over="ignore", under="ignore"):
        return min(float(np.ldexp(value, exponent)), float(np.finfo(float).max))


@dataclass(frozen=True)
class ClassSamples:
    """The samples of one class.

    Attributes
    ----------
    points : array of shape (n, n_features)
        Scaled samples. Distances are measured between points, so equal distances stay equal.
    coordinates : array of shape (n, n_coordinates)
        The same samples in the coordinates of the fit, for everything else.
    weights : array of shape (n,) or None
        Weights of the samples; None if all are equal.
    sparse : csr_array of shape (n, n_coordinates) or None
        The coordinates once more, where the samples are sparse and not shifted.
    """

    points: Array
    coordinates: Array
    weights: Array | None = None
    sparse: Any = None


@dataclass(frozen=True)
class LabelledSamples:
    """Validated samples with class labels.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        Points in single or double precision: samples as the user gave them or, if these are
        extreme, scaled. Perhaps a device array, or a sparse ``csr_array``.
    y : ndarray of shape (n_samples,)
        Class labels, on the host.
    classes : ndarray of shape (n_classes,)
        Sorted distinct labels.
    members : list of ndarray
        Indices of the samples of each class.
    n_varying : int
        Number of features that are not constant.
    dtype : dtype
        Precision of the samples that the user gave.
    coordinates : Coordinates
        Map between the samples and the coordinates of the fit.
    rotated : array of shape (n_samples, n_coordinates) or None
        Coordinates of all samples, where they are rotated.
    weights : ndarray of shape (n_samples,) or None
        Weights with mean 1, on the host; None if all are equal.
    """

    X: Array
    y: Labels
    classes: Labels
    members: list[Ints]
    n_varying: int
    dtype: Any
    coordinates: Coordinates
    rotated: Array | None = None
    weights: Floats | None = None

    @property
    def sizes(self) -> list[int]:
        """Number of samples of each class."""
        return [indices.size for indices in self.members]

    @property
    def mean(self) -> Array:
        """Weighted mean of the samples (n_features,), in their own units."""
        # In double precision block by block, without a copy of all of a float32 X.
        n, d = self.X.shape
        n_total = float(n) if self.weights is None else float(self.weights.sum())
        if arrays.is_sparse(self.X):
            weights = np.ones(n) if self.weights is None else self.weights
            return arrays.ldexp((weights @ self.X) / n_total, self.coordinates.exponent)
        total = arrays.zeros((d,), self.coordinates.origin)
        for block in arrays.iter_slices(n, arrays.block_entries(self.X, _BLOCK_ENTRIES) // d):
            rows = arrays.as_float(self.X[block, :])
            if self.weights is None:
                total += arrays.array_namespace(total).sum(rows, axis=0)
            else:
                total += arrays.to_device(self.weights[block], rows) @ rows
        return arrays.ldexp(total / n_total, self.coordinates.exponent)

    @cached_property
    def points(self) -> Array:
        """All samples, scaled and dense (n_samples, n_features)."""
        return arrays.as_float(arrays.densify(self.X))

    @cached_property
    def all_coordinates(self) -> Array:
        """Coordinates of all samples (n_samples, n_coordinates)."""
        return self.points - self.coordinates.origin if self.rotated is None else self.rotated

    def in_coordinates(self, coordinates: Coordinates) -> LabelledSamples:
        """Return the samples in the coordinates of an earlier fit, which must have no rotation."""
        # X is scaled by its own power of two, and moves to that of the earlier fit.
        shift = self.coordinates.exponent - coordinates.exponent
        X = arrays.ldexp(arrays.as_float(self.X), shift) if shift else self.X
        return replace(self, X=X, coordinates=coordinates, rotated=None)


class FitSamples(Protocol):
    """Properties of the samples of a fit, in memory or on a cluster."""

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates in which the fit is computed."""

    @property
    def n_varying(self) -> int:
        """Number of features that are not constant."""


class SampleFacts(FitSamples, Protocol):
    """What the attributes of a fit need of its samples."""

    @property
    def classes(self) -> Labels:
        """Distinct labels."""

    @property
    def dtype(self) -> Any:
        """Precision of the samples."""

    @property
    def mean(self) -> Array:
        """Mean of the samples (n_features,)."""


def rotate_into_span(
    points: Array, origin: Array, weights: Floats | None = None
) -> tuple[Array, Array]:
    """Return a basis (d, r) of the span of points (n, d) - origin, and their coordinates (n, r).

    Duplicates must stay equal to the last bit, so each distinct point is rotated once. Points of
    weight 0 do not count in the span.
    """
    xp = arrays.array_namespace(points)
    _, first, copies = np.unique(
        arrays.to_host(points), axis=0, return_index=True, return_inverse=True
    )
    offsets = arrays.take(points, arrays.to_device(first, points)) - origin
    counted = offsets
    if weights is not None:
        counted = arrays.take(
            offsets, arrays.to_device(np.unique(copies.ravel()[weights > 0.0]), points)
        )
    _, singular, axes = xp.linalg.svd(counted, full_matrices=False)
    values = arrays.to_host(singular)
    rank = int((values > points.shape[1] * arrays.EPSILON * values[0]).sum())
    # Constant features have no part in the basis, not even by rounding: one that varies only in
    # later samples must have weight 0.
    basis = xp.where(xp.any(counted != 0.0, axis=0)[:, None], axes[:rank, :].T, 0.0)
    return basis, arrays.take(offsets @ basis, arrays.to_device(copies.ravel(), points))
