"""Work on classes on this machine: one after the other, or in parallel by joblib."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker as joblib_tracker
from joblib.parallel import get_active_backend

from mpda._lib.threads import few_threads, own_threads

Result = TypeVar("Result")


@dataclass(frozen=True)
class Crew:
    """n : how many work at the same time; n_threads : how many threads each may use inside"""

    n: int
    n_threads: int

    def sharing(self, work: Callable[..., Result]) -> Callable[..., Result]:
        """The same work, with no more threads than one of the crew may use."""
        return partial(_in_few_threads, work, self.n_threads)


def crew(n_jobs: int | None) -> Crew:
    """Who works on n_jobs jobs: all of them together need no more cores than there are.

    Inside work that is itself one of several jobs the cores are those that this one has.
    """
    wanted = effective_n_jobs(n_jobs)
    if wanted == 1:
        return Crew(1, own_threads())
    backend = get_active_backend()[0]
    if not (getattr(backend, "nesting_level", 0) and getattr(backend, "supports_sharedmem", False)):
        n_cores = effective_n_jobs(-1)
    else:
        in_main = threading.current_thread() is threading.main_thread()
        n_cores = own_threads() if in_main else 1
    n = min(wanted, n_cores)
    return Crew(n, n_cores // n)


def _in_few_threads(work: Callable[..., Result], n_threads: int, *args: Any) -> Result:
    with few_threads(n_threads):
        return work(*args)


def map_ordered(
    work: Callable[..., Result],
    arguments: Iterable[tuple[Any, ...]],
    n: int,
    *,
    n_jobs: int | None = None,
    report: str | None = None,
    unit: str = "classes",
    n_threads: int = 1,
) -> Iterator[Result]:
    """Yield ``work(*a)`` for each a of the n arguments, in their order, whatever finishes first.

    With one job the work may still go on in several threads.

    With ``report``, a line goes to stderr at most every two seconds and after the last piece;
    ``unit`` is what the pieces are.
    """
    working = crew(n_jobs)
    if n == 1 or max(working.n, n_threads) == 1:
        results: Iterator[Result] = (work(*a) for a in arguments)
    elif working.n == 1:
        working = Crew(n_threads, max(1, own_threads() // n_threads))
        threads = Parallel(
            n_jobs=n_threads, backend="threading", return_as="generator", pre_dispatch="n_jobs"
        )
        results = iter(threads(delayed(working.sharing(work))(*a) for a in arguments))
    else:
        backend = get_active_backend()[0]
        streams = getattr(backend, "supports_return_generator", False)
        pool = Parallel(n_jobs=working.n, return_as="generator" if streams else "list")
        calls = (delayed(working.sharing(work))(*a) for a in arguments)
        # Without streams all is done when it returns, and Ctrl-C must be heard.
        starts = streams and not getattr(backend, "supports_sharedmem", False)
        with workers_hear_no_ctrl_c() if starts else nullcontext():
            results = iter(pool(calls))
    return results if report is None else reported(results, n, report, unit)


@contextmanager
def workers_hear_no_ctrl_c() -> Iterator[None]:
    """Let processes that are started here leave Ctrl-C to their parent, which ends them.

    A terminal sends it to all of them, and a worker between two tasks would print a traceback.
    Held back from this thread, it is held back for good from what the thread starts.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    for tracker in (resource_tracker, joblib_tracker):
        tracker.ensure_running()  # which lets it through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:  # and one that came meanwhile is heard now
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def map_serial(
    work: Callable[..., Result],
    arguments: Iterable[tuple[Any, ...]],
    n: int,
    *,
    report: str | None = None,
    unit: str = "classes",
    **_: Any,
) -> Iterator[Result]:
    """The same in this thread alone, for work that is carried out elsewhere anyway."""
    results = (work(*a) for a in arguments)
    return results if report is None else reported(results, n, report, unit)


def prefetch(items: Iterator[Result]) -> Iterator[Result]:
    """The same items; while one is used, the next is made in another thread."""
    end = object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]  # end never gets here


def reported(results: Iterator[Result], n: int, title: str, unit: str) -> Iterator[Result]:
    begin = last = time.monotonic()
    for done, result in enumerate(results, start=1):
        now = time.monotonic()
        if done == n or now - last >= 2.0:
            print(f"{title}: {done}/{n} {unit}, {now - begin:.1f} s", file=sys.stderr)
            last = now
        yield result
