"""Geodesics and the manifold partition against the rule written out; patches of device arrays."""

import pickle

import numpy as np
import pytest

import oracles
from mpda import ManifoldPartition
from mpda.neighbors.neighbor_lists import ClassPoints, NeighborLists, find_neighbors
from mpda.partition.geodesics import euclidean_distances, geodesic_distances
from mpda.partition.rules import PARTITIONS, PartitionRule, known_patches
from mpda.partition.split import known_partition


def random_case(seed):
    """Samples, k' and M: curves, sheets, clusters far apart, lattices with ties, duplicates."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 45))
    kind = seed % 6
    if kind == 0:
        t = rng.uniform(0, 9, n)
        X = np.column_stack([t * np.cos(t), t * np.sin(t), rng.normal(size=n) * 0.2])
    elif kind == 1:
        X = rng.normal(size=(n, int(rng.integers(1, 12))))
    elif kind == 2:
        X = rng.normal(size=(n, 3)) + rng.integers(0, 4, size=(n, 1)) * 50.0
    elif kind == 3:
        X = rng.integers(0, 4, size=(n, 3)).astype(float)
    elif kind == 4:
        X = rng.normal(size=(n, 4))
        X[n // 2 :] = X[rng.integers(0, n // 2, n - n // 2)]
    else:  # one point many times among others
        X = rng.normal(size=(n, 3))
        X[rng.permutation(n)[: rng.integers(n // 2, n + 1)]] = X[0]
    return X, int(rng.integers(1, 8)), int(rng.integers(2, 13))


def with_neighbors(X, k):
    points = ClassPoints(X)
    return points, find_neighbors(points, k)


def as_sets(labels):
    return {frozenset(np.flatnonzero(labels == p).tolist()) for p in np.unique(labels)}


@pytest.mark.parametrize("geodesic", [True, False])
@pytest.mark.parametrize(
    "seed", [*range(24), *(pytest.param(s, marks=pytest.mark.slow) for s in range(24, 48))]
)
def test_partition_is_the_literal_rule(seed, geodesic):
    X, k, largest = random_case(seed)
    patches, R = oracles.partition(X, k, largest, geodesic)
    model = ManifoldPartition(
        "geodesic" if geodesic else "euclidean", partition_neighbors=k, max_patch_size=largest
    ).fit(X)
    assert as_sets(model.labels_) == {frozenset(patch) for patch in patches}
    for p, linearity in enumerate(model.patch_linearity_):
        members = np.flatnonzero(model.labels_ == p)
        np.testing.assert_allclose(linearity, R[np.ix_(members, members)].mean(), rtol=1e-12)


def test_classes_that_are_processed_in_blocks():
    """Matrices of more than 256 rows are copied and made symmetric block by block."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 9, 300)
    X = np.column_stack([t * np.cos(t), t * np.sin(t), rng.normal(size=300)])
    # The literal rule with geodesics would take a minute; both kinds are split by the same code.
    patches, _ = oracles.partition(X, 6, 40, geodesic=False)
    model = ManifoldPartition("euclidean", partition_neighbors=6, max_patch_size=40).fit(X)
    assert as_sets(model.labels_) == {frozenset(patch) for patch in patches}
    lengths = geodesic_distances(*with_neighbors(X, 6)).lengths
    np.testing.assert_array_equal(lengths, lengths.T)


@pytest.mark.parametrize("seed", range(20))
def test_geodesics_join_components_by_their_shortest_edges(seed):
    X, k, _ = random_case(seed)
    distances = geodesic_distances(*with_neighbors(X, k))
    np.testing.assert_allclose(
        distances.lengths, oracles.geodesics(oracles.distances(X), k), rtol=1e-13
    )
    assert (distances.lengths == distances.lengths.T).all()
    assert (distances.tortuosity >= 1.0).all()


def test_geodesics_of_components_that_are_far_apart():
    # Three groups on a line at 0, 100 and 300: the bridges are 0.2-100 and 100.2-300.
    X = np.array([0.0, 0.1, 0.2, 100.0, 100.1, 100.2, 300.0, 300.1])[:, None]
    np.testing.assert_allclose(geodesic_distances(*with_neighbors(X, 1)).lengths, np.abs(X - X.T))


def test_no_path_is_shorter_than_the_straight_line():
    # Sums of rounded steps fall below the rounded whole for some of these pairs.
    X = np.outer(np.arange(200) * 0.1, [0.3, 0.7])
    points, neighbors = with_neighbors(X, 2)
    distances = geodesic_distances(points, neighbors)
    assert (distances.lengths >= points.straight).all()
    assert (distances.tortuosity >= 1.0).all()


def test_a_straight_line_is_flat_and_a_circle_is_not():
    line = np.outer(np.arange(30.0), [1.0, 2.0])
    np.testing.assert_allclose(ManifoldPartition().fit(line).patch_linearity_, 1.0)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    model = ManifoldPartition(partition_neighbors=2).fit(circle)
    circle_linearity = model.tree_.linearity[0]
    # The mean of angle / (2 sin(angle / 2)) over a circle is 1.166.
    assert circle_linearity == pytest.approx(1.166, abs=0.02)
    assert (model.patch_linearity_ < circle_linearity).all()


def test_patches_stay_inside_classes_and_the_tree_tells_how():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.array(["b", "a", "c"])[rng.integers(0, 3, 90)]
    model = ManifoldPartition(max_patch_size=7).fit(X, y)
    assert model.patch_sizes_.max() <= 7
    np.testing.assert_array_equal(model.patch_sizes_, np.bincount(model.labels_))
    np.testing.assert_array_equal(model.patch_classes_[model.labels_], y)
    tree = model.tree_
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
    np.testing.assert_array_equal(tree.sizes[tree.roots], [np.sum(y == c) for c in "abc"])
    inner = tree.children[:, 0] >= 0
    np.testing.assert_array_equal(tree.sizes[inner], tree.sizes[tree.children[inner]].sum(axis=1))
    assert (tree.sizes[inner] > 7).all()
    leaves = ~inner
    assert (tree.children[leaves] == -1).all()
    np.testing.assert_array_equal(np.sort(tree.patches[leaves]), np.arange(len(model.patch_sizes_)))
    np.testing.assert_array_equal(tree.sizes[leaves], model.patch_sizes_[tree.patches[leaves]])
    np.testing.assert_allclose(tree.linearity[leaves], model.patch_linearity_[tree.patches[leaves]])
    np.testing.assert_array_equal(model.fit_predict(X, y), model.labels_)
    alone = ManifoldPartition(max_patch_size=7).fit(X[y == "b"])
    assert as_sets(alone.labels_) == as_sets(model.labels_[y == "b"])


def test_hundreds_of_copies_are_no_trouble():
    X = np.random.default_rng(0).normal(size=(700, 3))
    X[200:] = X[0]
    model = ManifoldPartition().fit(X)
    assert model.patch_sizes_.max() <= 10
    np.testing.assert_array_equal(ManifoldPartition().fit(X[200:]).patch_linearity_, 1.0)


def test_known_patches_keep_their_sets_and_minus_one_stands_alone():
    X = np.random.default_rng(0).normal(size=(10, 2))
    labels = np.array([-1, 7, -1, 3, 3, -1, 7, 3, 3, 7])
    partition = known_partition(euclidean_distances(*with_neighbors(X, 3)), labels)
    sets = {frozenset(s) for s in ([1, 6, 9], [3, 4, 7, 8], [0], [2], [5])}
    assert as_sets(partition.labels) == sets


def test_scale_and_offset_change_nothing():
    X, k, largest = random_case(6)
    labels = ManifoldPartition(partition_neighbors=k, max_patch_size=largest).fit(X).labels_
    for changed in (X * 1e150, X * 1e-150, X + 1e3):
        again = ManifoldPartition(partition_neighbors=k, max_patch_size=largest).fit(changed)
        np.testing.assert_array_equal(again.labels_, labels)


def test_class_that_is_small_enough_is_one_patch():
    X = np.random.default_rng(0).normal(size=(10, 3))
    np.testing.assert_array_equal(ManifoldPartition(max_patch_size=10).fit_predict(X), 0)


def on_device(library, points, neighbors):
    lists = NeighborLists(library(neighbors.indices), library(neighbors.distances))
    return ClassPoints(library(points.X)), lists


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("seed", range(6))
def test_patches_of_a_device_are_those_of_numpy(seed, name, library):
    X, k, largest = random_case(seed)
    case, rule = with_neighbors(X, k), PartitionRule(name, largest)
    partition, expected = rule(*on_device(library, *case)), rule(*case)
    assert isinstance(partition.labels, np.ndarray)
    np.testing.assert_array_equal(partition.labels, expected.labels)
    np.testing.assert_array_equal(partition.tree.children, expected.tree.children)
    np.testing.assert_allclose(partition.linearity, expected.linearity, rtol=1e-12)


def test_known_patches_of_a_device_are_those_of_numpy(library):
    X, k, _ = random_case(0)
    case, labels = with_neighbors(X, k), np.arange(len(X)) % 7 - 1
    partition = known_patches(*on_device(library, *case), labels=labels)
    expected = known_patches(*case, labels=labels)
    np.testing.assert_array_equal(partition.labels, expected.labels)
    np.testing.assert_array_equal(partition.linearity, expected.linearity)


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("max_patch_size", [1, 2, 10])
def test_tiny_classes_have_patches(max_patch_size, name):
    rng = np.random.default_rng(3)
    for X in [*(rng.normal(size=(n, 2)) for n in (1, 2, 3, 30)), np.ones((9, 2))]:
        partition = PartitionRule(name, max_patch_size)(*with_neighbors(X, 3))
        assert partition.labels.size == len(X)
        assert np.bincount(partition.labels).min() >= 1
        assert np.bincount(partition.labels).max() <= max_patch_size


def test_rules_are_values():
    rule = PartitionRule("auto", 10)
    assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize("partition", ["geodesic", "euclidean", "tree"])
# Of the first seeds, 2 is the one with splits in which a side gains no sample in a round.
@pytest.mark.parametrize("seed", [2, *(pytest.param(s, marks=pytest.mark.slow) for s in (0, 1))])
def test_patches_do_not_depend_on_the_order_of_samples(partition, seed):
    """Two sides of equal R N are frequent in small classes; the seed nearer to the patch wins."""
    rng = np.random.default_rng(seed)
    for _ in range(120):
        n, d = rng.integers(11, 30), rng.integers(2, 6)
        X, y = rng.normal(size=(n, d)), np.zeros(n, dtype=int)
        order = rng.permutation(n)
        model = ManifoldPartition(partition=partition, max_patch_size=int(rng.integers(2, 9)))
        labels, permuted = model.fit(X, y).labels_, model.fit(X[order], y).labels_
        pairs = np.unique(np.column_stack([labels[order], permuted]), axis=0)
        assert len(pairs) == labels.max() + 1 == permuted.max() + 1
