"""Gradient ascent on the Grassmann manifold, the set of r-dimensional subspaces (LSDR).

A subspace is the row space of W (r, d) with W W' = I. The natural gradient is the projection of the
Euclidean gradient G onto the tangent space, G (I - W'W), and a step follows the geodesic in its
direction (A. Edelman, T. A. Arias and S. T. Smith, "The Geometry of Algorithms with Orthogonality
Constraints", SIAM Journal on Matrix Analysis and Applications 20(2), 1998). Step lengths are those
of Barzilai and Borwein, with an Armijo line search. Depends on NumPy only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats
from mpda._lib.progress import ProgressPrinter

Objective = Callable[[Floats], tuple[float, Floats]]
"""Maps W (r, d) to the value and the Euclidean gradient (r, d)."""

# A step must gain this share of what the slope promises: the usual value of the Armijo condition.
_ARMIJO = 1e-4
# 30 halvings shorten a step by 1e-9; what gains nothing then is lost in rounding.
_MAX_HALVINGS = 30
# Angles in radians by which a step may turn a direction. The first step has no curvature to go by;
# later ones are bounded because the objective is far from quadratic over a quarter turn.
_FIRST_ANGLE = 0.2
_MAX_ANGLE = math.pi / 4
# The gain is measured over several iterations, because a single short step says little.
_PATIENCE = 5


@dataclass(frozen=True)
class Ascent:
    """Result of :func:`ascend`.

    Parameters
    ----------
    W : ndarray of shape (r, d)
        Orthonormal rows that span the subspace.
    history : dict of lists
        For the start and every iteration: "objective"; "gradient_norm", the Frobenius norm of the
        natural gradient, per radian; "step", the length relative to the gradient; "seconds" since
        the start.
    stop_reason : str
        "gradient" or "gain" (below the tolerance), "no ascent" (no step increases the objective:
        rounding), "max_iter" or "max_time".
    """

    W: Floats
    history: dict[str, list[float]]
    stop_reason: str


def ascend(
    objective: Objective,
    start: Floats,
    tol: float,
    max_iter: int,
    max_time: float = math.inf,
    title: str | None = None,
) -> Ascent:
    """Maximise a function of a subspace; the objective never decreases.

    Parameters
    ----------
    objective : callable
        Maps W (r, d) to its value and its Euclidean gradient (r, d).
    start : ndarray of shape (r, d)
        Orthonormal rows.
    tol : float
        The ascent ends when the gradient norm, or the gain of five iterations, is at most ``tol``
        times the objective (times 1 if the objective is smaller).
    max_iter : int
        Largest number of iterations.
    max_time : float, default=inf
        Seconds after which the ascent ends.
    title : str, default=None
        First words of the lines about progress on stderr; None prints nothing.

    Returns
    -------
    Ascent
        The subspace, the history and the reason for the end.
    """
    begin = time.monotonic()
    printer = ProgressPrinter(title)
    point, step = _evaluate(objective, start), 0.0
    next_step = _FIRST_ANGLE / max(point.angular_speed, np.finfo(float).tiny)
    names = "objective", "gradient_norm", "step", "seconds"
    history: dict[str, list[float]] = {name: [] for name in names}
    while True:
        values = point.value, point.norm, step, time.monotonic() - begin
        for name, value in zip(names, values, strict=True):
            history[name].append(value)
        reason, uphill = _stop_reason(history, tol, max_iter, max_time), None
        if reason is None:
            uphill = _line_search(objective, point, next_step)
            reason = None if uphill else "no ascent"
        state = f"SMI {point.value:.6g}, gradient {point.norm:.2g}"
        printer.report(f"iteration {len(history['step']) - 1}, {state}", is_last=reason is not None)
        if uphill is None:
            return Ascent(point.W, history, str(reason))
        previous, (point, step) = point, uphill
        next_step = _barzilai_borwein_step(previous, point, step)


def _line_search(objective: Objective, point: _Point, step: float) -> tuple[_Point, float] | None:
    """Return the first point with enough gain along the geodesic, at halved steps, and its step."""
    path = geodesic(point.W, point.gradient)
    step = min(step, _MAX_ANGLE / point.angular_speed)
    for _ in range(_MAX_HALVINGS):
        candidate = _evaluate(objective, path(step))
        gain = candidate.value - point.value
        if gain > 0.0 and gain >= _ARMIJO * step * point.norm**2:
            return candidate, step
        step *= 0.5
    return None


def _stop_reason(
    history: dict[str, list[float]], tol: float, max_iter: int, max_time: float
) -> str | None:
    objectives = history["objective"]
    limit = tol * max(1.0, abs(objectives[-1]))
    if history["gradient_norm"][-1] <= limit:
        return "gradient"
    if len(objectives) > _PATIENCE and objectives[-1] - objectives[-1 - _PATIENCE] <= limit:
        return "gain"
    if len(objectives) > max_iter:
        return "max_iter"
    return "max_time" if history["seconds"][-1] >= max_time else None


@dataclass(frozen=True)
class _Point:
    """A subspace W (r, d), the value of the objective and its natural gradient (r, d)."""

    W: Floats
    value: float
    gradient: Floats

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.gradient))

    @property
    def angular_speed(self) -> float:
        """Largest angle by which a step of length 1 turns a direction."""
        return float(np.linalg.norm(self.gradient, ord=2))


def _evaluate(objective: Objective, W: Floats) -> _Point:
    value, gradient = objective(W)
    return _Point(W, value, project_to_tangent(W, gradient))


def project_to_tangent(W: Floats, gradient: Floats) -> Floats:
    """Project a gradient onto the tangent space of the Grassmann manifold at W: G (I - W'W).

    Parameters
    ----------
    W : ndarray of shape (r, d)
        Orthonormal rows.
    gradient : ndarray of shape (r, d)
        Euclidean gradient G.

    Returns
    -------
    ndarray of shape (r, d)
        The natural gradient; its rows are orthogonal to those of W.
    """
    return gradient - (gradient @ W.T) @ W


def _barzilai_borwein_step(previous: _Point, point: _Point, step: float) -> float:
    """Return the shorter of the two Barzilai-Borwein steps, at most twice the last step.

    Without the bound, an occasional long step moves the ascent so far that rounding differences, as
    between X and 3 X, become visible in the result.
    """
    # The gradients lie in different tangent spaces. They are subtracted without parallel transport,
    # since the result is only the first guess of a line search.
    change = previous.gradient - point.gradient
    curvature = float(np.sum((point.W - previous.W) * change))
    if curvature <= 0.0:  # convex along the step, where the model of a maximum does not hold
        return 2.0 * step
    return min(curvature / float(np.sum(change**2)), 2.0 * step)


def geodesic(W: Floats, tangent: Floats) -> Callable[[float], Floats]:
    """Return the geodesic of the Grassmann manifold from W along a tangent.

    Parameters
    ----------
    W : ndarray of shape (r, d)
        Orthonormal rows.
    tangent : ndarray of shape (r, d)
        Direction whose rows are orthogonal to those of W.

    Returns
    -------
    callable
        Maps a step s to the orthonormal rows (r, d) at that distance.

    Notes
    -----
    With the singular value decomposition tangent = U diag(a) V, the geodesic is
    U (cos(a s) U'W + sin(a s) V).
    """
    U, angles, V = np.linalg.svd(tangent, full_matrices=False)
    base = U.T @ W

    def position(step: float) -> Floats:
        cosines, sines = np.cos(angles * step), np.sin(angles * step)
        rows = U @ (cosines[:, None] * base + sines[:, None] * V)
        # One Newton step towards the nearest orthonormal rows, so that rounding does not add up.
        return 1.5 * rows - 0.5 * (rows @ rows.T) @ rows

    return position
