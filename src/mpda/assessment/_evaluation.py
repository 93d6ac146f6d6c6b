"""A fitted model on samples with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from mpda._lib.array_types import Array, Bools, Labels


@dataclass(frozen=True)
class Evaluation:
    """What 1-NN makes of samples that a model maps.

    Z : (n, r) the samples mapped
    y, predicted : (n,) labels
    within : whether the neighbours are the other samples, because the model keeps none
    known : (n,) which samples coincide with one that the model was fitted to
    strange : labels that the model does not know
    """

    Z: Array
    y: Labels
    predicted: Labels
    within: bool
    known: Bools
    strange: Labels

    @property
    def n_wrong(self) -> int:
        return int(np.count_nonzero(self.y != self.predicted))

    @property
    def n_known(self) -> int:
        return int(np.count_nonzero(self.known))

    @property
    def error_of_new(self) -> float:
        """In per cent, of the samples that the model was not fitted to; nan without any."""
        wrong = (self.y != self.predicted)[~self.known]
        return 100.0 * float(wrong.mean()) if wrong.size else float("nan")

    @property
    def error(self) -> float:
        """In per cent."""
        return 100.0 * self.n_wrong / len(self.y)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the error."""
        found = stats.binomtest(self.n_wrong, len(self.y)).proportion_ci(method="wilson")
        return 100.0 * float(found.low), 100.0 * float(found.high)


def evaluate_model(model: Any, X: Any, y: Labels) -> Evaluation:
    """1-NN among the samples that a pipeline keeps, or among the others where it keeps none."""
    last = model.steps[-1][1]
    if not isinstance(last, KNeighborsClassifier):
        Z = np.asarray(model.transform(X))
        nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(Z)
        predicted = y[nearest.kneighbors(return_distance=False)[:, 0]]
        return Evaluation(Z, y, predicted, True, np.zeros(len(y), dtype=bool), y[:0])
    Z = np.asarray(model[:-1].transform(X))
    distances = last.kneighbors(Z, n_neighbors=1)[0]
    # Distances to oneself are not 0 but for rounding of squares.
    scale = np.abs(Z).max(initial=0.0)
    known = distances[:, 0] <= 1e-6 * scale
    y, predicted = _of_one_kind(y, last.predict(Z))
    strange = np.setdiff1d(y, _of_one_kind(y, last.classes_)[1])
    return Evaluation(Z, y, predicted, False, known, strange)


def _of_one_kind(y: Labels, predicted: Labels) -> tuple[Labels, Labels]:
    """Labels that can be compared: one file may say 1 where another has the word 1."""
    y, predicted = np.asarray(y), np.asarray(predicted)
    numbers = "iuf"
    if y.dtype.kind == predicted.dtype.kind or {y.dtype.kind, predicted.dtype.kind} <= {*numbers}:
        return y, predicted
    return y.astype(str), predicted.astype(str)
