"""The within-class form of one class over (t, v), in blocks.

    S(t, v) = sum_ij W_ij [ (t'd_ij - v_pi(j)' T_pi(j)' d_ij)^2
                            + gamma |v_pi(i) - T_pi(i)' T_pi(j) v_pi(j)|^2 ]

over ordered pairs (withinPatchObj in the paper). S_tt, the part without v, is an edge scatter; the
blocks with v are here. They are affine in gamma, so they are made once and serve every gamma and
every ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_array, csr_array, vstack

from mpda._typing import Bools, Floats, Ints
from mpda.graphs import PlacedGraph
from mpda.tangents import TangentBundle

# Blocks that stay in the cache; larger ones cost more in fresh memory than they save in calls.
_BLOCK_ENTRIES = 128_000
# Up to this many samples products with all of them are faster than sums over edges.
_VERTEX_LIMIT = 400
# Up to this many tangent directions all their products at once are faster than pair by pair.
_DENSE_LIMIT = 1000
# Patches whose rows of S_vv are made at a time.
_ROWS = 256
# Forms of up to this size are kept as they are.
_SMALL_BYTES = 2**21


@dataclass(frozen=True)
class TangentForm:
    """The blocks of S with v for one class; v stands as (P, m) with unused entries beyond m_p.

    cross : (P, d, m) -S_tv, one block per patch
    first_order : (P, m, m) the diagonal blocks of S_vv at gamma = 0
    turning : (P, m, m) what gamma multiplies in the diagonal blocks of S_vv
    pairs : (q, 2) patches joined by an edge of W, lower number first
    couplings : (q, m, m) what gamma multiplies in block (p, q) of S_vv
    used : (P, m) which entries of v exist
    """

    cross: Floats
    first_order: Floats
    turning: Floats
    pairs: Ints
    couplings: Floats
    used: Bools

    @property
    def size(self) -> int:
        """The number of entries of v, sum_p m_p."""
        return int(np.count_nonzero(self.used))

    @property
    def dimensions(self) -> Ints:
        """m_p (P,)."""
        return self.used.sum(axis=1)

    @property
    def nbytes(self) -> int:
        """The memory that the blocks take."""
        parts = (self.cross, self.first_order, self.turning, self.couplings)
        return sum(part.nbytes for part in parts)

    def __sizeof__(self) -> int:  # by which a cluster decides what to move to disk
        return self.nbytes

    def packed(self) -> TangentForm | PackedForm:
        """The same without the places of unused entries, where that saves memory worth the time."""
        if self.nbytes <= _SMALL_BYTES:
            return self
        low, high = self.pairs.T
        return PackedForm(
            self.cross_columns(),
            self.first_order[_squares(self.used, self.used)],
            self.turning[_squares(self.used, self.used)],
            self.pairs.astype(np.int32),
            self.couplings[_squares(self.used[low], self.used[high])],
            self.used,
        )

    def cross_columns(self) -> Floats:
        """-S_tv as a matrix (d, sum m_p)."""
        return self.cross.transpose(0, 2, 1)[self.used].T

    def diagonal_blocks(self, gamma: float, beta: float) -> Floats:
        """The diagonal blocks (P, m, m) of S_vv + beta I; 1 at unused entries of the diagonal."""
        blocks = self.first_order + gamma * self.turning
        entries = np.arange(self.used.shape[1])
        blocks[:, entries, entries] += np.where(self.used, beta, 1.0)
        return blocks

    def balanced(self, gamma: float, beta: float) -> TangentForm:
        """The same in coordinates of v in which S_vv + beta I has identities on its diagonal.

        That is S_vv of the answer at gamma = 1 and without a ridge. Eliminating v takes the same
        off S_tt; where a diagonal block is singular, v is held to its range.
        """
        blocks = self.diagonal_blocks(gamma, beta)
        m = self.used.shape[1]
        entries = np.arange(m)
        # Unused entries must be no larger than used ones, beside which rounding is told.
        diagonal = np.where(self.used, blocks[:, entries, entries], 0.0)
        blocks[:, entries, entries] = np.where(self.used, diagonal, diagonal.max(axis=1)[:, None])
        values, vectors = np.linalg.eigh(blocks)
        kept = values > m * np.finfo(float).eps * values[:, -1:]
        roots = np.sqrt(np.divide(1.0, values, out=np.zeros_like(values), where=kept))
        sides = (vectors * roots[:, None]) @ vectors.transpose(0, 2, 1)
        couplings = np.empty_like(self.couplings)
        step = max(1, _BLOCK_ENTRIES // (m * m))
        for start in range(0, len(couplings), step):
            low, high = self.pairs[start : start + step].T
            part = gamma * self.couplings[start : start + step]
            couplings[start : start + step] = sides[low] @ part @ sides[high]
        return TangentForm(
            self.cross @ sides,
            sides @ blocks @ sides,
            np.zeros_like(blocks),
            self.pairs,
            couplings,
            self.used,
        )

    def tangent_block(self, gamma: float, beta: float) -> Floats:
        """S_vv + beta I, dense (sum m_p, sum m_p)."""
        n_patches, m = self.used.shape
        if n_patches * m > 2 * self.size + 100:  # patches of very unequal dimension
            return self.sparse_tangent_block(gamma, beta).toarray()
        patches = np.arange(n_patches)
        low, high = self.pairs.T
        couplings = gamma * self.couplings
        blocks = np.zeros((n_patches, m, n_patches, m))
        blocks[patches, :, patches] = self.diagonal_blocks(gamma, beta)
        blocks[low, :, high] = couplings
        blocks[high, :, low] = couplings.transpose(0, 2, 1)
        used = self.used.ravel().nonzero()[0]
        square = blocks.reshape(n_patches * m, n_patches * m)
        return square.take(used, axis=0).take(used, axis=1)

    def sparse_tangent_block(self, gamma: float, beta: float) -> csr_array:
        """S_vv + beta I, sparse (sum m_p, sum m_p).

        Rows are made from some patches at a time, because blocks with unused entries take several
        times the memory of what is left of them.
        """
        n_patches, m = self.used.shape
        layout = self.layout()
        diagonal = self.diagonal_blocks(gamma, beta)
        used = self.used.ravel().nonzero()[0]
        parts = []
        for begin in range(0, n_patches, _ROWS):
            end = min(begin + _ROWS, n_patches)
            starts = layout.starts[begin : end + 1]
            entries = slice(starts[0], starts[-1])
            part = bsr_array(
                (
                    self.blocks_at(layout.blocks[entries], diagonal, gamma),
                    layout.columns[entries],
                    starts - starts[0],
                ),
                shape=((end - begin) * m, n_patches * m),
            )
            inside = self.used[begin:end].ravel().nonzero()[0]
            parts.append(part.tocsr()[inside][:, used])
        return csr_array(vstack(parts, format="csr"))

    def layout(self) -> BlockLayout:
        """Where the blocks of S_vv stand."""
        patches = np.arange(len(self.used))
        low, high = self.pairs.T
        rows = np.concatenate([patches, low, high])
        columns = np.concatenate([patches, high, low])
        order = np.lexsort((columns, rows))
        starts = np.searchsorted(rows[order], np.arange(len(patches) + 1))
        return BlockLayout(starts, columns[order], order)

    def blocks_at(self, numbers: Ints, diagonal: Floats, gamma: float) -> Floats:
        """The blocks (b, m, m) with these numbers in the layout, given those of the diagonal."""
        n_patches, n_pairs = len(self.used), len(self.pairs)
        blocks = np.empty((numbers.size, *diagonal.shape[1:]))
        on_diagonal, below = numbers < n_patches, numbers >= n_patches + n_pairs
        above = ~(on_diagonal | below)
        blocks[on_diagonal] = diagonal[numbers[on_diagonal]]
        blocks[above] = gamma * self.couplings[numbers[above] - n_patches]
        mirrored = self.couplings[numbers[below] - n_patches - n_pairs]
        blocks[below] = gamma * mirrored.transpose(0, 2, 1)
        return blocks


@dataclass(frozen=True)
class BlockLayout:
    """The blocks of S_vv that are not zero, row by row.

    starts : (P + 1,) where the blocks of each patch begin
    columns : (b,) the patch of the column of each block
    blocks : (b,) its number: the diagonal ones first, then those of the pairs, then these mirrored
    """

    starts: Ints
    columns: Ints
    blocks: Ints


@dataclass(frozen=True)
class PackedForm:
    """A form without the places of unused entries: what is kept takes half the memory.

    cross : (d, sum m_p) the columns that are used; the other parts are their used entries in a row
    """

    cross: Floats
    first_order: Floats
    turning: Floats
    pairs: Ints
    couplings: Floats
    used: Bools

    @property
    def nbytes(self) -> int:
        """The memory that the form takes."""
        parts = (self.cross, self.first_order, self.turning, self.pairs, self.couplings, self.used)
        return sum(part.nbytes for part in parts)

    def __sizeof__(self) -> int:
        return self.nbytes

    def unpacked(self) -> TangentForm:
        """The form with its blocks."""
        n_patches, m = self.used.shape
        d = len(self.cross)
        cross = np.zeros((d, n_patches * m))
        cross[:, self.used.ravel()] = self.cross
        low, high = self.pairs.T
        inside = _squares(self.used, self.used)
        joined = _squares(self.used[low], self.used[high])
        return TangentForm(
            cross.reshape(d, n_patches, m).transpose(1, 0, 2),
            _spread(self.first_order, inside),
            _spread(self.turning, inside),
            self.pairs.astype(np.intp),
            _spread(self.couplings, joined),
            self.used,
        )


def _squares(rows: Bools, columns: Bools) -> Bools:
    """Which entries of blocks (b, m, m) exist, from their rows and columns (b, m)."""
    return rows[:, :, None] & columns[:, None, :]


def _spread(values: Floats, places: Bools) -> Floats:
    """Values at their places, and 0 elsewhere."""
    blocks = np.zeros(places.shape)
    blocks[places] = values
    return blocks


def tangent_form(placed: PlacedGraph, patches: Ints, bundle: TangentBundle) -> TangentForm:
    """The blocks with v of one class.

    The graph is W, patches (n,) the patch of each sample and bundle the tangent spaces of the
    patches.
    """
    return coupled_form(placed, patches, bundle, first_order_blocks(placed, patches, bundle))


def first_order_blocks(
    placed: PlacedGraph, patches: Ints, bundle: TangentBundle
) -> tuple[Floats, Floats]:
    """-S_tv (P, d, m) and the part of S_vv without gamma (P, m, m)."""
    if len(placed.Z) <= _VERTEX_LIMIT and not placed.edges_are_short:
        return _blocks_from_vertices(placed.offsets, placed.graph.edges, patches, bundle)
    return _blocks_from_differences(placed.Z, placed.graph.edges, patches, bundle)


def coupled_form(
    placed: PlacedGraph, patches: Ints, bundle: TangentBundle, blocks: tuple[Floats, Floats]
) -> TangentForm:
    """The form of which these are the first-order blocks."""
    pairs, weights = _joined_patches(placed.graph.edges, patches, bundle.dimensions.size)
    turning, couplings = _coupling_blocks(pairs, weights, bundle)
    return TangentForm(*blocks, turning, pairs, couplings, bundle.used)


def _blocks_from_vertices(
    Z: Floats, edges: Ints, patches: Ints, bundle: TangentBundle
) -> tuple[Floats, Floats]:
    """-S_tv and the first-order part of S_vv by products of matrices with n rows.

    With Y_p = Z T_p the sums over edges are Z'(Q_p Y_p) and Y_p'(Q_p Y_p), where Q_p is the
    Laplacian of the edges that end in patch p, and

        (Q_p Y_p)_i = sum_{j in p} W_ij (y_i - y_j) + [i in p] sum_j W_ij (y_i - y_j).
    """
    n_patches, d, m = bundle.bases.shape
    n = len(Z)
    W = np.zeros((n, n))
    W[edges[:, 0], edges[:, 1]] = W[edges[:, 1], edges[:, 0]] = 1.0
    samples = np.arange(n)
    inside = np.zeros((n, n_patches))
    inside[samples, patches] = 1.0
    Y = (Z @ bundle.bases.transpose(1, 0, 2).reshape(d, -1)).reshape(n, n_patches, m)
    own = np.zeros_like(Y)
    own[samples, patches] = Y[samples, patches]
    QY = (W @ inside)[:, :, None] * Y
    QY -= (W @ own.reshape(n, -1)).reshape(Y.shape)
    around = (W @ Y.reshape(n, -1)).reshape(Y.shape)[samples, patches]
    QY[samples, patches] += W.sum(axis=1)[:, None] * Y[samples, patches] - around
    cross = (Z.T @ QY.reshape(n, -1)).reshape(d, n_patches, m).transpose(1, 0, 2)
    first_order = Y.transpose(1, 2, 0) @ QY.transpose(1, 0, 2)
    return cross, 0.5 * (first_order + first_order.transpose(0, 2, 1))


def _blocks_from_differences(
    Z: Floats, edges: Ints, patches: Ints, bundle: TangentBundle
) -> tuple[Floats, Floats]:
    """sum_{j in p} sum_i W_ij d_ij (T_p'd_ij)' and sum (T_p'd_ij)(T_p'd_ij)' for each patch p.

    The ordered edges are sorted by the patch of j and cut into pieces of equal length, so that one
    product serves many patches whatever their sizes.
    """
    n_patches, d, m = bundle.bases.shape
    cross = np.zeros((n_patches, d, m))
    first_order = np.zeros((n_patches, m, m))
    if m == 0 or len(edges) == 0:
        return cross, first_order
    ordered = np.concatenate([edges, edges[:, ::-1]])
    ordered = ordered[np.argsort(patches[ordered[:, 1]], kind="stable")]
    counts = np.bincount(patches[ordered[:, 1]], minlength=n_patches)
    length = int(np.clip(counts.sum() // np.count_nonzero(counts), 8, 256))
    n_pieces = -(-counts // length)
    owner = np.repeat(np.arange(n_patches), n_pieces)
    place = np.arange(owner.size) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    begin = (np.cumsum(counts) - counts)[owner] + place * length
    end = np.cumsum(counts)[owner]
    step = max(1, min(owner.size, _BLOCK_ENTRIES // (length * d)))
    gaps, heads = np.empty((2, step, length, d))
    for start in range(0, owner.size, step):
        piece = slice(start, start + step)
        rows = begin[piece, None] + np.arange(length)
        # A place beyond the last edge of a patch takes j for i: a difference of 0.
        i, j = ordered[np.minimum(rows, end[piece, None] - 1)].transpose(2, 0, 1)
        i = np.where(rows < end[piece, None], i, j)
        gap, head = gaps[: len(rows)], heads[: len(rows)]
        np.take(Z, i, axis=0, out=gap, mode="clip")
        np.take(Z, j, axis=0, out=head, mode="clip")
        gap -= head
        along = gap @ bundle.bases[owner[piece]]
        _add_by_owner(cross, owner[piece], gap.transpose(0, 2, 1) @ along)
        _add_by_owner(first_order, owner[piece], along.transpose(0, 2, 1) @ along)
    return cross, first_order


def _add_by_owner(total: Floats, owner: Ints, blocks: Floats) -> None:
    """total[p] += the blocks that p owns; owner is sorted."""
    first = np.concatenate([[0], (owner[1:] != owner[:-1]).nonzero()[0] + 1])
    total[owner[first]] += np.add.reduceat(blocks, first, axis=0)


def _joined_patches(edges: Ints, patches: Ints, n_patches: int) -> tuple[Ints, Floats]:
    """The pairs (q, 2) of different patches that edges join, and w_pq, the edges of each pair."""
    tails, heads = patches[edges].T
    apart = tails != heads
    low, high = np.minimum(tails, heads)[apart], np.maximum(tails, heads)[apart]
    keys, weights = np.unique(low * n_patches + high, return_counts=True)
    return np.column_stack([keys // n_patches, keys % n_patches]), weights.astype(float)


def _coupling_blocks(pairs: Ints, weights: Floats, bundle: TangentBundle) -> tuple[Floats, Floats]:
    """The parts of S_vv that gamma multiplies, by A_pq = T_p'T_q.

    Diagonal: sum_q w_pq (I + A_pq A_pq'); block (p, q): -2 w_pq A_pq, since w_pq = w_qp.
    """
    n_patches, d, m = bundle.bases.shape
    couplings = np.empty((len(pairs), m, m))
    degrees = np.bincount(pairs.ravel(), np.repeat(weights, 2), n_patches)
    turning = degrees[:, None, None] * (np.eye(m) * bundle.used[:, None])
    step = max(1, _BLOCK_ENTRIES // max(1, d * m))
    for start in range(0, len(pairs), step):
        low, high = pairs[start : start + step].T
        w = weights[start : start + step, None, None]
        A = _inner_products(bundle.bases, low, high)
        couplings[start : start + step] = -2.0 * w * A
        _add_by_owner(turning, low, w * (A @ A.transpose(0, 2, 1)))
        order = np.argsort(high, kind="stable")
        _add_by_owner(turning, high[order], (w * (A.transpose(0, 2, 1) @ A))[order])
    return turning, couplings


def _inner_products(bases: Floats, low: Ints, high: Ints) -> Floats:
    """A_pq = T_p'T_q (q, m, m) for pairs of patches."""
    n_patches, d, m = bases.shape
    if n_patches <= 2 * len(low) and n_patches * m <= _DENSE_LIMIT:
        columns = bases.transpose(1, 0, 2).reshape(d, n_patches * m)
        products = (columns.T @ columns).reshape(n_patches, m, n_patches, m)
        return products[low, :, high]
    return bases[low].transpose(0, 2, 1) @ bases[high]
