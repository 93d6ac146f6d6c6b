"""The fit of MPDA and PMPDA: units, Schur complement, eigenproblem.

The directions solve the generalized eigenproblem (EigenDecomp in the paper, v eliminated)

    S' t = lambda [ S_tt + alpha I - S_tv (S_vv + beta I)^-1 S_tv' ] t.

All matrices are sums over classes (``class_stages``). With relative units, gamma, alpha and beta
follow from the sums, so the Schur complement takes a second pass over the classes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from mpda._lib.array_types import Array
from mpda._lib.arrays import eye, ldexp
from mpda._lib.memory import release_free_memory
from mpda._lib.samples import Coordinates, FitSamples
from mpda._lib.threads import SMALL, one_blas_thread
from mpda.discriminant.class_pool import ClassPool, sum_contributions
from mpda.discriminant.class_stages import ClassStages
from mpda.discriminant.class_sums import ClassSummary, ClassSums, Contributions, add_matrices
from mpda.discriminant.eigenproblem import (
    LARGEST_STRENGTH,
    Directions,
    Eigenproblem,
    check_n_directions,
    eigenpair_residual,
    fix_signs,
    solve_eigenproblem,
    solve_two_stage,
)
from mpda.discriminant.many_ridges import eliminate_at_ridges
from mpda.discriminant.scatter import symmetrize
from mpda.discriminant.settings import (
    ClassSettings,
    DiscriminantSettings,
    Penalties,
    Strengths,
    Units,
    group_equal,
)
from mpda.exceptions import PartitionError, SingularFormError


@dataclass(frozen=True)
class FitState:
    """The sums of a fit, to which classes can be added.

    Attributes
    ----------
    sums : ClassSums
        Sums over the classes so far.
    strengths : Strengths
        gamma, alpha and beta in absolute units.
    coordinates : Coordinates
        Coordinates in which the sums were computed.
    """

    sums: ClassSums
    strengths: Strengths
    coordinates: Coordinates

    @property
    def mean(self) -> Array:
        """Mean of all samples (n_features,), in their own units."""
        offset = self.coordinates.rotate_back(self.sums.between.mean[:, None])[:, 0]
        return ldexp(self.coordinates.origin + offset, self.coordinates.exponent)

    def move(self, coordinates: Coordinates) -> FitState:
        """Return the state in other coordinates without rotation.

        Parameters
        ----------
        coordinates : Coordinates
            Coordinates with another origin or another scale.

        Returns
        -------
        FitState
            Differences of samples are scaled; only class means depend on the origin.
        """
        state, old = self.without_rotation(), self.coordinates
        shift = old.exponent - coordinates.exponent
        offset = ldexp(old.origin, shift) - coordinates.origin
        scale, strengths = 2.0 ** (2 * shift), self.strengths
        sums = state.sums.scale(scale)
        between = replace(sums.between, means=ldexp(sums.between.means, shift) + offset)
        return FitState(
            replace(sums, between=between),
            Strengths(scale * strengths.gamma, scale * strengths.alpha, scale * strengths.beta),
            coordinates,
        )

    def without_rotation(self) -> FitState:
        """Return the state in the axes of X."""
        basis = self.coordinates.basis
        if basis is None:
            return self
        coordinates = replace(self.coordinates, basis=None)
        return replace(self, sums=self.sums.rotate_back(basis), coordinates=coordinates)


@dataclass(frozen=True)
class DiscriminantFit:
    """A fit of MPDA or PMPDA.

    Attributes
    ----------
    directions : Directions
        In the units of X, by decreasing eigenvalue.
    residual : float
        Largest relative residual of the eigenpairs.
    state : FitState
        What ``partial_fit`` continues from.
    summaries : list of ClassSummary
        One for each class of this call.
    """

    directions: Directions
    residual: float
    state: FitState
    summaries: list[ClassSummary]

    @property
    def strengths(self) -> Strengths:
        """Weight and ridges in squared units of X."""
        strengths, convert = self.state.strengths, self.state.coordinates.to_squared_units
        return Strengths(
            convert(strengths.gamma), convert(strengths.alpha), convert(strengths.beta)
        )


def absolute_strengths(penalties: Penalties, coordinates: Coordinates) -> Strengths:
    """Return the strengths of penalties that are in squared units of X."""
    one = coordinates.from_squared_units(1.0)
    return _multiply(penalties, Units(one, one, one))


def _multiply(penalties: Penalties, units: Units) -> Strengths:
    """Return the weight and the ridges in squared units of the points."""
    alpha = penalties.alpha * units.alpha
    # The paper has one ridge for t and v: beta = alpha, whatever the units.
    beta = alpha if penalties.tangent_alpha is None else penalties.tangent_alpha * units.beta
    strengths = Strengths(penalties.gamma * units.gamma, alpha, beta)
    if max(strengths.gamma, strengths.alpha, strengths.beta) > LARGEST_STRENGTH:
        raise ValueError(
            f"gamma={penalties.gamma:g}, alpha={penalties.alpha:g} or "
            f"tangent_alpha={penalties.tangent_alpha} is too large for samples of this scale: "
            "products with it leave the range of floating-point numbers. Set a smaller value."
        )
    return strengths


def fit_discriminant(
    classes: ClassPool,
    contributions: Contributions,
    samples: FitSamples,
    settings: DiscriminantSettings,
    n_components: int | None,
    add_forms: Callable[[ClassSums], ClassSums] | None = None,
) -> DiscriminantFit:
    """Compute the directions of one fit from the sums over classes.

    Parameters
    ----------
    classes : ClassPool
        Stages of all classes.
    contributions : Contributions
        Sums over all classes. With absolute units they contain the Schur complements; with relative
        units these are computed here, because gamma and beta follow from the sums.
    samples : FitSamples
        Samples of the fit.
    settings : DiscriminantSettings
        Parameters of the fit.
    n_components : int or None
        Number of directions; None keeps all.
    add_forms : callable, default=None
        Adds further matrices to the sums, after units were derived from these.

    Returns
    -------
    DiscriminantFit
        Directions in the units of X.
    """
    sums, summaries = contributions.sums, contributions.summaries
    coordinates = samples.coordinates
    with one_blas_thread(coordinates.dimension <= SMALL):
        strengths = resolve_strengths(settings.penalties, sums, samples)
        if settings.penalties.relative:
            # The second pass over the classes. Forms that were kept are not computed again.
            contributions = _eliminate_classes(classes, contributions, settings.classes, strengths)
            sums, summaries = contributions.sums, contributions.summaries
        if add_forms is not None:
            sums = add_forms(sums)
        state = FitState(sums, strengths, coordinates)
        return solve_fit(state, summaries, settings.two_stage, n_components)


def _eliminate_classes(
    classes: ClassPool,
    contributions: Contributions,
    settings: ClassSettings,
    strengths: Strengths,
) -> Contributions:
    """Add the Schur complement terms of all classes to their sums."""
    sums, summaries = contributions.sums, []
    release_free_memory()  # of neighbour searches: the matrices of this pass have other sizes
    work = partial(ClassStages.eliminate, settings=settings, strengths=strengths)
    results = classes.map("Schur complements (2/2)", work)
    for summary, result in zip(contributions.summaries, results, strict=True):
        sums = replace(sums, eliminated=add_matrices(sums.eliminated, result.matrix))
        summaries.append(replace(summary, solver=result.solver, residual=result.residual))
        del result  # the next class is computed without the matrix of this one
    return replace(contributions, sums=sums, summaries=summaries)


def resolve_strengths(penalties: Penalties, sums: ClassSums, samples: FitSamples) -> Strengths:
    """Compute gamma, alpha and beta in squared units of the points.

    Parameters
    ----------
    penalties : Penalties
        Weight and ridges, in relative or absolute units.
    sums : ClassSums
        Sums over classes, from which relative units follow.
    samples : FitSamples
        Samples of the fit.

    Returns
    -------
    Strengths
        In squared units of the points.
    """
    if not penalties.relative:
        return absolute_strengths(penalties, samples.coordinates)
    one = samples.coordinates.from_squared_units(1.0)
    return _multiply(penalties, sums.units(samples.n_varying, one))


def solve_all_settings(
    classes: ClassPool, samples: FitSamples, settings: Sequence[DiscriminantSettings]
) -> Iterator[tuple[int, Directions | SingularFormError | PartitionError]]:
    """Compute all directions for many settings on the same samples.

    Settings with equal class settings share every stage up to the within-class form, and those with
    equal gamma share the work on all ridges. Only one within-class form of a class is kept at a
    time.

    Yields
    ------
    index : int
        Number of the setting; settings come in the order in which their work is shared best.
    directions : Directions, SingularFormError or PartitionError
        In the units of X; the error where a setting has no answer.
    """
    for indices in group_equal(setting.classes for setting in settings):
        class_settings = settings[indices[0]].classes
        try:
            sums = sum_contributions(classes, class_settings).sums
        except PartitionError as error:
            yield from ((i, error) for i in indices)
            continue
        strengths = {i: resolve_strengths(settings[i].penalties, sums, samples) for i in indices}
        # Settings of one gamma share the tangent block, whatever their ridges.
        indices.sort(key=lambda i: strengths[i].gamma)
        for gamma, group in groupby(indices, key=lambda i: strengths[i].gamma):
            members = list(group)
            betas = tuple(sorted({strengths[i].beta for i in members}))
            complements = _sum_complements(classes, class_settings, gamma, betas)
            for i in members:
                complement = complements[betas.index(strengths[i].beta)]
                reduced = replace(sums, eliminated=complement)
                state = FitState(reduced, strengths[i], samples.coordinates)
                yield i, _try_solve(state, settings[i].two_stage)


def _sum_complements(
    classes: ClassPool,
    settings: ClassSettings,
    gamma: float,
    betas: tuple[float, ...],
) -> list[Array]:
    """Return the eliminated term (r, r), summed over classes, for each beta."""
    totals: list[Array] = []
    work = partial(_complements, settings=settings, gamma=gamma, betas=betas)
    for matrices in classes.map("Schur complements", work):
        totals = list(map(operator.add, totals, matrices)) if totals else list(matrices)
    return totals


def _complements(
    stages: ClassStages, settings: ClassSettings, gamma: float, betas: tuple[float, ...]
) -> Sequence[Array]:
    return eliminate_at_ridges(stages.within_form(settings), gamma, betas)


def _try_solve(state: FitState, two_stage: bool) -> Directions | SingularFormError:
    try:
        directions = _solve_all(state, two_stage)[1]
    except SingularFormError as error:
        return error
    vectors = fix_signs(state.coordinates.to_components(directions.vectors))
    return replace(directions, vectors=vectors)


def solve_fit(
    state: FitState, summaries: list[ClassSummary], two_stage: bool, n_components: int | None
) -> DiscriminantFit:
    """Solve the eigenproblem and keep the leading directions.

    Parameters
    ----------
    state : FitState
        Sums over classes and strengths.
    summaries : list of ClassSummary
        Reports of the classes, which the result carries on.
    two_stage : bool
        True selects the solver that the paper describes: range of S' first.
    n_components : int or None
        Number of directions; None keeps all.

    Returns
    -------
    DiscriminantFit
        Directions in the units of X.
    """
    problem, directions = _solve_all(state, two_stage)
    directions = directions.first(check_n_directions(directions.eigenvalues.shape[0], n_components))
    residual = eigenpair_residual(problem.numerator, problem.denominator, directions)
    vectors = fix_signs(state.coordinates.to_components(directions.vectors))
    return DiscriminantFit(replace(directions, vectors=vectors), residual, state, summaries)


def _solve_all(state: FitState, two_stage: bool) -> tuple[Eigenproblem, Directions]:
    """Return the reduced eigenproblem and all its directions, in the coordinates of the fit."""
    sums, alpha = state.sums, state.strengths.alpha
    problem, ridged = reduced_eigenproblem(sums, alpha)
    solve = solve_two_stage if two_stage else solve_eigenproblem
    return problem, solve(problem.numerator, problem.denominator, alpha, ridged)


def reduced_eigenproblem(sums: ClassSums, alpha: float) -> tuple[Eigenproblem, Array]:
    """Build the eigenproblem for t that is left after the tangent vectors (TSD_Obj, EigenDecomp).

        S' t = lambda [ S_tt + alpha I - S_tv (S_vv + beta I)^-1 S_tv' ] t

    Parameters
    ----------
    sums : ClassSums
        Sums over classes, with the eliminated term.
    alpha : float
        Ridge on t, in squared units of the points.

    Returns
    -------
    problem : Eigenproblem
        S' and the Schur complement of the tangent block, (r, r) each.
    ridged : array of shape (r, r)
        S_tt + alpha I. Rounding errors of the Schur complement are relative to it.
    """
    ridged = symmetrize(sums.within)
    ridged += alpha * eye(ridged.shape[0], ridged)
    assert sums.eliminated is not None  # every fit eliminates the tangent vectors first
    return Eigenproblem(sums.between.form(), ridged - sums.eliminated), ridged
