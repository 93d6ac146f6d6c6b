"""Candidates of the refinement, the samples that count in its loss.

The candidate set N_i of a sample i holds its k_own nearest samples of the own class and its k_all
nearest samples of all classes, measured in the current map. Sets are the rows of a matrix of
indices (q, K) for q query samples. Rows of smaller sets are filled with the query itself, which is
never a candidate.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import (
    argsmallest,
    array_namespace,
    block_entries,
    is_cupy,
    is_numpy,
    iter_slices,
    take,
    to_device,
)
from mpda._lib.threads import BlockMap, map_serially

# Distances that are computed at a time: 32 MB. Smaller blocks make slower matrix products, and so
# do fewer queries than these.
_SEARCH_ENTRIES, _MIN_QUERIES = 4_000_000, 128
# Groups of samples for each neighbour that is searched. The minima of the groups bound the distance
# of the last neighbour; with eight times as many groups hardly any sample passes the bound in vain.
_GROUPS_PER_NEIGHBOR = 8


def search_candidates(
    Z: Array,
    members: Sequence[Ints],
    queries: Sequence[Ints],
    n_own: int,
    n_all: int,
    map_blocks: BlockMap = map_serially,
) -> Array:
    """Find the candidates of the query samples in the current map.

    Parameters
    ----------
    Z : array of shape (n, r)
        Mapped samples, on the host or on a device.
    members : sequence of ndarray of int
        Samples of each class.
    queries : sequence of ndarray of int
        Query samples of each class.
    n_own : int
        Number of neighbours in the own class, k_own.
    n_all : int
        Number of neighbours among all samples, k_all.
    map_blocks : callable, default=map_serially
        Applies a function to blocks of queries, perhaps in threads.

    Returns
    -------
    array of int of shape (q, n_own + n_all + 2)
        Candidates of the queries, class after class. An index may occur twice, and the query itself
        occurs; see :func:`merge_candidates`.
    """
    xp = array_namespace(Z)
    every_query = to_device(np.concatenate(queries), Z)
    nearest = _search_nearest(Z, every_query, n_all, map_blocks)
    own = []
    for class_members, class_queries in zip(members, queries, strict=True):
        if class_queries.size:
            rows = to_device(class_members, Z)
            places = to_device(np.searchsorted(class_members, class_queries), Z)
            nearest_own = _search_nearest(take(Z, rows), places, n_own, map_blocks)
            own.append(take(rows, nearest_own))
    return xp.concat([xp.concat(own), nearest], axis=1)


def merge_candidates(queries: Array, *candidates: Array) -> Array:
    """Join candidate sets: every candidate occurs once, the query itself only as filling.

    Parameters
    ----------
    queries : array of int of shape (q,)
        Query samples.
    *candidates : arrays of int of shape (q, K)
        Candidate sets with repeated indices.

    Returns
    -------
    array of int of shape (q, K)
        Joined sets in ascending order, as wide as the largest one.
    """
    xp = array_namespace(queries)
    joined = xp.sort(xp.concat(candidates, axis=1), axis=1)
    is_repeated = joined[:, 1:] == joined[:, :-1]
    is_repeated = xp.concat([is_repeated[:, :1] & False, is_repeated], axis=1)
    # Indices behind all samples are sorted to the end of a row.
    behind = xp.max(joined) + 1
    joined = xp.where(is_repeated | (joined == queries[:, None]), behind, joined)
    joined = xp.sort(joined, axis=1)
    width = int(xp.max(xp.sum(xp.astype(joined < behind, xp.int64), axis=1)))
    joined = joined[:, : max(width, 1)]
    return xp.where(joined < behind, joined, queries[:, None])


def _search_nearest(Z: Array, queries: Array, k: int, map_blocks: BlockMap) -> Array:
    """Find the k + 1 nearest samples of Z for each query (q, k + 1), filled with the query.

    The query itself is among them, unless it has k + 1 copies.
    """
    xp = array_namespace(Z)
    n = Z.shape[0]
    n_found = min(k + 1, n)
    # |z_i|^2 is the same for all candidates of i and is left out: |z_j|^2 - 2 z_i'z_j is one
    # product, with the norms as one more column.
    norms = xp.sum(Z * Z, axis=1)
    others = xp.matrix_transpose(xp.concat([-2.0 * Z, norms[:, None]], axis=1))
    ones = xp.ones_like(norms[:1])[:, None]
    n_entries = block_entries(Z, _SEARCH_ENTRIES)
    blocks = iter_slices(queries.shape[0], max(n_entries // n, _MIN_QUERIES))
    if is_numpy(Z) or is_cupy(Z):
        search = partial(_search_block, Z, queries, xp.ascontiguousarray(others), n_found)
        nearest = xp.concat(map_blocks(search, blocks))
    else:
        found = []
        for block in blocks:
            points = take(Z, queries[block])
            columns = xp.broadcast_to(ones, (points.shape[0], 1))
            found.append(argsmallest(xp.concat([points, columns], axis=1) @ others, n_found))
        nearest = xp.concat(found)
    filling = xp.broadcast_to(queries[:, None], (queries.shape[0], k + 1 - n_found))
    return xp.concat([nearest, filling], axis=1)


def _search_block(Z: Array, queries: Array, others: Array, k: int, block: slice) -> Array:
    """Return the k nearest samples (b, k), in no order, for a block of queries."""
    xp = array_namespace(Z)
    points = Z[queries[block]]
    points = xp.concatenate([points, xp.ones_like(points[:, :1])], axis=1)
    # The first part has k samples or more.
    width = max(block_entries(Z, _SEARCH_ENTRIES) // len(points), k)
    near = found = None
    for part in iter_slices(others.shape[1], width):
        distances = points @ others[:, part]
        if near is None:
            values, places = _select_below(distances, _bound_nearest(distances, k))
        else:
            # Samples of earlier parts may still be among the nearest.
            values, places = _select_below(distances, near.max(axis=1, keepdims=True))
            values = xp.concatenate([near, values], axis=1)
            places = xp.concatenate([found, places + part.start], axis=1)
        kept = argsmallest(values, k)
        near = xp.take_along_axis(values, kept, axis=1)
        found = xp.take_along_axis(places, kept, axis=1)
    return found


def _bound_nearest(distances: Array, k: int) -> Array:
    """Return a bound (b, 1) that at least k distances of a row (b, n) do not exceed.

    It is the k-th smallest of the minima of groups of samples. ``argpartition`` of all distances
    would take longer than their computation.
    """
    xp = array_namespace(distances)
    b, n = distances.shape
    n_groups = min(n, _GROUPS_PER_NEIGHBOR * k)
    grouped = n - n % n_groups
    # A group is every n_groups-th sample, so that minima are taken over rows of memory.
    minima = distances[:, :grouped].reshape(b, -1, n_groups).min(axis=1)
    minima = xp.concatenate([minima, distances[:, grouped:]], axis=1)
    return xp.partition(minima, k - 1, axis=1)[:, k - 1 : k]


def _select_below(distances: Array, bounds: Array) -> tuple[Array, Array]:
    """Return the distances that do not exceed the bound of their row, and their columns.

    Both have as many columns as the fullest row; other rows are filled with infinity and 0.
    """
    xp = array_namespace(distances)
    b, n = distances.shape
    # In one dimension, where NumPy finds them several times faster than in two.
    positions = xp.flatnonzero(distances <= bounds)
    rows = positions // n
    counts = xp.bincount(rows, minlength=b)
    starts = xp.cumsum(counts) - counts
    columns = xp.arange(positions.size) - starts[rows]
    near = xp.full((b, int(counts.max())), xp.inf, dtype=distances.dtype)
    near[rows, columns] = distances.ravel()[positions]
    places = xp.zeros(near.shape, dtype=positions.dtype)
    places[rows, columns] = positions - rows * n
    return near, places
