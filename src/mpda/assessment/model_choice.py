"""The choice of settings by cross-validation, and the model that is fitted with them.

The same choice is made for the model that is kept and inside every outer fold of `nested_cv`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda._lib.array_types import Floats, Labels
from mpda._lib.fingerprints import fingerprint_rows
from mpda.assessment.assessment_protocol import AssessmentProtocol
from mpda.assessment.column_transformer import encode_columns
from mpda.assessment.contender import Contender, Step
from mpda.assessment.data_split import Split
from mpda.assessment.evaluation import FINGERPRINTS
from mpda.assessment.parameter_choice import SelectedParameters, select_parameters
from mpda.assessment.preparation import Preparation


@dataclass(frozen=True)
class RankedContender:
    """A contender with what cross-validation selected for it.

    Parameters
    ----------
    contender : Contender
        Method.
    selected : SelectedParameters
        Its parameters, which may be those of no refinement, and its number of components.
    """

    contender: Contender
    selected: SelectedParameters


@dataclass(frozen=True)
class Ranking:
    """The methods among which a contender chooses.

    Parameters
    ----------
    ranked : tuple of RankedContender
        Those with a result, by decreasing score; after them those that were not refined, where the
        protocol limits how many are.
    left_out : tuple of str
        The other methods, with the reason.
    """

    ranked: tuple[RankedContender, ...]
    left_out: tuple[str, ...] = ()


def rank_contenders(
    contender: Contender,
    steps: Sequence[Step],
    samples: Split,
    X: Floats,
    protocol: AssessmentProtocol,
    progress: Callable[[float], None] | None = None,
) -> Ranking:
    """Choose settings for a contender, or for each method among which it chooses.

    Parameters
    ----------
    contender : Contender
        Method, or a choice among several.
    steps : sequence of (str, transformer)
        Preprocessing, not fitted.
    samples : Split
        Training samples.
    X : array of shape (n_samples, n_features)
        Training samples after the preprocessing.
    protocol : AssessmentProtocol
        Settings.
    progress : callable or None, default=None
        Called with the share of the work that is done.

    Returns
    -------
    Ranking
        Where there is one method, its errors are raised.
    """
    if not contender.choices:
        # The model to keep must have the number that was asked for; a comparison asks for less.
        most = contender.count_components(X.shape[1], samples.y)
        if protocol.n_components is not None and protocol.n_components > most:
            text = f"{contender.name} has at most {most} components here"
            raise ValueError(f"{text}, not {protocol.n_components}.")
        selected = select_parameters(
            contender, steps, samples, X.shape[1], protocol, progress=progress
        )
        return Ranking((RankedContender(contender, selected),))
    n_choices, n_refined = len(contender.choices), protocol.n_refined
    if n_refined is None or n_refined >= n_choices:
        return _rank_choices(
            contender.choices, steps, samples, X, protocol, _report_steps(progress, 0, n_choices)
        )
    n_steps = n_choices + n_refined
    starts = [choice.without_refinement() for choice in contender.choices]
    refinements = {
        start.name: choice for start, choice in zip(starts, contender.choices, strict=True)
    }
    report = _report_steps(progress, 0, n_steps)
    alone = _rank_choices(starts, steps, samples, X, protocol, report)
    if n_refined == 0:
        return alone
    best = [refinements[entry.contender.name] for entry in alone.ranked[:n_refined]]
    report = _report_steps(progress, n_choices, n_steps)
    refined = _rank_choices(best, steps, samples, X, protocol, report)
    # The others have no score on the folds that compare a refinement with its start.
    return Ranking((*refined.ranked, *alone.ranked[n_refined:]), alone.left_out)


def _report_steps(
    progress: Callable[[float], None] | None, n_before: int, n_steps: int
) -> Callable[[int], None]:
    """Return a function of the number of finished steps that reports the share of the work."""

    def report(n_done: int) -> None:
        if progress is not None:
            progress((n_before + n_done) / n_steps)

    return report


def _rank_choices(
    choices: Sequence[Contender],
    steps: Sequence[Step],
    samples: Split,
    X: Floats,
    protocol: AssessmentProtocol,
    report: Callable[[int], None],
) -> Ranking:
    """Choose settings for each of several methods, and order the methods by their scores."""
    ranked: list[RankedContender] = []
    reasons: dict[str, list[str]] = {}
    for number, choice in enumerate(choices):
        report(number)
        most = choice.count_components(X.shape[1], samples.y)
        if protocol.n_components is not None and protocol.n_components > most:
            reason = f"the number of components is at most {most} on these samples"
            reasons.setdefault(reason, []).append(choice.name)
            continue
        try:
            selected = select_parameters(choice, steps, samples, X.shape[1], protocol, scored=True)
        except ValueError as error:  # of a method that cannot be fitted to these samples
            # The cause that a search quotes, without its advice, which is for this method alone.
            cause = str(error).rpartition("The first said: ")[2]
            reason = cause.split(". ")[0].rstrip(".")
            reasons.setdefault(reason, []).append(choice.name)
        else:
            ranked.append(RankedContender(choice, selected))
    left_out = tuple(f"{', '.join(names)}: {why}" for why, names in reasons.items())
    if not ranked:
        raise ValueError(f"No method has a result. {'; '.join(left_out)}.")
    # Equal scores go to fewer components, then to the simpler method, which is listed first.
    ranked.sort(key=lambda c: (-round(c.selected.score, 12), c.selected.n_components))
    return Ranking(tuple(ranked), left_out)


@dataclass(frozen=True)
class SelectedModel:
    """A model fitted to all samples, with the choice that cross-validation made for it.

    Parameters
    ----------
    model : Pipeline
        Preprocessing, method and, unless left out, a 1-NN classifier named ``"neighbors"``.
    ranking : Ranking
        Methods among which the choice was, with their parameters; the first is that of the model.
    preparation : Preparation
        Steps before the method, and why.
    """

    model: Pipeline
    ranking: Ranking
    preparation: Preparation

    @property
    def method(self) -> str:
        """Name of the method, which is the choice of a contender that has several."""
        return self.ranking.ranked[0].contender.name

    @property
    def has_choices(self) -> bool:
        """True if the method was chosen among several."""
        return len(self.ranking.ranked) + len(self.ranking.left_out) > 1

    @property
    def selected(self) -> SelectedParameters:
        """Parameters and number of components."""
        return self.ranking.ranked[0].selected


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
        columns of the protocol are text.
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
    values = protocol.take_samples(X)
    with ignore_fit_warnings():
        raw = Split(values, y, values[:0], y[:0], groups)
        preparation = protocol.prepare(contender, raw)
        steps = preparation.make_steps()
        values = _fit_steps(steps, values)
        ranking = rank_contenders(contender, steps, raw, values, protocol, progress)
        contender, selected = ranking.ranked[0].contender, ranking.ranked[0].selected
        estimator = contender.estimator(selected.parameters, selected.n_components)
        steps.append((contender.name.lower().replace(" ", "_"), estimator))
        if neighbors:
            steps.append(("neighbors", KNeighborsClassifier(1, algorithm="brute")))
        # Fitted to X, not to the values: a data frame gives the pipeline its column names.
        model = Pipeline(steps).fit(X, y)
        if neighbors:  # by which mpda evaluate recognises samples of the fit
            setattr(model.steps[-1][1], FINGERPRINTS, fingerprint_rows(encode_columns(model, X)))
        return SelectedModel(model, ranking, preparation)


def _fit_steps(steps: Sequence[Step], X: Any) -> Floats:
    for _, step in steps:
        X = step.fit_transform(X)
    return X


def time_selection(
    X: Any,
    y: Labels,
    contender: Contender,
    protocol: AssessmentProtocol,
    *,
    groups: Labels | None = None,
) -> float:
    """Measure the time of the choice that `select_model` makes.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_features)
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
    start, X = time.perf_counter(), protocol.take_samples(X)
    with ignore_fit_warnings():
        samples = Split(X, y, X[:0], y[:0], groups)
        steps = protocol.prepare(contender, samples).make_steps()
        rank_contenders(contender, steps, samples, _fit_steps(steps, X), protocol)
    return time.perf_counter() - start


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
