"""Properties of LFDA, MFA, LSDA, LLTSA and LPFE beyond the laws of all methods."""

import numpy as np
import pytest
from scipy.linalg import eigh

import oracles
from cases import bent_classes, largest_angle
from mpda import LFDA, LLTSA, LPFE, LSDA, MFA

X, Y = bent_classes()


def test_lsda_leaves_out_directions_of_negative_eigenvalue():
    rng = np.random.default_rng(2)
    # Two samples in a class, classes interleaved: W_w is little more than the identity.
    X, y = rng.normal(size=(60, 6)), np.arange(60) % 30
    for b in (0.0, 0.1, 0.6):
        values = eigh(*oracles.lsda_forms(X, y, 3, b), eigvals_only=True)[::-1]
        fitted = LSDA(n_neighbors=3, between_share=b).fit(X, y)
        positive = values[values > 1e-10 * values[0]]
        np.testing.assert_allclose(fitted.eigenvalues_, positive, rtol=1e-9)
    with pytest.raises(ValueError, match="between_share must be a number from 0 to less than 1"):
        LSDA(between_share=1.0).fit(X, y)


def test_lsda_accepts_classes_without_edges_between_them():
    rng = np.random.default_rng(6)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + 100.0 * y[:, None]
    values = eigh(*oracles.lsda_forms(X, y, 4, 0.5), eigvals_only=True)[::-1]
    fitted = LSDA(n_neighbors=4, between_share=0.5).fit(X, y)
    np.testing.assert_allclose(fitted.eigenvalues_, values, rtol=1e-9)


def test_lsda_accepts_an_indefinite_numerator():
    # Each class is a square whose corners alternate along the first axis: a corner is joined to
    # itself and to two corners of the other side, so X'W_w X is negative there.
    square = np.array([[0.1, 0, 1], [-0.1, 1, 0], [0.1, 0, -1], [-0.1, -1, 0]])
    rng = np.random.default_rng(3)
    positions = np.repeat(3.0 * np.arange(9), 4)
    X = np.column_stack([np.tile(square, (9, 1)), positions]) + 1e-2 * rng.normal(size=(36, 4))
    X, y = X @ rng.normal(size=(4, 4)), np.repeat(np.arange(9), 4)
    values = eigh(*oracles.lsda_forms(X, y, 2, 0.0), eigvals_only=True)[::-1]
    assert values[-1] < -0.1
    fitted = LSDA(n_neighbors=2, between_share=0.0).fit(X, y)
    np.testing.assert_allclose(fitted.eigenvalues_, values[values > 1e-10 * values[0]], atol=1e-10)
    with pytest.raises(ValueError, match="n_components=4 is more than there is"):
        LSDA(4, n_neighbors=2, between_share=0.0).fit(X, y)


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_lltsa_recovers_a_planted_linear_manifold(dimension):
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    flat = rng.uniform(-1, 1, size=(300, dimension)) * np.array([3.0, 2.0, 1.0, 1.0])[:dimension]
    X = flat @ basis[:dimension] + 1e-3 * rng.normal(size=(300, 12)) @ basis
    fitted = LLTSA(n_components=dimension).fit(X)
    # The directions act on X through X'X: the manifold is the span of X'X t.
    centred = X - X.mean(axis=0)
    span = centred.T @ (centred @ fitted.components_.T)
    assert largest_angle(span, basis[:dimension].T) < 0.01
    assert largest_angle(fitted.components_.T, basis[:dimension].T) < 0.1
    assert fitted.eigenvalues_.max() < 1e-3
    exact = LLTSA(n_components=dimension).fit(flat @ basis[:dimension])
    assert largest_angle(exact.components_.T, basis[:dimension].T) < 1e-6


def test_lltsa_adds_its_ridge_to_the_minimised_matrix():
    centred = X - X.mean(axis=0)
    S = centred.T @ oracles.alignment_matrix(X, 7, 2) @ centred
    ridge = 0.3 * np.trace(S) / 5
    values, vectors = eigh(S + ridge * np.eye(5), centred.T @ centred)
    fitted = LLTSA(2, n_neighbors=7, alpha=0.3).fit(X)
    assert fitted.strengths_["alpha"] == pytest.approx(ridge)
    np.testing.assert_allclose(fitted.eigenvalues_, values[:2], rtol=1e-8)
    assert largest_angle(fitted.components_.T, vectors[:, :2]) < 1e-7


def test_lltsa_tangent_dimension_follows_the_parameters():
    assert LLTSA(3).fit(X).tangent_dimension_ == 3
    assert LLTSA(3, tangent_dimension=2).fit(X).tangent_dimension_ == 2
    assert 1 <= LLTSA().fit(X).tangent_dimension_ <= 4
    assert LLTSA(5, n_neighbors=4).fit(X).tangent_dimension_ == 2
    # As many tangent directions as dimensions would explain every neighbourhood completely.
    fitted = LLTSA(5).fit(X)
    assert fitted.tangent_dimension_ == 4
    assert fitted.eigenvalues_[0] > 1e-6
    for parameters, message in (
        ({"tangent_dimension": 4, "n_neighbors": 5}, r"below n_neighbors - 1, here 4"),
        ({"tangent_dimension": 5}, "here 5, got 5"),
        ({"n_neighbors": 2}, "n_neighbors must be at least 3"),
    ):
        with pytest.raises(ValueError, match=message):
            LLTSA(**parameters).fit(X)


def test_lpfe_directions_are_ridge_regressions_on_the_fields():
    fitted = LPFE(2, n_neighbors=6, alpha=0.2).fit(X, Y)
    S = 2 * oracles.weighted_scatter(X, oracles.within_graph(X, Y, 6))
    assert fitted.strengths_["alpha"] == pytest.approx(0.2 * np.trace(S) / 5)
    sides = S @ LPFE(2, n_neighbors=6).fit(X, Y).components_.T
    expected = np.linalg.solve(S + fitted.strengths_["alpha"] * np.eye(5), sides).T
    expected *= np.sign(np.sum(expected * fitted.components_, axis=1))[:, None]
    np.testing.assert_allclose(fitted.components_, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("size", [20, 150])  # dense eigenproblems, and Lanczos
def test_lpfe_is_invariant_to_order_and_translation_if_energies_are_equal(size):
    # Tangent spaces fill the space, so the constant fields of every class have energy 0.
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], size)
    X = rng.normal(size=(3 * size, 4)) * np.array([1.0, 2.0, 3.0, 4.0])
    X[:, 0] += 2 * y
    fitted = LPFE(tangent_energy=1.0).fit(X, y)
    assert fitted.components_.shape == (4, 4)
    assert fitted.eigenvalues_[-1] < 1e-9
    order = rng.permutation(len(y))
    for samples, labels in ((X[order], y[order]), (X + 10, y)):
        other = LPFE(tangent_energy=1.0).fit(samples, labels)
        np.testing.assert_allclose(other.components_, fitted.components_, atol=1e-6)
    first = LPFE(2, tangent_energy=1.0).fit(X, y)
    np.testing.assert_allclose(first.components_, fitted.components_[:2], atol=1e-6)


def test_lpfe_leaves_out_dependent_directions():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], 20)
    lines = np.outer(rng.normal(size=40), [2.0, -1.0, 0.0]) + np.outer(y, [0.0, 0.0, 5.0])
    fitted = LPFE().fit(lines, y)
    assert fitted.components_.shape == (1, 3)
    assert largest_angle(fitted.components_.T, np.array([[2.0, -1.0, 0.0]]).T) < 1e-7
    with pytest.raises(ValueError, match="n_components=2 is more than there is: only 1 "):
        LPFE(2).fit(lines, y)


def test_small_features_are_accurate_next_to_large_ones():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    group = np.tile(np.repeat([0, 1], 30), 2)
    large = 20.0 * group + rng.normal(size=120)
    X = np.column_stack([large, group + 1e-7 * (rng.normal(size=120) + 1.5 * y)])
    for estimator, weights in (
        (LFDA(), oracles.local_fisher_weights(X, y, 7, "full")),
        (LFDA(affinity="knn"), oracles.local_fisher_weights(X, y, 7, "knn")),
        (MFA(), oracles.marginal_weights(X, y, 5, 20, "class")),
    ):
        S, M = (oracles.weighted_scatter(X, W) for W in weights)
        unit = 1.0 / np.sqrt(np.diag(M))
        values = eigh(S * np.outer(unit, unit), M * np.outer(unit, unit), eigvals_only=True)
        np.testing.assert_allclose(estimator.fit(X, y).eigenvalues_[0], values[-1], rtol=1e-6)
