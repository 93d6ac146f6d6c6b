"""Independent tasks on this machine, one after the other or in parallel by joblib."""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from mpda._lib.progress import report_progress

Result = TypeVar("Result")


def map_ordered(
    work: Callable[..., Result],
    arguments: Iterable[tuple[Any, ...]],
    n: int,
    *,
    n_jobs: int | None = None,
    report: str | None = None,
    unit: str = "classes",
) -> Generator[Result, None, None]:
    """Apply a function to many arguments and yield the results in order.

    Parameters
    ----------
    work : callable
        Function that is called with each tuple of arguments.
    arguments : iterable of tuple
        Positional arguments of each task.
    n : int
        Number of tasks.
    n_jobs : int, default=None
        Number of tasks at a time, as in joblib, whose backend and limits are used.
    report : str, default=None
        Title under which progress goes to stderr.
    unit : str, default="classes"
        Name of the tasks in these lines.

    Yields
    ------
    object
        The result of each task.
    """
    # Without joblib for a single task, which then has all threads of BLAS.
    if n == 1 or effective_n_jobs(n_jobs) == 1:
        results: Iterator[Result] = (work(*a) for a in arguments)
    else:
        # Some backends, such as Dask's, return all results at once.
        streams = getattr(get_active_backend()[0], "supports_return_generator", False)
        pool = Parallel(n_jobs=n_jobs, return_as="generator" if streams else "list")
        results = iter(pool(delayed(work)(*a) for a in arguments))
    return report_progress(results, n, report, unit)
