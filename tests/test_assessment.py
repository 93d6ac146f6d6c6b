"""Nested cross-validation of methods, the model that is kept, and its errors on other samples."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA
from mpda.assessment import (
    AssessmentProtocol,
    Contender,
    ErrorEstimate,
    Preprocessing,
    Split,
    assess_methods,
    compute_error_curves,
    count_steps,
    differ_significantly,
    estimate_errors,
    evaluate_model,
    format_error_table,
    make_contender,
    select_model,
)
from mpda.assessment._nested import _assessed_once
from mpda.assessment._scores import ScoreTable, Selection
from mpda.assessment._split import better_scaled
from mpda.model_selection.methods import method

NAMES = ("1-NN", "LDA", "MPDA")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def rows(wine):
    told = []
    contenders = [make_contender(name, search=False) for name in NAMES]
    found = assess_methods(*wine, contenders, AssessmentProtocol(), progress=told.append)
    assert len(told) == count_steps(contenders, AssessmentProtocol()) == 15
    assert found.failed == {}
    return found.rows


def test_every_sample_is_tested_once_by_every_method(rows, wine):
    for name in NAMES:
        own = [row for row in rows if row["method"] == name]
        tested = np.concatenate([row["tested"] for row in own])
        np.testing.assert_array_equal(np.sort(tested), np.arange(178))
        for row in own:
            wrong = np.count_nonzero(row["predicted"] != wine[1][row["tested"]])
            assert wrong == row["wrong"][row["dimensions"].index(row["cv_dimension"])]


def test_rows_say_how_much_folds_share(rows):
    assert estimate_errors(rows, "cv")["", "MPDA"].shared == pytest.approx(0.25, abs=0.01)


def test_errors_are_those_of_a_pipeline_fitted_to_the_training_part(rows, wine):
    X, y = wine
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    for number, (train, test) in enumerate(folds):
        here = {row["method"]: row for row in rows if row["seed"] == number}
        raw = make_pipeline(StandardScaler(), KNeighborsClassifier(1)).fit(X[train], y[train])
        assert here["1-NN"]["wrong"] == [np.count_nonzero(raw.predict(X[test]) != y[test])]
        row = here["MPDA"]
        model = make_pipeline(
            StandardScaler(), MPDA(row["cv_dimension"]), KNeighborsClassifier(1)
        ).fit(X[train], y[train])
        np.testing.assert_array_equal(row["predicted"], model.predict(X[test]))


def test_choices_do_not_see_the_test_part(wine):
    X, y = wine
    train, test = next(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    entrant = Contender("LFDA", method("LFDA"), {}, {"alpha": (0.0, 0.1), "n_neighbors": (3, 7)})
    before = _assessed_once(X, y, entrant, 0, (train, test), AssessmentProtocol())
    X, y = X.copy(), y.copy()
    rng = np.random.default_rng(0)
    X[test] = X[test][:, ::-1] * 100.0
    y[test] = rng.integers(0, 3, len(test))
    after = _assessed_once(X, y, entrant, 0, (train, test), AssessmentProtocol())
    assert before["parameters"] == after["parameters"]
    assert before["cv_dimension"] == after["cv_dimension"]
    assert before["wrong"] != after["wrong"]


def test_standardising_is_decided_by_the_neighbours_of_samples(wine):
    assert better_scaled(*wine, 0)
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    # One feature tells the classes, many small ones are noise that standardising would raise.
    X = np.column_stack([10.0 * y + rng.standard_normal(200), *(1e-3 * rng.random((200, 20)).T)])
    X[:, 1:] *= rng.permutation(20) + 1.0
    assert not better_scaled(X, y, 0)
    for scale in (1e200, 1e-200):  # where squares leave the range of floating-point numbers
        assert better_scaled(scale * wine[0], wine[1], 0)
        assert not better_scaled(scale * X, y, 0)
    part = Split(X[::2], y[::2], X[1::2], y[1::2])
    done = Preprocessing(True, 0.5).applied(part)
    assert done.X.shape[1] < 21
    np.testing.assert_allclose(done.X.mean(axis=0), 0.0, atol=1e-12)
    assert abs(done.X_test.mean()) > 1e-9  # fitted to the other half


def test_numbers_of_components_may_be_given(wine):
    protocol = AssessmentProtocol(n_folds=2, n_components=4)
    rows = assess_methods(
        *wine, [make_contender(name, search=False) for name in NAMES], protocol
    ).rows
    chosen = {row["method"]: row["cv_dimension"] for row in rows}
    assert chosen == {"1-NN": 13, "LDA": 2, "MPDA": 4}
    assert select_model(*wine, make_contender("MPDA", search=False), protocol).choice.dimension == 4
    with pytest.raises(ValueError, match="LDA has at most 2 components here, not 4"):
        select_model(*wine, make_contender("LDA", search=False), protocol)


def test_a_search_opens_the_grid_of_a_method():
    assert make_contender("MPDA", search=True).grid == method("MPDA").grid
    assert make_contender("MPDA", search=False).grid == {}
    assert make_contender("1-NN", search=True).method is None
    entrant = Contender("LFDA", method("LFDA"), {"n_neighbors": 5}, {"alpha": (0.0, 0.1)})
    X, y = load_iris(return_X_y=True)
    chosen = select_model(X, y, entrant, AssessmentProtocol(scaled=False))
    fitted = chosen.model["lfda"]
    assert fitted.n_neighbors == 5
    assert fitted.alpha == chosen.choice.point["alpha"]
    assert fitted.n_components == chosen.choice.dimension


def test_a_tie_of_scores_goes_to_fewer_components():
    scores = np.array([[0.5, 0.9, np.nan], [0.7, 0.8, 0.9]])
    table = ScoreTable([{"alpha": 0.1}, {"alpha": 1.0}], np.array([1, 2, 5]), scores)
    assert table.best() == Selection({"alpha": 0.1}, 2)
    scores[1, 2] = 0.91
    assert table.best() == Selection({"alpha": 1.0}, 5)


@pytest.mark.parametrize("name", ["NCA", "LSDR", "PCA", "shrinkage LDA"])
def test_methods_that_are_fitted_for_every_number(name):
    X, y = load_iris(return_X_y=True)
    entrant = make_contender(name, search=name == "shrinkage LDA")
    if name == "LSDR":
        entrant = Contender("LSDR", entrant.method, {"max_time": 0.05}, dimensions=(1, 2, 9))
    for row in assess_methods(X, y, [entrant], AssessmentProtocol(n_folds=2, n_inner=2)).rows:
        assert row["cv_dimension"] in row["dimensions"]
        assert max(row["dimensions"]) <= 4
        assert row["wrong"][-1] < 20


def test_the_model_is_a_pipeline_that_knows_the_names_of_features(wine):
    X, y = wine
    frame = pd.DataFrame(X, columns=load_wine().feature_names)
    chosen = select_model(frame, y, make_contender("MPDA", search=False), AssessmentProtocol())
    assert [name for name, _ in chosen.model.steps] == ["scale", "mpda", "neighbors"]
    assert chosen.model.feature_names_in_.tolist() == load_wine().feature_names
    assert chosen.model.score(frame, y) == 1.0
    alone = select_model(
        X, y, make_contender("MPDA", search=False), AssessmentProtocol(), neighbors=False
    )
    assert [name for name, _ in alone.model.steps] == ["scale", "mpda"]
    np.testing.assert_allclose(
        alone.model.transform(X), chosen.model[:-1].transform(frame), atol=1e-12
    )


def test_many_features_go_through_pca():
    X, y = load_digits(return_X_y=True)
    wide = np.hstack([X[:300], X[:300]])
    chosen = select_model(
        wide,
        y[:300],
        make_contender("LFDA", search=False),
        AssessmentProtocol(scaled=False, n_components=3),
    )
    assert [name for name, _ in chosen.model.steps] == ["pca", "lfda", "neighbors"]
    assert chosen.model["pca"].explained_variance_ratio_.sum() >= 0.95
    without = AssessmentProtocol(scaled=False, n_components=3, energy=None)
    assert (
        "pca"
        not in select_model(
            wide, y[:300], make_contender("LFDA", search=False), without
        ).model.named_steps
    )


def test_tiny_classes_are_borne():
    X, y = load_iris(return_X_y=True)
    kept = np.r_[0:40, 50:90, 100:102]
    found = assess_methods(
        X[kept], y[kept], [make_contender("MPDA", search=False)], AssessmentProtocol(n_folds=3)
    )
    assert sum(row["n_test"] for row in found.rows) == 82


@pytest.mark.parametrize("name", ["NCA", "LSDR"])
def test_errors_are_measured_at_the_number_that_was_asked_for(name):
    X, y = load_wine(return_X_y=True)
    entrant = make_contender(name, search=False)
    if name == "LSDR":
        entrant = replace(entrant, fixed={"max_time": 0.05})
    for row in assess_methods(X, y, [entrant], AssessmentProtocol(n_folds=2, n_components=4)).rows:
        assert row["cv_dimension"] == 4
        measured = row["wrong"][row["dimensions"].index(4)]
        if name != "LSDR":  # whose fits end by a clock, so that two may differ
            assert measured == np.count_nonzero(row["predicted"] != y[row["tested"]])


def test_shrinkage_lda_shrinks():
    assert make_contender("shrinkage LDA", search=False).fixed["shrinkage"] == "auto"
    assert "shrinkage" not in make_contender("shrinkage LDA", search=True).fixed


def test_a_method_that_fails_is_named_and_the_others_go_on():
    X, y = load_iris(return_X_y=True)
    few = np.r_[0:12, 50:62, 100:112]
    names = ("1-NN", "LDA", "MFA")
    contenders = [make_contender(name, search=False) for name in names]
    contenders[2] = replace(contenders[2], fixed={"alpha": -1.0})
    found = assess_methods(X[few], y[few], contenders, AssessmentProtocol(n_folds=2, scaled=False))
    assert list(found.failed) == ["MFA"]
    assert "alpha must be" in found.failed["MFA"]
    assert {row["method"] for row in found.rows} == {"1-NN", "LDA"}


def test_folds_that_share_samples_are_told_apart_less_easily():
    errors = np.array([1.0, 2.0, 1.5, 1.2, 1.9])
    seeds, dimensions = np.arange(5), np.ones(5)
    plain = (
        ErrorEstimate(seeds, errors, dimensions),
        ErrorEstimate(seeds, 2.0 * errors - 0.9, dimensions),
    )
    assert differ_significantly(*plain)
    folds = [replace(each, shared=0.25) for each in plain]
    assert not differ_significantly(*folds)
    # Nadeau and Bengio: 1/n becomes 1/n + test/train.
    wide = np.diff(folds[0].interval) / np.diff(plain[0].interval)
    assert wide[0] == pytest.approx(np.sqrt((0.2 + 0.25) / 0.2))


def test_a_model_on_other_samples(wine):
    X, y = wine
    model = select_model(
        X[::2], y[::2], make_contender("LFDA", search=False), AssessmentProtocol()
    ).model
    found = evaluate_model(model, X[1::2], y[1::2])
    assert not found.within
    assert found.n_known == 0
    np.testing.assert_array_equal(found.predicted, model.predict(X[1::2]))
    assert found.error == pytest.approx(100.0 * (1.0 - model.score(X[1::2], y[1::2])))
    low, high = found.interval
    assert 0.0 <= low <= found.error <= high
    half = evaluate_model(model, np.vstack([X[:1], X[1::2]]), np.r_[y[:1], y[1::2]])
    assert half.n_known == 1
    assert half.error_of_new == pytest.approx(found.error)
    strange = evaluate_model(model, X[1::2], np.where(y[1::2] == 0, 7, y[1::2]))
    assert strange.strange.tolist() == [7]
    again = evaluate_model(model, X[::2], y[::2])
    assert again.n_known == 89
    assert np.isnan(again.error_of_new)
    assert again.error == 0.0
    bare = make_pipeline(LFDA(n_components=2)).fit(X[::2], y[::2])
    alone = evaluate_model(bare, X[1::2], y[1::2])
    assert alone.within
    Z = bare.transform(X[1::2])
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=2) + np.diag(np.full(len(Z), np.inf))
    np.testing.assert_array_equal(alone.predicted, y[1::2][distances.argmin(axis=1)])


def test_lines_say_what_is_best_and_how_much_better(rows):
    lines = format_error_table(rows, "error")
    found = {name: cell for (_, name), cell in estimate_errors(rows, "cv").items()}
    assert lines[0].split() == ["error", "beside", "1-NN", "components", "fit"]
    by_name = {line.split()[0]: line for line in lines[1:]}
    gap = found["MPDA"].mean - found["1-NN"].mean
    assert f"{found['MPDA'].mean:.2f} ± {found['MPDA'].spread:.2f} %*" in by_name["MPDA"]
    assert f"{gap:+.2f}" in by_name["MPDA"]
    assert " ms" in by_name["LDA"]
    assert "ms" not in by_name["1-NN"]


def test_curves_have_means_and_intervals():
    about = {"problem": "p", "method": "m", "n_test": 100}
    rows = [
        {**about, "dimensions": [1, 2, 3], "wrong": [10, 8, 6]},
        {**about, "dimensions": [1, 2], "wrong": [14, 8]},
    ]
    curve = compute_error_curves(rows)["p", "m"]
    np.testing.assert_array_equal(curve.dimensions, [1, 2])
    np.testing.assert_allclose(curve.error, [12.0, 8.0])
    # Student's t with one degree of freedom, 12.706, times the standard error 2.
    np.testing.assert_allclose([curve.low[0], curve.high[0]], [0.0, 12 + 25.412], atol=1e-2)
    np.testing.assert_allclose([curve.low[1], curve.high[1]], 8.0)
    assert compute_error_curves(rows[:1])["p", "m"].low is None
