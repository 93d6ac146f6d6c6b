"""The ways to cut a class into patches, as rules that a contribution can follow.

A rule takes the points of a class and their k'-nearest-neighbour lists.
"""

from __future__ import annotations

from mpda._typing import Labels
from mpda.coarse import CLASS_SIZE, coarse_partition
from mpda.geodesics import euclidean_distances, geodesic_distances
from mpda.graphs import ClassPoints, NeighborLists
from mpda.partition import Partition, known_partition, manifold_partition

# Above this many samples the linearity of patches that come from elsewhere is not measured: it
# would take all shortest paths of the class.
_MEASURED_LIMIT = 5000


def geodesic_patches(
    points: ClassPoints, lists: NeighborLists, *, max_patch_size: int
) -> Partition:
    """The manifold partition by shortest paths along the class (the paper)."""
    return manifold_partition(geodesic_distances(points, lists), max_patch_size)


def auto_patches(points: ClassPoints, lists: NeighborLists, *, max_patch_size: int) -> Partition:
    """The same for classes of up to ``coarse.CLASS_SIZE`` samples; larger ones are cut coarsely
    first."""
    if len(points.X) <= CLASS_SIZE:
        return geodesic_patches(points, lists, max_patch_size=max_patch_size)
    return coarse_partition(points, lists, max_patch_size)


def euclidean_patches(
    points: ClassPoints, lists: NeighborLists, *, max_patch_size: int
) -> Partition:
    """The manifold partition by straight lines (the paper's "further improvement")."""
    return manifold_partition(euclidean_distances(points, lists), max_patch_size)


def known_patches(points: ClassPoints, lists: NeighborLists, *, labels: Labels) -> Partition:
    """Patches given by labels (n,), -1 for a sample that is a patch of its own."""
    measured = len(points.X) <= _MEASURED_LIMIT
    return known_partition(geodesic_distances(points, lists) if measured else None, labels)
