"""Samples on a Dask cluster: the answers of this machine, from two workers."""

import gc
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from cases import largest_angle
from mpda import LFDA, MFA, MPDA, PMPDA, GramPCA, ManifoldPartition
from mpda.model_selection import DiscriminantSearchCV

da = pytest.importorskip("dask.array", reason="needs mpda[dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs mpda[dask]")
distributed = pytest.importorskip("distributed", reason="needs mpda[dask]")

pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    # distributed leaves sockets of workers that are gone to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def fifty_classes(dtype=np.float64, n_classes=50):
    """Curved classes of 1 to 60 samples, mixed."""
    rng = np.random.default_rng(3)
    sizes = np.r_[1, 2, rng.integers(3, 61, size=n_classes - 2)]
    y = np.repeat(np.arange(n_classes), sizes)
    u = rng.uniform(-1, 1, size=(y.size, 2))
    X = np.column_stack([u, u**2, 0.1 * rng.normal(size=(y.size, 8))])
    X = X @ rng.normal(size=(12, 12)) + 2.0 * rng.normal(size=(n_classes, 12))[y]
    order = rng.permutation(y.size)
    return X[order].astype(dtype), y[order]


ten_classes = partial(fifty_classes, n_classes=10)


def digits(dtype=np.float64):
    X, y = load_digits(return_X_y=True)
    return X[:900].astype(dtype), y[:900]


def as_frame(X, y):
    frame = pd.DataFrame(X, columns=[f"feature {j}" for j in range(X.shape[1])])
    return frame.assign(kind=[f"class {label:02}" for label in y])


METHODS = [
    MPDA(8, n_neighbors=8, tangent_alpha=0.1),
    MPDA(8, n_neighbors=8, units="absolute", gamma=0.5, alpha=3.0, anchors=True),
    PMPDA(8, n_neighbors=8),
    LFDA(8, alpha=0.1),
]


@pytest.mark.parametrize("method", METHODS, ids=["MPDA", "MPDA absolute", "PMPDA", "LFDA"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_and_frames_give_the_answer_of_this_machine(client, method, dtype):
    many = method is METHODS[0] and dtype == np.float64
    X, y = fifty_classes(dtype) if many else ten_classes(dtype)
    here = method.fit(X, y).components_.copy()
    lazy = da.from_array(X, chunks=(311, 7)), da.from_array(y, chunks=500)
    there = method.fit(*lazy)
    assert there.components_.dtype == dtype
    np.testing.assert_allclose(there.components_, here, rtol=1e-6, atol=1e-9 * np.abs(here).max())
    assert largest_angle(there.components_.T, here.T) <= (1e-6 if dtype == np.float64 else 1e-3)
    assert list(there.classes_) == list(np.unique(y))
    assert there.n_features_in_ == X.shape[1]
    if dtype == np.float32:
        return
    frame = dd.from_pandas(as_frame(X, y), npartitions=4)
    named = method.fit(frame, "kind")
    np.testing.assert_allclose(named.components_, here, rtol=1e-6, atol=1e-9 * np.abs(here).max())
    assert list(named.feature_names_in_) == list(frame.columns[:-1])
    assert named.classes_[0] == "class 00"


def test_digits_have_the_answer_of_this_machine(client):
    X, y = digits()
    here = MPDA(8, n_neighbors=8).fit(X, y).components_
    lazy = da.from_array(X, chunks=(311, 7)), da.from_array(y, chunks=500)
    there = MPDA(8, n_neighbors=8).fit(*lazy).components_
    np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-9 * np.abs(here).max())


def test_what_a_fit_leaves_is_what_it_leaves_here(client):
    X, y = ten_classes()
    here = MPDA(5, n_neighbors=6).fit(X, y)
    there = MPDA(5, n_neighbors=6).fit(da.from_array(X, chunks=(50, -1)), y)
    for name in ("eigenvalues_", "patch_linearity_", "tangent_dimensions_", "patch_classes_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-9)
    np.testing.assert_array_equal(there.class_solvers_, here.class_solvers_)
    assert there.units_ == pytest.approx(here.units_)
    np.testing.assert_allclose(there.mean_, here.mean_, atol=1e-12)
    assert not hasattr(there, "patch_labels_")


def test_transform_is_lazy_and_keeps_the_blocks(client):
    X, y = digits()
    model = MPDA(5, n_neighbors=8).fit(X, y)
    lazy = da.from_array(X.astype(np.float32), chunks=(500, 20))
    mapped = model.transform(lazy)
    assert isinstance(mapped, da.Array)
    assert mapped.shape == (900, 5)
    assert mapped.chunks[0] == lazy.chunks[0]
    assert mapped.dtype == np.float32
    # BLAS may round the rows of a part otherwise than those of the whole.
    whole = model.transform(X.astype(np.float32))
    np.testing.assert_allclose(mapped.compute(), whole, atol=1e-6 * np.abs(whole).max())
    with pytest.raises(ValueError, match="features"):
        model.transform(lazy[:, :10])
    with pytest.raises(ValueError, match="NaN"):
        model.transform(lazy * np.nan).compute()
    frame = as_frame(X, y).drop(columns="kind")
    model.fit(frame, y)
    parts = model.transform(dd.from_pandas(frame, npartitions=3))
    whole = model.transform(frame)
    np.testing.assert_allclose(parts.compute(), whole, atol=1e-14 * np.abs(whole).max())


def test_gram_pca_before_a_method(client):
    X, y = digits()
    here = make_pipeline(GramPCA(0.95), MPDA(8, n_neighbors=8)).fit(X, y)
    there = make_pipeline(GramPCA(0.95), MPDA(8, n_neighbors=8))
    lazy = da.from_array(X, chunks=(100, -1))
    there.fit(lazy, da.from_array(y, chunks=100))
    found, expected = there.transform(lazy).compute(), here.transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("n_components", [None, 7, 0.9])
@pytest.mark.parametrize("scale", [1.0, 1e150, 1e-150])
def test_gram_pca_is_pca(n_components, scale):
    X, _ = fifty_classes()
    ours = GramPCA(n_components).fit(scale * X)
    theirs = PCA(n_components).fit(X)
    assert ours.n_components_ == theirs.n_components_
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs.components_, atol=1e-8)
    shares = theirs.explained_variance_ratio_
    np.testing.assert_allclose(ours.explained_variance_ratio_, shares, rtol=1e-9)
    if scale == 1.0:
        np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_)
        np.testing.assert_allclose(
            ours.inverse_transform(ours.transform(X)).mean(axis=0), ours.mean_
        )


@pytest.mark.parametrize("n_components", [0, 13, 1.0, 0.0, "mle", True])
def test_gram_pca_refuses_what_means_nothing(n_components):
    with pytest.raises((ValueError, TypeError), match="n_components"):
        GramPCA(n_components).fit(fifty_classes()[0])


@pytest.mark.parametrize("by_class", [True, False])
def test_parquet_by_class_or_in_any_order(client, tmp_path, by_class):
    X, y = ten_classes(np.float32)
    frame = as_frame(X, y)
    if by_class:  # the last class in the first file
        frame = frame.sort_values("kind", kind="stable", ascending=False)
    cuts = np.flatnonzero(np.diff(pd.factorize(frame["kind"])[0])) + 1
    cuts = cuts[::2] if by_class else np.arange(30, len(frame), 30)
    for number, part in enumerate(np.split(np.arange(len(frame)), cuts)):
        frame.iloc[part].to_parquet(tmp_path / f"{number:03}.parquet")
    here = MPDA(6, n_neighbors=6).fit(frame.drop(columns="kind"), frame["kind"]).components_
    read = dd.read_parquet(tmp_path)
    for X, y in ((read, "kind"), (read.drop(columns="kind"), read["kind"])):
        there = MPDA(6, n_neighbors=6).fit(X, y).components_
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-6 * np.abs(here).max())


def test_classes_added_from_the_cluster(client):
    X, y = ten_classes()
    first = y < 5
    begun = partial(da.from_array, chunks=(40, -1))
    model = MPDA(6, n_neighbors=6).fit(begun(X[first]), y[first])
    model.partial_fit(begun(X[~first]), y[~first])
    here = MPDA(6, n_neighbors=6).fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    np.testing.assert_allclose(model.components_, here.components_, rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="earlier call"):
        model.partial_fit(begun(X[first][:-5]), y[first][:-5])


def test_fewer_samples_than_features_are_brought_here(client):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 50)), np.arange(30) % 3
    there = LFDA(2, alpha=0.1).fit(da.from_array(X, chunks=(10, -1)), da.from_array(y, chunks=10))
    np.testing.assert_array_equal(there.components_, LFDA(2, alpha=0.1).fit(X, y).components_)
    named = LFDA(2, alpha=0.1).fit(dd.from_pandas(as_frame(X, y), npartitions=2), "kind")
    assert named.feature_names_in_[1] == "feature 1"


def test_fit_survives_the_death_of_a_worker(client):
    X, y = fifty_classes()
    here = MPDA(6, n_neighbors=6).fit(X, y).components_

    def kill_worker(*_, **__):
        if not killed:
            killed.extend(client.run(lambda dask_worker: dask_worker.address).values())
            client.run(lambda: __import__("os")._exit(1), workers=killed[:1], on_error="ignore")

    killed = []
    model = MPDA(6, n_neighbors=6, verbose=1)
    lazy = da.from_array(X, chunks=(80, -1))
    # The first line about progress comes in the middle of the fit: a worker dies then.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mpda.parallel.local.print", kill_worker, raising=False)
        patch.setattr("mpda.parallel.local._REPORT_INTERVAL", 0.0)
        there = model.fit(lazy, y).components_
    assert killed
    np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-10)
    client.wait_for_workers(2, timeout=60)


def test_the_search_runs_on_the_cluster(client):
    X, y = digits()
    grid = {"n_neighbors": [5, 8], "alpha": [0.1, 1.0]}
    here = DiscriminantSearchCV(MPDA(8), grid, cv=2).fit(X[:400], y[:400])
    with parallel_config("dask"):
        there = DiscriminantSearchCV(MPDA(8), grid, cv=2).fit(X[:400], y[:400])
    assert there.best_params_ == here.best_params_
    np.testing.assert_array_equal(
        there.best_estimator_.components_, here.best_estimator_.components_
    )


def test_mistakes_are_told(client):
    X, y = ten_classes()
    lazy, labels = da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)
    model = MPDA(3, n_neighbors=6)
    with pytest.raises(TypeError, match=r"DiscriminantSearchCV.*compute"):
        DiscriminantSearchCV(model).fit(lazy, labels)
    with pytest.raises(TypeError, match=r"MFA.*compute"):
        MFA(3).fit(lazy, labels)
    with pytest.raises(TypeError, match="patches"):
        model.fit(lazy, labels, patches=np.zeros(len(y), int))
    with pytest.raises(ValueError, match="samples and y has"):
        model.fit(lazy, labels[:-1])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(da.where(lazy > 1.0, np.nan, lazy), labels)
    with pytest.raises(ValueError, match="1 class"):
        model.fit(lazy, da.zeros_like(labels))
    with pytest.raises(ValueError, match="identical"):
        model.fit(da.ones_like(lazy), labels)
    with pytest.raises(ValueError, match="two dimensions"):
        model.fit(lazy[:, 0], labels)
    with pytest.raises(ValueError, match="one dimension"):
        model.fit(lazy, y[:, None])
    with pytest.raises(ValueError, match="one dimension"):
        model.fit(lazy, "label")
    with pytest.raises(ValueError, match="partition"):
        MPDA(3, partition="round").fit(lazy, labels)
    with pytest.raises(ValueError, match="alpha"):
        LFDA(3, alpha=-1.0).fit(lazy, labels)
    missing = as_frame(X, y)
    missing.loc[3, "kind"] = None
    with pytest.raises(ValueError, match="missing labels"):
        model.fit(dd.from_pandas(missing, npartitions=2), "kind")
    frame = dd.from_pandas(as_frame(X, y).assign(colour="red"), npartitions=2)
    with pytest.raises(ValueError, match=r"not numbers.*colour"):
        model.fit(frame, "kind")
    with pytest.raises(ValueError, match=r"no column of X"):
        model.fit(frame, "sort")
    with pytest.raises(TypeError, match="unknown length"):
        model.fit(lazy[lazy[:, 0] > 0.0], y)
    with pytest.raises(TypeError, match="unknown length"):
        model.fit(frame.drop(columns=["kind", "colour"]), y)


def test_labels_go_with_rows_as_they_stand_whatever_their_index(client, tmp_path):
    X, y = ten_classes()
    frame = as_frame(X, y)
    here = LFDA(5, alpha=0.1).fit(X, y).components_
    for number, part in enumerate(np.array_split(np.arange(len(y)), 4)):
        frame.iloc[part].reset_index(drop=True).to_parquet(tmp_path / f"{number}.parquet")
    samples = dd.read_parquet(tmp_path, split_row_groups=True).drop(columns="kind")
    ends = [*np.cumsum([len(part) for part in np.array_split(y, 4)])[:-1], len(y) - 1]
    labels = dd.from_pandas(frame["kind"], npartitions=1).repartition([0, *ends])
    there = LFDA(5, alpha=0.1).fit(samples, labels).components_
    np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-10)
    backwards = dd.from_pandas(frame.set_index(np.arange(len(y))[::-1]), npartitions=3, sort=False)
    there = LFDA(5, alpha=0.1).fit(backwards.drop(columns="kind"), backwards["kind"]).components_
    np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-10)


def test_a_pipeline_from_parquet(client, tmp_path):
    X, y = digits(np.float32)
    frame = as_frame(X, y)
    for number in range(6):
        frame[number::6].to_parquet(tmp_path / f"{number}.parquet")
    samples = dd.read_parquet(tmp_path)
    order = np.concatenate([np.arange(len(y))[number::6] for number in range(6)])
    here = make_pipeline(GramPCA(0.9), LFDA(6, alpha=0.1)).fit(X[order], y[order])
    there = make_pipeline(GramPCA(0.9), LFDA(6, alpha=0.1))
    there.fit(samples.drop(columns="kind"), samples["kind"])
    found = there.transform(samples.drop(columns="kind")).compute()
    expected = here.transform(X[order])
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
    with pytest.raises(TypeError, match="kind"):
        make_pipeline(GramPCA(0.9), LFDA(6)).fit(samples.drop(columns="kind"), "kind")


def failing(*arguments):
    raise ArithmeticError("on purpose")


def test_a_fit_that_fails_leaves_nothing_on_the_cluster(client, monkeypatch):
    X, y = ten_classes()
    # No data are known with which the second pass fails on a worker, so it is replaced.
    monkeypatch.setattr("mpda.discriminant.class_stages.ClassStages.eliminate", failing)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="on purpose"):
            MPDA(3, n_neighbors=6).fit(da.from_array(X, chunks=(100, -1)), y)
    deadline = time.monotonic() + 20
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        gc.collect()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("kind", ["Int64", "Float32", "bool", "float64[pyarrow]"])
def test_columns_of_other_kinds_of_numbers(client, kind):
    X, y = digits()
    X = X[:, X.max(axis=0) > 8] > 8 if kind == "bool" else X
    frame = pd.DataFrame(X).add_prefix("p").astype(kind)
    here = LFDA(3, alpha=0.1).fit(np.asarray(X, float), y)
    lazy = dd.from_pandas(frame.assign(label=y), npartitions=2)
    there = LFDA(3, alpha=0.1).fit(lazy, "label")
    np.testing.assert_allclose(there.components_, here.components_, rtol=1e-4, atol=1e-6)
    mapped = there.transform(lazy.drop(columns="label"))
    assert mapped.compute().dtype == mapped.dtype == there.components_.dtype


def test_other_output_than_arrays_is_refused_for_dask(client):
    X, y = digits()
    model = LFDA(3, alpha=0.1).fit(X, y).set_output(transform="pandas")
    with pytest.raises(ValueError, match="set_output"):
        model.transform(da.from_array(X, chunks=(500, -1)))
    with pytest.raises(TypeError, match="Dask"):
        model.inverse_transform(da.from_array(X[:, :3], chunks=500))
    with pytest.raises(TypeError, match="Dask"):
        ManifoldPartition().fit(da.from_array(X, chunks=(500, -1)))


def test_without_a_cluster_it_says_how_to_start_one():
    X, y = fifty_classes()

    def alone():
        with pytest.raises(RuntimeError, match=r"client = Client\(\)"):
            MPDA(3, n_neighbors=6).fit(da.from_array(X, chunks=(100, -1)), y)

    if distributed.client._get_global_client() is None:
        alone()
