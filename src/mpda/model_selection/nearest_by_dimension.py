"""The nearest neighbour for every number of components, from one sweep over the components.

Squared distances only grow with the components. The nearest sample by a + 1, .., b components is
therefore not farther by the first a than the nearest one is by b. A matrix product gives the
distances by b components, and only the few candidates that remain are followed one by one.
"""

import numpy as np

from mpda._lib.array_types import Floats, Ints

# Distances that are computed at a time: 400 kB, which stay in the cache.
_BLOCK_ENTRIES = 50_000
# The first components are added one by one for all samples, because few candidates drop out there.
# Then each step adds half as many components as there are. Both were the fastest on Semeion.
_FIRST_STEPS = 6
_GROWTH = 1.5
# Bound on the rounding of squared distances from products, relative to |z|^2 + |z_test|^2. Smaller
# differences are decided by differences of coordinates.
_ROUNDING = 1e-11


def nearest_by_dimension(Z: Floats, Z_test: Floats, first: int = 1) -> Ints:
    """Find the nearest neighbour by the first 1, 2, .. components.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Samples among which neighbours are searched.
    Z_test : ndarray of shape (m, r)
        Samples whose neighbours are searched.
    first : int, default=1
        Smallest number of components.

    Returns
    -------
    ndarray of shape (r - first + 1, m)
        Index of the nearest neighbour by ``first``, .., r components. Distances are sums of squared
        differences in the order of the columns; ties go to the lower index.
    """
    n_test, r = Z_test.shape
    nearest = np.empty((r, n_test), dtype=np.intp)
    # By a power of two, which rounds nothing, so that no square overflows.
    largest = max(np.abs(Z).max(initial=0.0), np.abs(Z_test).max(initial=0.0))
    scale = np.ldexp(1.0, -int(np.frexp(largest)[1]))
    Z, Z_test = scale * Z, scale * Z_test
    # By columns as well, because components are added one after the other.
    columns = np.ascontiguousarray(Z.T)
    norm = np.einsum("ij,ij->i", Z, Z).max()
    step = max(1, _BLOCK_ENTRIES // len(Z))
    for start in range(0, n_test, step):
        rows = slice(start, start + step)
        block = np.ascontiguousarray(Z_test[rows])
        slack = _ROUNDING * (np.einsum("ij,ij->i", block, block) + norm)
        if first == 1:
            done = min(r, _FIRST_STEPS)
            distances = _one_by_one(columns[:done], block, nearest[:done, rows])
        else:
            done = first - 1
            distances = _added(columns, block, 0, done)
        while done < r:
            stop = min(r, max(done + 1, int(done * _GROWTH)))
            further = distances + _added(columns, block, done, stop)
            # Twice the slack: the bound and the distances compared with it are both rounded.
            within = (further.min(axis=1) + 2.0 * slack)[:, None]
            # In one dimension, where NumPy finds them several times faster than in two.
            positions = np.flatnonzero(distances <= within)
            pairs = _Pairs(Z, block, *np.divmod(positions, len(Z)))
            nearest[done:stop, rows] = pairs.nearest(distances, done, stop, slack).T
            distances, done = further, stop
    return nearest[first - 1 :]


def _one_by_one(columns: Floats, block: Floats, nearest: Ints) -> Floats:
    """Fill in the nearest by the first 1, 2, .. components; return the distances by all."""
    distances = np.zeros((len(block), columns.shape[1]))
    gaps = np.empty_like(distances)
    for i, column in enumerate(columns):
        np.subtract(block[:, i, None], column, out=gaps)
        np.multiply(gaps, gaps, out=gaps)
        np.add(distances, gaps, out=distances)
        distances.argmin(axis=1, out=nearest[i])
    return distances


def _added(columns: Floats, block: Floats, done: int, stop: int) -> Floats:
    """Return the squared distances (m, n) by the components done, .., stop - 1 alone."""
    # |z|^2 - 2 t'z + |t|^2 as one product, with the norms as two more columns.
    Z, T = columns[done:stop], block[:, done:stop]
    left = np.column_stack([-2.0 * T, np.ones(len(T)), np.einsum("ij,ij->i", T, T)])
    return np.asarray(left @ np.vstack([Z, np.einsum("ij,ij->j", Z, Z), np.ones(Z.shape[1])]))


class _Pairs:
    """Candidate pairs of a block: test samples and samples, sorted by both."""

    def __init__(self, Z: Floats, block: Floats, tests: Ints, others: Ints) -> None:
        self._Z, self._block = Z, block
        self._tests, self._others = tests, others
        self._starts = np.searchsorted(tests, np.arange(len(block)))

    def nearest(self, distances: Floats, done: int, stop: int, slack: Floats) -> Ints:
        """Return the nearest by the first done + 1, .., stop components (n_tests, stop - done)."""
        # The squares of a pair are summed along its row, from its distance by ``done`` components.
        followed = self._squares(done, stop)
        followed[:, 0] += distances[self._tests, self._others]
        np.cumsum(followed, axis=1, out=followed)
        near = followed <= self._least(followed, slack[:, None])
        nearest = self._lowest(near)
        counts = np.asarray(np.add.reduceat(near, self._starts, axis=0, dtype=np.intp))
        close = np.asarray((counts > 1).any(axis=1))
        # Where rounding could decide, all squares are summed again from the first component.
        if close.any():
            chosen = np.flatnonzero(close[self._tests])
            candidates = _Pairs(
                self._Z,
                self._block[close],
                (np.cumsum(close) - 1)[self._tests[chosen]],
                self._others[chosen],
            )
            exact = np.cumsum(candidates._squares(0, stop), axis=1)[:, done:]
            nearest[close] = candidates._lowest(exact <= candidates._least(exact, 0.0))
        return nearest

    def _squares(self, done: int, stop: int) -> Floats:
        gaps = self._Z[self._others, done:stop]
        gaps -= self._block[self._tests, done:stop]
        return np.asarray(np.multiply(gaps, gaps, out=gaps))

    def _least(self, values: Floats, slack: Floats | float) -> Floats:
        """Return for each pair the smallest value of its test sample, plus a slack."""
        least = np.minimum.reduceat(values, self._starts, axis=0) + slack
        return np.asarray(least[self._tests])

    def _lowest(self, allowed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Ints:
        """Return the lowest allowed index of each test sample."""
        indices = np.where(allowed, self._others[:, None], len(self._Z))
        return np.asarray(np.minimum.reduceat(indices, self._starts, axis=0))
