"""Coarse cuts of large classes, many parts at the same time.

No link joins two parts, so one sweep of shortest paths with a source in each serves them all, and
a level of the tree takes the time of a few sweeps over the class. Where many calls cost more than
much work, parts of all classes are cut together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array, Bools, Ints
from mpda._lib.arrays import (
    arange,
    array_namespace,
    chosen,
    full,
    is_numpy,
    places_where,
    put_smaller,
    replaced,
    segment_sum,
    set_at,
    take,
    to_device,
    to_host,
    worthwhile,
)
from mpda.neighbors.graph import NeighborLists
from mpda.partition.coarse_growth import grown_sides
from mpda.partition.geodesics import path_sweeps
from mpda.partition.tree import Forest

# Samples of a part whose tortuosity is measured.
_MEASURED = 64
# Seeds at the very end of a part cut its outliers off one by one: a digit of MNIST takes 50 levels
# with them, and 16 with seeds at this share of all path lengths.
_FAR = 0.9
# Measured R are multiples of one over this, and at most this, so that sums of them are exact and
# the same in any order.
_RESOLUTION = 2.0**20
# So few samples of a device are cut faster on this machine, where a call costs less.
_FEW = 4000


@dataclass(frozen=True)
class CoarseParts:
    """Classes cut into parts that are not too large.

    order : (n,) the samples part by part, in their order
    nodes : (parts,) the node of a forest that each part is
    sizes : (parts,) numbers of samples
    """

    order: Array
    nodes: Ints
    sizes: Ints


def coarse_parts(
    forest: Forest, nodes: Ints, X: Array, lists: NeighborLists, sizes: Ints, limit: int
) -> CoarseParts:
    """Cut classes, which are nodes (c,) of a forest, into parts of at most ``limit`` samples.

    The samples X (n, d) and their lists stand class by class, sizes (c,) are those of the classes.
    """
    large = sizes > limit
    level = _level(X, lists).inside(take(_numbers(large, X), _owners(sizes, X)), sizes[large])
    parts = [(nodes[~large], sizes[~large])]
    leaves = take(to_device(nodes, X), _owners(sizes, X))
    leaves = _cut_levels(forest, nodes[large], level, limit, leaves, parts)
    found, sizes = (np.concatenate(each) for each in zip(*parts, strict=True))
    by_node = np.argsort(found)
    order = array_namespace(X).argsort(leaves, stable=True)
    return CoarseParts(order, found[by_node], sizes[by_node])


def _numbers(kept: Bools, X: Array) -> Array:
    """0, 1, ... for those that are kept and -1 for others, where X is."""
    return to_device(np.where(kept, np.cumsum(kept) - 1, -1), X)


def _owners(sizes: Ints, X: Array) -> Array:
    return to_device(np.repeat(np.arange(sizes.size), sizes), X)


def _cut_levels(
    forest: Forest,
    nodes: Ints,
    level: _Level,
    limit: int,
    leaves: Array,
    parts: list[tuple[Ints, Ints]],
) -> Array:
    """Cut the parts of a level, nodes (parts,) of a forest, and the parts of these, and so on.

    The nodes (n,) to which samples belong are given, and returned as they are at the end. Nodes
    that are not too large any more are added to the parts, with their sizes.
    """
    X = level.X
    xp = array_namespace(X)
    while nodes.size:
        if level.samples.shape[0] <= _FEW and not is_numpy(X):
            here = level.on_host()
            own = to_host(take(leaves, level.samples)).copy()
            own = _cut_levels(forest, nodes, here, limit, own, parts)
            return set_at(leaves, level.samples, to_device(own, X))
        cut = level.cut()
        forest.measure_all(nodes, cut.linearity)
        halves = 2 * level.group + xp.astype(cut.falls_right, xp.int64)
        ones = full((halves.shape[0], 1), 1.0, X)
        sizes = to_host(segment_sum(ones, halves, 2 * nodes.size))[:, 0].astype(np.intp)
        nodes = forest.split_all(nodes, sizes.reshape(-1, 2)).ravel()
        leaves = set_at(leaves, level.samples, take(to_device(nodes, X), halves))
        large = sizes > limit
        parts.append((nodes[~large], sizes[~large]))
        level = level.inside(take(_numbers(large, X), halves), sizes[large])
        nodes = nodes[large]
    return leaves


@dataclass(frozen=True)
class Links:
    """The listed pairs of samples in both directions, each once, sorted by tail.

    tails, heads, lengths : (e,)
    """

    tails: Array
    heads: Array
    lengths: Array


def _links(lists: NeighborLists) -> Links:
    """A pair that is listed twice has the shorter of the two lengths."""
    xp = array_namespace(lists.distances)
    n, k = lists.indices.shape
    tails = xp.reshape(xp.broadcast_to(arange(n, lists.distances)[:, None], (n, k)), (n * k,))
    heads = xp.reshape(lists.indices, (n * k,))
    keys = xp.concat([tails * n + heads, heads * n + tails])
    order = xp.argsort(keys, stable=True)
    keys = take(keys, order)
    lengths = xp.reshape(xp.astype(lists.distances, xp.float64, copy=False), (n * k,))
    lengths = take(xp.concat([lengths, lengths]), order)
    again = keys[1:] == keys[:-1]
    shorter = xp.where(again, xp.minimum(lengths[1:], lengths[:-1]), lengths[:-1])
    lengths = xp.concat([shorter, lengths[-1:]])
    first = places_where(xp.concat([full(1, True, lengths), ~again]))
    keys, lengths = take(keys, first), take(lengths, first)
    return Links(keys // n, keys % n, lengths)


@dataclass(frozen=True)
class _Cut:
    """Parts that were cut.

    falls_right : (m,) what falls to the right part
    linearity : (parts,) the mean tortuosity in each part before
    """

    falls_right: Array
    linearity: Array


def _level(X: Array, lists: NeighborLists) -> _Level:
    """All samples as one part."""
    numbers = arange(X.shape[0], X)
    sizes = np.array([X.shape[0]])
    return _Level(X, numbers, numbers * 0, sizes, lists.indices, _links(lists))


@dataclass(frozen=True)
class _Level:
    """Disjoint parts, each to be cut in two.

    X : (n, d) all samples
    samples : (m,) those in parts, ascending
    group : (m,) the part of each
    sizes : (parts,) numbers of samples, an array of NumPy
    lists : (m, k) the places of listed samples among the m; m stands for one in no part or another
    links : the links inside parts, between places among the m
    """

    X: Array
    samples: Array
    group: Array
    sizes: Ints
    lists: Array
    links: Links

    def on_host(self) -> _Level:
        """The same for arrays of NumPy, with no samples but those in parts."""
        links = self.links
        return _Level(
            to_host(take(self.X, self.samples)),
            np.arange(self.samples.shape[0]),
            to_host(self.group),
            self.sizes,
            to_host(self.lists),
            Links(to_host(links.tails), to_host(links.heads), to_host(links.lengths)),
        )

    def inside(self, group: Array, sizes: Ints) -> _Level:
        """The level of parts of these parts, given the new part (m,) of each sample, -1 for none.

        Samples and links that are in no part are left out.
        """
        xp = array_namespace(group)
        kept = places_where(group >= 0)
        m = kept.shape[0]
        place = set_at(full(group.shape[0] + 1, m, group), kept, arange(m, group))
        own = take(group, kept)
        lists = take(place, take(self.lists, kept))
        of_listed = take(xp.concat([own, full(1, -1, group)]), lists)
        tails, heads = self.links.tails, self.links.heads
        of_tails = take(group, tails)
        within = (of_tails == take(group, heads)) & (of_tails >= 0)
        edges = places_where(within)
        links = Links(
            take(place, take(tails, edges)),
            take(place, take(heads, edges)),
            take(self.links.lengths, edges),
        )
        return _Level(
            self.X,
            take(self.samples, kept),
            own,
            sizes,
            xp.where(of_listed == own[:, None], lists, m),
            links,
        )

    def cut(self) -> _Cut:
        """Cut every part in two."""
        xp = array_namespace(self.X)
        starts = to_device(np.cumsum(self.sizes) - self.sizes, self.X)
        by_part = _grouped(self.group, self.sizes.size)
        first, second = (take(by_part, starts + i) for i in (0, 1))
        sweep = path_sweeps(
            self.links.tails, self.links.heads, self.links.lengths, self.group.shape[0]
        )
        one = self._far(sweep(first), starts)
        from_one = sweep(one)
        other = self._far(from_one, starts)
        # Copies of one point: any two of them.
        other = xp.where(one == other, xp.where(one == first, second, first), other)
        from_other = sweep(other)
        swapped = take(one > other, self.group)
        seeds = xp.stack([xp.minimum(one, other), xp.maximum(one, other)])
        paths = xp.stack(
            [
                xp.where(swapped, from_other, from_one),
                xp.where(swapped, from_one, from_other),
            ]
        )
        weights = self._weights(self._measured(by_part, starts), seeds, paths)
        sums = segment_sum(weights, self.group, self.sizes.size)
        side = grown_sides(self.group, self.sizes.size, self.lists, seeds, weights)
        falls_right = xp.where(side == 0, self._nearer(side == 0, seeds, paths), side == 2)
        return _Cut(falls_right, (sums[:, 2] + sums[:, 3]) / (2.0 * sums[:, 1]))

    def _measured(self, by_part: Array, starts: Array) -> Array:
        """Every so many samples of a part (m,), given the samples (m,) part by part."""
        group = take(self.group, by_part)
        rank = arange(by_part.shape[0], by_part) - take(starts, group)
        steps = to_device(-(-self.sizes // _MEASURED), by_part)
        every = rank % take(steps, group) == 0
        return set_at(full(by_part.shape[0], False, by_part), by_part, every)

    def _far(self, lengths: Array, starts: Array) -> Array:
        """A far sample (parts,) of each part: the first with the path length at that share.

        If paths reach less than half of a part, it is the first that is not reached.
        """
        xp = array_namespace(lengths)
        m, n_parts = self.group.shape[0], self.sizes.size
        finite = xp.astype(xp.isfinite(lengths), xp.float64)
        reached = segment_sum(finite[:, None], self.group, n_parts)[:, 0]
        sizes = to_device(1.0 * self.sizes, lengths)
        place = xp.where(2.0 * reached >= sizes, xp.floor(_FAR * (reached - 1.0)), sizes - 1.0)
        order = xp.argsort(lengths, stable=True)
        order = take(order, _grouped(take(self.group, order), n_parts))
        far = take(order, starts + xp.astype(place, xp.int64))
        alike = lengths == take(take(lengths, far), self.group)
        # As floating-point numbers, for CuPy finds no minimum of integers.
        numbers = xp.where(alike, xp.astype(arange(m, lengths), xp.float64), xp.inf)
        first = put_smaller(full(n_parts, float("inf"), lengths), self.group, numbers)
        return xp.astype(first, xp.int64)

    def _lines(self, rows: Array | None, seeds: Array) -> Array:
        """The straight distances (2, r) of some samples, or all for None, to their seeds."""
        xp = array_namespace(self.X)
        samples, group = chosen(self.samples, rows), chosen(self.group, rows)
        X = take(self.X, samples)
        found = []
        for side in (0, 1):
            own = take(seeds[side, :], group)
            gaps = X - take(self.X, take(self.samples, own))
            found.append(xp.sqrt(xp.sum(gaps * gaps, axis=1)))
        return xp.stack(found)

    def _weights(self, measured: Array, seeds: Array, paths: Array) -> Array:
        """For each sample (m, 4): 1, whether it is measured, and R to the left and right seed.

        R is 0 where it is not measured, and 1 where there is no path.
        """
        xp = array_namespace(paths)
        rows = worthwhile(measured)
        lines = self._lines(rows, seeds)
        few = xp.stack([chosen(paths[side, :], rows) for side in (0, 1)])
        known = (lines > 0.0) & xp.isfinite(few)
        ratios = xp.where(known, few, 1.0) / xp.where(known, lines, 1.0)
        ratios = xp.round(xp.clip(ratios, 1.0, _RESOLUTION) * _RESOLUTION) / _RESOLUTION
        is_measured = xp.astype(measured, xp.float64)
        ones = xp.ones_like(is_measured)
        R = [replaced(xp.zeros_like(ones), rows, ratios[side, :]) for side in (0, 1)]
        return xp.stack([ones, is_measured, *(is_measured * each for each in R)], axis=1)

    def _nearer(self, free: Array, seeds: Array, paths: Array) -> Array:
        """Whether free samples (m,), which no list reaches, are nearer to the right seed.

        That is by paths, or by straight lines where there are none.
        """
        xp = array_namespace(paths)
        rows = worthwhile(free)
        few = xp.stack([chosen(paths[side, :], rows) for side in (0, 1)])
        few = xp.where(xp.all(xp.isinf(few), axis=0), self._lines(rows, seeds), few)
        return replaced(full(free.shape[0], False, free), rows, few[1, :] < few[0, :])


def _grouped(group: Array, n_parts: int) -> Array:
    """The places (m,) part by part, in their order; short integers are sorted by their digits."""
    xp = array_namespace(group)
    short = xp.int16 if n_parts < 2**15 else xp.int64
    return xp.argsort(xp.astype(group, short), stable=True)
