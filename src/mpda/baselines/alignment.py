"""Alignment of local tangent coordinates (LLTSA).

LLTSA (Zhang et al. 2007) minimises t'X'BX t / t'X'X t with B = sum_i S_i (I - G_i G_i') S_i'. S_i
selects the k neighbours of x_i and G_i = [1/sqrt(k), V_i], with V_i the r leading left singular
vectors of the neighbourhood about its mean. A term of X'BX is the scatter that a flat piece of
dimension r leaves unexplained in its neighbourhood. Depends on the neighbour lists.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Eigenproblem
from mpda.discriminant.scatter import symmetrize
from mpda.neighbors.graph import center

# Entries (8 MB) of a block of neighbourhoods: large enough for fast products, small in memory.
_BLOCK_ENTRIES = 1_000_000
# Neighbourhoods in one task of joblib: fewer and larger tasks have less overhead, but with n_jobs
# there must be enough of them to share out.
_GROUP_SIZE = 1000
# Entries (256 MB) of scatters that are kept for tangent spaces of all dimensions.
_KEPT_ENTRIES = 32_000_000
# An energy counts as reached up to this rounding.
_ENERGY_TOLERANCE = 1e-12


def alignment_problem(data: TrainingData, n_neighbors: int, dimension: int) -> Eigenproblem:
    """Compute the matrices of LLTSA.

    Parameters
    ----------
    data : TrainingData
        The samples; their classes have no effect.
    n_neighbors : int
        Number of samples k in a neighbourhood.
    dimension : int
        Dimension r of the tangent spaces.

    Returns
    -------
    Eigenproblem
        X'BX over X'X; its smallest eigenvalues are wanted.
    """
    Z, k = data.local_samples.all_coordinates, data.neighbors(n_neighbors).indices.shape[1]
    # One pass serves fits with other dimensions too, if its result is small enough to be kept.
    if k * Z.shape[1] ** 2 <= _KEPT_ENTRIES:
        aligned = data.cached(_sum_scatters, n_neighbors, tuple(range(k)))[dimension]
    else:
        (aligned,) = _sum_scatters(data, n_neighbors, (dimension,))
    # B annihilates constants, so only X'X depends on the origin: the constraint is on the variance.
    offsets = center(Z)
    return Eigenproblem(aligned, symmetrize(offsets.T @ offsets))


def _sum_scatters(data: TrainingData, n_neighbors: int, dimensions: tuple[int, ...]) -> Floats:
    """Return X'BX for tangent spaces of each dimension, shape (n_dimensions, d, d)."""
    Z, neighbors = data.local_samples.all_coordinates, data.neighbors(n_neighbors).indices
    groups = np.array_split(neighbors, -(-len(neighbors) // _GROUP_SIZE))
    arguments = ((Z, group, dimensions) for group in groups)
    unit = "groups of neighbourhoods"
    scatters = data.map_tasks("alignment", alignment_scatters, arguments, len(groups), unit)
    total = np.zeros((len(dimensions), *2 * (Z.shape[1],)))
    for scatter in scatters:
        total += scatter
    return total


def alignment_scatters(Z: Floats, neighbors: Ints, dimensions: Sequence[int]) -> Floats:
    """Compute Z'BZ over some neighbourhoods for tangent spaces of several dimensions.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Coordinates of all samples.
    neighbors : ndarray of shape (m, k)
        Indices of the samples of each neighbourhood.
    dimensions : sequence of int
        Dimensions r of the tangent spaces, increasing.

    Returns
    -------
    ndarray of shape (n_dimensions, d, d)
        The scatter of the neighbourhoods that is not explained by their tangent spaces.
    """
    d, (_, k) = Z.shape[1], neighbors.shape
    scatters = np.zeros((len(dimensions), d, d))
    ranges = list(zip(dimensions, [*dimensions[1:], k], strict=True))
    for offsets, axes in _local_axes(Z, neighbors):
        # (I - G G') of the points: their mean is off already. What a tangent space leaves is the
        # sum over the axes beyond its own; a difference of scatters would lose digits.
        projections = axes.transpose(0, 2, 1) @ offsets
        for scatter, (begin, end) in zip(scatters, ranges, strict=True):
            residuals = projections[:, begin:end].reshape(-1, d)
            scatter += residuals.T @ residuals
    totals = np.cumsum(scatters[::-1], axis=0)[::-1]
    return (totals + totals.transpose(0, 2, 1)) / 2


def energy_dimension(data: TrainingData, n_neighbors: int, energy: float) -> int:
    """Find the fewest dimensions that hold a share of the variance of neighbourhoods on average.

    Parameters
    ----------
    data : TrainingData
        The samples.
    n_neighbors : int
        Number of samples k in a neighbourhood.
    energy : float
        Share of the variance, from 0 to 1.

    Returns
    -------
    int
        The dimension, at least 1.
    """
    Z, neighbors = data.local_samples.all_coordinates, data.neighbors(n_neighbors).indices
    shares, tiny = np.zeros(neighbors.shape[1]), np.finfo(float).tiny
    for offsets, axes in _local_axes(Z, neighbors):
        variances = ((axes.transpose(0, 2, 1) @ offsets) ** 2).sum(axis=2)
        # Shares of each neighbourhood, so that wide ones do not outweigh the others.
        total = variances.sum(axis=1, keepdims=True)
        shares += (variances / np.maximum(total, tiny)).sum(axis=0)
    cumulative = np.cumsum(shares) / max(float(shares.sum()), tiny)
    return 1 + int(np.count_nonzero(cumulative < energy - _ENERGY_TOLERANCE))


def _local_axes(Z: Floats, neighbors: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Yield blocks of neighbourhoods about their means (b, k, d) and their left singular vectors.

    The vectors (b, k, k) come by decreasing singular value.
    """
    m, k = neighbors.shape
    step = max(1, _BLOCK_ENTRIES // (k * Z.shape[1]))
    for start in range(0, m, step):
        points = Z.take(neighbors[start : start + step], axis=0)
        # Differences from one member come first, so that identical points have no variance at all.
        offsets = points - points[:, :1]
        offsets -= offsets.mean(axis=1, keepdims=True)
        # From the (k, k) Gram matrices, about two to four times as fast as SVDs.
        axes = np.linalg.eigh(offsets @ offsets.transpose(0, 2, 1))[1]
        yield offsets, axes[:, :, ::-1]
