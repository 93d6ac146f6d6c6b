"""Settings that must stand before SciPy is imported, and array libraries for the tests."""

import os

# scikit-learn skips its checks of array API input without it, and no check may be skipped.
os.environ["SCIPY_ARRAY_API"] = "1"
# In other processes too, deprecations of dependencies are errors.
os.environ["PYTHONWARNINGS"] = "error::DeprecationWarning,error::FutureWarning"
# Several processes of tests share the cores, and their threads inside would wait by spinning.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import joblib
import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_limits

# With a GPU: MPDA_TEST_ARRAYS=torch:cuda,cupy pytest tests/test_arrays.py
LIBRARIES = os.environ.get("MPDA_TEST_ARRAYS", "torch,array_api_strict").split(",")


class Library:
    """Arrays of one library, on a device that is not this machine's memory where it has one."""

    def __init__(self, name):
        name, _, device = name.partition(":")
        self.module = pytest.importorskip(name)
        self.options = {"device": device} if device else {}
        if name == "array_api_strict":
            self.options = {"device": self.module.Device("device1")}
        elif name == "torch" and not device:
            self.module.set_num_threads(1)  # threads wait for each other where tests run in two

    def __call__(self, values):
        return self.module.asarray(values, **self.options)

    def holds(self, X, dtype="float64"):
        example = self(np.zeros(1, dtype=dtype))
        return type(X) is type(example) and (X.device, X.dtype) == (example.device, example.dtype)


@pytest.fixture(scope="module")
def every_core():
    """Threads as they are where nobody said anything: here, and in processes that are started."""
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(joblib.cpu_count()):
        patch.delenv("OPENBLAS_NUM_THREADS", raising=False)
        patch.delenv("OMP_NUM_THREADS", raising=False)
        yield


@pytest.fixture
def jobs_in_threads():
    """Jobs without processes, which take seconds to start; test_threads.py has both."""
    with joblib.parallel_config(backend="threading"):
        yield


@pytest.fixture
def dispatch():
    """Work is done where arrays are; that needs the versions of mpda[torch], oldest-arrays.txt."""
    try:
        with sklearn.config_context(array_api_dispatch=True):
            pass
    except ImportError as error:
        pytest.skip(str(error))
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=LIBRARIES)
def library(dispatch, request):
    """A library whose arrays scikit-learn lets through."""
    return Library(request.param)


@pytest.fixture(scope="module")
def client():
    """A cluster of two workers, for the tests of one file.

    They are forked from a process that has imported what they need, which saves seconds for each.
    """
    dask = pytest.importorskip("dask", reason="needs mpda[dask]")
    distributed = pytest.importorskip("distributed", reason="needs mpda[dask]")
    needed = ["distributed", "mpda.parallel.dask_cluster", "mpda.estimators"]
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(needed)
        with (
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                memory_limit="1GiB",
                dashboard_address=":0",
                silence_logs=50,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
