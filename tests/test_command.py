"""The experiments and the command that runs them."""

import re
import subprocess
import sys

import numpy as np
import pytest

from mpda.cli import joined as joined_lists
from mpda.cli import run as command
from mpda.experiments import (
    ExperimentOptions,
    digits_demo,
    paper_experiments,
    paper_figures,
    protocol,
    read_rows,
    reproduce,
    task,
)
from mpda.experiments.datasets import load
from mpda.experiments.tangent_curve import draw_curve
from mpda.report import read_results


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    monkeypatch.delenv("MPDA_DATA", raising=False)


@pytest.fixture
def few_digits(monkeypatch):
    X, y = load("digits")
    monkeypatch.setattr(protocol, "_load_cached", lambda name, directory: (X[:600], y[:600]))


def test_figures_and_tables_are_written(tmp_path):
    order = ExperimentOptions(
        tmp_path, problems=["digits"], methods=["1-NN", "PCA", "LDA"], n_splits=2
    )
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
    assert len(read_rows(tmp_path / "rows.jsonl")) == 6


def test_sensitivity_draws_its_panels(tmp_path, few_digits, monkeypatch):
    few = {
        name: (parameter, (paper_experiments.SENSITIVITY_DEFAULTS[parameter], values[2]))
        for name, (parameter, values) in paper_experiments.SENSITIVITY.items()
    }
    monkeypatch.setattr(paper_experiments, "SENSITIVITY", few)
    panels = []
    draw = paper_figures.sensitivity_figure
    monkeypatch.setattr(
        paper_figures,
        "sensitivity_figure",
        lambda given: panels.append(given) or draw(given),
    )
    outcome = reproduce("sensitivity", ExperimentOptions(tmp_path, ["digits"], n_splits=1))
    # Every value is there, those that stand for the defaults in every panel too.
    for name, (parameter, values) in few.items():
        assert set(panels[0][name]) == set(values), parameter
        assert all(cell.errors.size == 1 for cell in panels[0][name].values())
    assert {path.suffix for path in outcome.files} == {".png", ".svg", ".md"}
    assert all(f"| {name} | 9" in outcome.text for name in few)


def test_a_patch_finds_the_tangent_where_two_neighbours_do_not():
    found = draw_curve()
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

    monkeypatch.setattr(task, "measure_errors", interrupted)
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
    assert joined_lists(given.split()) == joined.split()


def test_names_given_twice_count_once(tmp_path, capsys):
    given = ["reproduce", "table2", "--datasets", "digits,digits", "--methods", "1-NN", "1-nn"]
    with pytest.raises(SystemExit):
        command([*given, "--splits", "2", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("| 1-NN |") == 2  # once for each reading
    assert len(read_rows(tmp_path / "rows.jsonl")) == 2


def test_failed_tasks_are_an_exit_code(tmp_path, capsys, monkeypatch):
    def broken(*arguments):
        raise FloatingPointError("the sky fell")

    monkeypatch.setattr(task, "measure_errors", broken)
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


def test_the_demo_prints_a_table_and_makes_a_page(tmp_path, few_digits, capsys, monkeypatch):
    monkeypatch.setattr(digits_demo, "METHODS", ("1-NN", "MPDA"))
    monkeypatch.setattr(digits_demo, "N_SPLITS", 2)
    with pytest.raises(SystemExit) as ended:
        command(["demo", "--out", str(tmp_path), "--jobs", "1"])
    assert ended.value.code == 0
    said = capsys.readouterr()
    line = r"^MPDA +\d\.\d\d ± \d\.\d\d %\*? +[+-]\d\.\d\d +\d+\.\d"
    assert re.search(line, said.out, re.MULTILINE)
    assert "4/4 tasks" in said.err
    assert (tmp_path / "digits.png").stat().st_size > 10_000
    found = read_results(tmp_path)
    assert found["provenance"]["command"].startswith("mpda demo --out")
    # A page for the digits: which are mapped, what 1-NN makes of them, and the map as images.
    assert len(found["embedding"]["points"]) == 450
    assert sum(map(sum, found["confusion"]["counts"])) == 450
    assert found["model"]["image_shape"] == [8, 8]
    assert len(found["partition"]["classes"]) == 10
    assert "Handwritten digits" in (tmp_path / "report.html").read_text()


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
