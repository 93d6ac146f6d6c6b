"""The ways to cut a class into patches, as rules that a contribution can follow.

A rule takes the points of a class and their k'-nearest-neighbour lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpda._lib.array_types import Labels
from mpda._lib.arrays import is_numpy, to_host
from mpda.neighbors.graph import ClassPoints, NeighborLists
from mpda.partition.coarse import CLASS_SIZE, coarse_partitions
from mpda.partition.geodesics import geodesic_distances
from mpda.partition.split import Partition, known_partition, manifold_partitions

# Above this many samples the linearity of patches that come from elsewhere is not measured: it
# would take all shortest paths of the class.
_MEASURED_LIMIT = 5000


@dataclass(frozen=True)
class CutRule:
    """The manifold partition.

    partition : how distances along a class are measured. "geodesic": by shortest paths (the paper).
        "euclidean": by straight lines (the paper's "further improvement"). "auto": by shortest
        paths, but classes of more than ``coarse.CLASS_SIZE`` samples are cut coarsely first.
    max_patch_size : the samples that a patch may have
    """

    partition: str
    max_patch_size: int

    def __call__(self, points: ClassPoints, lists: NeighborLists) -> Partition:
        """The patches of one class."""
        return self.together([points], [lists])[0]

    def together(
        self, points: Sequence[ClassPoints], lists: Sequence[NeighborLists]
    ) -> list[Partition]:
        """The patches of several classes, cut at the same time where that is faster."""
        if len(points) > 1 and is_numpy(points[0].X):
            return [self(*each) for each in zip(points, lists, strict=True)]
        found: dict[int, Partition] = {}
        coarse = [self._is_coarse(each) for each in points]
        for is_coarse in (False, True):
            places = [place for place, each in enumerate(coarse) if each == is_coarse]
            if places:
                some = [points[place] for place in places], [lists[place] for place in places]
                found.update(zip(places, self._cut(*some, is_coarse=is_coarse), strict=True))
        return [found[place] for place in range(len(points))]

    def _is_coarse(self, points: ClassPoints) -> bool:
        return self.partition == "auto" and points.X.shape[0] > CLASS_SIZE

    def _cut(
        self, points: Sequence[ClassPoints], lists: Sequence[NeighborLists], *, is_coarse: bool
    ) -> list[Partition]:
        if is_coarse:
            return coarse_partitions(points, lists, self.max_patch_size)
        geodesic = self.partition != "euclidean"
        return manifold_partitions(points, lists, self.max_patch_size, geodesic=geodesic)


def known_patches(points: ClassPoints, lists: NeighborLists, *, labels: Labels) -> Partition:
    """Patches given by labels (n,), -1 for a sample that is a patch of its own."""
    if points.X.shape[0] > _MEASURED_LIMIT:
        return known_partition(None, labels)
    if not is_numpy(points.X):
        points = ClassPoints(to_host(points.X))
        lists = NeighborLists(to_host(lists.indices), to_host(lists.distances))
    return known_partition(geodesic_distances(points, lists), labels)
