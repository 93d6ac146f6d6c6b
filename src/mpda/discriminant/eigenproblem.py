"""The leading directions of a pencil of two d x d matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import qr, qr_multiply
from scipy.linalg import solve_triangular as triangular_solution

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    EPSILON,
    array_namespace,
    cholesky,
    condition_number,
    eye,
    maximum,
    safe_divide,
    set_at,
    solve_triangular,
    take,
    to_device,
    to_host,
    zeros,
)
from mpda.discriminant.scatter import symmetrize
from mpda.exceptions import SingularFormError

# Directions with a smaller eigenvalue, relative to the first, carry nothing but rounding.
RELATIVE_CUTOFF = 1e-10
# Matrices with a larger condition number are looked at eigenvalue by eigenvalue.
_LARGEST_CONDITION = 1e8
# What is to be small is scaled to ones on the diagonal, so that its size is at least that.
_UNIT_SIZE = 1.0
# A smaller ridge beside these is none; the eigenvalues of directions that only it holds down would
# leave the range of floating-point numbers.
_LEAST_RIDGE = 1e-305
# Squares below this have lost digits to underflow: the feature counts as constant.
_LEAST_DIAGONAL = 1e-290


@dataclass(frozen=True)
class Directions:
    """Directions t, the wanted ones first: of a pencil S' t = lambda M t with t'M t = 1, or LPFE's.

    eigenvalues : (r,), decreasing where they are maximised, increasing where they are minimised
    vectors : (d, r)
    condition : the condition number of M on its range, features scaled to ones on its diagonal
    """

    eigenvalues: Array
    vectors: Array
    condition: float = 1.0

    def first(self, r: int) -> Directions:
        return replace(self, eigenvalues=self.eigenvalues[:r], vectors=self.vectors[:, :r])


def solve_eigenproblem(
    between: Array, within: Array, ridge: float = 0.0, whole: Array | None = None
) -> Directions:
    """Every direction of the pencil (S', M) with lambda > 1e-10 lambda_1.

    With S' = F F', F of full column rank, and N'M N = I, the wanted lambda are the eigenvalues of
    K'K, K = N'F, and t = N K z / sqrt(lambda). Going through the range of S' keeps the directions
    in which classes do not differ from mixing in as rounding. ``ridge`` says that M - ridge I is
    positive semi-definite, and ``whole`` of what M is a difference, to whose size it is right. F
    and N come from Cholesky factors, or from eigenvectors where the matrix is singular or nearly
    so. S' may have negative eigenvalues: then S' = F J F', J = +-1,
    lambda are the positive eigenvalues of K J K', and t = N z.
    """
    xp = array_namespace(between)
    used = _coupled(between, within)
    if used is not None:
        inside = None if whole is None else _block(whole, used)
        inner = solve_eigenproblem(_block(between, used), _block(within, used), ridge, inside)
        return replace(inner, vectors=_embedded(inner.vectors, used, between))
    scale = _equilibration(within if whole is None else whole)
    between = _scaled(between, scale)
    unit = float(xp.max(xp.abs(between)))
    if not unit > 0.0:
        return Directions(zeros((0,), between), zeros((between.shape[0], 0), between))
    factor, signs = _factor(between / unit)
    half, unwhitened, condition = _whitened(factor, _scaled(within, scale), ridge * scale**2, scale)
    definite = bool(xp.all(signs > 0.0))
    lambdas, z = xp.linalg.eigh(half.T @ half if definite else half * signs @ half.T)
    lambdas, z = xp.flip(lambdas), xp.flip(z, axis=1)
    kept = int(xp.count_nonzero(lambdas > RELATIVE_CUTOFF * maximum(lambdas[:1], 0.0)))
    lambdas, z = lambdas[:kept], z[:, :kept]
    vectors = unwhitened(half @ (z / xp.sqrt(lambdas)) if definite else z)
    return Directions(lambdas * unit, vectors, condition)


def solve_smallest_eigenproblem(form: Array, total: Array) -> Directions:
    """Every direction of the pencil (S, M) in the range of M, by increasing lambda; S, M >= 0."""
    xp = array_namespace(total)
    used = _coupled(total, form)
    if used is not None:
        inner = solve_smallest_eigenproblem(_block(form, used), _block(total, used))
        return replace(inner, vectors=_embedded(inner.vectors, used, total))
    scale = _equilibration(total)
    values, basis = _range(_scaled(total, scale), semidefinite=True)
    if basis.shape[1] < total.shape[0]:
        seen = xp.linalg.qr(basis / scale[:, None])[0]
        inner = solve_smallest_eigenproblem(_congruent(form, seen), _congruent(total, seen))
        return replace(inner, vectors=seen @ inner.vectors)
    whitening = scale[:, None] * basis / xp.sqrt(values)
    unit = _unit(form)
    lambdas, z = xp.linalg.eigh(_congruent(form / unit, whitening))
    return Directions(maximum(lambdas, 0.0) * unit, whitening @ z, _spread(values))


def solve_two_stage(
    between: Array, within: Array, ridge: float = 0.0, whole: Array | None = None
) -> Directions:
    """The paper's two-stage form: t is sought in the range of S' only.

    Exact where that range is all of R^d or the span of the centred samples.
    """
    basis = _range(between)[1]
    inside = None if whole is None else _congruent(whole, basis)
    inner = solve_eigenproblem(_congruent(between, basis), _congruent(within, basis), ridge, inside)
    return replace(inner, vectors=basis @ inner.vectors)


def solve_least_squares(S: Array, right: Array) -> tuple[Array, float]:
    """The shortest least-squares solution (d, q) of S t = right, S positive semi-definite; and the
    condition number that it met."""
    used = _coupled(right, S)
    if used is not None:
        t, condition = solve_least_squares(_block(S, used), take(right, used))
        return _embedded(t, used, S), condition
    scale = _equilibration(S)
    values, basis = _range(_scaled(S, scale), semidefinite=True)
    t = basis @ (basis.T @ (scale[:, None] * right) / values[:, None])
    return _shortest(t, basis, scale), _spread(values)


def _coupled(first: Array, second: Array) -> Array | None:
    """Features (k,) with an entry in the first matrix, or beside the diagonal in the second.

    None where all have one. The others, as constant ones are, belong to no direction; left in, they
    would have a share of the rounding of those that do. But what is negative on the diagonal tells
    how wrong the second is.
    """
    xp = array_namespace(first)
    beside = second * (1.0 - eye(second.shape[0], second))
    found = xp.any(first != 0.0, axis=1) | xp.any(beside != 0.0, axis=1)
    found = found | (xp.linalg.diagonal(second) < 0.0)
    used = np.flatnonzero(to_host(found))
    return None if used.size in (0, first.shape[0]) else to_device(used, first)


def _block(S: Array, used: Array) -> Array:
    xp = array_namespace(S)
    return xp.take(xp.take(S, used, axis=0), used, axis=1)


def _embedded(vectors: Array, used: Array, S: Array) -> Array:
    """Vectors (k, r) of some features among all, as S (d, d) has them."""
    return set_at(zeros((S.shape[0], vectors.shape[1]), S), used, vectors)


def numerical_rank(S: Array) -> int:
    """The rank of a positive semi-definite S (d, d), whatever the units of its features."""
    scale = _equilibration(S)
    return int(_range(_scaled(S, scale), semidefinite=True)[0].shape[0])


def eigenpair_residual(between: Array, within: Array, directions: Directions) -> float:
    """The largest |S't - lambda M t| / (|S't| + |lambda| |M t|) over the directions."""
    # Both sides over lambda, which may be as large as a float can be.
    xp = array_namespace(between)
    left = between @ directions.vectors / directions.eigenvalues
    right = within @ directions.vectors
    gap = _column_lengths(left - right)
    return _largest(gap / (_column_lengths(left) + _column_lengths(right)), xp)


def normwise_residual(form: Array, total: Array, directions: Directions) -> float:
    """The largest |S t - lambda M t| / (|S| |t| + lambda |M| |t|): lambda may be 0 here."""
    xp = array_namespace(form)
    unit = _unit(form)  # a ridge may make S as large as a float can be
    form, eigenvalues = form / unit, directions.eigenvalues / unit
    gap = form @ directions.vectors - (total @ directions.vectors) * eigenvalues
    norms = xp.linalg.matrix_norm(form), xp.linalg.matrix_norm(total)
    # S may be nothing but rounding, where an answer is perfect.
    least = maximum(eigenvalues, RELATIVE_CUTOFF / unit)
    scale = (norms[0] + least * norms[1]) * _column_lengths(directions.vectors)
    return _largest(safe_divide(_column_lengths(gap), scale, xp.zeros_like(scale)), xp)


def _unit(S: Array) -> float:
    """The largest magnitude in S, 1 where it is 0."""
    xp = array_namespace(S)
    return float(xp.max(xp.abs(S))) or 1.0


def _column_lengths(vectors: Array) -> Array:
    return array_namespace(vectors).linalg.vector_norm(vectors, axis=0)


def _largest(values: Array, xp: Any) -> float:
    """The largest of the values, 0 where there are none."""
    return float(xp.max(values)) if values.shape[0] else 0.0


def fix_signs(vectors: Array) -> Array:
    """The same columns (d, r) with the entry of largest magnitude positive."""
    xp = array_namespace(vectors)
    if vectors.shape[1] == 0:
        return vectors
    magnitudes = xp.abs(vectors)
    # The first of the entries that are largest up to rounding, so that rounding decides no sign.
    nearly = magnitudes >= (1.0 - 1e-9) * xp.max(magnitudes, axis=0)
    largest = xp.argmax(xp.astype(nearly, xp.int8), axis=0)
    return vectors * xp.sign(xp.take_along_axis(vectors, largest[None, :], axis=0))


def _equilibration(within: Array) -> Array:
    """Factors (d,) that make the diagonal of M one, so that units of features decide no rank."""
    xp = array_namespace(within)
    diagonal = xp.linalg.diagonal(within)
    return 1.0 / xp.sqrt(xp.where(diagonal > _LEAST_DIAGONAL, diagonal, 1.0))


def _scaled(S: Array, scale: Array) -> Array:
    """diag(scale) S diag(scale), symmetric to the last bit; no product of scales overflows."""
    return 0.5 * (scale[:, None] * S * scale + scale[:, None] * (S * scale))


def _cholesky(S: Array) -> tuple[Array | None, float]:
    """L (d, d), lower, with S = L L', and the condition number; None where S is nearly singular."""
    L = cholesky(S)
    condition = np.inf if L is None else condition_number(S, L, _UNIT_SIZE)
    return (L if condition < _LARGEST_CONDITION else None), condition


def _factor(S: Array) -> tuple[Array, Array]:
    """F (d, r) of full column rank and signs J (r,) with S = F diag(J) F'."""
    xp = array_namespace(S)
    L, _ = _cholesky(S)
    if L is not None:
        return L, xp.ones_like(L[0, :])
    values, basis = _range(S)
    return basis * xp.sqrt(xp.abs(values)), xp.sign(values)


def _range(S: Array, *, semidefinite: bool = False) -> tuple[Array, Array]:
    """The eigenvalues (r,) and eigenvectors (d, r) of S that are not rounding."""
    xp = array_namespace(S)
    values, vectors = xp.linalg.eigh(S)
    sizes = values if semidefinite else xp.abs(values)
    kept = to_device(np.flatnonzero(to_host(sizes > _rounding(values))), S)
    return xp.take(values, kept), xp.take(vectors, kept, axis=1)


def _rounding(values: Array, size: float = 0.0) -> float:
    """Below this an eigenvalue of a matrix with these eigenvalues, or of this size, is rounding."""
    xp = array_namespace(values)
    return 10.0 * values.shape[0] * EPSILON * max(_largest(xp.abs(values), xp), size)


def _spread(values: Array, size: float = 0.0) -> float:
    """The largest of positive values, or the size if that is larger, beside the least."""
    xp = array_namespace(values)
    return max(float(xp.max(values)), size) / float(xp.min(values)) if values.shape[0] else 1.0


def _whitened(
    factor: Array, within: Array, ridge: Array, scale: Array
) -> tuple[Array, Callable[[Array], Array], float]:
    """N'F, the way back, Y -> diag(scale) N Y, for some N with N'M N = I; the condition of M."""
    L, condition = _cholesky(within)
    if L is None:
        values, basis = _seen(within, factor, ridge)
        N = basis / array_namespace(basis).sqrt(values)
        return N.T @ factor, lambda Y: _shortest(N @ Y, basis, scale), _spread(values, _UNIT_SIZE)
    back = partial(solve_triangular, L, transposed=True)
    return solve_triangular(L, factor), lambda Y: scale[:, None] * back(Y), condition


def _shortest(vectors: Array, basis: Array, scale: Array) -> Array:
    """diag(scale) times vectors (d, r), without the parts that a singular M does not see.

    The columns of the basis are orthonormal and span the range of diag(scale) M diag(scale).
    """
    d, r = basis.shape
    if r < d and vectors.shape[1] > 0:
        # Least squares with weights that may differ by many powers of ten: features that nothing
        # unseen has a part in are left out, or by rounding their weights would decide. It is rare,
        # and settled on this machine.
        unseen, weights = qr(to_host(basis))[0][:, r:], to_host(scale)
        unseen[np.abs(unseen) < 10 * d * EPSILON] = 0.0
        rows = np.flatnonzero(unseen.any(axis=1))
        weighted = weights[rows, None] * unseen[rows]
        sides = weights[rows, None] * to_host(vectors)[rows]
        turned, R, pivots = qr_multiply(weighted, sides.T, pivoting=True)
        parts = np.empty((d - r, vectors.shape[1]))
        parts[pivots] = triangular_solution(R, turned.T)
        vectors = vectors - to_device(unseen @ parts, vectors)
    return scale[:, None] * vectors


def _seen(within: Array, factor: Array, ridge: Array) -> tuple[Array, Array]:
    """Eigenvalues (r,) and eigenvectors (d, r) of M, M - diag(ridge) positive semi-definite.

    Where an eigenvalue of M is lost in rounding, what the ridge contributes to it is taken. Without
    a ridge these directions are left out, if the classes (factor F of S') do not differ there.
    """
    xp = array_namespace(within)
    values, vectors = xp.linalg.eigh(within)
    # M has no negative eigenvalues: where it has, they show how far its entries can be trusted.
    lost = values <= max(_rounding(values, _UNIT_SIZE), -2.0 * float(values[0]))
    values = xp.where(lost, ridge @ vectors**2, values)
    n, kept = within.shape[0], np.flatnonzero(to_host(values > _LEAST_RIDGE))
    if kept.size < n:
        kept = to_device(kept, within)
        values, vectors = xp.take(values, kept), xp.take(vectors, kept, axis=1)
        outside = factor - vectors @ (vectors.T @ factor)
        norms = xp.linalg.matrix_norm(outside), xp.linalg.matrix_norm(factor)
        if float(norms[0]) ** 2 > RELATIVE_CUTOFF * float(norms[1]) ** 2:
            raise SingularFormError(
                f"The within-class form is singular (rank {values.shape[0]} of {n}) in "
                "directions in which the classes differ, so their eigenvalues are infinite. Set "
                "a larger alpha (0.1 in relative units is usual), or reduce the features first, "
                "for example by PCA."
            )
    return values, vectors


def _congruent(S: Array, basis: Array) -> Array:
    return symmetrize(basis.T @ S @ basis)
