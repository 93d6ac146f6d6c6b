"""MPDA and PMPDA against the full eigenproblem, the authors' program and limiting cases."""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import oracles
from cases import apart, largest_angle, same_rows, unequal_classes
from mpda import MPDA, PMPDA

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.npz"))
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_components_equal_those_of_the_authors_program(path):
    golden = np.load(path)
    k, gamma, alpha = (golden[name].item() for name in ("n_neighbors", "gamma", "alpha"))
    model = MPDA(n_neighbors=k, gamma=gamma, alpha=alpha, units="absolute", affinity="full")
    model.set_params(tangent_alpha=None).fit(golden["X"], golden["y"], patches=golden["patch"])
    expected = golden["projection"][:, : len(model.components_)].T
    expected *= np.sign(np.sum(expected * model.components_, axis=1))[:, None]
    error = np.linalg.norm(model.components_ - expected, axis=1) / np.linalg.norm(expected, axis=1)
    separated = apart(model, 1e-4)
    assert separated.mean() > 0.9
    assert error[separated].max() <= 1e-8
    assert model.strengths_ == pytest.approx({"gamma": gamma, "alpha": alpha, "beta": alpha})


def patch_bases(X, labels, energy):
    return [oracles.tangent_basis(X[labels == p], energy) for p in range(labels.max() + 1)]


def neighbourhood_bases(X, y, k, energy):
    bases = [None] * len(X)
    for c in np.unique(y):
        members = np.flatnonzero(y == c)
        lists = oracles.neighbors(oracles.distances(X[members]), k)
        for i, near in zip(members, lists, strict=True):
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
def test_reduced_eigenproblem_equals_the_full_one(method, case, gamma, alpha, tangent_alpha):
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
    alpha *= units[1]
    beta = alpha if tangent_alpha is None else tangent_alpha * units[2]
    strengths = {"gamma": gamma * units[0], "alpha": alpha, "beta": beta}
    assert model.strengths_ == pytest.approx(strengths, rel=1e-10)
    values, vectors = oracles.full_pencil(X, y, patch, bases, k=k, **strengths)
    rank = np.count_nonzero(values > 1e-10 * values[0])
    np.testing.assert_allclose(model.eigenvalues_, values[:rank], rtol=1e-9)
    assert model.residual_ < 1e-9
    separated = [r for r in range(1, rank + 1) if r == rank or values[r] < 0.99 * values[r - 1]]
    assert len(separated) > 1
    for r in separated:
        assert largest_angle(model.components_[:r].T, vectors[:, :r]) <= 1e-7
    # Scale: f'(S + R)f = 1 in both, so projections onto an isolated direction have equal length.
    np.testing.assert_allclose(
        np.linalg.norm(model.components_[0]), np.linalg.norm(vectors[:, 0]), rtol=1e-8
    )


def graph_laplacian_eigenvalues(X, y, k, alpha):
    """Return the eigenvalues for W and W' without tangent vectors; alpha in relative units."""
    S = 2.0 * oracles.weighted_scatter(X, oracles.within_graph(X, y, k))
    S += alpha * np.trace(S) / len(S) * np.eye(len(S))
    return eigh(oracles.between_form(X, y, k, False), S, eigvals_only=True)[::-1]


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_fit_without_tangent_spaces_is_the_graph_laplacian_method(method):
    X, y = unequal_classes(5)
    values = graph_laplacian_eigenvalues(X, y, 5, 0.1)
    empty = method(n_neighbors=5, alpha=0.1, tangent_energy=0.0).fit(X, y)
    np.testing.assert_allclose(empty.eigenvalues_, values, rtol=1e-10)
    gaps = []
    for tangent_alpha in (1e2, 1e4, 1e6):
        model = method(n_neighbors=5, alpha=0.1, tangent_alpha=tangent_alpha).fit(X, y)
        gaps.append(np.abs(model.eigenvalues_ / values - 1).max())
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-4


def test_large_gamma_does_not_affect_classes_of_one_patch():
    X, y = unequal_classes(6, sizes=(9, 8, 9))
    values = graph_laplacian_eigenvalues(X, y, 4, 0.1)
    model = MPDA(n_neighbors=4, alpha=0.1, tangent_alpha=0.1, gamma=1e9).fit(X, y)
    assert len(model.patch_classes_) == 3
    assert model.eigenvalues_[0] > 1.01 * values[0]


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_two_stage_solver_is_exact_if_the_between_form_has_full_rank(method):
    for case in (unequal_classes(7), unequal_classes(8, sizes=(9, 8, 6), d=30)):
        exact = method(n_neighbors=4).fit(*case)
        fast = method(n_neighbors=4, solver="two-stage").fit(*case)
        np.testing.assert_allclose(fast.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(fast.components_[:3], exact.components_[:3], rtol=1e-6)


@pytest.mark.usefixtures("jobs_in_threads")
@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_fit_does_not_depend_on_scale_or_number_of_jobs(method):
    X, y = unequal_classes(9, duplicates=0)
    model = method(n_neighbors=5).fit(X, y)
    for scale, n_jobs in ((1e-150, None), (1e150, None), (1.0, 2)):
        other = method(n_neighbors=5, n_jobs=n_jobs).fit(X * scale, y)
        other.components_ *= scale
        same_rows(model, other)
        np.testing.assert_allclose(other.eigenvalues_, model.eigenvalues_, rtol=1e-8)
        assert np.isfinite(list(other.strengths_.values())).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_partition_does_not_depend_on_the_order_of_samples_without_ties(seed):
    X, y = unequal_classes(seed, sizes=(60, 50), duplicates=0)
    order = np.random.default_rng(seed).permutation(len(X))
    model = MPDA(n_neighbors=5).fit(X, y)
    turned = MPDA(n_neighbors=5).fit(X[order], y[order])
    np.testing.assert_allclose(turned.eigenvalues_, model.eigenvalues_, rtol=1e-9)


def test_absolute_units_equal_the_reported_relative_ones():
    X, y = unequal_classes(10)
    relative = MPDA(n_neighbors=5, tangent_alpha=0.7).fit(X, y)
    gamma, alpha, beta = (relative.strengths_[name] for name in ("gamma", "alpha", "beta"))
    absolute = MPDA(n_neighbors=5, units="absolute", gamma=gamma, alpha=alpha, tangent_alpha=beta)
    absolute.fit(X, y)
    np.testing.assert_allclose(absolute.components_, relative.components_, rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-150, 1e-20])
def test_absolute_ridge_dominates_tiny_samples(scale):
    # The denominator is alpha: S' t = lambda alpha t, and |t|^2 alpha = 1.
    X, y = unequal_classes(10)
    model = MPDA(1, n_neighbors=5, units="absolute", alpha=0.1).fit(X * scale, y)
    assert model.strengths_["alpha"] == pytest.approx(0.1)
    assert np.linalg.norm(model.components_) == pytest.approx(0.1**-0.5)
    between = oracles.between_form(X, y, 5, False)
    expected = np.linalg.eigvalsh(between)[-1] / 0.1
    assert model.eigenvalues_[0] / scale / scale == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_offset_does_not_reduce_accuracy(method):
    X, y = unequal_classes(21)
    X = np.round(X * 2**20) / 2**20
    near = method(n_neighbors=5).fit(X, y)
    far = method(n_neighbors=5).fit(X + 2.0**28, y)
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-10)


def test_unit_is_one_if_the_within_graph_has_no_edges():
    # Every class has one sample, so W has no edge.
    X, _ = unequal_classes(22)
    lambdas = []
    for offset in (0.0, 10.0, 1000.0):
        model = MPDA(gamma=0.01, alpha=0.1, tangent_alpha=2.0).fit(X[:8] + offset, np.arange(8))
        assert model.strengths_ == pytest.approx({"gamma": 0.01, "alpha": 0.1, "beta": 2.0})
        lambdas.append(model.eigenvalues_[0])
    np.testing.assert_allclose(lambdas, lambdas[0], rtol=1e-9)


def test_anchors_join_samples_to_the_means_of_their_patches():
    X, y = unequal_classes(11, sizes=(40, 30), duplicates=0)
    k, gamma, alpha, beta = 3, 0.4, 0.2, 0.3
    model = MPDA(
        n_neighbors=k, gamma=gamma, alpha=alpha, tangent_alpha=beta, units="absolute", anchors=True
    ).fit(X, y)
    patch = model.patch_labels_
    means = np.array([X[patch == p].mean(axis=0) for p in range(patch.max() + 1)])
    bases = patch_bases(X, patch, 0.95)
    n, n_patches = len(X), len(means)
    W = np.zeros((n + n_patches, n + n_patches))
    W[np.arange(n), n + patch] = W[n + patch, np.arange(n)] = 1.0
    W[n:, n:] = oracles.within_graph(means, model.patch_classes_, k)
    patches = np.concatenate([patch, np.arange(n_patches)])
    S = oracles.within_form(np.concatenate([X, means]), W, patches, bases, gamma)
    between = oracles.between_form(X, y, k, False)
    values = oracles.solve_pencil(between, S, alpha, beta)[0][: len(model.eigenvalues_)]
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)


@pytest.mark.parametrize("partition", ["auto", "geodesic", "euclidean"])
def test_patches_equal_those_of_the_written_out_rule(partition):
    X, y = unequal_classes(12, sizes=(40, 25, 5))
    model = MPDA(n_neighbors=5, partition=partition).fit(X, y)
    for c in np.unique(y):
        members = np.flatnonzero(y == c)
        expected, R = oracles.partition(X[members], 6, 10, geodesic=partition != "euclidean")
        labels = model.patch_labels_[members]
        patches = {p: np.flatnonzero(labels == p) for p in np.unique(labels)}
        assert sorted(map(list, patches.values())) == sorted(map(sorted, expected))
        for p, patch in patches.items():
            assert model.patch_linearity_[p] == pytest.approx(R[np.ix_(patch, patch)].mean())
    np.testing.assert_array_equal(model.patch_classes_[model.patch_labels_], y)


def test_clusterer_replaces_the_partition():
    X, y = unequal_classes(13, sizes=(40, 30))
    clusterer = KMeans(4, n_init=1, random_state=0)
    model = MPDA(n_neighbors=5, partition=clusterer).fit(X, y)
    patches = np.empty(len(y), dtype=int)
    for c in (0, 1):
        patches[y == c] = clone(clusterer).fit_predict(X[y == c]) + 4 * c
    expected = MPDA(n_neighbors=5).fit(X, y, patches=patches)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-9)
    assert np.isfinite(model.patch_linearity_).all()
    assert not hasattr(clusterer, "labels_")
    noise = MPDA(n_neighbors=5, partition=DBSCAN(eps=0.5, min_samples=3)).fit(X, y)
    for c in (0, 1):
        labels = DBSCAN(eps=0.5, min_samples=3).fit_predict(X[y == c])
        n_patches = np.unique(noise.patch_labels_[y == c]).size
        assert n_patches == np.sum(labels == -1) + len(set(labels) - {-1})
    X, y = unequal_classes(14, sizes=(20, 3))
    with pytest.raises(ValueError, match=r"KMeans.*failed on class 1 \(3 samples\)"):
        MPDA(n_neighbors=2, partition=KMeans(5)).fit(X, y)


def test_classes_of_identical_points_have_one_direction():
    X, y = np.repeat(np.eye(5)[:2], 4, axis=0), np.repeat([0, 1], 4)
    assert MPDA(n_neighbors=2).fit(X, y).components_.shape == (1, 5)
    with pytest.raises(ValueError, match="only 1 direction"):
        MPDA(2, n_neighbors=2).fit(X, y)


def test_transform_projects_and_inverse_transform_reconstructs():
    X, y = unequal_classes(18)
    model = MPDA(3, n_neighbors=5).fit(X, y)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ model.components_.T, atol=1e-12)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    # Reconstructions differ from the mean only in the span of the components.
    offsets = (model.inverse_transform(Z) - model.mean_)[:2]
    assert largest_angle(np.c_[model.components_.T, offsets.T], model.components_.T) < 1e-6
    complete = MPDA(n_neighbors=5).fit(X, y)
    np.testing.assert_allclose(complete.inverse_transform(complete.transform(X)), X, atol=1e-9)
    with pytest.raises(ValueError, match="X has 2 columns, but MPDA maps to 3 components"):
        model.inverse_transform(Z[:, :2])


def test_nearest_neighbors_of_digits_improve():
    X, y = (values[::2] for values in load_digits(return_X_y=True))
    # Shuffled: in the order of the file the halves are by different writers.
    halves = StratifiedKFold(2, shuffle=True, random_state=0)
    raw = cross_val_score(KNeighborsClassifier(1), X, y, cv=halves).mean()
    for method in (MPDA(20), PMPDA(20)):
        mapped = cross_val_score(make_pipeline(method, KNeighborsClassifier(1)), X, y, cv=halves)
        assert mapped.mean() > raw
