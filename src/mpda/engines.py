"""How the work on classes is carried out: one after the other, or in parallel by joblib."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
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
) -> Iterator[Result]:
    """Yield ``work(*a)`` for each a of the n arguments, in their order, whatever finishes first.

    With ``report``, a line a piece goes to stderr, at most one in two seconds besides the last.
    """
    if effective_n_jobs(n_jobs) == 1 or n == 1:
        results: Iterator[Result] = (work(*a) for a in arguments)
    else:
        calls = (delayed(work)(*a) for a in arguments)
        streams = getattr(get_active_backend()[0], "supports_return_generator", False)
        returned = "generator" if streams else "list"
        results = iter(Parallel(n_jobs=n_jobs, return_as=returned)(calls))
    return results if report is None else _reported(results, n, report)


def _reported(results: Iterator[Result], n: int, title: str) -> Iterator[Result]:
    begin = last = time.monotonic()
    for done, result in enumerate(results, start=1):
        now = time.monotonic()
        if done == n or now - last >= 2.0:
            print(f"{title}: {done}/{n} classes, {now - begin:.1f} s", file=sys.stderr)
            last = now
        yield result
