"""Neighbour search by the parameter ``neighbor_search``: exact, or by another library.

An approximate search only proposes candidates. They are ranked by exact distances, so a list may
miss a neighbour but never contains a wrong distance. The share of missed neighbours is not
measured; compare with "exact" on a part of the samples if it matters.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone

from mpda._lib.array_types import Floats
from mpda._lib.arrays import to_device, to_host
from mpda._lib.validation import check_option
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors, pair_distances

NEIGHBOR_SEARCHES = ("auto", "exact", "faiss")
# Smaller classes are searched exactly, also by "faiss": that takes a few seconds at most.
_MIN_FAISS_SIZE = 20_000
# Cells that are searched, of sqrt(n): of MNIST's 60,000 digits as one class, 16 of 244 cells find
# 99.3 % of the neighbours in half the time of the exact search (benchmarks/scale.py neighbors).
_N_PROBES = 16
# Candidates beyond k, because faiss compares in single precision.
_N_SPARE = 4


def check_neighbor_search(value: Any) -> Any:
    """Check the parameter ``neighbor_search``.

    Parameters
    ----------
    value : object
        Name of a search, or a scikit-learn transformer with ``fit_transform``.

    Returns
    -------
    object
        The value.

    Raises
    ------
    ValueError
        If the value is neither.
    ImportError
        If it is "faiss" and faiss is not installed.
    """
    if hasattr(value, "fit_transform") and not isinstance(value, type):
        return value
    also = ", or a neighbours transformer of scikit-learn with fit_transform"
    check_option("neighbor_search", value, NEIGHBOR_SEARCHES, also=also)
    if value == "faiss" and find_spec("faiss") is None:
        raise ImportError(
            'neighbor_search="faiss" needs the package faiss, which is not installed: '
            'pip install "mpda[faiss]" (or faiss-cpu).'
        )
    return value


def search_neighbors(
    points: ClassPoints, n_neighbors: int, neighbor_search: Any = "auto"
) -> NeighborLists:
    """Find the nearest neighbours of all samples of a class.

    Parameters
    ----------
    points : ClassPoints
        Samples of the class, on the host or on a device.
    n_neighbors : int
        Number of neighbours, cut to n - 1.
    neighbor_search : {"auto", "exact", "faiss"} or transformer, default="auto"
        "auto" and "exact" compare all pairs. "faiss" uses an inverted file in classes of more than
        20,000 samples. A transformer is cloned and fitted to the class; it must return a sparse
        graph with at least k neighbours of every sample, like ``KNeighborsTransformer``.

    Returns
    -------
    NeighborLists
        Lists of k = min(n_neighbors, n - 1) neighbours, on the device of the samples.
    """
    n = points.X.shape[0]
    k = min(n_neighbors, n - 1)
    if isinstance(neighbor_search, str):
        is_exact = neighbor_search != "faiss" or n <= _MIN_FAISS_SIZE
    else:  # a transformer may refuse a class that has no more samples than it has neighbours
        is_exact = n <= (getattr(neighbor_search, "n_neighbors", None) or 1)
    if is_exact:
        return find_neighbors(points, k)
    X = to_host(points.X)
    if isinstance(neighbor_search, str):
        graph = _search_by_faiss(X, k)
    else:
        with config_context(array_api_dispatch=False):
            graph = csr_array(clone(neighbor_search).fit_transform(X))
    lists = _rank_edges(X, graph, k, neighbor_search)
    return NeighborLists(to_device(lists.indices, points.X), to_device(lists.distances, points.X))


def _search_by_faiss(X: Floats, k: int) -> csr_array:
    """Search k-means cells of the samples X (n, d) for candidates; graph (n, n)."""
    import faiss

    n, d = X.shape
    Z = (X - X.mean(axis=0)).astype(np.float32)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, int(np.sqrt(n)))
    index.train(Z)
    index.add(Z)
    index.nprobe = _N_PROBES
    heads = index.search(Z, k + 1 + _N_SPARE)[1]
    incomplete = (heads < 0).any(axis=1)
    if incomplete.any():  # the cells have too few samples: search all of them
        index.nprobe = index.nlist
        heads[incomplete] = index.search(Z[incomplete], k + 1 + _N_SPARE)[1]
    starts = np.arange(0, heads.size + 1, heads.shape[1])
    return csr_array((np.ones(heads.size), heads.ravel(), starts), shape=(n, n))


def _rank_edges(X: Floats, graph: csr_array, k: int, neighbor_search: Any) -> NeighborLists:
    """Select the k shortest edges at each sample from a graph (n, n), ties by lower index.

    Edges from a sample to itself are ignored.
    """
    n = len(X)
    tails, heads = np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices.astype(np.intp)
    tails, heads = tails[tails != heads], heads[tails != heads]
    if graph.shape != (n, n) or np.bincount(tails, minlength=n).min() < k:
        raise ValueError(
            f"neighbor_search={neighbor_search!r} must return a sparse graph with at least {k} "
            f"neighbours (the larger of n_neighbors and partition_neighbors) of each of the {n} "
            f"samples of a class. Set its n_neighbors to {k} or more ({k + 1} if it counts the "
            "sample itself)."
        )
    distances = pair_distances(X, tails, heads)
    order = np.lexsort((heads, distances, tails))
    order = order[np.searchsorted(tails, np.arange(n))[:, None] + np.arange(k)]
    return NeighborLists(heads[order], distances[order])
