"""MPDA and PMPDA at many parameters on the same samples, with their work shared.

Neighbours are searched once at the largest k; patches once per way to cut; graphs, tangents and
forms once per plan; and where there are many ridges, one eigendecomposition of S_vv per class and
gamma serves every alpha and beta, since

    S_tv (S_vv + beta I)^-1 S_tv' = sum_i h_i h_i' / (s_i + beta)

with S_vv = V diag(s) V' and h_i the columns of S_tv V. The forms of one plan and the decompositions
of one gamma are held at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mpda._typing import Floats, Ints
from mpda.cells import FoundLists, class_lists
from mpda.contributions import (
    ClassContribution,
    PatchRule,
    Plan,
    Totals,
    class_contribution,
    remembered,
)
from mpda.discriminant import Penalties, Strengths, reduced_pencil, solved
from mpda.exceptions import SingularFormError
from mpda.forms import TangentForm
from mpda.frames import Frame
from mpda.graphs import ClassPoints
from mpda.partition import Partition
from mpda.pencils import Directions, signed
from mpda.reduction import eliminated
from mpda.scatter import symmetric

# Up to this many unknowns a class may be decomposed; above, it is solved anew for every ridge.
_DECOMPOSED_LIMIT = 2000
# A decomposition takes the time of about so many factors: few up to so many unknowns, else many.
_FEW_FACTORS, _FEW_UNKNOWNS, _MANY_FACTORS = 4, 200, 10


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
    view: Frame, classes: Sequence[Ints], settings: Sequence[Setting]
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
    view: Frame,
    settings: Sequence[Setting],
    numbers: list[int],
    parts: list[ClassContribution],
    totals: Totals,
    used: dict[int, Strengths],
    gamma: float,
) -> Iterator[tuple[int, Directions | SingularFormError]]:
    betas = {used[i].beta for i in numbers}
    reductions = _Reductions(
        [part.form for part in parts if isinstance(part.form, TangentForm)], gamma, len(betas)
    )
    for i in sorted(numbers, key=lambda i: used[i].beta):
        pencil = reduced_pencil(totals, reductions.at(used[i].beta), used[i])
        try:
            found = solved(pencil, used[i], settings[i].two_stage)
        except SingularFormError as error:
            yield i, error
        else:
            yield i, Directions(found.eigenvalues, signed(view.directions(found.vectors)))


class _Shared:
    """What settings on the same samples have in common."""

    def __init__(self, view: Frame, classes: Sequence[Ints], settings: Sequence[Setting]) -> None:
        self._view = view
        self._classes = classes
        self._k = max(max(s.plan.n_neighbors, s.plan.partition_neighbors) for s in settings)
        self._lists: dict[tuple[str, int], FoundLists] = {}
        self._patches: dict[tuple[Hashable, int], Partition] = {}

    def contributions(self, setting: Setting) -> list[ClassContribution]:
        return [self._contribution(setting, c) for c in range(len(self._classes))]

    def _contribution(self, setting: Setting, c: int) -> ClassContribution:
        points, coordinates = self._view.part(self._classes[c])
        search = setting.plan.neighbor_search
        if (search, c) not in self._lists:
            self._lists[search, c] = class_lists(ClassPoints(points), self._k, search)
        known = self._patches.get((setting.cut, c))
        rule = setting.rules[c] if known is None else remembered(known)
        part = class_contribution(points, coordinates, setting.plan, rule, self._lists[search, c])
        if part.patches is not None:
            self._patches[setting.cut, c] = part.patches
        return part


class _Reductions:
    """What eliminating v takes off S_tt, for one gamma and any beta."""

    def __init__(self, forms: Sequence[TangentForm], gamma: float, n_betas: int) -> None:
        self._gamma = gamma
        d = forms[0].cross.shape[1]
        self._values = np.empty(0)
        self._columns = np.empty((d, 0))
        self._others = []
        pieces = []
        for form in forms:
            if _is_decomposed(form.size, n_betas):
                pieces.append(_decomposition(form, gamma))
            else:
                self._others.append(form)
        if pieces:
            self._values = np.concatenate([values for values, _ in pieces])
            self._columns = np.concatenate([columns for _, columns in pieces], axis=1)

    def at(self, beta: float) -> Floats:
        """The reduction (d, d), summed over classes."""
        shifted = self._values + beta
        weights = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > 0.0)
        taken = (self._columns * weights) @ self._columns.T
        for form in self._others:
            taken += eliminated(form, self._gamma, beta).taken
        return symmetric(taken)


def _is_decomposed(size: int, n_betas: int) -> bool:
    """Whether one decomposition is faster than a solution for every beta."""
    factors = _FEW_FACTORS if size <= _FEW_UNKNOWNS else _MANY_FACTORS
    return size <= _DECOMPOSED_LIMIT and n_betas > factors


def _decomposition(form: TangentForm, gamma: float) -> tuple[Floats, Floats]:
    """The eigenvalues s (q,) of S_vv and S_tv V (d, q); s is 0 where it is rounding."""
    values, vectors = np.linalg.eigh(form.tangent_block(gamma, 0.0))
    rounding = len(values) * np.finfo(float).eps * values.max(initial=0.0)
    return np.where(values > rounding, values, 0.0), form.cross_columns() @ vectors
