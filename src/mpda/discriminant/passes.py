"""The work on the classes of a fit: here, on a cluster, or on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import is_numpy, zeros
from mpda._lib.coordinates import Coordinates
from mpda._lib.threads import SMALL, class_threads, one_blas_thread, one_core_left
from mpda.discriminant.class_contribution import (
    ClassContribution,
    PatchRule,
    Plan,
    Totals,
    class_reduction,
    class_share,
    form_alone,
    packed_contribution,
    planned_lists,
    remembered,
    summarized_share,
    summary,
)
from mpda.discriminant.schur_complement import EliminationResult
from mpda.discriminant.within_form import PackedForm, WithinForm
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists
from mpda.parallel import crew, map_ordered, map_serial, prefetch
from mpda.partition.tree import Partition


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


_Kept = WithinForm | PackedForm | NeighborLists | None
"""What is kept of a class between two passes: its form, its neighbour lists, or nothing."""


def passes_over(view: Coordinates, work: ClassWork, *begun: Any) -> Passes:
    """The passes that suit where the samples are; begun with the sums of other classes, if any."""
    if work.cluster is not None:
        return _ClusterPasses(view, work, *begun)
    return (Passes if is_numpy(view.origin) else _DevicePasses)(view, work, *begun)


class Passes:
    """The work on the classes of a fit, in one pass or two, and what it adds up to.

    totals : the sums over classes
    taken : (d, d) what eliminating v takes off S_tt
    patches, dimensions, solvers, residuals : of each class, as in a ``Discriminant``
    blas : the threads that suit the work
    """

    _share: Callable[..., Any] = staticmethod(class_share)
    # Forms that are kept from the first pass for the second, the first in any case; those beyond
    # are made twice, from neighbour lists that are kept up to another limit.
    _kept_bytes, _kept_lists = 96 * 2**20, 16 * 2**20

    def __init__(
        self,
        view: Coordinates,
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
        self.patches: list[Partition | None] = []
        self.dimensions: list[Ints] = []
        self.solvers: list[str] = []
        self.residuals: list[float] = []

    def _threads(self) -> int:
        return class_threads([each.size for each in self._work.classes])

    def sum_up(self) -> list[_Kept]:
        """Graphs, patches, tangents and forms; what is kept of each class for the second pass."""
        kept: list[_Kept] = []
        form_bytes = list_bytes = 0
        sources = self._sources()
        ahead = self._n_threads > 1 and crew(self._work.n_jobs).n == 1
        ahead &= any(rule is not None for rule in self._work.rules)
        if ahead:
            # Cutting patches holds Python's lock; the search of neighbours does not.
            sources = prefetch(map(self._with_lists, sources))
            sources = prefetch(map(self._with_patches, sources))
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
            elif list_bytes + part.found.nbytes <= self._kept_lists:
                list_bytes += part.found.nbytes
                kept.append(part.found)
            else:
                kept.append(None)
        return kept

    def eliminate(self, kept: list[_Kept], gamma: float, beta: float) -> None:
        """What eliminating v takes off S_tt; forms that were not kept are made again."""
        sources = (
            self._source(c, remembered(self.patches[c]), each)
            if each is None or isinstance(each, NeighborLists)
            else each
            for c, each in enumerate(kept)
        )
        arguments = ((source, gamma, beta) for source in sources)
        for part in self._each(class_reduction, arguments, "reduction (2/2)", self._n_threads):
            self._take(part)

    def do_both(self, gamma: float, beta: float) -> None:
        """Both passes in one, where gamma and beta are known."""
        arguments = ((*source, gamma, beta) for source in self._sources())
        what = "graphs, forms, reduction"
        for part, elimination in self._each(self._share, arguments, what, self._n_threads):
            self._add(part)
            self._take(elimination)

    def _sources(self) -> Iterator[tuple[Any, ...]]:
        return (self._source(c, rule) for c, rule in enumerate(self._work.rules))

    def _source(
        self, c: int, rule: PatchRule | None, found: NeighborLists | None = None
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
        patches = rule(ClassPoints(points), found.first(plan.partition_neighbors))
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
        return map_ordered

    def _add(self, part: ClassContribution) -> None:
        self.totals += part
        self.patches.append(part.patches)
        self.dimensions.append(part.dimensions)

    def _take(self, part: EliminationResult) -> None:
        self.taken = self.taken + part.taken
        self.solvers.append(part.solver)
        self.residuals.append(part.residual)


class _DevicePasses(Passes):
    """The same on the device of another array library."""

    _kept_bytes, _kept_lists = 2**32, 2**31

    def _threads(self) -> int:
        return 1

    @property
    def _carry_out(self) -> Callable[..., Iterator[Any]]:
        return map_serial


class _ClusterPasses(Passes):
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

    def eliminate(self, kept: list[Any], gamma: float, beta: float) -> None:
        # Each form goes when it has been used.
        arguments = ((kept.pop(), gamma, beta) for _ in range(len(kept)))
        for part in self._each(class_reduction, arguments, "reduction (2/2)", 1):
            self._take(part)
