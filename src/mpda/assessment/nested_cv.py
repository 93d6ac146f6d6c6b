"""Nested cross-validation of several methods, and the model to keep.

The outer folds only measure errors. In each of them the inner folds, made of its training samples
alone, choose the parameters and the number of components. `select_model` makes the same choice
with all samples and fits the model that is kept.
"""

from __future__ import annotations

import itertools
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

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.fingerprints import fingerprint_rows
from mpda._lib.validation import check_count
from mpda.assessment import data_split
from mpda.assessment.column_encoding import NUMBERS, ColumnEncoding, encode_columns
from mpda.assessment.contender import SPARSE_DIMENSIONS, Contender, Step
from mpda.assessment.data_split import Split
from mpda.assessment.evaluation import FINGERPRINTS
from mpda.assessment.parameter_scores import (
    FoldResult,
    Selection,
    assess_features,
    assess_selection,
    compute_scores,
)
from mpda.assessment.preparation import Preparation, decide_preparation
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.folds import split_groups, stratified_order
from mpda.model_selection.halving import FoldSubsets
from mpda.parallel import map_ordered

# Folds that are measured however little time there is: one has no variance.
_MIN_FOLDS = 2
# Training samples by which the maps of folds are aligned.
_MAX_ANCHORS = 1000


@dataclass(frozen=True)
class AssessmentProtocol:
    """Settings of a nested cross-validation.

    Parameters
    ----------
    n_folds : int, default=5
        Outer folds, which measure the error.
    n_inner : int, default=4
        Inner folds, which choose parameters and the number of components.
    scaled : bool or None, default=None
        True standardises the features. None decides it on the training samples.
    energy : float, str or None, default="auto"
        Share of the variance that PCA keeps before the method; None is no PCA. ``"auto"`` decides
        above 100 features, on the training samples, between 0.95 and no PCA.
    n_components : int or None, default=None
        Number of components. None lets the inner folds choose. A method of scikit-learn that has
        fewer components uses all it has.
    seed : int, default=0
        Seed of all folds.
    fewest : bool, default=True
        True keeps the fewest components within one standard error of the best score, False those
        of the best score.
    max_samples : int or None, default=10000
        Samples that choose parameters and the number of components, a stratified subset of the
        training samples. None takes all.
    max_tests : int or None, default=4000
        Test samples of an outer fold, a stratified subset. None takes all.
    encoding : ColumnEncoding
        Columns that are text or have missing values; by default there are none.
    """

    n_folds: int = 5
    n_inner: int = 4
    scaled: bool | None = None
    energy: float | str | None = "auto"
    n_components: int | None = None
    seed: int = 0
    fewest: bool = True
    max_samples: int | None = 10_000
    max_tests: int | None = 4000
    encoding: ColumnEncoding = NUMBERS

    def count_choosing(self, n_samples: int) -> int:
        """Return how many samples choose settings.

        Parameters
        ----------
        n_samples : int
            Training samples.

        Returns
        -------
        int
            At most ``max_samples``.
        """
        return n_samples if self.max_samples is None else min(n_samples, self.max_samples)

    def limit_components(self, contender: Contender, X: Floats, y: Labels) -> AssessmentProtocol:
        """Return the protocol with no more components than a map of scikit-learn has.

        Parameters
        ----------
        contender : Contender
            Method.
        X : array of shape (n_samples, n_features)
            Preprocessed training samples.
        y : array of shape (n_samples,)
            Labels.

        Returns
        -------
        AssessmentProtocol
            Unchanged for the methods of mpda, which raise an error of their own, unless they refine
            a map of scikit-learn.
        """
        entry = contender.method
        if self.n_components is None or entry is None or (entry.is_ours and not entry.start):
            return self
        limit = X.shape[1]
        if "LDA" in contender.name:  # the means of c classes span c - 1 dimensions
            limit = min(limit, len(np.unique(y)) - 1)
        return replace(self, n_components=min(self.n_components, limit))

    def prepare(self, contender: Contender, samples: Split) -> Preparation:
        """Decide what happens to the features before a method.

        Parameters
        ----------
        contender : Contender
            Method.
        samples : Split
            Training samples; the test samples are not used.

        Returns
        -------
        Preparation
            Steps and reasons.
        """
        return decide_preparation(
            contender,
            samples,
            scaled=self.scaled,
            energy=self.energy,
            seed=self.seed,
            encoding=self.encoding,
        )


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
    X: Floats,
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
    X : array of shape (n_samples, n_features)
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
        for train, test in _stratified_folds(y, protocol.n_folds, protocol.seed, groups)
    ]
    known = [None if groups is None else groups[train] for train, _ in folds]
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
    # Fold by fold, so that all methods have the same folds if there is no time for all.
    arguments = (
        (Split(X[train], y[train], X[test], y[test], known[number]), contender, number, protocol)
        for number, (train, test) in enumerate(folds)
        for contender in contenders
    )
    rows: list[FoldResult] = []
    start = time.monotonic()
    n_calls = len(contenders) * len(folds)
    results = map_ordered(_assess_fold, arguments, n_calls, n_jobs=n_jobs)
    for contender, row in zip(itertools.cycle(contenders), results, strict=False):
        train, row["tested"] = folds[row["seed"]]  # the fold number is the seed of the row
        row["guess_wrong"] = y[row["tested"]] != _most_frequent(y[train])
        row["test_share"] = (len(y) - train.size) / train.size
        if codes is not None:
            row["groups"] = codes[row["tested"]]
        if "anchors" in row:
            row["anchors"] = train[row["anchors"]]
        rows.append(row)
        if progress is not None:
            progress(contender)
        n_folds, unfinished = divmod(len(rows), len(contenders))
        if deadline is not None and not unfinished and n_folds >= _MIN_FOLDS:
            now = time.monotonic()
            if now + (now - start) / n_folds > deadline:
                break
    order = {contender.name: i for i, contender in enumerate(contenders)}
    rows.sort(key=lambda row: order[row["method"]])
    # Reversed, so that the message of the first failing fold remains. Errors of the folds that
    # succeeded are left out: means over different folds cannot be compared.
    failed = {row["method"]: row["failure"] for row in reversed(rows) if "failure" in row}
    return Assessment([row for row in rows if row["method"] not in failed], failed)


def _assess_fold(
    split: Split, contender: Contender, number: int, protocol: AssessmentProtocol
) -> FoldResult:
    row = FoldResult(problem="", method=contender.name, seed=number)
    try:
        with ignore_fit_warnings():
            row.update(_measure_split(split, contender, protocol))
    except Exception as error:  # one failing method must not end the comparison of the others
        row["failure"] = " ".join(str(error).split()) or type(error).__name__
    return row


def _measure_split(split: Split, contender: Contender, protocol: AssessmentProtocol) -> FoldResult:
    """Return errors for all numbers of components, and predictions for the chosen one."""
    steps = protocol.prepare(contender, split).make_steps()
    if contender.method is None:  # PCA belongs to the methods
        steps = [step for step in steps if step[0] != "pca"]
    raw, split = split, data_split.preprocess(split, steps)
    selection = None
    if contender.choices:
        best = _rank_choices(contender, steps, raw, split.X, protocol)[0]
        contender, selection = best.contender, best.selection
    protocol = protocol.limit_components(contender, split.X, split.y)
    # The number that the user asked for may be missing from the sparse list of such a method.
    if contender.dimensions is not None and protocol.n_components is not None:
        dimensions = sorted({*contender.dimensions, protocol.n_components})
        contender = replace(contender, dimensions=tuple(dimensions))
    # The choice of parameters sees the raw samples: inner test samples take no part in the scaler
    # and the PCA either.
    inner = replace(contender, steps=tuple(steps))
    start = time.perf_counter()
    if contender.method is not None and selection is None:
        selection = _select_parameters(inner, raw, split.X.shape[1], protocol)
    seconds = time.perf_counter() - start
    if selection is None:
        row, Z, Z_test = assess_features(split), split.X, split.X_test
    else:
        row, Z, Z_test = assess_selection(contender, split, selection, SPARSE_DIMENSIONS)
        row["search_seconds"] = round(seconds, 3)
    row["chosen"] = contender.name
    row["predicted"] = data_split.classify_test_samples(Split(Z, split.y, Z_test, split.y_test))
    row["misclassified"] = row["predicted"] != split.y_test
    drawn = np.linspace(0, len(Z) - 1, min(len(Z), _MAX_ANCHORS)).astype(np.intp)
    row["projected"], row["anchors"], row["anchor_points"] = Z_test, drawn, Z[drawn]
    return row


def _most_frequent(y: Labels) -> Any:
    labels, counts = np.unique(y, return_counts=True)
    return labels[counts.argmax()]


def _draw_tests(y: Labels, test: Ints, protocol: AssessmentProtocol) -> Ints:
    """Return the test samples of a fold, of too many a stratified subset."""
    if protocol.max_tests is None or test.size <= protocol.max_tests:
        return test
    order = stratified_order(y[test], 1, np.random.default_rng(protocol.seed))
    return np.sort(test[order[: protocol.max_tests]])


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


def _rank_choices(
    contender: Contender,
    steps: list[Step],
    samples: Split,
    X: Floats,
    protocol: AssessmentProtocol,
    progress: Callable[[float], None] | None = None,
) -> list[Choice]:
    """Return the choices with a result by decreasing score; X are the preprocessed samples."""
    choices, failures = [], []
    for number, choice in enumerate(contender.choices):
        if progress is not None:
            progress(number / len(contender.choices))
        allowed = protocol.limit_components(choice, X, samples.y).n_components
        if allowed != protocol.n_components:
            failures.append(f"{choice.name} has at most {allowed} components here")
            continue
        inner = replace(choice, steps=tuple(steps))
        try:
            selection = _select_parameters(inner, samples, X.shape[1], protocol, scored=True)
        except ValueError as error:  # of a method that cannot be fitted to these samples
            failures.append(f"{choice.name}: {error}")
        else:
            choices.append(Choice(choice, selection))
    if not choices:
        raise ValueError(f"No method has a result. {'; '.join(failures)}.")
    # Equal scores go to fewer components, then to the simpler method, which is listed first.
    return sorted(choices, key=lambda c: (-round(c.selection.score, 12), c.selection.n_components))


def _select_parameters(
    contender: Contender,
    samples: Split,
    limit: int,
    protocol: AssessmentProtocol,
    *,
    scored: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Selection:
    """Choose parameters and at most ``limit`` components by folds of the training samples.

    Without anything to choose there is no score, unless ``scored`` is True.
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
        folds = _stratified_folds(y, n_inner, protocol.seed, samples.groups)
        if protocol.count_choosing(len(y)) < len(y):
            folds = FoldSubsets(folds, y, protocol.seed).take(protocol.count_choosing(len(y)))
        table = compute_scores(contender, contender.grid, X, y, folds)
        return table.select_best(n_components, fewest=protocol.fewest).limit(limit)
    dimensions = tuple(r for r in contender.dimensions or () if r <= limit)
    search = DiscriminantSearchCV(
        contender.estimator({}),
        {name: list(values) for name, values in contender.grid.items()},
        cv=n_inner,
        n_components=[n_components] if n_components is not None else dimensions or "all",
        selection="one-standard-error" if protocol.fewest else "robust",
        max_samples=protocol.max_samples,
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
    is_last = table["stage"] == 2
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
    """

    model: Pipeline
    selection: Selection
    method: str
    preparation: Preparation
    choices: tuple[Choice, ...] = ()


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
        choices: tuple[Choice, ...] = ()
        if contender.choices:
            choices = tuple(_rank_choices(contender, steps, raw, values, protocol, progress))
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
            selection = _select_parameters(inner, raw, limit, protocol, progress=progress)
        estimator = contender.estimator(selection.parameters, selection.n_components)
        steps.append((contender.name.lower().replace(" ", "_"), estimator))
        if neighbors:
            steps.append(("neighbors", KNeighborsClassifier(1, algorithm="brute")))
        # Fitted to X, not to the values: a data frame gives the pipeline its column names.
        model = Pipeline(steps).fit(X, y)
        if neighbors:  # by which mpda evaluate recognises samples of the fit
            setattr(model.steps[-1][1], FINGERPRINTS, fingerprint_rows(encode_columns(model, X)))
        return SelectedModel(model, selection, contender.name, preparation, choices)


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
            _rank_choices(contender, steps, samples, _fit_steps(steps, X), protocol)
        else:
            inner = replace(contender, steps=tuple(steps))
            _select_parameters(inner, samples, X.shape[1], protocol)
    return time.perf_counter() - start


def _stratified_folds(
    y: Labels, n_folds: int, seed: int, groups: Labels | None = None
) -> list[tuple[Ints, Ints]]:
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
