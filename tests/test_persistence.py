"""Model files: what comes back is what was saved, and what cannot be saved is named."""

import io
import json
import os
import zipfile

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    StandardScaler,
)

import mpda
from model_cases import (
    FEW,
    MODELS,
    NAMES,
    OURS,
    X,
    Y,
    deep_list,
    each_model,
    fitted,
    refuse_difference,
    saved,
)
from mpda.io.models import _classes, header, load, save
from mpda.model_selection import DiscriminantSearchCV


@each_model
def test_a_model_comes_back_in_every_bit(model, tmp_path):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcde"))
    model = fitted(model, frame)
    loaded = load(saved(model, tmp_path))
    refuse_difference(model, loaded)
    assert repr(loaded) == repr(model)
    refuse_difference(answers(model, frame + 0.1), answers(loaded, frame + 0.1))
    if getattr(loaded, "steps", [[0, 0]])[0][1] != "passthrough" and getattr(model, "refit", True):
        assert loaded.feature_names_in_.tolist() == list("abcde")


def answers(model, X):
    """All that a model says of samples; the mapped ones first."""
    if not getattr(model, "refit", True):
        return {}
    found = {}
    if hasattr(model, "transform") and getattr(model, "solver", "") != "lsqr":
        found["transform"] = model.transform(X)
        found["names"] = model.get_feature_names_out()
        if hasattr(model, "inverse_transform"):
            found["back"] = model.inverse_transform(np.asarray(found["transform"]))
    for name in ("predict", "predict_proba", "kneighbors"):
        if hasattr(model, name):
            found[name] = getattr(model, name)(X)
    assert found or isinstance(model, mpda.ManifoldPartition)
    return found


@each_model
def test_a_loaded_model_is_saved_to_the_same_bytes(model, tmp_path):
    path = saved(fitted(model), tmp_path)
    before = path.read_bytes()
    save(load(path), path)
    assert path.read_bytes() == before


@each_model
def test_a_model_that_is_not_fitted_comes_back(model, tmp_path):
    loaded = load(saved(model, tmp_path))
    assert repr(loaded) == repr(model)
    refuse_difference(model, loaded)
    fitted(loaded)


@each_model
def test_single_precision_stays(model, tmp_path):
    model = fitted(model, X.astype(np.float32))
    loaded = load(saved(model, tmp_path))
    refuse_difference(model, loaded)
    single = X.astype(np.float32)
    refuse_difference(answers(model, single), answers(loaded, single))
    if isinstance(model, tuple(OURS)) and hasattr(model, "components_"):
        assert loaded.components_.dtype == np.float32


def test_all_public_estimators_are_on_the_list():
    assert {f"mpda:{kind.__name__}" for kind in OURS} < set(_classes.ESTIMATORS)
    assert {type(model) for model in MODELS} == set(map(_classes.named, _classes.ESTIMATORS))


@pytest.mark.parametrize("path", _classes.UNFITTED)
def test_what_parameters_may_hold(path, tmp_path):
    kind = _classes.named(path)
    value = kind(n_components=3) if "Mixture" in path else kind()
    model = mpda.MPDA(partition=value)
    refuse_difference(model, load(saved(model, tmp_path)))


@pytest.mark.parametrize("labels", [Y, Y > 0, Y.astype(float), NAMES[Y], NAMES.astype(object)[Y]])
def test_labels_of_every_kind(labels, tmp_path):
    for model in (mpda.MPDA(2, n_neighbors=4), DiscriminantSearchCV(mpda.LFDA(), FEW, cv=3)):
        model = fitted(model, X, labels)
        refuse_difference(model, load(saved(model, tmp_path)))


@pytest.mark.parametrize("kind", [mpda.MPDA, mpda.PMPDA])
@pytest.mark.parametrize("features", [5, 70])  # fewer and more than samples
def test_classes_can_be_added_after_loading(kind, features, tmp_path):
    rng = np.random.default_rng(0)
    wide = X @ rng.normal(size=(5, features)) + 0.1 * rng.normal(size=(len(X), features))
    first = Y < 2
    model = kind(2, n_neighbors=3).fit(wide[first], NAMES[Y[first]])
    loaded = load(saved(model, tmp_path))
    for each in (model, loaded):
        each.partial_fit(wide[~first], NAMES[Y[~first]])
        each.partial_fit(wide[first], NAMES[Y[first]])  # which have been seen
    refuse_difference(model, loaded)


def test_containers_are_set_after_loading_and_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    model = fitted(mpda.LFDA(2, n_neighbors=4))
    loaded = load(saved(model, tmp_path)).set_output(transform="pandas")
    assert list(loaded.transform(X).columns) == ["lfda0", "lfda1"]
    again = load(saved(loaded, tmp_path))
    assert isinstance(again.transform(X), pandas.DataFrame)


def test_arrays_of_other_libraries_become_numpys(library, tmp_path):
    for model in (mpda.MPDA(2, n_neighbors=4), mpda.GramPCA(2)):
        model = clone(model).fit(library(X), Y)
        loaded = load(saved(model, tmp_path))
        assert type(loaded.components_) is np.ndarray
        mapped = loaded.transform(X)
        np.testing.assert_allclose(mapped, fitted(model, X, Y).transform(X), rtol=1e-8, atol=1e-9)
        if hasattr(loaded, "partial_fit"):
            loaded.partial_fit(X + 9.0, Y + 3)
            assert loaded.classes_.tolist() == [0, 1, 2, 3, 4, 5]


LAID_OUT = {
    "C": np.arange(12.0).reshape(3, 4),
    "F": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "columns of a matrix": np.arange(40.0).reshape(4, 10)[:, 2:5],
    "transposed columns": np.arange(40.0).reshape(4, 10)[:, 2:5].T,
    "every other": np.arange(20.0)[::2],
    "every other both ways": np.arange(64.0).reshape(8, 8)[::2, ::2],
    "far apart": np.arange(3000.0)[::1000],
    "backwards": np.arange(5.0)[::-1],
    "backwards both ways": np.arange(12.0).reshape(3, 4)[::-1, ::-1],
    "one row, far": np.arange(40.0).reshape(4, 10)[:1, ::3],
    "repeated": np.broadcast_to(np.arange(3.0), (2, 3)),
    "three axes": np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1),
    "some of three axes": np.arange(240.0).reshape(4, 6, 10)[:, ::2, 1:4],
    "none": np.zeros((0, 3)),
    "a number": np.array(3.5),
    "big-endian": np.arange(3, dtype=">i4"),
    "strings": np.array([["ä", "bc"], ["", "日本"]]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    "complex": np.array([1j, -0.0]),
    "truth": np.array([True, False]),
    "half": np.arange(3, dtype=np.float16),
    "unsigned": np.array([2**64 - 1], dtype=np.uint64),
}


@pytest.mark.parametrize("array", LAID_OUT.values(), ids=LAID_OUT.keys())
def test_arrays_come_back_as_they_lie(array, tmp_path):
    scaler = StandardScaler()
    scaler.mean_ = array
    path = saved(scaler, tmp_path)
    found = load(path).mean_
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable
    if array.ndim <= 2:  # gaps of more axes are closed
        assert found.flags.c_contiguous == array.flags.c_contiguous
    assert found.flags.f_contiguous == array.flags.f_contiguous
    if array.ndim == 2 and 0 not in array.strides and array.size:
        assert np.sign(found.strides).tolist() == np.sign(array.strides).tolist()
        steps, true_steps = np.abs(found.strides), np.abs(array.strides)
        assert (steps[0] > steps[1]) == (true_steps[0] > true_steps[1])
        has_unit = (true_steps == array.itemsize).tolist()
        assert (steps == array.itemsize).tolist() == has_unit
    # A gap is kept, but not how large it is.
    assert path.stat().st_size < 2000


def test_members_are_files_that_numpy_reads(tmp_path):
    for array in LAID_OUT.values():
        scaler = StandardScaler()
        scaler.mean_ = array
        with zipfile.ZipFile(saved(scaler, tmp_path)) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["header.json", "header.sha256", "0.npy"]
            assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_STORED}
            content = archive.read("0.npy")
        found = np.load(io.BytesIO(content), allow_pickle=False)
        np.testing.assert_array_equal(found, array)
        if array.flags.f_contiguous:  # as it is, without a copy
            assert found.flags.f_contiguous


PLAIN = {
    "none": None,
    "truth": [True, False],
    "integers": [0, -1, 2**62, 2**63, -(2**200), 10**5000],
    "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3, np.inf, -np.inf, np.nan],
    "strings": ["", "ä日本", "\ud800", 'a"b\\c\n\x00', "tuple"],
    "bytes": [b"", b"\x00\xff"],
    "nested": [(1, [2, (3.5, {"a": ()})]), [], {}],
    "dict": {"array": 0, "estimator": {"class": "os:system"}, "": 1},
    "dict with keys of all kinds": {1: "a", "1": "b", None: 2, (1, "x"): 3, 2.5: b"4", False: 5},
    "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("ä"), np.float64("nan")],
    "objects": np.array([["a", 1], [None, 2.5]], dtype=object),
    "lists as objects": np.array([[1, 2], None, (3,)], dtype=object),
    "masked": np.ma.MaskedArray([1.0, 2.0], [True, False]),
    "masked nothing": np.ma.MaskedArray([1.0, 2.0]),
    "masked objects": np.ma.MaskedArray(np.array(["a", None], dtype=object), [False, True]),
}


@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN.keys())
def test_values_come_back(value, tmp_path):
    scaler = StandardScaler()
    scaler.kept_ = value
    refuse_difference(value, load(saved(scaler, tmp_path)).kept_)


def test_header(tmp_path):
    notes = {"when": "2026-11-15", "error": 0.03, "classes": ["a", None], "more": {"n": 1}}
    model = make_pipeline(
        StandardScaler(),
        mpda.MPDA(
            2, n_neighbors=4, partition=KMeans(2), tangent_alpha=np.inf, gamma=np.float64(0.1)
        ),
    )
    shown = header(saved(model, tmp_path, notes=notes))
    assert list(shown) == ["format", "version", "class", "versions", "parameters", "notes"]
    assert (shown["format"], shown["version"]) == ("mpda model", 1)
    assert shown["class"] == "sklearn.pipeline:Pipeline"
    assert shown["notes"] == notes
    assert shown["versions"]["mpda"] == mpda.__version__
    assert shown["versions"]["numpy"] == np.__version__
    (_, scaler), (name, method) = shown["parameters"]["steps"]
    assert scaler["parameters"] == {"copy": True, "with_mean": True, "with_std": True}
    assert (name, method["class"]) == ("mpda", "mpda:MPDA")
    assert method["parameters"]["n_neighbors"] == 4
    assert method["parameters"]["tangent_alpha"] == "inf"
    assert method["parameters"]["gamma"] == 0.1
    assert method["parameters"]["partition"]["parameters"]["n_clusters"] == 2
    json.dumps(shown, allow_nan=False)
    assert header(saved(fitted(mpda.GramPCA(2)), tmp_path))["notes"] == {}


@pytest.mark.parametrize(
    "notes", [{"a": (1, 2)}, {1: 2}, {"a": np.nan}, {"a": {1}}, [1, 2], "text", {"a": np.ones(2)}]
)
def test_notes_that_json_would_change_are_refused(notes, tmp_path):
    with pytest.raises(TypeError, match=r"notes must be a mapping of values that JSON gives back"):
        saved(mpda.LFDA(), tmp_path, notes=notes)


class Derived(mpda.LFDA):
    pass


class Units(np.ndarray):
    pass


class Other(TransformerMixin, BaseEstimator):
    pass


def holding(value):
    model = StandardScaler()
    model.kept_ = value
    return model


with_name = StandardScaler()
with_name.comment = "mine"

REFUSED = [
    (Derived(), r"model must be an estimator of mpda.* got .*Derived"),
    (MaxAbsScaler(), r"model must be an estimator of mpda.*StandardScaler.*got .*MaxAbsScaler"),
    (KMeans(), r"model must be an estimator of mpda"),
    (3, "model must be an estimator of mpda"),
    (mpda.MPDA, "model must be an estimator of mpda"),
    (make_pipeline(MaxAbsScaler(), mpda.LFDA()), r"Pipeline\.steps\[0\]\[1\] is a .*MaxAbsScaler"),
    (make_pipeline(Other(), mpda.LFDA()), r"Pipeline\.steps\[0\]\[1\] is a .*Other"),
    (make_pipeline(mpda.LFDA(), memory="cache"), r"Pipeline\.memory must be None"),
    (
        mpda.GraphDiscriminant(lambda X, y: X @ X.T),
        r"GraphDiscriminant\.within is a function .*model files hold no code",
    ),
    (
        DiscriminantSearchCV(mpda.MPDA(), selection=max),
        r"DiscriminantSearchCV\.selection is a func",
    ),
    (mpda.MPDA(partition=KMeans(2).fit(X)), r"MPDA\.partition is a fitted KMeans"),
    (
        mpda.MPDA(partition=KMeans(2, random_state=np.random.RandomState(0))),
        r"MPDA\.partition\.random_state is a random generator.* set an integer",
    ),
    (KNeighborsClassifier(metric=max), r"KNeighborsClassifier\.metric is a function"),
    (holding({1, 2}), r"StandardScaler\.kept_ is a builtins\.set"),
    (holding([1, {"a": 3j}]), r"StandardScaler\.kept_\[1\]\['a'\] is a builtins\.complex"),
    (holding(np.zeros(2, dtype="f8,i4")), r"StandardScaler\.kept_ is an array of \[\('f0'"),
    (holding(np.array([{1}], dtype=object)), r"StandardScaler\.kept_\.flat\[0\] is a builtins.set"),
    (holding(X.view(Units)), r"StandardScaler\.kept_ is a .*Units: give a plain array"),
    (holding(deep_list()), r"StandardScaler\.kept_\[0\].* is nested more than 40 deep"),
    (with_name, r"StandardScaler\.comment is no parameter of StandardScaler"),
]


@pytest.mark.parametrize(("model", "line"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_cannot_be_saved_is_named(model, line, tmp_path):
    path = tmp_path / "model.mpda"
    path.write_bytes(b"before")
    with pytest.raises(TypeError, match=line):
        save(model, path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["model.mpda"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    path = saved(fitted(mpda.GramPCA(2)), tmp_path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(fitted(mpda.GramPCA(3)), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.mpda"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_others_may_read_the_file_as_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    path = saved(mpda.GramPCA(), tmp_path)
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


# skops beside it.


@pytest.mark.parametrize(
    "model",
    [
        mpda.MPDA(2, n_neighbors=4),
        mpda.LFDA(2, n_neighbors=4),
        # With "auto" the classifier keeps a KDTree, which skops asks to be trusted by name.
        make_pipeline(
            StandardScaler(),
            mpda.MPDA(2, n_neighbors=4),
            KNeighborsClassifier(1, algorithm="brute"),
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_skops_keeps_models_too(model):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    model = fitted(model)
    content = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=content)
    assert all(name.split(".")[0] in ("mpda", "numpy") for name in unknown), unknown
    loaded = skops.loads(content, trusted=unknown)
    if hasattr(model, "transform"):
        np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
