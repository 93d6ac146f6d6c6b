"""Nearest neighbours for every number of dimensions, against loops."""

import tracemalloc

import numpy as np
import pytest

from mpda.model_selection import nearest_by_dimension as module


@pytest.mark.parametrize("first", [1, 3, 20])
@pytest.mark.parametrize("kind", ["spread", "ties", "far", "copies", "huge", "tiny", "falling"])
def test_nearest_neighbors_equal_those_of_loops(monkeypatch, first, kind):
    rng = np.random.default_rng(1)
    r = 24
    Z, Z_test = rng.normal(size=(31, r)), rng.normal(size=(17, r))
    if kind == "ties":  # of whole numbers, whose distances are exact
        Z, Z_test = np.rint(0.7 * Z), np.rint(0.7 * Z_test)
        Z[20:] = Z[:11]
    elif kind == "far":
        Z, Z_test = Z + 1e7, Z_test + 1e7
    elif kind == "copies":
        Z[1] = Z[0]
        Z_test[:5] = Z[:5]
        Z_test[5] = Z[0] + 1e-12
    elif kind == "falling":
        weights = 0.5 ** np.arange(r)
        Z, Z_test = Z * weights, Z_test * weights
    scale = {"huge": 2.0**700, "tiny": 2.0**-700}.get(kind, 1.0)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 100)  # several blocks for few samples
    monkeypatch.setattr(module, "_BLOCK_ROWS", 3)
    Z_scaled, Z_test_scaled = scale * Z, scale * Z_test
    if first == 1:
        nearest = module.nearest_by_dimension(Z_scaled, Z_test_scaled)
    else:
        nearest = module.nearest_by_counts(Z_scaled, Z_test_scaled, range(first, r + 1))
    squares = np.cumsum((Z_test[:, None] - Z) ** 2, axis=2)[:, :, first - 1 :]
    np.testing.assert_array_equal(nearest, squares.argmin(axis=1).T)


@pytest.mark.parametrize(
    "kind", ["spread", "ties", "copies", "offset", "clusters", "outlier", "underflow"]
)
@pytest.mark.parametrize("n_neighbors", [1, 3, 12, 50])
@pytest.mark.parametrize("numbers", [[1, 2, 3, 4, 5, 6], [2, 5]])
def test_votes_equal_those_of_loops(monkeypatch, kind, n_neighbors, numbers):
    rng = np.random.default_rng(2)
    Z, Z_test = rng.normal(size=(31, 6)), rng.normal(size=(17, 6))
    y = rng.permutation(np.resize(["b", "c", "a"], 31))
    if kind == "ties":
        Z, Z_test = np.rint(Z), np.rint(Z_test)
    elif kind == "copies":
        Z[::2], Z_test[::3] = Z[0], Z[0]
    elif kind == "offset":
        Z, Z_test = Z + 2.0**20, Z_test + 2.0**20
    elif kind == "clusters":  # distances are far below the rounding of single precision
        Z[::2] += 2.0**20
        Z_test[::2] += 2.0**20
    elif kind == "outlier":
        Z[-1] = 2.0**27
    elif kind == "underflow":  # two far samples; squares of the others lose digits
        Z, Z_test = Z - Z.mean(axis=0), Z_test - Z.mean(axis=0)
        Z[-2:] = [[2.0**73], [-(2.0**73)]]
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 100)
    monkeypatch.setattr(module, "_BLOCK_ROWS", 3)
    if len(numbers) == 2:  # single precision alone; the others continue in double precision
        monkeypatch.setattr(module, "_SAMPLES_PER_CANDIDATE", 1)
    labels = module.classify_by_counts(Z, y, Z_test, numbers, n_neighbors)
    for r, predicted in zip(numbers, labels, strict=True):
        squares = np.sum((Z_test[:, None, :r] - Z[:, :r]) ** 2, axis=2)
        for i, order in enumerate(np.argsort(squares, axis=1, kind="stable")):
            values, counts = np.unique(y[order[:n_neighbors]], return_counts=True)
            assert predicted[i] == values[counts.argmax()]


@pytest.mark.parametrize("n_neighbors", [1, 5])
@pytest.mark.parametrize("kind", ["samples", "groups"])
def test_far_samples_leave_few_candidates_of_the_others(n_neighbors, kind):
    """Columns of rare values have such samples; all pairs would take 30 times the memory."""
    rng = np.random.default_rng(0)
    Z, Z_test = rng.normal(size=(2000, 20)), rng.normal(size=(200, 20))
    y = rng.integers(0, 3, size=2000)
    if kind == "samples":
        Z[:2] *= 3000.0
        Z[1] -= Z[0]
    else:  # single precision cannot tell the distances inside a group
        Z[::2] += 1e4
        Z_test[::2] += 1e4
    tracemalloc.start()
    module.classify_by_counts(Z, y, Z_test, [20], n_neighbors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20
