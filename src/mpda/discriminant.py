"""The fit from labelled samples to directions, as the methods with tangent spaces share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpda._threads import one_blas_thread
from mpda._typing import Floats, Ints
from mpda.contributions import PatchRule, Plan, Totals, Units, class_contribution
from mpda.engines import in_order
from mpda.frames import frame
from mpda.partition import Partition
from mpda.pencils import Directions, pencil_residual, signed, solve_pencil, solve_two_stage
from mpda.reduction import eliminated

# Up to this many dimensions the work on a class gains nothing from threads inside BLAS.
_SMALL = 256


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

    def in_units(self, units: Units) -> Strengths:
        alpha = self.alpha * units.alpha
        beta = alpha if self.tangent_alpha is None else self.tangent_alpha * units.beta
        return Strengths(self.gamma * units.gamma, alpha, beta)


@dataclass(frozen=True)
class Discriminant:
    """A fit.

    directions : for the samples, by decreasing eigenvalue
    mean : (d,) of the samples
    residual : how well the directions solve the pencil
    strengths : gamma, alpha and beta in the units of the samples
    patches : the patches of each class, None where samples have their own tangent spaces
    dimensions : the dimensions of the tangent spaces of each class
    """

    directions: Directions
    mean: Floats
    residual: float
    strengths: Strengths
    patches: list[Partition | None]
    dimensions: list[Ints]


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
    work = [
        (view.points[members], view.coordinates[members], plan, rule)
        for members, rule in zip(classes, patch_rules, strict=True)
    ]
    d = view.coordinates.shape[1]
    totals = Totals.empty(d)
    forms, patches = [], []
    with one_blas_thread(d <= _SMALL):
        for part in in_order(class_contribution, work, n_jobs=n_jobs, report=_stage(report, 1)):
            totals += part
            forms.append(part.form)
            patches.append(part.patches)

        if penalties.relative:
            units = totals.units(int(np.count_nonzero(np.ptp(X, axis=0))))
        else:
            units = Units(*[view.scaled(1.0)] * 3)
        used = penalties.in_units(units)
        within = totals.within + used.alpha * np.eye(d)
        reductions = [(form, used.gamma, used.beta) for form in forms]
        for taken in in_order(eliminated, reductions, n_jobs=n_jobs, report=_stage(report, 2)):
            within -= taken

    between = totals.between.form()
    found = (solve_two_stage if two_stage else solve_pencil)(between, within)
    kept = found.first(_number_kept(found.eigenvalues.size, n_components))
    return Discriminant(
        directions=signed(Directions(kept.eigenvalues, view.directions(kept.vectors))),
        mean=view.mean,
        residual=pencil_residual(between, within, kept),
        strengths=Strengths(
            view.unscaled(used.gamma), view.unscaled(used.alpha), view.unscaled(used.beta)
        ),
        patches=patches,
        dimensions=[form.used.sum(axis=1) for form in forms],
    )


def _stage(report: str | None, number: int) -> str | None:
    names = {1: "graphs and forms (1/2)", 2: "reduction (2/2)"}
    return None if report is None else f"{report}, {names[number]}"


def _number_kept(n_found: int, n_components: int | None) -> int:
    if n_components is None:
        return n_found
    if n_components > n_found:
        raise ValueError(
            f"n_components={n_components} is more than there is: only {n_found} directions have "
            "an eigenvalue above 1e-10 of the largest. Ask for at most that many, or for None to "
            "keep them all."
        )
    return n_components
