"""What a fit keeps between its two passes changes its time and memory, never its result."""

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest

from mpda import MPDA, PMPDA
from mpda._lib.memory import release_free_memory
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


def test_forms_take_a_share_of_the_samples(large_classes, monkeypatch):
    X, y = large_classes
    builders = []
    make_builder = class_stages.WithinFormBuilder

    def make_and_count(*arguments):
        builders.append(make_builder(*arguments))
        return builders[-1]

    monkeypatch.setattr(class_stages, "WithinFormBuilder", make_and_count)
    expected = MPDA(2).fit(X, y).components_
    assert len(builders) == 3  # one for each class: small tables keep all forms
    monkeypatch.setattr(class_pool, "_MANY_NUMBERS", 0)
    monkeypatch.setattr(class_pool, "_LEAST_FORMS", 0)
    for share, n_builders in ((0.0, 6), (1e9, 3)):
        builders.clear()
        monkeypatch.setattr(class_pool, "_FORMS_SHARE", share)
        np.testing.assert_array_equal(MPDA(2).fit(X, y).components_, expected)
        assert len(builders) == n_builders


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None) if os.name == "posix" else None, "malloc_trim"),
    reason="needs glibc",
)
def test_freed_memory_is_given_back():
    def read_size():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # Too small for memory maps of their own; the last one keeps the heap from shrinking.
    pieces = [np.ones(6_000) for _ in range(2_000)]
    del pieces[:-1]
    before = read_size()
    release_free_memory()
    assert before - read_size() > 48_000_000


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
