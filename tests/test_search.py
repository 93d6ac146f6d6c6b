"""DiscriminantSearchCV against refitting every grid point, and the input that it rejects."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, KernelPCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    ParameterGrid,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsTransformer,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import (
    LFDA,
    LLTSA,
    LPFE,
    LSDA,
    LSDR,
    MFA,
    MPDA,
    PMPDA,
    GramPCA,
    GraphDiscriminant,
    NeighborhoodRefinement,
)
from mpda.exceptions import SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV, classification_curve
from mpda.model_selection.folds import split_groups
from mpda.model_selection.grid import build_grid
from mpda.model_selection.selection_rules import RULES, SelectedPoint

# Folds of small data have small classes, and LSDR has five iterations; both warnings are tested
# elsewhere.
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
FOLDS = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))
# Rounding may change the nearest neighbour of one test sample.
ONE_SAMPLE = 1.01 / len(FOLDS[0][1])
PIPELINE = make_pipeline(StandardScaler(), PCA(4), MPDA(n_neighbors=5))
RIDGES = [0.01, 0.03, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0, 2.0, 3.0]  # S_vv is decomposed once
GRIDS = [
    (MPDA(), {"n_neighbors": [4, 8], "gamma": [0.01, 1.0], "alpha": [0.01, 0.3]}),
    (MPDA(), {"tangent_alpha": [None, 0.5], "units": ["relative", "absolute"]}),
    (MPDA(eigenvalue_power=0.25), {"max_patch_size": [5, 10], "affinity": ["knn", "full"]}),
    (MPDA(gamma=0.3), {"alpha": RIDGES[::2], "tangent_alpha": [None, 0.2]}),
    (PMPDA(), {"alpha": RIDGES}),
    (MPDA(), {"tangent_energy": [0.6, 0.95], "anchors": [False, True]}),
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
    (GraphDiscriminant("local", "pairs"), {"n_pairs": [20], "penalty": ["class", "global"]}),
    (MFA(alpha=0.1), {"n_pairs": [5, 30], "penalty": ["class", "global"]}),
    (LSDR(max_iter=5, init="pca", n_folds=3), {"n_centers": [30, 60]}),
    (
        MPDA(partition=KMeans(n_init=1, random_state=0), tangent_alpha=0.02),
        {"partition__n_clusters": [1, 5], "alpha": [0.1, 1.0]},
    ),
    (
        MPDA(partition_neighbors=4),
        [
            {"n_neighbors": [9]},
            {"n_neighbors": [4], "neighbor_search": [KNeighborsTransformer(n_neighbors=5)]},
        ],
    ),
]


def search(grid, estimator=None, **options):
    """Fit a search to X and Y, with LFDA and without a refit unless the options differ."""
    options = {"refit": False, "cv": FOLDS} | options
    return DiscriminantSearchCV(estimator or LFDA(), grid, **options).fit(X, Y)


def refitted_score(estimator, train, test):
    """Return the accuracy of 1-NN after a fit, or NaN if there are too few directions."""
    try:
        model = clone(estimator).fit(X[train], Y[train])
    except ValueError as error:
        if "more than there is" not in str(error):
            raise
        return np.nan
    knn = KNeighborsClassifier(1).fit(model.transform(X[train]), Y[train])
    return knn.score(model.transform(X[test]), Y[test])


# The first grid of every estimator is fast, except that of LSDR.
FIRST = {type(estimator): i for i, (estimator, _) in reversed([*enumerate(GRIDS)])}
FIRST = {i for kind, i in FIRST.items() if kind is not LSDR}


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        pytest.param(*case, marks=() if number in FIRST else pytest.mark.slow)
        for number, case in enumerate(GRIDS)
    ],
)
def test_scores_equal_those_of_refitting_every_point(estimator, grid):
    results = search(grid, estimator, cv=FOLDS[:2]).cv_results_
    counts = sorted(set(results["param_n_components"]))
    points = [{**point, "n_components": r} for point in ParameterGrid(grid) for r in counts]
    assert results["params"] == points
    beyond = clone(estimator).set_params(**points[-1] | {"n_components": counts[-1] + 1})
    assert np.isnan(refitted_score(beyond, *FOLDS[0]))
    for fold, (train, test) in enumerate(FOLDS[:2]):
        for row, point in enumerate(points):
            if point["n_components"] in ((1, 6), (2,))[fold]:
                expected = refitted_score(clone(estimator).set_params(**point), train, test)
                score = results[f"split{fold}_test_score"][row]
                np.testing.assert_allclose(score, expected, atol=ONE_SAMPLE)


def test_search_does_not_change_objects_of_the_estimator():
    clusterer = KMeans(2, n_init=1, random_state=0)
    search({"partition__n_clusters": [3, 4]}, MPDA(partition=clusterer), cv=FOLDS[:1])
    assert clusterer.n_clusters == 2
    list(MPDA(partition=clusterer).fit_many(X, Y, [{"partition__n_clusters": 5}]))
    assert clusterer.n_clusters == 2
    grid = {"partition": [clusterer], "partition__n_clusters": [3]}
    fitted = search(grid, MPDA(partition=clone(clusterer)), cv=FOLDS[:1], refit=True)
    assert fitted.best_estimator_.partition.n_clusters == 3
    assert clusterer.n_clusters == 2
    with pytest.raises(ValueError, match="partition='auto' has no parameters"):
        search(grid | {"partition": ["auto", clusterer]}, MPDA(partition=clusterer))


def test_start_of_nca_is_fitted_for_each_number_of_components():
    nca = NeighborhoodComponentsAnalysis(max_iter=5, random_state=0)
    results = search({"penalty": [1.0]}, NeighborhoodRefinement(nca), cv=FOLDS[:1]).cv_results_
    first = results["stage"] == 1
    scores = results["mean_test_score"][first].tolist()
    train, test = FOLDS[0]
    for point, score in zip(np.array(results["params"])[first], scores, strict=True):
        model = clone(nca).set_params(n_components=point["n_components"])
        assert score == pytest.approx(refitted_score(model, train, test), abs=ONE_SAMPLE)
    assert len(scores) > 3


def test_selected_point_is_refitted_to_all_samples():
    fitted = search({"alpha": [0.1, 1.0]}, MPDA(n_neighbors=6), refit=True)
    assert fitted.best_params_ == fitted.cv_results_["params"][fitted.best_index_]
    assert fitted.best_score_ == fitted.cv_results_["mean_test_score"][fitted.best_index_]
    single = MPDA(n_neighbors=6, **fitted.best_params_).fit(X, Y)
    np.testing.assert_array_equal(fitted.best_estimator_.components_, single.components_)
    np.testing.assert_array_equal(fitted.transform(X), single.transform(X))
    np.testing.assert_array_equal(fitted.predict(X), Y)
    assert fitted.score(X, Y) == 1.0
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    assert fitted.inverse_transform(fitted.transform(X)).shape == X.shape


@pytest.mark.parametrize("k", [1, 3])
def test_results_have_the_columns_and_scores_of_grid_search(k):
    grid = {"alpha": [0.1, 1.0], "n_neighbors": [4, 6]}
    fitted = search(grid, n_components=2, classifier_neighbors=k, refit=True)
    assert fitted.classifier_.n_neighbors == k
    ours = pd.DataFrame(fitted.cv_results_)
    pipeline = Pipeline([("lfda", LFDA()), ("knn", KNeighborsClassifier(k))])
    prefixed = {f"lfda__{name}": values for name, values in grid.items()}
    prefixed["lfda__n_components"] = [1, 2]
    theirs = GridSearchCV(pipeline, prefixed, cv=FOLDS, refit=False).fit(X, Y)
    theirs = pd.DataFrame(theirs.cv_results_).rename(
        columns=lambda name: name.replace("lfda__", "")
    )
    assert set(ours) < set(theirs)  # which have times of scoring, too
    keys = ["param_alpha", "param_n_neighbors", "param_n_components"]
    both = ours.merge(theirs, on=keys)
    assert len(both) == 8
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        np.testing.assert_allclose(both[f"{name}_x"], both[f"{name}_y"], atol=ONE_SAMPLE)


def test_parameters_that_a_point_does_not_have_are_masked():
    fitted = search([{"alpha": [0.1]}, {"affinity": ["knn"]}], n_components=2)
    table = fitted.cv_results_
    assert table["param_alpha"].tolist() == [0.1, 0.1, None, None]
    assert table["param_alpha"].mask.tolist() == [False, False, True, True]
    assert table["param_affinity"].mask.tolist() == [True, True, False, False]
    assert not table["param_n_components"].mask.any()


def test_more_neighbors_than_training_samples_are_refused():
    n_train = min(train.size for train, _ in FOLDS)
    search({}, classifier_neighbors=n_train)
    with pytest.raises(ValueError, match=r"classifier_neighbors=\d+ .* training part of fold"):
        search({}, classifier_neighbors=n_train + 1)


@pytest.mark.parametrize("prefix", ["", "mpda__"])
def test_earlier_steps_of_a_pipeline_are_fitted_inside_the_fold(prefix):
    skewed = X * np.array([1.0, 100.0, 1.0, 1.0, 0.01, 1.0])
    grid = {f"{prefix}alpha": [0.1, 1.0]}
    fitted = DiscriminantSearchCV(PIPELINE, grid, cv=FOLDS).fit(skewed, Y)
    for fold, (train, test) in enumerate(FOLDS):
        curves = []
        for alpha in (0.1, 1.0):
            steps = clone(PIPELINE).set_params(mpda__alpha=alpha).fit(skewed[train], Y[train])
            data = skewed[train], Y[train], skewed[test], Y[test]
            curves.append(1 - classification_curve(steps, *data))
        scores = fitted.cv_results_[f"split{fold}_test_score"]
        np.testing.assert_allclose(scores, np.concatenate(curves), atol=ONE_SAMPLE)
    assert set(fitted.best_params_) == {"mpda__alpha", "mpda__n_components"}
    assert isinstance(fitted.best_estimator_, Pipeline)
    np.testing.assert_array_equal(fitted.predict(skewed), Y)


@pytest.mark.usefixtures("jobs_in_threads")
def test_scores_depend_on_the_seed_but_not_on_the_number_of_jobs():
    one, two, other = (
        search({"alpha": [0.1, 1.0]}, cv=4, **options).cv_results_["mean_test_score"]
        for options in ({}, {"n_jobs": 2}, {"random_state": 1})
    )
    np.testing.assert_allclose(one, two, atol=ONE_SAMPLE)
    assert (one != other).any()


def test_scoring_accepts_names_and_callables():
    for name in ("balanced_accuracy", "f1_macro"):
        assert 0.3 < search({"alpha": [0.1]}, scoring=name).best_score_ <= 1.0
    plain, negated = (
        search({"alpha": [0.1]}, scoring=scoring).cv_results_["mean_test_score"]
        for scoring in ("accuracy", lambda y, p: -float(np.mean(y == p)))
    )
    np.testing.assert_allclose(negated, -plain, atol=ONE_SAMPLE)


def test_values_may_be_a_generator_or_arrays():
    fitted = search({"alpha": (a for a in (0.1, 1.0))})
    assert len(fitted.cv_results_["params"]) == 2 * X.shape[1]
    widths = [np.array([0.5]), np.array([1.0, 2.0])]
    quick = LSDR(max_iter=2, init="pca", n_folds=2, ridges=[0.1])
    fitted = search({"widths": widths}, quick, n_components=[2])
    assert fitted.best_params_["n_components"] == 2


def test_default_grid_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = DiscriminantSearchCV(LFDA(), n_components=3, refit=False).fit(X, Y)
    names = {"alpha", "eigenvalue_power", "n_neighbors", "n_components"}
    assert set(fitted.best_params_) == names


@pytest.mark.parametrize(
    ("options", "message"),
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
        (
            {"estimator": PIPELINE, "param_grid": {"alpha": [0.1], "mpda__alpha": [0.2]}},
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
        ({"scoring": lambda y, p: np.nan}, r"No grid point has a score in fold \d"),
        ({"n_jobs": 0}, "n_jobs must be None or an int"),
        (
            {"estimator": KernelPCA()},
            "estimator must be a linear method, or a Pipeline that ends in",
        ),
    ],
)
def test_invalid_parameters_are_rejected(options, message):
    options = {"estimator": MPDA(n_neighbors=5), "param_grid": {"alpha": [0.1]}, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        DiscriminantSearchCV(**options).fit(X, Y)


def test_small_classes_are_named_with_their_fold():
    labels = np.where(np.arange(90) < 8, 3, Y)
    with pytest.warns(SmallClassWarning, match=r"class 3 of fold 0 \(6 in all\)"):
        DiscriminantSearchCV(MPDA(), {"n_neighbors": [4, 10]}, n_components=2).fit(X, labels)


def test_grid_points_without_a_solution_are_left_out():
    labels = np.repeat([0, 1], 20)
    wide = np.random.default_rng(0).normal(size=(40, 60)) + labels[:, None]
    for estimator in (LFDA(), MPDA()):
        with pytest.warns(FitFailedWarning, match="4 fits of a grid point to a fold"):
            fitted = DiscriminantSearchCV(estimator, {"alpha": [0.0, 0.1]}).fit(wide, labels)
        assert fitted.best_params_["alpha"] == 0.1
    with pytest.raises(ValueError, match="No grid point has an answer in any fold"):
        DiscriminantSearchCV(LFDA(), {"alpha": [0.0]}).fit(wide, labels)


def test_grid_points_whose_clusterer_fails_are_left_out():
    with pytest.warns(FitFailedWarning, match="3 fits of a grid point.*n_clusters=45"):
        fitted = search({"partition": [KMeans(2, n_init=1), KMeans(45, n_init=1)]}, MPDA())
    scores = fitted.cv_results_["mean_test_score"].reshape(2, -1)
    assert np.isfinite(scores[0]).any()
    assert np.isnan(scores[1]).all()


def test_methods_without_a_ridge_need_no_grid():
    results = search(None, GramPCA(), cv=FOLDS[:1]).cv_results_
    assert results["params"] == [{"n_components": r} for r in range(1, 7)]


def test_search_without_refit_forgets_an_earlier_one():
    fitted = search({"alpha": [0.1]}, refit=True).set_params(refit=False).fit(X[:, :3], Y)
    with pytest.raises(NotFittedError):
        fitted.predict(X)
    assert not hasattr(fitted, "refit_time_")


def test_selected_parameters_of_the_first_method_can_be_set_again():
    fitted = search({"estimator__alpha": [0.1, 1.0]}, NeighborhoodRefinement(), cv=FOLDS[:1])
    model = NeighborhoodRefinement().set_params(**fitted.best_params_)
    assert model.estimator.alpha == fitted.best_params_["estimator__alpha"]
    other = NeighborhoodRefinement().set_params(estimator=LFDA(), estimator__alpha=0.3)
    assert isinstance(other.estimator, LFDA)


def test_progress_is_printed_for_folds_and_grid_points(capsys, monkeypatch):
    # Grid points are reported only in folds that take seconds.
    monkeypatch.setattr("mpda._lib.progress._INTERVAL", 0.0)
    search({"alpha": [0.1, 0.2, 0.3]}, verbose=1)
    output = capsys.readouterr().err
    assert "DiscriminantSearchCV, 3 grid points: 3/3 folds" in output
    assert "DiscriminantSearchCV: fold 2, 3/3 grid points" in output


# Processes take seconds to start.
@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_progress_goes_to_a_callable_as_a_share(n_jobs):
    shares = []
    search({"alpha": [0.1, 0.2, 0.3]}, verbose=shares.append, n_jobs=n_jobs)
    assert shares == sorted(shares)
    assert 0.0 < shares[0] <= 1 / 3
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "values", "positions", "steps"),
    [
        ("alpha", [0.01, 0.1, 0.2, 1.0], [0, 1, 2, 3], [2, 1, 0, 1]),
        ("alpha", [1.0, 0.01, 0.1], [2, 0, 1], [1, 1, 0]),  # nearest by ratio, in any order
        ("alpha", [0.0, 0.5], [0, 1], [0, 1]),  # zero has no ratio
        ("max_patch_size", [5, 10, 5], [0, 1, 0], [0, 0, 0]),  # no usual value
        ("tangent_alpha", [None, 0.1], [0, 2], [0, 0]),  # no order: no two values are adjacent
        ("affinity", ["knn", "full"], [0, 2], [0, 0]),
        ("anchors", [False, True], [0, 2], [0, 0]),
    ],
)
def test_grid_has_positions_of_values_and_steps_from_usual_ones(name, values, positions, steps):
    grid = build_grid(MPDA(), {name: values})
    np.testing.assert_array_equal(grid.axes[0][0], positions)
    np.testing.assert_array_equal(grid.steps, steps)


def test_steps_of_grid_points_are_summed_over_parameters():
    values = {"n_neighbors": [5, 10, 20], "eigenvalue_power": [0.0, 0.25, 0.5]}
    grid = build_grid(MPDA(n_neighbors=10), values)
    assert [axis.size for axis in grid.axes[0]] == [3, 3]
    for point, steps in zip(grid.points, grid.steps, strict=True):
        k = abs([5, 10, 20].index(point["n_neighbors"]) - 2)
        p = abs([0.0, 0.25, 0.5].index(point["eigenvalue_power"]) - 1)
        assert steps == k + p
    # Positions are among the values of all grids of a list.
    grid = build_grid(MPDA(), [{"alpha": [0.2, 1.0]}, {"alpha": [1000.0]}])
    np.testing.assert_array_equal(grid.steps, [0, 1, 2])
    np.testing.assert_array_equal(grid.ridges, [0.2, 1.0, 1000.0])
    # A usual value without an order is one step from all others.
    grid = build_grid(NeighborhoodRefinement(), {"penalty": [30.0, None, 300.0]})
    np.testing.assert_array_equal(grid.steps, [1, 0, 1])
    assert not build_grid(NeighborhoodRefinement(), {"penalty": [30.0, 300.0]}).steps.any()
    # Methods without a study have no usual values.
    assert not build_grid(LFDA(), {"alpha": [0.0, 1.0]}).steps.any()


@pytest.mark.parametrize("rule", RULES)
def test_selection_does_not_depend_on_the_order_of_values(rule):
    # The ridge breaks ties.
    grids = [1e-3, 1e-2, 0.1, 1.0, 10.0], [0.1, 10.0, 1e-3, 1.0, 1e-2]
    first, second = (search({"alpha": values}, selection=rule).best_params_ for values in grids)
    assert first == second


def test_selection_does_not_depend_on_the_form_of_the_folds():
    splitter = RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0)
    masks = [
        (np.isin(np.arange(len(Y)), train), np.isin(np.arange(len(Y)), test))
        for train, test in splitter.split(X, Y)
    ]
    tables = []

    def record(table):
        tables.append(table)
        return RULES["robust"](table)

    first, *others = (
        search({"alpha": [0.01, 0.1, 1.0], "n_neighbors": [4, 8]}, selection=record, **folds)
        for folds in ({"cv": 4, "n_repeats": 3}, {"cv": splitter}, {"cv": masks})
    )
    for other in others:
        assert first.n_splits_ == other.n_splits_ == 12
        assert first.best_params_ == other.best_params_
    assert [table.n_repeats for table in tables] == [3, 3, 3]


def test_selection_may_be_a_callable():
    fitted = search({"alpha": [0.1, 1.0]}, selection=lambda table: SelectedPoint(1, 2))
    assert fitted.best_params_ == {"alpha": 1.0, "n_components": 3}


def test_number_of_components_is_bounded_by_the_rank_of_centred_samples():
    flat = np.column_stack([X[:, :2], np.ones(len(X))])  # of rank 3, centred 2
    fitted = DiscriminantSearchCV(LSDR(max_iter=1), {"tol": [1e-3]}, cv=2, refit=False)
    fitted.fit(flat, Y)
    np.testing.assert_array_equal(fitted.cv_results_["param_n_components"], [1, 2])


def test_classification_curve_checks_the_number_of_labels():
    model = LFDA(alpha=0.1).fit(X, Y)
    for labels in ((Y[:-1], Y), (Y, Y[:1])):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            classification_curve(model, X, labels[0], X, labels[1])


class Alike:
    """A graph builder that prints like every other one, and claims to be equal to it."""

    def __init__(self, exponent):
        self.exponent = exponent

    def __call__(self, X, y):
        weights = np.exp(-self.exponent * np.abs(X[:, :1] - X[:, :1].T))
        return weights * (y[:, None] == y)

    def __repr__(self):
        return "Alike()"

    __hash__ = None

    def __eq__(self, other):
        return True


class FixedClusters(ClusterMixin, BaseEstimator):
    """A clusterer that prints like every other one; it cuts a class along one feature."""

    def __init__(self, feature=0):
        self.feature = feature

    def fit_predict(self, X, y=None):
        return np.digitize(X[:, self.feature], np.quantile(X[:, self.feature], [0.2, 0.5, 0.8]))

    def __repr__(self, N_CHAR_MAX=700):
        return "FixedClusters()"


@pytest.mark.parametrize(
    ("estimator", "name", "values"),
    [
        (GraphDiscriminant(alpha=0.1), "within", [Alike(0.0), Alike(5.0)]),
        (MPDA(), "partition", [FixedClusters(0), FixedClusters(2)]),
        (
            MPDA(),
            "partition",
            [KMeans(4, init=X[Y == 0][i : i + 4], n_init=1) for i in (0, 9)],
        ),
    ],
)
def test_objects_that_print_alike_are_scored_apart(estimator, name, values):
    both = search({name: values}, estimator=estimator).cv_results_["mean_test_score"].reshape(2, -1)
    for value, scores in zip(values, both, strict=True):
        alone = search({name: [value]}, estimator=estimator).cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, alone, atol=1e-12)
    assert not np.allclose(*both)


def test_score_is_that_of_scoring():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = (np.arange(120) % 10 == 0).astype(int)  # 12 samples of the rare class
    X_new, y_new = rng.normal(size=(200, 4)), (np.arange(200) % 10 == 0).astype(int)
    for name, metric in {
        "accuracy": accuracy_score,
        "balanced_accuracy": balanced_accuracy_score,
        "f1_macro": partial(f1_score, average="macro"),
    }.items():
        fitted = DiscriminantSearchCV(MPDA(), {"alpha": [0.2]}, scoring=name).fit(X, y)
        assert fitted.score(X_new, y_new) == metric(y_new, fitted.predict(X_new))
    assert fitted.set_params(scoring=lambda y, p: 7.0).score(X_new, y_new) == 7.0


def grouped_samples():
    """Return samples near the centre of their group; the groups have random classes."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    X = 5.0 * rng.normal(size=(40, 4))[groups] + 0.1 * rng.normal(size=(200, 4))
    return X, rng.integers(0, 2, size=40)[groups], groups


def test_groups_are_never_divided():
    X, y, groups = grouped_samples()
    for train, test in split_groups(y, groups, 4, seed=0, n_repeats=2):
        assert not set(groups[train]) & set(groups[test])
        assert set(y[test]) == {0, 1}
    search = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, cv=4)
    assert search.fit(X, y).best_score_ > 0.95  # the group of a sample tells its class
    assert search.fit(X, y, groups=groups).best_score_ < 0.8
    names = np.array([f"patient {group}" for group in groups])
    by_name = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, cv=4).fit(X, y, groups=names)
    assert by_name.best_score_ < 0.8
    with pytest.raises(ValueError, match="4 folds need as many groups, but there are 3"):
        search.fit(X, y, groups=groups % 3)
    with pytest.raises(ValueError, match="inconsistent"):
        search.fit(X, y, groups=groups[:-1])


def test_splitter_gets_the_groups():
    X, y, groups = grouped_samples()
    search = DiscriminantSearchCV(LFDA(), {"alpha": [0.1]}, cv=GroupKFold(4))
    assert search.fit(X, y, groups=groups).best_score_ < 0.8
