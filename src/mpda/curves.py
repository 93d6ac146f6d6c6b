"""The nearest neighbour at every number of dimensions, from one sweep over the dimensions."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from mpda._typing import Floats, Ints

# Distances at a time, so that they stay in the cache from one dimension to the next.
_BLOCK_ENTRIES = 50_000


def nearest_by_dimension(Z: Floats, Z_test: Floats, first: int = 1) -> Ints:
    """The nearest of Z (n, r) to each of Z_test (m, r) by the first f, f + 1, .. r columns.

    Returns (r - f + 1, m), f being ``first``. Each dimension adds one squared difference to the
    distances; ties go to the lower index.
    """
    n_test, r = Z_test.shape
    before = first - 1
    nearest = np.empty((r - before, n_test), dtype=np.intp)
    columns, test_columns = np.ascontiguousarray(Z.T), np.ascontiguousarray(Z_test.T)
    step = max(1, _BLOCK_ENTRIES // len(Z))
    for start in range(0, n_test, step):
        rows = slice(start, start + step)
        distances = np.zeros((len(Z_test[rows]), len(Z)))
        if before:
            distances += cdist(Z_test[rows, :before], Z[:, :before], "sqeuclidean")
        gaps = np.empty_like(distances)
        for i in range(before, r):
            np.subtract(test_columns[i, rows, None], columns[i], out=gaps)
            np.multiply(gaps, gaps, out=gaps)
            np.add(distances, gaps, out=distances)
            distances.argmin(axis=1, out=nearest[i - before, rows])
    return nearest
