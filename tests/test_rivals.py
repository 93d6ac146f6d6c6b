"""Rivals of the experiments against their definitions."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mpda import MPDA
from mpda.experiments.rivals import RidgeLDA, StartedNCA


@pytest.fixture(scope="module")
def samples():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    keep = rng.permutation(150)[:60]
    return X[keep] + 0.01 * rng.normal(size=(60, 4)), y[keep]


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
