"""The sum over classes: what one class contributes, and how contributions add up.

W never joins two classes, so a fit is one independent piece of work per class, a sum, and one
d x d eigenproblem. ``class_contribution`` is that piece of work and ``Totals`` the sum. Eliminating
v (``class_reduction``) is a second piece per class, because gamma and the ridges in relative
units are known only after the first sum; where they are known before, both are one
(``class_share``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import add_segments, array_namespace, ldexp, take, to_device, zeros
from mpda.discriminant.scatter import (
    BetweenClassSums,
    ClassScatter,
    class_scatter,
    full_affinity_scatter,
    graph_scatter,
    neighbor_affinity_scatter,
    symmetrize,
)
from mpda.discriminant.schur_complement import EliminationResult, eliminate_tangents
from mpda.discriminant.tangents import TangentBases, neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import (
    PackedForm,
    WithinForm,
    coupled_form,
    first_order_blocks,
    tangent_form,
)
from mpda.neighbors.approximate_search import search_neighbors
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph, symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists
from mpda.partition.tree import Partition

PatchRule = Callable[[ClassPoints, NeighborLists], Partition]
"""Patches from the points of a class and their k'-nearest-neighbour lists."""


@dataclass(frozen=True)
class Plan:
    """How the contribution of a class is made.

    n_neighbors : k of the within-class graph
    partition_neighbors : k' of the lists that a patch rule is given
    tangent_energy : share of the variance that a tangent space keeps
    full_affinity : whether the affinity joins all pairs of a class or only neighbours
    anchors : whether the within-class form lives on the patch means instead of the samples
    neighbor_search : a name or a transformer, as in ``search_neighbors``
    """

    n_neighbors: int
    partition_neighbors: int
    tangent_energy: float
    full_affinity: bool
    anchors: bool
    neighbor_search: Any = "auto"


@dataclass(frozen=True)
class ClassContribution:
    """What one class brings to a fit.

    scatter : its part of the between-class form
    within : (d, d) S_tt
    n_edges : number of edges of W
    form : the blocks of S with v; None where they were not kept
    dimensions : (P,) those of the tangent spaces
    tangent_trace : the trace of the first-order part of S_vv
    patches : its patches; None where every sample has its own tangent space
    found : its neighbour lists
    """

    scatter: ClassScatter
    within: Array
    n_edges: int
    form: WithinForm | PackedForm | None
    dimensions: Ints
    tangent_trace: float
    patches: Partition | None
    found: NeighborLists


def class_contribution(
    points: Array,
    coordinates: Array,
    plan: Plan,
    patch_rule: PatchRule | None,
    found: NeighborLists | None = None,
    with_form: bool = True,
) -> ClassContribution:
    """The contribution of one class.

    Neighbours and patches come from the points (n, d), all else from their coordinates (n, r).
    Without a patch rule every sample has the tangent space of its neighbourhood (PMPDA). Neighbour
    lists may be given if they are long enough for the plan. Without a form, what only it needs is
    left out.
    """
    xp = array_namespace(points)
    shape = _class_shape(points, coordinates, plan, patch_rule, found)
    if plan.full_affinity:
        distant = full_affinity_scatter(shape.samples, points).distant
    else:
        distant = neighbor_affinity_scatter(shape.samples).distant
    placed, owners, bundle = shape.placed, shape.owners, shape.bundle
    blocks = first_order_blocks(placed, owners, bundle)
    return ClassContribution(
        scatter=class_scatter(coordinates, distant),
        within=graph_scatter(placed),
        n_edges=placed.graph.edges.shape[0],
        form=coupled_form(placed, owners, bundle, blocks) if with_form else None,
        dimensions=bundle.dimensions,
        tangent_trace=float(xp.sum(xp.linalg.diagonal(blocks[1]))),
        patches=shape.patches,
        found=shape.found,
    )


@dataclass(frozen=True)
class _ClassShape:
    """A class with its graph and its tangent spaces.

    samples : the graph of its samples
    placed : W, on the samples or on the patch means
    owners : (v,) the patch to which each vertex of W belongs
    """

    samples: EmbeddedGraph
    placed: EmbeddedGraph
    owners: Ints
    bundle: TangentBases
    patches: Partition | None
    found: NeighborLists


def _class_shape(
    points: Array,
    coordinates: Array,
    plan: Plan,
    patch_rule: PatchRule | None,
    found: NeighborLists | None,
) -> _ClassShape:
    class_points = ClassPoints(points)
    if found is None:
        found = planned_lists(class_points, plan)
    samples = EmbeddedGraph(coordinates, symmetric_graph(found.first(plan.n_neighbors)))
    if patch_rule is None:
        bundle = neighborhood_tangents(coordinates, samples.graph.neighbors, plan.tangent_energy)
        own = np.arange(points.shape[0])
        return _ClassShape(samples, samples, own, bundle, None, found)
    patches = patch_rule(class_points, found.first(plan.partition_neighbors))
    bundle = patch_tangents(coordinates, patches.labels, plan.tangent_energy)
    if plan.anchors:
        means = _patch_means(coordinates, patches.labels)
        anchors = ClassPoints(_patch_means(points, patches.labels))
        placed = EmbeddedGraph(means, build_class_graph(anchors, plan.n_neighbors))
        return _ClassShape(samples, placed, np.arange(means.shape[0]), bundle, patches, found)
    return _ClassShape(samples, samples, patches.labels, bundle, patches, found)


def planned_lists(points: ClassPoints, plan: Plan) -> NeighborLists:
    """Neighbour lists that are long enough for the plan."""
    k = max(plan.n_neighbors, plan.partition_neighbors)
    return search_neighbors(points, k, plan.neighbor_search)


def _patch_means(X: Array, labels: Ints) -> Array:
    """The mean of each patch (P, d)."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    sums = add_segments(
        zeros((sizes.size, X.shape[1]), X),
        to_device(labels[order], X),
        take(X, to_device(order, X)),
    )
    return sums / to_device(sizes[:, None].astype(float), X)


def remembered(partition: Partition | None) -> PatchRule | None:
    """The rule that gives a partition found before."""
    return None if partition is None else partial(_as_found, partition=partition)


def _as_found(points: ClassPoints, lists: NeighborLists, *, partition: Partition) -> Partition:
    return partition


def packed_contribution(*arguments: Any) -> ClassContribution:
    """``class_contribution`` with a form that takes less memory."""
    part = class_contribution(*arguments)
    return replace(part, form=part.form.packed()) if isinstance(part.form, WithinForm) else part


def class_reduction(
    source: WithinForm | PackedForm | tuple[Any, ...], gamma: float, beta: float
) -> EliminationResult:
    """What eliminating v takes off S_tt in one class.

    The source is the form or, where it was not kept, the arguments of ``class_contribution``.
    """
    # Nothing here refers to the form, so that it can go when it has been used.
    return eliminate_tangents(_form_of(source), gamma, beta)


def _form_of(source: WithinForm | PackedForm | tuple[Any, ...]) -> WithinForm:
    if isinstance(source, tuple):
        shape = _class_shape(*source)
        return tangent_form(shape.placed, shape.owners, shape.bundle)
    return source.unpacked() if isinstance(source, PackedForm) else source


def class_share(
    points: Array,
    coordinates: Array,
    plan: Plan,
    patch_rule: PatchRule | None,
    found: NeighborLists | None,
    gamma: float,
    beta: float,
) -> tuple[ClassContribution, EliminationResult]:
    """Both pieces of work on a class at once, where gamma and beta are known; no form is kept."""
    part = class_contribution(points, coordinates, plan, patch_rule, found)
    form, part = part.form, replace(part, form=None)
    assert isinstance(form, WithinForm)
    return part, eliminate_tangents(form, gamma, beta)


def summary(part: ClassContribution) -> ClassContribution:
    """The contribution without what belongs to single samples."""
    patches = part.patches
    if patches is not None:
        patches = Partition(np.empty(0, dtype=np.intp), patches.linearity, None)
    return replace(
        part,
        form=None,
        dimensions=part.dimensions if patches is not None else part.dimensions.sum(keepdims=True),
        patches=patches,
        found=part.found.first(0),
    )


def summarized_share(*arguments: Any) -> tuple[ClassContribution, EliminationResult]:
    """``class_share`` with the summary of its contribution."""
    part, elimination = class_share(*arguments)
    return summary(part), elimination


def form_alone(part: ClassContribution) -> WithinForm | PackedForm | None:
    """What is kept of a contribution for its reduction."""
    return part.form


@dataclass(frozen=True)
class Units:
    """Relative units in the scale of the coordinates.

    gamma : the mean squared length of the edges of W
    alpha : trace(S_tt) / d, d counting the features that are not constant
    beta : the mean diagonal of the first-order part of S_vv
    """

    gamma: float
    alpha: float
    beta: float


@dataclass(frozen=True)
class Totals:
    """The sum of the contributions of classes.

    between : the sums of the between-class form
    within : (d, d) the sum of S_tt
    n_edges : edges of W
    tangent_trace : the trace of the first-order part of S_vv
    tangent_size : sum m_p
    """

    between: BetweenClassSums
    within: Array
    n_edges: int = 0
    tangent_trace: float = 0.0
    tangent_size: int = 0

    @classmethod
    def empty(cls, d: int, X: Array) -> Totals:
        """The sum over no class, where the samples X are."""
        return cls(BetweenClassSums.empty(d, X), zeros((d, d), X))

    def __add__(self, part: ClassContribution) -> Totals:
        return Totals(
            self.between + part.scatter,
            self.within + part.within,
            self.n_edges + part.n_edges,
            self.tangent_trace + part.tangent_trace,
            self.tangent_size + int(part.dimensions.sum()),
        )

    def moved(self, basis: Array) -> Totals:
        """The same sums in the axes (D, D) in which the present ones are the basis (D, d)."""
        between = self.between
        return replace(
            self,
            between=BetweenClassSums(
                between.counts,
                between.means @ basis.T,
                symmetrize(basis @ between.distant_scatter @ basis.T),
                symmetrize(basis @ between.mean_distant_scatter @ basis.T),
            ),
            within=symmetrize(basis @ self.within @ basis.T),
        )

    def scaled(self, exponent: int) -> Totals:
        """The same sums for coordinates that are larger by 2^exponent."""
        between = self.between
        return replace(
            self,
            between=BetweenClassSums(
                between.counts,
                ldexp(between.means, exponent),
                ldexp(between.distant_scatter, 2 * exponent),
                ldexp(between.mean_distant_scatter, 2 * exponent),
            ),
            within=ldexp(self.within, 2 * exponent),
            tangent_trace=float(np.ldexp(self.tangent_trace, 2 * exponent)),
        )

    def units(self, n_varying: int, one: float) -> Units:
        """The relative units, given the number of features that are not constant.

        ``one`` is 1 in the squared units of the samples: it takes the place of a unit that is 0.
        """
        trace = float(array_namespace(self.within).linalg.trace(self.within))
        return Units(
            gamma=trace / (2 * self.n_edges) if trace > 0.0 else one,
            alpha=trace / n_varying if trace > 0.0 else one,
            beta=self.tangent_trace / self.tangent_size if self.tangent_trace > 0.0 else one,
        )
