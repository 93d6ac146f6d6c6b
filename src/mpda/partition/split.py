"""The manifold partition: a class is cut in two until no patch is larger than allowed.

Only patches above the limit are split, so the order of splitting does not matter and the rule is
a plain recursion (the paper's priority R^p N_p then only decides who gets the joint neighbours).
NumPy is fastest with one patch after the other; on a device all are cut together (``levels``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda._lib.array_types import Bools, Floats, Ints, Labels
from mpda._lib.arrays import is_numpy
from mpda.neighbors.graph import ClassPoints, NeighborLists
from mpda.partition.geodesics import (
    ClassDistances,
    class_parts,
    euclidean_distances,
    geodesic_distances,
    one_part,
)
from mpda.partition.levels import alike, cut_parts, stretches
from mpda.partition.tree import Forest
from mpda.partition.tree import Partition as Partition
from mpda.partition.tree import SplitTree as SplitTree
from mpda.partition.tree import joined as joined


def manifold_partition(distances: ClassDistances, max_patch_size: int) -> Partition:
    """Split one class until no patch has more than ``max_patch_size`` samples.

    Patches are numbered as the leaves of the tree, left parts first.
    """
    forest = Forest([distances.lengths.shape[0]])
    if is_numpy(distances.lengths):
        leaves = cut_part(forest, 0, distances, max_patch_size)
    else:
        leaves = cut_parts(forest, np.array([0]), one_part(distances), max_patch_size)
    return forest.partitions([leaves])[0]


def manifold_partitions(
    points: Sequence[ClassPoints],
    lists: Sequence[NeighborLists],
    max_patch_size: int,
    *,
    geodesic: bool,
) -> list[Partition]:
    """The same for several classes by paths or, unless geodesic, by straight lines."""
    X = points[0].X
    if is_numpy(X):
        measured = geodesic_distances if geodesic else euclidean_distances
        each_class = zip(points, lists, strict=True)
        return [manifold_partition(measured(*each), max_patch_size) for each in each_class]
    sizes = np.array([each.X.shape[0] for each in points])
    forest = Forest(sizes.tolist())
    leaves = np.empty(sizes.sum(), dtype=np.intp)
    starts = np.cumsum(sizes) - sizes
    for some in alike(sizes, X):
        few = [points[place] for place in some], [lists[place] for place in some]
        distances = class_parts(*few, geodesic=geodesic)
        found = cut_parts(forest, some, distances, max_patch_size)
        leaves[stretches(starts[some], sizes[some])] = found
    return forest.partitions(np.split(leaves, starts[1:]))


def cut_part(forest: Forest, node: int, distances: ClassDistances, max_patch_size: int) -> Ints:
    """Split a node of a forest, given the distances of its samples (n,); the leaf of each."""
    leaves = np.full(distances.lengths.shape[0], node)
    nodes = [(node, np.arange(leaves.size))]
    for node, members in nodes:  # grows while it is read
        tortuosity = _block(distances.tortuosity, members)
        forest.measure(node, mean_tortuosity(tortuosity))
        if members.size <= max_patch_size:
            leaves[members] = node
            continue
        lengths = _block(distances.lengths, members)
        seeds = _farthest_pair(lengths)
        if lengths[seeds] == 0.0:
            leaves[members] = forest.split_copies(node, members.size, max_patch_size)
            continue
        listed = _block(distances.listed, members)
        falls_right = _split(ClassDistances(listed, lengths, tortuosity), seeds)
        left, right = members[~falls_right], members[falls_right]
        children = forest.split(node, left.size, right.size)
        nodes += zip(children, (left, right), strict=True)
    return leaves


def known_partition(distances: ClassDistances | None, labels: Labels) -> Partition:
    """Patches that come from elsewhere, with their linearity if distances are given.

    labels (n,) are any integers; each sample with label -1 is a patch of its own.
    """
    n = labels.size
    distinct = np.where(labels == -1, labels.max(initial=0) + 1 + np.arange(n), labels)
    patches = np.unique(distinct, return_inverse=True)[1]
    sizes = np.bincount(patches)
    if distances is None:
        return Partition(patches, np.full(sizes.size, np.nan), None)
    members = np.split(np.argsort(patches, kind="stable"), np.cumsum(sizes)[:-1])
    linearity = [mean_tortuosity(_block(distances.tortuosity, each)) for each in members]
    return Partition(patches, np.array(linearity), None)


def mean_tortuosity(tortuosity: Floats | None) -> float:
    """R^p: the mean of R_ij over all ordered pairs of a patch."""
    if tortuosity is None:
        return 1.0
    return float(np.add.reduce(tortuosity, axis=None)) / tortuosity.size


def _block(D: Any, members: Ints) -> Any:
    """The square of D (n, n) that belongs to the members; None stays None."""
    if D is None or members.size == len(D):
        return D
    return D.take(members, axis=0).take(members, axis=1)  # half the time of D[members][:, members]


def _split(patch: ClassDistances, seeds: tuple[int, int]) -> Bools:
    """Grow two parts from their seeds; True (s,) where a sample falls to the right part."""
    left, right = _Part(patch, seeds[0]), _Part(patch, seeds[1])
    free = ~(left.members | right.members)
    n_free = free.size - 2
    while n_free:
        near_left = left.reach & free
        near_right = right.reach & free
        joint = near_left & near_right
        if joint.nonzero()[0].size:  # faster than any() on few samples
            near_left ^= joint
            near_right ^= joint
            if left.priority(near_left) > right.priority(near_right):
                near_right |= joint
            else:
                near_left |= joint
        new_left = near_left.nonzero()[0]
        new_right = near_right.nonzero()[0]
        if new_left.size + new_right.size == 0:
            new_left, new_right = _nearest_free(patch.listed, left, right, free)
        left.add(new_left)
        right.add(new_right)
        free[new_left] = free[new_right] = False
        n_free -= new_left.size + new_right.size
    return right.members


class _Part:
    """One side of a split while it grows.

    members : (s,) what it holds
    reach : (s,) what is in the list of a sample that joined in the last round. Older samples reach
        nothing more: what was in their lists has been placed.
    """

    def __init__(self, patch: ClassDistances, seed: int) -> None:
        self._patch = patch
        self._nothing = np.zeros(len(patch.lengths), dtype=bool)
        self.members = self._nothing.copy()
        self.members[seed] = True
        self.reach = patch.listed[seed]
        self._gaps = patch.lengths[seed]
        self._pending: list[Ints] = []  # what joined since the gaps were last brought up to date

    def add(self, points: Ints) -> None:
        if points.size == 0:
            self.reach = self._nothing
            return
        self.members[points] = True
        self.reach = np.logical_or.reduce(self._patch.listed.take(points, axis=0))
        self._pending.append(points)

    def priority(self, joining: Bools) -> float:
        """R^p N_p with what is about to join."""
        members = (self.members | joining).nonzero()[0]
        return mean_tortuosity(_block(self._patch.tortuosity, members)) * members.size

    def gaps(self) -> Floats:
        """The distance of every sample of the patch to the part (s,)."""
        if self._pending:
            joined = self._patch.lengths.take(np.concatenate(self._pending), axis=0)
            self._gaps = np.minimum(self._gaps, np.minimum.reduce(joined))
            self._pending = []
        return self._gaps


def _farthest_pair(lengths: Floats) -> tuple[int, int]:
    """The pair with the largest distance, lowest indices first at a tie."""
    low, high = divmod(int(lengths.argmax()), len(lengths))
    return low, high


def _nearest_free(listed: Bools, left: _Part, right: _Part, free: Bools) -> tuple[Ints, Ints]:
    """When growth is stuck: the free sample nearest to a placed one, for the side of that one.

    Copies of placed samples would come one after the other; they come together, up to the first
    from which growth can go on.
    """
    to_left, to_right = left.gaps(), right.gaps()
    gaps = np.where(free, np.minimum(to_left, to_right), np.inf)
    point = gaps.argmin()
    if gaps[point] > 0.0:
        joins, nothing = np.array([point]), np.empty(0, dtype=np.intp)
        return (joins, nothing) if to_left[point] <= to_right[point] else (nothing, joins)
    copies = (gaps == 0.0).nonzero()[0]
    onward = (listed[copies] & free).any(axis=1)
    points = copies[: 1 + int(onward.argmax())] if onward.any() else copies
    leftward = to_left[points] <= to_right[points]
    return points[leftward], points[~leftward]
