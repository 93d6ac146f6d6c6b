"""Rows that survive a kill, and the runner that makes what is missing."""

import io
import json
import os
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from mpda.cli import run as command
from mpda.exceptions import DatasetError, ReproductionError
from mpda.experiments import (
    CONTENDERS,
    PROBLEMS,
    Order,
    _runner,
    _store,
    reproduce,
)
from mpda.experiments._protocol import data_checksum
from mpda.experiments._runner import run
from mpda.experiments._store import Store, Task, finished, read
from mpda.model_selection.methods import method

DIGITS = PROBLEMS["digits"]
LFDA_ROW = replace(CONTENDERS["LFDA"], grid={"n_neighbors": (5, 10)})


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


DATA = data_checksum(DIGITS, None)


def tasks(*names, seeds=(1, 2)):
    return [Task(DIGITS, CONTENDERS[name], seed, DATA) for seed in seeds for name in names]


def same(rows):
    """What of the rows does not depend on the clock."""
    clock = ("seconds", "search_seconds", "fit_seconds", "fit_mib", "at")
    return [{k: v for k, v in row.items() if k not in clock} for row in rows]


def test_rows_are_made_once_and_carry_what_they_came_from(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    rows, failed = run(tasks("1-NN", "LDA"), path)
    assert failed == []
    assert [(r["method"], r["seed"]) for r in rows] == [
        *(("1-NN", 1), ("LDA", 1)),
        *(("1-NN", 2), ("LDA", 2)),
    ]
    for row in rows:
        assert row["versions"]["mpda"]
        assert "cores" in row["machine"]
    text = path.read_bytes()
    again, _ = run(tasks("1-NN", "LDA"), path)
    assert again == rows
    assert path.read_bytes() == text
    more, _ = run(tasks("1-NN", "LDA", seeds=(1, 2, 3)), path)
    assert path.read_bytes().startswith(text)
    assert len(more) == 6
    assert len(read(path)) == 6


def test_parallel_rows_are_the_same(tmp_path):
    wanted = tasks("1-NN", "PCA", "LDA")
    alone, _ = run(wanted, tmp_path / "alone.jsonl")
    together, _ = run(wanted, tmp_path / "together.jsonl", jobs=2)
    assert same(alone) == same(together)


def test_what_a_kill_leaves_of_a_line_is_no_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows, _ = run(tasks("1-NN"), path)
    whole = path.read_bytes()
    for cut in (1, 20, len(whole.splitlines()[-1])):
        path.write_bytes(whole[:-cut])
        again, _ = run(tasks("1-NN"), path)
        assert same(again) == same(rows)
        # What stood there still does, and every row after it is whole.
        assert path.read_bytes().startswith(whole[:-cut])
        assert len(read(path)) == 2


def test_a_failure_is_recorded_and_tried_again_and_never_a_result(tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.jsonl"

    def broken(*arguments):
        raise FloatingPointError("the sky fell")

    with monkeypatch.context() as patch:
        patch.setattr(_runner, "errors", broken)
        rows, failed = run(tasks("1-NN"), path, progress=sys.stderr)
    assert rows == []
    assert failed == [
        f"1-NN on digits, split {i}: FloatingPointError: the sky fell" for i in (1, 2)
    ]
    assert "2 tasks failed; the same command tries them again" in capsys.readouterr().err
    assert [row["status"] for row in read(path)] == ["failed", "failed"]
    rows, failed = run(tasks("1-NN"), path)
    assert len(rows) == 2
    assert failed == []


def test_rows_of_other_versions_or_parameters_are_not_mixed_in(tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.jsonl"
    first, _ = run(tasks("1-NN"), path)
    monkeypatch.setattr(_store, "versions", lambda: {"mpda": "9.9"})
    second, _ = run(tasks("1-NN"), path, progress=sys.stderr)
    assert {row["task"] for row in first}.isdisjoint(row["task"] for row in second)
    assert "2 rows of other versions or parameters are left aside" in capsys.readouterr().err
    assert len(read(path)) == 4


def test_identity_knows_everything_that_a_row_depends_on():
    task = Task(DIGITS, LFDA_ROW, 1, DATA)
    others = [
        replace(task, seed=2),
        replace(task, problem=replace(DIGITS, train_share=0.5)),
        replace(task, contender=replace(LFDA_ROW, grid={"n_neighbors": (5,)})),
        replace(task, contender=replace(LFDA_ROW, fixed={"alpha": 1.0})),
        replace(task, contender=replace(LFDA_ROW, most=3)),
        replace(task, contender=replace(LFDA_ROW, method=method("MFA"))),
        replace(task, contender=replace(LFDA_ROW, name="another")),
        replace(task, data="0123"),
    ]
    assert len({each.identity for each in [task, *others]}) == 9
    assert Task(DIGITS, LFDA_ROW, 1, DATA).identity == task.identity
    assert replace(task, contender=replace(LFDA_ROW, note="more")).identity == task.identity


def test_two_runs_do_not_write_to_one_file(tmp_path):
    with Store(tmp_path / "rows.jsonl"), pytest.raises(ReproductionError, match="Another run"):
        Store(tmp_path / "rows.jsonl")


def test_a_full_disk_is_said_and_keeps_what_was_there(tmp_path, monkeypatch):
    with Store(tmp_path / "rows.jsonl") as store:

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ReproductionError, match="No space left on device"):
            store.append({"task": "a", "status": "done"})
        assert finished(store.rows, []) == []


def test_data_that_are_missing_stop_the_run(tmp_path):
    with pytest.raises(DatasetError, match="face_detection is not at"):
        run([Task(PROBLEMS["face_detection"], CONTENDERS["1-NN"], 1, "")], tmp_path / "rows.jsonl")


def test_one_missing_data_set_leaves_the_others(tmp_path, capsys):
    given = ["reproduce", "table2", "--datasets", "face_detection", "digits", "--methods", "1-nn"]
    with pytest.raises(SystemExit) as ended:
        command([*given, "--splits", "1", "--out", str(tmp_path)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "left out: face_detection is not at" in said.err
    assert "1 tasks failed; the first: FaceDetection: face_detection is not at" in said.err
    assert "| 1-NN |" in said.out


def test_rows_of_other_data_are_not_mixed_in(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "mpda.experiments.datasets._loading._checked", lambda entry, X, y, *a, **k: (X, y)
    )
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    found = []
    for i, shift in enumerate((0.0, 3.0)):
        directory = tmp_path / str(i)
        directory.mkdir()
        np.savez(directory / "vehicle.npz", X=rng.normal(size=(120, 18)) + shift * y[:, None], y=y)
        order = Order(tmp_path, ["vehicle"], ["1-NN"], 1, directory=directory)
        found.append(reproduce("table2", order).rows[0]["wrong"][0])
    assert found[0] > 20 > found[1]
    assert len(read(tmp_path / "rows.jsonl")) == 2


def test_progress_estimates_what_is_left(tmp_path, capsys):
    run(tasks("1-NN", "PCA"), tmp_path / "rows.jsonl", progress=sys.stderr)
    said = capsys.readouterr().err
    assert "0 of 4 tasks have their rows, 4 left" in said
    assert re.search(r"4/4 tasks, \d+ s, about 0 s left; PCA on digits, split 2", said)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_progress_is_a_bar_in_one_place(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    shown = Terminal()
    run(tasks("1-NN", "PCA"), tmp_path / "rows.jsonl", progress=shown)
    first, *drawn = shown.getvalue().split("\r")
    assert first == "0 of 4 tasks have their rows, 4 left\n"
    assert drawn[-1].startswith("█" * 20 + " 4/4 tasks")
    assert all(len(each.rstrip("\n")) == 69 for each in drawn)
    assert all("\n" not in each for each in drawn[:-1])


def test_rows_are_json_lines(tmp_path):
    run(tasks("1-NN", seeds=(1,)), tmp_path / "rows.jsonl")
    (line,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert json.loads(line)["seed"] == 1
