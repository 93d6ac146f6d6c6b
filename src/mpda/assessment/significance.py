"""Significance of differences between methods: within a data set, across data sets, by sample.

Three questions, three tests. All are two-sided and use the 5 % level.

1. Splits of one data set share samples, so their errors are not independent. The corrected
   resampled t-test (Nadeau and Bengio, 2003) has, for n differences with standard deviation s,

       t = mean / (s sqrt(1/n + n_test/n_train)),    n - 1 degrees of freedom.

2. Across data sets methods are compared by average ranks: Friedman's test in the form of Iman and
   Davenport, then all pairs with Holm's correction, or the critical difference of Nemenyi's test
   (Demsar, 2006).
3. Predictions of two fitted methods for the same samples: McNemar's exact test, or a t-test over
   groups where samples of a group are alike. Both take the training set as fixed.

Depends on NumPy and SciPy only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import stdtr, stdtrit

from mpda._lib.array_types import ArrayLike, Bools, Floats, Ints

LEVEL = 0.05
"""Level of significance of all tests."""
SPLITS_TEST = "corrected resampled t-test, 5 %, Holm"
"""Short name of the test over splits, for legends."""
SAMPLES_TEST = "McNemar's test on the same samples, 5 %, Holm"
"""Short name of the test over samples, for legends."""
GROUPS_TEST = "t-test over groups of samples, 5 %, Holm"
"""Short name of the test over groups of samples, for legends."""
# Errors are multiples of 100 / n_test. Differences below this are rounding, for any data set that
# fits into memory.
_ROUNDING = 1e-9


def corrected_t_test(differences: ArrayLike, test_share: float) -> float:
    """Test whether the mean difference of two methods over splits is zero.

    Parameters
    ----------
    differences : array-like of shape (n_splits,)
        Differences of the errors of two methods on the same splits.
    test_share : float
        Ratio of test to training samples of a split. 0 for splits that share no sample; the test is
        then the paired t-test.

    Returns
    -------
    float
        p-value, nan for fewer than two splits. Where all differences are equal, 1 if they are zero
        and 0 otherwise.

    References
    ----------
    .. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine
           Learning, 52, 239-281.
    """
    values = np.asarray(differences, dtype=float)
    if values.size < 2:
        return math.nan
    if np.ptp(values) < _ROUNDING:
        return float(np.abs(values).max() < _ROUNDING)
    scale = values.std(ddof=1) * math.sqrt(1.0 / values.size + test_share)
    return float(2.0 * stdtr(values.size - 1, -abs(values.mean()) / scale))


def unpaired_t_test(first: ArrayLike, second: ArrayLike) -> float:
    """Test whether two methods have the same mean error over independent splits.

    Parameters
    ----------
    first, second : array-like of shape (n_splits,)
        Errors of two methods, with equal variances. Splits need not be the same.

    Returns
    -------
    float
        p-value, nan for fewer than three errors. Without any variation, 1 for equal means, else 0.
    """
    a, b = (np.asarray(values, dtype=float) for values in (first, second))
    degrees, gap = a.size + b.size - 2, abs(a.mean() - b.mean())
    if degrees < 1:
        return math.nan
    squares = a.size * a.var() + b.size * b.var()
    scale = math.sqrt(squares / degrees * (1.0 / a.size + 1.0 / b.size))
    if scale < _ROUNDING:
        return float(gap < _ROUNDING)
    return float(2.0 * stdtr(degrees, -gap / scale))


def group_t_test(first_wrong: Bools, second_wrong: Bools, groups: Ints) -> float:
    """Test whether two methods make errors on equally many samples, with groups of like samples.

    Samples of a group, for example of one patient, are often wrong together, so that groups count
    and not samples.

    Parameters
    ----------
    first_wrong, second_wrong : array of bool of shape (n_samples,)
        True where a method is wrong, for the same samples.
    groups : array of int of shape (n_samples,)
        Group of each sample.

    Returns
    -------
    float
        p-value of the t-test of the differences by group. The variation of training sets does not
        enter. nan for one group.
    """
    gaps = np.subtract(first_wrong, second_wrong, dtype=float)
    sums = np.bincount(np.unique(groups, return_inverse=True)[1], weights=gaps)
    return corrected_t_test(sums, 0.0)


def error_interval(wrong: Bools, groups: Ints | None = None) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share of errors.

    Parameters
    ----------
    wrong : array of bool of shape (n_samples,)
        True where a sample is misclassified.
    groups : array of int of shape (n_samples,), default=None
        Group of each sample, where samples of a group are alike.

    Returns
    -------
    tuple of float
        In per cent, from 0 to 100: Wilson's interval, or with groups the t-interval of the ratio of
        their errors to their sizes.
    """
    if groups is None:
        # Unlike the normal approximation it has a positive width if no sample is wrong.
        test = stats.binomtest(int(np.count_nonzero(wrong)), wrong.size)
        interval = test.proportion_ci(method="wilson")
        return 100.0 * float(interval.low), 100.0 * float(interval.high)
    codes = np.unique(groups, return_inverse=True)[1]
    sizes, errors = np.bincount(codes), np.bincount(codes, weights=wrong)
    n, share = sizes.size, float(np.mean(wrong))
    if n < 2:
        return 0.0, 100.0
    residuals = errors - share * sizes
    scale = math.sqrt(n / (n - 1) * float(residuals @ residuals)) / wrong.size
    half = float(stdtrit(n - 1, 0.975)) * scale
    return 100.0 * max(share - half, 0.0), 100.0 * min(share + half, 1.0)


def mcnemar_test(first_wrong: Bools, second_wrong: Bools) -> float:
    """Test whether two methods make errors on equally many samples.

    Only samples on which exactly one method is wrong count. If both are as often wrong, each of
    these is an error of the first with probability 1/2.

    Parameters
    ----------
    first_wrong, second_wrong : array of bool of shape (n_samples,)
        True where a method is wrong, for the same samples.

    Returns
    -------
    float
        p-value of the exact binomial test. The variation of training sets does not enter.

    References
    ----------
    .. [1] McNemar, Q. (1947). Note on the sampling error of the difference between correlated
           proportions or percentages. Psychometrika, 12, 153-157.
    """
    only_first = int(np.count_nonzero(first_wrong & ~second_wrong))
    only_second = int(np.count_nonzero(second_wrong & ~first_wrong))
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def adjust_by_holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values for many comparisons by Holm's step-down rule.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        p-values of the single tests.

    Returns
    -------
    ndarray of shape (n_tests,)
        Adjusted p-values. Those up to the level are significant together: the chance of any wrong
        one among them is at most the level.

    References
    ----------
    .. [1] Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian
           Journal of Statistics, 6, 65-70.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    # The smallest p-value is multiplied by the number of tests, the next by one less, and so on. A
    # larger p-value never becomes the smaller adjusted one.
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


@dataclass(frozen=True, eq=False)
class RankComparison:
    """Methods compared by their ranks over data sets.

    Parameters
    ----------
    methods : tuple of str
        Names.
    ranks : array of shape (n_methods,)
        Average ranks; 1 is the lowest error on every data set.
    n_problems : int
        Number of data sets.
    p_value : float
        Friedman's test that all methods have the same rank, p-value.
    critical_difference : float
        Difference of average ranks that is significant by Nemenyi's test (5 %).
    pairs : array of shape (n_methods, n_methods)
        Differences of all pairs: p-values adjusted by Holm, 1 on the diagonal.
    """

    methods: tuple[str, ...]
    ranks: Floats
    n_problems: int
    p_value: float
    critical_difference: float
    pairs: Floats


def compare_ranks(methods: Sequence[str], errors: ArrayLike) -> RankComparison:
    """Compare methods over data sets by average ranks.

    Parameters
    ----------
    methods : sequence of str of length n_methods
        Names, at least two.
    errors : array-like of shape (n_problems, n_methods)
        Errors on each data set, at least two data sets. Data sets must be independent: two versions
        of one count once. Ties get the average rank.

    Returns
    -------
    RankComparison
        Average ranks with their tests.

    References
    ----------
    .. [1] Demsar, J. (2006). Statistical comparisons of classifiers over multiple data sets.
           Journal of Machine Learning Research, 7, 1-30.
    .. [2] Iman, R. L. and Davenport, J. M. (1980). Approximations of the critical region of the
           Friedman statistic. Communications in Statistics, 9, 571-595.
    """
    table = np.asarray(errors, dtype=float)
    n, k = table.shape
    if n < 2 or k < 2 or k != len(methods) or not np.isfinite(table).all():
        raise ValueError(
            "Ranks need finite errors of at least two methods on at least two data sets, not "
            f"errors of shape {table.shape} for {len(methods)} methods."
        )
    # Rounding must not rank methods of equal error.
    ranks = stats.rankdata(np.round(table, 9), axis=1)
    average = ranks.mean(axis=0)
    p_value = _friedman_test(ranks)
    # Standard error of the difference of two average ranks if all methods are equal.
    standard_error = math.sqrt(k * (k + 1) / (6.0 * n))
    quantile = stats.studentized_range.ppf(1.0 - LEVEL, k, np.inf) / math.sqrt(2.0)
    i, j = np.triu_indices(k, 1)
    p = 2.0 * stats.norm.sf(np.abs(average[i] - average[j]) / standard_error)
    pairs = np.ones((k, k))
    pairs[i, j] = pairs[j, i] = adjust_by_holm(p)
    return RankComparison(
        tuple(methods), average, n, p_value, float(quantile * standard_error), pairs
    )


def _friedman_test(ranks: Floats) -> float:
    """Return the p-value of Friedman's test for ranks (n, k), with ties, by an F distribution."""
    n, k = ranks.shape
    between = n * np.sum((ranks.mean(axis=0) - (k + 1) / 2.0) ** 2)
    total = np.sum((ranks - (k + 1) / 2.0) ** 2)
    if total == 0.0:  # all methods are level on all data sets
        return 1.0
    residual = total - between
    if residual <= _ROUNDING * total:  # all data sets have the same order
        return 0.0
    # Two-way analysis of variance of the ranks; Iman and Davenport show that it is this F.
    statistic = (between / (k - 1)) / (residual / ((n - 1) * (k - 1)))
    return float(stats.f.sf(statistic, k - 1, (n - 1) * (k - 1)))
