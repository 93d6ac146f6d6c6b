"""The d x d scatters of a class and the between-class form that they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.spatial.distance import cdist

from mpda._typing import Floats, Ints
from mpda.graphs import PlacedGraph, local_affinity, local_scale, scaled_affinity

_BLOCK_ENTRIES = 4_000_000
_DENSE_LIMIT = 500


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
        form = offsets.T @ offsets + self.mean_spread - self.spread / n
        return 0.5 * (form + form.T)


def class_scatter(Z: Floats, spread: Floats) -> ClassScatter:
    """The scatter of a class from its samples Z (n, d) and one of the two spreads below."""
    return ClassScatter(Z.shape[0], Z.mean(axis=0), spread)


def neighbor_spread(placed: PlacedGraph) -> Floats:
    """The spread where A lives on the edges of the class graph (the paper)."""
    offsets, graph = placed.offsets, placed.graph
    weighted = _laplacian(graph.edges, -2.0 * local_affinity(graph), len(offsets)) @ offsets
    weighted += (2.0 * len(offsets)) * offsets
    return offsets.T @ weighted


def full_spread(placed: PlacedGraph, points: Floats) -> Floats:
    """The spread where A is kept for every pair of the class (Sugiyama; the authors' program).

    points (n, d) are the samples in which distances are measured.
    """
    offsets = placed.offsets
    n, d = offsets.shape
    sigma = local_scale(placed.graph.neighbors)
    spread = np.zeros((d, d))
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        D = cdist(points[rows], points)
        missing = 1.0 - scaled_affinity(D, np.multiply.outer(sigma[rows], sigma))
        degrees = missing.sum(axis=1)
        spread += 2.0 * (offsets[rows].T * degrees) @ offsets[rows]
        spread -= 2.0 * offsets[rows].T @ (missing @ offsets)
    return 0.5 * (spread + spread.T)


def graph_scatter(placed: PlacedGraph) -> Floats:
    """sum_ij W_ij d_ij d_ij' (d, d) over ordered pairs: 2 Z'LZ."""
    edges, offsets = placed.graph.edges, placed.offsets
    if placed.edges_are_short:
        return 2.0 * _difference_scatter(placed.Z, edges)
    return offsets.T @ (_laplacian(edges, np.full(len(edges), 2.0), len(offsets)) @ offsets)


def _laplacian(edges: Ints, weights: Floats, n: int) -> Floats | csr_array:
    """D - A (n, n) for symmetric weights (e,) on the edges (e, 2); sparse unless n is small."""
    tails, heads = edges.T
    degrees = np.bincount(tails, weights, n) + np.bincount(heads, weights, n)
    if n <= _DENSE_LIMIT:
        laplacian = np.diag(degrees)
        laplacian[tails, heads] = laplacian[heads, tails] = -weights
        return laplacian
    links = coo_array((weights, (tails, heads)), shape=(n, n))
    return (diags_array(degrees) - links - links.T).tocsr()


def _difference_scatter(Z: Floats, edges: Ints) -> Floats:
    """sum_e d_e d_e' (d, d) over edges (e, 2), from differences, in blocks of edges."""
    d = Z.shape[1]
    total = np.zeros((d, d))
    step = max(1, _BLOCK_ENTRIES // d)
    for start in range(0, len(edges), step):
        tails, heads = edges[start : start + step].T
        gaps = Z[tails] - Z[heads]
        total += gaps.T @ gaps
    return total
