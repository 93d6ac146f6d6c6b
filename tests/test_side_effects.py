"""A fit modifies neither its input nor the state of the process, and n_jobs changes no result."""

import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.neighbors import KNeighborsTransformer
from threadpoolctl import threadpool_info, threadpool_limits

import mpda
from cases import bent_classes
from mpda._lib.memory import available_memory
from mpda.exceptions import NotEnoughMemoryError
from mpda.model_selection import DiscriminantSearchCV

pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
X, Y = bent_classes(sizes=(24, 20, 22))
MODELS = {
    name: getattr(mpda, name)() for name in mpda.__all__ if hasattr(getattr(mpda, name), "fit")
}
MODELS["LSDR"].set_params(n_components=2, max_iter=3)  # three steps touch the same state as many
for kind in ("TSIMR", "PFE"):
    MODELS[kind].set_params(n_neighbors=30)  # with fewer the graph of these classes has three parts
MODELS["DiscriminantSearchCV"] = DiscriminantSearchCV(mpda.MPDA(), {"n_neighbors": [3, 6]}, cv=2)


def read_process_state():
    """Return settings that all code of the process shares."""
    return {
        "BLAS threads": [library["num_threads"] for library in threadpool_info()],
        "floating-point errors": np.geterr(),
        "print options": np.get_printoptions(),
        "warning filters": list(warnings.filters),
        "random state": repr(np.random.get_state()),  # noqa: NPY002
        "environment": dict(os.environ),
        "scikit-learn": sklearn.get_config(),
        "files": sorted(os.listdir()),
    }


@pytest.mark.parametrize("name", MODELS)
def test_fit_modifies_neither_input_nor_process_state(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    samples, labels = X.copy(), Y.copy()
    invalid = np.where(np.arange(X.shape[1]) == 2, np.nan, X)
    sklearn.clone(MODELS[name]).fit(X, Y)  # the first fit may load libraries
    before = read_process_state()
    sklearn.clone(MODELS[name]).fit(samples, labels)
    with pytest.raises(ValueError, match="NaN"):
        sklearn.clone(MODELS[name]).fit(invalid, labels)
    assert read_process_state() == before
    np.testing.assert_array_equal(samples, X)
    np.testing.assert_array_equal(labels, Y)


def assert_same_fit(model, expected):
    """Compare the learnt arrays up to rounding."""
    model, expected = (getattr(item, "best_estimator_", item) for item in (model, expected))
    for name in ("components_", "eigenvalues_", "mean_", "patch_labels_", "labels_"):
        value = getattr(expected, name, None)
        if value is not None:
            scale = np.abs(value).max()
            np.testing.assert_allclose(getattr(model, name), value, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("name", [n for n in MODELS if "n_jobs" in MODELS[n].get_params()])
def test_number_of_jobs_changes_no_result(name, jobs_in_threads):
    model = sklearn.clone(MODELS[name]).set_params(n_jobs=2).fit(X, Y)
    assert_same_fit(model, sklearn.clone(MODELS[name]).fit(X, Y))


@pytest.mark.parametrize(
    "name", ["MPDA", pytest.param("DiscriminantSearchCV", marks=pytest.mark.slow)]
)
def test_jobs_in_processes_change_no_result(name):
    with joblib.parallel_config(backend="loky"):
        model = sklearn.clone(MODELS[name]).set_params(n_jobs=2).fit(X, Y)
    assert_same_fit(model, sklearn.clone(MODELS[name]).fit(X, Y))


def test_fits_in_concurrent_threads_are_independent():
    work = [(name, seed) for name in ("MPDA", "PMPDA", "LFDA", "MFA") for seed in (0, 1)] * 3

    def fit(name, seed):
        return sklearn.clone(MODELS[name]).fit(*bent_classes(seed))

    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(fit, *zip(*work, strict=True)))
    for model, case in zip(models, work, strict=True):
        assert_same_fit(model, fit(*case))


THREADS_AFTER_FITS = """
import threading
from concurrent.futures import ThreadPoolExecutor
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsTransformer
from threadpoolctl import threadpool_info, threadpool_limits
from mpda import MPDA
from mpda._lib.validation import validate_samples
from mpda.discriminant.class_pool import LocalClasses
from mpda.model_selection import DiscriminantSearchCV

threadpool_limits(2)  # an environment variable would not set more threads than cores

def count():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

def fail(y, predicted):
    raise ZeroDivisionError

X, y = load_digits(return_X_y=True)
X, y = X[:200], y[:200]
before = count()
assert all(n == 2 for n in before), before
together = threading.Barrier(3)

def fit(k):
    together.wait()  # so that fits overlap
    return MPDA(n_neighbors=k).fit(X, y)

with ThreadPoolExecutor(3) as pool:
    list(pool.map(fit, [5, 10, 20] * 2))
assert count() == before
try:
    DiscriminantSearchCV(MPDA(), {"alpha": [0.1, 1.0]}, scoring=fail).fit(X, y)
except ZeroDivisionError as error:
    kept = error  # with its traceback, as a notebook does
assert count() == before
# Private, because no public function stops in the middle of the classes.
results = LocalClasses(validate_samples(MPDA(), X, y)).map("classes", lambda stages: count())
assert max(next(results)) == 1
results.close()
assert count() == before
"""


def test_threads_of_blas_are_restored_after_overlapping_fits_errors_and_stops():
    command = [sys.executable, "-c", THREADS_AFTER_FITS]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


# Private, because how many threads a neighbour search has shows in its time only.
OPENMP_AFTER_IMPORT = """
from mpda import MPDA  # before scikit-learn, which loads OpenMP
from mpda._lib.threads import count_openmp_threads, limit_openmp

assert count_openmp_threads() == 2, count_openmp_threads()
limit_openmp(1)
assert count_openmp_threads() == 1, count_openmp_threads()
"""


@pytest.mark.slow
def test_threads_of_openmp_do_not_depend_on_the_order_of_imports():
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", OPENMP_AFTER_IMPORT]
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stderr


class RecordingSearch(KNeighborsTransformer):
    """A search of neighbours that records the threads it is called from."""

    threads: ClassVar[set[int]] = set()

    def fit_transform(self, X, y=None):
        self.threads.add(threading.get_ident())
        return super().fit_transform(X, y)


@pytest.mark.parametrize(
    ("n_threads", "size"), [(2, 1600), pytest.param(1, 1600, marks=pytest.mark.slow), (2, 160)]
)
def test_search_works_on_large_classes_in_as_many_threads_as_blas_has(n_threads, size):
    RecordingSearch.threads.clear()
    y = np.repeat([0, 1, 2], size)
    X = np.random.default_rng(0).normal(size=(y.size, 4)) + 3.0 * y[:, None]
    method = mpda.MPDA(neighbor_search=RecordingSearch(n_neighbors=12))
    search = DiscriminantSearchCV(method, {"n_neighbors": [10]}, cv=3, halving=False, refit=False)
    with threadpool_limits(n_threads, user_api="blas"):
        search.fit(X, y)
    uses_threads = RecordingSearch.threads != {threading.get_ident()}
    assert uses_threads == (n_threads == 2 and size == 1600)
    assert search.best_score_ > 0.8


class FailingClusterer(ClusterMixin, BaseEstimator):
    def fit_predict(self, X, y=None):
        raise ValueError("no clusters in this class")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_in_workers_reach_the_caller(n_jobs, jobs_in_threads):
    with pytest.raises(ValueError, match="no clusters in this class"):
        mpda.MPDA(partition=FailingClusterer(), n_jobs=n_jobs).fit(X, Y)


def test_dask_collections_without_dask_name_the_extra(monkeypatch):
    class Collection:
        def __dask_graph__(self):
            return {}

    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.delitem(sys.modules, "mpda.parallel.dask_cluster", raising=False)
    monkeypatch.delattr("mpda.parallel.dask_cluster", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[dask\]'"):
        mpda.MPDA(2).fit(Collection(), "label")


def test_some_memory_is_available():
    assert available_memory() > 2**20


def test_all_pairs_beyond_memory_are_refused_with_numbers(monkeypatch):
    # The true amount depends on the machine, and a refusal would need a very large class.
    monkeypatch.setattr("mpda._lib.memory.available_memory", lambda: 1000.0)
    with pytest.raises(NotEnoughMemoryError, match=r"2100 samples.*\d GiB.*\d GiB.*partition"):
        mpda.ManifoldPartition("geodesic").fit(np.arange(2100.0)[:, None])
