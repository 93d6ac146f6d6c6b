"""The d x d scatters of a class and the between-class form that they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from mpda._typing import Floats, Ints
from mpda.graphs import (
    PlacedGraph,
    laplacian,
    local_affinity,
    local_scale,
    lost_in_products,
    mean_offsets,
    scaled_affinity,
    true_pairs,
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
    mean: Floats
    spread: Floats


@dataclass(frozen=True)
class BetweenSums:
    """The sums over classes that fix the between-class form once n is known.

    counts : (C,)
    means : (C, d)
    spread : (d, d), sum of spread_c
    mean_spread : (d, d), sum of spread_c / n_c
    """

    counts: Ints
    means: Floats
    spread: Floats
    mean_spread: Floats

    @classmethod
    def empty(cls, d: int) -> BetweenSums:
        return cls(np.empty(0, dtype=np.intp), np.empty((0, d)), np.zeros((d, d)), np.zeros((d, d)))

    def __add__(self, part: ClassScatter) -> BetweenSums:
        return BetweenSums(
            np.append(self.counts, part.count),
            np.vstack([self.means, part.mean]),
            self.spread + part.spread,
            self.mean_spread + part.spread / part.count,
        )

    def form(self) -> Floats:
        """S' (d, d) = sum_ij W'_ij d_ij d_ij', W' = 1/n across classes, A_ij (1/n - 1/n_c) inside.

        All pairs with weight 1/n across and 1/n - 1/n_c inside give twice Fisher's between-class
        scatter; what A_ij < 1 leaves out inside class c is (1/n_c - 1/n) spread_c. Both terms are
        positive semi-definite, so nothing cancels.
        """
        n = self.counts.sum()
        offsets = self.means - self.counts @ self.means / n
        offsets *= np.sqrt(2.0 * self.counts)[:, None]
        return symmetric(offsets.T @ offsets + self.mean_spread - self.spread / n)


def class_scatter(Z: Floats, spread: Floats) -> ClassScatter:
    """The scatter of a class from its samples Z (n, d) and its spread."""
    return ClassScatter(Z.shape[0], Z.mean(axis=0), spread)


def neighbor_spread(placed: PlacedGraph) -> Floats:
    """The spread where A lives on the edges of the class graph (the paper)."""
    offsets, graph = placed.offsets, placed.graph
    weighted = laplacian(graph.edges, -2.0 * local_affinity(graph), len(offsets)) @ offsets
    weighted += (2.0 * len(offsets)) * offsets
    return offsets.T @ weighted


@dataclass(frozen=True)
class AffinityScatter:
    """The pairs of one class, shared out by an affinity A.

    near : (d, d), sum over ordered pairs of A_ij d_ij d_ij'
    spread : (d, d), sum over ordered pairs of (1 - A_ij) d_ij d_ij'
    """

    near: Floats
    spread: Floats


def full_affinity_scatter(placed: PlacedGraph, points: Floats) -> AffinityScatter:
    """Both parts where A is kept for every pair of the class (Sugiyama; the authors' program).

    points (n, d) are the samples in which distances are measured. Offsets from the mean add up to
    nothing, so A serves both parts: sum_j (1 - A_ij) z_j = -sum_j A_ij z_j.
    """
    offsets = placed.offsets
    n, d = offsets.shape
    sigma = local_scale(placed.graph.neighbors)
    diagonal_near, diagonal_far, mixed = np.zeros((3, d, d))
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        D = cdist(points[rows], points)
        A = scaled_affinity(D, np.multiply.outer(sigma[rows], sigma))
        degrees = A.sum(axis=1)
        diagonal_near += (offsets[rows].T * degrees) @ offsets[rows]
        diagonal_far += (offsets[rows].T * (n - degrees)) @ offsets[rows]
        mixed += offsets[rows].T @ (A @ offsets)
    near, spread = 2.0 * (diagonal_near - mixed), 2.0 * (diagonal_far + mixed)
    extent, sums = np.diagonal(diagonal_near), np.diagonal(near)
    if (extent > _LARGEST_LOCAL_EXTENT * np.abs(sums)).any():
        near = _full_near_scatter(placed.Z, points, sigma)
    return AffinityScatter(symmetric(near), symmetric(spread))


def _full_near_scatter(Z: Floats, points: Floats, sigma: Floats) -> Floats:
    """sum_ij A_ij d_ij d_ij' from differences, where near pairs are very near beside the class."""
    n, d = Z.shape
    near = np.zeros((d, d))
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        D = cdist(points[rows], points)
        A = scaled_affinity(D, np.multiply.outer(sigma[rows], sigma))
        tails, heads = true_pairs(A > 0.0)
        edges = np.column_stack([rows[tails], heads])
        near += _difference_scatter(Z, edges, A[tails, heads])
    return near


def graph_scatter(placed: PlacedGraph) -> Floats:
    """sum_ij W_ij d_ij d_ij' (d, d) over ordered pairs: 2 Z'LZ."""
    if placed.edges_are_short:
        return 2.0 * _difference_scatter(placed.Z, placed.graph.edges)
    return 2.0 * (placed.offsets.T @ placed.laplacian_offsets)


def edge_scatter(Z: Floats, edges: Ints, weights: Floats) -> Floats:
    """sum_e w_e d_e d_e' (d, d) over edges (e, 2) with weights (e,): Z'LZ, L their Laplacian."""
    offsets = mean_offsets(Z)
    scatter = offsets.T @ (laplacian(edges, weights, len(Z)) @ offsets)
    degrees = np.bincount(edges.ravel(), np.repeat(np.abs(weights), 2), len(Z))
    if lost_in_products(offsets, degrees, np.diagonal(scatter), _LARGEST_LOCAL_EXTENT):
        scatter = _difference_scatter(Z, edges, weights)
    return symmetric(scatter)


def _difference_scatter(Z: Floats, edges: Ints, weights: Floats | None = None) -> Floats:
    """sum_e w_e d_e d_e' (d, d) over edges (e, 2), from differences, in blocks of edges."""
    d = Z.shape[1]
    total = np.zeros((d, d))
    step = max(1, _BLOCK_ENTRIES // d)
    for start in range(0, len(edges), step):
        tails, heads = edges[start : start + step].T
        gaps = Z[tails] - Z[heads]
        weighted = gaps if weights is None else gaps * weights[start : start + step, None]
        total += weighted.T @ gaps
    return total


def total_scatter(X: Floats, exponent: int, mean: Floats) -> Floats:
    """sum_i (x_i - mean)(x_i - mean)' (d, d) of samples X (n, d), times 2^(-2 exponent).

    In blocks of rows, in double precision.
    """
    d = X.shape[1]
    total = np.zeros((d, d))
    step = max(1, _BLOCK_ENTRIES // d)
    for start in range(0, len(X), step):
        offsets = np.ldexp(X[start : start + step] - mean, -exponent)
        total += offsets.T @ offsets
    return total


def symmetric(S: Floats) -> Floats:
    """S with the rounding between its two halves shared out."""
    return 0.5 * (S + S.T)
