"""Search for the subspace with maximal squared-loss mutual information (LSDR).

Every initial subspace is optimised by short ascents on the Grassmann manifold, and width and ridge
are selected again by cross-validation after each of them. The best initial subspace is then
optimised to the end at fixed width and ridge. The search works in the principal axes of the
samples, which removes null directions, and on samples sorted by value, so that draws depend neither
on the order of the samples nor on the names of the classes.
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_array

from mpda._lib.array_types import Floats, Ints
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import check_count, check_option
from mpda.baselines.lsdr import density_ratio
from mpda.baselines.lsdr.density_ratio import KernelSamples, Smoothing, select_smoothing
from mpda.baselines.lsdr.grassmann import Ascent, ascend
from mpda.discriminant.eigenproblem import fix_signs
from mpda.neighbors.graph import center

# Random initial subspaces of init="best"; each costs as much as the one of PCA.
_N_RANDOM = 3
# Short ascents of an initial subspace: enough for width and ridge to stay the same on our data.
_SHORT_ASCENTS = 4
_SHORT_ITERATIONS = 40
# Ridge of Fisher's directions, relative to the mean variance along a principal axis.
_FISHER_RIDGE = 0.1
# Singular values of Fisher's directions are at most 1, the share of the variance between classes;
# below this there is no difference between class means but rounding.
_MIN_FISHER_VALUE = 1e-8
# Relative singular value below which rows of a given initial subspace count as dependent.
_MIN_SINGULAR_VALUE = 1e-10


@dataclass(frozen=True)
class SearchOptions:
    """Validated options of the search.

    Parameters
    ----------
    n_centers : int
        Number of centres of the basis functions.
    widths, ridges : tuple of float
        Candidates of the cross-validation; widths are multiples of the median distance.
    n_folds : int
        Folds of the cross-validation.
    max_iter : int
        Largest number of iterations of an ascent.
    tol : float
        Tolerance of an ascent.
    deadline : float
        End of the time budget on the monotonic clock.
    verbose : bool
        Print progress on stderr.
    """

    n_centers: int
    widths: tuple[float, ...]
    ridges: tuple[float, ...]
    n_folds: int
    max_iter: int
    tol: float
    deadline: float
    verbose: bool

    @property
    def time_left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class InformativeSubspace:
    """Result of :func:`maximize_smi`.

    Parameters
    ----------
    components : ndarray of shape (r, d)
        Orthonormal; principal axes of the mapped samples, by decreasing variance.
    smoothing : Smoothing
        Width, in the units of the samples, and ridge of the final ascent.
    ascent : Ascent
        The final ascent.
    """

    components: Floats
    smoothing: Smoothing
    ascent: Ascent


def maximize_smi(
    samples: LabelledSamples,
    n_components: Any,
    init: Any,
    options: SearchOptions,
    rng: np.random.Generator,
) -> InformativeSubspace:
    """Find a subspace with locally maximal SMI between mapped samples and classes.

    Parameters
    ----------
    samples : LabelledSamples
        Samples of the fit.
    n_components : int or None
        Dimension of the subspace, checked here.
    init : {"best", "pca", "random"} or array-like of shape (r, d)
        Initial subspace, checked here.
    options : SearchOptions
        Options of the search.
    rng : numpy.random.Generator
        Draws centres, folds and random initial subspaces.

    Returns
    -------
    InformativeSubspace
        The subspace and how it was reached.
    """
    order = np.lexsort(samples.X.T[::-1])
    labels, first, codes = np.unique(samples.y[order], return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]  # classes numbered by first appearance
    axes = _principal_axes(samples, order)
    r = _check_n_components(n_components, labels.size, len(axes.basis))
    with one_blas_thread(len(axes.basis) <= SMALL):
        centers = density_ratio.draw_centers(codes, options.n_centers, rng)
        folds = density_ratio.draw_folds(codes, options.n_folds, rng)
        kernel_samples = KernelSamples(axes.points, codes, centers, folds)
        start = _best_start(kernel_samples, _initial_subspaces(init, r, axes, codes, rng), options)
        ascent = _ascend("ascent", kernel_samples, start.smoothing, start.W, options)
        rows = _rotate_to_principal_axes(axes.points, ascent.W)
    width = float(np.ldexp(start.smoothing.width, axes.exponent))
    return InformativeSubspace(
        fix_signs((rows @ axes.basis).T).T, Smoothing(width, start.smoothing.ridge), ascent
    )


@dataclass(frozen=True)
class _PrincipalAxes:
    """The samples in the coordinates of their principal axes.

    points : (n, p) centred, times 2^-exponent; basis : (p, d) orthonormal, by decreasing variance
    """

    points: Floats
    basis: Floats
    exponent: int


def _principal_axes(samples: LabelledSamples, order: Ints) -> _PrincipalAxes:
    coordinates = samples.coordinates
    offsets = center(samples.all_coordinates[order])
    # Samples far from the origin may be small about their mean, so they are scaled once more.
    shift = int(np.frexp(np.abs(offsets).max())[1])
    offsets = np.ldexp(offsets, -shift)
    # The SVD of R has the axes of all samples, at the cost of at most a (d, d) matrix.
    _, singular, basis = np.linalg.svd(np.linalg.qr(offsets, mode="r"), full_matrices=False)
    rank = np.count_nonzero(singular > max(samples.X.shape) * np.finfo(float).eps * singular[0])
    points = offsets @ basis[:rank].T
    basis = coordinates.rotate_back(basis[:rank].T).T
    return _PrincipalAxes(points, basis, coordinates.exponent + shift)


def _check_n_components(n_components: Any, n_classes: int, rank: int) -> int:
    if n_components is None:  # as many as Fisher's discriminant analysis has
        return min(n_classes - 1, rank)
    r = check_count("n_components", n_components)
    if r > rank:
        raise ValueError(
            f"n_components={r} is more than there is: the centred samples span only {rank} "
            "dimensions. Ask for at most that many."
        )
    return r


def _initial_subspaces(
    init: Any, r: int, axes: _PrincipalAxes, codes: Ints, rng: np.random.Generator
) -> list[Floats]:
    """Return the initial subspaces (r, p), in principal axes."""
    rank, d = axes.basis.shape
    if np.ndim(init) > 0:
        return [_check_init(init, r, axes)]
    check_option("init", init, ("best", "pca", "random"), also=f" or an array of shape ({r}, {d})")
    pca = np.eye(r, rank)
    if init == "pca":
        return [pca]
    # Drawn in the space of the samples: principal axes are arbitrary where variances are equal.
    normal = rng.normal(size=(1 if init == "random" else _N_RANDOM, d, r))
    random = [np.linalg.qr(axes.basis @ vectors)[0].T for vectors in normal]
    return random if init == "random" else [pca, fisher_subspace(r, axes.points, codes), *random]


def _check_init(init: Any, r: int, axes: _PrincipalAxes) -> Floats:
    """Return orthonormal rows (r, p) with the row space of ``init`` (r, d)."""
    rows = check_array(init, dtype=np.float64, input_name="init")
    shape = (r, axes.basis.shape[1])
    if rows.shape != shape:
        raise ValueError(
            f"init must be 'best', 'pca', 'random' or an array of shape {shape}, got one of shape "
            f"{rows.shape}."
        )
    _, singular, W = np.linalg.svd(rows @ axes.basis.T, full_matrices=False)
    rank = np.count_nonzero(singular > _MIN_SINGULAR_VALUE * singular[0])
    if rank < r:
        raise ValueError(
            "init must have linearly independent rows within the span of the centred samples; "
            f"got {rank} independent of {r}."
        )
    return W


def fisher_subspace(r: int, points: Floats, codes: Ints) -> Floats:
    """Compute Fisher's directions with a ridge, completed by principal axes orthogonal to them.

    Parameters
    ----------
    r : int
        Dimension of the subspace.
    points : ndarray of shape (n, p)
        Centred samples whose features are uncorrelated.
    codes : ndarray of shape (n,)
        Class of each sample, 0 to k - 1.

    Returns
    -------
    ndarray of shape (r, p)
        Orthonormal rows; the first ones, at most k - 1, span Fisher's directions.
    """
    variances = np.mean(points**2, axis=0)
    counts = np.bincount(codes)
    means = np.array([points[codes == label].mean(axis=0) for label in range(counts.size)])
    # Features are uncorrelated, so whitening is a division. The total scatter takes the place of
    # the within-class scatter: the directions are the same without the ridge.
    scale = np.sqrt(variances + _FISHER_RIDGE * variances.mean())
    whitened = np.sqrt(counts / codes.size)[:, None] * means / scale
    _, singular, directions = np.linalg.svd(whitened, full_matrices=False)
    directions = directions[:r][singular[:r] > _MIN_FISHER_VALUE] / scale
    n_fisher = len(directions)
    basis = np.linalg.qr(directions.T, mode="complete")[0]
    complement = basis[:, n_fisher:]
    _, vectors = np.linalg.eigh((complement.T * variances) @ complement)
    completion = complement @ vectors[:, ::-1][:, : r - n_fisher]
    return np.column_stack([basis[:, :n_fisher], completion]).T


@dataclass(frozen=True)
class _Start:
    """A subspace W (r, p) after short ascents, and the smoothing selected there."""

    W: Floats
    smoothing: Smoothing
    criterion: float


def _best_start(samples: KernelSamples, subspaces: list[Floats], options: SearchOptions) -> _Start:
    """Return the start with the smallest criterion; subspaces after the deadline are not tried."""
    starts: list[_Start] = []
    for number, W in enumerate(subspaces, start=1):
        if starts and options.time_left <= 0.0:  # at least one is needed
            break
        stage = f"start {number}/{len(subspaces)}"
        starts.append(_optimize_start(stage, samples, W, options))
    return min(starts, key=lambda start: start.criterion)


def _optimize_start(
    stage: str, samples: KernelSamples, W: Floats, options: SearchOptions
) -> _Start:
    """Alternate short ascents and the selection of width and ridge until these stay the same."""
    candidates = options.widths, options.ridges
    smoothing, criterion = select_smoothing(samples, W, *candidates)
    short = replace(options, max_iter=min(options.max_iter, _SHORT_ITERATIONS))
    for _ in range(_SHORT_ASCENTS):
        if options.time_left <= 0.0:
            break
        W = _ascend(stage, samples, smoothing, W, short).W
        previous = smoothing
        smoothing, criterion = select_smoothing(samples, W, *candidates)
        # The width follows the median distance, which still moves a little near the optimum.
        if previous.ridge == smoothing.ridge and 0.8 < previous.width / smoothing.width < 1.25:
            break
    return _Start(W, smoothing, criterion)


def _ascend(
    stage: str, samples: KernelSamples, smoothing: Smoothing, W: Floats, options: SearchOptions
) -> Ascent:
    objective = partial(density_ratio.compute_smi, samples, smoothing)
    title = f"LSDR, {stage}" if options.verbose else None
    return ascend(objective, W, options.tol, options.max_iter, options.time_left, title)


def _rotate_to_principal_axes(points: Floats, W: Floats) -> Floats:
    """Return the basis (r, p) of the row space of W in which mapped points are uncorrelated."""
    # SMI depends on the subspace only; this basis makes the components unique and ordered.
    W = np.linalg.qr(W.T)[0].T
    _, _, axes = np.linalg.svd(points @ W.T, full_matrices=False)
    return axes @ W
