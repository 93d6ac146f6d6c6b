"""Scatters of differences between samples of one class and of different classes.

GMML and DMLMJ compare S, the mean outer product of differences inside classes, with D, that of
differences between classes. GMML takes all pairs of samples, DMLMJ nearest neighbours. Both work in
the span of the samples, in which no direction is constant. Depends on the validated samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky
from sklearn.neighbors import NearestNeighbors

from mpda._lib.array_types import Floats
from mpda._lib.arrays import iter_slices
from mpda._lib.samples import FitSamples
from mpda._lib.validation import load_class
from mpda.baselines.ridge_eigenproblem import add_ridge
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import range_basis
from mpda.discriminant.scatter import all_pairs_scatter
from mpda.exceptions import SingularFormError
from mpda.neighbors.graph import center

# Least ridge, relative to the mean diagonal: a singular matrix can be factorised, and ten of
# sixteen digits of a regular one are left as they are.
_LEAST_RIDGE = 1e-10
# Numbers in a block of differences: 32 MB, beside which the scatters are small.
_BLOCK_ENTRIES = 4_000_000


@dataclass(frozen=True)
class PairScatters:
    """Mean outer products of differences of samples.

    Attributes
    ----------
    similar : ndarray of shape (r, r)
        S: mean of d_ij d_ij' over pairs of one class.
    dissimilar : ndarray of shape (r, r)
        D: mean over pairs of different classes.
    basis : ndarray of shape (d, r) or None
        Axes of both matrices in the coordinates of the fit; None for these coordinates themselves.
    """

    similar: Floats
    dissimilar: Floats
    basis: Floats | None = None

    def restrict(self, total: Floats) -> PairScatters:
        """Return the scatters in the range of a scatter of all samples.

        Parameters
        ----------
        total : ndarray of shape (d, d)
            Scatter of all samples, in the coordinates of the fit.
        """
        if not np.trace(self.similar) > 0.0:
            raise SingularFormError(
                "All samples of each class are identical, so there is no difference inside classes "
                "to learn from. Give more than one distinct sample of some class."
            )
        basis = range_basis(total)
        if basis is None:
            return self
        similar, dissimilar = (basis.T @ M @ basis for M in (self.similar, self.dissimilar))
        return replace(self, similar=similar, dissimilar=dissimilar, basis=basis)

    def to_coordinates(self, vectors: Floats) -> Floats:
        """Return directions (r, q) in the coordinates of the fit (d, q)."""
        return vectors if self.basis is None else self.basis @ vectors


def all_pair_scatters(data: TrainingData) -> PairScatters:
    """Compute the mean outer products of all pairs.

    Weights are multiplicities: a pair counts w_i w_j times.

    Parameters
    ----------
    data : TrainingData
        Samples of the fit.

    Returns
    -------
    PairScatters
        In the span of the samples.
    """
    samples = data.local_samples
    Z, weights = samples.all_coordinates, samples.weights
    total = all_pairs_scatter(Z, weights)
    n_pairs = _count_pairs(np.ones(len(Z)) if weights is None else weights)
    similar, n_similar = np.zeros_like(total), 0.0
    for index, members in enumerate(samples.members):
        loaded = load_class(samples, index)
        similar += all_pairs_scatter(loaded.coordinates, loaded.weights)
        n_similar += _count_pairs(np.ones(members.size) if weights is None else weights[members])
    dissimilar = (total - similar) / max(n_pairs - n_similar, 1.0)
    return PairScatters(similar / max(n_similar, 1.0), dissimilar).restrict(total)


def _count_pairs(weights: Floats) -> float:
    """Return the number of ordered pairs of different samples, sum of w_i w_j."""
    return float(weights.sum() ** 2 - weights @ weights)


def neighbor_scatters(data: TrainingData, n_neighbors: int) -> PairScatters:
    """Compute the mean outer products of differences to nearest neighbours.

    Parameters
    ----------
    data : TrainingData
        Samples of the fit.
    n_neighbors : int
        Number of neighbours of the own class and of the other classes, cut to those that exist.

    Returns
    -------
    PairScatters
        In the span of the samples.
    """
    samples = data.local_samples
    Z = center(samples.all_coordinates)
    d = Z.shape[1]
    similar, dissimilar, n_similar, n_dissimilar = np.zeros((d, d)), np.zeros((d, d)), 0, 0
    for members in samples.members:
        is_member = np.zeros(len(Z), dtype=bool)
        is_member[members] = True
        inside, outside = Z[members], Z[~is_member]
        k_inside, k_outside = (min(n_neighbors, m) for m in (len(inside) - 1, len(outside)))
        if k_inside:
            similar += _difference_scatter(inside, inside, k_inside, skip_self=True)
        dissimilar += _difference_scatter(inside, outside, k_outside, skip_self=False)
        n_similar += len(inside) * k_inside
        n_dissimilar += len(inside) * k_outside
    scatters = PairScatters(similar / max(n_similar, 1), dissimilar / n_dissimilar)
    return scatters.restrict(Z.T @ Z)


def _difference_scatter(queries: Floats, points: Floats, k: int, *, skip_self: bool) -> Floats:
    """Return the sum of outer products (d, d) of differences to the k nearest points."""
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points)
    nearest = search.kneighbors(None if skip_self else queries, return_distance=False)
    d = queries.shape[1]
    scatter = np.zeros((d, d))
    for block in iter_slices(len(queries), _BLOCK_ENTRIES // (k * d)):
        differences = (queries[block, None, :] - points[nearest[block]]).reshape(-1, d)
        scatter += differences.T @ differences
    return scatter


def add_least_ridge(matrix: Floats, alpha: float, samples: FitSamples) -> tuple[float, Floats]:
    """Return a ridge, and the matrix with it, that leaves the matrix positive definite.

    Parameters
    ----------
    matrix : ndarray of shape (r, r)
        Positive semi-definite.
    alpha : float
        Ridge in units of the mean diagonal; 1e-10 at least is added.
    samples : FitSamples
        Samples of the fit.

    Returns
    -------
    ridge : float
        The ridge in the units of the matrix.
    ridged : ndarray of shape (r, r)
        matrix + ridge I.
    """
    return add_ridge(matrix, max(alpha, _LEAST_RIDGE), samples)


def factorize(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor (r, r), or raise an error if the matrix is singular."""
    try:
        return np.asarray(cholesky(matrix, lower=True))
    except np.linalg.LinAlgError as error:
        raise SingularFormError(
            "The scatter of differences inside classes is singular. Set a larger alpha (0.1 is "
            "usual), or reduce the features first, for example by PCA."
        ) from error
