"""The paper's experiments: protocol, tasks, the store that survives, summary and command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda.cli import _joined
from mpda.cli import run as command
from mpda.exceptions import DatasetError, ReproductionError
from mpda.methods import method
from mpda.model_selection import classification_curve
from mpda.reproduction import (
    CONTENDERS,
    PROBLEMS,
    SEEDS,
    Order,
    _demo,
    _runner,
    _store,
    reproduce,
)
from mpda.reproduction._cost import cost
from mpda.reproduction._experiments import SENSITIVITY, SENSITIVITY_DEFAULTS, _variants
from mpda.reproduction._illustrations import curve
from mpda.reproduction._protocol import Split, data_checksum, equalized, reduced, split
from mpda.reproduction._runner import run
from mpda.reproduction._store import Store, Task, finished, read
from mpda.reproduction._summary import (
    Cell,
    best_and_ties,
    cells,
    differs,
    published,
    published_cell,
)
from mpda.reproduction._tables import comparison, error_table, summary_csv
from mpda.reproduction._tasks import errors

DIGITS = PROBLEMS["digits"]
LFDA_ROW = replace(CONTENDERS["LFDA"], grid={"n_neighbors": (5, 10)})


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


# The protocol


def test_the_protocol_is_the_papers():
    assert len(set(SEEDS)) == 20
    assert max(SEEDS) < 1000  # studies choose rules and defaults from 1000 on
    for name, said in published()["table1"]["rows"].items():
        assert 100 * PROBLEMS[name].train_share == said["train_percent"]
    assert {p.dataset for p in PROBLEMS.values() if p.published} == set(
        published()["table1"]["rows"]
    )


def test_splits_are_stratified_and_repeatable():
    part = split(DIGITS, None, 3)
    assert len(part.y) == 449
    share = np.bincount(part.y) / np.bincount(load_digits().target)
    np.testing.assert_allclose(share, 0.25, atol=0.01)
    again, other = split(DIGITS, None, 3), split(DIGITS, None, 4)
    np.testing.assert_array_equal(part.X, again.X)
    assert not np.array_equal(part.X, other.X)
    rows = {row.tobytes() for row in part.X}
    assert len(rows & {row.tobytes() for row in part.X_test}) == 0


def test_usps_takes_a_hundred_of_each_digit_and_joins_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 250)
    X = rng.normal(size=(2500, 256)).astype(np.float32)
    X[:, 0] = y
    np.savez(tmp_path / "usps.npz", X=X, y=y)
    monkeypatch.setattr("mpda.datasets._loading._checked", lambda entry, X, y, *a, **k: (X, y))
    for name, small in (("usps_eo", {0, 2, 4, 6, 8}), ("usps_sl", {0, 1, 2, 3, 4})):
        part = split(PROBLEMS[name], tmp_path, 1)
        for X_part, y_part in ((part.X, part.y), (part.X_test, part.y_test)):
            digits = X_part[:, 0].astype(int)
            np.testing.assert_array_equal(np.bincount(digits), 100)
            np.testing.assert_array_equal(y_part, [int(digit in small) for digit in digits])


def test_pca_before_the_methods_sees_the_training_part_only():
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(60, 120)) * np.geomspace(1, 0.01, 120), rng.normal(size=(40, 120))
    labels = np.zeros(60), np.zeros(40)
    found = reduced(Split(X, labels[0], X_test, labels[1]))
    pca = PCA().fit(X)
    n = int(np.searchsorted(np.cumsum(pca.explained_variance_ratio_), 0.95)) + 1
    np.testing.assert_allclose(np.abs(found.X), np.abs(pca.transform(X)[:, :n]), atol=1e-10)
    expected = np.abs(pca.transform(X_test)[:, :n])
    np.testing.assert_allclose(np.abs(found.X_test), expected, atol=1e-10)
    narrow = Split(X[:, :100], labels[0], X_test[:, :100], labels[1])
    assert reduced(narrow) is narrow


def test_equalized_histograms_are_the_textbooks():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 40, size=(5, 361)).astype(np.uint8)
    images[4] = 7
    for image, found in zip(images, equalized(images), strict=True):
        counts = [int(np.sum(image <= level)) for level in range(256)]
        lowest = counts[image.min()]
        for level, value in zip(image, found, strict=True):
            whole = max(361 - lowest, 1)
            assert value == np.rint(255 * (counts[level] - lowest) / whole)
    assert equalized(images[:4]).max() == 255


# The rows of the comparison


def test_rows_are_those_of_the_paper_and_beyond():
    in_paper = [name for name, row in CONTENDERS.items() if row.published]
    assert in_paper == list(published()["table2"]["rows"])
    beyond = {"NCA", "shrinkage LDA", "LFDA ridge", "MFA ridge", "MPDA tuned", "PMPDA tuned"}
    assert set(CONTENDERS) - set(in_paper) == beyond
    for name in ("MFA", "LSDA", "LFDA", "LLTSA", "LPFE"):
        assert CONTENDERS[name].fixed["alpha"] == 0.0
        assert "alpha" not in CONTENDERS[name].grid
    for name in ("MPDA", "PMPDA"):
        row = CONTENDERS[name]
        assert row.fixed["tangent_alpha"] is None
        assert row.fixed["eigenvalue_power"] == 0.0
        assert set(row.grid) == {"n_neighbors", "gamma", "alpha"}
        tuned = CONTENDERS[f"{name} tuned"]
        assert set(tuned.grid) == {*row.grid, "tangent_alpha", "eigenvalue_power"}
    for name in ("MFA", "LFDA"):
        assert set(CONTENDERS[f"{name} ridge"].grid) == {*CONTENDERS[name].grid, "alpha"}
        kept = CONTENDERS[f"{name} ridge"].fixed
        assert kept == {"eigenvalue_power": CONTENDERS[name].fixed["eigenvalue_power"]}


def test_sensitivity_has_the_published_values():
    assert SENSITIVITY_DEFAULTS["units"] == "absolute"
    for name, default in (("k", 5), ("gamma", 1), ("M", 10), ("k'", 6)):
        parameter, values = SENSITIVITY[name]
        assert SENSITIVITY_DEFAULTS[parameter] == default
        assert default in values
        for value, row in _variants(name).items():
            changed = {k for k, v in row.fixed.items() if v != SENSITIVITY_DEFAULTS[k]}
            assert changed == (set() if value == default else {parameter})
    assert SENSITIVITY["k"][1] == tuple(range(1, 16))
    assert SENSITIVITY["M"][1] == tuple(range(5, 51, 5))
    np.testing.assert_allclose(np.log10(SENSITIVITY["gamma"][1]), range(-5, 6))


# Tasks


def test_baseline_is_one_nearest_neighbour_on_the_samples():
    row = errors(DIGITS, CONTENDERS["1-NN"], 1, None)
    part = split(DIGITS, None, 1)
    right = KNeighborsClassifier(1).fit(part.X, part.y).predict(part.X_test) == part.y_test
    assert row["wrong"] == [np.count_nonzero(~right)]
    assert row["dimensions"] == [64]
    assert row["cv_dimension"] == 64
    assert row["n_test"] == right.size


@pytest.mark.parametrize("name", ["LFDA", "LDA", "shrinkage LDA", "LSDR"])
def test_a_task_does_what_the_protocol_says_step_by_step(name):
    budget = {"max_iter": 2, "widths": (1.0,), "ridges": (0.1,), "init": "pca"}
    row = {
        "LFDA": LFDA_ROW,
        "LSDR": replace(CONTENDERS["LSDR"], fixed=budget, dimensions=(3, 6)),
    }.get(name, CONTENDERS[name])
    part = split(DIGITS, None, 2)
    found = errors(DIGITS, row, 2, None)
    folds = StratifiedKFold(4, shuffle=True, random_state=2)
    most = 9 if "LDA" in name else 20
    dimensions = row.dimensions or range(1, most + 1)
    grid = {f"reduce__{key}": list(values) for key, values in row.grid.items()}
    with pytest.warns() if name == "LSDR" else np.errstate():  # two iterations do not converge
        search = GridSearchCV(
            Pipeline(
                [
                    ("reduce", row.method.estimator(**row.fixed)),
                    ("classify", KNeighborsClassifier(1)),
                ]
            ),
            {**grid, "reduce__n_components": list(dimensions)},
            cv=folds,
        ).fit(part.X, part.y)
    table = search.cv_results_
    best = np.nanmax(table["mean_test_score"])
    if found["cv_dimension"] in dimensions:
        chosen = {f"reduce__{key}": value for key, value in found["parameters"].items()}
        chosen["reduce__n_components"] = found["cv_dimension"]
        place = table["params"].index(chosen)
        assert table["mean_test_score"][place] == pytest.approx(best)
    fitted = row.method.estimator(**row.fixed, **found["parameters"])
    if name != "LSDR":
        shares = classification_curve(
            fitted.fit(part.X, part.y), part.X, part.y, part.X_test, part.y_test
        )
        assert found["dimensions"] == list(range(1, len(shares) + 1))
        np.testing.assert_array_equal(found["wrong"], np.rint(shares * found["n_test"]))
    assert found["fit_seconds"] > 0
    assert found["fit_mib"] > 0


def test_methods_without_nested_components_are_fitted_for_each_dimension():
    row = replace(CONTENDERS["NCA"], fixed={"max_iter": 3, "tol": 1.0}, dimensions=(2, 5, 900))
    found = errors(DIGITS, row, 1, None)
    assert found["dimensions"] == [2, 5]
    assert found["wrong"][0] > found["wrong"][1]


def test_cost_is_time_and_memory():
    seconds, mib = cost(lambda: time.sleep(0.01 + 0 * np.ones(2**18).sum()))
    assert 0.01 < seconds < 1.0
    assert 2.0 < mib < 3.0


# The store and the runner


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
    monkeypatch.setattr("mpda.datasets._loading._checked", lambda entry, X, y, *a, **k: (X, y))
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


def test_killed_at_any_moment_it_goes_on(tmp_path):
    arguments = ["reproduce", "table2", "--datasets", "digits", "--methods", "1-NN", "PCA", "LDA"]
    arguments += ["--splits", "4", "--jobs", "2", "--out"]
    start = [sys.executable, "-m", "mpda", *arguments]
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    subprocess.run([*start, str(undisturbed)], check=True, capture_output=True)
    waits = np.random.default_rng(0).uniform(2.0, 5.0, size=3)
    for wait in waits:
        process = subprocess.Popen(
            [*start, str(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    subprocess.run([*start, str(killed)], check=True, capture_output=True)
    wanted = tasks("1-NN", "PCA", "LDA", seeds=(1, 2, 3, 4))
    found = [
        same(finished(read(directory / "rows.jsonl"), wanted))
        for directory in (undisturbed, killed)
    ]
    assert len(found[0]) == 12
    assert found[0] == found[1]


# The summary


def cell(errors, seeds=None):
    errors = np.asarray(errors, dtype=float)
    return Cell(np.arange(errors.size) if seeds is None else np.asarray(seeds), errors, errors)


def row(problem, method, seed, wrong, cv, n_test=100, dimensions=None):
    dimensions = dimensions or list(range(1, len(wrong) + 1))
    return {
        **{"problem": problem, "method": method, "seed": seed, "wrong": wrong},
        **{"n_test": n_test, "cv_dimension": cv, "dimensions": dimensions},
    }


def test_both_readings_of_a_row():
    rows = [row("digits", "LFDA", 2, [9, 4, 6], 3), row("digits", "LFDA", 1, [8, 5, 5], 1)]
    best, cv = cells(rows, "best")["digits", "LFDA"], cells(rows, "cv")["digits", "LFDA"]
    np.testing.assert_array_equal(best.seeds, [1, 2])
    np.testing.assert_array_equal(best.errors, [5, 4])
    np.testing.assert_array_equal(best.dimensions, [2, 2])
    np.testing.assert_array_equal(cv.errors, [8, 6])
    np.testing.assert_array_equal(cv.dimensions, [1, 3])
    # A dimension that the whole training part does not have: the largest below it.
    rows = [row("digits", "NCA", 1, [9, 4], 20, dimensions=[5, 10])]
    assert cells(rows, "cv")["digits", "NCA"].dimensions == [10]


def test_intervals_are_students():
    errors = np.array([3.0, 4.0, 6.0, 7.0])
    low, high = cell(errors).interval
    expected = stats.t.interval(0.95, 3, loc=5.0, scale=stats.sem(errors))
    np.testing.assert_allclose((low, high), expected)


def test_ties_are_by_a_paired_test():
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 3.0, size=20)
    found = {
        "best": cell(base),
        "always a little worse": cell(base + 0.3 + 0.05 * rng.normal(size=20)),
        "as good": cell(base + 0.05 + rng.normal(size=20)),
        "the same": cell(base.copy()),
        "shifted": cell(base + 1.0),
    }
    assert best_and_ties(found) == {"best", "as good", "the same"}
    pvalue = stats.ttest_rel(found["best"].errors, found["as good"].errors).pvalue
    assert differs(found["best"], found["as good"]) == (pvalue < 0.05)
    # Only splits that both have are compared.
    assert differs(cell([1, 2, 3, 90]), cell([2.0, 3.0, 4.1], seeds=[0, 1, 2]))
    # Where two have no two splits in common, nothing says that they tie.
    assert best_and_ties({"a": cell([1, 2, 3]), "b": cell([2.5], seeds=[0])}) == {"a"}
    assert best_and_ties({}) == set()


def test_published_numbers_are_there_with_table_and_row():
    assert published_cell("semeion", "MPDA") == {"error": 8.86, "dimension": 22.45, "best": True}
    assert published_cell("face_detection_equalized", "PMPDA")["error"] == 1.64
    assert published_cell("coil100", "PMPDA") is None
    assert published_cell("digits", "MPDA") is None
    assert published_cell("vehicle", "LFDA")["best"]
    counts = {name: len(cells) for name, cells in published()["table2"]["rows"].items()}
    assert counts.pop("LSDR") == counts.pop("PMPDA") == 5
    assert set(counts.values()) == {7}


def test_tables_mark_the_best_and_show_the_papers_numbers():
    rows = []
    for seed in range(1, 11):
        jitter = seed % 3
        rows.append(row("vehicle", "LFDA", seed, [30, 20 + jitter], 1))
        rows.append(row("vehicle", "PCA", seed, [40 + jitter, 38], 2))
        rows.append(row("vehicle", "NCA", seed, [15 + jitter], 1))
    found = cells(rows, "best")
    text = error_table(found, ["vehicle"], ["LFDA", "PCA", "NCA", "MPDA"])
    lines = dict(line.strip("| ").split(" | ", 1) for line in text.splitlines()[2:5])
    assert re.fullmatch(r"21\.00 ± 0\.82 \(2\.0\) †", lines["LFDA"])
    assert re.fullmatch(r"\*\*16\.00 ± 0\.82 \(1\.0\)\*\*", lines["NCA"])
    assert re.fullmatch(r"38\.00 ± 0\.00 \(2\.0\)", lines["PCA"])
    beside = comparison(found, ["vehicle"], ["LFDA", "PCA", "NCA"])
    assert "| Vehicle | LFDA | 21.00 | 20.42 to 21.58 | 19.63 | +1.37 | 2.0 | 10.65 |" in beside
    assert beside.splitlines()[2].endswith("ours is higher |")
    assert "NCA" not in beside
    table = summary_csv(rows).splitlines()
    assert len(table) == 7
    assert "vehicle,LFDA,best,10,21.0000" in table[1]


# The experiments and the command


def test_figures_and_tables_are_written(tmp_path):
    order = Order(tmp_path, problems=["digits"], methods=["1-NN", "PCA", "LDA"], n_splits=2)
    for name, files in (
        ("table2", {"table2.md", "table2.csv"}),
        ("dimension", {"dimension.png", "dimension.svg"}),
        ("table1", {"table1.md"}),
        ("partition", {"partition.png", "partition.svg", "partition.md"}),
    ):
        outcome = reproduce(name, order)
        assert {path.name for path in outcome.files} == files
        assert all(path.stat().st_size > 0 for path in outcome.files)
        assert outcome.failed == []
    text = (tmp_path / "table2.md").read_text()
    assert "| PCA |" in text
    assert "`mpda reproduce table2 --datasets digits --methods 1-NN PCA LDA --splits 2`" in text
    assert "numpy" in text
    assert len(read(tmp_path / "rows.jsonl")) == 6


def test_sensitivity_draws_its_panels(tmp_path, monkeypatch):
    from mpda.reproduction import _experiments

    few = {
        name: (parameter, (SENSITIVITY_DEFAULTS[parameter], values[2]))
        for name, (parameter, values) in SENSITIVITY.items()
    }
    monkeypatch.setattr(_experiments, "SENSITIVITY", few)
    panels = []
    draw = _experiments._figures.sensitivity_figure
    monkeypatch.setattr(
        _experiments._figures,
        "sensitivity_figure",
        lambda given: panels.append(given) or draw(given),
    )
    outcome = reproduce("sensitivity", Order(tmp_path, ["digits"], n_splits=2))
    # Every value is there, those that stand for the defaults in every panel too.
    for name, (parameter, values) in few.items():
        assert set(panels[0][name]) == set(values), parameter
        assert all(cell.errors.size == 2 for cell in panels[0][name].values())
    assert {path.suffix for path in outcome.files} == {".png", ".svg", ".md"}
    assert all(f"| {name} | 9" in outcome.text for name in SENSITIVITY)


def test_a_patch_finds_the_tangent_where_two_neighbours_do_not():
    found = curve()
    assert found.patch_angles.mean() < 0.6 * found.neighbor_angles.mean()
    worst = np.argmax(found.neighbor_angles)
    assert found.neighbor_angles[worst] > 60
    np.testing.assert_allclose(np.linalg.norm(found.tangents, axis=1), 1.0)
    assert np.bincount(found.labels).max() <= 10


def test_the_command_prints_the_table(tmp_path, capsys):
    given = ["reproduce", "table2", "--datasets", "digits", "--methods", "lda", "1-nn"]
    with pytest.raises(SystemExit) as ended:
        command([*given, "--splits", "1", "--out", str(tmp_path)])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert "| LDA |" in said.out
    assert "2/2 tasks" in said.err
    with pytest.raises(SystemExit):
        command([*given, "--splits", "1", "--out", str(tmp_path), "--quiet"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["table2", "--datasets", "iris"], 2, "--datasets has no 'iris'; there are: coil20"),
        (["table2", "--methods", "digits,svm"], 2, "--methods has no 'digits'; there are: 1-NN"),
        (["table9"], 2, "table9"),
        (["table2", "--datasets", ""], 2, "--datasets names nothing; there are: coil20"),
        (["sensitivity", "--datasets", "digits", "vehicle"], 1, "is about one data set"),
        (["table2", "--splits", "0"], 2, "--splits"),
        (["table2", "--datasets", "face_detection"], 1, "face_detection is not at"),
        (["table1", "--data", "/absent/place"], 1, "/absent/place does not exist"),
        (["table2", "--datasets", "digits", "--out", "/dev/null/x"], 1, "--out"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(arguments, code, message, tmp_path, capsys):
    out = [] if "--out" in arguments else ["--out", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        command(["reproduce", *arguments, *out])
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_interrupted_it_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(_runner, "errors", interrupted)
    with pytest.raises(SystemExit) as ended:
        command(["reproduce", "table2", "--datasets", "digits", "--out", str(tmp_path)])
    assert ended.value.code == 130
    assert "stopped; the same command goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ("table2 --datasets a b --jobs 2", "table2 --datasets a,b --jobs 2"),
        ("--datasets a b table2 --methods c", "--datasets a,b table2 --methods c"),
        ("table2 --datasets=a b --quiet", "table2 --datasets=a,b --quiet"),
        ("table2 --methods a,b c --datasets d", "table2 --methods a,b,c --datasets d"),
        ("table2 --out x y --datasets", "table2 --out x y --datasets"),
    ],
)
def test_lists_of_names_may_have_spaces(given, joined):
    assert _joined(given.split()) == joined.split()


def test_names_given_twice_count_once(tmp_path, capsys):
    given = ["reproduce", "table2", "--datasets", "digits,digits", "--methods", "1-NN", "1-nn"]
    with pytest.raises(SystemExit):
        command([*given, "--splits", "2", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("| 1-NN |") == 2  # once for each reading
    assert len(read(tmp_path / "rows.jsonl")) == 2


def test_failed_tasks_are_an_exit_code(tmp_path, capsys, monkeypatch):
    def broken(*arguments):
        raise FloatingPointError("the sky fell")

    monkeypatch.setattr(_runner, "errors", broken)
    with pytest.raises(SystemExit) as ended:
        command(
            [
                "reproduce",
                "dimension",
                "--datasets",
                "digits",
                "--methods",
                "PCA",
                "--splits",
                "1",
                "--out",
                str(tmp_path),
            ]
        )
    assert ended.value.code == 1
    assert "1 tasks failed; the first: PCA on digits" in capsys.readouterr().err


def test_the_demo_prints_a_table_and_draws_a_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_demo, "METHODS", ("1-NN", "LDA"))
    monkeypatch.setattr(_demo, "N_SPLITS", 2)
    with pytest.raises(SystemExit) as ended:
        command(["demo", "--out", str(tmp_path), "--jobs", "1"])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert re.search(r"^LDA +\d\.\d\d ± \d\.\d\d % +\+\d\.\d\d +\d\.\d", said.out, re.MULTILINE)
    assert "4/4 tasks" in said.err
    assert (tmp_path / "digits.png").stat().st_size > 10_000


def test_the_list_of_data_sets(capsys):
    with pytest.raises(SystemExit):
        command(["datasets"])
    said = capsys.readouterr().out
    assert "semeion: Semeion; 1593 x 256, 10 classes" in said
    assert "licence: CC BY 4.0" in said


def test_without_its_packages_the_command_says_what_to_install():
    script = "import sys; sys.modules['typer'] = None; import runpy; runpy.run_module('mpda')"
    script = script.replace("run_module('mpda')", "run_module('mpda', run_name='__main__')")
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip() == "The command line needs typer: pip install 'mpda[cli]'"


def test_rows_are_json_lines(tmp_path):
    run(tasks("1-NN", seeds=(1,)), tmp_path / "rows.jsonl")
    (line,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert json.loads(line)["seed"] == 1
