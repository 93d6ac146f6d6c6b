"""The partition of arrays of other libraries: the patches are those of NumPy."""

import pickle
from functools import partial

import numpy as np
import pytest

from mpda._lib.arrays import to_host
from mpda.neighbors.graph import ClassPoints, NeighborLists, find_neighbors
from mpda.partition import coarse_cuts
from mpda.partition import rules as patch_rules
from mpda.partition.coarse import coarse_partitions
from mpda.partition.geodesics import ClassDistances, euclidean_distances, geodesic_distances
from mpda.partition.rules import CutRule, known_patches
from mpda.partition.split import manifold_partition

LIBRARIES = ["torch", "array_api_strict"]


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


def given(X, n_neighbors=4):
    points = ClassPoints(X)
    return points, find_neighbors(points, n_neighbors)


def moved(library, points, lists):
    """The same in arrays of a library."""
    asarray = pytest.importorskip(library).asarray
    return (
        ClassPoints(asarray(points.X)),
        NeighborLists(asarray(lists.indices), asarray(lists.distances)),
    )


def assert_same(found, expected):
    assert isinstance(found.labels, np.ndarray)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.linearity, expected.linearity, rtol=1e-12)
    for name in ("roots", "children", "sizes", "patches"):
        np.testing.assert_array_equal(getattr(found.tree, name), getattr(expected.tree, name))
    np.testing.assert_allclose(found.tree.linearity, expected.tree.linearity, rtol=1e-12)


@pytest.fixture(params=["exact", "coarse"])
def auto_is(request, monkeypatch):
    """Small classes are cut by the exact rule, or coarsely with every call on the device."""
    if request.param == "coarse":
        monkeypatch.setattr(patch_rules, "CLASS_SIZE", 20)
        small_parts = partial(coarse_partitions, part_size=15)
        monkeypatch.setattr(patch_rules, "coarse_partitions", small_parts)
        monkeypatch.setattr(coarse_cuts, "_MEASURED", 7)
        monkeypatch.setattr(coarse_cuts, "_FEW", 0)
    return request.param


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("partition", ["geodesic", "euclidean"])
@pytest.mark.parametrize("seed", range(6))
def test_patches_are_those_of_numpy(seed, partition, library):
    case = given(random_class(seed), n_neighbors=1 + seed % 6)
    rule = CutRule(partition, 1 + 3 * (seed % 4))
    assert_same(rule(*moved(library, *case)), rule(*case))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("distances", [geodesic_distances, euclidean_distances])
def test_distances_of_a_class_are_those_of_numpy(distances, library):
    case = given(random_class(2), n_neighbors=2)
    found, expected = distances(*moved(library, *case)), distances(*case)
    for name in ("listed", "lengths", "tortuosity"):
        there, here = getattr(found, name), getattr(expected, name)
        assert (there is None) == (here is None)
        if here is not None:
            np.testing.assert_allclose(to_host(there), here, rtol=1e-14)
    assert_same(manifold_partition(found, 7), manifold_partition(expected, 7))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_rule_is_that_of_numpy_for_any_distances(seed, library):
    # Of no samples at all: paths among some are five times as crooked as elsewhere, so that the
    # larger of two parts is often not the one of larger R^p N_p.
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(1.0, 9.0, size=(40, 40))
    crooked = rng.integers(0, 2, size=40)
    tortuosity = np.where(crooked[:, None] & crooked, 5.0, 1.0) * rng.uniform(1, 2, size=(40, 40))
    square = [np.triu(each, 1) + np.triu(each, 1).T for each in (lengths, tortuosity)]
    listed = rng.uniform(size=(40, 40)) < 0.1
    here = ClassDistances(listed, square[0], square[1] + np.eye(40))
    asarray = pytest.importorskip(library).asarray
    there = ClassDistances(*map(asarray, (here.listed, here.lengths, here.tortuosity)))
    assert_same(manifold_partition(there, 5), manifold_partition(here, 5))


@pytest.mark.parametrize("library", LIBRARIES)
def test_several_classes_together_are_as_each_alone(library, auto_is):
    cases = [given(random_class(seed)) for seed in range(5, 10)]
    rule = CutRule("auto", 6)
    together = rule.together(*zip(*[moved(library, *case) for case in cases], strict=True))
    for found, case in zip(together, cases, strict=True):
        assert_same(found, rule(*case))
    assert [found.labels.size for found in together] == [len(case[0].X) for case in cases]


@pytest.mark.parametrize("library", ["numpy", *LIBRARIES])
@pytest.mark.parametrize("partition", ["auto", "geodesic", "euclidean"])
@pytest.mark.parametrize("max_patch_size", [1, 2, 10])
def test_tiny_classes(max_patch_size, partition, library):
    rng = np.random.default_rng(3)
    cases = [given(rng.normal(size=(n, 2)), 3) for n in (1, 2, 3, 30)]
    cases.append(given(np.ones((9, 2)), 3))
    rule = CutRule(partition, max_patch_size)
    together = rule.together(*zip(*[moved(library, *case) for case in cases], strict=True))
    for found, case in zip(together, cases, strict=True):
        assert_same(found, rule(*case))
        assert np.bincount(found.labels).max() <= max_patch_size
    copies = min(9, max_patch_size)
    sizes = [1] * (9 - copies) + [copies]
    np.testing.assert_array_equal(np.sort(np.bincount(together[4].labels)), sizes)
    np.testing.assert_array_equal(together[4].linearity, 1.0)


@pytest.mark.parametrize("few", [150, 10_000])
def test_the_last_samples_may_be_cut_on_this_machine(few, monkeypatch):
    monkeypatch.setattr(patch_rules, "CLASS_SIZE", 100)
    monkeypatch.setattr(coarse_cuts, "_FEW", few)
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[:100] += 40.0
    case = given(X, 5)
    rule = CutRule("auto", 8)
    assert_same(rule(*moved("torch", *case)), rule(*case))


@pytest.mark.parametrize("library", LIBRARIES)
def test_known_patches(library):
    case = given(random_class(0))
    labels = np.arange(len(case[0].X)) % 7 - 1
    found = known_patches(*moved(library, *case), labels=labels)
    expected = known_patches(*case, labels=labels)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.linearity, expected.linearity)


def test_rules_are_values():
    rule = CutRule("auto", 10)
    assert pickle.loads(pickle.dumps(rule)) == rule
