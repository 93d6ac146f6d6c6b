"""Runs that are killed or interrupted: nothing that was computed is lost, no file is in pieces."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from command_calls import call
from mpda.experiments import read_rows

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
    pytest.mark.slow,
]

# Entries of a row that depend on the clock.
CLOCK = ("seconds", "search_seconds", "fit_seconds", "fit_mib", "at")
# Seconds after which a wait fails; a busy machine is slow, but not that slow.
PATIENCE = 120.0


def start(words):
    """Start the program in a process group of its own, one BLAS thread for each process."""
    return subprocess.Popen(
        [sys.executable, "-m", "mpda", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        # A shell lets its background processes ignore the interrupt, and tests inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def send(process, number, condition):
    """Send a signal to the process group once the condition holds; return exit code and stderr."""
    end = time.monotonic() + PATIENCE
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, number)
    _, text = process.communicate(timeout=PATIENCE)
    return process.returncode, text


def has_more_than(n_bytes, path):
    return path.exists() and path.stat().st_size > n_bytes


def reproduction(out, jobs=1):
    words = ("reproduce", "table2", "--datasets", "digits", "--methods", "1-nn", "lda")
    return (*words, "--splits", "10", "--jobs", str(jobs), "--out", out, "--quiet")


def read_without_clock(out):
    rows = sorted(read_rows(out / "rows.jsonl"), key=lambda row: (row["method"], row["seed"]))
    return [{key: row[key] for key in row if key not in CLOCK} for row in rows]


def test_killed_reproduction_continues_to_the_result_of_an_undisturbed_one(tmp_path, capsys):
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    path = killed / "rows.jsonl"
    for jobs in (1, 2):
        before = path.read_bytes() if path.exists() else b""
        process = start(reproduction(killed, jobs))
        condition = partial(has_more_than, len(before), path)
        code, _ = send(process, signal.SIGKILL, condition)
        assert code == -signal.SIGKILL
        assert path.read_bytes().startswith(before)
    assert 0 < len(read_rows(path)) < 20
    for out in (killed, undisturbed):
        assert call(*reproduction(out)) == 0
    assert len(path.read_bytes().splitlines()) == 20
    assert read_without_clock(killed) == read_without_clock(undisturbed)


def test_ctrl_c_prints_one_line_and_keeps_the_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    process = start(reproduction(tmp_path, jobs=2))
    code, text = send(process, signal.SIGINT, partial(has_more_than, 0, path))
    assert (code, text) == (130, "mpda: stopped; run the same command again to continue\n")
    assert 0 < len(read_rows(path)) < 20
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]
