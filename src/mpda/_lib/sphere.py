"""Projection of mapped samples to the unit sphere.

A sample with the mapped coordinates z (r,) and the constant k > 0 has the point

    [z, k] / sqrt(|z|^2 + k^2),

and z / |z| for k = 0. Among points of length 1 Euclidean and cosine neighbours agree.
"""

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace


def count_outputs(n_components: int, radius: float | None) -> int:
    """Return the number of coordinates of a point: one more than components, unless k is 0.

    Parameters
    ----------
    n_components : int
        Number of rows of the linear map.
    radius : float or None
        The constant k, relative or absolute; None for a linear map.

    Returns
    -------
    int
        Number of coordinates.
    """
    return n_components + int(radius is not None and radius > 0.0)


def project_to_sphere(Z: Array, radius: float | None) -> Array:
    """Project mapped samples to the unit sphere.

    Parameters
    ----------
    Z : array of shape (n_samples, n_components)
        Mapped samples, on the host or on a device.
    radius : float or None
        The constant k, in the units of Z. None leaves Z as it is.

    Returns
    -------
    array of shape (n_samples, n_outputs)
        Points of length 1, in the precision of Z. With k = 0 a sample at 0 stays 0.
    """
    if radius is None:
        return Z
    if radius > 0.0:
        xp = array_namespace(Z)
        Z = xp.concat([Z, xp.full_like(Z[:, :1], radius)], axis=1)
    return scale_to_unit_length(Z)


def lift_from_sphere(points: Array, radius: float) -> Array:
    """Return the mapped samples of points, the inverse of `project_to_sphere` for k > 0.

    Parameters
    ----------
    points : array of shape (n_samples, n_components + 1)
        Points of any length whose last coordinates are positive.
    radius : float
        The constant k.

    Returns
    -------
    array of shape (n_samples, n_components)
        The multiples of the points whose last coordinate is k, without it.
    """
    return points[:, :-1] * (radius / points[:, -1:])


def scale_to_unit_length(Z: Array) -> Array:
    """Scale rows to length 1.

    Parameters
    ----------
    Z : array of shape (n, r)
        Rows of any scale: their squares may leave the range of floating-point numbers.

    Returns
    -------
    array of shape (n, r)
        Rows of length 1; a row of zeros stays as it is.
    """
    xp = array_namespace(Z)
    if Z.shape[0] == 0:
        return Z
    largest = xp.max(xp.abs(Z), axis=1)
    Z = Z / xp.where(largest > 0.0, largest, xp.ones_like(largest))[:, None]
    lengths = xp.sqrt(xp.sum(Z * Z, axis=1))
    return Z / xp.where(lengths > 0.0, lengths, xp.ones_like(lengths))[:, None]
