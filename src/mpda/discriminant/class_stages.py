"""The stages of one class, and the sum over classes.

W never joins two classes, so a fit is independent work for each class, a sum, and one eigenproblem.
The stages of a class are neighbour lists, patches, tangent bases, the within-class form S and its
Schur complement. Each is computed when first needed and kept as long as memory allows. A fit asks
for each stage once, a search over parameters many times, a cluster keeps the stages on its workers.
Depends on ``neighbors``, ``partition`` and the modules of this folder that compute one stage each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from mpda._lib.array_types import Array, ArrayLike, Ints
from mpda._lib.arrays import (
    add_segments,
    array_namespace,
    is_host,
    is_numpy,
    ldexp,
    take,
    to_device,
    to_host,
    zeros,
)
from mpda._lib.samples import ClassSamples, LabelledSamples
from mpda._lib.threads import SMALL, count_threads, limit_openmp, one_blas_thread
from mpda._lib.validation import load_class
from mpda.discriminant.class_contribution import ClassContribution, ClassSummary
from mpda.discriminant.scatter import (
    BetweenClassSums,
    class_scatter,
    full_affinity_scatter,
    graph_scatter,
    neighbor_affinity_scatter,
)
from mpda.discriminant.schur_complement import EliminationResult, eliminate_tangents
from mpda.discriminant.settings import ClassSettings, Strengths, Units, UserObject
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
from mpda.parallel.local import report_progress
from mpda.partition.principal_axis_tree import principal_axis_forest
from mpda.partition.rules import PartitionRule, check_patch_labels, cluster_class, known_patches
from mpda.partition.tree import Partition

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# From this many samples on, most of the work on a class is in NumPy, SciPy and scikit-learn, which
# release Python's lock, so that classes gain from threads.
LARGE_CLASS = 1000
# Bytes of within-class forms and of neighbour lists that are kept between the two passes of a fit.
# What does not fit is computed twice. Lists of 64 MiB are those of 1.6 million samples with 20
# neighbours, in classes of up to 65,535. Without them neighbours are searched twice: a
# million samples took 1.3 times as long. Forms are larger and faster to compute: with 112 MiB
# the peak of a million samples x 64 is below 2.5 times their size on x86_64, too.
_HOST_BYTES = {"forms": 112 * 2**20, "lists": 64 * 2**20}
# On a device, where memory is larger and computing twice costs many kernel launches.
_DEVICE_BYTES = {"forms": 2**32, "lists": 2**31}

Result = TypeVar("Result")


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
    ) -> ClassContribution:
        """Compute what the class adds to the sums.

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
        elimination = None
        if strengths is not None:
            elimination = eliminate_tangents(form.build(), strengths.gamma, strengths.beta)
            summary = replace(summary, solver=elimination.solver, residual=elimination.residual)
        elif self._may_keep(form):
            self._form = settings, form.build(keep_bases=self._memory is None)
        return ClassContribution(
            scatter=class_scatter(samples.coordinates, affinity.distant, samples.weights),
            within=graph_scatter(geometry.graph),
            n_edges=geometry.graph.total_weight,
            tangent_size=int(geometry.bases.dimensions.sum()),
            tangent_trace=form.first_order_trace,
            summary=summary,
            elimination=elimination,
        )

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


class ClassPool(Protocol):
    """The stages of all classes, in the memory of this machine or on a cluster."""

    def map(self, title: str, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield ``work(stages)`` for each class, in order."""


class LocalClasses:
    """The stages of all classes in the memory of this machine.

    Parameters
    ----------
    samples : LabelledSamples
        Samples of all classes.
    patches : array-like of int of shape (n_samples,), default=None
        Patches given by the user.
    max_neighbors : mapping, default=None
        Largest number of neighbours that will be asked for, by ``neighbor_search``.
    keep_all : bool, default=False
        Set to True to keep every stage, for a search.
    n_jobs : int, default=None
        Number of classes that are worked on at a time, in threads. With None, large classes use as
        many threads as BLAS would.
    progress : str, default=None
        Name under which progress goes to stderr.
    """

    def __init__(
        self,
        samples: LabelledSamples,
        *,
        patches: ArrayLike | None = None,
        max_neighbors: Mapping[str | UserObject, int] | None = None,
        keep_all: bool = False,
        n_jobs: int | None = None,
        progress: str | None = None,
    ) -> None:
        is_dense = isinstance(samples.X, np.ndarray)
        on_host = is_dense or is_host(samples.X)
        memory = None if keep_all else StageMemory(**(_HOST_BYTES if on_host else _DEVICE_BYTES))
        trees = None if on_host else SharedTrees(samples)
        labels = None if patches is None else check_patch_labels(patches, samples.y)
        self.stages = [
            ClassStages(
                samples,
                index,
                patch_labels=None if labels is None else labels[members],
                max_neighbors=max_neighbors,
                memory=memory,
                trees=trees,
            )
            for index, members in enumerate(samples.members)
        ]
        self._progress = progress
        # With n <= d samples are rotated into their span, so the smaller number is the dimension.
        self._is_small = min(samples.X.shape) <= SMALL
        self.n_threads = 1
        n_large = sum(members.size >= LARGE_CLASS for members in samples.members)
        # Sparse samples have many features: one class at a time keeps the memory of its dense copy
        # and of its matrices of features by features, and BLAS has work for all threads.
        if is_dense and (n_large > 1 if n_jobs is None else n_jobs != 1):
            n_classes = n_large if n_jobs is None else len(self.stages)
            self.n_threads = min(count_threads(n_jobs), n_classes)

    def map(self, title: str, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield ``work(stages)`` for each class, in order."""
        run = self._map_serial if self.n_threads == 1 else self._map_threads
        results = run(work)
        if self._progress is None:
            return results
        return report_progress(results, len(self.stages), f"{self._progress}, {title}", "classes")

    def _map_serial(self, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield the results one after the other."""
        # One limit for all classes: to change it takes longer than the work on a small class.
        with one_blas_thread(self._is_small):
            for stages in self.stages:
                yield work(stages)

    def _map_threads(self, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield the results in order; at most one class for each thread is under way."""
        with (
            one_blas_thread(),
            ThreadPoolExecutor(self.n_threads, initializer=limit_openmp, initargs=(1,)) as threads,
        ):
            pending: list[Any] = []
            for stages in self.stages:
                if len(pending) == self.n_threads:
                    yield pending.pop(0).result()
                pending.append(threads.submit(work, stages))
            for future in pending:
                yield future.result()


def build_class_pool(
    samples: LabelledSamples | ClusterSamples,
    patches: ArrayLike | None,
    n_jobs: int | None,
    progress: str | None,
) -> ClassPool:
    """Create the stages of all classes where their samples are.

    Parameters
    ----------
    samples : LabelledSamples or ClusterSamples
        Samples of all classes.
    patches : array-like of int of shape (n_samples,) or None
        Patches given by the user, for samples in memory only.
    n_jobs : int or None
        Number of classes that are worked on at a time. A cluster decides that itself.
    progress : str or None
        Name under which progress goes to stderr.

    Returns
    -------
    ClassPool
        The classes in their order.
    """
    if not isinstance(samples, LabelledSamples):
        return samples.class_pool(ClassStages, progress)
    return LocalClasses(samples, patches=patches, n_jobs=n_jobs, progress=progress)


@dataclass(frozen=True)
class ClassSums:
    """Sums over classes, to which classes can be added.

    Attributes
    ----------
    between : BetweenClassSums
        Sums of the between-class form.
    within : array of shape (r, r)
        Sum of S_tt.
    eliminated : array of shape (r, r)
        Sum of S_tv (S_vv + beta I)^-1 S_tv' over the classes whose tangent vectors are eliminated.
    n_edges : float
        Number of edges of W, or the sum of their weights.
    tangent_trace : float
        Trace of the first-order part of S_vv.
    tangent_size : int
        Number of entries of v.
    """

    between: BetweenClassSums
    within: Array
    eliminated: Array
    n_edges: float = 0.0
    tangent_trace: float = 0.0
    tangent_size: int = 0

    @classmethod
    def empty_like(cls, matrix: Array) -> ClassSums:
        """Return the sums over no class, for matrices such as this one (r, r)."""
        zero = zeros(matrix.shape, matrix)
        return cls(BetweenClassSums.empty(matrix.shape[0], matrix), zero, zero)

    def units(self, n_varying: int, one: float) -> Units:
        """Return the relative units.

        Parameters
        ----------
        n_varying : int
            Number of features that are not constant.
        one : float
            1 in squared units of X, which replaces a unit that is 0.
        """
        trace = float(array_namespace(self.within).linalg.trace(self.within))
        return Units(
            # S_tt counts every edge twice, once in each order.
            gamma=trace / (2 * self.n_edges) if trace > 0.0 else one,
            alpha=trace / n_varying if trace > 0.0 else one,
            beta=self.tangent_trace / self.tangent_size if self.tangent_trace > 0.0 else one,
        )

    def add(self, contribution: ClassContribution) -> ClassSums:
        """Return the sums with one more class."""
        eliminated = self.eliminated
        if contribution.elimination is not None:
            eliminated = eliminated + contribution.elimination.matrix
        return ClassSums(
            self.between + contribution.scatter,
            self.within + contribution.within,
            eliminated,
            self.n_edges + contribution.n_edges,
            self.tangent_trace + contribution.tangent_trace,
            self.tangent_size + contribution.tangent_size,
        )

    def merge(self, other: ClassSums) -> ClassSums:
        """Return the sums over the classes of both, in the same coordinates."""
        return ClassSums(
            self.between.merge(other.between),
            self.within + other.within,
            self.eliminated + other.eliminated,
            self.n_edges + other.n_edges,
            self.tangent_trace + other.tangent_trace,
            self.tangent_size + other.tangent_size,
        )

    def rotate_back(self, basis: Array) -> ClassSums:
        """Return the sums in the axes in which the present coordinates have this basis (d, r)."""

        def rotate(matrix: Array) -> Array:
            # Rounding makes the product slightly asymmetric; solvers read one triangle only.
            product = basis @ matrix @ basis.T
            return 0.5 * (product + product.T)

        between = replace(
            self.between,
            means=self.between.means @ basis.T,
            distant_scatter=rotate(self.between.distant_scatter),
            mean_distant_scatter=rotate(self.between.mean_distant_scatter),
        )
        return replace(
            self, between=between, within=rotate(self.within), eliminated=rotate(self.eliminated)
        )


@dataclass(frozen=True)
class SummedContributions:
    """Sums over classes, and what a fit reports of each class.

    Attributes
    ----------
    sums : ClassSums
        Sums over the classes.
    summaries : list of ClassSummary
        One for each class that was added.
    """

    sums: ClassSums
    summaries: list[ClassSummary]


def sum_contributions(
    classes: ClassPool,
    settings: ClassSettings,
    strengths: Strengths | None = None,
    sums: ClassSums | None = None,
) -> SummedContributions:
    """Add the contributions of all classes to sums.

    Parameters
    ----------
    classes : ClassPool
        Stages of the classes.
    settings : ClassSettings
        Parameters of the stages.
    strengths : Strengths, default=None
        With them v is eliminated, and the eliminated terms are added too.
    sums : ClassSums, default=None
        Sums over earlier classes.

    Returns
    -------
    SummedContributions
        Sums over the earlier and the new classes; summaries of the new ones.
    """
    title = "graphs and forms (1/2)" if strengths is None else "graphs, forms, Schur complements"
    summaries = []
    work = partial(ClassStages.contribute, settings=settings, strengths=strengths)
    for contribution in classes.map(title, work):
        sums = ClassSums.empty_like(contribution.within) if sums is None else sums
        sums = sums.add(contribution)
        summaries.append(contribution.summary)
        del contribution  # the next class is computed without the matrices of this one
    assert sums is not None  # there is at least one class
    return SummedContributions(sums, summaries)
