"""Runner: carries out the tasks that have no row yet, in parallel, and stores rows as they come.

joblib distributes the tasks to processes (or to a Dask cluster, if its backend is active). A run
that was stopped, by Ctrl-C or by a kill, is resumed by running the same tasks with the same file.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import TextIO

from joblib import Parallel, delayed, effective_n_jobs

from mpda._lib.atomic_write import check_place, make_directory
from mpda.assessment import FoldResult
from mpda.experiments.row_store import append_row, read_rows, select_finished
from mpda.experiments.task import Task, run_task

# Seconds between lines on the progress: rare for a log file, frequent for a terminal.
_INTERVAL = 2.0


def run_tasks(
    tasks: Sequence[Task],
    path: Path,
    *,
    directory: Path | None = None,
    jobs: int = 1,
    progress: TextIO | None = None,
) -> tuple[list[FoldResult], list[str]]:
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

    Returns
    -------
    rows : list of FoldResult
        Rows of the finished tasks in the order of the tasks, earlier ones included.
    failures : list of str
        One message for each task that failed.
    """
    make_directory(path.parent)
    check_place(path.resolve())
    stored = read_rows(path)
    fingerprints = [task.fingerprint for task in tasks]
    finished = {row["task"] for row in select_finished(stored, fingerprints)}
    remaining = [task for task, key in zip(tasks, fingerprints, strict=True) if key not in finished]
    n_jobs = min(effective_n_jobs(jobs), effective_n_jobs(-1))
    # As many tasks in flight as processes, so that a stop loses nothing that was finished.
    parallel = Parallel(n_jobs, return_as="generator_unordered", pre_dispatch=n_jobs, batch_size=1)
    calls = (delayed(_run_numbered)(i, task, directory) for i, task in enumerate(remaining))
    report = _RunProgress(tasks, remaining, stored, n_jobs, progress)
    failures = []
    with warnings.catch_warnings():
        # joblib warns about tasks in flight where a full disk ends the run.
        warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
        with contextlib.closing(parallel(calls)) as results:
            for number, row in results:
                append_row(path, row)
                stored.append(row)
                if row["status"] == "failed":
                    failures.append(f"{remaining[number].title}: {row['error']}")
                report.update(remaining[number], row)
    report.finish(len(failures))
    return select_finished(stored, fingerprints), failures


def _run_numbered(number: int, task: Task, directory: Path | None) -> tuple[int, FoldResult]:
    return number, run_task(task, directory)


class _RunProgress:
    """Lines on the number of finished tasks and the estimated time left.

    The time of a task is estimated by the mean of earlier tasks of the same problem and method, or
    by that of all tasks if there are none.

    Parameters
    ----------
    tasks, remaining : sequence of Task
        All tasks of the run, and those that have no row yet.
    rows : sequence of FoldResult
        Rows of earlier runs; their times serve the first estimates.
    n_jobs : int
        Number of processes.
    stream : text stream or None
        Where lines go; None for no output.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        remaining: Sequence[Task],
        rows: Sequence[FoldResult],
        n_jobs: int,
        stream: TextIO | None,
    ) -> None:
        self._waiting = {task.fingerprint: task for task in remaining}
        self._n_tasks = len(remaining)
        self._n_jobs = max(1, min(n_jobs, len(remaining)))
        self._stream = stream
        self._start = self._last = time.monotonic()
        self._seconds: dict[tuple[str, str] | None, list[float]] = defaultdict(list)
        for row in rows:
            self._record_time(row)
        current = {(t.problem.name, t.contender.name, t.seed): t.fingerprint for t in tasks}
        n_outdated = sum(
            current.get((row["problem"], row["method"], row["seed"]), row["task"]) != row["task"]
            for row in rows
            if row["status"] == "done"
        )
        if n_outdated:
            self._print(f"{n_outdated} rows of other versions or parameters are left aside")
        n_finished = len(tasks) - self._n_tasks
        self._print(f"{n_finished} of {len(tasks)} tasks have their rows, {self._n_tasks} left")

    def update(self, task: Task, row: FoldResult) -> None:
        """Count a task that has ended; report it if it failed or the last line is old."""
        self._waiting.pop(task.fingerprint, None)
        self._record_time(row)
        failed, now = row["status"] == "failed", time.monotonic()
        if now - self._last < _INTERVAL and self._waiting and not failed:
            return
        self._last = now
        seconds = sum(map(self._estimate, self._waiting.values())) / self._n_jobs
        elapsed, left = (timedelta(seconds=round(s)) for s in (now - self._start, seconds))
        count = f"{self._n_tasks - len(self._waiting)}/{self._n_tasks} tasks"
        outcome = f"failed: {row['error']}" if failed else f"{row['seconds']:.1f} s"
        line = f"{count}, {elapsed}, about {left} left; {task.title}: {outcome}"
        if self._stream is not None and self._stream.isatty() and not failed:
            # On a terminal the line replaces the previous one.
            width = shutil.get_terminal_size().columns - 1
            self._print(f"\r{line[:width]:{width}}", end="" if self._waiting else "\n")
        else:
            self._print(line)

    def finish(self, n_failed: int) -> None:
        """Report the number of failed tasks."""
        if n_failed:
            self._print(f"{n_failed} tasks failed; the same command tries them again")

    def _record_time(self, row: FoldResult) -> None:
        if row["status"] == "done" and "seconds" in row:
            for key in ((row["problem"], row["method"]), None):
                self._seconds[key].append(row["seconds"])

    def _estimate(self, task: Task) -> float:
        key = (task.problem.name, task.contender.name)
        return fmean(self._seconds[key] or self._seconds[None] or [0.0])

    def _print(self, line: str, end: str = "\n") -> None:
        if self._stream is not None:
            print(line, end=end, file=self._stream, flush=True)
