"""The search against refitting every point from scratch, and what it refuses."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, LLTSA, LPFE, LSDA, LSDR, MFA, MPDA, PMPDA, GraphDiscriminant
from mpda.discriminant import many_ridges as ridges
from mpda.exceptions import SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV, classification_curve
from mpda.model_selection.grid import build_grid
from mpda.model_selection.selection_rules import (
    RULES,
    GridSelection,
)

# Folds of small data have small classes, and LSDR is given five iterations here; both warnings have
# tests of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def samples(seed=0, n=90, d=6):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    u = rng.uniform(-1, 1, size=(n, 2))
    bent = np.column_stack([u, u**2, rng.normal(scale=0.3, size=(n, d))])[:, :d]
    turns = rng.normal(size=(3, d, d))
    return np.einsum("ni,nij->nj", bent, turns[y]) + rng.normal(size=(3, d))[y], y


X, Y = samples()
DIMENSIONS = np.array([1, 2, 6])
GRIDS = [
    (MPDA(), {"n_neighbors": [4, 8], "gamma": [0.01, 1.0], "alpha": [0.01, 0.3]}),
    (
        MPDA(),
        {
            "tangent_alpha": [None, 0.5],
            "eigenvalue_power": [0.0, 0.25],
            "units": ["relative", "absolute"],
        },
    ),
    (MPDA(), {"max_patch_size": [5, 10], "affinity": ["knn", "full"]}),
    # So many ridges that S_vv is decomposed.
    (MPDA(gamma=0.3), {"alpha": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0], "tangent_alpha": [None, 0.2]}),
    (PMPDA(), {"alpha": [0.01, 0.03, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0, 2.0, 3.0]}),
    (MPDA(), {"partition": ["euclidean"], "anchors": [False, True], "solver": ["two-stage"]}),
    (PMPDA(), {"n_neighbors": [4, 7], "gamma": [0.1], "alpha": [0.1, 1.0]}),
    (LFDA(), {"n_neighbors": [3, 7], "alpha": [0.0, 0.1], "eigenvalue_power": [0.0, 0.5]}),
    (LFDA(), [{"affinity": ["knn"]}, {"orthonormal": [True, False], "alpha": [0.1]}]),
    (MFA(), {"n_neighbors": [3, 5], "n_pairs": [10, 40], "alpha": [0.0, 0.1]}),
    (LSDA(), {"n_neighbors": [3, 9], "between_share": [0.1, 0.7], "alpha": [0.0, 1.0]}),
    (LLTSA(), {"n_neighbors": [5, 12], "alpha": [0.0, 0.1], "eigenvalue_power": [0.0, 0.5]}),
    (LLTSA(tangent_dimension=2), {"n_neighbors": [5, 12]}),
    (LPFE(), {"n_neighbors": [5, 9], "alpha": [0.0, 0.2], "eigenvalue_power": [0.0, 0.25]}),
    (GraphDiscriminant("local", "pairs"), {"n_pairs": [20, 60], "alpha": [0.0, 0.1]}),
    (LSDR(max_iter=5, init="pca", n_folds=3), {"n_centers": [30, 60]}),
]


def naive_scores(estimator, grid, folds):
    """The accuracy of every point, fold and some dimensions (splits, points, dimensions)."""
    rows = []
    for train, test in folds:
        table = []
        for point in ParameterGrid(grid):
            row = []
            for r in DIMENSIONS:
                model = clone(estimator).set_params(**point, n_components=r)
                try:
                    Z = model.fit(X[train], Y[train])
                except ValueError as error:
                    if "more than there is" not in str(error):
                        raise
                    row.append(np.nan)
                    continue
                knn = KNeighborsClassifier(1).fit(Z.transform(X[train]), Y[train])
                row.append(knn.score(Z.transform(X[test]), Y[test]))
            table.append(row)
        rows.append(table)
    return np.array(rows)


@pytest.mark.parametrize(("estimator", "grid"), GRIDS)
def test_scores_are_those_of_refitting_every_point(estimator, grid):
    search = DiscriminantSearchCV(estimator, grid, cv=2, refit=False).fit(X, Y)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, Y))
    search_folds = search._folds(X, Y)
    naive = naive_scores(estimator, grid, search_folds)
    n_splits, n_points, n_dimensions = naive.shape
    assert search.n_splits_ == n_splits == len(folds)
    found = np.array([search.cv_results_[f"split{i}_test_score"] for i in range(n_splits)])
    wanted = naive.reshape(n_splits, n_points, n_dimensions)
    found = found.reshape(n_splits, n_points, -1)
    there = found.shape[2] >= DIMENSIONS
    np.testing.assert_array_equal(found[:, :, DIMENSIONS[there] - 1], wanted[:, :, there])
    assert np.isnan(wanted[:, :, ~there]).all()
    names = [
        dict(row, n_components=r)
        for row in ParameterGrid(grid)
        for r in range(1, found.shape[2] + 1)
    ]
    assert search.cv_results_["params"] == names


def test_the_choice_is_fitted_to_all_samples():
    search = DiscriminantSearchCV(MPDA(n_neighbors=6), {"alpha": [0.1, 1.0]}).fit(X, Y)
    row = search.best_index_
    assert search.best_params_ == search.cv_results_["params"][row]
    assert search.best_score_ == search.cv_results_["mean_test_score"][row]
    again = MPDA(n_neighbors=6, **search.best_params_).fit(X, Y)
    np.testing.assert_array_equal(search.best_estimator_.components_, again.components_)
    np.testing.assert_array_equal(search.transform(X), again.transform(X))
    np.testing.assert_array_equal(search.predict(X), Y)
    assert search.score(X, Y) == 1.0
    np.testing.assert_array_equal(search.classes_, [0, 1, 2])
    assert search.inverse_transform(search.transform(X)).shape == X.shape


def test_table_reads_as_that_of_grid_search():
    grid = {"alpha": [0.1, 1.0], "n_neighbors": [4, 6]}
    search = DiscriminantSearchCV(LFDA(), grid, cv=3, n_components=2, refit=False).fit(X, Y)
    pipeline = Pipeline([("lfda", LFDA()), ("knn", KNeighborsClassifier(1))])
    plain = GridSearchCV(
        pipeline,
        {f"lfda__{k}": v for k, v in grid.items()} | {"lfda__n_components": [1, 2]},
        cv=search._folds(X, Y),
        refit=False,
    ).fit(X, Y)
    ours, theirs = pd.DataFrame(search.cv_results_), pd.DataFrame(plain.cv_results_)
    both = ours.merge(
        theirs.rename(columns=lambda name: name.replace("lfda__", "")),
        on=["param_alpha", "param_n_neighbors", "param_n_components"],
    )
    assert len(both) == 8
    for name in ("mean_test_score", "std_test_score", "rank_test_score", "split2_test_score"):
        np.testing.assert_allclose(
            both[f"{name}_x"].astype(float), both[f"{name}_y"].astype(float), atol=1e-12
        )


@pytest.mark.parametrize("prefix", ["", "mpda__"])
def test_earlier_steps_of_a_pipeline_are_fitted_inside_the_fold(prefix):
    skewed = X * np.array([1.0, 100.0, 1.0, 1.0, 0.01, 1.0])
    pipeline = make_pipeline(StandardScaler(), PCA(4), MPDA(n_neighbors=5))
    search = DiscriminantSearchCV(pipeline, {f"{prefix}alpha": [0.1, 1.0]}, cv=3).fit(skewed, Y)
    wanted = []
    for train, test in search._folds(skewed, Y):
        for alpha in (0.1, 1.0):
            steps = make_pipeline(StandardScaler(), PCA(4), MPDA(n_neighbors=5, alpha=alpha))
            steps.fit(skewed[train], Y[train])
            wanted.append(
                1 - classification_curve(steps, skewed[train], Y[train], skewed[test], Y[test])
            )
    wanted = np.array(wanted).reshape(3, 2, -1)
    found = np.array([search.cv_results_[f"split{i}_test_score"] for i in range(3)])
    np.testing.assert_allclose(found.reshape(3, 2, -1), wanted, rtol=1e-12)
    assert set(search.best_params_) == {"mpda__alpha", "mpda__n_components"}
    assert isinstance(search.best_estimator_, Pipeline)
    np.testing.assert_array_equal(search.predict(skewed), Y)


@pytest.mark.usefixtures("jobs_in_threads")
def test_jobs_and_seeds():
    one = DiscriminantSearchCV(LFDA(), {"alpha": [0.1, 1.0]}).fit(X, Y)
    two = DiscriminantSearchCV(LFDA(), {"alpha": [0.1, 1.0]}, n_jobs=2).fit(X, Y)
    other = DiscriminantSearchCV(LFDA(), {"alpha": [0.1, 1.0]}, random_state=1).fit(X, Y)
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )
    assert (one.cv_results_["mean_test_score"] != other.cv_results_["mean_test_score"]).any()


def test_repeats_and_other_folds():
    repeated = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, cv=3, n_repeats=2).fit(X, Y)
    assert repeated.n_splits_ == 6
    given = [(np.arange(60), np.arange(60, 90)), (np.arange(30, 90), np.arange(30))]
    search = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, cv=given).fit(X, Y)
    assert search.n_splits_ == 2
    fitted = LFDA(alpha=0.1).fit(X[:60], Y[:60])
    curve = classification_curve(fitted, X[:60], Y[:60], X[60:], Y[60:])
    np.testing.assert_array_equal(search.cv_results_["split0_test_score"], 1 - curve)


def test_scoring():
    skewed = np.where(Y == 2, 1, Y)
    for name in ("balanced_accuracy", "f1_macro"):
        search = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, scoring=name).fit(X, skewed)
        assert 0.3 < search.best_score_ <= 1.0
    worst = DiscriminantSearchCV(
        LFDA(), {"alpha": [0.1]}, scoring=lambda y, p: -float(np.mean(y == p)), selection="minimum"
    ).fit(X, Y)
    plain = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}).fit(X, Y)
    np.testing.assert_allclose(
        worst.cv_results_["mean_test_score"], -plain.cv_results_["mean_test_score"]
    )


def test_values_may_come_from_a_generator_and_may_be_arrays():
    found = DiscriminantSearchCV(LFDA(), {"alpha": (a for a in (0.1, 1.0))}, refit=False).fit(X, Y)
    assert len(found.cv_results_["params"]) == 2 * X.shape[1]
    widths = [np.array([0.5]), np.array([1.0, 2.0])]
    quick = LSDR(max_iter=2, init="pca", n_folds=2, ridges=[0.1])
    found = DiscriminantSearchCV(quick, {"widths": widths}, cv=2, n_components=[2]).fit(X, Y)
    assert found.best_params_["n_components"] == 2


def test_needs_no_grid():
    search = DiscriminantSearchCV(LFDA(), n_components=3).fit(X, Y)
    chosen = {"alpha", "eigenvalue_power", "n_neighbors", "n_components"}
    assert set(search.best_params_) == chosen


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"param_grid": {"gama": [1]}}, r"param_grid has 'gama', which is no parameter of MPDA"),
        ({"param_grid": {"alpha": []}}, r"param_grid\['alpha'\] must have at least one value"),
        ({"param_grid": {"alpha": 0.1}}, r"param_grid\['alpha'\] must be a list of values"),
        ({"param_grid": {"affinity": "knn"}}, r"param_grid\['affinity'\] must be a list"),
        ({"param_grid": {"alpha": [-1.0]}}, "alpha must be a finite number of at least 0"),
        ({"param_grid": {"n_components": [2]}}, "param_grid must not have n_components"),
        ({"param_grid": 3}, "param_grid must be"),
        ({"param_grid": []}, "param_grid must have at least one grid"),
        ({"param_grid": {"alpha": ["x"]}}, "alpha must be a finite number"),
        ({"param_grid": {"alpha": [None]}}, "alpha must be a finite number"),
        (
            {
                "estimator": make_pipeline(PCA(3), MPDA()),
                "param_grid": {"alpha": [0.1], "mpda__alpha": [0.2]},
            },
            "param_grid names alpha twice",
        ),
        ({"cv": 1}, "cv must be at least 2"),
        ({"n_repeats": 0}, "n_repeats must be at least 1"),
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"n_components": []}, "n_components must have at least one number"),
        ({"n_components": "some"}, "n_components must be one of 'all'"),
        ({"n_components": [50]}, r"No grid point has any of n_components=\[50\] in every fold"),
        ({"selection": "best"}, "selection must be one of 'robust', 'minimum', 'pooled'"),
        ({"scoring": "speed"}, "scoring must be one of 'accuracy'"),
        ({"n_jobs": 0}, "n_jobs must be None or an int"),
        ({"estimator": PCA()}, "estimator must be a method of mpda, or a Pipeline"),
    ],
)
def test_what_is_refused(parameters, message):
    settings = {"estimator": MPDA(n_neighbors=5), "param_grid": {"alpha": [0.1]}, **parameters}
    with pytest.raises((ValueError, TypeError), match=message):
        DiscriminantSearchCV(**settings).fit(X, Y)


def test_small_classes_are_named_with_their_fold():
    labels = np.where(np.arange(90) < 8, 3, Y)
    with pytest.warns(SmallClassWarning, match=r"class 3 of fold 0 \(6 in all\)"):
        DiscriminantSearchCV(MPDA(), {"n_neighbors": [4, 10]}, n_components=2).fit(X, labels)


def test_the_default_grid_does_not_warn_of_numbers_that_no_one_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiscriminantSearchCV(LFDA(), n_components=2, refit=False).fit(X, Y)


def test_points_without_an_answer_are_left_out():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 60)) + np.repeat([0, 1], 20)[:, None]
    labels = np.repeat([0, 1], 20)
    with pytest.warns(FitFailedWarning, match="4 fits of a grid point to a fold have no answer"):
        search = DiscriminantSearchCV(LFDA(), {"alpha": [0.0, 0.1]}).fit(wide, labels)
    assert search.best_params_["alpha"] == 0.1
    with pytest.raises(ValueError, match="No grid point has an answer in any fold"):
        DiscriminantSearchCV(LFDA(), {"alpha": [0.0]}).fit(wide, labels)
    with pytest.warns(FitFailedWarning):
        search = DiscriminantSearchCV(MPDA(), {"alpha": [0.0, 0.1]}).fit(wide, labels)
    assert search.best_params_["alpha"] == 0.1


def test_one_tridiagonal_form_serves_every_ridge(monkeypatch):
    calls = []
    eliminate = ridges._eliminate_tridiagonal

    def counted(form, gamma, betas):
        calls.append(len(betas))
        return eliminate(form, gamma, betas)

    # Results do not tell whether work was shared, so the calls are counted.
    monkeypatch.setattr(ridges, "_eliminate_tridiagonal", counted)
    grid = {"alpha": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0], "gamma": [0.1, 1.0]}
    DiscriminantSearchCV(MPDA(), grid, cv=3, refit=False).fit(X, Y)
    assert calls == [6] * (3 * 2 * 3)  # folds, gammas, classes


def test_progress(capsys):
    DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, verbose=1).fit(X, Y)
    assert "DiscriminantSearchCV, 1 grid points: 4/4 folds" in capsys.readouterr().err


def test_progress_inside_a_long_fold(capsys, monkeypatch):
    clock = itertools.count(step=0.7)
    monkeypatch.setattr("mpda.model_selection.fold_scores.time.perf_counter", lambda: next(clock))
    DiscriminantSearchCV(LFDA(), {"alpha": [0.1, 0.2, 0.3]}, verbose=1, refit=False).fit(X, Y)
    assert "fold 3: 3/3 grid points" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "values", "positions", "steps"),
    [
        ("alpha", [0.01, 0.1, 0.2, 1.0], [0, 1, 2, 3], [2, 1, 0, 1]),
        ("alpha", [1.0, 0.01, 0.1], [2, 0, 1], [1, 1, 0]),  # nearest by ratio, in any order
        ("alpha", [0.0, 0.5], [0, 1], [0, 1]),  # zero has no ratio
        ("max_patch_size", [5, 10, 5], [0, 1, 0], [0, 0, 0]),  # no usual value
        ("tangent_alpha", [None, 0.1], [0, 2], [0, 0]),  # no order: no value is next to another
        ("affinity", ["knn", "full"], [0, 2], [0, 0]),
        ("anchors", [False, True], [0, 2], [0, 0]),
    ],
)
def test_grid_has_positions_of_values_and_steps_from_usual_ones(name, values, positions, steps):
    grid = build_grid(MPDA(), {name: values})
    np.testing.assert_array_equal(grid.axes[0][0], positions)
    np.testing.assert_array_equal(grid.steps, steps)


def test_steps_of_grid_points_add_up_over_their_parameters():
    values = {
        "n_neighbors": [5, 10, 20],
        "eigenvalue_power": [0.0, 0.25, 0.5],
        "tangent_energy": [0.9, 1.0],
    }
    grid = build_grid(MPDA(n_neighbors=10), values)
    for point, steps in zip(grid.points, grid.steps, strict=True):
        k = abs([5, 10, 20].index(point["n_neighbors"]) - 2)
        p = abs([0.0, 0.25, 0.5].index(point["eigenvalue_power"]) - 1)
        assert steps == k + p
    # A value counts among those of all grids.
    grid = build_grid(MPDA(), [{"alpha": [0.2, 1.0]}, {"alpha": [1000.0]}])
    np.testing.assert_array_equal(grid.steps, [0, 1, 2])
    # Where no study says what is usual, nothing is away from it.
    assert not build_grid(LFDA(), {"alpha": [0.0, 1.0]}).steps.any()


@pytest.mark.parametrize("rule", list(RULES))
def test_the_order_of_the_values_does_not_matter(rule):
    # At a tie the ridge decides, so nothing is left to the order.
    values, mixed = {"alpha": [1e-3, 1e-2, 0.1, 1.0, 10.0]}, {"alpha": [0.1, 10.0, 1e-3, 1.0, 1e-2]}
    for seed in range(3):
        data = samples(seed)
        found = [
            DiscriminantSearchCV(LFDA(), grid, selection=rule, refit=False).fit(*data).best_params_
            for grid in (values, mixed)
        ]
        assert found[0] == found[1]


def test_folds_choose_alike_however_they_are_given():
    grid = {"alpha": [0.01, 0.1, 1.0], "n_neighbors": [4, 8]}
    again = RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0)
    masks = [
        (np.isin(np.arange(len(Y)), train), np.isin(np.arange(len(Y)), test))
        for train, test in again.split(X, Y)
    ]
    given = [{"n_repeats": 3}, {"cv": again}, {"cv": masks}]
    seen = []

    def spied(table):
        seen.append(table)
        return RULES["robust"](table)

    choices = [
        DiscriminantSearchCV(MPDA(), grid, selection=spied, refit=False, **each)
        .fit(X, Y)
        .best_params_
        for each in given
    ]
    assert choices[0] == choices[1] == choices[2]
    assert [table.n_repeats for table in seen] == [3, 3, 3]


def test_a_fold_without_an_answer_is_named():
    with pytest.raises(ValueError, match=r"No grid point has a score in fold \d"):
        DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, scoring=lambda y, p: np.nan).fit(X, Y)


def test_dimensions_end_where_the_centred_samples_do():
    flat = np.column_stack([X[:, :2], np.ones(len(X))])  # of rank 3, but about their mean 2
    search = DiscriminantSearchCV(LSDR(max_iter=1), {"tol": [1e-3]}, cv=2, refit=False)
    search.fit(flat, Y)
    np.testing.assert_array_equal(search.cv_results_["param_n_components"], [1, 2])


def test_time_of_a_point_counts_all_its_dimensions(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("mpda.model_selection.fold_scores.time.perf_counter", lambda: next(clock))
    search = DiscriminantSearchCV(LLTSA(), {"n_neighbors": [8]}, cv=2, refit=False).fit(X, Y)
    assert search.cv_results_["mean_fit_time"][0] >= 3


def test_the_curve_checks_its_labels():
    model = LFDA(alpha=0.1).fit(X, Y)
    for labels in ((Y[:-1], Y), (Y, Y[:1])):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            classification_curve(model, X, labels[0], X, labels[1])


def test_neighbours_in_the_grid_are_those_of_the_points():
    values = {"n_neighbors": [4, 6, 8], "alpha": [0.1, 1.0]}
    grid = build_grid(MPDA(), values)
    assert [[places.size for places in axes] for axes in grid.axes] == [[2, 3]]
    points = np.array([(p["alpha"], p["n_neighbors"]) for p in grid.points]).reshape(2, 3, 2)
    np.testing.assert_array_equal(points[:, :, 0], [[0.1] * 3, [1.0] * 3])
    np.testing.assert_array_equal(points[:, :, 1], [[4, 6, 8]] * 2)
    np.testing.assert_array_equal(grid.ridges, [0.1] * 3 + [1.0] * 3)


def test_rules_have_names():
    assert set(RULES) == {"robust", "minimum", "pooled", "one-standard-error"}
    search = DiscriminantSearchCV(
        LFDA(), {"alpha": [0.1, 1.0]}, selection=lambda grid: GridSelection(1, 2)
    ).fit(X, Y)
    assert search.best_params_ == {"alpha": 1.0, "n_components": 3}
