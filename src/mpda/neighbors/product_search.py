"""Nearest samples by matrix products, |x - z|^2 - |x|^2 = |z|^2 - 2 x'z.

Products in single precision are twice as fast as in double precision. They find a few more samples
than are asked for, whose squared distances are then computed in double precision. A bound on the
rounding of the products decides whether a sample that was left out may be nearer; only then a row
is searched again in double precision. The result is that of a search in double precision.
"""

from collections.abc import Iterable

import numpy as np

from mpda._lib.array_types import Array, Floats, Ints
from mpda._lib.arrays import (
    argsmallest,
    array_namespace,
    block_entries,
    is_cupy,
    is_numpy,
    iter_slices,
)

# Products that are computed at a time. Smaller blocks make slower matrix products, and so do fewer
# rows than these.
BLOCK_ENTRIES, _MIN_ROWS = 4_000_000, 128
# Groups of samples for each neighbour that is searched. The minima of the groups bound the distance
# of the last neighbour; with eight times as many groups hardly any sample passes the bound in vain.
_GROUPS_PER_NEIGHBOR = 8
# Samples that are found beyond those asked for. Their distances are farther from the last one's
# than the rounding of single precision, but for copies and for samples far from their mean.
_N_SPARE = 8
_SINGLE_ROUNDING = 2.0**-24
# Coordinates of candidates that are gathered at a time: 1 MB, which stays in the cache of a core.
# Blocks of 32 MB take 1.3 times as long (2000 samples of 384 numbers), and each thread holds one.
_CANDIDATE_ENTRIES = 125_000


def augment_samples(Z: Array, squared_norms: Array) -> tuple[Array, Array]:
    """Return factors whose product is |z_j|^2 - 2 z_i'z_j.

    Parameters
    ----------
    Z : array of shape (n, r)
        Samples.
    squared_norms : array of shape (n,)
        Their squared norms.

    Returns
    -------
    left : array of shape (n, r + 1)
        Samples with a column of ones.
    right : array of shape (r + 1, n)
        Samples times -2, and the squared norms.
    """
    xp = array_namespace(Z)
    left = xp.concat([Z, xp.ones_like(squared_norms)[:, None]], axis=1)
    right = xp.concat([-2.0 * Z, squared_norms[:, None]], axis=1)
    return left, xp.matrix_transpose(right)


def search_products(left: Array, right: Array, k: int) -> tuple[Array, Array]:
    """Find the k smallest entries of each row of a product.

    Parameters
    ----------
    left : array of shape (b, r)
        First factor.
    right : array of shape (r, n)
        Second factor, in row-major order.
    k : int
        Number of entries, at most n.

    Returns
    -------
    values : array of shape (b, k)
        The smallest entries, in no order.
    indices : array of int of shape (b, k)
        Their columns.
    """
    xp = array_namespace(left)
    if not (is_numpy(left) or is_cupy(left)):
        return select_smallest(left @ right, k)
    # NumPy's argpartition takes longer than the product, and CuPy's sorts all columns. A bound
    # leaves few entries to them. The first block has k columns or more.
    width = max(block_entries(left, BLOCK_ENTRIES) // len(left), k)
    smallest = xp.empty((len(left), 0), dtype=left.dtype)
    columns = xp.empty((len(left), 0), dtype=xp.int64)
    for block in iter_slices(right.shape[1], width):
        entries = left @ right[:, block]
        bounds = smallest.max(axis=1, keepdims=True) if block.start else _bound_smallest(entries, k)
        values, indices = _select_below(entries, bounds)
        # Entries of earlier blocks may still be among the smallest.
        values = xp.concatenate([smallest, values], axis=1)
        indices = xp.concatenate([columns, indices + block.start], axis=1)
        smallest, order = select_smallest(values, k)
        columns = xp.take_along_axis(indices, order, axis=1)
    return smallest, columns


def select_smallest(entries: Array, k: int) -> tuple[Array, Array]:
    """Select the k smallest entries of each row.

    Parameters
    ----------
    entries : array of shape (b, n)
        Matrix.
    k : int
        Number of entries, at most n.

    Returns
    -------
    values : array of shape (b, k)
        The smallest entries, in no order.
    indices : array of int of shape (b, k)
        Their columns.
    """
    indices = argsmallest(entries, k)
    return array_namespace(entries).take_along_axis(entries, indices, axis=1), indices


def _bound_smallest(entries: Array, k: int) -> Array:
    """Return a bound (b, 1) that at least k entries of a row (b, n) do not exceed.

    It is the k-th smallest of the minima of groups of columns.
    """
    xp = array_namespace(entries)
    b, n = entries.shape
    n_groups = min(n, _GROUPS_PER_NEIGHBOR * k)
    grouped = n - n % n_groups
    # A group is every n_groups-th column, so that minima are taken over rows of memory.
    minima = entries[:, :grouped].reshape(b, -1, n_groups).min(axis=1)
    minima = xp.concatenate([minima, entries[:, grouped:]], axis=1)
    return xp.partition(minima, k - 1, axis=1)[:, k - 1 : k]


def _select_below(entries: Array, bounds: Array) -> tuple[Array, Array]:
    """Return the entries that do not exceed the bound of their row, and their columns.

    Both have as many columns as the fullest row; other rows are filled with infinity and 0.
    """
    xp = array_namespace(entries)
    b, n = entries.shape
    # In one dimension, where NumPy finds them several times faster than in two.
    positions = xp.flatnonzero(entries <= bounds)
    rows = positions // n
    counts = xp.bincount(rows, minlength=b)
    starts = xp.cumsum(counts) - counts
    columns = xp.arange(positions.size) - starts[rows]
    values = xp.full((b, int(counts.max())), xp.inf, dtype=entries.dtype)
    values[rows, columns] = entries.ravel()[positions]
    indices = xp.zeros(values.shape, dtype=positions.dtype)
    indices[rows, columns] = positions - rows * n
    return values, indices


class ProductSearch:
    """Search of the nearest samples of each sample by products in single precision.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Samples. Rounding is smallest if their mean is 0.
    """

    def __init__(self, Z: Floats) -> None:
        self._Z = Z
        self.squared_norms = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        # By a power of two, so that nothing overflows in single precision.
        exponent = int(np.frexp(np.sqrt(self.squared_norms.max()))[1])
        self._unit = np.ldexp(1.0, 2 * exponent)
        single = np.ldexp(Z, -exponent).astype(np.float32, copy=False)
        norms = (self.squared_norms / self._unit).astype(np.float32)
        left, right = augment_samples(single, norms)
        self._left, self._right = left, np.ascontiguousarray(right)
        # Each of the r + 1 terms is rounded, and so are both factors. With 2|x||z| <= |x|^2 + |z|^2
        # the error is at most this times |x|^2 + 2|z|^2, if no product is too small.
        self._rounding = (Z.shape[1] + 8) * _SINGLE_ROUNDING
        self._underflow = (Z.shape[1] + 8) * float(np.finfo(np.float32).tiny) * self._unit

    def iter_blocks(self, rows: Ints, k: int) -> Iterable[Ints]:
        """Yield the samples of each block of a search.

        Parameters
        ----------
        rows : ndarray of int of shape (q,)
            Samples whose neighbours are searched.
        k : int
            Number of neighbours.

        Yields
        ------
        ndarray of int of shape (b,)
            A part of the samples.
        """
        n, r = self._Z.shape
        step = min(max(BLOCK_ENTRIES // n, _MIN_ROWS), BLOCK_ENTRIES // ((k + _N_SPARE) * r) + 1)
        return (rows[block] for block in iter_slices(rows.size, step))

    def find(self, rows: Ints, k: int) -> tuple[Ints, Floats]:
        """Find the k nearest samples of some samples, themselves among them.

        Parameters
        ----------
        rows : ndarray of int of shape (b,)
            Samples whose neighbours are searched.
        k : int
            Number of neighbours, at most n.

        Returns
        -------
        indices : ndarray of int of shape (b, k)
            The nearest samples, in no order.
        squares : ndarray of shape (b, k)
            Their squared distances, to the rounding of products in double precision.
        """
        n = len(self._Z)
        values, indices = search_products(self._left[rows], self._right, min(k + _N_SPARE, n))
        squares = self._compute_squares(rows, indices)
        squares, order = select_smallest(squares, k)
        indices = np.take_along_axis(indices, order, axis=1)
        if k + _N_SPARE < n:
            # Samples that were left out have at least this squared distance, but for rounding. If
            # one is nearer than the last that was found, |z|^2 is at most twice |x|^2 and the
            # squared distance: the bound on its rounding does not depend on samples that are far.
            norms, farthest = self.squared_norms[rows], squares.max(axis=1)
            reach = norms + self._unit * values.max(axis=1).astype(np.float64)
            slack = self._rounding * (5.0 * norms + 4.0 * farthest) + self._underflow
            doubtful = np.flatnonzero(reach - slack <= farthest)
            for block in iter_slices(doubtful.size, BLOCK_ENTRIES // n):
                again = doubtful[block]
                all_squares = self._compute_all_squares(rows[again])
                squares[again], indices[again] = select_smallest(all_squares, k)
        return indices, squares

    def _compute_squares(self, rows: Ints, indices: Ints) -> Floats:
        """Return the squared distances (b, c) of some samples to their candidates (b, c)."""
        products = np.empty(indices.shape)
        n_entries = indices.shape[1] * self._Z.shape[1]
        for block in iter_slices(rows.size, _CANDIDATE_ENTRIES // n_entries):
            points = self._Z[rows[block]].astype(np.float64, copy=False)
            candidates = self._Z[indices[block]].astype(np.float64, copy=False)
            products[block] = np.matmul(candidates, points[:, :, None])[:, :, 0]
        return self.squared_norms[rows, None] + self.squared_norms[indices] - 2.0 * products

    def _compute_all_squares(self, rows: Ints) -> Floats:
        """Return the squared distances (b, n) of some samples to all."""
        Z = self._Z.astype(np.float64, copy=False)
        squares = Z[rows] @ Z.T
        squares *= -2.0
        squares += self.squared_norms
        squares += self.squared_norms[rows, None]
        return squares
