"""Invalid input is rejected with an error that names it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from cases import unequal_classes
from mpda import MPDA, PMPDA, ManifoldPartition
from mpda.exceptions import NumericalWarning, SingularFormError

X, Y = unequal_classes(0)
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


def assert_rejected(estimator, message, X=X, y=Y, error=(ValueError, TypeError), **fit_parameters):
    with pytest.raises(error, match=message):
        estimator.fit(X, y, **fit_parameters)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_neighbors", 5.5, "n_neighbors must be an int"),
        ("gamma", -1e-9, "gamma must be a finite number of at least 0, got -1e-09"),
        ("gamma", np.inf, "gamma must be a finite number"),
        ("alpha", 1e308, "alpha=1e.308 .* too large"),
        ("tangent_alpha", -0.5, "tangent_alpha must be a finite number"),
        ("tangent_energy", 1.01, "tangent_energy must be a number from 0 to 1, got 1.01"),
        ("units", "metric", "units must be one of 'relative', 'absolute', got 'metric'"),
        ("affinity", None, "affinity must be one of 'knn', 'full'"),
        ("neighbor_search", "fast", "neighbor_search must be"),
        ("n_jobs", 0, "n_jobs must be None or an int other than 0"),
        ("solver", "fast", "solver must be one of 'reduced', 'two-stage'"),
    ],
)
def test_invalid_parameters_are_rejected(method, name, value, message):
    assert_rejected(method(**{name: value}), message)


@pytest.mark.parametrize("method", [MPDA, ManifoldPartition])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("partition", "forest", "partition must be one of 'auto', 'geodesic', .* got 'forest'"),
        ("partition_neighbors", 0, "partition_neighbors must be at least 1"),
        ("max_patch_size", 1.5, "max_patch_size must be an int"),
    ],
)
def test_invalid_parameters_of_the_partition_are_rejected(method, name, value, message):
    assert_rejected(method(**{name: value}), message)


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (Y[:-1], r"patches .* one label per sample, shape \(47,\), got \(46,\)"),
        (Y.astype(float), "patches must hold integers, got .* float64"),
        (np.zeros(len(Y), int), "patch 0 has samples of classes 0, 1, 2, 3"),
    ],
)
def test_invalid_patches_are_rejected(patches, message):
    assert_rejected(MPDA(n_neighbors=3), message, patches=patches)


def test_patch_labels_may_be_any_integers():
    model = MPDA(n_neighbors=3).fit(X, Y, patches=Y)
    large = MPDA(n_neighbors=3).fit(X, Y, patches=Y.astype(np.uint64) + np.uint64(2**63))
    np.testing.assert_array_equal(large.components_, model.components_)


@pytest.mark.parametrize("estimator", [MPDA(), PMPDA(), ManifoldPartition()])
@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.where(X[3, 2] == X, np.nan, X), "NaN"),
        (np.where(X[3, 2] == X, np.inf, X), "infinity"),
        (X.astype(complex), "Complex data not supported"),
        (X[:, 0], "Expected 2D array, got 1D array"),
        (np.full(X.shape, "red"), "could not convert string to float"),
        (X[:, :0], r"0 feature\(s\)"),
        (X[:-1], "inconsistent numbers of samples"),
    ],
)
def test_invalid_samples_are_rejected(estimator, samples, message):
    assert_rejected(estimator, message, X=samples)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(len(X)), r"y has only 1 class: \[0\.0\]"),
        (np.linspace(0, 1, len(X)), "continuous"),
        (None, "requires y to be passed"),
        (np.where(Y == 0, np.nan, Y), "NaN"),
        (np.column_stack([Y, Y]), "1d array|multioutput"),
        (np.array(["a", None] * 23 + ["b"], dtype=object), "one kind|Unknown label type|uniformly"),
    ],
)
def test_invalid_labels_are_rejected(method, y, message):
    assert_rejected(method(), message, y=y)


def test_model_is_not_fitted_after_a_rejected_fit():
    model = MPDA(n_components=50, n_neighbors=3)
    assert_rejected(model, "n_components=50")
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_second_fit_removes_attributes_of_the_first():
    model = ManifoldPartition().fit(X, Y)
    assert hasattr(model, "patch_classes_")
    model.fit(X)
    assert not hasattr(model, "patch_classes_")
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("scale", [1e6, 1e150])
def test_negligible_absolute_ridge_gives_a_warning(scale):
    wide = np.random.default_rng(0).normal(size=(20, 50)) * scale
    with pytest.warns(NumericalWarning, match="nearly singular"):
        model = MPDA(n_neighbors=5, units="absolute").fit(wide, np.arange(20) % 2)
    assert np.isfinite(model.components_).all()


def test_identical_samples_are_rejected():
    assert_rejected(MPDA(), "All samples of X are identical", X=np.ones_like(X))


def test_ridge_may_be_zero_unless_the_within_form_is_singular():
    model = MPDA(n_neighbors=5, alpha=0.0, tangent_alpha=None, gamma=0.0).fit(X, Y)
    assert np.isfinite(model.components_).all()
    for samples in (np.c_[X, np.ones(len(X))], np.tile(X, (1, 12))):
        model = MPDA(n_neighbors=5, alpha=0.0).fit(samples, Y)
        assert model.components_.shape == (6, samples.shape[1])
    wide = np.random.default_rng(0).normal(size=(len(X), 72))
    estimator = MPDA(n_neighbors=5, alpha=0.0)
    assert_rejected(estimator, "Set a larger alpha", X=wide, error=SingularFormError)


def test_feature_names_are_stored_and_compared():
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    model = MPDA(2, n_neighbors=5).set_output(transform="pandas").fit(frame, Y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.transform(frame).columns.tolist() == ["mpda0", "mpda1"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[frame.columns[::-1]])
