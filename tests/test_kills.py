"""kill -9 and Ctrl-C at any moment: nothing that was done is lost, and the end is the same."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from killing import Run, carry_out, environment, kill, moments, results, tables
from mpda.experiments import read_rows

METHODS = ("1-NN", "LDA")


def test_killed_ten_times_it_ends_as_if_undisturbed(tmp_path):
    undisturbed, killed = (Run(tmp_path / name, METHODS, 10) for name in ("whole", "killed"))
    carry_out(undisturbed)
    found = [
        kill(killed, each, forked=each.rows > 0 and each.jobs == 1)
        for each in moments(10, random.Random(0), n_parallel=1)
    ]
    assert [each.code for each in found] == [-signal.SIGKILL] * 10
    assert {each.moment.jobs for each in found} == {1, 2}
    for each in found:
        assert each.intact
        assert each.after >= each.before + each.moment.rows
    assert found[-1].after < killed.n_rows
    carry_out(killed)
    # Nothing was lost, nothing was done twice, and no line is in pieces.
    assert (
        len(killed.path.read_bytes().splitlines()) == len(read_rows(killed.path)) == killed.n_rows
    )
    assert results(killed) == results(undisturbed)
    assert tables(killed) == tables(undisturbed)


def interrupted(process, wait):
    """What a program says and its exit code, if it is interrupted once ``wait`` is over."""
    end = time.monotonic() + 60.0
    while not wait() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers get it too
    said = process.communicate(timeout=60.0)[1]
    return process.returncode, said


def begun(given):
    return subprocess.Popen(
        given,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        env=environment(),
        # Tests that run in the background of a shell pass on that it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_ctrl_c_is_one_line_and_a_code_and_rows_stay(tmp_path):
    run = Run(tmp_path, METHODS, 20)
    process = begun(run.command(jobs=2))
    code, said = interrupted(process, lambda: len(read_rows(run.path)) > 0)
    assert (code, said) == (130, "mpda: stopped; the same command goes on from here\n")
    assert 0 < len(read_rows(run.path)) < run.n_rows
    assert [each.name for each in tmp_path.iterdir()] == ["rows.jsonl"]


SLOW = """
import pathlib, sys, time, zipfile
write = zipfile.ZipFile.writestr
def write_slowly(*arguments):
    write(*arguments)
    pathlib.Path("writing").touch()
    time.sleep(60)
zipfile.ZipFile.writestr = write_slowly
from mpda.__main__ import main
sys.argv[0] = "mpda"
main()
"""


def test_ctrl_c_while_a_model_is_written_leaves_the_one_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{i % 7},{i % 5},{'uv'[i % 2]}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"a,b,y\n{rows}\n")
    (tmp_path / "t.mpda").write_bytes(b"the one before")
    options = ["--label", "y", "--method", "lda", "--folds", "0", "--quiet"]
    process = begun([sys.executable, "-c", SLOW, "fit", "t.csv", *options])
    code, said = interrupted(process, (tmp_path / "writing").exists)
    assert (code, said) == (130, "mpda: stopped\n")
    assert (tmp_path / "t.mpda").read_bytes() == b"the one before"
    assert sorted(os.listdir()) == ["t.csv", "t.mpda", "writing"]


@pytest.mark.parametrize("place", ["cli.run", "cli._app._Ordered.parse_args"])
@pytest.mark.parametrize("code", ["raise KeyboardInterrupt", "exec('raise KeyboardInterrupt')"])
def test_ctrl_c_before_a_command_begins_is_the_same(code, place, tmp_path, monkeypatch):
    # CPython ends a module by the signal itself where code from a string was interrupted.
    script = f"import mpda.cli, mpda.__main__\ndef stop(*given): {code}\nmpda.{place} = stop\n"
    (tmp_path / "stopped.py").write_text(f"{script}mpda.__main__.main()\n")
    monkeypatch.chdir(tmp_path)
    process = begun([sys.executable, "-m", "stopped", "datasets"])
    said = process.communicate(timeout=60.0)[1]
    assert (process.returncode, said) == (130, "mpda: stopped\n")
