"""Limits on the threads of BLAS and OpenMP, and the number of threads over classes.

No other module changes the number of threads of a library.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import scipy.linalg  # noqa: F401  the BLAS of SciPy must be loaded before it is looked up
from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")
# Applies a function to blocks of rows and returns the results in their order.
BlockMap = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
# Up to this many dimensions a fit gains nothing from threads inside BLAS. NumPy and SciPy may each
# carry a BLAS with its own pool of threads, which wait by spinning: on matrices of a few hundred
# rows the two pools take the cores from each other and a fit becomes two to three times slower.
SMALL = 256
# Held by the context that limits BLAS.
_blas_limited = threading.Lock()
# Threads of BLAS before that limit, while it is in force.
_threads_before_limit: list[int] = []


def one_blas_thread(condition: bool = True) -> AbstractContextManager[None]:
    """Return a context manager in which BLAS uses one thread, if the condition holds."""
    return _limit_blas() if condition else nullcontext()


@contextmanager
def _limit_blas() -> Iterator[None]:
    """Limit BLAS to one thread, unless another context does so already.

    The limit belongs to the process. If contexts of several threads overlap, the first one sets and
    restores it: a later one would find the limit of the first and restore that.
    """
    if not _blas_limited.acquire(blocking=False):
        yield
        return
    try:
        _threads_before_limit.append(count_blas_threads())
        with _find_libraries("blas").limit(limits=1):
            yield
    finally:
        _threads_before_limit.clear()
        _blas_limited.release()


def small_products(d: int) -> AbstractContextManager[None]:
    """Return a context manager for products of many small matrices in a fit of d features.

    BLAS has one thread in it. More gain nothing there, and where other programs are at work the
    threads wait for each other longer than they compute. Fits of few features have one thread
    throughout.
    """
    return one_blas_thread(d > SMALL)


def count_blas_threads() -> int:
    """Return the number of threads of BLAS, without the limit of ``one_blas_thread``."""
    if before := _threads_before_limit[:1]:  # another thread may end its limit at any time
        return before[0]
    return _count_pool_threads("blas")


def limit_openmp(n_threads: int) -> None:
    """Limit the OpenMP loops that the calling thread starts from now on."""
    _find_libraries("openmp").limit(limits=n_threads)


def count_openmp_threads() -> int:
    """Return how many threads an OpenMP loop would have that the calling thread starts."""
    return _count_pool_threads("openmp")


def _count_pool_threads(kind: str) -> int:
    return max((pool["num_threads"] for pool in _find_libraries(kind).info()), default=1)


@cache
def _find_libraries(kind: str) -> ThreadpoolController:
    """Look up the libraries of a kind, "blas" or "openmp", once: that takes milliseconds.

    It is done at the first use, because the neighbour search of scikit-learn loads OpenMP, which
    may be after the import of this module.
    """
    return ThreadpoolController().select(user_api=kind)


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
