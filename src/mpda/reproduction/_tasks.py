"""One task: one contender on one split of one problem, from samples to a row of results."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import ParameterGrid, StratifiedKFold

from mpda._typing import Floats, Ints
from mpda.curves import nearest_by_dimension
from mpda.exceptions import SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV, classification_curve
from mpda.reproduction._contenders import Contender
from mpda.reproduction._cost import cost
from mpda.reproduction._protocol import N_FOLDS, Problem, Split, reduced, split

Row = dict[str, Any]
Folds = list[tuple[Ints, Ints]]


@dataclass(frozen=True)
class _Table:
    """Scores of grid points and numbers of components, mean over folds; nan where there is none."""

    points: list[dict[str, Any]]
    dimensions: Ints
    scores: Floats

    def best(self) -> tuple[dict[str, Any], int]:
        """The point and number of components of the best score; at a tie fewer components."""
        found = np.where(np.isnan(self.scores), -np.inf, self.scores)
        place = int(np.flatnonzero((found >= found.max() - 1e-12).any(axis=0))[0])
        return self.points[int(np.argmax(found[:, place]))], int(self.dimensions[place])


def errors(problem: Problem, contender: Contender, seed: int, directory: Path | None) -> Row:
    """Errors of 1-NN on the test part by number of components, and what cross-validation chose."""
    with warnings.catch_warnings():
        # Classes of COIL have 18 samples; no-ridge forms may be singular at some grid points;
        # NCA and LSDR end by their budgets. All of it is part of the protocol.
        for category in (SmallClassWarning, FitFailedWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        part = split(problem, directory, seed)
        if contender.method is None:
            return _one_nn(part)
        return _compared(contender, reduced(part), seed)


def _one_nn(part: Split) -> Row:
    nearest = nearest_by_dimension(part.X, part.X_test, first=part.X.shape[1])
    wrong = int(np.count_nonzero(part.y[nearest[0]] != part.y_test))
    return {
        "parameters": {},
        "dimensions": [part.X.shape[1]],
        "wrong": [wrong],
        "n_test": len(part.y_test),
        "cv_dimension": part.X.shape[1],
    }


def _compared(contender: Contender, part: Split, seed: int) -> Row:
    begin = time.perf_counter()
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(part.X, part.y)
    scores = _scores(contender, dict(contender.grid), part.X, part.y, list(folds))
    point, dimension = scores.best()
    search_seconds = time.perf_counter() - begin
    both = np.concatenate([part.X, part.X_test]), np.concatenate([part.y, part.y_test])
    halves = np.split(np.arange(len(both[1])), [len(part.y)])
    grid = {name: [value] for name, value in point.items()}
    test = _scores(contender, grid, *both, [(halves[0], halves[1])])
    kept = np.isfinite(test.scores[0])
    wrong = np.rint((1.0 - test.scores[0][kept]) * len(part.y_test)).astype(int)
    seconds, mib = cost(lambda: _estimator(contender, point, dimension).fit(part.X, part.y))
    return {
        "parameters": point,
        "dimensions": test.dimensions[kept].tolist(),
        "wrong": wrong.tolist(),
        "n_test": len(part.y_test),
        "cv_dimension": dimension,
        "search_seconds": round(search_seconds, 3),
        "fit_seconds": round(seconds, 4),
        "fit_mib": round(mib, 2),
    }


def _estimator(contender: Contender, point: dict[str, Any], dimension: int | None) -> Any:
    assert contender.method is not None
    made = contender.method.estimator(**contender.fixed, **point)
    return made if dimension is None else made.set_params(n_components=dimension)


def _scores(contender: Contender, grid: dict[str, Any], X: Floats, y: Any, folds: Folds) -> _Table:
    """The share of right labels at every grid point and number of components, over the folds."""
    assert contender.method is not None
    if not contender.method.is_ours:
        return _plain_scores(contender, grid, X, y, folds)
    found = DiscriminantSearchCV(
        _estimator(contender, {}, None),
        grid,
        cv=folds,
        n_components=contender.dimensions or contender.most or "all",
        selection="minimum",
        refit=False,
    ).fit(X, y)
    points = list(ParameterGrid(grid))
    dimensions = found.cv_results_["param_n_components"].astype(int)
    scores = found.cv_results_["mean_test_score"].reshape(len(points), -1)
    return _Table(points, np.asarray(dimensions[: scores.shape[1]]), scores)


def _plain_scores(
    contender: Contender, grid: dict[str, Any], X: Floats, y: Any, folds: Folds
) -> _Table:
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
    return _Table(points, dimensions, scores.mean(axis=1))


def _accuracies(contender: Contender, point: dict[str, Any], fold: Split) -> list[float]:
    def curve(dimension: int | None) -> Floats:
        fitted = _estimator(contender, point, dimension).fit(fold.X, fold.y)
        return 1.0 - classification_curve(fitted, fold.X, fold.y, fold.X_test, fold.y_test)

    if contender.dimensions is None:
        return curve(None).tolist()
    return [float(curve(r)[-1]) for r in contender.dimensions if r <= fold.X.shape[1]]
