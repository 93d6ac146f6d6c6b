"""Illustration on a generated curve: tangents by patches and by nearest neighbours.

The paper's figures show that PCA of a patch of the partition finds the tangent of a manifold where
PCA of a sample and its k nearest neighbours, here k = 2, follows the noise.
"""

from dataclasses import dataclass

import numpy as np

from mpda import ManifoldPartition
from mpda._lib.array_types import Floats, Ints

# Enough for 16 patches, few enough to see every sample in the figure.
_N_SAMPLES = 120
# One neighbour on either side of a sample, where the samples are evenly spaced.
_N_NEIGHBORS = 2


@dataclass(frozen=True)
class TangentCurve:
    """Samples of a plane curve with estimated tangents and their errors.

    Parameters
    ----------
    X : ndarray of shape (n, 2)
        Samples.
    labels : ndarray of shape (n,)
        Patch of each sample.
    patch_tangents : ndarray of shape (n, 2)
        Unit vectors by PCA of the patch of each sample.
    patch_angles : ndarray of shape (n,)
        Degrees between these and the tangents of the curve.
    neighbors : ndarray of shape (n, n_neighbors)
        Indices of the nearest neighbours.
    neighbor_tangents : ndarray of shape (n, 2)
        Unit vectors by PCA of each sample and its nearest neighbours.
    neighbor_angles : ndarray of shape (n,)
        Degrees between these and the tangents of the curve.
    """

    X: Floats
    labels: Ints
    patch_tangents: Floats
    patch_angles: Floats
    neighbors: Ints
    neighbor_tangents: Floats
    neighbor_angles: Floats


def draw_curve(n_neighbors: int = _N_NEIGHBORS) -> TangentCurve:
    """Draw a spiral with uneven density and a little noise across it.

    Parameters
    ----------
    n_neighbors : int, default=2
        Number of neighbours of a sample whose first axis estimates its tangent.

    Returns
    -------
    TangentCurve
        120 samples, their partition, and true and estimated tangents.
    """
    rng = np.random.default_rng(0)
    # The spiral r = 0.4 + 0.25 t over 1.3 turns. Density and noise (0.025) are such that gaps
    # between neighbours are about as long as the noise is wide, where a k-NN tangent fails.
    turn = np.sort(rng.beta(0.8, 1.4, size=_N_SAMPLES)) * 2.6 * np.pi + 0.4 * np.pi
    radius = 0.4 + 0.25 * turn
    radial = np.column_stack([np.cos(turn), np.sin(turn)])
    circular = np.column_stack([-np.sin(turn), np.cos(turn)])
    tangents = 0.25 * radial + radius[:, None] * circular
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    normals = tangents[:, ::-1] * [-1.0, 1.0]
    X = radius[:, None] * radial + 0.025 * rng.normal(size=(_N_SAMPLES, 1)) * normals
    labels = ManifoldPartition().fit_predict(X)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    # The first column is the sample itself.
    neighbors = np.argsort(distances, axis=1, kind="stable")[:, 1 : n_neighbors + 1]
    by_patch = np.array([_first_axis(X[labels == label]) for label in labels])
    by_neighbors = np.array([_first_axis(X[[i, *row]]) for i, row in enumerate(neighbors)])
    angles = _compute_angles(tangents, by_patch), _compute_angles(tangents, by_neighbors)
    return TangentCurve(X, labels, by_patch, angles[0], neighbors, by_neighbors, angles[1])


def _first_axis(points: Floats) -> Floats:
    return np.asarray(np.linalg.svd(points - points.mean(axis=0))[2][0])


def _compute_angles(directions: Floats, others: Floats) -> Floats:
    # A tangent has no sign, so the angle is at most 90 degrees; rounding may exceed a cosine of 1.
    cosines = np.abs(np.sum(directions * others, axis=1))
    return np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0)))
