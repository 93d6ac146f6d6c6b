"""Patches of classes, and the trees of splits that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import to_host


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


class Forest:
    """The splits of some classes while they are made; node c is all of class c."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._n_classes = len(sizes)
        self._sizes = list(sizes)
        self._parents: list[int] = []
        self._linearity: dict[int, float] = {}
        self._measured: list[Ints] = []
        self._measures: list[Array] = []

    def split(self, node: int, left: int, right: int) -> tuple[int, int]:
        """The two children of a node, given their sizes."""
        self._parents.append(node)
        self._sizes += (left, right)
        return len(self._sizes) - 2, len(self._sizes) - 1

    def split_all(self, nodes: Ints, sizes: Ints) -> Ints:
        """The children (b, 2) of nodes (b,), given their sizes (b, 2)."""
        first = len(self._sizes)
        self._parents += nodes.tolist()
        self._sizes += sizes.ravel().tolist()
        return np.arange(first, len(self._sizes), dtype=np.intp).reshape(-1, 2)

    def split_copies(self, node: int, size: int, max_patch_size: int) -> Ints:
        """Split a node whose samples are one point; the leaf (size,) of each sample.

        What the rule comes to: the left part reaches or is nearest to all but one, the second.
        """
        leaves = np.empty(size, dtype=np.intp)
        n_splits = size - max_patch_size
        for place in range(1, n_splits + 1):
            node, leaves[place] = self.split(node, size - place, 1)
        leaves[0] = leaves[n_splits + 1 :] = node
        return leaves

    def measure(self, node: int, linearity: float) -> None:
        """Take down R^p of a node; it is 1 where it is never taken down."""
        self._linearity[node] = linearity

    def measure_all(self, nodes: Ints, linearity: Array) -> None:
        """Take down R^p (b,) of nodes (b,), which is fetched from a device at the end."""
        self._measured.append(nodes)
        self._measures.append(linearity)

    def partitions(self, owners: Sequence[Ints]) -> list[Partition]:
        """The partition of each class, given the leaf of each of its samples."""
        if not self._parents:
            return [_uncut(*each) for each in zip(self._sizes, self._all_linearity(), strict=True)]
        tree = self._numbered()
        nodes = np.argsort(tree.owners, kind="stable")
        ends = np.cumsum(np.bincount(tree.owners, minlength=self._n_classes))
        number = np.empty(len(self._sizes), dtype=np.intp)
        found = []
        for each, end, start in zip(owners, ends, np.append(0, ends[:-1]), strict=True):
            own = tree.order[nodes[start:end]]
            number[own] = np.arange(own.size)
            children = tree.children[own]
            split = SplitTree(
                np.zeros(1, dtype=np.intp),
                np.where(children < 0, -1, number[children]),
                tree.sizes[own],
                tree.linearity[own],
                tree.patches[own],
            )
            leaves = (split.patches >= 0).nonzero()[0]
            linearity = np.empty(leaves.size)
            linearity[split.patches[leaves]] = split.linearity[leaves]
            found.append(Partition(tree.patches[each], linearity, split))
        return found

    def _all_linearity(self) -> Floats:
        """R^p (nodes,) as it was taken down."""
        linearity = np.ones(len(self._sizes))
        linearity[list(self._linearity)] = list(self._linearity.values())
        for nodes, measures in zip(self._measured, self._measures, strict=True):
            linearity[nodes] = to_host(measures)
        return linearity

    def _numbered(self) -> _Numbered:
        n_nodes = len(self._sizes)
        children = np.full((n_nodes, 2), -1, dtype=np.intp)
        children[self._parents] = np.arange(self._n_classes, n_nodes).reshape(-1, 2)
        levels = [np.arange(self._n_classes)]
        owners = [levels[0]]
        while True:
            inner = (children[levels[-1], 0] >= 0).nonzero()[0]
            if inner.size == 0:
                break
            owners.append(np.repeat(owners[-1][inner], 2))
            levels.append(children[levels[-1][inner]].ravel())
        return _Numbered(
            np.concatenate(levels),
            np.concatenate(owners),
            children,
            np.array(self._sizes, dtype=np.intp),
            self._all_linearity(),
            _leaf_numbers(levels, children),
        )


def _uncut(size: int, linearity: float) -> Partition:
    """A class as one patch."""
    zero, measured = np.zeros(1, dtype=np.intp), np.array([linearity])
    tree = SplitTree(zero, np.full((1, 2), -1), np.array([size]), measured, zero)
    return Partition(np.zeros(size, dtype=np.intp), measured, tree)


@dataclass(frozen=True)
class _Numbered:
    """The nodes of a forest with their numbers.

    order : (nodes,) the nodes level by level
    owners : (nodes,) their classes, in that order
    children, sizes, linearity, patches : as in a tree, by node
    """

    order: Ints
    owners: Ints
    children: Ints
    sizes: Ints
    linearity: Floats
    patches: Ints


def _leaf_numbers(levels: Sequence[Ints], children: Ints) -> Ints:
    """The number (nodes,) of each leaf in its tree, left parts first; -1 elsewhere."""
    n_leaves = np.ones(len(children), dtype=np.intp)
    inner_levels = [level[children[level, 0] >= 0] for level in levels]
    for inner in reversed(inner_levels):
        n_leaves[inner] = n_leaves[children[inner]].sum(axis=1)
    first = np.zeros(len(children), dtype=np.intp)
    for inner in inner_levels:
        left, right = children[inner].T
        first[left] = first[inner]
        first[right] = first[inner] + n_leaves[left]
    return np.where(children[:, 0] < 0, first, -1)
