"""Optimiser of the refinement: rounds of L-BFGS steps with growing candidate sets.

At the start of each round the candidates are searched in the current map and joined to the earlier
ones. Without new candidates the map moves samples that are no candidates into the neighbourhood;
without the earlier ones it forgets what it has learnt. T0 and tau stay fixed, and so does the
constant k of a sphere, which is in units of the root mean square length of the mapped samples.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mpda._lib.array_types import Array, Floats, Ints, Labels
from mpda._lib.arrays import array_namespace, astype, is_host, take, to_device, to_host
from mpda._lib.threads import BlockMap, map_serially, open_threads
from mpda.refinement.candidates import merge_candidates, search_candidates
from mpda.refinement.loss import CandidateSets, RefinementLoss, map_centred, nearest_own_squares
from mpda.refinement.sphere import place_on_sphere

# Pairs of steps and gradients from which L-BFGS estimates the curvature. It is SciPy's default.
_N_CORRECTIONS = 10
# A larger penalty does not move the map either, but its square is infinite in single precision.
_LARGEST_PENALTY = 1e20
# A map shorter than this share of its start is 0 but for rounding.
_SMALLEST_LENGTH = 1e-10
# Queries from which threads gain time: two of them took 0.8 to 1.3 of the time of one with 250 to
# 4000 samples (5 and 20 components, a noisy machine), and 0.8 with 8000.
_LARGE = 4000
# Rounding of shares of weight.
_HALF_TOLERANCE = 1e-9


@dataclass(frozen=True)
class RefinementSettings:
    """Parameters of the refinement, as in ``NeighborhoodRefinement``.

    ``refine_map`` needs a penalty; None stands for the default until the samples are known. The
    Euclidean geometry is a radius of None, never inf.
    """

    n_own_neighbors: int
    n_candidates: int
    penalty: float | None
    temperature: float
    n_rounds: int
    max_iter: int
    tol: float
    n_jobs: int | None = None
    radius: float | None = None
    objective: str = "nearest"


@dataclass(frozen=True, eq=False)
class RefinedMap:
    """Result of the refinement.

    Parameters
    ----------
    components : array of shape (r, d)
        Refined map T.
    losses : list of ndarray
        Loss at the start and after each step, for each round.
    temperature : float
        tau, nan if the loss is constant.
    is_usable : bool
        False if the loss became infinite or nan, or the map 0; the components are those of the
        start then.
    radius : float or None
        The constant k of the sphere, in the units of the mapped samples; None without a sphere.
    """

    components: Array
    losses: list[Floats]
    temperature: float
    is_usable: bool = True
    radius: float | None = None


def refine_map(
    X: Array,
    codes: Labels,
    queries: Ints,
    start: Array,
    settings: RefinementSettings,
    weights: Floats | None = None,
    centre: Array | None = None,
) -> RefinedMap:
    """Refine a linear map for nearest neighbours.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, on the host or on a device. They are centred, or ``centre`` says what is left.
    codes : ndarray of int of shape (n,)
        Class of each sample, on the host.
    queries : ndarray of int of shape (q,)
        Samples over which the loss is summed, ascending.
    start : array of shape (r, d)
        T0, in the library and precision of X.
    settings : RefinementSettings
        Parameters.
    weights : ndarray of shape (n,), default=None
        Weights of the samples, on the host.
    centre : array of shape (d,), default=None
        Vector that a sphere subtracts from X, in its precision.

    Returns
    -------
    RefinedMap
        The map with its losses.
    """
    if not is_host(X):  # a device queues its work by itself
        return _refine_in_rounds(X, codes, queries, start, settings, weights, centre, map_serially)
    n_jobs = settings.n_jobs
    if n_jobs is None and len(queries) < _LARGE:
        n_jobs = 1
    # Each product is small, so threads work on blocks of samples and not inside BLAS.
    with open_threads(n_jobs) as map_blocks:
        return _refine_in_rounds(X, codes, queries, start, settings, weights, centre, map_blocks)


def _refine_in_rounds(
    X: Array,
    codes: Labels,
    queries: Ints,
    start: Array,
    settings: RefinementSettings,
    weights: Floats | None,
    centre: Array | None,
    map_blocks: BlockMap,
) -> RefinedMap:
    xp = array_namespace(X)
    device_weights = None if weights is None else astype(to_device(weights, X), X.dtype)
    size = float(xp.sqrt(xp.sum(start * start)))
    assert settings.penalty is not None
    penalty = min(settings.penalty, _LARGEST_PENALTY)
    members = _group_by_class(np.arange(len(codes)), codes)
    class_queries = _group_by_class(queries, codes)
    device_codes = to_device(codes, X)
    rows = to_device(np.concatenate(class_queries), X)
    components, temperature = start, math.nan
    candidates: list[Array] = []
    losses: list[Floats] = []
    radius = _measure_radius(map_centred(X, start, centre), settings.radius, device_weights)
    for _ in range(settings.n_rounds):
        Z = map_centred(X, components, centre)
        if radius is not None:
            Z = place_on_sphere(Z, radius).points
        found = search_candidates(
            Z,
            members,
            class_queries,
            settings.n_own_neighbors,
            settings.n_candidates,
            map_blocks,
        )
        candidates = [merge_candidates(rows, *candidates, found)]
        is_own = take(device_codes, candidates[0]) == take(device_codes, rows)[:, None]
        is_own &= candidates[0] != rows[:, None]
        if device_weights is not None:
            is_own &= take(device_weights, candidates[0]) > 0.0
        sets = CandidateSets(rows, candidates[0], is_own)
        if not losses:
            temperature = settings.temperature * _typical_square(Z, sets, device_weights)
            if not temperature > 0.0:  # no sample has another one of its class apart from it
                return RefinedMap(start, [], math.nan, radius=radius)
        loss = RefinementLoss(
            X,
            sets,
            start,
            temperature,
            penalty,
            device_weights,
            map_blocks,
            objective=settings.objective,
            radius=radius,
            centre=centre,
        )
        components, curve = _minimize(loss, components, size, settings)
        losses.append(curve)
        # A map of zeros is a stationary point, which a first step may hit with a single feature.
        length = float(xp.sqrt(xp.sum(components * components)))
        if not (np.isfinite(curve).all() and _SMALLEST_LENGTH * size < length < math.inf):
            return RefinedMap(start, losses, temperature, is_usable=False, radius=radius)
    return RefinedMap(components, losses, temperature, radius=radius)


def count_coefficients(n_components: int, n_varying: int, n_samples: int) -> int:
    """Count the coefficients of a map that samples can determine.

    Parameters
    ----------
    n_components : int
        Number of rows of the map.
    n_varying : int
        Number of features that are not constant. The coefficients of the others change no distance.
    n_samples : int
        Number of samples. About their mean they span at most one dimension less.

    Returns
    -------
    int
        The number, at least 1 for each component.
    """
    return n_components * max(1, min(n_varying, n_samples - 1))


def _group_by_class(samples: Ints, codes: Labels) -> list[Ints]:
    """Return the given samples of each class, ascending."""
    order = samples[np.argsort(codes[samples], kind="stable")]
    return np.split(order, np.searchsorted(codes[order], np.arange(1, codes.max() + 1)))


def _measure_radius(Z: Array, radius: float | None, weights: Array | None) -> float | None:
    """Return the constant k: ``radius`` times the root mean square length of Z (n, r)."""
    if radius is None:
        return None
    xp = array_namespace(Z)
    squares = xp.sum(Z * Z, axis=1)
    if weights is None:
        mean = float(xp.mean(squares))
    else:
        mean = float(xp.sum(weights * squares)) / float(xp.sum(weights))
    if not mean > 0.0:
        raise ValueError(
            "There is no sphere: the first map maps all samples to 0. Give another estimator, or "
            "radius=None."
        )
    return radius * math.sqrt(mean)


def _typical_square(Z: Array, sets: CandidateSets, weights: Array | None) -> float:
    """Return the median squared distance to the nearest sample of the own class that is no copy.

    Samples without such a sample are left out; nan if none is left. The median is weighted.
    """
    squares = to_host(nearest_own_squares(Z, sets, weights))
    is_finite = np.isfinite(squares)
    if not is_finite.any():
        return math.nan
    if weights is None:
        return float(np.median(squares[is_finite]))
    counts = to_host(take(weights, sets.queries))[is_finite]
    order = np.argsort(squares[is_finite], kind="stable")
    shares = np.cumsum(counts[order], dtype=np.float64) / counts.sum(dtype=np.float64)
    # As np.median, the mean of two numbers where half of the weight is on either side.
    middle = np.searchsorted(shares, [0.5 - _HALF_TOLERANCE, 0.5 + _HALF_TOLERANCE])
    return float(squares[is_finite][order][middle].mean())


def _minimize(
    loss: RefinementLoss, components: Array, size: float, settings: RefinementSettings
) -> tuple[Array, Floats]:
    """Take at most ``max_iter`` steps of L-BFGS; return the map and the loss after each step.

    The optimiser works on T / |T0|_F, because its tolerance of the gradient is absolute.
    """
    shape = components.shape

    curve: list[float] = []

    def evaluate(values: Any) -> tuple[float, Any]:
        T = astype(to_device(size * values.reshape(shape), loss.X), loss.X.dtype)
        value, gradient = loss(T)
        flat = size * to_host(gradient).astype(np.float64).ravel()
        if not curve:
            curve.append(value if np.isfinite(flat).all() else math.nan)
        return value, flat

    def record(intermediate_result: OptimizeResult) -> None:
        curve.append(float(intermediate_result.fun))

    result = minimize(
        evaluate,
        to_host(components).astype(np.float64).ravel() / size,
        jac=True,
        method="L-BFGS-B",
        callback=record,
        options={
            "maxiter": settings.max_iter,
            "maxcor": _N_CORRECTIONS,
            "gtol": settings.tol,
            "ftol": 0.0,
        },
    )
    T = astype(to_device(size * result.x.reshape(shape), loss.X), loss.X.dtype)
    return T, np.array(curve)
