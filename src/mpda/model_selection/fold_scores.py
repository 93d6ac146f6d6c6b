"""The scores of one fold: every grid point and every number of components."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.estimators._discriminant import TangentDiscriminant
from mpda.estimators._eigen_method import EigenMethod
from mpda.estimators._samples import LabelledSamples
from mpda.estimators._scale import Scale
from mpda.model_selection.grid import Dimensions, SearchGrid, last_step
from mpda.model_selection.nearest_by_dimension import nearest_by_dimension
from mpda.model_selection.walk import Solved, walk

Score = Callable[[Labels, Labels], float]


@dataclass(frozen=True)
class FoldScores:
    """scores : (points, dimensions) of one fold, nan where there is none; seconds : (points,)"""

    scores: Floats
    seconds: Floats
    failures: list[str]
    small_classes: list[str]
    n_points: int


def fold_scores(
    estimator: Any,
    X: Any,
    y: Labels,
    train: Ints,
    test: Ints,
    number: int,
    grid: SearchGrid,
    wanted: Dimensions,
    score: Score | None,
    report: bool = False,
) -> FoldScores:
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        earlier = clone(Pipeline(estimator.steps[:-1]))
        X_train = earlier.fit_transform(X_train, y[train])
        X_test = earlier.transform(X_test)
    method = clone(last_step(estimator)).set_params(n_components=None)
    samples = method._labelled(X_train, y[train])
    found = PointScores(samples, np.asarray(X_test, dtype=np.float64), y[test], wanted.most, score)
    seconds = np.zeros(len(grid.points))
    failures: list[str] = []
    begin = said = time.perf_counter()
    for solved in walk(method, samples, grid.points, wanted):
        if solved.failure is not None:
            failures += [solved.failure] * len(solved.points)
        else:
            found.add(solved)
        seconds[solved.points] += (time.perf_counter() - begin) / len(solved.points)
        begin = time.perf_counter()
        if report and begin - said >= 2.0:
            done = np.count_nonzero(seconds)
            print(f"fold {number}: {done}/{len(grid.points)} grid points", file=sys.stderr)
            said = begin
    small = _small_classes(samples, grid.points, method, number)
    return FoldScores(found.table(len(grid.points)), seconds, failures, small, len(grid.points))


class PointScores:
    """The scores of one fold by grid point and number of components."""

    def __init__(
        self,
        samples: LabelledSamples,
        X_test: Floats,
        y_test: Labels,
        most: int | None,
        score: Score | None,
    ) -> None:
        mean = samples.X.mean(axis=0, dtype=np.float64)
        self._X, self._X_test = samples.X - mean, X_test - mean
        self._y, self._y_test = samples.y, y_test
        self._most = most
        self._score = score
        self._found: list[tuple[int, int, Floats]] = []

    def add(self, solved: Solved) -> None:
        assert solved.directions is not None
        kept = solved.directions.first(self._most or solved.directions.eigenvalues.size)
        plain = Scale(0.0, unit=False, orthonormal=False)
        for point, scale in zip(solved.points, solved.scales, strict=True):
            columns = kept.vectors if scale == plain else scale.applied(kept)
            start = solved.places.start if solved.places else 0
            columns = columns[:, : solved.places.stop if solved.places else None]
            if columns.shape[1] <= start:
                continue
            nearest = nearest_by_dimension(self._X @ columns, self._X_test @ columns, start + 1)
            self._found.append((point, start, self._scored(self._y[nearest])))

    def _scored(self, predicted: Labels) -> Floats:
        if self._score is None:
            return np.asarray(np.mean(predicted == self._y_test, axis=1))
        return np.array([self._score(self._y_test, each) for each in predicted], dtype=float)

    def table(self, n_points: int) -> Floats:
        width = max((start + values.size for _, start, values in self._found), default=0)
        table = np.full((n_points, width), np.nan)
        for point, start, values in self._found:
            table[point, start : start + values.size] = values
        return table


def _small_classes(
    samples: LabelledSamples, points: list[dict[str, Any]], method: Any, number: int
) -> list[str]:
    """Classes of a fold with too few samples for the largest number of neighbours."""
    looks_inside_classes = isinstance(method, TangentDiscriminant) or (
        isinstance(method, EigenMethod) and type(method)._warn is not EigenMethod._warn
    )
    if not looks_inside_classes:
        return []
    most = max(point.get("n_neighbors", method.n_neighbors) for point in points)
    return [
        f"class {label!r} of fold {number} ({members.size} in all)"
        for label, members in zip(samples.classes.tolist(), samples.members, strict=True)
        if members.size <= most
    ]
