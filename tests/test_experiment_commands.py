"""Experiments of the paper and the commands that run them: files, tables, interrupts, mistakes."""

import html
import json
import re
import shlex
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

from command_calls import call
from mpda import WithinClassWhitening
from mpda.assessment import StoredScore, measure_stored_vectors
from mpda.cli.experiment_commands import ExperimentName
from mpda.cli.plain_text import format_plain
from mpda.exceptions import ReproductionError
from mpda.experiments import (
    EXPERIMENTS,
    ExperimentOptions,
    intents_demo,
    paper_experiments,
    protocol,
    read_rows,
    reproduce,
    task,
)
from mpda.experiments.datasets import DATASETS, load, load_intents
from mpda.experiments.error_tables import leader_table
from mpda.experiments.tangent_curve import draw_curve
from mpda.report import read_results


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


@pytest.fixture
def few_digits(monkeypatch):
    # A smaller data set, where the command would take all 1797 digits.
    X, y = load("digits")
    monkeypatch.setattr(protocol, "_load_cached", lambda name, directory: (X[:300], y[:300]))


@pytest.mark.slow
def test_experiments_write_tables_and_figures(tmp_path, few_digits):
    settings = ExperimentOptions(
        tmp_path, problems=["digits"], methods=["1-NN", "PCA", "LDA"], n_splits=2
    )
    for name, files in (
        ("table2", {"table2.md", "table2.csv"}),
        (
            "dimension",
            {f"dimension{end}" for end in (".md", ".png", ".svg", "-paper.png", "-paper.svg")},
        ),
        ("table1", {"table1.md"}),
        ("partition", {"partition.png", "partition.svg", "partition.md"}),
    ):
        outcome = reproduce(name, settings)
        assert {path.name for path in outcome.files} == files
        assert all(path.stat().st_size > 0 for path in outcome.files)
        assert outcome.failed == []
    text = (tmp_path / "table2.md").read_text()
    assert "| PCA |" in text
    assert "`mpda reproduce table2 --datasets digits --methods 1-NN PCA LDA --splits 2`" in text
    assert "numpy" in text
    assert len(read_rows(tmp_path / "rows.jsonl")) == 6


def test_leaders_are_named_by_number_of_components():
    def row(method, wrong):
        numbers = list(range(1, len(wrong) + 1))
        return {
            "problem": "digits",
            "method": method,
            "dimensions": numbers,
            "wrong": wrong,
            "n_test": 100,
        }

    rows = [row("PCA", [9, 9, 3, 9, 1]), row("LDA", [8, 8, 8]), row("MPDA", [9, 9, 4, 2, 2])]
    text = leader_table([*rows, row("PMPDA", [9, 9, 9, 1, 9])], ["digits"], ["PCA", "LDA", "MPDA"])
    assert text.splitlines()[-1] == "| digits | 1 to 2: LDA; 3: PCA; 4: MPDA or PMPDA; 5: PCA |"


def test_table1_has_the_dimension_after_pca(tmp_path, few_digits):
    outcome = reproduce("table1", ExperimentOptions(tmp_path, ["digits", "vehicle"]))
    digits, vehicle = (
        next(line for line in outcome.text.splitlines() if line.startswith(f"| {name} |"))
        for name in ("digits", "Vehicle")
    )
    # No PCA at 64 features; the paper has no digits, and 17.45 components on Vehicle.
    assert digits.endswith("| 64 |  |")
    assert vehicle.endswith("| 64 | 17.45 |")


def test_table1_has_the_dimension_of_wide_samples(tmp_path, monkeypatch):
    X, y = load("digits")
    wide = np.hstack([X[:600], X[:600]])
    monkeypatch.setattr(protocol, "_load_cached", lambda name, directory: (wide, y[:600]))
    text = reproduce("table1", ExperimentOptions(tmp_path, ["semeion"])).text
    (line,) = [line for line in text.splitlines() if line.startswith("| Semeion |")]
    cells = line.strip("| ").split(" | ")
    assert cells[2] == "128"
    # The first split, PCA to 95 % of the variance of its training part.
    part = protocol.split(protocol.PROBLEMS["semeion"], None, 1)
    values = np.linalg.svd(part.X - part.X.mean(axis=0), compute_uv=False) ** 2
    expected = np.searchsorted(np.cumsum(values) / values.sum(), 0.95) + 1
    assert cells[-2:] == [str(expected), "120.05"]


def test_ranks_are_drawn_for_each_group_of_methods(tmp_path, few_digits):
    settings = ExperimentOptions(
        tmp_path, problems=["digits", "vehicle"], methods=["1-NN", "PCA", "LDA"], n_splits=2
    )
    with pytest.raises(ReproductionError, match="two data sets"):
        reproduce("ranks", replace(settings, problems=["digits"]))
    result = reproduce("ranks", settings)
    assert {path.name for path in result.files} == {"ranks.png", "ranks.svg", "ranks.md"}
    assert "## Methods of the paper" in result.text
    assert "## Methods with the same search" not in result.text  # fewer than two of them were run


@pytest.mark.slow
def test_sensitivity_varies_every_parameter(tmp_path, few_digits, monkeypatch):
    # Two values for each parameter instead of 51 fits.
    values = {
        name: (parameter, (paper_experiments.SENSITIVITY_DEFAULTS[parameter], candidates[2]))
        for name, (parameter, candidates) in paper_experiments.SENSITIVITY.items()
    }
    monkeypatch.setattr(paper_experiments, "SENSITIVITY", values)
    outcome = reproduce("sensitivity", ExperimentOptions(tmp_path, ["digits"], n_splits=1))
    assert len(outcome.rows) == len({row["method"] for row in outcome.rows}) >= 5
    assert {path.suffix for path in outcome.files} == {".png", ".svg", ".md"}
    assert all(f"| {name} | 9" in outcome.text for name in values)
    assert re.search(r"\| k \| .* \| 5: 9\d\.\d\d, 3: 9\d\.\d\d \|", outcome.text)


def test_patch_finds_the_tangent_where_two_neighbours_do_not():
    drawing = draw_curve()
    assert drawing.patch_angles.mean() < 0.6 * drawing.neighbor_angles.mean()
    assert drawing.neighbor_angles.max() > 60
    assert np.bincount(drawing.labels).max() <= 10


@pytest.mark.parametrize(
    "words",
    [
        "--datasets digits table2 --methods lda,1-NN",
        "--methods=LDA 1-nn table2 --datasets digits",
        "--datasets digits table2 --methods 'lda 1-nn'",
    ],
)
def test_reproduce_accepts_lists_with_spaces_and_commas(words, tmp_path, few_digits, capsys):
    assert call("reproduce", *shlex.split(words), "--splits", "1", "--out", tmp_path) == 0
    streams = capsys.readouterr()
    # One row in each of two tables of errors, aligned for people; the file has Markdown.
    assert len(re.findall(r"^1-NN +\d+\.\d\d \(64\.0\)", streams.out, re.MULTILINE)) == 2
    assert "|" not in streams.out
    assert "**" not in streams.out
    assert (tmp_path / "table2.md").read_text().count("| 1-NN |") == 2
    assert "2/2 tasks" in streams.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("table2 --datasets iris", 2, "--datasets: unknown name 'iris'; available: coil20"),
        ("table2 --datasets ,", 2, "--datasets needs a name; available: coil20"),
        ("table9", 2, "table9"),
        ("sensitivity --datasets digits vehicle", 1, "digits"),
        ("table2 --datasets face_detection", 1, "face_detection"),
        ("table1 --data /absent/place", 1, "/absent/place does not exist"),
        (f"table2 --datasets digits --out {__file__}/x", 1, "test_experiment_commands.py"),
    ],
)
def test_mistake_is_one_line_and_an_exit_code(words, code, message, tmp_path, capsys):
    assert call("reproduce", "--out", tmp_path, *words.split()) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "mpda: stopped; run the same command again to continue\n"),
        (FloatingPointError("divided"), 1, "mpda: failed tasks: 1; the first one: PCA on digits"),
    ],
)
def test_interrupt_and_failed_task_set_the_exit_code(
    error, code, message, tmp_path, capsys, monkeypatch
):
    def fail(*arguments):
        raise error

    # The work of one task; any method may be interrupted or fail.
    monkeypatch.setattr(task, "measure_errors", fail)
    words = ("--datasets", "digits", "--methods", "PCA", "--splits", "1", "--out", tmp_path)
    assert call("reproduce", "dimension", *words) == code
    assert message in capsys.readouterr().err


def select_intents(n_intents):
    """Return the bundled sentences of the first intents."""
    intents = load_intents()
    kept = np.isin(intents.labels, np.unique(intents.labels)[:n_intents])
    parts = {f.name: getattr(intents, f.name)[kept] for f in fields(intents)}
    return replace(intents, **parts)


def test_demo_prints_a_table_and_writes_a_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(intents_demo, "load_intents", lambda: select_intents(12))
    monkeypatch.setattr(intents_demo, "NUMBERS", (2, 8))
    assert call("demo", "--out", tmp_path / "new" / "out") == 0
    streams = capsys.readouterr()
    lines = streams.out.splitlines()
    assert lines[0].startswith("480 sentences of 12 intents as vectors of 384 numbers")
    assert len(lines) <= 13
    assert streams.err.count("\n") == 3
    results = read_results(tmp_path / "new" / "out")
    assert results["provenance"]["command"].startswith("mpda demo --out")
    kept = [line.split() for line in lines if line.startswith("  ")]
    for scores, (raw, pca, ours) in (
        (results["storage"]["rows"], kept[:3]),
        (results["storage"]["unseen"]["rows"], kept[3:]),
    ):
        found = {
            (row["method"], row["type"], row["numbers"]): (row["recall_at_1"], row["map_at_r"])
            for row in scores
        }
        name = scores[-1]["method"]
        for printed, key, size in (
            (raw, ("raw", "float32", 384), "1,536"),
            (pca, ("PCA", "int8", 8), "8"),
            (ours, (name, "int8", 8), "8"),
        ):
            assert printed[-3] == size
            assert [float(value) / 100 for value in printed[-2:]] == pytest.approx(
                found[key], abs=0.0006
            )
    for name in ("intents.png", "intents.svg"):
        assert (tmp_path / "new" / "out" / name).stat().st_size > 10_000
    page = (tmp_path / "new" / "out" / "report.html").read_text()
    assert "The same for classes of which the fit had no label." in page
    assert page.count("<summary>Values</summary>") == 2
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    drawn = [
        re.sub(r'(id|href|url)="[^"]*"|url\(#[^)]*\)', "", svg) for svg in drawn if "MAP@R" in svg
    ]
    assert len(set(drawn)) == len(drawn) == 2
    assert results["summary"][0] in html.unescape(page).replace("\N{NO-BREAK SPACE}", " ")


def test_intents_without_labels_are_not_in_the_fit(monkeypatch):
    """The map sees no label of the classes that are searched, but their rows."""
    samples = intents_demo._split(select_intents(6))
    calls = []

    class Recorder(WithinClassWhitening):
        def fit(self, X, y, *, database):
            calls.append((X, y, database))
            return super().fit(X, y, database=database)

    monkeypatch.setattr(intents_demo, "WithinClassWhitening", Recorder)
    monkeypatch.setattr(intents_demo, "NUMBERS", (4,))
    (*_, score) = intents_demo.measure_unseen_intents(samples, n_draws=1)
    ((X, y, database),) = calls
    assert len(set(y)) == 3
    others = ~np.isin(samples.y, list(set(y)))
    np.testing.assert_array_equal(database, samples.X[others])
    Z = WithinClassWhitening(4).fit(X, y, database=database)
    is_query = ~np.isin(samples.y_test, list(set(y)))
    nearest = KNeighborsClassifier(1).fit(Z.transform(samples.X[others]), samples.y[others])
    share = nearest.score(Z.transform(samples.X_test[is_query]), samples.y_test[is_query])
    assert score.method == "whitening"
    assert score.recall_at_1 == pytest.approx(share, abs=0.04)  # int8


@pytest.mark.parametrize(("ours", "word"), [(0.9, "more"), (0.5, "as many"), (0.4, "fewer")])
def test_sentence_says_which_vectors_find_more(ours, word):
    raw = StoredScore("raw", 16, "float32", 64, 0.5, 0.25)
    mapped = StoredScore("MPDA refined", 4, "int8", 4, ours, 0.5)
    text = intents_demo._describe_gain([raw, raw, mapped], "intents of the fit")
    assert text.startswith(f"Vectors 16 times smaller find {word} right nearest neighbours for")
    assert text.endswith(" instead of 50.0 %), and MAP@R is 0.500 instead of 0.250.")


@pytest.mark.slow
def test_first_lines_of_the_readme_are_what_the_demo_measures(monkeypatch):
    monkeypatch.setattr(intents_demo, "NUMBERS", (64,))
    samples = intents_demo._split(load_intents())
    methods = ["raw", intents_demo._make_refinement()]
    seen = measure_stored_vectors(samples, methods, (64,), ("float32", "int8"), cosine=True)
    unseen = intents_demo.measure_unseen_intents(samples)
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for scores, classes in ((seen, "known to the fit"), (unseen, "nobody has labelled")):
        raw, *_, ours = scores
        line = next(line for line in readme.splitlines() if line.startswith(f"| intents {classes}"))
        numbers = [float(value) for value in re.findall(r"[\d.]+", line)]
        expected = [raw.recall_at_1, ours.recall_at_1, raw.map_at_r, ours.map_at_r]
        # Other kernels of BLAS lead to other refinements.
        assert numbers == pytest.approx([100 * value for value in expected], abs=0.6)


def test_datasets_are_listed_and_written(tmp_path, capsys):
    assert call("datasets") == 0
    text = capsys.readouterr().out
    assert "semeion: Semeion; 1593 x 256, 10 classes" in text
    assert "licence: CC BY 4.0" in text
    assert call("datasets", "digits", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert list(entries) == ["digits"]
    assert entries["digits"]["n_samples"] == 1797
    assert entries["digits"]["checksum"] == DATASETS["digits"].checksum
    assert call("datasets", "digits", "--out", tmp_path / "d.npy") == 0
    assert np.load(tmp_path / "d.npy").shape == (1797, 65)


def test_written_data_sets_keep_their_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("datasets", "wine", "--out", "wine.csv") == 0
    header, first = Path("wine.csv").read_text().splitlines()[:2]
    assert header.startswith("label,alcohol,malic_acid")
    assert first.startswith("class_0,14.23")
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(846, 18)), np.arange(846) % 4
    names = np.array(["bus", "opel", "saab", "van"])
    features = np.array([f"angle {i}" for i in range(18)])
    np.savez("vehicle.npz", X=X, y=codes, names=names, features=features)
    words = ("datasets", "vehicle", "--data", tmp_path, "--out", "vehicle.csv")
    assert call(*words) == 0
    frame = pd.read_csv("vehicle.csv")
    assert frame.columns.tolist() == ["label", *features]
    assert frame["label"].tolist() == names[codes].tolist()
    np.savez("vehicle.npz", X=X, y=codes + 1)  # numbers are names, too
    assert call(*words) == 0
    assert pd.read_csv("vehicle.csv")["label"].tolist() == (codes + 1).tolist()


def test_markdown_becomes_aligned_text():
    text = "Bold: best.\n\n## Errors\n\n| a | long title |\n| --- | --- |\n| **1.5** |  |\n"
    lines = format_plain(f"{text}| 2 | x |\n\n- {'word ' * 30}").splitlines()
    assert lines[:7] == [
        *("*: best.", "", "Errors", "------", ""),
        *("a      long title", "1.5 *"),
    ]
    assert lines[7] == "2      x"
    assert lines[9].startswith("- word")
    assert lines[10].startswith("  word")
    assert max(map(len, lines)) <= 96


def test_every_experiment_is_a_command():
    assert [name.value for name in ExperimentName] == list(EXPERIMENTS)
