"""Threads: few where matrices are small, one for each core where classes are large."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# Up to this many dimensions a fit gains nothing from threads inside BLAS.
SMALL = 256
# From this many samples on, most of the work on a class is in NumPy, SciPy and scikit-learn, which
# let other threads go on.
_LARGE_CLASS = 1000


def class_threads(sizes: Iterable[int]) -> int:
    """How many classes of the given sizes to work on at the same time, in threads.

    As many as BLAS would use by itself, which honours OMP_NUM_THREADS and the limits of joblib and
    threadpoolctl; 1 in a thread that is not the main one, where others may be at work already.
    """
    n_large = sum(size >= _LARGE_CLASS for size in sizes)
    if n_large < 2 or threading.current_thread() is not threading.main_thread():
        return 1
    known = [each["num_threads"] for each in _controller().info() if each["user_api"] == "blas"]
    return min(max(known, default=1), n_large)


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """BLAS uses one thread inside, if wanted and if this is the main thread.

    NumPy and SciPy may each carry a BLAS with its own threads, which wait for work by spinning: on
    matrices of a few hundred rows the two pools take the cores from each other and a fit becomes
    two to three times slower. The setting is one for the whole process, and OpenBLAS lets no other
    thread put back what the main thread has lowered; so fits in other threads leave it alone.
    """
    if wanted and threading.current_thread() is threading.main_thread():
        with _controller().limit(limits=1, user_api="blas"):
            yield
    else:
        yield


@contextmanager
def one_core_left() -> Iterator[None]:
    """Loops with OpenMP that this thread begins inside leave a core to other threads."""
    known = [each["num_threads"] for each in _controller().info() if each["user_api"] == "openmp"]
    with _controller().limit(limits=max(1, max(known, default=2) - 1), user_api="openmp"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
