"""Neighbour graph W of one class, its Laplacian and its affinities with local scaling.

Two samples are joined if either is among the k nearest neighbours of the other. The affinity is
A_ij = exp(-d_ij^2 / (sigma_i sigma_j)), sigma_i being the distance to the k-th neighbour (before
equation 17 of the paper, after Zelnik-Manor and Perona).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import arange, array_namespace, is_numpy, safe_divide, take, zeros
from mpda._lib.sample_weights import edge_weights
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors, nonzero_pairs

# Up to this many samples a dense (n, n) matrix is faster than a sparse one, or than sorting edges.
_DENSE_LIMIT = 500
# Largest ratio of the sum of squared offsets to that of squared edges along a feature. Rounding is
# this times 2e-16, relative to the sum over edges.
_MAX_OFFSET_RATIO = 1e3


@dataclass(frozen=True)
class ClassGraph:
    """Symmetric k-nearest-neighbour graph of one class, all weights 1.

    Parameters
    ----------
    neighbors : NeighborLists
        Lists whose union the graph is.
    edges : array of int of shape (e, 2)
        Each edge once, lower index first.
    lengths : array of shape (e,)
        Distances along the edges.
    """

    neighbors: NeighborLists
    edges: Array
    lengths: Array


@dataclass(frozen=True)
class EmbeddedGraph:
    """Class graph with coordinates of its samples.

    Parameters
    ----------
    Z : array of shape (n, d)
        Coordinates of the samples.
    graph : ClassGraph
        Graph of the n samples.
    weights : array of shape (n,), default=None
        Weights of the samples; None if all are 1.
    sparse : csr_array of shape (n, d), default=None
        The coordinates once more, if they are sparse.

    Notes
    -----
    Sums over edges are fastest as products of offsets from the class mean, Z'LZ. Their rounding is
    relative to the extent of the class. Where edges are very short compared with it along some
    feature, the sums are computed from differences of coordinates (``edges_are_short``).
    """

    Z: Array
    graph: ClassGraph
    weights: Array | None = None
    sparse: Any = None

    @cached_property
    def edge_weights(self) -> Array | None:
        """Weights of the edges (e,), None if all are 1."""
        return None if self.weights is None else edge_weights(self.weights, self.graph.edges)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the edges."""
        if self.edge_weights is None:
            return float(self.graph.edges.shape[0])
        return float(array_namespace(self.edge_weights).sum(self.edge_weights))

    @cached_property
    def offsets(self) -> Array:
        """Coordinates relative to the weighted mean of the class, shape (n, d)."""
        return center(self.Z, self.weights)

    @cached_property
    def laplacian_offsets(self) -> Floats:
        """L Z of shape (n, d), L the Laplacian of the graph."""
        edges, weights = self.graph.edges, self.edge_weights
        weights = np.ones(len(edges)) if weights is None else weights
        return graph_laplacian(edges, weights, len(self.Z)) @ self.offsets

    @cached_property
    def edges_are_short(self) -> bool:
        """True if products of offsets would lose the edges in rounding.

        Always True on a device, where differences are as fast as products.
        """
        if not is_numpy(self.Z):
            return True
        weights = None if self.edge_weights is None else np.repeat(self.edge_weights, 2)
        degrees = np.bincount(self.graph.edges.ravel(), weights, minlength=len(self.Z))
        sums = np.einsum("ij,ij->j", self.offsets, self.laplacian_offsets)
        return loses_precision(self.offsets, degrees, sums, _MAX_OFFSET_RATIO)


def center(Z: Array, weights: Array | None = None) -> Array:
    """Subtract the mean of the samples.

    Parameters
    ----------
    Z : array of shape (n, d)
        Samples.
    weights : array of shape (n,), default=None
        Weights of the samples in the mean.

    Returns
    -------
    array of shape (n, d)
        Offsets from the mean, exactly 0 along constant features.
    """
    # The mean of a constant feature is rounded; differences from one sample are exactly 0. It is
    # one that counts: a sample of weight 0 may be so far away that the differences are rounded.
    xp = array_namespace(Z)
    origin = 0 if weights is None else int(xp.argmax(weights))
    offsets = Z - Z[origin : origin + 1, :]
    if weights is None:
        offsets -= xp.mean(offsets, axis=0)
    else:
        offsets -= (weights @ offsets) / xp.sum(weights)
    return offsets


def loses_precision(
    offsets: Floats, degrees: Floats | Ints, sums: Floats, max_ratio: float
) -> bool:
    """Return True if sums over edges are too small compared with the products that add up to them.

    Parameters
    ----------
    offsets : ndarray of shape (n, d)
        Samples relative to their mean.
    degrees : ndarray of shape (n,)
        Sums of the weights of the edges at each sample.
    sums : ndarray of shape (d,)
        Sum over edges of the weighted squared difference along each feature.
    max_ratio : float
        Largest accepted ratio of products to sums.

    Returns
    -------
    bool
        True if the ratio is exceeded along any feature.
    """
    products = degrees @ offsets**2
    return bool((products > max_ratio * np.abs(sums)).any())


def graph_laplacian(edges: Ints, weights: Floats, n: int) -> Floats | csr_array:
    """Build the Laplacian L = D - A of a weighted graph (LapMtrx).

    Parameters
    ----------
    edges : ndarray of int of shape (e, 2)
        Each edge once.
    weights : ndarray of shape (e,)
        Symmetric weights.
    n : int
        Number of vertices.

    Returns
    -------
    ndarray or csr_array of shape (n, n)
        Dense for up to 500 vertices.
    """
    tails, heads = edges.T
    degrees = np.bincount(edges.ravel(), np.repeat(weights, 2), n).astype(float)
    if n <= _DENSE_LIMIT:
        matrix = np.diag(degrees)
        matrix[tails, heads] = matrix[heads, tails] = -weights
        return matrix
    adjacency = coo_array((weights, (tails, heads)), shape=(n, n))
    return (diags_array(degrees) - adjacency - adjacency.T).tocsr()


def build_class_graph(points: ClassPoints, n_neighbors: int) -> ClassGraph:
    """Build the graph W of one class by an exact search.

    Parameters
    ----------
    points : ClassPoints
        Samples of the class.
    n_neighbors : int
        Number of neighbours k, cut to n - 1.

    Returns
    -------
    ClassGraph
        Union of the neighbour lists.
    """
    return symmetric_graph(find_neighbors(points, n_neighbors))


def symmetric_graph(neighbors: NeighborLists) -> ClassGraph:
    """Build the graph W (withinPatchObj): i and j are joined if either is in the other's list.

    Parameters
    ----------
    neighbors : NeighborLists
        Lists of shape (n, k).

    Returns
    -------
    ClassGraph
        Edges sorted by their indices.
    """
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
    # An edge that is in both lists occurs twice, with the same length: the first one stays.
    first = xp.concat([samples[:1], 1 + xp.nonzero(keys[1:] != keys[:-1])[0]])
    keys = take(keys, first)
    edges = xp.stack([keys // n, keys % n], axis=1)
    return ClassGraph(neighbors, edges, take(lengths, take(order, first)))


def local_affinity(graph: ClassGraph) -> Array:
    """Compute A_ij = exp(-d_ij^2 / (sigma_i sigma_j)) on the edges of a graph (betweenObj).

    Parameters
    ----------
    graph : ClassGraph
        Graph with e edges.

    Returns
    -------
    array of shape (e,)
        Affinities.
    """
    sigma = local_scale(graph.neighbors)
    scales = take(sigma, graph.edges[:, 0]) * take(sigma, graph.edges[:, 1])
    return scaled_affinity(graph.lengths, scales)


def local_scale(neighbors: NeighborLists) -> Array:
    """Return sigma_i, the distance to the last of the listed neighbours.

    Parameters
    ----------
    neighbors : NeighborLists
        Lists of shape (n, k).

    Returns
    -------
    array of shape (n,)
        Scales; 0 for k = 0.
    """
    n, k = neighbors.distances.shape
    return neighbors.distances[:, -1] if k else zeros((n,), neighbors.distances)


def scaled_affinity(distances: Array, scales: Array) -> Array:
    """Compute exp(-d^2 / s) for distances d and scales s.

    Parameters
    ----------
    distances, scales : arrays of one shape
        Scales are products sigma_i sigma_j.

    Returns
    -------
    array of that shape
        Affinities. Where the scale is 0: 1 for identical points, else 0.
    """
    xp = array_namespace(distances)
    limit = xp.where(distances == 0.0, distances, xp.inf)
    return xp.exp(-safe_divide(distances * distances, scales, limit))
