"""Methods that follow local tangent coordinates: the alignment of LLTSA and the fields of LPFE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csc_array
from scipy.sparse.linalg import eigsh

from mpda._typing import Floats, Ints
from mpda.forms import TangentForm, tangent_form
from mpda.graphs import ClassPoints, PlacedGraph, class_graph
from mpda.scatter import graph_scatter, symmetric
from mpda.tangents import neighborhood_tangents

_BLOCK_ENTRIES = 1_000_000
# Up to this many unknowns a dense eigenproblem is fastest.
_DENSE_LIMIT = 400


def alignment_scatter(Z: Floats, lists: Ints, dimension: int) -> Floats:
    """Z'BZ (d, d) of LLTSA, B = sum_i S_i (I - G_i G_i') S_i'.

    S_i picks the k samples in row i of lists (n, k), and G_i = [1/sqrt(k), V_i] with V_i the
    ``dimension`` leading left singular vectors of the neighbourhood about its mean. So each term is
    the scatter that a flat piece of that dimension leaves unexplained in the neighbourhood.
    """
    d = Z.shape[1]
    total = np.zeros((d, d))
    for gaps, axes in _neighborhoods(Z, lists):
        leading = axes[:, :, :dimension]
        left = gaps - leading @ (leading.transpose(0, 2, 1) @ gaps)
        rows = left.reshape(-1, d)
        total += rows.T @ rows
    return symmetric(total)


def energy_dimension(Z: Floats, lists: Ints, energy: float) -> int:
    """The fewest dimensions that keep this share of the variance in neighbourhoods on average."""
    shares = np.zeros(lists.shape[1])
    for gaps, axes in _neighborhoods(Z, lists):
        variances = ((axes.transpose(0, 2, 1) @ gaps) ** 2).sum(axis=2)
        total = variances.sum(axis=1, keepdims=True)
        share = np.divide(variances, total, out=np.zeros_like(variances), where=total > 0.0)
        shares[: share.shape[1]] += share.sum(axis=0)
    kept = np.cumsum(shares) / max(float(shares.sum()), np.finfo(float).tiny)
    return 1 + int(np.count_nonzero(kept < energy - 1e-12))


def _neighborhoods(Z: Floats, lists: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Blocks of neighbourhoods about their means (b, k, d) and their left singular vectors."""
    n, k = lists.shape
    step = max(1, _BLOCK_ENTRIES // (k * Z.shape[1]))
    for start in range(0, n, step):
        points = Z.take(lists[start : start + step], axis=0)
        # Differences from one member come first, so that identical points leave nothing at all.
        gaps = points - points[:, :1]
        gaps -= gaps.mean(axis=1, keepdims=True)
        axes = np.linalg.eigh(gaps @ gaps.transpose(0, 2, 1))[1]
        yield gaps, axes[:, :, ::-1]


@dataclass(frozen=True)
class ClassFields:
    """The vector fields of one class that turn least from sample to sample (LPFE).

    energies : (q,) sum_ij W_ij |v_i - T_i'T_j v_j|^2 of each field, increasing; |v| = 1
    pulls : (d, q) sum_ij W_ij d_ij (v_j'T_j'd_ij): the right side of the least squares for t
    within : (d, d) sum_ij W_ij d_ij d_ij', its left side
    """

    energies: Floats
    pulls: Floats
    within: Floats


def class_fields(
    points: Floats, coordinates: Floats, n_neighbors: int, tangent_energy: float, n_fields: int
) -> ClassFields:
    """The ``n_fields`` smoothest fields of one class over its neighbour graph W, or all it has."""
    placed = PlacedGraph(coordinates, class_graph(ClassPoints(points), n_neighbors))
    bundle = neighborhood_tangents(coordinates, placed.graph.neighbors, tangent_energy)
    form = tangent_form(placed, np.arange(len(points)), bundle)
    coupling = replace(form, first_order=np.zeros_like(form.first_order))
    energies, fields = _smallest_eigenvectors(coupling, min(n_fields, form.size))
    energies = np.maximum(energies, 0.0)
    return ClassFields(energies, form.cross_columns() @ fields, graph_scatter(placed))


def _smallest_eigenvectors(form: TangentForm, q: int) -> tuple[Floats, Floats]:
    """The q smallest eigenvalues of S_vv at gamma = 1 and their vectors (sum m_p, q)."""
    size = form.size
    if q == 0:
        return np.empty(0), np.empty((size, 0))
    if size <= max(_DENSE_LIMIT, 4 * q):
        block = form.tangent_block(1.0, 0.0)
        return eigh(block, subset_by_index=[0, q - 1], check_finite=False)
    # Lanczos with the inverse about a point just below 0, where C - sigma I is positive definite.
    C = form.sparse_tangent_block(1.0, 0.0)
    sigma = -1e-6 * float(C.diagonal().mean())
    start = np.random.default_rng(0).normal(size=size)
    values, vectors = eigsh(csc_array(C), k=q, sigma=sigma, v0=start)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]
