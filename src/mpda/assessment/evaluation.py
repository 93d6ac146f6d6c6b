"""Evaluation of a fitted model on labelled samples.

The error is that of 1-NN in the space of the model: among the training samples if the model keeps
them and has one of the classes, among the other samples of the file (leave-one-out) if not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from mpda._lib.array_types import Array, Bools, Floats, Ints, Labels
from mpda._lib.fingerprints import fingerprint_rows
from mpda.assessment.column_transformer import encode_columns
from mpda.assessment.retrieval_estimates import measure_search
from mpda.assessment.significance import error_interval
from mpda.model_selection.unseen_classes import is_unseen

FINGERPRINTS = "sample_fingerprints_"
"""Attribute of a model's classifier: fingerprints (n_samples,) of the training samples."""

# Models without fingerprints: largest difference of two equal samples in any component, relative to
# the length of the mapped sample, by the precision of the map. Rounding of a map is some hundred
# units in the last place where the mean of the features is far from zero.
_ROUNDING = {4: 1e-5, 8: 1e-11}


@dataclass(frozen=True)
class Evaluation:
    """Predictions of 1-NN for samples that a model mapped.

    Parameters
    ----------
    Z : array of shape (n_samples, n_components)
        Mapped samples.
    y, predicted : array of shape (n_samples,)
        True and predicted labels.
    leave_one_out : bool
        True if neighbours were searched among the other samples, because the model keeps none, or
        none of their classes.
    is_training_sample : array of bool of shape (n_samples,)
        Samples that are equal to a training sample.
    unknown_labels : array
        Labels that are no classes of the model.
    """

    Z: Array
    y: Labels
    predicted: Labels
    leave_one_out: bool
    is_training_sample: Bools
    unknown_labels: Labels

    @property
    def n_wrong(self) -> int:
        """Number of misclassified samples."""
        return int(np.count_nonzero(self.y != self.predicted))

    @property
    def n_training_samples(self) -> int:
        """Number of samples that are equal to a training sample."""
        return int(np.count_nonzero(self.is_training_sample))

    @property
    def error(self) -> float:
        """Error in per cent."""
        return 100.0 * self.n_wrong / len(self.y)

    @property
    def error_of_new(self) -> float:
        """Error in per cent without training samples, nan if there are no others."""
        wrong = (self.y != self.predicted)[~self.is_training_sample]
        return 100.0 * float(wrong.mean()) if wrong.size else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval (95 %, Wilson) of the error in per cent."""
        return error_interval(self.y != self.predicted)


def evaluate_model(model: Any, X: Any, y: Labels) -> Evaluation:
    """Classify labelled samples by 1-NN in the space of a fitted model.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline. If it ends in a nearest-neighbour classifier, that one predicts.
    X : array or data frame of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels. They are compared as text where the model has labels of another type.

    Returns
    -------
    Evaluation
        Predictions and errors.
    """
    classifier = model.steps[-1][1]
    if not isinstance(classifier, KNeighborsClassifier):
        return _leave_one_out(np.asarray(model.transform(X)), y, y[:0])
    Z = np.asarray(model[:-1].transform(X))
    # A training sample is its own nearest neighbour, which makes the error too low.
    is_training_sample = _find_training_samples(classifier, encode_columns(model, X), Z)
    y, predicted = unify_labels(y, classifier.predict(Z))
    classes = unify_labels(y, classifier.classes_)[1]
    unknown = np.setdiff1d(y, classes)
    if is_unseen(classes, y):  # as in the folds of UnseenClassFolds
        return _leave_one_out(Z, y, unknown)
    return Evaluation(Z, y, predicted, False, is_training_sample, unknown)


def _leave_one_out(Z: Array, y: Labels, unknown: Labels) -> Evaluation:
    """Classify each sample by the nearest of the others."""
    nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(Z)
    predicted = y[nearest.kneighbors(return_distance=False)[:, 0]]
    return Evaluation(Z, y, predicted, True, np.zeros(len(y), dtype=bool), unknown)


def search_training_samples(
    model: Any, evaluation: Evaluation, queries: Ints
) -> dict[str, Floats] | None:
    """Search the training samples that a model keeps.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.
    evaluation : Evaluation
        Mapped samples and their labels.
    queries : ndarray of int of shape (n_queries,)
        Indices of the samples that are queries.

    Returns
    -------
    dict of str to ndarray of shape (n_queries,), or None
        Values of `mpda.assessment.retrieval_estimates.MEASURES`. None if the model keeps no
        samples.
    """
    classifier = model.steps[-1][1]
    if not isinstance(classifier, KNeighborsClassifier):
        return None
    # scikit-learn has no public names for the samples of a classifier and their labels.
    y, labels = unify_labels(evaluation.y, classifier.classes_[classifier._y])
    return measure_search(np.asarray(classifier._fit_X), labels, evaluation.Z[queries], y[queries])


@dataclass(frozen=True)
class Classification:
    """Labels of new samples by their nearest neighbours in the space of a model.

    Parameters
    ----------
    labels : array of shape (n_samples,)
        Predicted labels.
    distances : array of shape (n_samples,)
        Distances of the nearest training samples.
    agreement : array of shape (n_samples,)
        Shares of the nearest training samples that have the predicted label.
    """

    labels: Labels
    distances: Array
    agreement: Array


def classify_samples(model: Any, X: Any, n_votes: int, n_compared: int) -> Classification:
    """Classify samples by the nearest training samples that a model keeps.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline that ends in a nearest-neighbour classifier.
    X : array or data frame of shape (n_samples, n_features)
        Samples.
    n_votes : int
        Number of neighbours that vote. Of labels with equally many votes the nearest one wins.
    n_compared : int
        Number of neighbours among which agreement is counted, at least ``n_votes``.

    Returns
    -------
    Classification
        Labels with distances and agreement. There are no more neighbours than training samples.
    """
    classifier = model.steps[-1][1]
    Z = np.asarray(model[:-1].transform(X))
    n_fit = classifier.n_samples_fit_
    n_compared, n_votes = min(n_compared, n_fit), min(n_votes, n_fit)
    distances, nearest = classifier.kneighbors(Z, n_neighbors=n_compared)
    # scikit-learn has no public name for the labels of the samples.
    codes = np.asarray(classifier._y)[nearest]
    votes = [(codes[:, :n_votes] == codes[:, [j]]).sum(axis=1) for j in range(n_votes)]
    winner = np.argmax(votes, axis=0)  # the first of the largest, hence the nearest
    chosen = codes[np.arange(len(codes)), winner]
    agreement = (codes == chosen[:, None]).mean(axis=1)
    return Classification(classifier.classes_[chosen], distances[:, 0], agreement)


def _find_training_samples(classifier: KNeighborsClassifier, X: Any, Z: Array) -> Bools:
    """Return True (n,) for samples X, mapped to Z, that the model was fitted to."""
    fingerprints = getattr(classifier, FINGERPRINTS, None)
    if fingerprints is not None:
        return np.isin(fingerprint_rows(X), fingerprints)
    # scikit-learn has no public name for the samples of a classifier.
    nearest = classifier.kneighbors(Z, n_neighbors=1, return_distance=False)[:, 0]
    differences = np.abs(Z - np.asarray(classifier._fit_X)[nearest]).max(axis=1)
    return np.asarray(differences <= _ROUNDING[Z.dtype.itemsize] * np.linalg.norm(Z, axis=1))


def unify_labels(y: Labels, other: Labels) -> tuple[Labels, Labels]:
    """Return labels that can be compared; a file may hold the text "1" for the number 1.

    Parameters
    ----------
    y, other : array-like of shape (n_samples,)
        Labels of two sources.

    Returns
    -------
    tuple of two ndarrays
        Both as text, unless they are of one kind.
    """
    y, other = np.asarray(y), np.asarray(other)
    kinds = {y.dtype.kind, other.dtype.kind}
    if len(kinds) == 1 or kinds <= set("iuf"):
        return y, other
    return y.astype(str), other.astype(str)
