"""The d x d scatters of a class and the between-class form that they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Array, Ints
from mpda._lib.arrays import (
    array_namespace,
    as_float,
    block_entries,
    is_numpy,
    iter_slices,
    ldexp,
    pairwise_distances,
    take,
    to_device,
    zeros,
)
from mpda.neighbors.graph import (
    EmbeddedGraph,
    center,
    graph_laplacian,
    local_affinity,
    local_scale,
    loses_precision,
    nonzero_pairs,
    scaled_affinity,
)

_BLOCK_ENTRIES = 500_000
# Products of offsets are given up where they are larger than what they are to add up to by this.
_LARGEST_LOCAL_EXTENT = 1e5


@dataclass(frozen=True)
class ClassScatter:
    """What one class brings to the between-class form.

    count : n_c
    mean : (d,)
    spread : (d, d), sum over ordered pairs of the class of (1 - A_ij) d_ij d_ij'
    """

    count: int
    mean: Array
    spread: Array


@dataclass(frozen=True)
class BetweenClassSums:
    """The sums over classes that fix the between-class form once n is known.

    counts : (C,)
    means : (C, d)
    spread : (d, d), sum of spread_c
    mean_spread : (d, d), sum of spread_c / n_c
    """

    counts: Ints
    means: Array
    spread: Array
    mean_spread: Array

    @classmethod
    def empty(cls, d: int, X: Array) -> BetweenClassSums:
        """The sums over no class, where the samples X are."""
        squares = zeros((d, d), X)
        return cls(np.empty(0, dtype=np.intp), zeros((0, d), X), squares, squares)

    def __add__(self, part: ClassScatter) -> BetweenClassSums:
        return BetweenClassSums(
            np.append(self.counts, part.count),
            array_namespace(self.means).concat([self.means, part.mean[None, :]]),
            self.spread + part.spread,
            self.mean_spread + part.spread / part.count,
        )

    @property
    def mean(self) -> Array:
        """The mean of all samples (d,)."""
        return to_device(self.counts / self.counts.sum(), self.means) @ self.means

    def form(self) -> Array:
        """S' (d, d) = sum_ij W'_ij d_ij d_ij', W' = 1/n across classes, A_ij (1/n - 1/n_c) inside.

        All pairs with weight 1/n across and 1/n - 1/n_c inside give twice Fisher's between-class
        scatter; what A_ij < 1 leaves out inside class c is (1/n_c - 1/n) spread_c. Both terms are
        positive semi-definite, so nothing cancels.
        """
        n = int(self.counts.sum())
        offsets = self.means - self.mean
        offsets *= to_device(np.sqrt(2.0 * self.counts)[:, None], offsets)
        return symmetrize(offsets.T @ offsets + self.mean_spread - self.spread / n)


def class_scatter(Z: Array, spread: Array) -> ClassScatter:
    """The scatter of a class from its samples Z (n, d) and its spread."""
    return ClassScatter(Z.shape[0], array_namespace(Z).mean(Z, axis=0), spread)


@dataclass(frozen=True)
class AffinityScatter:
    """The pairs of one class, shared out by an affinity A.

    near : (d, d), sum over ordered pairs of A_ij d_ij d_ij'
    spread : (d, d), sum over ordered pairs of (1 - A_ij) d_ij d_ij'
    """

    near: Array
    spread: Array


def neighbor_affinity_scatter(placed: EmbeddedGraph) -> AffinityScatter:
    """Both parts where A lives on the edges of the class graph (the paper)."""
    offsets, graph = placed.offsets, placed.graph
    near = 2.0 * edge_scatter(placed.Z, graph.edges, local_affinity(graph))
    return AffinityScatter(near, (2.0 * offsets.shape[0]) * (offsets.T @ offsets) - near)


def full_affinity_scatter(placed: EmbeddedGraph, points: Array) -> AffinityScatter:
    """Both parts where A is kept for every pair of the class (Sugiyama; the authors' program).

    points (n, d) are the samples in which distances are measured. Offsets from the mean add up to
    nothing, so A serves both parts: sum_j (1 - A_ij) z_j = -sum_j A_ij z_j.
    """
    xp = array_namespace(points)
    offsets = placed.offsets
    n, d = offsets.shape
    sigma = local_scale(placed.graph.neighbors)
    diagonal_near, diagonal_far, mixed = (zeros((d, d), points) for _ in range(3))
    for block in iter_slices(n, block_entries(points, _BLOCK_ENTRIES) // n):
        Z = offsets[block, :]
        A = _full_affinity(points, sigma, block)
        degrees = xp.sum(A, axis=1)
        diagonal_near += (Z.T * degrees) @ Z
        diagonal_far += (Z.T * (n - degrees)) @ Z
        mixed += Z.T @ (A @ offsets)
    near, spread = 2.0 * (diagonal_near - mixed), 2.0 * (diagonal_far + mixed)
    extent, sums = xp.linalg.diagonal(diagonal_near), xp.linalg.diagonal(near)
    if bool(xp.any(extent > _LARGEST_LOCAL_EXTENT * xp.abs(sums))):
        near = _full_near_scatter(placed.Z, points, sigma)
    return AffinityScatter(symmetrize(near), symmetrize(spread))


def _full_affinity(points: Array, sigma: Array, block: slice) -> Array:
    """A (b, n) between a block of the points and all of them."""
    gaps = pairwise_distances(points[block, :], points)
    return scaled_affinity(gaps, sigma[block][:, None] * sigma[None, :])


def _full_near_scatter(Z: Array, points: Array, sigma: Array) -> Array:
    """sum_ij A_ij d_ij d_ij' from differences, where near pairs are very near beside the class."""
    xp = array_namespace(Z)
    n, d = Z.shape
    near = zeros((d, d), Z)
    for block in iter_slices(n, block_entries(points, _BLOCK_ENTRIES) // n):
        A = _full_affinity(points, sigma, block)
        tails, heads = nonzero_pairs(A > 0.0)
        weights = take(xp.reshape(A, (-1,)), tails * n + heads)
        near += _difference_scatter(Z, xp.stack([tails + block.start, heads], axis=1), weights)
    return near


def graph_scatter(placed: EmbeddedGraph) -> Array:
    """sum_ij W_ij d_ij d_ij' (d, d) over ordered pairs: 2 Z'LZ."""
    if placed.edges_are_short:
        return 2.0 * _difference_scatter(placed.Z, placed.graph.edges)
    return 2.0 * (placed.offsets.T @ placed.laplacian_offsets)


def edge_scatter(Z: Array, edges: Array, weights: Array) -> Array:
    """sum_e w_e d_e d_e' (d, d) over edges (e, 2) with weights (e,): Z'LZ, L their Laplacian."""
    if not is_numpy(Z):
        return symmetrize(_difference_scatter(Z, edges, weights))
    offsets = center(Z)
    scatter = offsets.T @ (graph_laplacian(edges, weights, len(Z)) @ offsets)
    degrees = np.bincount(edges.ravel(), np.repeat(np.abs(weights), 2), len(Z))
    if loses_precision(offsets, degrees, np.diagonal(scatter), _LARGEST_LOCAL_EXTENT):
        scatter = _difference_scatter(Z, edges, weights)
    return symmetrize(scatter)


def _difference_scatter(Z: Array, edges: Array, weights: Array | None = None) -> Array:
    """sum_e w_e d_e d_e' (d, d) over edges (e, 2), from differences, in blocks of edges."""
    d = Z.shape[1]
    total = zeros((d, d), Z)
    for block in iter_slices(edges.shape[0], block_entries(Z, _BLOCK_ENTRIES) // d):
        gaps = take(Z, edges[block, 0]) - take(Z, edges[block, 1])
        weighted = gaps if weights is None else gaps * weights[block][:, None]
        total += weighted.T @ gaps
    return total


def total_scatter(X: Array, exponent: int, mean: Array) -> Array:
    """sum_i (x_i - mean)(x_i - mean)' (d, d) of samples X (n, d), times 2^(-2 exponent).

    In blocks of rows, in double precision.
    """
    n, d = X.shape
    total = zeros((d, d), X)
    for block in iter_slices(n, block_entries(X, _BLOCK_ENTRIES) // d):
        offsets = ldexp(as_float(X[block, :]) - mean, -exponent)
        total += offsets.T @ offsets
    return total


def symmetrize(S: Array) -> Array:
    """S with the rounding between its two halves shared out."""
    return 0.5 * (S + S.T)
