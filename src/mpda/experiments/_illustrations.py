"""The paper's two illustrations on a generated curve: patches, and where a k-NN tangent fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpda import ManifoldPartition
from mpda._lib.array_types import Floats, Ints

N_SAMPLES = 120
N_NEIGHBORS = 2


@dataclass(frozen=True)
class Curve:
    """Samples of a plane curve, their true tangents, and two estimates of them.

    labels : (n,) the patch of each sample
    patch_tangents, neighbor_tangents : (n, 2) unit vectors by PCA of the patch of a sample, and of
        it and its nearest neighbours
    """

    X: Floats
    tangents: Floats
    labels: Ints
    patch_tangents: Floats
    neighbor_tangents: Floats
    neighbors: Ints

    @property
    def patch_angles(self) -> Floats:
        """Degrees between the true tangent and that of the patch."""
        return _degrees(self.tangents, self.patch_tangents)

    @property
    def neighbor_angles(self) -> Floats:
        return _degrees(self.tangents, self.neighbor_tangents)


def curve(seed: int = 0) -> Curve:
    """A spiral that is sampled unevenly, with a little noise across it."""
    rng = np.random.default_rng(seed)
    turn = np.sort(rng.beta(0.8, 1.4, size=N_SAMPLES)) * 2.6 * np.pi + 0.4 * np.pi
    radius = 0.4 + 0.25 * turn
    along = np.column_stack([np.cos(turn), np.sin(turn)])
    across = np.column_stack([-np.sin(turn), np.cos(turn)])
    tangents = 0.25 * along + radius[:, None] * across
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    normals = tangents[:, ::-1] * [-1.0, 1.0]
    X = radius[:, None] * along + 0.025 * rng.normal(size=(N_SAMPLES, 1)) * normals
    labels = ManifoldPartition().fit_predict(X)
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    neighbors = np.argsort(gaps, axis=1, kind="stable")[:, 1 : N_NEIGHBORS + 1]
    by_patch = np.array([_tangent(X[labels == label]) for label in labels])
    by_neighbors = np.array([_tangent(X[[i, *row]]) for i, row in enumerate(neighbors)])
    return Curve(X, tangents, labels, by_patch, by_neighbors, neighbors)


def _tangent(X: Floats) -> Floats:
    return np.asarray(np.linalg.svd(X - X.mean(axis=0))[2][0])


def _degrees(one: Floats, other: Floats) -> Floats:
    return np.degrees(np.arccos(np.clip(np.abs(np.sum(one * other, axis=1)), 0.0, 1.0)))
