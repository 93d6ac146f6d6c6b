"""Nearest samples in the order of their distances; ties go to the lower index.

Products in double precision, |q - z|^2 - |q|^2 = |z|^2 - 2 q'z, find the samples. Samples whose
order the rounding of products leaves open are ordered by sums of squared differences and by index.
The order is therefore that of the differences, and does not depend on the blocks of a search.
"""

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist

from mpda._lib.array_types import Bools, Floats, Ints
from mpda._lib.arrays import iter_slices
from mpda.neighbors.product_search import augment_samples, search_products

# Products, or coordinates of candidates, that are computed at a time (32 MB). Fewer rows than these
# make slower products.
BLOCK_ENTRIES, _MIN_ROWS = 4_000_000, 64
# Samples that are found beyond those asked for; the query may be one of them. If the rounding of
# products leaves open whether a further one is nearer, as with copies, more are found.
_N_SPARE, _GROWTH = 8, 8
# With more than one tie for so many samples, the differences of all pairs take less time than those
# of the ties (measured: 4000 samples, 64 columns).
_SAMPLES_PER_TIE = 16


class OrderedSearch:
    """Search of nearest samples, in order.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Samples among which neighbours are searched.
    Z_query : ndarray of shape (m, r), default=None
        Samples whose neighbours are searched. None takes all of Z, and no sample is its own
        neighbour.
    """

    def __init__(self, Z: Floats, Z_query: Floats | None = None) -> None:
        queries = Z if Z_query is None else Z_query
        # By a power of two, which rounds nothing, so that no square overflows.
        exponent = int(np.frexp(max(np.abs(Z).max(), np.abs(queries).max()))[1])
        self._Z, self._queries = (
            np.ldexp(samples.astype(np.float64, copy=False), -exponent) for samples in (Z, queries)
        )
        self._excludes_self = Z_query is None
        # Distances do not depend on the mean, but their rounding does.
        mean = self._Z.mean(axis=0)
        centred, centred_queries = self._Z - mean, self._queries - mean
        self._query_norms = np.einsum("ij,ij->i", centred_queries, centred_queries)
        _, right = augment_samples(centred, np.einsum("ij,ij->i", centred, centred))
        self._left, _ = augment_samples(centred_queries, self._query_norms)
        self._right = np.ascontiguousarray(right)

    def iter_blocks(self, rows: Ints, depths: Ints) -> Iterator[tuple[Ints, int]]:
        """Yield blocks of queries that need about equally many neighbours.

        Parameters
        ----------
        rows : ndarray of int of shape (q,)
            Queries.
        depths : ndarray of int of shape (q,)
            Number of neighbours that each of them needs.

        Yields
        ------
        rows : ndarray of int of shape (b,)
            A part of the queries.
        k : int
            The largest number of neighbours that one of them needs.
        """
        order = np.argsort(-depths, kind="stable")
        most_rows, start = max(BLOCK_ENTRIES // len(self._Z), _MIN_ROWS), 0
        while start < order.size:
            k = int(depths[order[start]])
            stop = start + min(most_rows, BLOCK_ENTRIES // (k + _N_SPARE) + 1)
            yield rows[order[start:stop]], k
            start = stop

    def find(self, rows: Ints, k: int) -> Ints:
        """Find the k nearest samples of some queries.

        Parameters
        ----------
        rows : ndarray of int of shape (b,)
            Queries.
        k : int
            Number of neighbours: at most n, or n - 1 if no sample is its own neighbour.

        Returns
        -------
        ndarray of int of shape (b, k)
            The nearest samples, ordered by distance and index.
        """
        return self._find_among(rows, k, min(k + _N_SPARE, len(self._Z)))

    def _find_among(self, rows: Ints, k: int, n_candidates: int) -> Ints:
        """Find the k nearest samples (b, k) among candidates, of which there may be too few."""
        n = len(self._Z)
        values, indices = search_products(self._left[rows], self._right, n_candidates)
        farthest = values.max(axis=1)
        if self._excludes_self:
            values[indices == rows[:, None]] = np.inf
        order = np.argsort(values, axis=1)
        values, indices = (np.take_along_axis(array, order, axis=1) for array in (values, indices))
        slack = self._bound_rounding(rows, farthest)
        is_close = np.diff(values, axis=1) <= slack[:, None]
        if np.count_nonzero(is_close) > len(rows) * n / _SAMPLES_PER_TIE:
            return self._find_by_differences(rows, k)
        nearest = self._order_ties(rows, indices, is_close)[:, :k]
        if n_candidates < n:
            # Samples that were left out are not nearer than the farthest candidate.
            unsure = np.flatnonzero(farthest <= values[:, k - 1] + slack)
            n_candidates = min(_GROWTH * n_candidates, n)
            for block in iter_slices(unsure.size, BLOCK_ENTRIES // n_candidates + 1):
                again = unsure[block]
                nearest[again] = self._find_among(rows[again], k, n_candidates)
        return nearest

    def _bound_rounding(self, rows: Ints, farthest: Floats) -> Floats:
        """Return the differences (b,) of products up to which their order may be wrong.

        A squared distance D is computed with an error of at most e (|q|^2 + |z|^2), and |z|^2 is at
        most 2 |q|^2 + 2 D. Two samples may be in the wrong order if their computed distances differ
        by less than twice e (3 |q|^2 + 2 D). The farthest product (b,) bounds D.
        """
        # Rounded are all terms of a sum, samples, norms, and differences of coordinates. Squares of
        # very small coordinates vanish.
        n_terms = self._Z.shape[1] + 6
        double, norms = np.finfo(np.float64), self._query_norms[rows]
        squares = np.maximum(farthest + norms, 0.0)
        return n_terms * (double.eps * (7.0 * norms + 6.0 * squares) + 2.0 * double.tiny)

    def _order_ties(self, rows: Ints, indices: Ints, is_close: Bools) -> Ints:
        """Order candidates (b, c) by differences where they are close to the next (b, c - 1)."""
        is_tied = np.zeros(indices.shape, dtype=bool)
        is_tied[:, 1:] = is_close
        is_tied[:, :-1] |= is_close
        tied = np.flatnonzero(is_tied)
        if tied.size == 0:
            return indices
        # Candidates that are close to their predecessors make a run.
        is_first = np.ones(indices.shape, dtype=bool)
        is_first[:, 1:] = ~is_close
        runs = np.cumsum(is_first)[tied]
        candidates = indices.ravel()[tied]
        squares = self._sum_squares(rows[tied // indices.shape[1]], candidates)
        ordered = indices.ravel()
        ordered[tied] = candidates[np.lexsort((candidates, squares, runs))]
        return ordered.reshape(indices.shape)

    def _sum_squares(self, queries: Ints, candidates: Ints) -> Floats:
        """Return the squared distances (p,) of pairs, added up column by column as SciPy does."""
        squares = np.empty(candidates.size)
        for block in iter_slices(candidates.size, BLOCK_ENTRIES // self._Z.shape[1]):
            gaps = self._Z[candidates[block]]
            gaps -= self._queries[queries[block]]
            gaps *= gaps
            squares[block] = np.cumsum(gaps, axis=1)[:, -1]
        return squares

    def _find_by_differences(self, rows: Ints, k: int) -> Ints:
        """Find the k nearest samples (b, k) by the distances of all pairs."""
        nearest = np.empty((len(rows), k), dtype=np.intp)
        for block in iter_slices(len(rows), BLOCK_ENTRIES // len(self._Z) + 1):
            squares = cdist(self._queries[rows[block]], self._Z, "sqeuclidean")
            if self._excludes_self:
                squares[np.arange(len(squares)), rows[block]] = np.inf
            nearest[block] = np.argsort(squares, axis=1, kind="stable")[:, :k]
        return nearest
