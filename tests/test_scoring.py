"""Scores of the search: functions of labels, measures of retrieval, functions of mapped samples."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from mpda import LFDA
from mpda.assessment import (
    map_at_r,
    precision_at_k,
    r_precision,
    recall_at_k,
    score_queries,
)
from mpda.model_selection import DiscriminantSearchCV, UnseenClassFolds
from mpda.model_selection.halving import MAX_TESTS

X, Y = load_digits(n_class=6, return_X_y=True)
X, Y = X[::3].astype(float), Y[::3]
FOLDS = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, Y))
MEASURES = {
    "recall_at_3": lambda *arrays: recall_at_k(*arrays, k=3),
    "precision_at_10": lambda *arrays: precision_at_k(*arrays, k=10),
    "r_precision": r_precision,
    "map_at_r": map_at_r,
}


def search(scoring, estimator=None, **options):
    """Fit a search over numbers of components of PCA, unless the options differ."""
    options = {"cv": FOLDS, "n_components": [2, 8], "selection": "minimum"} | options
    return DiscriminantSearchCV(estimator or PCA(), {}, scoring=scoring, **options).fit(X, Y)


@pytest.mark.parametrize("name", MEASURES)
def test_measures_of_retrieval_score_folds(name):
    fitted = search(name)
    for i, (train, test) in enumerate(FOLDS):
        model = PCA().fit(X[train])
        for row, r in enumerate((2, 8)):
            Z, Z_test = (model.transform(X[part])[:, :r] for part in (train, test))
            expected = MEASURES[name](Z, Y[train], Z_test, Y[test])
            assert fitted.cv_results_[f"split{i}_test_score"][row] == pytest.approx(expected)
    Z = fitted.transform(X)
    assert fitted.score(X, Y) == pytest.approx(MEASURES[name](Z, Y, Z, Y))


def test_classes_that_were_not_seen_are_searched_among_themselves():
    folds = UnseenClassFolds(3)
    retrieved, classified, voted = (
        search(scoring, cv=folds, classifier_neighbors=k).cv_results_
        for scoring, k in (("map_at_r", 1), ("accuracy", 1), (balanced_accuracy_score, 3))
    )
    for i, (train, test) in enumerate(folds.split(X, Y)):
        Z = PCA().fit(X[train]).transform(X[test])[:, :8]
        y, name = Y[test], f"split{i}_test_score"
        assert retrieved[name][1] == pytest.approx(map_at_r(Z, y))
        nearest = NearestNeighbors(n_neighbors=3).fit(Z).kneighbors(return_distance=False)
        assert classified[name][1] == pytest.approx(np.mean(y[nearest[:, 0]] == y))
        predicted = []
        for j in range(len(y)):
            others = np.delete(np.arange(len(y)), j)
            classifier = KNeighborsClassifier(3).fit(Z[others], y[others])
            predicted.append(classifier.predict(Z[[j]])[0])
        assert voted[name][1] == pytest.approx(balanced_accuracy_score(y, predicted))


def test_a_function_of_mapped_samples_is_a_score():
    seen = []

    def spread(Z, y, Z_test, y_test):
        seen.append((Z.shape, y.shape, Z_test.shape, y_test.shape))
        return float(Z_test.std())

    fitted = search(spread)
    train, test = FOLDS[0]
    assert seen[:2] == [
        ((len(train), r), (len(train),), (len(test), r), (len(test),)) for r in (2, 8)
    ]
    Z = PCA(2).fit(X[train]).transform(X[test])
    assert fitted.cv_results_["split0_test_score"][0] == pytest.approx(Z.std(), rel=0.2)
    assert fitted.best_params_["n_components"] == 2


def test_functions_of_this_package_are_scores_themselves():
    named, given = search("map_at_r"), search(map_at_r)
    np.testing.assert_allclose(
        named.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"]
    )


def test_all_numbers_stand_for_some_where_each_takes_a_search_of_neighbors():
    numbers = set(search("recall_at_1", n_components=10).cv_results_["param_n_components"])
    assert numbers == {1, 2, 3, 4, 5, 6, 8, 10}
    numbers = set(search("recall_at_1", n_components=[3, 7]).cv_results_["param_n_components"])
    assert numbers == {3, 7}
    numbers = set(search("recall_at_1", n_components="all").cv_results_["param_n_components"])
    assert {1, 2, 3, 4, 5, 6, 8} < numbers
    assert 7 not in numbers
    accuracy = search("accuracy", n_components="all").cv_results_["param_n_components"]
    assert len(set(accuracy)) > 2 * len(numbers)


@pytest.mark.parametrize(("unseen", "most"), [(False, MAX_TESTS), (True, 1500)])
def test_halving_tests_few_samples_unless_they_are_searched_among_themselves(
    monkeypatch, unseen, most
):
    X, y = np.random.default_rng(0).normal(size=(3000, 4)), np.arange(3000) % 10
    sizes = []

    def record(Z, y, *queries, **options):
        sizes.append(len(queries[1] if queries else y))
        return score_queries(Z, y, *queries, **options)

    monkeypatch.setattr("mpda.model_selection.scoring.score_queries", record)
    grid = {"alpha": [0.1, 1.0, 10.0, 100.0]}
    options = {"halving": True, "n_components": [2], "refit": False}
    cv = UnseenClassFolds(2) if unseen else 2
    DiscriminantSearchCV(LFDA(), grid, cv=cv, scoring="recall_at_1", **options).fit(X, y)
    assert max(sizes) == most
    sizes.clear()

    def count(Z, y, Z_test, y_test):  # of a function nothing is known
        sizes.append(len(y_test))
        return 0.0

    DiscriminantSearchCV(LFDA(), grid, cv=cv, scoring=count, **options).fit(X, y)
    assert max(sizes) == 1500


@pytest.mark.parametrize("scoring", ["recall_at_0", "recall_at_", "map", None, 3])
def test_unknown_scores_are_refused_with_the_names(scoring):
    with pytest.raises(ValueError, match="'f1_macro', a measure of retrieval, or a callable, got"):
        search(scoring)
