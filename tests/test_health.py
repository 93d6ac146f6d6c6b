"""Residuals and condition numbers that a fit reports, and the warning about them."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from cases import bent_classes, unequal_classes
from mpda import LFDA, LLTSA, LPFE, LSDA, MFA, MPDA, PMPDA, GraphDiscriminant
from mpda.discriminant.eigenproblem import (
    solve_eigenproblem,
    solve_least_squares,
    solve_smallest_eigenproblem,
)
from mpda.discriminant.schur_complement import eliminate_tangents
from mpda.exceptions import NumericalWarning, SingularFormError

X, Y = bent_classes()
METHODS = [MPDA(n_neighbors=5), PMPDA(n_neighbors=5)]
METHODS += [LFDA(), MFA(), LSDA(), LLTSA(), LPFE(), GraphDiscriminant()]


def nearly_collinear(scale):
    """Add a feature that is the first one plus noise of this scale."""
    noise = scale * np.random.default_rng(1).normal(size=len(X))
    return np.column_stack([X, X[:, 0] + noise])


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_healthy_fit_reports_small_residual_and_condition(method):
    model = method.fit(X, Y)
    assert 0.0 <= model.residual_ < 1e-10
    assert 1.0 <= model.condition_ < 1e6


@pytest.mark.parametrize("method", [LFDA, MFA, LSDA, LLTSA, LPFE, GraphDiscriminant])
def test_nearly_singular_matrix_gives_a_warning_at_the_call_of_fit(method):
    with pytest.warns(NumericalWarning, match="nearly singular.*A larger alpha.*PCA") as caught:
        model = method().fit(nearly_collinear(7e-7), Y)
    assert model.condition_ > 1e12
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_nearly_singular_form_without_ridge_gives_a_warning(method):
    hard = nearly_collinear(3e-7)
    with pytest.warns(NumericalWarning, match="nearly singular") as caught:
        method(n_neighbors=5, alpha=0.0).fit(hard, Y)
    assert {warning.filename for warning in caught} == {__file__}
    assert method(n_neighbors=5).fit(hard, Y).condition_ < 1e6


def test_components_close_to_rounding_give_a_warning():
    """Distant groups of a class hide the variation inside the groups."""
    far = X + 1e5 * (np.arange(len(X)) % 5)[:, None]
    with pytest.warns(NumericalWarning, match="close to rounding.*A smaller n_components"):
        model = MPDA(n_neighbors=5).fit(far, Y)
    assert model.residual_ > 1e-6
    model = MPDA(n_neighbors=5, n_components=1).fit(far, Y)
    assert model.residual_ < 1e-6


def test_condition_number_is_that_of_the_equilibrated_matrix():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(40, 6))
    M = half.T @ half
    units = 10.0 ** rng.uniform(-30, 30, size=6)
    scaled = M / np.sqrt(np.outer(np.diag(M), np.diag(M)))
    expected = np.linalg.cond(scaled)
    between = np.outer(units, units) * np.eye(6)
    for condition in (
        solve_eigenproblem(between, np.outer(units, units) * M).condition,
        solve_smallest_eigenproblem(between, np.outer(units, units) * M).condition,
        solve_least_squares(np.outer(units, units) * M, units[:, None])[1],
    ):
        assert expected / 3.0 < condition < 3.0 * expected


def test_condition_number_of_a_singular_matrix_is_that_on_its_range():
    M = np.diag([4.0, 4.0, 0.0])
    assert solve_eigenproblem(np.diag([1.0, 2.0, 0.0]), M).condition == pytest.approx(1.0)


def test_rounding_of_a_difference_is_relative_to_the_minuend():
    """1 - (1 - 1e-13) has three digits, and its condition number says so; 1 - 1 has none."""
    between, minuend = np.diag([2.0, 1.0]), np.eye(2)
    solution = solve_eigenproblem(between, 1e-13 * np.eye(2), minuend=minuend)
    assert solution.condition == pytest.approx(1e13)
    with pytest.raises(SingularFormError, match="rank 0 of 2"):
        solve_eigenproblem(between, 1e-16 * np.eye(2), minuend=minuend)
    assert solve_eigenproblem(between, 1e-16 * np.eye(2)).condition == pytest.approx(1.0)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_tangents_that_explain_all_variation_leave_a_singular_form(method, gamma):
    """In flat classes without any penalty the tangent vectors explain all variation."""
    rng = np.random.default_rng(0)
    flat = [rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + c for c in range(3)]
    free = method(n_neighbors=8, tangent_energy=1.0, gamma=gamma, alpha=0.0, tangent_alpha=0.0)
    with pytest.raises(SingularFormError, match=r"rank 0 of 5.*Set a larger alpha"):
        free.fit(np.concatenate(flat), np.repeat(range(3), 40))


def test_negative_eigenvalues_measure_the_error_of_the_entries():
    """Eigenvalues below twice the magnitude of the most negative one count as rounding."""
    M = np.diag([1.0, 1.5e-6, -1e-6])
    minuend = np.eye(3)
    with pytest.raises(SingularFormError, match="rank 1 of 3"):
        solve_eigenproblem(np.diag([1.0, 1.0, 0.0]), M, minuend=minuend)
    solution = solve_eigenproblem(np.diag([1.0, 0.0, 0.0]), M, minuend=minuend)
    assert solution.eigenvalues.size == 1


def test_subnormal_ridge_counts_as_zero():
    between = np.diag([2.0, 1.0, 0.0])
    with pytest.raises(SingularFormError):
        solve_eigenproblem(between, np.diag([1.0, 0.0, 0.0]), ridge=5e-324)
    M = np.diag([1.0, 1e-290, 1.0])
    solution = solve_eigenproblem(between, M, ridge=1e-290)
    assert np.isfinite(solution.eigenvalues).all()


def test_class_residuals_come_from_the_solver(monkeypatch):
    model = MPDA(n_neighbors=5).fit(X, Y)
    np.testing.assert_array_equal(model.class_residuals_, np.zeros(3))  # dense factors
    # Classes above the limit take seconds, so it is lowered.
    monkeypatch.setattr("mpda.discriminant.schur_complement._DENSE_LIMIT", 1)
    model = MPDA(n_neighbors=5).fit(X, Y)
    assert set(model.class_solvers_) <= {"single", "iterative"}
    assert (model.class_residuals_ > 0.0).all()
    assert (model.class_residuals_ <= 1e-4).all()
    added = MPDA(n_neighbors=5).partial_fit(X[Y < 2], Y[Y < 2]).partial_fit(X[Y == 2], Y[Y == 2])
    assert added.class_residuals_.shape == (3,)
    assert added.condition_ == pytest.approx(model.condition_, rel=0.5)


def test_large_residual_of_a_class_gives_a_warning(monkeypatch):
    # No data are known on which every solver fails, so the residual is replaced.
    def eliminate_badly(form, gamma, beta):
        return replace(eliminate_tangents(form, gamma, beta), residual=0.1)

    monkeypatch.setattr("mpda.discriminant.class_stages.eliminate_tangents", eliminate_badly)
    with pytest.warns(NumericalWarning, match="only up to 0.01"):
        MPDA(n_neighbors=5).fit(X, Y)


@pytest.mark.parametrize("method", [MPDA, LFDA])
def test_components_beyond_the_range_of_single_precision_are_rejected(method):
    tiny = (X * 1e-41).astype(np.float32)
    with pytest.raises(ValueError, match=r"more than float32 can hold.*double precision.*multiply"):
        method(n_neighbors=5).fit(tiny, Y)
    model = method(n_neighbors=5).fit(tiny.astype(float), Y)
    assert np.isfinite(model.transform(tiny.astype(float))).all()


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_fewer_samples_than_features_are_solved_in_their_span_or_rejected():
    X_small, labels = unequal_classes(0, sizes=(8, 7), d=60)
    for method in (LFDA(), MFA(), GraphDiscriminant(), MPDA(alpha=0.0)):
        with pytest.raises(SingularFormError, match="Set a larger alpha"):
            method.fit(X_small, labels)
    for method in (LFDA(alpha=0.1), MFA(alpha=0.1), MPDA(), PMPDA(), LSDA(), LLTSA(), LPFE()):
        with warnings.catch_warnings():
            warnings.simplefilter("error", NumericalWarning)
            model = method.fit(X_small, labels)
        offsets = X_small - X_small.mean(axis=0)
        outside = model.components_ - model.components_ @ np.linalg.pinv(offsets) @ offsets
        lengths = np.linalg.norm(model.components_, axis=1)
        assert (np.linalg.norm(outside, axis=1) < 1e-8 * lengths).all()
