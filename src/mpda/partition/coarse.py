"""The manifold partition of large classes: coarse cuts without all pairs, then the exact rule.

A part of more than ``PART_SIZE`` samples is cut in two as the rule does it, by growing from two far
samples over the neighbour lists, but these seeds come from three sweeps of shortest paths instead
of all paths, and the tortuosity R that decides who gets joint neighbours is sampled from the paths
to the seeds. A seed is not the farthest sample, which may be an outlier, but the one at nine tenths
of all path lengths. Below, the rule itself goes on, with the shortest paths inside the part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import array_namespace, is_numpy, to_host
from mpda.neighbors.graph import ClassPoints, NeighborLists, find_neighbors
from mpda.partition.coarse_cuts import CoarseParts, coarse_parts
from mpda.partition.geodesics import geodesic_distances, inner_parts
from mpda.partition.levels import alike, cut_parts, stretches
from mpda.partition.split import Partition, cut_part
from mpda.partition.tree import Forest

# Classes of more samples are cut coarsely first: all pairs of this many take a tenth of a second.
CLASS_SIZE = 1000
# The largest part to which the exact rule is applied after coarse cuts.
PART_SIZE = 64


def coarse_partition(
    points: ClassPoints, lists: NeighborLists, max_patch_size: int, part_size: int = PART_SIZE
) -> Partition:
    """Patches of at most ``max_patch_size`` samples for a class of any size.

    Memory is that of the lists and of the shortest paths inside some parts.
    """
    return coarse_partitions([points], [lists], max_patch_size, part_size)[0]


def coarse_partitions(
    points: Sequence[ClassPoints],
    lists: Sequence[NeighborLists],
    max_patch_size: int,
    part_size: int = PART_SIZE,
) -> list[Partition]:
    """The same for several classes, all of which are cut together."""
    sizes = np.array([each.X.shape[0] for each in points])
    X, joint = _stacked(points), _stacked_lists(lists, sizes)
    forest = Forest(sizes.tolist())
    limit = max(part_size, max_patch_size)
    parts = coarse_parts(forest, np.arange(sizes.size), X, joint, sizes, limit)
    cut = _cut_in_turn if is_numpy(X) else _cut_together
    leaves = np.empty(X.shape[0], dtype=np.intp)
    leaves[to_host(parts.order)] = cut(forest, parts, X, joint.indices.shape[1], max_patch_size)
    return forest.partitions(np.split(leaves, np.cumsum(sizes)[:-1]))


def _stacked(points: Sequence[ClassPoints]) -> Array:
    X = points[0].X
    return X if len(points) == 1 else array_namespace(X).concat([each.X for each in points])


def _stacked_lists(lists: Sequence[NeighborLists], sizes: Ints) -> NeighborLists:
    """The lists of classes that stand one after the other."""
    if len(lists) == 1:
        return lists[0]
    xp = array_namespace(lists[0].indices)
    starts = (np.cumsum(sizes) - sizes).tolist()
    return NeighborLists(
        xp.concat([each.indices + start for each, start in zip(lists, starts, strict=True)]),
        xp.concat([each.distances for each in lists]),
    )


def _cut_in_turn(
    forest: Forest, parts: CoarseParts, X: Array, n_neighbors: int, max_patch_size: int
) -> Ints:
    """The exact rule inside parts, one after the other; the leaf (n,) of each sample."""
    leaves = []
    members = np.split(parts.order, np.cumsum(parts.sizes)[:-1])
    for node, each in zip(parts.nodes.tolist(), members, strict=True):
        points = ClassPoints(X[each])
        distances = geodesic_distances(points, find_neighbors(points, n_neighbors))
        leaves.append(cut_part(forest, node, distances, max_patch_size))
    return np.concatenate(leaves)


def _cut_together(
    forest: Forest, parts: CoarseParts, X: Array, n_neighbors: int, max_patch_size: int
) -> Ints:
    """The same for many parts at a time."""
    leaves = np.empty(X.shape[0], dtype=np.intp)
    starts = np.cumsum(parts.sizes) - parts.sizes
    for some in alike(parts.sizes, X):
        sizes = parts.sizes[some]
        distances = inner_parts(X, parts.order, starts[some], sizes, n_neighbors)
        found = cut_parts(forest, parts.nodes[some], distances, max_patch_size)
        leaves[stretches(starts[some], sizes)] = found
    return leaves
