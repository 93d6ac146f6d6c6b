"""MPDA and PMPDA against the full pencil, the authors' program and the laws."""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import load_digits

import oracles
from cases import largest_angle, unequal_classes
from mpda import MPDA, PMPDA
from mpda.exceptions import SmallClassWarning

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.npz"))
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_components_are_those_of_the_authors_program(path):
    golden = np.load(path)
    model = MPDA(
        n_neighbors=int(golden["n_neighbors"]),
        gamma=float(golden["gamma"]),
        alpha=float(golden["alpha"]),
        tangent_alpha=None,
        units="absolute",
        affinity="full",
    ).fit(golden["X"], golden["y"], patches=golden["patch"])
    lambdas = model.eigenvalues_
    gaps = np.abs(np.diff(lambdas)) / lambdas[:-1]
    apart = np.minimum(np.r_[np.inf, gaps], np.r_[gaps, np.inf]) > 1e-4
    assert apart.mean() > 0.9
    expected = golden["projection"][:, : len(lambdas)].T
    expected *= np.sign(np.sum(expected * model.components_, axis=1))[:, None]
    error = np.linalg.norm(model.components_ - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error[apart].max() <= 1e-8
    alpha = float(golden["alpha"])
    expected = {"gamma": float(golden["gamma"]), "alpha": alpha, "beta": alpha}
    assert model.units_ == pytest.approx(expected)


def patch_bases(X, labels, energy):
    return [oracles.tangent_basis(X[labels == p], energy) for p in range(labels.max() + 1)]


def neighbourhood_bases(X, y, k, energy):
    bases = [None] * len(X)
    for c in np.unique(y):
        members = np.flatnonzero(y == c)
        for i, near in zip(
            members, oracles.neighbors(oracles.distances(X[members]), k), strict=True
        ):
            bases[i] = oracles.tangent_basis(X[[i, *members[near]]], energy)
    return bases


CASES = {
    "unequal classes": lambda: unequal_classes(0),
    "more features than samples": lambda: unequal_classes(1, sizes=(12, 9, 6, 1), d=40),
    "many classes of one point": lambda: unequal_classes(2, sizes=(15, 1, 1, 8, 1), d=5),
    "as many features as samples": lambda: unequal_classes(3, sizes=(10, 8), d=18),
    "two features": lambda: unequal_classes(4, sizes=(20, 20), d=2),
}


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("gamma", "alpha", "tangent_alpha"), [(0.1, 0.1, None), (1.0, 0.01, 3.0), (0.0, 1.0, 0.01)]
)
def test_the_reduced_problem_is_the_full_pencil(method, case, gamma, alpha, tangent_alpha):
    X, y = CASES[case]()
    k = 4
    model = method(n_neighbors=k, gamma=gamma, alpha=alpha, tangent_alpha=tangent_alpha).fit(X, y)
    if method is MPDA:
        patch = model.patch_labels_
        bases = patch_bases(X, patch, 0.95)
        assert [T.shape[1] for T in bases] == model.tangent_dimensions_.tolist()
    else:
        patch = np.arange(len(X))
        bases = neighbourhood_bases(X, y, k, 0.95)
    units = oracles.relative_units(X, y, patch, bases, k)
    alpha = alpha * units[1]
    strengths = {
        "gamma": gamma * units[0],
        "alpha": alpha,
        "beta": alpha if tangent_alpha is None else tangent_alpha * units[2],
    }
    assert model.units_ == pytest.approx(strengths, rel=1e-10)
    values, vectors = oracles.full_pencil(X, y, patch, bases, k=k, **strengths)
    kept = values > 1e-10 * values[0]
    assert model.eigenvalues_.size == kept.sum()
    np.testing.assert_allclose(model.eigenvalues_, values[kept], rtol=1e-9)
    assert model.residual_ < 1e-9
    compared = 0
    for r in range(1, kept.sum() + 1):
        if r == kept.sum() or values[r] < 0.99 * values[r - 1]:
            assert largest_angle(model.components_[:r].T, vectors[:, :r]) <= 1e-7
            compared += 1
    assert compared > 1
    # Scale: f'(S + R)f = 1 in both, so projections onto an isolated direction have equal length.
    np.testing.assert_allclose(
        np.linalg.norm(model.components_[0]), np.linalg.norm(vectors[:, 0]), rtol=1e-8
    )


def graph_laplacian_method(X, y, k, alpha):
    """The same W and W' without tangent vectors; alpha in relative units."""
    S = oracles.within_form(
        X, oracles.within_graph(X, y, k), np.zeros(len(X), int), [X[:1].T[:, :0]], 0
    )
    S += alpha * np.trace(S) / len(S) * np.eye(len(S))
    values, vectors = eigh(oracles.between_form(X, y, k, False), S)
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_without_tangent_spaces_it_is_the_graph_laplacian_method(method):
    X, y = unequal_classes(5)
    values, _ = graph_laplacian_method(X, y, 5, 0.1)
    empty = method(n_neighbors=5, alpha=0.1, tangent_energy=0.0).fit(X, y)
    np.testing.assert_allclose(empty.eigenvalues_, values, rtol=1e-10)
    gaps = []
    for tangent_alpha in (1e2, 1e4, 1e6):
        model = method(n_neighbors=5, alpha=0.1, tangent_alpha=tangent_alpha).fit(X, y)
        gaps.append(np.abs(model.eigenvalues_ / values - 1).max())
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-4


def test_a_large_gamma_leaves_a_class_of_one_patch_its_tangent_vector():
    X, y = unequal_classes(6, sizes=(9, 8, 9))
    values, _ = graph_laplacian_method(X, y, 4, 0.1)
    model = MPDA(n_neighbors=4, alpha=0.1, tangent_alpha=0.1, gamma=1e9).fit(X, y)
    assert len(model.patch_classes_) == 3
    assert model.eigenvalues_[0] > 1.01 * values[0]


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_two_stage_is_exact_where_the_between_form_has_full_rank(method):
    for case in (unequal_classes(7), unequal_classes(8, sizes=(9, 8, 6), d=30)):
        exact = method(n_neighbors=4).fit(*case)
        fast = method(n_neighbors=4, solver="two-stage").fit(*case)
        np.testing.assert_allclose(fast.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(fast.components_[:3], exact.components_[:3], rtol=1e-6)


@pytest.mark.usefixtures("jobs_in_threads")
@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_what_the_fit_does_not_depend_on(method):
    X, y = unequal_classes(9, duplicates=0)
    model = method(n_neighbors=5).fit(X, y)

    def same(other, components=None, rtol=1e-8):
        np.testing.assert_allclose(other.eigenvalues_, model.eigenvalues_, rtol=rtol)
        components = other.components_ if components is None else components
        scale = np.abs(model.components_).max()
        np.testing.assert_allclose(components, model.components_, atol=1e-6 * scale)

    same(clone(model).fit(X + 100.0, y))
    same(clone(model).fit(X, np.array(["z", "m", "a", "b"])[y]))
    # Where two growing parts are equally large and flat, the order of samples decides (see
    # ManifoldPartition), so the patches are carried along.
    order = np.random.default_rng(0).permutation(len(X))
    carried = {"patches": model.patch_labels_[order]} if method is MPDA else {}
    same(clone(model).fit(X[order], y[order], **carried))
    for scale in (1e-150, 3.0, 1e150):
        scaled = clone(model).fit(X * scale, y)
        same(scaled, scaled.components_ * scale)
        assert np.isfinite(list(scaled.units_.values())).all()
    same(clone(model).set_params(n_jobs=2).fit(X, y))
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.components_, model.components_)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_partition_does_not_depend_on_the_order_where_no_parts_tie(seed):
    X, y = unequal_classes(seed, sizes=(60, 50), duplicates=0)
    order = np.random.default_rng(seed).permutation(len(X))
    model = MPDA(n_neighbors=5).fit(X, y)
    turned = MPDA(n_neighbors=5).fit(X[order], y[order])
    np.testing.assert_allclose(turned.eigenvalues_, model.eigenvalues_, rtol=1e-9)


def test_absolute_units_are_the_relative_ones_that_were_reported():
    X, y = unequal_classes(10)
    relative = MPDA(n_neighbors=5, tangent_alpha=0.7).fit(X, y)
    absolute = MPDA(
        n_neighbors=5,
        units="absolute",
        gamma=relative.units_["gamma"],
        alpha=relative.units_["alpha"],
        tangent_alpha=relative.units_["beta"],
    ).fit(X, y)
    np.testing.assert_allclose(absolute.components_, relative.components_, rtol=1e-7)
    for scale in (1e-150, 1e150):
        model = MPDA(n_neighbors=5, units="absolute").fit(X * scale, y)
        assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-20])
def test_absolute_units_beside_tiny_samples(scale):
    # alpha is all there is below the line: S' t = lambda alpha t, and |t|^2 alpha = 1.
    X, y = unequal_classes(10)
    model = MPDA(1, n_neighbors=5, units="absolute", alpha=0.1).fit(X * scale, y)
    assert model.units_["alpha"] == pytest.approx(0.1)
    assert np.linalg.norm(model.components_) == pytest.approx(0.1**-0.5)
    between = oracles.between_form(X, y, 5, False)
    expected = np.linalg.eigvalsh(between)[-1] / 0.1
    assert model.eigenvalues_[0] / scale / scale == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_samples_far_from_the_origin_lose_nothing(method):
    X, y = unequal_classes(21)
    X = np.round(X * 2**20) / 2**20
    near = method(n_neighbors=5).fit(X, y)
    far = method(n_neighbors=5).fit(X + 2.0**28, y)
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-10)


def test_a_unit_that_is_nothing_is_one():
    # Every class has one sample, so W has no edge.
    X, _ = unequal_classes(22)
    lambdas = []
    for offset in (0.0, 10.0, 1000.0):
        model = MPDA(gamma=0.01, alpha=0.1, tangent_alpha=2.0).fit(X[:8] + offset, np.arange(8))
        assert model.units_ == pytest.approx({"gamma": 0.01, "alpha": 0.1, "beta": 2.0})
        lambdas.append(model.eigenvalues_[0])
    np.testing.assert_allclose(lambdas, lambdas[0], rtol=1e-9)


def test_anchors_are_the_same_form_on_the_patch_means():
    X, y = unequal_classes(11, sizes=(40, 30), duplicates=0)
    k, gamma, alpha, beta = 3, 0.4, 0.2, 0.3
    model = MPDA(
        n_neighbors=k, gamma=gamma, alpha=alpha, tangent_alpha=beta, units="absolute", anchors=True
    ).fit(X, y)
    patch = model.patch_labels_
    means = np.array([X[patch == p].mean(axis=0) for p in range(patch.max() + 1)])
    bases = patch_bases(X, patch, 0.95)
    W = oracles.within_graph(means, model.patch_classes_, k)
    S = oracles.within_form(means, W, np.arange(len(means)), bases, gamma)
    d = X.shape[1]
    S += np.diag(np.r_[np.full(d, alpha), np.full(len(S) - d, beta)])
    big = np.zeros_like(S)
    big[:d, :d] = oracles.between_form(X, y, k, False)
    values = eigh(big, S, eigvals_only=True)[::-1][: len(model.eigenvalues_)]
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)


@pytest.mark.parametrize("partition", ["auto", "geodesic", "euclidean"])
def test_patches_are_those_of_the_literal_rule(partition):
    X, y = unequal_classes(12, sizes=(40, 25, 5))
    model = MPDA(n_neighbors=5, partition=partition).fit(X, y)
    for c in np.unique(y):
        members = np.flatnonzero(y == c)
        expected, R = oracles.partition(X[members], 6, 10, geodesic=partition != "euclidean")
        labels = model.patch_labels_[members]
        found = {frozenset(np.flatnonzero(labels == p).tolist()) for p in np.unique(labels)}
        assert found == {frozenset(patch) for patch in expected}
        for p in np.unique(labels):
            inside = np.flatnonzero(labels == p)
            expected_linearity = R[np.ix_(inside, inside)].mean()
            assert model.patch_linearity_[p] == pytest.approx(expected_linearity)
    np.testing.assert_array_equal(model.patch_classes_[model.patch_labels_], y)


def test_a_clusterer_takes_the_place_of_the_partition():
    X, y = unequal_classes(13, sizes=(40, 30))
    clusterer = KMeans(4, n_init=1, random_state=0)
    model = MPDA(n_neighbors=5, partition=clusterer).fit(X, y)
    patches = np.empty(len(y), dtype=int)
    for c in (0, 1):
        patches[y == c] = clone(clusterer).fit_predict(X[y == c]) + 4 * c
    known = MPDA(n_neighbors=5).fit(X, y, patches=patches)
    np.testing.assert_allclose(model.components_, known.components_, rtol=1e-9)
    assert np.isfinite(model.patch_linearity_).all()
    assert not hasattr(clusterer, "labels_")
    noise = MPDA(n_neighbors=5, partition=DBSCAN(eps=0.5, min_samples=3)).fit(X, y)
    for c in (0, 1):
        labels = DBSCAN(eps=0.5, min_samples=3).fit_predict(X[y == c])
        found = np.unique(noise.patch_labels_[y == c]).size
        assert found == np.sum(labels == -1) + len(set(labels) - {-1})


def test_the_error_of_a_clusterer_names_the_class():
    X, y = unequal_classes(14, sizes=(20, 3))
    with pytest.raises(ValueError, match=r"KMeans.*failed on class 1 \(3 samples\)"):
        MPDA(n_neighbors=2, partition=KMeans(5)).fit(X, y)


def test_number_of_components_is_honoured_or_refused():
    X, y = unequal_classes(15)
    model = MPDA(n_neighbors=5).fit(X, y)
    assert model.components_.shape == (6, 6)
    assert (np.diff(model.eigenvalues_) <= 0).all()
    for r in (1, 4, 6):
        some = MPDA(r, n_neighbors=5).fit(X, y)
        np.testing.assert_allclose(some.components_, model.components_[:r])
        assert some.residual_ <= model.residual_
    with pytest.raises(ValueError, match="n_components=7 is more than there is: only 6 directions"):
        MPDA(7, n_neighbors=5).fit(X, y)
    # Two classes of identical points: one direction, whatever is asked for.
    X, y = np.repeat(np.eye(5)[:2], 4, axis=0), np.repeat([0, 1], 4)
    assert MPDA(n_neighbors=2).fit(X, y).components_.shape == (1, 5)
    with pytest.raises(ValueError, match="only 1 directions"):
        MPDA(2, n_neighbors=2).fit(X, y)


def test_eigenvalue_power_scales_the_columns():
    X, y = unequal_classes(16)
    plain = MPDA(n_neighbors=5).fit(X, y)
    scaled = MPDA(n_neighbors=5, eigenvalue_power=0.5).fit(X, y)
    weights = np.sqrt(plain.eigenvalues_ / plain.eigenvalues_[0])
    np.testing.assert_allclose(scaled.components_, plain.components_ * weights[:, None])
    assert scaled.residual_ == plain.residual_


def test_the_entry_of_largest_magnitude_is_positive():
    X, y = unequal_classes(17)
    components = PMPDA(n_neighbors=5).fit(X, y).components_
    largest = np.abs(components).argmax(axis=1)
    assert (components[np.arange(len(components)), largest] > 0).all()


def test_transform_and_its_inverse():
    X, y = unequal_classes(18)
    model = MPDA(3, n_neighbors=5).fit(X, y)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ model.components_.T, atol=1e-12)
    back = model.inverse_transform(Z)
    np.testing.assert_allclose(model.transform(back), Z, atol=1e-9 * np.abs(Z).max())
    # Nothing is added outside the span of the components.
    assert (
        largest_angle(np.c_[model.components_.T, back[0] - model.mean_], model.components_.T) < 1e-6
    )
    whole = MPDA(n_neighbors=5).fit(X, y)
    np.testing.assert_allclose(whole.inverse_transform(whole.transform(X)), X, atol=1e-9)
    with pytest.raises(ValueError, match="X has 2 columns, but MPDA maps to 3 components"):
        model.inverse_transform(Z[:, :2])


def test_float32_in_gives_float32_out():
    X, y = unequal_classes(19)
    X32 = X.astype(np.float32)
    model = MPDA(2, n_neighbors=5).fit(X32, y)
    assert model.components_.dtype == model.mean_.dtype == np.float32
    assert model.transform(X32).dtype == model.inverse_transform(model.transform(X32)).dtype
    assert model.transform(X32).dtype == np.float32
    same = MPDA(2, n_neighbors=5).fit(X32.astype(float), y)
    assert largest_angle(model.components_.T, same.components_.T) < 1e-6
    assert same.transform(X32).dtype == np.float32


def test_digits_are_easier_to_tell_apart_than_in_pixels():
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    X, y = load_digits(return_X_y=True)
    # Mixed: in the order of the file the halves are by other writers.
    halves = StratifiedKFold(2, shuffle=True, random_state=0)
    raw = cross_val_score(KNeighborsClassifier(1), X, y, cv=halves).mean()
    for method in (MPDA(20), PMPDA(20)):
        mapped = cross_val_score(make_pipeline(method, KNeighborsClassifier(1)), X, y, cv=halves)
        assert mapped.mean() > raw


def test_a_class_too_small_for_k_is_named():
    X, y = unequal_classes(20)
    names = np.array(["big", "mid", "few", "one"])[y]
    with pytest.warns(
        SmallClassWarning, match=r"n_neighbors=12 is cut .* 'few' \(9 in all\), 'one'"
    ):
        MPDA(n_neighbors=12).fit(X, names)
