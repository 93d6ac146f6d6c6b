"""The two d x d matrices and the leading directions of their pencil."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpocon, dpotrf

from mpda._typing import Floats
from mpda.exceptions import SingularFormError

# Directions with a smaller eigenvalue, relative to the first, carry nothing but rounding.
RELATIVE_CUTOFF = 1e-10
# Matrices with a larger condition number are looked at eigenvalue by eigenvalue.
_LARGEST_CONDITION = 1e8


@dataclass(frozen=True)
class Directions:
    """Solutions of S' t = lambda M t with t'M t = 1, by decreasing lambda.

    eigenvalues : (r,), all above 1e-10 of the first
    vectors : (d, r)
    """

    eigenvalues: Floats
    vectors: Floats

    def first(self, r: int) -> Directions:
        return Directions(self.eigenvalues[:r], self.vectors[:, :r])


def solve_pencil(between: Floats, within: Floats, ridge: float = 0.0) -> Directions:
    """Every direction of the pencil (S', M) with lambda > 1e-10 lambda_1.

    With S' = F F', F of full column rank, and N'M N = I, the wanted lambda are the eigenvalues of
    K'K, K = N'F, and t = N K z / sqrt(lambda). Going through the range of S' keeps the directions
    in which classes do not differ from mixing in as rounding. ``ridge`` says that M - ridge I is
    positive semi-definite. F and N come from Cholesky factors, or from eigenvectors where the
    matrix is singular or nearly so.
    """
    scale = _equilibration(within)
    between = between * np.multiply.outer(scale, scale)
    unit = np.trace(between) / len(between)
    if not unit > 0.0:
        return Directions(np.empty(0), np.empty((len(between), 0)))
    factor = _factor(between / unit)
    half, unwhitened = _whitened(factor, within * np.multiply.outer(scale, scale), ridge * scale**2)
    lambdas, z = np.linalg.eigh(half.T @ half)
    lambdas, z = lambdas[::-1], z[:, ::-1]
    kept = lambdas > RELATIVE_CUTOFF * lambdas[0]
    lambdas, z = lambdas[kept], z[:, kept]
    vectors = unwhitened(half @ (z / np.sqrt(lambdas)))
    return Directions(lambdas * unit, vectors * scale[:, None])


def solve_two_stage(between: Floats, within: Floats, ridge: float = 0.0) -> Directions:
    """The paper's two-stage form: t is sought in the range of S' only.

    Exact where that range is all of R^d or the span of the centred samples.
    """
    basis = _range(between)[1]
    inner = solve_pencil(_congruent(between, basis), _congruent(within, basis), ridge)
    return Directions(inner.eigenvalues, basis @ inner.vectors)


def pencil_residual(between: Floats, within: Floats, directions: Directions) -> float:
    """The largest |S't - lambda M t| / (|S't| + |lambda| |M t|) over the directions."""
    # Both sides over lambda, which may be as large as a float can be.
    left = between @ directions.vectors / directions.eigenvalues
    right = within @ directions.vectors
    gap = np.linalg.norm(left - right, axis=0)
    scale = np.linalg.norm(left, axis=0) + np.linalg.norm(right, axis=0)
    return float(np.max(gap / scale, initial=0.0))


def signed(directions: Directions) -> Directions:
    """The same directions with the entry of largest magnitude positive."""
    magnitudes = np.abs(directions.vectors)
    # The first of the entries that are largest up to rounding, so that rounding decides no sign.
    largest = np.argmax(magnitudes >= (1.0 - 1e-9) * magnitudes.max(axis=0), axis=0)
    signs = np.sign(directions.vectors[largest, np.arange(largest.size)])
    return Directions(directions.eigenvalues, directions.vectors * signs)


def _equilibration(within: Floats) -> Floats:
    """Factors (d,) that make the diagonal of M one, so that units of features decide no rank."""
    diagonal = np.diagonal(within)
    return 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))


def _cholesky(S: Floats) -> Floats | None:
    """L (d, d), lower, with S = L L'; None where S is singular or nearly so."""
    L, failed = dpotrf(S, lower=1)
    if failed:
        return None
    reciprocal, _ = dpocon(L, np.abs(S).sum(axis=0).max(), uplo="L")
    return L if reciprocal * _LARGEST_CONDITION > 1.0 else None


def _factor(S: Floats) -> Floats:
    """F (d, r) of full column rank with S = F F'."""
    L = _cholesky(S)
    if L is not None:
        return L
    values, basis = _range(S)
    return basis * np.sqrt(values)


def _range(S: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues (r,) and eigenvectors (d, r) of S that are not rounding."""
    values, vectors = np.linalg.eigh(S)
    kept = values > _rounding(values)
    return values[kept], vectors[:, kept]


def _rounding(values: Floats) -> float:
    """Below this an eigenvalue of a matrix with these eigenvalues is rounding."""
    return float(10.0 * len(values) * np.finfo(float).eps * values[-1])


def _whitened(
    factor: Floats, within: Floats, ridge: Floats
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """N'F and the way back, Y -> N Y, for some N with N'M N = I."""
    L = _cholesky(within)
    if L is None:
        N = _whitening(within, factor, ridge)
        return N.T @ factor, N.__matmul__
    half = solve_triangular(L, factor, lower=True, check_finite=False)
    return half, partial(solve_triangular, L, lower=True, trans="T", check_finite=False)


def _whitening(within: Floats, factor: Floats, ridge: Floats) -> Floats:
    """N (d, r) with N'M N = I, given that M - diag(ridge) is positive semi-definite.

    Where an eigenvalue of M is lost in rounding, what the ridge contributes to it is taken. Without
    a ridge these directions are left out, if the classes (factor F of S') do not differ there.
    """
    values, vectors = np.linalg.eigh(within)
    lost = values <= _rounding(values)
    if ridge.any():
        values = np.where(lost, ridge @ vectors**2, values)
    elif lost.any():
        values, vectors = values[~lost], vectors[:, ~lost]
        outside = factor - vectors @ (vectors.T @ factor)
        if np.linalg.norm(outside) ** 2 > RELATIVE_CUTOFF * np.linalg.norm(factor) ** 2:
            raise SingularFormError(
                f"The within-class form is singular (rank {values.size} of {len(within)}) in "
                "directions in which the classes differ, so their eigenvalues are infinite. Set "
                "alpha above 0 (0.1 in relative units is usual), or reduce the features first, "
                "for example by PCA."
            )
    return vectors / np.sqrt(values)


def _congruent(S: Floats, basis: Floats) -> Floats:
    product = basis.T @ S @ basis
    return 0.5 * (product + product.T)
