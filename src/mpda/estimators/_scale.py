"""How the directions of a method become its components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace, maximum, safe_divide, set_at, take, to_device, to_host
from mpda.discriminant.eigenproblem import Directions, fix_signs

# What counts for eigenvalues that are nothing but rounding where the smallest come first; those of
# the methods here do not depend on the scale of the samples.
_LEAST_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class Scale:
    """How the directions of a method become its components.

    power : of the eigenvalues relative to the first, by which directions are multiplied
    unit : whether they are first brought to length 1
    orthonormal : whether they are made orthonormal instead
    increasing : whether the first eigenvalue is the smallest; then it is the inverse ratio
    """

    power: float
    unit: bool
    orthonormal: bool
    increasing: bool = False

    def applied(self, directions: Directions) -> Array:
        """The columns (d, r)."""
        if self.orthonormal:
            return fix_signs(_orthonormal(_unit(directions.vectors)))
        vectors = _unit(directions.vectors) if self.unit else directions.vectors
        if self.power == 0.0:
            return vectors
        values = directions.eigenvalues
        if self.increasing:
            values = 1.0 / maximum(values, _LEAST_EIGENVALUE)
        return vectors * (values / values[:1]) ** self.power


def _orthonormal(vectors: Array) -> Array:
    """Orthonormal columns, the first k of them in the span of the first k vectors.

    Where vectors depend on each other but for rounding, features that none has stay without.
    """
    xp = array_namespace(vectors)
    used = np.flatnonzero(to_host(xp.any(vectors != 0.0, axis=1)))
    if used.size < vectors.shape[1]:
        return xp.linalg.qr(vectors)[0]
    places = to_device(used, vectors)
    basis = xp.linalg.qr(take(vectors, places))[0]
    return set_at(xp.zeros_like(vectors), places, basis)


def _unit(vectors: Array) -> Array:
    """Columns of length 1; no square leaves the range of floating-point numbers."""
    xp = array_namespace(vectors)
    if vectors.shape[1] == 0:
        return vectors
    vectors = safe_divide(vectors, xp.max(xp.abs(vectors), axis=0), xp.zeros_like(vectors))
    lengths = xp.linalg.vector_norm(vectors, axis=0)
    return safe_divide(vectors, lengths, xp.zeros_like(vectors))
