"""The manifold partition of large classes: coarse cuts without all pairs, then the exact rule.

A part of more than ``PART_SIZE`` samples is cut in two as the rule does it, by growing from two far
samples over the neighbour lists, but the samples come from three sweeps of shortest paths instead
of all of them, and the tortuosity R that decides who gets joint neighbours is that of the paths of
these sweeps. Below, the rule itself goes on, with the shortest paths inside the part.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from mpda._typing import Bools, Floats, Ints
from mpda.geodesics import geodesic_distances
from mpda.graphs import ClassPoints, NeighborLists, neighbor_lists
from mpda.partition import Partition, SplitTree, leaves_in_order, manifold_partition

# Classes of more samples are cut coarsely first: all pairs of this many take a tenth of a second.
CLASS_SIZE = 1000
# The largest part to which the exact rule is applied after coarse cuts.
PART_SIZE = 250


def coarse_partition(
    points: ClassPoints, lists: NeighborLists, max_patch_size: int, part_size: int = PART_SIZE
) -> Partition:
    """Patches of at most ``max_patch_size`` samples for a class of any size.

    Memory is that of the lists and of the shortest paths inside one part.
    """
    n, k = lists.indices.shape
    links = _links(lists)
    nodes = [np.arange(n)]
    children: list[tuple[int, int]] = []
    linearity: list[float] = []
    parts: list[tuple[int, Partition]] = []
    for node, members in enumerate(nodes):  # grows while it is read
        children.append((-1, -1))
        if members.size <= max(part_size, max_patch_size):
            part = _exact(points.X[members], k, max_patch_size)
            assert part.tree is not None
            linearity.append(float(part.tree.linearity[0]))
            parts.append((node, part))
            continue
        falls_right, ratio = _Cut(points.X, lists, links, members).made()
        linearity.append(ratio)
        children[node] = (len(nodes), len(nodes) + 1)
        nodes += [members[~falls_right], members[falls_right]]
    return _grafted(nodes, children, linearity, parts)


def _exact(X: Floats, n_neighbors: int, max_patch_size: int) -> Partition:
    points = ClassPoints(X)
    lists = neighbor_lists(points, n_neighbors)
    return manifold_partition(geodesic_distances(points, lists), max_patch_size)


def _links(lists: NeighborLists) -> csr_array:
    """The listed pairs in both directions with their lengths, 0 included."""
    n, k = lists.indices.shape
    tails = np.repeat(np.arange(n), k)
    heads = lists.indices.ravel()
    keys = np.concatenate([tails * n + heads, heads * n + tails])
    keys, first = np.unique(keys, return_index=True)
    lengths = np.tile(lists.distances.ravel(), 2)[first]
    starts = np.searchsorted(keys, np.arange(n + 1) * n)
    indices = (keys % n).astype(np.int32), starts.astype(np.int32)
    return csr_array((lengths, *indices), shape=(n, n))


class _Cut:
    """One part of a class, to be cut in two."""

    def __init__(self, X: Floats, lists: NeighborLists, links: csr_array, members: Ints) -> None:
        self._X = X[members]
        self._links = links if members.size == len(X) else links[members][:, members]
        place = np.full(len(X), -1, dtype=np.intp)
        place[members] = np.arange(members.size)
        self._listed = place[lists.indices[members]]  # -1 for neighbours outside the part

    def made(self) -> tuple[Bools, float]:
        """What falls to the right part (s,), and the mean tortuosity of the sampled paths."""
        left, right = self._seeds()
        paths = np.stack([self._sweep(left), self._sweep(right)])
        ratios = self._ratios(paths, (left, right))
        falls_right = self._grown((left, right), paths, ratios)
        found = ratios[np.isfinite(ratios)]
        return falls_right, float(found.mean()) if found.size else 1.0

    def _sweep(self, source: int) -> Floats:
        return np.asarray(dijkstra(self._links, indices=[source]))[0]

    def _seeds(self) -> tuple[int, int]:
        """The sample farthest from the first, and the one farthest from that; the lower first.

        What no path reaches is farther than all else.
        """
        one = int(np.argmax(self._sweep(0)))
        other = int(np.argmax(self._sweep(one)))
        if one == other:  # copies of one point
            other = (one + 1) % len(self._X)
        return min(one, other), max(one, other)

    def _ratios(self, paths: Floats, seeds: tuple[int, int]) -> Floats:
        """R (2, s) between each seed and every sample; nan where no path leads there."""
        straight = np.stack([np.linalg.norm(self._X - self._X[seed], axis=1) for seed in seeds])
        ratios = np.divide(paths, straight, out=np.ones_like(paths), where=straight > 0.0)
        return np.where(np.isfinite(ratios), np.maximum(ratios, 1.0), np.nan)

    def _grown(self, seeds: tuple[int, int], paths: Floats, ratios: Floats) -> Bools:
        """Grow two parts round by round over the lists, as the rule does."""
        side = np.full(len(self._X), -1, dtype=np.int8)
        sums = [0.0, 0.0]
        sizes = [0, 0]
        fronts = [np.array([seed]) for seed in seeds]

        def join(which: int, new: Ints) -> None:
            side[new] = which
            sums[which] += float(np.nansum(ratios[which][new]))
            sizes[which] += new.size

        for which, front in enumerate(fronts):
            join(which, front)
        while fronts[0].size or fronts[1].size:
            near = [self._free_neighbors(front, side) for front in fronts]
            joint = np.intersect1d(near[0], near[1], assume_unique=True)
            if joint.size:
                near = [np.setdiff1d(each, joint, assume_unique=True) for each in near]
                # R^p N_p with what is about to join; the sum over its samples stands for both.
                weights = [sums[i] + float(np.nansum(ratios[i][near[i]])) for i in (0, 1)]
                gets = 1 if weights[0] > weights[1] else 0
                near[gets] = np.union1d(near[gets], joint)
            for which in (0, 1):
                join(which, near[which])
            fronts = near
        left_over = np.flatnonzero(side < 0)
        if left_over.size:
            side[left_over] = self._nearer(left_over, seeds, paths)
        return side == 1

    def _free_neighbors(self, front: Ints, side: np.ndarray[tuple[int], np.dtype[np.int8]]) -> Ints:
        reached = np.unique(self._listed[front])
        reached = reached[reached >= 0]
        return reached[side[reached] < 0]

    def _nearer(self, points: Ints, seeds: tuple[int, int], paths: Floats) -> Bools:
        """Whether samples that no list reaches are nearer to the right seed, by paths or lines."""
        to_left, to_right = paths[:, points]
        lost = np.isinf(to_left) & np.isinf(to_right)
        for gaps, seed in ((to_left, seeds[0]), (to_right, seeds[1])):
            gaps[lost] = np.linalg.norm(self._X[points[lost]] - self._X[seed], axis=1)
        return to_right < to_left


def _grafted(
    nodes: list[Ints],
    children: list[tuple[int, int]],
    linearity: list[float],
    parts: list[tuple[int, Partition]],
) -> Partition:
    """The tree of coarse cuts with the trees of the parts at its leaves."""
    all_children = [np.array(children, dtype=np.intp)]
    all_linearity = [np.array(linearity)]
    all_sizes = [np.array([members.size for members in nodes], dtype=np.intp)]
    owner = np.empty(nodes[0].size, dtype=np.intp)  # the leaf of each sample
    n_nodes = len(nodes)
    for node, part in parts:
        tree = part.tree
        assert tree is not None
        # Its root is the node itself, and its other nodes come behind all others.
        number = np.arange(n_nodes - 1, n_nodes - 1 + tree.sizes.size)
        number[0] = node
        moved = np.where(tree.children < 0, -1, number[tree.children])
        all_children[0][node] = moved[0]
        all_children.append(moved[1:])
        all_linearity.append(tree.linearity[1:])
        all_sizes.append(tree.sizes[1:])
        leaves = number[tree.patches >= 0]
        by_patch = np.empty(leaves.size, dtype=np.intp)
        by_patch[tree.patches[tree.patches >= 0]] = leaves
        owner[nodes[node]] = by_patch[part.labels]
        n_nodes += tree.sizes.size - 1
    tree_children = np.concatenate(all_children)
    leaves = leaves_in_order(tree_children)
    patches = np.full(n_nodes, -1, dtype=np.intp)
    patches[leaves] = np.arange(leaves.size)
    measured = np.concatenate(all_linearity)
    roots = np.zeros(1, dtype=np.intp)
    tree = SplitTree(roots, tree_children, np.concatenate(all_sizes), measured, patches)
    return Partition(patches[owner], measured[leaves], tree)
