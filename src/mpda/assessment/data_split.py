"""Training and test samples, and the preprocessing that is fitted to the training samples.

The paper reduces features by PCA to 95 % of the variance where there are more than 100 of them.
`preparation` decides whether that and standardisation are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize

from mpda._lib.array_types import Floats, Labels
from mpda._lib.threads import one_blas_thread
from mpda._lib.validation import feature_range, scale_exponent
from mpda.assessment.contender import Step
from mpda.estimators._gram_pca import GramPCA
from mpda.model_selection.nearest_by_dimension import nearest_by_counts

# Share of the variance that PCA keeps, and the number of features above which it is used: both
# are the paper's protocol.
PCA_ENERGY = 0.95
PCA_MIN_FEATURES = 100
# Samples that decide about standardisation. The search is quadratic in them; 4000 take about a
# second, and an error estimated from 4000 samples is accurate to less than one point.
_MAX_JUDGES = 4000


@dataclass(frozen=True)
class Split:
    """Training and test samples with their labels.

    Parameters
    ----------
    X : array of shape (n_training_samples, n_features)
        Training samples.
    y : array of shape (n_training_samples,)
        Their labels.
    X_test : array of shape (n_test_samples, n_features)
        Test samples.
    y_test : array of shape (n_test_samples,)
        Their labels.
    groups : array of shape (n_training_samples,) or None, default=None
        Groups of the training samples, which folds do not divide.
    """

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels
    groups: Labels | None = None


def make_preprocessing(*, scaled: bool, energy: float | None, tall: bool = False) -> list[Step]:
    """Return the steps before the method, as named steps of a scikit-learn pipeline.

    Parameters
    ----------
    scaled : bool
        True standardises every feature to mean 0 and standard deviation 1.
    energy : float or None
        Share of the variance that PCA keeps. None stands for no PCA.
    tall : bool, default=False
        True if there are more samples than features: `GramPCA` is then several times as fast.

    Returns
    -------
    list of (str, transformer)
        Not fitted. Empty where nothing is done.
    """
    # Scaled before PCA, which would otherwise keep the features of large units only.
    scale = [("scale", StandardScaler())] if scaled else []
    if energy is None:
        return [*scale]
    return [*scale, ("pca", GramPCA(energy) if tall else PCA(energy, svd_solver="full"))]


def preprocess(split: Split, steps: Sequence[Step]) -> Split:
    """Fit steps to the training samples and transform training and test samples.

    Parameters
    ----------
    split : Split
        Samples as they were read.
    steps : sequence of (str, transformer)
        As `make_preprocessing` returns them. They are fitted in place.

    Returns
    -------
    Split
        Transformed samples with the same labels.
    """
    for _, step in steps:
        X = step.fit_transform(split.X)
        split = Split(X, split.y, step.transform(split.X_test), split.y_test)
    return split


def scale_to_unit_length(split: Split) -> Split:
    """Scale samples to length 1, so that nearest samples are those of the largest cosine.

    Parameters
    ----------
    split : Split
        Samples as they were read.

    Returns
    -------
    Split
        Scaled samples with the same labels. Samples of zeros stay as they are.
    """
    return Split(normalize(split.X), split.y, normalize(split.X_test), split.y_test)


def default_pca_energy(n_features: int) -> float | None:
    """Return the share of the variance that PCA keeps by default.

    Parameters
    ----------
    n_features : int
        Number of features.

    Returns
    -------
    float or None
        0.95 above 100 features, as in the paper. None stands for no PCA.
    """
    return PCA_ENERGY if n_features > PCA_MIN_FEATURES else None


def reduce_by_pca(split: Split) -> Split:
    """Apply the PCA of the paper's protocol, fitted to the training samples.

    Parameters
    ----------
    split : Split
        Samples as they were read.

    Returns
    -------
    Split
        Unchanged for up to 100 features.
    """
    energy = default_pca_energy(split.X.shape[1])
    return preprocess(split, make_preprocessing(scaled=False, energy=energy))


class ScalingErrors(NamedTuple):
    """Shares of errors of leave-one-out 1-NN.

    Parameters
    ----------
    raw : float
        On the features as they are.
    scaled : float
        On standardised features.
    """

    raw: float
    scaled: float


def measure_scaling(X: Floats, y: Labels, seed: int) -> ScalingErrors:
    """Measure leave-one-out 1-NN on features as they are, and standardised.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Training samples. At most 4000 of them, drawn at random, decide.
    y : array of shape (n_samples,)
        Labels.
    seed : int
        Seed of the draw.

    Returns
    -------
    ScalingErrors
        Both errors.
    """
    if len(X) > _MAX_JUDGES:
        drawn = np.sort(np.random.default_rng(seed).choice(len(X), _MAX_JUDGES, replace=False))
        X, y = X[drawn], y[drawn]
    # A scaling by a power of two keeps squared distances in the floating-point range, without
    # rounding.
    X = np.ldexp(X, -scale_exponent(*feature_range(X)))
    scaled = StandardScaler().fit_transform(X)
    return ScalingErrors(_leave_one_out_error(X, y), _leave_one_out_error(scaled, y))


def _leave_one_out_error(X: Floats, y: Labels) -> float:
    search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(X)
    with one_blas_thread():
        nearest = search.kneighbors(return_distance=False)  # the sample itself is left out
    return float(np.mean(y[nearest[:, 0]] != y))


def classify_test_samples(split: Split) -> Labels:
    """Classify the test samples by 1-NN among the training samples.

    Parameters
    ----------
    split : Split
        Samples in the space of the search.

    Returns
    -------
    array of shape (n_test_samples,)
        Predicted labels.
    """
    nearest = nearest_by_counts(split.X, split.X_test, [split.X.shape[1]])
    return np.asarray(split.y[nearest[0]])
