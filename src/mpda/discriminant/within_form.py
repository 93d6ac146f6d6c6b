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

from mpda._lib.array_types import Array, Bools, Floats, Ints
from mpda._lib.arrays import (
    EPSILON,
    add_segments,
    arange,
    array_namespace,
    block_entries,
    eye,
    is_numpy,
    iter_slices,
    nbytes,
    safe_divide,
    set_at,
    take,
    take_nd,
    to_device,
    to_host,
    zeros,
)
from mpda.discriminant.tangents import TangentBases
from mpda.neighbors.graph import EmbeddedGraph

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
class WithinForm:
    """The blocks of S with v for one class; v stands as (P, m) with unused entries beyond m_p.

    cross : (P, d, m) -S_tv, one block per patch
    first_order : (P, m, m) the diagonal blocks of S_vv at gamma = 0
    turning : (P, m, m) what gamma multiplies in the diagonal blocks of S_vv
    pairs : (q, 2) patches joined by an edge of W, lower number first
    couplings : (q, m, m) what gamma multiplies in block (p, q) of S_vv
    used : (P, m) which entries of v exist
    """

    cross: Array
    first_order: Array
    turning: Array
    pairs: Array
    couplings: Array
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
        return sum(map(nbytes, (self.cross, self.first_order, self.turning, self.couplings)))

    def __sizeof__(self) -> int:  # by which a cluster decides what to move to disk
        return self.nbytes

    def packed(self) -> WithinForm | PackedForm:
        """The same without the places of unused entries, where that saves memory worth the time."""
        if self.nbytes <= _SMALL_BYTES or not is_numpy(self.cross):
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

    def cross_columns(self) -> Array:
        """-S_tv as a matrix (d, sum m_p)."""
        columns = array_namespace(self.cross).permute_dims(self.cross, (0, 2, 1))
        return columns[to_device(self.used, self.cross)].T

    def diagonal_blocks(self, gamma: float, beta: float) -> Array:
        """The diagonal blocks (P, m, m) of S_vv + beta I; 1 at unused entries of the diagonal."""
        added = to_device(np.where(self.used, beta, 1.0), self.cross)
        return self.first_order + gamma * self.turning + _diagonal(added)

    def balanced(self, gamma: float, beta: float) -> WithinForm:
        """The same in coordinates of v in which S_vv + beta I has identities on its diagonal.

        That is S_vv of the answer at gamma = 1 and without a ridge. Eliminating v takes the same
        off S_tt; where a diagonal block is singular, v is held to its range.
        """
        xp = array_namespace(self.cross)
        m = self.used.shape[1]
        used = to_device(self.used, self.cross)
        blocks = self.first_order + gamma * self.turning
        diagonal = xp.where(used, xp.linalg.diagonal(blocks) + beta, 0.0)
        # Unused entries must be no larger than used ones, beside which rounding is told.
        whole = xp.where(used, diagonal, xp.max(diagonal, axis=1, keepdims=True))
        blocks = blocks + _diagonal(whole - xp.linalg.diagonal(blocks))
        values, vectors = xp.linalg.eigh(blocks)
        kept = xp.where(values > m * EPSILON * values[:, -1:], values, 0.0)
        roots = xp.sqrt(safe_divide(1.0, kept, xp.zeros_like(kept)))
        sides = (vectors * roots[:, None, :]) @ xp.matrix_transpose(vectors)
        couplings = xp.empty_like(self.couplings)
        for block in iter_slices(
            couplings.shape[0], block_entries(blocks, _BLOCK_ENTRIES) // (m * m)
        ):
            part = gamma * self.couplings[block, :, :]
            low, high = self.pairs[block, 0], self.pairs[block, 1]
            couplings[block, :, :] = take(sides, low) @ part @ take(sides, high)
        return WithinForm(
            self.cross @ sides,
            sides @ blocks @ sides,
            xp.zeros_like(blocks),
            self.pairs,
            couplings,
            self.used,
        )

    def tangent_block(self, gamma: float, beta: float) -> Array:
        """S_vv + beta I, dense (sum m_p, sum m_p)."""
        xp = array_namespace(self.cross)
        size = self.size
        # The number of each entry of v; those that do not exist all go to one place at the end.
        numbers = np.full(self.used.shape, -1)
        numbers[self.used] = np.arange(size)
        number = to_device(numbers, self.cross)
        square = zeros((size * size + 1,), self.cross)
        patches = arange(len(self.used), self.pairs)
        low, high = self.pairs[:, 0], self.pairs[:, 1]
        couplings = gamma * self.couplings
        for p, q, blocks in (
            (patches, patches, self.diagonal_blocks(gamma, beta)),
            (low, high, couplings),
            (high, low, xp.matrix_transpose(couplings)),
        ):
            row, column = take(number, p)[:, :, None], take(number, q)[:, None, :]
            place = xp.where((row < 0) | (column < 0), size * size, row * size + column)
            square = set_at(square, xp.reshape(place, (-1,)), xp.reshape(blocks, (-1,)))
        return xp.reshape(square[:-1], (size, size))

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
        low, high = to_host(self.pairs).T
        rows = np.concatenate([patches, low, high])
        columns = np.concatenate([patches, high, low])
        order = np.lexsort((columns, rows))
        starts = np.searchsorted(rows[order], np.arange(len(patches) + 1))
        return BlockLayout(starts, columns[order], order)

    def blocks_at(self, numbers: Ints, diagonal: Array, gamma: float) -> Array:
        """The blocks (b, m, m) with these numbers in the layout, given those of the diagonal."""
        n_patches, n_pairs = len(self.used), self.pairs.shape[0]
        xp = array_namespace(diagonal)
        blocks = zeros((numbers.size, *diagonal.shape[1:]), diagonal)
        for first, last, source, turned in (
            (0, n_patches, diagonal, False),
            (n_patches, n_patches + n_pairs, self.couplings, False),
            (n_patches + n_pairs, n_patches + 2 * n_pairs, self.couplings, True),
        ):
            places = np.flatnonzero((first <= numbers) & (numbers < last))
            found = take(source, to_device(numbers[places] - first, source))
            if source is not diagonal:
                found *= gamma
            found = xp.matrix_transpose(found) if turned else found
            blocks = set_at(blocks, to_device(places, diagonal), found)
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

    def unpacked(self) -> WithinForm:
        """The form with its blocks."""
        n_patches, m = self.used.shape
        d = len(self.cross)
        cross = np.zeros((d, n_patches * m))
        cross[:, self.used.ravel()] = self.cross
        low, high = self.pairs.T
        inside = _squares(self.used, self.used)
        joined = _squares(self.used[low], self.used[high])
        return WithinForm(
            cross.reshape(d, n_patches, m).transpose(1, 0, 2),
            _spread(self.first_order, inside),
            _spread(self.turning, inside),
            self.pairs.astype(np.intp),
            _spread(self.couplings, joined),
            self.used,
        )


def _diagonal(entries: Array) -> Array:
    """Diagonal blocks (P, m, m) from their entries (P, m)."""
    return eye(entries.shape[1], entries) * entries[:, None, :]


def _squares(rows: Bools, columns: Bools) -> Bools:
    """Which entries of blocks (b, m, m) exist, from their rows and columns (b, m)."""
    return rows[:, :, None] & columns[:, None, :]


def _spread(values: Floats, places: Bools) -> Floats:
    """Values at their places, and 0 elsewhere."""
    blocks = np.zeros(places.shape)
    blocks[places] = values
    return blocks


def tangent_form(placed: EmbeddedGraph, patches: Ints, bundle: TangentBases) -> WithinForm:
    """The blocks with v of one class.

    The graph is W, patches (n,) the patch of each sample and bundle the tangent spaces of the
    patches.
    """
    return coupled_form(placed, patches, bundle, first_order_blocks(placed, patches, bundle))


def first_order_blocks(
    placed: EmbeddedGraph, patches: Ints, bundle: TangentBases
) -> tuple[Array, Array]:
    """-S_tv (P, d, m) and the part of S_vv without gamma (P, m, m)."""
    if placed.Z.shape[0] <= _VERTEX_LIMIT and not placed.edges_are_short:
        return _blocks_from_vertices(placed.offsets, placed.graph.edges, patches, bundle)
    return _blocks_from_differences(placed.Z, placed.graph.edges, patches, bundle)


def coupled_form(
    placed: EmbeddedGraph, patches: Ints, bundle: TangentBases, blocks: tuple[Array, Array]
) -> WithinForm:
    """The form of which these are the first-order blocks."""
    pairs, weights = _joined_patches(placed.graph.edges, patches, bundle.dimensions.size)
    turning, couplings = _coupling_blocks(pairs, weights, bundle)
    return WithinForm(*blocks, turning, pairs, couplings, bundle.mask)


def _blocks_from_vertices(
    Z: Floats, edges: Ints, patches: Ints, bundle: TangentBases
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
    Z: Array, edges: Array, patches: Ints, bundle: TangentBases
) -> tuple[Array, Array]:
    """sum_{j in p} sum_i W_ij d_ij (T_p'd_ij)' and sum (T_p'd_ij)(T_p'd_ij)' for each patch p.

    The ordered edges are sorted by the patch of j and cut into pieces of equal length, so that one
    product serves many patches whatever their sizes.
    """
    xp = array_namespace(Z)
    n_patches, d, m = bundle.bases.shape
    cross = zeros((n_patches, d, m), Z)
    first_order = zeros((n_patches, m, m), Z)
    if m == 0 or edges.shape[0] == 0:
        return cross, first_order
    low, high = edges[:, 0], edges[:, 1]
    tails, heads = xp.concat([low, high]), xp.concat([high, low])
    owners = take(to_device(patches, edges), heads)
    order = xp.argsort(owners, stable=True)
    tails, heads = take(tails, order), take(heads, order)
    counts = np.bincount(to_host(owners), minlength=n_patches)
    length = int(np.clip(counts.sum() // np.count_nonzero(counts), 8, 256))
    n_pieces = -(-counts // length)
    owner = np.repeat(np.arange(n_patches), n_pieces)
    place = np.arange(owner.size) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    begin = (np.cumsum(counts) - counts)[owner] + place * length
    end = np.cumsum(counts)[owner]
    for piece in iter_slices(owner.size, block_entries(Z, _BLOCK_ENTRIES) // (length * d)):
        edge = to_device(begin[piece, None] + np.arange(length), edges)
        limit = to_device(end[piece, None], edges)
        # A place beyond the last edge of a patch takes j for i: a difference of 0.
        last = xp.minimum(edge, limit - 1)
        j = take(heads, last)
        i = xp.where(edge < limit, take(tails, last), j)
        gap = take(Z, i)
        gap -= take(Z, j)
        owns = to_device(owner[piece], edges)
        along = gap @ take(bundle.bases, owns)
        cross = add_segments(cross, owns, xp.matrix_transpose(gap) @ along)
        first_order = add_segments(first_order, owns, xp.matrix_transpose(along) @ along)
    return cross, first_order


def _joined_patches(edges: Array, patches: Ints, n_patches: int) -> tuple[Array, Array]:
    """The pairs (q, 2) of different patches that edges join, and w_pq, the edges of each pair."""
    xp = array_namespace(edges)
    labels = to_device(patches, edges)
    tails, heads = take(labels, edges[:, 0]), take(labels, edges[:, 1])
    keys = xp.minimum(tails, heads) * n_patches + xp.maximum(tails, heads)
    keys, weights = xp.unique_counts(keys[tails != heads])
    return xp.stack([keys // n_patches, keys % n_patches], axis=1), xp.astype(weights, xp.float64)


def _coupling_blocks(pairs: Array, weights: Array, bundle: TangentBases) -> tuple[Array, Array]:
    """The parts of S_vv that gamma multiplies, by A_pq = T_p'T_q.

    Diagonal: sum_q w_pq (I + A_pq A_pq'); block (p, q): -2 w_pq A_pq, since w_pq = w_qp.
    """
    xp = array_namespace(bundle.bases)
    n_patches, d, m = bundle.bases.shape
    couplings = xp.empty((pairs.shape[0], m, m), dtype=xp.float64, device=bundle.bases.device)
    degrees = zeros((n_patches,), bundle.bases)
    turning = zeros((n_patches, m, m), bundle.bases)
    for block in iter_slices(
        pairs.shape[0], block_entries(bundle.bases, _BLOCK_ENTRIES) // max(1, d * m)
    ):
        low, high = pairs[block, 0], pairs[block, 1]
        weight = weights[block]
        w = weight[:, None, None]
        A = _inner_products(bundle.bases, low, high)
        couplings[block, :, :] = -2.0 * w * A
        turned = xp.matrix_transpose(A)
        degrees = add_segments(degrees, low, weight)
        turning = add_segments(turning, low, w * (A @ turned))
        order = xp.argsort(high, stable=True)
        by_high = take(high, order)
        degrees = add_segments(degrees, by_high, take(weight, order))
        turning = add_segments(turning, by_high, take(w * (turned @ A), order))
    used = to_device(bundle.mask.astype(float), bundle.bases)
    return turning + degrees[:, None, None] * _diagonal(used), couplings


def _inner_products(bases: Array, low: Array, high: Array) -> Array:
    """A_pq = T_p'T_q (q, m, m) for pairs of patches."""
    xp = array_namespace(bases)
    n_patches, d, m = bases.shape
    if n_patches <= 2 * low.shape[0] and n_patches * m <= _DENSE_LIMIT:
        columns = xp.reshape(xp.permute_dims(bases, (1, 0, 2)), (d, n_patches * m))
        products = xp.reshape(columns.T @ columns, (n_patches, m, n_patches, m))
        return take_nd(products, (low, slice(None), high))
    return xp.matrix_transpose(take(bases, low)) @ take(bases, high)
