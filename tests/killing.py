"""``mpda reproduce`` killed again and again, and what is left of it: for a test and for a study."""

import contextlib
import io
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mpda import cli
from mpda.experiments import read_rows

# What depends on the clock, in rows and in the last columns of the table.
CLOCK = ("seconds", "search_seconds", "fit_seconds", "fit_mib", "at")
# A machine that has other work to do is slow, but not as slow as that.
PATIENCE = 120.0


@dataclass(frozen=True)
class Run:
    """A table of errors on the digits, in a directory."""

    out: Path
    methods: tuple[str, ...]
    n_splits: int

    @property
    def n_rows(self):
        return len(self.methods) * self.n_splits

    @property
    def path(self):
        return self.out / "rows.jsonl"

    def arguments(self, jobs=1):
        given = ["reproduce", "table2", "--datasets", "digits", "--methods", *self.methods]
        given += ["--splits", str(self.n_splits), "--jobs", str(jobs), "--out", str(self.out)]
        return [*given, "--quiet"]

    def command(self, jobs=1):
        return [sys.executable, "-m", "mpda", *self.arguments(jobs)]


@dataclass(frozen=True)
class Moment:
    """When to kill.

    rows : wait until the file has so many rows more than before; 0 is a moment of the start
    seconds : and then so long
    jobs : of the run
    """

    rows: int
    seconds: float
    jobs: int


@dataclass(frozen=True)
class Kill:
    """What became of a run.

    code : its exit code, that of the signal unless it was faster
    before : rows that the file had when it began
    after : rows that it has now
    intact : whether what the file had when the signal was sent still stands at its beginning
    """

    moment: Moment
    code: int
    before: int
    after: int
    intact: bool


def moments(n_kills, rng, n_parallel):
    """Kills over the whole of runs: a third while they start, the others while they work."""
    planned = []
    for i in range(n_kills):
        starting = i % 3 == 0
        planned.append(
            Moment(
                0 if starting else 1,
                rng.uniform(0.0, 1.5 if starting else 0.05),
                2 if not starting and i // 3 < n_parallel and i % 3 == 1 else 1,
            )
        )
    return planned


def carry_out(run):
    """Begin or go on, to the end."""
    with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as ended:
        cli.run(run.arguments())
    assert ended.value.code == 0


class _Command:
    """The program as it is started, which takes seconds."""

    def __init__(self, run, jobs):
        self._process = subprocess.Popen(
            run.command(jobs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment(),
        )
        self.pid, self.poll = self._process.pid, self._process.poll

    def ended(self):
        said = self._process.communicate(timeout=PATIENCE)[1].decode()
        return self._process.returncode, said


class _Forked:
    """The same from a process that has imported what it needs, and waits."""

    def __init__(self, run, jobs):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["killing", "mpda.experiments"])
        self._process = context.Process(target=_begin, args=[run.arguments(jobs)])
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def ended(self):
        self._process.join(PATIENCE)
        return self._process.exitcode, ""


def _begin(arguments):
    os.setsid()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        cli.run(arguments)


def kill(run, moment, *, forked=False):
    """Begin or go on, and be killed; with ``forked`` it need not start first."""
    path = run.path
    before = len(read_rows(path))
    process = (_Forked if forked else _Command)(run, moment.jobs)
    _wait_for_rows(process, path, before + moment.rows)
    time.sleep(moment.seconds)
    seen = path.read_bytes() if path.exists() else b""
    with contextlib.suppress(ProcessLookupError):  # it was faster
        os.killpg(process.pid, signal.SIGKILL)
    code, said = process.ended()
    assert code in (-signal.SIGKILL, 0), said
    found = path.read_bytes() if path.exists() else b""
    return Kill(moment, code, before, len(read_rows(path)), found.startswith(seen))


def environment():
    # One thread for each process: several that wait for each other take the time of the test.
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _wait_for_rows(process, path, n_rows):
    end = time.monotonic() + PATIENCE
    size = -1
    while n_rows and process.poll() is None and time.monotonic() < end:
        new = path.stat().st_size if path.exists() else 0
        if new != size and len(read_rows(path)) >= n_rows:
            return
        size = new
        time.sleep(0.005)


def results(run):
    """The rows in the order of their tasks, without what depends on the clock."""
    rows = sorted(read_rows(run.path), key=lambda row: (row["method"], row["seed"]))
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in rows]


def tables(run):
    """The other files of a run by name, without times, memory and the date."""
    found = {path.name: path.read_text() for path in run.out.iterdir()}
    found.pop("rows.jsonl")
    found["table2.csv"] = re.sub(r",[^,\n]*,[^,\n]*$", "", found["table2.csv"], flags=re.MULTILINE)
    timeless = re.sub(r"## Median time.*?\n\n.*?\n\n", "", found["table2.md"], flags=re.DOTALL)
    found["table2.md"] = re.sub(r"\d{4}-\d\d-\d\d", "", timeless)
    return found
