"""Scatter matrices (d, d) of a class, and the between-class form S' that they add up to.

A scatter is sum_ij w_ij d_ij d_ij' over ordered pairs, d_ij = x_i - x_j. With S_tt = 2 X'LX this
module has the part of the within-class form without tangent vectors (withinPatchObj), and with
``BetweenClassSums`` the numerator of the eigenproblem (betweenObj). Products of offsets from the
class mean are fastest; where they would lose short edges in rounding, differences are summed up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mpda._lib.array_types import Array, Bools, Floats
from mpda._lib.arrays import (
    array_namespace,
    as_float,
    block_entries,
    is_numpy,
    is_sparse,
    iter_slices,
    ldexp,
    pairwise_distances,
    take,
    to_device,
    zeros,
)
from mpda._lib.sample_weights import pair_weights
from mpda.neighbors.graph import (
    EmbeddedGraph,
    center,
    graph_laplacian,
    local_affinity,
    local_scale,
    loses_precision,
    scaled_affinity,
)
from mpda.neighbors.neighbor_lists import nonzero_pairs

# Numbers in a block of rows: 4 MB, which stay in the cache of a core; larger blocks save nothing.
_BLOCK_ENTRIES = 500_000
# Products of offsets are used while they are at most this many times the sum that they give: five
# of sixteen digits are lost then; sums over differences take about four times as long.
_LARGEST_LOCAL_EXTENT = 1e5


@dataclass(frozen=True)
class BetweenClassSums:
    """Sums over one or several classes that determine the between-class form once n is known.

    Sums over different classes, in the same coordinates, are added.

    Parameters
    ----------
    counts : array of shape (C,)
        Number of samples n_c of each class, or the sum of their weights.
    means : array of shape (C, d)
        Mean of each class.
    distant_scatter : array of shape (d, d)
        Sum over classes of the distant scatter: over ordered pairs of a class, of
        w_i w_j (1 - A_ij) d_ij d_ij' with the affinity A.
    mean_distant_scatter : array of shape (d, d)
        Sum of the distant scatters, each divided by n_c.
    """

    counts: Floats
    means: Array
    distant_scatter: Array
    mean_distant_scatter: Array

    @classmethod
    def of_class(
        cls, Z: Array, distant_scatter: Array, weights: Array | None = None
    ) -> BetweenClassSums:
        """Return the sums over one class.

        Parameters
        ----------
        Z : array of shape (n, d)
            Samples of the class.
        distant_scatter : array of shape (d, d)
            As in ``AffinityScatter``.
        weights : array of shape (n,), default=None
            Weights of the samples.

        Returns
        -------
        BetweenClassSums
            With one count and one mean.
        """
        xp = array_namespace(Z)
        if weights is None:
            count, mean = float(Z.shape[0]), xp.mean(Z, axis=0)
        else:
            count = float(xp.sum(weights))
            mean = (weights @ Z) / count
        return cls(np.array([count]), mean[None, :], distant_scatter, distant_scatter / count)

    def __add__(self, other: BetweenClassSums) -> BetweenClassSums:
        return BetweenClassSums(
            np.concatenate([self.counts, other.counts]),
            array_namespace(self.means).concat([self.means, other.means]),
            self.distant_scatter + other.distant_scatter,
            self.mean_distant_scatter + other.mean_distant_scatter,
        )

    @property
    def mean(self) -> Array:
        """Mean of all samples (d,)."""
        return to_device(self.counts / self.counts.sum(), self.means) @ self.means

    def form(self) -> Array:
        """Return S' = sum_ij W'_ij d_ij d_ij' (betweenObj).

        Returns
        -------
        array of shape (d, d)
            Between-class form, positive semi-definite.

        Notes
        -----
        W'_ij is 1/n across classes and A_ij (1/n - 1/n_c) inside class c. With A = 1 this is twice
        Fisher's between-class scatter; the pairs with A_ij < 1 add (1/n_c - 1/n) times the distant
        scatter. Both terms are positive semi-definite, so nothing cancels.
        """
        n = float(self.counts.sum())
        offsets = self.means - self.mean
        offsets *= to_device(np.sqrt(2.0 * self.counts)[:, None], offsets)
        distant = self.mean_distant_scatter - self.distant_scatter / n
        return symmetrize(offsets.T @ offsets + distant)


@dataclass(frozen=True)
class AffinityScatter:
    """Scatter of all pairs of one class, divided into near and distant pairs by an affinity A.

    Parameters
    ----------
    near : array of shape (d, d)
        Sum over ordered pairs of w_i w_j A_ij d_ij d_ij'.
    distant : array of shape (d, d)
        Sum over ordered pairs of w_i w_j (1 - A_ij) d_ij d_ij'.
    """

    near: Array
    distant: Array


def neighbor_affinity_scatter(embedded: EmbeddedGraph) -> AffinityScatter:
    """Compute both scatters for an affinity on the edges of the class graph (the paper).

    Parameters
    ----------
    embedded : EmbeddedGraph
        Graph of the class and the coordinates of its samples.

    Returns
    -------
    AffinityScatter
        Near and distant scatter.
    """
    graph, affinity = embedded.graph, local_affinity(embedded.graph)
    if embedded.weights is not None:
        affinity = affinity * pair_weights(embedded.weights, graph.edges)
    if embedded.sparse is not None:
        near = edge_scatter(embedded.sparse, graph.edges, affinity)
        total = all_pairs_scatter(embedded.sparse, embedded.weights)
    else:
        near = edge_scatter(embedded.Z, graph.edges, affinity)
        total = _scatter_of_offsets(embedded.offsets, embedded.weights)
    near *= 2.0
    total -= near
    return AffinityScatter(near, total)


def all_pairs_scatter(Z: Array, weights: Array | None = None) -> Array:
    """Compute the scatter of all ordered pairs of a class.

    Parameters
    ----------
    Z : array of shape (n, d)
        Samples, perhaps sparse.
    weights : array of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    array of shape (d, d)
        sum_ij w_i w_j d_ij d_ij' = 2 (sum_i w_i) sum_i w_i z_i z_i', with z relative to the mean.
    """
    if is_sparse(Z):
        w = np.ones(Z.shape[0]) if weights is None else weights
        scatter = _sparse_scatter(Z, (w @ Z) / w.sum(), weights)
        scatter *= 2.0 * w.sum()
        return scatter
    return _scatter_of_offsets(center(Z, weights), weights)


def _scatter_of_offsets(offsets: Array, weights: Array | None) -> Array:
    """Return the scatter (d, d) of all ordered pairs from offsets (n, d) to the weighted mean."""
    if weights is None:
        return (2.0 * offsets.shape[0]) * (offsets.T @ offsets)
    total = float(array_namespace(weights).sum(weights))
    return (2.0 * total) * ((offsets.T * weights) @ offsets)


def full_affinity_scatter(embedded: EmbeddedGraph, points: Array) -> AffinityScatter:
    """Compute both scatters for an affinity of every pair of the class (Sugiyama's LFDA).

    Parameters
    ----------
    embedded : EmbeddedGraph
        Graph of the class, whose lists have the local scales, and the coordinates of its samples.
    points : array of shape (n, d)
        Samples between which distances are measured.

    Returns
    -------
    AffinityScatter
        Near and distant scatter.

    Notes
    -----
    Offsets z from the mean add up to 0, so sum_j (1 - A_ij) z_j = -sum_j A_ij z_j, and one product
    with A serves both scatters. With weights, w_j joins A_ij and w_i multiplies the row of i.
    """
    if embedded.sparse is not None:
        return _sparse_full_scatter(embedded, points)
    xp = array_namespace(points)
    offsets = embedded.offsets
    n, d = offsets.shape
    weights = embedded.weights
    total = float(n) if weights is None else float(xp.sum(weights))
    sigma = local_scale(embedded.graph.neighbors)
    near_degrees, distant_degrees, mixed = (zeros((d, d), points) for _ in range(3))
    for block in iter_slices(n, block_entries(points, _BLOCK_ENTRIES) // n):
        Z, A = offsets[block, :], _full_affinity(points, sigma, block)
        if weights is not None:
            A *= weights
        degrees = xp.sum(A, axis=1)
        Z_weighted = Z.T if weights is None else Z.T * weights[block]
        near_degrees += (Z_weighted * degrees) @ Z
        distant_degrees += (Z_weighted * (total - degrees)) @ Z
        mixed += Z_weighted @ (A @ offsets)
    near, distant = 2.0 * (near_degrees - mixed), 2.0 * (distant_degrees + mixed)
    # Near pairs in a wide class are a small difference of large sums; then digits are lost.
    extent, sums = xp.linalg.diagonal(near_degrees), xp.linalg.diagonal(near)
    if bool(xp.any(extent > _LARGEST_LOCAL_EXTENT * xp.abs(sums))):
        near = _full_near_scatter(embedded, points, sigma)
    return AffinityScatter(symmetrize(near), symmetrize(distant))


def _sparse_full_scatter(embedded: EmbeddedGraph, points: Floats) -> AffinityScatter:
    """Return both scatters of sparse samples: near = 2 Z'(D - A)Z, distant = all pairs - near."""
    weights, n = embedded.weights, len(points)
    w = np.ones(n) if weights is None else weights
    Z = _centre_for_differences(embedded.sparse, w > 0.0)
    sigma, degrees = local_scale(embedded.graph.neighbors), np.empty(n)
    mixed = np.zeros((Z.shape[1], Z.shape[1]))
    for block in iter_slices(n, _BLOCK_ENTRIES // n):
        A = _full_affinity(points, sigma, block) * w
        degrees[block] = w[block] * A.sum(axis=1)
        mixed += Z[block].T @ (w[block, None] * (A @ Z))
    near = symmetrize((Z.T @ Z.multiply(degrees[:, None]).tocsr()).toarray() - mixed)
    return AffinityScatter(2.0 * near, all_pairs_scatter(Z, weights) - 2.0 * near)


def _full_affinity(points: Array, sigma: Array, block: slice) -> Array:
    """Return A (b, n) between a block of the points and all of them."""
    distances = pairwise_distances(points[block, :], points)
    return scaled_affinity(distances, sigma[block][:, None] * sigma[None, :])


def _full_near_scatter(embedded: EmbeddedGraph, points: Array, sigma: Array) -> Array:
    """Return sum_ij w_i w_j A_ij d_ij d_ij' from differences, for near pairs in a wide class."""
    Z, xp = embedded.Z, array_namespace(embedded.Z)
    n, d = Z.shape
    near = zeros((d, d), Z)
    for block in iter_slices(n, block_entries(points, _BLOCK_ENTRIES) // n):
        A = _full_affinity(points, sigma, block)
        tails, heads = nonzero_pairs(A > 0.0)
        affinity = take(xp.reshape(A, (-1,)), tails * n + heads)
        pairs = xp.stack([tails + block.start, heads], axis=1)
        if embedded.weights is not None:
            affinity *= pair_weights(embedded.weights, pairs)
        near += _difference_scatter(Z, pairs, affinity)
    return near


def graph_scatter(embedded: EmbeddedGraph) -> Array:
    """Compute S_tt = sum_ij W_ij d_ij d_ij' = 2 Z'LZ over ordered pairs (withinPatchObj).

    Parameters
    ----------
    embedded : EmbeddedGraph
        Graph W of the class and the coordinates Z of its samples.

    Returns
    -------
    array of shape (d, d)
        Scatter of the edges.
    """
    if embedded.sparse is not None:
        edges, weights = embedded.graph.edges, embedded.edge_weights
        weights = np.ones(len(edges)) if weights is None else weights
        return 2.0 * edge_scatter(embedded.sparse, edges, weights)
    if embedded.edges_are_short:
        return 2.0 * _difference_scatter(embedded.Z, embedded.graph.edges, embedded.edge_weights)
    return 2.0 * (embedded.offsets.T @ embedded.laplacian_offsets)


def edge_scatter(Z: Array, edges: Array, weights: Array) -> Array:
    """Compute sum_e w_e d_e d_e' = Z'LZ, with L the Laplacian of weighted edges (LapMtrx).

    Parameters
    ----------
    Z : array of shape (n, d)
        Samples, perhaps sparse.
    edges : array of shape (e, 2)
        Indices of the samples that each edge joins. Each pair of samples occurs once: (i, j) and
        (j, i) are the same edge.
    weights : array of shape (e,)
        Weights, which may be negative.

    Returns
    -------
    array of shape (d, d)
        Scatter of the edges, each counted once.
    """
    if is_sparse(Z):
        laplacian = csr_array(graph_laplacian(edges, weights, Z.shape[0]))
        Z = _centre_for_differences(Z, laplacian.diagonal() != 0.0)
        return symmetrize((Z.T @ (laplacian @ Z)).toarray())
    if not is_numpy(Z):
        return symmetrize(_difference_scatter(Z, edges, weights))
    offsets = center(Z)
    scatter = offsets.T @ (graph_laplacian(edges, weights, len(Z)) @ offsets)
    degrees = np.bincount(edges.ravel(), np.repeat(np.abs(weights), 2), len(Z))
    if loses_precision(offsets, degrees, np.diagonal(scatter), _LARGEST_LOCAL_EXTENT):
        scatter = _difference_scatter(Z, edges, weights)
    return symmetrize(scatter)


def _difference_scatter(Z: Array, edges: Array, weights: Array | None = None) -> Array:
    """Return sum_e w_e d_e d_e' (d, d) over edges (e, 2) from differences, in blocks of edges."""
    d = Z.shape[1]
    total = zeros((d, d), Z)
    for block in iter_slices(edges.shape[0], block_entries(Z, _BLOCK_ENTRIES) // d):
        gaps = take(Z, edges[block, 0]) - take(Z, edges[block, 1])
        weighted = gaps if weights is None else gaps * weights[block][:, None]
        total += weighted.T @ gaps
    return total


def total_scatter(X: Array, exponent: int, mean: Array, weights: Floats | None = None) -> Array:
    """Compute the scatter about the mean in double precision, in blocks of rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    exponent : int
        The result is multiplied by 2^(-2 exponent), which keeps it in range.
    mean : array of shape (d,)
        Mean of the samples.
    weights : ndarray of shape (n,), default=None
        Weights of the samples, on the host.

    Returns
    -------
    array of shape (d, d)
        Sum over samples of w_i (x_i - mean)(x_i - mean)' 2^(-2 exponent).
    """
    if is_sparse(X):
        return _sparse_scatter(ldexp(as_float(X), -exponent), ldexp(mean, -exponent), weights)
    n, d = X.shape
    total = zeros((d, d), X)
    for block in iter_slices(n, block_entries(X, _BLOCK_ENTRIES) // d):
        offsets = ldexp(as_float(X[block, :]) - mean, -exponent)
        if weights is not None:
            offsets *= to_device(np.sqrt(weights[block])[:, None], offsets)
        total += offsets.T @ offsets
    return total


def _sparse_scatter(X: Any, mean: Floats, weights: Floats | None) -> Floats:
    """Return sum_i w_i (x_i - m)(x_i - m)' by sparse products, expanded about m = 0.

    With s = sum_i w_i x_i and u = s - (sum_i w_i) m / 2 it is X'WX - u m' - m u', which needs one
    d x d matrix at a time in addition to the result.
    """
    weights = np.ones(X.shape[0]) if weights is None else weights
    X, mean = centre_full_columns(X, mean, weights > 0.0)
    scatter = (X.T @ X.multiply(weights[:, None]).tocsr()).toarray()
    cross = np.outer(weights @ X - 0.5 * weights.sum() * mean, mean)
    scatter -= cross
    scatter -= cross.T
    return scatter


def _centre_for_differences(Z: Any, counts: Bools) -> Any:
    """Centre sparse samples (n, d) for sums over differences of those that count (n,)."""
    return centre_full_columns(Z, counts @ Z / max(1, np.count_nonzero(counts)), counts)[0]


def centre_full_columns(X: Any, mean: Floats, counts: Bools | None = None) -> tuple[Any, Floats]:
    """Subtract the mean from the columns of sparse samples that have no zeros.

    Only such columns can have a mean that is large relative to their spread, and lose digits in
    products about 0.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Samples.
    mean : ndarray of shape (d,)
        Their mean.
    counts : ndarray of bool of shape (n,), default=None
        False for samples of weight 0, whose zeros do not matter here. None is True for all.

    Returns
    -------
    X : csr_array of shape (n, d)
        Samples, equally sparse; those of weight 0 have entries in all shifted columns.
    mean : ndarray of shape (d,)
        What is left of the mean.
    """
    counted = X if counts is None else X[counts]
    is_full = np.bincount(counted.indices, minlength=X.shape[1]) == counted.shape[0]
    if not is_full.any():
        return X, mean
    shift = np.where(is_full, mean, 0.0).astype(X.dtype)
    shifted = csr_array((X.data - shift[X.indices], X.indices, X.indptr), X.shape)
    if counts is not None and not counts.all():
        rows, columns = np.flatnonzero(~counts), np.flatnonzero(is_full)
        stored = csr_array((np.ones(X.nnz), X.indices, X.indptr), X.shape)[rows][:, columns]
        zero_rows, zero_columns = np.nonzero(stored.toarray() == 0.0)
        places = rows[zero_rows], columns[zero_columns]
        shifted = csr_array(shifted + csr_array((-shift[places[1]], places), X.shape))
    return shifted, mean - shift


def symmetrize(S: Array) -> Array:
    """Return the symmetric part of a matrix.

    Parameters
    ----------
    S : array of shape (d, d)
        Symmetric up to rounding.

    Returns
    -------
    array of shape (d, d)
        (S + S') / 2.
    """
    both = S + S.T
    both *= 0.5  # in place: S may be one of the largest matrices of a fit
    return both
