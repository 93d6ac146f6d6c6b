"""The d x d scatters of a class and the between-class form that they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.spatial.distance import cdist

from mpda._typing import Floats, Ints
from mpda.graphs import ClassGraph, local_affinity, local_scale, scaled_affinity

_BLOCK_ENTRIES = 4_000_000
_DENSE_LIMIT = 500
# Sums of squares of the offsets over those of the edges: 2e-16 of this is the rounding allowed.
_LARGEST_EXTENT = 1e3


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


def neighbor_spread(Z: Floats, graph: ClassGraph) -> Floats:
    """The spread where A lives on the edges of the class graph (the paper)."""
    offsets = Z - Z.mean(axis=0)
    weighted = _laplacian(graph.edges, -2.0 * local_affinity(graph), len(Z)) @ offsets
    weighted += (2.0 * len(Z)) * offsets
    return offsets.T @ weighted


def full_spread(Z: Floats, points: Floats, graph: ClassGraph) -> Floats:
    """The spread where A is kept for every pair of the class (Sugiyama; the authors' program).

    points (n, d) are the samples in which distances are measured, Z their coordinates.
    """
    n, d = Z.shape
    sigma = local_scale(graph.neighbors)
    offsets = Z - Z.mean(axis=0)
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


def graph_scatter(Z: Floats, graph: ClassGraph) -> Floats:
    """sum_ij W_ij d_ij d_ij' (d, d) over ordered pairs: 2 Z'LZ.

    The Laplacian is several times faster than the differences, but its rounding is relative to the
    extent of the class. Where edges are very short beside that, the differences are taken.
    """
    offsets = Z - Z.mean(axis=0)
    if edges_are_short(offsets, graph):
        return 2.0 * _difference_scatter(Z, graph.edges)
    return offsets.T @ (_laplacian(graph.edges, np.full(len(graph.edges), 2.0), len(Z)) @ offsets)


def edges_are_short(offsets: Floats, graph: ClassGraph) -> bool:
    """Whether products of offsets from the class mean (n, d) would lose the edges in rounding."""
    degrees = np.bincount(graph.edges.ravel(), minlength=len(offsets))
    extent = float(degrees @ np.einsum("ij,ij->i", offsets, offsets))
    return extent > _LARGEST_EXTENT * float(graph.lengths @ graph.lengths)


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
