"""The stages of one class: neighbours, patches, tangent bases, the form S, its Schur complement.

W never joins two classes, so a fit is independent work for each class, a sum, and one eigenproblem.
Each stage is computed when first needed and kept as long as memory allows. A fit asks for each
stage once, a search over parameters many times, a cluster keeps the stages on its workers. Depends
on ``neighbors``, ``partition`` and the modules of this folder that compute one stage each.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import (
    add_segments,
    array_namespace,
    is_numpy,
    ldexp,
    take,
    to_device,
    to_host,
    zeros,
)
from mpda._lib.samples import ClassSamples, LabelledSamples
from mpda._lib.validation import load_class
from mpda.discriminant.class_sums import ClassSummary, ClassSums, Contributions
from mpda.discriminant.scatter import (
    BetweenClassSums,
    full_affinity_scatter,
    graph_scatter,
    neighbor_affinity_scatter,
)
from mpda.discriminant.schur_complement import EliminationResult, eliminate_tangents
from mpda.discriminant.settings import ClassSettings, Strengths, UserObject
from mpda.discriminant.tangents import TangentBases, neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import WithinForm, WithinFormBuilder
from mpda.neighbors.approximate_search import search_neighbors
from mpda.neighbors.graph import (
    ClassGraph,
    EmbeddedGraph,
    build_class_graph,
    symmetric_graph,
)
from mpda.neighbors.neighbor_lists import (
    ClassPoints,
    CompactLists,
    NeighborLists,
    find_neighbors,
    pair_distances,
)
from mpda.partition.principal_axis_tree import principal_axis_forest
from mpda.partition.rules import PartitionRule, cluster_class, known_patches
from mpda.partition.tree import Partition

# From this many samples on, most of the work on a class is in NumPy, SciPy and scikit-learn, which
# release Python's lock, so that classes gain from threads.
LARGE_CLASS = 1000


class ClassStages:
    """The stages of one class, computed when first needed and kept.

    Parameters
    ----------
    samples : LabelledSamples
        Samples of all classes.
    index : int
        Number of the class.
    patch_labels : ndarray of shape (n,), default=None
        Patches given by the user, in place of a partition.
    max_neighbors : mapping, default=None
        Length of the neighbour lists if the settings need shorter ones: the largest number of
        neighbours that a search over parameters will ask for, by ``neighbor_search``.
    memory : StageMemory, default=None
        Limit on what is kept. None keeps everything.
    trees : SharedTrees, default=None
        Principal-axis trees of all classes. None cuts each class by itself.
    """

    def __init__(
        self,
        samples: LabelledSamples,
        index: int,
        *,
        patch_labels: Ints | None = None,
        max_neighbors: Mapping[str | UserObject, int] | None = None,
        memory: StageMemory | None = None,
        trees: SharedTrees | None = None,
    ) -> None:
        self._samples = samples
        self._trees = trees
        self._index = index
        self._patch_labels = patch_labels
        self._max_neighbors = max_neighbors or {}
        self._memory = memory
        self._lists: dict[Any, NeighborLists | CompactLists] = {}
        self._partitions: dict[Any, Partition] = {}
        self._tangents: tuple[Any, TangentBases] | None = None
        self._form: tuple[ClassSettings, WithinForm] | None = None

    def contribute(
        self, settings: ClassSettings, strengths: Strengths | None = None
    ) -> Contributions:
        """Compute the sums over this class.

        If the strengths are known, v is eliminated at once and the within-class form is not kept.
        """
        samples = load_class(self._samples, self._index)
        geometry = self._build_geometry(samples, settings)
        if settings.full_affinity:
            affinity = full_affinity_scatter(geometry.sample_graph, samples.points)
        else:
            affinity = neighbor_affinity_scatter(geometry.sample_graph)
        form = WithinFormBuilder(geometry.graph, geometry.patch_of_vertex, geometry.bases)
        summary = ClassSummary(np.empty(0, dtype=np.intp), np.empty(0))
        if geometry.partition is not None:
            summary = ClassSummary(geometry.bases.dimensions, geometry.partition.linearity)
        # Without strengths the form is kept for the second pass of the fit, if it is small enough;
        # a search, which keeps everything, eliminates v many times and uses the bases.
        eliminated = None
        if strengths is not None:
            result = eliminate_tangents(form.build(), strengths.gamma, strengths.beta)
            eliminated = result.matrix
            summary = replace(summary, solver=result.solver, residual=result.residual)
        elif self._may_keep(form):
            self._form = settings, form.build(keep_bases=self._memory is None)
        sums = ClassSums(
            between=BetweenClassSums.of_class(
                samples.coordinates, affinity.distant, samples.weights
            ),
            within=graph_scatter(geometry.graph),
            n_edges=geometry.graph.total_weight,
            tangent_size=int(geometry.bases.dimensions.sum()),
            tangent_trace=form.first_order_trace,
            eliminated=eliminated,
        )
        return Contributions(sums, [summary])

    def eliminate(self, settings: ClassSettings, strengths: Strengths) -> EliminationResult:
        """Compute S_tv (S_vv + beta I)^-1 S_tv', which eliminates v, and release the form."""
        form = self.within_form(settings)
        # A fit needs the form once; otherwise the forms of all classes would stay in memory.
        self._form = None
        return eliminate_tangents(form, strengths.gamma, strengths.beta)

    def within_form(self, settings: ClassSettings) -> WithinForm:
        """Return the within-class form, computed again if it was not kept."""
        if self._form is not None and self._form[0] == settings:
            return self._form[1]
        samples = load_class(self._samples, self._index)
        # Distances are needed for affinities and patches, not for the form.
        has_patches = settings.partition is None or _partition_key(settings) in self._partitions
        geometry = self._build_geometry(samples, settings, with_distances=not has_patches)
        builder = WithinFormBuilder(geometry.graph, geometry.patch_of_vertex, geometry.bases)
        form = builder.build(keep_bases=self._memory is None)
        self._form = (settings, form) if self._may_keep(builder) else None
        return form

    def patch_labels(self, settings: ClassSettings) -> Ints:
        """Return the patch of each sample (n,), for settings with a partition."""
        return self._partitions[_partition_key(settings)].labels

    def _build_geometry(
        self, samples: ClassSamples, settings: ClassSettings, *, with_distances: bool = True
    ) -> _ClassGeometry:
        """Compute the graph, the patches and the tangent spaces."""
        points = ClassPoints(samples.points, samples.sparse)
        Z, weights = samples.coordinates, samples.weights
        lists = self._find_neighbors(points, settings, with_distances=with_distances)
        energy = settings.tangent_energy
        graph = symmetric_graph(lists.first(settings.n_neighbors))
        sample_graph = EmbeddedGraph(Z, graph, weights, samples.sparse)
        if settings.partition is None:
            bases = neighborhood_tangents(Z, graph.neighbors, energy, weights=weights)
            return _ClassGeometry(sample_graph, sample_graph, np.arange(Z.shape[0]), bases, None)
        partition = self._find_patches(points, lists, settings)
        labels = partition.labels
        bases = self._find_tangents(samples, labels, settings)
        if not settings.anchors:
            return _ClassGeometry(sample_graph, sample_graph, labels, bases, partition)
        # Distances are measured between points: rotated coordinates would break ties.
        anchors = ClassPoints(_patch_means(samples.points, labels, weights))
        concat = array_namespace(Z).concat
        vertices = concat([Z, _patch_means(Z, labels, weights)])
        if weights is not None:  # the weight of an anchor is the mean of its patch
            weights = concat([weights, _patch_means(weights[:, None], labels)[:, 0]])
        among_anchors = build_class_graph(anchors, settings.n_neighbors)
        joined = EmbeddedGraph(vertices, _join_to_anchors(among_anchors, vertices, labels), weights)
        patches = np.concatenate([labels, np.arange(len(bases.dimensions))])
        return _ClassGeometry(sample_graph, joined, patches, bases, partition)

    def _find_neighbors(
        self, points: ClassPoints, settings: ClassSettings, *, with_distances: bool
    ) -> NeighborLists:
        search = settings.neighbor_search
        known = self._lists.get(search)
        if isinstance(known, NeighborLists):
            return known
        if known is not None and not with_distances:
            return known.expand()
        # One search serves the graph and the partition, which take the first of its neighbours.
        k = max(settings.n_neighbors, settings.partition_neighbors)
        k = max(k, self._max_neighbors.get(search, 0))
        if search in ("auto", "exact"):
            lists = find_neighbors(points, k)
        else:
            searcher = search.value if isinstance(search, UserObject) else search
            lists = search_neighbors(points, k, searcher)
        if self._memory is None:
            self._lists[search] = lists
        else:
            is_large = points.X.shape[0] > LARGE_CLASS and is_numpy(lists.indices)
            kept = CompactLists.from_lists(lists) if is_large else lists
            if self._memory.admit("lists", kept.nbytes):
                self._lists[search] = kept
        return lists

    def _find_patches(
        self, points: ClassPoints, lists: NeighborLists, settings: ClassSettings
    ) -> Partition:
        key = _partition_key(settings)
        if key not in self._partitions:
            rule, labels = settings.partition, self._patch_labels
            lists = lists.first(settings.partition_neighbors)
            if labels is None and isinstance(rule, PartitionRule):
                if self._trees is not None and rule.uses_tree(points.X.shape[0]):
                    self._partitions[key] = self._trees.find(rule, self._index)
                else:
                    self._partitions[key] = rule(points, lists)
            else:
                if labels is None:
                    assert isinstance(rule, UserObject)
                    labels = self._run_clusterer(rule.value, points)
                self._partitions[key] = known_patches(points, lists, labels=labels)
        return self._partitions[key]

    def _find_tangents(
        self, samples: ClassSamples, labels: Ints, settings: ClassSettings
    ) -> TangentBases:
        """Compute the tangent spaces of patches. A search keeps those of the last partition."""
        key = _partition_key(settings), settings.tangent_energy
        if self._tangents is not None and self._tangents[0] == key:
            return self._tangents[1]
        energy, weights = settings.tangent_energy, samples.weights
        bases = patch_tangents(samples.coordinates, labels, energy, weights=weights)
        if self._memory is None:
            self._tangents = key, bases
        return bases

    def _run_clusterer(self, clusterer: Any, points: ClassPoints) -> Ints:
        # A clusterer may have lengths as parameters (eps of DBSCAN): it gets the units of X.
        X = ldexp(to_host(points.X), self._samples.coordinates.exponent)
        label = self._samples.classes.tolist()[self._index]
        return cluster_class(clusterer, X, f"class {label!r}")

    def _may_keep(self, form: WithinFormBuilder) -> bool:
        return self._memory is None or self._memory.admit("forms", form.nbytes)


def _partition_key(settings: ClassSettings) -> tuple[Any, int, Any]:
    return settings.partition, settings.partition_neighbors, settings.neighbor_search


@dataclass(frozen=True)
class _ClassGeometry:
    """A class with its graph and its tangent spaces.

    sample_graph : the neighbour graph of the samples
    graph : W, on the samples, or on the samples and the patch means (anchors)
    patch_of_vertex : (n_vertices,) the patch of each vertex of W
    bases : the tangent spaces of the patches
    partition : None where every sample has its own tangent space
    """

    sample_graph: EmbeddedGraph
    graph: EmbeddedGraph
    patch_of_vertex: Ints
    bases: TangentBases
    partition: Partition | None


def _join_to_anchors(anchors: ClassGraph, vertices: Array, labels: Ints) -> ClassGraph:
    """Return the graph of samples and anchors: each sample is joined to the anchor of its patch.

    The vertices (n + P, d) are the samples and, behind them, the anchors. Anchors are joined to
    their neighbours among the anchors, samples to no other sample.
    """
    xp, n = array_namespace(vertices), labels.size
    own = to_device(np.column_stack([np.arange(n), n + labels]), anchors.edges)
    lengths = pair_distances(vertices, own[:, 0], own[:, 1])
    edges = xp.concat([own, n + anchors.edges])
    return ClassGraph(anchors.neighbors, edges, xp.concat([lengths, anchors.lengths]))


def _patch_means(X: Array, labels: Ints, weights: Array | None = None) -> Array:
    """Return the weighted mean of each patch (n_patches, d)."""
    order = np.argsort(labels, kind="stable")
    factors = np.ones(labels.size) if weights is None else to_host(weights)
    # A patch whose weights are all 0 has no part in any sum, but needs a position.
    factors = np.where(np.bincount(labels, factors)[labels] > 0.0, factors, 1.0)
    sums = np.bincount(labels, factors)
    rows = take(X, to_device(order, X)) * to_device(factors[order, None], X)
    total = zeros((sums.size, X.shape[1]), X)
    total = add_segments(total, to_device(labels[order], X), rows)
    return total / to_device(sums[:, None], X)


class StageMemory:
    """Limit on the bytes of each kind of stage that all classes together keep.

    Parameters
    ----------
    **limits : int
        Bytes that may be kept of each kind.
    """

    def __init__(self, **limits: int) -> None:
        self._bytes_left = limits
        self._lock = threading.Lock()

    def admit(self, kind: str, n_bytes: int) -> bool:
        """Return True, and count the bytes, if a stage of this kind and size may be kept."""
        with self._lock:
            if n_bytes > self._bytes_left[kind]:
                return False
            self._bytes_left[kind] -= n_bytes
            return True


class SharedTrees:
    """Principal-axis trees of all large classes, cut together where the number of calls counts.

    Parameters
    ----------
    samples : LabelledSamples
        Samples of all classes, on a device.
    """

    def __init__(self, samples: LabelledSamples) -> None:
        self._samples = samples
        self._partitions: dict[tuple[PartitionRule, int], Partition] = {}

    def find(self, rule: PartitionRule, index: int) -> Partition:
        """Return the partition of a class; the first call cuts all classes."""
        if (rule, index) not in self._partitions:
            sizes = [members.size for members in self._samples.members]
            large = [c for c, size in enumerate(sizes) if rule.uses_tree(size)]
            points = [load_class(self._samples, c).points for c in large]
            X = array_namespace(points[0]).concat(points)
            trees = principal_axis_forest(X, [sizes[c] for c in large], rule.max_patch_size)
            self._partitions |= {(rule, c): tree for c, tree in zip(large, trees, strict=True)}
        return self._partitions[rule, index]
