"""Points of the refinement on a sphere, and the derivative of their loss by the mapped samples.

With rho_i = sqrt(|z_i|^2 + k^2) the point of a mapped sample z_i is u_i = [z_i, k] / rho_i. For
G = dL/dU, the derivative by z_i is (G_i - (G_i . u_i) u_i) / rho_i without its last entry.

Distances do not change if the pole e = (0, .., 0, 1) is the origin. The points are computed as
u_i - e, because u_i alone would lose all digits of its neighbourhood where k is large.
"""

from dataclasses import dataclass

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace


@dataclass(frozen=True, eq=False)
class SpherePoints:
    """Points on the unit sphere.

    Parameters
    ----------
    points : array of shape (n, r + 1), or (n, r) where k is 0
        Points u_i minus the pole. With k = 0 there is no pole, and a sample at 0 stays 0.
    inverse_lengths : array of shape (n,)
        1 / rho_i, 0 where rho_i is 0.
    n_components : int
        r.
    """

    points: Array
    inverse_lengths: Array
    n_components: int

    def pull_back(self, gradient: Array) -> Array:
        """Return the derivative by the mapped samples.

        Parameters
        ----------
        gradient : array of shape (n, r + 1) or (n, r)
            Derivative of a function by the points.

        Returns
        -------
        array of shape (n, r)
            Derivative by the mapped samples. 0 for a sample at 0 with k = 0, where there is none.
        """
        xp, r = array_namespace(gradient), self.n_components
        along = xp.sum(gradient * self.points, axis=1)
        if gradient.shape[1] > r:
            along = along + gradient[:, r]
        tangent = gradient[:, :r] - along[:, None] * self.points[:, :r]
        return tangent * self.inverse_lengths[:, None]


def place_on_sphere(Z: Array, radius: float) -> SpherePoints:
    """Return the points of mapped samples.

    Parameters
    ----------
    Z : array of shape (n, r)
        Mapped samples, whose squares are in the range of their precision.
    radius : float
        The constant k.

    Returns
    -------
    SpherePoints
        The points about the pole.
    """
    xp = array_namespace(Z)
    squares = xp.sum(Z * Z, axis=1)
    lengths = xp.sqrt(squares + radius**2)
    ones = xp.ones_like(lengths)
    inverse = xp.where(lengths > 0.0, ones / xp.where(lengths > 0.0, lengths, ones), 0.0 * ones)
    points = Z * inverse[:, None]
    if radius > 0.0:
        # k / rho - 1, without cancellation.
        heights = -squares * inverse / (lengths + radius)
        points = xp.concat([points, heights[:, None]], axis=1)
    return SpherePoints(points, inverse, Z.shape[1])
