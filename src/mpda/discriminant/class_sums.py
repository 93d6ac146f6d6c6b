"""Sums over classes, to which classes can be added."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace, zeros
from mpda.discriminant.class_contribution import ClassContribution, ClassSummary
from mpda.discriminant.class_pool import ClassPool
from mpda.discriminant.class_stages import ClassStages
from mpda.discriminant.scatter import BetweenClassSums
from mpda.discriminant.settings import ClassSettings, Strengths, Units


@dataclass(frozen=True)
class ClassSums:
    """Sums over classes, to which classes can be added.

    Attributes
    ----------
    between : BetweenClassSums
        Sums of the between-class form.
    within : array of shape (r, r)
        Sum of S_tt.
    eliminated : array of shape (r, r)
        Sum of S_tv (S_vv + beta I)^-1 S_tv' over the classes whose tangent vectors are eliminated.
    n_edges : int
        Number of edges of W.
    tangent_trace : float
        Trace of the first-order part of S_vv.
    tangent_size : int
        Number of entries of v.
    """

    between: BetweenClassSums
    within: Array
    eliminated: Array
    n_edges: int = 0
    tangent_trace: float = 0.0
    tangent_size: int = 0

    @classmethod
    def empty_like(cls, matrix: Array) -> ClassSums:
        """Return the sums over no class, for matrices such as this one (r, r)."""
        zero = zeros(matrix.shape, matrix)
        return cls(BetweenClassSums.empty(matrix.shape[0], matrix), zero, zero)

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

    def add(self, contribution: ClassContribution) -> ClassSums:
        """Return the sums with one more class."""
        eliminated = self.eliminated
        if contribution.elimination is not None:
            eliminated = eliminated + contribution.elimination.matrix
        return ClassSums(
            self.between + contribution.scatter,
            self.within + contribution.within,
            eliminated,
            self.n_edges + contribution.n_edges,
            self.tangent_trace + contribution.tangent_trace,
            self.tangent_size + contribution.tangent_size,
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
        return replace(
            self, between=between, within=rotate(self.within), eliminated=rotate(self.eliminated)
        )


@dataclass(frozen=True)
class SummedContributions:
    """Sums over classes, and what a fit reports of each class.

    Attributes
    ----------
    sums : ClassSums
        Sums over the classes.
    summaries : list of ClassSummary
        One for each class that was added.
    """

    sums: ClassSums
    summaries: list[ClassSummary]


def sum_contributions(
    classes: ClassPool,
    settings: ClassSettings,
    strengths: Strengths | None = None,
    sums: ClassSums | None = None,
) -> SummedContributions:
    """Add the contributions of all classes to sums.

    Parameters
    ----------
    classes : ClassPool
        Stages of the classes.
    settings : ClassSettings
        Parameters of the stages.
    strengths : Strengths, default=None
        With them v is eliminated, and the eliminated terms are added too.
    sums : ClassSums, default=None
        Sums over earlier classes.

    Returns
    -------
    SummedContributions
        Sums over the earlier and the new classes; summaries of the new ones.
    """
    title = "graphs and forms (1/2)" if strengths is None else "graphs, forms, Schur complements"
    summaries = []
    work = partial(ClassStages.contribute, settings=settings, strengths=strengths)
    for contribution in classes.map(title, work):
        sums = ClassSums.empty_like(contribution.within) if sums is None else sums
        sums = sums.add(contribution)
        summaries.append(contribution.summary)
    assert sums is not None  # there is at least one class
    return SummedContributions(sums, summaries)
