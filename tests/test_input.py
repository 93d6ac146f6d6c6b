"""Invalid input is refused with an error that names it; difficult input gets a finite answer."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from cases import unequal_classes
from mpda import MPDA, PMPDA, ManifoldPartition
from mpda.exceptions import NumericalWarning, SingularFormError, SmallClassWarning

X, Y = unequal_classes(0)
NAMES = np.array(["a", "b", "c", "d"])
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


def assert_refused(estimator, message, X=X, y=Y, error=(ValueError, TypeError), **fit_parameters):
    with pytest.raises(error, match=message):
        estimator.fit(X, y, **fit_parameters)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_components", 7, "n_components=7 .* 6 directions"),
        ("n_components", 0, "n_components must be at least 1, got 0"),
        ("n_components", 2.0, r"n_components must be an int .* got 2.0 \(float\)"),
        ("n_components", "all", "n_components must be an int"),
        ("n_components", True, "n_components must be an int"),
        ("n_neighbors", 0, "n_neighbors must be at least 1"),
        ("n_neighbors", 5.5, "n_neighbors must be an int"),
        ("gamma", -1e-9, "gamma must be a finite number of at least 0, got -1e-09"),
        ("gamma", np.inf, "gamma must be a finite number"),
        ("gamma", "big", "gamma must be a finite number"),
        ("alpha", np.nan, "alpha must be a finite number"),
        ("alpha", 1e308, "alpha=1e.308 .* too large"),
        ("tangent_alpha", -0.5, "tangent_alpha must be a finite number"),
        ("eigenvalue_power", np.nan, "eigenvalue_power must be a finite number"),
        ("tangent_energy", 1.01, "tangent_energy must be a number from 0 to 1, got 1.01"),
        ("units", "metric", "units must be one of 'relative', 'absolute', got 'metric'"),
        ("affinity", None, "affinity must be one of 'knn', 'full'"),
        ("neighbor_search", "fast", "neighbor_search must be"),
        ("n_jobs", 0, "n_jobs must be None or an int other than 0"),
        ("solver", "fast", "solver must be one of 'reduced', 'two-stage'"),
    ],
)
def test_invalid_parameters_are_refused(method, name, value, message):
    assert_refused(method(**{name: value}), message)


@pytest.mark.parametrize("method", [MPDA, ManifoldPartition])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("partition", "forest", "partition must be one of 'auto', 'geodesic', .* got 'forest'"),
        ("partition_neighbors", 0, "partition_neighbors must be at least 1"),
        ("max_patch_size", 1.5, "max_patch_size must be an int"),
    ],
)
def test_invalid_parameters_of_the_partition_are_refused(method, name, value, message):
    assert_refused(method(**{name: value}), message)


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (Y[:-1], r"patches .* one label per sample, shape \(47,\), got \(46,\)"),
        (Y.astype(float), "patches must hold integers, got .* float64"),
        (np.zeros(len(Y), int), "patch 0 has samples of classes 0, 1, 2, 3"),
    ],
)
def test_invalid_patches_are_refused(patches, message):
    assert_refused(MPDA(n_neighbors=3), message, patches=patches)


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
        (csr_array(X), r"[Ss]parse.*toarray\(\)"),
        (np.full(X.shape, "red"), "could not convert string to float"),
        (X[:, :0], r"0 feature\(s\)"),
        (X[:-1], "inconsistent numbers of samples"),
    ],
)
def test_invalid_samples_are_refused(estimator, samples, message):
    assert_refused(estimator, message, X=samples)


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
def test_invalid_labels_are_refused(method, y, message):
    assert_refused(method(), message, y=y)


def test_model_is_not_fitted_after_a_refused_fit():
    model = MPDA(n_components=50, n_neighbors=3)
    assert_refused(model, "n_components=50")
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_second_fit_removes_attributes_of_the_first():
    model = ManifoldPartition().fit(X, Y)
    assert hasattr(model, "patch_classes_")
    model.fit(X)
    assert not hasattr(model, "patch_classes_")
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("scale", [1e6, 1e150])
def test_negligible_absolute_ridge_is_warned_of(scale):
    wide = np.random.default_rng(0).normal(size=(20, 50)) * scale
    with pytest.warns(NumericalWarning, match="nearly singular"):
        model = MPDA(n_neighbors=5, units="absolute").fit(wide, np.arange(20) % 2)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.eigenvalues_).all()


def test_identical_samples_are_refused():
    assert_refused(MPDA(), "All samples of X are identical", X=np.ones_like(X))


DIFFICULT = {
    "zero columns": lambda X: np.c_[np.zeros((len(X), 2)), X],
    "duplicate features": lambda X: np.c_[X, X],
    "duplicate samples": lambda X: X[np.arange(len(X)) // 2 * 2],
    "small": lambda X: X * 1e-150,
    "large": lambda X: X * 1e150,
    "small and large features": lambda X: X * np.geomspace(1e-150, 1e150, X.shape[1]),
    "far from the origin": lambda X: X + 1e8,
    "one feature": lambda X: X[:, :1],
    "more features than samples": lambda X: np.tile(X, (1, 12)) + np.sin(np.arange(72)),
    "disconnected classes": lambda X: X + 1e4 * (np.arange(len(X)) % 5)[:, None],
}
# Absolute ridges are negligible for 1e150, and distant groups hide the scatter inside them.
ILL_CONDITIONED = {("small and large features", "absolute")} | {
    ("disconnected classes", units) for units in ("relative", "absolute")
}


@pytest.mark.parametrize("units", ["relative", "absolute"])
@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("kind", DIFFICULT)
def test_difficult_samples_get_a_finite_answer(kind, method, units):
    samples = DIFFICULT[kind](X)
    with warnings.catch_warnings():
        if (kind, units) in ILL_CONDITIONED:  # a warning is right, but depends on rounding
            warnings.simplefilter("ignore", NumericalWarning)
        model = method(n_neighbors=5, units=units).fit(samples, Y)
    Z = model.transform(samples)
    for value in (Z, model.components_, model.eigenvalues_, model.mean_, *model.units_.values()):
        assert np.isfinite(value).all()
    assert Z.shape[1] >= 1
    assert np.ptp(Z[:, 0]) > 0


@pytest.mark.parametrize(
    "y",
    [NAMES[Y], Y > 0, Y.astype(float), Y - 7, pd.Categorical(NAMES[Y]), NAMES[Y].astype(object)],
    ids=["strings", "bools", "floats", "negative", "categorical", "objects"],
)
def test_labels_may_have_any_type(y):
    model = MPDA(n_neighbors=5).fit(X, y)
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_array_equal(model.classes_, np.unique(np.asarray(y)))


def test_every_class_may_have_one_sample():
    model = MPDA().fit(X[:8], np.arange(8))
    assert np.isfinite(model.transform(X)).all()
    assert model.units_["alpha"] > 0


def test_ridge_may_be_zero_unless_the_within_form_is_singular():
    model = MPDA(n_neighbors=5, alpha=0.0, tangent_alpha=None, gamma=0.0).fit(X, Y)
    assert np.isfinite(model.components_).all()
    for samples in (np.c_[X, np.ones(len(X))], np.tile(X, (1, 12))):
        model = MPDA(n_neighbors=5, alpha=0.0).fit(samples, Y)
        assert model.components_.shape == (6, samples.shape[1])
    wide = np.random.default_rng(0).normal(size=(len(X), 72))
    estimator = MPDA(n_neighbors=5, alpha=0.0)
    assert_refused(estimator, "Set a larger alpha", X=wide, error=SingularFormError)


def test_feature_names_are_stored_and_compared():
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    model = MPDA(2, n_neighbors=5).set_output(transform="pandas").fit(frame, Y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.transform(frame).columns.tolist() == ["mpda0", "mpda1"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[frame.columns[::-1]])


def test_small_classes_are_warned_of_at_the_call_of_fit():
    with pytest.warns(SmallClassWarning, match=r"n_neighbors=20.*3 \(1") as caught:
        MPDA(n_neighbors=20).fit(X, Y)
    assert caught[0].filename == __file__


def test_progress_goes_to_stderr(capsys):
    MPDA(n_neighbors=5, verbose=1).fit(X, Y)
    output = capsys.readouterr()
    assert "MPDA" in output.err
    assert "4/4 classes" in output.err
    assert output.out == ""
