"""Limits on the threads of BLAS and OpenMP, and the number of threads over classes."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

from mpda._lib.arrays import count_blas_threads, one_blas_thread

Item = TypeVar("Item")
Result = TypeVar("Result")
# Applies a function to blocks of rows and returns the results in their order.
BlockMap = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


def limit_openmp(n_threads: int) -> None:
    """Limit the OpenMP loops that the calling thread starts from now on."""
    _find_openmp().limit(limits=n_threads)


def map_serially(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return ``work(item)`` for all items."""
    return [work(item) for item in items]


@contextmanager
def open_threads(n_jobs: int | None) -> Iterator[BlockMap]:
    """Start threads for work that releases Python's lock.

    They are started once for many maps: that takes milliseconds on some machines.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as `count_threads` takes it.

    Yields
    ------
    callable
        ``map_blocks(work, items)`` returns the results in the order of the items. BLAS has one
        thread in the context.
    """
    n_threads = count_threads(n_jobs)
    with one_blas_thread():
        if n_threads == 1:
            yield map_serially
            return
        with ThreadPoolExecutor(n_threads) as threads:
            yield lambda work, items: list(threads.map(work, items))


def count_openmp_threads() -> int:
    """Return how many threads an OpenMP loop would have that the calling thread starts."""
    return max((info["num_threads"] for info in _find_openmp().info()), default=1)


@cache
def _find_openmp() -> ThreadpoolController:
    """Look up the OpenMP libraries, once.

    The neighbour search of scikit-learn loads them, which may be after the import of this module.
    """
    return ThreadpoolController().select(user_api="openmp")


def count_threads(n_jobs: int | None) -> int:
    """Return how many blocks or classes to work on at a time.

    With None that is the number of threads that BLAS would use, which honours OMP_NUM_THREADS and
    the limits of joblib and threadpoolctl. The limit of ``one_blas_thread`` does not count: it
    leaves the other cores to this work. It is 1 outside the main thread, where other threads are
    probably at work already.
    """
    # More threads than cores gain nothing in compiled loops.
    if n_jobs is not None:
        return min(effective_n_jobs(n_jobs), cpu_count())
    if threading.current_thread() is not threading.main_thread():
        return 1
    return count_blas_threads()
