"""One contender on one split: parameters chosen on the training samples, errors on the others.

`compute_scores` gives the cross-validated accuracy of nearest neighbours for every grid point and
number of components. Components are nested, so one fit serves all their numbers;
`DiscriminantSearchCV` also shares work between grid points. Methods of scikit-learn are fitted once
for each point.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
from sklearn.model_selection import ParameterGrid, StratifiedKFold

from mpda._lib.array_types import Bools, Floats, Ints, Labels
from mpda.assessment.contender import Contender
from mpda.assessment.data_split import Split, classify_test_samples, preprocess
from mpda.estimators._base import sparse_numbers
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.fold_scores import (
    FoldTask,
    score_fold,
    score_predictions,
)
from mpda.model_selection.folds import Folds
from mpda.model_selection.grid import build_grid
from mpda.model_selection.nearest_by_dimension import classify_by_numbers
from mpda.model_selection.search_cv import find_scorer, nearby_numbers
from mpda.model_selection.selection_rules import GridScores

# Mean scores over folds that differ by less than this are equal up to rounding.
_TIE = 1e-12
# Pairs of training and test samples up to which errors are counted for every number of components.
_MAX_PAIRS = 10_000_000


class FoldResult(TypedDict, total=False):
    """Result of one contender on one split, a row of a results file.

    ``problem``, ``method`` and ``seed`` name the row. ``dimensions`` are the numbers of
    components and ``wrong`` the numbers of misclassified test samples with each, out of
    ``n_test``. ``parameters`` and ``cv_dimension`` are the choice of cross-validation on the
    training samples. ``test_share`` is the ratio of test to training samples, for folds that
    share training samples. ``tested`` are the indices of the test samples and ``predicted`` their
    labels at the chosen number of components; ``misclassified`` is True where they are wrong.
    ``guess_wrong`` is True where the most frequent class of the training samples is wrong.
    ``groups`` are the groups of the test samples, where samples come in groups.
    ``projected`` are the mapped test samples, ``anchors`` the indices of some training samples and
    ``anchor_points`` these mapped.
    ``chosen`` is the method that a contender with several chose.
    ``failure`` replaces all of it where a fit failed.
    """

    problem: str
    method: str
    seed: int
    parameters: dict[str, Any]
    dimensions: list[int]
    wrong: list[int]
    n_test: int
    cv_dimension: int
    test_share: float
    tested: Ints
    predicted: Labels
    misclassified: Bools
    projected: Floats
    guess_wrong: Bools
    groups: Ints
    anchors: Ints
    anchor_points: Floats
    chosen: str
    search_seconds: float
    fit_seconds: float
    fit_mib: float
    failure: str


@dataclass(frozen=True)
class Selection:
    """Parameters and number of components that cross-validation selected.

    Parameters
    ----------
    parameters : dict
        Grid point.
    n_components : int
        Number of components.
    score : float, default=nan
        Mean accuracy over the folds that selected it.
    unrefined_score : float, default=nan
        Of a refinement: the mean accuracy of its start alone, with as many components, on the same
        folds.
    refined_score : float, default=nan
        Of a refinement: the same with refinement, the best one if none was selected.
    """

    parameters: dict[str, Any]
    n_components: int
    score: float = math.nan
    unrefined_score: float = math.nan
    refined_score: float = math.nan

    def limit(self, n_components: int) -> Selection:
        """Return the selection with at most this number of components.

        Parameters
        ----------
        n_components : int
            Number of components that a fit to all training samples has. PCA in a fold may keep
            more.

        Returns
        -------
        Selection
            The same parameters.
        """
        return replace(self, n_components=min(self.n_components, n_components))


Selector = Callable[[Contender, Floats, Labels], Selection]


@dataclass(frozen=True)
class ScoreTable:
    """Accuracies by grid point and number of components.

    Parameters
    ----------
    points : list of dict, length n_points
        Grid points.
    dimensions : array of int of shape (n_dimensions,)
        Numbers of components.
    scores : array of shape (n_points, n_dimensions)
        Mean accuracy over folds, nan where there is none.
    standard_error : float, default=0.0
        Standard error of a mean.
    """

    points: list[dict[str, Any]]
    dimensions: Ints
    scores: Floats
    standard_error: float = 0.0

    def select_best(self, n_components: int | None = None, *, fewest: bool = False) -> Selection:
        """Return the entry of the highest score, with fewer components on ties.

        Parameters
        ----------
        n_components : int or None, default=None
            Restricts the table to this number of components.
        fewest : bool, default=False
            If True, scores within one standard error of the highest count as ties.

        Returns
        -------
        Selection
            Grid point and number of components.
        """
        scores = np.where(np.isnan(self.scores), -np.inf, self.scores)
        if n_components is not None:
            scores = np.where(self.dimensions == n_components, scores, -np.inf)
        # Ties go to the first column: fewer components are cheaper and no worse.
        tolerance = _TIE + (self.standard_error if fewest else 0.0)
        column = int(np.flatnonzero((scores >= scores.max() - tolerance).any(axis=0))[0])
        row = int(scores[:, column].argmax())
        return Selection(self.points[row], int(self.dimensions[column]), float(scores[row, column]))


def assess_split(contender: Contender, split: Split, select: Selector) -> FoldResult:
    """Measure a contender on the test samples with parameters chosen on the training samples.

    Parameters
    ----------
    contender : Contender
        Method and grid. Without a method, 1-NN on the features is measured, whose only number of
        components is the number of features.
    split : Split
        Training and test samples.
    select : callable
        ``select(contender, X, y)`` returns the `Selection` for the training samples.

    Returns
    -------
    FoldResult
        Errors for all numbers of components, at the selected parameters.
    """
    if contender.method is None:
        return assess_features(split)
    start = time.perf_counter()
    selection = select(contender, split.X, split.y)
    seconds = time.perf_counter() - start
    row = _measure_curve(contender, split, selection, ())
    return FoldResult(**row, search_seconds=round(seconds, 3))


def assess_features(split: Split) -> FoldResult:
    """Measure 1-NN on the features.

    Parameters
    ----------
    split : Split
        Training and test samples.

    Returns
    -------
    FoldResult
        The only number of components is the number of features.
    """
    d, n_test = split.X.shape[1], len(split.y_test)
    wrong = [int(np.count_nonzero(classify_test_samples(split) != split.y_test))]
    return FoldResult(parameters={}, dimensions=[d], wrong=wrong, n_test=n_test, cv_dimension=d)


def assess_selection(
    contender: Contender, split: Split, selection: Selection, numbers: Sequence[int] = ()
) -> tuple[FoldResult, Floats, Floats]:
    """Measure a contender with selected parameters, and return its map of the samples.

    Parameters
    ----------
    contender : Contender
        Method.
    split : Split
        Training and test samples.
    selection : Selection
        Parameters and number of components.
    numbers : sequence of int, default=()
        Numbers of components at which a refinement is measured in addition to a quarter, a half,
        one and two times the selected number. Its maps are not nested, so each number needs a fit.

    Returns
    -------
    row : FoldResult
        Errors for many numbers of components; "fit_seconds" is the time of one fit.
    Z : array of shape (n_training_samples, n_components)
        Training samples in the selected number of components.
    Z_test : array of shape (n_test_samples, n_components)
        Test samples.
    """
    assert contender.method is not None
    # One fit serves all numbers of components where they are nested.
    is_nested = contender.dimensions is None and not contender.method.start
    r = selection.n_components
    start = time.perf_counter()
    fitted = contender.estimator(selection.parameters, None if is_nested else r)
    fitted.fit(split.X, split.y)
    seconds = time.perf_counter() - start
    Z, Z_test = (np.asarray(fitted.transform(values)) for values in (split.X, split.X_test))
    if is_nested:
        row = _curve_of_map(Split(Z, split.y, Z_test, split.y_test), selection)
    else:
        row = _measure_curve(contender, split, selection, numbers)
    row["fit_seconds"] = seconds
    return row, Z[:, :r], Z_test[:, :r]


def _curve_of_map(split: Split, selection: Selection) -> FoldResult:
    """Count the errors with the first components of mapped samples, for many numbers of them."""
    r = split.X.shape[1]
    numbers = np.arange(1, r + 1)
    # All numbers where it takes a second: then the curve has a value at each.
    if len(split.X) * len(split.X_test) > _MAX_PAIRS:
        numbers = np.union1d(sparse_numbers(r), [min(r, selection.n_components)])
    predicted = classify_by_numbers(split.X, split.y, split.X_test, numbers)
    return FoldResult(
        parameters=selection.parameters,
        dimensions=numbers.tolist(),
        wrong=np.count_nonzero(predicted != split.y_test, axis=1).tolist(),
        n_test=len(split.y_test),
        cv_dimension=selection.n_components,
    )


def _measure_curve(
    contender: Contender, split: Split, selection: Selection, numbers: Sequence[int]
) -> FoldResult:
    """Count the errors of fits with the selected parameters, for many numbers of components."""
    assert contender.method is not None
    n_test = len(split.y_test)
    if contender.method.start and contender.dimensions is None:
        nearby = nearby_numbers(selection.n_components, range(1, split.X.shape[1] + 1))
        contender = replace(contender, dimensions=tuple(sorted({*nearby, *numbers})))
    # One fold of all samples: training samples first, then test samples. The curve over all numbers
    # of components is then the one table row of a search with a single grid point.
    X, y = np.concatenate([split.X, split.X_test]), np.concatenate([split.y, split.y_test])
    train, test = np.split(np.arange(len(y)), [len(split.y)])
    grid = {name: (value,) for name, value in selection.parameters.items()}
    # Errors are those of 1-NN; more neighbours only select the parameters.
    table = compute_scores(replace(contender, n_neighbors=1), grid, X, y, [(train, test)])
    measured = np.isfinite(table.scores[0])  # the fit may have had fewer components
    return FoldResult(
        parameters=selection.parameters,
        dimensions=table.dimensions[measured].tolist(),
        # Scores are shares of n_test; rounding removes the error of the division.
        wrong=np.rint((1.0 - table.scores[0][measured]) * n_test).astype(int).tolist(),
        n_test=n_test,
        cv_dimension=selection.n_components,
    )


def select_minimum(
    contender: Contender, X: Floats, y: Labels, n_folds: int, seed: int
) -> Selection:
    """Select the grid point and the number of components of the least mean error over folds.

    Parameters
    ----------
    contender : Contender
        Method with its grid.
    X : array of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels.
    n_folds : int
        Number of folds.
    seed : int
        Seed of the folds.

    Returns
    -------
    Selection
        Of a refinement, that of the stages of `DiscriminantSearchCV`, unless there are only
        numbers of components to select from.
    """
    assert contender.method is not None
    has_one_stage = contender.dimensions is not None and not contender.grid
    if not contender.method.start or has_one_stage:
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(X, y)
        return compute_scores(contender, contender.grid, X, y, list(folds)).select_best()
    search = _fit_search(contender, contender.grid, X, y, n_folds, seed)
    best = {k.removeprefix(contender.prefix): value for k, value in search.best_params_.items()}
    return Selection(best, best.pop("n_components"))


def _fit_search(
    contender: Contender,
    grid: Mapping[str, tuple[Any, ...]],
    X: Floats,
    y: Labels,
    folds: Folds | int,
    seed: int = 0,
    scoring: str = "accuracy",
) -> DiscriminantSearchCV:
    return DiscriminantSearchCV(
        contender.estimator({}),
        dict(grid),
        cv=folds,
        n_components=contender.dimensions or contender.max_components or "all",
        selection="minimum",
        halving=False,
        scoring=scoring,
        classifier_neighbors=contender.n_neighbors,
        refit=False,
        random_state=seed,
    ).fit(X, y)


def compute_scores(
    contender: Contender,
    grid: Mapping[str, tuple[Any, ...]],
    X: Floats,
    y: Labels,
    folds: Folds,
    scoring: str = "accuracy",
) -> ScoreTable:
    """Compute the score of nearest neighbours for every grid point and number of components.

    Parameters
    ----------
    contender : Contender
        Method. Its own grid is not used.
    grid : mapping of str to tuple
        Parameter values.
    X : array of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels.
    folds : list of (train, test)
        Indices of training and test samples.
    scoring : str, default="accuracy"
        As in `DiscriminantSearchCV`.

    Returns
    -------
    ScoreTable
        Means over the folds.
    """
    assert contender.method is not None
    points = list(ParameterGrid(dict(grid)))
    if contender.method.start:
        return _compute_refined_scores(contender, grid, X, y, folds, scoring)
    if not contender.method.is_ours:
        return _compute_scores_by_refitting(contender, points, X, y, folds, scoring)
    search = _fit_search(contender, grid, X, y, folds, scoring=scoring)
    dimensions = search.cv_results_[f"param_{contender.prefix}n_components"].astype(int)
    scores = search.cv_results_["mean_test_score"].reshape(len(points), -1)
    return ScoreTable(points, np.asarray(dimensions[: scores.shape[1]]), scores)


def _compute_refined_scores(
    contender: Contender,
    grid: Mapping[str, tuple[Any, ...]],
    X: Floats,
    y: Labels,
    folds: Folds,
    scoring: str,
) -> ScoreTable:
    """Score refined maps of ``contender.dimensions`` components, in one stage for all points."""
    estimator, numbers = contender.estimator({}), contender.dimensions
    points, scorer = build_grid(estimator, dict(grid)).points, find_scorer(scoring)
    k = contender.n_neighbors
    tables = [
        score_fold(
            FoldTask(estimator, X, y, *fold, 0, points, numbers, scorer, None, n_neighbors=k)
        )
        for fold in folds
    ]
    width = min(table.scores.shape[1] for table in tables)
    dimensions = np.array([r for r in numbers or range(1, width + 1) if r <= width])
    scores = np.mean([table.scores[:, dimensions - 1] for table in tables], axis=0)
    return ScoreTable(points, dimensions, scores)


def _compute_scores_by_refitting(
    contender: Contender,
    points: list[dict[str, Any]],
    X: Floats,
    y: Labels,
    folds: Folds,
    scoring: str,
) -> ScoreTable:
    """Fit every grid point on every fold; the table ends where the shortest curve ends."""
    method = replace(contender, steps=())
    parts = [Split(X[i], y[i], X[j], y[j]) for i, j in folds]
    splits = [preprocess(split, contender.steps) for split in parts]
    curves = [_score_curve(method, point, split, scoring) for point in points for split in splits]
    length = min(map(len, curves))
    dimensions = np.array(contender.dimensions or range(1, length + 1))[:length]
    scores = np.array([curve[:length] for curve in curves]).reshape(len(points), len(folds), -1)
    grid = GridScores(scores.swapaxes(0, 1), dimensions, [], np.empty(0), np.empty(0, dtype=int))
    return ScoreTable(points, dimensions, scores.mean(axis=1), grid.standard_error)


def _score_curve(
    contender: Contender, point: dict[str, Any], split: Split, scoring: str
) -> list[float]:
    """Return the scores with the first 1, 2, .. components, or with those of the contender."""

    def compute_curve(n_components: int | None) -> Floats:
        fitted = contender.estimator(point, n_components).fit(split.X, split.y)
        Z, Z_test = (np.asarray(fitted.transform(values)) for values in (split.X, split.X_test))
        first = 1 if contender.dimensions is None else Z.shape[1]
        numbers = np.arange(first, Z.shape[1] + 1)
        predictions = classify_by_numbers(Z, split.y, Z_test, numbers, contender.n_neighbors)
        return score_predictions(split.y_test, predictions, find_scorer(scoring))

    if contender.dimensions is None:
        return compute_curve(contender.max_components).tolist()
    return [float(compute_curve(r)[-1]) for r in contender.dimensions if r <= split.X.shape[1]]
