"""The contribution of one class to the sums of a fit: results of ``class_stages``, as plain data.

Workers of a cluster send these objects back, so they hold arrays and numbers only.
"""

from dataclasses import dataclass

from mpda._lib.array_types import Array, Floats, Ints
from mpda.discriminant.scatter import ClassScatter
from mpda.discriminant.schur_complement import EliminationResult


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
class ClassContribution:
    """Terms that one class adds to the sums of a fit.

    Attributes
    ----------
    scatter : ClassScatter
        For the between-class form S'.
    within : array of shape (r, r)
        S_tt.
    n_edges : float
        Number of edges of W, or the sum of their weights.
    tangent_size : int
        Number of entries of v, sum_p m_p.
    tangent_trace : float
        Trace of the first-order part of S_vv.
    summary : ClassSummary
        Tangent dimensions and linearity of the patches; solver and residual of the elimination.
    elimination : EliminationResult or None
        The Schur complement, where gamma and beta were known.
    """

    scatter: ClassScatter
    within: Array
    n_edges: float
    tangent_size: int
    tangent_trace: float
    summary: ClassSummary
    elimination: EliminationResult | None = None
