"""Directions of largest Jeffrey divergence (DMLMJ, Nguyen et al. 2017).

S and D are the scatters of differences to neighbours of the own and of other classes. As
covariances of two normal distributions they have the Jeffrey divergence 1/2 sum_r (lambda_r +
1 / lambda_r - 2) in the eigenvectors of D t = lambda S t. Depends on ``pair_scatters``.
"""

import numpy as np
from scipy.linalg import eigh, solve_triangular

from mpda._lib.arrays import EPSILON
from mpda.baselines.pair_scatters import add_least_ridge, factorize, neighbor_scatters
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Directions, fix_signs


def jeffrey_directions(data: TrainingData, n_neighbors: int, alpha: float) -> Directions:
    """Solve D t = lambda S t, with the largest lambda + 1 / lambda first.

    Parameters
    ----------
    data : TrainingData
        Samples of the fit.
    n_neighbors : int
        Number of neighbours of each kind.
    alpha : float
        Ridge on S and D, in units of the mean diagonal of S.

    Returns
    -------
    Directions
        Eigenvalues lambda, and vectors with t'(S + ridge I)t = 1, in the units of the samples.
    """
    scatters = data.cached(neighbor_scatters, n_neighbors)
    # The same ridge on both: without differences of either kind a direction has lambda = 1, the
    # least divergence. A ridge on S alone would make its 1 / lambda the largest.
    ridge, similar = add_least_ridge(scatters.similar, alpha, data.samples)
    unit = float(np.diagonal(similar).max())
    L = factorize(similar / unit)
    D = (scatters.dissimilar + ridge * np.eye(len(L))) / unit
    half = solve_triangular(L, D, lower=True)
    whitened = solve_triangular(L, half.T, lower=True)
    values, axes = eigh(0.5 * (whitened + whitened.T))
    # D is positive definite: smaller eigenvalues are rounding.
    values = np.maximum(values, EPSILON * values[-1])
    order = np.argsort(-(values + 1.0 / values), kind="stable")
    vectors = solve_triangular(L, axes[:, order], lower=True, trans="T") / np.sqrt(unit)
    vectors = data.samples.coordinates.to_components(scatters.to_coordinates(vectors))
    return Directions(values[order], fix_signs(vectors))
