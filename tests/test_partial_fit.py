"""Classes that are added in several calls: the fit equals one fit to all samples."""

import pickle

import numpy as np
import pytest
from joblib import Memory
from sklearn.base import clone
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import MPDA, PMPDA

both_methods = pytest.mark.parametrize("method", [MPDA, PMPDA])


def samples(n=60, d=6, n_classes=5):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n_classes, d))[y] + 0.5 * rng.normal(size=(n, d)), y


def add_classes(model, X, y, *masks):
    """Call partial_fit once for every mask of samples."""
    for mask in masks:
        model.partial_fit(X[mask], y[mask])
    return model


@both_methods
@pytest.mark.parametrize("units", ["absolute", "relative"])
@pytest.mark.parametrize("tangent_alpha", [None, 0.3])
@pytest.mark.parametrize("shape", [(120, 6), (20, 40)])  # more and fewer samples than features
def test_added_classes_give_one_fit_to_all_samples(method, units, tangent_alpha, shape):
    X, y = samples(*shape)
    model = method(3, n_neighbors=2, units=units, tangent_alpha=tangent_alpha)
    single = clone(model)
    strengths = add_classes(model, X, y, y < 2).strengths_
    add_classes(model, X, y, y == 4, y == 2, y == 3)
    if units == "relative":  # the units of the first call remain
        assert model.strengths_ == pytest.approx(strengths, rel=1e-12)
        beta = None if tangent_alpha is None else strengths["beta"]
        single.set_params(units="absolute", tangent_alpha=beta)
        single.set_params(gamma=strengths["gamma"], alpha=strengths["alpha"])
    single.fit(X, y)
    np.testing.assert_allclose(model.components_, single.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_, single.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.mean_, single.mean_, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(model.classes_, single.classes_)
    np.testing.assert_array_equal(model.class_solvers_, single.class_solvers_)
    assert model.residual_ < 1e-8


@pytest.mark.parametrize("factor", [2.0**40, 2.0**-40, 0.125])
def test_later_classes_may_have_another_scale(factor):
    X, y = samples()
    X[y > 1] *= factor
    model = MPDA(2, units="absolute", gamma=0.1, alpha=1.0, n_neighbors=4)
    single = clone(model).fit(X, y)
    model.fit(X[y < 2], y[y < 2])  # instead of a first call of partial_fit
    add_classes(model, X, y, y > 1)
    np.testing.assert_allclose(model.components_, single.components_, rtol=1e-5)
    with pytest.raises(ValueError, match="call fit with all samples"):
        model.partial_fit(2.0**520 * X, y + 10)


def test_a_class_of_zeros_does_not_change_the_scale():
    X, y = samples()
    X = np.vstack([1e-180 * X, np.zeros((6, 6))])
    y = np.append(y, np.full(6, 9))
    model = MPDA(2, units="absolute", gamma=0.0, alpha=1e-300, n_neighbors=4)
    single = clone(model).fit(X, y)
    add_classes(model, X, y, y < 9, y == 9)
    np.testing.assert_allclose(model.components_, single.components_, rtol=1e-6)


def test_patches_are_labelled_in_the_order_of_the_calls():
    X, y = samples(200)
    model = add_classes(MPDA(2, n_neighbors=4), X, y, y > 1, y < 2)
    order = np.argsort(y < 2, kind="stable")
    n_patches = model.patch_labels_.max() + 1
    for name in ("patch_classes_", "patch_linearity_", "tangent_dimensions_"):
        assert getattr(model, name).shape == (n_patches,)
    np.testing.assert_array_equal(model.patch_classes_[model.patch_labels_], y[order])
    single = MPDA(2, n_neighbors=4).fit(X[order], y[order])
    pairs = np.column_stack([model.patch_labels_, single.patch_labels_])
    assert len(np.unique(pairs, axis=0)) == n_patches == len(single.patch_classes_)


def test_patches_of_the_user_are_passed_with_their_classes():
    X, y = samples(40)
    patches = np.arange(40) % 3 + 3 * y
    model = MPDA(2, n_neighbors=4, units="absolute")
    single = clone(model).fit(X, y, patches=patches)
    for mask in (y < 2, y > 1):
        model.partial_fit(X[mask], y[mask], patches=patches[mask])
    np.testing.assert_allclose(model.components_, single.components_, rtol=1e-6)


@both_methods
def test_a_class_cannot_be_extended_but_a_call_can_be_repeated(method):
    X, y = samples()
    model = method(n_neighbors=4).fit(X[y < 3], y[y < 3])
    before = model.components_.copy()
    assert model.partial_fit(X[y < 2], y[y < 2]) is model
    with pytest.raises(ValueError, match=r"classes of an earlier call: \[1, 2\].*in one call"):
        model.partial_fit(X[y > 0][5:], y[y > 0][5:])
    with pytest.raises(ValueError, match="classes of an earlier call"):
        model.partial_fit(X[y > 1], y[y > 1])  # class 2 is repeated, 3 and 4 are new
    np.testing.assert_array_equal(model.components_, before)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    # A third call knows the classes of the first and of the second.
    model.partial_fit(X[y == 3], y[y == 3])
    for label in (0, 3):
        with pytest.raises(ValueError, match=rf"classes of an earlier call: \[{label}\]"):
            model.partial_fit(X[y == label][5:], y[y == label][5:])
    before = model.components_.copy()
    model.partial_fit(X[y == 3], y[y == 3])
    np.testing.assert_array_equal(model.components_, before)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("first", "later"), [("i8", "u8"), ("?", "i8"), ("i8", "f8"), ("U3", "i8"), ("i8", "U3")]
)
def test_labels_of_another_type_are_rejected(first, later):
    X, y = samples()
    model = MPDA(2, n_neighbors=4).fit(X[y < 2], y[y < 2].astype(first))
    with pytest.raises(TypeError, match="one kind"):
        model.partial_fit(X[y == 4], y[y == 4].astype(later))


def test_small_unsigned_labels_may_follow_signed_ones():
    X, y = samples()
    model = MPDA(2, n_neighbors=4).fit(X[y < 2], y[y < 2])
    model.partial_fit(X[y == 4], y[y == 4].astype(np.uint8))
    assert model.classes_.tolist() == [0, 1, 4]


def test_invalid_calls_are_rejected():
    X, y = samples()
    model = MPDA(2, n_neighbors=4)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.partial_fit(X[y == 0], y[y == 0])
    with pytest.raises(NotFittedError):
        model.transform(X)
    add_classes(model, X, y, y < 2)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[y == 2][:, :-1], y[y == 2])
    for parameters in ({"gamma": 3.0}, {"max_patch_size": 3}):
        changed = pickle.loads(pickle.dumps(model)).set_params(**parameters)
        with pytest.raises(ValueError, match="other parameters"):
            add_classes(changed, X, y, y == 2)
    model.set_params(n_components=3, eigenvalue_power=0.5)
    assert add_classes(model, X, y, y == 2).components_.shape == (3, 6)


def test_pickled_model_can_be_extended_and_fit_starts_again():
    X, y = samples()
    first = PMPDA(2, n_neighbors=4).fit(X[y < 3], y[y < 3])
    before = first.components_.copy()
    models = [add_classes(m, X, y, y > 2) for m in (pickle.loads(pickle.dumps(first)), first)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    first.fit(X[y < 3], y[y < 3])
    np.testing.assert_array_equal(first.classes_, [0, 1, 2])
    np.testing.assert_array_equal(first.components_, before)


def test_double_precision_replaces_single_precision():
    X, y = samples()
    X32 = X.astype(np.float32)
    model = add_classes(MPDA(2, n_neighbors=4), X32, y, y < 3, y == 3)
    assert model.components_.dtype == np.float32
    assert add_classes(model, X, y, y == 4).components_.dtype == np.float64


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
def test_classes_of_one_sample_or_identical_samples_can_be_added():
    X, y = samples()
    X = np.vstack([X, X[:1] + 1.0, np.repeat(X[1:2] - 1.0, 4, axis=0)])
    y = np.append(y, [-2, -1, -1, -1, -1])
    model = MPDA(2, n_neighbors=4, units="absolute")
    single = clone(model).fit(X, y)
    add_classes(model, X, y, y >= 0, y < 0)
    np.testing.assert_allclose(model.components_, single.components_, rtol=1e-6)
    # Attributes of classes are in the order of classes_, not in that of the calls.
    assert model.class_solvers_ == single.class_solvers_ == ["none", "none", *["dense"] * 5]


@both_methods
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_may_be_a_memory_map(method, tmp_path, dtype):
    X, y = samples(150)
    X = X.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    plain, model = (method(n_neighbors=4).fit(data, y) for data in (X, mapped))
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert model.components_.dtype == dtype
    np.testing.assert_array_equal(model.transform(mapped), plain.transform(X))


def test_a_clusterer_with_other_parameters_is_noticed():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    seed = np.random.RandomState(0)
    model = MPDA(partition=KMeans(3, n_init=1, random_state=seed))
    model.partial_fit(X[y < 2], y[y < 2]).set_params(partition__n_clusters=9)
    with pytest.raises(ValueError, match="computed with other parameters"):
        model.partial_fit(X[y == 2], y[y == 2])
    model = MPDA(partition=KMeans(3, n_init=1))
    first = model.summarize(X[y == 0], y[y == 0])
    second = model.set_params(partition__n_clusters=9).summarize(X[y == 1], y[y == 1])
    with pytest.raises(ValueError, match="parameters"):
        first + second


@pytest.mark.parametrize(
    "clusterer",
    [
        KMeans(3, n_init=1, random_state=np.random.RandomState(0)),
        make_pipeline(StandardScaler(), KMeans(3, n_init=1)),
        DBSCAN(0.5, metric="mahalanobis", metric_params={"VI": np.eye(4)}, algorithm="brute"),
        DBSCAN(0.5, metric=lambda a, b: np.abs(a - b).sum()),
        AgglomerativeClustering(3, memory=Memory(None)),
    ],
    ids=lambda clusterer: type(clusterer).__name__,
)
def test_classes_are_added_with_an_unchanged_clusterer(clusterer):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    model = MPDA(n_neighbors=5, partition=clusterer)
    model.partial_fit(X[y < 2], y[y < 2]).partial_fit(X[y == 2], y[y == 2])
    assert model.classes_.tolist() == [0, 1, 2]
