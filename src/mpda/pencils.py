"""The leading directions of a pencil of two d x d matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpocon, dpotrf

from mpda._typing import Floats
from mpda.exceptions import SingularFormError
from mpda.scatter import symmetric

# Directions with a smaller eigenvalue, relative to the first, carry nothing but rounding.
RELATIVE_CUTOFF = 1e-10
# Matrices with a larger condition number are looked at eigenvalue by eigenvalue.
_LARGEST_CONDITION = 1e8


@dataclass(frozen=True)
class Directions:
    """Directions t, the wanted ones first: of a pencil S' t = lambda M t with t'M t = 1, or LPFE's.

    eigenvalues : (r,), decreasing where they are maximised, increasing where they are minimised
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
    matrix is singular or nearly so. S' may have negative eigenvalues: then S' = F J F', J = +-1,
    lambda are the positive eigenvalues of K J K', and t = N z.
    """
    scale = _equilibration(within)
    between = between * np.multiply.outer(scale, scale)
    unit = np.abs(between).max()
    if not unit > 0.0:
        return Directions(np.empty(0), np.empty((len(between), 0)))
    factor, signs = _factor(between / unit)
    within = within * np.multiply.outer(scale, scale)
    half, unwhitened = _whitened(factor, within, ridge * scale**2, scale)
    definite = bool((signs > 0.0).all())
    lambdas, z = np.linalg.eigh(half.T @ half if definite else half * signs @ half.T)
    lambdas, z = lambdas[::-1], z[:, ::-1]
    kept = lambdas > RELATIVE_CUTOFF * max(lambdas[0], 0.0)
    lambdas, z = lambdas[kept], z[:, kept]
    return Directions(lambdas * unit, unwhitened(half @ (z / np.sqrt(lambdas)) if definite else z))


def solve_smallest(form: Floats, total: Floats) -> Directions:
    """Every direction of the pencil (S, M) in the range of M, by increasing lambda; S, M >= 0."""
    scale = _equilibration(total)
    values, basis = _range(total * np.multiply.outer(scale, scale))
    if basis.shape[1] < len(total):
        seen = np.linalg.qr(basis / scale[:, None])[0]
        inner = solve_smallest(_congruent(form, seen), _congruent(total, seen))
        return Directions(inner.eigenvalues, seen @ inner.vectors)
    whitening = scale[:, None] * basis / np.sqrt(values)
    lambdas, z = np.linalg.eigh(_congruent(form, whitening))
    return Directions(np.maximum(lambdas, 0.0), whitening @ z)


def solve_two_stage(between: Floats, within: Floats, ridge: float = 0.0) -> Directions:
    """The paper's two-stage form: t is sought in the range of S' only.

    Exact where that range is all of R^d or the span of the centred samples.
    """
    basis = _range(between)[1]
    inner = solve_pencil(_congruent(between, basis), _congruent(within, basis), ridge)
    return Directions(inner.eigenvalues, basis @ inner.vectors)


def solve_on_range(S: Floats, right: Floats) -> Floats:
    """The shortest least-squares solution (d, q) of S t = right, S positive semi-definite."""
    scale = _equilibration(S)
    values, basis = _range(S * np.multiply.outer(scale, scale))
    t = basis @ (basis.T @ (scale[:, None] * right) / values[:, None])
    return _shortest(t, basis, scale)


def rank(S: Floats) -> int:
    """The rank of a positive semi-definite S (d, d), whatever the units of its features."""
    scale = _equilibration(S)
    return _range(S * np.multiply.outer(scale, scale))[0].size


def pencil_residual(between: Floats, within: Floats, directions: Directions) -> float:
    """The largest |S't - lambda M t| / (|S't| + |lambda| |M t|) over the directions."""
    # Both sides over lambda, which may be as large as a float can be.
    left = between @ directions.vectors / directions.eigenvalues
    right = within @ directions.vectors
    gap = np.linalg.norm(left - right, axis=0)
    scale = np.linalg.norm(left, axis=0) + np.linalg.norm(right, axis=0)
    return float(np.max(gap / scale, initial=0.0))


def normwise_residual(form: Floats, total: Floats, directions: Directions) -> float:
    """The largest |S t - lambda M t| / (|S| |t| + lambda |M| |t|): lambda may be 0 here."""
    gap = form @ directions.vectors - (total @ directions.vectors) * directions.eigenvalues
    scale = np.linalg.norm(form) + directions.eigenvalues * np.linalg.norm(total)
    scale = scale * np.linalg.norm(directions.vectors, axis=0)
    sizes = np.linalg.norm(gap, axis=0)
    ratio = np.divide(sizes, scale, out=np.zeros_like(sizes), where=scale > 0.0)
    return float(np.max(ratio, initial=0.0))


def signed(vectors: Floats) -> Floats:
    """The same columns (d, r) with the entry of largest magnitude positive."""
    magnitudes = np.abs(vectors)
    # The first of the entries that are largest up to rounding, so that rounding decides no sign.
    largest = np.argmax(magnitudes >= (1.0 - 1e-9) * magnitudes.max(axis=0), axis=0)
    return vectors * np.sign(vectors[largest, np.arange(largest.size)])


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


def _factor(S: Floats) -> tuple[Floats, Floats]:
    """F (d, r) of full column rank and signs J (r,) with S = F diag(J) F'."""
    L = _cholesky(S)
    if L is not None:
        return L, np.ones(len(L))
    values, basis = _range(S)
    return basis * np.sqrt(np.abs(values)), np.sign(values)


def _range(S: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues (r,) and eigenvectors (d, r) of S that are not rounding."""
    values, vectors = np.linalg.eigh(S)
    kept = np.abs(values) > _rounding(values)
    return values[kept], vectors[:, kept]


def _rounding(values: Floats) -> float:
    """Below this an eigenvalue of a matrix with these eigenvalues is rounding."""
    return float(10.0 * len(values) * np.finfo(float).eps * np.abs(values).max(initial=0.0))


def _whitened(
    factor: Floats, within: Floats, ridge: Floats, scale: Floats
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """N'F and the way back, Y -> diag(scale) N Y, for some N with N'M N = I."""
    L = _cholesky(within)
    if L is None:
        N = _whitening(within, factor, ridge)
        return N.T @ factor, lambda Y: _shortest(N @ Y, N, scale)
    half = solve_triangular(L, factor, lower=True, check_finite=False)
    back = partial(solve_triangular, L, lower=True, trans="T", check_finite=False)
    return half, lambda Y: scale[:, None] * back(Y)


def _shortest(vectors: Floats, basis: Floats, scale: Floats) -> Floats:
    """diag(scale) times vectors (d, r), without the parts that a singular M does not see.

    The columns of the basis span the range of diag(scale) M diag(scale).
    """
    vectors = scale[:, None] * vectors
    if basis.shape[1] == len(basis):
        return vectors
    seen = np.linalg.qr(basis / scale[:, None])[0]
    return seen @ (seen.T @ vectors)


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
    return symmetric(basis.T @ S @ basis)
