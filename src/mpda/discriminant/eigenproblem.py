"""The generalized eigenproblem A t = lambda B t of two symmetric d x d matrices (EigenDecomp).

Last step of a fit. A is the form that is made large (MPDA: S'), B the one that is made small and
defines the length of t (MPDA: the Schur complement of the tangent block, with the ridge). B is
scaled to ones on its diagonal first (equilibration), so that units of features decide no rank.
Matrices that are singular, or nearly so, are restricted to their range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from mpda._lib.array_types import Array, Bools
from mpda._lib.arrays import (
    EPSILON,
    array_namespace,
    cholesky,
    condition_number,
    maximum,
    set_at,
    solve_triangular,
    to_device,
    to_host,
    zeros,
)
from mpda.discriminant.scatter import symmetrize
from mpda.exceptions import SingularFormError

# Directions with a smaller eigenvalue, relative to the first, are rounding errors. The eigenvalues
# of a matrix product come out to about 1e-14 of the largest; four digits are left as a margin.
RELATIVE_CUTOFF = 1e-10
# Cholesky factors are used up to this condition number, where half of the digits are still right.
# Beyond it eigenvalues are compared with rounding errors one by one, which takes ten times as long.
_LARGEST_CONDITION = 1e8
# After equilibration the diagonal of B is 1, so its norm is taken as at least this.
_UNIT_SIZE = 1.0
# Eigenvalues of B below this count as 0: dividing by them would overflow.
_LEAST_EIGENVALUE = 1e-305
# Diagonal entries below this have lost digits to underflow: the feature counts as constant.
_LEAST_DIAGONAL = 1e-290
# Entries this close to the largest one of a vector count as equal: rounding decides no sign.
_SIGN_TOLERANCE = 1e-9
# Products of larger weights and ridges with matrices of some thousand rows could overflow.
LARGEST_STRENGTH = 1e303


@dataclass(frozen=True)
class Eigenproblem:
    """Generalized eigenproblem A t = lambda B t.

    Parameters
    ----------
    numerator : array of shape (d, d)
        A.
    denominator : array of shape (d, d)
        B.
    """

    numerator: Array
    denominator: Array


@dataclass(frozen=True)
class Directions:
    """Solutions t of an eigenproblem A t = lambda B t with t'B t = 1, or of LPFE's least squares.

    Parameters
    ----------
    eigenvalues : array of shape (r,)
        Decreasing where they are maximised, increasing where they are minimised.
    vectors : array of shape (d, r)
        One direction a column.
    condition : float
        Condition number of B on its range, after equilibration.
    """

    eigenvalues: Array
    vectors: Array
    condition: float = 1.0

    def first(self, r: int) -> Directions:
        """Return the leading directions.

        Parameters
        ----------
        r : int
            Number of directions.

        Returns
        -------
        Directions
            First r eigenvalues and columns.
        """
        return replace(self, eigenvalues=self.eigenvalues[:r], vectors=self.vectors[:, :r])


def solve_eigenproblem(
    between: Array, within: Array, ridge: float = 0.0, minuend: Array | None = None
) -> Directions:
    """Solve A t = lambda B t (EigenDecomp) for every lambda > 1e-10 lambda_1, the largest first.

    Parameters
    ----------
    between : array of shape (d, d)
        A. Negative eigenvalues are allowed; their directions are left out.
    within : array of shape (d, d)
        B, positive semi-definite up to rounding.
    ridge : float, default=0.0
        Lower bound of the eigenvalues of B: B - ridge I is positive semi-definite.
    minuend : array of shape (d, d) or None, default=None
        Matrix from which another was subtracted to obtain B. Rounding errors of B are relative to
        its size.

    Returns
    -------
    Directions
        Eigenvalues in decreasing order and vectors with t'B t = 1.

    Raises
    ------
    SingularFormError
        If B is singular in directions in which A is not.

    Notes
    -----
    With A = F F', F of full column rank, and N'B N = I, the eigenvalues are those of K'K, K = N'F,
    and t = N K z / sqrt(lambda). The range of A comes first, because otherwise the null space of A
    mixes into t as rounding. F and N come from Cholesky factors, or from eigenvectors where a
    matrix is nearly singular. If A has negative eigenvalues, A = F J F' with J = diag(+-1), the
    eigenvalues are the positive ones of K J K', and t = N z.
    """
    xp, d = array_namespace(between), between.shape[0]
    features = _coupled_features(between, within)
    between, within = _submatrix(between, features), _submatrix(within, features)
    scale = _equilibration(within if minuend is None else _submatrix(minuend, features))
    between, within = _scale_both_sides(between, scale), _scale_both_sides(within, scale)
    # A is scaled to entries of at most 1, so that products with its factors cannot overflow.
    unit = float(xp.max(xp.abs(between)))
    if not unit > 0.0:
        return Directions(zeros((0,), between), zeros((d, 0), between))
    between /= unit
    factor, signs = _full_rank_factor(between)
    del between  # with thousands of features each matrix counts
    L, condition = _cholesky(within)
    if L is not None:
        K = solve_triangular(L, factor)
    else:
        spectrum = _within_spectrum(within, factor, ridge * scale**2)
        N = spectrum.basis / xp.sqrt(spectrum.values)
        K, condition = N.T @ factor, spectrum.condition(_UNIT_SIZE)
    del within, factor
    definite = bool(xp.all(signs > 0.0))
    # K'K is as small as the rank of A; K J K' has the size of B, but allows negative signs.
    lambdas, z = xp.linalg.eigh(K.T @ K if definite else K * signs @ K.T)
    lambdas, z = xp.flip(lambdas), xp.flip(z, axis=1)
    r = int(xp.count_nonzero(lambdas > RELATIVE_CUTOFF * maximum(lambdas[:1], 0.0)))
    lambdas, z = lambdas[:r], z[:, :r]
    whitened = K @ (z / xp.sqrt(lambdas)) if definite else z
    if L is not None:
        vectors = scale[:, None] * solve_triangular(L, whitened, transposed=True)
    else:
        vectors = spectrum.shortest(N @ whitened, scale)
    return Directions(lambdas * unit, _embed(vectors, features, d), condition)


def solve_smallest_eigenproblem(form: Array, total: Array) -> Directions:
    """Solve A t = lambda B t in the range of B, the smallest lambda first.

    Parameters
    ----------
    form : array of shape (d, d)
        A, positive semi-definite.
    total : array of shape (d, d)
        B, positive semi-definite.

    Returns
    -------
    Directions
        All rank(B) directions, eigenvalues in increasing order.
    """
    xp, d = array_namespace(total), total.shape[0]
    features = _coupled_features(total, form)
    form, total = _submatrix(form, features), _submatrix(total, features)
    scale = _equilibration(total)
    spectrum = _spectrum(_scale_both_sides(total, scale), semidefinite=True)
    if spectrum.null_basis.shape[1]:
        # Restricted to the range of B the problem is regular, and is equilibrated again there.
        basis = xp.linalg.qr(spectrum.basis / scale[:, None])[0]
        inner = solve_smallest_eigenproblem(_congruence(form, basis), _congruence(total, basis))
        return replace(inner, vectors=_embed(basis @ inner.vectors, features, d))
    whitening = scale[:, None] * spectrum.basis / xp.sqrt(spectrum.values)
    unit = _largest_magnitude(form) or 1.0
    lambdas, z = xp.linalg.eigh(_congruence(form / unit, whitening))
    vectors = _embed(whitening @ z, features, d)
    return Directions(maximum(lambdas, 0.0) * unit, vectors, spectrum.condition())


def solve_two_stage(
    between: Array, within: Array, ridge: float = 0.0, minuend: Array | None = None
) -> Directions:
    """Solve A t = lambda B t for t in the range of A only (two stages of the paper).

    Exact where that range is all of R^d or the span of the centred samples.

    Parameters
    ----------
    between, within : array of shape (d, d)
        A and B.
    ridge : float, default=0.0
        Lower bound of the eigenvalues of B.
    minuend : array of shape (d, d) or None, default=None
        Matrix from which another was subtracted to obtain B.

    Returns
    -------
    Directions
        As ``solve_eigenproblem`` returns them.
    """
    basis = _spectrum(between).basis
    A, B = _congruence(between, basis), _congruence(within, basis)
    C = None if minuend is None else _congruence(minuend, basis)
    inner = solve_eigenproblem(A, B, ridge, C)
    return replace(inner, vectors=basis @ inner.vectors)


def solve_least_squares(S: Array, right: Array) -> tuple[Array, float]:
    """Solve S t = right in the least-squares sense, with the shortest t.

    Parameters
    ----------
    S : array of shape (d, d)
        Positive semi-definite.
    right : array of shape (d, q)
        Right-hand sides.

    Returns
    -------
    solution : array of shape (d, q)
        One solution a column.
    condition : float
        Condition number of S on its range, after equilibration.
    """
    d, features = S.shape[0], _coupled_features(right, S)
    S = _submatrix(S, features)
    if features is not None:
        right = array_namespace(S).take(right, features, axis=0)
    scale = _equilibration(S)
    spectrum = _spectrum(_scale_both_sides(S, scale), semidefinite=True)
    t = spectrum.basis @ (spectrum.basis.T @ (scale[:, None] * right) / spectrum.values[:, None])
    return _embed(spectrum.shortest(t, scale), features, d), spectrum.condition()


def numerical_rank(S: Array) -> int:
    """Return the rank of a positive semi-definite matrix, whatever the units of its features.

    Parameters
    ----------
    S : array of shape (d, d)
        Positive semi-definite.

    Returns
    -------
    int
        Number of eigenvalues above rounding, after equilibration.
    """
    scaled = _scale_both_sides(S, _equilibration(S))
    return int(_spectrum(scaled, semidefinite=True).values.shape[0])


def range_basis(S: Array) -> Array | None:
    """Return an orthonormal basis of the range of a positive semi-definite matrix.

    Features whose rows are zero have no share in it. Rounding is judged after equilibration, so the
    units of features do not decide the rank.

    Parameters
    ----------
    S : array of shape (d, d)
        Positive semi-definite, not zero.

    Returns
    -------
    array of shape (d, r) or None
        The basis; None if S is regular.
    """
    d = S.shape[0]
    features = _coupled_features(S, S)
    S = _submatrix(S, features)
    scale = _equilibration(S)
    basis = _spectrum(_scale_both_sides(S, scale), semidefinite=True).basis
    if basis.shape == (d, d):
        return None
    return _embed(array_namespace(S).linalg.qr(basis / scale[:, None])[0], features, d)


def eigenpair_residual(between: Array, within: Array, directions: Directions) -> float:
    """Return the largest |A t - lambda B t| / (|A t| + |lambda| |B t|) over the directions.

    Parameters
    ----------
    between, within : array of shape (d, d)
        A and B.
    directions : Directions
        Eigenpairs with lambda > 0.

    Returns
    -------
    float
        Relative residual norm, 0 if there are no directions.
    """
    norm = array_namespace(between).linalg.vector_norm
    # Both sides are divided by lambda, which may be as large as a float can be.
    left = between @ directions.vectors / directions.eigenvalues
    right = within @ directions.vectors
    scale = norm(left, axis=0) + norm(right, axis=0)
    return _largest_magnitude(norm(left - right, axis=0) / scale)


def normwise_residual(form: Array, total: Array, directions: Directions) -> float:
    """Return the largest |A t - lambda B t| / ((|A| + lambda |B|) |t|); lambda may be 0.

    Parameters
    ----------
    form, total : array of shape (d, d)
        A and B.
    directions : Directions
        Eigenpairs with lambda >= 0.

    Returns
    -------
    float
        Normwise relative residual, 0 if there are no directions.
    """
    xp = array_namespace(form)
    norm, matrix_norm = xp.linalg.vector_norm, xp.linalg.matrix_norm
    unit = _largest_magnitude(form) or 1.0  # a ridge may make A as large as a float can be
    form, eigenvalues = form / unit, directions.eigenvalues / unit
    gap = form @ directions.vectors - (total @ directions.vectors) * eigenvalues
    # Where A is only rounding, every answer is perfect; the bound also keeps the scale above 0.
    least = maximum(eigenvalues, RELATIVE_CUTOFF / unit)
    scale = (matrix_norm(form) + least * matrix_norm(total)) * norm(directions.vectors, axis=0)
    return _largest_magnitude(norm(gap, axis=0) / scale)


def fix_signs(vectors: Array) -> Array:
    """Return the columns with the entry of largest magnitude positive.

    Parameters
    ----------
    vectors : array of shape (d, r)
        Directions of either sign.

    Returns
    -------
    array of shape (d, r)
        Columns multiplied by 1 or -1.
    """
    return vectors if vectors.shape[1] == 0 else vectors * column_signs(vectors)


def column_signs(vectors: Array) -> Array:
    """Return the signs of the entries of largest magnitude of the columns.

    Parameters
    ----------
    vectors : array of shape (d, r)
        Directions of either sign, at least one.

    Returns
    -------
    array of shape (r,)
        1, -1, or 0 for a column of zeros. Equal magnitudes are decided for the first.
    """
    xp = array_namespace(vectors)
    magnitudes = xp.abs(vectors)
    is_largest = magnitudes >= (1.0 - _SIGN_TOLERANCE) * xp.max(magnitudes, axis=0)
    first = xp.argmax(xp.astype(is_largest, xp.int8), axis=0)
    return xp.sign(xp.take_along_axis(vectors, first[None, :], axis=0))[0, :]


def _coupled_features(first: Array, second: Array) -> Array | None:
    """Return features (k,) with an entry in the first matrix or off the diagonal of the second.

    None stands for all of them. Other features, for example constant ones, belong to no direction;
    left in, they would collect rounding errors. A negative diagonal entry of the second matrix is
    an error of its entries, by which ``_within_spectrum`` measures how far they can be trusted.
    """
    xp = array_namespace(first)
    above = xp.triu(second, k=1) != 0.0
    coupled = xp.any(first != 0.0, axis=1) | xp.any(above, axis=0) | xp.any(above, axis=1)
    indices = np.flatnonzero(to_host(coupled | (xp.linalg.diagonal(second) < 0.0)))
    return None if indices.size in (0, first.shape[0]) else to_device(indices, first)


def _submatrix(S: Array, features: Array | None) -> Array:
    """Return the rows and columns of S that belong to the features."""
    xp = array_namespace(S)
    return S if features is None else xp.take(xp.take(S, features, axis=0), features, axis=1)


def _embed(vectors: Array, features: Array | None, d: int) -> Array:
    """Return vectors (k, r) of k features as vectors (d, r) of all, zero elsewhere."""
    if features is None:
        return vectors
    return set_at(zeros((d, vectors.shape[1]), vectors), features, vectors)


def _equilibration(S: Array) -> Array:
    """Return factors (d,) that make the diagonal of S one."""
    xp = array_namespace(S)
    diagonal = xp.linalg.diagonal(S)
    return 1.0 / xp.sqrt(xp.where(diagonal > _LEAST_DIAGONAL, diagonal, 1.0))


def _scale_both_sides(S: Array, scale: Array) -> Array:
    """Return diag(scale) S diag(scale), exactly symmetric; no product of scales overflows."""
    left, right = scale[:, None] * S, S * scale
    left *= scale
    right *= scale[:, None]
    left += right
    left *= 0.5
    return left


def _congruence(S: Array, basis: Array) -> Array:
    return symmetrize(basis.T @ S @ basis)


def _cholesky(S: Array) -> tuple[Array | None, float]:
    """Return the lower Cholesky factor and the condition number; None if S is nearly singular."""
    L = cholesky(S)
    condition = np.inf if L is None else condition_number(S, L, _UNIT_SIZE)
    return (L if condition < _LARGEST_CONDITION else None), condition


def _full_rank_factor(S: Array) -> tuple[Array, Array]:
    """Return F (d, r) of full column rank and signs J (r,) with S = F diag(J) F'."""
    xp = array_namespace(S)
    L, _ = _cholesky(S)
    if L is not None:
        return L, xp.ones_like(L[0, :])
    spectrum = _spectrum(S)
    return spectrum.basis * xp.sqrt(xp.abs(spectrum.values)), xp.sign(spectrum.values)


@dataclass(frozen=True)
class _Spectrum:
    """Eigenvalues (r,) of a symmetric matrix that are not rounding errors, and their eigenvectors.

    ``basis`` (d, r) spans the range, ``null_basis`` (d, d - r) the null space.
    """

    values: Array
    basis: Array
    null_basis: Array

    def condition(self, size: float = 0.0) -> float:
        """Return the ratio of the largest eigenvalue, at least ``size``, to the smallest."""
        if self.values.shape[0] == 0:
            return 1.0
        xp = array_namespace(self.values)
        return max(float(xp.max(self.values)), size) / float(xp.min(self.values))

    def shortest(self, vectors: Array, scale: Array) -> Array:
        """Return diag(scale) times vectors (d, q), shortened by directions in the null space.

        The scales may differ by many powers of ten, so least squares needs QR with pivoting
        (LAPACK's gelsy). Features without a share in the null space are left out, because their
        rounding errors times their scale would decide. The case is rare: the host solves it.
        """
        # t + null space solves the problem too; the shortest of these does not depend on rounding.
        null, d = to_host(self.null_basis).copy(), self.basis.shape[0]
        if null.shape[1] and vectors.shape[1]:
            null[np.abs(null) < 10 * d * EPSILON] = 0.0
            rows = null.any(axis=1)
            weights = to_host(scale)[rows, None]
            targets = weights * to_host(vectors)[rows]
            shares = lstsq(weights * null[rows], targets, cond=0.0, lapack_driver="gelsy")[0]
            vectors = vectors - to_device(null @ shares, vectors)
        return scale[:, None] * vectors


def _spectrum(S: Array, *, semidefinite: bool = False) -> _Spectrum:
    """Return the eigenvalues of S above rounding, in magnitude unless S is semidefinite."""
    xp = array_namespace(S)
    values, vectors = xp.linalg.eigh(S)
    sizes = values if semidefinite else xp.abs(values)
    return _select_spectrum(values, vectors, to_host(sizes > _rounding(values)))


def _within_spectrum(within: Array, factor: Array, ridge: Array) -> _Spectrum:
    """Return the spectrum of B (d, d), of which B - diag(ridge) is positive semi-definite.

    An eigenvalue of B that is lost in rounding is replaced by the contribution of the ridge. The
    other lost directions are left out, if they are in the null space of A = F F' (``factor``).
    """
    xp, d = array_namespace(within), within.shape[0]
    values, vectors = xp.linalg.eigh(within)
    # B has no negative eigenvalues: where it has, they show how far its entries can be trusted.
    lost = values <= max(_rounding(values, _UNIT_SIZE), -2.0 * float(values[0]))
    values = xp.where(lost, ridge @ vectors**2, values)
    spectrum = _select_spectrum(values, vectors, to_host(values > _LEAST_EIGENVALUE))
    if spectrum.null_basis.shape[1]:
        outside = factor - spectrum.basis @ (spectrum.basis.T @ factor)
        norms = xp.linalg.matrix_norm(outside), xp.linalg.matrix_norm(factor)
        if float(norms[0]) ** 2 > RELATIVE_CUTOFF * float(norms[1]) ** 2:
            raise SingularFormError(
                f"The within-class form is singular (rank {spectrum.values.shape[0]} of {d}) in "
                "directions in which the classes differ, so their eigenvalues are infinite. Set "
                "a larger alpha (0.1 in relative units is usual), or reduce the features first, "
                "for example by PCA."
            )
    return spectrum


def _select_spectrum(values: Array, vectors: Array, nonzero: Bools) -> _Spectrum:
    xp = array_namespace(values)
    indices, others = (to_device(np.flatnonzero(mask), values) for mask in (nonzero, ~nonzero))
    basis, null_basis = xp.take(vectors, indices, axis=1), xp.take(vectors, others, axis=1)
    return _Spectrum(xp.take(values, indices), basis, null_basis)


def _rounding(values: Array, size: float = 0.0) -> float:
    """Return the size below which an eigenvalue among these, or of a matrix of this size, is
    rounding: ten times the bound d eps |S| of a symmetric eigensolver."""
    return 10.0 * values.shape[0] * EPSILON * max(_largest_magnitude(values), size)


def _largest_magnitude(values: Any) -> float:
    """Return the largest magnitude among the values, 0 if there are none."""
    xp = array_namespace(values)
    return float(xp.max(xp.abs(values))) if values.shape[0] else 0.0


def check_n_directions(n_found: int, n_components: int | None) -> int:
    """Return the number of directions to keep.

    Parameters
    ----------
    n_found : int
        Number of directions that can be told from rounding.
    n_components : int or None
        Number that the user asked for; None for all.

    Returns
    -------
    int
        ``n_components``, or ``n_found`` for None.
    """
    if n_found == 0:
        raise ValueError(
            "There is no direction to find: the numerator of the method, or the right-hand side "
            "of its least squares, is zero for these samples. The class means may coincide, or the "
            "graph may have no edges."
        )
    if n_components is None:
        return n_found
    if n_components > n_found:
        raise ValueError(
            f"n_components={n_components} is more than there is: only {n_found} "
            f"direction{'' if n_found == 1 else 's'} can be told from rounding (an eigenvalue "
            "above 1e-10 of the largest where they are maximised). Ask for at most that many, or "
            "for None to keep them all."
        )
    return n_components
