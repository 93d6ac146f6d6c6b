"""Distances, neighbours and shortest paths inside many parts at a time, for arrays on a device.

Parts stand in squares (b, s, s) that are padded to the size of the largest. A device takes as long
for one part as for hundreds, so no part is looked at alone.
"""

from __future__ import annotations

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    arange,
    array_namespace,
    chosen,
    full,
    places_where,
    rounds_between_checks,
    set_at,
    take,
)


def nearest_squares(straight: Array, inside: Array, n_neighbors: int) -> Array:
    """Whether j is among the nearest neighbours of i (b, s, s), ties by lower index.

    inside (b, s) tells samples from padding; lists end where a part has no more samples.
    """
    xp = array_namespace(straight)
    s = inside.shape[1]
    numbers = arange(s, straight)
    others = _pairs(inside) & (numbers[:, None] != numbers[None, :])
    nearest = xp.argsort(xp.where(others, straight, xp.inf), axis=2, stable=True)
    return listed_squares(nearest[:, :, : min(n_neighbors, s)]) & others


def listed_squares(lists: Array) -> Array:
    """Whether j is in the list of i (b, s, s), for lists (b, s, k); s stands for none."""
    xp = array_namespace(lists)
    b, s, _ = lists.shape
    rows = xp.reshape(arange(b * s, lists) * (s + 1), (b, s, 1))
    listed = set_at(full(b * s * (s + 1), False, lists), xp.reshape(rows + lists, (-1,)), True)
    return xp.reshape(listed, (b, s, s + 1))[:, :, :s]


def path_squares(listed: Array, straight: Array, inside: Array) -> Array:
    """The shortest paths D^G (b, s, s) over the listed pairs, parts made connected."""
    xp = array_namespace(straight)
    numbers = arange(inside.shape[1], straight)
    joined = listed | xp.matrix_transpose(listed)
    paths = xp.where(joined, straight, xp.inf)
    paths = xp.where(numbers[:, None] == numbers[None, :], 0.0, paths)
    for k in range(inside.shape[1]):
        paths = xp.minimum(paths, paths[:, :, k : k + 1] + paths[:, k : k + 1, :])
    lost = _pairs(inside) & xp.isinf(paths)
    broken = places_where(xp.any(xp.any(lost, axis=2), axis=1))
    if broken.shape[0]:
        few = (chosen(each, broken) for each in (paths, straight, lost))
        paths = set_at(paths, broken, _bridged(*few))
    return xp.maximum(xp.minimum(paths, xp.matrix_transpose(paths)), straight)


def _pairs(inside: Array) -> Array:
    return inside[:, :, None] & inside[:, None, :]


def _bridged(paths: Array, straight: Array, lost: Array) -> Array:
    """Paths (b, s, s) of parts in components, with bridges until no pair is lost (b, s, s).

    Each time, the shortest edge between two components of a part joins them, ties by lower
    indices: this is Kruskal's algorithm on the components. A path that takes the new bridge has
    an end on either side of it.
    """
    xp = array_namespace(paths)
    b, s, _ = paths.shape
    between = rounds_between_checks(paths)
    parts = arange(b, paths) * s
    while bool(xp.any(lost)):
        for _ in range(between):
            gaps = xp.reshape(xp.where(lost, straight, xp.inf), (b, s * s))
            shortest = xp.argmin(gaps, axis=1)
            length = xp.reshape(xp.min(gaps, axis=1), (b, 1, 1))
            rows = xp.reshape(paths, (b * s, s))
            low = take(rows, parts + shortest // s)
            high = take(rows, parts + shortest % s)
            over = low[:, :, None] + length + high[:, None, :]
            paths = xp.minimum(paths, xp.minimum(over, xp.matrix_transpose(over)))
            lost = lost & xp.isinf(paths)
    return paths
