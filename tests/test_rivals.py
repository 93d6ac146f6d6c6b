"""Closed-form rivals against their definitions, written out pair by pair."""

import numpy as np
import pytest
from scipy.linalg import eigh, sqrtm, subspace_angles
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mpda import MPDA
from mpda.experiments.rivals import DMLMJ, GMML, RidgeLDA, StartedNCA


@pytest.fixture(scope="module")
def samples():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    keep = rng.permutation(150)[:60]
    return X[keep] + 0.01 * rng.normal(size=(60, 4)), y[keep]


def mean_outer(pairs):
    return np.mean([np.outer(a - b, a - b) for a, b in pairs], axis=0)


@pytest.mark.parametrize("t", [0.0, 0.3, 0.5, 1.0])
def test_gmml_is_the_geometric_mean_of_the_scatters_of_pairs(samples, t):
    X, y = samples
    pairs = [(i, j) for i in range(len(y)) for j in range(i)]
    S = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] == y[j]])
    D = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] != y[j]])
    root = np.real(sqrtm(S))
    values, vectors = np.linalg.eigh(root @ D @ root)
    expected = np.linalg.solve(root, (vectors * values**t) @ vectors.T) @ np.linalg.inv(root)
    components = GMML(geodesic=t).fit(X, y).components_
    assert components.T @ components == pytest.approx(expected, rel=1e-6, abs=1e-8)
    lengths = np.linalg.norm(components, axis=1)
    assert np.all(np.diff(lengths) <= 1e-12)
    assert components @ components.T == pytest.approx(np.diag(lengths**2), abs=1e-8)


def test_gmml_solves_the_riccati_equation(samples):
    """For t = 1/2 the mean A is the positive solution of A S A = D."""
    X, y = samples
    pairs = [(i, j) for i in range(len(y)) for j in range(i)]
    S = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] == y[j]])
    D = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] != y[j]])
    components = GMML().fit(X, y).components_
    A = components.T @ components
    assert pytest.approx(D, rel=1e-6, abs=1e-8) == A @ S @ A


@pytest.mark.parametrize("k", [5, 25])  # 25 are more than the others of a class
def test_dmlmj_maximises_the_jeffrey_divergence(samples, k):
    X, y = samples
    near, far = [], []
    for i in range(len(y)):
        order = np.argsort(np.linalg.norm(X - X[i], axis=1), kind="stable")
        near += [(X[i], X[j]) for j in order if y[j] == y[i] and j != i][:k]
        far += [(X[i], X[j]) for j in order if y[j] != y[i]][:k]
    S, D = mean_outer(near), mean_outer(far)
    values, vectors = eigh(D, S)
    best = np.argsort(-(values + 1 / values))[:2]
    components = DMLMJ(2, n_neighbors=k).fit(X, y).components_
    assert components.shape == (2, 4)
    assert subspace_angles(components.T, vectors[:, best]).max() < 1e-4


def test_ridge_lda_begins_with_lda_and_goes_on(samples):
    X, y = samples
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    model = RidgeLDA(alpha=0.0).fit(X, y)
    assert subspace_angles(model.components_[:2].T, lda.scalings_[:, :2]).max() < 1e-4
    assert model.components_.shape == (4, 4)
    assert model.transform(X).shape == (60, 4)


def test_eigenvalue_power_scales_components(samples):
    X, y = samples
    plain = RidgeLDA(eigenvalue_power=0.0).fit(X, y).components_
    scaled = RidgeLDA(eigenvalue_power=0.5).fit(X, y).components_
    ratios = np.linalg.norm(scaled, axis=1) / np.linalg.norm(plain, axis=1)
    assert ratios[0] == pytest.approx(1.0)
    assert np.all(np.diff(ratios) < 1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_directions_without_differences_come_last_in_dmlmj(samples, alpha):
    X, y = samples
    padded = np.column_stack([X, np.zeros(len(X))])
    components = DMLMJ(alpha=alpha).fit(padded, y).components_
    assert np.abs(components[:-1, -1]).max() < 1e-8 * np.abs(components[-1, -1])


def test_started_nca_lowers_the_loss_of_nca_from_the_map_of_mpda():
    X, y = load_iris(return_X_y=True)
    X, y = X[::2] + 0.01 * np.random.default_rng(0).normal(size=(75, 4)), y[::2]

    def loss(T):
        Z = X @ T.T
        terms = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2))
        np.fill_diagonal(terms, 0.0)
        return -(terms * (y[:, None] == y)).sum(axis=1) @ (1.0 / terms.sum(axis=1))

    components = StartedNCA(2).fit(X, y).components_
    start = MPDA(2).fit(X, y).components_
    Z = X @ start.T
    squares = ((Z[:, None] - Z) ** 2).sum(axis=2) + 1e300 * np.eye(len(y))
    nearest = np.where(y[:, None] == y, squares, np.inf).min(axis=1)
    assert loss(components) < loss(start / np.sqrt(2.0 * np.median(nearest)))
    assert components.shape == (2, 4)
