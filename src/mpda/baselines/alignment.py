"""Methods that follow local tangent coordinates: the alignment of LLTSA and the fields of LPFE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csc_array
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mpda._lib.array_types import Floats, Ints
from mpda.discriminant.eigenproblem import solve_least_squares
from mpda.discriminant.scatter import graph_scatter, symmetrize
from mpda.discriminant.tangents import neighborhood_tangents
from mpda.discriminant.within_form import WithinForm, tangent_form
from mpda.neighbors.graph import ClassPoints, EmbeddedGraph, build_class_graph

_BLOCK_ENTRIES = 1_000_000
# Up to this many unknowns a dense eigenproblem is fastest; and up to so many for each eigenvector,
# because Lanczos makes every step orthogonal to all before it.
_DENSE_LIMIT, _DENSE_SHARE, _LARGEST_DENSE = 400, 20, 6000
# Energies of unit fields that differ by less are equal but for rounding.
_SAME_ENERGY = 1e-9


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
    return symmetrize(total)


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
class Fields:
    """The vector fields that turn least from sample to sample (LPFE), of one class or of all.

    energies : (q,) sum_ij W_ij |v_i - T_i'T_j v_j|^2 of each field, increasing; |v| = 1
    pulls : (d, q) sum_ij W_ij d_ij (v_j'T_j'd_ij): the right side of the least squares for t
    within : (d, d) sum_ij W_ij d_ij d_ij', its left side
    n_all : how many fields there are in all
    """

    energies: Floats
    pulls: Floats
    within: Floats
    n_all: int


def class_fields(
    points: Floats, coordinates: Floats, n_neighbors: int, tangent_energy: float, n_fields: int
) -> Fields:
    """The smoothest fields of one class over its neighbour graph W, ``n_fields`` or all it has.

    Where others have the energy of the last one, they come along.
    """
    placed = EmbeddedGraph(coordinates, build_class_graph(ClassPoints(points), n_neighbors))
    bundle = neighborhood_tangents(coordinates, placed.graph.neighbors, tangent_energy)
    form = tangent_form(placed, np.arange(len(points)), bundle)
    coupling = replace(form, first_order=np.zeros_like(form.first_order))
    q = min(n_fields + 1, form.size)
    energies, fields = _smallest_eigenvectors(coupling, q)
    while q < form.size and energies[-1] - energies[n_fields - 1] <= _SAME_ENERGY:
        q = min(2 * q, form.size)
        energies, fields = _smallest_eigenvectors(coupling, q)
    kept = closed_group(energies, n_fields)
    pulls = form.cross_columns() @ fields[:, :kept]
    energies = np.maximum(energies[:kept], 0.0)
    return Fields(energies, pulls, graph_scatter(placed), form.size)


def closed_group(energies: Floats, n: int) -> int:
    """How many of the increasing energies are no larger than the n-th, up to rounding."""
    if energies.size <= n:
        return energies.size
    return int(np.searchsorted(energies, energies[n - 1] + _SAME_ENERGY, side="right"))


def settled_within_groups(fields: Fields) -> Fields:
    """The same fields, those of equal energy by how much of their pulls a direction can follow.

    Any mixture of fields of equal energy is as smooth; without this rounding would choose one.
    """
    ends = np.flatnonzero(np.diff(fields.energies) > _SAME_ENERGY) + 1
    groups = np.split(fields.pulls, ends, axis=1)
    turned = [_by_length_followed(group, fields.within) for group in groups]
    return replace(fields, pulls=np.concatenate(turned, axis=1))


def _by_length_followed(pulls: Floats, within: Floats) -> Floats:
    """Mixtures of the pulls (d, g) that are independent as least squares sees them."""
    if pulls.shape[1] < 2:
        return pulls
    followed = symmetrize(pulls.T @ solve_least_squares(within, pulls)[0])
    return pulls @ np.linalg.eigh(followed)[1][:, ::-1]


def _smallest_eigenvectors(form: WithinForm, q: int) -> tuple[Floats, Floats]:
    """The q smallest eigenvalues of S_vv at gamma = 1 and their vectors (sum m_p, q)."""
    size = form.size
    if q == 0:
        return np.empty(0), np.empty((size, 0))
    if size <= max(_DENSE_LIMIT, min(_DENSE_SHARE * q, _LARGEST_DENSE)):
        block = form.tangent_block(1.0, 0.0)
        return eigh(block, subset_by_index=[0, q - 1], check_finite=False)
    C = form.sparse_tangent_block(1.0, 0.0)
    start = np.random.default_rng(0).normal(size=size)
    try:
        values, vectors = eigsh(C, k=q, which="SA", v0=start, ncv=min(size, max(2 * q + 20, 60)))
    except ArpackNoConvergence:
        # By the inverse about a point just below 0, where C - sigma I is positive definite: it
        # always converges, but its factor fills in and grows with the square of the class.
        sigma = -1e-6 * float(C.diagonal().mean())
        values, vectors = eigsh(csc_array(C), k=q, sigma=sigma, v0=start)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]
