"""The search over methods of scikit-learn and the features as they are; what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from mpda import LFDA, MPDA, NeighborhoodRefinement
from mpda.model_selection import DiscriminantSearchCV

X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
FOLDS = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))
# Rounding may change the nearest neighbour of one test sample.
ONE_SAMPLE = 1.01 / len(FOLDS[0][1])
EIGEN_LDA = LinearDiscriminantAnalysis(solver="eigen")


def search(estimator, grid=None, **options):
    """Fit a search without a refit, unless the options differ."""
    options = {"refit": False, "cv": FOLDS} | options
    return DiscriminantSearchCV(estimator, grid, **options).fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "grid", "numbers"),
    [
        (PCA(), {"whiten": [False, True]}, range(1, 14)),
        (PCA(random_state=0), {"svd_solver": ["full", "arpack"]}, range(1, 13)),
        (TruncatedSVD(random_state=0), {"n_iter": [1, 5]}, [1, 4, 13]),
        (TruncatedSVD(algorithm="arpack", random_state=0), {"tol": [0.0]}, [2, 12]),
        (EIGEN_LDA, {"shrinkage": [None, "auto", 0.3]}, [1, 2]),
        (LinearDiscriminantAnalysis(), {"priors": [None, [0.1, 0.1, 0.8]]}, [1, 2]),
        (NeighborhoodComponentsAnalysis(max_iter=5, random_state=0), {"tol": [1e-5, 1.0]}, [2, 5]),
        (make_pipeline(PCA(6), LFDA()), {"lfda__alpha": [0.1, 1.0]}, range(1, 7)),
        (make_pipeline(PCA(6), EIGEN_LDA), {"shrinkage": [0.1, 0.9]}, [1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scores_equal_those_of_grid_search(estimator, grid, numbers):
    fitted = search(estimator, grid, n_components=list(numbers))
    prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    names = {name: f"m__{prefix}{name.removeprefix(prefix)}" for name in grid}
    full = {names[name]: values for name, values in grid.items()}
    full[f"m__{prefix}n_components"] = list(numbers)
    pipeline = make_pipeline(StandardScaler(with_std=False), KNeighborsClassifier(1))
    pipeline.steps[0] = ("m", estimator)
    theirs = GridSearchCV(pipeline, full, cv=FOLDS, refit=False, error_score=np.nan).fit(X, Y)
    expected = {
        str(sorted(point.items())): score
        for point, score in zip(
            ({k.removeprefix("m__"): v for k, v in p.items()} for p in ParameterGrid(full)),
            theirs.cv_results_["mean_test_score"],
            strict=True,
        )
    }
    ours = fitted.cv_results_
    assert len(ours["params"]) == len(expected)
    for point, score in zip(ours["params"], ours["mean_test_score"], strict=True):
        assert score == pytest.approx(expected[str(sorted(point.items()))], abs=ONE_SAMPLE)


@pytest.mark.parametrize(
    ("estimator", "most"),
    [(PCA(), 13), (LinearDiscriminantAnalysis(), 2), ("passthrough", 13), (LFDA(alpha=0.1), 13)],
    ids=str,
)
def test_number_of_components_that_there_is_stands_in_the_error(estimator, most):
    message = rf"has any of n_components=\[50\] in every fold; at most {most} exist"
    with pytest.raises(ValueError, match=message):
        search(estimator, {}, n_components=[50])
    if estimator != "passthrough":
        refine = NeighborhoodRefinement(estimator, max_iter=1, n_rounds=1)
        with pytest.raises(ValueError, match=message):
            search(refine, {}, n_components=[50])


def test_features_as_they_are_have_the_scores_of_a_classifier():
    expected = [
        KNeighborsClassifier(3).fit(X[train], Y[train]).score(X[test], Y[test])
        for train, test in FOLDS
    ]
    for estimator in ("passthrough", FunctionTransformer(), make_pipeline(PCA(), "passthrough")):
        fitted = search(estimator, classifier_neighbors=3, refit=True)
        results = fitted.cv_results_
        assert [results[f"split{i}_test_score"][0] for i in range(3)] == pytest.approx(expected)
        assert list(fitted.best_params_.values()) == [13]
        assert fitted.transform(X).shape == X.shape
        assert fitted.predict(X[:2]).tolist() == Y[:2].tolist()
    np.testing.assert_array_equal(search("passthrough", refit=True).transform(X), X)
    frame = pd.DataFrame(X, columns=[f"feature {i}" for i in range(13)])
    named = DiscriminantSearchCV("passthrough", cv=FOLDS).fit(frame, Y)
    assert named.get_feature_names_out().tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="is no parameter of FunctionTransformer"):
        search("passthrough", {"alpha": [1.0]})


def test_shrinkage_of_lda_is_searched_with_a_solver_that_shrinks():
    fitted = search(LinearDiscriminantAnalysis(), {"shrinkage": ["auto", 0.5]}, refit=True)
    same = search(EIGEN_LDA, {"shrinkage": ["auto", 0.5]})
    np.testing.assert_array_equal(
        fitted.cv_results_["mean_test_score"], same.cv_results_["mean_test_score"]
    )
    assert fitted.best_estimator_.solver == "eigen"
    assert fitted.best_estimator_.shrinkage == fitted.best_params_["shrinkage"]
    assert search(EIGEN_LDA).cv_results_["param_shrinkage"].tolist().count("auto") == 2


def test_points_that_scikit_learn_refuses_have_no_score():
    grid = {"solver": ["svd", "eigen"], "shrinkage": ["auto"]}
    with pytest.warns(FitFailedWarning, match="3 fits of a grid point .* shrinkage not supported"):
        results = search(LinearDiscriminantAnalysis(), grid).cv_results_
    is_svd = results["param_solver"] == "svd"
    assert np.isnan(results["mean_test_score"][is_svd]).all()
    assert np.isfinite(results["mean_test_score"][~is_svd]).all()
    with pytest.raises(ValueError, match="No grid point has an answer in any fold"):
        search(PCA(), {"svd_solver": ["other"]})


def test_all_numbers_stand_for_some_where_each_takes_a_fit():
    nca = NeighborhoodComponentsAnalysis(max_iter=1, random_state=0)
    for estimator in (
        nca,
        NeighborhoodRefinement(LFDA(alpha=0.1), radius=1.0, max_iter=1, n_rounds=1),
    ):
        grid = {} if estimator is nca else {"n_rounds": [1]}
        numbers = sorted(
            set(search(estimator, grid, cv=FOLDS[:1]).cv_results_["param_n_components"])
        )
        # On a sphere there are two at least, and one more than components of the start.
        expected = [1, 2, 3, 4, 5, 6, 8, 10, 12, 13]
        assert numbers == (expected if estimator is nca else [*expected[1:-1], 14])


def test_grid_that_lists_rounds_has_one_stage():
    refine = NeighborhoodRefinement(LFDA(alpha=0.1), max_iter=2)
    fitted = search(refine, {"n_rounds": [0, 2], "penalty": [1.0]}, n_components=[2, 4])
    results = fitted.cv_results_
    assert "stage" not in results
    assert len(results["params"]) == 4
    for point, score in zip(results["params"], results["split0_test_score"], strict=True):
        train, test = FOLDS[0]
        model = clone(refine).set_params(**point).fit(X[train], Y[train])
        knn = KNeighborsClassifier(1).fit(model.transform(X[train]), Y[train])
        assert score == pytest.approx(knn.score(model.transform(X[test]), Y[test]), abs=ONE_SAMPLE)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(),
        KernelPCA(),
        StandardScaler(),
        FunctionTransformer(np.log1p),
        make_pipeline(StandardScaler(), KernelPCA()),
        None,
        MPDA,
    ],
    ids=str,
)
def test_estimators_that_are_not_linear_are_refused(estimator):
    with pytest.raises(TypeError, match=r"must be a linear method, .* TruncatedSVD, LinearDiscrim"):
        search(estimator, {})
    with pytest.raises(
        TypeError, match=r'LinearDiscriminantAnalysis \(with solver "svd" or "eigen"'
    ):
        search(LinearDiscriminantAnalysis(solver="lsqr"), {})
