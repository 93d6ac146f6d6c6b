"""Work on classes on this machine: one after the other, or in parallel by joblib."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

Result = TypeVar("Result")


def in_order(
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
    calls = (delayed(work)(*a) for a in arguments)
    if n == 1 or max(effective_n_jobs(n_jobs), n_threads) == 1:
        results: Iterator[Result] = (call(*a) for call, a, _ in calls)
    elif effective_n_jobs(n_jobs) == 1:
        threads = Parallel(
            n_jobs=n_threads, backend="threading", return_as="generator", pre_dispatch="n_jobs"
        )
        results = iter(threads(calls))
    else:
        streams = getattr(get_active_backend()[0], "supports_return_generator", False)
        returned = "generator" if streams else "list"
        results = iter(Parallel(n_jobs=n_jobs, return_as=returned)(calls))
    return results if report is None else reported(results, n, report, unit)


def one_by_one(
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


def made_ahead(items: Iterator[Result]) -> Iterator[Result]:
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
