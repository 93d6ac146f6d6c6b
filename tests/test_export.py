"""Exported matrices, graphs, files and modules of other programs compute the map of the model."""

import inspect
import json
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import random_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
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
from mpda.io import (
    AffineMap,
    affine_map,
    export_faiss,
    export_matrix,
    export_numpy,
    export_onnx,
    export_sentence_transformers,
)
from mpda.model_selection import DiscriminantSearchCV

X, Y = bent_classes()
NEW = bent_classes(seed=1)[0]
SINGLE = NEW.astype(np.float32)
# The import of faiss warns about the types of its wrapper.
pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")
PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "vector-search.md").read_text()
GRID = {"n_neighbors": [4, 6], "alpha": [0.1, 1.0]}
NEAREST = KNeighborsClassifier(1)


def make_small(kind):
    """Return an estimator whose parameters suit the small samples."""
    names = inspect.signature(kind).parameters
    return kind(**{"n_neighbors": 4} if "n_neighbors" in names else {})


METHODS = [
    make_small(kind)
    for kind in (getattr(mpda, name) for name in mpda.__all__)
    if inspect.isclass(kind) and hasattr(kind, "inverse_transform")  # linear ones
]
SPHERES = [
    mpda.NeighborhoodRefinement(mpda.LFDA(3, n_neighbors=4), radius=1),
    mpda.NeighborhoodRefinement(mpda.LFDA(3, n_neighbors=4), radius=0),
    mpda.NeighborhoodRefinement(
        make_pipeline(MinMaxScaler((1, 2)), mpda.LFDA(n_neighbors=4)), radius=0.5
    ),
    make_pipeline(
        StandardScaler(), mpda.NeighborhoodRefinement(PCA(3), radius=2), Normalizer(), NEAREST
    ),
    DiscriminantSearchCV(
        mpda.NeighborhoodRefinement(PCA()), {"radius": [1.0], "n_rounds": [1]}, n_components=[3]
    ),
]
MAPS = [
    *METHODS,
    mpda.MPDA(2, n_neighbors=4, eigenvalue_power=0.5),
    mpda.NeighborhoodRefinement(
        make_pipeline(StandardScaler(), PCA(4), mpda.LFDA(2, n_neighbors=4))
    ),
    mpda.NeighborhoodRefinement(FrozenEstimator(PCA(3).fit(X))),
    *SPHERES,
    PCA(3),
    PCA(3, whiten=True),
    LinearDiscriminantAnalysis(n_components=1),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    NeighborhoodComponentsAnalysis(2, max_iter=3, random_state=0),
    StandardScaler(),
    StandardScaler(with_mean=False, with_std=False),
    RobustScaler(),
    MinMaxScaler((-3, 1)),
    MaxAbsScaler(),
    DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3),
    make_pipeline(StandardScaler(), PCA(4, whiten=True), mpda.MPDA(2, n_neighbors=4), NEAREST),
    make_pipeline(MaxAbsScaler(), mpda.MPDA(2, n_neighbors=4), NEAREST),
    make_pipeline(mpda.GramPCA(2), StandardScaler(), MinMaxScaler((5, 6))),
    make_pipeline(RobustScaler(), DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3)),
    Pipeline([("a", "passthrough"), ("b", None), ("c", mpda.LFDA(2, n_neighbors=4))]),
    make_pipeline(StandardScaler(), mpda.LFDA(2, n_neighbors=4), Normalizer()),
    make_pipeline(PCA(3), MinMaxScaler((-1, 2)), Normalizer(), NEAREST),
    make_pipeline(StandardScaler(), make_pipeline(PCA(3), Normalizer())),
]
for_each_map = pytest.mark.parametrize(
    "model", MAPS, ids=[f"{i}-{type(model).__name__}" for i, model in enumerate(MAPS)]
)


def transform(model, X):
    """Transform samples, without a classifier at the end of a pipeline."""
    if isinstance(model, Pipeline) and isinstance(model[-1], KNeighborsClassifier):
        model = model[:-1]
    return np.asarray(model.transform(X))


def largest_error(actual, expected):
    """Return the largest error of a column relative to its largest entry, over all columns."""
    assert actual.shape == expected.shape
    return (np.abs(actual - expected).max(axis=0) / np.abs(expected).max(axis=0)).max()


@for_each_map
def test_affine_map_is_the_transform(model):
    model = clone(model).fit(X, Y)
    linear = affine_map(model)
    expected = transform(model, NEW)
    assert isinstance(linear, AffineMap)
    assert (linear.mean.shape, linear.offset.shape) == ((5,), expected.shape[1:])
    assert linear.matrix.dtype == linear.mean.dtype == linear.offset.dtype == np.float64
    assert largest_error(linear(NEW), expected) < 1e-11
    # The constant of a sphere is the offset of a row of zeros.
    np.testing.assert_array_equal(linear.offset[linear.matrix.any(axis=1)], 0.0)


@pytest.mark.parametrize(
    "first", [StandardScaler(with_mean=False), MaxAbsScaler(), MinMaxScaler(), SimpleImputer()]
)
def test_composition_needs_no_square_matrix_of_the_features(first):
    n_features = 2000
    counts = random_array((len(Y), n_features), density=0.05, random_state=0, format="csr")
    counts = counts.toarray() if isinstance(first, MinMaxScaler) else counts
    model = make_pipeline(first, TruncatedSVD(20), mpda.MPDA(2, n_neighbors=4)).fit(counts, Y)
    tracemalloc.start()
    linear = affine_map(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * n_features**2
    dense = counts if isinstance(counts, np.ndarray) else counts.toarray()
    assert largest_error(linear(dense), model.transform(counts)) < 1e-11


def test_offset_that_no_mean_reproduces_is_kept(tmp_path):
    model = make_pipeline(mpda.LFDA(2, n_neighbors=4), MinMaxScaler((3, 4))).fit(X, Y)
    model[0].components_[1] = 0.0  # the map has rank 1 now
    linear = affine_map(model)
    assert linear.offset.any()
    assert largest_error(linear(NEW), model.transform(NEW)) < 1e-11
    paths = export_matrix(model, tmp_path / "map.npy")
    assert [path.name for path in paths] == ["map.npy", "map-mean.npy", "map-offset.npy"]
    matrix, mean, offset = map(np.load, paths)
    assert largest_error((NEW - mean) @ matrix.T + offset, model.transform(NEW)) < 1e-11


def test_no_map_follows_a_scaling_to_length_1():
    linear = affine_map(make_pipeline(PCA(2), Normalizer()).fit(X))
    with pytest.raises(TypeError, match="Normalizer must be the last step"):
        linear.then(affine_map(PCA(2).fit(X[:, :2])))


def test_features_of_very_different_units():
    units = np.array([1e9, 1e-9, 1.0, 1e5, 1e-4])
    for method in (mpda.MPDA(3, n_neighbors=4), PCA(3), mpda.LFDA(n_neighbors=4)):
        model = make_pipeline(StandardScaler(), method).fit(X * units + 30 * units, Y)
        linear = affine_map(model)
        new = NEW * units + 30 * units
        assert largest_error(linear(new), model.transform(new)) < 1e-11
        assert not linear.offset.any()


def test_models_of_device_arrays(library):
    model = mpda.MPDA(2, n_neighbors=4).fit(library(X), Y)
    expected = mpda.MPDA(2, n_neighbors=4).fit(X, Y).transform(NEW)
    assert largest_error(affine_map(model)(NEW), expected) < 1e-7


def test_mahalanobis_distances_are_distances_after_the_map():
    kinds = [clone(model) for model in MAPS if hasattr(model, "mahalanobis_matrix")]
    models = [
        (model.set_params(radius=None) if hasattr(model, "radius") else model).fit(X, Y)
        for model in kinds
    ]
    assert len(models) >= len(METHODS) + 3
    for model in models:
        metric = model.mahalanobis_matrix()
        assert metric.shape == (5, 5)
        linear = replace(affine_map(model), unit_length=False)
        expected = cdist(linear(X), linear(NEW))
        distances = cdist(X, NEW, "mahalanobis", VI=metric)
        np.testing.assert_allclose(distances, expected, rtol=1e-8, atol=1e-10 * expected.max())
    assert mpda.LFDA(2, n_neighbors=4).fit(SINGLE, Y).mahalanobis_matrix().dtype == np.float32
    for method in (mpda.MPDA(), mpda.NeighborhoodRefinement()):
        with pytest.raises(NotFittedError):
            method.mahalanobis_matrix()


def test_scaling_to_length_1_keeps_vectors_of_zeros():
    linear = affine_map(make_pipeline(PCA(2), Normalizer()).fit(X))
    assert linear.unit_length
    np.testing.assert_array_equal(linear(linear.mean[None]), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            make_pipeline(Normalizer(), PCA(2)),
            r"\(Normalizer\) is not a linear map.*must be the last",
        ),
        (make_pipeline(PCA(2), Normalizer("l1")), 'a Normalizer needs norm="l2"'),
        (make_pipeline(make_pipeline(PCA(3), Normalizer()), PCA(2)), r"\(Normalizer\) is not a"),
        (make_pipeline(make_pipeline(Normalizer()), PCA(2)), r"\(Normalizer\) is not a linear"),
        (Normalizer(), "^Normalizer is not a linear map"),
        (SimpleImputer(missing_values=-1), "SimpleImputer missing_values=nan"),
        (SimpleImputer(add_indicator=True), "SimpleImputer is not a linear map"),
        (
            make_pipeline(Nystroem(n_components=9), mpda.LFDA(2, n_neighbors=4)),
            r"Step 'nystroem' \(Nystroem\) is not a linear map.*mpda\.save",
        ),
        (mpda.ManifoldPartition(), "ManifoldPartition is not a linear map"),
        (make_pipeline(NEAREST), "no step that transforms"),
        (make_pipeline(MinMaxScaler(clip=True), PCA(2)), "need clip=False"),
        (LinearDiscriminantAnalysis(solver="lsqr"), 'solver="svd" or "eigen"'),
    ],
)
def test_nonlinear_step_is_named(model, message):
    model = clone(model).fit(X, Y)
    with pytest.raises(TypeError, match=message):
        affine_map(model)


def test_nonlinear_step_of_a_refined_pipeline_is_named():
    for steps in ([Normalizer()], [StandardScaler(), Normalizer()]):
        start = make_pipeline(*steps, mpda.MPDA(2, n_neighbors=4))
        model = mpda.NeighborhoodRefinement(start, radius=None).fit(X, Y)
        for compute in (affine_map, mpda.NeighborhoodRefinement.mahalanobis_matrix):
            with pytest.raises(
                TypeError, match=r"Step 'normalizer' \(Normalizer\) is not a linear"
            ):
                compute(model)


def test_unfitted_models_are_refused():
    for model in (mpda.MPDA(), PCA(), make_pipeline(StandardScaler(), mpda.MPDA())):
        with pytest.raises(NotFittedError):
            affine_map(model)
    search = DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3, refit=False).fit(X, Y)
    with pytest.raises(NotFittedError):
        affine_map(search)


def test_matrix_and_mean_are_written(tmp_path):
    model = make_pipeline(StandardScaler(), mpda.MPDA(2, n_neighbors=4)).fit(X, Y)
    (tmp_path / "map-offset.npy").write_bytes(b"of an older map")
    (tmp_path / "other-offset.npy").write_bytes(b"of another map")
    paths = export_matrix(model, str(tmp_path / "map.npy"))
    assert [path.name for path in paths] == ["map.npy", "map-mean.npy"]
    assert not (tmp_path / "map-offset.npy").exists()
    assert (tmp_path / "other-offset.npy").exists()
    matrix, mean = map(np.load, paths)
    assert matrix.shape == (2, 5)
    assert largest_error((NEW - mean) @ matrix.T, model.transform(NEW)) < 1e-11
    with pytest.raises(ValueError, match=r"path must end in \.npy, got .*map\.csv"):
        export_matrix(model, tmp_path / "map.csv")
    with pytest.raises(TypeError, match="does not scale vectors to length 1"):
        export_matrix(make_pipeline(model, Normalizer()), tmp_path / "map.npy")


# NumPy


def read_by_numpy(path):
    """Return the arrays of a file and the functions of the guide that use them."""
    start = PAGE.index("```python\nimport numpy as np\n\n\ndef transform(") + len("```python\n")
    scope = {}
    code = PAGE[start : PAGE.index("```", start)]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    exec(compile(code, "guide", "exec"), scope)
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays), scope["transform"], scope["predict"]


@pytest.mark.parametrize("radius", [0, 1])
def test_map_to_a_sphere_is_an_affine_map_with_the_cosine(radius, tmp_path):
    model = mpda.NeighborhoodRefinement(mpda.LFDA(3, n_neighbors=4), radius=radius).fit(X, Y)
    linear = affine_map(model)
    assert linear.unit_length
    assert linear.matrix.shape == (3, 5)
    if radius:
        np.testing.assert_array_equal(linear.matrix[-1], 0.0)
        assert linear.offset.tolist() == [0.0, 0.0, model.radius_]
    Z = (NEW - linear.mean) @ linear.matrix.T + linear.offset
    cosines = 1.0 - cdist(Z, Z, "cosine")
    mapped = model.transform(NEW)
    np.testing.assert_allclose(mapped @ mapped.T, cosines, atol=1e-12)
    with pytest.raises(TypeError, match=r"--numpy.*radius=None"):
        export_matrix(model, tmp_path / "m.npy")
    with pytest.raises(TypeError, match="a refinement on a sphere, within-class whitening"):
        affine_map(make_pipeline(model, PCA(2)).fit(X, Y))


@for_each_map
def test_lines_of_the_guide_compute_the_transform(model, tmp_path):
    model = clone(model).fit(X, Y)
    path = export_numpy(model, tmp_path / "map.npz")
    arrays, mapped, _ = read_by_numpy(path)
    assert set(arrays) == {"mean", "matrix", "offset", "unit_length"}
    assert largest_error(mapped(arrays, NEW), transform(model, NEW)) < 1e-11
    single = mapped(arrays, SINGLE)
    assert single.dtype == np.float32
    assert largest_error(single, transform(model, SINGLE.astype(float))) < 1e-6
    assert path == tmp_path / "map.npz"
    content = path.read_bytes()
    assert export_numpy(model, path).read_bytes() == content


def test_file_for_numpy_has_names_and_classes(tmp_path):
    frame, labels = pd.DataFrame(X, columns=["a", "b", "ä", "d", "e"]), np.array(["x", "ä", "y"])[Y]
    for last in ([], [Normalizer()]):
        model = make_pipeline(StandardScaler(), mpda.LFDA(2, n_neighbors=4), *last, NEAREST)
        path = export_numpy(model.fit(frame, labels), tmp_path / "m.npz", neighbors=True)
        arrays, _, predict = read_by_numpy(path)
        assert arrays["feature_names"].tolist() == list(frame)
        assert arrays["classes"].tolist() == ["x", "y", "ä"]
        new = pd.DataFrame(NEW, columns=frame.columns)
        assert predict(arrays, NEW).tolist() == model.predict(new).tolist()
    search = DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3).fit(X, Y)
    arrays, _, predict = read_by_numpy(export_numpy(search, tmp_path / "m.npz", neighbors=True))
    np.testing.assert_array_equal(predict(arrays, NEW), search.predict(NEW))


def test_file_for_numpy_keeps_single_precision(tmp_path):
    model = make_pipeline(mpda.LFDA(2, n_neighbors=4), NEAREST).fit(X.astype(np.float32), Y)
    arrays, mapped, _ = read_by_numpy(export_numpy(model, tmp_path / "m.npz", neighbors=True))
    assert arrays["samples"].dtype == np.float32
    assert largest_error(mapped(arrays, SINGLE), model[:-1].transform(SINGLE)) < 1e-5
    with pytest.raises(ValueError, match=r"path must end in \.npz, got .*m\.npy"):
        export_numpy(model, tmp_path / "m.npy")
    with pytest.raises(TypeError, match="neighbors=True needs a DiscriminantSearchCV"):
        export_numpy(model[:-1], tmp_path / "m.npz", neighbors=True)


def test_labels_of_samples_far_from_the_origin(tmp_path):
    far, new = (X + 1e4).astype(np.float32), (NEW + 1e4).astype(np.float32)
    model = make_pipeline(TruncatedSVD(3), KNeighborsClassifier(1)).fit(far, Y)
    arrays, _, predict = read_by_numpy(export_numpy(model, tmp_path / "m.npz", neighbors=True))
    assert np.mean(predict(arrays, new) == model.predict(new)) > 0.98


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def run_javascript(model, call, folder):
    """Return what a call of the guide's JavaScript returns for a fitted model."""
    arrays = np.load(export_numpy(model, folder / "m.npz", neighbors=True))
    values = json.dumps({name: value.tolist() for name, value in arrays.items()})
    (folder / "digits.json").write_text(values)
    start = PAGE.index("```js\n") + len("```js\n")
    code = PAGE[start : PAGE.index("```", start)]
    (folder / "map.mjs").write_text(f"{code}console.log(JSON.stringify({call}));")
    command = ["node", "map.mjs"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return json.loads(result.stdout) if result.returncode == 0 else result.stderr


@needs_node
@pytest.mark.parametrize("last", [[], [Normalizer()]], ids=["plain", "unit length"])
def test_javascript_of_the_guide(last, tmp_path):
    model = make_pipeline(StandardScaler(), mpda.LFDA(2, n_neighbors=4), *last, NEAREST).fit(X, Y)
    call = f"{json.dumps(NEW.tolist())}.map((x) => [transform(x), predict(x)])"
    mapped, labels = zip(*run_javascript(model, call, tmp_path), strict=True)
    assert largest_error(np.array(mapped), model[:-1].transform(NEW)) < 1e-12
    assert list(labels) == model.predict(NEW).tolist()


# Missing values


def make_missing(X):
    """Return a copy of samples in which values are missing, all values of one sample among them."""
    X = X + np.array([0, 0, 0, 0, 50], dtype=X.dtype)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X[3] = np.nan
    return X


MISSING, NEW_MISSING = make_missing(X), make_missing(SINGLE)
LFDA = mpda.LFDA(2, n_neighbors=4)
IMPUTED = {
    "pipeline": make_pipeline(SimpleImputer(strategy="median"), LFDA),
    "classifier": make_pipeline(SimpleImputer(strategy="median"), LFDA, NEAREST),
    "refined pipeline": mpda.NeighborhoodRefinement(make_pipeline(SimpleImputer(), LFDA)),
    "search of a pipeline": DiscriminantSearchCV(
        make_pipeline(SimpleImputer(), mpda.LFDA()), GRID, cv=3
    ),
    "inner pipeline": make_pipeline(make_pipeline(SimpleImputer(), StandardScaler()), LFDA),
    "behind scalers": make_pipeline(
        StandardScaler(), MinMaxScaler((1, 3)), SimpleImputer(strategy="constant"), LFDA
    ),
}
for_each_imputed_model = pytest.mark.parametrize("model", IMPUTED.values(), ids=IMPUTED.keys())


@for_each_imputed_model
def test_missing_values_are_replaced_as_in_the_model(model, tmp_path):
    model = clone(model).fit(MISSING, Y)
    expected = transform(model, NEW_MISSING.astype(float))
    assert np.isfinite(expected).all()
    assert largest_error(affine_map(model)(NEW_MISSING), expected) < 1e-11
    arrays, mapped, _ = read_by_numpy(export_numpy(model, tmp_path / "m.npz"))
    assert largest_error(mapped(arrays, NEW_MISSING.astype(float)), expected) < 1e-11


@for_each_imputed_model
def test_graph_replaces_missing_values_as_the_model_does(model, run, tmp_path):
    model = clone(model).fit(MISSING, Y)
    expected = transform(model, NEW_MISSING.astype(float))
    for precision, limit in (("mixed", 2e-7), ("double", 1e-11), ("single", 1e-5)):
        path = export_onnx(model, tmp_path / "m.onnx", precision=precision)
        assert largest_error(run(path, NEW_MISSING)["transformed"], expected) < limit


def test_feature_without_any_value_is_left_out(tmp_path):
    empty = MISSING.copy()
    empty[:, 1] = np.nan
    model = make_pipeline(SimpleImputer(), LFDA)
    with pytest.warns(UserWarning, match="without any observed values"):
        expected = model.fit_transform(empty, Y)
    arrays, mapped, _ = read_by_numpy(export_numpy(model, tmp_path / "m.npz"))
    assert largest_error(mapped(arrays, empty), expected) < 1e-11


def test_labels_of_samples_with_missing_values(run, tmp_path):
    model = clone(IMPUTED["classifier"]).fit(MISSING, Y)
    expected = model.predict(NEW_MISSING.astype(float))
    arrays, _, predict = read_by_numpy(export_numpy(model, tmp_path / "m.npz", neighbors=True))
    np.testing.assert_array_equal(predict(arrays, NEW_MISSING.astype(float)), expected)
    path = export_onnx(model, tmp_path / "m.onnx", neighbors=True)
    np.testing.assert_array_equal(run(path, NEW_MISSING)["label"], expected)


def test_lines_of_the_guide_refuse_missing_values_without_an_imputer(tmp_path):
    model = make_pipeline(LFDA, NEAREST).fit(X, Y)
    functions = read_by_numpy(export_numpy(model, tmp_path / "m.npz", neighbors=True))
    for compute in functions[1:]:
        with pytest.raises(ValueError, match="X has missing values"):
            compute(functions[0], NEW_MISSING)


@needs_node
def test_javascript_of_the_guide_with_missing_values(tmp_path):
    model = clone(IMPUTED["classifier"]).fit(MISSING, Y)
    samples = json.dumps(NEW_MISSING.tolist())
    for text in (samples, samples.replace("NaN", "null")):
        labels = run_javascript(model, f"{text}.map(predict)", tmp_path)
        assert labels == model.predict(NEW_MISSING.astype(float)).tolist()
        complete = make_pipeline(LFDA, NEAREST).fit(X, Y)
        assert "x has missing values" in run_javascript(complete, f"{text}.map(predict)", tmp_path)


@for_each_imputed_model
def test_faiss_refuses_models_that_replace_missing_values(model, tmp_path):
    with pytest.raises(TypeError, match="faiss does not replace missing values"):
        export_faiss(clone(model).fit(MISSING, Y), tmp_path / "m.faiss")


# faiss


@for_each_map
def test_transform_of_faiss_is_the_transform(model, tmp_path):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    model = clone(model).fit(X, Y)
    path = export_faiss(model, tmp_path / "map.faiss")
    assert path == tmp_path / "map.faiss"
    expected = transform(model, SINGLE.astype(float))
    if affine_map(model).unit_length:
        index = faiss.read_index(str(path))
        index.add(SINGLE)
        assert (index.ntotal, index.metric_type) == (len(NEW), faiss.METRIC_INNER_PRODUCT)
        mapped = faiss.downcast_index(index.index).reconstruct_n(0, len(NEW))
    else:
        mapped = faiss.read_VectorTransform(str(path)).apply(SINGLE)
    assert mapped.dtype == np.float32
    assert largest_error(mapped, expected) < 1e-5
    content = path.read_bytes()
    assert export_faiss(model, path).read_bytes() == content


def test_faiss_finds_the_neighbours_of_the_mapped_samples(tmp_path):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    model = make_pipeline(StandardScaler(), mpda.MPDA(2, n_neighbors=4), NEAREST).fit(X, Y)
    linear = faiss.read_VectorTransform(str(export_faiss(model, tmp_path / "m.faiss")))
    index = faiss.IndexPreTransform(linear, faiss.IndexFlatL2(2))
    index.add(X.astype(np.float32))
    nearest = index.search(SINGLE, 1)[1][:, 0]
    assert np.mean(Y[nearest] == model.predict(NEW)) > 0.98  # near ties may be rounded


@pytest.mark.slow
def test_export_of_many_features_needs_no_dense_copy_of_the_samples(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    n, n_features = 1000, 20_000
    counts = random_array((n, n_features), density=0.002, random_state=0, format="csr")
    model = make_pipeline(TruncatedSVD(5), NEAREST).fit(counts, np.arange(n) % 3)
    tracemalloc.start()
    export_faiss(model, tmp_path / "m.faiss")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * 8 * n * n_features


def test_missing_faiss_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[faiss\]'"):
        export_faiss(PCA(2).fit(X), tmp_path / "m.faiss")


# sentence-transformers; test_stores.py has the modules themselves, whose import takes seconds


@for_each_map
def test_modules_of_sentence_transformers_compute_the_transform(model, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="needs mpda[test-stores]")
    model = clone(model).fit(X, Y)
    folder = export_sentence_transformers(model, tmp_path / "map")
    modules = json.loads((folder / "modules.json").read_text())
    names = [module["type"].rpartition(".")[2] for module in modules]
    assert names == (["Dense", "Normalize"] if affine_map(model).unit_length else ["Dense"])
    weights = safetensors.load_file(folder / modules[0]["path"] / "model.safetensors")
    mapped = SINGLE @ weights["linear.weight"].T + weights["linear.bias"]
    assert mapped.dtype == np.float32
    mapped = Normalizer().transform(mapped) if "Normalize" in names else mapped
    assert largest_error(mapped, transform(model, SINGLE.astype(float))) < 1e-5
    settings = json.loads((folder / modules[0]["path"] / "config.json").read_text())
    assert (settings["in_features"], settings["out_features"]) == (5, mapped.shape[1])
    again = export_sentence_transformers(model, tmp_path / "again")
    assert read_folder(again) == read_folder(folder)


def read_folder(folder):
    """Map the files of a folder to their contents."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_folders_with_files_stay_as_they_are(tmp_path):
    pytest.importorskip("safetensors", reason="needs mpda[test-stores]")
    model = PCA(2).fit(X)
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    export_sentence_transformers(model, encoder)  # the folder was empty
    before = read_folder(tmp_path)
    with pytest.raises(FileExistsError, match=r"encoder has files already: choose a new folder"):
        export_sentence_transformers(make_pipeline(model, Normalizer()).fit(X), encoder)
    with pytest.raises(FileExistsError, match=r"modules\.json is a file: choose a new folder"):
        export_sentence_transformers(model, encoder / "modules.json")
    assert read_folder(tmp_path) == before


def test_sentence_transformers_replace_no_missing_values(tmp_path):
    model = clone(IMPUTED["pipeline"]).fit(MISSING, Y)
    with pytest.raises(TypeError, match="sentence-transformers does not replace missing values"):
        export_sentence_transformers(model, tmp_path / "map")
    assert list(tmp_path.iterdir()) == []


def test_missing_safetensors_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        export_sentence_transformers(PCA(2).fit(X), tmp_path / "map")


# ONNX


@pytest.fixture(scope="module")
def run():
    """Return a function that evaluates a graph with onnxruntime."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1

    def evaluate(path, samples):
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        (source,) = session.get_inputs()
        dtype = np.float64 if "double" in source.type else np.float32
        arrays = session.run(None, {"X": np.asarray(samples, dtype=dtype)})
        return dict(zip(names, arrays, strict=True))

    return evaluate


@for_each_map
@pytest.mark.parametrize(
    "precision", ["mixed", "double", pytest.param("single", marks=pytest.mark.slow)]
)
def test_graph_is_the_transform(model, precision, run, tmp_path):
    model = clone(model).fit(X, Y)
    path = export_onnx(model, tmp_path / "map.onnx", precision=precision)
    assert path == tmp_path / "map.onnx"
    outputs = run(path, SINGLE)
    assert list(outputs) == ["transformed"]
    assert outputs["transformed"].dtype == (np.float64 if precision == "double" else np.float32)
    expected = transform(model, SINGLE.astype(float))
    limit = {"mixed": 2e-7, "double": 1e-11, "single": 1e-5}[precision]
    assert largest_error(outputs["transformed"], expected) < limit


def test_mean_that_is_large_relative_to_the_spread(run, tmp_path):
    far = (X + 3e4).astype(np.float32).astype(float)
    new = (NEW + 3e4).astype(np.float32)
    on_sphere = mpda.NeighborhoodRefinement(mpda.MPDA(3, n_neighbors=4), radius=1)
    methods = mpda.MPDA(2, n_neighbors=4), make_pipeline(StandardScaler(), mpda.GramPCA(3))
    for method in (*methods, on_sphere):
        model = clone(method).fit(far, Y)
        path = export_onnx(model, tmp_path / "map.onnx", precision="single")
        expected = model.transform(new.astype(float))
        assert largest_error(run(path, new)["transformed"], expected) < 1e-5


def test_columns_that_single_precision_cannot_hold_are_refused(run, tmp_path):
    rng = np.random.default_rng(0)
    u = rng.normal(size=(200, 5))
    classes = (u[:, 0] > 0).astype(int)
    far = u * [60.0, 0.1, 0.1, 0.1, 0.1] + [1.7e9, 0.0, 0.0, 0.0, 0.0]
    model = make_pipeline(StandardScaler(), mpda.LFDA(2, n_neighbors=4), NEAREST)
    model.fit(far, classes)
    rounded = far.astype(np.float32).astype(float)
    assert np.mean(model.predict(rounded) != classes) > 0.05
    for precision in ("mixed", "single"):
        for neighbors in (False, True):
            with pytest.raises(ValueError, match=r"float32 does not hold column 0 precisely"):
                export_onnx(model, tmp_path / "m.onnx", precision=precision, neighbors=neighbors)
    with pytest.raises(ValueError, match=r"float32 does not hold column 0 precisely"):
        export_faiss(model, tmp_path / "m.faiss")
    path = export_onnx(model, tmp_path / "m.onnx", precision="double", neighbors=True)
    np.testing.assert_array_equal(run(path, far)["label"], model.predict(far))
    refine = mpda.NeighborhoodRefinement(mpda.LFDA(3, n_neighbors=4), radius=1)
    sphere = make_pipeline(StandardScaler(), refine, NEAREST).fit(far, classes)
    with pytest.raises(ValueError, match=r"float32 does not hold column 0 precisely"):
        export_onnx(sphere, tmp_path / "m.onnx")
    named = pd.DataFrame(far, columns=["time", *"abcd"])
    model = clone(model).fit(named, classes)
    with pytest.raises(ValueError, match="float32 does not hold 'time' precisely"):
        export_onnx(model, tmp_path / "m.onnx")
    huge = make_pipeline(mpda.LFDA(2, n_neighbors=4), NEAREST).fit(1e60 * X, Y)
    with pytest.raises(ValueError, match="float32 does not hold"):
        export_onnx(huge, tmp_path / "m.onnx")


CLASSIFIERS = [
    make_pipeline(StandardScaler(), mpda.MPDA(2, n_neighbors=4), NEAREST),
    DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3),
    make_pipeline(StandardScaler(), DiscriminantSearchCV(mpda.LFDA(), GRID, cv=3)),
    make_pipeline(StandardScaler(), mpda.MPDA(2, n_neighbors=4), Normalizer(), NEAREST),
    make_pipeline(StandardScaler(), mpda.NeighborhoodRefinement(PCA(3), radius=1), NEAREST),
]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=[str(i) for i in range(len(CLASSIFIERS))])
@pytest.mark.parametrize("precision", ["mixed", "double", "single"])
def test_labels_equal_those_of_the_classifier(model, precision, run, tmp_path):
    model = clone(model).fit(X, Y)
    path = export_onnx(model, tmp_path / "m.onnx", neighbors=True, precision=precision)
    samples = np.vstack([SINGLE, X.astype(np.float32)])
    outputs = run(path, samples)
    assert list(outputs) == ["transformed", "label"]
    np.testing.assert_array_equal(outputs["label"], model.predict(samples.astype(float)))
    assert len(set(outputs["label"].tolist())) == 3
    assert run(path, samples[:0])["label"].shape == (0,)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (Y.astype(np.uint8), np.int64),
        (Y > 0, np.bool_),
        (Y.astype(float), np.float64),
        (np.array(["", "ä日", "b c"])[Y], object),
    ],
)
def test_labels_of_every_type(labels, dtype, run, tmp_path):
    model = make_pipeline(mpda.LFDA(2, n_neighbors=4), NEAREST).fit(X, labels)
    labels = run(export_onnx(model, tmp_path / "m.onnx", neighbors=True), SINGLE)["label"]
    assert labels.dtype == dtype
    assert labels.tolist() == model.predict(SINGLE.astype(float)).tolist()


def test_classifiers_that_cannot_be_exported(tmp_path):
    path = tmp_path / "m.onnx"
    for model, y in (
        (mpda.LFDA(2, n_neighbors=4), Y),
        (make_pipeline(PCA(2), KNeighborsClassifier(5)), Y),
        (make_pipeline(PCA(2), KNeighborsClassifier(1, metric="manhattan")), Y),
        (make_pipeline(PCA(2), NEAREST), np.column_stack([Y, Y])),
    ):
        with pytest.raises(TypeError, match="neighbors=True needs a DiscriminantSearchCV"):
            export_onnx(clone(model).fit(X, y), path, neighbors=True)
    with pytest.raises(ValueError, match="precision must be one of 'mixed', 'single', 'double'"):
        export_onnx(PCA(2).fit(X), path, precision="half")
    assert not path.exists()


def test_graph_is_described_and_reproducible(tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "ä", "d", "e"])
    model = mpda.LFDA(2, n_neighbors=4).fit(frame, Y)
    path = export_onnx(model, tmp_path / "m.onnx")
    proto = onnx.load(path)
    assert (proto.producer_name, proto.producer_version) == ("mpda", mpda.__version__)
    properties = {item.key: item.value for item in proto.metadata_props}
    assert properties["class"] == "mpda:LFDA"
    assert json.loads(properties["feature_names"]) == ["a", "b", "ä", "d", "e"]
    content = path.read_bytes()
    assert export_onnx(model, path).read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_missing_onnx_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[onnx\]'"):
        export_onnx(PCA(2).fit(X), tmp_path / "m.onnx")
