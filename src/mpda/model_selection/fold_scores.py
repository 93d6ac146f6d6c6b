"""Scores of one fold: every parameter set of a grid and every number of components.

All parameter sets are fitted through ``fit_paths``, which shares their work. A scorer then scores
the mapped samples with every number of components (``scoring``).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import check_array, check_X_y

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.arrays import is_sparse, to_host
from mpda._lib.sphere import count_outputs, project_to_sphere
from mpda._lib.threads import SMALL, one_blas_thread
from mpda.estimators._base import ComponentPath, sparse_counts
from mpda.estimators._linear_methods import fit_paths
from mpda.estimators.methods import START_PREFIX
from mpda.model_selection.grid import last_step
from mpda.model_selection.scoring import FoldScorer

# Parameters that are cut to the number of other samples in a class.
NEIGHBOR_NAMES = ("n_neighbors", f"{START_PREFIX}n_neighbors")


@dataclass(frozen=True)
class FoldTask:
    """One fold of a search.

    Attributes
    ----------
    estimator : estimator or Pipeline
        Method that is searched over, not fitted.
    X : array-like of shape (n_samples, n_features)
        Samples of all folds.
    y : ndarray of shape (n_samples,)
        Their class labels.
    train, test : ndarrays of int
        Indices of the training and test samples.
    number : int
        Number of the fold, for messages.
    points : list of dict
        Parameter sets to fit, as `SearchGrid` has them.
    n_components : tuple of int or None
        Numbers of components; None stands for all.
    scorer : FoldScorer
        Scores the mapped samples.
    report : callable or None
        Called with the number of the fold, the number of grid points that are done, and the number
        of all.
    sparse : bool, default=False
        True if some of all numbers of components are left out, see `sparse_counts`.
    """

    estimator: Any
    X: Any
    y: Labels
    train: Ints
    test: Ints
    number: int
    points: list[dict[str, Any]]
    n_components: tuple[int, ...] | None
    scorer: FoldScorer
    report: Callable[[int, int, int], None] | None = None
    sparse: bool = False


@dataclass(frozen=True)
class FoldScores:
    """Scores of one fold.

    Attributes
    ----------
    scores : ndarray of shape (n_points, max_components)
        Column r - 1 is for r components; nan where there is no score.
    seconds : ndarray of shape (n_points,)
        Time of each grid point; shared work counts where it was done.
    failures : list of str
        Messages of fits without an answer.
    small_classes : list of str
        Classes with too few samples for the number of neighbours.
    """

    scores: Floats
    seconds: Floats
    failures: list[str]
    small_classes: list[str]


def score_fold(task: FoldTask) -> FoldScores:
    """Fit every grid point to the training part of a fold and score it on the test part."""
    X_train, X_test = _safe_indexing(task.X, task.train), _safe_indexing(task.X, task.test)
    y_train, y_test = task.y[task.train], task.y[task.test]
    if isinstance(task.estimator, Pipeline) and len(task.estimator.steps) > 1:
        earlier_steps = clone(Pipeline(task.estimator.steps[:-1]))
        X_train = earlier_steps.fit_transform(X_train, y_train)
        X_test = earlier_steps.transform(X_test)
    method, points = last_step(task.estimator), task.points
    accepted = "csr" if get_tags(method).input_tags.sparse else False
    floats = [np.float64, np.float32]
    X_train, y_train = check_X_y(
        X_train, y_train, accept_sparse=accepted, dtype=floats, estimator=method
    )
    X_test = check_array(X_test, accept_sparse=accepted, dtype=floats, input_name="X")
    # All components that exist; the scorer cuts them to every smaller number.
    paths = fit_paths(method, X_train, y_train, points, task.n_components)
    mean = None
    if not is_sparse(X_train):
        X_train, X_test = (np.asarray(X, dtype=np.float64) for X in (X_train, X_test))
        # Distances do not depend on the mean, but their rounding does.
        mean = X_train.mean(axis=0)
        X_train, X_test = X_train - mean, X_test - mean
    curves: list[tuple[int, Ints, Floats]] = []
    failures, seconds, width = [], np.zeros(len(points)), 0
    start = time.perf_counter()
    # Here and not where paths are made: there an error of a scorer would leave the limit in place.
    with one_blas_thread(min(X_train.shape) <= SMALL):
        for path in paths:
            if path.components is None:
                failures.append(str(path.failure))
            else:
                width = max(width, path.n_outputs)
                on_sphere = path.radius is not None
                component_counts = _counts_to_score(task, path.first, path.n_outputs, on_sphere)
                scored = np.asarray(path.components, dtype=np.float64)[
                    : component_counts.max(initial=0)
                ]
                Z, Z_test = (_map_samples(X, scored, path, mean) for X in (X_train, X_test))
                # More threads gain little in small products, and wait for each other on busy
                # machines.
                with one_blas_thread():
                    if path.radius is None:
                        scores = task.scorer(Z, y_train, Z_test, y_test, component_counts)
                    else:
                        train, test = (Z, y_train), (Z_test, y_test)
                        scores = score_on_sphere(
                            task.scorer, train, test, component_counts, path.radius
                        )
                curves.append((path.index, component_counts, scores))
            now = time.perf_counter()
            seconds[path.index] += now - start
            start = now
            if task.report is not None:
                task.report(task.number, int(np.count_nonzero(seconds)), len(points))
    # A grid point may come in several paths, and paths differ in length: fill one table.
    table = np.full((len(points), width), np.nan)
    for index, component_counts, scores in curves:
        table[index, component_counts - 1] = scores
    small_classes = _small_classes(y_train, points, method, task.number)
    return FoldScores(table, seconds, failures, small_classes)


def _map_samples(X: Any, components: Floats, path: ComponentPath, mean: Floats | None) -> Floats:
    """Return mapped samples; ``mean`` (d,) is what was subtracted from X.

    They are about the mean of the map where they go to a sphere; else it does not matter.
    """
    Z = X @ components.T
    if path.radius is not None:
        Z -= components @ (to_host(path.mean) - (0.0 if mean is None else mean))
    return Z


def score_on_sphere(
    scorer: FoldScorer,
    train: tuple[Floats, Labels],
    test: tuple[Floats, Labels],
    component_counts: Ints,
    radius: float,
) -> Floats:
    """Return one score for each number of components; each has a projection of its own."""
    (Z, y), (Z_test, y_test) = train, test
    scores = np.empty(component_counts.size)
    for i, r in enumerate(component_counts):
        n_rows = r - count_outputs(0, radius)  # the constant is one of the numbers
        points, test_points = (project_to_sphere(A[:, :n_rows], radius) for A in (Z, Z_test))
        scores[i] = scorer(points, y, test_points, y_test, [r])[0]
    return scores


def _counts_to_score(task: FoldTask, first: int, r: int, on_sphere: bool) -> Ints:
    """Return the numbers of components to score, of those from ``first`` to r."""
    if task.n_components is not None:
        component_counts = np.array(
            [number for number in task.n_components if number <= r], dtype=int
        )
    else:
        # On a sphere one sweep does not serve all numbers.
        component_counts = sparse_counts(r) if task.sparse or on_sphere else np.arange(1, r + 1)
    return component_counts[component_counts >= first]


def largest_class_neighbors(method: Any, points: list[dict[str, Any]]) -> int | None:
    """Return the largest number of neighbours inside a class that grid points ask for.

    Parameters
    ----------
    method : estimator
        Linear method, with the parameters that the points do not have.
    points : list of dict
        Grid points.

    Returns
    -------
    int or None
        None for methods without such neighbours.
    """
    usual = getattr(method, "class_neighbors", None)
    if usual is None:
        return None
    own, of_start = NEIGHBOR_NAMES
    return max(point.get(own, point.get(of_start, usual)) for point in points)


def _small_classes(y: Labels, points: list[dict[str, Any]], method: Any, number: int) -> list[str]:
    """Describe the classes with too few samples for the largest number of neighbours."""
    k = largest_class_neighbors(method, points)
    if k is None:
        return []
    labels, counts = np.unique(y, return_counts=True)
    return [
        f"class {label!r} of fold {number} ({count} in all)"
        for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
        if count <= k
    ]
