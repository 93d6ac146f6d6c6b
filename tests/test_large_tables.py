"""Commands on tables that are too large for every sample to take part in every step."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from command_calls import call
from mpda.assessment import AssessmentProtocol, assess_methods, make_contender
from mpda.assessment.held_out import align_folds
from mpda.cli import fit_steps, terminal
from mpda.cli.options import MeasurementOptions
from mpda.cli.tables.reading import Table

pytest.importorskip("matplotlib", reason="needs mpda[cli]")


@pytest.fixture(scope="module")
def samples():
    return make_classification(
        1000, 6, n_informative=4, n_redundant=0, n_classes=3, class_sep=2.0, random_state=0
    )


@pytest.fixture
def table(samples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("table.npz", X=samples[0], y=samples[1])
    return "table.npz"


@pytest.fixture
def small_table(samples, table):
    """A table for tests in which the size does not matter."""
    np.savez(table, X=samples[0][:200], y=samples[1][:200])
    return table


@pytest.fixture
def small_limits(monkeypatch):
    """Limits that a table of 1000 samples exceeds."""
    make_protocol = MeasurementOptions.make_protocol
    limits = {"max_samples": 150, "max_tests": 20}
    monkeypatch.setattr(
        MeasurementOptions,
        "make_protocol",
        lambda settings, scaled: replace(make_protocol(settings, scaled), **limits),
    )


def test_output_and_results_say_how_many_samples_chose_and_measured(table, small_limits, capsys):
    words = ("--scale", "none", "--results", "results.json")
    assert call("fit", table, "--label", "y", *words) == 0
    streams = capsys.readouterr()
    assert "settings were selected on 150 of the 1,000 samples" in streams.err
    assert "the error was measured on 100 of the 1,000 samples" in streams.err
    assert "150 chose the settings" in " ".join(streams.out.split())
    assert "optimistic" not in streams.out
    with open("results.json") as file:
        results = json.load(file)
    assert results["embedding"]["n_all"] == 100
    assert results["data"]["n_samples"] == 1000
    assert np.sum(results["confusion"]["counts"]) == 100


def test_small_table_has_no_notes_about_limits(small_table, capsys):
    assert call("fit", small_table, "--label", "y", "--folds", "2") == 0
    streams = capsys.readouterr()
    assert "were selected on" not in streams.err
    assert "was measured on" not in streams.err
    assert "fits are to fewer samples" not in " ".join(streams.out.split())


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])  # processes
def test_time_budget_leaves_out_folds(small_table, command, jobs, capsys, monkeypatch):
    words = ["--jobs", jobs, "--scale", "none"]
    words += ["--methods", "1-nn", "mpda"] if command == "compare" else []
    # A second that has passed before the first fold is measured.
    monkeypatch.setattr(MeasurementOptions, "deadline", lambda self, progress: progress.start)
    assert call(command, small_table, "--label", "y", "--time-budget", "1", *words) == 0
    streams = capsys.readouterr()
    assert "--time-budget: the error was measured on 2 of 5 folds" in streams.err
    assert "nested cross-validation on 2 folds" in " ".join(streams.out.split())
    assert "cancelled" not in streams.err  # folds that were begun are no concern of the user


@pytest.mark.slow
def test_enough_time_changes_nothing(small_table, capsys):
    assert call("fit", small_table, "--label", "y", "--folds", "2", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert (
        call("fit", small_table, "--label", "y", "--folds", "2", "--time-budget", "600", "--json")
        == 0
    )
    limited = json.loads(capsys.readouterr().out)
    assert limited["comparison"]["problems"][0]["rows"] != []
    for row, same in zip(
        plain["comparison"]["problems"][0]["rows"],
        limited["comparison"]["problems"][0]["rows"],
        strict=True,
    ):
        assert row["error"] == same["error"]


def test_progress_lines_appear_where_stderr_is_no_terminal(small_table, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_LINE_INTERVAL", 0.0)
    assert call("fit", small_table, "--label", "y", "--folds", "2") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "% done" in line][1:]
    assert lines[0].startswith("mpda: fitting MPDA, 0 % done")
    # The choice is shown inside, before the fit is done: it is 10 of 38 parts of the work.
    shares = [int(line.split("%")[0].split()[-1]) for line in lines]
    assert shares == sorted(shares)
    assert any(0 < share < 26 for share in shares)
    assert lines[-1].startswith("mpda: measuring the error, 100 % done")


def test_quiet_command_has_no_progress_lines(small_table, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_LINE_INTERVAL", 0.0)
    assert call("fit", small_table, "--label", "y", "--folds", "2", "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_time_left_is_estimated_from_the_work_that_is_done(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    progress = terminal.Progress(10.0, "working", lambda state: None)
    assert progress.time_left == ""
    now[0] = 130.0
    progress.finish_step(2.0)
    progress.update(1.0)
    assert progress.done == 3.0
    assert progress.time_left == "about 1:10 left"  # 30 s for 3 of 10 parts


def test_large_tables_use_all_cores_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 7)
    assert MeasurementOptions().count_jobs(100_000) == 1
    assert MeasurementOptions().count_jobs(10_000_000) == 7
    assert MeasurementOptions(jobs=3).count_jobs(10_000_000) == 3


def test_folds_are_aligned_by_training_samples_alone(samples):
    X, y = samples[0][:600], samples[1][:600]
    contender = make_contender("MPDA", search=False)
    rows = assess_methods(X, y, [contender], AssessmentProtocol(n_components=3)).rows
    Z = contender.estimator({}, 3).fit(X, y).transform(X)
    held_out = align_folds(rows, Z)
    np.testing.assert_array_equal(held_out.indices, np.arange(600))
    # Distances within a fold are those of its own map, up to one factor.
    for row in rows:
        fold = held_out.points[row["tested"]]
        ratios = np.linalg.norm(np.diff(fold, axis=0), axis=1) / np.linalg.norm(
            np.diff(row["projected"], axis=0), axis=1
        )
        np.testing.assert_allclose(ratios, ratios[0])
    # The aligned maps are near the map of all samples; without the rotation they are not.
    scale = np.linalg.norm(Z - Z.mean(axis=0))
    assert np.linalg.norm(held_out.points - Z) < 0.2 * scale
    np.testing.assert_allclose(align_folds(rows, Z + 5.0).points, held_out.points + 5.0)
    flipped = [{**row, "projected": -row["projected"]} for row in rows]
    flipped = [{**row, "anchor_points": -row["anchor_points"]} for row in flipped]
    np.testing.assert_allclose(align_folds(flipped, Z).points, held_out.points)
    np.testing.assert_array_equal(
        held_out.predicted,
        np.concatenate([row["predicted"] for row in rows])[
            np.argsort(np.concatenate([row["tested"] for row in rows]))
        ],
    )


def test_time_budget_leaves_samples_of_many_classes(monkeypatch):
    """A thousand samples of 500 classes would leave folds without enough samples for LDA."""
    rng = np.random.default_rng(0)
    labels = np.arange(6000) % 500
    X = rng.normal(size=(6000, 5)) + labels[:, None]
    table = Table("many.csv", X, labels, "y", tuple("abcde"), np.arange(6000), {})
    protocol = AssessmentProtocol(n_components=2)
    options = MeasurementOptions(time_budget=1.0)
    monkeypatch.setattr("mpda.assessment.time_selection", lambda *_, **__: 100.0)
    reduced = fit_steps.spend_budget(
        table, [make_contender("LDA", search=False)], protocol, options
    )
    assert reduced.max_samples == 2000
