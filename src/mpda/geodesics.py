"""Shortest paths along a class and how much longer they are than straight lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree

from mpda._typing import Bools, Floats, Ints
from mpda.graphs import ClassPoints, NeighborLists, true_pairs


@dataclass(frozen=True)
class ClassDistances:
    """What the partition needs to know of one class.

    listed : (n, n) whether j is among the k' nearest neighbours of i
    lengths : (n, n) distance along the class, D^G (or D^E where geodesics are left out)
    tortuosity : (n, n) R_ij = D^G_ij / D^E_ij, or None where it is 1 by definition
    """

    listed: Bools
    lengths: Floats
    tortuosity: Floats | None


def geodesic_distances(points: ClassPoints, neighbors: NeighborLists) -> ClassDistances:
    """D^G and R of one class over its k'-NN graph, made connected."""
    straight = points.straight
    listed = _listed(neighbors)
    paths = _shortest_paths(listed | listed.T, straight)
    paths = np.maximum(np.minimum(paths, paths.T), straight)
    tortuosity = np.divide(paths, straight, out=np.ones_like(paths), where=straight > 0.0)
    return ClassDistances(listed, paths, tortuosity)


def euclidean_distances(points: ClassPoints, neighbors: NeighborLists) -> ClassDistances:
    """The paper's simplification for large classes: D^E in place of D^G, and R = 1."""
    return ClassDistances(_listed(neighbors), points.straight, None)


def _listed(neighbors: NeighborLists) -> Bools:
    n = len(neighbors.indices)
    listed = np.zeros((n, n), dtype=bool)
    listed[np.arange(n)[:, None], neighbors.indices] = True
    return listed


def _shortest_paths(joined: Bools, straight: Floats) -> Floats:
    """The shortest paths (n, n) over the joined pairs, more of which are joined if they must be."""
    links = _links(joined, straight)
    paths = dijkstra(links)
    if np.isinf(paths[0]).any():
        tails, heads = _bridges(links, straight).T
        joined[tails, heads] = joined[heads, tails] = True
        paths = dijkstra(_links(joined, straight))
    return np.asarray(paths)


def _links(joined: Bools, straight: Floats) -> csr_array:
    """The joined pairs with their lengths as a sparse matrix.

    An edge of length 0 (duplicates) is stored like any other, and csgraph reads what is stored.
    """
    tails, heads = true_pairs(joined)
    starts = np.searchsorted(tails, np.arange(len(joined) + 1))
    # csgraph of SciPy 1.13 takes 32-bit indices only.
    indices = heads.astype(np.int32), starts.astype(np.int32)
    return csr_array((straight[tails, heads], *indices), shape=joined.shape)


def _bridges(links: csr_array, straight: Floats) -> Ints:
    """The edges (b, 2) that join components, shortest first, until there is one component.

    This is Kruskal's algorithm on the components, so the minimum spanning tree of the shortest
    edges between them; edges are ranked by (length, indices) to make it unique.
    """
    n_components, component = connected_components(links, directed=False)
    bridges = _shortest_bridges(straight, component.astype(np.intp), n_components)
    tails, heads = bridges.T
    order = np.lexsort((heads, tails, straight[tails, heads]))
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    between = coo_array(
        (rank, (component[tails], component[heads])), shape=(n_components, n_components)
    )
    chosen = minimum_spanning_tree(between.tocsr()).data.astype(np.intp) - 1
    return bridges[order[chosen]]


def _shortest_bridges(straight: Floats, component: Ints, n_components: int) -> Ints:
    """For each pair of components its shortest edge (b, 2), lower index first, ties by index."""
    n = straight.shape[0]
    order = np.argsort(component, kind="stable")
    starts = np.searchsorted(component[order], np.arange(n_components))
    # Nearest sample of each component (columns) to each sample (rows), first index at a tie.
    nearest = np.empty((n, n_components), dtype=np.intp)
    for c, members in enumerate(np.split(order, starts[1:])):
        nearest[:, c] = members[np.argmin(straight[:, members], axis=1)]
    tails = np.repeat(np.arange(n), n_components)
    heads = nearest.ravel()
    own, other = component[tails], component[heads]
    ascending = tails < heads
    tails, heads = np.where(ascending, tails, heads), np.where(ascending, heads, tails)
    pair = np.minimum(own, other) * n_components + np.maximum(own, other)
    order = np.lexsort((heads, tails, straight[tails, heads], pair))
    order = order[own[order] != other[order]]
    _, first = np.unique(pair[order], return_index=True)
    return np.column_stack([tails, heads])[order[first]]
