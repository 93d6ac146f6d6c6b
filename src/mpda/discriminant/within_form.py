"""The within-class form of one class over (t, v), in blocks (withinPatchObj).

    S(t, v) = sum_ij W_ij [ (t'd_ij - v_pi(j)' T_pi(j)' d_ij)^2
                            + gamma |v_pi(i) - T_pi(i)' T_pi(j) v_pi(j)|^2 ]

over ordered pairs. With A_pq = T_p'T_q and w_pq the sum of W_ij over edges between p and q

    S_tv[:, p] = - sum_{j in p} sum_i W_ij d_ij (T_p'd_ij)'
    S_vv[p, p] =   sum_{j in p} sum_i W_ij (T_p'd_ij)(T_p'd_ij)' + gamma sum_q w_pq (I + A_pq A_pq')
    S_vv[p, q] = - 2 gamma w_pq A_pq                                                      (p != q)

``scatter.graph_scatter`` has S_tt. The blocks are affine in gamma, so one form serves every gamma
and every ridge. Depends on the graph W, the patches and their tangent bases.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from mpda._lib.array_types import Array, Bools, Floats, Ints
from mpda._lib.arrays import (
    EPSILON,
    add_segments,
    arange,
    array_namespace,
    block_entries,
    eye,
    iter_slices,
    nbytes,
    safe_divide,
    set_at,
    take,
    to_device,
    to_host,
    zeros,
)
from mpda._lib.threads import small_products
from mpda.discriminant.tangents import TangentBases
from mpda.neighbors.graph import EmbeddedGraph

# Numbers in a block: 1 MB, which stays in the cache of a core; larger blocks cost more in fresh
# memory than they save in calls.
_BLOCK_ENTRIES = 128_000
# Samples times patches up to which dense products with all samples are faster than those with the
# samples at the edges of each patch: 1.7 times with 100 samples in 14 patches.
_DENSE_LIMIT = 3000
# The limit for samples alone: with 400 of them in 4 patches dense products take 1.8 times as long.
_DENSE_SAMPLES = 250
# Edges of one patch in a piece: fewer would leave matrix products too small, more would pad small
# patches with empty edges.
_MIN_PIECE, _MAX_PIECE = 8, 256


@dataclass(frozen=True)
class WithinForm:
    """Blocks of S with tangent vectors, for one class; v is padded to (P, m).

    Parameters
    ----------
    off_diagonal : array of shape (P, d, m)
        -S_tv, the block between t and v, patch by patch.
    first_order : array of shape (P, m, m)
        Diagonal blocks of S_vv at gamma = 0.
    coupling_diagonal : array of shape (P, m, m)
        Factor of gamma in the diagonal blocks of S_vv.
    pairs : array of shape (q, 2)
        Patches that are joined by an edge of W, lower index first.
    couplings : array of shape (q, m, m)
        Factor of gamma in block (p, q) of S_vv.
    mask : array of shape (P, m)
        Entries of v that exist; the others are padding.
    weights : array of shape (q,), default=None
        Weights w_pq of the edges between the patches of each pair, if the bases are kept.
    bases : array of shape (P, d, m), default=None
        Tangent bases, kept for searches over parameters.
    """

    off_diagonal: Array
    first_order: Array
    coupling_diagonal: Array
    pairs: Array
    couplings: Array
    mask: Bools
    weights: Array | None = None
    bases: Array | None = None

    @property
    def size(self) -> int:
        """Number of entries of v, sum_p m_p."""
        return int(np.count_nonzero(self.mask))

    @property
    def dimensions(self) -> Ints:
        """Tangent dimensions m_p (P,)."""
        return self.mask.sum(axis=1)

    @property
    def nbytes(self) -> int:
        """Memory of the blocks in bytes."""
        blocks = self.off_diagonal, self.first_order, self.coupling_diagonal, self.couplings
        return sum(map(nbytes, blocks))

    def __sizeof__(self) -> int:  # by which Dask decides what to move to disk
        return self.nbytes

    def off_diagonal_matrix(self, scaling: Array | None = None) -> Array:
        """Return -S_tv, or -S_tv F for a block-diagonal scaling F, as one matrix.

        Parameters
        ----------
        scaling : array of shape (P, m, m), default=None
            Symmetric blocks F_p, as ``block_jacobi`` returns them.

        Returns
        -------
        array of shape (d, sum m_p)
            Columns of all patches, without padding.
        """
        blocks = self.off_diagonal if scaling is None else self.off_diagonal @ scaling
        columns = array_namespace(blocks).permute_dims(blocks, (0, 2, 1))
        return columns[to_device(self.mask, blocks)].T

    def diagonal_blocks(self, gamma: float, beta: float) -> Array:
        """Return the diagonal blocks of S_vv + beta I.

        Parameters
        ----------
        gamma : float
            Weight of the second term of S.
        beta : float
            Ridge on v.

        Returns
        -------
        array of shape (P, m, m)
            Diagonal blocks, with 1 on the diagonal of the padding.
        """
        ridge = to_device(np.where(self.mask, beta, 1.0), self.off_diagonal)
        return self.first_order + gamma * self.coupling_diagonal + _diagonal(ridge)

    def block_jacobi(self, gamma: float, beta: float) -> Array:
        """Return the inverse square roots of the diagonal blocks of S_vv + beta I.

        Parameters
        ----------
        gamma : float
            Weight of the second term of S.
        beta : float
            Ridge on v.

        Returns
        -------
        array of shape (P, m, m)
            Symmetric blocks F_p. F S_vv F has identities on its diagonal, or projections where a
            diagonal block is singular.
        """
        blocks = self.diagonal_blocks(gamma, beta)
        xp, m = array_namespace(blocks), self.mask.shape[1]
        # Padding must not exceed other entries, because rounding is relative to the largest.
        mask, diagonal = to_device(self.mask, blocks), xp.linalg.diagonal(blocks)
        padding = xp.max(xp.where(mask, diagonal, 0.0), axis=1, keepdims=True)
        blocks = blocks + _diagonal(xp.where(mask, 0.0, padding - 1.0))
        values, vectors = xp.linalg.eigh(blocks)
        values = xp.where(values > m * EPSILON * values[:, -1:], values, 0.0)
        roots = xp.sqrt(safe_divide(1.0, values, xp.zeros_like(values)))
        return (vectors * roots[:, None, :]) @ xp.matrix_transpose(vectors)

    def tangent_block(self, gamma: float, beta: float) -> Array:
        """Return S_vv + beta I as a dense matrix.

        Parameters
        ----------
        gamma : float
            Weight of the second term of S.
        beta : float
            Ridge on v.

        Returns
        -------
        array of shape (sum m_p, sum m_p)
            Symmetric matrix without padding.
        """
        xp, size = array_namespace(self.off_diagonal), self.size
        indices = np.full(self.mask.shape, -1)
        indices[self.mask] = np.arange(size)
        index = to_device(indices, self.off_diagonal)
        matrix = zeros((size * size + 1,), self.off_diagonal)  # padding goes to the last entry
        patches = arange(len(self.mask), self.pairs)
        low, high = self.pairs[:, 0], self.pairs[:, 1]
        step = block_entries(matrix, _BLOCK_ENTRIES) // max(1, self.mask.shape[1] ** 2)
        for p, q, blocks, factor in (
            (patches, patches, self.diagonal_blocks(gamma, beta), 1.0),
            (low, high, self.couplings, gamma),
            (high, low, xp.matrix_transpose(self.couplings), gamma),
        ):
            for part in iter_slices(p.shape[0], step):
                row, column = take(index, p[part])[:, :, None], take(index, q[part])[:, None, :]
                flat = xp.where((row < 0) | (column < 0), size * size, row * size + column)
                values = xp.reshape(factor * blocks[part, :, :], (-1,))
                matrix = set_at(matrix, xp.reshape(flat, (-1,)), values)
        return xp.reshape(matrix[:-1], (size, size))


def _diagonal(entries: Array) -> Array:
    """Return diagonal blocks (P, m, m) from their entries (P, m)."""
    return eye(entries.shape[1], entries) * entries[:, None, :]


def build_within_form(embedded: EmbeddedGraph, patches: Ints, tangents: TangentBases) -> WithinForm:
    """Compute the blocks S_tv and S_vv of S (withinPatchObj, from regTerm1 and regTerm2).

    Parameters
    ----------
    embedded : EmbeddedGraph
        Graph W of the class and the coordinates of its samples.
    patches : array of shape (n,)
        Patch of each sample, 0 to P - 1.
    tangents : TangentBases
        Tangent spaces of the patches.

    Returns
    -------
    WithinForm
        All blocks but S_tt.
    """
    return WithinFormBuilder(embedded, patches, tangents).build()


class WithinFormBuilder:
    """The first-order blocks of S (regTerm1), to which the others can be added.

    A fit needs their trace first, and the whole form only where it is kept or used at once. The
    parameters are those of :func:`build_within_form`.
    """

    def __init__(self, embedded: EmbeddedGraph, patches: Ints, tangents: TangentBases) -> None:
        n, n_patches = embedded.Z.shape[0], tangents.dimensions.size
        self._is_small = n <= _DENSE_SAMPLES and n * n_patches <= _DENSE_LIMIT
        self._by_products = not embedded.edges_are_short
        Z = embedded.offsets if self._by_products else embedded.Z
        edges, weights = embedded.graph.edges, embedded.edge_weights
        self._tangents = tangents
        self._arguments = Z, edges, weights, patches, tangents
        self._pairs, self._weights = _sum_edges(edges, weights, patches, tangents.dimensions.size)

    @cached_property
    def _blocks(self) -> tuple[Array, Array, float]:
        """-S_tv, S_vv at gamma = 0, and the trace of the latter."""
        if not self._by_products:
            return _blocks_from_differences(*self._arguments)
        if self._is_small:
            return _blocks_from_dense_products(*self._arguments)
        return _blocks_from_products(*self._arguments)

    @cached_property
    def first_order_trace(self) -> float:
        """Trace of S_vv at gamma = 0, which defines the unit of the ridge on v."""
        if "_blocks" in self.__dict__ or (self._by_products and self._is_small):
            return self._blocks[2]
        # The same sum as with the blocks, to the last bit, without their products.
        if self._by_products:
            return _project_patches(*self._arguments).trace
        sums = [_sum_squares(projected) for _, _, projected in _iter_pieces(*self._arguments)]
        return float(sum(sums))

    @property
    def nbytes(self) -> int:
        """Memory of the whole form in bytes."""
        n_patches, d, m = self._tangents.bases.shape
        n_couplings = (n_patches + self._pairs.shape[0]) * m * m
        return 8 * (n_patches * (d + m) * m + n_couplings)

    def build(self, *, keep_bases: bool = False) -> WithinForm:
        """Add the blocks with gamma (regTerm2).

        Parameters
        ----------
        keep_bases : bool, default=False
            If True, the form refers to the tangent bases.

        Returns
        -------
        WithinForm
            All blocks but S_tt.
        """
        with small_products(self._tangents.bases.shape[1]):
            diagonal, couplings = _coupling_blocks(self._pairs, self._weights, self._tangents)
        off_diagonal, first_order, _ = self._blocks
        return WithinForm(
            off_diagonal,
            first_order,
            diagonal,
            self._pairs,
            couplings,
            self._tangents.mask,
            self._weights if keep_bases else None,
            self._tangents.bases if keep_bases else None,
        )


def _blocks_from_dense_products(
    Z: Floats, edges: Ints, weights: Floats | None, patches: Ints, tangents: TangentBases
) -> tuple[Array, Array, float]:
    """Return -S_tv (P, d, m), S_vv at gamma = 0 (P, m, m) and its trace, by dense products.

    With Y_p = Z T_p the sums over edges are Z'(Q_p Y_p) and Y_p'(Q_p Y_p), where Q_p is the
    Laplacian of the edges that end in patch p, and

        (Q_p Y_p)_i = sum_{j in p} W_ij (y_i - y_j) + [i in p] sum_j W_ij (y_i - y_j).
    """
    n_patches, d, m = tangents.bases.shape
    n = len(Z)
    W = np.zeros((n, n))
    W[edges[:, 0], edges[:, 1]] = W[edges[:, 1], edges[:, 0]] = 1.0 if weights is None else weights
    samples = np.arange(n)
    membership = np.zeros((n, n_patches))
    membership[samples, patches] = 1.0
    Y = (Z @ tangents.bases.transpose(1, 0, 2).reshape(d, -1)).reshape(n, n_patches, m)
    Y_member = np.zeros_like(Y)
    Y_member[samples, patches] = Y[samples, patches]
    QY = (W @ membership)[:, :, None] * Y
    QY -= (W @ Y_member.reshape(n, -1)).reshape(Y.shape)
    neighbor_sums = (W @ Y.reshape(n, -1)).reshape(Y.shape)[samples, patches]
    QY[samples, patches] += W.sum(axis=1)[:, None] * Y[samples, patches] - neighbor_sums
    off_diagonal = (Z.T @ QY.reshape(n, -1)).reshape(d, n_patches, m).transpose(1, 0, 2)
    tangent = Y.transpose(1, 2, 0) @ QY.transpose(1, 0, 2)
    tangent = 0.5 * (tangent + tangent.transpose(0, 2, 1))
    return off_diagonal, tangent, float(tangent.diagonal(axis1=1, axis2=2).sum())


def _blocks_from_products(
    Z: Floats, edges: Ints, weights: Floats | None, patches: Ints, tangents: TangentBases
) -> tuple[Array, Array, float]:
    """Return -S_tv (P, d, m), S_vv at gamma = 0 (P, m, m) and its trace, by products of matrices.

    With Z_p the samples at the edges of patch p and Q_p the Laplacian of these edges the sums over
    edges are Z_p'(Q_p Y_p) and Y_p'(Q_p Y_p), Y_p = Z_p T_p. A sample has many edges, so these are
    several times fewer operations than those with the difference along each edge.
    """
    n_patches, d, m = tangents.bases.shape
    projected = _project_patches(Z, edges, weights, patches, tangents)
    off_diagonal, tangent = np.empty((n_patches, d, m)), np.empty((n_patches, m, m))
    with small_products(d):
        for p, rows in enumerate(projected.slices):
            image = projected.images[rows]
            off_diagonal[p] = Z.take(projected.samples[rows], axis=0).T @ image
            tangent[p] = projected.coordinates[rows].T @ image
    tangent = 0.5 * (tangent + tangent.transpose(0, 2, 1))
    return off_diagonal, tangent, projected.trace


@dataclass(frozen=True)
class _ProjectedPatches:
    """Y_p and Q_p Y_p of all patches, one after the other.

    samples : (q,) samples of each patch and their neighbours in other patches
    slices : range of each patch in the rows
    coordinates, images : (q, m) Y and QY
    """

    samples: Ints
    slices: list[slice]
    coordinates: Floats
    images: Floats

    @property
    def trace(self) -> float:
        """Trace of S_vv at gamma = 0."""
        return float(np.sum(self.coordinates * self.images))


def _project_patches(
    Z: Floats, edges: Ints, weights: Floats | None, patches: Ints, tangents: TangentBases
) -> _ProjectedPatches:
    """Project the samples at the edges of each patch, and apply the Laplacian of these edges."""
    n, (n_patches, d, m) = len(Z), tangents.bases.shape
    low, high = edges.T
    is_across = patches[low] != patches[high]
    inside, across = np.flatnonzero(~is_across), np.flatnonzero(is_across)
    # An edge between two patches belongs to both. One inside a patch counts twice, as two ordered
    # pairs.
    heads = np.concatenate([high[inside], high[across], low[across]])
    outside = np.concatenate([low[across], high[across]])
    values = np.ones(len(edges)) if weights is None else weights
    values = np.concatenate([2.0 * values[inside], values[across], values[across]])
    members = patches * n + np.arange(n)
    neighbors = patches[heads[inside.size :]] * n + outside
    keys, rows = np.unique(np.concatenate([members, neighbors]), return_inverse=True)
    head_rows = rows[heads]
    tail_rows = np.concatenate([rows[low[inside]], rows[n:]])
    ends = np.concatenate([head_rows, tail_rows]), np.concatenate([tail_rows, head_rows])
    values = np.concatenate([values, values])
    W = coo_array((values, ends), shape=(keys.size, keys.size))
    samples = keys % n
    starts = np.searchsorted(keys, n * np.arange(n_patches + 1)).tolist()
    slices = [slice(*pair) for pair in itertools.pairwise(starts)]
    Y = np.empty((keys.size, m))
    with small_products(d):
        for basis, rows_of_patch in zip(tangents.bases, slices, strict=True):
            local = Z.take(samples[rows_of_patch], axis=0)
            # A Laplacian does not see the shift, but rounding does.
            local -= Z[samples[rows_of_patch.start]]
            Y[rows_of_patch] = local @ basis
    images = np.bincount(ends[0], values)[:, None] * Y - W @ Y
    return _ProjectedPatches(samples, slices, Y, images)


def _blocks_from_differences(
    Z: Array, edges: Array, weights: Array | None, patches: Ints, tangents: TangentBases
) -> tuple[Array, Array, float]:
    """Return -S_tv (P, d, m), S_vv at gamma = 0 (P, m, m) and its trace as sums over edges."""
    xp = array_namespace(Z)
    n_patches, d, m = tangents.bases.shape
    off_diagonal, tangent = zeros((n_patches, d, m), Z), zeros((n_patches, m, m), Z)
    squares = []
    for p, gaps, projected in _iter_pieces(Z, edges, weights, patches, tangents):
        with small_products(d):
            products = xp.matrix_transpose(gaps) @ projected
        off_diagonal = add_segments(off_diagonal, p, products)
        tangent = add_segments(tangent, p, xp.matrix_transpose(projected) @ projected)
        squares.append(_sum_squares(projected))
    return off_diagonal, tangent, float(sum(squares))


def _sum_squares(projected: Array) -> Array:
    """Return the sum of the squares of all entries, a scalar."""
    return array_namespace(projected).sum(projected * projected)


def _iter_pieces(
    Z: Array, edges: Array, weights: Array | None, patches: Ints, tangents: TangentBases
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield differences x_i - x_j along ordered edges (i, j), and T_p' of them, p the patch of j.

    The edges are sorted by the patch of j and cut into pieces of equal length, so that one batched
    product serves many patches whatever their sizes. Yields the patches (b,) of the pieces, the
    differences (b, length, d) and the projected ones (b, length, m).
    """
    xp = array_namespace(Z)
    n_patches, d, m = tangents.bases.shape
    if m == 0 or edges.shape[0] == 0:
        return
    low, high = edges[:, 0], edges[:, 1]
    tails, heads = xp.concat([low, high]), xp.concat([high, low])
    edge_patch = take(to_device(patches, edges), heads)
    order = xp.argsort(edge_patch, stable=True)
    tails, heads = take(tails, order), take(heads, order)
    roots = None if weights is None else take(xp.sqrt(xp.concat([weights, weights])), order)
    counts = np.bincount(to_host(edge_patch), minlength=n_patches)
    length = int(np.clip(counts.sum() // np.count_nonzero(counts), _MIN_PIECE, _MAX_PIECE))
    n_pieces = -(-counts // length)
    piece_patch = np.repeat(np.arange(n_patches), n_pieces)
    rank = np.arange(piece_patch.size) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    begin = (np.cumsum(counts) - counts)[piece_patch] + rank * length
    end = np.cumsum(counts)[piece_patch]
    for pieces in iter_slices(piece_patch.size, block_entries(Z, _BLOCK_ENTRIES) // (length * d)):
        edge = to_device(begin[pieces, None] + np.arange(length), edges)
        limit = to_device(end[pieces, None], edges)
        # Beyond the last edge of a patch j stands for i: a difference of 0.
        last = xp.minimum(edge, limit - 1)
        j = take(heads, last)
        i = xp.where(edge < limit, take(tails, last), j)
        gaps = take(Z, i)
        gaps -= take(Z, j)
        if roots is not None:  # each product of two differences has the weight of their edge
            gaps *= take(roots, last)[:, :, None]
        p = to_device(piece_patch[pieces], edges)
        with small_products(d):
            projected = gaps @ take(tangents.bases, p)
        yield p, gaps, projected


def sample_block(embedded: EmbeddedGraph, patches: Ints, tangents: TangentBases) -> csr_array:
    """Compute the block K between a function at the samples and v.

    Where t'x_i is replaced by a free value f_i, the first term of S is 2 f'Lf - 2 v'Kf + v'Gv with

        K[p, i] = sum_{j in p} W_ij T_p'd_ij   minus, for i in p, sum_j W_ij T_p'd_ji,

    so that K X is the block of ``WithinForm.off_diagonal``, transposed.

    Parameters
    ----------
    embedded : EmbeddedGraph
        Graph W and the coordinates of the samples.
    patches : array of shape (n,)
        Patch of each sample, 0 to P - 1.
    tangents : TangentBases
        Tangent spaces of the patches.

    Returns
    -------
    csr_array of shape (sum m_p, n)
        Rows of all patches, without padding.
    """
    mask = tangents.mask
    rows = np.zeros(mask.shape, dtype=np.intp)
    rows[mask] = np.arange(np.count_nonzero(mask))
    projected = _project_patches(embedded.Z, embedded.graph.edges, None, patches, tangents)
    lengths = [rows.stop - rows.start for rows in projected.slices]
    patch = np.repeat(np.arange(len(mask)), lengths)
    present = mask[patch]
    columns = np.broadcast_to(projected.samples[:, None], present.shape)
    positions = rows[patch][present], columns[present]
    shape = (np.count_nonzero(mask), len(embedded.Z))
    return csr_array((projected.images[present], positions), shape=shape)


def _sum_edges(
    edges: Array, weights: Array | None, patches: Ints, n_patches: int
) -> tuple[Array, Array]:
    """Return the pairs (q, 2) of different patches that edges join, and w_pq (q,)."""
    xp = array_namespace(edges)
    labels = to_device(patches, edges)
    tails, heads = take(labels, edges[:, 0]), take(labels, edges[:, 1])
    keys = xp.minimum(tails, heads) * n_patches + xp.maximum(tails, heads)
    is_across = tails != heads
    if weights is None:
        keys, counts = xp.unique_counts(keys[is_across])
        sums = xp.astype(counts, xp.float64)
    else:
        order = xp.argsort(keys[is_across], stable=True)
        sorted_weights = take(weights[is_across], order)
        keys, inverse = xp.unique_inverse(take(keys[is_across], order))
        sums = add_segments(zeros((keys.shape[0],), weights), inverse, sorted_weights)
    return xp.stack([keys // n_patches, keys % n_patches], axis=1), sums


def _coupling_blocks(pairs: Array, weights: Array, tangents: TangentBases) -> tuple[Array, Array]:
    """Return sum_q w_pq (I + A_pq A_pq') (P, m, m) and -2 w_pq A_pq (q, m, m)."""
    bases = tangents.bases
    xp = array_namespace(bases)
    n_patches, d, m = bases.shape
    couplings = zeros((pairs.shape[0], m, m), bases)
    diagonal, identity = zeros((n_patches, m, m), bases), eye(m, bases)
    for block in iter_slices(pairs.shape[0], block_entries(bases, _BLOCK_ENTRIES) // max(1, d * m)):
        low, high, w = pairs[block, 0], pairs[block, 1], weights[block][:, None, None]
        A = xp.matrix_transpose(take(bases, low)) @ take(bases, high)
        A_transposed = xp.matrix_transpose(A)
        couplings[block, :, :] = -2.0 * w * A
        # Pairs are sorted by their lower patch only, and segments must be sorted.
        order = xp.argsort(high, stable=True)
        diagonal = add_segments(diagonal, low, w * (identity + A @ A_transposed))
        blocks = take(w * (identity + A_transposed @ A), order)
        diagonal = add_segments(diagonal, take(high, order), blocks)
    # The identity of a patch ends at its dimension.
    return diagonal * to_device(tangents.mask[:, :, None] * 1.0, bases), couplings
