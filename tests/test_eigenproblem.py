"""The generalized eigenproblem against SciPy's solver, and on singular matrices."""

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


def random_forms(seed, d=9, rank=9, condition=1e3):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(d, rank))
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return F @ F.T, (Q * np.geomspace(1, 1 / condition, d)) @ Q.T


@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e140])
def test_directions_agree_with_scipy_at_any_scale(scale):
    between, within = random_forms(0)
    solution = solve_eigenproblem(scale * between, within / scale)
    values, vectors = eigh(between, within)
    np.testing.assert_allclose(solution.eigenvalues / scale / scale, values[::-1], rtol=1e-10)
    vectors = vectors[:, ::-1] * np.sqrt(scale)
    signs = np.sign(np.sum(solution.vectors * vectors, axis=0))
    np.testing.assert_allclose(solution.vectors, vectors * signs, rtol=1e-8)


def test_low_rank_numerator_gives_no_spurious_directions():
    # Condition 1e9: a plain solver finds eigenvalues of rounding above 1e-10 of the first.
    between, within = random_forms(1, d=30, rank=4, condition=1e9)
    solution = solve_eigenproblem(between, within)
    assert solution.eigenvalues.size == 4
    assert eigenpair_residual(between, within, solution) < 1e-6


def test_directions_of_negative_eigenvalues_are_left_out():
    F, within = np.random.default_rng(3).normal(size=(9, 5)), random_forms(3)[1]
    between = (F * [3.0, -2.0, 1.0, -1.0, 0.5]) @ F.T
    values, vectors = (array[..., ::-1] for array in eigh(between, within))
    positive = values > 1e-10 * values[0]
    assert positive.sum() == 3
    solution = solve_eigenproblem(between, within)
    np.testing.assert_allclose(solution.eigenvalues, values[positive], rtol=1e-9)
    assert largest_angle(solution.vectors, vectors[:, positive]) < 1e-7


def test_two_stage_solver_is_exact_only_if_the_numerator_has_full_rank():
    between, within = random_forms(2)
    exact, two_stage = solve_eigenproblem(between, within), solve_two_stage(between, within)
    largest = exact.eigenvalues[0]
    np.testing.assert_allclose(two_stage.eigenvalues, exact.eigenvalues, atol=1e-13 * largest)
    between, within = random_forms(2, rank=3)
    exact, two_stage = solve_eigenproblem(between, within), solve_two_stage(between, within)
    assert two_stage.eigenvalues[0] < 0.9 * exact.eigenvalues[0]
    assert largest_angle(two_stage.vectors, np.linalg.svd(between)[0][:, :3]) < 1e-7


def test_feature_absent_from_both_matrices_is_left_out():
    between, within = random_forms(3)
    between[0] = between[:, 0] = within[0] = within[:, 0] = 0.0
    solution = solve_eigenproblem(between, within)
    assert solution.eigenvalues.size == 8
    np.testing.assert_allclose(solution.vectors[0], 0.0, atol=1e-12)


def test_shortest_directions_for_collinear_features_of_very_different_scale():
    # Features 3 to 5 are multiples of feature 0 in other units; features 2 and 7 are constant.
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
    solution = solve_eigenproblem(between, within)
    assert (solution.vectors[[2, 7]] == 0.0).all()
    expected = solve_eigenproblem(*forms(X[:, plain])[:2])
    np.testing.assert_allclose(solution.eigenvalues, expected.eigenvalues, rtol=1e-8)
    Z, expected_samples = X * units @ solution.vectors, X[:, plain] @ expected.vectors
    np.testing.assert_allclose(
        fix_signs(Z), fix_signs(expected_samples), atol=1e-6 * np.abs(expected_samples).max()
    )
    # Of collinear features the widest ones have all of the weight: that vector is shortest.
    assert (
        np.abs(solution.vectors[[0, 3]]) < 1e-2 * np.abs(solution.vectors[[4, 5]]).max(axis=0)
    ).all()
    assert (solve_least_squares(within, means.T)[0][[2, 7]] == 0.0).all()
    assert (solve_smallest_eigenproblem(within, within + between).vectors[[2, 7]] == 0.0).all()


def test_singular_denominator_where_classes_differ_raises_with_advice():
    between, within = random_forms(4)
    within[0] = within[:, 0] = 0.0
    with pytest.raises(SingularFormError, match="a larger alpha"):
        solve_eigenproblem(between, within)
    with pytest.raises(SingularFormError, match="rank 0 of 9"):
        solve_eigenproblem(between, np.zeros((9, 9)))


def test_ridge_replaces_eigenvalues_lost_in_rounding():
    # M = ridge I + a matrix of rank 1 so large that the ridge is below its rounding.
    between = np.diag([1.0, 2.0, 4.0])
    direction = np.ones((3, 1)) / np.sqrt(3)
    ridge = 1e-4
    within = 1e15 * direction @ direction.T + ridge * np.eye(3)
    solution = solve_eigenproblem(between, within, ridge)
    outside = np.linalg.svd(direction.T)[2][1:].T
    expected = np.linalg.eigvalsh(outside.T @ between @ outside)[::-1] / ridge
    np.testing.assert_allclose(solution.eigenvalues[:2], expected, rtol=1e-6)


def test_rank_does_not_depend_on_units_of_features():
    between, within = random_forms(5)
    units = np.geomspace(1, 1e-12, 9)
    expected = solve_eigenproblem(between, within).eigenvalues
    scaled = np.multiply.outer(units, units)
    solution = solve_eigenproblem(between * scaled, within * scaled)
    np.testing.assert_allclose(solution.eigenvalues, expected, rtol=1e-8)


def test_zero_numerator_gives_no_directions():
    assert solve_eigenproblem(np.zeros((3, 3)), np.eye(3)).eigenvalues.size == 0


def test_residual_is_the_largest_over_directions():
    between, within = np.diag([4.0, 1.0]), np.eye(2)
    right = Directions(np.array([4.0, 1.0]), np.eye(2))
    assert eigenpair_residual(between, within, right) == 0.0
    wrong = Directions(np.array([4.0, 3.0]), np.eye(2))
    assert eigenpair_residual(between, within, wrong) == pytest.approx((3 - 1) / (3 + 1))


def test_largest_entry_is_positive_whatever_the_rounding():
    vectors = np.array([[0.1, 0.7], [-0.9, -0.7 * (1 + 1e-15)]])
    solution = fix_signs(vectors)
    np.testing.assert_array_equal(np.sign(solution), [[-1, 1], [1, -1]])


@pytest.mark.parametrize("seed", range(20))
def test_matrix_singular_up_to_rounding_counts_as_singular(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 5))
    within, between = A @ A.T, A @ np.diag([5.0, 4.0, 3.0, 2.0, 1.0]) @ A.T
    solution = solve_eigenproblem(between, within)
    np.testing.assert_allclose(solution.eigenvalues, [5.0, 4.0, 3.0, 2.0, 1.0], rtol=1e-8)
    null = np.linalg.svd(A)[0][:, 5]
    np.testing.assert_allclose(null @ solution.vectors, 0.0, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_smallest_eigenvectors_lie_in_the_range_of_the_denominator(ridge):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 4)) * np.array([1.0, 1.0, 10.0, 0.1])
    B = rng.normal(size=(4, 4))
    form, total = A @ B @ B.T @ A.T + ridge * np.eye(6), A @ A.T
    solution = solve_smallest_eigenproblem(form, total)
    basis = np.linalg.qr(A)[0]
    values = eigh(basis.T @ form @ basis, basis.T @ total @ basis, eigvals_only=True)
    np.testing.assert_allclose(solution.eigenvalues, values, rtol=1e-8)
    np.testing.assert_allclose(solution.vectors, basis @ (basis.T @ solution.vectors), atol=1e-9)
    np.testing.assert_allclose(solution.vectors.T @ total @ solution.vectors, np.eye(4), atol=1e-8)
    assert normwise_residual(form, total, solution) < 1e-10
