"""The search for the subspace in which samples depend most on their classes (LSDR).

Each start settles in short ascents of the squared-loss mutual information, with width and ridge
chosen again by cross-validation after each; the best one is then followed to its end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda._lib.coordinates import build_coordinates, scale_exponent
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import check_count, check_option
from mpda.baselines.graph_methods import class_codes
from mpda.baselines.lsdr.density_ratio import (
    CentredSamples,
    Choice,
    Smoothing,
    chosen_smoothing,
    drawn_centres,
    drawn_folds,
    smi_with_gradient,
)
from mpda.baselines.lsdr.grassmann import Ascent, Iteration, ascend
from mpda.discriminant.eigenproblem import fix_signs
from mpda.neighbors.graph import center

_RANDOM_STARTS = 3
# A start settles in short ascents, with width and ridge chosen again after each.
_SETTLING_ROUNDS = 4
_SETTLING_ITERATIONS = 40
# Ridge of the Fisher start, relative to the mean variance along an axis.
_FISHER_RIDGE = 0.1


@dataclass(frozen=True)
class SearchPlan:
    """What a user sets, checked; ``deadline`` on the monotonic clock."""

    n_centers: int
    widths: tuple[float, ...]
    ridges: tuple[float, ...]
    n_folds: int
    max_iter: int
    tol: float
    deadline: float
    report: Progress | None

    @property
    def time_left(self) -> float:
        return self.deadline - time.monotonic()


class Progress:
    """Lines on stderr about the iterations, at most one in two seconds besides those forced."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begin = self._last = time.monotonic()
        self.stage = ""

    def __call__(self, iteration: Iteration, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._last >= 2.0:
            print(
                f"{self._title}, {self.stage}: iteration {iteration.number}, "
                f"SMI {iteration.objective:.6g}, gradient {iteration.gradient_norm:.2g}, "
                f"{now - self._begin:.1f} s",
                file=sys.stderr,
            )
            self._last = now


@dataclass(frozen=True)
class FoundSubspace:
    """components : (r, d) orthonormal; mean : (d,); width : in the units of the samples."""

    components: Floats
    mean: Floats
    width: float
    ridge: float
    ascent: Ascent


def most_dependent_subspace(
    X: Floats,
    classes: Sequence[Ints],
    n_components: Any,
    init: Any,
    plan: SearchPlan,
    rng: np.random.Generator,
) -> FoundSubspace:
    """The subspace of the samples X (n, d), given the indices of each class."""
    # Whatever is drawn must depend neither on the order of the samples nor on names.
    order = np.lexsort(X.T[::-1])
    codes = _by_first_appearance(classes, order)
    axes = _principal_axes(X[order])
    r = _dimension(n_components, len(classes), len(axes.basis))
    with one_blas_thread(len(axes.basis) <= SMALL):
        data = CentredSamples(axes.points, codes, drawn_centres(codes, plan.n_centers, rng))
        folds = drawn_folds(codes, plan.n_folds, rng)
        starts = _starts(init, r, axes, codes, rng)
        settled = _best_settled(data, starts, folds, plan)
        ascent = _ascent(data, settled, plan)
        turned = _principal_rows(axes.points, ascent.W)
    return FoundSubspace(
        components=fix_signs((turned @ axes.basis).T).T,
        mean=axes.mean,
        width=float(np.ldexp(settled.smoothing.width, axes.exponent)),
        ridge=settled.smoothing.ridge,
        ascent=ascent,
    )


def _by_first_appearance(classes: Sequence[Ints], order: Ints) -> Ints:
    """The class of each ordered sample (n,), numbered as the classes come up in that order."""
    codes = class_codes(classes, len(order))
    _, firsts, codes = np.unique(codes[order], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[codes]


@dataclass(frozen=True)
class _PrincipalAxes:
    """The samples in the coordinates of their principal axes.

    points : (n, p) centred, times 2^-exponent; basis : (p, d) orthonormal, by decreasing variance
    variances : (p,) of the points; mean : (d,) of the samples
    """

    points: Floats
    basis: Floats
    variances: Floats
    mean: Floats
    exponent: int


def _principal_axes(X: Floats) -> _PrincipalAxes:
    view = build_coordinates(X)
    offsets = center(view.all_coordinates)
    # Samples far from the origin are small once it is taken off.
    shift = scale_exponent(offsets)
    offsets = np.ldexp(offsets, -shift)
    triangle = np.linalg.qr(offsets, mode="r")
    _, singular, basis = np.linalg.svd(triangle, full_matrices=False)
    kept = singular > max(X.shape) * np.finfo(float).eps * singular[0]
    basis = basis[kept]
    return _PrincipalAxes(
        points=offsets @ basis.T,
        basis=basis if view.basis is None else basis @ view.basis.T,
        variances=singular[kept] ** 2 / len(X),
        mean=view.mean,
        exponent=view.exponent + shift,
    )


def _dimension(n_components: Any, n_classes: int, rank: int) -> int:
    if n_components is None:
        return min(n_classes - 1, rank)
    r = check_count("n_components", n_components)
    if r > rank:
        raise ValueError(
            f"n_components={r} is more than there is: the centred samples span only {rank} "
            "dimensions. Ask for at most that many."
        )
    return r


def _starts(
    init: Any, r: int, axes: _PrincipalAxes, codes: Ints, rng: np.random.Generator
) -> list[Floats]:
    """Subspaces (r, p) to start from."""
    rank, d = axes.basis.shape
    if not isinstance(init, str):
        return [_given_start(init, r, axes)]
    shape = f" or an array of shape ({r}, {d})"
    name = check_option("init", init, ("best", "pca", "random"), also=shape)
    if name == "pca":
        return [np.eye(r, rank)]
    # Drawn in the space of the samples: principal axes may be any where variances are equal.
    drawn = rng.normal(size=(1 if name == "random" else _RANDOM_STARTS, d, r))
    random = [np.linalg.qr(axes.basis @ vectors)[0].T for vectors in drawn]
    if name == "random":
        return random
    return [np.eye(r, rank), _fisher_start(r, axes, codes), *random]


def _given_start(init: Any, r: int, axes: _PrincipalAxes) -> Floats:
    d = axes.basis.shape[1]
    allowed = f"init must be 'best', 'pca', 'random' or a finite array of shape ({r}, {d})"
    try:
        rows = np.asarray(init, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{allowed}, got {init!r}.") from error
    if rows.shape != (r, d):
        raise ValueError(f"{allowed}, got one of shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError(f"{allowed}, got one with entries that are not finite.")
    _, singular, W = np.linalg.svd(rows @ axes.basis.T, full_matrices=False)
    if not singular[-1] > 1e-10 * singular[0]:
        raise ValueError(
            "init must have linearly independent rows within the span of the centred samples; "
            f"got {np.count_nonzero(singular > 1e-10 * singular[0])} independent of {r}."
        )
    return W


def _fisher_start(r: int, axes: _PrincipalAxes, codes: Ints) -> Floats:
    """Fisher's directions with a ridge, completed by the principal axes orthogonal to them."""
    counts = np.bincount(codes)
    means = np.array([axes.points[codes == c].mean(axis=0) for c in range(counts.size)])
    scale = np.sqrt(axes.variances + _FISHER_RIDGE * axes.variances.mean())
    whitened = np.sqrt(counts / codes.size)[:, None] * means / scale
    _, singular, directions = np.linalg.svd(whitened, full_matrices=False)
    # Singular values are at most 1 here, the share of the variance that lies between classes.
    kept = directions[:r][singular[:r] > 1e-8] / scale
    full = np.linalg.qr(kept.T, mode="complete")[0]
    fisher, rest = full[:, : len(kept)], full[:, len(kept) :]
    _, vectors = np.linalg.eigh((rest.T * axes.variances) @ rest)
    completed = rest @ vectors[:, ::-1][:, : r - len(kept)]
    return np.column_stack([fisher, completed]).T


@dataclass(frozen=True)
class _Settled:
    """A subspace W (r, p), the smoothing chosen there, and the criterion it had."""

    W: Floats
    choice: Choice

    @property
    def smoothing(self) -> Smoothing:
        return self.choice.smoothing


def _best_settled(
    data: CentredSamples, starts: list[Floats], folds: list[Ints], plan: SearchPlan
) -> _Settled:
    """The start with the best criterion once settled; those out of time are not tried."""
    best: _Settled | None = None
    for i, start in enumerate(starts, start=1):
        if best is not None and plan.time_left <= 0.0:
            break
        if plan.report is not None:
            plan.report.stage = f"start {i}/{len(starts)}"
        settled = _settled(data, start, folds, plan)
        if best is None or settled.choice.criterion < best.choice.criterion:
            best = settled
    assert best is not None
    return best


def _settled(data: CentredSamples, W: Floats, folds: list[Ints], plan: SearchPlan) -> _Settled:
    choice = chosen_smoothing(data, W, plan.widths, plan.ridges, folds)
    for _ in range(_SETTLING_ROUNDS):
        if plan.time_left <= 0.0:
            break
        W = ascend(
            partial(smi_with_gradient, data, choice.smoothing),
            W,
            tol=plan.tol,
            max_iter=min(plan.max_iter, _SETTLING_ITERATIONS),
            max_time=plan.time_left,
            progress=plan.report,
        ).W
        before, choice = choice, chosen_smoothing(data, W, plan.widths, plan.ridges, folds)
        if _much_the_same(before.smoothing, choice.smoothing):
            break
    return _Settled(W, choice)


def _much_the_same(first: Smoothing, second: Smoothing) -> bool:
    return first.ridge == second.ridge and 0.8 < first.width / second.width < 1.25


def _ascent(data: CentredSamples, settled: _Settled, plan: SearchPlan) -> Ascent:
    if plan.report is not None:
        plan.report.stage = "ascent"
    ascent = ascend(
        partial(smi_with_gradient, data, settled.smoothing),
        settled.W,
        tol=plan.tol,
        max_iter=plan.max_iter,
        max_time=plan.time_left,
        progress=plan.report,
    )
    if plan.report is not None:
        plan.report(ascent.record[-1], force=True)
    return ascent


def _principal_rows(points: Floats, W: Floats) -> Floats:
    """The basis (r, p) of the row space of W in which the mapped points are uncorrelated."""
    W = np.linalg.qr(W.T)[0].T
    _, _, axes = np.linalg.svd(points @ W.T, full_matrices=False)
    return axes @ W
