"""Training and test samples, and what is done to the features before a method sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from mpda._lib.array_types import Floats, Labels
from mpda._lib.coordinates import scale_exponent
from mpda._lib.threads import one_blas_thread
from mpda.model_selection.nearest_by_dimension import nearest_by_dimension

# PCA to this share of the variance, fitted to the training part, where there are more features.
PCA_ENERGY = 0.95
PCA_MIN_FEATURES = 100
# As many samples decide whether features are standardised.
_JUDGES = 4000


@dataclass(frozen=True)
class Split:
    """Training and test samples with their labels."""

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels


@dataclass(frozen=True)
class Preprocessing:
    """Steps before the method, fitted to the training part.

    scaled : whether every feature is brought to mean 0 and standard deviation 1
    energy : the share of the variance that PCA keeps, None for no PCA
    """

    scaled: bool = False
    energy: float | None = None

    def steps(self) -> list[tuple[str, Any]]:
        """Named steps of a pipeline."""
        scale = [("scale", StandardScaler())] if self.scaled else []
        reduce = [("pca", PCA(self.energy, svd_solver="full"))] if self.energy is not None else []
        return [*scale, *reduce]

    def applied(self, part: Split) -> Split:
        for _, step in self.steps():
            X = step.fit_transform(part.X)
            part = Split(X, part.y, step.transform(part.X_test), part.y_test)
        return part


def default_pca_energy(n_features: int) -> float | None:
    """As in the paper: PCA where there are many features."""
    return PCA_ENERGY if n_features > PCA_MIN_FEATURES else None


def reduce_by_pca(part: Split) -> Split:
    """After PCA fitted to the training part, where there are many features."""
    return Preprocessing(energy=default_pca_energy(part.X.shape[1])).applied(part)


def better_scaled(X: Floats, y: Labels, seed: int) -> bool:
    """Whether a sample has the label of its nearest other sample more often after standardising.

    Where there are many samples, of some of them. No method has a say in it, so that all of a
    comparison get the same features.
    """
    if len(X) > _JUDGES:
        drawn = np.sort(np.random.default_rng(seed).choice(len(X), _JUDGES, replace=False))
        X, y = X[drawn], y[drawn]
    X = np.ldexp(X, -scale_exponent(X))  # so that squares stay in range
    return _own_errors(StandardScaler().fit_transform(X), y) < _own_errors(X, y)


def _own_errors(X: Floats, y: Labels) -> int:
    """Samples whose nearest other sample has another label."""
    search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(X)
    with one_blas_thread():  # as the search wants it: threads must not put it back by turns
        nearest = search.kneighbors(return_distance=False)
    return int(np.count_nonzero(y[nearest[:, 0]] != y))


def one_nn(part: Split) -> Labels:
    """The labels that 1-NN on the samples as they are gives to the test part."""
    nearest = nearest_by_dimension(part.X, part.X_test, first=part.X.shape[1])
    return np.asarray(part.y[nearest[0]])
