"""Bad input gets an error that names it; hard input gets a finite answer."""

import contextlib
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


def refused(estimator, message, X=X, y=Y, error=ValueError, **fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallClassWarning)
        with pytest.raises(error, match=message):
            estimator.fit(X, y, **fit)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 7}, "n_components=7 is more than there is: only 6 directions"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_components": -2}, "n_components must be at least 1, got -2"),
        ({"n_components": 2.0}, r"n_components must be an int .* got 2.0 \(float\)"),
        ({"n_components": "all"}, "n_components must be an int"),
        ({"n_components": True}, "n_components must be an int"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"n_neighbors": 5.5}, "n_neighbors must be an int"),
        ({"n_neighbors": None}, "n_neighbors must be an int"),
        ({"gamma": -1e-9}, "gamma must be a finite number of at least 0, got -1e-09"),
        ({"gamma": np.inf}, "gamma must be a finite number"),
        ({"gamma": "big"}, "gamma must be a finite number"),
        ({"gamma": None}, "gamma must be a finite number"),
        ({"alpha": -1}, "alpha must be a finite number of at least 0, got -1"),
        ({"alpha": np.nan}, "alpha must be a finite number"),
        ({"tangent_alpha": -0.5}, "tangent_alpha must be a finite number"),
        ({"tangent_alpha": np.inf}, "tangent_alpha must be a finite number"),
        ({"eigenvalue_power": np.nan}, "eigenvalue_power must be a finite number"),
        ({"tangent_energy": 1.01}, "tangent_energy must be a number from 0 to 1, got 1.01"),
        ({"tangent_energy": -0.1}, "tangent_energy must be a number from 0 to 1"),
        ({"units": "metric"}, "units must be one of 'relative', 'absolute', got 'metric'"),
        ({"affinity": "dense"}, "affinity must be one of 'knn', 'full'"),
        ({"affinity": None}, "affinity must be one of 'knn', 'full'"),
        ({"neighbor_search": "fast"}, "neighbor_search must be one of 'auto', 'exact', 'cells'"),
        ({"alpha": 1e308}, "alpha=1e.308 .* is too large for samples of this scale"),
        ({"n_jobs": 0}, "n_jobs must be None or an int other than 0"),
        ({"n_jobs": "two"}, "n_jobs must be None or an int"),
        ({"solver": "fast"}, "solver must be one of 'reduced', 'two-stage'"),
    ],
)
def test_parameters(method, parameters, message):
    refused(method(**parameters), message, error=(ValueError, TypeError))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"partition": "tree"},
            "partition must be one of 'auto', 'geodesic', 'euclidean', or a clusterer with "
            "fit_predict, got 'tree'",
        ),
        ({"partition": 3}, "partition must be one of"),
        ({"partition_neighbors": 0}, "partition_neighbors must be at least 1"),
        ({"max_patch_size": 0}, "max_patch_size must be at least 1"),
        ({"max_patch_size": 1.5}, "max_patch_size must be an int"),
        ({"anchors": "yes"}, "anchors must be True or False"),
    ],
)
def test_parameters_of_the_partition(parameters, message):
    refused(MPDA(**parameters), message, error=(ValueError, TypeError))
    if "anchors" not in parameters:
        message = message.replace(", or a clusterer with fit_predict", "")
        refused(ManifoldPartition(**parameters), message, error=(ValueError, TypeError))


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (Y[:-1], r"patches must hold one label per sample, shape \(47,\), got \(46,\)"),
        (Y.astype(float), "patches must hold integers, got an array of float64"),
        (np.zeros(len(Y), int), "patch 0 has samples of classes 0, 1, 2, 3"),
        (Y[:, None], "patches must hold one label per sample"),
    ],
)
def test_patches(patches, message):
    refused(MPDA(n_neighbors=3), message, patches=patches, error=(ValueError, TypeError))


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_patches_may_have_any_integers():
    plain = MPDA(n_neighbors=3).fit(X, Y, patches=Y)
    large = MPDA(n_neighbors=3).fit(X, Y, patches=Y.astype(np.uint64) + np.uint64(2**63))
    np.testing.assert_array_equal(large.components_, plain.components_)


def changed(value):
    bad = X.copy()
    bad[3, 2] = value
    return bad


@pytest.mark.parametrize("estimator", [MPDA(), PMPDA(), ManifoldPartition()])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (changed(np.nan), "NaN"),
        (changed(np.inf), "infinity"),
        (X.astype(complex), "Complex data not supported"),
        (X[:, 0], "Expected 2D array, got 1D array"),
        (csr_array(X), r"[Ss]parse.*toarray\(\)"),
        (np.full(X.shape, "red"), "could not convert string to float"),
        (X[:, :0], r"0 feature\(s\)"),
        (X[:-1], "inconsistent numbers of samples"),
    ],
)
def test_samples(estimator, bad, message):
    refused(estimator, message, X=bad, error=(ValueError, TypeError))


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
def test_labels(method, y, message):
    refused(method(), message, y=y, error=(ValueError, TypeError))


def test_a_failed_fit_is_no_fit():
    model = MPDA(n_components=50, n_neighbors=3)
    refused(model, "n_components=50")
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_nothing_stays_of_an_earlier_fit():
    model = ManifoldPartition().fit(X, Y)
    assert hasattr(model, "patch_classes_")
    model.fit(X)
    assert not hasattr(model, "patch_classes_")
    assert not hasattr(model, "classes_")


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("scale", [1e6, 1e8, 1e150])
def test_an_absolute_alpha_that_is_nothing_beside_wide_samples(scale):
    wide = np.random.default_rng(0).normal(size=(20, 50)) * scale
    with pytest.warns(NumericalWarning, match="nearly singular"):
        model = MPDA(n_neighbors=5, units="absolute").fit(wide, np.arange(20) % 2)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.eigenvalues_).all()


def test_identical_samples_are_refused():
    refused(MPDA(), "All samples of X are identical", X=np.ones_like(X))


HARD = {
    "a constant feature": lambda X: np.c_[X, np.full(len(X), 3.3)],
    "columns of zeros": lambda X: np.c_[np.zeros((len(X), 2)), X],
    "copied features": lambda X: np.c_[X, X],
    "copied samples": lambda X: X[np.arange(len(X)) // 2 * 2],
    "tiny": lambda X: X * 1e-150,
    "huge": lambda X: X * 1e150,
    "tiny and huge features": lambda X: X * np.geomspace(1e-150, 1e150, X.shape[1]),
    "far from the origin": lambda X: X + 1e8,
    "one feature": lambda X: X[:, :1],
    "more features than samples": lambda X: (
        np.tile(X, (1, 12)) + np.sin(np.arange(12 * X.shape[1]))
    ),
    "integers": lambda X: np.round(X).astype(np.int8),
    "booleans": lambda X: X > 1,
    "half precision": lambda X: X.astype(np.float16),
    "Fortran order": np.asfortranarray,
    "a strided view": lambda X: np.repeat(X, 2, axis=1)[::1, ::2],
    "disconnected classes": lambda X: X + 1e4 * (np.arange(len(X)) % 5)[:, None],
    "a list of lists": lambda X: X.tolist(),
}


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("units", ["relative", "absolute"])
@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("kind", HARD)
def test_hard_samples_give_a_finite_answer(kind, method, units):
    hard = HARD[kind](X)
    # Absolute ridges are nothing beside 1e150; and far apart pieces hide what is inside them.
    trouble = kind == "disconnected classes" or (kind, units) == (
        "tiny and huge features",
        "absolute",
    )
    with pytest.warns(NumericalWarning) if trouble else contextlib.nullcontext():
        model = method(n_neighbors=5, units=units).fit(hard, Y)
    Z = model.transform(hard)
    for value in (Z, model.components_, model.eigenvalues_, model.mean_, model.residual_):
        assert np.isfinite(value).all()
    assert np.isfinite(list(model.units_.values())).all()
    assert Z.shape[1] >= 1
    assert np.ptp(Z[:, 0]) > 0


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize(
    "y",
    [
        np.array(["a", "b", "c", "d"])[Y],
        Y > 0,
        Y.astype(float),
        Y - 7,
        pd.Categorical(np.array(["a", "b", "c", "d"])[Y]),
        np.array(["a", "b", "c", "d"], dtype=object)[Y],
        Y[:, None].ravel().tolist(),
    ],
    ids=["strings", "bools", "floats", "negative", "categorical", "objects", "list"],
)
def test_labels_of_every_kind(y):
    model = MPDA(n_neighbors=5).fit(X, y)
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_array_equal(model.classes_, np.unique(np.asarray(y)))


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_every_class_may_have_one_sample():
    model = MPDA().fit(X[:8], np.arange(8))
    assert np.isfinite(model.transform(X)).all()
    assert model.units_["alpha"] > 0


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_no_ridge_is_solved_where_it_can_be_and_refused_where_not():
    regular = MPDA(n_neighbors=5, alpha=0.0, tangent_alpha=None, gamma=0.0).fit(X, Y)
    assert np.isfinite(regular.components_).all()
    constant = MPDA(n_neighbors=5, alpha=0.0).fit(np.c_[X, np.ones(len(X))], Y)
    assert constant.components_.shape == (6, 7)
    copied = MPDA(n_neighbors=5, alpha=0.0).fit(np.tile(X, (1, 12)), Y)
    assert copied.components_.shape == (6, 72)
    wide = np.random.default_rng(0).normal(size=(len(X), 72))
    refused(MPDA(n_neighbors=5, alpha=0.0), "Set a larger alpha", X=wide, error=SingularFormError)


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_names_of_features_come_back():
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    model = MPDA(2, n_neighbors=5).set_output(transform="pandas").fit(frame, Y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.transform(frame).columns.tolist() == ["mpda0", "mpda1"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[frame.columns[::-1]])


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_verbose_tells_progress_on_stderr(capsys):
    MPDA(n_neighbors=5, verbose=1).fit(X, Y)
    told = capsys.readouterr()
    assert "MPDA" in told.err
    assert "4/4 classes" in told.err
    assert told.out == ""


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_the_input_is_not_touched_and_may_be_read_only():
    held = X.copy()
    held.setflags(write=False)
    MPDA(n_neighbors=5).fit(held, Y).transform(held)
    np.testing.assert_array_equal(held, X)
