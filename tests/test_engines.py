"""How the work on classes is carried out."""

import signal
import sys
import threading

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import threadpool_info, threadpool_limits

from mpda import MPDA
from mpda._lib import threads as _threads
from mpda._lib.threads import class_threads, one_blas_thread
from mpda.parallel import map_ordered, prefetch, workers_hear_no_ctrl_c


def doubled(x):
    if x < 0:
        raise ValueError("negative")
    return 2 * x


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_results_come_in_the_order_of_the_arguments(n_jobs):
    work = [(x,) for x in range(7)]
    assert list(map_ordered(doubled, work, 7, n_jobs=n_jobs)) == [0, 2, 4, 6, 8, 10, 12]


def test_one_job_may_have_several_threads():
    meeting = threading.Barrier(2, timeout=30)

    def met(x):
        meeting.wait()  # ends only if two are at work at the same time
        return x, threading.current_thread() is threading.main_thread()

    found = list(map_ordered(met, ((x,) for x in range(6)), 6, n_threads=2))
    assert [x for x, _ in found] == list(range(6))
    assert not any(in_main for _, in_main in found)


def test_the_next_item_is_made_while_one_is_used():
    begun = [threading.Event() for _ in range(4)]

    def items():
        for i in range(4):
            begun[i].set()
            yield i

    found = []
    for item in prefetch(items()):
        if item < 3:
            assert begun[item + 1].wait(30)
        found.append(item)
    assert found == [0, 1, 2, 3]
    assert list(prefetch(iter([]))) == []


def test_an_error_in_what_is_made_ahead_comes_out_in_its_place():
    found = []
    with pytest.raises(ValueError, match="negative"):
        found.extend(prefetch(doubled(x) for x in (1, 2, -1)))
    assert found == [2, 4]


def test_threads_are_for_several_large_classes_in_the_main_thread(monkeypatch):
    monkeypatch.setattr(_threads, "_LARGE_CLASS", 100)
    with threadpool_limits(4, user_api="blas"):
        assert class_threads([100, 100, 99]) == 2
        assert class_threads([100] * 9) == 4
        assert class_threads([100, 99, 99]) == 1
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(class_threads([100] * 9)))
        thread.start()
        thread.join()
        assert elsewhere == [1]
    with threadpool_limits(1, user_api="blas"):
        assert class_threads([100] * 9) == 1


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_every_backend_of_joblib_will_do(backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert list(map_ordered(doubled, ((x,) for x in range(4)), 4)) == [0, 2, 4, 6]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_the_work_comes_out(n_jobs):
    with pytest.raises(ValueError, match="negative"):
        list(map_ordered(doubled, [(1,), (-1,), (2,)], 3, n_jobs=n_jobs))


def held_back():
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no such masks here")
def test_workers_leave_ctrl_c_to_their_parent():
    get_reusable_executor().shutdown()  # that of other tests, which may hear it
    assert list(map_ordered(held_back, [()] * 2, 2, n_jobs=2)) == [True, True]
    assert not held_back()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    heard = []

    def start():
        with workers_hear_no_ctrl_c():
            signal.raise_signal(signal.SIGINT)
            heard.append("not yet")

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["not yet"]


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


def test_without_dask_its_collections_name_the_extra(monkeypatch):
    class Collection:
        def __dask_graph__(self):
            raise AssertionError("not to be looked at")

    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.delitem(sys.modules, "mpda.parallel.dask_cluster", raising=False)
    monkeypatch.delattr("mpda.parallel.dask_cluster", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[dask\]'"):
        MPDA(2).fit(Collection(), "label")
