"""Means, confidence intervals and significance tests of errors over splits.

Intervals are Student's t over n splits with standard deviation s:

    mean +- t(0.975, n - 1) s sqrt(1/n + r).

r is 0 for independent splits. Folds of a cross-validation share training samples, and r is then
the ratio of test to training samples (Nadeau and Bengio, 2003, "Inference for the generalization
error"). The paired test uses the same formula on the differences of two methods.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from mpda._lib.array_types import Bools, Floats, Ints
from mpda.assessment import significance
from mpda.assessment.label_classifier import CLASSIFIER

Key = tuple[str, str]  # problem, method


@dataclass(frozen=True)
class ErrorEstimate:
    """Errors of one method on one problem, by split.

    Parameters
    ----------
    splits : array of int of shape (n_splits,)
        Numbers of the folds or seeds of the splits, ascending. Equal ones of two methods are the
        same split.
    errors : array of shape (n_splits,)
        Errors in per cent.
    component_counts : array of shape (n_splits,)
        Numbers of components at which they were measured.
    shared : float, default=0.0
        Ratio of test to training samples where splits share training samples, else 0.
    wrong : array of bool of shape (n_samples,), default=None
        Misclassified samples, where every sample was tested once. Equal indices of two methods are
        the same sample.
    groups : array of int of shape (n_samples,), default=None
        Group of each of these samples, where samples of a group are alike.
    guess_wrong : array of bool of shape (n_samples,), default=None
        Samples that are not of the most frequent class.
    """

    splits: Ints
    errors: Floats
    component_counts: Floats
    shared: float = 0.0
    wrong: Bools | None = None
    groups: Ints | None = None
    guess_wrong: Bools | None = None

    @property
    def mean(self) -> float:
        """Mean error in per cent."""
        return float(self.errors.mean())

    @property
    def std(self) -> float:
        """Standard deviation over splits, nan for a single split."""
        return float(self.errors.std(ddof=1)) if self.errors.size > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval (95 %) of the mean, nan for a single split."""
        half = compute_half_width(self.std, self.errors.size, self.shared)
        return self.mean - half, self.mean + half

    @property
    def sample_interval(self) -> tuple[float, float] | None:
        """Confidence interval (95 %) from the tested samples, None where they are not known."""
        return None if self.wrong is None else significance.error_interval(self.wrong, self.groups)

    @property
    def guess(self) -> float | None:
        """Error in per cent of always guessing the most frequent class, None if not known."""
        return None if self.guess_wrong is None else 100.0 * float(self.guess_wrong.mean())

    def __str__(self) -> str:
        std = f" ± {self.std:.2f}" if self.errors.size > 1 else ""
        return f"{self.mean:.2f}{std} %"


def compute_half_width(std: Any, n: int, shared: float = 0.0) -> Any:
    """Return half the width of the 95 % confidence interval of a mean.

    Parameters
    ----------
    std : float or array
        Standard deviation over splits.
    n : int
        Number of splits.
    shared : float, default=0.0
        Ratio of test to training samples where splits share training samples.

    Returns
    -------
    float or array
        Half width, in the units of ``std``.
    """
    return stdtrit(n - 1, 0.975) * std * math.sqrt(1.0 / n + shared)


def estimate_errors(rows: Iterable[Mapping[str, Any]], selection: str) -> dict[Key, ErrorEstimate]:
    """Collect the errors of each problem and method.

    Parameters
    ----------
    rows : iterable of FoldResult
        One for each problem, method and split.
    selection : {"cv", "best"}
        Number of components at which errors are taken: the one selected by cross-validation on the
        training samples, or the best one on the test samples. The second is the paper's and is
        optimistic.

    Returns
    -------
    dict of (problem, method) to ErrorEstimate
        In the order of the rows.
    """
    groups, predictions = defaultdict(list), defaultdict(list)
    for row in rows:
        column = find_column(row, selection)
        error = 100.0 * row["wrong"][column] / row["n_test"]
        # The number of an outer fold, or the seed of a random split.
        split = row["fold"] if "fold" in row else row["seed"]
        facts = (split, error, row["dimensions"][column], row.get("test_share", 0.0))
        groups[row["problem"], row["method"]].append(facts)
        if selection == "cv" and "tested" in row:
            predictions[row["problem"], row["method"]].append(row)
    estimates = {}
    for key, values in groups.items():
        splits, errors, counts, shared = np.array(sorted(values), dtype=float).T
        by_sample = _join_folds(predictions[key]) if key in predictions else {}
        share = float(shared.mean())
        estimates[key] = ErrorEstimate(splits.astype(int), errors, counts, share, **by_sample)
    return estimates


def find_column(row: Mapping[str, Any], selection: str) -> int:
    """Return the position of the number of components at which the errors of a row are taken.

    Parameters
    ----------
    row : FoldResult
        Result of a method on a split.
    selection : {"cv", "best"}
        As in `estimate_errors`.
    """
    if selection == "best":
        return int(np.argmin(row["wrong"]))
    # A fit to all training samples may lack the selected number: take the next lower one.
    return int(np.searchsorted(row["dimensions"], row["cv_dimension"], side="right")) - 1


def _join_folds(folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is known of each sample, in their order; nothing if one was tested twice."""
    tested = np.concatenate([row["tested"] for row in folds])
    order = np.argsort(tested)
    if np.any(np.diff(tested[order]) == 0):
        return {}
    names = {"misclassified": "wrong", "groups": "groups", "guess_wrong": "guess_wrong"}
    return {
        name: np.concatenate([row[key] for row in folds])[order]
        for key, name in names.items()
        if key in folds[0]
    }


def _test_samples(first: Bools, second: Bools, groups: Ints | None) -> float:
    """Return the p-value of equally many errors on the same samples."""
    if groups is None:
        return significance.mcnemar_test(first, second)
    return significance.group_t_test(first, second, groups)


def find_best_methods(
    estimates: Mapping[str, ErrorEstimate], methods: Sequence[str] = ()
) -> set[str]:
    """Return the methods that are best or not significantly worse.

    Parameters
    ----------
    estimates : mapping of str to ErrorEstimate
        Errors by method, on the same problem.
    methods : sequence of str, default=()
        Methods about which other conclusions are drawn, as in `compare_methods`.

    Returns
    -------
    set of str
        Method of the lowest mean error, and all whose difference from it is not significant. The
        classifier is none of them (`leave_out_classifier`).
    """
    estimates = leave_out_classifier(estimates)
    if not estimates:
        return set()
    best = _find_lowest(estimates)
    comparisons = compare_methods(estimates, methods)
    # Without two common splits there is no test (nan), and nothing is called a tie.
    return {best} | {
        name
        for name in estimates
        if name != best and comparisons[best, name].p_adjusted > significance.LEVEL
    }


def leave_out_classifier(estimates: Mapping[str, ErrorEstimate]) -> dict[str, ErrorEstimate]:
    """Leave out the classifier, a reference that has no map.

    Conclusions about maps, and the p-values that they are adjusted for, do not depend on whether
    the reference was measured.

    Parameters
    ----------
    estimates : mapping of str to ErrorEstimate
        Errors by method, on the same problem.

    Returns
    -------
    dict of str to ErrorEstimate
        Errors of 1-NN, with a map or without.
    """
    return {name: estimate for name, estimate in estimates.items() if name != CLASSIFIER}


def _find_lowest(estimates: Mapping[str, ErrorEstimate]) -> str:
    return min(estimates, key=lambda name: estimates[name].mean)


def find_better_than_guess(estimates: Mapping[str, ErrorEstimate]) -> set[str] | None:
    """Return the methods that are significantly better than a guess of the most frequent class.

    Parameters
    ----------
    estimates : mapping of str to ErrorEstimate
        Errors by method, on the same problem. All methods from which one may be taken: p-values are
        adjusted for their number, because the lowest of several errors is low by chance, too.

    Returns
    -------
    set of str or None
        Names of the methods. None where predictions are not known.
    """
    estimates = leave_out_classifier(estimates)
    p_values, is_lower = [], []
    for estimate in estimates.values():
        wrong, guess_wrong = estimate.wrong, estimate.guess_wrong
        if wrong is None or guess_wrong is None:
            return None
        p_values.append(_test_samples(wrong, guess_wrong, estimate.groups))
        is_lower.append(wrong.sum() < guess_wrong.sum())
    is_better = (significance.adjust_by_holm(p_values) <= significance.LEVEL) & is_lower
    return {name for name, better in zip(estimates, is_better, strict=True) if better}


def find_best_unpaired(estimates: Mapping[str, ErrorEstimate]) -> set[str]:
    """Return the methods that are best, or not significantly worse by an unpaired t-test.

    This is the test behind the marks of the paper. It takes splits as independent and does not
    account for the number of comparisons.

    Parameters
    ----------
    estimates : mapping of str to ErrorEstimate
        Errors by method, on the same problem.

    Returns
    -------
    set of str
        Method of the lowest mean error, and all that the test (5 %) does not separate from it.
    """
    if not estimates:
        return set()
    best = min(estimates.values(), key=lambda estimate: estimate.mean)
    return {
        name
        for name, estimate in estimates.items()
        if estimate is best
        or significance.unpaired_t_test(estimate.errors, best.errors) > significance.LEVEL
    }


@dataclass(frozen=True)
class ErrorComparison:
    """Difference of two methods on one problem, with its significance.

    Parameters
    ----------
    difference : float
        Mean error of the second method minus that of the first, in percentage points.
    p_splits : float
        Corrected resampled t-test over splits, p-value: would other training sets show the
        difference too? It has little power with few splits. nan for a single split.
    p_samples : float or None
        McNemar's test over samples, or with groups of like samples a t-test over groups, p-value:
        do the methods err on equally many samples, with the training sets as they are? None where
        predictions are not known.
    p_adjusted : float
        The p-value that decides, adjusted for the number of comparisons (Holm): ``p_samples``
        where it is known, else ``p_splits``.
    """

    difference: float
    p_splits: float
    p_samples: float | None
    p_adjusted: float

    @property
    def p_value(self) -> float:
        """The p-value that decides, before it is adjusted."""
        return self.p_splits if self.p_samples is None else self.p_samples

    @property
    def is_significant(self) -> bool:
        """True if the adjusted p-value is at most 5 %."""
        return self.p_adjusted <= significance.LEVEL


def name_deciding_test(estimates: Iterable[ErrorEstimate]) -> str:
    """Return the name of the test by which `compare_errors` decides.

    Parameters
    ----------
    estimates : iterable of ErrorEstimate
        Errors of the methods that are compared.

    Returns
    -------
    str
        For legends.
    """
    estimates = list(estimates)
    if any(estimate.wrong is None for estimate in estimates):
        return significance.SPLITS_TEST
    grouped = any(estimate.groups is not None for estimate in estimates)
    return significance.GROUPS_TEST if grouped else significance.SAMPLES_TEST


def compare_errors(
    pairs: Sequence[tuple[ErrorEstimate, ErrorEstimate]],
) -> list[ErrorComparison]:
    """Compare pairs of methods on the splits and on the samples that both have.

    Parameters
    ----------
    pairs : sequence of (ErrorEstimate, ErrorEstimate)
        Errors of two methods on one problem. All pairs from which conclusions are drawn together:
        their p-values are adjusted for their number.

    Returns
    -------
    list of ErrorComparison
        Differences and p-values of the pairs.
    """
    by_splits: list[float] = []
    by_samples: list[float | None] = []
    for first, second in pairs:
        i, j = np.intersect1d(first.splits, second.splits, return_indices=True)[1:]
        gaps = second.errors[j] - first.errors[i]
        by_splits.append(significance.corrected_t_test(gaps, max(first.shared, second.shared)))
        if first.wrong is None or second.wrong is None:
            by_samples.append(None)
        else:
            by_samples.append(_test_samples(first.wrong, second.wrong, first.groups))
    deciding = [a if b is None else b for a, b in zip(by_splits, by_samples, strict=True)]
    p_values = zip(by_splits, by_samples, significance.adjust_by_holm(deciding), strict=True)
    return [
        ErrorComparison(second.mean - first.mean, p_splits, p_samples, float(adjusted))
        for (first, second), (p_splits, p_samples, adjusted) in zip(pairs, p_values, strict=True)
    ]


def compare_methods(
    estimates: Mapping[str, ErrorEstimate], methods: Sequence[str] = ()
) -> dict[tuple[str, str], ErrorComparison]:
    """Compare some methods, and the one of the lowest error, with all others.

    A table that marks the best methods and sentences about one of them must not disagree. Both
    take their p-values from here, where all pairs are adjusted together.

    Parameters
    ----------
    estimates : mapping of str to ErrorEstimate
        Errors by method, on the same problem.
    methods : sequence of str, default=()
        Methods about which conclusions are drawn. The method of the lowest error is always one.

    Returns
    -------
    dict of (str, str) to ErrorComparison
        By the names of the first and the second method, in both orders.
    """
    estimates = leave_out_classifier(estimates)
    pairs: dict[tuple[str, str], None] = {}
    for first in [*methods, _find_lowest(estimates)]:
        for second in estimates:
            if second != first and (second, first) not in pairs:
                pairs[first, second] = None
    compared = compare_errors([(estimates[first], estimates[second]) for first, second in pairs])
    comparisons = dict(zip(pairs, compared, strict=True))
    reverse = {
        (second, first): replace(comparison, difference=-comparison.difference)
        for (first, second), comparison in comparisons.items()
    }
    return comparisons | reverse


def compute_fit_costs(rows: Iterable[Mapping[str, Any]]) -> dict[Key, tuple[float, float]]:
    """Return the median time and memory of a fit.

    Medians, because a mean counts every pause of the machine as fitting time.

    Parameters
    ----------
    rows : iterable of FoldResult
        Rows without ``fit_seconds`` are ignored.

    Returns
    -------
    dict of (problem, method) to (seconds, MiB)
        MiB is nan where memory was not measured.
    """
    groups = defaultdict(list)
    for row in rows:
        if "fit_seconds" in row:
            cost = row["fit_seconds"], row.get("fit_mib", math.nan)
            groups[row["problem"], row["method"]].append(cost)
    medians = {key: np.median(costs, axis=0) for key, costs in groups.items()}
    return {key: (float(seconds), float(mib)) for key, (seconds, mib) in medians.items()}


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Error of one method by number of components, in per cent.

    Parameters
    ----------
    name : str
        Name of the method.
    component_counts : array of shape (n_counts,)
        Numbers of components. Empty for a method without components, such as 1-NN on all
        features, which has one error.
    error : array of shape (n_counts,) or (1,)
        Mean errors.
    low, high : array of shape (n_counts,) or None, default=None
        Ends of the 95 % confidence intervals.
    selected : float or None, default=None
        Selected number of components, the mean where splits selected different ones.
    selected_error : float or None, default=None
        Mean error at the selected numbers. None takes the height of the curve.
    """

    name: str
    component_counts: Floats
    error: Floats
    low: Floats | None = None
    high: Floats | None = None
    selected: float | None = None
    selected_error: float | None = None

    def selected_point(self) -> tuple[float, float] | None:
        """Return the selected number of components and its error.

        Returns
        -------
        (float, float) or None
            Where a plot marks the selection. None where there is none.
        """
        measured = np.isfinite(self.error)
        if self.selected is None or not measured.any():
            return None
        if self.selected_error is not None:
            return self.selected, self.selected_error
        height = np.interp(self.selected, self.component_counts[measured], self.error[measured])
        return self.selected, float(height)


def average_error_curves(
    name: str, component_counts: Floats, errors: Floats, *, shared: float = 0.0
) -> ErrorCurve:
    """Return the mean error curve over splits with its confidence band.

    Parameters
    ----------
    name : str
        Name of the method.
    component_counts : array of shape (n_counts,)
        Numbers of components.
    errors : array of shape (n_splits, n_counts)
        Errors from 0 to 1. Columns that are nan in any split are left out.
    shared : float, default=0.0
        Ratio of test to training samples where splits share training samples.

    Returns
    -------
    ErrorCurve
        In per cent. A single split has no band.
    """
    complete = np.isfinite(errors).all(axis=0)
    component_counts, errors = component_counts[complete], 100.0 * errors[:, complete]
    mean, n = errors.mean(axis=0), len(errors)
    if n < 2:
        return ErrorCurve(name, component_counts, mean)
    half = compute_half_width(errors.std(axis=0, ddof=1), n, shared)
    low, high = np.clip(mean - half, 0.0, None), np.clip(mean + half, None, 100.0)
    return ErrorCurve(name, component_counts, mean, low, high)


def compute_error_curves(rows: Iterable[Mapping[str, Any]]) -> dict[Key, ErrorCurve]:
    """Return the error curve of each problem and method.

    Parameters
    ----------
    rows : iterable of FoldResult
        One for each problem, method and split.

    Returns
    -------
    dict of (problem, method) to ErrorCurve
        At the numbers of components that all splits have.
    """
    groups = defaultdict(list)
    for row in rows:
        groups[row["problem"], row["method"]].append(row)
    curves = {}
    for key, group in groups.items():
        counts = np.unique(np.concatenate([row["dimensions"] for row in group]))
        # Splits may have curves of different length; nan marks what a split has not measured.
        errors = np.full((len(group), counts.size), np.nan)
        for values, row in zip(errors, group, strict=True):
            columns = np.searchsorted(counts, row["dimensions"])
            values[columns] = np.array(row["wrong"]) / row["n_test"]
        shared = float(np.mean([row.get("test_share", 0.0) for row in group]))
        curves[key] = average_error_curves(key[1], counts.astype(float), errors, shared=shared)
    return curves
