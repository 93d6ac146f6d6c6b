"""The eigenproblem against SciPy's, and what happens where it is singular."""

import numpy as np
import pytest
from scipy.linalg import eigh

from cases import largest_angle
from mpda.discriminant.eigenproblem import (
    Directions,
    eigenpair_residual,
    fix_signs,
    normwise_residual,
    solve_eigenproblem,
    solve_least_squares,
    solve_smallest_eigenproblem,
    solve_two_stage,
)
from mpda.exceptions import SingularFormError


def pencil(seed, d=9, rank=9, condition=1e3):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(d, rank))
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return F @ F.T, (Q * np.geomspace(1, 1 / condition, d)) @ Q.T


@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e140])
def test_directions_are_those_of_the_pencil(scale):
    between, within = pencil(0)
    found = solve_eigenproblem(scale * between, within / scale)
    values, vectors = eigh(between, within)
    np.testing.assert_allclose(found.eigenvalues / scale / scale, values[::-1], rtol=1e-10)
    vectors = vectors[:, ::-1] * np.sqrt(scale)
    signs = np.sign(np.sum(found.vectors * vectors, axis=0))
    np.testing.assert_allclose(found.vectors, vectors * signs, rtol=1e-8)


def test_a_low_rank_between_form_gives_no_direction_of_rounding():
    # Condition 1e9: a plain solver finds eigenvalues of rounding above 1e-10 of the first.
    between, within = pencil(1, d=30, rank=4, condition=1e9)
    found = solve_eigenproblem(between, within)
    assert found.eigenvalues.size == 4
    assert eigenpair_residual(between, within, found) < 1e-6


def test_directions_of_negative_eigenvalue_are_left_out():
    F, within = np.random.default_rng(3).normal(size=(9, 5)), pencil(3)[1]
    between = (F * [3.0, -2.0, 1.0, -1.0, 0.5]) @ F.T
    values, vectors = (part[..., ::-1] for part in eigh(between, within))
    kept = values > 1e-10 * values[0]
    assert kept.sum() == 3
    found = solve_eigenproblem(between, within)
    np.testing.assert_allclose(found.eigenvalues, values[kept], rtol=1e-9)
    assert largest_angle(found.vectors, vectors[:, kept]) < 1e-7


def test_two_stage_is_exact_on_a_form_of_full_rank_and_not_on_another():
    between, within = pencil(2)
    exact, two_stage = solve_eigenproblem(between, within), solve_two_stage(between, within)
    largest = exact.eigenvalues[0]
    np.testing.assert_allclose(two_stage.eigenvalues, exact.eigenvalues, atol=1e-13 * largest)
    between, within = pencil(2, rank=3)
    exact, two_stage = solve_eigenproblem(between, within), solve_two_stage(between, within)
    assert two_stage.eigenvalues[0] < 0.9 * exact.eigenvalues[0]
    assert largest_angle(two_stage.vectors, np.linalg.svd(between)[0][:, :3]) < 1e-7


def test_a_direction_where_nothing_varies_is_left_out():
    between, within = pencil(3)
    between[0] = between[:, 0] = within[0] = within[:, 0] = 0.0
    found = solve_eigenproblem(between, within)
    assert found.eigenvalues.size == 8
    np.testing.assert_allclose(found.vectors[0], 0.0, atol=1e-12)


def test_features_of_very_different_width_some_of_them_in_no_form():
    """Some follow from one another in units that differ, and two do not vary."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 12))
    X[:, 3:6] = X[:, [0]] * [1.0, -2.0, 2.0]
    X[:, [2, 7]] = 0.0
    plain = [0, 1, 6, 8, 9, 10, 11]
    units = 10.0 ** np.array([-6, 6, 6, -6, 6, 6, -6, 6, 6, -6, 6, -6])
    y = np.arange(40) % 4

    def forms(X):
        means = np.array([X[y == c].mean(axis=0) for c in range(4)])
        return means.T @ means, (X - means[y]).T @ (X - means[y]), means

    between, within, means = forms(X * units)
    found = solve_eigenproblem(between, within)
    assert (found.vectors[[2, 7]] == 0.0).all()
    expected = solve_eigenproblem(*forms(X[:, plain])[:2])
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-8)
    Z, wanted = X * units @ found.vectors, X[:, plain] @ expected.vectors
    np.testing.assert_allclose(fix_signs(Z), fix_signs(wanted), atol=1e-6 * np.abs(wanted).max())
    # Of features that tell the same, the widest have all of the weight: that is shortest.
    assert (np.abs(found.vectors[[0, 3]]) < 1e-2 * np.abs(found.vectors[[4, 5]]).max(axis=0)).all()
    assert (solve_least_squares(within, means.T)[0][[2, 7]] == 0.0).all()
    assert (solve_smallest_eigenproblem(within, within + between).vectors[[2, 7]] == 0.0).all()


def test_a_direction_where_only_classes_vary_is_refused_with_the_remedy():
    between, within = pencil(4)
    within[0] = within[:, 0] = 0.0
    with pytest.raises(SingularFormError, match="a larger alpha"):
        solve_eigenproblem(between, within)
    with pytest.raises(SingularFormError, match="rank 0 of 9"):
        solve_eigenproblem(between, np.zeros((9, 9)))


def test_a_ridge_stands_for_what_is_lost_in_rounding():
    # M = ridge I + a matrix of rank 1 so large that the ridge is below its rounding.
    between = np.diag([1.0, 2.0, 4.0])
    direction = np.ones((3, 1)) / np.sqrt(3)
    ridge = 1e-4
    within = 1e15 * direction @ direction.T + ridge * np.eye(3)
    found = solve_eigenproblem(between, within, ridge)
    outside = np.linalg.svd(direction.T)[2][1:].T
    expected = np.linalg.eigvalsh(outside.T @ between @ outside)[::-1] / ridge
    np.testing.assert_allclose(found.eigenvalues[:2], expected, rtol=1e-6)


def test_units_of_features_decide_no_rank():
    between, within = pencil(5)
    units = np.geomspace(1, 1e-12, 9)
    expected = solve_eigenproblem(between, within).eigenvalues
    scaled = np.multiply.outer(units, units)
    found = solve_eigenproblem(between * scaled, within * scaled)
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-8)


def test_nothing_between_gives_nothing():
    assert solve_eigenproblem(np.zeros((3, 3)), np.eye(3)).eigenvalues.size == 0


def test_residual_is_the_worst_direction():
    between, within = np.diag([4.0, 1.0]), np.eye(2)
    right = Directions(np.array([4.0, 1.0]), np.eye(2))
    assert eigenpair_residual(between, within, right) == 0.0
    wrong = Directions(np.array([4.0, 3.0]), np.eye(2))
    assert eigenpair_residual(between, within, wrong) == pytest.approx((3 - 1) / (3 + 1))


def test_the_largest_entry_is_positive_and_rounding_decides_no_sign():
    vectors = np.array([[0.1, 0.7], [-0.9, -0.7 * (1 + 1e-15)]])
    found = fix_signs(vectors)
    np.testing.assert_array_equal(np.sign(found), [[-1, 1], [1, -1]])


@pytest.mark.parametrize("seed", range(20))
def test_a_matrix_that_is_singular_but_for_rounding_is_seen_as_singular(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 5))
    within, between = A @ A.T, A @ np.diag([5.0, 4.0, 3.0, 2.0, 1.0]) @ A.T
    found = solve_eigenproblem(between, within)
    np.testing.assert_allclose(found.eigenvalues, [5.0, 4.0, 3.0, 2.0, 1.0], rtol=1e-8)
    missed = np.linalg.svd(A)[0][:, 5]
    np.testing.assert_allclose(missed @ found.vectors, 0.0, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_smallest_directions_stay_in_the_range_of_the_denominator(ridge):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 4)) * np.array([1.0, 1.0, 10.0, 0.1])
    B = rng.normal(size=(4, 4))
    form, total = A @ B @ B.T @ A.T + ridge * np.eye(6), A @ A.T
    found = solve_smallest_eigenproblem(form, total)
    basis = np.linalg.qr(A)[0]
    values = eigh(basis.T @ form @ basis, basis.T @ total @ basis, eigvals_only=True)
    np.testing.assert_allclose(found.eigenvalues, values, rtol=1e-8)
    np.testing.assert_allclose(found.vectors, basis @ (basis.T @ found.vectors), atol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ total @ found.vectors, np.eye(4), atol=1e-8)
    assert normwise_residual(form, total, found) < 1e-10
