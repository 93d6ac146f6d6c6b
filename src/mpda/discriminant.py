"""The fit from labelled samples to directions, as the methods with tangent spaces share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mpda._threads import SMALL, class_threads, one_blas_thread
from mpda._typing import Floats, Ints
from mpda.contributions import (
    PatchRule,
    Plan,
    Totals,
    Units,
    class_contribution,
    class_reduction,
    remembered,
)
from mpda.engines import in_order
from mpda.forms import TangentForm
from mpda.frames import Frame, frame
from mpda.partition import Partition
from mpda.pencils import Directions, pencil_residual, signed, solve_pencil, solve_two_stage
from mpda.scatter import symmetric
from mpda.solutions import LARGEST_STRENGTH, Pencil, number_kept

# Forms that are kept from the first pass for the second; those beyond are made twice.
_KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Strengths:
    """The absolute weight gamma and the ridges alpha on t and beta on v."""

    gamma: float
    alpha: float
    beta: float


@dataclass(frozen=True)
class Penalties:
    """What a user sets, in the units that ``relative`` says; tangent_alpha None is beta = alpha."""

    gamma: float
    alpha: float
    tangent_alpha: float | None
    relative: bool

    def strengths(self, totals: Totals, view: Frame) -> Strengths:
        """The absolute strengths, in the units of the points."""
        one = view.scaled(1.0)
        units = totals.units(view.n_varying, one) if self.relative else Units(one, one, one)
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
class Discriminant:
    """A fit.

    directions : for the samples, by decreasing eigenvalue
    mean : (d,) of the samples
    residual : how well the directions solve the pencil
    strengths : gamma, alpha and beta in the units of the samples
    patches : the patches of each class, None where samples have their own tangent spaces
    dimensions : the dimensions of the tangent spaces of each class
    solvers : what eliminated the tangent vectors of each class
    """

    directions: Directions
    mean: Floats
    residual: float
    strengths: Strengths
    patches: list[Partition | None]
    dimensions: list[Ints]
    solvers: list[str]


def fit_discriminant(
    X: Floats,
    classes: Sequence[Ints],
    patch_rules: Sequence[PatchRule | None],
    plan: Plan,
    penalties: Penalties,
    *,
    two_stage: bool = False,
    n_components: int | None = None,
    n_jobs: int | None = None,
    report: str | None = None,
) -> Discriminant:
    """Directions from the samples X (n, d), the indices of each class and its patch rule."""
    view = frame(X)
    n_threads = class_threads(members.size for members in classes)
    each = partial(in_order, n=len(classes), n_jobs=n_jobs, n_threads=n_threads)
    with one_blas_thread(view.dimension <= SMALL or n_threads > 1):
        summed = _summed(view, classes, patch_rules, plan, each, report)
        used = penalties.strengths(summed.totals, view)
        taken, solvers = _eliminated(view, classes, summed, plan, used, each, report)
        pencil = reduced_pencil(summed.totals, taken, used)
        found = solved(pencil, used, two_stage)
        kept = found.first(number_kept(found.eigenvalues.size, n_components))
        residual = pencil_residual(pencil.numerator, pencil.denominator, kept)
    return Discriminant(
        directions=Directions(kept.eigenvalues, signed(view.directions(kept.vectors))),
        mean=view.mean,
        residual=residual,
        strengths=Strengths(
            view.unscaled(used.gamma), view.unscaled(used.alpha), view.unscaled(used.beta)
        ),
        patches=summed.patches,
        dimensions=summed.dimensions,
        solvers=solvers,
    )


def reduced_pencil(totals: Totals, taken: Floats, used: Strengths) -> Pencil:
    """S' and S_tt + alpha I less what eliminating v takes off (d, d)."""
    within = symmetric(totals.within) + used.alpha * np.eye(len(taken)) - taken
    return Pencil(totals.between.form(), within)


def solved(pencil: Pencil, used: Strengths, two_stage: bool) -> Directions:
    """Every direction of the reduced pencil."""
    solve = solve_two_stage if two_stage else solve_pencil
    return solve(pencil.numerator, pencil.denominator, used.alpha)


@dataclass(frozen=True)
class _Summed:
    """What the first pass over the classes leaves; a form that is not kept is None."""

    totals: Totals
    forms: list[TangentForm | None]
    patches: list[Partition | None]
    dimensions: list[Ints]


def _summed(
    view: Frame,
    classes: Sequence[Ints],
    patch_rules: Sequence[PatchRule | None],
    plan: Plan,
    each: Callable[..., Iterator[Any]],
    report: str | None,
) -> _Summed:
    """The first pass: graphs, patches, tangents and forms, and the sums over classes."""
    work = (
        (*view.part(members), plan, rule)
        for members, rule in zip(classes, patch_rules, strict=True)
    )
    title = report and f"{report}, graphs and forms (1/2)"
    totals = Totals.empty(view.dimension)
    summed = _Summed(totals, [], [], [])
    kept_bytes = 0
    for part in each(class_contribution, work, report=title):
        totals += part
        kept_bytes += part.form.nbytes
        summed.forms.append(part.form if kept_bytes <= _KEPT_BYTES else None)
        summed.patches.append(part.patches)
        summed.dimensions.append(part.form.dimensions)
    return replace(summed, totals=totals)


def _eliminated(
    view: Frame,
    classes: Sequence[Ints],
    summed: _Summed,
    plan: Plan,
    used: Strengths,
    each: Callable[..., Iterator[Any]],
    report: str | None,
) -> tuple[Floats, list[str]]:
    """The second pass: what eliminating v takes off S_tt (d, d), and the solver of each class."""
    work = (
        (form or (*view.part(members), plan, remembered(patches)), used.gamma, used.beta)
        for form, members, patches in zip(summed.forms, classes, summed.patches, strict=True)
    )
    title = report and f"{report}, reduction (2/2)"
    taken = np.zeros((view.dimension, view.dimension))
    solvers = []
    for part in each(class_reduction, work, report=title):
        taken += part.taken
        solvers.append(part.solver)
    return taken, solvers
