"""The manifold partition of many parts at a time, level by level, for arrays on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import (
    arange,
    array_namespace,
    block_entries,
    set_at,
    take,
    to_device,
    to_host,
)
from mpda.partition.geodesics import PartDistances
from mpda.partition.splits import PatchSquares, cuts, total_tortuosity
from mpda.partition.tree import Forest

# Nodes that are so many times smaller than others are not padded to their size.
_PADDED = 8
# Entries of squares at a time on this machine.
_SQUARES = 400_000


def cut_parts(forest: Forest, nodes: Ints, distances: PartDistances, max_patch_size: int) -> Ints:
    """Cut parts, which are nodes (parts,) of a forest; the leaf (n,) of each of their samples."""
    forest.measure_all(nodes, distances.linearity)
    sizes = distances.sizes
    leaves = np.repeat(nodes, sizes)
    # The samples node by node, and one more place for what stands in padding.
    order = arange(leaves.size + 1, distances.lengths)
    level = [_Stretches(nodes, np.cumsum(sizes) - sizes, sizes)]
    while level:
        below = []
        nodes_left = _too_large(level, max_patch_size)
        for places in alike(nodes_left.sizes, distances.lengths):
            each = nodes_left.at(places)
            cut = _cut(each, distances, order)
            order = cut.order
            below.append(_grow_forest(forest, each, cut, leaves, max_patch_size))
        level = below
    found = np.empty_like(leaves)
    found[to_host(order)[:-1]] = leaves
    return found


@dataclass(frozen=True)
class _Stretches:
    """Nodes (b,) of a forest, each with the samples from starts (b,) on, sizes (b,) of them."""

    nodes: Ints
    starts: Ints
    sizes: Ints

    def at(self, places: Ints) -> _Stretches:
        return _Stretches(self.nodes[places], self.starts[places], self.sizes[places])


def _too_large(level: list[_Stretches], max_patch_size: int) -> _Stretches:
    fields = ([each.nodes, each.starts, each.sizes] for each in level)
    nodes = _Stretches(*map(np.concatenate, zip(*fields, strict=True)))
    return nodes.at((nodes.sizes > max_patch_size).nonzero()[0])


def alike(sizes: Ints, X: Array) -> Iterator[Ints]:
    """The places of sizes (b,) that are to be padded to one, as many as fit where X is."""
    order = np.argsort(-sizes, kind="stable")
    begin = 0
    while begin < order.size:
        largest = int(sizes[order[begin]])
        similar = int((sizes[order[begin:]] * _PADDED >= largest).sum())
        fitting = max(1, block_entries(X, _SQUARES) // largest**2)
        end = begin + min(similar, fitting)
        yield order[begin:end]
        begin = end


def stretches(starts: Ints, sizes: Ints) -> Ints:
    """All places of stretches, one after the other."""
    begin = np.cumsum(sizes) - sizes
    return np.repeat(starts - begin, sizes) + np.arange(sizes.sum())


@dataclass(frozen=True)
class _Cut:
    """Nodes that were cut.

    order : (n + 1,) the samples, left parts of nodes first
    counts : (b, 2) samples of the left and of the right part
    identical : (b,) whether the samples of a node are one point; it is not cut then
    linearity : (b, 2) R^p of both parts
    """

    order: Array
    counts: Ints
    identical: Ints
    linearity: Array


def _cut(nodes: _Stretches, distances: PartDistances, order: Array) -> _Cut:
    xp = array_namespace(distances.lengths)
    starts = to_device(nodes.starts, distances.lengths)[:, None]
    slots = arange(int(nodes.sizes.max()), distances.lengths)[None, :]
    inside = slots < to_device(nodes.sizes, distances.lengths)[:, None]
    members = take(order, xp.where(inside, starts + slots, starts))
    rows, columns = take(distances.rows, members), take(distances.columns, members)
    index = rows[:, :, None] + columns[:, None, :]
    R = None if distances.tortuosity is None else take(distances.tortuosity, index)
    squares = PatchSquares(take(distances.listed, index), take(distances.lengths, index), R, inside)
    found = cuts(squares)
    sides = xp.astype(found.sides, xp.int64)
    counts = xp.sum(sides, axis=2)
    place = xp.cumulative_sum(sides, axis=2) - 1
    place = xp.where(found.sides[:, 1, :], counts[:, :1] + place[:, 1, :], place[:, 0, :])
    moved = inside & ~found.identical[:, None]
    order = set_at(order, xp.where(moved, starts + place, order.shape[0] - 1), members)
    total = total_tortuosity(R, xp.astype(found.sides, xp.float64))
    linearity = total / xp.astype(counts * counts, xp.float64)
    facts = xp.concat([counts, xp.astype(found.identical, xp.int64)[:, None]], axis=1)
    facts = to_host(facts)
    return _Cut(order, facts[:, :2], facts[:, 2], linearity)


def _grow_forest(
    forest: Forest, nodes: _Stretches, cut: _Cut, leaves: Ints, max_patch_size: int
) -> _Stretches:
    """The parts of nodes as new nodes of the forest; leaves (n,) of samples change in place."""
    for b in cut.identical.nonzero()[0]:
        start, size = nodes.starts[b], int(nodes.sizes[b])
        leaves[start : start + size] = forest.split_copies(
            int(nodes.nodes[b]), size, max_patch_size
        )
    different = (cut.identical == 0).nonzero()[0]
    nodes, left = nodes.at(different), cut.counts[different, 0]
    sizes = np.stack([left, nodes.sizes - left], axis=1)
    children = forest.split_all(nodes.nodes, sizes)
    linearity = cut.linearity
    xp = array_namespace(linearity)
    if different.size < cut.identical.size:
        linearity = take(linearity, to_device(different, linearity))
    forest.measure_all(children.ravel(), xp.reshape(linearity, (-1,)))
    starts = np.stack([nodes.starts, nodes.starts + left], axis=1).ravel()
    sizes = sizes.ravel()
    parts = _Stretches(children.ravel(), starts, sizes)
    leaves[stretches(starts, sizes)] = np.repeat(parts.nodes, sizes)
    return parts
