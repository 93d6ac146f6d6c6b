"""Sums over classes: everything that a fit needs of its samples.

The matrices of the eigenproblem (EigenDecomp), their relative units and the class means are sums
over classes. A class contributes the sums over itself, and sums over different classes are added.
So threads, a cluster, ``partial_fit`` and merged summaries all add up the same objects, which hold
arrays and numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import array_namespace
from mpda.discriminant.scatter import BetweenClassSums
from mpda.discriminant.settings import Units


@dataclass(frozen=True)
class ClassSummary:
    """Facts about one class that a fit reports.

    Attributes
    ----------
    tangent_dimensions : ndarray of shape (n_patches,)
        m_p; empty where every sample has its own tangent space.
    linearity : ndarray of shape (n_patches,)
        R^p of each patch; empty likewise.
    solver : str
        Solver that eliminated the tangent vectors; empty before the elimination.
    residual : float
        Largest relative residual norm of the tangent vectors.
    """

    tangent_dimensions: Ints
    linearity: Floats
    solver: str = ""
    residual: float = 0.0


@dataclass(frozen=True)
class ClassSums:
    """Sums over one or several classes. Those of other classes, in the same coordinates, are added.

    Attributes
    ----------
    between : BetweenClassSums
        Sums of the between-class form S'.
    within : array of shape (r, r)
        Sum of S_tt.
    n_edges : float
        Number of edges of W, or the sum of their weights.
    tangent_size : int
        Number of entries of v, sum_p m_p.
    tangent_trace : float
        Trace of the first-order part of S_vv.
    eliminated : array of shape (r, r) or None
        Sum of S_tv (S_vv + beta I)^-1 S_tv'; None before gamma and beta are known.
    """

    between: BetweenClassSums
    within: Array
    n_edges: float
    tangent_size: int
    tangent_trace: float
    eliminated: Array | None = None

    def __add__(self, other: ClassSums) -> ClassSums:
        return ClassSums(
            self.between + other.between,
            self.within + other.within,
            self.n_edges + other.n_edges,
            self.tangent_size + other.tangent_size,
            self.tangent_trace + other.tangent_trace,
            add_matrices(self.eliminated, other.eliminated),
        )

    def units(self, n_varying: int, one: float) -> Units:
        """Return the relative units.

        Parameters
        ----------
        n_varying : int
            Number of features that are not constant.
        one : float
            1 in squared units of X, which replaces a unit that is 0.
        """
        trace = float(array_namespace(self.within).linalg.trace(self.within))
        return Units(
            # S_tt counts every edge twice, once in each order.
            gamma=trace / (2 * self.n_edges) if trace > 0.0 else one,
            alpha=trace / n_varying if trace > 0.0 else one,
            beta=self.tangent_trace / self.tangent_size if self.tangent_trace > 0.0 else one,
        )

    def rotate_back(self, basis: Array) -> ClassSums:
        """Return the sums in the axes in which the present coordinates have this basis (d, r)."""

        def rotate(matrix: Array) -> Array:
            # Rounding makes the product slightly asymmetric; solvers read one triangle only.
            product = basis @ matrix @ basis.T
            return 0.5 * (product + product.T)

        between = replace(
            self.between,
            means=self.between.means @ basis.T,
            distant_scatter=rotate(self.between.distant_scatter),
            mean_distant_scatter=rotate(self.between.mean_distant_scatter),
        )
        eliminated = None if self.eliminated is None else rotate(self.eliminated)
        return replace(self, between=between, within=rotate(self.within), eliminated=eliminated)

    def scale(self, factor: float) -> ClassSums:
        """Return the sums for samples whose squares are multiplied by a factor.

        Class means keep their values: they depend on the origin too.
        """
        between = replace(
            self.between,
            distant_scatter=factor * self.between.distant_scatter,
            mean_distant_scatter=factor * self.between.mean_distant_scatter,
        )
        return replace(
            self,
            between=between,
            within=factor * self.within,
            tangent_trace=factor * self.tangent_trace,
            eliminated=None if self.eliminated is None else factor * self.eliminated,
        )


def add_matrices(first: Array | None, second: Array | None) -> Array | None:
    """Return the sum of two matrices; None stands for 0."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


@dataclass(frozen=True)
class Contributions:
    """What one or several classes contribute to a fit.

    Attributes
    ----------
    sums : ClassSums
        Sums over the classes.
    summaries : list of ClassSummary
        One for each class.
    """

    sums: ClassSums
    summaries: list[ClassSummary]
