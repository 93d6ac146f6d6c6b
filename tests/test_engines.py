"""How the work on classes is carried out."""

import threading

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from mpda._threads import one_blas_thread
from mpda.engines import in_order


def doubled(x):
    if x < 0:
        raise ValueError("negative")
    return 2 * x


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_results_come_in_the_order_of_the_arguments(n_jobs):
    work = [(x,) for x in range(7)]
    assert list(in_order(doubled, work, 7, n_jobs=n_jobs)) == [0, 2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_every_backend_of_joblib_will_do(backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert list(in_order(doubled, ((x,) for x in range(4)), 4)) == [0, 2, 4, 6]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_the_work_comes_out(n_jobs):
    with pytest.raises(ValueError, match="negative"):
        list(in_order(doubled, [(1,), (-1,), (2,)], 3, n_jobs=n_jobs))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def raise_inside():
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        raise KeyError


def test_blas_threads_are_put_back():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    assert before
    with one_blas_thread(False):
        assert blas_threads() == before
    with pytest.raises(KeyError):
        raise_inside()
    assert blas_threads() == before


def test_other_threads_leave_blas_alone():
    before = blas_threads()
    seen = []

    def fit():
        with one_blas_thread():
            seen.append(blas_threads())

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert seen == [before]
    assert blas_threads() == before
