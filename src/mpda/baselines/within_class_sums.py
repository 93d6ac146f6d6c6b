"""Sums over samples for within-class whitening, and its eigenproblem.

    max t'S_database t  subject to  t'[(1 - s) S_w + s (tr S_w / d) I]t = 1

S_w is the scatter of labelled rows about their class means, S_database that of all rows about their
mean. Both follow from counts, means and scatters, which are added for any blocks of rows by the
formula of Chan, Golub and LeVeque (1983): the scatters of two groups with counts a and b about
their common mean are both scatters plus a b / (a + b) times the outer product of the difference of
the means. Depends on ``discriminant.eigenproblem``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import vstack

from mpda._lib.array_types import Array, Floats, Ints, Labels
from mpda._lib.arrays import (
    array_namespace,
    as_float,
    block_entries,
    describe_library,
    eye,
    gram,
    is_sparse,
    iter_slices,
    ldexp,
    nbytes,
    set_at,
    take,
    to_device,
    zeros,
)
from mpda._lib.samples import Coordinates
from mpda._lib.validation import label_kind
from mpda.discriminant.eigenproblem import Directions, Eigenproblem, solve_eigenproblem
from mpda.discriminant.scatter import centre_full_columns, symmetrize
from mpda.exceptions import SingularFormError

# Numbers in a block of rows: 8 MB, so that temporary copies of rows stay small.
_BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True, eq=False)
class WithinClassSums:
    """Sums over labelled and unlabelled rows, which are added for different rows.

    Means and scatters are those in the coordinates.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted distinct labels.
    counts : ndarray of shape (n_classes,)
        Number of rows of each class, or the sum of their weights.
    means : array of shape (n_classes, d)
        Mean of each class.
    within : array of shape (d, d)
        Scatter of the labelled rows about their class means.
    n_rows : float
        Number of all rows, or the sum of their weights.
    mean : array of shape (d,)
        Mean of all rows.
    total : array of shape (d, d)
        Scatter of all rows about their mean.
    coordinates : Coordinates
        Without rotation.
    is_single : bool
        True if all rows were given in single precision.
    feature_names : ndarray of shape (d,) or None
        Names of the features.
    """

    classes: Labels
    counts: Floats
    means: Array
    within: Array
    n_rows: float
    mean: Array
    total: Array
    coordinates: Coordinates
    is_single: bool = False
    feature_names: Labels | None = None

    def __repr__(self) -> str:
        rows = f"{self.n_rows:g} rows, {self.counts.sum():g} of them in {self.classes.size} classes"
        return f"<WithinClassSums of {rows}, {self.mean.shape[0]} features, {self.nbytes} bytes>"

    @property
    def nbytes(self) -> int:
        """Memory of the matrices and of the class means in bytes."""
        return sum(map(nbytes, (self.means, self.within, self.total)))

    def __add__(self, other: object) -> WithinClassSums:
        if not isinstance(other, WithinClassSums):
            return NotImplemented
        self._check_same(other)
        # The larger scale, so that nothing overflows.
        exponent = max(self.coordinates.exponent, other.coordinates.exponent)
        origin = ldexp(self.coordinates.origin, self.coordinates.exponent - exponent)
        coordinates = Coordinates(exponent, origin)
        first, second = self._move(coordinates), other._move(coordinates)
        if self.classes.size and other.classes.size:
            classes = np.union1d(self.classes, other.classes)
        else:
            classes = self.classes if self.classes.size else other.classes
        (a, means_a), (b, means_b) = first._spread(classes), second._spread(classes)
        gaps = _scale_rows(means_b - means_a, np.sqrt(a * (b / (a + b))))
        gap = second.mean - first.mean
        n_rows = first.n_rows + second.n_rows
        share = second.n_rows / n_rows if n_rows > 0.0 else 0.0
        between = (first.n_rows * share) ** 0.5 * gap[None, :]
        return WithinClassSums(
            classes,
            a + b,
            means_a + _scale_rows(means_b - means_a, b / (a + b)),
            first.within + second.within + (gram(gaps) if classes.size else 0.0),
            n_rows,
            first.mean + share * gap,
            first.total + second.total + gram(between),
            coordinates,
            self.is_single and other.is_single,
            other.feature_names if self.feature_names is None else self.feature_names,
        )

    def __radd__(self, other: object) -> WithinClassSums:
        # sum() begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _spread(self, classes: Labels) -> tuple[Floats, Array]:
        """Return the counts (n,) and means (n, d) of classes, 0 for those without rows here."""
        if np.array_equal(classes, self.classes):
            return self.counts, self.means
        counts, means = np.zeros(classes.size), zeros((classes.size, self.mean.shape[0]), self.mean)
        if self.classes.size:
            positions = np.searchsorted(classes, self.classes)
            counts[positions] = self.counts
            means = set_at(means, to_device(positions, means), self.means)
        return counts, means

    def _move(self, coordinates: Coordinates) -> WithinClassSums:
        """Return the sums in other coordinates."""
        change = self.coordinates.exponent - coordinates.exponent
        # Differences of nearby origins are exact, so rows far from zero lose no digits.
        shift = ldexp(self.coordinates.origin, change) - coordinates.origin
        return replace(
            self,
            means=ldexp(self.means, change) + shift,
            within=ldexp(self.within, 2 * change),
            mean=ldexp(self.mean, change) + shift,
            total=ldexp(self.total, 2 * change),
            coordinates=coordinates,
        )

    def _check_same(self, other: WithinClassSums) -> None:
        """Raise an error if the sums are over rows of different features or labels."""
        libraries = [describe_library(item.within) for item in (self, other)]
        if libraries[0] != libraries[1]:
            raise TypeError(
                f"Rows must be of the array library of earlier rows, {libraries[0]}, got "
                f"{libraries[1]}: the sums are kept there."
            )
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"Sums over rows with {self.mean.shape[0]} features and with "
                f"{other.mean.shape[0]} features cannot be added."
            )
        names, others = self.feature_names, other.feature_names
        if names is not None and others is not None and not np.array_equal(names, others):
            raise ValueError("Sums over rows of features with different names cannot be added.")
        sizes = self.classes.size, other.classes.size
        if all(sizes) and label_kind(self.classes) != label_kind(other.classes):
            raise TypeError(
                "y must hold labels of one kind in all calls, got "
                f"{other.classes[:1].tolist()} after {self.classes[:1].tolist()}."
            )


def _scale_rows(rows: Array, factors: Floats) -> Array:
    """Return rows (n, d) times factors (n,), which are on the host."""
    return rows * to_device(factors[:, None], rows)


def sum_rows(
    X: Array,
    classes: Labels,
    members: Sequence[Ints],
    coordinates: Coordinates,
    weights: Floats | None = None,
) -> WithinClassSums:
    """Compute the sums over some rows, of which those in no class are unlabelled.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows, scaled by the power of two of the coordinates; perhaps sparse or on a device.
    classes : ndarray of shape (n_classes,)
        Sorted distinct labels.
    members : sequence of ndarray
        Indices of the rows of each class.
    coordinates : Coordinates
        Coordinates of the sums, without rotation; the origin of sparse rows is 0.
    weights : ndarray of shape (n,), default=None
        Weights of the rows: multiplicities.

    Returns
    -------
    WithinClassSums
    """
    weights = np.ones(X.shape[0]) if weights is None else weights
    unlabelled = np.ones(X.shape[0], dtype=bool)
    unlabelled[np.concatenate([*members, np.empty(0, dtype=np.intp)])] = False
    groups = [*members, np.flatnonzero(unlabelled)]
    groups = [indices[weights[indices] > 0.0] for indices in groups]
    counts = np.array([weights[indices].sum() for indices in groups])
    compute = _sum_sparse_groups if is_sparse(X) else _sum_groups
    means, within = compute(X, groups[:-1], coordinates.origin, weights)
    mean_rest, rest = compute(X, groups[-1:], coordinates.origin, weights)
    means = array_namespace(means).concat([means, mean_rest])
    n_rows = float(counts.sum())
    mean = to_device(counts / (n_rows or 1.0), means) @ means
    between = _scale_rows(means - mean, np.sqrt(counts))
    total = within + rest + gram(between)
    return WithinClassSums(
        classes, counts[:-1], means[:-1, :], within, n_rows, mean, total, coordinates
    )


def _sum_groups(
    X: Array, groups: Sequence[Ints], origin: Array, weights: Floats
) -> tuple[Array, Array]:
    """Return the mean (G, d) of each group of rows, and the scatter (d, d) about these means."""
    d, step = X.shape[1], block_entries(X, _BLOCK_ENTRIES) // X.shape[1]
    xp = array_namespace(X)

    def offsets(indices: Ints) -> Array:
        return as_float(take(X, to_device(indices, X))) - origin

    means = []
    for indices in groups:
        mean = zeros((d,), X)
        for block in iter_slices(indices.size, step):
            rows = indices[block]
            mean += to_device(weights[rows], mean) @ offsets(rows)
        means.append(mean / (float(weights[indices].sum()) or 1.0))
    centres = xp.stack(means) if means else zeros((0, d), X)
    # Blocks over the rows of all groups: one product a group would be slow for many small classes.
    order = np.concatenate([*groups, np.empty(0, dtype=np.intp)])
    codes = np.repeat(np.arange(len(groups)), [indices.size for indices in groups])
    scatter = zeros((d, d), X)
    for block in iter_slices(order.size, step):
        gaps = offsets(order[block]) - take(centres, to_device(codes[block], X))
        scatter += gram(_scale_rows(gaps, np.sqrt(weights[order[block]])))
    return centres, scatter


def _sum_sparse_groups(
    X: Any, groups: Sequence[Ints], origin: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Return the means and the scatter of groups of sparse rows, by one sparse product.

    The scatter of a group about its mean m is sum_i w_i x_i x_i' - (sum_i w_i) m m'. Columns
    without zeros in the group are centred first: only they can have a mean that is large beside
    their spread.
    """
    d = X.shape[1]
    means, left, shifted = np.zeros((len(groups), d)), np.zeros((len(groups), d)), []
    counts = np.array([weights[indices].sum() for indices in groups])
    for code, indices in enumerate(groups):
        if indices.size:
            rows = as_float(X[indices])
            means[code] = (weights[indices] @ rows) / counts[code]
            rows, left[code] = centre_full_columns(rows, means[code])
            shifted.append(rows)
    if not shifted:
        return means, np.zeros((d, d))
    Z, w = vstack(shifted, format="csr"), weights[np.concatenate(groups)]
    scatter = (Z.T @ Z.multiply(w[:, None]).tocsr()).toarray()
    scatter -= gram(left * np.sqrt(counts)[:, None])
    return means - origin, symmetrize(scatter)


def whitening_problem(sums: WithinClassSums, shrinkage: float) -> Eigenproblem:
    """Return the matrices of within-class whitening.

    Parameters
    ----------
    sums : WithinClassSums
        Sums over all rows.
    shrinkage : float
        Share s of the multiple of the identity, from 0 to 1.

    Returns
    -------
    Eigenproblem
        S_database over (1 - s) S_w + s (tr S_w / d) I, in the coordinates of the sums.
    """
    d = sums.mean.shape[0]
    within = sums.within / float(sums.counts.sum())
    unit = float(array_namespace(within).linalg.trace(within)) / d
    if not unit > 0.0:
        raise SingularFormError(
            "All samples of each class are identical, so there is no scatter inside classes to "
            "whiten. Give more than one distinct sample of some class."
        )
    denominator = (1.0 - shrinkage) * within + shrinkage * unit * eye(d, within)
    return Eigenproblem(sums.total / sums.n_rows, denominator)


def solve_whitening(problem: Eigenproblem, shrinkage: float) -> Directions:
    """Solve the eigenproblem of within-class whitening, the largest eigenvalue first.

    Parameters
    ----------
    problem : Eigenproblem
        As `whitening_problem` returns it.
    shrinkage : float
        The shrinkage of the problem.

    Returns
    -------
    Directions
        All directions above rounding.
    """
    try:
        return solve_eigenproblem(problem.numerator, problem.denominator)
    except SingularFormError as error:
        raise SingularFormError(
            f"With shrinkage={shrinkage:g} the within-class scatter is singular in directions in "
            "which the rows vary, so their eigenvalues are infinite. Set a larger shrinkage (0.5 "
            "is usual), give more labelled samples, or reduce the features first, for example by "
            "GramPCA."
        ) from error
