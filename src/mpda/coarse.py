"""The manifold partition of large classes: coarse cuts without all pairs, then the exact rule.

A part of more than ``PART_SIZE`` samples is cut in two as the rule does it, by growing from two far
samples over the neighbour lists, but these seeds come from three sweeps of shortest paths instead
of all paths, and the tortuosity R that decides who gets joint neighbours is sampled from the paths
to the seeds. Below, the rule itself goes on, with the shortest paths inside the part.

All parts that are still too large are cut at the same time: no link joins two of them, so one sweep
with a source in each serves them all, and a level of the tree takes the time of a few sweeps over
the class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from mpda._typing import Bools, Floats, Ints
from mpda.geodesics import geodesic_distances
from mpda.graphs import ClassPoints, NeighborLists, neighbor_lists
from mpda.partition import Partition, SplitTree, manifold_partition


def leaves_in_order(c):
    return c


# Classes of more samples are cut coarsely first: all pairs of this many take a tenth of a second.
CLASS_SIZE = 1000
# The largest part to which the exact rule is applied after coarse cuts.
PART_SIZE = 64
# Samples of a part whose tortuosity is measured.
_MEASURED = 64


_Seeds = tuple[Ints, Ints]
_Paths = tuple[Floats, Floats]


def coarse_partition(
    points: ClassPoints, lists: NeighborLists, max_patch_size: int, part_size: int = PART_SIZE
) -> Partition:
    """Patches of at most ``max_patch_size`` samples for a class of any size.

    Memory is that of the lists and of the shortest paths inside one part.
    """
    n, k = lists.indices.shape
    links = _links(lists)
    nodes = [np.arange(n)]
    children: list[tuple[int, int]] = [(-1, -1)]
    linearity = [1.0]
    limit = max(part_size, max_patch_size)
    level = [0] if n > limit else []
    while level:
        cut = _Cuts(points.X, lists, links, [nodes[node] for node in level])
        falls_right, ratios = cut.made()
        below = []
        for node, ratio in zip(level, ratios, strict=True):
            members = nodes[node]
            right = falls_right[members]
            linearity[node] = float(ratio)
            children[node] = (len(nodes), len(nodes) + 1)
            for half in (members[~right], members[right]):
                if half.size > limit:
                    below.append(len(nodes))
                nodes.append(half)
                children.append((-1, -1))
                linearity.append(1.0)
        links = cut.links
        level = below
    parts = []
    for node, members in enumerate(nodes):
        if children[node][0] < 0:
            part = _exact(points.X[members], k, max_patch_size)
            assert part.tree is not None
            linearity[node] = float(part.tree.linearity[0])
            parts.append((node, part))
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


class _Cuts:
    """Disjoint parts of a class, each to be cut in two.

    group : (n,) the part of each sample, -1 outside
    links : the links inside parts
    """

    def __init__(
        self, X: Floats, lists: NeighborLists, links: csr_array, parts: list[Ints]
    ) -> None:
        self._X = X
        self._lists = lists.indices
        self._members = np.concatenate(parts)
        sizes = np.array([part.size for part in parts])
        self._starts = np.cumsum(sizes) - sizes
        self.group = np.full(len(X), -1, dtype=np.intp)
        self.group[self._members] = np.repeat(np.arange(sizes.size), sizes)
        step = -(-sizes // _MEASURED)
        place = np.arange(self._members.size) - np.repeat(self._starts, sizes)
        self._measured = self._members[place % np.repeat(step, sizes) == 0]
        self.links = self._inside(links)

    def _inside(self, links: csr_array) -> csr_array:
        tails = np.repeat(self.group, np.diff(links.indptr))
        kept = (tails == self.group[links.indices]) & (tails >= 0)
        starts = np.concatenate([[0], np.cumsum(kept)])[links.indptr].astype(np.int32)
        return csr_array((links.data[kept], links.indices[kept], starts), shape=links.shape)

    def made(self) -> tuple[Bools, Floats]:
        """What falls to the right part (n,), and the mean tortuosity in each part before."""
        one = self._farthest(self._sweep(self._members[self._starts]))
        from_one = self._sweep(one)
        other = self._farthest(from_one)
        # Copies of one point: any two of them.
        first, second = self._members[self._starts], self._members[self._starts + 1]
        other = np.where(one == other, np.where(one == first, second, first), other)
        from_other = self._sweep(other)
        swapped = (one > other)[self.group] & (self.group >= 0)
        seeds = np.minimum(one, other), np.maximum(one, other)
        paths = (
            np.where(swapped, from_other, from_one),
            np.where(swapped, from_one, from_other),
        )
        ratios = [self._ratios(*each) for each in zip(paths, seeds, strict=True)]
        falls_right = self._grown(seeds, paths, ratios)
        return falls_right, sum(self._sums(each, self._measured) for each in ratios) / (
            2 * self._sums(None, self._measured)
        )

    def _sweep(self, sources: Ints) -> Floats:
        """The length of the path (n,) to each sample from the source in its part."""
        return np.asarray(dijkstra(self.links, indices=sources, min_only=True))

    def _farthest(self, lengths: Floats) -> Ints:
        """The sample of each part with the longest path, the first of several.

        What no path reaches is farther than all else.
        """
        found = lengths[self._members]
        longest = np.maximum.reduceat(found, self._starts)
        places = (found == longest[self.group[self._members]]).nonzero()[0]
        return self._members[places[np.searchsorted(places, self._starts)]]

    def _ratios(self, lengths: Floats, seeds: Ints) -> Floats:
        """R (n,) between the measured samples and the seeds; 0 for others, 1 without a path."""
        rows = self._measured
        straight = np.linalg.norm(self._X[rows] - self._X[seeds[self.group[rows]]], axis=1)
        known = (straight > 0.0) & np.isfinite(lengths[rows])
        ratios = np.zeros(len(self._X))
        ratios[rows] = np.divide(lengths[rows], straight, out=np.ones_like(straight), where=known)
        return np.maximum(ratios, ratios > 0.0)

    def _sums(self, values: Floats | None, rows: Ints) -> Floats:
        """The sums over each part of values (n,), or the number, of some samples."""
        weights = None if values is None else values[rows]
        return np.bincount(self.group[rows], weights, self._starts.size).astype(float)

    def _grown(self, seeds: _Seeds, paths: _Paths, ratios: Sequence[Floats]) -> Bools:
        """Grow two sides of every part round by round over the lists, as the rule does."""
        n, n_parts = self.group.size, self._starts.size
        # Lists end at the border of a part: what lies beyond stands as one more sample, never free.
        same = self.group[self._lists] == self.group[:, None]
        listed = np.where(same, self._lists, n)
        free = np.append(self.group >= 0, False)
        is_right = np.zeros(n, dtype=bool)
        is_measured = np.zeros(n)
        is_measured[self._measured] = 1.0
        # For each part and side: samples, measured samples, and the sum of their R.
        counts, measured, totals = np.zeros((3, n_parts, 2))
        # A bit for each side.
        reached, bits = np.concatenate(seeds), np.repeat([1, 2], n_parts)
        while reached.size:
            free[reached] = False
            place = 4 * self.group[reached] + bits

            def sums(weights: Floats | None, place: Ints = place) -> Floats:
                return np.bincount(place, weights, 4 * n_parts).reshape(n_parts, 4).astype(float)

            new = sums(None), sums(is_measured[reached])
            new_totals = [sums(each[reached]) for each in ratios]
            for total, each in zip((counts, measured), new, strict=True):
                total += each[:, 1:3]
            for side in (0, 1):
                totals[:, side] += new_totals[side][:, side + 1]
            joint = bits == 3
            if joint.any():
                # R^p N_p with what has just joined, R^p from the samples that are measured.
                mean = np.divide(totals, measured, out=np.ones_like(totals), where=measured > 0.0)
                weights = counts * mean
                side_of = (weights[:, 0] > weights[:, 1]).astype(np.intp)
                parts = np.arange(n_parts)
                for total, each in zip((counts, measured), new, strict=True):
                    total[parts, side_of] += each[:, 3]
                totals[parts, side_of] += np.stack(new_totals)[side_of, parts, 3]
                bits[joint] = 1 + side_of[self.group[reached[joint]]]
            to_right = bits == 2
            is_right[reached[to_right]] = True
            near = np.zeros(n + 1, dtype=np.uint8)
            near[listed[reached[~to_right]]] = 1
            beyond = listed[reached[to_right]]
            near[beyond] |= 2
            near *= free
            reached = near.nonzero()[0]
            bits = near[reached].astype(np.intp)
        left_over = free[:n].nonzero()[0]
        is_right[left_over] = self._nearer(left_over, seeds, paths)
        return is_right

    def _nearer(self, rows: Ints, seeds: _Seeds, paths: _Paths) -> Bools:
        """Whether samples that no list reaches are nearer to the right seed, by paths or lines."""
        to_left, to_right = (each[rows] for each in paths)
        lost = np.isinf(to_left) & np.isinf(to_right)
        for gaps, seed in ((to_left, seeds[0]), (to_right, seeds[1])):
            from_seed = self._X[rows[lost]] - self._X[seed[self.group[rows[lost]]]]
            gaps[lost] = np.linalg.norm(from_seed, axis=1)
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
