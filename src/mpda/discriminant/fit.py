"""The fit from labelled samples to directions, as the methods with tangent spaces share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import eye, ldexp
from mpda._lib.coordinates import Coordinates
from mpda.discriminant.class_contribution import Totals, Units
from mpda.discriminant.eigenproblem import (
    Directions,
    eigenpair_residual,
    fix_signs,
    solve_eigenproblem,
    solve_two_stage,
)
from mpda.discriminant.passes import ClassWork, Passes, passes_over
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.solutions import LARGEST_STRENGTH, Eigenproblem, check_n_directions
from mpda.partition.tree import Partition


@dataclass(frozen=True)
class Strengths:
    """The absolute weight gamma and the ridges alpha on t and beta on v."""

    gamma: float
    alpha: float
    beta: float

    def changed(self, change: Callable[[float], float]) -> Strengths:
        """The same in other units."""
        return Strengths(change(self.gamma), change(self.alpha), change(self.beta))


@dataclass(frozen=True)
class Penalties:
    """What a user sets, in the units that ``relative`` says; tangent_alpha None is beta = alpha."""

    gamma: float
    alpha: float
    tangent_alpha: float | None
    relative: bool

    def strengths(self, totals: Totals | None, view: Coordinates) -> Strengths:
        """The absolute strengths, in the units of the points; relative units need the totals."""
        one = view.scaled(1.0)
        units = Units(one, one, one)
        if self.relative:
            assert totals is not None
            units = totals.units(view.n_varying, one)
        alpha = self.alpha * units.alpha
        beta = alpha if self.tangent_alpha is None else self.tangent_alpha * units.beta
        used = Strengths(self.gamma * units.gamma, alpha, beta)
        if max(used.gamma, used.alpha, used.beta) > LARGEST_STRENGTH:
            raise ValueError(
                f"gamma={self.gamma:g}, alpha={self.alpha:g} or tangent_alpha={self.tangent_alpha} "
                "is too large for samples of this scale: products with it leave the range of "
                "floating-point numbers. Set a smaller value."
            )
        return used


@dataclass(frozen=True)
class Sums:
    """What a fit has added up, to which classes can be added.

    totals : the sums over classes
    taken : (r, r) what eliminating v takes off S_tt
    used : the strengths in the units of the points
    exponent, origin, basis : where the coordinates are, as in a ``Coordinates``
    """

    totals: Totals
    taken: Array
    used: Strengths
    exponent: int
    origin: Array
    basis: Array | None

    @property
    def mean(self) -> Array:
        """The mean of all samples in their own units (d,)."""
        offset = self.totals.between.mean
        if self.basis is not None:
            offset = self.basis @ offset
        return ldexp(self.origin + offset, self.exponent)

    def ready_for(self, view: Coordinates) -> tuple[Sums, Coordinates]:
        """The sums in the axes of the samples and at a scale that suits those of a frame too; and
        the frame of these at that place."""
        totals, taken = self.totals, self.taken
        if self.basis is not None:
            totals = totals.moved(self.basis)
            taken = symmetrize(self.basis @ taken @ self.basis.T)
        exponent = max(self.exponent, view.exponent) if view.any() else self.exponent
        shift = self.exponent - exponent
        origin = ldexp(self.origin, shift)
        sums = Sums(
            totals.scaled(shift),
            ldexp(taken, 2 * shift),
            self.used.changed(lambda value: float(np.ldexp(value, 2 * shift))),
            exponent,
            origin,
            None,
        )
        return sums, view.at(exponent, origin)


@dataclass(frozen=True)
class Discriminant:
    """A fit.

    directions : for the samples, by decreasing eigenvalue
    mean : (d,) of the samples
    residual : how well the directions solve the pencil
    strengths : gamma, alpha and beta in the units of the samples
    sums : what classes can be added to
    patches : the patches of each class, None where samples have their own tangent spaces
    dimensions : the dimensions of the tangent spaces of each class
    solvers, residuals : what eliminated the tangent vectors of each class, and how well
    """

    directions: Directions
    mean: Array
    residual: float
    strengths: Strengths
    sums: Sums
    patches: list[Partition | None]
    dimensions: list[Ints]
    solvers: list[str]
    residuals: list[float]


@dataclass(frozen=True)
class Wanted:
    """How many directions are wanted, None for all, and whether only in the range of S'."""

    n_components: int | None
    two_stage: bool


def fit_discriminant(
    view: Coordinates,
    work: ClassWork,
    penalties: Penalties,
    wanted: Wanted,
) -> Discriminant:
    """Directions from the samples in a frame."""
    passes = passes_over(view, work)
    with passes.blas:
        if penalties.relative:
            kept = passes.sum_up()
            used = penalties.strengths(passes.totals, view)
            passes.eliminate(kept, used.gamma, used.beta)
        else:
            used = penalties.strengths(None, view)
            passes.do_both(used.gamma, used.beta)
        place = view.exponent, view.origin, view.basis
        sums = Sums(passes.totals, passes.taken, used, *place)
        return _solution(passes, view, sums, view.mean, wanted)


def extended_discriminant(
    sums: Sums,
    view: Coordinates,
    work: ClassWork,
    wanted: Wanted,
) -> Discriminant:
    """Directions from the classes of a fit and other classes, those of the samples in a frame.

    The strengths are those of the fit; patches, dimensions and solvers are those of the new
    classes.
    """
    sums, view = sums.ready_for(view)
    passes = passes_over(view, work, sums.totals, sums.taken)
    with passes.blas:
        passes.do_both(sums.used.gamma, sums.used.beta)
        sums = replace(sums, totals=passes.totals, taken=passes.taken)
        return _solution(passes, view, sums, sums.mean, wanted)


def _solution(
    passes: Passes, view: Coordinates, sums: Sums, mean: Array, wanted: Wanted
) -> Discriminant:
    """The directions from all sums, for the samples in a frame."""
    pencil = reduced_pencil(sums.totals, sums.taken, sums.used)
    found = solved(pencil, sums.used, wanted.two_stage)
    kept = found.first(check_n_directions(found.eigenvalues.shape[0], wanted.n_components))
    return Discriminant(
        directions=replace(kept, vectors=fix_signs(view.directions(kept.vectors))),
        mean=mean,
        residual=eigenpair_residual(pencil.numerator, pencil.denominator, kept),
        strengths=sums.used.changed(view.unscaled),
        sums=sums,
        patches=passes.patches,
        dimensions=passes.dimensions,
        solvers=passes.solvers,
        residuals=passes.residuals,
    )


def reduced_pencil(totals: Totals, taken: Array, used: Strengths) -> Eigenproblem:
    """S' and S_tt + alpha I less what eliminating v takes off (d, d)."""
    whole = symmetrize(totals.within) + used.alpha * eye(taken.shape[0], taken)
    return Eigenproblem(totals.between.form(), whole - taken, whole)


def solved(pencil: Eigenproblem, used: Strengths, two_stage: bool) -> Directions:
    """Every direction of the reduced pencil."""
    solve = solve_two_stage if two_stage else solve_eigenproblem
    return solve(pencil.numerator, pencil.denominator, used.alpha, pencil.minuend)
