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

from mpda._lib.array_types import Floats, Ints
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
    Z = center(data.local_samples.all_coordinates)
    # Lists are sorted, so those of the largest k of a search hold all shorter ones.
    lists = data.cached(_search_classes, max(n_neighbors, data.max_neighbors))
    d = Z.shape[1]
    similar, dissimilar, n_similar, n_dissimilar = np.zeros((d, d)), np.zeros((d, d)), 0, 0
    for members, (own, other) in zip(data.local_samples.members, lists, strict=True):
        own, other = own[:, :n_neighbors], other[:, :n_neighbors]
        similar += _difference_scatter(Z, members, own)
        dissimilar += _difference_scatter(Z, members, other)
        n_similar += own.size
        n_dissimilar += other.size
    scatters = PairScatters(similar / max(n_similar, 1), dissimilar / n_dissimilar)
    return scatters.restrict(Z.T @ Z)


def _search_classes(data: TrainingData, n_neighbors: int) -> list[tuple[Ints, Ints]]:
    """Return the nearest samples of the own class and of the others, for each class.

    Both arrays have a row for each member of the class and at most k columns, nearest first.
    """
    Z = center(data.local_samples.all_coordinates)
    lists = []
    for members in data.local_samples.members:
        others = np.setdiff1d(np.arange(len(Z)), members, assume_unique=True)
        k_own, k_other = (min(n_neighbors, n) for n in (members.size - 1, others.size))
        own = np.empty((members.size, 0), dtype=np.intp)
        if k_own:
            search = NearestNeighbors(n_neighbors=k_own, algorithm="brute").fit(Z[members])
            own = members[search.kneighbors(return_distance=False)]
        search = NearestNeighbors(n_neighbors=k_other, algorithm="brute").fit(Z[others])
        lists.append((own, others[search.kneighbors(Z[members], return_distance=False)]))
    return lists


def _difference_scatter(Z: Floats, members: Ints, nearest: Ints) -> Floats:
    """Return the sum of outer products (d, d) of differences of members (m,) to samples (m, k)."""
    d = Z.shape[1]
    scatter = np.zeros((d, d))
    for block in iter_slices(members.size, _BLOCK_ENTRIES // max(1, nearest.shape[1] * d)):
        differences = (Z[members[block], None, :] - Z[nearest[block]]).reshape(-1, d)
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
