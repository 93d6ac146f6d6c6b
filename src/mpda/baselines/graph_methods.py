"""The forms of the graph methods, each a recipe of graphs and scatters.

Every form is a sum over the edges of a graph with weights w_ij, X'LX = 1/2 sum_ij w_ij d_ij d_ij'
over ordered pairs (half of LapSb and LapSw in the paper), but for LSDA's, which weighs samples too.
``each`` carries out the work on classes, as ``engines.in_order`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import zeros
from mpda._lib.coordinates import Coordinates
from mpda.baselines.alignment import (
    Fields,
    alignment_scatter,
    class_fields,
    closed_group,
    settled_within_groups,
)
from mpda.discriminant.eigenproblem import numerical_rank
from mpda.discriminant.scatter import (
    AffinityScatter,
    BetweenClassSums,
    ClassScatter,
    class_scatter,
    edge_scatter,
    full_affinity_scatter,
    graph_scatter,
    neighbor_affinity_scatter,
    symmetrize,
)
from mpda.discriminant.solutions import Pencil, Solution, least_squares, number_kept
from mpda.neighbors.closest_pairs import closest_pairs
from mpda.neighbors.graph import (
    ClassPoints,
    EmbeddedGraph,
    NeighborLists,
    build_class_graph,
    center,
    symmetric_graph,
)

Each = Callable[..., Iterator[Any]]

# Neighbourhoods that are one piece of work.
_PIECE = 1000


def local_pencil(
    view: Coordinates, classes: Sequence[Ints], n_neighbors: int, affinity: str, each: Each
) -> Pencil:
    """LFDA: W_lb = A (1/n - 1/n_c) inside class c and 1/n across; W_lw = A / n_c inside class c.

    The affinity A is "full" (every pair of a class), "knn" (neighbours only) or "ones", which makes
    the two forms Fisher's between-class and within-class scatter.
    """
    work = ((*view.part(members), n_neighbors, affinity) for members in classes)
    between = BetweenClassSums.empty(view.dimension, view.origin)
    within = zeros((view.dimension, view.dimension), view.origin)
    for part in each(_local_scatter, work, len(classes)):
        between += part.scatter
        within += part.near / part.scatter.count
    return Pencil(0.5 * between.form(), 0.5 * within)


@dataclass(frozen=True)
class _LocalScatter:
    scatter: ClassScatter
    near: Array


def _local_scatter(
    points: Array, coordinates: Array, n_neighbors: int, affinity: str
) -> _LocalScatter:
    shares = _AFFINITIES[affinity](points, coordinates, n_neighbors)
    return _LocalScatter(class_scatter(coordinates, shares.distant), shares.near)


def _full_affinity(points: Array, coordinates: Array, n_neighbors: int) -> AffinityScatter:
    placed = EmbeddedGraph(coordinates, build_class_graph(ClassPoints(points), n_neighbors))
    return full_affinity_scatter(placed, points)


def _neighbor_affinity(points: Array, coordinates: Array, n_neighbors: int) -> AffinityScatter:
    placed = EmbeddedGraph(coordinates, build_class_graph(ClassPoints(points), n_neighbors))
    return neighbor_affinity_scatter(placed)


def _no_affinity(points: Array, coordinates: Array, n_neighbors: int) -> AffinityScatter:
    offsets = center(coordinates)
    near = (2.0 * offsets.shape[0]) * (offsets.T @ offsets)
    return AffinityScatter(near, 0.0 * near)


_AFFINITIES = {"full": _full_affinity, "knn": _neighbor_affinity, "ones": _no_affinity}
AFFINITIES = tuple(_AFFINITIES)


def neighbor_form(
    view: Coordinates, classes: Sequence[Ints], n_neighbors: int, each: Each
) -> Floats:
    """MFA's intrinsic graph: weight 1 between a sample and its k nearest of the class, union."""
    work = ((*view.part(members), n_neighbors) for members in classes)
    total = np.zeros((view.dimension, view.dimension))
    for part in each(_neighbor_scatter, work, len(classes)):
        total += part
    return 0.5 * symmetrize(total)


def _neighbor_scatter(points: Floats, coordinates: Floats, n_neighbors: int) -> Floats:
    return graph_scatter(
        EmbeddedGraph(coordinates, build_class_graph(ClassPoints(points), n_neighbors))
    )


def pair_form(
    view: Coordinates, classes: Sequence[Ints], n_pairs: int, penalty: str, each: Each
) -> Floats:
    """MFA's penalty graph: weight 1 on the closest pairs of samples from different classes."""
    edges = penalty_edges(view.points, classes, n_pairs, penalty, each)
    return edge_scatter(view.all_coordinates, edges, np.ones(len(edges)))


PENALTIES = ("class", "global")


def penalty_edges(
    points: Floats, classes: Sequence[Ints], n_pairs: int, penalty: str, each: Each
) -> Ints:
    """The edges (e, 2) of the penalty graph, lower index first.

    With penalty "class" the ``n_pairs`` closest pairs between each class and the rest; with
    "global" the ``n_pairs`` smallest entries of the distance matrix of all samples, in which every
    pair stands twice.
    """
    codes = class_codes(classes, len(points))
    rows = classes if penalty == "class" else [np.arange(len(points))]
    work = ((points, codes, chosen, n_pairs) for chosen in rows)
    found = np.concatenate(list(each(closest_pairs, work, len(rows))))
    return np.unique(np.sort(found, axis=1), axis=0)


def class_codes(classes: Sequence[Ints], n: int) -> Ints:
    """The number of the class of each sample (n,)."""
    codes = np.empty(n, dtype=np.intp)
    for number, members in enumerate(classes):
        codes[members] = number
    return codes


def weighted_form(view: Coordinates, links: coo_array) -> Floats:
    """The form of any symmetric weights (n, n)."""
    above = links.row < links.col
    edges = np.column_stack([links.row[above], links.col[above]]).astype(np.intp)
    return edge_scatter(view.all_coordinates, edges, links.data[above])


@dataclass(frozen=True)
class LsdaForms:
    """LSDA's graph as forms (d, d): its edges across and inside classes, and its samples weighed.

    across : X'L_b X
    inside : X'L_w X
    weighed : X'D_w X
    """

    across: Floats
    inside: Floats
    weighed: Floats

    def pencil(self, between_share: float) -> Pencil:
        """X'[b/(1-b) L_b + W_w]X against X'D_w X, by X'W_w X = X'D_w X - X'L_w X."""
        share = between_share / (1.0 - between_share)
        return Pencil(share * self.across + (self.weighed - self.inside), self.weighed)


def lsda_forms(view: Coordinates, classes: Sequence[Ints], lists: NeighborLists) -> LsdaForms:
    """One graph over all samples, the union of their k-nearest-neighbour lists with self loops.

    W_w are its edges inside classes, W_b those across.
    """
    edges = symmetric_graph(lists).edges
    codes = class_codes(classes, len(view.samples))
    alike = codes[edges[:, 0]] == codes[edges[:, 1]]
    inside, across = edges[alike], edges[~alike]
    Z = view.all_coordinates
    degrees = 1.0 + np.bincount(inside.ravel(), minlength=len(Z))  # 1 for the self loop
    offsets = center(Z)
    return LsdaForms(
        edge_scatter(Z, across, np.ones(len(across))),
        edge_scatter(Z, inside, np.ones(len(inside))),
        symmetrize((offsets.T * degrees) @ offsets),
    )


def lltsa_pencil(view: Coordinates, lists: Ints, dimension: int, each: Each) -> Pencil:
    """LLTSA: X'BX against X'X, B the alignment of local coordinates in neighbourhoods (n, k)."""
    Z = view.all_coordinates
    pieces = np.array_split(lists, -(-len(lists) // _PIECE))
    work = ((Z, piece, dimension) for piece in pieces)
    aligned = np.zeros((view.dimension, view.dimension))
    for part in each(alignment_scatter, work, len(pieces)):
        aligned += part
    offsets = center(Z)
    return Pencil(aligned, symmetrize(offsets.T @ offsets))


FieldSource = Callable[[int], Fields]
"""The smoothest fields, given how many."""


def followed_fields(
    view: Coordinates, source: FieldSource, alpha: float, n_components: int | None
) -> Solution:
    """LPFE: directions that follow the smoothest fields, each independent of those before it."""
    wanted = n_components or view.dimension
    n_fields = wanted
    while True:
        fields = source(n_fields)
        solution = least_squares(view, fields, alpha)
        n_found = solution.directions.eigenvalues.size
        if n_found >= min(wanted, numerical_rank(fields.within)) or n_fields >= fields.n_all:
            return solution.first(min(number_kept(n_found, n_components), wanted))
        n_fields *= 2  # some fields ask for the same direction


def smoothest_fields(
    view: Coordinates,
    classes: Sequence[Ints],
    n_neighbors: int,
    tangent_energy: float,
    n_fields: int,
    each: Each,
) -> Fields:
    """The fields of all classes that turn least, by increasing energy."""
    work = ((*view.part(members), n_neighbors, tangent_energy, n_fields) for members in classes)
    parts = list(each(class_fields, work, len(classes)))
    energies = np.concatenate([part.energies for part in parts])
    order = np.argsort(energies, kind="stable")
    order = order[: closed_group(energies[order], n_fields)]
    pulls = np.concatenate([part.pulls for part in parts], axis=1)
    within = symmetrize(np.sum([part.within for part in parts], axis=0))
    n_all = sum(part.n_all for part in parts)
    return settled_within_groups(Fields(energies[order], pulls[:, order], within, n_all))
