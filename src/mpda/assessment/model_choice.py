"""The choice of settings by cross-validation, and the model that is fitted with them.

The same choice is made for the model that is kept and inside every outer fold of `nested_cv`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda._lib.array_types import Floats, Labels
from mpda._lib.fingerprints import fingerprint_rows
from mpda._lib.validation import check_count
from mpda.assessment.assessment_protocol import AssessmentProtocol
from mpda.assessment.column_encoding import encode_columns
from mpda.assessment.contender import Contender, Step
from mpda.assessment.data_split import Split
from mpda.assessment.evaluation import FINGERPRINTS
from mpda.assessment.parameter_scores import Selection, compute_scores
from mpda.assessment.preparation import Preparation
from mpda.estimators._base import sparse_numbers
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.folds import Folds, split_groups
from mpda.model_selection.halving import FoldSubsets

# Of more components only some numbers are tried, in steps of a quarter.
_MANY_COMPONENTS = 100


@dataclass(frozen=True)
class Choice:
    """One of several contenders with what cross-validation selected for it.

    Parameters
    ----------
    contender : Contender
        Refined method.
    selection : Selection
        Its parameters, which may be those of no refinement, and its number of components.
    """

    contender: Contender
    selection: Selection


def rank_choices(
    contender: Contender,
    steps: list[Step],
    samples: Split,
    X: Floats,
    protocol: AssessmentProtocol,
    progress: Callable[[float], None] | None = None,
) -> tuple[list[Choice], list[str]]:
    """Choose settings for each method among which a contender chooses.

    Parameters
    ----------
    contender : Contender
        Contender with several choices.
    steps : list of (str, transformer)
        Preprocessing, not fitted.
    samples : Split
        Training samples.
    X : array of shape (n_samples, n_features)
        Training samples after the preprocessing.
    protocol : AssessmentProtocol
        Settings.
    progress : callable or None, default=None
        Called with the share of the methods that are done.

    Returns
    -------
    choices : list of Choice
        Those with a result, by decreasing score.
    left_out : list of str
        The other methods, with the reason.
    """
    choices: list[Choice] = []
    reasons: dict[str, list[str]] = {}
    for number, choice in enumerate(contender.choices):
        if progress is not None:
            progress(number / len(contender.choices))
        allowed = protocol.limit_components(choice, X, samples.y).n_components
        if allowed != protocol.n_components:
            reason = f"the number of components is at most {allowed} on these samples"
            reasons.setdefault(reason, []).append(choice.name)
            continue
        inner = replace(choice, steps=tuple(steps))
        try:
            selection = select_parameters(inner, samples, X.shape[1], protocol, scored=True)
        except ValueError as error:  # of a method that cannot be fitted to these samples
            # The cause that a search quotes, without its advice, which is for this method alone.
            cause = str(error).rpartition("The first said: ")[2]
            reason = cause.split(". ")[0].rstrip(".")
            reasons.setdefault(reason, []).append(choice.name)
        else:
            choices.append(Choice(choice, selection))
    left_out = [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    if not choices:
        raise ValueError(f"No method has a result. {'; '.join(left_out)}.")
    # Equal scores go to fewer components, then to the simpler method, which is listed first.
    choices.sort(key=lambda c: (-round(c.selection.score, 12), c.selection.n_components))
    return choices, left_out


def select_parameters(
    contender: Contender,
    samples: Split,
    limit: int,
    protocol: AssessmentProtocol,
    *,
    scored: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Selection:
    """Choose parameters and the number of components by folds of the training samples.

    Parameters
    ----------
    contender : Contender
        Method with its steps.
    samples : Split
        Training samples.
    limit : int
        Largest number of components.
    protocol : AssessmentProtocol
        Settings.
    scored : bool, default=False
        True if a score is needed even where there is nothing to choose.
    progress : callable or None, default=None
        Called with the share of the choice that is done.

    Returns
    -------
    Selection
        The choice and its score.
    """
    assert contender.method is not None
    X, y, n_components = samples.X, samples.y, protocol.n_components
    if n_components is not None and not contender.grid and not scored:
        return Selection({}, n_components)
    # StratifiedKFold refuses more folds than the largest class has samples.
    n_inner = min(protocol.n_inner, int(np.unique(y, return_counts=True)[1].max()))
    if samples.groups is not None:
        n_inner = min(n_inner, len(np.unique(samples.groups)))
    if n_inner < 2:
        raise ValueError(
            "no class has two training samples, or there is one group of them, so the number of "
            "components cannot be selected; use more folds, or more samples."
        )
    if not contender.method.is_ours:
        folds = stratified_folds(y, n_inner, protocol.seed, samples.groups)
        if protocol.count_choosing(len(y)) < len(y):
            folds = FoldSubsets(folds, y, protocol.seed).take(protocol.count_choosing(len(y)))
        try:
            table = compute_scores(contender, contender.grid, X, y, folds, protocol.scoring)
        except ValueError:
            # LDA needs more samples than classes, which folds of tiny classes do not have.
            if contender.grid or scored:
                raise
            largest = replace(protocol, n_components=limit).limit_components(contender, X, y)
            return Selection({}, largest.n_components or limit)
        return table.select_best(n_components, fewest=protocol.fewest).limit(limit)
    dimensions = tuple(r for r in contender.dimensions or () if r <= limit)
    if contender.dimensions is None and limit > _MANY_COMPONENTS:
        dimensions = tuple(sparse_numbers(limit).tolist())
    search = DiscriminantSearchCV(
        contender.estimator({}),
        {name: list(values) for name, values in contender.grid.items()},
        cv=n_inner,
        n_components=[n_components] if n_components is not None else dimensions or "all",
        selection="one-standard-error" if protocol.fewest else "robust",
        max_samples=protocol.max_samples,
        scoring=protocol.scoring,
        refit=False,
        random_state=protocol.seed,
        verbose=progress or 0,
    ).fit(X, y, groups=samples.groups)
    prefix = contender.prefix
    parameters = {k.removeprefix(prefix): value for k, value in search.best_params_.items()}
    n_components = parameters.pop("n_components")
    scores = search.best_score_, *_compare_with_start(search, prefix)
    return Selection(parameters, n_components, *scores).limit(limit)


def _compare_with_start(search: DiscriminantSearchCV, prefix: str) -> tuple[float, ...]:
    """Return the scores without and with refinement at the selected number of components."""
    table, best = search.cv_results_, search.best_params_
    if "stage" not in table:
        return ()
    number, rounds = f"{prefix}n_components", f"{prefix}n_rounds"
    is_start = np.array([point.get(rounds) == 0 for point in table["params"]])
    is_last = table["stage"] == table["stage"].max()
    if "iter" in table:
        is_last &= table["iter"] == table["iter"][search.best_index_]
    has_number = is_last & (table[f"param_{number}"] == best[number])
    scores = (table["mean_test_score"][has_number & rows] for rows in (is_start, ~is_start))
    alone, refined = (float(np.nanmax(values)) for values in scores)
    return alone, refined if best.get(rounds) == 0 else search.best_score_


@dataclass(frozen=True)
class SelectedModel:
    """A model fitted to all samples, with the choice that cross-validation made for it.

    Parameters
    ----------
    model : Pipeline
        Preprocessing, method and, unless left out, a 1-NN classifier named ``"neighbors"``.
    selection : Selection
        Parameters and number of components.
    method : str
        Name of the method, which is the choice of a contender that has several.
    preparation : Preparation
        Steps before the method, and why.
    choices : tuple of Choice, default=()
        Those, by decreasing score.
    left_out : tuple of str, default=()
        The methods without a result, with the reason.
    """

    model: Pipeline
    selection: Selection
    method: str
    preparation: Preparation
    choices: tuple[Choice, ...] = ()
    left_out: tuple[str, ...] = ()


def select_model(
    X: Any,
    y: Labels,
    contender: Contender,
    protocol: AssessmentProtocol,
    *,
    groups: Labels | None = None,
    neighbors: bool = True,
    progress: Callable[[float], None] | None = None,
) -> SelectedModel:
    """Choose parameters by cross-validation and fit a pipeline to all samples.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_features)
        Samples. The model keeps the column names of a data frame, which has text where the
        protocol has text columns.
    y : array of shape (n_samples,)
        Labels.
    contender : Contender
        Method.
    protocol : AssessmentProtocol
        Settings.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.
    neighbors : bool, default=True
        True appends a 1-NN classifier, which keeps the mapped samples and their labels.
    progress : callable or None, default=None
        Called with the share of the choice that is done.

    Returns
    -------
    SelectedModel
        Fitted pipeline and the choice.
    """
    values = protocol.encoding.to_numbers(X)
    with ignore_fit_warnings():
        raw = Split(values, y, values[:0], y[:0], groups)
        preparation = protocol.prepare(contender, raw)
        steps = preparation.make_steps()
        values = _fit_steps(steps, values)
        choices: list[Choice] = []
        left_out: list[str] = []
        if contender.choices:
            choices, left_out = rank_choices(contender, steps, raw, values, protocol, progress)
            contender = choices[0].contender
        # A comparison continues with fewer components. The model to keep must have the number that
        # was asked for.
        limit = protocol.limit_components(contender, values, y).n_components
        if limit != protocol.n_components:
            text = f"{contender.name} has at most {limit} components here"
            raise ValueError(f"{text}, not {protocol.n_components}.")
        inner = replace(contender, steps=tuple(steps))
        limit = values.shape[1]
        if choices:
            selection = choices[0].selection
        else:
            selection = select_parameters(inner, raw, limit, protocol, progress=progress)
        estimator = contender.estimator(selection.parameters, selection.n_components)
        steps.append((contender.name.lower().replace(" ", "_"), estimator))
        if neighbors:
            steps.append(("neighbors", KNeighborsClassifier(1, algorithm="brute")))
        # Fitted to X, not to the values: a data frame gives the pipeline its column names.
        model = Pipeline(steps).fit(X, y)
        if neighbors:  # by which mpda evaluate recognises samples of the fit
            setattr(model.steps[-1][1], FINGERPRINTS, fingerprint_rows(encode_columns(model, X)))
        return SelectedModel(
            model, selection, contender.name, preparation, tuple(choices), tuple(left_out)
        )


def _fit_steps(steps: Sequence[Step], X: Floats) -> Floats:
    for _, step in steps:
        X = step.fit_transform(X)
    return X


def time_selection(
    X: Floats,
    y: Labels,
    contender: Contender,
    protocol: AssessmentProtocol,
    *,
    groups: Labels | None = None,
) -> float:
    """Measure the time of the choice that `select_model` makes.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels.
    contender : Contender
        Method.
    protocol : AssessmentProtocol
        Settings; ``max_samples`` is the number of samples that choose.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample.

    Returns
    -------
    float
        Seconds.
    """
    start = time.perf_counter()
    with ignore_fit_warnings():
        samples = Split(X, y, X[:0], y[:0], groups)
        steps = protocol.prepare(contender, samples).make_steps()
        if contender.choices:
            rank_choices(contender, steps, samples, _fit_steps(steps, X), protocol)
        else:
            inner = replace(contender, steps=tuple(steps))
            select_parameters(inner, samples, X.shape[1], protocol)
    return time.perf_counter() - start


def stratified_folds(y: Labels, n_folds: int, seed: int, groups: Labels | None = None) -> Folds:
    """Divide samples into shuffled folds that are alike in their classes.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Labels.
    n_folds : int
        Number of folds.
    seed : int
        Seed of the draw.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.

    Returns
    -------
    list of (train, test)
        Indices of each fold.
    """
    check_count("n_folds", n_folds, least=2)
    if groups is not None:
        return split_groups(y, groups, n_folds, seed)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    # scikit-learn warns of classes smaller than the number of folds.
    with ignore_fit_warnings():
        return list(splitter.split(np.zeros(len(y)), y))


@contextmanager
def ignore_fit_warnings() -> Iterator[None]:
    """Ignore warnings about single fits of a comparison.

    Small classes and singular grid points repeat in hundreds of fits, and the caller reports both
    once: classes when the table is read, failures as `Assessment.failed`. Deprecations still pass.
    """
    with warnings.catch_warnings():
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("ignore", category)
        yield
