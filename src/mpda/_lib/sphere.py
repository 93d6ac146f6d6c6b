"""Projection of mapped samples to the unit sphere, where distances depend on angles only."""

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace, astype


def project_to_sphere(Z: Array, radius: float | None) -> Array:
    """Project points to the unit sphere.

    Parameters
    ----------
    Z : array of shape (n, r)
        Mapped samples.
    radius : float or None
        A point z becomes [z, radius] / sqrt(|z|^2 + radius^2), with one more coordinate. With 0 it
        becomes z / |z| without a further coordinate, and 0 stays 0. None leaves the points as they
        are.

    Returns
    -------
    array of shape (n, r), or (n, r + 1) for a positive radius
        Points in the precision of Z.
    """
    if radius is None:
        return Z
    xp = array_namespace(Z)
    if radius > 0.0:
        Z = xp.concat([Z, xp.full_like(Z[:, :1], radius)], axis=1)
    # Divided by the largest coordinate first, so that no square leaves the range of numbers.
    for norm in (_largest_magnitudes, _lengths):
        sizes = norm(Z)
        Z = Z / xp.where(sizes > 0.0, sizes, xp.ones_like(sizes))
    return Z


def _largest_magnitudes(Z: Array) -> Array:
    xp = array_namespace(Z)
    return xp.max(xp.abs(Z), axis=1, keepdims=True)


def _lengths(Z: Array) -> Array:
    return astype(array_namespace(Z).linalg.vector_norm(Z, axis=1, keepdims=True), Z.dtype)
