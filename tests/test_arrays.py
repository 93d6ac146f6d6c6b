"""Fits on device arrays: the results of NumPy, on the device of X."""

import copy
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import mpda
from cases import largest_angle, unequal_classes
from mpda import LFDA, MPDA, PMPDA, GramPCA
from mpda._lib.arrays import to_host
from mpda.discriminant import schur_complement
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors import neighbor_lists


def digits():
    X, y = load_digits(n_class=5, return_X_y=True)
    return X[:150], y[:150]


def curved_classes():
    return unequal_classes(7, sizes=(4, 9, 16, 25, 31, 40, 47, 52, 58), d=16, duplicates=0)


def angle(components, expected):
    """Return the largest principal angle between two row spaces."""
    return largest_angle(*(np.asarray(to_host(a), dtype=float).T for a in (components, expected)))


def fit_both(method, library, X, y, tolerance=1e-6):
    """Fit to device and host arrays and compare the subspaces; return the device model first."""
    device_model, host_model = clone(method).fit(library(X), y), clone(method).fit(X, y)
    assert library.holds(device_model.components_, str(X.dtype))
    assert angle(device_model.components_, host_model.components_) <= tolerance
    return device_model, host_model


METHODS = [
    GramPCA(8),
    LFDA(8, alpha=0.1),
    LFDA(8, alpha=0.1, affinity="knn"),
    LFDA(4, alpha=0.1, affinity="ones", orthonormal=True),
    MPDA(8),
    MPDA(8, partition="geodesic", tangent_alpha=0.5, eigenvalue_power=0.5),
    MPDA(8, partition="euclidean", units="absolute", solver="two-stage"),
    MPDA(8, anchors=True, affinity="full"),
    PMPDA(8, n_neighbors=6),
]


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")  # of 4 samples and more
@pytest.mark.parametrize("data", [digits, pytest.param(curved_classes, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_subspace_agrees_with_numpy(method, data, library):
    X, y = data()
    # Digits are whole numbers, the same in both precisions.
    dtype, tolerance = ("float32", 1e-3) if data is digits else ("float64", 1e-6)
    X = X.astype(dtype)
    device_model, host_model = fit_both(method, library, X, y, tolerance)
    assert library.holds(device_model.mean_, dtype)
    mapped = device_model.transform(library(X))
    assert library.holds(mapped, dtype)
    expected = (X - to_host(device_model.mean_)) @ to_host(device_model.components_).T
    np.testing.assert_allclose(to_host(mapped), expected, atol=tolerance * np.ptp(expected))
    if hasattr(host_model, "patch_labels_"):
        for name in ("patch_labels_", "tangent_dimensions_", "classes_"):
            result = to_host(getattr(device_model, name))
            np.testing.assert_array_equal(result, getattr(host_model, name))


def test_attributes_are_device_arrays_except_names_of_classes(library):
    X, y = digits()
    names = np.array([f"digit {label}" for label in y])
    model = MPDA(5).fit(library(X), names)
    assert library.holds(model.eigenvalues_)
    assert library.holds(model.patch_linearity_)
    assert library.holds(model.patch_labels_, "int64")
    assert isinstance(model.classes_, np.ndarray)
    assert model.classes_[3] == "digit 3"
    assert set(model.class_solvers_) == {"dense"}
    assert isinstance(model.strengths_["alpha"], float)
    assert isinstance(model.residual_, float)
    assert library.holds(MPDA(5).fit(library(X), y).classes_, "int64")


@pytest.mark.slow
@pytest.mark.parametrize("method", [MPDA(5), LFDA(5, alpha=0.1)], ids=repr)
def test_labels_may_be_device_arrays_or_of_another_dtype(method, library):
    X, y = digits()
    expected = clone(method).fit(library(X), y)
    for labels in (library(y), y.astype(np.float16)):  # a dtype that the library lacks
        model = clone(method).fit(library(X), labels)
        for name in ("classes_", "components_"):
            arrays = (to_host(getattr(fitted, name)) for fitted in (model, expected))
            np.testing.assert_array_equal(*arrays)


@pytest.mark.slow
def test_fits_repeat_bit_for_bit(library):
    X, y = digits()
    for method in (LFDA(8, alpha=0.1), MPDA(8), PMPDA(8, n_neighbors=6)):
        first, second = (clone(method).fit(library(X), y).components_ for _ in range(2))
        np.testing.assert_array_equal(to_host(first), to_host(second))


def test_transform_needs_the_device_of_the_fit(library):
    X, y = digits()
    on_device, on_host = MPDA(5).fit(library(X), y), MPDA(5).fit(X, y)
    for model, other in ((on_device, X), (on_host, library(X))):
        for method in ("transform", "inverse_transform"):
            message = rf"MPDA\.{method}\(\) must use the same namespace"
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(other)
    back = on_device.inverse_transform(on_device.transform(library(X)))
    assert library.holds(back)
    expected = on_host.inverse_transform(on_host.transform(X))
    np.testing.assert_allclose(to_host(back), expected, atol=1e-6)
    with pytest.raises(ValueError, match="expecting 64 features"):
        on_device.transform(library(X[:, :9]))
    with sklearn.config_context(array_api_dispatch=False):  # all is NumPy
        assert isinstance(on_device.transform(X), np.ndarray)
        np.testing.assert_allclose(on_device.transform(X), on_host.transform(X), atol=1e-8)
        np.testing.assert_allclose(
            on_device.inverse_transform(on_device.transform(X)), expected, atol=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("fitted", ["float32", "float64"])
@pytest.mark.parametrize("mapped", ["float32", "float64", "int64"])
def test_transform_keeps_the_precision_of_its_input(fitted, mapped, library):
    X, y = digits()
    model = LFDA(4, alpha=0.1).fit(library(X.astype(fitted)), y)
    result = model.transform(library(X.astype(mapped)))
    assert library.holds(result, "float32" if mapped == "float32" else "float64")
    expected = LFDA(4, alpha=0.1).fit(X, y).transform(X)
    np.testing.assert_allclose(to_host(result), expected, atol=1e-3)
    back = model.inverse_transform(result)
    assert library.holds(back, "float32" if mapped == "float32" else "float64")


def test_no_graph_for_derivatives_is_kept(dispatch):
    torch = pytest.importorskip("torch")
    X, y = digits()
    samples = torch.asarray(X).requires_grad_(True)
    for method in (MPDA(3), LFDA(3, alpha=0.1), GramPCA(3)):
        model = clone(method).fit(samples, y)
        assert not model.components_.requires_grad
        assert not model.transform(samples).requires_grad
        copy.deepcopy(model)


def test_pipeline_stays_on_the_device(library):
    X, y = digits()
    steps = make_pipeline(GramPCA(0.95), MPDA(9))
    mapped = clone(steps).fit(library(X), y).transform(library(X))
    assert library.holds(mapped)
    np.testing.assert_allclose(to_host(mapped), clone(steps).fit(X, y).transform(X), atol=1e-7)


@pytest.mark.parametrize("method", [MPDA(4), PMPDA(4, n_neighbors=6)], ids=repr)
def test_partial_fit_adds_classes_on_the_device(method, library):
    X, y = digits()
    early = y < 3
    device_model, host_model = clone(method), clone(method)
    for rows in (early, ~early):
        device_model.partial_fit(library(X[rows]), y[rows])
        host_model.partial_fit(X[rows], y[rows])
    assert library.holds(device_model.components_)
    assert angle(device_model.components_, host_model.components_) < 1e-6
    before = to_host(device_model.components_)
    device_model.partial_fit(library(X[early]), y[early])  # a repeated call changes nothing
    np.testing.assert_array_equal(to_host(device_model.components_), before)
    changed = X[early].copy()
    changed[0, 20] += 1.0
    with pytest.raises(ValueError, match="classes of an earlier call"):
        device_model.partial_fit(library(changed), y[early])
    with pytest.raises(TypeError, match="of the array library of earlier calls"):
        device_model.partial_fit(X[early] + 1.0, y[early] + 20)


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("method", [MPDA(3), LFDA(3, alpha=0.1), PMPDA(3)], ids=repr)
def test_fewer_samples_than_features(method, library):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 60)), np.arange(40) % 4
    X[8] = X[4]  # a copy within a class
    fit_both(method, library, X, y)


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**400])
def test_fit_is_accurate_at_any_scale(scale, library):
    X, y = digits()
    device_model = MPDA(5, units="relative").fit(library(scale * X), y)
    assert angle(scale * device_model.components_, MPDA(5).fit(X, y).components_) < 1e-6


@pytest.mark.parametrize("case", ["iterative", "sparse", "range"])
def test_tangent_blocks_too_large_for_a_dense_factor(case, library, monkeypatch):
    X, y = digits()
    X, y = X[y < 3], y[y < 3]
    method = MPDA(4, tangent_alpha=0.0 if case == "range" else None)
    host_model = clone(method).fit(X, y)
    # Tangent blocks above the limit take seconds on the host, so the limits are lowered.
    monkeypatch.setattr(schur_complement, "_DEVICE_DENSE_LIMIT", 0)
    if case != "iterative":
        monkeypatch.setattr(schur_complement, "_MAX_STEPS", 1)
    device_model = clone(method).fit(library(X), y)
    assert set(device_model.class_solvers_) <= {case, "dense"}
    assert library.holds(device_model.components_)
    assert angle(device_model.components_, host_model.components_) < 1e-6


def test_singular_tangent_block_is_solved_on_its_range(library):
    X, y = digits()
    X = np.repeat(X[y < 2], 2, axis=0)  # every sample twice
    y = np.repeat(y[y < 2], 2)
    models = fit_both(MPDA(1, gamma=0.0, tangent_alpha=0.0), library, X, y)
    np.testing.assert_array_equal(*(model.class_solvers_ for model in models))


def test_patches_may_come_from_the_user_or_a_clusterer(library):
    X, y = digits()
    patches = MPDA(4).fit(X, y).patch_labels_
    device_model, host_model = MPDA(4), MPDA(4)
    for rows in (y < 3, y > 2):
        device_patches = library(patches[rows])
        device_model.partial_fit(library(X[rows]), library(y[rows]), patches=device_patches)
        host_model.partial_fit(X[rows], y[rows], patches=patches[rows])
    assert angle(device_model.components_, host_model.components_) < 1e-6
    fit_both(MPDA(5, partition=KMeans(8, n_init=1, random_state=0)), library, X, y)


@pytest.mark.parametrize("kind", ["generic", "ties", "copies", "far from zero"])
def test_neighbors_from_gram_products_are_exact(kind, library, monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 6))
    if kind == "ties":
        X = rng.integers(0, 3, size=(150, 6)).astype(float)
    elif kind == "copies":
        X[50:] = X[rng.integers(0, 50, 100)]
    elif kind == "far from zero":
        X += 1e7
    expected = neighbor_lists.find_neighbors(neighbor_lists.ClassPoints(X), 7)
    # Few samples are searched without Gram products unless the limit is lowered.
    monkeypatch.setattr(neighbor_lists, "_DIRECT_SEARCH_LIMIT", 0)
    result = neighbor_lists.find_neighbors(neighbor_lists.ClassPoints(library(X)), 7)
    np.testing.assert_array_equal(to_host(result.indices), expected.indices)
    np.testing.assert_allclose(to_host(result.distances), expected.distances, rtol=1e-9)


@pytest.mark.slow
def test_large_class_is_partitioned_on_the_device(library):
    if library.module.__name__ == "array_api_strict":
        pytest.skip("array-api-strict takes minutes for a class of this size")
    rng = np.random.default_rng(3)
    angles = rng.uniform(0, 6, size=3000)
    y = (rng.uniform(size=3000) < 0.45).astype(int)
    X = np.column_stack([np.cos(angles), np.sin(angles), angles, 2.0 * y])
    X = np.column_stack([X, np.zeros((3000, 6))]) + 0.05 * rng.normal(size=(3000, 10))
    device_model, host_model = fit_both(MPDA(3), library, X, y)
    labels = to_host(device_model.patch_labels_)
    np.testing.assert_array_equal(labels, host_model.patch_labels_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X * 0.0, y), "All samples of X are identical"),
        (lambda X, y: (X, y * 0), "y has only 1 class"),
        (lambda X, y: (np.where(X > 15, np.nan, X), y), "NaN"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X[:, 0], y), "Expected 2D array"),
        (lambda X, y: (X, np.linspace(0, 1, len(y))), "continuous"),
        (lambda X, y: (X + 1j * X, y), "Complex data not supported"),
        (lambda X, y: (X[:, 20:21], y), "n_components=2 is more than there is"),
    ],
)
@pytest.mark.parametrize("method", [MPDA(2), LFDA(2, alpha=0.1)], ids=repr)
def test_invalid_input_is_rejected(method, change, message, library):
    X, y = change(*digits())
    with pytest.raises(ValueError, match=message):
        clone(method).fit(library(X), y)


ON_DEVICES = {"MPDA", "PMPDA", "LFDA", "GramPCA", "NeighborhoodRefinement"}
ON_DEVICES.add("WithinClassWhitening")
OTHERS = [
    getattr(mpda, name)()
    for name in mpda.__all__
    if hasattr(getattr(mpda, name), "fit") and name not in ON_DEVICES
]


@pytest.mark.parametrize("method", [*OTHERS, DiscriminantSearchCV(MPDA())], ids=repr)
def test_methods_for_numpy_reject_device_arrays(method, library):
    X, y = digits()
    with pytest.raises(TypeError, match=f"{type(method).__name__} works on NumPy arrays"):
        clone(method).fit(library(X), y)


def test_numpy_arrays_need_no_array_api_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)  # an import would fail
    X, y = digits()
    for method in (MPDA(2), PMPDA(2, n_neighbors=6), LFDA(2, alpha=0.1), GramPCA(2)):
        assert isinstance(clone(method).fit(X, y).transform(X), np.ndarray)


def test_without_dispatch_the_result_is_numpy():
    torch = pytest.importorskip("torch")
    X, y = digits()
    model = MPDA(3).fit(torch.asarray(X), torch.asarray(y))
    assert isinstance(model.components_, np.ndarray)
    assert isinstance(model.transform(torch.asarray(X)), np.ndarray)


def test_accelerator_arrays_without_dispatch_are_rejected(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    X, y = digits()
    # The machine of the tests may have no accelerator.
    monkeypatch.setattr("mpda._lib.arrays.is_on_accelerator", lambda X: True)
    with pytest.raises(TypeError, match=r"set_config\(array_api_dispatch=True\)"):
        MPDA(3).fit(strict.asarray(X), y)


def test_devices_without_double_precision_are_rejected(library, monkeypatch):
    X, y = digits()
    # The libraries of the tests have double precision on every device.
    monkeypatch.setattr("mpda._lib.arrays.has_double_precision", lambda X: False)
    for method in (MPDA(3), LFDA(3), GramPCA(3)):
        with pytest.raises(TypeError, match="computes in double precision, which"):
            method.fit(library(X), y)
