"""The manifold partition: a class is cut in two until no patch is larger than allowed.

Only patches above the limit are split, so the order of splitting does not matter and the rule is
a plain recursion (the paper's priority R^p N_p then only decides who gets the joint neighbours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    children: list[tuple[int, int]] = []
    for members in nodes:  # grows while it is read
        if members.size <= max_patch_size:
            children.append((-1, -1))
            continue
        falls_right = _split(_inside(distances, members))
        children.append((len(nodes), len(nodes) + 1))
        nodes += [members[~falls_right], members[falls_right]]
    tree_children = np.array(children, dtype=np.intp)
    leaves = _leaves_in_order(tree_children)
    patches = np.full(len(nodes), -1, dtype=np.intp)
    patches[leaves] = np.arange(leaves.size)
    sizes = np.array([members.size for members in nodes], dtype=np.intp)
    labels = np.empty(n, dtype=np.intp)
    labels[np.concatenate([nodes[leaf] for leaf in leaves])] = np.repeat(
        np.arange(leaves.size), sizes[leaves]
    )
    linearity = np.array([patch_linearity(distances, members) for members in nodes])
    tree = SplitTree(np.zeros(1, dtype=np.intp), tree_children, sizes, linearity, patches)
    return Partition(labels, linearity[leaves], tree)


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
    linearity = np.array([patch_linearity(distances, each) for each in members])
    return Partition(patches, linearity, None)


def patch_linearity(distances: ClassDistances, members: Ints) -> float:
    """R^p: the mean of R_ij over all ordered pairs of a patch."""
    if distances.tortuosity is None:
        return 1.0
    return float(np.add.reduce(_block(distances.tortuosity, members), axis=None)) / members.size**2


def _block(D: NDArray[Any], members: Ints) -> NDArray[Any]:
    return D if members.size == len(D) else D[members[:, None], members]


def _inside(distances: ClassDistances, members: Ints) -> ClassDistances:
    """The distances of a patch."""
    R = distances.tortuosity
    return ClassDistances(
        _block(distances.listed, members),
        _block(distances.lengths, members),
        None if R is None else _block(R, members),
    )


def _leaves_in_order(children: Ints) -> Ints:
    leaves = []
    stack = [0]
    while stack:
        node = stack.pop()
        left, right = children[node]
        if left < 0:
            leaves.append(node)
        else:
            stack += [right, left]
    return np.array(leaves, dtype=np.intp)


def _split(patch: ClassDistances) -> Bools:
    """Grow two parts from the farthest pair; True (s,) where a sample falls to the right part."""
    left, right = (_Part(patch, seed) for seed in _farthest_pair(patch.lengths))
    free = np.ones(len(patch.lengths), dtype=bool)
    free[left.new] = free[right.new] = False
    while np.count_nonzero(free):
        near_left = left.reached() & free
        near_right = right.reached() & free
        joint = near_left & near_right
        if np.count_nonzero(joint):
            left.add((near_left & ~joint).nonzero()[0])
            right.add((near_right & ~joint).nonzero()[0])
            gaining = right if left.priority > right.priority else left
            gaining.add(joint.nonzero()[0], same_round=True)
        else:
            left.add(near_left.nonzero()[0])
            right.add(near_right.nonzero()[0])
            if not left.new.size and not right.new.size:
                _place_nearest(left, right, free)
        free[left.new] = free[right.new] = False
    return right.members


class _Part:
    """One side of a split while it grows."""

    def __init__(self, patch: ClassDistances, seed: int) -> None:
        size = patch.lengths.shape[0]
        self._patch = patch
        self.members = np.zeros(size, dtype=bool)
        self.members[seed] = True
        self.new = np.array([seed])  # what joined in the last round
        self._pending = [self.new]  # what joined since the gaps were last brought up to date
        self._gaps = np.full(size, np.inf)

    def add(self, points: Ints, same_round: bool = False) -> None:
        self.members[points] = True
        self.new = np.concatenate([self.new, points]) if same_round else points
        self._pending.append(points)

    def reached(self) -> Bools:
        """True (s,) for what is in the list of a sample that joined in the last round.

        Older samples reach nothing more: what was in their lists has been placed.
        """
        return np.logical_or.reduce(self._patch.listed[self.new], axis=0)

    @property
    def priority(self) -> float:
        """R^p N_p."""
        size = np.count_nonzero(self.members)
        if self._patch.tortuosity is None:
            return float(size)
        members = self.members.astype(float)
        return float(members @ self._patch.tortuosity @ members) / size**2 * size

    @property
    def gaps(self) -> Floats:
        """The distance of every sample of the patch to the part (s,)."""
        pending = np.concatenate([*self._pending, self.new[:0]])
        self._pending = []
        if pending.size:
            np.minimum(self._gaps, self._patch.lengths[pending].min(axis=0), out=self._gaps)
        return self._gaps


def _farthest_pair(lengths: Floats) -> tuple[int, int]:
    """The pair with the largest distance, lowest indices first at a tie."""
    low, high = divmod(int(np.argmax(lengths)), lengths.shape[0])
    return (low, high) if low != high else (0, 1)  # equal only if all distances are 0


def _place_nearest(left: _Part, right: _Part, free: Bools) -> None:
    """When growth is stuck: the free sample nearest to a placed one joins the side of that one."""
    to_left, to_right = left.gaps, right.gaps
    point = int(np.argmin(np.where(free, np.minimum(to_left, to_right), np.inf)))
    (left if to_left[point] <= to_right[point] else right).add(np.array([point]))
