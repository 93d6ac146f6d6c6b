"""One contender on one split: errors on the test samples, with parameters selected before.

Components are nested in most methods, so that one fit serves all their numbers. The others need a
fit for each number of components.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from mpda._lib.array_types import Bools, Floats, Ints, Labels
from mpda.assessment.contender import Contender
from mpda.assessment.data_split import Split, classify_test_samples
from mpda.assessment.parameter_choice import SelectedParameters
from mpda.estimators._base import sparse_counts
from mpda.estimators._linear_methods import is_on_sphere
from mpda.model_selection.fold_scores import FoldTask, score_fold
from mpda.model_selection.nearest_by_dimension import classify_by_counts
from mpda.model_selection.scoring import PredictionScorer
from mpda.model_selection.search_cv import counts_about

# Pairs of training and test samples up to which errors are counted for every number of components.
_MAX_PAIRS = 10_000_000


class FoldResult(TypedDict, total=False):
    """Result of one contender on one split, a row of a results file.

    ``problem``, ``method`` and ``fold``, the number of the outer fold, name the row. ``dimensions``
    are the numbers of components and ``wrong`` the numbers of misclassified test samples with each,
    out of ``n_test``. ``parameters`` and ``cv_dimension`` are the choice of cross-validation on the
    training samples. ``test_share`` is the ratio of test to training samples, for folds that share
    training samples. ``tested`` are the indices of the test samples and ``predicted`` their labels
    at the chosen number of components; ``misclassified`` is True where they are wrong.
    ``guess_wrong`` is True where the most frequent class of the training samples is wrong.
    ``groups`` are the groups of the test samples, where samples come in groups.
    ``projected`` are the mapped test samples, ``anchors`` the indices of some training samples and
    ``anchor_points`` these mapped.
    ``chosen`` is the method that a contender with several chose.
    ``retrieval`` has the values of `mpda.assessment.retrieval_estimates.MEASURES` of the samples
    with the indices ``queries``. Rows of classes that were held out have these and
    ``retrieval_among_all``, but no errors.
    ``failure`` replaces all of it where a fit failed.
    """

    problem: str
    method: str
    fold: int
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
    queries: Ints
    retrieval: dict[str, Floats]
    retrieval_among_all: dict[str, Floats]
    search_seconds: float
    fit_seconds: float
    fit_mib: float
    failure: str


@dataclass(frozen=True, eq=False)
class SelectedFit:
    """A fit with selected parameters.

    Parameters
    ----------
    row : FoldResult
        Errors for many numbers of components; "fit_seconds" is the time of one fit.
    mapped : Split
        Samples in the selected number of components.
    drawn : Split
        The same for pictures: without the projection to a sphere, if there is one.
    """

    row: FoldResult
    mapped: Split
    drawn: Split


def assess_features(split: Split) -> tuple[FoldResult, Bools]:
    """Measure 1-NN on the features.

    Parameters
    ----------
    split : Split
        Training and test samples.

    Returns
    -------
    row : FoldResult
        The only number of components is the number of features.
    wrong : ndarray of bool of shape (1, n_test)
        True for test samples with a wrong label.
    """
    wrong = (classify_test_samples(split) != split.y_test)[None, :]
    d = split.X.shape[1]
    return _count_errors(wrong, [d], SelectedParameters({}, d, np.nan)), wrong


def assess_selected(
    contender: Contender,
    split: Split,
    selected: SelectedParameters,
    component_counts: Sequence[int] = (),
) -> SelectedFit:
    """Measure a contender with selected parameters.

    Parameters
    ----------
    contender : Contender
        Method.
    split : Split
        Training and test samples.
    selected : SelectedParameters
        Parameters and number of components.
    component_counts : sequence of int, default=()
        Numbers of components at which a refinement is measured in addition to a quarter, a half,
        one and two times the selected number. Its maps are not nested, so each number needs a fit.

    Returns
    -------
    SelectedFit
        Errors for many numbers of components, and the samples mapped to the selected number.
    """
    assert contender.method is not None
    # One fit serves all numbers of components where they are nested.
    is_nested = contender.component_counts is None and contender.method.is_nested
    r = selected.n_components
    start = time.perf_counter()
    fitted = contender.estimator(selected.parameters, None if is_nested else r)
    fitted.fit(split.X, split.y)
    seconds = time.perf_counter() - start
    Z, Z_test = (np.asarray(fitted.transform(values)) for values in (split.X, split.X_test))
    if is_nested:
        row = _curve_of_map(Split(Z, split.y, Z_test, split.y_test), selected)
    else:
        row = measure_curve(contender, split, selected, component_counts)[0]
    row["fit_seconds"] = seconds
    mapped = Split(Z[:, :r], split.y, Z_test[:, :r], split.y_test)
    if not is_on_sphere(fitted):
        return SelectedFit(row, mapped, mapped)
    Z, Z_test = (np.asarray(fitted.transform_linear(values)) for values in (split.X, split.X_test))
    return SelectedFit(row, mapped, Split(Z[:, :r], split.y, Z_test[:, :r], split.y_test))


def _curve_of_map(split: Split, selected: SelectedParameters) -> FoldResult:
    """Count the errors with the first components of mapped samples, for many numbers of them."""
    r = split.X.shape[1]
    component_counts = np.arange(1, r + 1)
    # All numbers where it takes a second: then the curve has a value at each.
    if len(split.X) * len(split.X_test) > _MAX_PAIRS:
        component_counts = np.union1d(sparse_counts(r), [min(r, selected.n_components)])
    predicted = classify_by_counts(split.X, split.y, split.X_test, component_counts)
    return _count_errors(predicted != split.y_test, component_counts.tolist(), selected)


def _count_errors(
    wrong: Bools, dimensions: Sequence[int], selected: SelectedParameters
) -> FoldResult:
    """Return the row of wrong test samples (n_numbers, n_test) by number of components."""
    return FoldResult(
        parameters=selected.parameters,
        dimensions=list(dimensions),
        wrong=np.count_nonzero(wrong, axis=1).tolist(),
        n_test=wrong.shape[1],
        cv_dimension=selected.n_components,
    )


@dataclass(frozen=True)
class _WrongRecorder(PredictionScorer):
    """Accuracy of 1-NN that keeps which test samples were wrong, by number of components."""

    wrong: dict[int, Bools] = field(default_factory=dict)

    def __call__(
        self,
        Z: Floats,
        y: Labels,
        Z_test: Floats,
        y_test: Labels,
        component_counts: Sequence[int] | Ints,
    ) -> Floats:
        predicted = classify_by_counts(Z, y, Z_test, component_counts, self.n_neighbors)
        self.wrong.update(zip(map(int, component_counts), predicted != y_test, strict=True))
        return np.asarray(np.mean(predicted == y_test, axis=1))


def measure_curve(
    contender: Contender,
    split: Split,
    selected: SelectedParameters,
    component_counts: Sequence[int] = (),
) -> tuple[FoldResult, Bools]:
    """Count the errors of fits with selected parameters, for many numbers of components.

    Parameters
    ----------
    contender : Contender
        Method. It is measured at its ``component_counts``; without them at all numbers, of a
        refinement at a quarter, a half, one and two times the selected number.
    split : Split
        Training and test samples.
    selected : SelectedParameters
        Parameters and number of components.
    component_counts : sequence of int, default=()
        Further numbers of components for a refinement.

    Returns
    -------
    row : FoldResult
        Errors by number of components.
    wrong : ndarray of bool of shape (n_numbers, n_test)
        True for test samples with a wrong label, by number of components as in the row.
    """
    assert contender.method is not None
    wanted = contender.component_counts
    if contender.max_components is not None:
        wanted = wanted or tuple(range(1, contender.max_components + 1))
    if contender.method.start and contender.component_counts is None:
        nearby = counts_about(selected.n_components, range(1, split.X.shape[1] + 1))
        wanted = tuple(sorted({*nearby, *component_counts}))
    # One fold of all samples: training samples first, then test samples.
    X, y = np.concatenate([split.X, split.X_test]), np.concatenate([split.y, split.y_test])
    train, test = np.split(np.arange(len(y)), [len(split.y)])
    # Errors are those of 1-NN; more neighbours only select the parameters.
    scorer, estimator = _WrongRecorder(None, 1), contender.estimator(selected.parameters)
    fold = score_fold(FoldTask(estimator, X, y, train, test, 0, [{}], wanted, scorer))
    if fold.failures:
        raise ValueError(fold.failures[0])
    measured = sorted(scorer.wrong)  # the fit may have had fewer components
    wrong = np.array([scorer.wrong[r] for r in measured])
    return _count_errors(wrong, measured, selected), wrong
