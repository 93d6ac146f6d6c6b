"""MPDA and PMPDA at many parameters on the same samples, with their work shared.

Neighbours are searched once at the largest k; patches once per way to cut; graphs, tangents and
forms once per plan; and where there are many ridges, a class at one gamma is brought once into a
shape that serves every alpha and beta. The forms of one plan and what v takes off at one gamma are
held at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mpda._lib.array_types import Ints
from mpda._lib.coordinates import Coordinates
from mpda.discriminant.class_contribution import (
    ClassContribution,
    PatchRule,
    Plan,
    Totals,
    class_contribution,
    remembered,
)
from mpda.discriminant.eigenproblem import Directions, fix_signs
from mpda.discriminant.fit import Penalties, Strengths, reduced_pencil, solved
from mpda.discriminant.many_ridges import eliminated_at
from mpda.discriminant.within_form import WithinForm
from mpda.exceptions import SingularFormError
from mpda.neighbors.approximate_search import search_neighbors
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists
from mpda.partition.tree import Partition


@dataclass(frozen=True)
class Setting:
    """One choice of parameters.

    cut : what the patch rules depend on; equal cuts have equal rules
    rules : the patch rule of each class, None for PMPDA
    """

    cut: Hashable
    rules: Sequence[PatchRule | None]
    plan: Plan
    penalties: Penalties
    two_stage: bool


def shared_directions(
    view: Coordinates, classes: Sequence[Ints], settings: Sequence[Setting]
) -> Iterator[tuple[int, Directions | SingularFormError]]:
    """The number of a setting and its directions, in the order in which work is shared best.

    Where a setting has no answer, the error that says so takes the place of the directions.
    """
    shared = _Shared(view, classes, settings)
    order = sorted(range(len(settings)), key=lambda i: _plan_key(settings[i]))
    for _, group in groupby(order, key=lambda i: _plan_key(settings[i])):
        numbers = list(group)
        parts = shared.contributions(settings[numbers[0]])
        totals = Totals.empty(view.dimension, view.origin)
        for part in parts:
            totals += part
        used = {i: settings[i].penalties.strengths(totals, view) for i in numbers}
        numbers.sort(key=lambda i: used[i].gamma)
        for gamma, alike in groupby(numbers, key=lambda i: used[i].gamma):
            yield from _with_gamma(view, settings, list(alike), parts, totals, used, gamma)


def _plan_key(setting: Setting) -> tuple[str, str]:
    return repr(setting.cut), repr(setting.plan)


def _with_gamma(
    view: Coordinates,
    settings: Sequence[Setting],
    numbers: list[int],
    parts: list[ClassContribution],
    totals: Totals,
    used: dict[int, Strengths],
    gamma: float,
) -> Iterator[tuple[int, Directions | SingularFormError]]:
    taken = {used[i].beta: np.zeros((view.dimension, view.dimension)) for i in numbers}
    for part in parts:
        assert isinstance(part.form, WithinForm)
        each = eliminated_at(part.form, gamma, list(taken))
        for beta, own in zip(taken, each, strict=True):
            taken[beta] += own
    for i in numbers:
        pencil = reduced_pencil(totals, taken[used[i].beta], used[i])
        try:
            found = solved(pencil, used[i], settings[i].two_stage)
        except SingularFormError as error:
            yield i, error
        else:
            yield i, Directions(found.eigenvalues, fix_signs(view.directions(found.vectors)))


class _Shared:
    """What settings on the same samples have in common."""

    def __init__(
        self, view: Coordinates, classes: Sequence[Ints], settings: Sequence[Setting]
    ) -> None:
        self._view = view
        self._classes = classes
        self._k = max(max(s.plan.n_neighbors, s.plan.partition_neighbors) for s in settings)
        self._lists: dict[tuple[str, int], NeighborLists] = {}
        self._patches: dict[tuple[Hashable, int], Partition] = {}

    def contributions(self, setting: Setting) -> list[ClassContribution]:
        return [self._contribution(setting, c) for c in range(len(self._classes))]

    def _contribution(self, setting: Setting, c: int) -> ClassContribution:
        points, coordinates = self._view.part(self._classes[c])
        search = setting.plan.neighbor_search
        key = repr(search), c
        if key not in self._lists:
            self._lists[key] = search_neighbors(ClassPoints(points), self._k, search)
        known = self._patches.get((setting.cut, c))
        rule = setting.rules[c] if known is None else remembered(known)
        part = class_contribution(points, coordinates, setting.plan, rule, self._lists[key])
        if part.patches is not None:
            self._patches[setting.cut, c] = part.patches
        return part
