"""Coarse cuts of large classes, many parts at the same time.

No link joins two parts, so one sweep of shortest paths with a source in each serves them all, and
a level of the tree takes the time of a few sweeps over the class. Where many calls cost more than
much work, parts of all classes are cut together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._arrays import (
    chosen,
    count_up,
    entries_at,
    filled,
    like,
    namespace,
    on_host,
    places_where,
    put,
    put_smaller,
    replaced,
    segment_sum,
    to_host,
    worthwhile,
)
from mpda._typing import Array, Bools, Ints
from mpda.coarse_growth import grown_sides
from mpda.geodesics import path_sweeps
from mpda.graphs import NeighborLists
from mpda.trees import Forest

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
    level = _level(X, lists).inside(entries_at(_numbers(large, X), _owners(sizes, X)), sizes[large])
    parts = [(nodes[~large], sizes[~large])]
    leaves = entries_at(like(nodes, X), _owners(sizes, X))
    leaves = _cut_levels(forest, nodes[large], level, limit, leaves, parts)
    found, sizes = (np.concatenate(each) for each in zip(*parts, strict=True))
    by_node = np.argsort(found)
    order = namespace(X).argsort(leaves, stable=True)
    return CoarseParts(order, found[by_node], sizes[by_node])


def _numbers(kept: Bools, X: Array) -> Array:
    """0, 1, ... for those that are kept and -1 for others, where X is."""
    return like(np.where(kept, np.cumsum(kept) - 1, -1), X)


def _owners(sizes: Ints, X: Array) -> Array:
    return like(np.repeat(np.arange(sizes.size), sizes), X)


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
    xp = namespace(X)
    while nodes.size:
        if level.samples.shape[0] <= _FEW and not on_host(X):
            here = level.on_host()
            own = to_host(entries_at(leaves, level.samples)).copy()
            own = _cut_levels(forest, nodes, here, limit, own, parts)
            return put(leaves, level.samples, like(own, X))
        cut = level.cut()
        forest.measure_all(nodes, cut.linearity)
        halves = 2 * level.group + xp.astype(cut.falls_right, xp.int64)
        ones = filled((halves.shape[0], 1), 1.0, X)
        sizes = to_host(segment_sum(ones, halves, 2 * nodes.size))[:, 0].astype(np.intp)
        nodes = forest.split_all(nodes, sizes.reshape(-1, 2)).ravel()
        leaves = put(leaves, level.samples, entries_at(like(nodes, X), halves))
        large = sizes > limit
        parts.append((nodes[~large], sizes[~large]))
        level = level.inside(entries_at(_numbers(large, X), halves), sizes[large])
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
    xp = namespace(lists.distances)
    n, k = lists.indices.shape
    tails = xp.reshape(xp.broadcast_to(count_up(n, lists.distances)[:, None], (n, k)), (n * k,))
    heads = xp.reshape(lists.indices, (n * k,))
    keys = xp.concat([tails * n + heads, heads * n + tails])
    order = xp.argsort(keys, stable=True)
    keys = entries_at(keys, order)
    lengths = xp.reshape(xp.astype(lists.distances, xp.float64, copy=False), (n * k,))
    lengths = entries_at(xp.concat([lengths, lengths]), order)
    again = keys[1:] == keys[:-1]
    shorter = xp.where(again, xp.minimum(lengths[1:], lengths[:-1]), lengths[:-1])
    lengths = xp.concat([shorter, lengths[-1:]])
    first = places_where(xp.concat([filled(1, True, lengths), ~again]))
    keys, lengths = entries_at(keys, first), entries_at(lengths, first)
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
    numbers = count_up(X.shape[0], X)
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
            to_host(entries_at(self.X, self.samples)),
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
        xp = namespace(group)
        kept = places_where(group >= 0)
        m = kept.shape[0]
        place = put(filled(group.shape[0] + 1, m, group), kept, count_up(m, group))
        own = entries_at(group, kept)
        lists = entries_at(place, entries_at(self.lists, kept))
        of_listed = entries_at(xp.concat([own, filled(1, -1, group)]), lists)
        tails, heads = self.links.tails, self.links.heads
        of_tails = entries_at(group, tails)
        within = (of_tails == entries_at(group, heads)) & (of_tails >= 0)
        edges = places_where(within)
        links = Links(
            entries_at(place, entries_at(tails, edges)),
            entries_at(place, entries_at(heads, edges)),
            entries_at(self.links.lengths, edges),
        )
        return _Level(
            self.X,
            entries_at(self.samples, kept),
            own,
            sizes,
            xp.where(of_listed == own[:, None], lists, m),
            links,
        )

    def cut(self) -> _Cut:
        """Cut every part in two."""
        xp = namespace(self.X)
        starts = like(np.cumsum(self.sizes) - self.sizes, self.X)
        by_part = _grouped(self.group, self.sizes.size)
        first, second = (entries_at(by_part, starts + i) for i in (0, 1))
        sweep = path_sweeps(
            self.links.tails, self.links.heads, self.links.lengths, self.group.shape[0]
        )
        one = self._far(sweep(first), starts)
        from_one = sweep(one)
        other = self._far(from_one, starts)
        # Copies of one point: any two of them.
        other = xp.where(one == other, xp.where(one == first, second, first), other)
        from_other = sweep(other)
        swapped = entries_at(one > other, self.group)
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
        group = entries_at(self.group, by_part)
        rank = count_up(by_part.shape[0], by_part) - entries_at(starts, group)
        steps = like(-(-self.sizes // _MEASURED), by_part)
        every = rank % entries_at(steps, group) == 0
        return put(filled(by_part.shape[0], False, by_part), by_part, every)

    def _far(self, lengths: Array, starts: Array) -> Array:
        """A far sample (parts,) of each part: the first with the path length at that share.

        If paths reach less than half of a part, it is the first that is not reached.
        """
        xp = namespace(lengths)
        m, n_parts = self.group.shape[0], self.sizes.size
        finite = xp.astype(xp.isfinite(lengths), xp.float64)
        reached = segment_sum(finite[:, None], self.group, n_parts)[:, 0]
        sizes = like(1.0 * self.sizes, lengths)
        place = xp.where(2.0 * reached >= sizes, xp.floor(_FAR * (reached - 1.0)), sizes - 1.0)
        order = xp.argsort(lengths, stable=True)
        order = entries_at(order, _grouped(entries_at(self.group, order), n_parts))
        far = entries_at(order, starts + xp.astype(place, xp.int64))
        alike = lengths == entries_at(entries_at(lengths, far), self.group)
        # As floating-point numbers, for CuPy finds no minimum of integers.
        numbers = xp.where(alike, xp.astype(count_up(m, lengths), xp.float64), xp.inf)
        first = put_smaller(filled(n_parts, float("inf"), lengths), self.group, numbers)
        return xp.astype(first, xp.int64)

    def _lines(self, rows: Array | None, seeds: Array) -> Array:
        """The straight distances (2, r) of some samples, or all for None, to their seeds."""
        xp = namespace(self.X)
        samples, group = chosen(self.samples, rows), chosen(self.group, rows)
        X = entries_at(self.X, samples)
        found = []
        for side in (0, 1):
            own = entries_at(seeds[side, :], group)
            gaps = X - entries_at(self.X, entries_at(self.samples, own))
            found.append(xp.sqrt(xp.sum(gaps * gaps, axis=1)))
        return xp.stack(found)

    def _weights(self, measured: Array, seeds: Array, paths: Array) -> Array:
        """For each sample (m, 4): 1, whether it is measured, and R to the left and right seed.

        R is 0 where it is not measured, and 1 where there is no path.
        """
        xp = namespace(paths)
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
        xp = namespace(paths)
        rows = worthwhile(free)
        few = xp.stack([chosen(paths[side, :], rows) for side in (0, 1)])
        few = xp.where(xp.all(xp.isinf(few), axis=0), self._lines(rows, seeds), few)
        return replaced(filled(free.shape[0], False, free), rows, few[1, :] < few[0, :])


def _grouped(group: Array, n_parts: int) -> Array:
    """The places (m,) part by part, in their order; short integers are sorted by their digits."""
    xp = namespace(group)
    short = xp.int16 if n_parts < 2**15 else xp.int64
    return xp.argsort(xp.astype(group, short), stable=True)
