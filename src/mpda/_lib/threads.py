"""Threads: how many at a time, and what all threads of a process share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

Given = ParamSpec("Given")
Result = TypeVar("Result")

# Up to this many dimensions a fit gains nothing from threads inside BLAS.
SMALL = 256
# From this many samples on, most of the work on a class is in NumPy, SciPy and scikit-learn, which
# let other threads go on.
_LARGE_CLASS = 1000

# Held by who changes, for a moment, what is one for the whole process.
CHANGING = threading.RLock()


def one_at_a_time(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """The same work, in one thread at a time."""

    @wraps(work)
    def waiting(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with CHANGING:
            return work(*args, **kwargs)

    return waiting


def class_threads(sizes: Iterable[int]) -> int:
    """How many classes of the given sizes to work on at the same time, in threads.

    As many as BLAS would use by itself, which honours OMP_NUM_THREADS and the limits of joblib and
    threadpoolctl; 1 in a thread that is not the main one, where others may be at work already.
    """
    n_large = sum(size >= _LARGE_CLASS for size in sizes)
    if n_large < 2 or threading.current_thread() is not threading.main_thread():
        return 1
    return min(_most("blas"), n_large)


def own_threads() -> int:
    """How many threads a loop with OpenMP would have here: the cores that this process may use."""
    return _most("openmp")


@contextmanager
def few_threads(n: int) -> Iterator[None]:
    """At most n threads inside BLAS, and in loops with OpenMP that this thread begins."""
    with _BLAS.at_most(n), _controller().limit(limits=min(n, own_threads()), user_api="openmp"):
        yield


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """BLAS uses one thread inside, if wanted.

    NumPy and SciPy may each carry a BLAS with its own threads, which wait for work by spinning: on
    matrices of a few hundred rows the two pools take the cores from each other and a fit becomes
    two to three times slower.
    """
    if wanted:
        with _BLAS.at_most(1):
            yield
    else:
        yield


@contextmanager
def one_core_left() -> Iterator[None]:
    """Loops with OpenMP that this thread begins inside leave a core to other threads."""
    with _controller().limit(limits=max(1, own_threads() - 1), user_api="openmp"):
        yield


def _most(api: str) -> int:
    known = [each["num_threads"] for each in _controller().info() if each["user_api"] == api]
    return max(known, default=1)


class _BlasThreads:
    """The limits of BLAS that are wanted at present, of which the lowest holds.

    They are of the whole process, and fits in several threads overlap: if each put back what it had
    found, one would put back the limit of another. So the last to go puts back what there was.
    Only where BLAS is built on OpenMP has each thread a limit of its own.
    """

    def __init__(self) -> None:
        self._wanted: list[int] = []
        self._before: list[int] = []

    @contextmanager
    def at_most(self, n: int) -> Iterator[None]:
        with CHANGING:
            if not self._wanted:
                self._before = [each.num_threads for each in self._libraries()]
            self._wanted.append(n)
            self._set()
        try:
            with self._own.limit(limits=n):
                yield
        finally:
            with CHANGING:
                self._wanted.remove(n)
                self._set()

    def _set(self) -> None:
        for library, before in zip(self._libraries(), self._before, strict=True):
            # From 3.8 on threadpoolctl heeds the first thread to set OpenBLAS until it is done.
            free = getattr(library, "clear_controlling_thread", lambda force: None)
            free(force=True)
            library.set_num_threads(min([before, *self._wanted]))
            free(force=True)

    @property
    def _own(self) -> ThreadpoolController:
        return _controller().select(user_api="blas").select(threading_layer="openmp")

    def _libraries(self) -> list[Any]:
        own = self._own.lib_controllers
        found = _controller().select(user_api="blas").lib_controllers
        return [each for each in found if each not in own]


_BLAS = _BlasThreads()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
