"""Model files: what comes back is what was saved, and what is no model file is refused."""

import dataclasses
import inspect
import io
import json
import os
import pickle
import random
import zipfile
from hashlib import sha256

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

import mpda
from cases import bent_classes
from mpda.exceptions import ModelFileError, ModelVersionWarning
from mpda.model_selection import SCORES, DiscriminantSearchCV
from mpda.persistence import _archive, _classes, header, load, save
from mpda.selection import RULES

X, Y = bent_classes()
NAMES = np.array(["ash", "birch", "yew"])
FEW = {"n_neighbors": [4, 6], "alpha": [0.1, 1.0]}

OURS = [getattr(mpda, name) for name in mpda.__all__ if inspect.isclass(getattr(mpda, name))]
FEW_NEIGHBORS = {"n_neighbors": 4, "partition_neighbors": 4, "max_patch_size": 6}


def small(kind):
    """An estimator of a class with parameters that suit the samples here."""
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in FEW_NEIGHBORS.items() if name in known})


MODELS = [
    *map(small, OURS),
    mpda.MPDA(2, n_neighbors=4, partition=KMeans(3, n_init=1, random_state=0)),
    mpda.PMPDA(2, n_neighbors=3, affinity="full"),
    mpda.GramPCA(0.9),
    mpda.GraphDiscriminant("neighbors", "pairs", n_neighbors=4),
    DiscriminantSearchCV(mpda.LFDA(), FEW, cv=3),
    DiscriminantSearchCV(
        make_pipeline(StandardScaler(), mpda.MPDA(max_patch_size=5)),
        [{"n_neighbors": [4]}, {"n_neighbors": [5], "alpha": [0.1, np.inf][:1]}],
        cv=StratifiedKFold(3, shuffle=True, random_state=1),
        selection=RULES["pooled"],
        scoring=SCORES["f1_macro"],
    ),
    DiscriminantSearchCV(mpda.LFDA(), FEW, cv=3, refit=False),
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler((-1, 1)),
    RobustScaler(),
    Normalizer(),
    PCA(3),
    PCA(0.9, whiten=True, svd_solver="full"),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    LinearDiscriminantAnalysis(solver="lsqr"),
    NeighborhoodComponentsAnalysis(2, max_iter=3, random_state=0),
    KNeighborsClassifier(3, weights="distance"),
    KNeighborsClassifier(1, algorithm="ball_tree", metric="manhattan"),
    KNeighborsClassifier(1, algorithm="brute"),
    Nystroem(n_components=9, random_state=0),
    make_pipeline(StandardScaler(), PCA(4), mpda.MPDA(3, n_neighbors=4), KNeighborsClassifier(1)),
    Pipeline([("nothing", "passthrough"), ("map", mpda.LFDA(2, n_neighbors=4))]),
    make_pipeline(Nystroem(n_components=20, random_state=0), mpda.LFDA(2, n_neighbors=4)),
]
IDS = [f"{i}-{type(model).__name__}" for i, model in enumerate(MODELS)]
each_model = pytest.mark.parametrize("model", MODELS, ids=IDS)


def saved(model, tmp_path, **options):
    path = tmp_path / "model.mpda"
    save(model, path, **options)
    return path


def refuse_difference(one, other, where="model"):
    """Assert that two values are the same in every bit and in how arrays lie in memory."""
    assert type(one) is type(other), where
    if isinstance(one, np.ma.MaskedArray):
        refuse_difference(one.data, other.data, where)
        refuse_difference(np.asarray(one.mask), np.asarray(other.mask), where)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert one.shape == other.shape, where
        refuse_difference(one.ravel().tolist(), other.ravel().tolist(), where)
    elif isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
        assert one.flags.c_contiguous == other.flags.c_contiguous, where
        assert one.flags.f_contiguous == other.flags.f_contiguous, where
        assert np.sign(one.strides).tolist() == np.sign(other.strides).tolist(), where
        assert one.flags.writeable == other.flags.writeable, where
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            refuse_difference(*pair, f"{where}[{i}]")
    elif isinstance(one, dict):
        refuse_difference(list(one), list(other), where)
        for key in one:
            refuse_difference(one[key], other[key], f"{where}[{key!r}]")
    elif dataclasses.is_dataclass(one) or (hasattr(one, "__dict__") and not callable(one)):
        skipped = ("_tree", "random_state_")
        for name in {**vars(one), **vars(other)}:
            if name not in skipped:
                assert hasattr(one, name), f"{where}.{name}"
                assert hasattr(other, name), f"{where}.{name}"
                refuse_difference(getattr(one, name), getattr(other, name), f"{where}.{name}")
    else:
        assert one == other or (one != one and other != other), where


def fitted(model, X=X, y=NAMES[Y]):
    return clone(model).fit(X, y)


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


def deep_list(depth=100):
    found = []
    for _ in range(depth):
        found = [found]
    return found


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


# What is read.


@pytest.fixture
def file(tmp_path):
    """A small model file."""
    return saved(fitted(make_pipeline(mpda.GramPCA(2), KNeighborsClassifier(1))), tmp_path)


def with_header(path, change, arrays=lambda members: members):
    """The file with a header that was changed, and everything else made to agree with it."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    said = json.loads(members[0][1])
    said = change(said) or said
    text = said if isinstance(said, bytes) else json.dumps(said).encode("utf-8", "surrogatepass")
    checksum = f"{sha256(text).hexdigest()}\n".encode()
    members = [("header.json", text), ("header.sha256", checksum), *arrays(members[2:])]
    with path.open("wb") as out:
        _archive.write_archive(out, [(name, [content]) for name, content in members])
    return path


def test_no_byte_may_change(file):
    whole = file.read_bytes()
    chance = random.Random(0)
    load(file)
    assert len(whole) < 8000
    for place in range(0, len(whole), 9):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        with pytest.raises(ModelFileError, match=r"model\.mpda "):
            load(file)


def test_no_byte_may_be_missing_or_added(file):
    whole = file.read_bytes()
    chance = random.Random(1)
    for place in [*range(0, 100), *range(100, len(whole), 31), *range(len(whole) - 90, len(whole))]:
        file.write_bytes(whole[:place])
        with pytest.raises(ModelFileError):
            load(file)
    for _ in range(150):
        start, end = sorted(chance.randrange(len(whole) + 1) for _ in range(2))
        piece = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        changed = chance.choice(
            [
                whole[:start] + piece + whole[start:],
                whole[:start] + whole[end + 1 :],
                whole[:start] + whole[start : end + 1] * 2 + whole[end + 1 :],
                whole + piece,
                whole + whole,
                whole[end:] + whole[:end] if 0 < end < len(whole) else whole[1:],
            ]
        )
        file.write_bytes(changed)
        with pytest.raises(ModelFileError):
            load(file)


ODD = [
    *(None, True, -1, 0, 3, 10**30, 1e308, "", "x", "fit", "__class__", "<O8", "|V9", "<f8"),
    *(
        "os:system",
        "mpda:MPDA",
        "sklearn.pipeline:Pipeline",
        [],
        {},
        [[]],
        [0, 1],
        [10**12, 10**12],
    ),
    *({"tuple": []}, {"array": 0}, {"array": [0]}, {"int": "0x1"}, {"float": "inf"}, {"a": 1}),
    *({"estimator": {}}, {"record": {"class": "mpda.contributions:Plan", "fields": {}}}),
    *({"numpy": ["<f8", ""]}, {"bytes": "zz"}, {"items": [[[], 1]]}, {"masked": {"data": 1}}),
    {"function": ["mpda.selection:RULES", "robust"]},
    {"objects": {"shape": [3], "values": []}},
]


def nodes(said):
    """Every place in a value of JSON, as the container and the key."""
    items = said.items() if isinstance(said, dict) else enumerate(said)
    for key, value in items:
        yield said, key
        if isinstance(value, dict | list):
            yield from nodes(value)


def outcome(read, path):
    """Whether a file is read or refused; any other error is not caught."""
    try:
        read(path)
    except ModelFileError as error:
        refusal = str(error)
    except ModelVersionWarning as warning:
        refusal = str(warning)
    else:
        return "model"
    assert refusal.startswith(f"{path} ")
    assert "\n" not in refusal
    return "refusal"


def test_whatever_a_header_says_it_is_a_model_or_a_refusal(file):
    whole = file.read_bytes()
    chance = random.Random(2)
    outcomes = {"model": 0, "refusal": 0}
    for _ in range(400):

        def change(said):
            container, key = chance.choice(list(nodes(said)))
            action = chance.choice(["replace", "replace", "remove", "rename"])
            if action == "replace":
                container[key] = chance.choice(ODD)
            elif action == "remove":
                del container[key]
            elif isinstance(container, dict):
                container[chance.choice(["x", "fit", "_tree", "steps", "estimator"])] = (
                    container.pop(key)
                )

        file.write_bytes(whole)
        with_header(file, change)
        outcomes[outcome(load, file)] += 1
        outcome(header, file)
    assert min(outcomes.values()) > 30  # both happen


def estimator_of(said):
    return said["model"]["estimator"]


def step_of(said, number):
    return estimator_of(said)["parameters"]["steps"][number]["tuple"][1]["estimator"]


def changed_dtype(kind):
    def change(said):
        said["arrays"][0]["dtype"] = kind

    return change


def changed_shape(said):
    said["arrays"][0]["shape"][0] += 1


CRAFTED = {
    "newer": (lambda s: s.update(version=2), r"made by a newer mpda .*upgrade"),
    "format": (lambda s: s.update(format="other"), "no model file of mpda"),
    "class": (lambda s: s.update({"class": "os:system"}), "class that is not known: 'os:system'"),
    "class of a step": (
        lambda s: step_of(s, 0).update({"class": "builtins:eval"}),
        "class that is not known: 'builtins:eval'",
    ),
    "class that is no estimator": (
        lambda s: step_of(s, 0).update({"class": "mpda.trees:SplitTree"}),
        "class that is not known",
    ),
    "method": (
        lambda s: step_of(s, 0)["fitted"].update(transform=1),
        "sets 'transform', which no fit of GramPCA does",
    ),
    "dunder": (lambda s: step_of(s, 0)["fitted"].update(__class__=1), "sets '__class__'"),
    "class attribute": (lambda s: step_of(s, 0)["fitted"].update(_on_devices=1), "'_on_devices'"),
    "property": (lambda s: step_of(s, 0)["fitted"].update(_n_features_out=1), "'_n_features_out'"),
    "no name": (lambda s: step_of(s, 0)["fitted"].update({"a b_": 1}), "sets 'a b_'"),
    "tree": (lambda s: step_of(s, 1)["fitted"].update(_tree=None), "sets '_tree'"),
    "parameter too many": (
        lambda s: step_of(s, 0)["parameters"].update(callback=1),
        "sets 'callback', which is no parameter of GramPCA",
    ),
    "parameter too few": (
        lambda s: step_of(s, 0)["parameters"].pop("n_components") and None,
        "lacks the parameter n_components of GramPCA",
    ),
    "memory": (
        lambda s: estimator_of(s)["parameters"].update(memory="/tmp/cache"),
        "names a cache as memory",
    ),
    "objects": (changed_dtype("|O"), r"array of a kind that model files never have: \|O"),
    "objects of some size": (changed_dtype("|O8"), "array of a kind that model files never have"),
    "records": (changed_dtype("|V8"), "array of a kind that model files never have"),
    "other number": (changed_dtype("<i8"), "0.npy does not say what it holds"),
    "larger than the member": (changed_shape, "has not the size of its array"),
    "function": (
        lambda s: step_of(s, 0)["fitted"].update(a_={"function": ["os:environ", "HOME"]}),
        "names a function that is not known: 'os:environ'",
    ),
    "array twice": (
        lambda s: step_of(s, 0)["fitted"].update(a_={"array": 0}, b_={"array": 0}),
        "no array for one place",
    ),
    "array nowhere": (
        lambda s: step_of(s, 0)["fitted"].pop("mean_") and None,
        "array that belongs to nothing",
    ),
    "overlap": (
        lambda s: s["arrays"][0].update(strides=[0, 0]),
        "describes an array that cannot be",
    ),
    "far apart": (
        lambda s: s["arrays"][0].update(strides=[10**9, 1]),
        "describes an array that cannot be",
    ),
    "strides of another shape": (
        lambda s: s["arrays"][0].update(strides=[1]),
        "does not describe a model",
    ),
    "name twice": (
        lambda s: json.dumps(s).replace('"format"', '"format": 1, "format"', 1).encode(),
        "header cannot be read",
    ),
    "deep lists": (lambda s: b"[" * 100_000 + b"]" * 100_000, "header cannot be read"),
    "deep dicts": (lambda s: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "header cannot be read"),
    "deep values": (
        lambda s: step_of(s, 0)["fitted"].update(a_=deep_list(300)),
        "nested too deep",
    ),
    "long number": (lambda s: b'{"version": ' + b"9" * 5000 + b"}", "header cannot be read"),
    "no json": (lambda s: b"\x80\x04", "header cannot be read"),
    "nan": (lambda s: b'{"a": NaN}', "header cannot be read"),
    "no object": (lambda s: b"[]", "no model file of mpda"),
}


@pytest.mark.parametrize(("change", "line"), CRAFTED.values(), ids=CRAFTED.keys())
def test_what_was_made_to_deceive_is_refused(change, line, file):
    with pytest.raises(ModelFileError, match=line):
        load(with_header(file, change))


def test_arrays_that_are_not_those_of_the_header(file):
    whole = file.read_bytes()
    for change, line in (
        (lambda found: found[:-1], "members are not those"),
        (lambda found: [*found, found[0]], "members are not those"),
        (lambda found: [*found, ("more.txt", b"")], "members are not those"),
        (lambda found: [("../0.npy", found[0][1]), *found[1:]], "members are not those"),
        (lambda found: found[::-1], "members are not those"),
        (lambda found: [("0.npy", found[0][1] + b"\0"), *found[1:]], "not the size of its array"),
        (lambda found: [("0.npy", b"\0" * len(found[0][1])), *found[1:]], "does not say what"),
    ):
        file.write_bytes(whole)
        with pytest.raises(ModelFileError, match=line):
            load(with_header(file, lambda said: None, change))


def zipped(compression, members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return content.getvalue()


def foreign():
    arrays = io.BytesIO()
    np.savez(arrays, X=X)
    yield "npz", arrays.getvalue(), "no model file of mpda"
    array = io.BytesIO()
    np.save(array, X)
    yield "npy", array.getvalue(), "no zip archive"
    yield "pickle", pickle.dumps(mpda.LFDA()), "no zip archive"
    yield "empty", b"", "no zip archive"
    yield "text", b"a,b\n1,2\n", "no zip archive"
    yield "empty zip", zipped(zipfile.ZIP_STORED, []), "no zip archive"
    yield "skops", zipped(zipfile.ZIP_STORED, [("schema.json", "{}")]), "header.json is not first"
    bomb = zipped(zipfile.ZIP_DEFLATED, [("header.json", "0" * 10**7)])
    yield "bomb", bomb, "compressed members"
    alone = io.BytesIO()
    _archive.write_archive(alone, [("header.json", [b"{}"])])
    yield "header alone", alone.getvalue(), "header.sha256 is missing"


@pytest.mark.parametrize(("kind", "content", "line"), list(foreign()))
def test_foreign_files(kind, content, line, tmp_path):
    path = tmp_path / "model.mpda"
    path.write_bytes(content)
    for read in (load, header):
        with pytest.raises(ModelFileError, match=rf"model\.mpda .*{line}"):
            read(path)


def test_a_file_that_was_zipped_anew_is_refused(file):
    with zipfile.ZipFile(file) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for compression, line in (
        (zipfile.ZIP_DEFLATED, "compressed members"),
        (zipfile.ZIP_STORED, "damaged: the header of a member"),  # with dates
    ):
        file.write_bytes(zipped(compression, members))
        with pytest.raises(ModelFileError, match=line):
            load(file)


def test_files_that_are_not_there_keep_their_error(tmp_path):
    for read in (load, header):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none.mpda")
        with pytest.raises(OSError, match=str(tmp_path)):
            read(tmp_path)


@pytest.mark.parametrize("limit", ["LARGE", "_MANY"])
def test_large_archives(limit, tmp_path, monkeypatch):
    model = fitted(mpda.MPDA(2, n_neighbors=4))
    monkeypatch.setattr(_archive, limit, 8 if limit == "_MANY" else 300)
    path = saved(model, tmp_path)
    refuse_difference(model, load(path))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) > 8
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ModelFileError):
            load(path)


def set_version(name, version):
    def change(said):
        said["versions"][name] = version

    return change


def test_other_versions(file, tmp_path):
    own = tmp_path / "own.mpda"
    save(fitted(mpda.GramPCA(2)), own)
    load(with_header(own, set_version("scikit-learn", "1.0.2")))  # has no part of it
    load(with_header(own, set_version("numpy", "1.0.0")))
    major, minor = mpda.__version__.split(".")[:2]
    load(with_header(own, set_version("mpda", f"{major}.{minor}.999")))
    with pytest.warns(ModelVersionWarning, match=r"own\.mpda was saved with mpda 9\.9\.0"):
        load(with_header(own, set_version("mpda", "9.9.0")))
    with pytest.warns(ModelVersionWarning, match=r"saved with scikit-learn 1\.0\.2, and this is"):
        load(with_header(file, set_version("scikit-learn", "1.0.2")))


def test_a_parameter_that_another_version_did_not_have_is_at_its_default(file):
    def change(said):
        said["versions"]["scikit-learn"] = "1.0.2"
        del step_of(said, 1)["parameters"]["leaf_size"]
        step_of(said, 1)["fitted"].pop("radius")

    with pytest.warns(ModelVersionWarning):
        loaded = load(with_header(file, change))
    assert loaded[-1].leaf_size == 30


def test_sums_are_most_of_a_file(tmp_path):
    """Four matrices d x d are kept for partial_fit, and the map itself."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(120, 40)) + np.repeat(np.eye(3, 40) * 9, 40, axis=0)
    path = saved(fitted(mpda.MPDA(2, n_neighbors=4), wide, np.repeat(NAMES, 40)), tmp_path)
    matrices = 4 * 40 * 40 * 8
    assert matrices < path.stat().st_size < matrices + 25_000


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
