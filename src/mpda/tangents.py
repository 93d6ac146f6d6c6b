"""Tangent bundles: a basis of local variation for each patch, by PCA in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._typing import Bools, Floats, Ints
from mpda.graphs import NeighborLists

_ENERGY_TOLERANCE = 1e-12
_SMALLEST_GRAM_SHARE = 1e-4
# Blocks that stay in the cache.
_BLOCK_ENTRIES = 128_000


@dataclass(frozen=True)
class TangentBundle:
    """The tangent spaces of one class.

    bases : (P, d, m), the orthonormal basis of each tangent space in its first columns, then zeros
    dimensions : (P,), m_p
    """

    bases: Floats
    dimensions: Ints

    @property
    def used(self) -> Bools:
        """(P, m): which columns belong to a basis."""
        return np.arange(self.bases.shape[2]) < self.dimensions[:, None]


def patch_tangents(Z: Floats, labels: Ints, energy: float) -> TangentBundle:
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
        parts.append((patches, _local_bases(Z.take(members, axis=0), present, energy)))
    return _gathered(parts, sizes.size, Z.shape[1])


def neighborhood_tangents(Z: Floats, neighbors: NeighborLists, energy: float) -> TangentBundle:
    """One tangent space per sample, from the sample and its neighbours (PMPDA)."""
    n, d = Z.shape
    groups = np.column_stack([np.arange(n), neighbors.indices])
    step = max(1, _BLOCK_ENTRIES // (groups.shape[1] * d))
    parts = []
    for start in range(0, n, step):
        rows = np.arange(n)[start : start + step]
        present = np.ones(groups[rows].shape, dtype=bool)
        parts.append((rows, _local_bases(Z.take(groups[rows], axis=0), present, energy)))
    return _gathered(parts, n, d)


def _local_bases(points: Floats, present: Bools, energy: float) -> TangentBundle:
    """PCA of each group of points (g, s, d), s where present: fewest directions for the energy."""
    sizes = present.sum(axis=1)
    # Differences from one member come first, so that identical points have no energy at all.
    gaps = points - points[:, :1]
    gaps -= (gaps.sum(axis=1) / sizes[:, None])[:, None]
    gaps *= present[:, :, None]
    variances, axes = _principal_axes(gaps, energy)
    total = variances.sum(axis=1, keepdims=True)
    share = np.divide(variances, total, out=np.zeros_like(variances), where=total > 0.0)
    reached = np.cumsum(share, axis=1) - share
    wanted = (reached < energy - _ENERGY_TOLERANCE) & (share > 0.0)
    dimensions = np.minimum(wanted.sum(axis=1), sizes - 1)
    widest = int(dimensions.max(initial=0))
    used = np.arange(widest) < dimensions[:, None]
    return TangentBundle(axes[:, :widest].transpose(0, 2, 1) * used[:, None], dimensions)


def _principal_axes(gaps: Floats, energy: float) -> tuple[Floats, Floats]:
    """Variances (g, r), largest first, and orthonormal axes (g, r, d) of centred points (g, s, d).

    The s x s Gram matrices are three times faster than singular values, but the axis of a share h
    of the variance comes out orthonormal only to about eps / h. A wanted axis holds at least
    (1 - energy) / s, so near energy 1 the singular values are taken.
    """
    s, d = gaps.shape[1:]
    if s > d or (1.0 - energy) / s < _SMALLEST_GRAM_SHARE:
        _, singular, axes = np.linalg.svd(gaps, full_matrices=False)
        return singular**2, axes
    values, vectors = np.linalg.eigh(gaps @ gaps.transpose(0, 2, 1))
    variances = np.maximum(values[:, ::-1], 0.0)
    lengths = np.sqrt(variances)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    return variances, (vectors[:, :, ::-1] * inverse[:, None]).transpose(0, 2, 1) @ gaps


def _gathered(parts: list[tuple[Ints, TangentBundle]], n_patches: int, d: int) -> TangentBundle:
    """One bundle from those of groups of patches."""
    if len(parts) == 1:
        return parts[0][1]
    widest = max((part.bases.shape[2] for _, part in parts), default=0)
    bases = np.zeros((n_patches, d, widest))
    dimensions = np.zeros(n_patches, dtype=np.intp)
    for patches, part in parts:
        bases[patches, :, : part.bases.shape[2]] = part.bases
        dimensions[patches] = part.dimensions
    return TangentBundle(bases, dimensions)
