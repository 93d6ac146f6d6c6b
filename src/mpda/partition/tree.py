"""Results of a partition: the patches of a class and the binary tree of splits they come from.

Both rules (``split`` and ``principal_axis_tree``) cut a class in two, and its parts again, until
no node has more than M samples. Both return a ``Partition`` with a ``SplitTree``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats, Ints


@dataclass(frozen=True)
class SplitTree:
    """Binary trees of splits, one for each class.

    The nodes of a class are numbered level by level, from the root downwards, left children first.

    Parameters
    ----------
    roots : ndarray of shape (n_classes,)
        Node that stands for all samples of a class.
    children : ndarray of shape (n_nodes, 2)
        Left and right child of a node, -1 at a leaf.
    sizes : ndarray of shape (n_nodes,)
        Number of samples.
    linearity : ndarray of shape (n_nodes,)
        R^p, the mean ratio of geodesic to straight distance over the ordered pairs of samples; nan
        where it was not measured.
    patches : ndarray of shape (n_nodes,)
        Label of the patch at a leaf, -1 at inner nodes.
    """

    roots: Ints
    children: Ints
    sizes: Ints
    linearity: Floats
    patches: Ints


@dataclass(frozen=True)
class Partition:
    """Samples divided into patches.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Patch of each sample, 0 to n_patches - 1.
    linearity : ndarray of shape (n_patches,)
        R^p of each patch, nan where it was not measured.
    tree : SplitTree or None
        Splits; None for patches that were given or come from a clusterer.
    """

    labels: Ints
    linearity: Floats
    tree: SplitTree | None


def build_partition(
    children: Ints, sizes: Ints, starts: Ints, linearity: Floats, order: Ints
) -> Partition:
    """Assemble the partition of one class from its splits.

    Patches are numbered in the order of the leaves from left to right. Every node is an interval of
    the samples in that order, so the leaves are sorted by the start of their interval.

    Parameters
    ----------
    children : ndarray of shape (n_nodes, 2)
        Left and right child of each node, -1 at a leaf.
    sizes : ndarray of shape (n_nodes,)
        Number of samples of each node.
    starts : ndarray of shape (n_nodes,)
        Position in ``order`` of the first sample of each node.
    linearity : ndarray of shape (n_nodes,)
        R^p of each node.
    order : ndarray of shape (n_samples,)
        Samples by leaf, from left to right.

    Returns
    -------
    Partition
        Labels, linearity and tree of the class.
    """
    leaves = (children[:, 0] < 0).nonzero()[0]
    leaves = leaves[np.argsort(starts[leaves])]
    patches = np.full(sizes.size, -1, dtype=np.intp)
    patches[leaves] = np.arange(leaves.size)
    labels = np.empty(order.size, dtype=np.intp)
    labels[order] = np.repeat(patches[leaves], sizes[leaves])
    tree = SplitTree(np.zeros(1, dtype=np.intp), children, sizes, linearity, patches)
    return Partition(labels, linearity[leaves], tree)


def join_partitions(partitions: Sequence[Partition], members: Sequence[Ints]) -> Partition:
    """Combine the partitions of classes into one of all samples.

    Parameters
    ----------
    partitions : sequence of Partition
        One for each class.
    members : sequence of ndarray
        Indices of the samples of each class.

    Returns
    -------
    Partition
        Patches of later classes have higher labels. The tree is None if any class has none.
    """
    first_patch = _offsets([partition.linearity.size for partition in partitions])
    labels = np.empty(sum(indices.size for indices in members), dtype=np.intp)
    for partition, indices, offset in zip(partitions, members, first_patch, strict=True):
        labels[indices] = partition.labels + offset
    linearity = np.concatenate([partition.linearity for partition in partitions])
    trees = [partition.tree for partition in partitions if partition.tree is not None]
    if len(trees) < len(partitions):
        return Partition(labels, linearity, None)
    first_node = _offsets([tree.sizes.size for tree in trees])
    tree = SplitTree(
        roots=first_node,
        children=_concatenate_shifted([tree.children for tree in trees], first_node),
        sizes=np.concatenate([tree.sizes for tree in trees]),
        linearity=np.concatenate([tree.linearity for tree in trees]),
        patches=_concatenate_shifted([tree.patches for tree in trees], first_patch),
    )
    return Partition(labels, linearity, tree)


def _offsets(sizes: Sequence[int]) -> Ints:
    return np.cumsum(sizes) - np.asarray(sizes)


def _concatenate_shifted(numbers: Sequence[Ints], offsets: Ints) -> Ints:
    """Concatenate arrays of indices, each plus its offset; -1 stays -1."""
    return np.concatenate(
        [np.where(a < 0, a, a + offset) for a, offset in zip(numbers, offsets, strict=True)]
    )
