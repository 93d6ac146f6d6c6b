"""Classes that come in several calls: the answer is that of one fit on all of them."""

import pickle

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from mpda import MPDA, PMPDA

METHODS = [MPDA(n_neighbors=4), PMPDA(n_neighbors=4)]
ids = ["MPDA", "PMPDA"]


def angle(one, other):
    return subspace_angles(one.components_.T, other.components_.T).max()


def generated(n=60, d=6, n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n_classes, d))[y] + 0.5 * rng.normal(size=(n, d)), y


@pytest.mark.parametrize("method", METHODS, ids=ids)
@pytest.mark.parametrize("units", ["absolute", "relative"])
@pytest.mark.parametrize("tangent_alpha", [None, 0.3])
@pytest.mark.parametrize("shape", [(120, 6), (20, 40)])  # more and fewer samples than features
def test_the_answer_is_that_of_one_fit(method, units, tangent_alpha, shape):
    X, y = generated(*shape)
    model = clone(method).set_params(
        units=units, tangent_alpha=tangent_alpha, n_components=3, n_neighbors=2
    )
    whole = clone(model)
    first = y < 2
    model.partial_fit(X[first], y[first])
    units_found = model.units_
    for c in (4, 2, 3):
        model.partial_fit(X[y == c], y[y == c])
    if units == "relative":
        assert model.units_ == pytest.approx(units_found, rel=1e-14)
        beta = None if tangent_alpha is None else units_found["beta"]
        whole.set_params(
            units="absolute",
            gamma=units_found["gamma"],
            alpha=units_found["alpha"],
            tangent_alpha=beta,
        )
    whole.fit(X, y)
    np.testing.assert_allclose(model.components_, whole.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.mean_, whole.mean_, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(model.classes_, whole.classes_)
    np.testing.assert_array_equal(model.class_solvers_, whole.class_solvers_)
    assert model.residual_ < 1e-8


def test_digits_class_by_class():
    X, y = load_digits(return_X_y=True)
    model = MPDA(10, units="absolute", gamma=100.0, alpha=1e4)
    whole = clone(model).fit(X, y)
    model.fit(X[y < 2], y[y < 2])  # a fit can be added to like a first call
    for c in range(2, 10):
        model.partial_fit(X[y == c], y[y == c])
    assert angle(model, whole) < 1e-6
    np.testing.assert_allclose(model.transform(X), whole.transform(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("factor", [2.0**40, 2.0**-40, 8.0, 0.125])
def test_later_classes_may_be_of_another_scale(factor):
    X, y = generated()
    X[y > 1] *= factor
    parameters = {"units": "absolute", "gamma": 0.1, "alpha": 1.0, "n_neighbors": 4}
    model = MPDA(2, **parameters).fit(X[y < 2], y[y < 2])
    model.partial_fit(X[y > 1], y[y > 1])
    whole = MPDA(2, **parameters).fit(X, y)
    np.testing.assert_allclose(model.components_, whole.components_, rtol=1e-5)


def test_later_classes_that_are_far_too_large_are_refused():
    X, y = generated()
    model = MPDA(2, n_neighbors=4).fit(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="call fit with all samples"):
        model.partial_fit(2.0**520 * X[y > 1], y[y > 1])


def test_patches_are_those_of_all_samples_in_the_order_of_the_calls():
    X, y = generated(200)
    model = MPDA(2, n_neighbors=4).partial_fit(X[y > 1], y[y > 1]).partial_fit(X[y < 2], y[y < 2])
    order = np.concatenate([np.flatnonzero(y > 1), np.flatnonzero(y < 2)])
    assert model.patch_labels_.shape == (200,)
    n_patches = model.patch_labels_.max() + 1
    assert model.patch_classes_.shape == model.patch_linearity_.shape == (n_patches,)
    assert model.tangent_dimensions_.shape == (n_patches,)
    np.testing.assert_array_equal(model.patch_classes_[model.patch_labels_], y[order])
    whole = MPDA(2, n_neighbors=4).fit(X[order], y[order])
    for patch in range(n_patches):
        members = np.flatnonzero(model.patch_labels_ == patch)
        assert np.unique(whole.patch_labels_[members]).size == 1


def test_known_patches_come_with_their_classes():
    X, y = generated(40)
    patches = np.arange(40) % 3 + 3 * y
    later = y > 1
    model = MPDA(2, n_neighbors=4, units="absolute").fit(
        X[~later], y[~later], patches=patches[~later]
    )
    model.partial_fit(X[later], y[later], patches=patches[later])
    whole = MPDA(2, n_neighbors=4, units="absolute").fit(X, y, patches=patches)
    np.testing.assert_allclose(model.components_, whole.components_, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS, ids=ids)
def test_a_class_cannot_come_in_pieces(method):
    X, y = generated()
    model = clone(method).fit(X[y < 3], y[y < 3])
    before = model.components_.copy()
    with pytest.raises(ValueError, match=r"classes of an earlier call: \[1, 2\].*in one call"):
        model.partial_fit(X[y > 0][5:], y[y > 0][5:])
    np.testing.assert_array_equal(model.components_, before)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


@pytest.mark.parametrize("method", METHODS, ids=ids)
def test_a_call_with_equal_samples_changes_nothing(method):
    X, y = generated()
    model = clone(method).fit(X[y < 3], y[y < 3])
    before = model.components_.copy()
    assert model.partial_fit(X[y < 2], y[y < 2]) is model
    np.testing.assert_array_equal(model.components_, before)
    with pytest.raises(ValueError, match="classes of an earlier call"):
        model.partial_fit(X[y > 1], y[y > 1])  # class 2 again, and 3 and 4


def test_a_class_of_zeros_does_not_change_the_scale():
    X, y = generated()
    X *= 1e-180
    parameters = {"units": "absolute", "gamma": 0.0, "alpha": 1e-300, "n_neighbors": 4}
    model = MPDA(2, **parameters).fit(X, y)
    model.partial_fit(np.zeros((6, X.shape[1])), np.full(6, 9))
    whole = MPDA(2, **parameters).fit(
        np.vstack([X, np.zeros((6, X.shape[1]))]), np.concatenate([y, np.full(6, 9)])
    )
    np.testing.assert_allclose(model.components_, whole.components_, rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "later"),
    [("i8", "u8"), ("?", "i8"), ("i8", "f8"), ("U3", "i8")],
)
def test_labels_of_another_kind_are_refused(first, later):
    X, y = generated()
    names = y.astype(first) if first != "?" else y > 0
    early = y < 2
    model = MPDA(2, n_neighbors=4).fit(X[early], names[early])
    with pytest.raises(TypeError, match="one kind"):
        model.partial_fit(X[y == 4], y[y == 4].astype(later))


def test_small_unsigned_labels_may_come_after_signed_ones():
    X, y = generated()
    early = y < 2
    model = MPDA(2, n_neighbors=4).fit(X[early], y[early])
    model.partial_fit(X[y == 4], y[y == 4].astype(np.uint8))
    assert model.classes_.tolist() == [0, 1, 4]


def test_what_cannot_be_added_is_refused_with_its_cause():
    X, y = generated()
    model = MPDA(2, n_neighbors=4)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.partial_fit(X[y == 0], y[y == 0])
    with pytest.raises(NotFittedError):
        model.transform(X)
    model.partial_fit(X[y < 2], y[y < 2])
    later = y == 2
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[later][:, :-1], y[later])
    with pytest.raises(TypeError, match="one kind"):
        model.partial_fit(X[later], np.full(later.sum(), "two"))
    with pytest.raises(ValueError, match="other parameters"):
        clone_of(model).set_params(gamma=3.0).partial_fit(X[later], y[later])
    with pytest.raises(ValueError, match="other parameters"):
        clone_of(model).set_params(max_patch_size=3).partial_fit(X[later], y[later])
    model.set_params(n_components=3, eigenvalue_power=0.5).partial_fit(X[later], y[later])
    assert model.components_.shape == (3, X.shape[1])


def clone_of(model):
    return pickle.loads(pickle.dumps(model))


def test_a_saved_model_can_be_added_to():
    X, y = generated()
    model = PMPDA(2, n_neighbors=4).fit(X[y < 3], y[y < 3])
    again = clone_of(model)
    for each in (model, again):
        each.partial_fit(X[y > 2], y[y > 2])
    np.testing.assert_array_equal(model.components_, again.components_)


def test_fit_begins_anew():
    X, y = generated()
    model = MPDA(2, n_neighbors=4).fit(X[y < 3], y[y < 3]).partial_fit(X[y > 2], y[y > 2])
    model.fit(X[y < 3], y[y < 3])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    fresh = MPDA(2, n_neighbors=4).fit(X[y < 3], y[y < 3])
    np.testing.assert_array_equal(model.components_, fresh.components_)
    assert model.patch_labels_.shape == fresh.patch_labels_.shape


def test_single_precision_stays_and_double_is_kept():
    X, y = generated()
    X32 = X.astype(np.float32)
    model = MPDA(2, n_neighbors=4).fit(X32[y < 3], y[y < 3])
    assert model.partial_fit(X32[y == 3], y[y == 3]).components_.dtype == np.float32
    assert model.partial_fit(X[y == 4], y[y == 4]).components_.dtype == np.float64


def test_classes_of_one_sample_and_of_one_point_can_be_added():
    X, y = generated()
    model = MPDA(2, n_neighbors=4, units="absolute").fit(X, y)
    extra = np.vstack([X[:1] + 1.0, np.repeat(X[1:2] - 1.0, 4, axis=0)])
    labels = np.array([-2, -1, -1, -1, -1])
    with pytest.warns(UserWarning, match="n_neighbors=4 is cut"):
        model.partial_fit(extra, labels)
    with pytest.warns(UserWarning, match="n_neighbors=4 is cut"):
        whole = clone(model).fit(np.vstack([X, extra]), np.concatenate([y, labels]))
    np.testing.assert_allclose(model.components_, whole.components_, rtol=1e-6)
    # What is said of classes is said in their order, not in that of the calls.
    assert model.class_solvers_ == whole.class_solvers_ == ["none", "none", *["dense"] * 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_may_be_a_memory_map(tmp_path, dtype):
    X, y = generated(150)
    X = X.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    for method in METHODS:
        plain = clone(method).fit(X, y)
        model = clone(method).fit(mapped, y)
        np.testing.assert_array_equal(model.components_, plain.components_)
        assert model.components_.dtype == dtype
        np.testing.assert_array_equal(model.transform(mapped), plain.transform(X))
