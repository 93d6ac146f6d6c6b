"""Nested cross-validation of methods, statistics of errors, model selection and evaluation."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA, GramPCA
from mpda._lib.fingerprints import fingerprint_rows
from mpda.assessment import (
    AssessmentProtocol,
    Contender,
    ErrorEstimate,
    Evaluation,
    Split,
    assess_methods,
    compare_errors,
    compute_error_curves,
    estimate_errors,
    evaluate_model,
    find_best_methods,
    format_error_table,
    make_contender,
    select_model,
)
from mpda.assessment.preparation import decide_preparation
from mpda.estimators.methods import method
from mpda.io import load, save

NAMES = ("1-NN", "LDA", "MPDA")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def rows(wine):
    calls = []
    contenders = [make_contender(name, search=False) for name in NAMES]
    assessment = assess_methods(*wine, contenders, AssessmentProtocol(), progress=calls.append)
    assert [call.name for call in calls] == [*NAMES] * 5
    assert assessment.failed == {}
    return assessment.rows


def test_every_method_is_tested_once_on_every_sample(rows, wine):
    for name in NAMES:
        method_rows = [row for row in rows if row["method"] == name]
        tested = np.concatenate([row["tested"] for row in method_rows])
        np.testing.assert_array_equal(np.sort(tested), np.arange(178))
        for row in method_rows:
            wrong = np.count_nonzero(row["predicted"] != wine[1][row["tested"]])
            assert wrong == row["wrong"][row["dimensions"].index(row["cv_dimension"])]
    assert estimate_errors(rows, "cv")["", "MPDA"].shared == pytest.approx(0.25, abs=0.01)


def test_errors_equal_those_of_a_pipeline_fitted_to_the_training_samples(rows, wine):
    X, y = wine
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    for number, (train, test) in enumerate(folds):
        fold = {row["method"]: row for row in rows if row["fold"] == number}
        raw = make_pipeline(StandardScaler(), KNeighborsClassifier(1)).fit(X[train], y[train])
        assert fold["1-NN"]["wrong"] == [np.count_nonzero(raw.predict(X[test]) != y[test])]
        mpda = MPDA(fold["MPDA"]["cv_dimension"])
        model = make_pipeline(StandardScaler(), mpda, KNeighborsClassifier(1))
        predicted = model.fit(X[train], y[train]).predict(X[test])
        np.testing.assert_array_equal(fold["MPDA"]["predicted"], predicted)


def test_selection_does_not_depend_on_test_samples(wine):
    X, y = wine
    grid = {"alpha": (0.0, 0.1), "n_neighbors": (3, 7)}
    contender = Contender("LFDA", method("LFDA"), {}, grid)
    before = assess_methods(X, y, [contender], AssessmentProtocol(2)).rows[0]
    X = X.copy()
    X[before["tested"]] = X[before["tested"]][:, ::-1] * 100.0
    after = assess_methods(X, y, [contender], AssessmentProtocol(2)).rows[0]
    assert before["parameters"] == after["parameters"]
    assert before["cv_dimension"] == after["cv_dimension"]
    assert before["wrong"] != after["wrong"]


def prepare(X, y, name="MPDA", groups=None, **options):
    contender = make_contender(name, search=False)
    samples = Split(X, y, X[:0], y[:0], groups)
    return AssessmentProtocol(**options).prepare(contender, samples)


@pytest.mark.parametrize("name", ["1-NN", "MPDA"])
def test_features_are_standardised_if_that_lowers_the_error(wine, name):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    # One feature separates the classes; standardisation would amplify twenty noise features.
    X = np.column_stack([5.0 * y + rng.standard_normal(200), *(1e-3 * rng.random((200, 20)).T)])
    for scale in (1.0, 1e200, 1e-200):  # squares of the last two leave the floating-point range
        decided = prepare(scale * wine[0], wine[1], name)
        assert decided.scaled
        pattern = (
            rf"by .*: {name} errs on (.*) % with the features as they are, (.*) % standardised"
        )
        raw, standardised = map(float, re.fullmatch(pattern, *decided.reasons).groups())
        assert standardised < 5.0 < raw
        assert prepare(scale * X, y, name).make_steps() == []


def test_features_are_not_standardised_where_it_changes_nothing():
    # Both classes are far apart in both units: no error before and none after.
    X = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 50.0]
    y = np.arange(200) % 2
    assert prepare(X + 1000.0 * y[:, None], y).make_steps() == []


def test_pca_comes_first_only_if_that_lowers_the_error_of_the_method():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 100)
    # The classes differ in two features of small variance, which PCA takes away.
    hidden = np.column_stack([6.0 * rng.normal(size=(300, 118)), rng.normal(size=(300, 2))])
    hidden[:, -2] += 6.0 * (y == 1)
    hidden[:, -1] += 6.0 * (y == 2)
    decided = prepare(hidden, y, scaled=False)
    assert decided.energy is None
    assert "MPDA errs on " in decided.reasons[0]
    assert "after PCA to 95 % of the variance" in decided.reasons[0]
    # The same two features with most of the variance: LDA has too few samples without PCA.
    visible = np.column_stack([rng.normal(size=(300, 118)), 30.0 * hidden[:, -2:]])
    decided = prepare(visible[::3], y[::3], "LDA", scaled=False)
    assert decided.energy == 0.95
    assert "LDA errs on " in decided.reasons[0]
    # Where both are open, PCA is tried after the better of the two scales.
    (reason,) = prepare(visible[::3], y[::3], "LDA").reasons
    shared = (
        "by cross-validation: LDA errs on # % with the features as they are, # % standardised, "
    )
    assert re.sub(r"\d+\.\d", "#", reason) in (
        f"{shared}# % after PCA to 95 % of the variance",
        f"{shared}# % standardised and after PCA to 95 % of the variance",
    )
    # Nothing is decided where the user decides, for few features, and for 1-NN on the features.
    assert prepare(hidden, y, scaled=False, energy=0.9).energy == 0.9
    assert prepare(hidden, y, scaled=False, energy=None).reasons == ()
    assert prepare(hidden[:, :100], y, scaled=False).reasons == ()
    assert prepare(hidden, y, "1-NN", scaled=False).reasons == ()
    # Slow methods have the decision of MPDA; groups stay together.
    assert "MPDA errs on" in prepare(hidden, y, "NCA", scaled=False).reasons[0]
    groups = np.arange(300) // 2
    assert prepare(hidden, y, groups=groups, scaled=False).energy is None


def test_preparation_of_very_few_samples_is_that_of_nearest_neighbours():
    X = np.random.default_rng(0).normal(size=(6, 3))
    decided = prepare(X, np.array([0, 0, 0, 1, 1, 1]))
    assert decided.scaled == prepare(X, np.array([0, 0, 0, 1, 1, 1]), "1-NN").scaled
    effect = "lowers" if decided.scaled else "does not lower"
    assert f"standardising {effect} the error of 1-NN, and classes are too" in decided.reasons[0]
    assert prepare(X, np.array([0, 0, 0, 1, 1, 1]), scaled=False).reasons == ()


def test_no_pca_is_applied_without_evidence():
    X, y = np.random.default_rng(0).normal(size=(60, 150)), np.repeat(np.arange(20), 3)
    decided = prepare(X, y, scaled=False)
    assert decided.energy is None
    assert decided.reasons[0].startswith("no PCA: classes are too small for cross-validation")


def test_pca_is_not_tried_without_where_fits_would_take_too_long(monkeypatch):
    monkeypatch.setattr("mpda.assessment.preparation._MAX_FEATURES", 110)
    X, y = np.random.default_rng(0).normal(size=(200, 120)), np.arange(200) % 2
    assert prepare(X, y, scaled=False).energy == 0.95
    (reason,) = prepare(X, y, scaled=False).reasons
    assert "was not tested (--pca none)" in reason
    assert "MPDA errs" in prepare(X[:105], y[:105], scaled=False).reasons[0]


def test_number_of_components_can_be_fixed(wine):
    protocol = AssessmentProtocol(n_folds=2, n_components=4)
    contenders = {name: make_contender(name, search=False) for name in NAMES}
    rows = assess_methods(*wine, list(contenders.values()), protocol).rows
    assert {row["method"]: row["cv_dimension"] for row in rows} == {"1-NN": 13, "LDA": 2, "MPDA": 4}
    assert select_model(*wine, contenders["MPDA"], protocol).selected.n_components == 4
    with pytest.raises(ValueError, match="LDA has at most 2 components here, not 4"):
        select_model(*wine, contenders["LDA"], protocol)
    # Principal components are the features of the method.
    reduced = AssessmentProtocol(scaled=False, energy=0.9, n_components=2)
    with pytest.raises(ValueError, match="LDA has at most 1 components here, not 2"):
        select_model(*wine, contenders["LDA"], reduced)
    # Methods without an answer for the same reason are named together.
    many = AssessmentProtocol(n_components=14)
    message = "PCA refined, LFDA refined, MPDA refined: the number of components is at most 13 on"
    with pytest.raises(ValueError, match=message):
        select_model(*wine, make_contender("auto", search=False), many)


def test_search_opens_the_parameter_grid():
    assert make_contender("MPDA", search=True).grid == method("MPDA").grid
    assert make_contender("MPDA", search=False).grid == {}
    assert make_contender("shrinkage LDA", search=False).fixed["shrinkage"] == "auto"
    assert "shrinkage" not in make_contender("shrinkage LDA", search=True).fixed
    contender = Contender("LFDA", method("LFDA"), {"n_neighbors": 5}, {"alpha": (0.0, 0.1)})
    X, y = load_iris(return_X_y=True)
    selected = select_model(X, y, contender, AssessmentProtocol(scaled=False))
    parameters = {**selected.selected.parameters, "n_neighbors": 5}
    parameters["n_components"] = selected.selected.n_components
    assert parameters.items() <= selected.model["lfda"].get_params().items()


@pytest.mark.parametrize("name", ["MPDA", "PCA"])
def test_rule_for_the_number_of_components(wine, name):
    contender = make_contender(name, search=False)
    numbers = {}
    for fewest in (True, False):
        selected = select_model(*wine, contender, AssessmentProtocol(fewest=fewest))
        numbers[fewest] = selected.selected
    assert numbers[True].n_components < numbers[False].n_components
    assert 0.9 < numbers[True].score < 1.0


@pytest.mark.slow
def test_automatic_choice_has_the_best_score(wine):
    X, y = (values[::2] for values in wine)
    # A method alone decides about the scale by itself.
    contender, protocol = (
        make_contender("auto", search=False),
        AssessmentProtocol(2, 2, scaled=True),
    )
    selected = select_model(X, y, contender, protocol)
    scores = [choice.selected.score for choice in selected.ranking.ranked]
    assert scores == sorted(scores, reverse=True)
    names = [choice.contender.name for choice in selected.ranking.ranked]
    assert sorted(names) == ["LFDA refined", "MPDA refined", "PCA refined", "shrinkage LDA refined"]
    assert (selected.method, selected.selected) == (names[0], selected.ranking.ranked[0].selected)
    for choice in selected.ranking.ranked:
        both = choice.selected.unrefined_score, choice.selected.refined_score
        assert choice.selected.score in both
        alone = make_contender(choice.contender.name, search=False)
        model = select_model(X, y, alone, protocol)
        assert model.selected == choice.selected
    rows = assess_methods(X, y, [contender], protocol).rows
    assert [row["method"] for row in rows] == ["auto", "auto"]
    assert {row["chosen"] for row in rows} <= set(names)
    same = assess_methods(X, y, [make_contender(rows[0]["chosen"], search=False)], protocol).rows
    assert same[0]["wrong"] == rows[0]["wrong"]


def test_refinement_is_judged_by_its_start(wine):
    X, y = wine
    (reason, *_) = prepare(X, y, "PCA refined").reasons
    assert "PCA errs on" in reason


def test_automatic_choice_leaves_out_what_has_too_few_components(wine):
    protocol = AssessmentProtocol(2, 2, n_components=4)
    selected = select_model(*wine, make_contender("auto", search=False), protocol)
    names = {choice.contender.name for choice in selected.ranking.ranked}
    assert names == {"LFDA refined", "MPDA refined", "PCA refined"}  # LDA has two components
    assert len(selected.model[-2].components_) == 4


def test_automatic_choice_says_why_a_method_has_no_result():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 60)), np.arange(30) % 3
    X[:, 0] += 3.0 * y
    protocol = AssessmentProtocol(2, 2, scaled=False)
    selected = select_model(X, y, make_contender("auto", search=False), protocol)
    (reason,) = selected.ranking.left_out
    assert reason.startswith("LFDA refined: The within-class form is singular")
    assert "alpha" not in reason  # advice for a fit of LFDA


def test_start_alone_is_kept_where_the_refinement_changes_nothing(wine):
    contender = make_contender("LFDA refined", search=False)
    contender = replace(contender, fixed={"penalty": 1e12, "radius": None})
    selected = select_model(*wine, contender, AssessmentProtocol(2, 2))
    assert selected.selected.parameters["n_rounds"] == 0
    assert selected.selected.unrefined_score == selected.selected.refined_score
    assert isinstance(selected.model[-2], LFDA)


@pytest.mark.parametrize("name", ["NCA", "LSDR", "PCA", "shrinkage LDA"])
@pytest.mark.parametrize("n_components", [None, pytest.param(4, marks=pytest.mark.slow)])
def test_methods_of_scikit_learn_and_methods_without_nested_components(name, n_components):
    X, y = load_iris(return_X_y=True)
    contender = make_contender(name, search=name == "shrinkage LDA")
    if name == "LSDR":
        contender = Contender(
            "LSDR", contender.method, {"max_time": 0.05}, component_counts=(1, 2, 9)
        )
    protocol = AssessmentProtocol(n_folds=2, n_inner=2, n_components=n_components)
    for row in assess_methods(X, y, [contender], protocol).rows:
        assert row["cv_dimension"] in row["dimensions"]
        assert max(row["dimensions"]) <= 4
        assert row["wrong"][-1] < 20
        if n_components is not None and "LDA" not in name:
            assert row["cv_dimension"] == 4


def test_model_is_a_pipeline_with_the_names_of_features(wine):
    X, y = wine
    frame = pd.DataFrame(X, columns=load_wine().feature_names)
    contender = make_contender("MPDA", search=False)
    model = select_model(frame, y, contender, AssessmentProtocol()).model
    assert list(model.named_steps) == ["scale", "mpda", "neighbors"]
    assert model.feature_names_in_.tolist() == load_wine().feature_names
    assert model.score(frame, y) == 1.0
    bare = select_model(X, y, contender, AssessmentProtocol(), neighbors=False).model
    assert list(bare.named_steps) == ["scale", "mpda"]


def test_many_features_are_reduced_by_pca():
    X, y = load_digits(return_X_y=True)
    X, y = np.hstack([X[:300], X[:300]]), y[:300]
    contender = make_contender("LFDA", search=False)
    protocol = AssessmentProtocol(scaled=False, n_components=3)
    model = select_model(X, y, contender, protocol).model
    assert list(model.named_steps) == ["pca", "lfda", "neighbors"]
    assert model["pca"].explained_variance_ratio_.sum() >= 0.95
    model = select_model(X, y, contender, replace(protocol, energy=None)).model
    assert "pca" not in model.named_steps


def test_classes_smaller_than_the_number_of_folds_are_tested():
    X, y = load_iris(return_X_y=True)
    subset = np.r_[0:40, 50:90, 100:102]
    contenders = [make_contender("MPDA", search=False)]
    assessment = assess_methods(X[subset], y[subset], contenders, AssessmentProtocol(n_folds=3))
    assert sum(row["n_test"] for row in assessment.rows) == 82


def test_a_failing_method_is_named_and_the_others_continue():
    X, y = load_iris(return_X_y=True)
    contenders = [make_contender(name, search=False) for name in ("1-NN", "LDA", "MFA")]
    contenders[2] = replace(contenders[2], fixed={"alpha": -1.0})
    protocol = AssessmentProtocol(n_folds=2, scaled=False)
    assessment = assess_methods(X[::4], y[::4], contenders, protocol)
    assert list(assessment.failed) == ["MFA"]
    assert "alpha must be" in assessment.failed["MFA"]
    assert {row["method"] for row in assessment.rows} == {"1-NN", "LDA"}


def test_shared_training_samples_widen_intervals():
    """Nadeau and Bengio (2003): the variance 1/n becomes 1/n + n_test/n_train."""
    errors, seeds = np.array([1.0, 2.0, 1.5, 1.2, 1.9]), np.arange(5)
    independent = [ErrorEstimate(seeds, e, np.ones(5)) for e in (errors, 2.0 * errors - 0.9)]
    expected = stats.t.interval(0.95, 4, loc=errors.mean(), scale=stats.sem(errors))
    np.testing.assert_allclose(independent[0].interval, expected)
    assert compare_errors([tuple(independent)])[0].is_significant
    folds = [replace(estimate, shared=0.25) for estimate in independent]
    assert not compare_errors([tuple(folds)])[0].is_significant
    ratio = np.diff(folds[0].interval) / np.diff(independent[0].interval)
    assert ratio[0] == pytest.approx(np.sqrt((0.2 + 0.25) / 0.2))


def test_evaluation_of_a_model_on_other_samples(wine):
    X, y = wine
    contender = make_contender("LFDA", search=False)
    model = select_model(X[::2], y[::2], contender, AssessmentProtocol()).model
    new = evaluate_model(model, X[1::2], y[1::2])
    assert not new.leave_one_out
    assert new.n_training_samples == 0
    np.testing.assert_array_equal(new.predicted, model.predict(X[1::2]))
    assert new.error == pytest.approx(100.0 * (1.0 - model.score(X[1::2], y[1::2])))
    low, high = new.interval
    assert 0.0 <= low <= new.error <= high
    mixed = evaluate_model(model, np.vstack([X[:1], X[1::2]]), np.r_[y[:1], y[1::2]])
    assert mixed.n_training_samples == 1
    assert mixed.error_of_new == pytest.approx(new.error)
    unknown = evaluate_model(model, X[1::2], np.where(y[1::2] == 0, 7, y[1::2]))
    assert unknown.unknown_labels.tolist() == [7]
    assert not unknown.leave_one_out
    others = evaluate_model(model, X[1::2], y[1::2] + 10)  # no class of the fit
    assert others.leave_one_out
    assert others.unknown_labels.tolist() == (np.unique(y) + 10).tolist()
    Z = model[:-1].transform(X[1::2])
    distances = cdist(Z, Z)
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_array_equal(others.predicted, y[1::2][distances.argmin(axis=1)] + 10)
    text = evaluate_model(model, X[1::2], y[1::2].astype(str))
    assert text.error == new.error


def test_interval_of_an_evaluation_is_wilsons_at_95_per_cent():
    y = np.zeros(100, dtype=int)
    predicted = (np.arange(100) < 5).astype(int)
    evaluation = Evaluation(
        np.zeros((100, 1)), y, predicted, False, np.zeros(100, dtype=bool), y[:0]
    )
    # Wilson (1927): (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n).
    p, n, z = 0.05, 100, 1.959964
    centre, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    expected = 100 * np.array([centre - half, centre + half]) / (1 + z**2 / n)
    np.testing.assert_allclose(evaluation.interval, expected, rtol=1e-6)


def test_predictions_of_all_samples_decide_where_folds_have_no_power():
    """Errors of 2 and 4 % on 2,500 samples in 3 folds: 20 and 71 samples are wrong once."""
    first, second = np.zeros(2500, dtype=bool), np.zeros(2500, dtype=bool)
    first[:50], second[20:121] = True, True
    rng = np.random.default_rng(0)
    order = rng.permutation(2500)
    rows = []
    for seed, tested in enumerate(np.array_split(order, 3)):
        for name, wrong in (("a", first), ("b", second)):
            row = {"problem": "", "method": name, "fold": seed, "test_share": 0.5}
            row |= {"dimensions": [1], "wrong": [int(wrong[tested].sum())], "cv_dimension": 1}
            row |= {"n_test": len(tested), "tested": tested, "misclassified": wrong[tested]}
            rows.append(row)
    estimates = {name: value for (_, name), value in estimate_errors(rows, "cv").items()}
    np.testing.assert_array_equal(estimates["a"].wrong, first)
    (comparison,) = compare_errors([(estimates["a"], estimates["b"])])
    assert comparison.difference == pytest.approx(100 * 51 / 2500, rel=1e-2)
    assert comparison.p_samples == pytest.approx(stats.binomtest(20, 91).pvalue)
    assert comparison.is_significant
    assert find_best_methods(estimates) == {"a"}


@pytest.mark.parametrize("has_fingerprints", [True, False])
def test_only_samples_of_the_fit_count_as_training_samples(has_fingerprints):
    """Neither an outlier in the file nor a crowded space makes new samples known."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 5)), np.arange(1000) % 2
    protocol = AssessmentProtocol(n_components=1, scaled=False)
    model = select_model(X, y, make_contender("MPDA", search=False), protocol).model
    if not has_fingerprints:
        del model.steps[-1][1].sample_fingerprints_
    new, labels = rng.normal(size=(2500, 5)), np.arange(2500) % 2
    assert evaluate_model(model, new, labels).n_training_samples == 0
    new[0] = 1e6
    assert evaluate_model(model, new, labels).n_training_samples == 0
    new[10:20] = X[100:110]
    evaluation = evaluate_model(model, new, labels)
    assert np.flatnonzero(evaluation.is_training_sample).tolist() == list(range(10, 20))


def test_fingerprints_of_training_samples_are_saved(tmp_path, wine):
    X, y = wine
    model = select_model(X, y, make_contender("LFDA", search=False), AssessmentProtocol()).model
    save(model, tmp_path / "wine.mpda")
    loaded = load(tmp_path / "wine.mpda")
    assert evaluate_model(loaded, X[5:9], y[5:9]).n_training_samples == 4
    assert evaluate_model(loaded, X[5:9] + 1e-6, y[5:9]).n_training_samples == 0


def test_fingerprints_depend_on_values_and_their_order():
    rng = np.random.default_rng(0)
    # Whole numbers: their floating-point representations differ in few bits.
    X = np.unique(rng.integers(-9, 10, size=(20_000, 6)), axis=0)
    prints = fingerprint_rows(X)
    assert np.unique(prints).size == len(X)
    np.testing.assert_array_equal(fingerprint_rows(X.astype(np.float32)), prints)
    np.testing.assert_array_equal(fingerprint_rows(-np.zeros((1, 6))), fingerprint_rows(X[:1] * 0))
    assert fingerprint_rows([[1.0, 2.0]]) != fingerprint_rows([[2.0, 1.0]])


@pytest.mark.parametrize("name", ["MPDA", "LDA"])
def test_preprocessing_is_fitted_inside_the_inner_folds(monkeypatch, wine, name):
    X, y = wine
    sizes = []
    fit = StandardScaler.fit

    def record(scaler, X, y=None, sample_weight=None):
        sizes.append(len(X))
        return fit(scaler, X, y, sample_weight)

    monkeypatch.setattr(StandardScaler, "fit", record)
    protocol = AssessmentProtocol(n_folds=3, n_inner=4, scaled=True)
    assert not assess_methods(X, y, [make_contender(name, search=False)], protocol).failed
    outer = round(len(y) * 2 / 3)
    inner = [size for size in sizes if size < outer - 1]
    assert len(inner) >= 3 * 4
    assert max(inner) <= np.ceil((outer + 1) * 3 / 4)


def test_a_model_without_samples_is_evaluated_by_leave_one_out(wine):
    X, y = wine
    model = make_pipeline(LFDA(n_components=2)).fit(X[::2], y[::2])
    evaluation = evaluate_model(model, X[1::2], y[1::2])
    assert evaluation.leave_one_out
    Z = model.transform(X[1::2])
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=2) + np.diag(np.full(len(Z), np.inf))
    np.testing.assert_array_equal(evaluation.predicted, y[1::2][distances.argmin(axis=1)])


def test_text_table_shows_the_best_methods_and_differences(rows):
    header, *lines = format_error_table(rows, "error")
    estimates = {name: estimate for (_, name), estimate in estimate_errors(rows, "cv").items()}
    assert header.split()[0] == "error"
    lines = {line.split()[0]: line for line in lines}
    mpda = estimates["MPDA"]
    assert f"{mpda.mean:.2f} ± {mpda.std:.2f} %*" in lines["MPDA"]
    assert f"{mpda.mean - estimates['1-NN'].mean:+.2f}" in lines["MPDA"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "12 ms"), (0.25, "250 ms"), (1.26, "1.3 s"), (75.0, "75.0 s")]
)
def test_text_table_has_the_unit_of_the_time(rows, seconds, text):
    first = [{**row, "fit_seconds": seconds} for row in rows if row["method"] == "MPDA"]
    assert format_error_table(first, "error")[1].endswith(f" {text}")


def test_error_curves_are_means_with_student_intervals():
    base = {"problem": "p", "method": "m", "n_test": 100}
    rows = [
        {**base, "dimensions": [1, 2, 3], "wrong": [10, 8, 6]},
        {**base, "dimensions": [1, 2], "wrong": [14, 8]},
    ]
    curve = compute_error_curves(rows)["p", "m"]
    np.testing.assert_array_equal(curve.component_counts, [1, 2])
    np.testing.assert_allclose(curve.error, [12.0, 8.0])
    half = stats.t.ppf(0.975, 1) * 2.0  # the standard error of 10 and 14 is 2
    np.testing.assert_allclose([curve.low[0], curve.high[0]], [0.0, 12.0 + half])
    np.testing.assert_allclose([curve.low[1], curve.high[1]], 8.0)
    assert compute_error_curves(rows[:1])["p", "m"].low is None


@pytest.mark.parametrize("n", [60, 200])
@pytest.mark.parametrize("scaled", [False, True])
def test_pca_by_the_scatter_matrix_is_that_of_tall_tables(n, scaled):
    rng = np.random.default_rng(0)
    X = 1e9 + 60.0 * rng.normal(size=(n, 120)) @ rng.normal(size=(120, 120))
    y = np.repeat(np.arange(4), n // 4)
    samples = Split(X, y, X, y)
    contender = make_contender("MPDA", search=False)
    preparation = decide_preparation(contender, samples, scaled=scaled, energy=0.95, seed=0)
    steps = preparation.make_steps()
    assert isinstance(steps[-1][1], GramPCA if n == 200 else PCA)
    expected = make_pipeline(*[StandardScaler()] * scaled, PCA(0.95, svd_solver="full"))
    Z, Z_expected = Pipeline(steps).fit_transform(X), expected.fit_transform(X)
    assert Z.shape == Z_expected.shape
    scale = np.abs(Z_expected).max()
    np.testing.assert_allclose(np.abs(Z), np.abs(Z_expected), rtol=0, atol=1e-4 * scale)
