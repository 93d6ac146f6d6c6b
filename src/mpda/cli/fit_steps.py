"""Fits and measured errors of the commands: progress, time budget, and limits on samples.

Used by ``fit`` and ``compare``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING

from mpda.cli.cluster_fit import connect
from mpda.cli.options import MeasurementOptions
from mpda.cli.retrieval_results import N_UNSEEN_FOLDS, describe_draw
from mpda.cli.terminal import Progress

if TYPE_CHECKING:
    from mpda.assessment import (
        Assessment,
        AssessmentProtocol,
        Contender,
        FoldResult,
        SelectedModel,
    )
    from mpda.cli.tables.reading import Table

# Samples of the trial by which the time of a choice is estimated.
_TIMED_SAMPLES = 1000
# Numbers of a table up to which a choice of the method refines every start, whatever the budget: it
# takes seconds, and the result does not depend on the speed of the machine.
_SMALL_TABLE = 20_000
# Estimates relative to the time of the choice among the starts alone. With the best of them refined
# it takes 2.6 (median) to 9.3 times as long (docs/evidence/automatic.md). One refinement of as
# many samples takes about a tenth: on the bundled sentences 5 CPU seconds for six times the samples
# of a choice of 14 seconds.
_REFINED_CHOICE, _ONE_REFINEMENT = 4.0, 0.1
# Share of the work of a model that is the choice of its settings; the rest is the fit.
_CHOICE_SHARE = 0.7


def compute_feature_range(table: Table) -> list[list[float]]:
    """Return the least and the largest value of each feature.

    Parameters
    ----------
    table : Table
        The samples.

    Returns
    -------
    list of two lists of float
        nan for columns of text, which becomes null in a file.
    """
    import numpy as np

    limits = np.array([np.nanmin(table.X, axis=0), np.nanmax(table.X, axis=0)], dtype=float)
    limits[:, list(table.categories)] = np.nan
    return limits.tolist()


def has_vectors(table: Table) -> bool:
    """Return whether the features of a table are vectors, such as embeddings.

    Parameters
    ----------
    table : Table
        The samples.

    Returns
    -------
    bool
        True for a column of vectors, and for an array, whose columns have no names.
    """
    return table.embedding is not None or table.features is None


def measure_errors(
    table: Table,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    settings: MeasurementOptions,
    progress: Progress,
) -> Assessment:
    """Measure the errors of methods by nested cross-validation.

    Parameters
    ----------
    table : Table
        The samples.
    contenders : sequence of Contender
        The methods.
    protocol : AssessmentProtocol
        Folds and preparation of the features.
    settings : MeasurementOptions
        Parallel work.
    progress : Progress
        Shows the progress, one step for each fold.

    Returns
    -------
    Assessment
        Errors of the methods that succeeded, messages of those that failed.
    """
    from mpda.assessment import assess_methods

    text = "measuring the error"
    progress.update(0.0, text)
    # A method may print messages of its own; standard output is for results.
    with redirect_stdout(sys.stderr), connect(settings.scheduler):
        return assess_methods(
            table.samples,
            table.labels,
            contenders,
            protocol,
            groups=table.groups,
            n_jobs=settings.count_jobs(table.n_samples * table.n_features),
            progress=lambda contender: progress.finish_step(1.0 / len(contenders), text),
            deadline=settings.deadline(progress),
        )


def measure_unseen(
    table: Table,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    settings: MeasurementOptions,
    n_folds: int,
    progress: Progress,
) -> Assessment:
    """Measure the search for classes that folds hold out.

    Parameters
    ----------
    table : Table
        The samples.
    contenders : sequence of Contender
        The methods.
    protocol : AssessmentProtocol
        Preparation of the features.
    settings : MeasurementOptions
        Parallel work.
    n_folds : int
        Number of folds.
    progress : Progress
        Shows the progress, one step for each fold.

    Returns
    -------
    Assessment
        Rows of the methods that succeeded, messages of those that failed.
    """
    from mpda.assessment import assess_unseen_classes

    text = "holding out classes"
    progress.update(0.0, text)
    with redirect_stdout(sys.stderr), connect(settings.scheduler):
        return assess_unseen_classes(
            table.samples,
            table.labels,
            contenders,
            protocol,
            n_folds,
            groups=table.groups,
            n_jobs=settings.count_jobs(table.n_samples * table.n_features),
            progress=lambda contender: progress.finish_step(1.0 / len(contenders), text),
        )


def fit_model(
    table: Table,
    contender: Contender,
    protocol: AssessmentProtocol,
    progress: Progress,
    *,
    keep_samples: bool,
) -> SelectedModel:
    """Choose settings and fit a model to all samples.

    Parameters
    ----------
    table : Table
        The samples.
    contender : Contender
        The method.
    protocol : AssessmentProtocol
        Folds and preparation of the features.
    progress : Progress
        Shows the progress.
    keep_samples : bool
        True keeps the mapped samples in the model.

    Returns
    -------
    SelectedModel
        The model.
    """
    from mpda.assessment import select_model

    with redirect_stdout(sys.stderr):
        selected = select_model(
            table.samples,
            table.labels,
            contender,
            protocol,
            groups=table.groups,
            neighbors=keep_samples,
            progress=lambda share: progress.update(_CHOICE_SHARE * share),
        )
    progress.finish_step(1.0)
    return selected


def spend_budget(
    table: Table,
    contenders: Sequence[Contender],
    protocol: AssessmentProtocol,
    settings: MeasurementOptions,
) -> AssessmentProtocol:
    """Reduce the work of the choices, so that the command fits into --time-budget.

    Fewer samples choose the settings. Where the method is chosen, too, only the best start is
    refined, or none if a refinement of all samples would take longer than there is time.

    Parameters
    ----------
    table : Table
        The samples.
    contenders : sequence of Contender
        The methods.
    protocol : AssessmentProtocol
        Folds and preparation of the features.
    settings : MeasurementOptions
        The time budget.

    Returns
    -------
    AssessmentProtocol
        Unchanged without a budget, for a small table, or if a choice has more time than it needs.
    """
    from mpda.assessment import time_selection
    from mpda.assessment.nested_cv import MIN_FOLDS

    budget = settings.time_budget
    if budget is None or not math.isfinite(budget):
        return protocol
    # Four samples a class leave every inner fold more training samples than classes.
    n_least = max(_TIMED_SAMPLES, 4 * len(set(table.labels.tolist())))
    has_choices = any(contender.choices for contender in contenders)
    if has_choices and table.n_samples * table.n_features <= _SMALL_TABLE:
        return protocol
    if not has_choices and table.n_samples <= n_least:
        return protocol
    trial = replace(protocol, max_samples=n_least, n_refined=0)
    with redirect_stdout(sys.stderr):
        seconds = sum(
            time_selection(table.samples, table.labels, contender, trial, groups=table.groups)
            for contender in contenders
            if contender.method is not None or contender.choices
        )
    if has_choices:
        n_fits = 1 + min(settings.n_folds, MIN_FOLDS)
        share = table.n_samples / min(n_least, table.n_samples)
        is_slow = n_fits * share * _ONE_REFINEMENT * seconds > budget
        protocol = replace(protocol, n_refined=0 if is_slow else 1)
        seconds *= 1.0 if is_slow else _REFINED_CHOICE
    # Half of the time is for choices: one for the model and one for each fold.
    n_folds = settings.n_folds + (N_UNSEEN_FOLDS if settings.unseen else 0)
    available = budget / 2 / (n_folds + 1)
    n_samples = max(n_least, int(n_least * available / max(seconds, 1e-3)))
    return replace(protocol, max_samples=min(n_samples, protocol.max_samples or table.n_samples))


def describe_limits(
    table: Table,
    rows: Sequence[FoldResult],
    protocol: AssessmentProtocol,
    settings: MeasurementOptions,
) -> list[str]:
    """Say where fewer samples or folds were used than there are.

    Parameters
    ----------
    table : Table
        The samples.
    rows : sequence of FoldResult
        Measured errors.
    protocol : AssessmentProtocol
        Limits of the samples.
    settings : MeasurementOptions
        Number of folds.

    Returns
    -------
    list of str
        Notes.
    """
    n, notes = table.n_samples, []
    if protocol.count_choosing(n) < n:
        chosen = f"{protocol.count_choosing(n):,} of the {n:,} samples"
        notes.append(f"settings were selected on {chosen}, drawn at random by class; fits use all")
    if rows:
        name = rows[0]["method"]
        tested = [row["n_test"] for row in rows if row["method"] == name]
        if len(tested) < settings.n_folds:
            folds = f"{len(tested)} of {settings.n_folds} folds"
            notes.append(f"--time-budget: the error was measured on {folds}")
        if sum(tested) < n:
            notes.append(f"the error was measured on {sum(tested):,} of the {n:,} samples")
    return [*notes, *describe_draw(rows)]
