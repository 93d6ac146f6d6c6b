"""The closest pairs of samples from different classes, found without all distances at once."""

from __future__ import annotations

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda.neighbors.graph import nonzero_pairs, pair_distances

_BLOCK_ENTRIES = 250_000


def closest_pairs(X: Floats, codes: Ints, rows: Ints, n_pairs: int) -> Ints:
    """The entries (i, j) of the distance matrix, i in rows, with the smallest distances (p, 2).

    X (n, d) are the samples and codes (n,) their classes; j is any sample of another class. Ties
    are taken by lower i, then lower j. There may be fewer than ``n_pairs``.

    Blocks of rows are searched by Gram products. These lose small distances, so every entry within
    their rounding of the best is measured again from differences.
    """
    centred = X - X.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    rounding = 16.0 * X.shape[1] * np.finfo(float).eps * float(squares.max())
    pairs = np.empty((0, 2), dtype=np.intp)
    distances = np.empty(0)
    step = max(1, _BLOCK_ENTRIES // len(X))
    for start in range(0, rows.size, step):
        block = rows[start : start + step]
        gram = squares[block, None] + squares - 2.0 * centred[block] @ centred.T
        gram[codes[block, None] == codes] = np.inf
        limit = _smallest(gram, n_pairs) + 2.0 * rounding
        if distances.size == n_pairs:
            limit = min(limit, distances[-1] ** 2 + rounding)
        tails, heads = nonzero_pairs((gram <= limit) & np.isfinite(gram))
        found = np.column_stack([block[tails], heads])
        pairs = np.concatenate([pairs, found])
        distances = np.concatenate([distances, pair_distances(X, *found.T)])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], distances))[:n_pairs]
        pairs, distances = pairs[order], distances[order]
    return pairs


def _smallest(values: Floats, k: int) -> float:
    """The k-th smallest of the values, or infinity where there are fewer."""
    if values.size < k:
        return np.inf
    return float(np.partition(values, k - 1, axis=None)[k - 1])
