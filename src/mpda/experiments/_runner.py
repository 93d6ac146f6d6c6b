"""Carrying out tasks that have no row yet, in parallel, with rows written as they come."""

from __future__ import annotations

import os
import shutil
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from joblib import Parallel, delayed

from mpda._lib.provenance import machine, versions
from mpda._lib.threads import CHANGING
from mpda.exceptions import DatasetError
from mpda.experiments._store import Row, Store, Task, finished
from mpda.experiments._tasks import errors
from mpda.parallel import crew, workers_hear_no_ctrl_c

# Characters of a bar on a terminal.
_BAR = 20


def run(
    tasks: Sequence[Task],
    path: Path,
    *,
    directory: Path | None = None,
    jobs: int = 1,
    progress: TextIO | None = None,
) -> tuple[list[Row], list[str]]:
    """The rows of the tasks in their order, and what those said that failed.

    Rows that the file has are not made again; tasks that failed are tried again.
    """
    with Store(path) as store:
        known = {row["task"] for row in finished(store.rows, tasks)}
        left = [task for task in tasks if task.identity not in known]
        failed = []
        report = _Progress(store.rows, left, jobs, progress)
        report.begin(len(tasks), _set_aside(store.rows, tasks))
        working = crew(jobs)
        each = delayed(working.sharing(attempt) if working.n > 1 else attempt)
        calls = (each(i, left[i], directory) for i in range(len(left)))
        with _closed(_begun(calls, working.n)) as results:
            for number, row in results:
                store.append(row)
                task = left[number]
                if row["status"] == "failed":
                    failed.append(f"{task.title}: {row['error']}")
                report.step(task, row)
        report.end(failed)
        return finished(store.rows, tasks), failed


def _begun(calls: Iterator[Any], jobs: int) -> Any:
    """The results of calls, as they come."""
    with workers_hear_no_ctrl_c() if jobs > 1 else nullcontext():
        return _pool(jobs)(calls)


def _pool(jobs: int) -> Any:
    """As many tasks at a time as there are workers: a kill loses no more than they have in hand."""
    options = {"return_as": "generator_unordered", "pre_dispatch": jobs, "batch_size": 1}
    try:
        return Parallel(jobs, **options, initializer=_end_with, initargs=[os.getpid()])
    except TypeError:  # before joblib 1.5, workers of a killed parent wait for five minutes
        return Parallel(jobs, **options)


def _end_with(parent: int) -> None:
    """Let a worker end when its parent was killed, and not wait for more to do."""
    threading.Thread(target=_watch, args=[parent], daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _closed(results: Any) -> Iterator[Any]:
    """Results of joblib that are closed at the end, be it an early one."""
    try:
        yield results
    finally:
        with CHANGING, warnings.catch_warnings():
            # It advises not to begin tasks whose results nobody takes; but a disk was full.
            warnings.simplefilter("ignore", UserWarning)
            results.close()


def attempt(number: int, task: Task, directory: Path | None) -> tuple[int, Row]:
    """The row of a task; of one that fails, what it said."""
    begin = time.perf_counter()
    about: Row = {
        "task": task.identity,
        "problem": task.problem.name,
        "method": task.contender.name,
        "seed": task.seed,
        "data": task.data,
        "fixed": dict(task.contender.fixed),
    }
    try:
        found: Row = {
            "status": "done",
            **errors(task.problem, task.contender, task.seed, directory),
        }
    except DatasetError:
        raise  # nothing will work without the data
    except Exception as error:
        found = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return number, {
        **about,
        **found,
        "seconds": round(time.perf_counter() - begin, 3),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": machine(),
    }


def _set_aside(rows: Sequence[Row], tasks: Sequence[Task]) -> int:
    """How many results of these tasks were made with other versions or parameters."""
    names = {(task.problem.name, task.contender.name, task.seed): task.identity for task in tasks}
    return sum(
        row["status"] == "done"
        and names.get((row["problem"], row["method"], row["seed"]), row["task"]) != row["task"]
        for row in rows
    )


class _Progress:
    """Lines on how far the run is, and about how long it still takes."""

    def __init__(
        self, rows: Sequence[Row], left: Sequence[Task], jobs: int, stream: TextIO | None
    ) -> None:
        self._left = list(left)
        self._total = len(left)
        self._jobs = max(1, min(jobs, len(left)))
        self._stream = stream
        self._began = self._said = time.monotonic()
        self._seconds: dict[Any, list[float]] = defaultdict(list)
        for row in rows:
            if row["status"] == "done" and "seconds" in row:
                self._count(row)

    def _count(self, row: Row) -> None:
        for key in ((row["problem"], row["method"]), row["method"], row["problem"], None):
            self._seconds[key].append(row["seconds"])

    def _expected(self, task: Task) -> float:
        name, problem = task.contender.name, task.problem.name
        for key in ((problem, name), name, problem, None):
            if self._seconds[key]:
                return float(np.mean(self._seconds[key]))
        return 0.0

    def begin(self, n_tasks: int, set_aside: int) -> None:
        if set_aside:
            self._say(f"{set_aside} rows of other versions or parameters are left aside")
        self._say(f"{n_tasks - self._total} of {n_tasks} tasks have their rows, {self._total} left")

    def step(self, task: Task, row: Row) -> None:
        self._left = [other for other in self._left if other is not task]
        if row["status"] == "done":
            self._count(row)
        now = time.monotonic()
        if now - self._said < 2.0 and self._left and row["status"] == "done":
            return
        self._said = now
        done = self._total - len(self._left)
        remaining = sum(map(self._expected, self._left)) / self._jobs
        what = "failed: " + row["error"] if row["status"] == "failed" else f"{row['seconds']:.1f} s"
        line = (
            f"{done}/{self._total} tasks, {_duration(now - self._began)}, about "
            f"{_duration(remaining)} left; {task.title}: {what}"
        )
        if self._on_terminal and row["status"] == "done":
            self._redraw(done / self._total, line)
        else:
            self._say(line)

    @property
    def _on_terminal(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def _redraw(self, share: float, line: str) -> None:
        """A bar and the line in the place of those before."""
        width = shutil.get_terminal_size().columns - 1
        filled = round(share * _BAR)
        shown = f"{'█' * filled}{'░' * (_BAR - filled)} {line}"[:width]
        print(f"\r{shown:{width}}", end="" if self._left else "\n", file=self._stream, flush=True)

    def end(self, failed: list[str]) -> None:
        for line in failed:
            self._say(f"failed: {line}")
        if failed:
            self._say(f"{len(failed)} tasks failed; the same command tries them again")

    def _say(self, line: str) -> None:
        if self._stream is not None:
            print(line, file=self._stream, flush=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
