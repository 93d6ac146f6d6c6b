"""The weighted geometric mean of two scatters (geometric mean metric learning, Zadeh et al. 2016).

A = S^-1 #_t D = S^-1/2 (S^1/2 D S^1/2)^t S^-1/2 is the point at t on the geodesic from S^-1 to D.
With S = L L' it is A = L^-T (L'DL)^t L^-1, so one eigendecomposition of L'DL serves every t.
Depends on ``pair_scatters``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve_triangular

from mpda._lib.array_types import Floats
from mpda._lib.arrays import EPSILON
from mpda.baselines.pair_scatters import add_least_ridge, all_pair_scatters, factorize
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Directions, fix_signs


@dataclass(frozen=True)
class GeodesicSpectrum:
    """Cholesky factor of S and eigendecomposition of L'DL, both matrices with a diagonal near 1.

    Attributes
    ----------
    factor : ndarray of shape (r, r)
        L, lower triangular, with S = similar_unit L L'.
    values : ndarray of shape (r,)
        Eigenvalues of L'DL / dissimilar_unit, increasing, at least 0.
    vectors : ndarray of shape (r, r)
        Eigenvectors as columns.
    similar_unit, dissimilar_unit : float
        Factors that are taken out of S and D.
    """

    factor: Floats
    values: Floats
    vectors: Floats
    similar_unit: float
    dissimilar_unit: float


def geodesic_spectrum(data: TrainingData, alpha: float) -> GeodesicSpectrum:
    """Compute what all points of the geodesic share.

    Parameters
    ----------
    data : TrainingData
        Samples of the fit.
    alpha : float
        Ridge on S, in units of its mean diagonal.

    Returns
    -------
    GeodesicSpectrum
        Factor and eigenvalues, in the span of the samples.
    """
    scatters = data.cached(all_pair_scatters)
    similar = add_least_ridge(scatters.similar, alpha, data.samples)[1]
    units = [float(np.diagonal(M).max()) or 1.0 for M in (similar, scatters.dissimilar)]
    L = factorize(similar / units[0])
    values, vectors = eigh(L.T @ (scatters.dissimilar / units[1]) @ L)
    # D has no negative eigenvalues, except by rounding.
    return GeodesicSpectrum(L, np.maximum(values, 0.0), vectors, *units)


def geodesic_axes(data: TrainingData, alpha: float, geodesic: float) -> Directions:
    """Compute the axes of the metric A = S^-1 #_t D.

    Parameters
    ----------
    data : TrainingData
        Samples of the fit.
    alpha : float
        Ridge on S, in units of its mean diagonal.
    geodesic : float
        Position t from 0 to 1.

    Returns
    -------
    Directions
        Eigenvalues of A above rounding, decreasing, and its orthogonal eigenvectors times the
        square root of their eigenvalue, in the units of the samples.
    """
    spectrum = data.cached(geodesic_spectrum, alpha)
    # A = G G' with G = L^-T V values^(t/2).
    powers = spectrum.vectors * spectrum.values ** (0.5 * geodesic)
    G = solve_triangular(spectrum.factor, powers, lower=True, trans="T")
    axes, lengths, _ = np.linalg.svd(G)
    kept = lengths > len(lengths) * EPSILON * lengths[0]
    # (u S)^-1 #_t (v D) = u^(t-1) v^t (S^-1 #_t D): the unit of A is restored here.
    t, coordinates = geodesic, data.samples.coordinates
    power = t * np.log2(spectrum.dissimilar_unit) - (1.0 - t) * np.log2(spectrum.similar_unit)
    unit = np.exp2(0.5 * power + (2.0 * t - 1.0) * coordinates.exponent)
    vectors = data.cached(all_pair_scatters).to_coordinates(axes[:, kept] * lengths[kept] * unit)
    vectors = fix_signs(coordinates.rotate_back(vectors))
    return Directions((lengths[kept] * unit) ** 2, vectors)
