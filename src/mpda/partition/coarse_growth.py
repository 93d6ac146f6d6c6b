"""The growth of two sides of parts over neighbour lists, in as few calls for a round as can be.

Parts that are cut coarsely have no squares of distances, so samples stand in a row, and all of them
take part in every round. A sample is reached from the left (3), from the right (6), from both (9)
or not at all (0), plus 0 if it is free and else its side (1 or 2). This is its code, and what is to
be done in a round follows from sums over the samples of one part and one code.
"""

from __future__ import annotations

import numpy as np

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import (
    array_namespace,
    chosen,
    full,
    replaced,
    rounds_between_checks,
    segment_sum,
    set_at,
    take,
    to_device,
    worthwhile,
)


def grown_sides(group: Array, n_parts: int, lists: Array, seeds: Array, weights: Array) -> Array:
    """The side (m,) of each sample: 1 is left, 2 is right, and 0 is for those that are not reached.

    group (m,) is the part of each sample, lists (m, k) are places among the m, where m stands for
    none, seeds (2, parts) are the first samples of both sides, and weights (m, 4) for each sample
    are 1, whether its R is measured, and R towards the left and the right seed.
    """
    xp = array_namespace(weights)
    m = group.shape[0]
    first = 12 * group
    state = xp.asarray(first, copy=True)
    reached = full(m, 0, weights)
    for which in (0, 1):
        reached = set_at(reached, seeds[which, :], 3 * (1 + which))
    lists = 3 * lists
    gains, joins_by_code = to_device(_GAINS, weights), to_device(_JOINS, weights)
    totals = xp.broadcast_to(to_device(_NOTHING, weights), (n_parts, 6))
    while bool(xp.any(reached)):
        for _ in range(rounds_between_checks(weights)):
            rows = worthwhile(reached)
            before = chosen(state, rows)
            code = before + chosen(reached, rows)
            sums = segment_sum(chosen(weights, rows), code, 12 * n_parts)
            gained = xp.matmul(xp.reshape(sums, (n_parts, 48)), gains)
            then = totals[:, None, :] + xp.reshape(gained, (n_parts, 3, 6))
            # R^p N_p of both sides with what only they reach, R^p from what is measured.
            size = then[:, 0, 0::3] * (then[:, 0, 2::3] / then[:, 0, 1::3])
            to_right = (size[:, 0] > size[:, 1])[:, None]
            totals = xp.where(to_right, then[:, 2, :], then[:, 1, :])
            joins = xp.where(to_right, joins_by_code[1:, :], joins_by_code[:1, :])
            joins = take(xp.reshape(joins, (-1,)), code)
            state = replaced(state, rows, before + joins)
            # Each sample has three places: reached by what joins nothing, the left, the right.
            near = xp.reshape(chosen(lists, rows) + joins[:, None], (-1,))
            near = xp.reshape(set_at(full(3 * (m + 1), 0, weights), near, 3), (m + 1, 3))
            reached = near[:m, 1] + 2 * near[:m, 2]
    return state - first


def _tables() -> tuple[Floats, Ints]:
    """Gains (48, 18) of sides from sums (12, 4) by code and weight; sides (2, 12) joined by code.

    Both sides gain samples, measured samples and R: first from what only they reach, then with
    what both reach going to the left, then with that going to the right. What is joined is given
    for these two.
    """
    gains = np.zeros((12, 4, 3, 2, 3))
    joins = np.zeros((2, 12), dtype=np.int64)
    for side, weights in enumerate([(0, 1, 2), (0, 1, 3)]):
        gains[3 * (1 + side), weights, :, side, (0, 1, 2)] = 1.0
        gains[9, weights, 1 + side, side, (0, 1, 2)] = 1.0
        joins[:, 3 * (1 + side)] = 1 + side
        joins[side, 9] = 1 + side
    return gains.reshape(48, 18), joins


_GAINS, _JOINS = _tables()
# What the sides have at first, in samples, measured samples and R: where nothing is measured the
# mean R is 1, and beside anything measured so little is nothing.
_NOTHING = np.array([0.0, 1e-300, 1e-300] * 2)
