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
    as_float,
    block_entries,
    is_numpy,
    iter_slices,
    take,
    to_device,
)
from mpda._lib.threads import BlockMap, map_serially
from mpda.neighbors.product_search import (
    BLOCK_ENTRIES,
    ProductSearch,
    augment_samples,
    search_products,
)

# Up to this many samples on the host all products in double precision are faster than products in
# single precision and a second look at their candidates: 1.6 times with 1000 samples, five times
# with 100.
_DIRECT_SEARCH_SIZE = 1000


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
    array of int of shape (q, K)
        Candidates of the queries, class after class; K is at most n_own + n_all + 2. An index may
        occur twice, and the query itself occurs; see :func:`merge_candidates`.
    """
    xp = array_namespace(Z)
    n_own, n_all = (min(k, Z.shape[0] - 1) for k in (n_own, n_all))
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
    if is_numpy(Z) and n > _DIRECT_SEARCH_SIZE:
        search = ProductSearch(Z)
        blocks = search.iter_blocks(queries, n_found)
        found = [indices for indices, _ in map_blocks(partial(search.find, k=n_found), blocks)]
    else:
        Z = as_float(Z) if is_numpy(Z) else Z
        # |z_i|^2 is the same for all candidates of i and is left out.
        left, right = augment_samples(Z, xp.sum(Z * Z, axis=1))
        found = []
        for block in iter_slices(queries.shape[0], block_entries(Z, BLOCK_ENTRIES) // n):
            points = take(left, queries[block])
            if is_numpy(Z):
                found.append(argsmallest(points @ right, n_found))
            else:
                found.append(search_products(points, right, n_found)[1])
    filling = xp.broadcast_to(queries[:, None], (queries.shape[0], k + 1 - n_found))
    return xp.concat([xp.concat(found), filling], axis=1)
