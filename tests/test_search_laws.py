"""Laws of the search that hold for every method: numbers it can have, unseen classes, features."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, LSDR, MPDA, NeighborhoodRefinement, WithinClassWhitening
from mpda.assessment import AssessmentProtocol, Contender, make_contender, score_queries
from mpda.assessment.data_split import Split
from mpda.assessment.parameter_choice import select_parameters
from mpda.estimators._base import LinearMap
from mpda.estimators.methods import method
from mpda.model_selection import DiscriminantSearchCV, UnseenClassFolds
from mpda.model_selection.scoring import PredictionScorer


def search(estimator, grid=None, **options):
    return DiscriminantSearchCV(estimator, grid, **{"cv": 2, "refit": False, **options})


def noise_in_groups():
    """Return noise in which one group has all of a class."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [60, 60, 40])
    groups = np.r_[rng.integers(1, 6, 120), np.zeros(40, dtype=int)]
    return rng.normal(size=(160, 3)), y, groups


def test_a_single_new_class_is_not_searched_in_itself():
    X, y, groups = noise_in_groups()
    fitted = search(PCA(), cv=LeaveOneGroupOut(), n_components=[3]).fit(X, y, groups=groups)
    assert fitted.cv_results_["split0_test_score"][0] == 0.0
    assert PredictionScorer(None, 1)(X[:120], y[:120], X[120:], y[120:], [3]) == [0.0]
    refitted = search(PCA(), refit=True).fit(X, y)
    assert refitted.score(X[:7], ["d"] * 7) == 0.0
    assert refitted.score(X[:1], ["d"]) == 0.0
    # Each sample alone, one of them the only one of its class.
    y[-1] = "single"
    alone = search(PCA(), cv=LeaveOneOut(), n_components=[2]).fit(X[-30:], y[-30:])
    assert alone.cv_results_["split29_test_score"][0] == 0.0


@pytest.mark.parametrize("halving", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_rounds_have_enough_samples_for_a_measure_at_k(halving):
    rng = np.random.default_rng(1)
    y = np.arange(1200) % 8
    X = rng.normal(size=(1200, 4)) + y[:, None]
    grid = {"alpha": [0.01, 0.1, 1.0, 10.0, 100.0]}
    for cv, k in ((UnseenClassFolds(4), 250), (2, 500)):
        options = {"cv": cv, "halving": halving, "n_components": [2]}
        fitted = search(LFDA(), grid, scoring=f"recall_at_{k}", **options).fit(X, y)
        assert np.isfinite(fitted.best_score_)


class OwnMap(LinearMap):
    """A user's method: the first axes."""

    def __init__(self, n_components=None):
        self.n_components = n_components

    def fit(self, X, y):
        X = np.asarray(X, dtype=float)
        self.n_features_in_ = X.shape[1]
        self.components_ = np.eye(X.shape[1])[: self.n_components]
        self.mean_ = X.mean(axis=0)
        return self


START = {"PCA": PCA(), "LDA": LinearDiscriminantAnalysis(), "MPDA": MPDA(n_neighbors=5)}


@pytest.mark.parametrize(
    ("estimator", "grid", "most"),
    [
        (LSDR(max_iter=1), {}, 4),
        (OwnMap(), {}, 4),
        (NeighborhoodComponentsAnalysis(max_iter=1), {}, 4),
        (LinearDiscriminantAnalysis(), {}, 2),
        (TruncatedSVD(), {}, 4),
        (WithinClassWhitening(), {}, 4),
        *(
            (NeighborhoodRefinement(start, n_rounds=1, radius=radius), grid, most)
            for start, most in ((START["PCA"], 4), (START["LDA"], 2), (START["MPDA"], 4))
            for radius in (None, 0.0)
            for grid in ({"n_rounds": [1]}, {"max_iter": [1]})
        ),
        (NeighborhoodRefinement(PCA(), n_rounds=1, radius=1.0), {"n_rounds": [1]}, 5),
        (NeighborhoodRefinement(LSDR(max_iter=1), radius=None), {"n_rounds": [1]}, 4),
        (
            NeighborhoodRefinement(FrozenEstimator(PCA(2).fit(load_iris().data)), radius=None),
            {"n_rounds": [1]},
            2,
        ),
    ],
)
def test_number_that_a_method_can_have_is_named(estimator, grid, most):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=rf"n_components=\[7\].* at most {most} exist in every"):
        search(estimator, grid, n_components=[7]).fit(X, y)


def test_number_of_the_smallest_fold_is_named():
    rng = np.random.default_rng(0)
    y = np.arange(140) % 7  # four classes train in one fold, three in the other
    X = rng.normal(size=(140, 6))
    with pytest.raises(ValueError, match="at most 2 exist in every"):
        search(LinearDiscriminantAnalysis(), {}, n_components=[3], cv=UnseenClassFolds(2)).fit(X, y)


@pytest.mark.parametrize(
    ("start", "radius", "number"),
    [
        (LinearDiscriminantAnalysis(), None, "at most 2 components."),
        (LinearDiscriminantAnalysis(), 1.0, "at most 2 components, 3 with the constant."),
        (TruncatedSVD(algorithm="arpack"), None, "at most 3 components."),
        (PCA(), 1.0, "at most 4 components, 5 with the constant."),
        (NeighborhoodComponentsAnalysis(), 0.0, "at most 4 components."),
        (LFDA(alpha=0.1), 1.0, "at most 4 components, 5 with the constant."),
    ],
)
def test_fit_of_a_refinement_names_the_number_of_outputs(start, radius, number):
    X, y = load_iris(return_X_y=True)
    refine = NeighborhoodRefinement(start, n_components=7, radius=radius)
    with pytest.raises(ValueError, match=f"n_components=7 is more than there is.*{number}"):
        refine.fit(X, y)


@pytest.mark.parametrize(
    "estimator",
    [
        FrozenEstimator(MPDA(2)),
        FrozenEstimator(LFDA(2)),
        LinearDiscriminantAnalysis(solver="lsqr"),
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr")),
    ],
)
def test_estimators_without_a_map_to_search_are_refused(estimator):
    with pytest.raises(TypeError, match="estimator must be a linear method"):
        search(estimator, {}).fit(*load_iris(return_X_y=True))


def test_solver_without_a_map_has_no_score():
    grid = {"solver": ["svd", "lsqr"]}
    with pytest.warns(FitFailedWarning, match="fits of a grid point to a fold have no answer"):
        fitted = search(LinearDiscriminantAnalysis(), grid).fit(*load_iris(return_X_y=True))
    assert fitted.best_params_["solver"] == "svd"


def test_features_as_they_are_have_no_parameters_and_may_be_sparse():
    X, y = load_wine(return_X_y=True)
    for grid in ({"func": [np.log1p]}, {"validate": [True, False]}):
        with pytest.raises(ValueError, match='"passthrough" has no parameters to search'):
            search("passthrough", grid).fit(X, y)
    with pytest.raises(ValueError, match='"passthrough" keeps all 13 features, and has no 2, 7'):
        search("passthrough", n_components=[2, 7]).fit(X, y)
    dense = search("passthrough", refit=True).fit(X, y)
    sparse = search("passthrough", refit=True).fit(csr_array(X), y)
    assert sparse.best_score_ == pytest.approx(dense.best_score_)
    np.testing.assert_array_equal(sparse.predict(csr_array(X)), dense.predict(X))
    assert sparse.score(csr_array(X), y) == dense.score(X, y) == 1.0


def test_whitening_tries_more_than_forty_components():
    assert make_contender("within-class whitening", search=False).component_counts is None
    assert make_contender("NCA", search=False).component_counts is not None


def test_one_output_on_a_sphere_keeps_the_start():
    X, y = load_iris(return_X_y=True)
    contender = Contender(
        "PCA refined", method("PCA refined"), {"radius": 1.0}, {"temperature": (1.0, 4.0)}
    )
    protocol = AssessmentProtocol(2, 2, n_components=1)
    selected = select_parameters(contender, [], Split(X, y, X[:0], y[:0]), 4, protocol)
    assert selected.parameters["n_rounds"] == 0
    assert np.isnan(selected.refined_score)
    assert selected.unrefined_score == selected.score


def test_selected_parameters_of_a_shrinkage_fit_the_estimator():
    X, y = load_iris(return_X_y=True)
    fitted = search(LinearDiscriminantAnalysis(), {"shrinkage": [0.1, 0.5]}, refit=True).fit(X, y)
    assert fitted.best_estimator_.solver == "eigen"
    model = clone(fitted.best_estimator_).fit(X, y)
    np.testing.assert_allclose(model.transform(X), fitted.transform(X))


def test_callables_of_other_forms_are_refused():
    X, y = load_iris(return_X_y=True)
    for scoring in (lambda a, b, c: 0.0, make_scorer(accuracy_score)):
        with pytest.raises(TypeError, match="scoring as a callable must be a function of true"):
            search(PCA(), scoring=scoring).fit(X, y)

    def share(true, predicted, scale=1.0):
        return scale * np.mean(true == predicted)

    expected = search(PCA()).fit(X, y)
    for scoring in (share, accuracy_score, lambda *labels: share(*labels)):
        found = search(PCA(), scoring=scoring).fit(X, y)
        assert found.best_score_ == pytest.approx(expected.best_score_)


def test_measures_are_named():
    with pytest.raises(ValueError, match="measures must name at least one"):
        score_queries(*load_iris(return_X_y=True), measures=[])


def test_pipeline_inside_a_pipeline_is_named():
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), PCA()))
    with pytest.raises(TypeError, match="a Pipeline inside a Pipeline"):
        search(nested).fit(*load_iris(return_X_y=True))
