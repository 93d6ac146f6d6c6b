"""What a fit keeps between its two passes changes its time and memory, never its result."""

import numpy as np
import pytest

from mpda import MPDA, PMPDA
from mpda.discriminant import class_pool, class_stages
from mpda.neighbors.neighbor_lists import CompactLists, NeighborLists

LARGE = class_stages.LARGE_CLASS + 50


@pytest.fixture(scope="module")
def large_classes():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [LARGE, LARGE, 60])
    turns = rng.uniform(0.0, 6.0, y.size)
    curve = np.column_stack([np.sin(turns), np.cos(2.0 * turns), turns, y])
    return curve + 0.05 * rng.normal(size=curve.shape), y


@pytest.fixture
def count_searches(monkeypatch):
    """Count the samples whose neighbours are searched."""
    counts = []
    find = class_stages.find_neighbors

    def find_and_count(points, k):
        counts.append(points.X.shape[0])
        return find(points, k)

    monkeypatch.setattr(class_stages, "find_neighbors", find_and_count)
    return counts


@pytest.mark.parametrize(
    "method",
    [
        MPDA(2, tangent_alpha=0.1),
        pytest.param(MPDA(2, partition="geodesic"), marks=pytest.mark.slow),
        MPDA(2, anchors=True),
        PMPDA(2, n_neighbors=8, tangent_alpha=0.1),
    ],
)
def test_kept_stages_do_not_change_the_fit(large_classes, monkeypatch, count_searches, method):
    X, y = large_classes
    expected = method.fit(X, y).components_
    assert sum(count_searches) == len(y)
    for limits, n_searches in (({"forms": 0, "lists": 2**24}, 1), ({"forms": 0, "lists": 0}, 2)):
        count_searches.clear()
        monkeypatch.setattr(class_pool, "_HOST_BYTES", limits)
        np.testing.assert_array_equal(method.fit(X, y).components_, expected)
        assert sum(count_searches) == n_searches * len(y)


def test_a_class_may_contribute_twice(large_classes, monkeypatch):
    X, y = large_classes
    expected = MPDA(2).fit(X, y).components_
    contribute = class_stages.ClassStages.contribute

    def contribute_twice(stages, settings, strengths=None):
        contribute(stages, settings, strengths)
        return contribute(stages, settings, strengths)

    monkeypatch.setattr(class_stages.ClassStages, "contribute", contribute_twice)
    np.testing.assert_array_equal(MPDA(2).fit(X, y).components_, expected)


@pytest.mark.parametrize(("n", "n_bytes"), [(200, 1), (1000, 2), (70_000, 4)])
def test_compact_lists_have_the_same_neighbors(n, n_bytes):
    indices = np.random.default_rng(0).integers(n, size=(n, 3))
    indices[0, 0] = n - 1
    compact = CompactLists.from_lists(NeighborLists(indices, np.ones(indices.shape)))
    assert compact.nbytes == n_bytes * indices.size
    expanded = compact.expand()
    np.testing.assert_array_equal(expanded.indices, indices)
    assert np.isnan(expanded.distances).all()
