"""The partition of large classes: what it keeps of the exact rule, and that it ends."""

import numpy as np
import pytest

from mpda import MPDA, ManifoldPartition
from mpda.neighbors.graph import ClassPoints, find_neighbors
from mpda.partition import coarse, coarse_cuts
from mpda.partition.coarse import CLASS_SIZE, coarse_partition
from mpda.partition.rules import CutRule
from mpda.partition.tree import Forest


def sheet(n, seed=0, noise=0.02):
    """A rolled sheet in three dimensions."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(3, 10, n), rng.uniform(0, 6, n)
    X = np.column_stack([t * np.cos(t), h, t * np.sin(t)])
    return X + noise * rng.normal(size=X.shape)


def cases():
    rng = np.random.default_rng(5)
    spread = rng.normal(size=(700, 4))
    copies = np.repeat(rng.normal(size=(3, 4)), 100, axis=0)
    return {
        "sheet": sheet(900),
        "spread": spread,
        "far apart": spread + 1e4 * rng.integers(0, 3, size=(700, 1)),
        "lattice": rng.integers(0, 5, size=(800, 3)).astype(float),
        "one point": np.ones((150, 2)),
        "three points": copies,
        "with an outlier": np.vstack([spread, 1e6 * np.ones((1, 4))]),
        "line": np.arange(650.0)[:, None],
    }


@pytest.mark.parametrize("kind", list(cases()))
@pytest.mark.parametrize("part_size", [40, 250])
def test_patches_cover_the_class_and_the_tree_tells_how(kind, part_size):
    X = cases()[kind]
    points = ClassPoints(X)
    lists = find_neighbors(points, 6)
    found = coarse_partition(points, lists, 10, part_size)
    sizes = np.bincount(found.labels)
    assert sizes.min() >= 1
    assert sizes.max() <= 10
    assert found.linearity.shape == sizes.shape
    assert (found.linearity >= 1.0 - 1e-12).all()
    tree = found.tree
    assert tree.sizes[0] == len(X)
    assert (tree.linearity >= 1.0 - 1e-12).all()
    inner = tree.children[:, 0] >= 0
    np.testing.assert_array_equal(tree.patches[inner], -1)
    np.testing.assert_array_equal(np.sort(tree.patches[~inner]), np.arange(sizes.size))
    left, right = tree.children[inner].T
    np.testing.assert_array_equal(tree.sizes[left] + tree.sizes[right], tree.sizes[inner])
    assert (left > np.flatnonzero(inner)).all()
    assert (right > np.flatnonzero(inner)).all()
    leaf = np.flatnonzero(~inner)
    np.testing.assert_array_equal(tree.sizes[leaf], sizes[tree.patches[leaf]])
    np.testing.assert_array_equal(tree.linearity[leaf], found.linearity[tree.patches[leaf]])
    # Patches are numbered as the leaves stand, left parts first.
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        if tree.children[node, 0] < 0:
            order.append(tree.patches[node])
        else:
            stack += [tree.children[node, 1], tree.children[node, 0]]
    assert order == list(range(sizes.size))
    again = coarse_partition(points, lists, 10, part_size)
    np.testing.assert_array_equal(found.labels, again.labels)


def literal_cut(X, lists):
    """One coarse cut written out with loops: what falls right, and the mean R to both seeds."""
    n = len(lists.indices)
    links = np.full((n, n), np.inf)
    for i in range(n):
        for j, length in zip(lists.indices[i], lists.distances[i], strict=True):
            links[i, j] = links[j, i] = length

    def sweep(source):
        lengths, left = np.full(n, np.inf), set(range(n))
        lengths[source] = 0.0
        while left:
            nearest = min(left, key=lambda i: (lengths[i], i))
            left.remove(nearest)
            lengths = np.minimum(lengths, lengths[nearest] + links[nearest])
        return lengths

    def far(lengths):
        reached = sorted(length for length in lengths if np.isfinite(length))
        if 2 * len(reached) < n:
            return int(np.argmax(np.isinf(lengths)))
        return int(np.argmax(lengths == reached[int(np.floor(0.9 * (len(reached) - 1)))]))

    one = far(sweep(0))
    seeds = sorted([one, far(sweep(one))])
    paths = [sweep(seed) for seed in seeds]

    def ratio(which, i):
        straight = np.linalg.norm(X[i] - X[seeds[which]])
        if straight == 0 or np.isinf(paths[which][i]):
            return 1.0
        return round(max(1.0, paths[which][i] / straight) * 2**20) / 2**20

    sides = [{seeds[0]}, {seeds[1]}]
    fronts = [{seeds[0]}, {seeds[1]}]
    while fronts[0] or fronts[1]:
        placed = sides[0] | sides[1]
        near = [{int(j) for i in front for j in lists.indices[i]} - placed for front in fronts]
        joint = near[0] & near[1]
        near = [each - joint for each in near]
        if joint:
            weights = [sum(ratio(w, i) for i in sides[w] | near[w]) for w in (0, 1)]
            near[1 if weights[0] > weights[1] else 0] |= joint
        for which in (0, 1):
            sides[which] |= near[which]
        fronts = near
    for i in set(range(n)) - sides[0] - sides[1]:
        gaps = [path[i] for path in paths]
        if np.isinf(gaps).all():
            gaps = [np.linalg.norm(X[i] - X[seed]) for seed in seeds]
        sides[1 if gaps[1] < gaps[0] else 0].add(i)
    linearity = np.mean([[ratio(which, i) for i in range(n)] for which in (0, 1)])
    return np.array([i in sides[1] for i in range(n)]), linearity


@pytest.mark.parametrize("seed", range(12))
def test_a_coarse_cut_is_what_its_definition_says(seed, monkeypatch):
    monkeypatch.setattr(coarse_cuts, "_MEASURED", 1000)
    rng = np.random.default_rng(seed)
    X = sheet(150, seed) if seed % 2 else rng.normal(size=(120, 3))
    if seed > 7:  # in pieces, one of them larger than the others or not
        X = X + 1e3 * rng.integers(0, seed - 6, size=(len(X), 1))
    lists = find_neighbors(ClassPoints(X), 4)
    cut = coarse_cuts._level(X, lists).cut()
    falls_right, linearity = literal_cut(X, lists)
    np.testing.assert_array_equal(cut.falls_right, falls_right)
    np.testing.assert_allclose(cut.linearity, [linearity], rtol=1e-12)


def test_no_part_is_larger_than_asked_for():
    X = sheet(300)
    lists = find_neighbors(ClassPoints(X), 5)
    for limit in range(10, 30):
        whole = Forest([300]), np.array([0]), X, lists, np.array([300])
        parts = coarse_cuts.coarse_parts(*whole, limit)
        assert parts.sizes.sum() == 300
        assert parts.sizes.max() <= limit


def test_parts_are_cut_as_if_each_were_alone():
    points = ClassPoints(sheet(900))
    lists = find_neighbors(points, 5)
    parts = np.array_split(np.argsort(points.X[:, 1]), [100, 400])
    parts = [np.sort(part) for part in parts]
    whole = coarse_cuts._level(points.X, lists)

    def cut(*parts):
        group = np.full(len(points.X), -1)
        for number, part in enumerate(parts):
            group[part] = number
        level = whole.inside(group, np.array([part.size for part in parts]))
        falls_right = np.zeros(len(points.X), dtype=bool)
        found = level.cut()
        falls_right[level.samples] = found.falls_right
        return falls_right, found.linearity

    together, ratios = cut(*parts)
    for part, ratio in zip(parts, ratios, strict=True):
        alone, own_ratio = cut(part)
        np.testing.assert_array_equal(together[part], alone[part])
        assert own_ratio[0] == ratio
        assert 0 < together[part].sum() < part.size


def test_far_groups_are_never_in_one_patch():
    X = cases()["far apart"]
    group = np.rint(X[:, 0] / 1e4).astype(int)
    points = ClassPoints(X)
    labels = coarse_partition(points, find_neighbors(points, 6), 10, 40).labels
    for patch in range(labels.max() + 1):
        assert np.unique(group[labels == patch]).size == 1


@pytest.mark.parametrize("seed", range(3))
def test_patches_are_as_flat_as_those_of_the_exact_rule(seed):
    points = ClassPoints(sheet(1500, seed))
    lists = find_neighbors(points, 6)
    exact = CutRule("geodesic", 10)(points, lists)
    found = coarse_partition(points, lists, 10)
    assert abs(found.linearity.size / exact.linearity.size - 1.0) < 0.15
    assert found.linearity.mean() < 1.05 * exact.linearity.mean()


def test_auto_is_the_exact_rule_up_to_its_size_and_not_beyond(monkeypatch):
    X = sheet(CLASS_SIZE + 1)
    for n, same in ((CLASS_SIZE, True), (CLASS_SIZE + 1, False)):
        points = ClassPoints(X[:n])
        lists = find_neighbors(points, 6)
        exact = CutRule("geodesic", 10)(points, lists)
        found = CutRule("auto", 10)(points, lists)
        assert np.array_equal(exact.labels, found.labels) == same


def test_the_partition_does_not_depend_on_scale_and_offset():
    X = sheet(1200)
    labels = ManifoldPartition().fit_predict(X)
    np.testing.assert_array_equal(ManifoldPartition().fit_predict(2.0**60 * X), labels)
    np.testing.assert_array_equal(
        ManifoldPartition().fit_predict(np.rint(64 * X) + 2.0**20),
        ManifoldPartition().fit_predict(np.rint(64 * X)),
    )


def test_large_patches_are_allowed():
    points = ClassPoints(sheet(600))
    lists = find_neighbors(points, 6)
    found = coarse_partition(points, lists, 400, part_size=100)
    assert 100 < np.bincount(found.labels).max() <= 400


def test_a_fit_with_coarse_patches_is_near_the_exact_one():
    rng = np.random.default_rng(0)
    turns = rng.normal(size=(2, 3, 8))
    X = np.concatenate([sheet(1300, c) @ turns[c] + c for c in (0, 1)])
    y = np.repeat([0, 1], 1300)
    fits = [MPDA(2, partition=name).fit(X, y).components_ for name in ("geodesic", "auto")]
    bases = [np.linalg.qr(fit.T)[0] for fit in fits]
    cosines = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    assert cosines.min() > 0.99


def test_memory_is_that_of_parts_and_lists():
    import tracemalloc

    points = ClassPoints(sheet(6000))
    lists = find_neighbors(points, 6)
    tracemalloc.start()
    coarse_partition(points, lists, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # all pairs would be 288 MB
    assert coarse.PART_SIZE < coarse.CLASS_SIZE
