"""Measures of retrieval over folds: intervals, draws, and folds that hold out classes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler, normalize

from mpda.assessment import (
    AssessmentProtocol,
    Split,
    assess_methods,
    assess_unseen_classes,
    estimate_errors,
    make_contender,
)
from mpda.assessment import retrieval_estimates as estimates
from mpda.assessment.parameter_choice import select_parameters
from mpda.assessment.retrieval_estimates import (
    MEASURES,
    QueryValues,
    draw_queries,
    estimate_mean,
    estimate_retrieval,
    estimate_rows,
    measure_search,
)
from mpda.model_selection import DiscriminantSearchCV, UnseenClassFolds
from mpda.model_selection.folds import stratified_folds
from mpda.model_selection.selection_rules import GridScores, select_paired
from mpda.model_selection.unseen_classes import count_unseen_folds, draw_unseen_folds
from oracles import score_slowly

FIXED = AssessmentProtocol(n_folds=3, scaled=True, energy=None, n_components=2)
RAW = make_contender("1-NN", search=False)


def make_classes(n_classes=8, size=12, d=5, seed=0):
    """Return shuffled samples of overlapping classes."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), size))
    return 1.5 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(len(y), d)), y


# Intervals


@pytest.mark.parametrize("n_right", [0, 1, 25, 40])
def test_interval_of_a_share_is_that_of_wilson(n_right):
    found = estimate_mean(1.0 * (np.arange(40) < n_right))
    expected = stats.binomtest(n_right, 40).proportion_ci(method="wilson")
    assert found.value == n_right / 40
    assert found.low == pytest.approx(expected.low, abs=1e-12)
    assert found.high == pytest.approx(expected.high, abs=1e-12)


def test_interval_has_the_effective_number_of_queries_of_clusters():
    rng = np.random.default_rng(0)
    clusters = rng.integers(7, size=60)
    values = np.clip(0.2 * rng.normal(size=7)[clusters] + 0.1 * rng.normal(size=60) + 0.7, 0, 1)
    found, m = estimate_mean(values, clusters), values.mean()
    variance = sum((values[clusters == c] - m).sum() ** 2 for c in range(7)) / 60**2 * 7 / 6
    n, t = m * (1 - m) / variance, stats.t(6).ppf(0.975)
    # The interval of Wilson has the shares whose test statistic is t at most.
    for end in (found.low, found.high):
        assert abs(m - end) / np.sqrt(end * (1 - end) / n) == pytest.approx(t)
    assert found.low < m < found.high
    alone = estimate_mean(values)
    assert found.high - found.low > 1.5 * (alone.high - alone.low)


@pytest.mark.parametrize("n_clusters", [None, 30])
def test_intervals_cover_the_mean(n_clusters):
    rng = np.random.default_rng(1)
    n_covering = 0
    for _ in range(400):
        clusters = None if n_clusters is None else np.repeat(np.arange(n_clusters), 5)
        shift = 0.0 if clusters is None else rng.uniform(-0.15, 0.15, n_clusters)[clusters]
        found = estimate_mean(np.clip(rng.beta(4, 2, size=150) + shift, 0, 1), clusters)
        expected = 2 / 3 if clusters is None else 0.6626
        n_covering += found.low <= expected <= found.high
    assert 0.91 <= n_covering / 400 <= 0.985


def test_equal_values_have_an_interval_around_them():
    for value in (0.0, 0.4, 1.0):
        found = estimate_mean(np.full(20, value))
        assert found.low <= value <= found.high
        assert 0.1 < found.high - found.low < 0.5
    assert vars(estimate_mean(np.ones(5), np.zeros(5))) == {"value": 1.0, "low": 0.0, "high": 1.0}
    assert np.isnan(list(vars(estimate_mean(np.full(3, np.nan))).values())).all()


def test_differences_are_those_of_the_same_queries():
    rng = np.random.default_rng(2)
    raw = {name: rng.random(50) for name in MEASURES}
    mapped = {name: np.minimum(values + 0.01, 1.0) for name, values in raw.items()}
    mapped["map_at_r"][3] = raw["map_at_r"][3] = np.nan
    found = estimate_retrieval(QueryValues(mapped), QueryValues(raw))
    gaps = (mapped["map_at_r"] - raw["map_at_r"])[np.arange(50) != 3]
    gap = found.differences["map_at_r"]
    half = stats.norm.ppf(0.975) * gaps.std() / 7
    assert vars(gap) == pytest.approx(
        {"value": gaps.mean(), "low": gaps.mean() - half, "high": gaps.mean() + half}
    )
    # Intervals of the means overlap, but every query is better.
    assert gap.low > 0.0
    assert found.measures["map_at_r"].low < estimate_mean(raw["map_at_r"]).high


# Queries


def test_few_queries_are_drawn_for_large_databases():
    np.testing.assert_array_equal(draw_queries(4000, 10_000, 0), np.arange(4000))
    drawn = draw_queries(9000, 10_000, 0)
    assert drawn.size == np.unique(drawn).size == 4000
    assert drawn.max() > 8000
    assert (np.diff(drawn) > 0).all()
    np.testing.assert_array_equal(drawn, draw_queries(9000, 10_000, 0))
    assert not np.array_equal(drawn, draw_queries(9000, 10_000, 1))
    assert draw_queries(5000, 80_000, 0).size == 500
    assert draw_queries(5000, 10**9, 0).size == 100
    assert draw_queries(30, 10**9, 0).size == 30


def test_measures_equal_their_definitions():
    X, y = make_classes(4, 6)
    values = measure_search(X[:14], y[:14], X[14:], y[14:])
    for name in MEASURES:
        expected = score_slowly(X[:14], y[:14], X[14:], y[14:], name)
        np.testing.assert_allclose(values[name], expected, rtol=1e-12)


def test_queries_and_measures_that_cannot_be_found_are_missing():
    X, y = make_classes(3, 3)
    y[0] = 17  # a class of one sample
    values = measure_search(X, y)
    assert np.isnan(values["recall_at_10"]).all()  # of eight others
    np.testing.assert_allclose(values["recall_at_5"], score_slowly(X, y, None, None, "recall_at_5"))
    assert np.isnan(values["map_at_r"]).tolist() == [True, *8 * [False]]
    for alone in (measure_search(X[:1], y[:1]), measure_search(X, np.arange(9))):
        assert all(np.isnan(array).all() for array in alone.values())
    estimate = estimate_retrieval(QueryValues(values))
    assert estimate.n_queries == 8
    assert np.isnan(estimate.measures["recall_at_10"].value)


# Folds


def test_folds_search_among_the_samples_of_the_fit():
    X, y = load_iris(return_X_y=True)
    pca = make_contender("PCA", search=False)
    found = estimate_rows(assess_methods(X, y, [RAW, pca], FIXED).rows, None)
    values = {"1-NN": [], "PCA": []}
    for train, test in stratified_folds(y, 3, FIXED.seed):
        scaler = StandardScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[test])
        axes = PCA(2).fit(A)
        values["1-NN"].append(score_slowly(A, y[train], B, y[test], "map_at_r"))
        A, B = axes.transform(A), axes.transform(B)
        values["PCA"].append(score_slowly(A, y[train], B, y[test], "map_at_r"))
    for name, arrays in values.items():
        assert found[name].measures["map_at_r"].value == pytest.approx(np.mean(arrays))
        assert found[name].n_queries == 150
    assert not found["1-NN"].differences
    gap = np.mean(values["PCA"]) - np.mean(values["1-NN"])
    assert found["PCA"].differences["map_at_r"].value == pytest.approx(gap)


def test_recall_at_1_of_folds_is_the_accuracy_with_its_interval():
    X, y = make_classes()
    rows = assess_methods(X, y, [make_contender("MPDA", search=False)], FIXED).rows
    error = estimate_errors(rows, "cv")["", "MPDA"]
    found = estimate_rows(rows, None)["MPDA"].measures["recall_at_1"]
    low, high = error.sample_interval
    assert [found.value, found.low, found.high] == pytest.approx(
        [1 - error.mean / 100, 1 - high / 100, 1 - low / 100]
    )


def test_queries_of_groups_are_clusters():
    X, y = make_classes()
    groups = np.arange(len(y)) // 4
    rows = assess_methods(X, y, [RAW], FIXED, groups=groups).rows
    queries = np.concatenate([row["queries"] for row in rows])
    assert sorted(queries) == list(range(len(y)))
    recall = np.concatenate([row["retrieval"]["recall_at_1"] for row in rows])
    found = estimate_rows(rows, groups)["1-NN"].measures["recall_at_1"]
    assert found == estimate_mean(recall, groups[queries])
    assert found != estimate_mean(recall)


def test_large_folds_are_searched_for_some_queries(monkeypatch):
    monkeypatch.setattr(estimates, "_MAX_QUERIES", 10)
    monkeypatch.setattr(estimates, "_MIN_QUERIES", 5)
    X, y = make_classes()
    contenders = [RAW, make_contender("LDA", search=False)]
    for measured in (
        assess_methods(X, y, contenders, FIXED),
        assess_unseen_classes(X, y, contenders, FIXED, 3),
    ):
        by_fold = {}
        for row in measured.rows:
            assert row["queries"].shape == row["retrieval"]["map_at_r"].shape == (10,)
            by_fold.setdefault(row["fold"], []).append(row["queries"])
        for first, second in by_fold.values():  # the methods have the same queries
            np.testing.assert_array_equal(first, second)


def test_embeddings_as_they_are_are_compared_by_the_cosine():
    X, y = make_classes()
    lengths = np.exp(2 * np.random.default_rng(0).normal(size=(len(y), 1)))
    protocol = replace(FIXED, by_cosine=True)
    values = []
    for samples in (X, lengths * X):
        rows = assess_methods(samples, y, [RAW], protocol).rows
        unseen = assess_unseen_classes(samples, y, [RAW], protocol, 2).rows
        values.append([row["retrieval"]["map_at_r"] for row in (*rows, *unseen)])
    for first, second in zip(*values, strict=True):
        np.testing.assert_allclose(first, second)
    train, test = stratified_folds(y, 3, FIXED.seed)[0]
    expected = score_slowly(normalize(X[train]), y[train], normalize(X[test]), y[test], "map_at_r")
    np.testing.assert_allclose(values[0][0], expected)


# Classes that were not seen


def test_unseen_classes_are_searched_by_a_fit_to_the_others():
    X, y = make_classes()
    lda = make_contender("LDA", search=False)
    rows = assess_unseen_classes(X, y, [RAW, lda], FIXED, 3).rows
    assert len(rows) == 6
    for row, (train, test) in zip(rows[3:], draw_unseen_folds(y, 3, FIXED.seed), strict=True):
        assert not set(y[train]) & set(y[test])
        scaler = StandardScaler().fit(X[train])
        axes = LinearDiscriminantAnalysis(n_components=2).fit(scaler.transform(X[train]), y[train])
        Z = axes.transform(scaler.transform(X))
        np.testing.assert_array_equal(row["queries"], test)
        for name in MEASURES:
            alone = score_slowly(Z[test], y[test], None, None, name)
            np.testing.assert_allclose(row["retrieval"][name], alone)
            among_all = score_slowly(Z, y, None, None, name)[test]
            np.testing.assert_allclose(row["retrieval_among_all"][name], among_all)


def test_names_of_unseen_classes_take_no_part_in_the_choice():
    X, y = make_classes(8, 15)
    protocol = AssessmentProtocol(n_folds=2, n_inner=2)
    mpda = make_contender("MPDA", search=False)
    first = assess_unseen_classes(X, y, [mpda], protocol, 2).rows[0]
    test = draw_unseen_folds(y, 2, protocol.seed)[0][1]
    # Inside the test part samples change their classes; the map must not.
    others = y.copy()
    others[test] = np.random.default_rng(0).permutation(y[test])
    second = assess_unseen_classes(X, others, [mpda], protocol, 2).rows[0]
    np.testing.assert_array_equal(second["queries"], test)
    assert second["cv_dimension"] == first["cv_dimension"]
    assert second["retrieval"]["map_at_r"].mean() < 0.8 * first["retrieval"]["map_at_r"].mean()


def test_classes_of_one_sample_are_never_held_out():
    y = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5])
    assert count_unseen_folds(y, 4) == 2
    assert count_unseen_folds(np.arange(9), 4) == 0
    assert count_unseen_folds(np.repeat(np.arange(20), 2), 4) == 4
    tested = []
    for train, test in draw_unseen_folds(y, 2, 0):
        assert {8, 9} <= set(train)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(10))
        tested.extend(test)
    assert sorted(tested) == list(range(8))
    groups = np.array([0, 1, 2, 3, 4, 5, 6, 7, 0, 8])
    for train, test in draw_unseen_folds(y, 2, 0, groups):
        assert (8 in train) == (0 not in test)
        assert 9 in train


def test_folds_of_unseen_classes_are_clustered_by_class():
    X, y = make_classes()
    rows = assess_unseen_classes(X, y, [RAW], FIXED, 4).rows
    found = estimate_rows(rows, y, "retrieval_among_all")["1-NN"].measures["map_at_r"]
    scaled = {row["fold"]: row for row in rows}
    values = np.concatenate([row["retrieval_among_all"]["map_at_r"] for row in scaled.values()])
    labels = np.concatenate([y[row["queries"]] for row in scaled.values()])
    assert found == estimate_mean(values, labels)


def test_a_method_that_fails_on_unseen_classes_does_not_end_the_others():
    X, y = make_classes(4, 6)
    lda = make_contender("LDA", search=False)
    broken = replace(lda, name="broken", fixed={"solver": "none"})
    measured = assess_unseen_classes(X, y, [RAW, broken], FIXED, 2)
    assert set(measured.failed) == {"broken"}
    assert {row["method"] for row in measured.rows} == {"1-NN"}


# The choice of settings for such classes


def test_settings_for_unseen_classes_have_the_best_map_at_r_of_folds_that_hold_them_out():
    X, y = make_classes(12, 10, d=8)
    protocol = replace(FIXED, n_components=None, fewest=False, for_unseen=True)
    contender = make_contender("PCA", search=False)
    selected = select_parameters(contender, [], Split(X, y, X[:0], y[:0]), 8, protocol)
    search = DiscriminantSearchCV(PCA(), cv=UnseenClassFolds(4), scoring="map_at_r", refit=False)
    search.fit(X, y)
    assert selected.n_components == search.best_params_["n_components"]
    assert selected.score == pytest.approx(search.best_score_)


def test_too_few_classes_for_such_a_choice_are_named():
    X, y = make_classes(3)
    protocol = replace(FIXED, n_components=None, for_unseen=True)
    contender = make_contender("PCA", search=False)
    with pytest.raises(ValueError, match="needs four classes with at least two training samples"):
        select_parameters(contender, [], Split(X, y, X[:0], y[:0]), 5, protocol)


def test_paired_rule_ignores_how_much_splits_differ():
    level = np.array([0.2, 0.5, 0.9])[:, None]
    # The second number is worse by 0.01 in the mean, with an error as large; the first by more.
    scores = level + np.array([[-0.05, -0.03, 0.0], [-0.06, 0.0, 0.0], [-0.05, 0.0, 0.0]])
    grid = GridScores(scores[:, None], np.array([2, 4, 8]), [], np.zeros(1), np.zeros(1, dtype=int))
    assert select_paired(grid).column == 1
    scores[:, 1] = scores[:, 2] - 0.03
    grid = GridScores(scores[:, None], np.array([2, 4, 8]), [], np.zeros(1), np.zeros(1, dtype=int))
    assert select_paired(grid).column == 2
