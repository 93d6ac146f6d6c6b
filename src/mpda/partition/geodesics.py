"""Geodesic distances inside one class, the first step of the partition.

The geodesic distance D^G_ij is the length of the shortest path from i to j over the k'-nearest-
neighbour graph of the class. The tortuosity R_ij = D^G_ij / D^E_ij compares it with the straight
distance D^E_ij; its mean over the pairs of a patch is the linearity R^p of the patch. A graph
that is not connected is joined by the shortest edges between its components. All matrices are
NumPy arrays of shape (n, n).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree

from mpda._lib.array_types import Bools, Floats, Ints
from mpda._lib.arrays import iter_slices
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, nonzero_pairs

# Rows that are compared with their columns at a time. Larger blocks are not faster.
_BLOCK_ROWS = 256


@dataclass(frozen=True)
class ClassDistances:
    """Distances and neighbours of all pairs of samples of a class, or of a patch.

    Parameters
    ----------
    is_neighbor : ndarray of bool of shape (n, n)
        True where j is among the k' nearest neighbours of i.
    lengths : ndarray of shape (n, n)
        Distances along the class: D^G, or D^E where geodesics are left out.
    tortuosity : ndarray of shape (n, n) or None
        R_ij; None where it is 1 by definition.
    """

    is_neighbor: Bools
    lengths: Floats
    tortuosity: Floats | None


def geodesic_distances(points: ClassPoints, neighbors: NeighborLists) -> ClassDistances:
    """Compute D^G and R of one class (linearScore).

    Parameters
    ----------
    points : ClassPoints
        Samples of the class, n rows.
    neighbors : NeighborLists
        Their k' nearest neighbours.

    Returns
    -------
    ClassDistances
        D^G is symmetric and never below D^E. R_ij is 1 where D^E_ij = 0.
    """
    straight = points.take_straight()
    is_neighbor = _neighbor_mask(neighbors)
    paths = _shortest_paths(is_neighbor | is_neighbor.T, straight)
    # Sums along a path depend on its direction in the last bit, and may fall below D^E by rounding.
    _make_symmetric(paths)
    np.maximum(paths, straight, out=paths)
    # R is written over D^E: only two matrices of all pairs exist at the same time.
    is_copy = straight == 0.0
    tortuosity = np.divide(paths, straight, out=straight, where=~is_copy)
    tortuosity[is_copy] = 1.0
    return ClassDistances(is_neighbor, paths, tortuosity)


def euclidean_distances(points: ClassPoints, neighbors: NeighborLists) -> ClassDistances:
    """Use D^E in place of D^G, and R = 1 (the paper's "further improvement").

    Parameters
    ----------
    points : ClassPoints
        Samples of the class, n rows.
    neighbors : NeighborLists
        Their k' nearest neighbours.

    Returns
    -------
    ClassDistances
        Straight distances without a tortuosity.
    """
    return ClassDistances(_neighbor_mask(neighbors), points.take_straight(), None)


def _neighbor_mask(neighbors: NeighborLists) -> Bools:
    n = len(neighbors.indices)
    mask = np.zeros((n, n), dtype=bool)
    mask[np.arange(n)[:, None], neighbors.indices] = True
    return mask


def _make_symmetric(D: Floats) -> None:
    """Replace D_ij and D_ji by the smaller of the two, in place and by blocks of rows."""
    for rows in iter_slices(len(D), _BLOCK_ROWS):
        smaller = np.minimum(D[rows, rows.start :], D[rows.start :, rows].T)
        D[rows, rows.start :] = smaller
        D[rows.start :, rows] = smaller.T


def _shortest_paths(adjacency: Bools, straight: Floats) -> Floats:
    """Shortest paths (n, n) over a graph; edges are added in place until it is connected."""
    graph = _weighted_graph(adjacency, straight)
    paths = dijkstra(graph)
    # The graph is undirected, so one row shows whether it is connected.
    if np.isinf(paths[0]).any():
        tails, heads = _bridges(graph, straight).T
        adjacency[tails, heads] = adjacency[heads, tails] = True
        paths = dijkstra(_weighted_graph(adjacency, straight))
    return np.asarray(paths)


def _weighted_graph(adjacency: Bools, straight: Floats) -> csr_array:
    """Store the edges with their lengths as a sparse matrix.

    Edges of length 0 (duplicates) are stored explicitly; csgraph treats them as edges.
    """
    rows, columns = nonzero_pairs(adjacency)
    # The edges are in the order of the rows: sorting them again would take a third of the time of
    # small classes.
    starts = np.searchsorted(rows, np.arange(len(adjacency) + 1))
    lengths = straight[rows, columns]
    # Dijkstra of SciPy 1.14 takes indices of 32 bits only; a class has fewer samples than 2^31.
    columns, starts = columns.astype(np.int32), starts.astype(np.int32)
    return csr_array((lengths, columns, starts), shape=adjacency.shape)


def _bridges(graph: csr_array, straight: Floats) -> Ints:
    """Select the edges (b, 2) that connect the components of a graph.

    The shortest edge between two components is added until there is one component. This is the
    minimum spanning tree of the components. Edges are ranked by (length, indices), which makes it
    unique.
    """
    n_components, component = connected_components(graph, directed=False)
    n = len(component)
    # Nearest sample of each component (columns) to each sample (rows), lowest index at a tie.
    nearest = np.empty((n, n_components), dtype=np.intp)
    for c in range(n_components):
        members = np.flatnonzero(component == c)
        nearest[:, c] = members[np.argmin(straight[:, members], axis=1)]
    samples = np.repeat(np.arange(n), n_components)
    tails, heads = np.sort([samples, nearest.ravel()], axis=0)
    order = np.lexsort((heads, tails, straight[tails, heads]))
    edges = np.column_stack([tails, heads])[order]
    ends = np.sort(component[edges], axis=1)
    # The first edge of each pair of components is the shortest one. Ranks start at 1, because
    # csgraph drops edges of weight 0; it ignores edges inside a component.
    pairs, first = np.unique(ends, axis=0, return_index=True)
    shape = n_components, n_components
    component_graph = csr_array((first + 1.0, tuple(pairs.T)), shape=shape)
    return edges[minimum_spanning_tree(component_graph).data.astype(np.intp) - 1]
