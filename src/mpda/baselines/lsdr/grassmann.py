"""Ascent of a function of a subspace: natural gradient on the Grassmann manifold.

A subspace is the row space of W (r, d) with orthonormal rows. The natural gradient is the part of
the gradient that leaves the subspace, G (I - W'W), and a step follows the geodesic in its direction
(A. Edelman, T. A. Arias and S. T. Smith, "The Geometry of Algorithms with Orthogonality
Constraints", SIAM Journal on Matrix Analysis and Applications 20(2), 1998).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats

# The value at W (r, d) and its gradient (r, d) with respect to the entries of W.
Objective = Callable[[Floats], tuple[float, Floats]]

# Share of the gain that the slope promises which a step must keep.
_ARMIJO = 1e-4
_MOST_HALVINGS = 30
# In radians: a first step is a guess, a later one may turn no direction by more than this.
_FIRST_ANGLE = 0.2
_LARGEST_ANGLE = math.pi / 4
# A single short step says little; the gain is taken over some of them.
_PATIENCE = 5


@dataclass(frozen=True)
class Iteration:
    """Where an iteration arrived; iteration 0 is the start, with step 0.

    gradient_norm : of the natural gradient, per radian; seconds : since the start of the ascent
    """

    number: int
    objective: float
    gradient_norm: float
    step: float
    seconds: float


@dataclass(frozen=True)
class Ascent:
    """W : (r, d) orthonormal rows; record : every iteration; stop_reason : one of

    "gradient" (below tolerance), "gain" (below tolerance), "no ascent" (no step increases the
    objective: rounding), "max_iter", "max_time".
    """

    W: Floats
    record: list[Iteration]
    stop_reason: str


def ascend(
    objective: Objective,
    start: Floats,
    *,
    tol: float,
    max_iter: int,
    max_time: float = math.inf,
    progress: Callable[[Iteration], None] | None = None,
) -> Ascent:
    """Increase the objective from ``start`` (r, d), orthonormal rows; it never decreases."""
    begin = time.monotonic()
    here = _Place.of(objective, start)
    step = _FIRST_ANGLE / max(here.steepest, np.finfo(float).tiny)
    record: list[Iteration] = []
    used = 0.0
    while True:
        record.append(Iteration(len(record), here.value, here.norm, used, time.monotonic() - begin))
        if progress is not None:
            progress(record[-1])
        reason = _stop_reason(record, tol, max_iter, max_time)
        if reason is not None:
            return Ascent(here.W, record, reason)
        found = _uphill(objective, here, min(step, _LARGEST_ANGLE / here.steepest))
        if found is None:
            return Ascent(here.W, record, "no ascent")
        there, used = found
        step = _next_step(here, there, used)
        here = there


def _stop_reason(record: list[Iteration], tol: float, max_iter: int, max_time: float) -> str | None:
    last = record[-1]
    small = tol * max(1.0, abs(last.objective))
    if last.gradient_norm <= small:
        return "gradient"
    if len(record) > _PATIENCE and last.objective - record[-1 - _PATIENCE].objective <= small:
        return "gain"
    if last.number >= max_iter:
        return "max_iter"
    if last.seconds >= max_time:
        return "max_time"
    return None


@dataclass(frozen=True)
class _Place:
    """A subspace W (r, d), the value there, and the natural gradient (r, d)."""

    W: Floats
    value: float
    tangent: Floats

    @classmethod
    def of(cls, objective: Objective, W: Floats) -> _Place:
        value, gradient = objective(W)
        return cls(W, value, tangent_part(W, gradient))

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.tangent))

    @property
    def steepest(self) -> float:
        """The largest angle that a unit step turns by."""
        return float(np.linalg.norm(self.tangent, ord=2))


def tangent_part(W: Floats, gradient: Floats) -> Floats:
    """The part of a gradient (r, d) that leaves the row space of W (r, d)."""
    return gradient - (gradient @ W.T) @ W


def _uphill(objective: Objective, here: _Place, step: float) -> tuple[_Place, float] | None:
    """The first place along the geodesic, at halved steps, with enough gain; and its step."""
    path = Geodesic.along(here.W, here.tangent)
    slope = here.norm**2
    for _ in range(_MOST_HALVINGS):
        there = _Place.of(objective, path.at(step))
        gain = there.value - here.value
        if gain > 0.0 and gain >= _ARMIJO * step * slope:
            return there, step
        step *= 0.5
    return None


def _next_step(here: _Place, there: _Place, step: float) -> float:
    """The step of Barzilai and Borwein, the shorter of their two, at most twice the last.

    Without the bound a long step now and then throws the ascent far enough to make differences of
    rounding, as between X and 3 X, visible in the answer.
    """
    change = here.tangent - there.tangent
    curvature = float(np.sum((there.W - here.W) * change))
    if curvature <= 0.0:
        return 2.0 * step
    return min(curvature / float(np.sum(change**2)), 2.0 * step)


@dataclass(frozen=True)
class Geodesic:
    """The geodesic from W along U diag(angles) V.

    base : (r, d) U'W; U : (r, r); angles : (r,) per unit of the step; V : (r, d)
    """

    base: Floats
    U: Floats
    angles: Floats
    V: Floats

    @classmethod
    def along(cls, W: Floats, tangent: Floats) -> Geodesic:
        """From W (r, d), orthonormal rows, along a tangent (r, d) whose rows leave its span."""
        U, angles, V = np.linalg.svd(tangent, full_matrices=False)
        return cls(U.T @ W, U, angles, V)

    def at(self, step: float) -> Floats:
        """The point (r, d) after ``step``; its rows are orthonormal."""
        turned = np.cos(self.angles * step)[:, None] * self.base
        turned += np.sin(self.angles * step)[:, None] * self.V
        W = self.U @ turned
        # One Newton step towards the nearest orthonormal rows, so that rounding does not add up.
        return 1.5 * W - 0.5 * (W @ W.T) @ W
