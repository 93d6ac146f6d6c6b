"""Fits to Dask collections on two workers, compared with fits to NumPy arrays."""

import gc
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import (
    LFDA,
    MFA,
    MPDA,
    PMPDA,
    GramPCA,
    ManifoldPartition,
    NeighborhoodRefinement,
    WithinClassWhitening,
)
from mpda.model_selection import DiscriminantSearchCV

da = pytest.importorskip("dask.array", reason="needs mpda[dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs mpda[dask]")
pytest.importorskip("distributed", reason="needs mpda[dask]")

pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    # distributed leaves sockets of stopped workers to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def curved_classes(dtype=np.float64, n_classes=10):
    """Draw curved classes of 1 to 60 samples, in random order."""
    rng = np.random.default_rng(3)
    sizes = np.r_[1, 2, rng.integers(3, 61, size=n_classes - 2)]
    y = np.repeat(np.arange(n_classes), sizes)
    u = rng.uniform(-1, 1, size=(y.size, 2))
    X = np.column_stack([u, u**2, 0.1 * rng.normal(size=(y.size, 8))])
    X = X @ rng.normal(size=(12, 12)) + 2.0 * rng.normal(size=(n_classes, 12))[y]
    order = rng.permutation(y.size)
    return X[order].astype(dtype), y[order]


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900], y[:900]


def as_frame(X, y):
    frame = pd.DataFrame(X, columns=[f"feature {j}" for j in range(X.shape[1])])
    return frame.assign(kind=[f"class {label:02}" for label in y])


def as_lazy(X, chunks=100):
    return da.from_array(X, chunks=(chunks, -1) if X.ndim == 2 else chunks)


def assert_close(components, expected, rtol=1e-6):
    atol = 1e-3 * rtol * np.abs(expected).max()
    np.testing.assert_allclose(components, expected, rtol=rtol, atol=atol)


METHODS = {
    "MPDA": MPDA(8, n_neighbors=8, tangent_alpha=0.1),
    "absolute": MPDA(8, n_neighbors=8, units="absolute", gamma=0.5, alpha=3.0, anchors=True),
    "PMPDA": PMPDA(8, n_neighbors=8),
    "LFDA": LFDA(8, alpha=0.1),
}
# The law of the fast suite is that of two methods in double precision; the others are slow.
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("absolute", "PMPDA")]
SINGLE = pytest.param(np.float32, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", ["MPDA", "LFDA", *OTHERS])
@pytest.mark.parametrize("dtype", [np.float64, SINGLE])
def test_fits_to_arrays_and_frames_equal_fits_to_numpy(client, name, dtype):
    X, y = curved_classes(dtype, n_classes=50 if name == "MPDA" else 10)
    method = METHODS[name]
    expected = method.fit(X, y).components_.copy()
    fitted = method.fit(da.from_array(X, chunks=(311, 7)), as_lazy(y, 500))
    assert fitted.components_.dtype == dtype
    assert_close(fitted.components_, expected)
    assert list(fitted.classes_) == list(np.unique(y))
    assert fitted.n_features_in_ == X.shape[1]
    if dtype == np.float64:
        frame = dd.from_pandas(as_frame(X, y), npartitions=4)
        fitted = method.fit(frame, "kind")
        assert_close(fitted.components_, expected)
        assert list(fitted.feature_names_in_) == list(frame.columns[:-1])
        assert fitted.classes_[0] == "class 00"


@pytest.mark.slow
def test_attributes_equal_those_of_a_fit_to_numpy(client):
    X, y = curved_classes()
    expected = MPDA(5, n_neighbors=6).fit(X, y)
    fitted = MPDA(5, n_neighbors=6).fit(as_lazy(X, 50), y)
    names = ("eigenvalues_", "mean_", "patch_linearity_", "tangent_dimensions_", "patch_classes_")
    for name in names:
        assert_close(getattr(fitted, name), getattr(expected, name))
    np.testing.assert_array_equal(fitted.class_solvers_, expected.class_solvers_)
    assert fitted.strengths_ == pytest.approx(expected.strengths_)
    assert not hasattr(fitted, "patch_labels_")


@pytest.mark.slow
def test_variances_of_gram_pca_are_those_of_numpy_at_any_scale(client):
    X = np.ldexp(digits()[0], 300)  # a power of two, which rounds nothing
    expected, fitted = GramPCA(10).fit(X), GramPCA(10).fit(as_lazy(X, 170))
    assert_close(
        np.ldexp(fitted.explained_variance_, -600), np.ldexp(expected.explained_variance_, -600)
    )
    assert_close(fitted.components_, expected.components_)


@pytest.mark.slow
def test_transform_is_lazy_and_keeps_the_chunks(client):
    X, y = digits()
    frame = as_frame(X, y).drop(columns="kind")
    model = MPDA(5, n_neighbors=8).fit(X, y)
    lazy = da.from_array(X.astype(np.float32), chunks=(500, 20))
    mapped = model.transform(lazy)
    assert isinstance(mapped, da.Array)
    assert mapped.shape == (900, 5)
    assert mapped.chunks[0] == lazy.chunks[0]
    assert mapped.dtype == np.float32
    expected = model.transform(X)
    tolerance = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(mapped.compute(), expected, atol=tolerance)
    with pytest.raises(ValueError, match="features"):
        model.transform(lazy[:, :10])
    with pytest.raises(ValueError, match="NaN"):
        model.transform(lazy * np.nan).compute()
    mapped = model.fit(frame, y).transform(dd.from_pandas(frame, npartitions=3))
    np.testing.assert_allclose(mapped.compute(), expected, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("sort", [True, False])
def test_parquet_files_may_be_sorted_by_class_or_not(client, tmp_path, sort):
    X, y = curved_classes(np.float32)
    frame = as_frame(X, y)
    if sort:  # the last class in the first file
        frame = frame.sort_values("kind", kind="stable", ascending=False)
    class_ends = np.flatnonzero(np.diff(pd.factorize(frame["kind"])[0])) + 1
    cuts = class_ends[::2] if sort else np.arange(30, len(frame), 30)
    for number, rows in enumerate(np.split(np.arange(len(frame)), cuts)):
        frame.iloc[rows].to_parquet(tmp_path / f"{number:03}.parquet")
    expected = MPDA(6, n_neighbors=6).fit(frame.drop(columns="kind"), frame["kind"]).components_
    table = dd.read_parquet(tmp_path)
    for X, y in ((table, "kind"), (table.drop(columns="kind"), table["kind"])):
        components = MPDA(6, n_neighbors=6).fit(X, y).components_
        np.testing.assert_allclose(components, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
def test_labels_are_matched_to_rows_by_position_not_by_index(client, tmp_path):
    X, y = curved_classes()
    frame = as_frame(X, y)
    expected = LFDA(5, alpha=0.1).fit(X, y).components_
    chunks = np.array_split(np.arange(len(y)), 4)
    for number, rows in enumerate(chunks):
        frame.iloc[rows].reset_index(drop=True).to_parquet(tmp_path / f"{number}.parquet")
    samples = dd.read_parquet(tmp_path, split_row_groups=True).drop(columns="kind")
    divisions = [*(int(rows[0]) for rows in chunks), len(y) - 1]
    labels = dd.from_pandas(frame["kind"], npartitions=1).repartition(divisions)
    backwards = dd.from_pandas(frame.set_index(np.arange(len(y))[::-1]), npartitions=3, sort=False)
    for data in ((samples, labels), (backwards.drop(columns="kind"), backwards["kind"])):
        assert_close(LFDA(5, alpha=0.1).fit(*data).components_, expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["Int64", "Float32", "bool", "float64[pyarrow]"])
def test_columns_may_have_any_numeric_dtype(client, dtype):
    X, y = digits()
    X = X[:, X.max(axis=0) > 8] > 8 if dtype == "bool" else X
    lazy = dd.from_pandas(pd.DataFrame(X).add_prefix("p").astype(dtype), npartitions=2)
    expected = LFDA(3, alpha=0.1).fit(np.asarray(X, float), y).components_
    fitted = LFDA(3, alpha=0.1).fit(lazy.assign(label=dd.from_pandas(pd.Series(y), 2)), "label")
    np.testing.assert_allclose(fitted.components_, expected, rtol=1e-4, atol=1e-6)
    mapped = fitted.transform(lazy)
    assert mapped.compute().dtype == mapped.dtype == fitted.components_.dtype


@pytest.mark.slow
def test_pipeline_with_gram_pca_equals_that_of_numpy(client):
    X, y = digits()
    pipeline = make_pipeline(GramPCA(0.95), MPDA(8, n_neighbors=8))
    expected = pipeline.fit(X, y).transform(X)
    frame = dd.from_pandas(as_frame(X, y), npartitions=6)
    samples = frame.drop(columns="kind")
    for data in ((as_lazy(X), as_lazy(y)), (samples, frame["kind"])):
        mapped = pipeline.fit(*data).transform(data[0]).compute()
        np.testing.assert_allclose(mapped, expected, atol=1e-7 * np.abs(expected).max())
    with pytest.raises(TypeError, match="kind"):
        pipeline.fit(samples, "kind")


@pytest.mark.slow
@pytest.mark.parametrize("radius", [None, 0, 1])
def test_refinement_of_a_map_that_the_cluster_fitted(client, radius):
    X, y = digits()
    frame = dd.from_pandas(as_frame(X, y), npartitions=4)
    refine = NeighborhoodRefinement(LFDA(5, alpha=0.1), max_iter=2, n_rounds=2, radius=radius)
    expected = clone(refine).fit(X, y)
    for model in (
        clone(refine).fit(as_lazy(X), as_lazy(y)),
        clone(refine).fit(frame, "kind"),
    ):
        assert_close(model.components_, expected.components_, rtol=1e-4)
        assert_close(model.start_components_, expected.start_components_)
    np.testing.assert_allclose(
        model.transform(frame.drop(columns="kind")).compute(), expected.transform(X), atol=1e-4
    )


@pytest.mark.slow
def test_refinement_keeps_steps_on_the_cluster(client):
    X, y = digits()
    frozen = FrozenEstimator(MPDA(2).fit(X, y))
    starts = PCA(2), make_pipeline(StandardScaler(), MPDA(2)), make_pipeline(PCA(64), frozen)
    for start in starts:
        with pytest.raises(TypeError, match="would bring the Dask collection into memory"):
            NeighborhoodRefinement(start).fit(as_lazy(X), as_lazy(y))
    plain = SimpleNamespace(components_=np.eye(64), mean_=np.zeros(64))
    model = NeighborhoodRefinement(plain, max_iter=2, n_rounds=1, radius=0)
    mapped = model.fit(as_lazy(X), as_lazy(y)).transform(as_lazy(X))
    np.testing.assert_allclose(mapped.compute(), model.transform(X), atol=1e-8)
    pipeline = make_pipeline(GramPCA(20), LFDA(5, alpha=0.1))
    for radius in (None, 1):
        model = NeighborhoodRefinement(pipeline, max_iter=2, n_rounds=1, radius=radius)
        mapped = model.fit(as_lazy(X), as_lazy(y)).transform(as_lazy(X))
        assert isinstance(mapped, da.Array)
        assert mapped.shape == (len(X), 5)
        np.testing.assert_allclose(mapped.compute(), model.transform(X), atol=1e-8)


@pytest.mark.slow
def test_refinement_draws_the_same_samples_for_any_blocks(client):
    X, y = digits()
    pipeline = make_pipeline(GramPCA(20), LFDA(5, alpha=0.1))
    options = {"radius": None, "max_iter": 2, "n_rounds": 2}
    refine = NeighborhoodRefinement(pipeline, max_queries=300, **options)
    first, second = (
        clone(refine).fit(as_lazy(X, chunks), as_lazy(y, chunks)) for chunks in (100, 170)
    )
    assert_close(first.components_, second.components_, rtol=1e-4)
    # The refinement saw the drawn samples and no others.
    rows = np.sort(np.random.RandomState(0).choice(len(y), 300, replace=False))
    features = first.earlier_steps.transform(X[rows])
    frozen = FrozenEstimator(first.estimator_[-1])
    alone = NeighborhoodRefinement(frozen, **options).fit(features, y[rows])
    assert_close(first.components_, alone.components_, rtol=1e-4)
    np.testing.assert_allclose(first.transform(as_lazy(X)).compute(), first.transform(X), atol=1e-8)


@pytest.mark.slow
def test_refinement_draws_among_rows_that_have_a_class(client):
    X, y = digits()
    marked = np.where((y < 4) & (np.arange(len(y)) % 3 == 0), y, -1)
    n_known = np.count_nonzero(marked >= 0)
    assert n_known < len(y) / 4
    refine = NeighborhoodRefinement(
        WithinClassWhitening(4, unlabeled=-1), max_queries=n_known, max_iter=2, n_rounds=1
    )
    lazy = clone(refine).fit(as_lazy(X, 100), as_lazy(marked, 100))
    refine.fit(X, marked)  # all labelled rows, too
    assert_close(lazy.components_, refine.components_, rtol=1e-4)
    np.testing.assert_allclose(lazy.mean_, refine.mean_, atol=1e-8)


@pytest.mark.slow
def test_partial_fit_adds_classes_from_the_cluster(client):
    X, y = curved_classes()
    first = y < 5
    model = MPDA(6, n_neighbors=6).fit(as_lazy(X[first]), y[first])
    model.partial_fit(as_lazy(X[~first]), y[~first])
    expected = MPDA(6, n_neighbors=6).fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    assert_close(model.components_, expected.components_)
    with pytest.raises(ValueError, match="earlier call"):
        model.partial_fit(as_lazy(X[first][:-5]), y[first][:-5])


@pytest.mark.slow
@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_summaries_of_the_cluster_and_of_memory_merge(client, method):
    X, y = curved_classes()
    first = y < 4
    model = method(6, n_neighbors=6, units="absolute", gamma=2.0, alpha=0.5)
    of_cluster = model.summarize(as_lazy(X[first]), y[first])
    of_memory = model.summarize(X[~first], y[~first])
    merged = method.from_summary(of_memory + of_cluster)
    expected = clone(model).fit(X, y)
    assert_close(merged.components_, expected.components_)
    np.testing.assert_allclose(of_cluster.low, X[first].min(axis=0))
    np.testing.assert_allclose(of_cluster.high, X[first].max(axis=0))
    alone = model.summarize(as_frame(X[y == 9], y[y == 9]).drop(columns="kind"), y[y == 9])
    lazy = model.summarize(dd.from_pandas(as_frame(X[y == 9], y[y == 9]), npartitions=2), "kind")
    assert lazy.classes.tolist() == ["class 09"]
    assert lazy.feature_names.tolist() == alone.feature_names.tolist()
    np.testing.assert_allclose(lazy.state.sums.within, alone.state.sums.within, atol=1e-10)
    with pytest.raises(ValueError, match="both summaries"):
        of_cluster + model.summarize(X[first], y[first])


@pytest.mark.slow
def test_fewer_samples_than_features_are_fitted_on_the_client(client):
    X, y = np.random.default_rng(0).normal(size=(30, 50)), np.arange(30) % 3
    expected = LFDA(2, alpha=0.1).fit(X, y).components_
    assert_close(LFDA(2, alpha=0.1).fit(as_lazy(X, 10), as_lazy(y, 10)).components_, expected)
    fitted = LFDA(2, alpha=0.1).fit(dd.from_pandas(as_frame(X, y), npartitions=2), "kind")
    assert fitted.feature_names_in_[1] == "feature 1"


@pytest.mark.slow
def test_fit_survives_the_death_of_a_worker(client, monkeypatch):
    X, y = curved_classes(n_classes=50)
    expected = MPDA(6, n_neighbors=6).fit(X, y).components_
    killed = []

    def kill_worker(*_, **__):
        if not killed:
            killed.extend(client.run(lambda dask_worker: dask_worker.address).values())
            client.run(lambda: __import__("os")._exit(1), workers=killed[:1], on_error="ignore")

    # The first line of progress is printed in the middle of the fit: a worker dies then.
    monkeypatch.setattr("mpda._lib.progress.print", kill_worker, raising=False)
    monkeypatch.setattr("mpda._lib.progress._INTERVAL", 0.0)
    fitted = MPDA(6, n_neighbors=6, verbose=1).fit(as_lazy(X, 80), y)
    assert killed
    assert_close(fitted.components_, expected)
    client.wait_for_workers(2, timeout=60)


def fail(*_, **__):
    raise ArithmeticError("on purpose")


@pytest.mark.slow
def test_failed_fit_leaves_no_tasks_on_the_cluster(client, monkeypatch):
    X, y = curved_classes()
    # No data are known for which the second pass fails on a worker, so it is replaced.
    monkeypatch.setattr("mpda.discriminant.class_stages.ClassStages.eliminate", fail)
    with pytest.raises(ArithmeticError, match="on purpose"):
        MPDA(3, n_neighbors=6).fit(as_lazy(X), y)
    deadline = time.monotonic() + 20
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        gc.collect()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_search_runs_on_the_cluster(client):
    X, y = digits()
    searches = [DiscriminantSearchCV(LFDA(8), {"alpha": [0.1, 1.0]}, cv=2) for _ in range(2)]
    searches[0].fit(X[:400], y[:400])
    with parallel_config("dask"):
        searches[1].fit(X[:400], y[:400])
    first, second = (search.cv_results_["mean_test_score"] for search in searches)
    np.testing.assert_allclose(first, second, atol=2.0 / 400)


@pytest.mark.slow
def test_invalid_input_is_rejected(client):
    X, y = curved_classes()
    lazy, labels = as_lazy(X), as_lazy(y)
    table = as_frame(X, y)
    frame = dd.from_pandas(table.assign(colour="red"), npartitions=2)
    unlabelled = dd.from_pandas(table.assign(kind=table["kind"].where(y > 0)), npartitions=2)
    model = MPDA(3, n_neighbors=6)
    for estimator, samples, targets, message in (
        (DiscriminantSearchCV(model), lazy, labels, r"DiscriminantSearchCV.*compute"),
        (MFA(3), lazy, labels, r"MFA.*compute"),
        (ManifoldPartition(), lazy, labels, "Dask"),
        (MPDA(3, partition="round"), lazy, labels, "partition"),
        (LFDA(3, alpha=-1.0), lazy, labels, "alpha"),
        (model, lazy, labels[:-1], "samples and y has"),
        (model, da.where(lazy > 1.0, np.nan, lazy), labels, "NaN"),
        (model, lazy, da.zeros_like(labels), "1 class"),
        (model, da.ones_like(lazy), labels, "identical"),
        (model, lazy[:, 0], labels, "two dimensions"),
        (model, lazy, y[:, None], "one dimension"),
        (model, lazy, "label", "one dimension"),
        (model, unlabelled, "kind", "missing labels"),
        (model, frame, "kind", r"not numbers.*colour"),
        (model, frame, "sort", "no column of X"),
        (model, lazy[lazy[:, 0] > 0.0], y, "unknown length"),
        (model, frame.drop(columns=["kind", "colour"]), y, "unknown length"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            estimator.fit(samples, targets)
    with pytest.raises(TypeError, match="patches"):
        model.fit(lazy, labels, patches=np.zeros(len(y), int))
    model.fit(X, y).set_output(transform="pandas")
    with pytest.raises(ValueError, match="set_output"):
        model.transform(lazy)
    with pytest.raises(TypeError, match="Dask"):
        model.inverse_transform(lazy[:, :3])


def test_error_without_a_cluster_tells_how_to_start_one(monkeypatch):
    def raise_error():
        raise ValueError("No clients found")

    # Other tests of this file may have started a cluster already.
    monkeypatch.setattr("mpda.parallel.dask_cluster.default_client", raise_error)
    X, y = curved_classes()
    with pytest.raises(RuntimeError, match=r"client = Client\(\)"):
        MPDA(3, n_neighbors=6).fit(as_lazy(X), y)
