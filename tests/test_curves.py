"""Nearest neighbours at every number of dimensions, against loops."""

import numpy as np
import pytest

from mpda.model_selection import nearest_by_dimension as curves
from mpda.model_selection.nearest_by_dimension import nearest_by_dimension


@pytest.mark.parametrize("first", [1, 3, 20])
@pytest.mark.parametrize("kind", ["spread", "ties", "far", "copies", "huge", "tiny", "falling"])
def test_nearest_by_dimension(monkeypatch, first, kind):
    rng = np.random.default_rng(1)
    r = 24
    Z, Z_test = rng.normal(size=(31, r)), rng.normal(size=(17, r))
    if kind == "ties":
        Z, Z_test = np.rint(0.7 * Z), np.rint(0.7 * Z_test)
        Z[20:] = Z[:11]
    elif kind == "far":
        Z, Z_test = Z + 1e7, Z_test + 1e7
    elif kind == "copies":
        Z[1] = Z[0]
        Z_test[:5] = Z[:5]
        Z_test[5] = Z[0] + 1e-12
    elif kind == "falling":
        Z, Z_test = (each * 0.5 ** np.arange(r) for each in (Z, Z_test))
    scale = {"huge": 2.0**700, "tiny": 2.0**-700}.get(kind, 1.0)
    monkeypatch.setattr(curves, "_BLOCK_ENTRIES", 100)
    found = nearest_by_dimension(scale * Z, scale * Z_test, first)
    assert found.shape == (r - first + 1, 17)
    for row, kept in enumerate(range(first, r + 1)):
        for i in range(17):
            gaps = [sum((Z_test[i, c] - z[c]) ** 2 for c in range(kept)) for z in Z]
            assert found[row, i] == int(np.argmin(gaps))
