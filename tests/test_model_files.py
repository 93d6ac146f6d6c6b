"""Model files: models come back as they were saved; wrong values and wrong files are refused."""

import inspect
import io
import json
import os
import pickle
import warnings
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

import mpda
from cases import bent_classes
from command_calls import call
from mpda.exceptions import ModelFileError, ModelVersionWarning
from mpda.io import load, read_header, save
from mpda.io.model_classes import ESTIMATORS, import_object
from mpda.model_selection import DiscriminantSearchCV

RECORDED = Path(__file__).parent / "recorded"
X, Y = bent_classes()
NAMES = np.array(["ash", "birch", "yew"])
GRID = {"n_neighbors": [4, 6], "alpha": [0.1, 1.0]}
ONE_HOT = ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [0])
SMALL = {"n_neighbors": 4, "partition_neighbors": 4, "max_patch_size": 6}


def make_small(kind):
    """Return an estimator whose parameters suit the small samples."""
    names = inspect.signature(kind).parameters
    if "tangent_dimension" in names and "max_patch_size" not in names and "alpha" not in names:
        return kind(n_neighbors=40)  # a graph of one part
    return kind(**{name: value for name, value in SMALL.items() if name in names})


ESTIMATOR_CLASSES = [
    getattr(mpda, name) for name in mpda.__all__ if hasattr(getattr(mpda, name), "fit")
]
MODELS = [
    *map(make_small, ESTIMATOR_CLASSES),
    mpda.MPDA(2, n_neighbors=4, partition=KMeans(3, n_init=1, random_state=0)),
    mpda.PMPDA(2, n_neighbors=3, affinity="full"),
    mpda.GraphDiscriminant("neighbors", "pairs", n_neighbors=4),
    DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3),
    DiscriminantSearchCV(
        make_pipeline(StandardScaler(), mpda.MPDA(max_patch_size=5)),
        [{"n_neighbors": [4]}, {"n_neighbors": [5], "alpha": [0.1]}],
        cv=StratifiedKFold(3, shuffle=True, random_state=1),
        selection="pooled",
        scoring="f1_macro",
    ),
    mpda.NeighborhoodRefinement(make_pipeline(StandardScaler(), mpda.LFDA(2, n_neighbors=4))),
    mpda.NeighborhoodRefinement(FrozenEstimator(PCA(2).fit(X))),
    mpda.NeighborhoodRefinement(mpda.LFDA(2, n_neighbors=4), radius=0.5),
    mpda.NeighborhoodRefinement(mpda.LFDA(2, n_neighbors=4), radius=np.inf, objective="class"),
    StandardScaler(),
    MinMaxScaler((-1, 1)),
    RobustScaler(),
    MaxAbsScaler(),
    Normalizer(),
    PCA(0.9, whiten=True, svd_solver="full"),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    NeighborhoodComponentsAnalysis(2, max_iter=3, random_state=0),
    KNeighborsClassifier(3, weights="distance"),
    KNeighborsClassifier(1, algorithm="ball_tree", metric="manhattan"),
    make_pipeline(StandardScaler(), PCA(4), mpda.MPDA(3, n_neighbors=4), KNeighborsClassifier(1)),
    Pipeline([("nothing", "passthrough"), ("map", mpda.LFDA(2, n_neighbors=4))]),
    make_pipeline(SimpleImputer(strategy="median"), mpda.LFDA(2, n_neighbors=4)),
    ColumnTransformer([ONE_HOT, ("numbers", SimpleImputer(strategy="median"), [1, 2])]),
    ColumnTransformer([ONE_HOT, ("numbers", "passthrough", ["b", "c"])]),
    make_pipeline(Nystroem(n_components=20, random_state=0), mpda.LFDA(2, n_neighbors=4)),
]
IDS = [f"{i}-{type(model).__name__}" for i, model in enumerate(MODELS)]


def fit(model, X=X, y=NAMES[Y]):
    return clone(model).fit(X, y)


def save_to(tmp_path, model, **options):
    path = tmp_path / "model.mpda"
    save(model, path, **options)
    return path


def outputs(model, X):
    """Return everything that a model computes for samples."""
    names = ("transform", "predict", "predict_proba")
    return {name: np.asarray(getattr(model, name)(X)) for name in names if hasattr(model, name)}


def assert_same_outputs(model, loaded, X):
    expected, actual = outputs(model, X), outputs(loaded, X)
    assert expected.keys() == actual.keys()
    for name, values in expected.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(actual[name], values, rtol=1e-10, atol=1e-12)
        else:
            np.testing.assert_array_equal(actual[name], values)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_model_is_restored(model, tmp_path):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcde"))
    model = fit(model, frame)
    path = save_to(tmp_path, model)
    content = path.read_bytes()
    loaded = load(path)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert vars(loaded).keys() == vars(model).keys() - {"random_state_"}
    assert_same_outputs(model, loaded, frame + 0.1)
    # The bytes hold all parameters and fitted attributes, so nothing was lost.
    save(loaded, path)
    assert path.read_bytes() == content
    assert repr(load(save_to(tmp_path, clone(model)))) == repr(model)


@pytest.mark.parametrize(
    "path", [p for p in ESTIMATORS if "cluster:" in p or "NeighborsTransformer" in p]
)
def test_parameters_may_hold_clusterers_and_neighbour_transformers(path, tmp_path):
    model = mpda.MPDA(partition=import_object(path)())
    assert repr(load(save_to(tmp_path, model))) == repr(model)


@pytest.mark.parametrize("kind", [mpda.MPDA, mpda.PMPDA])
@pytest.mark.parametrize("n_features", [5, 70])  # fewer and more than samples
def test_classes_can_be_added_after_loading(kind, n_features, tmp_path):
    rng = np.random.default_rng(0)
    wide = X @ rng.normal(size=(5, n_features)) + 0.1 * rng.normal(size=(len(X), n_features))
    first = Y < 2
    model = kind(2, n_neighbors=3).fit(wide[first], NAMES[Y[first]])
    loaded = load(save_to(tmp_path, model))
    for estimator in (model, loaded):
        estimator.partial_fit(wide[~first], NAMES[Y[~first]])
    np.testing.assert_allclose(loaded.components_, model.components_, rtol=1e-8, atol=1e-10)


def test_device_arrays_become_numpy_arrays(library, tmp_path):
    model = mpda.MPDA(2, n_neighbors=4).fit(library(X), Y)
    loaded = load(save_to(tmp_path, model))
    assert type(loaded.components_) is np.ndarray
    expected = fit(mpda.MPDA(2, n_neighbors=4), X, Y).transform(X)
    np.testing.assert_allclose(loaded.transform(X), expected, rtol=1e-8, atol=1e-9)


VALUES = {
    "plain": [None, True, -(2**70), 0.1, -0.0, np.inf, -np.inf, "", "ä日本", 'a"b\\c\n\x00'],
    "nested": [(1, [2, (3.5, {"a": ()})]), [], {}],
    "dict": {"array": 0, 1: "a", "1": "b", None: 2, (1, "x"): 3, 2.5: [4], False: {}},
    "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("ä")],
    "objects": np.array([["a", 1], [None, 2.5]], dtype=object),
    "lists": np.array([[1, 2], None, (3,)], dtype=object),
    "masked": np.ma.MaskedArray([1.0, 2.0], [True, False]),
    "types": [slice(1, None, 2), np.dtype("f4"), np.dtype(object), np.float32, np.int64],
    "strided": np.arange(40.0).reshape(4, 10)[::-1, 2:5],
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "strings": np.array([["ä", "bc"], ["", "日本"]]),
    "dates": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
}


def scaler_with(value):
    scaler = StandardScaler()
    scaler.value_ = value
    return scaler


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_values_are_restored(value, tmp_path):
    loaded = load(save_to(tmp_path, scaler_with(value))).value_
    assert type(loaded) is type(value)
    if isinstance(value, np.ndarray):
        assert (loaded.dtype, loaded.shape) == (value.dtype, value.shape)
        assert loaded.flags.c_contiguous
        assert loaded.flags.writeable
        np.testing.assert_array_equal(loaded, value)
    else:
        assert loaded == value
        assert repr(loaded) == repr(value)


def test_header_describes_the_model(tmp_path):
    notes = {"when": "2026-11-15", "error": 0.03, "classes": ["a", None], "more": {"n": 1}}
    model = make_pipeline(StandardScaler(), mpda.MPDA(2, n_neighbors=4))
    header = read_header(save_to(tmp_path, model, notes=notes))
    assert (header["format"], header["version"]) == ("mpda model", 2)
    assert header["class"] == "sklearn.pipeline:Pipeline"
    assert header["notes"] == notes
    assert header["versions"]["mpda"] == mpda.__version__
    assert "MPDA(n_components=2, n_neighbors=4)" in header["parameters"]["steps"]
    assert read_header(save_to(tmp_path, mpda.GramPCA(2)))["parameters"]["n_components"] == "2"
    with pytest.raises(TypeError, match="notes must be a mapping of values that JSON returns"):
        save_to(tmp_path, model, notes={"a": (1, 2)})


REFUSED = {
    "foreign class": (PowerTransformer(), "^PowerTransformer is a sklearn.*scikit-learn's Agglo"),
    "no model": (3, "^int is a builtins.int, which a model file cannot hold"),
    "function": (
        mpda.GraphDiscriminant(lambda X, y: X),
        "GraphDiscriminant.within is a builtins.function",
    ),
    "wrapped function": (
        FunctionTransformer(np.log),
        r"FunctionTransformer\.func is a numpy\.ufunc",
    ),
    "type": (scaler_with(int), r"value_ is a builtins\.type"),
    "generator": (
        mpda.MPDA(partition=KMeans(2, random_state=np.random.RandomState(0))),
        r"MPDA\.partition\.random_state is a .*RandomState.*an integer as random_state",
    ),
    "set": (scaler_with([1, {"a": {2}}]), r"StandardScaler\.value_\[1\]\['a'\] is a builtins\.set"),
    "records": (scaler_with(np.zeros(2, "f8,i4")), r"value_ is a numpy\.ndarray of \[\('f0'"),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_values_that_cannot_be_saved_are_named(model, message, tmp_path):
    path = tmp_path / "model.mpda"
    path.write_bytes(b"before")
    with pytest.raises(TypeError, match=message):
        save(model, path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["model.mpda"]


# Wrong files


@pytest.fixture
def file(tmp_path):
    """Return a small model file."""
    return save_to(tmp_path, fit(make_pipeline(mpda.GramPCA(2), KNeighborsClassifier(1))))


def rewrite(path, change, compression=zipfile.ZIP_STORED, **arrays):
    """Change the JSON document and arrays of a model file, and make the checksum agree."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | arrays
    document = json.loads(members["model.json"])
    change(document)
    members["model.json"] = json.dumps(document).encode()
    del members["sha256"]
    content = b"".join(name.encode() + member for name, member in members.items())
    members["sha256"] = sha256(content).hexdigest().encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return path


def assert_refused(path, message="model.mpda"):
    for read in (load, read_header):
        with pytest.raises(ModelFileError, match=message) as refusal:
            read(path)
        assert str(refusal.value).startswith(str(path))
        assert "\n" not in str(refusal.value)


def test_truncated_or_changed_file_is_refused(file):
    content = file.read_bytes()
    for size in (0, 1, 100, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        assert_refused(file)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    file.write_bytes(flipped)
    assert_refused(file)
    file.write_bytes(content)
    path = rewrite(file, lambda document: document.update(version=3))
    assert_refused(path, r"newer than this version of mpda \(format 3, this one reads 2\)")
    path = rewrite(file, lambda document: document.update(version=1))
    assert_refused(path, r"older than this version of mpda \(format 1, now 2\): fit and save")
    rewrite(file, lambda document: document.update(version=2))
    path = rewrite(file, lambda document: document.update(notes="0" * 10**6), zipfile.ZIP_DEFLATED)
    assert_refused(path, "too large when unpacked")


def test_foreign_file_is_refused(tmp_path):
    path = tmp_path / "model.mpda"
    for content in (pickle.dumps(mpda.LFDA()), b"a,b\n1,2\n"):
        path.write_bytes(content)
        assert_refused(path, "not a model file")
    with path.open("wb") as file:
        np.savez(file, X=X)
    assert_refused(path, "is a zip archive, but no model file: it has no model.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")  # of version 1
    assert_refused(path, "older than this version of mpda")


def step_attributes(document, number):
    steps = document["model"]["object"][1]["steps"]
    return steps[number]["tuple"][1]["object"][1]


CRAFTED = {
    "'builtins:eval', which may not": {"object": ["builtins:eval", {}]},
    "unknown type: 'exec'": {"exec": "1"},
    "is damaged": {"array": 99},
}


@pytest.mark.parametrize("message", CRAFTED)
def test_document_that_names_foreign_code_is_refused(message, file):
    value = {"mean_": CRAFTED[message]}
    with pytest.raises(ModelFileError, match=message):
        load(rewrite(file, lambda document: step_attributes(document, 0).update(value)))


def test_array_of_pickled_objects_is_refused(file):
    buffer = io.BytesIO()
    np.save(buffer, np.array([mpda.LFDA()], dtype=object), allow_pickle=True)
    with pytest.raises(ModelFileError, match="Object arrays cannot be loaded"):
        load(rewrite(file, lambda document: None, **{"0.npy": buffer.getvalue()}))


def test_other_version_is_loaded_with_a_warning(file, tmp_path):
    def set_version(name, version):
        return lambda document: document["versions"].update({name: version})

    single = tmp_path / "gram.mpda"
    save(fit(mpda.GramPCA(2)), single)
    load(rewrite(single, set_version("scikit-learn", "1.0.2")))  # no class of scikit-learn
    load(rewrite(single, set_version("mpda", ".".join(mpda.__version__.split(".")[:2]) + ".999")))
    with pytest.warns(ModelVersionWarning, match=r"gram\.mpda was saved with mpda 9\.9\.0"):
        load(rewrite(single, set_version("mpda", "9.9.0")))
    with pytest.warns(ModelVersionWarning, match=r"saved with scikit-learn 1\.0\.2, and this is"):
        load(rewrite(file, set_version("scikit-learn", "1.0.2")))


def test_parameter_that_did_not_exist_yet_is_at_its_default(file):
    path = rewrite(file, lambda document: step_attributes(document, 1).pop("leaf_size"))
    assert load(path)[-1].leaf_size == 30


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the file holds estimators of scikit-learn 1.9",
)
def test_model_of_columns_from_before_data_frames_maps_as_it_did(tmp_path, capsys):
    """The file is of commit 3fd669f, in which a class of its own encoded the columns.

    ``mpda fit old.csv --label y --impute median --one-hot --folds 0 --no-keep-samples --method
    lfda`` wrote it, and ``mpda transform`` of that commit the columns lfda0 and lfda1 of the table.
    """
    pandas = pytest.importorskip("pandas", reason="needs mpda[cli]")
    expected = pandas.read_csv(RECORDED / "columns.csv")
    columns = ["a", "b", "c", "tone"]
    expected[columns].to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "z.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelVersionWarning)  # later versions are other versions
        assert call("transform", RECORDED / "columns.mpda", tmp_path / "new.csv", "--out", out) == 0
        assert list(load(RECORDED / "columns.mpda").feature_names_in_) == columns
    assert "text that the fit did not have and that counts as none: tone = green" in (
        capsys.readouterr().err
    )
    found = pandas.read_csv(out)
    np.testing.assert_allclose(found, expected.drop(columns=columns), rtol=1e-9)
