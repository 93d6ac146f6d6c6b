"""Shortest paths along a class and how much longer they are than straight lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree

from mpda._lib.array_types import Array, Bools, Floats, Ints
from mpda._lib.arrays import (
    arange,
    array_namespace,
    full,
    is_numpy,
    pairwise_distances,
    put_smaller,
    rounds_between_checks,
    set_at,
    take,
    to_device,
)
from mpda.neighbors.graph import ClassPoints, NeighborLists, nonzero_pairs
from mpda.partition.path_squares import listed_squares, nearest_squares, path_squares


@dataclass(frozen=True)
class ClassDistances:
    """What the partition needs to know of one class.

    listed : (n, n) whether j is among the k' nearest neighbours of i
    lengths : (n, n) distance along the class, D^G (or D^E where geodesics are left out)
    tortuosity : (n, n) R_ij = D^G_ij / D^E_ij, or None where it is 1 by definition
    """

    listed: Array
    lengths: Array
    tortuosity: Array | None


@dataclass(frozen=True)
class PartDistances:
    """The same for parts of classes, whose squares stand one after the other.

    listed, lengths, tortuosity : (e,) the entries of all squares
    rows : (n,) where the row of each sample begins, the samples of a part one after the other
    columns : (n,) the place of each sample in a row
    sizes : (parts,) the number of samples, an array of NumPy
    linearity : (parts,) the mean of R_ij over the ordered pairs of a part
    """

    listed: Array
    lengths: Array
    tortuosity: Array | None
    rows: Array
    columns: Array
    sizes: Ints
    linearity: Array


def one_part(distances: ClassDistances) -> PartDistances:
    """A class as a part."""
    xp = array_namespace(distances.lengths)
    n = distances.lengths.shape[0]
    R = distances.tortuosity
    numbers = arange(n, distances.lengths)
    return PartDistances(
        xp.reshape(distances.listed, (-1,)),
        xp.reshape(distances.lengths, (-1,)),
        None if R is None else xp.reshape(R, (-1,)),
        numbers * n,
        numbers,
        np.array([n]),
        full(1, 1.0, distances.lengths) if R is None else xp.reshape(xp.mean(R), (1,)),
    )


def class_parts(
    points: Sequence[ClassPoints], lists: Sequence[NeighborLists], *, geodesic: bool
) -> PartDistances:
    """Whole classes as parts, each with its lists; with D^E in place of D^G unless geodesic."""
    xp = array_namespace(points[0].X)
    sizes = np.array([each.X.shape[0] for each in points])
    places, inside = _padded(np.cumsum(sizes) - sizes, sizes, points[0].X)
    X = take(xp.concat([each.X for each in points]), places)
    straight = pairwise_distances(X, X)
    listed = listed_squares(_padded_lists(lists, places, inside))
    if geodesic:
        return _geodesic_parts(listed, straight, inside, sizes)
    return _as_parts(listed, straight, None, sizes, full(len(sizes), 1.0, straight))


def _padded(starts: Ints, sizes: Ints, X: Array) -> tuple[Array, Array]:
    """The places (b, s) of the samples of parts, and where there is a sample (b, s).

    Where there is none, the place is that of the first.
    """
    xp = array_namespace(X)
    first = to_device(starts, X)[:, None]
    slots = arange(int(sizes.max()), X)[None, :]
    inside = slots < to_device(sizes, X)[:, None]
    return xp.where(inside, first + slots, first), inside


def _padded_lists(lists: Sequence[NeighborLists], places: Array, inside: Array) -> Array:
    """The lists (b, s, k) of classes, filled up with s."""
    xp = array_namespace(places)
    s = places.shape[1]
    k = max(each.indices.shape[1] for each in lists)
    columns = []
    for each in lists:
        n, own = each.indices.shape
        filling = full((n, k - own), s, places)
        columns.append(xp.concat([each.indices, filling], axis=1) if own < k else each.indices)
    return xp.where(inside[:, :, None], take(xp.concat(columns), places), s)


def _geodesic_parts(listed: Array, straight: Array, inside: Array, sizes: Ints) -> PartDistances:
    xp = array_namespace(straight)
    paths = path_squares(listed, straight, inside)
    pairs = inside[:, :, None] & inside[:, None, :]
    apart = pairs & (straight > 0.0)
    tortuosity = xp.where(apart, paths, 1.0) / xp.where(apart, straight, 1.0)
    totals = xp.sum(xp.sum(xp.where(pairs, tortuosity, 0.0), axis=2), axis=1)
    return _as_parts(listed, paths, tortuosity, sizes, totals / to_device(1.0 * sizes**2, totals))


def _as_parts(
    listed: Array, lengths: Array, tortuosity: Array | None, sizes: Ints, linearity: Array
) -> PartDistances:
    """Padded squares (b, s, s) as parts."""
    xp = array_namespace(lengths)
    s = lengths.shape[1]
    columns = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = (np.repeat(np.arange(sizes.size) * s, sizes) + columns) * s
    return PartDistances(
        xp.reshape(listed, (-1,)),
        xp.reshape(lengths, (-1,)),
        None if tortuosity is None else xp.reshape(tortuosity, (-1,)),
        to_device(rows, lengths),
        to_device(columns, lengths),
        sizes,
        linearity,
    )


def inner_parts(
    X: Array, order: Array, starts: Ints, sizes: Ints, n_neighbors: int
) -> PartDistances:
    """Parts of samples X (n, d), with lists that are found inside each.

    A part is as many of the samples in order (n,), from a start on, as its size says.
    """
    places, inside = _padded(starts, sizes, X)
    points = take(X, take(order, places))
    straight = pairwise_distances(points, points)
    listed = nearest_squares(straight, inside, n_neighbors)
    return _geodesic_parts(listed, straight, inside, sizes)


def geodesic_distances(points: ClassPoints, neighbors: NeighborLists) -> ClassDistances:
    """D^G and R of one class over its k'-NN graph, made connected."""
    if not is_numpy(points.X):
        return _only_class(class_parts([points], [neighbors], geodesic=True))
    straight = points.straight
    listed = _listed(neighbors)
    paths = _shortest_paths(listed | listed.T, straight)
    paths = np.maximum(np.minimum(paths, paths.T), straight)
    tortuosity = np.divide(paths, straight, out=np.ones_like(paths), where=straight > 0.0)
    return ClassDistances(listed, paths, tortuosity)


def euclidean_distances(points: ClassPoints, neighbors: NeighborLists) -> ClassDistances:
    """The paper's simplification for large classes: D^E in place of D^G, and R = 1."""
    if not is_numpy(points.X):
        return _only_class(class_parts([points], [neighbors], geodesic=False))
    return ClassDistances(_listed(neighbors), points.straight, None)


def _only_class(part: PartDistances) -> ClassDistances:
    """The one part that there is, as a class."""
    xp = array_namespace(part.lengths)
    shape = (int(part.sizes[0]), int(part.sizes[0]))
    R = part.tortuosity
    return ClassDistances(
        xp.reshape(part.listed, shape),
        xp.reshape(part.lengths, shape),
        None if R is None else xp.reshape(R, shape),
    )


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
    tails, heads = nonzero_pairs(joined)
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


def path_sweeps(tails: Array, heads: Array, lengths: Array, n: int) -> Callable[[Array], Array]:
    """A function from sources (r,) to the lengths (n,) of the shortest paths from any of them.

    Links run from tails to heads, all (e,) and sorted by tail. Both ways add up the lengths of a
    path from its source onwards, so they give the same numbers.
    """
    if is_numpy(lengths):
        starts = np.searchsorted(tails, np.arange(n + 1))
        # csgraph of SciPy 1.13 takes 32-bit indices only.
        indices = heads.astype(np.int32), starts.astype(np.int32)
        links = csr_array((lengths, *indices), shape=(n, n))
        return lambda sources: np.asarray(dijkstra(links, indices=sources, min_only=True))
    return lambda sources: _relaxed(tails, heads, lengths, n, sources)


def _relaxed(tails: Array, heads: Array, lengths: Array, n: int, sources: Array) -> Array:
    """Paths grow by one link a step, until a step changes nothing."""
    xp = array_namespace(lengths)
    paths = set_at(full(n, float("inf"), lengths), sources, 0.0)
    while True:
        for _ in range(rounds_between_checks(lengths)):
            paths = put_smaller(paths, heads, take(paths, tails) + lengths)
        before = xp.asarray(paths, copy=True)
        paths = put_smaller(paths, heads, take(paths, tails) + lengths)
        if not bool(xp.any(paths != before)):
            return paths
