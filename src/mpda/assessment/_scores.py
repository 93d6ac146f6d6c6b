"""One contender on one split: what cross-validation chooses, and the errors on the test part."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.assessment._contender import Contender
from mpda.assessment._split import Split, one_nn
from mpda.model_selection import DiscriminantSearchCV, classification_curve

FoldResult = dict[str, Any]
Folds = list[tuple[Ints, Ints]]


@dataclass(frozen=True)
class Selection:
    """Parameters of a grid point, and a number of components."""

    point: dict[str, Any]
    dimension: int


Chooser = Callable[[Contender, Floats, Labels], Selection]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of grid points and numbers of components, mean over folds; nan where there is none."""

    points: list[dict[str, Any]]
    dimensions: Ints
    scores: Floats

    def best(self) -> Selection:
        """The point and number of components of the best score; at a tie fewer components."""
        found = np.where(np.isnan(self.scores), -np.inf, self.scores)
        place = int(np.flatnonzero((found >= found.max() - 1e-12).any(axis=0))[0])
        return Selection(self.points[int(np.argmax(found[:, place]))], int(self.dimensions[place]))


def assess_baseline(part: Split) -> FoldResult:
    """The row of 1-NN on the samples as they are."""
    d = part.X.shape[1]
    wrong = int(np.count_nonzero(one_nn(part) != part.y_test))
    about = {"parameters": {}, "cv_dimension": d}
    return {**about, "dimensions": [d], "wrong": [wrong], "n_test": len(part.y_test)}


def assess_split(contender: Contender, part: Split, choose: Chooser) -> FoldResult:
    """Errors on the test part by number of components, with what is chosen on the training part."""
    begin = time.perf_counter()
    choice = choose(contender, part.X, part.y)
    search_seconds = time.perf_counter() - begin
    both = np.concatenate([part.X, part.X_test]), np.concatenate([part.y, part.y_test])
    halves = np.split(np.arange(len(both[1])), [len(part.y)])
    grid = {name: (value,) for name, value in choice.point.items()}
    test = compute_scores(contender, grid, *both, [(halves[0], halves[1])])
    kept = np.isfinite(test.scores[0])
    wrong = np.rint((1.0 - test.scores[0][kept]) * len(part.y_test)).astype(int)
    return {
        "parameters": choice.point,
        "dimensions": test.dimensions[kept].tolist(),
        "wrong": wrong.tolist(),
        "n_test": len(part.y_test),
        "cv_dimension": choice.dimension,
        "search_seconds": round(search_seconds, 3),
    }


def compute_scores(
    contender: Contender, grid: dict[str, tuple[Any, ...]], X: Floats, y: Labels, folds: Folds
) -> ScoreTable:
    """The share of right labels at every grid point and number of components, over the folds."""
    assert contender.method is not None
    if not contender.method.is_ours:
        return _plain_scores(contender, grid, X, y, folds)
    found = DiscriminantSearchCV(
        contender.estimator({}),
        grid,
        cv=folds,
        n_components=contender.dimensions or contender.most or "all",
        selection="minimum",
        refit=False,
    ).fit(X, y)
    points = list(ParameterGrid(grid))
    dimensions = found.cv_results_["param_n_components"].astype(int)
    scores = found.cv_results_["mean_test_score"].reshape(len(points), -1)
    return ScoreTable(points, np.asarray(dimensions[: scores.shape[1]]), scores)


def _plain_scores(
    contender: Contender, grid: dict[str, tuple[Any, ...]], X: Floats, y: Labels, folds: Folds
) -> ScoreTable:
    """The same by fitting every point anew, for methods of scikit-learn."""
    points = list(ParameterGrid(grid))
    found = []
    for point in points:
        for train, test in folds:
            fold = Split(X[train], y[train], X[test], y[test])
            found.append(_accuracies(contender, point, fold))
    shortest = min(map(len, found))
    dimensions = np.array(contender.dimensions or range(1, shortest + 1))[:shortest]
    scores = np.array([each[:shortest] for each in found]).reshape(len(points), len(folds), -1)
    return ScoreTable(points, dimensions, scores.mean(axis=1))


def _accuracies(contender: Contender, point: dict[str, Any], fold: Split) -> list[float]:
    def curve(dimension: int | None) -> Floats:
        fitted = contender.estimator(point, dimension).fit(fold.X, fold.y)
        return 1.0 - classification_curve(fitted, fold.X, fold.y, fold.X_test, fold.y_test)

    if contender.dimensions is None:
        return curve(None).tolist()
    return [float(curve(r)[-1]) for r in contender.dimensions if r <= fold.X.shape[1]]
