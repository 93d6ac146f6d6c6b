"""Successive halving: rounds, stratified subsets of folds, and the search that uses them."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_classification
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from mpda import LFDA, MPDA, NeighborhoodRefinement
from mpda.estimators._base import sparse_counts
from mpda.exceptions import SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.folds import stratified_order
from mpda.model_selection.halving import (
    FoldSubsets,
    best_points,
    counts_near_best,
    group_equal_fits,
    plan_rounds,
)
from mpda.model_selection.selection_rules import GridScores

GRID = {"n_neighbors": [3, 5, 7, 10], "alpha": [1e-3, 1e-2, 1e-1, 1.0]}


@pytest.fixture(scope="module")
def samples():
    return make_classification(
        2000, 8, n_informative=5, n_classes=3, n_clusters_per_class=1, random_state=0
    )


def test_rounds_multiply_samples_and_divide_points_by_the_same_factor():
    rounds = plan_rounds(np.arange(20000) % 10, 240, "auto", None)
    assert [r.n_samples for r in rounds] == [312, 1250, 5000, 20000]
    assert [r.n_points for r in rounds] == [240, 60, 15, 4]


@pytest.mark.parametrize(
    ("n_samples", "n_classes", "n_points", "halving", "max_samples", "expected"),
    [
        (4000, 2, 100, "auto", None, []),  # all points on all samples
        (6000, 2, 100, False, None, []),
        (6000, 2, 1, "auto", None, []),  # nothing to halve
        (6000, 2, 3, True, None, []),
        (6000, 2, 4, True, None, [(1500, 4), (6000, 1)]),
        (6000, 2, 100, False, 1000, [(1000, 100)]),
        (6000, 2, 100, True, 1000, [(1000, 100)]),  # a quarter would be less than 300
        (1000, 2, 100, False, 2000, []),  # there are no more samples
        (6000, 100, 100, True, None, []),  # 30 samples of each class are 3000
    ],
)
def test_rounds_follow_samples_points_and_limits(
    n_samples, n_classes, n_points, halving, max_samples, expected
):
    rounds = plan_rounds(np.arange(n_samples) % n_classes, n_points, halving, max_samples)
    assert [(r.n_samples, r.n_points) for r in rounds] == expected


def test_first_samples_of_the_order_have_the_shares_of_the_classes():
    y = np.repeat([0, 1, 2], [600, 300, 100])
    order = stratified_order(y, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    np.testing.assert_allclose(np.bincount(y[order[:100]]), [60, 30, 10], atol=1)
    with_floor = stratified_order(y, 40, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(y[with_floor[:120]]), [40, 40, 40])
    np.testing.assert_array_equal(np.sort(y[with_floor[:3]]), [0, 1, 2])
    # A class that is smaller than the floor comes first as a whole.
    small = stratified_order(np.repeat([0, 1], [95, 5]), 10, np.random.default_rng(0))
    assert set(range(95, 100)) <= set(small[:15])


def test_subsets_of_folds_are_nested_and_keep_training_and_test_samples_apart():
    y = np.repeat([0, 1, 2], [3000, 2000, 1000])
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(y, y))
    subsets = FoldSubsets(folds, y, seed=0)
    small, large, all_samples = (subsets.take(n) for n in (600, 3000, 6000))
    for fold, few, more, most in zip(folds, small, large, all_samples, strict=True):
        assert few[0].size == 450
        assert few[1].size == 150
        assert set(few[0]) < set(more[0]) < set(fold[0])
        assert set(few[1]) < set(fold[1])
        np.testing.assert_array_equal(most[0], fold[0])
        assert most[1].size == 500  # at most as many tests, however large the fold
        np.testing.assert_allclose(np.bincount(y[more[0]]) / 2250, [1 / 2, 1 / 3, 1 / 6], atol=0.01)


def test_best_points_are_those_with_the_best_mean_at_any_number_of_components():
    scores = np.array([[[0.1, 0.9], [0.6, 0.5], [0.9, 0.0], [np.nan, 0.2]]])
    steps = np.array([3, 0, 1, 0])
    grid = GridScores(scores, np.array([1, 2]), [(np.arange(4),)], np.zeros(4), steps)
    np.testing.assert_array_equal(best_points(grid, 1), [2])  # a tie: nearer to the usual values
    np.testing.assert_array_equal(best_points(grid, 3), [0, 1, 2])
    # The same fits count as one and stay together.
    np.testing.assert_array_equal(best_points(grid, 1, np.array([0, 1, 0, 2])), [0, 2])


@pytest.mark.slow
def test_numbers_of_neighbors_that_are_cut_stay_together():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 5)), np.arange(2000) % 2
    X[:, 0] += y
    points = [{"n_neighbors": k, "alpha": a} for a in (0.1, 1.0) for k in (10, 150, 200, 300)]
    np.testing.assert_array_equal(group_equal_fits(points, 188), [0, 1, 2, 2, 3, 4, 5, 5])
    grid = {"n_neighbors": [10, 20, 200, 300]}
    search = DiscriminantSearchCV(MPDA(), grid, halving=True, n_components=2, refit=False)
    with warnings.catch_warnings():
        # Classes of 188 are those of a round, and no reason to ask for fewer neighbours.
        warnings.simplefilter("error", SmallClassWarning)
        table = search.fit(X, y).cv_results_
    assert search.n_resources_ == [500, 2000]
    first = table["iter"] == 0
    scores = {
        k: table["mean_test_score"][first & (table["param_n_neighbors"] == k)] for k in (200, 300)
    }
    np.testing.assert_array_equal(scores[200], scores[300])
    left = set(table["param_n_neighbors"][table["iter"] == 1])
    assert ({200, 300} <= left) == bool({200, 300} & left)
    assert search.n_candidates_ == [4, len(left)]


@pytest.mark.slow
def test_first_round_has_as_many_samples_as_its_numbers_need():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 220)), np.arange(1200) % 2
    X[:, 0] += 3.0 * y
    options = {"halving": True, "refit": False, "cv": 3}
    grid = {"alpha": [0.01, 0.1, 1.0, 10.0]}
    for method, more, rounds in (
        (LFDA(), {"n_components": 2}, [300, 1200]),  # 200 samples of each fold train
        (LFDA(), {"n_components": [205]}, [1200]),
        (LFDA(), {"n_components": 2, "classifier_neighbors": 205}, [1200]),
        (make_pipeline(PCA(205), LFDA()), {"n_components": 2}, [1200]),
    ):
        search = DiscriminantSearchCV(method, grid, **options, **more).fit(X, y)
        assert search.n_resources_ == rounds
        assert np.isfinite(search.best_score_)


def test_fits_without_a_ridge_have_more_samples_than_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 180)), np.arange(1200) % 2
    X[:, 0] += 3.0 * y
    options = {"halving": True, "n_components": [2], "refit": False, "cv": 2}
    grid = {"n_neighbors": [3, 5, 7, 9]}
    for method, rounds in (
        (LFDA(), [1200]),  # of 300 samples only 150 would train
        (LFDA(alpha=0.1), [300, 1200]),
        (make_pipeline(PCA(50), LFDA()), [300, 1200]),
    ):
        search = DiscriminantSearchCV(method, grid, **options).fit(X, y)
        assert search.n_resources_ == rounds
        assert np.isfinite(search.best_score_)


def test_search_that_does_not_halve_has_all_tests_and_numbers_of_components():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2100, 6)), np.arange(2100) % 70  # 30 of each class are all
    X[:, 0] += y
    scores = [
        DiscriminantSearchCV(
            LFDA(), {"alpha": [0.01, 0.1, 1.0, 10.0]}, halving=h, cv=2, refit=False
        )
        .fit(X, y)
        .cv_results_["mean_test_score"]
        for h in (True, False)
    ]
    np.testing.assert_array_equal(*scores)


def test_other_scores_than_the_accuracy_have_all_tests():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 3)), np.repeat([0, 1], [2900, 100])
    counts = []

    def score(y_test, predicted):
        counts.append((y_test.size, int(y_test.sum())))
        return float(np.mean(y_test == predicted))

    grid = {"alpha": [0.01, 0.1, 1.0, 10.0]}
    options = {"halving": True, "refit": False, "n_components": 2}
    DiscriminantSearchCV(LFDA(), grid, scoring=score, **options).fit(X, y)
    assert counts[-1] == (750, 25)


def test_later_rounds_have_numbers_of_components_about_the_best():
    component_counts = np.array([1, 2, 3, 4, 6, 8, 12, 15])
    means = np.zeros((3, component_counts.size))
    means[0, 3] = means[1, 5] = means[2, 0] = 1.0  # the best have 4, 8 and 1 components
    scores = GridScores(means[None], component_counts, [], np.zeros(3), np.zeros(3, dtype=int))
    assert counts_near_best(scores, np.array([0, 1])) == (2, 3, 4, 6, 8, 12, 15, 16)
    assert counts_near_best(scores, np.array([0])) == (2, 3, 4, 6, 8)
    assert counts_near_best(scores, np.array([0, 2])) == (1, 2, 3, 4, 6, 8)
    assert counts_near_best(scores, np.array([0, 1]), 10) == (2, 3, 4, 6, 8)
    means[2] = -np.inf  # a point without an answer has no best number
    assert counts_near_best(scores, np.array([0, 2])) == (2, 3, 4, 6, 8)
    means[1, 7] = 2.0  # fits to more samples may have more components
    assert counts_near_best(scores, np.array([1])) == (8, 12, 15, 19, 24, 30)


def test_sparse_numbers_reach_from_1_to_the_last():
    np.testing.assert_array_equal(sparse_counts(1), [1])
    np.testing.assert_array_equal(sparse_counts(9), [1, 2, 3, 4, 5, 6, 8, 9])
    numbers = sparse_counts(300)
    assert numbers[-1] == 300
    assert np.all(numbers[1:] / numbers[:-1] <= 2.0)
    assert numbers.size < 30


def test_no_round_has_more_components_than_are_allowed(samples):
    X, y = samples
    search = DiscriminantSearchCV(LFDA(), GRID, halving=True, n_components=2, refit=False)
    assert search.fit(X, y).n_resources_ == [500, 2000]
    assert max(search.cv_results_["param_n_components"]) == 2


@pytest.mark.slow
def test_last_round_has_the_scores_of_a_search_over_its_points(samples):
    X, y = samples
    options = {"n_components": [1, 2, 3], "refit": False}
    halved = DiscriminantSearchCV(LFDA(), GRID, halving=True, **options).fit(X, y)
    assert halved.n_resources_ == [500, 2000]
    assert halved.n_candidates_ == [16, 4]
    table = halved.cv_results_
    assert sorted(set(table["iter"])) == [0, 1]
    assert set(table["n_resources"][table["iter"] == 0]) == {500}
    assert table["iter"][halved.best_index_] == 1
    complete = DiscriminantSearchCV(LFDA(), GRID, halving=False, **options).fit(X, y)
    assert "iter" not in complete.cv_results_
    assert complete.n_resources_ == [2000]
    # Folds of 500 tests are not cut, so the last round differs from the complete search in nothing
    # but the points that are left.
    last = np.flatnonzero(table["iter"] == 1)
    assert last.size == 4 * 3
    params = complete.cv_results_["params"]
    for row in last:
        same = params.index(table["params"][row])
        for i in range(4):
            name = f"split{i}_test_score"
            assert table[name][row] == complete.cv_results_[name][same]


@pytest.mark.slow
def test_halving_finds_settings_as_good_as_a_complete_search(samples):
    X, y = samples
    halved = DiscriminantSearchCV(MPDA(), GRID, halving=True).fit(X[:1500], y[:1500])
    complete = DiscriminantSearchCV(MPDA(), GRID, halving=False).fit(X[:1500], y[:1500])
    difference = halved.score(X[1500:], y[1500:]) - complete.score(X[1500:], y[1500:])
    assert difference > -0.03
    # The model is fitted to all samples, whatever chose its settings.
    assert halved.classifier_.n_samples_fit_ == 1500


def test_one_round_can_be_limited_to_fewer_samples(samples):
    X, y = samples
    search = DiscriminantSearchCV(LFDA(), GRID, max_samples=600, halving=False).fit(X, y)
    assert search.n_resources_ == [600]
    assert search.n_candidates_ == [16]
    assert search.classifier_.n_samples_fit_ == 2000
    again = DiscriminantSearchCV(LFDA(), GRID, max_samples=600, halving=False).fit(X, y)
    assert again.best_params_ == search.best_params_
    np.testing.assert_array_equal(
        again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"halving": "yes"}, "halving must be one of 'auto', True or False, got 'yes'"),
        ({"halving": 3}, "halving must be one of 'auto', True or False, got 3"),
        ({"max_samples": 0}, "max_samples must be at least 1, got 0"),
        ({"max_samples": 10.5}, "max_samples must be an int of at least 1, got 10.5"),
    ],
)
def test_invalid_limits_are_rejected(samples, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        DiscriminantSearchCV(LFDA(), GRID, **options).fit(*samples)


@pytest.mark.slow
def test_every_stage_of_a_refinement_has_its_rounds():
    X, y = make_blobs(2400, 5, centers=3, cluster_std=6.0, random_state=0)
    grid = {"estimator__alpha": [0.1, 0.2, 0.3, 1.0], "penalty": [1.0]}
    options = {"halving": True, "cv": 2, "n_components": [2], "refit": False}
    search = DiscriminantSearchCV(NeighborhoodRefinement(LFDA()), grid, **options).fit(X, y)
    results = search.cv_results_
    assert results["iter"].dtype == results["n_resources"].dtype == int
    rounds = dict.fromkeys(zip(results["stage"], results["iter"], strict=True))
    assert len(rounds) == len(search.n_resources_) > 2
    assert set(results["n_resources"][results["stage"] == 2]) == {2400}


def test_more_components_than_features_do_not_end_the_rounds():
    X, y = make_blobs(1600, 5, centers=2, random_state=0)
    options = {"halving": True, "cv": 2, "refit": False}
    grid = {"alpha": [0.1, 0.2, 0.3, 1.0]}
    rounds = [
        DiscriminantSearchCV(LFDA(), grid, n_components=numbers, **options).fit(X, y).n_resources_
        for numbers in ([2, 5], [2, 1500])
    ]
    assert rounds[0] == rounds[1]
    assert len(rounds[0]) == 2
