"""Partition of a large class by a principal-axis tree, which needs no geodesics and no pairs.

Every node with more than M samples is cut at the median of its samples' projections onto the first
principal axis of the node. The axis comes from power iterations on the scatter matrix Z'Z of the
centred samples Z of the node. Sizes do not depend on the data: a level has nodes of two sizes at
most, and all of one size are cut together, by batched products. A level takes O(n d) time. On a
device all nodes of a level are cut together, those of several classes too: about forty calls
without synchronisation.

This is not the rule of the paper, which is in ``split``.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import (
    arange,
    array_namespace,
    block_entries,
    is_numpy,
    iter_slices,
    maximum,
    set_at,
    take,
    to_device,
    to_host,
)
from mpda.partition.tree import Partition, build_partition

# Power iterations from the farthest sample. The cut needs a direction of large variance, not an
# accurate eigenvector: on MNIST the 1-NN error of MPDA is the same with 2 and with 3.
_N_POWER_ITERATIONS = 3
# Squared distances within this relative difference are tied, and the lower index is the farthest
# sample. It is far above rounding (1e-15) and far below differences in data.
_TIE_TOLERANCE = 1e-9
# Projections are rounded to this many steps between 0 and the largest, so that samples with equal
# projections (duplicates, lattices) are tied, and go by index, whatever the rounding of the sums.
_N_STEPS = 2.0**30
# Smallest divisor of vectors that are normalised: a node of identical samples has length 0.
_SMALLEST_LENGTH = 1e-300


def principal_axis_partition(X: Array, max_patch_size: int) -> Partition:
    """Cut the samples of a class into patches of nearly equal size.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples of one class, on the host or on a device.
    max_patch_size : int
        Nodes with more samples are cut.

    Returns
    -------
    Partition
        Patches and tree, on the host. The linearity is nan: it needs geodesics.

    Notes
    -----
    A node of s samples has children of floor(s / 2) and ceil(s / 2) samples. The axis points to the
    farthest sample of the node from its mean. Ties in the projection go by index, so identical
    samples are cut by index. Projections are rounded to 2^-30 of the largest: some of the others
    are tied if one sample is 10^8 times as far as they are, all of them from 10^10 times on. The
    result does not depend on the order of the samples, unless there are ties.
    """
    return principal_axis_forest(X, [X.shape[0]], max_patch_size)[0]


def principal_axis_forest(
    X: Array, class_sizes: Sequence[int], max_patch_size: int
) -> list[Partition]:
    """Cut the samples of several classes, all of a level together.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples of all classes, class after class, on the host or on a device.
    class_sizes : sequence of int
        Number of samples of each class.
    max_patch_size : int
        Nodes with more samples are cut.

    Returns
    -------
    list of Partition
        One for each class, as :func:`principal_axis_partition` computes it.
    """
    sizes = np.asarray(class_sizes)
    starts = np.cumsum(sizes) - sizes
    roots, offsets = np.arange(sizes.size), starts
    # The last entry takes what is written beyond the end of a node.
    order = array_namespace(X).concat([arange(X.shape[0], X), arange(1, X)])
    levels, n_nodes = [(sizes, starts, roots)], sizes.size
    children = []
    while sizes.size:  # one level of the trees
        is_large = sizes > max_patch_size
        level_children = np.full((sizes.size, 2), -1)
        level_children[is_large] = n_nodes + np.arange(2 * is_large.sum()).reshape(-1, 2)
        children.append(level_children)
        sizes, starts = sizes[is_large], starts[is_large]
        for batch in _iter_batches(X, sizes):
            order = _cut_nodes(X, order, starts[batch], sizes[batch])
        half = sizes // 2
        starts = np.stack([starts, starts + half], axis=1).ravel()
        sizes = np.stack([half, sizes - half], axis=1).ravel()
        roots = np.repeat(roots[is_large], 2)
        levels.append((sizes, starts, roots))
        n_nodes += sizes.size
    sizes, starts, roots = map(np.concatenate, zip(*levels, strict=True))
    return _separate_trees(np.concatenate(children), sizes, starts, roots, offsets, to_host(order))


def _separate_trees(
    children: Ints, sizes: Ints, starts: Ints, roots: Ints, offsets: Ints, order: Ints
) -> list[Partition]:
    """Number the nodes and samples of each class from 0 on."""
    partitions = []
    for root, offset in enumerate(offsets):
        nodes = np.flatnonzero(roots == root)
        numbers = np.full(len(roots) + 1, -1)
        numbers[nodes] = np.arange(nodes.size)  # -1, no child, stays the last entry
        samples = order[offset : offset + sizes[root]] - offset
        partitions.append(
            build_partition(
                numbers[children[nodes]],
                sizes[nodes],
                starts[nodes] - offset,
                np.full(nodes.size, np.nan),
                samples,
            )
        )
    return partitions


def _iter_batches(X: Array, sizes: Ints) -> Iterator[Ints]:
    """Yield the nodes that are cut together.

    On the host they have one size, so that no time is spent on padding; on a device they are all of
    a level, because the number of calls counts.
    """
    if is_numpy(X):
        for size in np.unique(sizes):
            yield np.flatnonzero(sizes == size)
    elif sizes.size:
        widest = int(sizes.max())
        step = max(1, block_entries(X, 0) // (widest * X.shape[1]))
        for batch in iter_slices(sizes.size, step):
            yield np.arange(sizes.size)[batch]


def _cut_nodes(X: Array, order: Array, starts: Ints, sizes: Ints) -> Array:
    """Order the samples of some nodes so that the left half of each comes first.

    Both halves are in ascending order of their indices.
    """
    xp, n = array_namespace(X), X.shape[0]
    columns = np.arange(sizes.max())
    rows = np.where(columns < sizes[:, None], starts[:, None] + columns, n)
    # 0 in the left half, 1 in the right half, 2 beyond the end of a node.
    sides = (columns >= sizes[:, None] // 2).astype(int) + (columns >= sizes[:, None])
    rows, side = to_device(rows, X), to_device(sides, X)
    members = take(order, rows)
    Z = take(X, members)
    is_padded = bool(sizes.min() < sizes.max())
    if is_padded:
        mask = xp.astype(side < 2, Z.dtype)[:, :, None]
        counts = xp.astype(to_device(sizes, X), Z.dtype)[:, None, None]
        Z = Z * mask
        Z = (Z - xp.sum(Z, axis=1, keepdims=True) / counts) * mask
    else:
        Z -= xp.mean(Z, axis=1, keepdims=True)
    projections = _project_on_axis(Z)
    if is_padded:
        projections = xp.where(side < 2, projections, xp.inf)
    by_projection = xp.argsort(projections, axis=1, stable=True)
    members = xp.take_along_axis(members, by_projection, axis=1)
    # Sorted by side and index at once.
    members = xp.sort(members + n * side, axis=1) - n * side
    return set_at(order, rows, members)


def _project_on_axis(Z: Array) -> Array:
    """Project the samples of g nodes onto their principal axes; integers (g, s).

    Z (g, s, d) are the centred samples. The power iterations start from the sample that is farthest
    from the mean, and the axis is oriented towards it.
    """
    xp = array_namespace(Z)
    squares = xp.vecdot(Z, Z)
    threshold = (1.0 - _TIE_TOLERANCE) * xp.max(squares, axis=1, keepdims=True)
    # argmax of truth values is the first that holds, so the lower index at a tie.
    farthest = xp.argmax(xp.astype(squares >= threshold, xp.int8), axis=1)
    axes = xp.take_along_axis(Z, farthest[:, None, None], axis=1)  # (g, 1, d)
    for _ in range(_N_POWER_ITERATIONS):
        projections = _scale_to_one(xp.matmul(Z, xp.matrix_transpose(axes)))
        axes = xp.matmul(xp.matrix_transpose(projections), Z)
    projections = _scale_to_one(xp.matmul(Z, xp.matrix_transpose(axes)))
    return xp.round(_N_STEPS * projections[:, :, 0])


def _scale_to_one(vectors: Array) -> Array:
    """Divide vectors (g, s, 1) by their largest absolute entries; zero vectors stay zero."""
    xp = array_namespace(vectors)
    return vectors / maximum(xp.max(xp.abs(vectors), axis=1, keepdims=True), _SMALLEST_LENGTH)
