"""Scatter matrices of the graph methods: LFDA, MFA, LSDA and Fisher's discriminant analysis.

A graph with symmetric weights W has the scatter matrix X'LX = 1/2 sum_ij W_ij d_ij d_ij' over
ordered pairs, with L = D - W its Laplacian and d_ij = x_i - x_j. (LapSb and LapSw in the paper are
twice that.) A method is a generalized eigenproblem of two such matrices; LSDA weights the samples
as well. Depends on the neighbour graphs and on ``discriminant.scatter``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
from scipy.sparse import coo_array

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import zeros
from mpda._lib.sample_weights import pair_weights
from mpda._lib.samples import ClassSamples
from mpda.baselines.training_data import TrainingData
from mpda.discriminant import scatter
from mpda.discriminant.eigenproblem import Eigenproblem
from mpda.neighbors.closest_pairs import closest_pairs
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph, center, symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints

AFFINITIES = ("full", "knn", "ones")
PENALTIES = ("class", "global")


def local_fisher_problem(data: TrainingData, n_neighbors: int, affinity: str) -> Eigenproblem:
    """Compute the local between-class and within-class scatter of LFDA (LapSb, LapSw).

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_neighbors : int
        Number of neighbours k in the local scale of the affinity.
    affinity : {"full", "knn", "ones"}
        Affinity A of every pair of a class, of neighbours only, or 1 for every pair, which makes
        the matrices Fisher's between-class and within-class scatter.

    Returns
    -------
    Eigenproblem
        The scatter of W_lb over that of W_lw.

    Notes
    -----
    W_lb = A (1/n - 1/n_c) inside class c and 1/n across classes; W_lw = A / n_c inside class c
    (Sugiyama 2007).
    """
    between, within = (
        None,
        zeros((data.samples.coordinates.dimension,) * 2, data.samples.coordinates.origin),
    )
    for sums, near in data.map_classes("scatters", _local_scatter, n_neighbors, affinity):
        between = sums if between is None else between + sums
        within += near / float(sums.counts[0])
        del sums, near  # the next class is computed without the matrices of this one
    assert between is not None  # there is at least one class
    return Eigenproblem(0.5 * between.form(), 0.5 * within)


def _local_scatter(
    samples: ClassSamples, n_neighbors: int, affinity: str
) -> tuple[scatter.BetweenClassSums, Array]:
    """Return the sums over a class for W_lb, and sum_ij w_i w_j A_ij d_ij d_ij' (d, d)."""
    points, Z, weights = samples.points, samples.coordinates, samples.weights
    if affinity == "ones":  # no pair is visited, and no pair is distant
        near = scatter.all_pairs_scatter(Z if samples.sparse is None else samples.sparse, weights)
        return scatter.BetweenClassSums.of_class(Z, 0.0 * near, weights), near
    # Neighbours are searched among the points and not in Z, so that equal distances stay equal.
    neighbors = build_class_graph(ClassPoints(points, samples.sparse), n_neighbors)
    graph = EmbeddedGraph(Z, neighbors, weights, samples.sparse)
    if affinity == "full":
        shares = scatter.full_affinity_scatter(graph, points)
    else:
        shares = scatter.neighbor_affinity_scatter(graph)
    return scatter.BetweenClassSums.of_class(Z, shares.distant, weights), shares.near


def intrinsic_scatter(data: TrainingData, n_neighbors: int) -> Floats:
    """Compute the scatter of MFA's intrinsic graph, the k-NN graph inside classes.

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_neighbors : int
        Number of neighbours; the graph is the union of the lists, with weight 1.

    Returns
    -------
    ndarray of shape (d, d)
        X'L_c X.
    """
    scatters = data.map_classes("neighbour graphs", _class_intrinsic_scatter, n_neighbors)
    d = data.samples.coordinates.dimension
    # graph_scatter sums over ordered pairs, so every edge counts twice.
    return 0.5 * scatter.symmetrize(sum(scatters, np.zeros((d, d))))


def _class_intrinsic_scatter(samples: ClassSamples, n_neighbors: int) -> Floats:
    graph = build_class_graph(ClassPoints(samples.points), n_neighbors)
    return scatter.graph_scatter(EmbeddedGraph(samples.coordinates, graph, samples.weights))


def penalty_scatter(data: TrainingData, n_pairs: int, penalty: str) -> Floats:
    """Compute the scatter of MFA's penalty graph, the closest pairs of different classes.

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_pairs : int
        Number of closest pairs, as in :func:`penalty_edges`.
    penalty : {"class", "global"}
        Count pairs for each class or over all samples.

    Returns
    -------
    ndarray of shape (d, d)
        X'L_p X with weight 1 on every edge, or w_i w_j for weighted samples.
    """
    edges = penalty_edges(data, n_pairs, penalty)
    return _sample_scatter(data, edges, np.ones(len(edges)))


def penalty_edges(data: TrainingData, n_pairs: int, penalty: str) -> Ints:
    """Find the edges of MFA's penalty graph.

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_pairs : int
        Number of closest pairs.
    penalty : {"class", "global"}
        "class" takes the closest pairs between each class and all others (Yan et al. 2007);
        "global" the smallest entries of the distance matrix of all samples, which contains every
        pair twice (the program of D. Cai).

    Returns
    -------
    ndarray of shape (e, 2)
        Edges without duplicates, lower index first.
    """
    points, codes = data.local_samples.points, data.codes
    row_sets = data.local_samples.members if penalty == "class" else [np.arange(len(points))]
    arguments = ((points, codes, rows, n_pairs) for rows in row_sets)
    searches = data.map_tasks("closest pairs", closest_pairs, arguments, len(row_sets), "searches")
    # A pair may be among the closest of both of its classes, but is one edge of weight 1.
    return np.unique(np.sort(np.concatenate(list(searches)), axis=1), axis=0)


def weighted_scatter(data: TrainingData, adjacency: coo_array) -> Floats:
    """Compute the scatter X'LX of a graph with any symmetric weights.

    Parameters
    ----------
    data : TrainingData
        The samples.
    adjacency : coo_array of shape (n, n)
        Symmetric weights; the diagonal has no effect.

    Returns
    -------
    ndarray of shape (d, d)
        1/2 sum_ij w_i w_j W_ij d_ij d_ij' over ordered pairs.
    """
    # One triangle holds every pair once, which gives the factor 1/2 of the sum.
    upper = adjacency.row < adjacency.col
    edges = np.column_stack([adjacency.row[upper], adjacency.col[upper]]).astype(np.intp)
    return _sample_scatter(data, edges, adjacency.data[upper])


def _sample_scatter(data: TrainingData, edges: Ints, weights: Floats) -> Floats:
    """Return the scatter (d, d) of edges (e, 2) between any samples, times w_i w_j."""
    samples = data.local_samples
    if samples.weights is not None:
        weights = weights * pair_weights(samples.weights, edges)
    return scatter.edge_scatter(samples.all_coordinates, edges, weights)


@dataclass(frozen=True)
class LSDAScatters:
    """Scatter matrices of LSDA, from which the eigenproblem for any b follows.

    Parameters
    ----------
    across : ndarray of shape (d, d)
        X'L_b X, the edges between samples of different classes.
    inside : ndarray of shape (d, d)
        X'L_w X, the edges between samples of one class.
    degree_weighted : ndarray of shape (d, d)
        X'D_w X, each centred sample weighted by its degree in W_w.
    """

    across: Floats
    inside: Floats
    degree_weighted: Floats

    def eigenproblem(self, between_share: float) -> Eigenproblem:
        """Return the eigenproblem X'[b/(1-b) L_b + W_w]X t = lambda X'D_w X t.

        Parameters
        ----------
        between_share : float
            The weight b of edges between classes, from 0 to below 1.

        Returns
        -------
        Eigenproblem
            The numerator uses X'W_w X = X'D_w X - X'L_w X.
        """
        # The paper maximises b L_b + (1 - b) W_w. Divided by 1 - b, the term of W_w is the same for
        # all b, and only eigenvalues change by a factor.
        weight = between_share / (1.0 - between_share)
        numerator = weight * self.across + (self.degree_weighted - self.inside)
        return Eigenproblem(numerator, self.degree_weighted)


def lsda_scatters(data: TrainingData, n_neighbors: int) -> LSDAScatters:
    """Compute the scatter matrices of LSDA (Cai et al. 2007).

    Parameters
    ----------
    data : TrainingData
        The samples by class.
    n_neighbors : int
        Number of neighbours in the graph over all samples.

    Returns
    -------
    LSDAScatters
        The graph is the union of the neighbour lists with self loops; W_w are its edges inside
        classes, W_b those across.
    """
    edges, codes = symmetric_graph(data.neighbors(n_neighbors)).edges, data.codes
    same_class = codes[edges[:, 0]] == codes[edges[:, 1]]
    inside, across = edges[same_class], edges[~same_class]
    Z = data.local_samples.all_coordinates
    degrees = 1.0 + np.bincount(inside.ravel(), minlength=len(Z))  # 1 for the self loop
    # D_w is no Laplacian, so X'D_w X depends on the origin, for which the mean is taken.
    offsets = center(Z)
    return LSDAScatters(
        scatter.edge_scatter(Z, across, np.ones(len(across))),
        scatter.edge_scatter(Z, inside, np.ones(len(inside))),
        scatter.symmetrize((offsets.T * degrees) @ offsets),
    )


class GraphParameters(Protocol):
    """Parameters of an estimator that named graphs read."""

    n_neighbors: int
    n_pairs: int
    penalty: str


@dataclass(frozen=True)
class NamedGraph:
    """A graph that :class:`mpda.GraphDiscriminant` selects by its name.

    Parameters
    ----------
    compute : callable
        ``compute(data, estimator)`` returns the scatter X'LX of shape (d, d). It reads the
        parameters of the graph from the estimator.
    uses_neighbors : bool, default=False
        True if the graph has ``n_neighbors``. A fit then warns of classes with fewer samples.
    """

    compute: Callable[[TrainingData, GraphParameters], Array]
    uses_neighbors: bool = False


def _fisher_problem(data: TrainingData, estimator: GraphParameters, affinity: str) -> Eigenproblem:
    return data.cached(local_fisher_problem, estimator.n_neighbors, affinity)


# A new graph is one more entry. The parameter check, its message, the search and the tests of
# hostile data read these two tables.
WITHIN_GRAPHS = MappingProxyType(
    {
        "fisher": NamedGraph(lambda data, e: _fisher_problem(data, e, "ones").denominator),
        "local": NamedGraph(
            lambda data, e: _fisher_problem(data, e, "full").denominator, uses_neighbors=True
        ),
        "neighbors": NamedGraph(
            lambda data, e: data.cached(intrinsic_scatter, e.n_neighbors), uses_neighbors=True
        ),
    }
)
BETWEEN_GRAPHS = MappingProxyType(
    {
        "fisher": NamedGraph(lambda data, e: _fisher_problem(data, e, "ones").numerator),
        "local": NamedGraph(
            lambda data, e: _fisher_problem(data, e, "full").numerator, uses_neighbors=True
        ),
        "pairs": NamedGraph(lambda data, e: data.cached(penalty_scatter, e.n_pairs, e.penalty)),
    }
)
