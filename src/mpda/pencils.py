"""The two d x d matrices and the leading directions of their pencil."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda._typing import Floats
from mpda.exceptions import SingularFormError

# Directions with a smaller eigenvalue, relative to the first, carry nothing but rounding.
RELATIVE_CUTOFF = 1e-10


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


def solve_pencil(between: Floats, within: Floats) -> Directions:
    """Every direction of the pencil (S', M) with lambda > 1e-10 lambda_1.

    With S' = F F', F of full column rank, and N'M N = I, the wanted lambda are the eigenvalues of
    K'K, K = N'F, and t = N K z / sqrt(lambda). Going through the range of S' keeps the directions
    in which classes do not differ from mixing in as rounding.
    """
    between_unit = np.trace(between) / len(between)
    if not between_unit > 0.0:
        return Directions(np.empty(0), np.empty((len(between), 0)))
    values, basis = _range(between / between_unit)
    factor = basis * np.sqrt(values)
    whitening, within_unit = _whitening(within, factor)
    half = whitening.T @ factor
    lambdas, z = np.linalg.eigh(half.T @ half)
    lambdas, z = lambdas[::-1], z[:, ::-1]
    kept = lambdas > RELATIVE_CUTOFF * lambdas[0]
    lambdas, z = lambdas[kept], z[:, kept]
    vectors = whitening @ (half @ (z / np.sqrt(lambdas)))
    return Directions(lambdas * (between_unit / within_unit), vectors / np.sqrt(within_unit))


def solve_two_stage(between: Floats, within: Floats) -> Directions:
    """The paper's two-stage form: t is sought in the range of S' only.

    Exact where that range is all of R^d or the span of the centred samples.
    """
    basis = _range(between)[1]
    inner = solve_pencil(_congruent(between, basis), _congruent(within, basis))
    return Directions(inner.eigenvalues, basis @ inner.vectors)


def pencil_residual(between: Floats, within: Floats, directions: Directions) -> float:
    """The largest |S't - lambda M t| / (|S't| + |lambda| |M t|) over the directions."""
    left = between @ directions.vectors
    right = within @ directions.vectors * directions.eigenvalues
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


def _range(S: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues (r,) and eigenvectors (d, r) of S that are not rounding."""
    values, vectors = np.linalg.eigh(S)
    kept = values > 10.0 * len(S) * np.finfo(float).eps * values[-1]
    return values[kept], vectors[:, kept]


def _whitening(within: Floats, factor: Floats) -> tuple[Floats, float]:
    """N (d, r) with N'M N = unit I on the range of M, and the unit, the mean diagonal of M.

    Directions outside that range are left out; the classes must not differ there.
    """
    unit = float(np.trace(within)) / len(within)
    values, basis = _range(within / unit if unit > 0.0 else within)
    if values.size < len(within):
        outside = factor - basis @ (basis.T @ factor)
        if np.linalg.norm(outside) ** 2 > RELATIVE_CUTOFF * np.linalg.norm(factor) ** 2:
            raise SingularFormError(
                f"The within-class form is singular (rank {values.size} of {len(within)}) in "
                "directions in which the classes differ, so their eigenvalues are infinite. Set "
                "alpha above 0 (0.1 in relative units is usual), or reduce the features first, "
                "for example by PCA."
            )
    return basis / np.sqrt(values), unit


def _congruent(S: Floats, basis: Floats) -> Floats:
    product = basis.T @ S @ basis
    return 0.5 * (product + product.T)
