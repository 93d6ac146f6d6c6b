"""Settings that must precede the import of SciPy, array libraries, and a Dask cluster."""

import os
import sys

# Without it scikit-learn skips its checks of array API input, and no check may be skipped.
os.environ["SCIPY_ARRAY_API"] = "1"
# Deprecations of dependencies are errors in processes that tests start, too.
os.environ["PYTHONWARNINGS"] = "error::DeprecationWarning,error::FutureWarning"
# Several test processes share the cores; more BLAS threads than cores would wait by spinning.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import joblib
import numpy as np
import pytest
import sklearn

# With a GPU: MPDA_TEST_ARRAYS=torch:cuda,cupy pytest tests/test_arrays.py
LIBRARIES = os.environ.get("MPDA_TEST_ARRAYS", "torch,array_api_strict").split(",")


class Library:
    """Array library under test, with a device other than the host where it has one.

    Parameters
    ----------
    name : str
        Module name, optionally with a device: "torch:cuda".
    """

    def __init__(self, name):
        name, _, device = name.partition(":")
        self.module = pytest.importorskip(name)
        self.options = {"device": device} if device else {}
        if name == "array_api_strict":
            self.options = {"device": self.module.Device("device1")}
        elif name == "torch" and not device:
            self.module.set_num_threads(1)  # test processes share the cores

    def __call__(self, values):
        """Convert an array to this library and device."""
        return self.module.asarray(values, **self.options)

    def holds(self, X, dtype="float64"):
        """Return True if X is an array of this library, on this device, of this dtype."""
        example = self(np.zeros(1, dtype=dtype))
        return type(X) is type(example) and (X.device, X.dtype) == (example.device, example.dtype)


@pytest.fixture
def jobs_in_threads():
    """Run jobs in threads: processes take seconds to start (test_side_effects.py has both)."""
    with joblib.parallel_config(backend="threading"):
        yield


@pytest.fixture
def dispatch():
    """Enable scikit-learn's array API dispatch."""
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=LIBRARIES)
def library(dispatch, request):
    """Return an array library whose arrays scikit-learn accepts."""
    return Library(request.param)


@pytest.fixture(scope="module")
def client():
    """Start a Dask cluster of two workers for the tests of one file.

    The workers are forked from a process that has imported the library, which saves seconds.
    """
    dask = pytest.importorskip("dask", reason="needs mpda[dask]")
    distributed = pytest.importorskip("distributed", reason="needs mpda[dask]")
    preload = ["distributed", "mpda.parallel.dask_cluster", "mpda.estimators"]
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "memory_limit": "1GiB",
        "dashboard_address": ":0",
        "silence_logs": 50,
    }
    # Windows can only spawn processes.
    method = "spawn" if sys.platform == "win32" else "forkserver"
    with dask.config.set({"distributed.worker.multiprocessing-method": method}):
        distributed.utils.get_mp_context().set_forkserver_preload(preload)
        with (
            distributed.LocalCluster(**options) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
