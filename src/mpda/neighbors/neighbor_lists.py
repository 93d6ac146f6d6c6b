"""Exact nearest-neighbour lists inside one class, the first step of a fit.

Distances are computed from differences of coordinates, so that equal distances are equal numbers
and ties go to the lower index. Large classes are searched by Gram products,
|x - z|^2 = |x|^2 + |z|^2 - 2 x'z, which are fast but lose small distances; candidates that their
rounding leaves undecided are ranked again from differences. ``product_search`` has the products,
``approximate_search`` has other ways to find candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    EPSILON,
    arange,
    argsort_rows,
    array_namespace,
    as_contiguous,
    block_entries,
    densify,
    is_numpy,
    is_sparse,
    iter_slices,
    maximum,
    nbytes,
    pairwise_distances,
    set_at,
    sum_over_rows,
    take,
    zeros,
)
from mpda._lib.threads import count_openmp_threads, open_threads
from mpda.neighbors.product_search import (
    ProductSearch,
    augment_samples,
    search_products,
    select_smallest,
)

# Up to this many samples and coordinate differences (about a third of a second) all pairs are
# compared directly. Above, Gram products are faster in spite of the second look at their
# candidates: 1.3 times with 1000 samples, 3 times with 4000.
_DIRECT_SEARCH_SIZE, _DIRECT_SEARCH_LIMIT = 1000, 3e8
# Entries of temporary arrays: 32 MB. Larger blocks are not faster.
_BLOCK_ENTRIES = 4_000_000
# Distances that are searched at a time: 2 MB, so that the rows of a block stay in the cache.
_SEARCH_ENTRIES = 250_000
# A squared distance this many times above the rounding of Gram products is accurate to 1e-10.
_CLEAR_RATIO = 1e10


@dataclass(frozen=True)
class ClassPoints:
    """Samples of one class.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, on the host or on a device.
    sparse : csr_array of shape (n, d), default=None
        The samples once more, if they are sparse.
    """

    X: Array
    sparse: Any = None

    @cached_property
    def straight(self) -> Array:
        """Euclidean distances D^E of all pairs, shape (n, n), symmetric to the last bit."""
        if is_numpy(self.X):
            return squareform(pdist(self.X), checks=False)
        return pairwise_distances(self.X, self.X)

    def take_straight(self) -> Array:
        """Return D^E and keep no reference, so that the caller may overwrite it.

        Returns
        -------
        array of shape (n, n)
            Euclidean distances of all pairs.
        """
        straight = self.straight
        del self.__dict__["straight"]
        return straight


@dataclass(frozen=True)
class NeighborLists:
    """The k nearest other samples of each sample, nearest first, ties by lower index.

    Parameters
    ----------
    indices : array of int of shape (n, k)
        Neighbours of each sample.
    distances : array of shape (n, k)
        Their distances.
    """

    indices: Array
    distances: Array

    @property
    def nbytes(self) -> int:
        """Memory of both arrays in bytes."""
        return 2 * nbytes(self.distances)

    def first(self, k: int) -> NeighborLists:
        """Return the lists cut to the k nearest neighbours.

        Parameters
        ----------
        k : int
            Number of neighbours; lists that are shorter stay as they are.

        Returns
        -------
        NeighborLists
            Views of the same arrays.
        """
        k = min(k, self.indices.shape[1])
        return NeighborLists(self.indices[:, :k], self.distances[:, :k])

    def replace(self, rows: Array, lists: NeighborLists) -> NeighborLists:
        """Replace the lists of some samples, in place where the array library can.

        Parameters
        ----------
        rows : array of int of shape (r,)
            Samples.
        lists : NeighborLists
            New lists of these samples, shape (r, k).

        Returns
        -------
        NeighborLists
            Lists of all samples.
        """
        return NeighborLists(
            set_at(self.indices, rows, lists.indices),
            set_at(self.distances, rows, lists.distances),
        )


@dataclass(frozen=True)
class CompactLists:
    """Neighbour lists without distances, a quarter of the memory or less.

    Parameters
    ----------
    indices : ndarray of shape (n, k)
        Neighbours of each sample, in the smallest integers that hold n.
    """

    indices: np.ndarray[Any, Any]

    @classmethod
    def from_lists(cls, lists: NeighborLists) -> CompactLists:
        """Copy the indices of lists on the host.

        Parameters
        ----------
        lists : NeighborLists
            Lists of all samples of a class.

        Returns
        -------
        CompactLists
            The same neighbours.
        """
        return cls(lists.indices.astype(np.min_scalar_type(lists.indices.shape[0])))

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.indices.nbytes

    def expand(self) -> NeighborLists:
        """Return the lists with distances that are nan, for work that needs no distances.

        Returns
        -------
        NeighborLists
            The same neighbours.
        """
        unknown = np.broadcast_to(np.nan, self.indices.shape)
        return NeighborLists(self.indices.astype(np.intp), unknown)


def find_neighbors(points: ClassPoints, n_neighbors: int) -> NeighborLists:
    """Find the nearest neighbours of all samples of a class exactly.

    Parameters
    ----------
    points : ClassPoints
        Samples of the class. In small classes the matrix of all distances is kept there.
    n_neighbors : int
        Number of neighbours, cut to n - 1.

    Returns
    -------
    NeighborLists
        Lists of k = min(n_neighbors, n - 1) neighbours.
    """
    n, d = points.X.shape
    k = min(n_neighbors, n - 1)
    if _is_direct(n, d):
        return _select_nearest(points.straight, arange(n, points.X), k)
    if points.sparse is not None:
        return _search_by_products(points.X, k, points.sparse)
    return find_neighbors_blockwise(points.X, k)


def find_neighbors_blockwise(X: Array, n_neighbors: int) -> NeighborLists:
    """Find the nearest neighbours exactly, without the matrix of all distances.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    n_neighbors : int
        Number of neighbours, cut to n - 1.

    Returns
    -------
    NeighborLists
        Lists of k = min(n_neighbors, n - 1) neighbours.
    """
    n, d = X.shape
    k = min(n_neighbors, n - 1)
    if _is_direct(n, d):
        return compare_all_pairs(X, arange(n, X), k)
    return _search_by_products(X, k)


def _is_direct(n: int, d: int) -> bool:
    """Return whether all pairs of n samples with d features are compared directly."""
    return n <= _DIRECT_SEARCH_SIZE and n * n * d <= _DIRECT_SEARCH_LIMIT


def compare_all_pairs(X: Array, rows: Array, k: int) -> NeighborLists:
    """Find the neighbours of some samples from the differences to all samples.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    rows : array of int of shape (r,)
        Samples whose neighbours are searched, at least one.
    k : int
        Number of neighbours, less than n.

    Returns
    -------
    NeighborLists
        Lists of shape (r, k).
    """
    xp = array_namespace(X)
    lists = []
    for block in iter_slices(rows.shape[0], block_entries(X, _SEARCH_ENTRIES) // X.shape[0]):
        distances = pairwise_distances(take(X, rows[block]), X)
        lists.append(_select_nearest(distances, rows[block], k))
    return NeighborLists(
        xp.concat([block.indices for block in lists]),
        xp.concat([block.distances for block in lists]),
    )


def _select_nearest(D: Array, rows: Array, k: int) -> NeighborLists:
    """Select the k smallest distances of each row of D (r, n), ties by column.

    ``rows`` (r,) are the samples to which the rows belong; they are not their own neighbours.
    """
    r, n = D.shape
    if not is_numpy(D):
        xp = array_namespace(D)
        D = xp.where(arange(n, D)[None, :] == rows[:, None], xp.inf, D)
        nearest = xp.argsort(D, axis=1, stable=True)[:, :k]
        return NeighborLists(nearest, xp.take_along_axis(D, nearest, axis=1))
    if k == 0:
        return NeighborLists(np.empty((r, 0), dtype=np.intp), np.empty((r, 0)))
    D = D.copy()
    D[np.arange(r), rows] = np.inf
    kth = np.partition(D, k - 1, axis=1)[:, k - 1 : k]
    tails, heads = nonzero_pairs(kth >= D)
    values = D[tails, heads]
    if tails.size == r * k:  # no ties at the k-th: sorting rows is seven times faster
        order = np.argsort(values.reshape(-1, k), axis=1, kind="stable")
        order += np.arange(0, tails.size, k)[:, None]
    else:
        order = np.lexsort((values, tails))  # stable, so columns stay in order at a tie
        order = order[np.searchsorted(tails, np.arange(r))[:, None] + np.arange(k)]
    return NeighborLists(heads[order], values[order])


def nonzero_pairs(mask: Array) -> tuple[Array, Array]:
    """Find the entries of a matrix that are true; five times faster than ``nonzero``.

    Parameters
    ----------
    mask : array of bool of shape (r, c)
        Matrix.

    Returns
    -------
    tuple of arrays of int of shape (p,)
        Rows and columns of the entries, row by row.
    """
    xp = array_namespace(mask)
    positions = xp.nonzero(xp.reshape(mask, (-1,)))[0]
    rows = positions // mask.shape[1]
    return rows, positions - rows * mask.shape[1]


def _search_by_products(X: Array, k: int, sparse: Any = None) -> NeighborLists:
    """Find neighbours by Gram products with more than k candidates, sparse ones if X is sparse.

    A row is settled if its squared distances are far above the rounding of the products and
    farther apart than it. The candidates of other rows are ranked from differences. If then the
    last candidate is not clearly farther than the k-th, the row is compared with all samples.
    """
    xp = array_namespace(X)
    n, d = X.shape
    n_candidates = min(n, k + 1 + max(8, k // 2))
    if sparse is None:
        # Rounding of the products grows with |x|^2, which is smallest about the mean.
        centred = X - xp.mean(X, axis=0)
        squared_norms = xp.sum(centred * centred, axis=1)
        candidates = _nearest_by_products(centred, squared_norms, n_candidates)
    else:
        squared_norms = (sparse * sparse).sum(axis=1)
        candidates = _nearest_by_products(sparse, squared_norms, n_candidates)
    indices, distances = candidates.indices, candidates.distances
    # |z|^2 is at most 2 |x|^2 + 2 |x - z|^2, so far samples do not widen the bound of others.
    rounding = 8 * d * EPSILON * (3.0 * squared_norms + 2.0 * distances[:, -1] ** 2)
    squares = distances[:, 1 : k + 2] ** 2
    is_settled = xp.all(squares[:, 1:] - squares[:, :-1] > 2.0 * rounding[:, None], axis=1)
    is_settled &= squares[:, 0] > _CLEAR_RATIO * rounding
    # With duplicates another sample may come first; then the lists would hold the sample itself.
    is_settled &= indices[:, 0] == arange(n, X)
    rows = xp.nonzero(~is_settled)[0]
    ranked = rank_candidates(X, rows, take(indices, rows), k)
    if n_candidates < n and rows.shape[0]:
        reach = take(distances, rows)[:, -1] ** 2 - take(rounding, rows)
        doubtful = xp.nonzero(reach <= ranked.distances[:, -1] ** 2)[0]
        if doubtful.shape[0]:
            ranked = ranked.replace(doubtful, compare_all_pairs(X, take(rows, doubtful), k))
    nearest = NeighborLists(
        xp.asarray(indices[:, 1 : k + 1], copy=True), xp.asarray(distances[:, 1 : k + 1], copy=True)
    )
    return nearest.replace(rows, ranked)


def _nearest_by_products(Z: Array, squared_norms: Array, k: int) -> NeighborLists:
    """Find the k nearest samples, each sample included, of samples Z (n, d), perhaps sparse."""
    n = Z.shape[0]
    if is_numpy(Z):
        search = ProductSearch(Z)
        with open_threads(count_openmp_threads()) as map_blocks:
            found = map_blocks(partial(search.find, k=k), search.iter_blocks(np.arange(n), k))
        indices, squares = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        order = argsort_rows(squares, indices)
        distances = np.sqrt(np.maximum(np.take_along_axis(squares, order, axis=1), 0.0))
        return NeighborLists(np.take_along_axis(indices, order, axis=1), distances)
    xp = array_namespace(squared_norms)
    if not is_sparse(Z):
        left, right = augment_samples(Z, squared_norms)
    blocks = []
    for block in iter_slices(n, block_entries(squared_norms, _SEARCH_ENTRIES) // n):
        if is_sparse(Z):
            values, nearest = select_smallest(squared_norms - 2.0 * densify(Z[block] @ Z.T), k)
        else:
            values, nearest = search_products(left[block, :], right, k)
        squares = values + squared_norms[block, None]
        order = argsort_rows(squares, nearest)
        blocks.append([xp.take_along_axis(a, order, axis=1) for a in (nearest, squares)])
    indices, squares = (xp.concat(list(arrays)) for arrays in zip(*blocks, strict=True))
    return NeighborLists(indices, xp.sqrt(maximum(squares, 0.0)))


def rank_candidates(X: Array, rows: Array, candidates: Array, k: int) -> NeighborLists:
    """Select the k nearest of the candidates of some samples.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    rows : array of int of shape (r,)
        Samples whose neighbours are searched.
    candidates : array of int of shape (r, c)
        Candidates of each sample. The sample itself is ignored.
    k : int
        Number of neighbours, less than c.

    Returns
    -------
    NeighborLists
        Lists of shape (r, k), with distances from differences. The distance is infinite where a
        sample has fewer than k candidates.
    """
    xp = array_namespace(X)
    tails = xp.broadcast_to(rows[:, None], candidates.shape)
    distances = pair_distances(X, xp.reshape(tails, (-1,)), xp.reshape(candidates, (-1,)))
    distances = xp.where(candidates == tails, xp.inf, xp.reshape(distances, candidates.shape))
    order = argsort_rows(distances, candidates)[:, :k]
    return NeighborLists(
        xp.take_along_axis(candidates, order, axis=1), xp.take_along_axis(distances, order, axis=1)
    )


def pair_distances(X: Array, tails: Array, heads: Array) -> Array:
    """Compute the distances of pairs of samples from differences, in blocks of pairs.

    The squares of one feature after the other are added, as in SciPy's distances. Sums that differ
    only in the order of equal terms are then equal numbers.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    tails, heads : arrays of int of shape (p,)
        Indices of the samples of each pair.

    Returns
    -------
    array of shape (p,)
        |x_i - x_j| of each pair.
    """
    xp = array_namespace(X)
    features = as_contiguous(xp.matrix_transpose(X))
    distances = zeros(tails.shape, X)
    for block in iter_slices(tails.shape[0], block_entries(X, _BLOCK_ENTRIES) // X.shape[1]):
        differences = xp.take(features, tails[block], axis=1)
        differences -= xp.take(features, heads[block], axis=1)
        differences *= differences
        distances[block] = xp.sqrt(sum_over_rows(differences))
    return distances
