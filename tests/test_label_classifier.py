"""Logistic regression on all numbers: its choice, its row of a comparison, what is said of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from command_calls import call, read_page
from mpda.assessment import (
    CLASSIFIER,
    CLASSIFIER_NOTE,
    MAP_ADVANTAGE,
    AssessmentProtocol,
    assess_methods,
    compare_methods,
    estimate_errors,
    find_best_methods,
    find_better_than_guess,
    fit_label_classifier,
    make_contender,
)
from mpda.assessment.label_classifier import INVERSE_PENALTIES
from mpda.experiments.contender_task import ContenderTask
from mpda.experiments.embeddings import EMBEDDING_CONTENDERS, error_table, run_embedding_task
from mpda.report.verdict import describe_classifier, recommend_method


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def rows(wine):
    contenders = [make_contender(name, search=False) for name in ("1-NN", "LDA", CLASSIFIER)]
    assessment = assess_methods(*wine, contenders, AssessmentProtocol(3))
    assert assessment.failed == {}
    return assessment.rows


def make_classes():
    """Return three Gaussian classes of 20 samples in five dimensions."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 20)
    return rng.normal(size=(60, 5)) + 2.0 * np.eye(5)[y], y


def name_penalty(model):
    return model[-1].C


def test_penalty_has_the_best_accuracy_on_folds_of_the_training_samples():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] + np.random.default_rng(0).normal(0.0, 8.0, (300, 64)), y[:300]
    model = fit_label_classifier(X, y, seed=0)
    # With all samples drawn, the folds are those of scikit-learn on the samples in their order.
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    scores = []
    for value in INVERSE_PENALTIES:
        pipeline = make_pipeline(
            StandardScaler(), LogisticRegression(C=value, max_iter=200, tol=1e-3)
        )
        right = [pipeline.fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]
        scores.append(np.mean(right))
    assert np.ptp(scores) > 0.02  # the choice matters
    assert scores[INVERSE_PENALTIES.index(name_penalty(model))] == pytest.approx(max(scores))
    assert model[0].mean_ == pytest.approx(X.mean(axis=0))  # fitted again to all


def test_equal_scores_select_the_strongest_penalty():
    rng, y = np.random.default_rng(0), np.repeat([0, 1], 42)  # three folds of equal classes
    X = rng.normal(size=(84, 2)) + 40.0 * y[:, None]
    assert name_penalty(fit_label_classifier(X, y)) == INVERSE_PENALTIES[0]


def test_choice_and_fit_do_not_depend_on_test_samples(wine):
    X, y = wine
    contender, protocol = make_contender(CLASSIFIER, search=False), AssessmentProtocol(2)
    before = assess_methods(X, y, [contender], protocol).rows[0]
    changed = X.copy()
    changed[before["tested"]] = X[before["tested"]][::-1] * 3.0
    after = assess_methods(changed, y, [contender], protocol).rows[0]
    assert before["parameters"] == after["parameters"]
    train = np.setdiff1d(np.arange(len(y)), before["tested"])
    model = fit_label_classifier(X[train], y[train])
    assert before["parameters"] == {"C": name_penalty(model)}
    np.testing.assert_array_equal(before["predicted"], model.predict(X[before["tested"]]))
    assert before["wrong"] == [np.count_nonzero(before["misclassified"])]
    assert before["wrong"] != after["wrong"]


def test_groups_and_score_of_the_protocol_select_the_penalty(wine, monkeypatch):
    calls = []

    def record(X, y, **options):
        calls.append(options)
        return fit_label_classifier(X, y, **options)

    monkeypatch.setattr("mpda.assessment.nested_cv.fit_label_classifier", record)
    groups = np.arange(178) // 2
    protocol = AssessmentProtocol(2, seed=5, scoring="balanced_accuracy")
    contender = make_contender(CLASSIFIER, search=False)
    rows = assess_methods(*wine, [contender], protocol, groups=groups).rows
    for row, options in zip(rows, calls, strict=True):
        assert options["seed"] == 5
        assert options["scoring"] == "balanced_accuracy"
        assert set(options["groups"]) == set(groups) - set(groups[row["tested"]])


def test_fits_are_equal_for_equal_samples():
    X, y = make_classes()
    first, second = (fit_label_classifier(X, y, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first[-1].coef_, second[-1].coef_)
    assert name_penalty(first) == name_penalty(second)


def test_coefficients_of_single_precision_are_of_single_precision():
    X, y = make_classes()
    single = fit_label_classifier(X.astype(np.float32), y)
    assert single[-1].coef_.dtype == np.float32
    assert fit_label_classifier(X, y)[-1].coef_.dtype == np.float64


def test_sparse_samples_have_nearly_the_labels_of_dense_ones():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    sparse, dense = fit_label_classifier(csr_matrix(X), y), fit_label_classifier(X, y)
    assert np.mean(sparse.predict(csr_matrix(X)) == dense.predict(X)) > 0.98


@pytest.mark.parametrize("n_each", [1, 2, 3])
def test_classes_of_few_samples_are_fitted(n_each):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), n_each)
    X = 10.0 * np.eye(8)[y] + rng.normal(size=(len(y), 8))
    model = fit_label_classifier(X, y)
    assert model.score(X, y) == 1.0
    if n_each == 1:  # nothing can be left out
        assert name_penalty(model) == LogisticRegression().C


def test_folds_divide_no_group_and_one_group_has_the_default():
    X, y = make_classes()
    alone = fit_label_classifier(X, y, groups=np.zeros(len(y)))
    assert name_penalty(alone) == LogisticRegression().C
    # Each class is one group, so that two classes are left to train on.
    assert name_penalty(fit_label_classifier(X, y, groups=y)) in INVERSE_PENALTIES


def test_a_fit_of_minutes_is_refused():
    X = np.broadcast_to(np.zeros(4096, dtype=np.float32), (100_000, 4096))
    with pytest.raises(ValueError, match=r"100,000 samples x 4,096 numbers x 30 classes"):
        fit_label_classifier(X, np.arange(100_000) % 30)


def test_conclusions_about_maps_do_not_depend_on_the_classifier(rows):
    estimates = {name: value for (_, name), value in estimate_errors(rows, "cv").items()}
    without = {name: value for name, value in estimates.items() if name != CLASSIFIER}
    assert estimates.keys() - without.keys() == {CLASSIFIER}
    assert find_best_methods(estimates) == find_best_methods(without)
    assert compare_methods(estimates, ["LDA"]) == compare_methods(without, ["LDA"])
    assert find_better_than_guess(estimates) == find_better_than_guess(without)
    maps = [row for row in rows if row["method"] != CLASSIFIER]
    assert recommend_method(rows, ["LDA"]) == recommend_method(maps, ["LDA"])


def test_sentences_have_the_error_and_the_difference(rows):
    estimates = {name: value for (_, name), value in estimate_errors(rows, "cv").items()}
    error, advantage = describe_classifier(rows, "1-NN")
    gap = estimates["1-NN"].mean - estimates[CLASSIFIER].mean
    assert f"{CLASSIFIER_NOTE}) has an error of {estimates[CLASSIFIER]}" in error
    assert f"{gap:.2f} points lower than that of 1-NN" in error
    assert advantage == MAP_ADVANTAGE
    assert describe_classifier([row for row in rows if row["method"] != CLASSIFIER], "LDA") == []


@pytest.fixture
def arrays(tmp_path, monkeypatch):
    """Return an array of vectors in the working directory."""
    monkeypatch.chdir(tmp_path)
    X, y = load_iris(return_X_y=True)
    np.savez("iris.npz", X=X.astype(np.float32), y=y)
    return "iris.npz"


def test_comparison_of_vectors_has_the_row_whatever_the_methods(arrays, capsys):
    words = ("--label", "y", "--methods", "1-nn", "lda", "--folds", "2")
    assert call("compare", arrays, *words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{CLASSIFIER}: {CLASSIFIER_NOTE}" in out
    assert MAP_ADVANTAGE in out
    results = json.loads(Path("comparison/results.json").read_text())
    problem = results["comparison"]["problems"][0]
    entry = next(row for row in problem["rows"] if row["method"] == CLASSIFIER)
    assert entry["note"] == CLASSIFIER_NOTE
    assert entry["components"] == 4
    assert entry["best"] is False
    assert CLASSIFIER not in [curve["method"] for curve in problem["curves"]]
    assert "Recommended: LDA" in out
    page = read_page("comparison/report.html")
    assert f'{CLASSIFIER} <span class="spread">{CLASSIFIER_NOTE}</span>' in page
    assert f"of the rows other than {CLASSIFIER}" in page
    assert MAP_ADVANTAGE in page


def test_the_classifier_alone_is_no_comparison_of_maps(arrays, capsys):
    words = ("--label", "y", "--methods", "1-nn", "logistic-regression", "--folds", "2")
    assert call("compare", arrays, *words) == 1
    assert "No map was compared" in capsys.readouterr().err


def test_fit_has_the_row_for_vectors_and_not_for_columns_of_numbers(arrays, capsys):
    words = ("--label", "y", "--method", "lda", "--folds", "2", "--json")
    assert call("fit", arrays, *words) == 0
    results = json.loads(capsys.readouterr().out)
    methods = [row["method"] for row in results["comparison"]["problems"][0]["rows"]]
    assert methods == ["1-NN", CLASSIFIER, "LDA"]
    load_iris(as_frame=True).frame.to_csv("iris.csv", index=False)
    assert call("fit", "iris.csv", *("--label", "target", *words[2:])) == 0
    results = json.loads(capsys.readouterr().out)
    methods = [row["method"] for row in results["comparison"]["problems"][0]["rows"]]
    assert methods == ["1-NN", "LDA"]


def test_table_of_embeddings_has_its_error_and_no_map_at_r(tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = np.hstack([X, X[:, ::-1] ** 2])[:300], y[:300]
    parts = np.repeat([0, 2], [200, 100]).astype(np.int8)
    np.savez(tmp_path / "clinc150_minilm384.npz", X=X.astype(np.float16), y=y, split=parts)
    rows = [
        run_embedding_task(
            ContenderTask("embeddings", "clinc150", EMBEDDING_CONTENDERS[name], 0), tmp_path
        )
        for name in ("raw", CLASSIFIER)
    ]
    X = X.astype(np.float16).astype(float)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = fit_label_classifier(X[:200], y[:200])
    error = 100.0 * (1.0 - model.score(X[200:], y[200:]))
    table = error_table(rows, "clinc150")
    assert table.count(f"| {CLASSIFIER} |" + f" {error:.2f} |" * 4) == 4
    assert table.count(f"| {CLASSIFIER} |" + " \N{EN DASH} |" * 4) == 2
