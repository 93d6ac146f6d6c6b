"""The fit from labelled samples to directions, as the methods with tangent spaces share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from mpda._arrays import eye, on_host, power_of_two, zeros
from mpda._threads import SMALL, class_threads, one_blas_thread, one_core_left
from mpda._typing import Array, Ints
from mpda.cells import FoundLists
from mpda.contributions import (
    ClassContribution,
    PatchRule,
    Plan,
    Totals,
    Units,
    class_reduction,
    class_share,
    form_alone,
    packed_contribution,
    planned_lists,
    remembered,
    summarized_share,
    summary,
)
from mpda.engines import in_order, made_ahead, one_by_one
from mpda.forms import PackedForm, TangentForm
from mpda.frames import Frame
from mpda.graphs import ClassPoints
from mpda.partition import Partition
from mpda.pencils import Directions, pencil_residual, signed, solve_pencil, solve_two_stage
from mpda.reduction import Elimination
from mpda.scatter import symmetric
from mpda.solutions import LARGEST_STRENGTH, Pencil, number_kept

# Forms that are kept from the first pass for the second, the first in any case; those beyond are
# made twice, from neighbour lists that are kept up to another limit.
_KEPT_BYTES, _KEPT_LISTS = 96 * 2**20, 16 * 2**20


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

    def strengths(self, totals: Totals | None, view: Frame) -> Strengths:
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
    exponent, origin, basis : where the coordinates are, as in a ``Frame``
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
        return power_of_two(self.origin + offset, self.exponent)

    def ready_for(self, view: Frame) -> tuple[Sums, Frame]:
        """The sums in the axes of the samples and at a scale that suits those of a frame too; and
        the frame of these at that place."""
        totals, taken = self.totals, self.taken
        if self.basis is not None:
            totals = totals.moved(self.basis)
            taken = symmetric(self.basis @ taken @ self.basis.T)
        exponent = max(self.exponent, view.exponent) if view.any() else self.exponent
        shift = self.exponent - exponent
        origin = power_of_two(self.origin, shift)
        sums = Sums(
            totals.scaled(shift),
            power_of_two(taken, 2 * shift),
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
    solvers : what eliminated the tangent vectors of each class
    searches, recalls : how the neighbours of each class were found, and the share of true ones
    """

    directions: Directions
    mean: Array
    residual: float
    strengths: Strengths
    sums: Sums
    patches: list[Partition | None]
    dimensions: list[Ints]
    solvers: list[str]
    searches: list[str]
    recalls: list[float]


@dataclass(frozen=True)
class ClassWork:
    """What the work on classes starts from: the classes, their patch rules, and how it is done.

    classes : the indices of each class or, on a cluster, what stands for its samples
    cluster : what carries the work out where the samples are; None where they are here
    report : the title under which progress goes to stderr
    """

    classes: Sequence[Any]
    rules: Sequence[PatchRule | None]
    plan: Plan
    n_jobs: int | None = None
    report: str | None = None
    cluster: Any = None


@dataclass(frozen=True)
class Wanted:
    """How many directions are wanted, None for all, and whether only in the range of S'."""

    n_components: int | None
    two_stage: bool


def fit_discriminant(
    view: Frame,
    work: ClassWork,
    penalties: Penalties,
    wanted: Wanted,
) -> Discriminant:
    """Directions from the samples in a frame."""
    passes = _passes(view, work)
    with passes.blas:
        if penalties.relative:
            kept = passes.sum_up()
            used = penalties.strengths(passes.totals, view)
            passes.eliminate(kept, used)
        else:
            used = penalties.strengths(None, view)
            passes.do_both(used)
        place = view.exponent, view.origin, view.basis
        sums = Sums(passes.totals, passes.taken, used, *place)
        return passes.solution(sums, view.mean, wanted)


def extended_discriminant(
    sums: Sums,
    view: Frame,
    work: ClassWork,
    wanted: Wanted,
) -> Discriminant:
    """Directions from the classes of a fit and other classes, those of the samples in a frame.

    The strengths are those of the fit; patches, dimensions and solvers are those of the new
    classes.
    """
    sums, view = sums.ready_for(view)
    passes = _passes(view, work, sums.totals, sums.taken)
    with passes.blas:
        passes.do_both(sums.used)
        sums = replace(sums, totals=passes.totals, taken=passes.taken)
        return passes.solution(sums, sums.mean, wanted)


_Kept = TangentForm | PackedForm | FoundLists | None
"""What is kept of a class between two passes: its form, its neighbour lists, or nothing."""


def _passes(view: Frame, work: ClassWork, *begun: Any) -> _Passes:
    if work.cluster is not None:
        return _ClusterPasses(view, work, *begun)
    return (_Passes if on_host(view.origin) else _DevicePasses)(view, work, *begun)


class _Passes:
    """The work on the classes of a fit, in one pass or two, and what it adds up to."""

    _share: Callable[..., Any] = staticmethod(class_share)
    _kept_bytes, _kept_lists = _KEPT_BYTES, _KEPT_LISTS

    def __init__(
        self,
        view: Frame,
        work: ClassWork,
        totals: Totals | None = None,
        taken: Array | None = None,
    ) -> None:
        self._view = view
        self._work = work
        self._n_threads = self._threads()
        self.blas = one_blas_thread(view.dimension <= SMALL or self._n_threads > 1)
        d = view.dimension
        self.totals = Totals.empty(d, view.origin) if totals is None else totals
        self.taken = zeros((d, d), view.origin) if taken is None else taken
        self._patches: list[Partition | None] = []
        self._dimensions: list[Ints] = []
        self._solvers: list[str] = []
        self._searches: list[str] = []
        self._recalls: list[float] = []

    def _threads(self) -> int:
        return class_threads([each.size for each in self._work.classes])

    def sum_up(self) -> list[_Kept]:
        """Graphs, patches, tangents and forms; what is kept of each class for the second pass."""
        kept: list[_Kept] = []
        form_bytes = list_bytes = 0
        sources = self._sources()
        ahead = self._n_threads > 1 and effective_n_jobs(self._work.n_jobs) == 1
        ahead &= any(rule is not None for rule in self._work.rules)
        if ahead:
            # Cutting patches holds Python's lock; the search of neighbours does not.
            sources = made_ahead(map(self._with_lists, sources))
            sources = made_ahead(map(self._with_patches, sources))
        n_threads = 1 if ahead else self._n_threads
        room = True  # for forms
        sources = ((*source, room) for source in sources)
        for part in self._each(packed_contribution, sources, "graphs and forms (1/2)", n_threads):
            self._add(part)
            form = part.form
            room = form is not None and form_bytes + form.nbytes <= self._kept_bytes
            if form is not None and (room or not form_bytes):
                form_bytes += form.nbytes
                kept.append(form)
            elif list_bytes + part.found.lists.nbytes <= self._kept_lists:
                list_bytes += part.found.lists.nbytes
                kept.append(part.found)
            else:
                kept.append(None)
        return kept

    def eliminate(self, kept: list[_Kept], used: Strengths) -> None:
        """What eliminating v takes off S_tt; forms that were not kept are made again."""
        sources = (
            self._source(c, remembered(self._patches[c]), each)
            if each is None or isinstance(each, FoundLists)
            else each
            for c, each in enumerate(kept)
        )
        arguments = ((source, used.gamma, used.beta) for source in sources)
        for part in self._each(class_reduction, arguments, "reduction (2/2)", self._n_threads):
            self._take(part)

    def do_both(self, used: Strengths) -> None:
        """Both passes in one, where gamma and beta are known."""
        arguments = ((*source, used.gamma, used.beta) for source in self._sources())
        what = "graphs, forms, reduction"
        for part, elimination in self._each(self._share, arguments, what, self._n_threads):
            self._add(part)
            self._take(elimination)

    def solution(self, sums: Sums, mean: Array, wanted: Wanted) -> Discriminant:
        """The directions from all sums."""
        pencil = reduced_pencil(sums.totals, sums.taken, sums.used)
        found = solved(pencil, sums.used, wanted.two_stage)
        kept = found.first(number_kept(found.eigenvalues.shape[0], wanted.n_components))
        directions = self._view.directions(kept.vectors)
        return Discriminant(
            directions=Directions(kept.eigenvalues, signed(directions)),
            mean=mean,
            residual=pencil_residual(pencil.numerator, pencil.denominator, kept),
            strengths=sums.used.changed(self._view.unscaled),
            sums=sums,
            patches=self._patches,
            dimensions=self._dimensions,
            solvers=self._solvers,
            searches=self._searches,
            recalls=self._recalls,
        )

    def _sources(self) -> Iterator[tuple[Any, ...]]:
        return (self._source(c, rule) for c, rule in enumerate(self._work.rules))

    def _source(
        self, c: int, rule: PatchRule | None, found: FoundLists | None = None
    ) -> tuple[Any, ...]:
        """The arguments of ``class_contribution`` for one class."""
        return *self._view.part(self._work.classes[c]), self._work.plan, rule, found

    @staticmethod
    def _with_lists(source: tuple[Any, ...]) -> tuple[Any, ...]:
        points, coordinates, plan, rule, _ = source
        with one_core_left():
            found = planned_lists(ClassPoints(points), plan)
        return points, coordinates, plan, rule, found

    @staticmethod
    def _with_patches(source: tuple[Any, ...]) -> tuple[Any, ...]:
        points, coordinates, plan, rule, found = source
        patches = rule(ClassPoints(points), found.lists.first(plan.partition_neighbors))
        return points, coordinates, plan, remembered(patches), found

    def _each(
        self,
        piece: Callable[..., Any],
        arguments: Iterator[tuple[Any, ...]],
        what: str,
        n_threads: int,
    ) -> Iterator[Any]:
        work = self._work
        return self._carry_out(
            piece,
            arguments,
            len(work.classes),
            n_jobs=work.n_jobs,
            report=work.report and f"{work.report}, {what}",
            n_threads=n_threads,
        )

    @property
    def _carry_out(self) -> Callable[..., Iterator[Any]]:
        return in_order

    def _add(self, part: ClassContribution) -> None:
        self.totals += part
        self._patches.append(part.patches)
        self._dimensions.append(part.dimensions)
        self._searches.append(part.found.search)
        self._recalls.append(part.found.recall)

    def _take(self, part: Elimination) -> None:
        self.taken = self.taken + part.taken
        self._solvers.append(part.solver)


class _DevicePasses(_Passes):
    """The same on the device of another array library, where patches are cut in all classes at
    once: it is the number of operations that takes time there, not their size."""

    _kept_bytes, _kept_lists = 2**32, 2**31

    def _threads(self) -> int:
        return 1

    @property
    def _carry_out(self) -> Callable[..., Iterator[Any]]:
        return one_by_one

    def _sources(self) -> Iterator[tuple[Any, ...]]:
        plan, rules = self._work.plan, self._work.rules
        together = getattr(rules[0], "together", None)
        if together is None or any(rule is not rules[0] for rule in rules):
            yield from super()._sources()
            return
        sources = list(map(self._with_lists, super()._sources()))
        points = [ClassPoints(source[0]) for source in sources]
        lists = [source[-1].lists.first(plan.partition_neighbors) for source in sources]
        for source, patches in zip(sources, together(points, lists), strict=True):
            yield *source[:3], remembered(patches), source[-1]


class _ClusterPasses(_Passes):
    """The same where the samples are on a cluster; what is kept of a class stays there."""

    _share = staticmethod(summarized_share)

    def _threads(self) -> int:
        return 1

    @property
    def _carry_out(self) -> Callable[..., Iterator[Any]]:
        each: Callable[..., Iterator[Any]] = self._work.cluster.each
        return each

    def sum_up(self) -> list[Any]:
        kept: list[Any] = []
        cluster = self._work.cluster

        def made() -> Iterator[tuple[Any]]:
            for each in cluster.held(packed_contribution, self._sources()):
                kept.extend(cluster.held(form_alone, [(each,)]))
                yield (each,)

        for part in self._each(summary, made(), "graphs and forms (1/2)", 1):
            self._add(part)
        return kept[::-1]

    def eliminate(self, kept: list[Any], used: Strengths) -> None:
        # Each form goes when it has been used.
        arguments = ((kept.pop(), used.gamma, used.beta) for _ in range(len(kept)))
        for part in self._each(class_reduction, arguments, "reduction (2/2)", 1):
            self._take(part)


def reduced_pencil(totals: Totals, taken: Array, used: Strengths) -> Pencil:
    """S' and S_tt + alpha I less what eliminating v takes off (d, d)."""
    within = symmetric(totals.within) + used.alpha * eye(taken.shape[0], taken) - taken
    return Pencil(totals.between.form(), within)


def solved(pencil: Pencil, used: Strengths, two_stage: bool) -> Directions:
    """Every direction of the reduced pencil."""
    solve = solve_two_stage if two_stage else solve_pencil
    return solve(pencil.numerator, pencil.denominator, used.alpha)
