"""Tangent bundles: a basis of local variation for each patch, by PCA in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array, Bools, Ints
from mpda._lib.arrays import (
    array_namespace,
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
from mpda.neighbors.graph import NeighborLists

_ENERGY_TOLERANCE = 1e-12
_SMALLEST_GRAM_SHARE = 1e-4
# Blocks that stay in the cache.
_BLOCK_ENTRIES = 128_000


@dataclass(frozen=True)
class TangentBases:
    """The tangent spaces of one class.

    bases : (P, d, m), the orthonormal basis of each tangent space in its first columns, then zeros
    dimensions : (P,), m_p
    """

    bases: Array
    dimensions: Ints

    @property
    def used(self) -> Bools:
        """(P, m): which columns belong to a basis."""
        return np.arange(self.bases.shape[2]) < self.dimensions[:, None]


def patch_tangents(Z: Array, labels: Ints, energy: float) -> TangentBases:
    """One tangent space per patch, from the samples Z (n, d) with patch labels 0 to P-1."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    # Patches of similar size go together; the short ones repeat their first sample.
    octave = np.ceil(np.log2(np.maximum(sizes, 16)))
    parts = []
    for value in np.unique(octave):
        patches = np.flatnonzero(octave == value)
        offsets = np.arange(sizes[patches].max())
        present = offsets < sizes[patches, None]
        members = order[starts[patches, None] + offsets * present]
        parts.append((patches, _local_bases(take(Z, to_device(members, Z)), present, energy)))
    return _gathered(parts, sizes.size, Z)


def neighborhood_tangents(Z: Array, neighbors: NeighborLists, energy: float) -> TangentBases:
    """One tangent space per sample, from the sample and its neighbours (PMPDA)."""
    n, d = Z.shape
    groups = np.column_stack([np.arange(n), to_host(neighbors.indices)])
    parts = []
    for block in iter_slices(n, block_entries(Z, _BLOCK_ENTRIES) // (groups.shape[1] * d)):
        present = np.ones(groups[block].shape, dtype=bool)
        points = take(Z, to_device(groups[block], Z))
        parts.append((np.arange(n)[block], _local_bases(points, present, energy)))
    return _gathered(parts, n, Z)


def _local_bases(points: Array, present: Bools, energy: float) -> TangentBases:
    """PCA of each group of points (g, s, d), s where present: fewest directions for the energy."""
    xp = array_namespace(points)
    sizes = present.sum(axis=1)
    # Differences from one member come first, so that identical points have no energy at all.
    gaps = points - points[:, :1, :]
    gaps -= (xp.sum(gaps, axis=1) / to_device(sizes[:, None].astype(float), points))[:, None, :]
    gaps *= to_device(present[:, :, None].astype(float), points)
    variances, axes = _principal_axes(gaps, energy)
    total = xp.sum(variances, axis=1, keepdims=True)
    share = safe_divide(variances, total, xp.zeros_like(variances))
    reached = xp.cumulative_sum(share, axis=1) - share
    wanted = (reached < energy - _ENERGY_TOLERANCE) & (share > 0.0)
    dimensions = np.minimum(to_host(xp.count_nonzero(wanted, axis=1)), sizes - 1)
    widest = int(dimensions.max(initial=0))
    used = to_device((np.arange(widest) < dimensions[:, None]).astype(float), points)
    bases = xp.matrix_transpose(axes[:, :widest, :]) * used[:, None, :]
    return TangentBases(bases, dimensions)


def _principal_axes(gaps: Array, energy: float) -> tuple[Array, Array]:
    """Variances (g, r), largest first, and orthonormal axes (g, r, d) of centred points (g, s, d).

    The s x s Gram matrices are three times faster than singular values, but the axis of a share h
    of the variance comes out orthonormal only to about eps / h. A wanted axis holds at least
    (1 - energy) / s, so near energy 1 the singular values are taken.
    """
    xp = array_namespace(gaps)
    s, d = gaps.shape[1:]
    if s > d or (1.0 - energy) / s < _SMALLEST_GRAM_SHARE:
        _, singular, axes = xp.linalg.svd(gaps, full_matrices=False)
        return singular**2, axes
    values, vectors = xp.linalg.eigh(gaps @ xp.matrix_transpose(gaps))
    variances = maximum(xp.flip(values, axis=1), 0.0)
    lengths = xp.sqrt(variances)
    inverse = safe_divide(1.0, lengths, xp.zeros_like(lengths))
    vectors = xp.flip(vectors, axis=2) * inverse[:, None, :]
    return variances, xp.matrix_transpose(vectors) @ gaps


def _gathered(parts: list[tuple[Ints, TangentBases]], n_patches: int, Z: Array) -> TangentBases:
    """One bundle from those of groups of patches."""
    if len(parts) == 1:
        return parts[0][1]
    widest = max((part.bases.shape[2] for _, part in parts), default=0)
    bases = zeros((n_patches, Z.shape[1], widest), Z)
    dimensions = np.zeros(n_patches, dtype=np.intp)
    for patches, part in parts:
        columns = slice(0, part.bases.shape[2])
        bases = set_at(bases, (to_device(patches, Z), slice(None), columns), part.bases)
        dimensions[patches] = part.dimensions
    return TangentBases(bases, dimensions)
