"""The eigenproblem of a baseline, with its ridge: from matrices to directions for the samples.

A graph method is A t = lambda (B + ridge I) t in the coordinates of a fit. This step adds the
ridge, solves the problem, selects the directions and converts them to the units of the samples.
MPDA and PMPDA add their ridges in ``discriminant.fit``. Depends on ``discriminant.eigenproblem``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpda._lib.array_types import Array, Floats
from mpda._lib.arrays import EPSILON, array_namespace, eye, safe_divide
from mpda._lib.samples import FitSamples, LabelledSamples
from mpda.discriminant.eigenproblem import (
    LARGEST_STRENGTH,
    Directions,
    Eigenproblem,
    check_n_directions,
    eigenpair_residual,
    fix_signs,
    normwise_residual,
    solve_eigenproblem,
    solve_smallest_eigenproblem,
)
from mpda.discriminant.scatter import all_pairs_scatter

# The exponential of a number above 709 overflows.
_MAX_EXPONENT = 700.0


@dataclass(frozen=True)
class Solution:
    """Directions of a method for its samples.

    Parameters
    ----------
    directions : Directions
        In the units of the samples, in the order of the method, with signs fixed.
    ridge : float
        Ridge that was added, in squared units of the samples.
    residual : float
        Relative residual of the problem.
    increasing : bool
        True if the smallest eigenvalues come first.
    """

    directions: Directions
    ridge: float
    residual: float
    increasing: bool = False

    def first(self, r: int) -> Solution:
        """Return the solution with the first r directions.

        Parameters
        ----------
        r : int
            Number of directions.

        Returns
        -------
        Solution
            Ridge and residual are unchanged.
        """
        return replace(self, directions=self.directions.first(r))


def solve_largest(
    samples: FitSamples,
    problem: Eigenproblem,
    alpha: float,
    n_components: int | None,
    *,
    unit_length: bool = False,
) -> Solution:
    """Solve A t = lambda (B + ridge I) t for the largest eigenvalues.

    Parameters
    ----------
    samples : FitSamples
        The samples of the fit.
    problem : Eigenproblem
        A and B.
    alpha : float
        Ridge in units of the mean diagonal of B.
    n_components : int or None
        Number of directions; None keeps all above 1e-10 of the largest eigenvalue.
    unit_length : bool, default=False
        Scale directions to length 1 instead of t'(B + ridge I) t = 1.

    Returns
    -------
    Solution
        By decreasing eigenvalue.
    """
    ridge, B = add_ridge(problem.denominator, alpha, samples)
    directions = _select(solve_eigenproblem(problem.numerator, B, ridge), n_components)
    residual = eigenpair_residual(problem.numerator, B, directions)
    solution = _convert(samples, directions, ridge, residual)
    if not unit_length:
        return solution
    vectors = normalize_columns(solution.directions.vectors)
    return replace(solution, directions=replace(solution.directions, vectors=vectors))


def solve_smallest(
    samples: FitSamples, problem: Eigenproblem, alpha: float, n_components: int | None
) -> Solution:
    """Solve (A + ridge I) t = lambda B t for the smallest eigenvalues.

    Parameters
    ----------
    samples : FitSamples
        The samples of the fit.
    problem : Eigenproblem
        A and B.
    alpha : float
        Ridge in units of the mean diagonal of A, which is minimised.
    n_components : int or None
        Number of directions; None keeps one for each dimension of the range of B.

    Returns
    -------
    Solution
        By increasing eigenvalue.
    """
    ridge, A = add_ridge(problem.numerator, alpha, samples)
    # With a large ridge the eigenvalues, ratios to B, may overflow although the ridge does not.
    with np.errstate(over="ignore"):
        solution = solve_smallest_eigenproblem(A, problem.denominator)
    directions = _select(solution, n_components)
    _check_overflow(max(directions.eigenvalues.tolist(), default=0.0), alpha)
    residual = normwise_residual(A, problem.denominator, directions)
    return replace(_convert(samples, directions, ridge, residual), increasing=True)


def solve_exponential(
    samples: LabelledSamples, problem: Eigenproblem, scale: float, n_components: int | None
) -> Solution:
    """Solve exp(A / s) t = lambda exp(B / s) t for the largest eigenvalues.

    Only directions in the span of the centred samples count. Others map all samples to 0, but have
    the eigenvalue exp(0) / exp(0) = 1, which may exceed that of a direction that tells classes
    apart.

    With F = exp(A / 2s) exp(-B / 2s) = U D V' the eigenvalues are D^2, and t = exp(-B / 2s) v. The
    exponents of A are measured from their largest and those of B from their smallest, so nothing
    overflows; that changes eigenvalues by a common factor only.

    Parameters
    ----------
    samples : LabelledSamples
        The samples of the fit.
    problem : Eigenproblem
        A and B.
    scale : float
        The scale s in units of the mean diagonal of B.
    n_components : int or None
        Number of directions; None keeps all that can be told from rounding.

    Returns
    -------
    Solution
        By decreasing eigenvalue; the largest eigenvalue is 1.
    """
    unit = add_ridge(problem.denominator, 1.0, samples)[0]
    basis = _span_basis(samples)
    (a, a_axes), (b, b_axes) = (
        np.linalg.eigh(basis.T @ matrix @ basis / (scale * unit))
        for matrix in (problem.numerator, problem.denominator)
    )
    half_A = (a_axes * np.exp(0.5 * (a - a[-1]))) @ a_axes.T
    inverse_half_B = (b_axes * np.exp(-0.5 * (b - b[0]))) @ b_axes.T
    F = half_A @ inverse_half_B
    _, roots, axes = np.linalg.svd(F)
    # Smaller singular values are rounding. Exponentials spread them far.
    n_kept = int(np.count_nonzero(roots > 10.0 * len(roots) * EPSILON * roots[0]))
    V, squares = axes[:n_kept].T, roots[:n_kept] ** 2
    residual = float(np.abs(F.T @ (F @ V) - V * squares).max() / squares[0])
    condition = float(np.exp(min(b[-1] - b[0], _MAX_EXPONENT)))
    directions = Directions(squares / squares[0], basis @ (inverse_half_B @ V), condition)
    directions = _select(directions, n_components)
    # Exponentials have no unit, nor have their directions: any scale of X gives the same ones.
    vectors = fix_signs(samples.coordinates.rotate_back(directions.vectors))
    return Solution(replace(directions, vectors=vectors), 0.0, residual)


def _span_basis(samples: LabelledSamples) -> Floats:
    """Return an orthonormal basis (d, r) of the span of the centred samples."""
    Z = samples.all_coordinates
    if samples.weights is not None:
        Z = Z[samples.weights > 0.0]
    total = all_pairs_scatter(Z)
    values, axes = np.linalg.eigh(total)
    # Smaller eigenvalues are rounding. Features that are constant have weight 0 exactly.
    axes = axes[:, values > 10.0 * len(values) * EPSILON * values[-1]]
    return np.where(total.diagonal()[:, None] > 0.0, axes, 0.0)


def add_ridge(M: Array, alpha: float, samples: FitSamples) -> tuple[float, Array]:
    """Add a ridge that is relative to the mean diagonal of a matrix.

    Parameters
    ----------
    M : array of shape (d, d)
        Positive semi-definite matrix.
    alpha : float
        Ridge in units of the mean diagonal over features that are not constant.
    samples : FitSamples
        The samples of the fit.

    Returns
    -------
    ridge : float
        The absolute ridge in the units of M.
    ridged : array of shape (d, d)
        M + ridge I.
    """
    trace = float(array_namespace(M).linalg.trace(M))
    unit = trace / samples.n_varying if trace > 0.0 else samples.coordinates.from_squared_units(1.0)
    ridge = alpha * unit
    _check_overflow(ridge, alpha)
    return ridge, M + ridge * eye(M.shape[0], M)


def _check_overflow(value: float, alpha: float) -> None:
    """Raise an error if a value that grows with alpha is too large for products with it."""
    if value > LARGEST_STRENGTH:
        raise ValueError(
            f"alpha={alpha:g} is too large for samples of this scale: products with it leave the "
            "range of floating-point numbers. Set a smaller value."
        )


def _select(directions: Directions, n_components: int | None) -> Directions:
    return directions.first(check_n_directions(directions.eigenvalues.shape[0], n_components))


def _convert(
    samples: FitSamples, directions: Directions, ridge: float, residual: float
) -> Solution:
    """Return directions and ridge in the units of the samples."""
    coordinates = samples.coordinates
    vectors = fix_signs(coordinates.to_components(directions.vectors))
    ridge = coordinates.to_squared_units(ridge)
    return Solution(replace(directions, vectors=vectors), ridge, residual)


def normalize_columns(vectors: Array) -> Array:
    """Scale columns to length 1.

    Parameters
    ----------
    vectors : array of shape (d, r)
        Columns of any scale; their squares may leave the range of floating-point numbers.

    Returns
    -------
    array of shape (d, r)
        Unit columns; columns of zeros stay zero.
    """
    xp = array_namespace(vectors)
    if vectors.shape[1] == 0:
        return vectors
    vectors = safe_divide(vectors, xp.max(xp.abs(vectors), axis=0), xp.zeros_like(vectors))
    lengths = xp.linalg.vector_norm(vectors, axis=0)
    return safe_divide(vectors, lengths, xp.zeros_like(vectors))
