"""Runner: carries out the tasks that have no row yet, in parallel, and stores rows as they come.

joblib distributes the tasks to processes (or to a Dask cluster, if its backend is active). A run
that was stopped, by Ctrl-C or by a kill, is resumed by running the same tasks with the same file.
"""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TextIO

from joblib import Parallel, delayed, effective_n_jobs

from mpda._lib.atomic_write import check_writable
from mpda._lib.progress import ProgressPrinter
from mpda.experiments.row_store import Row, append_row, read_rows, select_finished
from mpda.experiments.task import run_task

# Seconds between lines on the progress: a run of hours fits into a log file, and a short run on a
# terminal still shows that it advances.
_INTERVAL = 5.0


class RunnableTask(Protocol):
    """Task that can be resumed: it is known by its fingerprint."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything the result depends on."""

    @property
    def title(self) -> str:
        """Description for people."""


def run_tasks(
    tasks: Sequence[RunnableTask],
    path: Path,
    directory: Path | None = None,
    jobs: int = 1,
    progress: TextIO | None = None,
    run: Callable[[Any, Path | None], Row] = run_task,
) -> tuple[list[Row], list[str]]:
    """Carry out the tasks that have no finished row in a file.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks. Those that failed in an earlier run are tried again.
    path : Path
        File of rows; every finished task is appended at once.
    directory : Path, default=None
        Directory of .npz files.
    jobs : int, default=1
        Number of processes, at most the number of cores.
    progress : text stream, default=None
        Where lines on the progress are written.
    run : callable, default=run_task
        ``run(task, directory)`` carries out a task and returns its row.

    Returns
    -------
    rows : list of Row
        Rows of the finished tasks in the order of the tasks, earlier ones included.
    failures : list of str
        One message for each task that failed.
    """
    check_writable(path)  # before hours of work whose first row could not be stored
    stored = read_rows(path)
    by_fingerprint = {task.fingerprint: task for task in tasks}
    finished = {row["task"] for row in select_finished(stored, by_fingerprint)}
    remaining = {key: task for key, task in by_fingerprint.items() if key not in finished}
    # effective_n_jobs(-1) are the cores, or the workers of a Dask cluster if one is connected.
    n_jobs = min(effective_n_jobs(jobs), effective_n_jobs(-1))
    # As many tasks in flight as processes, so that a stop loses nothing that was finished.
    parallel = Parallel(n_jobs, return_as="generator_unordered", pre_dispatch=n_jobs, batch_size=1)
    counts = f"{len(finished)} of {len(by_fingerprint)} tasks have their rows"
    _print(f"{counts}, {len(remaining)} left", progress)
    failures = []
    printer = ProgressPrinter(None, _INTERVAL)
    with warnings.catch_warnings():
        # joblib warns about tasks in flight where a full disk ends the run.
        warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
        calls = (delayed(run)(task, directory) for task in remaining.values())
        # Closing cancels the tasks in flight at once where Ctrl-C or a full disk ends the loop.
        with contextlib.closing(parallel(calls)) as results:
            for n_done, row in enumerate(results, start=1):
                append_row(path, row)
                stored.append(row)
                title = by_fingerprint[row["task"]].title
                if row["status"] == "failed":
                    failures.append(f"{title}: {row['error']}")
                    _print(f"failed: {failures[-1]}", progress)
                if printer.is_due(is_last=n_done == len(remaining)):
                    seconds = printer.elapsed
                    left = timedelta(seconds=round(seconds * (len(remaining) / n_done - 1)))
                    times = f"{timedelta(seconds=round(seconds))}, about {left} left"
                    _print(f"{n_done}/{len(remaining)} tasks, {times}; last: {title}", progress)
    if failures:
        _print(f"{len(failures)} tasks failed; the same command tries them again", progress)
    return select_finished(stored, by_fingerprint), failures


def _print(line: str, stream: TextIO | None) -> None:
    if stream is not None:
        print(line, file=stream, flush=True)
