"""Scores of a grid on folds, in one round or by successive halving.

``DiscriminantSearchCV`` runs it once, or once for each stage of a refinement.
"""

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import FitFailedWarning

from mpda._lib.array_types import Ints, Labels
from mpda.exceptions import SmallClassWarning
from mpda.model_selection.fold_scores import FoldScores, FoldTask, Scorer, score_fold
from mpda.model_selection.folds import Folds
from mpda.model_selection.grid import SearchGrid
from mpda.model_selection.halving import (
    FoldSubsets,
    Round,
    best_points,
    nearby_dimensions,
    plan_rounds,
)
from mpda.model_selection.results_table import align_scores, concatenate_tables, results_table
from mpda.model_selection.selection_rules import GridScores, SelectionRule
from mpda.parallel import map_ordered

Numbers = tuple[int, ...] | int | None
"""Numbers of components as ``check_n_components`` returns them."""

# Seconds between two lines about progress: often enough to see that a search goes on.
_REPORT_INTERVAL = 2.0


@dataclass(frozen=True)
class SearchResult:
    """Scores of a grid.

    Attributes
    ----------
    table : dict of arrays
        ``cv_results_``.
    best_row : int
        Row that the rule selects.
    rounds : list of Round
        Samples and grid points of each round.
    """

    table: dict[str, Any]
    best_row: int
    rounds: list[Round]

    @property
    def best_params(self) -> dict[str, Any]:
        """Parameters of the selected row, with the number of components."""
        return dict(self.table["params"][self.best_row])


@dataclass(frozen=True)
class GridSearch:
    """A search over the points of a grid.

    Attributes
    ----------
    estimator : estimator or Pipeline
        Method that is searched over, not fitted.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : ndarray of shape (n_samples,)
        Their class labels.
    scorer : callable or None
        None is accuracy.
    n_neighbors : int
        Number of neighbours of the classifier.
    rule : callable
        Selects a grid point and a number of components.
    halving : bool or "auto"
        As in `DiscriminantSearchCV`.
    max_samples : int or None
        Samples of the last round.
    seed : int or RandomState
        Seed of the subsets.
    n_jobs : int or None
        Number of folds at a time.
    progress : bool or callable
        True prints progress to stderr; a callable gets the share of the work that is done.
    warn_of_small_classes : bool
        True if the user chose the numbers of neighbours.
    """

    estimator: Any
    X: Any
    y: Labels
    scorer: Scorer | None
    n_neighbors: int
    rule: SelectionRule
    halving: Any
    max_samples: int | None
    seed: Any
    n_jobs: int | None
    progress: bool | Callable[[float], None]
    warn_of_small_classes: bool

    def run(
        self,
        folds: Folds,
        grid: SearchGrid,
        n_components: Numbers,
        shares: tuple[float, float] = (0.0, 1.0),
    ) -> SearchResult:
        """Score the points of a grid and select one.

        Parameters
        ----------
        folds : list of (train, test)
            Indices of each fold.
        grid : SearchGrid
            Parameter sets.
        n_components : tuple of int, int or None
            Numbers of components.
        shares : tuple of float, default=(0.0, 1.0)
            Shares of the whole work that are done before and after this call.
        """
        points = np.arange(len(grid.points))
        rounds = plan_rounds(self.y, points.size, self.halving, self.max_samples)
        subsets = FoldSubsets(folds, self.y, self.seed) if rounds else None
        plans = rounds or [Round(len(self.y), points.size)]
        ends = np.linspace(*shares, len(plans) + 1).tolist()
        tables, numbers = [], n_components
        for number, plan in enumerate(plans):
            part = folds if subsets is None else subsets.take(plan.n_samples)
            done = _Share(self.progress, ends[number], ends[number + 1], len(part))
            sparse = subsets is not None and not isinstance(numbers, tuple)
            results = self._score_folds(part, grid, points, numbers, done, sparse=sparse)
            table, scores = _join_folds(results, part, grid, points, n_components)
            if rounds:
                table["iter"] = np.full(len(table["params"]), number)
                table["n_resources"] = np.full(len(table["params"]), plan.n_samples)
            tables.append(table)
            if number + 1 < len(plans):
                points = best_points(scores, plans[number + 1].n_points)
                if not isinstance(n_components, tuple):
                    numbers = nearby_dimensions(scores, points, n_components)
        selection = self.rule(scores)
        n_earlier = sum(len(table["params"]) for table in tables[:-1])
        row = int(np.searchsorted(points, selection.point)) * scores.dimensions.size
        best_row = n_earlier + row + selection.dimension
        return SearchResult(concatenate_tables(tables), best_row, plans)

    def _score_folds(
        self,
        folds: Folds,
        grid: SearchGrid,
        points: Ints,
        n_components: Numbers,
        done: "_Share",
        *,
        sparse: bool,
    ) -> list[FoldScores]:
        """Score some points of a grid on every fold."""
        numbers = n_components
        if isinstance(numbers, int):
            numbers = tuple(range(1, numbers + 1))
        chosen = [grid.points[i] for i in points]
        # A function of the caller cannot be called from other processes.
        in_process = effective_n_jobs(self.n_jobs) == 1 or not callable(self.progress)
        report = done.make_report() if in_process else None
        make_task = partial(FoldTask, self.estimator, self.X, self.y)
        tasks = [
            (make_task(*fold, i, chosen, numbers, self.scorer, report, sparse, self.n_neighbors),)
            for i, fold in enumerate(folds)
        ]
        title = (
            f"DiscriminantSearchCV, {points.size} grid points" if self.progress is True else None
        )
        scored = map_ordered(
            score_fold, tasks, len(folds), n_jobs=self.n_jobs, report=title, unit="folds"
        )
        results = []
        for number, result in enumerate(scored):
            results.append(result)
            done.pass_on(number, 1, 1)
        self._report_failures(results, points.size)
        return results

    def _report_failures(self, results: list[FoldScores], n_points: int) -> None:
        """Warn of small classes and of fits without an answer."""
        small = [line for fold in results for line in fold.small_classes]
        if small and self.warn_of_small_classes:
            rest = f" and {len(small) - 5} more" if len(small) > 5 else ""
            warnings.warn(
                f"n_neighbors is cut to the number of other samples in {', '.join(small[:5])}"
                f"{rest}. Fewer neighbours in param_grid or fewer folds avoid this.",
                SmallClassWarning,
                stacklevel=3,
            )
        failures = [failure for fold in results for failure in fold.failures]
        if not failures:
            return
        if len(failures) == n_points * len(results):
            raise ValueError(
                f"No grid point has an answer in any fold. The first said: {failures[0]}"
            )
        warnings.warn(
            f"{len(failures)} fits of a grid point to a fold have no answer; their scores are nan. "
            f"The first said: {failures[0]}",
            FitFailedWarning,
            stacklevel=3,
        )


def _join_folds(
    results: list[FoldScores], folds: Folds, grid: SearchGrid, points: Ints, n_components: Numbers
) -> tuple[dict[str, Any], GridScores]:
    """Return the table of a round and the scores for the rule."""
    # Counted from the folds, since a splitter or a list of folds has its own way to repeat.
    tested = np.concatenate([test for _, test in folds])
    n_repeats = tested.size / np.unique(tested).size
    scored = [fold.scores for fold in results]
    scores = align_scores(scored, n_components, grid, points, n_repeats)
    seconds = np.array([fold.seconds for fold in results])
    return results_table(grid, points, scores, seconds), scores


@dataclass(frozen=True)
class _Share:
    """The share of the work that a round is, and who wants to know it."""

    progress: bool | Callable[[float], None]
    start: float
    stop: float
    n_folds: int

    def make_report(self) -> Callable[[int, int, int], None] | None:
        if callable(self.progress):
            return self.pass_on
        return _PrintedProgress() if self.progress else None

    def pass_on(self, fold: int, count: int, n_points: int) -> None:
        if callable(self.progress):
            share = (fold + count / n_points) / self.n_folds
            self.progress(self.start + share * (self.stop - self.start))


class _PrintedProgress:
    """Prints a line every two seconds."""

    def __init__(self) -> None:
        self._printed = time.monotonic()

    def __call__(self, fold: int, count: int, n_points: int) -> None:
        now = time.monotonic()
        if now - self._printed >= _REPORT_INTERVAL:
            print(f"fold {fold}: {count}/{n_points} grid points", file=sys.stderr)
            self._printed = now
