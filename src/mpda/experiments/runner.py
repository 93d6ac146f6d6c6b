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

from mpda._lib.atomic_write import check_writable
from mpda.experiments.row_store import Row, append_row, read_rows, select_finished
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

    Returns
    -------
    rows : list of Row
        Rows of the finished tasks in the order of the tasks, earlier ones included.
    failures : list of str
        One message for each task that failed.
    """
    check_writable(path)
    stored = read_rows(path)
    by_fingerprint = {task.fingerprint: task for task in tasks}
    finished = {row["task"] for row in select_finished(stored, by_fingerprint)}
    remaining = {key: task for key, task in by_fingerprint.items() if key not in finished}
    n_jobs = min(effective_n_jobs(jobs), effective_n_jobs(-1))
    # As many tasks in flight as processes, so that a stop loses nothing that was finished.
    parallel = Parallel(n_jobs, return_as="generator_unordered", pre_dispatch=n_jobs, batch_size=1)
    report = _RunProgress(by_fingerprint, remaining, stored, n_jobs, progress)
    failures = []
    with warnings.catch_warnings():
        # joblib warns about tasks in flight where a full disk ends the run.
        warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
        calls = (delayed(run_task)(task, directory) for task in remaining.values())
        with contextlib.closing(parallel(calls)) as results:
            for row in results:
                append_row(path, row)
                stored.append(row)
                if row["status"] == "failed":
                    failures.append(f"{by_fingerprint[row['task']].title}: {row['error']}")
                report.update(row)
    if failures:
        report.print(f"{len(failures)} tasks failed; the same command tries them again")
    return select_finished(stored, by_fingerprint), failures


class _RunProgress:
    """Lines on the number of finished tasks and the estimated time left.

    The time of a task is estimated by the mean of earlier tasks of the same problem and method, or
    by that of all tasks if there are none.

    Parameters
    ----------
    tasks, remaining : dict of str to Task
        All tasks of the run by fingerprint, and those that have no row yet.
    rows : sequence of Row
        Rows of earlier runs; their times serve the first estimates.
    n_jobs : int
        Number of processes.
    stream : text stream or None
        Where lines go; None for no output.
    """

    def __init__(
        self,
        tasks: dict[str, Task],
        remaining: dict[str, Task],
        rows: Sequence[Row],
        n_jobs: int,
        stream: TextIO | None,
    ) -> None:
        self._remaining, self._n_tasks = dict(remaining), len(remaining)
        self._n_jobs = max(1, min(n_jobs, len(remaining)))
        self._stream = stream
        self._start = self._last = time.monotonic()
        self._seconds: dict[tuple[str, str] | None, list[float]] = defaultdict(list)
        for row in rows:
            self._record_time(row)
        current = {(t.problem.name, t.contender.name, t.seed): key for key, t in tasks.items()}
        n_outdated = sum(
            current.get((row["problem"], row["method"], row["seed"]), row["task"]) != row["task"]
            for row in rows
            if row["status"] == "done"
        )
        if n_outdated:
            self.print(f"{n_outdated} rows of other versions or parameters are left aside")
        n_finished = len(tasks) - self._n_tasks
        self.print(f"{n_finished} of {len(tasks)} tasks have their rows, {self._n_tasks} left")

    def update(self, row: Row) -> None:
        """Count a task that has ended; report it if it failed or the last line is old."""
        task = self._remaining.pop(row["task"])
        self._record_time(row)
        failed, now = row["status"] == "failed", time.monotonic()
        if now - self._last < _INTERVAL and self._remaining and not failed:
            return
        self._last = now
        seconds = sum(map(self._estimate, self._remaining.values())) / self._n_jobs
        elapsed, left = (timedelta(seconds=round(s)) for s in (now - self._start, seconds))
        count = f"{self._n_tasks - len(self._remaining)}/{self._n_tasks} tasks"
        outcome = f"failed: {row['error']}" if failed else f"{row['seconds']:.1f} s"
        line = f"{count}, {elapsed}, about {left} left; {task.title}: {outcome}"
        if self._stream is not None and self._stream.isatty() and not failed:
            # On a terminal the line replaces the previous one.
            width = shutil.get_terminal_size().columns - 1
            self.print(f"\r{line[:width]:{width}}", end="" if self._remaining else "\n")
        else:
            self.print(line)

    def _record_time(self, row: Row) -> None:
        if row["status"] == "done" and "seconds" in row:
            for key in ((row["problem"], row["method"]), None):
                self._seconds[key].append(row["seconds"])

    def _estimate(self, task: Task) -> float:
        key = (task.problem.name, task.contender.name)
        return fmean(self._seconds[key] or self._seconds[None] or [0.0])

    def print(self, line: str, end: str = "\n") -> None:
        """Write a line to the stream."""
        if self._stream is not None:
            print(line, end=end, file=self._stream, flush=True)
