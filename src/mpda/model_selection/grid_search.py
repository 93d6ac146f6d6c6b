"""Scores of a grid on folds, in one round or by successive halving.

``DiscriminantSearchCV`` runs it once, or once for each stage of a refinement.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import Pipeline

from mpda._lib.array_types import Ints, Labels
from mpda._lib.progress import ProgressPrinter
from mpda.estimators._base import sparse_counts
from mpda.estimators.methods import START_PREFIX
from mpda.exceptions import SmallClassWarning
from mpda.model_selection.fold_scores import FoldScores, FoldTask, score_fold
from mpda.model_selection.folds import Folds
from mpda.model_selection.grid import SearchGrid, last_step
from mpda.model_selection.halving import (
    MAX_TESTS,
    FoldSubsets,
    Round,
    best_points,
    counts_near_best,
    group_equal_fits,
    plan_rounds,
)
from mpda.model_selection.results_table import align_scores, concatenate_tables, results_table
from mpda.model_selection.scoring import FoldScorer
from mpda.model_selection.selection_rules import GridScores, SelectionRule
from mpda.model_selection.unseen_classes import is_unseen
from mpda.parallel import map_ordered

Numbers = tuple[int, ...] | int | None
"""Numbers of components as ``check_n_components`` returns them."""


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
    scorer : FoldScorer
        Scores the mapped samples of a fold.
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
    scorer: FoldScorer
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
        least = self._count_needed(folds, grid, n_components)
        rounds = plan_rounds(self.y, points.size, self.halving, self.max_samples, least)
        # Few tests are enough for a mean over them. Other scores depend on the tests of rare
        # classes, and tests that are searched among themselves on the number of all tests.
        unseen = any(is_unseen(self.y[train], self.y[test]) for train, test in folds)
        max_tests = MAX_TESTS if self.scorer.is_sample_mean and not unseen else None
        subsets = FoldSubsets(folds, self.y, self.seed, max_tests) if rounds else None
        plans = rounds or [Round(len(self.y), points.size)]
        ends = np.linspace(*shares, len(plans) + 1).tolist()
        tables, component_counts = [], n_components
        for i, plan in enumerate(plans):
            part = folds if subsets is None else subsets.take(plan.n_samples)
            done = _Share(self.progress, ends[i], ends[i + 1], len(part))
            some = subsets is not None or self.scorer.needs_each_number
            sparse = some and not isinstance(component_counts, tuple)
            results = self._score_folds(part, grid, points, component_counts, done, sparse=sparse)
            self._report_failures(results, points.size, is_last=i + 1 == len(plans))
            table, scores = _join_folds(results, part, grid, points, n_components)
            if rounds:
                table["iter"] = np.full(len(table["params"]), i)
                table["n_resources"] = np.full(len(table["params"]), plan.n_samples)
            tables.append(table)
            if i + 1 < len(plans):
                groups = self._group_points(part, grid)
                points = best_points(scores, plans[i + 1].n_points, groups)
                plans[i + 1] = replace(plans[i + 1], n_points=points.size)
                if not isinstance(n_components, tuple):
                    component_counts = counts_near_best(scores, points, n_components)
        selection = self.rule(scores)
        n_earlier = sum(len(table["params"]) for table in tables[:-1])
        row = int(np.searchsorted(points, selection.point)) * scores.component_counts.size
        best_row = n_earlier + row + selection.column
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
        for fold, (train, _) in enumerate(folds):
            if self.n_neighbors > len(train):
                raise ValueError(
                    f"classifier_neighbors={self.n_neighbors} is larger than the training part of "
                    f"fold {fold} ({len(train)} samples). Use fewer neighbours or more folds."
                )
        component_counts = n_components
        if isinstance(component_counts, int):
            most = component_counts
            component_counts = tuple(sparse_counts(most) if sparse else range(1, most + 1))
        chosen = [grid.points[i] for i in points]
        # A function of the caller cannot be called from other processes.
        in_process = effective_n_jobs(self.n_jobs) == 1 or not callable(self.progress)
        report = done.make_report() if in_process else None
        make_task = partial(FoldTask, self.estimator, self.X, self.y)
        tasks = [
            (make_task(*fold, i, chosen, component_counts, self.scorer, report, sparse),)
            for i, fold in enumerate(folds)
        ]
        title = (
            f"DiscriminantSearchCV, {points.size} grid points" if self.progress is True else None
        )
        scored = map_ordered(
            score_fold, tasks, len(folds), n_jobs=self.n_jobs, report=title, unit="folds"
        )
        results = []
        for fold, result in enumerate(scored):
            results.append(result)
            done.pass_on(fold, 1, 1)
        return results

    def _count_needed(self, folds: Folds, grid: SearchGrid, n_components: Numbers) -> int:
        """Count the samples that a round needs.

        The numbers of components and of neighbours of the score need some, and so do the features
        of a fit without a ridge. Test samples that are searched among themselves have to be enough,
        too.
        """
        n_features = list(np.shape(self.X)[1:])  # none in X of one dimension, which a fit refuses
        needed, least = [self.n_neighbors], [0]
        for train, test in folds:
            if is_unseen(self.y[train], self.y[test]):
                least.append(math.ceil((self.scorer.n_needed + 1) * len(self.y) / test.size))
            else:
                needed.append(self.scorer.n_needed)
        if isinstance(n_components, tuple):  # beyond the features there are no components to score
            needed += [min([r, *n_features]) for r in n_components]
        if isinstance(self.estimator, Pipeline):  # PCA before the method, for example
            earlier = Pipeline(self.estimator.steps[:-1]).get_params()
            reduced = [
                int(value)
                for name, value in earlier.items()
                if name.endswith("n_components") and isinstance(value, Integral)
            ]
            needed += reduced
            n_features = reduced or n_features
        has_ridge = {"alpha", f"{START_PREFIX}alpha"} & set(last_step(self.estimator).get_params())
        if has_ridge and not grid.ridges.any():
            needed += n_features
        # Of n samples about the means of their classes no more than n - n_classes are independent.
        n_training = max(needed) + np.unique(self.y).size
        share = min(train.size for train, _ in folds) / len(self.y)
        return max(*least, math.ceil(n_training / share))

    def _group_points(self, folds: Folds, grid: SearchGrid) -> Ints | None:
        """Number the points so that those with the same fits on these folds have one number."""
        if getattr(last_step(self.estimator), "class_neighbors", None) is None:
            return None
        counts = [np.unique(self.y[train], return_counts=True)[1].max() for train, _ in folds]
        return group_equal_fits(grid.points, int(max(counts)))

    def _report_failures(self, results: list[FoldScores], n_points: int, *, is_last: bool) -> None:
        """Warn of fits without an answer, and in the last round of small classes."""
        small = [line for fold in results for line in fold.small_classes]
        if small and self.warn_of_small_classes and is_last:
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
        if not self.progress:
            return None
        printer = ProgressPrinter("DiscriminantSearchCV")
        return lambda fold, count, n: printer.report(f"fold {fold}, {count}/{n} grid points")

    def pass_on(self, fold: int, count: int, n_points: int) -> None:
        if callable(self.progress):
            share = (fold + count / n_points) / self.n_folds
            self.progress(self.start + share * (self.stop - self.start))
