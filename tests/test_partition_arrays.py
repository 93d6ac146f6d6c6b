"""Partitions of device arrays: the patches are those of NumPy, and are on the host."""

import pickle

import numpy as np
import pytest

from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors
from mpda.partition.rules import PARTITIONS, PartitionRule, known_patches


def random_class(seed):
    """Generic samples: a cloud, a curve, groups far apart, copies of some, one point many times."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 70))
    X = rng.normal(size=(n, 5))
    kind = seed % 5
    if kind == 1:
        t = rng.uniform(0, 9, n)
        X[:, :2] = np.column_stack([t * np.cos(t), t * np.sin(t)])
    elif kind == 2:
        X += 50.0 * rng.integers(0, 4, size=(n, 1))
    elif kind == 3:
        X[n // 2 :] = X[rng.integers(0, n // 2, n - n // 2)]
    elif kind == 4:
        X[rng.permutation(n)[: rng.integers(n // 2, n + 1)]] = X[0]
    return X


def with_neighbors(X, n_neighbors=4):
    points = ClassPoints(X)
    return points, find_neighbors(points, n_neighbors)


def on_device(library, points, neighbors):
    lists = NeighborLists(library(neighbors.indices), library(neighbors.distances))
    return ClassPoints(library(points.X)), lists


def assert_equal_partitions(partition, expected):
    assert isinstance(partition.labels, np.ndarray)
    np.testing.assert_array_equal(partition.labels, expected.labels)
    np.testing.assert_allclose(partition.linearity, expected.linearity, rtol=1e-12)
    for name in ("roots", "children", "sizes", "patches"):
        np.testing.assert_array_equal(getattr(partition.tree, name), getattr(expected.tree, name))


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("seed", range(5))
def test_patches_are_those_of_numpy(seed, name, library):
    case = with_neighbors(random_class(seed), n_neighbors=1 + seed % 6)
    rule = PartitionRule(name, 1 + 3 * (seed % 4))
    assert_equal_partitions(rule(*on_device(library, *case)), rule(*case))


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("max_patch_size", [1, 2, 10])
def test_tiny_classes_have_patches(max_patch_size, name):
    rng = np.random.default_rng(3)
    rule = PartitionRule(name, max_patch_size)
    for n in (1, 2, 3, 30):
        partition = rule(*with_neighbors(rng.normal(size=(n, 2)), 3))
        assert partition.labels.size == n
        assert np.bincount(partition.labels).max() <= max_patch_size
    sizes = np.bincount(rule(*with_neighbors(np.ones((9, 2)), 3)).labels)
    assert sizes.sum() == 9
    assert sizes.max() <= max_patch_size


def test_known_patches_of_a_device(library):
    case = with_neighbors(random_class(0))
    labels = np.arange(len(case[0].X)) % 7 - 1
    partition = known_patches(*on_device(library, *case), labels=labels)
    expected = known_patches(*case, labels=labels)
    np.testing.assert_array_equal(partition.labels, expected.labels)
    np.testing.assert_array_equal(partition.linearity, expected.linearity)


def test_rules_are_values():
    rule = PartitionRule("auto", 10)
    assert pickle.loads(pickle.dumps(rule)) == rule
