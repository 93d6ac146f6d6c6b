"""Nested cross-validation of several methods.

The outer folds only measure errors. In each of them the inner folds, made of its training samples
alone, choose the parameters and the number of components (`model_choice`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from mpda._lib.array_types import Ints, Labels
from mpda.assessment import data_split
from mpda.assessment.assessment_protocol import AssessmentProtocol
from mpda.assessment.column_transformer import make_column_steps
from mpda.assessment.contender import SPARSE_COUNTS, Contender, Step
from mpda.assessment.data_split import Split
from mpda.assessment.label_classifier import fit_label_classifier
from mpda.assessment.model_choice import (
    RankedContender,
    ignore_fit_warnings,
    rank_contenders,
)
from mpda.assessment.outer_fold import FoldResult, assess_features, assess_selected
from mpda.assessment.retrieval_estimates import draw_queries, measure_search
from mpda.model_selection.folds import Folds, stratified_folds, stratified_order
from mpda.model_selection.unseen_classes import draw_unseen_folds
from mpda.parallel import map_ordered

# Folds that are measured however little time there is: one has no variance.
MIN_FOLDS = 2
# Training samples by which the maps of folds are aligned.
_MAX_ANCHORS = 1000


@dataclass(frozen=True)
class Assessment:
    """Errors of several methods.

    Parameters
    ----------
    rows : list of FoldResult
        One for each method and outer fold, for methods that succeeded on all folds.
    failed : dict of str to str
        Error message of each method that failed on a fold.
    """

    rows: list[FoldResult]
    failed: dict[str, str]


def assess_methods(
    X: Any,
    y: Labels,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    *,
    groups: Labels | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Contender], None] | None = None,
    deadline: float | None = None,
) -> Assessment:
    """Measure the 1-NN error of several methods by nested cross-validation.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels.
    contenders : sequence of Contender
        Methods.
    protocol : AssessmentProtocol
        Settings.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.
    n_jobs : int or None, default=None
        Number of worker processes.
    progress : callable or None, default=None
        Called with the method after each fold.
    deadline : float or None, default=None
        Value of ``time.monotonic()`` that should not pass: after two folds, no further one begins
        that would take longer.

    Returns
    -------
    Assessment
        Rows in the order of the contenders, then of the folds.
    """
    folds = [
        (train, _draw_tests(y, test, protocol))
        for train, test in stratified_folds(y, protocol.n_folds, protocol.seed, groups)
    ]
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
    run = partial(_run_folds, groups=groups, n_jobs=n_jobs, progress=progress, deadline=deadline)
    measured = run(_measure_split, X, y, folds, contenders, protocol)
    for row in measured.rows:
        train, row["tested"] = folds[row["fold"]]
        row["guess_wrong"] = y[row["tested"]] != _most_frequent(y[train])
        row["test_share"] = (len(y) - train.size) / train.size
        if codes is not None:
            row["groups"] = codes[row["tested"]]
        if "queries" in row:  # the classifier has no map
            row["queries"] = row["tested"][row["queries"]]
            row["anchors"] = train[row["anchors"]]
    return measured


def assess_unseen_classes(
    X: Any,
    y: Labels,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    n_folds: int,
    *,
    groups: Labels | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Contender], None] | None = None,
) -> Assessment:
    """Measure the retrieval of classes that a fit did not have, by folds that hold them out.

    The preparation, the choice of settings and the fit see the other classes only. Samples of the
    classes that are held out are then searched among themselves, and among all samples.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels.
    contenders : sequence of Contender
        Methods; the classifier, which knows no other classes, is left out.
    protocol : AssessmentProtocol
        Settings.
    n_folds : int
        Number of folds, as `count_unseen_folds` has it.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.
    n_jobs : int or None, default=None
        Number of worker processes.
    progress : callable or None, default=None
        Called with the method after each fold.

    Returns
    -------
    Assessment
        Rows have "retrieval" and "retrieval_among_all", and no errors.
    """
    folds = draw_unseen_folds(y, n_folds, protocol.seed, groups)
    contenders = [contender for contender in contenders if not contender.is_classifier]
    run = partial(_run_folds, groups=groups, n_jobs=n_jobs, progress=progress)
    measured = run(_measure_unseen, X, y, folds, contenders, protocol)
    for row in measured.rows:
        row["queries"] = folds[row["fold"]][1][row["queries"]]
    return measured


def _run_folds(
    measure: Callable[[Split, Contender, AssessmentProtocol], FoldResult],
    X: Any,
    y: Labels,
    folds: Folds,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    *,
    groups: Labels | None,
    n_jobs: int | None,
    progress: Callable[[Contender], None] | None,
    deadline: float | None = None,
) -> Assessment:
    """Measure each contender on each fold; the indices of a row are those of its fold."""
    X = protocol.take_samples(X)
    known = [None if groups is None else groups[train] for train, _ in folds]
    # Fold by fold, so that all methods have the same folds if there is no time for all.
    arguments = (
        (measure, _split(X, y, train, test, known[number]), contender, number, protocol)
        for number, (train, test) in enumerate(folds)
        for contender in contenders
    )
    rows: list[FoldResult] = []
    start = time.monotonic()
    n_calls = len(contenders) * len(folds)
    results = map_ordered(_assess_fold, arguments, n_calls, n_jobs=n_jobs)
    for contender, row in zip(itertools.cycle(contenders), results, strict=False):
        rows.append(row)
        if progress is not None:
            progress(contender)
        n_folds, unfinished = divmod(len(rows), len(contenders))
        if deadline is not None and not unfinished and n_folds >= MIN_FOLDS:
            now = time.monotonic()
            if now + (now - start) / n_folds > deadline:
                break
    with ignore_fit_warnings():  # joblib warns of folds that were begun and are not awaited
        results.close()
    order = {contender.name: i for i, contender in enumerate(contenders)}
    rows.sort(key=lambda row: order[row["method"]])
    # Reversed, so that the message of the first failing fold remains. Errors of the folds that
    # succeeded are left out: means over different folds cannot be compared.
    failed = {row["method"]: row["failure"] for row in reversed(rows) if "failure" in row}
    return Assessment([row for row in rows if row["method"] not in failed], failed)


def _split(X: Any, y: Labels, train: Ints, test: Ints, groups: Labels | None) -> Split:
    """Return the samples of a fold; X is an array or a data frame."""
    rows, test_rows = _safe_indexing(X, train), _safe_indexing(X, test)
    return Split(rows, y[train], test_rows, y[test], groups)


def _assess_fold(
    measure: Callable[[Split, Contender, AssessmentProtocol], FoldResult],
    split: Split,
    contender: Contender,
    number: int,
    protocol: AssessmentProtocol,
) -> FoldResult:
    row = FoldResult(problem="", method=contender.name, fold=number)
    try:
        with ignore_fit_warnings():
            row.update(measure(split, contender, protocol))
    except Exception as error:  # one failing method must not end the comparison of the others
        row["failure"] = " ".join(str(error).split()) or type(error).__name__
    return row


def _measure_split(split: Split, contender: Contender, protocol: AssessmentProtocol) -> FoldResult:
    """Return errors for all numbers of components, and predictions for the chosen one."""
    if contender.is_classifier:
        return _measure_classifier(split, protocol)
    prepared = _prepare(split, contender, protocol)
    if contender.method is None and not contender.choices:
        row, mapped, picture = assess_features(prepared.split)[0], prepared.split, prepared.split
        row["chosen"] = contender.name
    else:
        start = time.perf_counter()
        best = _choose(prepared, split, contender, protocol)
        seconds = time.perf_counter() - start
        fit = assess_selected(best.contender, prepared.split, best.selected, SPARSE_COUNTS)
        row, mapped, picture = fit.row, fit.mapped, fit.drawn
        row["search_seconds"] = round(seconds, 3)
        row["chosen"] = best.contender.name
    row["predicted"] = data_split.classify_test_samples(mapped)
    row["misclassified"] = row["predicted"] != split.y_test
    n = len(split.X)
    anchors = np.linspace(0, n - 1, min(n, _MAX_ANCHORS)).astype(np.intp)
    row["projected"], row["anchors"] = picture.X_test, anchors
    row["anchor_points"] = picture.X[anchors]
    stored = _take_stored(mapped, split, contender, protocol)
    queries = draw_queries(len(split.y_test), n, protocol.seed)
    row["queries"] = queries
    row["retrieval"] = measure_search(
        stored.X, split.y, stored.X_test[queries], split.y_test[queries]
    )
    return row


def _measure_unseen(split: Split, contender: Contender, protocol: AssessmentProtocol) -> FoldResult:
    """Return measures of retrieval of test samples, whose classes are not those of the fit."""
    prepared = _prepare(split, contender, protocol)
    row, mapped = FoldResult(cv_dimension=prepared.split.X.shape[1]), prepared.split
    if contender.method is not None or contender.choices:
        best = _choose(prepared, split, contender, protocol)
        selected = best.selected
        row = FoldResult(cv_dimension=selected.n_components, parameters=selected.parameters)
        fitted = best.contender.estimator(selected.parameters, selected.n_components)
        fitted.fit(mapped.X, mapped.y)
        Z, Z_test = (np.asarray(fitted.transform(X)) for X in (mapped.X, mapped.X_test))
        mapped = Split(Z, split.y, Z_test, split.y_test)
    stored = _take_stored(mapped, split, contender, protocol)
    queries = draw_queries(len(split.y_test), len(split.y) + len(split.y_test), protocol.seed)
    row["queries"] = queries
    row["retrieval"] = measure_search(stored.X_test, split.y_test, rows=queries)
    Z = np.concatenate([stored.X_test, stored.X])
    y = np.concatenate([split.y_test, split.y])
    row["retrieval_among_all"] = measure_search(Z, y, rows=queries)
    return row


@dataclass(frozen=True)
class _PreparedSplit:
    """Samples after the steps before a method, and these steps."""

    split: Split
    steps: list[Step]


def _prepare(split: Split, contender: Contender, protocol: AssessmentProtocol) -> _PreparedSplit:
    steps = protocol.prepare(contender, split).make_steps()
    if contender.method is None:  # PCA belongs to the methods
        steps = [step for step in steps if step[0] != "pca"]
    return _PreparedSplit(data_split.preprocess(split, steps), steps)


def _choose(
    prepared: _PreparedSplit, raw: Split, contender: Contender, protocol: AssessmentProtocol
) -> RankedContender:
    """Return the method with the settings that cross-validation on training samples selects."""
    X = prepared.split.X
    if protocol.n_components is not None:
        most = contender.count_components(X.shape[1], raw.y)
        protocol = replace(protocol, n_components=min(protocol.n_components, most))
    # The number that the user asked for may be missing from the sparse list of such a method.
    if contender.component_counts is not None and protocol.n_components is not None:
        component_counts = sorted({*contender.component_counts, protocol.n_components})
        contender = replace(contender, component_counts=tuple(component_counts))
    # The choice of parameters sees the raw samples: inner test samples take no part in the scaler
    # and the PCA either.
    return rank_contenders(contender, prepared.steps, raw, X, protocol).ranked[0]


def _take_stored(
    mapped: Split, raw: Split, contender: Contender, protocol: AssessmentProtocol
) -> Split:
    """Return the samples as a store has them: mapped, or embeddings as they are by the cosine."""
    if contender.method is not None or contender.choices or not protocol.by_cosine:
        return mapped
    return data_split.scale_to_unit_length(raw)


def _most_frequent(y: Labels) -> Any:
    labels, counts = np.unique(y, return_counts=True)
    return labels[counts.argmax()]


def _draw_tests(y: Labels, test: Ints, protocol: AssessmentProtocol) -> Ints:
    """Return the test samples of a fold, of too many a stratified subset."""
    if protocol.max_tests is None or test.size <= protocol.max_tests:
        return test
    order = stratified_order(y[test], 1, np.random.default_rng(protocol.seed))
    return np.sort(test[order[: protocol.max_tests]])


def _measure_classifier(split: Split, protocol: AssessmentProtocol) -> FoldResult:
    """Return the error of the classifier on all numbers, which are its only number of components.

    The time of its fit has the choice of the penalty in it.
    """
    groups, split = split.groups, data_split.preprocess(split, make_column_steps(protocol.columns))
    start = time.perf_counter()
    model = fit_label_classifier(
        split.X, split.y, groups=groups, seed=protocol.seed, scoring=protocol.scoring
    )
    seconds = time.perf_counter() - start
    predicted = model.predict(split.X_test)
    wrong, d = predicted != split.y_test, split.X.shape[1]
    return FoldResult(
        parameters={"C": model[-1].C},
        dimensions=[d],
        wrong=[int(np.count_nonzero(wrong))],
        n_test=len(wrong),
        cv_dimension=d,
        predicted=predicted,
        misclassified=wrong,
        fit_seconds=seconds,
    )
