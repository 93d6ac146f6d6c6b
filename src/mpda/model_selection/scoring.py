"""Scores of one fold: a function of the mapped training and test samples and their labels.

The accuracy, and other functions of true and predicted labels, come from one sweep over the
components that classifies with every number of them (``nearest_by_dimension``). Measures of
retrieval (``retrieval``) and functions of a user see the samples mapped to each number. Test
samples of classes that the training part does not have are searched among themselves.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.neighbors import NearestNeighbors

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.model_selection.nearest_by_dimension import classify_by_counts
from mpda.model_selection.retrieval import find_measure, score_queries
from mpda.model_selection.unseen_classes import is_unseen

Metric = Callable[[Labels, Labels], float]
"""A function of true and predicted labels; larger is better."""
MapScore = Callable[[Floats, Labels, Floats, Labels], float]
"""A function of mapped training samples, their labels, and the same of test samples."""

# None is the accuracy, which is computed for all numbers of components at once.
METRICS: dict[str, Metric | None] = {
    "accuracy": None,
    "balanced_accuracy": balanced_accuracy_score,
    "f1_macro": lambda y, predicted: float(f1_score(y, predicted, average="macro")),
}
# Positional parameters of functions: Z, y, Z_test, y_test; or y and predicted labels.
_N_MAP_PARAMETERS, _N_LABEL_PARAMETERS = 4, 2


class FoldScorer(Protocol):
    """Scores the samples of a fold for several numbers of components."""

    @property
    def is_sample_mean(self) -> bool:
        """True if the score is a mean over test samples, so that a few hundred are enough."""

    @property
    def needs_each_number(self) -> bool:
        """True if every number of components takes a search of its own."""

    @property
    def n_needed(self) -> int:
        """Smallest number of samples in which neighbours can be searched."""

    def __call__(
        self,
        Z: Floats,
        y: Labels,
        Z_test: Floats,
        y_test: Labels,
        component_counts: Sequence[int] | Ints,
    ) -> Floats:
        """Return one score for each number of components, those of the first columns.

        Parameters
        ----------
        Z : ndarray of shape (n, r)
            Mapped training samples.
        y : ndarray of shape (n,)
            Their labels.
        Z_test : ndarray of shape (m, r)
            Mapped test samples.
        y_test : ndarray of shape (m,)
            Their labels.
        component_counts : sequence of int
            Numbers of components, increasing.
        """


@dataclass(frozen=True)
class PredictionScorer:
    """Scores the predictions of nearest neighbours.

    Parameters
    ----------
    metric : callable or None
        Function of true and predicted labels; None is the accuracy.
    n_neighbors : int
        Number of neighbours that vote.
    """

    metric: Metric | None
    n_neighbors: int

    @property
    def is_sample_mean(self) -> bool:
        """Other functions of labels depend on the test samples of rare classes."""
        return self.metric is None

    @property
    def needs_each_number(self) -> bool:
        """One sweep serves all numbers."""
        return False

    @property
    def n_needed(self) -> int:
        """As many as vote."""
        return self.n_neighbors

    def __call__(
        self,
        Z: Floats,
        y: Labels,
        Z_test: Floats,
        y_test: Labels,
        component_counts: Sequence[int] | Ints,
    ) -> Floats:
        """Return the scores (len(component_counts),)."""
        if is_unseen(y, y_test):
            predicted = _classify_among_themselves(
                Z_test, y_test, component_counts, self.n_neighbors
            )
        else:
            predicted = classify_by_counts(Z, y, Z_test, component_counts, self.n_neighbors)
        if self.metric is None:
            return np.asarray(np.mean(predicted == y_test, axis=1))
        return np.array([self.metric(y_test, labels) for labels in predicted], dtype=float)


@dataclass(frozen=True)
class MapScorer:
    """Scores mapped samples by a function of them.

    Parameters
    ----------
    function : callable
        Function of mapped training samples, their labels, and the same of test samples.
    is_sample_mean : bool, default=False
        True if it is a mean over test samples.
    """

    function: MapScore
    is_sample_mean: bool = False

    @property
    def needs_each_number(self) -> bool:
        """Neighbours differ with the number of components."""
        return True

    @property
    def n_needed(self) -> int:
        """The k of a measure at k; a function of the user says nothing."""
        k = find_measure(self.function.name).k if isinstance(self.function, RetrievalScore) else 1
        return k or 1

    def __call__(
        self,
        Z: Floats,
        y: Labels,
        Z_test: Floats,
        y_test: Labels,
        component_counts: Sequence[int] | Ints,
    ) -> Floats:
        """Return the scores (len(component_counts),)."""
        scores = [self.function(Z[:, :r], y, Z_test[:, :r], y_test) for r in component_counts]
        return np.array(scores, dtype=float)


@dataclass(frozen=True)
class RetrievalScore:
    """A measure of retrieval as a function of mapped samples.

    Parameters
    ----------
    name : str
        Name of the measure, as `find_measure` takes it.
    """

    name: str

    def __call__(self, Z: Floats, y: Labels, Z_test: Floats, y_test: Labels) -> float:
        """Return the mean of the measure over the test samples that count."""
        if is_unseen(y, y_test):
            return score_queries(Z_test, y_test, measures=self.name).means[self.name]
        return score_queries(Z, y, Z_test, y_test, self.name).means[self.name]


def find_scorer(scoring: Any, n_neighbors: int = 1) -> FoldScorer:
    """Return the scorer that the parameter ``scoring`` of a search stands for.

    Parameters
    ----------
    scoring : str or callable
        As in `DiscriminantSearchCV`.
    n_neighbors : int, default=1
        Number of neighbours of the classifier.
    """
    if callable(scoring):
        n_needed, n_taken = _count_parameters(scoring)
        is_scorer = hasattr(scoring, "_score_func")  # of make_scorer
        if is_scorer or _N_LABEL_PARAMETERS < n_needed < _N_MAP_PARAMETERS:
            raise TypeError(
                "scoring as a callable must be a function of true and predicted labels, such as "
                "accuracy_score of scikit-learn, or of mapped training samples, their labels, "
                f"mapped test samples and theirs, got {scoring!r}."
            )
        if n_taken >= _N_MAP_PARAMETERS:
            return MapScorer(scoring)
        return PredictionScorer(scoring, n_neighbors)
    if isinstance(scoring, str) and scoring in METRICS:
        return PredictionScorer(METRICS[scoring], n_neighbors)
    try:
        name = find_measure(scoring).name
    except ValueError as error:
        raise ValueError(
            f"scoring must be one of {', '.join(map(repr, METRICS))}, a measure of retrieval, or a "
            f"callable, got {scoring!r} ({type(scoring).__name__}). {error}"
        ) from None
    return MapScorer(RetrievalScore(name), is_sample_mean=True)


def _count_parameters(function: Callable[..., Any]) -> tuple[int, int]:
    """Return how many positional parameters a function needs, and how many it takes.

    Both are 0 if Python cannot tell.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of some functions written in C
        return 0, 0
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional), len(positional)


def _classify_among_themselves(
    Z: Floats, y: Labels, component_counts: Sequence[int] | Ints, n_neighbors: int
) -> Labels:
    """Classify each sample by its nearest others, with some numbers of components.

    Equal votes go to the first label in order, as in ``classify_by_counts``.
    """
    labels, codes = np.unique(y, return_inverse=True)
    n = len(y)
    predicted = np.empty((len(component_counts), n), dtype=np.intp)
    for i, r in enumerate(component_counts):
        search = NearestNeighbors(n_neighbors=min(n_neighbors, n - 1), algorithm="brute")
        nearest = codes[search.fit(Z[:, :r]).kneighbors(return_distance=False)]
        votes = np.zeros((n, labels.size), dtype=np.intp)
        np.add.at(votes, (np.arange(n)[:, None], nearest), 1)
        predicted[i] = votes.argmax(axis=1)
    return np.asarray(labels[predicted])
