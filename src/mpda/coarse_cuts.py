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
    entries,
    filled,
    like,
    namespace,
    path_sweeps,
    places_where,
    put,
    put_smaller,
    replaced,
    rounds_between_checks,
    segment_sum,
    to_host,
    worthwhile,
)
from mpda._typing import Array, Ints
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
    xp = namespace(X)
    owners = like(np.repeat(nodes, sizes), X)
    found_nodes, found_sizes = [nodes[sizes <= limit]], [sizes[sizes <= limit]]
    group = np.where(sizes > limit, np.cumsum(sizes > limit) - 1, -1)
    level = _level(X, lists).inside(like(np.repeat(group, sizes), X), sizes[sizes > limit])
    nodes = nodes[sizes > limit]
    while nodes.size:
        cut = level.cut()
        forest.measure_all(nodes, cut.linearity)
        halves = 2 * level.group + xp.astype(cut.falls_right, xp.int64)
        ones = filled((halves.shape[0], 1), 1.0, X)
        sizes = to_host(segment_sum(ones, halves, 2 * nodes.size))[:, 0].astype(np.intp)
        nodes = forest.split_all(nodes, sizes).ravel()
        owners = put(owners, level.samples, xp.take(like(nodes, X), halves, axis=0))
        large = sizes > limit
        found_nodes.append(nodes[~large])
        found_sizes.append(sizes[~large])
        group = xp.take(like(np.where(large, np.cumsum(large) - 1, -1), X), halves, axis=0)
        level = level.inside(group, sizes[large])
        nodes = nodes[large]
    order = xp.argsort(owners, stable=True)
    by_node = np.argsort(np.concatenate(found_nodes))
    return CoarseParts(
        order, np.concatenate(found_nodes)[by_node], np.concatenate(found_sizes)[by_node]
    )


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
    keys = xp.take(keys, order, axis=0)
    lengths = xp.reshape(lists.distances, (n * k,))
    lengths = xp.take(xp.concat([lengths, lengths]), order, axis=0)
    again = keys[1:] == keys[:-1]
    shorter = xp.where(again, xp.minimum(lengths[1:], lengths[:-1]), lengths[:-1])
    lengths = xp.concat([shorter, lengths[-1:]])
    first = places_where(xp.concat([filled(1, True, lengths), ~again]))
    keys, lengths = xp.take(keys, first, axis=0), xp.take(lengths, first, axis=0)
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

    def inside(self, group: Array, sizes: Ints) -> _Level:
        """The level of parts of these parts, given the new part (m,) of each sample, -1 for none.

        Samples and links that are in no part are left out.
        """
        xp = namespace(group)
        kept = places_where(group >= 0)
        m = kept.shape[0]
        place = put(filled(group.shape[0] + 1, m, group), kept, count_up(m, group))
        own = xp.take(group, kept, axis=0)
        lists = entries(place, xp.take(self.lists, kept, axis=0))
        of_listed = entries(xp.concat([own, filled(1, -1, group)]), lists)
        tails, heads = self.links.tails, self.links.heads
        of_tails = xp.take(group, tails, axis=0)
        within = (of_tails == xp.take(group, heads, axis=0)) & (of_tails >= 0)
        edges = places_where(within)
        links = Links(
            entries(place, xp.take(tails, edges, axis=0)),
            entries(place, xp.take(heads, edges, axis=0)),
            xp.take(self.links.lengths, edges, axis=0),
        )
        return _Level(
            self.X,
            xp.take(self.samples, kept, axis=0),
            own,
            sizes,
            xp.where(of_listed == own[:, None], lists, m),
            links,
        )

    def cut(self) -> _Cut:
        """Cut every part in two."""
        xp = namespace(self.X)
        starts = like(np.cumsum(self.sizes) - self.sizes, self.X)
        by_part = xp.argsort(self.group, stable=True)
        first, second = (xp.take(by_part, starts + i, axis=0) for i in (0, 1))
        sweep = path_sweeps(
            self.links.tails, self.links.heads, self.links.lengths, self.group.shape[0]
        )
        one = self._far(sweep(first), starts)
        from_one = sweep(one)
        other = self._far(from_one, starts)
        # Copies of one point: any two of them.
        other = xp.where(one == other, xp.where(one == first, second, first), other)
        from_other = sweep(other)
        swapped = xp.take(one > other, self.group, axis=0)
        seeds = xp.stack([xp.minimum(one, other), xp.maximum(one, other)])
        paths = xp.stack(
            [
                xp.where(swapped, from_other, from_one),
                xp.where(swapped, from_one, from_other),
            ]
        )
        weights = self._weights(self._measured(by_part, starts), seeds, paths)
        sums = segment_sum(weights, self.group, self.sizes.size)
        falls_right = self._grown(seeds, paths, weights)
        return _Cut(falls_right, (sums[:, 2] + sums[:, 3]) / (2.0 * sums[:, 1]))

    def _measured(self, by_part: Array, starts: Array) -> Array:
        """Every so many samples of a part (m,), given the samples (m,) part by part."""
        xp = namespace(by_part)
        group = xp.take(self.group, by_part, axis=0)
        rank = count_up(by_part.shape[0], by_part) - xp.take(starts, group, axis=0)
        steps = like(-(-self.sizes // _MEASURED), by_part)
        every = rank % xp.take(steps, group, axis=0) == 0
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
        by_part = xp.argsort(xp.take(self.group, order, axis=0), stable=True)
        order = xp.take(order, by_part, axis=0)
        chosen_places = xp.take(order, starts + xp.astype(place, xp.int64), axis=0)
        length = xp.take(xp.take(lengths, chosen_places, axis=0), self.group, axis=0)
        candidates = xp.where(lengths == length, count_up(m, lengths), m)
        return put_smaller(filled(n_parts, m, lengths), self.group, candidates)

    def _lines(self, rows: Array | None, seeds: Array) -> Array:
        """The straight distances (2, r) of some samples, or all for None, to their seeds."""
        xp = namespace(self.X)
        samples, group = chosen(self.samples, rows), chosen(self.group, rows)
        X = xp.take(self.X, samples, axis=0)
        found = []
        for side in (0, 1):
            own = xp.take(seeds[side, :], group, axis=0)
            gaps = X - xp.take(self.X, xp.take(self.samples, own, axis=0), axis=0)
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

    def _grown(self, seeds: Array, paths: Array, weights: Array) -> Array:
        """Grow two sides of every part round by round over the lists, as the rule does.

        Each sample (m,) is reached from the left (1), from the right (2), from both (3) or not.
        """
        xp = namespace(self.X)
        m, n_parts = self.group.shape[0], self.sizes.size
        side = filled(m, 0, self.X)  # 1 or 2, 0 as long as a sample is free
        reached = filled(m, 0, self.X)
        for which in (0, 1):
            reached = put(reached, seeds[which, :], 1 + which)
        totals = filled((n_parts, 2, 4), 0.0, self.X)
        while bool(xp.any(reached > 0)):
            for _ in range(rounds_between_checks(self.X)):
                rows = worthwhile(reached > 0)
                place = 4 * chosen(self.group, rows) + chosen(reached, rows)
                joining = segment_sum(chosen(weights, rows), place, 4 * n_parts)
                joining = xp.reshape(joining, (n_parts, 4, 4))
                totals = totals + joining[:, 1:3, :]
                to_right = _is_right_smaller(totals)
                goes = xp.stack([~to_right, to_right], axis=1)
                totals = totals + xp.where(goes[:, :, None], joining[:, 3:, :], 0.0)
                joins = entries(_sides(to_right), place)
                side = replaced(side, rows, chosen(side, rows) + joins)
                # What is reached by nothing, by the left and by the right side.
                near = put(
                    filled(3 * (m + 1), 0, self.X),
                    xp.reshape(chosen(self.lists, rows) + (m + 1) * joins[:, None], (-1,)),
                    1,
                )
                near = xp.reshape(near, (3, m + 1))[:, :m]
                reached = xp.where(side == 0, near[1, :] + 2 * near[2, :], 0)
        return xp.where(side == 0, self._nearer(side == 0, seeds, paths), side == 2)

    def _nearer(self, free: Array, seeds: Array, paths: Array) -> Array:
        """Whether free samples (m,), which no list reaches, are nearer to the right seed.

        That is by paths, or by straight lines where there are none.
        """
        xp = namespace(paths)
        rows = worthwhile(free)
        few = xp.stack([chosen(paths[side, :], rows) for side in (0, 1)])
        few = xp.where(xp.all(xp.isinf(few), axis=0), self._lines(rows, seeds), few)
        return replaced(filled(free.shape[0], False, free), rows, few[1, :] < few[0, :])


def _is_right_smaller(totals: Array) -> Array:
    """Whether R^p N_p is smaller on the right (parts,), from sums of weights (parts, 2, 4).

    R^p is the mean over the samples that are measured.
    """
    xp = namespace(totals)
    counts, measured = totals[:, :, 0], totals[:, :, 1]
    R = xp.stack([totals[:, 0, 2], totals[:, 1, 3]], axis=1)
    known = measured > 0.0
    weights = counts * (xp.where(known, R, 1.0) / xp.where(known, measured, 1.0))
    return weights[:, 0] > weights[:, 1]


def _sides(to_right: Array) -> Array:
    """The side (4 parts,) that a sample joins, by its part and by what reaches it."""
    xp = namespace(to_right)
    alone = xp.broadcast_to(count_up(3, to_right), (to_right.shape[0], 3))
    joint = 1 + xp.astype(to_right, xp.int64)
    return xp.reshape(xp.concat([alone, joint[:, None]], axis=1), (-1,))
