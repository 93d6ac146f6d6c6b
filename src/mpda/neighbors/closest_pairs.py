"""Closest pairs of samples from different classes, without all distances at once.

The penalty graph of MFA (Yan et al. 2007) consists of such pairs. Blocks of rows of the distance
matrix are searched by Gram products, |x_i|^2 + |x_j|^2 - 2 x_i'x_j. These lose small distances, so
every entry within their rounding of the best is computed again from differences.
"""

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda.neighbors.neighbor_lists import nonzero_pairs, pair_distances

# Entries of the distance matrix at a time (2 MB), so that a block stays in the cache.
_BLOCK_ENTRIES = 250_000


def closest_pairs(X: Floats, codes: Ints, rows: Ints, n_pairs: int) -> Ints:
    """Find the smallest entries of the distance matrix between different classes.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples.
    codes : ndarray of shape (n,)
        Class of each sample.
    rows : ndarray of shape (m,)
        Indices of the rows of the distance matrix that are searched.
    n_pairs : int
        Number of entries.

    Returns
    -------
    ndarray of shape (p, 2)
        Pairs (i, j) by increasing distance, i in ``rows`` and j of another class; ties by lower i,
        then lower j. p is below ``n_pairs`` if there are fewer pairs.
    """
    centred = X - X.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    # Bound on the rounding of a Gram product of d terms; 16 covers sums in any order.
    rounding = 16.0 * X.shape[1] * np.finfo(float).eps * float(squares.max())
    pairs = np.empty((0, 2), dtype=np.intp)
    distances = np.empty(0)
    step = max(1, _BLOCK_ENTRIES // len(X))
    for start in range(0, rows.size, step):
        block = rows[start : start + step]
        gram = squares[block, None] + squares - 2.0 * centred[block] @ centred.T
        gram[codes[block, None] == codes] = np.inf
        limit = np.inf
        if gram.size >= n_pairs:
            limit = np.partition(gram, n_pairs - 1, axis=None)[n_pairs - 1] + 2.0 * rounding
        if distances.size == n_pairs:
            # Pairs of earlier blocks bound what can still enter the list.
            limit = min(limit, distances[-1] ** 2 + rounding)
        tails, heads = nonzero_pairs((gram <= limit) & np.isfinite(gram))
        candidates = np.column_stack([block[tails], heads])
        pairs = np.concatenate([pairs, candidates])
        distances = np.concatenate([distances, pair_distances(X, *candidates.T)])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], distances))[:n_pairs]
        pairs, distances = pairs[order], distances[order]
    return pairs
