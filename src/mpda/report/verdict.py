"""What measured errors mean, in sentences: verdict, error, differences, next step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpda import assessment
from mpda.assessment import (
    BASELINE,
    CLASSIFIER,
    CLASSIFIER_NOTE,
    MAP_ADVANTAGE,
    ErrorComparison,
    ErrorEstimate,
)
from mpda.assessment.significance import LEVEL

Rows = Sequence[Mapping[str, Any]]

# Next step where no method is better than a guess, or than 1-NN on the features.
_CHECK = "check the labels, or measure other features."
_TRY_OTHERS = "try --search, --method auto, or other features."
_USE_LDA = "use --method lda, or try --method auto."
_USE_IF_SMALLER_HELPS = "use it if that helps, or try --method auto."
# The same where the method was chosen automatically already.
_AUTOMATIC_ADVICE = {
    _TRY_OTHERS: "try --search, or other features.",
    _USE_LDA: "use --method lda.",
    _USE_IF_SMALLER_HELPS: "use it if that helps, or try --search.",
}
_P_VALUES_OF_SPLITS = (
    "p-values are those of the corrected resampled t-test over the splits, adjusted for the number "
    "of comparisons."
)
# Share of the features up to which a map of equal error is worth having.
_SMALL_SHARE = 0.5


@dataclass(frozen=True)
class ErrorSummary:
    """What the errors of a method mean.

    Parameters
    ----------
    verdict : str
        Does the method help?
    errors : list of str
        Size of the map, and its error.
    differences : list of str
        Differences to 1-NN, LDA and the classifier.
    next_step : str
        What to do next.
    beats_guess : bool, default=True
        False if no method is significantly better than a guess of the most frequent class.
    """

    verdict: str
    errors: list[str]
    differences: list[str]
    next_step: str
    beats_guess: bool = True

    @property
    def sentences(self) -> list[str]:
        """All of them in this order."""
        return [self.verdict, *self.errors, *self.differences, self.next_step]


def summarize_errors(
    rows: Rows,
    method: str,
    n_features: int,
    n_components: int | None = None,
    candidates: Sequence[str] = (),
    title: str | None = None,
) -> ErrorSummary:
    """Say in sentences how good a method is, and what to do next.

    Parameters
    ----------
    rows : sequence of FoldResult
        Results of the method, 1-NN and LDA on one problem.
    method : str
        Name of the method.
    n_features : int
        Number of features.
    n_components : int or None, default=None
        Number of components of the model that is kept. None if no model is kept.
    candidates : sequence of str, default=()
        Methods among which this one was selected by the same rows, and this one. p-values are
        adjusted for the comparisons of all of them, because a selected method is often better by
        chance.
    title : str or None, default=None
        What the sentences call the method, if it was chosen automatically. Then they do not advise
        such a choice.

    Returns
    -------
    ErrorSummary
        Sentences.
    """
    estimates = {key[1]: value for key, value in assessment.estimate_errors(rows, "cv").items()}
    estimate = estimates[method]
    references = {BASELINE: f"1-NN on {_count_features(n_features)}", "LDA": "LDA"}
    pairs = assessment.compare_methods(estimates, candidates or [method])
    comparisons = {name: pairs[method, name] for name in references if (method, name) in pairs}
    differences = [
        f"{references[name]} has an error of {estimates[name]}: {_describe_difference(comparison)}."
        for name, comparison in comparisons.items()
    ]
    if any("p = " in text for text in differences):
        by_samples = any(comparison.p_samples is not None for comparison in comparisons.values())
        differences.append(_explain_p_values(estimate) if by_samples else _P_VALUES_OF_SPLITS)
    differences += describe_classifier(rows, method)
    size = n_components if n_components is not None else float(estimate.component_counts.mean())
    lda_size = _find_useful_lda(estimates, n_features)
    name = title or method
    verdict, next_step = _judge(name, comparisons, size, lda_size, n_features)
    if title is not None:
        next_step = _AUTOMATIC_ADVICE.get(next_step, next_step)
    beats_guess = assessment.find_better_than_guess(estimates) != set()
    if not beats_guess:
        verdict, next_step = _describe_guess(name, estimate), _CHECK
    mapped = f"{name} maps {_count(n_features, 'feature')} to {_count(size, 'component')}."
    errors = [mapped, _describe_error(estimate)]
    return ErrorSummary(verdict, errors, differences, f"Next: {next_step}", beats_guess)


def describe_classifier(rows: Rows, method: str) -> list[str]:
    """Say how the error of the classifier lies relative to that of a method, and what a map adds.

    Parameters
    ----------
    rows : sequence of FoldResult
        Results on one problem.
    method : str
        Name of the method.

    Returns
    -------
    list of str
        Two sentences; none where the classifier was not measured.
    """
    estimates = {key[1]: value for key, value in assessment.estimate_errors(rows, "cv").items()}
    if CLASSIFIER not in estimates:
        return []
    (comparison,) = assessment.compare_errors([(estimates[method], estimates[CLASSIFIER])])
    name = f"{CLASSIFIER.capitalize()} ({CLASSIFIER_NOTE})"
    difference = _describe_difference(comparison, f"that of {method}")
    return [f"{name} has an error of {estimates[CLASSIFIER]}: {difference}.", MAP_ADVANTAGE]


def _explain_p_values(estimate: ErrorEstimate) -> str:
    """Say which tests the two p-values of a difference are from, and which one decides."""
    test = "McNemar's test" if estimate.groups is None else "a t-test over groups"
    return (
        f"The first p-value is that of {test}, adjusted for the number of comparisons; it decides. "
        "The second (corrected resampled t-test) asks whether fits to other samples would show the "
        "difference too; with few folds it misses most differences."
    )


def _sign(comparison: ErrorComparison | None) -> int:
    """Return 1 if the reference errs more, -1 if it errs less, 0 if that may be chance."""
    if comparison is None or not comparison.is_significant:
        return 0
    return 1 if comparison.difference > 0 else -1


def _is_as_good(comparison: ErrorComparison, sign: int) -> bool:
    """Return whether nothing shows that one of two methods errs more.

    The p-value is the one before the adjustment: the more methods are compared, the more of them
    would otherwise count as good. A sign of 1 is for the second method, -1 for the first.
    """
    return not (sign * comparison.difference > 0 and comparison.p_value <= LEVEL)


def _is_useful(comparison: ErrorComparison | None, size: float, n_features: float) -> bool:
    """Return whether a map is better than 1-NN on the features, or as good and clearly smaller."""
    if comparison is None:  # 1-NN was not measured
        return True
    is_small = size <= _SMALL_SHARE * n_features
    return _sign(comparison) > 0 or (is_small and _is_as_good(comparison, -1))


def _find_useful_lda(estimates: Mapping[str, ErrorEstimate], n_features: int) -> float | None:
    """Return the number of components of LDA, None if it is no advice."""
    if "LDA" not in estimates:
        return None
    size = float(estimates["LDA"].component_counts.mean())
    comparison = None
    if BASELINE in estimates:
        (comparison,) = assessment.compare_errors([(estimates["LDA"], estimates[BASELINE])])
    return size if _is_useful(comparison, size, n_features) else None


@dataclass(frozen=True)
class Recommendation:
    """The method to take, by error and size.

    Parameters
    ----------
    method : str
        Name of the method.
    reason : str
        Why, in a sentence.
    helps : bool
        False if no method is better than a guess, or than 1-NN on the features.
    """

    method: str
    reason: str
    helps: bool = True


def recommend_method(rows: Rows, candidates: Sequence[str]) -> Recommendation:
    """Recommend the smallest of the methods that are as good as the best.

    As good is a method whose error is not significantly higher, even by a p-value that is not
    adjusted for the number of methods.

    No method is recommended where none is significantly better than always guessing the most
    frequent class. A recommended method is better than 1-NN on the features, if that was measured,
    or as good with at most half as many numbers.

    Parameters
    ----------
    rows : sequence of FoldResult
        Results of all methods on one problem.
    candidates : sequence of str
        Methods to choose from.

    Returns
    -------
    Recommendation
        Method and reason. The method of the lowest error where none is recommended.
    """
    estimates = {key[1]: value for key, value in assessment.estimate_errors(rows, "cv").items()}
    better_than_guess = assessment.find_better_than_guess(estimates)
    comparisons = assessment.compare_methods(estimates, candidates)
    n_features = (
        float(estimates[BASELINE].component_counts.mean()) if BASELINE in estimates else math.inf
    )
    estimates = {name: estimates[name] for name in candidates}
    sizes = {name: float(estimate.component_counts.mean()) for name, estimate in estimates.items()}
    lowest = min(estimates, key=lambda name: estimates[name].mean)
    if better_than_guess == set():
        return Recommendation(lowest, _describe_guess(lowest, estimates[lowest]), helps=False)
    good = {
        name
        for name in estimates
        if (name == lowest or _is_as_good(comparisons[lowest, name], 1))
        and _is_useful(comparisons.get((name, BASELINE)), sizes[name], n_features)
    }
    if not good:
        reason = (
            "No method helps here: none is significantly better than 1-NN on the features, or as "
            "good with half as many numbers."
        )
        return Recommendation(lowest, reason, helps=False)
    chosen = min(good, key=lambda name: (round(sizes[name], 9), estimates[name].mean))
    size = _count_mean(sizes[chosen])
    error = f"{estimates[chosen].mean:.2f} %"
    if chosen == lowest:
        text = f"{chosen} has the lowest error of {len(estimates)} methods ({error}), with {size}"
        if len(good) > 1:
            text += "; no method of similar error is smaller"
    else:
        text = (
            f"{chosen} needs {size}, and its error ({error}) is not significantly higher than the "
            f"lowest, that of {lowest} ({estimates[lowest].mean:.2f} %, "
            f"{_count_mean(sizes[lowest])})"
        )
    return Recommendation(chosen, f"Recommended: {chosen}. {text}.")


def _describe_guess(method: str, estimate: ErrorEstimate) -> str:
    """Say that no method is better than a guess, with the errors of one method and of the guess."""
    return (
        "No method is significantly better than always guessing the most frequent class: "
        f"{method} errs on {estimate.mean:.1f} %, the guess on {estimate.guess:.1f} %."
    )


def _describe_error(estimate: ErrorEstimate) -> str:
    """Say how large the error of a method is, with its interval."""
    interval, splits = estimate.sample_interval, "folds"
    if interval is None:
        error, splits = str(estimate), "splits"
    else:
        error = f"{estimate.mean:.2f} % (95 % interval {interval[0]:.1f} to {interval[1]:.1f} %)"
    mean = _count(float(estimate.component_counts.mean()), "component")
    return (
        f"Error on samples left out of the fit: {error}. This is the share of samples whose "
        f"nearest neighbour has another class; the {splits} selected {mean} on average."
    )


def _count_features(n_features: int) -> str:
    return "the only feature" if n_features == 1 else f"all {n_features} features"


def _count(number: float, noun: str) -> str:
    """Return for example "2.5 components"."""
    text = f"{number:.1f}".removesuffix(".0")
    return f"{text} {noun}{'' if text == '1' else 's'}"


def _count_mean(size: float) -> str:
    """Return a number of components over the folds, for example "2 numbers"."""
    text = _count(size, "number")
    return f"{text} on average" if "." in text else text


def _judge(
    method: str,
    comparisons: Mapping[str, ErrorComparison],
    size: float,
    lda_size: float | None,
    n_features: int,
) -> tuple[str, str]:
    """Return the verdict and the next step: by significant differences, then by the sizes.

    ``lda_size`` is None where LDA is no better than 1-NN on the features, or was not measured.
    """
    sign = {name: _sign(comparisons.get(name)) for name in (BASELINE, "LDA")}

    def gap(name: str) -> str:
        return f"{abs(comparisons[name].difference):.2f} points"

    numbers = f"{_count(size, 'number')} instead of {n_features}"
    if not comparisons:
        return f"{method}: a sample has {numbers}.", "measure it on new samples with mpda evaluate."
    if sign["LDA"] < 0 and lda_size is not None:
        return (
            f"LDA is better here: its error is {gap('LDA')} lower than that of {method}.",
            _USE_LDA,
        )
    if sign[BASELINE] < 0:
        return (
            f"{method} does not help here: the error of 1-NN on the features is {gap(BASELINE)} "
            "lower.",
            _TRY_OTHERS,
        )
    is_lda_as_good = "LDA" in comparisons and _is_as_good(comparisons["LDA"], 1)
    if is_lda_as_good and lda_size is not None and lda_size <= size:
        fewer = f"{_count_mean(lda_size)} instead of {size:.3g}"
        as_many = round(lda_size, 1) == round(size, 1)
        return (
            f"LDA does as well with {'as many numbers' if as_many else fewer}.",
            "use --method lda.",
        )
    if sign[BASELINE] > 0:
        return (
            f"{method} helps here: its error is {gap(BASELINE)} lower than that of 1-NN on the "
            f"features, with {numbers if size < n_features else 'as many numbers'}.",
            "measure it on new samples with mpda evaluate.",
        )
    is_small = size <= _SMALL_SHARE * n_features
    if is_small and _is_useful(comparisons.get(BASELINE), size, n_features):
        return (
            f"{method} does not change the error, but a sample has {numbers}.",
            _USE_IF_SMALLER_HELPS,
        )
    return (
        f"{method} does not help here: no difference to 1-NN on the features is significant.",
        _TRY_OTHERS,
    )


def _describe_difference(comparison: ErrorComparison, other: str = "") -> str:
    """Say how the other error lies relative to that of the method, with the p-values.

    ``other`` names what the error is compared with, where that is not clear.
    """
    gap = comparison.difference
    if abs(gap) < 0.005:  # equal with two decimals
        return f"the same as {other}" if other else "the same"
    p_values = [f"p = {_format_p(comparison.p_adjusted)}"]
    if comparison.p_samples is not None and not math.isnan(comparison.p_splits):
        p_values.append(f"over training sets p = {_format_p(comparison.p_splits)}")
    size = f"{abs(gap):.2f} points {'higher' if gap > 0 else 'lower'}"
    size += f" than {other}" if other else ""
    if not comparison.is_significant:
        size += ", which may be chance"
    return f"{size} ({', '.join(p_values)})"


def _format_p(p_value: float) -> str:
    return f"{p_value:.3f}" if p_value >= 0.001 else "0.001 or less"
