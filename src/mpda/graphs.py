"""Neighbour lists, the graph of a class, and its local scaling.

Every function takes the samples of one class. Distances come from differences, so that equal
distances are equal numbers and the tie rule (lower index first) can be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.neighbors import NearestNeighbors

from mpda._typing import Bools, Floats, Ints

# Up to this many coordinate differences every pair is compared directly (about a third of a
# second); above, candidates come from a search by Gram products.
_DIRECT_SEARCH_LIMIT = 3e8
_BLOCK_ENTRIES = 4_000_000
# Distances at a time in a search: rows of a block fit in the cache.
_SEARCH_ENTRIES = 250_000
# Squared distances so far above the rounding of a search by Gram products are right to 1e-10.
_CLEARLY_ABOVE = 1e10
_DENSE_LIMIT = 500
# Sums of squares of the offsets over those of the edges: 2e-16 of this is the rounding allowed.
_LARGEST_EXTENT = 1e3


@dataclass(frozen=True)
class ClassPoints:
    """The samples X (n, d) of one class, with all their distances where something asks for them."""

    X: Floats

    @cached_property
    def straight(self) -> Floats:
        """D^E (n, n), symmetric to the last bit, each entry from differences."""
        return squareform(pdist(self.X), checks=False)


@dataclass(frozen=True)
class NeighborLists:
    """The k nearest other samples of each sample, nearest first, ties by lower index.

    indices : (n, k)
    distances : (n, k)
    """

    indices: Ints
    distances: Floats

    @property
    def nbytes(self) -> int:
        """The memory that the lists take."""
        return self.indices.nbytes + self.distances.nbytes

    def first(self, k: int) -> NeighborLists:
        """The lists cut to their k nearest."""
        return NeighborLists(self.indices[:, :k], self.distances[:, :k])


@dataclass(frozen=True)
class ClassGraph:
    """The symmetric k-nearest-neighbour graph of one class, all weights 1.

    neighbors : the lists whose union it is
    edges : (e, 2), each edge once, lower index first
    lengths : (e,)
    """

    neighbors: NeighborLists
    edges: Ints
    lengths: Floats


@dataclass(frozen=True)
class PlacedGraph:
    """A class graph with the coordinates Z (n, d) of its samples.

    Sums over edges are fastest as products of offsets from the class mean, but then their rounding
    is relative to the extent of the class. Where edges are very short beside that along some
    feature, they have to be sums over the differences of coordinates.
    """

    Z: Floats
    graph: ClassGraph

    @cached_property
    def offsets(self) -> Floats:
        """The coordinates from the class mean (n, d)."""
        return mean_offsets(self.Z)

    @cached_property
    def laplacian_offsets(self) -> Floats:
        """L Z (n, d), L the Laplacian of the graph."""
        edges = self.graph.edges
        return laplacian(edges, np.ones(len(edges)), len(self.Z)) @ self.offsets

    @cached_property
    def edges_are_short(self) -> bool:
        """Whether products of offsets would lose the edges in rounding."""
        degrees = np.bincount(self.graph.edges.ravel(), minlength=len(self.Z))
        sums = np.einsum("ij,ij->j", self.offsets, self.laplacian_offsets)
        return lost_in_products(self.offsets, degrees, sums, _LARGEST_EXTENT)


def mean_offsets(Z: Floats) -> Floats:
    """Z (n, d) from its mean; exactly 0 along features that are constant."""
    offsets = Z - Z[:1]
    offsets -= offsets.mean(axis=0)
    return offsets


def lost_in_products(offsets: Floats, degrees: Floats | Ints, sums: Floats, limit: float) -> bool:
    """Whether sums over edges along some feature (d,) are smaller than what their products add up.

    offsets (n, d) and degrees (n,) are those of the samples; the products are larger than the sums
    by more than the limit.
    """
    extent = degrees @ offsets**2
    return bool((extent > limit * np.abs(sums)).any())


def laplacian(edges: Ints, weights: Floats, n: int) -> Floats | csr_array:
    """D - A (n, n) for symmetric weights (e,) on the edges (e, 2); sparse unless n is small."""
    tails, heads = edges.T
    degrees = np.bincount(edges.ravel(), np.repeat(weights, 2), n).astype(float)
    if n <= _DENSE_LIMIT:
        matrix = np.diag(degrees)
        matrix[tails, heads] = matrix[heads, tails] = -weights
        return matrix
    links = coo_array((weights, (tails, heads)), shape=(n, n))
    return (diags_array(degrees) - links - links.T).tocsr()


def class_graph(points: ClassPoints, n_neighbors: int) -> ClassGraph:
    """The graph W of one class; k is cut to n - 1."""
    return union_graph(neighbor_lists(points, n_neighbors))


def union_graph(neighbors: NeighborLists) -> ClassGraph:
    """Join i and j where either is in the other's list."""
    n, k = neighbors.indices.shape
    tails = np.repeat(np.arange(n), k)
    heads = neighbors.indices.ravel()
    if n <= _DENSE_LIMIT:
        lengths = np.full((n, n), -1.0)
        lengths[np.minimum(tails, heads), np.maximum(tails, heads)] = neighbors.distances.ravel()
        low, high = true_pairs(lengths >= 0.0)
        return ClassGraph(neighbors, np.column_stack([low, high]), lengths[low, high])
    keys = np.minimum(tails, heads) * n + np.maximum(tails, heads)
    keys, first = np.unique(keys, return_index=True)
    edges = np.column_stack([keys // n, keys % n]) if n else np.empty((0, 2), dtype=np.intp)
    return ClassGraph(neighbors, edges, neighbors.distances.ravel()[first])


def true_pairs(mask: Bools) -> tuple[Ints, Ints]:
    """The rows and columns where a mask (r, c) is true, row by row; nonzero() takes five times."""
    positions = mask.ravel().nonzero()[0]
    rows = positions // mask.shape[1]
    return rows, positions - rows * mask.shape[1]


def local_affinity(graph: ClassGraph) -> Floats:
    """A_ij = exp(-d_ij^2 / (sigma_i sigma_j)) on the edges (e,) of the graph."""
    tails, heads = graph.edges.T
    sigma = local_scale(graph.neighbors)
    return scaled_affinity(graph.lengths, sigma[tails] * sigma[heads])


def local_scale(neighbors: NeighborLists) -> Floats:
    """sigma_i (n,): the distance to the last of the listed neighbours, 0 where there is none."""
    n, k = neighbors.distances.shape
    return neighbors.distances[:, -1] if k else np.zeros(n)


def scaled_affinity(distances: Floats, scales: Floats) -> Floats:
    """exp(-distances^2 / scales); where the scale is 0: 1 for identical points, else 0."""
    identical = distances == 0.0
    ratio = np.divide(
        distances * distances,
        scales,
        out=np.where(identical, 0.0, np.inf),
        where=scales > 0.0,
    )
    return np.exp(-ratio)


def neighbor_lists(points: ClassPoints, n_neighbors: int) -> NeighborLists:
    """Exact neighbour lists of n points with k = min(n_neighbors, n - 1)."""
    n, d = points.X.shape
    k = min(n_neighbors, n - 1)
    if k == 0:
        return NeighborLists(np.empty((n, 0), dtype=np.intp), np.empty((n, 0)))
    if n * n <= _BLOCK_ENTRIES and n * n * d <= _DIRECT_SEARCH_LIMIT:
        return _nearest(points.straight, np.arange(n), k)
    return searched_lists(points.X, k)


def searched_lists(X: Floats, n_neighbors: int) -> NeighborLists:
    """The same lists for any samples X (n, d), without all distances at once."""
    n, d = X.shape
    k = min(n_neighbors, n - 1)
    if n * n * d <= _DIRECT_SEARCH_LIMIT:
        return direct_lists(X, np.arange(n), k)
    return _candidate_search(X, k)


def direct_lists(X: Floats, rows: Ints, k: int) -> NeighborLists:
    """The lists of the given rows, every distance from differences, in blocks of rows."""
    indices = np.empty((rows.size, k), dtype=np.intp)
    distances = np.empty((rows.size, k))
    step = max(1, _SEARCH_ENTRIES // X.shape[0])
    for start in range(0, rows.size, step):
        block = rows[start : start + step]
        found = _nearest(cdist(X[block], X), block, k)
        indices[start : start + step] = found.indices
        distances[start : start + step] = found.distances
    return NeighborLists(indices, distances)


def _nearest(D: Floats, rows: Ints, k: int) -> NeighborLists:
    """The k smallest of each row of distances D (r, n), ties by column, without the row itself."""
    D = D.copy()
    D[np.arange(rows.size), rows] = np.inf
    kth = np.partition(D, k - 1, axis=1)[:, k - 1 : k]
    tails, heads = true_pairs(kth >= D)
    values = D[tails, heads]
    if tails.size == rows.size * k:  # no ties at the k-th
        take = np.argsort(values.reshape(-1, k), axis=1, kind="stable")
        take += np.arange(0, tails.size, k)[:, None]
        return NeighborLists(heads[take], values[take])
    order = np.lexsort((values, tails))  # stable, so columns stay in order at a tie
    starts = np.searchsorted(tails, np.arange(rows.size))
    take = order[starts[:, None] + np.arange(k)]
    return NeighborLists(heads[take], values[take])


def _candidate_search(X: Floats, k: int) -> NeighborLists:
    """Search by Gram products for more than k candidates; what their rounding leaves open is
    settled from differences.

    A row is clear if its distances are far above the rounding of the search and farther apart than
    it. The candidates of other rows are ranked from differences; and if then the last of them is
    not clearly farther than the k-th, the row is searched directly.
    """
    n, d = X.shape
    centred = X - X.mean(axis=0)
    n_candidates = min(n, k + 1 + max(8, k // 2))
    search = NearestNeighbors(n_neighbors=n_candidates, algorithm="brute").fit(centred)
    distances, candidates = search.kneighbors(centred)
    squared_norms = np.einsum("ij,ij->i", centred, centred)
    rounding = 8 * d * np.finfo(float).eps * (squared_norms + squared_norms.max())
    squares = distances[:, 1 : k + 2] ** 2
    clear = (np.diff(squares, axis=1) > 2.0 * rounding[:, None]).all(axis=1)
    clear &= (squares[:, 0] > _CLEARLY_ABOVE * rounding) & (candidates[:, 0] == np.arange(n))
    lists = NeighborLists(candidates[:, 1 : k + 1].copy(), distances[:, 1 : k + 1].copy())
    rows = np.flatnonzero(~clear)
    ranked = ranked_lists(X, rows, candidates[rows], k)
    if n_candidates < n:
        unsafe = distances[rows, -1] ** 2 - rounding[rows] <= ranked.distances[:, -1] ** 2
        exact = direct_lists(X, rows[unsafe], k)
        ranked.indices[unsafe] = exact.indices
        ranked.distances[unsafe] = exact.distances
    lists.indices[rows] = ranked.indices
    lists.distances[rows] = ranked.distances
    return lists


def ranked_lists(X: Floats, rows: Ints, candidates: Ints, k: int) -> NeighborLists:
    """The k nearest among the candidates (r, c) of some rows, without the row itself."""
    tails = np.repeat(rows, candidates.shape[1])
    distances = pair_distances(X, tails, candidates.ravel()).reshape(candidates.shape)
    distances[candidates == rows[:, None]] = np.inf
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    return NeighborLists(
        np.take_along_axis(candidates, order, axis=1),
        np.take_along_axis(distances, order, axis=1),
    )


def pair_distances(X: Floats, tails: Ints, heads: Ints) -> Floats:
    """|x_i - x_j| (p,) for pairs of samples, from differences, in blocks of pairs.

    Features stand first, so that squares are added one feature after the other: sums that are
    equal but for the places of their terms stay equal, as they do in SciPy's distances.
    """
    features = np.ascontiguousarray(X.T)
    distances = np.empty(tails.size)
    step = max(1, _BLOCK_ENTRIES // X.shape[1])
    for start in range(0, tails.size, step):
        block = slice(start, start + step)
        gaps = features.take(tails[block], axis=1)
        gaps -= features.take(heads[block], axis=1)
        gaps *= gaps
        distances[block] = np.sqrt(gaps.sum(axis=0))
    return distances
