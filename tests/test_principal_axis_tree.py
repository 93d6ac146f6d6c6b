"""The principal-axis tree for large classes against its definition, and where it is applied."""

import numpy as np
import pytest

from mpda import MPDA, ManifoldPartition
from mpda.exceptions import NotEnoughMemoryError
from mpda.partition.principal_axis_tree import principal_axis_forest, principal_axis_partition


def rolled_sheet(n, seed=0, noise=0.02):
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(3, 10, n), rng.uniform(0, 6, n)
    X = np.column_stack([t * np.cos(t), h, t * np.sin(t)])
    return X + noise * rng.normal(size=X.shape)


def cases():
    rng = np.random.default_rng(5)
    cloud = rng.normal(size=(700, 4))
    return {
        "sheet": rolled_sheet(900),
        "cloud": cloud,
        "far apart": cloud + 1e4 * rng.integers(0, 3, size=(700, 1)),
        "lattice": rng.integers(0, 5, size=(800, 3)).astype(float),
        "one point": np.ones((150, 2)),
        "three points": np.repeat(rng.normal(size=(3, 4)), 100, axis=0),
        "with an outlier": np.vstack([cloud, 1e6 * np.ones((1, 4))]),
        "line": np.arange(650.0)[:, None],
        "one sample": np.ones((1, 2)),
    }


@pytest.mark.parametrize("kind", list(cases()))
@pytest.mark.parametrize("max_patch_size", [1, 10])
def test_tree_halves_every_large_node(kind, max_patch_size):
    X = cases()[kind]
    partition = principal_axis_partition(X, max_patch_size)
    tree, sizes = partition.tree, np.bincount(partition.labels)
    assert sizes.max() <= max_patch_size
    assert partition.linearity.shape == sizes.shape
    assert tree.sizes[0] == len(X)
    is_inner = tree.children[:, 0] >= 0
    assert (tree.sizes[is_inner] > max_patch_size).all()
    left, right = tree.children[is_inner].T
    np.testing.assert_array_equal(tree.sizes[left], tree.sizes[is_inner] // 2)
    np.testing.assert_array_equal(tree.sizes[left] + tree.sizes[right], tree.sizes[is_inner])
    np.testing.assert_array_equal(
        np.concatenate([[0], np.sort(np.r_[left, right])]), np.arange(tree.sizes.size)
    )
    np.testing.assert_array_equal(tree.patches[is_inner], -1)
    is_leaf = ~is_inner
    np.testing.assert_array_equal(tree.sizes[is_leaf], sizes[tree.patches[is_leaf]])
    # Patches are numbered like the leaves, from left to right.
    leaves, stack = [], [0]
    while stack:
        node = stack.pop()
        if is_leaf[node]:
            leaves.append(tree.patches[node])
        else:
            stack += [tree.children[node, 1], tree.children[node, 0]]
    assert leaves == list(range(sizes.size))


def literal_patches(X, members, max_patch_size):
    """Cut one node after the other along the first principal axis, by an SVD."""
    if len(members) <= max_patch_size:
        return [members]
    offsets = X[members] - X[members].mean(axis=0)
    farthest = np.argmax(np.linalg.norm(offsets, axis=1))
    axis = np.linalg.svd(offsets)[2][0]
    projections = offsets @ axis * np.sign(offsets[farthest] @ axis)
    order = members[np.argsort(projections)]
    half = len(members) // 2
    return [
        patch
        for side in (order[:half], order[half:])
        for patch in literal_patches(X, side, max_patch_size)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_cuts_are_at_the_median_along_the_principal_axis(seed):
    # Features on very different scales, so that power iterations find the axis to many digits.
    X = np.random.default_rng(seed).normal(size=(61, 5)) * 1e4 ** -np.arange(5.0)
    labels = principal_axis_partition(X, 31).labels
    for patch, members in enumerate(literal_patches(X, np.arange(61), 31)):
        np.testing.assert_array_equal(np.flatnonzero(labels == patch), np.sort(members))


def test_identical_samples_are_cut_by_index():
    np.testing.assert_array_equal(
        principal_axis_partition(np.ones((9, 2)), 3).labels, [0, 0, 1, 1, 2, 2, 3, 3, 3]
    )


def test_equal_projections_go_by_index_under_any_rounding():
    # All projections of a column of the lattice are equal, and rounded sums are not.
    lattice = np.stack(np.meshgrid(np.arange(16.0), np.arange(4.0)), axis=2).reshape(-1, 2)
    labels = [
        principal_axis_partition(factor * lattice + offset, 5).labels
        for factor in (1.0, 0.1, 1 / 3)
        for offset in (0.0, 0.7, 1e3)
    ]
    for other in labels[1:]:
        np.testing.assert_array_equal(other, labels[0])


def test_order_of_samples_does_not_matter():
    X = rolled_sheet(500)
    shuffled = np.random.default_rng(0).permutation(500)
    np.testing.assert_array_equal(
        principal_axis_partition(X[shuffled], 10).labels,
        principal_axis_partition(X, 10).labels[shuffled],
    )


@pytest.mark.parametrize("kind", ["sheet", "far apart", "one point", "lattice", "one sample"])
def test_tree_of_a_device_is_that_of_numpy(kind, library):
    X = cases()[kind]
    expected = principal_axis_partition(X, 10)
    partition = principal_axis_partition(library(X), 10)
    assert isinstance(partition.labels, np.ndarray)
    np.testing.assert_array_equal(partition.labels, expected.labels)
    np.testing.assert_array_equal(partition.tree.children, expected.tree.children)


def test_auto_is_the_rule_of_the_paper_up_to_1000_samples():
    X = rolled_sheet(1001)
    for n, name in ((1000, "geodesic"), (1001, "tree")):
        auto = ManifoldPartition().fit(X[:n])
        other = ManifoldPartition(name).fit(X[:n])
        np.testing.assert_array_equal(auto.labels_, other.labels_)
        np.testing.assert_array_equal(auto.patch_linearity_, other.patch_linearity_)


def test_linearity_is_that_of_geodesics_inside_small_nodes():
    X = rolled_sheet(1200)
    model = ManifoldPartition("tree", partition_neighbors=5).fit(X)
    tree = model.tree_
    is_small = tree.sizes <= 64
    assert np.isnan(tree.linearity[~is_small]).all()
    assert (tree.linearity[is_small] >= 1.0 - 1e-12).all()
    is_leaf = tree.patches >= 0
    np.testing.assert_array_equal(
        tree.linearity[is_leaf], model.patch_linearity_[tree.patches[is_leaf]]
    )
    # 1200 samples are halved five times: the first node of 37 or 38 samples.
    node = 0
    while tree.sizes[node] > 64:
        node = tree.children[node, 0]
    n_patches = 4
    members = np.flatnonzero(model.labels_ < n_patches)
    assert members.size == tree.sizes[node]
    alone = ManifoldPartition("geodesic", partition_neighbors=5, max_patch_size=64).fit(X[members])
    assert alone.patch_linearity_[0] == pytest.approx(tree.linearity[node])


def test_large_patches_have_a_linearity_too():
    model = ManifoldPartition("tree", max_patch_size=400).fit(rolled_sheet(600))
    np.testing.assert_array_equal(model.patch_sizes_, [300, 300])
    assert (model.patch_linearity_ > 1.0).all()


def test_partition_does_not_depend_on_scale_and_offset():
    X = np.rint(64 * rolled_sheet(1200))
    labels = ManifoldPartition().fit_predict(X)
    np.testing.assert_array_equal(ManifoldPartition().fit_predict(2.0**60 * X), labels)
    np.testing.assert_array_equal(ManifoldPartition().fit_predict(X + 2.0**20), labels)


def test_fit_with_the_tree_is_near_the_exact_one():
    turns = np.random.default_rng(0).normal(size=(2, 3, 8))
    X = np.concatenate([rolled_sheet(1300, c) @ turns[c] + c for c in (0, 1)])
    y = np.repeat([0, 1], 1300)
    models = [MPDA(2, partition=name).fit(X, y) for name in ("geodesic", "auto")]
    bases = [np.linalg.qr(model.components_.T)[0] for model in models]
    assert np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).min() > 0.99
    assert np.isfinite(models[0].patch_linearity_).all()
    assert np.isnan(models[1].patch_linearity_).all()


@pytest.mark.parametrize("name", ["geodesic", "euclidean"])
def test_pairs_that_do_not_fit_into_memory_are_refused(name, monkeypatch):
    X = rolled_sheet(2100)
    # 2100 x 2100 numbers are 35 MB: the system is made to report less.
    monkeypatch.setattr("mpda._lib.memory.available_memory", lambda: 1e6)
    with pytest.raises(
        NotEnoughMemoryError, match=r"all pairs of 2100 samples.*partition=\"tree\""
    ):
        ManifoldPartition(name).fit(X)
    ManifoldPartition("tree").fit(X)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_classes_cut_together_are_those_cut_one_by_one(library):
    xp = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    sizes = [57, 1, 90, 31, 10]
    classes = [rng.normal(size=(n, 3)) * [3.0, 2.0, 1.0] + 5 * c for c, n in enumerate(sizes)]
    forest = principal_axis_forest(xp.asarray(np.concatenate(classes)), sizes, 10)
    for X, partition in zip(classes, forest, strict=True):
        expected = principal_axis_partition(X, 10)
        for name in ("labels", "linearity"):
            np.testing.assert_array_equal(getattr(partition, name), getattr(expected, name))
        np.testing.assert_array_equal(partition.tree.children, expected.tree.children)
