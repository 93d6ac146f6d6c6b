"""The choice of the experiments: the least mean error over folds of the training samples."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mpda._lib.array_types import Floats, Labels
from mpda.assessment import Contender
from mpda.assessment.contender import Step
from mpda.assessment.parameter_choice import SelectedParameters, read_selection
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.grid import last_step
from mpda.model_selection.selection_rules import GridScores, SelectedPoint

# Mean scores over folds that differ by less than this are equal up to rounding.
_TIE = 1e-12


def select_least_error(
    contender: Contender,
    X: Floats,
    y: Labels,
    n_folds: int,
    seed: int,
    steps: Sequence[Step] = (),
) -> SelectedParameters:
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
    steps : sequence of (str, transformer), default=()
        Steps before the method, which are fitted inside every fold.

    Returns
    -------
    SelectedParameters
        Of a refinement with a grid, that of the stages of `DiscriminantSearchCV`.
    """
    assert contender.method is not None
    estimator = contender.estimator({}, steps=steps)
    grid = {name: list(values) for name, values in contender.grid.items()}
    is_refinement = bool(contender.method.start)
    has_stages = is_refinement and (bool(grid) or contender.component_counts is None)
    if is_refinement and not has_stages:
        # The refinement is run in any case, with every listed number of components.
        grid = {"n_rounds": [last_step(estimator).n_rounds]}
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    search = DiscriminantSearchCV(
        estimator,
        grid,
        # Stages draw folds of their own.
        cv=n_folds if has_stages else splitter,
        n_components=contender.component_counts or contender.max_components or "all",
        selection="minimum" if has_stages else _select_first,
        halving=False,
        classifier_neighbors=contender.n_neighbors,
        refit=False,
        random_state=seed,
    ).fit(X, y)
    selected = read_selection(search)
    return selected if has_stages or not is_refinement else replace(selected, parameters={})


def _select_first(grid: GridScores) -> SelectedPoint:
    """Select the best mean; at a tie the fewest components, then the first grid point."""
    means = grid.means
    column = int(np.flatnonzero((means >= means.max() - _TIE).any(axis=0))[0])
    return SelectedPoint(int(means[:, column].argmax()), column)
