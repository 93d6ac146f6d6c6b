"""The manifold partition: a class is cut in two until no patch is larger than allowed.

Only patches above the limit are split, so the order of splitting does not matter and the rule is
a plain recursion (the paper's priority R^p N_p then only decides who gets the joint neighbours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._typing import Bools, Floats, Ints, Labels
from mpda.geodesics import ClassDistances


@dataclass(frozen=True)
class SplitTree:
    """The splits of a partition; nodes are numbered from the roots downwards.

    roots : (classes,) the node that all of a class stands for
    children : (nodes, 2) the two parts of a node, -1 at a leaf
    sizes : (nodes,) number of samples
    linearity : (nodes,) R^p, the mean tortuosity over ordered pairs
    patches : (nodes,) label of the patch that a leaf is, -1 elsewhere
    """

    roots: Ints
    children: Ints
    sizes: Ints
    linearity: Floats
    patches: Ints


@dataclass(frozen=True)
class Partition:
    """A class cut into patches.

    labels : (n,) the patch of each sample, 0 to P-1
    linearity : (P,) R^p, nan where it was not measured
    tree : the splits, None where the patches come from elsewhere
    """

    labels: Ints
    linearity: Floats
    tree: SplitTree | None


def manifold_partition(distances: ClassDistances, max_patch_size: int) -> Partition:
    """Split one class until no patch has more than ``max_patch_size`` samples.

    Patches are numbered as the leaves of the tree, left parts first.
    """
    n = distances.lengths.shape[0]
    nodes = [np.arange(n)]
    identical = [False]  # whether the samples of a node are known to be one point
    children: list[tuple[int, int]] = []
    linearity: list[float] = []
    for node, members in enumerate(nodes):  # grows while it is read
        tortuosity = None if identical[node] else _block(distances.tortuosity, members)
        linearity.append(mean_tortuosity(tortuosity))
        if members.size <= max_patch_size:
            children.append((-1, -1))
            continue
        if not identical[node]:
            lengths = _block(distances.lengths, members)
            seeds = _farthest_pair(lengths)
            identical[node] = lengths[seeds] == 0.0
        if identical[node]:
            # What the rule comes to: the left part reaches or is nearest to all but one.
            falls_right = np.arange(members.size) == 1
        else:
            listed = _block(distances.listed, members)
            falls_right = _split(ClassDistances(listed, lengths, tortuosity), seeds)
        children.append((len(nodes), len(nodes) + 1))
        nodes += [members[~falls_right], members[falls_right]]
        identical += [identical[node]] * 2
    tree_children = np.array(children, dtype=np.intp)
    leaves = leaves_in_order(tree_children)
    patches = np.full(len(nodes), -1, dtype=np.intp)
    patches[leaves] = np.arange(leaves.size)
    sizes = np.array([members.size for members in nodes], dtype=np.intp)
    labels = np.empty(n, dtype=np.intp)
    labels[np.concatenate([nodes[leaf] for leaf in leaves])] = np.repeat(
        np.arange(leaves.size), sizes[leaves]
    )
    roots = np.zeros(1, dtype=np.intp)
    tree = SplitTree(roots, tree_children, sizes, np.array(linearity), patches)
    return Partition(labels, tree.linearity[leaves], tree)


def joined(parts: Sequence[Partition], members: Sequence[Ints]) -> Partition:
    """The partition of all samples from those of classes, given the indices of each class."""
    first_patch = _starts([part.linearity.size for part in parts])
    labels = np.empty(sum(each.size for each in members), dtype=np.intp)
    for part, each, offset in zip(parts, members, first_patch, strict=True):
        labels[each] = part.labels + offset
    linearity = np.concatenate([part.linearity for part in parts])
    trees = [part.tree for part in parts if part.tree is not None]
    if len(trees) < len(parts):
        return Partition(labels, linearity, None)
    first_node = _starts([tree.sizes.size for tree in trees])
    return Partition(
        labels,
        linearity,
        SplitTree(
            first_node,
            np.concatenate(list(map(_shifted, (t.children for t in trees), first_node))),
            np.concatenate([tree.sizes for tree in trees]),
            np.concatenate([tree.linearity for tree in trees]),
            np.concatenate(list(map(_shifted, (t.patches for t in trees), first_patch))),
        ),
    )


def _starts(sizes: Sequence[int]) -> Ints:
    return np.cumsum(sizes) - np.asarray(sizes)


def _shifted(numbers: Ints, offset: int) -> Ints:
    """Numbers plus an offset, where -1 stays for none."""
    return np.where(numbers < 0, numbers, numbers + offset)


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


def leaves_in_order(children: Ints) -> Ints:
    leaves = []
    parts = children.tolist()
    stack = [0]
    while stack:
        node = stack.pop()
        left, right = parts[node]
        if left < 0:
            leaves.append(node)
        else:
            stack += [right, left]
    return np.array(leaves, dtype=np.intp)


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
