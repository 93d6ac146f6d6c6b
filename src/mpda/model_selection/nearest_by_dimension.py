"""The nearest neighbours for every number of components, from one sweep over the components.

Squared distances only grow with the components. The nearest sample by a + 1, .., b components is
therefore not farther by the first a than the nearest one is by b. A matrix product gives the
distances by b components, and only the few candidates that remain are followed one by one. For some
numbers of components, and for more than one neighbour, distances in single precision leave the
candidates, whose distances are then computed in double precision.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy.linalg import get_blas_funcs

from mpda._lib.array_types import Bools, Floats, Ints, Labels

# Distances that are computed at a time: about 1 MB, which stay in the cache; for many samples more,
# so that products have enough rows.
_BLOCK_ENTRIES, _BLOCK_ROWS = 200_000, 32
# The first components are added one by one for all samples, because few candidates drop out there.
# Then each step adds half as many components as there are. Both were the fastest on Semeion.
_FIRST_STEPS = 6
_GROWTH = 1.5
# Bound on the rounding of squared distances from products, relative to |z|^2 + |z_test|^2. Smaller
# differences are decided by differences of coordinates.
_ROUNDING = 1e-11
# A test sample with more than one candidate for so many samples, beyond its neighbours, is compared
# with all samples in double precision. That takes the time of one candidate for 13 to 50 samples
# (measured: 1000 to 15,000 samples, 20 and 100 components).
_SAMPLES_PER_CANDIDATE = 32
# Up to this many neighbours, as many minima are faster than a partition of the distances, which
# takes as long as ten of them (measured: 200 tests, 1000 samples).
_MAX_MINIMA = 10


def classify_by_counts(
    Z: Floats,
    y: Labels,
    Z_test: Floats,
    component_counts: Sequence[int] | Ints,
    n_neighbors: int = 1,
) -> Labels:
    """Classify by the nearest neighbours, with some numbers of components.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Samples among which neighbours are searched.
    y : ndarray of shape (n,)
        Their labels.
    Z_test : ndarray of shape (m, r)
        Samples to classify.
    component_counts : sequence of int
        Numbers of components, strictly increasing.
    n_neighbors : int, default=1
        Number of neighbours that vote; all samples if there are fewer. Equal votes go to the first
        label in order, as in ``KNeighborsClassifier``.

    Returns
    -------
    ndarray of shape (len(component_counts), m)
        Labels.
    """
    if len(component_counts) == 0:
        return np.empty((0, len(Z_test)), dtype=y.dtype)
    n_neighbors = min(n_neighbors, len(Z))
    if n_neighbors > 1:
        labels, codes = np.unique(y, return_inverse=True)
        predicted = np.empty((len(component_counts), len(Z_test)), dtype=np.intp)
        for i, rows, pairs in _iter_near_pairs(Z, Z_test, component_counts, n_neighbors):
            votes = pairs.count_votes(codes, labels.size, int(component_counts[i]), n_neighbors)
            predicted[i, rows] = votes.argmax(axis=1)
        return np.asarray(labels[predicted])
    if len(component_counts) == Z.shape[1]:
        return np.asarray(y[nearest_by_dimension(Z, Z_test)])
    return np.asarray(y[nearest_by_counts(Z, Z_test, component_counts)])


def nearest_by_dimension(Z: Floats, Z_test: Floats) -> Ints:
    """Find the nearest neighbour by the first 1, 2, .. components.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Samples among which neighbours are searched.
    Z_test : ndarray of shape (m, r)
        Samples whose neighbours are searched.

    Returns
    -------
    ndarray of shape (r, m)
        Index of the nearest neighbour by 1, .., r components. Distances are sums of squared
        differences in the order of the columns; ties go to the lower index.
    """
    Z, Z_test = _scaled(Z, Z_test)
    n_test, r = Z_test.shape
    nearest = np.empty((r, n_test), dtype=np.intp)
    # By columns as well, because components are added one after the other.
    columns = np.ascontiguousarray(Z.T)
    norm = np.einsum("ij,ij->i", Z, Z).max()
    n_first = min(r, _FIRST_STEPS)
    stops = itertools.pairwise(_growing_stops(n_first, r))
    steps = [_Step(columns, done, stop) for done, stop in stops]
    for rows in _blocks(n_test, len(Z)):
        block = np.ascontiguousarray(Z_test[rows])
        slack = _ROUNDING * (np.einsum("ij,ij->i", block, block) + norm)
        distances = _one_by_one(columns[:n_first], block, nearest[:n_first, rows])
        for step in steps:
            further = distances.copy()
            step.add_distances(further, block)
            # Twice the slack: the bound and the distances compared with it are both rounded.
            within = (further.min(axis=1) + 2.0 * slack)[:, None]
            pairs = _Pairs.where(distances <= within, Z, block)
            found = pairs.nearest(distances, step.done, step.stop, slack)
            nearest[step.done : step.stop, rows] = found.T
            distances = further
    return nearest


def nearest_by_counts(Z: Floats, Z_test: Floats, component_counts: Sequence[int] | Ints) -> Ints:
    """Find the nearest neighbour by some numbers of components.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Samples among which neighbours are searched.
    Z_test : ndarray of shape (m, r)
        Samples whose neighbours are searched.
    component_counts : sequence of int
        Numbers of components, increasing.

    Returns
    -------
    ndarray of shape (len(component_counts), m)
        The same as `nearest_by_dimension` finds. Distances in single precision leave the few
        candidates whose squared differences are added up.
    """
    nearest = np.empty((len(component_counts), len(Z_test)), dtype=np.intp)
    for i, rows, pairs in _iter_near_pairs(Z, Z_test, component_counts):
        nearest[i, rows] = pairs.nearest_by_all(int(component_counts[i]))
    return nearest


def _iter_near_pairs(
    Z: Floats, Z_test: Floats, component_counts: Sequence[int] | Ints, n_neighbors: int = 1
) -> Iterator[tuple[int, slice, "_Pairs"]]:
    """Yield the pairs among which the nearest neighbours are, by distances in single precision.

    Yields the position of the number of components, the rows of a block of test samples, and the
    pairs of this block. The distances of other pairs are larger by more than their rounding. Test
    samples for which single precision leaves many pairs are compared in double precision.
    """
    r = int(component_counts[-1])
    Z, Z_test = _scaled(Z[:, :r], Z_test[:, :r])
    # Distances do not depend on the mean, but their rounding does.
    mean = Z.mean(axis=0)
    centred = Z - mean
    columns = np.ascontiguousarray(centred.T, dtype=np.float32)
    last = np.asarray(component_counts) - 1
    norms = np.cumsum(columns * columns, axis=0, dtype=np.float64)[last]
    # The components of a step add |z|^2 - 2 t'z to a distance, which is one product with the norms
    # as one more row; |t|^2 is the same for all samples.
    component_rows = np.arange(r) + np.searchsorted(last, np.arange(r))
    stops = (last + 1 + np.arange(1, len(last) + 1)).tolist()
    n_spare = len(Z) // _SAMPLES_PER_CANDIDATE
    right = np.empty((stops[-1], len(Z)), dtype=np.float32)
    right[component_rows] = columns
    right[np.array(stops) - 1] = np.diff(norms, axis=0, prepend=0.0)
    for rows in _blocks(len(Z_test), len(Z)):
        block = Z_test[rows]
        tests = block - mean
        single = tests.T.astype(np.float32)
        test_norms = np.cumsum(single * single, axis=0, dtype=np.float64)[last]
        left = np.ones((stops[-1], len(block)), dtype=np.float32)
        left[component_rows] = -2.0 * single
        distances = np.zeros((len(block), len(Z)), dtype=np.float32)
        for i, (done, stop) in enumerate(itertools.pairwise([0, *stops])):
            _add_product(distances, left[done:stop], right[done:stop])
            is_near = _find_near(distances, test_norms[i], n_neighbors, stop)
            # Counted for all test samples first, which is faster than for each.
            if np.count_nonzero(is_near) > len(block) * n_neighbors + n_spare:
                crowded = np.flatnonzero(is_near.sum(axis=1) > n_neighbors + n_spare)
                first = slice(int(component_counts[i]))
                is_near[crowded] = _find_near_in_double(
                    centred[:, first], tests[crowded, first], n_neighbors, stop
                )
            yield i, rows, _Pairs.where(is_near, Z, block)


def _find_near(distances: Any, test_norms: Floats, n_neighbors: int, n_terms: int) -> Bools:
    """Return True (m, n) for pairs that may be among the nearest, in spite of rounding.

    Parameters
    ----------
    distances : array of shape (m, n)
        |z|^2 - 2 t'z, in single or double precision.
    test_norms : array of shape (m,)
        |t|^2.
    n_neighbors : int
        Number of neighbours k.
    n_terms : int
        Number of terms that were added up to a distance, coordinates and norms.

    Notes
    -----
    A squared distance D from t to z is computed with an error of at most e (|t|^2 + |z|^2), and
    |z|^2 is at most 2 |t|^2 + 2 D. For near pairs the error is therefore at most
    e (3 |t|^2 + 2 D), however far other samples are. If s is the computed distance of the k-th
    nearest sample, all k have computed distances of at most s + e (7 |t|^2 + 6 s).
    """
    precision = np.finfo(distances.dtype)
    # Each sum is rounded, and so are samples and norms. Very small coordinates have no squares.
    rounding = (n_terms + 5) * float(precision.eps)
    underflow = 2 * n_terms * float(precision.tiny)
    bound = _kth_smallest(distances, n_neighbors).astype(np.float64)
    squares = np.maximum(bound + test_norms, 0.0)
    bound += rounding * (7.0 * test_norms + 6.0 * squares) + underflow
    # Rounded upwards: the bound must not lose its slack in single precision.
    bound = np.nextafter(bound.astype(distances.dtype), distances.dtype.type(np.inf))
    return np.asarray(distances <= bound[:, None])


def _find_near_in_double(Z: Floats, Z_test: Floats, n_neighbors: int, n_terms: int) -> Bools:
    """Return True (m, n) for pairs of centred samples that may be among the nearest."""
    norms, test_norms = (np.einsum("ij,ij->i", samples, samples) for samples in (Z, Z_test))
    return _find_near(norms - 2.0 * Z_test @ Z.T, test_norms, n_neighbors, n_terms)


def _kth_smallest(distances: Any, k: int) -> Any:
    """Return the k-th smallest entry of each row; for small k by k minima, which is faster."""
    if k == 1:
        return distances.min(axis=1)
    if k > _MAX_MINIMA:
        return np.partition(distances, k - 1, axis=1)[:, k - 1]
    rows = np.arange(len(distances))
    nearest = np.empty((k, len(distances)), dtype=np.intp)
    values = np.empty((k, len(distances)), dtype=distances.dtype)
    for j in range(k):
        distances.argmin(axis=1, out=nearest[j])
        values[j] = distances[rows, nearest[j]]
        distances[rows, nearest[j]] = np.inf
    distances[rows, nearest] = values
    return values[-1]


def _add_product(D: Any, left: Any, right: Any) -> None:
    """Add left.T @ right to D in place, which NumPy cannot; BLAS expects columns."""
    (gemm,) = get_blas_funcs(("gemm",), (D,))
    gemm(1.0, right.T, left.T, beta=1.0, c=D.T, trans_b=True, overwrite_c=True)


def _scaled(Z: Floats, Z_test: Floats) -> tuple[Floats, Floats]:
    """Scale by a power of two, which rounds nothing, so that no square overflows."""
    largest = max(np.abs(Z).max(initial=0.0), np.abs(Z_test).max(initial=0.0))
    scale = np.ldexp(1.0, -int(np.frexp(largest)[1]))
    return scale * Z, scale * Z_test


def _blocks(n_test: int, n: int) -> Iterator[slice]:
    size = max(_BLOCK_ROWS, _BLOCK_ENTRIES // n)
    return (slice(start, start + size) for start in range(0, n_test, size))


def _growing_stops(done: int, r: int) -> list[int]:
    """Return the ends of steps of growing size from ``done`` to r components."""
    stops = [done]
    while stops[-1] < r:
        stops.append(min(r, max(stops[-1] + 1, int(stops[-1] * _GROWTH))))
    return stops


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


class _Step:
    """Squared distances to samples by the components done, .., stop - 1 alone."""

    def __init__(self, columns: Floats, done: int, stop: int) -> None:
        self.done, self.stop = done, stop
        # |z|^2 - 2 t'z + |t|^2 as one product, with the norms as two more columns.
        Z = columns[done:stop]
        norms = np.einsum("ij,ij->j", Z, Z)
        self._right = np.vstack([Z, norms, np.ones_like(norms)])

    def add_distances(self, distances: Any, block: Any) -> None:
        """Add those of a block of m test samples to distances (m, n), in place."""
        T = block[:, self.done : self.stop]
        norms = np.einsum("ij,ij->i", T, T)
        left = np.vstack([-2.0 * T.T, np.ones_like(norms), norms])
        _add_product(distances, left, self._right)


class _Pairs:
    """Candidate pairs of a block: test samples and samples, sorted by both."""

    def __init__(self, Z: Floats, block: Floats, tests: Ints, others: Ints) -> None:
        self._Z, self._block = Z, block
        self._tests, self._others = tests, others
        self._starts = np.searchsorted(tests, np.arange(len(block)))

    @classmethod
    def where(cls, possible: Bools, Z: Floats, block: Floats) -> Self:
        # In one dimension, where NumPy finds them several times faster than in two.
        return cls(Z, block, *np.divmod(np.flatnonzero(possible), len(Z)))

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

    def nearest_by_all(self, stop: int) -> Ints:
        """Return the nearest by the first ``stop`` components (n_tests,)."""
        if self._others.size == self._starts.size:
            return self._others  # one candidate each
        exact = np.cumsum(self._squares(0, stop), axis=1)[:, -1:]
        return self._lowest(exact <= self._least(exact, 0.0))[:, 0]

    def count_votes(self, codes: Ints, n_classes: int, stop: int, n_neighbors: int) -> Ints:
        """Count the classes of the nearest by the first ``stop`` components (n_tests, n_classes).

        Ties in distance go to the lower index.
        """
        exact = np.cumsum(self._squares(0, stop), axis=1)[:, -1]
        order = np.lexsort((exact, self._tests))  # stable, and the others come in order
        tests = self._tests[order]
        chosen = np.arange(tests.size) - self._starts[tests] < n_neighbors
        votes = tests[chosen] * n_classes + codes[self._others[order[chosen]]]
        counts = np.bincount(votes, minlength=self._starts.size * n_classes)
        return counts.reshape(-1, n_classes)

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
