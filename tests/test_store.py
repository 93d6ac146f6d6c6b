"""Rows on disk that survive a kill, and the runner that resumes a run."""

import io
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest

from mpda.estimators.methods import method
from mpda.exceptions import DatasetError, ReproductionError
from mpda.experiments import (
    CONTENDERS,
    PROBLEMS,
    ExperimentOptions,
    datasets,
    read_rows,
    reproduce,
    task,
)
from mpda.experiments.row_store import append_row
from mpda.experiments.runner import run_tasks
from mpda.experiments.task import Task

DIGITS = PROBLEMS["digits"]
CLOCK = {"seconds", "search_seconds", "fit_seconds", "fit_mib", "at"}


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


def make_tasks(*names, seeds=(1, 2)):
    return [Task(DIGITS, CONTENDERS[name], seed, "data") for seed in seeds for name in names]


def without_clock(rows):
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in rows]


def test_rows_are_computed_once_and_record_their_provenance(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    rows, failures = run_tasks(make_tasks("1-NN", "PCA"), path)
    assert failures == []
    order = [("1-NN", 1), ("PCA", 1), ("1-NN", 2), ("PCA", 2)]
    assert [(row["method"], row["seed"]) for row in rows] == order
    assert all(row["versions"]["mpda"] and "cores" in row["machine"] for row in rows)
    content = path.read_bytes()
    assert [json.loads(line) for line in content.splitlines()] == rows
    assert run_tasks(make_tasks("1-NN", "PCA"), path)[0] == rows
    assert path.read_bytes() == content
    assert len(run_tasks(make_tasks("1-NN", "PCA", seeds=(1, 2, 3)), path)[0]) == 6
    assert path.read_bytes().startswith(content)
    assert len(read_rows(path)) == 6


def test_parallel_rows_are_those_of_one_process(tmp_path):
    tasks = make_tasks("1-NN", "PCA", seeds=(1,))
    serial, _ = run_tasks(tasks, tmp_path / "serial.jsonl")
    parallel, _ = run_tasks(tasks, tmp_path / "parallel.jsonl", jobs=2)
    assert without_clock(serial) == without_clock(parallel)


def test_a_failed_task_is_recorded_and_tried_again(tmp_path, monkeypatch):
    path, progress = tmp_path / "rows.jsonl", io.StringIO()

    def fail(*arguments):
        raise FloatingPointError("overflow")

    with monkeypatch.context() as patch:
        patch.setattr(task, "measure_errors", fail)
        rows, failures = run_tasks(make_tasks("1-NN"), path, progress=progress)
    assert rows == []
    message = "1-NN on digits, split {}: FloatingPointError: overflow"
    assert failures == [message.format(1), message.format(2)]
    assert "2 tasks failed; the same command tries them again" in progress.getvalue()
    assert [row["status"] for row in read_rows(path)] == ["failed", "failed"]
    rows, failures = run_tasks(make_tasks("1-NN"), path)
    assert (len(rows), failures) == (2, [])


def test_rows_of_other_data_are_not_mixed_in(tmp_path, monkeypatch):
    y = np.arange(120) % 4
    noise = np.random.default_rng(0).normal(size=(120, 18))
    directories = {tmp_path / "a": noise, tmp_path / "b": noise + 3.0 * y[:, None]}
    monkeypatch.setattr(datasets, "load", lambda name, directory: (directories[directory], y))
    n_wrong = []
    for directory in directories:
        options = ExperimentOptions(tmp_path, ["vehicle"], ["1-NN"], 1, directory=directory)
        n_wrong.append(reproduce("table2", options).rows[0]["wrong"][0])
    assert n_wrong[0] > 20 > n_wrong[1]
    assert len(read_rows(tmp_path / "rows.jsonl")) == 2


def test_fingerprint_depends_on_everything_a_row_depends_on(monkeypatch):
    contender = CONTENDERS["LFDA"]
    first = Task(DIGITS, contender, 1, "data")
    others = [
        replace(first, seed=2),
        replace(first, data="other"),
        replace(first, problem=replace(DIGITS, train_share=0.5)),
        replace(first, contender=replace(contender, grid={"n_neighbors": (5,)})),
        replace(first, contender=replace(contender, fixed={"alpha": 1.0})),
        replace(first, contender=replace(contender, method=method("MFA"))),
        replace(first, contender=replace(contender, name="another")),
    ]
    assert len({task.fingerprint for task in [first, *others]}) == 8
    before = first.fingerprint
    assert replace(first, contender=replace(contender, note="x")).fingerprint == before
    monkeypatch.setattr(task, "results_versions", lambda: {"numpy": "9.9"})
    assert first.fingerprint != before


def test_a_full_disk_is_reported_and_keeps_earlier_rows(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    append_row(path, {"task": "a"})

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ReproductionError, match="No space left on device"):
        append_row(path, {"task": "b"})
    assert path.read_text() == '{"task": "a"}\n'


def test_missing_data_stop_a_run_but_not_the_other_problems(tmp_path):
    missing = Task(PROBLEMS["face_detection"], CONTENDERS["1-NN"], 1, "")
    with pytest.raises(DatasetError, match="face_detection is not at"):
        run_tasks([missing], tmp_path / "rows.jsonl")
    problems, progress = ["face_detection", "digits"], io.StringIO()
    options = ExperimentOptions(tmp_path, problems, ["1-NN"], 1, progress=progress)
    result = reproduce("table2", options)
    assert "left out: face_detection is not at" in progress.getvalue()
    assert result.failed[0].startswith("FaceDetection: face_detection is not at")
    assert "| 1-NN |" in result.text


def test_lines_that_are_not_complete_rows_are_skipped_and_their_tasks_repeated(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows, _ = run_tasks(make_tasks("1-NN"), path)
    content = path.read_bytes()
    incomplete = json.dumps({key: rows[0][key] for key in ("task", "status")}).encode()
    for line in (b"null", b"\xff\xfe", bytes(300), b"[" * 100_000, incomplete):
        path.write_bytes(line + b"\n" + path.read_bytes() + line)
    assert run_tasks(make_tasks("1-NN"), path)[0] == rows
    for n_missing in (1, 20):  # a kill cuts the last line off
        path.write_bytes(content[:-n_missing])
        resumed, _ = run_tasks(make_tasks("1-NN"), path)
        assert without_clock(resumed) == without_clock(rows)
        assert path.read_bytes().startswith(content[:-n_missing])


def test_progress_counts_tasks_and_estimates_the_time_left(tmp_path):
    progress = io.StringIO()
    run_tasks(make_tasks("1-NN", seeds=(1, 2, 3)), tmp_path / "rows.jsonl", progress=progress)
    first, *_, last = progress.getvalue().splitlines()
    assert first == "0 of 3 tasks have their rows, 3 left"
    assert re.match(r"3/3 tasks, 0:00:\d\d, about 0:00:00 left; last: 1-NN on digits", last)
