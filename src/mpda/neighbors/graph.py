"""Neighbour lists, the graph of a class, and its local scaling.

Every function takes the samples of one class. Distances come from differences, so that equal
distances are equal numbers and the tie rule (lower index first) can be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.spatial.distance import pdist, squareform
from sklearn.neighbors import NearestNeighbors

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import (
    EPSILON,
    arange,
    argsmallest,
    argsort_rows,
    array_namespace,
    as_contiguous,
    block_entries,
    is_numpy,
    iter_slices,
    maximum,
    nbytes,
    pairwise_distances,
    safe_divide,
    set_at,
    sum_over_rows,
    take,
    zeros,
)
from mpda._lib.threads import one_blas_thread

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

    X: Array

    @cached_property
    def straight(self) -> Array:
        """D^E (n, n), symmetric to the last bit, each entry from differences."""
        return (
            squareform(pdist(self.X), checks=False)
            if is_numpy(self.X)
            else pairwise_distances(self.X, self.X)
        )


@dataclass(frozen=True)
class NeighborLists:
    """The k nearest other samples of each sample, nearest first, ties by lower index.

    indices : (n, k)
    distances : (n, k)
    """

    indices: Array
    distances: Array

    @property
    def nbytes(self) -> int:
        """The memory that the lists take."""
        return 2 * nbytes(self.distances)

    def first(self, k: int) -> NeighborLists:
        """The lists cut to their k nearest."""
        k = min(k, self.indices.shape[1])
        return NeighborLists(self.indices[:, :k], self.distances[:, :k])


@dataclass(frozen=True)
class ClassGraph:
    """The symmetric k-nearest-neighbour graph of one class, all weights 1.

    neighbors : the lists whose union it is
    edges : (e, 2), each edge once, lower index first
    lengths : (e,)
    """

    neighbors: NeighborLists
    edges: Array
    lengths: Array


@dataclass(frozen=True)
class EmbeddedGraph:
    """A class graph with the coordinates Z (n, d) of its samples.

    Sums over edges are fastest as products of offsets from the class mean, but then their rounding
    is relative to the extent of the class. Where edges are very short beside that along some
    feature, they have to be sums over the differences of coordinates.
    """

    Z: Array
    graph: ClassGraph

    @cached_property
    def offsets(self) -> Array:
        """The coordinates from the class mean (n, d)."""
        return center(self.Z)

    @cached_property
    def laplacian_offsets(self) -> Floats:
        """L Z (n, d), L the Laplacian of the graph."""
        edges = self.graph.edges
        return graph_laplacian(edges, np.ones(len(edges)), len(self.Z)) @ self.offsets

    @cached_property
    def edges_are_short(self) -> bool:
        """Whether products of offsets would lose the edges in rounding.

        Off this machine differences are as fast, and nothing is gained by products.
        """
        if not is_numpy(self.Z):
            return True
        degrees = np.bincount(self.graph.edges.ravel(), minlength=len(self.Z))
        sums = np.einsum("ij,ij->j", self.offsets, self.laplacian_offsets)
        return loses_precision(self.offsets, degrees, sums, _LARGEST_EXTENT)


def center(Z: Array) -> Array:
    """Z (n, d) from its mean; exactly 0 along features that are constant."""
    offsets = Z - Z[:1, :]
    offsets -= array_namespace(Z).mean(offsets, axis=0)
    return offsets


def loses_precision(offsets: Floats, degrees: Floats | Ints, sums: Floats, limit: float) -> bool:
    """Whether sums over edges along some feature (d,) are smaller than what their products add up.

    offsets (n, d) and degrees (n,) are those of the samples; the products are larger than the sums
    by more than the limit.
    """
    extent = degrees @ offsets**2
    return bool((extent > limit * np.abs(sums)).any())


def graph_laplacian(edges: Ints, weights: Floats, n: int) -> Floats | csr_array:
    """D - A (n, n) for symmetric weights (e,) on the edges (e, 2); sparse unless n is small."""
    tails, heads = edges.T
    degrees = np.bincount(edges.ravel(), np.repeat(weights, 2), n).astype(float)
    if n <= _DENSE_LIMIT:
        matrix = np.diag(degrees)
        matrix[tails, heads] = matrix[heads, tails] = -weights
        return matrix
    links = coo_array((weights, (tails, heads)), shape=(n, n))
    return (diags_array(degrees) - links - links.T).tocsr()


def build_class_graph(points: ClassPoints, n_neighbors: int) -> ClassGraph:
    """The graph W of one class; k is cut to n - 1."""
    return symmetric_graph(find_neighbors(points, n_neighbors))


def symmetric_graph(neighbors: NeighborLists) -> ClassGraph:
    """Join i and j where either is in the other's list."""
    n, k = neighbors.indices.shape
    xp = array_namespace(neighbors.indices)
    samples = arange(n, neighbors.indices)
    tails = xp.reshape(xp.broadcast_to(samples[:, None], (n, k)), (-1,))
    heads = xp.reshape(neighbors.indices, (-1,))
    lengths = xp.reshape(neighbors.distances, (-1,))
    if n <= _DENSE_LIMIT and is_numpy(heads):
        dense = np.full((n, n), -1.0)
        dense[np.minimum(tails, heads), np.maximum(tails, heads)] = lengths
        low, high = nonzero_pairs(dense >= 0.0)
        return ClassGraph(neighbors, np.column_stack([low, high]), dense[low, high])
    if heads.shape[0] == 0:
        return ClassGraph(neighbors, xp.reshape(heads, (0, 2)), lengths)
    keys = xp.minimum(tails, heads) * n + xp.maximum(tails, heads)
    order = xp.argsort(keys, stable=True)
    keys = take(keys, order)
    new = xp.concat([samples[:1], 1 + xp.nonzero(keys[1:] != keys[:-1])[0]])
    keys = take(keys, new)
    edges = xp.stack([keys // n, keys % n], axis=1)
    return ClassGraph(neighbors, edges, take(lengths, take(order, new)))


def nonzero_pairs(mask: Array) -> tuple[Array, Array]:
    """The rows and columns where a mask (r, c) is true, row by row; nonzero() takes five times."""
    xp = array_namespace(mask)
    positions = xp.nonzero(xp.reshape(mask, (-1,)))[0]
    found = positions // mask.shape[1]
    return found, positions - found * mask.shape[1]


def local_affinity(graph: ClassGraph) -> Array:
    """A_ij = exp(-d_ij^2 / (sigma_i sigma_j)) on the edges (e,) of the graph."""
    sigma = local_scale(graph.neighbors)
    scales = take(sigma, graph.edges[:, 0]) * take(sigma, graph.edges[:, 1])
    return scaled_affinity(graph.lengths, scales)


def local_scale(neighbors: NeighborLists) -> Array:
    """sigma_i (n,): the distance to the last of the listed neighbours, 0 where there is none."""
    n, k = neighbors.distances.shape
    return neighbors.distances[:, -1] if k else zeros((n,), neighbors.distances)


def scaled_affinity(gaps: Array, scales: Array) -> Array:
    """exp(-gaps^2 / scales); where the scale is 0: 1 for identical points, else 0."""
    xp = array_namespace(gaps)
    return xp.exp(-safe_divide(gaps * gaps, scales, xp.where(gaps == 0.0, gaps, xp.inf)))


def find_neighbors(points: ClassPoints, n_neighbors: int) -> NeighborLists:
    """Exact neighbour lists of n points with k = min(n_neighbors, n - 1)."""
    n, d = points.X.shape
    k = min(n_neighbors, n - 1)
    if n * n <= _BLOCK_ENTRIES and n * n * d <= _DIRECT_SEARCH_LIMIT:
        return _nearest(points.straight, arange(n, points.X), k)
    return find_neighbors_blockwise(points.X, k)


def find_neighbors_blockwise(X: Array, n_neighbors: int) -> NeighborLists:
    """The same lists for any samples X (n, d), without all distances at once."""
    n, d = X.shape
    k = min(n_neighbors, n - 1)
    if n * n * d <= _DIRECT_SEARCH_LIMIT:
        return direct_lists(X, arange(n, X), k)
    return _candidate_search(X, k)


def direct_lists(X: Array, chosen: Array, k: int) -> NeighborLists:
    """The lists of the chosen samples, every distance from differences, in blocks of rows."""
    parts = []
    for block in iter_slices(
        max(1, chosen.shape[0]), block_entries(X, _SEARCH_ENTRIES) // X.shape[0]
    ):
        own = chosen[block] if chosen.shape[0] else chosen
        parts.append(_nearest(pairwise_distances(take(X, own), X), own, k))
    if len(parts) == 1:
        return parts[0]
    xp = array_namespace(X)
    return NeighborLists(
        xp.concat([part.indices for part in parts]), xp.concat([part.distances for part in parts])
    )


def _nearest(D: Array, own: Array, k: int) -> NeighborLists:
    """The k smallest of each row of distances D (r, n), ties by column, without the row itself."""
    r, n = D.shape
    if not is_numpy(D):
        xp = array_namespace(D)
        D = xp.where(arange(n, D)[None, :] == own[:, None], xp.inf, D)
        nearest = xp.argsort(D, axis=1, stable=True)[:, :k]
        return NeighborLists(nearest, xp.take_along_axis(D, nearest, axis=1))
    if k == 0 or r == 0:
        return NeighborLists(np.empty((r, k), dtype=np.intp), np.empty((r, k)))
    D = D.copy()
    D[np.arange(r), own] = np.inf
    kth = np.partition(D, k - 1, axis=1)[:, k - 1 : k]
    tails, heads = nonzero_pairs(kth >= D)
    values = D[tails, heads]
    if tails.size == r * k:  # no ties at the k-th
        take = np.argsort(values.reshape(-1, k), axis=1, kind="stable")
        take += np.arange(0, tails.size, k)[:, None]
        return NeighborLists(heads[take], values[take])
    order = np.lexsort((values, tails))  # stable, so columns stay in order at a tie
    starts = np.searchsorted(tails, np.arange(r))
    take = order[starts[:, None] + np.arange(k)]
    return NeighborLists(heads[take], values[take])


def _candidate_search(X: Array, k: int) -> NeighborLists:
    """Search by Gram products for more than k candidates; what their rounding leaves open is
    settled from differences.

    A row is clear if its distances are far above the rounding of the search and farther apart than
    it. The candidates of other rows are ranked from differences; and if then the last of them is
    not clearly farther than the k-th, the row is searched directly.
    """
    xp = array_namespace(X)
    n, d = X.shape
    centred = X - xp.mean(X, axis=0)
    n_candidates = min(n, k + 1 + max(8, k // 2))
    squared_norms = xp.sum(centred * centred, axis=1)
    gaps, candidates = _near_by_products(centred, squared_norms, n_candidates)
    rounding = 8 * d * EPSILON * (squared_norms + xp.max(squared_norms))
    squares = gaps[:, 1 : k + 2] ** 2
    clear = xp.all(squares[:, 1:] - squares[:, :-1] > 2.0 * rounding[:, None], axis=1)
    clear &= squares[:, 0] > _CLEARLY_ABOVE * rounding
    clear &= candidates[:, 0] == arange(n, X)
    open_rows = xp.nonzero(~clear)[0]
    ranked = ranked_lists(X, open_rows, take(candidates, open_rows), k)
    if n_candidates < n and open_rows.shape[0]:
        safe = take(gaps, open_rows)[:, -1] ** 2 - take(rounding, open_rows)
        unsafe = xp.nonzero(safe <= ranked.distances[:, -1] ** 2)[0]
        exact = direct_lists(X, take(open_rows, unsafe), k)
        ranked = NeighborLists(
            set_at(ranked.indices, unsafe, exact.indices),
            set_at(ranked.distances, unsafe, exact.distances),
        )
    return NeighborLists(
        set_at(xp.asarray(candidates[:, 1 : k + 1], copy=True), open_rows, ranked.indices),
        set_at(xp.asarray(gaps[:, 1 : k + 1], copy=True), open_rows, ranked.distances),
    )


def _near_by_products(Z: Array, squares: Array, k: int) -> tuple[Array, Array]:
    """The distances and indices (n, k) of the k samples nearest to each by Gram products, sorted.

    Z (n, d) are centred samples and squares (n,) those of their lengths.
    """
    if is_numpy(Z):
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(Z)
        with one_blas_thread():  # as the search wants it: threads must not put it back by turns
            gaps, candidates = search.kneighbors(Z)
        return gaps, candidates
    xp = array_namespace(Z)
    n = Z.shape[0]
    parts = []
    for block in iter_slices(n, block_entries(Z, _SEARCH_ENTRIES) // n):
        gram = squares[block, None] + squares - 2.0 * (Z[block, :] @ xp.matrix_transpose(Z))
        found = argsmallest(gram, k)
        gram = xp.take_along_axis(gram, found, axis=1)
        order = argsort_rows(gram, found)
        parts.append([xp.take_along_axis(each, order, axis=1) for each in (gram, found)])
    gram, candidates = (xp.concat(list(each)) for each in zip(*parts, strict=True))
    return xp.sqrt(maximum(gram, 0.0)), candidates


def ranked_lists(X: Array, chosen: Array, candidates: Array, k: int) -> NeighborLists:
    """The k nearest among the candidates (r, c) of some samples, without the sample itself."""
    xp = array_namespace(X)
    tails = xp.broadcast_to(chosen[:, None], candidates.shape)
    gaps = pair_distances(X, xp.reshape(tails, (-1,)), xp.reshape(candidates, (-1,)))
    gaps = xp.where(candidates == tails, xp.inf, xp.reshape(gaps, candidates.shape))
    order = argsort_rows(gaps, candidates)[:, :k]
    return NeighborLists(
        xp.take_along_axis(candidates, order, axis=1), xp.take_along_axis(gaps, order, axis=1)
    )


def pair_distances(X: Array, tails: Array, heads: Array) -> Array:
    """|x_i - x_j| (p,) for pairs of samples, from differences, in blocks of pairs.

    Features stand first, so that squares are added one feature after the other: sums that are
    equal but for the places of their terms stay equal, as they do in SciPy's distances.
    """
    xp = array_namespace(X)
    features = as_contiguous(xp.matrix_transpose(X))
    found = zeros(tails.shape, X)
    for block in iter_slices(tails.shape[0], block_entries(X, _BLOCK_ENTRIES) // X.shape[1]):
        gaps = xp.take(features, tails[block], axis=1)
        gaps -= xp.take(features, heads[block], axis=1)
        gaps *= gaps
        found[block] = xp.sqrt(sum_over_rows(gaps))
    return found
