"""Significance tests against textbook definitions, SciPy and a published example."""

import numpy as np
import pytest
from scipy import stats

from mpda.assessment import significance
from mpda.assessment.significance import (
    adjust_by_holm,
    compare_ranks,
    corrected_t_test,
    mcnemar_test,
    unpaired_t_test,
)

# Demsar (2006), table 6: AUC of four variants of C4.5 on fourteen data sets. The paper ranks two
# values of 0.975 apart, from more digits than it prints; 0.9751 stands for the higher one.
DEMSAR = np.loadtxt(
    [
        "0.763 0.768 0.771 0.798",
        "0.599 0.591 0.590 0.569",
        "0.954 0.971 0.968 0.967",
        "0.628 0.661 0.654 0.657",
        "0.882 0.888 0.886 0.898",
        "0.936 0.931 0.916 0.931",
        "0.661 0.668 0.609 0.685",
        "0.583 0.583 0.563 0.625",
        "0.775 0.838 0.866 0.875",
        "1 1 1 1",
        "0.940 0.962 0.965 0.962",
        "0.619 0.666 0.614 0.669",
        "0.972 0.981 0.9751 0.975",
        "0.957 0.978 0.946 0.970",
    ]
)


def test_without_shared_samples_the_corrected_test_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 12))
    expected = stats.ttest_rel(first, second).pvalue
    assert corrected_t_test(first - second, 0.0) == pytest.approx(expected)


def test_corrected_test_widens_the_standard_error_by_the_share_of_test_samples():
    differences = np.array([1.0, 2.0, 0.5, 1.5, 3.0])
    t = differences.mean() / np.sqrt((1 / 5 + 3.0) * differences.var(ddof=1))
    assert corrected_t_test(differences, 3.0) == pytest.approx(2 * stats.t.sf(t, 4))


def test_corrected_test_keeps_its_level_on_overlapping_splits():
    """Two methods that guess: the paired t-test over splits rejects far more than 5 %."""
    rng = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(200):
        # Errors on each of 60 samples do not depend on the split, as with a stable method.
        wrong = rng.random((2, 60)) < 0.3
        tests = [rng.permutation(60)[:30] for _ in range(20)]
        differences = [float(np.diff(wrong[:, test].mean(axis=1))[0]) for test in tests]
        plain.append(corrected_t_test(differences, 0.0) <= 0.05)
        corrected.append(corrected_t_test(differences, 1.0) <= 0.05)
    assert np.mean(plain) > 0.3
    assert np.mean(corrected) <= 0.1


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [([], np.nan), ([2.0], np.nan), ([0.0] * 4, 1.0), ([0.5] * 4, 0.0)],
)
def test_corrected_test_of_few_or_constant_differences(differences, p_value):
    np.testing.assert_equal(corrected_t_test(differences, 0.25), p_value)


def test_unpaired_test_is_students():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=20), 0.3 + rng.normal(size=15)
    assert unpaired_t_test(first, second) == pytest.approx(stats.ttest_ind(first, second).pvalue)
    np.testing.assert_equal(unpaired_t_test([1.0], [2.0]), np.nan)
    assert unpaired_t_test([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert unpaired_t_test([1.0, 1.0], [2.0, 2.0]) == 0.0


def test_mcnemar_counts_samples_on_which_one_method_is_wrong():
    first = np.array([1] * 20 + [0] * 71 + [1] * 9 + [0] * 2400, dtype=bool)
    second = np.array([0] * 20 + [1] * 71 + [1] * 9 + [0] * 2400, dtype=bool)
    expected = stats.binomtest(20, 91).pvalue
    assert mcnemar_test(first, second) == pytest.approx(expected)
    assert expected < 1e-6  # 3 folds: 2.0 and 4.0 % of 2,500 samples
    assert mcnemar_test(first, first) == 1.0


def test_holm_multiplies_by_the_number_of_tests_that_remain():
    assert adjust_by_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_by_holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_ranks_of_the_published_example():
    comparison = compare_ranks(["C4.5", "+m", "+cf", "+m+cf"], 1.0 - DEMSAR)
    assert comparison.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    # The paper rounds chi^2 to 9.28 and F to 3.69 without a correction for ties; q is 2.569.
    assert 0.01 < comparison.p_value < 0.025
    assert comparison.critical_difference == pytest.approx(2.569 * np.sqrt(20 / 84), abs=1e-3)


def test_friedman_agrees_with_scipy_after_iman_and_davenport():
    rng = np.random.default_rng(1)
    errors = rng.random((9, 5)).round(1)  # with ties
    chi2 = stats.friedmanchisquare(*errors.T).statistic
    statistic = 8 * chi2 / (9 * 4 - chi2)
    expected = stats.f.sf(statistic, 4, 32)
    assert compare_ranks("abcde", errors).p_value == pytest.approx(expected)


def test_pairs_of_ranks_are_adjusted_together():
    errors = np.tile([1.0, 2.0, 3.0], (10, 1))
    comparison = compare_ranks("abc", errors)
    p = 2 * stats.norm.sf(np.array([1.0, 2.0, 1.0]) / np.sqrt(12 / 60))
    expected = adjust_by_holm(p)
    assert comparison.pairs[np.triu_indices(3, 1)] == pytest.approx(expected)
    assert comparison.pairs == pytest.approx(comparison.pairs.T)
    assert comparison.p_value == 0.0


def test_ranks_need_two_methods_and_two_problems():
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        compare_ranks("ab", [[1.0, 2.0]])
    with pytest.raises(ValueError, match="finite"):
        compare_ranks("ab", [[1.0, np.nan], [1.0, 2.0]])


def test_interval_of_an_error_is_that_of_wilson():
    wrong = np.arange(50) < 4
    z, p, n = 1.959963984540054, 0.08, 50
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = [100 * (centre - half), 100 * (centre + half)]
    np.testing.assert_allclose(significance.error_interval(wrong), expected, rtol=1e-10)
    assert significance.error_interval(np.zeros(50, dtype=bool))[1] > 5.0


def test_interval_with_groups_covers_the_error_of_new_groups():
    # Errors come by groups: a third of the groups is wrong in half of its samples.
    rng = np.random.default_rng(0)
    groups, covered, naive = np.repeat(np.arange(40), 10), 0, 0
    for _ in range(400):
        bad = rng.random(40) < 1 / 3
        wrong = (rng.random(400) < 0.5) & bad[groups]
        low, high = significance.error_interval(wrong, groups)
        covered += low <= 100 / 6 <= high
        low, high = significance.error_interval(wrong)
        naive += low <= 100 / 6 <= high
    assert 0.9 <= covered / 400 <= 0.99
    assert naive / 400 < 0.9  # samples of a group are not independent
    assert significance.error_interval(wrong, np.zeros(400, dtype=int)) == (0.0, 100.0)


def test_test_over_groups_keeps_its_level_where_mcnemar_does_not():
    rng = np.random.default_rng(1)
    groups, rejected, mcnemar = np.repeat(np.arange(30), 20), 0, 0
    for _ in range(300):
        # Two equally good methods: each is wrong in all samples of some groups.
        first, second = (rng.random(30)[groups] < 0.2 for _ in range(2))
        rejected += significance.group_t_test(first, second, groups) <= 0.05
        mcnemar += significance.mcnemar_test(first, second) <= 0.05
    assert rejected / 300 < 0.1
    assert mcnemar / 300 > 0.3
    one_sided = np.arange(600) < 300
    assert significance.group_t_test(one_sided, np.zeros(600, dtype=bool), groups) < 0.001
