"""Tangent spaces: an orthonormal basis T_p (d x m_p) of local variation for every patch.

Step between the partition and the within-class form. T_p holds the fewest principal axes of the
samples of patch p whose share of the variance reaches the tangent energy (0.95); PMPDA takes the
sample and its neighbours for a patch. PCA runs in batches of patches of similar size.
"""

from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array, Bools, Ints
from mpda._lib.arrays import (
    array_namespace,
    astype,
    block_entries,
    iter_slices,
    maximum,
    safe_divide,
    set_at,
    take,
    to_device,
    to_host,
    zeros,
)
from mpda._lib.threads import small_products
from mpda.neighbors.neighbor_lists import NeighborLists

# Energies are compared up to this rounding, so that energy 1 is reached by sums of shares below 1.
_ENERGY_TOLERANCE = 1e-12
# Gram matrices serve while every axis that is needed holds at least this share of the variance:
# they are three times faster than singular values, and orthonormal to 1e-16 / share, here 1e-12.
_SMALLEST_GRAM_SHARE = 1e-4
# Numbers in a block of neighbourhoods: 1 MB, which stays in the cache of a core.
_BLOCK_ENTRIES = 128_000
# Numbers in a batch of patches: 32 MB, so that a class with thousands of features is not copied
# whole; smaller batches save no time.
_LARGEST_BATCH = 4_000_000


@dataclass(frozen=True)
class TangentBases:
    """Tangent spaces of one class, padded to the largest dimension m.

    Parameters
    ----------
    bases : array of shape (P, d, m)
        Orthonormal basis of patch p in the first m_p columns, zeros in the others.
    dimensions : array of shape (P,)
        Dimensions m_p.
    """

    bases: Array
    dimensions: Ints

    @property
    def mask(self) -> Bools:
        """Mask (P, m) of the columns that belong to a basis."""
        return np.arange(self.bases.shape[2]) < self.dimensions[:, None]


def patch_tangents(
    Z: Array,
    labels: Ints,
    energy: float,
    members: Ints | None = None,
    dimension: int | None = None,
    weights: Array | None = None,
) -> TangentBases:
    """Compute the tangent space T_p of every patch of a class (maniExprPart).

    Parameters
    ----------
    Z : array of shape (n, d)
        Samples of the class.
    labels : array of shape (n,)
        Patch of each sample, 0 to P - 1.
    energy : float
        Share of the variance that a tangent space keeps.
    members : array of int of shape (n,), default=None
        Samples to which the labels belong, where a sample counts in several patches. None stands
        for all samples in their order.
    dimension : int, default=None
        Largest dimension of a tangent space.
    weights : array of shape (n,), default=None
        Weights of the samples in the variance.

    Returns
    -------
    TangentBases
        One tangent space a patch.
    """
    order = np.argsort(labels, kind="stable")
    samples = order if members is None else members[order]
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    # Patches whose sizes have the same power of two form a batch; short ones repeat a sample.
    octaves = np.ceil(np.log2(np.maximum(sizes, 16)))
    batches = []
    for octave in np.unique(octaves):
        octave_patches = np.flatnonzero(octaves == octave)
        offsets = np.arange(sizes[octave_patches].max())
        step = block_entries(Z, _LARGEST_BATCH) // max(1, offsets.size * Z.shape[1])
        for block in iter_slices(octave_patches.size, step):
            patches = octave_patches[block]
            present = offsets < sizes[patches, None]
            batch = to_device(samples[starts[patches, None] + offsets * present], Z)
            group_weights = None if weights is None else take(weights, batch)
            bases = _local_bases(take(Z, batch), present, energy, dimension, group_weights)
            batches.append((patches, bases))
    return _concatenate(batches, sizes.size, Z)


def neighborhood_tangents(
    Z: Array,
    neighbors: NeighborLists,
    energy: float,
    dimension: int | None = None,
    weights: Array | None = None,
) -> TangentBases:
    """Compute the tangent space of every sample from its neighbourhood (PMPDA, withinObj).

    Parameters
    ----------
    Z : array of shape (n, d)
        Samples of the class.
    neighbors : NeighborLists
        Within-class neighbours of each sample.
    energy : float
        Share of the variance that a tangent space keeps.
    dimension : int, default=None
        Largest dimension of a tangent space.
    weights : array of shape (n,), default=None
        Weights of the samples in the variance.

    Returns
    -------
    TangentBases
        One tangent space a sample.
    """
    n, d = Z.shape
    groups = np.column_stack([np.arange(n), to_host(neighbors.indices)])
    batches = []
    for block in iter_slices(n, block_entries(Z, _BLOCK_ENTRIES) // (groups.shape[1] * d)):
        present = np.ones(groups[block].shape, dtype=bool)
        batch, group_weights = to_device(groups[block], Z), None
        if weights is not None:
            group_weights = take(weights, batch)
            # A sample of weight 0 has no part in any sum, so it has no tangent vector either.
            group_weights *= astype(group_weights[:, :1] > 0.0, group_weights.dtype)
        bases = _local_bases(take(Z, batch), present, energy, dimension, group_weights)
        batches.append((np.arange(n)[block], bases))
    return _concatenate(batches, n, Z)


def _local_bases(
    points: Array,
    present: Bools,
    energy: float,
    dimension: int | None = None,
    weights: Array | None = None,
) -> TangentBases:
    """Return the tangent spaces of groups of points (g, s, d), present where a mask (g, s) is."""
    xp = array_namespace(points)
    mask = to_device(present * 1.0, points)
    # Differences from one member come first, so that identical points have no energy at all.
    offsets = points - points[:, :1, :]
    if weights is None:
        sizes = present.sum(axis=1)
        offsets -= (xp.sum(offsets, axis=1) / to_device(sizes[:, None] * 1.0, points))[:, None, :]
        offsets *= mask[:, :, None]
    else:
        weights = weights * mask
        sizes = to_host(xp.count_nonzero(weights, axis=1))
        totals = xp.sum(weights, axis=1, keepdims=True)
        shares = safe_divide(weights, totals, xp.zeros_like(weights))
        offsets -= xp.matrix_transpose(shares[:, :, None]) @ offsets
        offsets *= xp.sqrt(weights)[:, :, None]
    with small_products(points.shape[2]):
        variances, axes = _principal_axes(offsets, energy)
    total = xp.sum(variances, axis=1, keepdims=True)
    shares = safe_divide(variances, total, xp.zeros_like(variances))
    energy_before = xp.cumulative_sum(shares, axis=1) - shares
    needed = (energy_before < energy - _ENERGY_TOLERANCE) & (shares > 0.0)
    dimensions = np.minimum(to_host(xp.count_nonzero(needed, axis=1)), np.maximum(sizes - 1, 0))
    dimensions = dimensions if dimension is None else np.minimum(dimensions, dimension)
    m = int(dimensions.max(initial=0))
    mask = to_device((np.arange(m) < dimensions[:, None]) * 1.0, points)
    return TangentBases(xp.matrix_transpose(axes[:, :m, :]) * mask[:, None, :], dimensions)


def _principal_axes(offsets: Array, energy: float) -> tuple[Array, Array]:
    """Return variances (g, r), largest first, and axes (g, r, d) of centred points (g, s, d).

    An axis that is needed holds at least the share (1 - energy) / s of the variance, so near energy
    1 singular values take the place of the s x s Gram matrices.
    """
    xp = array_namespace(offsets)
    s, d = offsets.shape[1:]
    if s > d or (1.0 - energy) / s < _SMALLEST_GRAM_SHARE:
        _, singular_values, axes = xp.linalg.svd(offsets, full_matrices=False)
        return singular_values**2, axes
    values, vectors = xp.linalg.eigh(offsets @ xp.matrix_transpose(offsets))
    variances = maximum(xp.flip(values, axis=1), 0.0)
    lengths = xp.sqrt(variances)
    inverse = safe_divide(1.0, lengths, xp.zeros_like(lengths))
    vectors = xp.flip(vectors, axis=2) * inverse[:, None, :]
    return variances, xp.matrix_transpose(vectors) @ offsets


def _concatenate(
    batches: list[tuple[Ints, TangentBases]], n_patches: int, Z: Array
) -> TangentBases:
    """Return the tangent spaces of all patches from those of batches of patches."""
    if len(batches) == 1:
        return batches[0][1]
    m = max((batch.bases.shape[2] for _, batch in batches), default=0)
    bases = zeros((n_patches, Z.shape[1], m), Z)
    dimensions = np.zeros(n_patches, dtype=np.intp)
    for patches, batch in batches:
        columns = slice(0, batch.bases.shape[2])
        bases = set_at(bases, (to_device(patches, Z), slice(None), columns), batch.bases)
        dimensions[patches] = batch.dimensions
    return TangentBases(bases, dimensions)
