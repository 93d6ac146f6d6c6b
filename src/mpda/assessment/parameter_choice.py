"""The choice of parameters and of the number of components by cross-validation.

One search (`DiscriminantSearchCV`) serves every method. The same choice is made for the model that
is kept (`model_choice`) and inside every outer fold (`nested_cv`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Labels
from mpda.assessment.assessment_protocol import AssessmentProtocol
from mpda.assessment.contender import Contender, Step
from mpda.assessment.data_split import Split
from mpda.estimators._base import sparse_counts
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.folds import Folds
from mpda.model_selection.grid import find_prefix
from mpda.model_selection.selection_rules import select_paired
from mpda.model_selection.unseen_classes import count_unseen_folds, draw_unseen_folds

# Of more components only some numbers are tried, in steps of a quarter.
_MANY_COMPONENTS = 100


@dataclass(frozen=True)
class SelectedParameters:
    """Parameters and number of components that cross-validation selected.

    Parameters
    ----------
    parameters : dict
        Grid point.
    n_components : int
        Number of components.
    score : float, default=nan
        Mean accuracy over the folds that selected it, or MAP@R where they hold out classes.
    unrefined_score : float, default=nan
        Of a refinement: the mean score of its start alone, with as many components, on the same
        folds.
    refined_score : float, default=nan
        Of a refinement: the same with refinement, the best one if none was selected; nan if there
        is none with as many components.
    """

    parameters: dict[str, Any]
    n_components: int
    score: float = math.nan
    unrefined_score: float = math.nan
    refined_score: float = math.nan


def select_parameters(
    contender: Contender,
    steps: Sequence[Step],
    samples: Split,
    n_features: int,
    protocol: AssessmentProtocol,
    *,
    scored: bool = False,
    progress: Callable[[float], None] | None = None,
) -> SelectedParameters:
    """Choose parameters and the number of components by folds of the training samples.

    Parameters
    ----------
    contender : Contender
        Method.
    steps : sequence of (str, transformer)
        Preprocessing, which is fitted inside every fold.
    samples : Split
        Training samples, before these steps.
    n_features : int
        Number of features after these steps.
    protocol : AssessmentProtocol
        Settings.
    scored : bool, default=False
        True if a score is needed even where there is nothing to choose.
    progress : callable or None, default=None
        Called with the share of the choice that is done.

    Returns
    -------
    SelectedParameters
        The choice and its score.
    """
    X, y, n_components = samples.X, samples.y, protocol.n_components
    if n_components is not None and not contender.grid and not scored:
        return SelectedParameters({}, n_components)
    folds = _draw_inner_folds(y, samples.groups, protocol)
    most = contender.count_components(n_features, y)
    component_counts = tuple(r for r in contender.component_counts or () if r <= most)
    if contender.component_counts is None and most > _MANY_COMPONENTS:
        component_counts = tuple(sparse_counts(most).tolist())
    fewest: Any = select_paired if protocol.for_unseen else "one-standard-error"
    search = DiscriminantSearchCV(
        contender.estimator({}, steps=steps),
        {name: list(values) for name, values in contender.grid.items()},
        cv=folds,
        n_components=[n_components] if n_components is not None else component_counts or "all",
        selection=fewest if protocol.fewest else "robust",
        max_samples=protocol.max_samples,
        scoring="map_at_r" if protocol.for_unseen else protocol.scoring,
        refit=False,
        random_state=protocol.seed,
        verbose=progress or 0,
    )
    try:
        search.fit(X, y, groups=samples.groups)
    except ValueError:
        # A fit to a fold may need more samples than there are, as LDA more than classes.
        if contender.grid or scored or n_components is not None:
            raise
        return SelectedParameters({}, most)
    selected = read_selection(search)
    scores = search.best_score_, *_compare_with_start(search)
    # PCA in a fold may keep more than PCA of all training samples.
    n_components = min(selected.n_components, n_features)
    return SelectedParameters(selected.parameters, n_components, *scores)


def _draw_inner_folds(
    y: Labels, groups: Labels | None, protocol: AssessmentProtocol
) -> int | Folds:
    """Return the number of stratified folds, or the folds that hold out classes."""
    if protocol.for_unseen:
        n_folds = count_unseen_folds(y, protocol.n_inner)
        if n_folds < 2:
            raise ValueError(
                "a selection for classes that were not seen needs four classes with at least two "
                "training samples."
            )
        return draw_unseen_folds(y, n_folds, protocol.seed, groups)
    # Stratified folds cannot be more than the largest class has samples.
    n_folds = min(protocol.n_inner, int(np.unique(y, return_counts=True)[1].max()))
    if groups is not None:
        n_folds = min(n_folds, len(np.unique(groups)))
    if n_folds < 2:
        raise ValueError(
            "no class has two training samples, or there is one group of them, so the number of "
            "components cannot be selected; use more folds, or more samples."
        )
    return n_folds


def read_selection(search: DiscriminantSearchCV) -> SelectedParameters:
    """Return what a search selected, with the parameters by the method's own names.

    Parameters
    ----------
    search : DiscriminantSearchCV
        A fitted search.
    """
    prefix = find_prefix(search.estimator)
    parameters = {k.removeprefix(prefix): value for k, value in search.best_params_.items()}
    n_components = parameters.pop("n_components")
    return SelectedParameters(parameters, n_components, search.best_score_)


def _compare_with_start(search: DiscriminantSearchCV) -> tuple[float, ...]:
    """Return the scores without and with refinement at the selected number of components."""
    table, best = search.cv_results_, search.best_params_
    if "stage" not in table:
        return ()
    prefix = find_prefix(search.estimator)
    number, rounds = f"{prefix}n_components", f"{prefix}n_rounds"
    is_start = np.array([point.get(rounds) == 0 for point in table["params"]])
    is_last = table["stage"] == table["stage"].max()
    if "iter" in table:
        is_last &= table["iter"] == table["iter"][search.best_index_]
    has_number = is_last & (table[f"param_{number}"] == best[number])
    # One number of components leaves none for the constant of a sphere: then nothing is refined.
    alone, refined = (
        float(np.fmax.reduce(table["mean_test_score"][has_number & rows], initial=np.nan))
        for rows in (is_start, ~is_start)
    )
    return alone, refined if best.get(rounds) == 0 else search.best_score_
