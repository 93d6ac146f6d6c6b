"""``mpda fit`` without options: the choice of the method, its budget, the short answer."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine

from command_calls import call, call_as_typed
from mpda.assessment import AssessmentProtocol, make_contender, select_model
from mpda.cli import answer, fit_command, fit_steps, messages
from mpda.cli.options import MeasurementOptions
from mpda.cli.tables.reading import Table
from mpda.report import read_results

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

STARTS = {"PCA", "shrinkage LDA", "LFDA", "MPDA"}


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def iris():
    frame = load_iris(as_frame=True).frame
    frame.to_csv("iris.csv", index=False)
    return frame


# The choice of the method


@pytest.fixture(scope="module")
def rings():
    """Return samples whose classes are rings, which LFDA and MPDA separate and PCA does not."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    angles, radii = rng.uniform(0, 2 * np.pi, size=240), 1.0 + y
    X = np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
    X = np.hstack([X, rng.normal(scale=3.0, size=(240, 4))])
    return X @ rng.normal(size=(6, 6)), y


def test_only_the_best_start_is_refined(rings):
    protocol = AssessmentProtocol(scaled=False, n_inner=2)
    auto = make_contender("auto", search=False)
    alone = {
        name: select_model(*rings, make_contender(name, search=False), protocol).selected
        for name in STARTS
    }
    best = max(alone, key=lambda name: (round(alone[name].score, 12), -alone[name].n_components))
    shares = []
    chosen = select_model(
        *rings, auto, replace(protocol, n_refined=1), progress=shares.append
    ).ranking
    names = [entry.contender.name for entry in chosen.ranked]
    assert names[0] == f"{best} refined"
    assert set(names[1:]) == STARTS - {best}
    scores = [entry.selected.score for entry in chosen.ranked[1:]]
    assert scores == sorted(scores, reverse=True)
    assert scores == [alone[name].score for name in names[1:]]
    refined = select_model(*rings, make_contender(names[0], search=False), protocol).selected
    assert chosen.ranked[0].selected.parameters == refined.parameters
    assert chosen.ranked[0].selected.n_components == refined.n_components
    assert shares == sorted(shares)
    assert shares[-1] < 1.0


def test_without_time_for_a_refinement_the_best_start_is_kept(rings):
    protocol = AssessmentProtocol(scaled=False, n_inner=2, n_refined=0)
    selected = select_model(*rings, make_contender("auto", search=False), protocol)
    assert {entry.contender.name for entry in selected.ranking.ranked} == STARTS
    assert selected.method in STARTS
    assert "none of them refined (--time-budget)" in messages.describe_winner(selected, [], "")[0]
    assert messages.name_winner(selected) == selected.method
    table = "\n".join(messages.describe_choices(selected))
    assert " refined " not in table.split("optimistic:")[1].split("components")[1]


def test_all_starts_are_refined_in_a_small_table(iris, capsys):
    assert call_as_typed("fit", "iris.csv", "--label", "target", "--folds", "0", "--details") == 0
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(" ".join(lines).split())
    assert "errors in %, by which cross-validation chose, for each start alone or refined" in text
    names = ("LFDA", "MPDA", "PCA", "shrinkage LDA")
    rows = [next(line for line in lines if line.strip().startswith(f"{name} ")) for name in names]
    assert not any("NaN" in row or " - " in row for row in rows)


def write_table(n_samples, n_features, n_classes):
    labels = np.arange(n_samples) % n_classes
    X = np.random.default_rng(0).normal(size=(n_samples, n_features)) + labels[:, None]
    names = tuple(f"f{j}" for j in range(n_features))
    return Table("t.csv", X, labels, "y", names, np.arange(n_samples), {})


@pytest.mark.parametrize(
    ("n_samples", "n_features", "budget", "seconds", "expected"),
    [
        (1500, 10, 1.0, 100.0, (None, 10_000)),  # small: the budget changes nothing
        (3000, 10, None, 100.0, (None, 10_000)),
        (3000, 10, math.inf, 100.0, (None, 10_000)),
        # One trial takes 4 s with a refinement; a choice may take 120 / 2 / 6 s = 10 s.
        (3000, 10, 120.0, 1.0, (1, 2500)),
        (800, 50, 120.0, 0.001, (1, 10_000)),
        # Three refinements of all samples would take 3 * 3 * 0.1 * 133 or 134 s; there are 120.
        (3000, 10, 120.0, 133.0, (1, 1000)),
        (3000, 10, 120.0, 134.0, (0, 1000)),
    ],
)
def test_budget_limits_the_choice(n_samples, n_features, budget, seconds, expected, monkeypatch):
    trials = []

    def time_trial(*arguments, **_):
        trials.append(arguments[3])
        return seconds

    monkeypatch.setattr("mpda.assessment.time_selection", time_trial)
    table, auto = write_table(n_samples, n_features, 4), make_contender("auto", search=False)
    options = MeasurementOptions(time_budget=budget)
    protocol = fit_steps.spend_budget(table, [auto], AssessmentProtocol(), options)
    assert (protocol.n_refined, protocol.max_samples) == expected
    assert all((trial.n_refined, trial.max_samples) == (0, 1000) for trial in trials)


def test_choice_has_a_budget_of_its_own(iris, monkeypatch):
    budgets = []

    def record(table, contenders, protocol, settings):
        budgets.append(settings.time_budget)
        raise ValueError("only the budget is of interest")

    monkeypatch.setattr(fit_steps, "spend_budget", record)
    words = ("fit", "iris.csv", "--label", "target", "--components", "2", "--folds", "0", "--quiet")
    for more in ((), ("--method", "auto"), ("--time-budget", "7"), ("--method", "pca")):
        assert call_as_typed(*words, *more) == 1
    assert budgets == [120.0, 120.0, 7.0, None]


def test_parameters_need_a_method(iris, capsys):
    assert call_as_typed("fit", "iris.csv", "--label", "target", "--set", "alpha=1") == 2
    streams = capsys.readouterr()
    assert streams.err == "mpda: --set needs one method: name it with --method, for example mpda.\n"
    assert streams.out == ""
    assert not Path("iris.mpda").exists()


@pytest.mark.slow
def test_chosen_method_is_named_everywhere(iris, capsys):
    words = ("fit", "iris.csv", "--label", "target", "--folds", "3", "--components", "2")
    assert call_as_typed(*words, "--report", "p.html", "--results", "r.json", "--details") == 0
    streams = capsys.readouterr()
    results = read_results("r.json")
    name = results["title"].removeprefix("iris.csv: ")
    assert name.removesuffix(" refined") in STARTS
    assert f"Cross-validation on all samples chose {name}, among" in " ".join(streams.out.split())
    assert f"{name} maps 4 features to 2 components." in " ".join(streams.out.split())
    assert "--method auto" not in streams.out
    assert call("evaluate", "iris.mpda", "iris.csv") == 0
    assert name in capsys.readouterr().out


# The short answer


def read_answer(capsys, *words):
    assert call_as_typed("fit", *words) == 0
    streams = capsys.readouterr()
    notes = [line for line in streams.err.splitlines() if not line.startswith("mpda: ")]
    lines = streams.out.splitlines()
    assert len(lines) + len(notes) <= 12
    assert max(map(len, lines)) <= 96
    return lines, notes


def test_answer_comes_first_and_agrees_with_the_results(iris, capsys):
    lines, notes = read_answer(
        capsys, *("iris.csv", "--label", "target", "--method", "lfda"), "--results", "r.json"
    )
    results = read_results("r.json")
    assert " ".join(lines).startswith(results["summary"][0])
    rows = {row["method"]: row for row in results["comparison"]["problems"][0]["rows"]}
    for name, method in (("this map", "LFDA"), ("the features", "1-NN"), ("LDA", "LDA")):
        line = next(line for line in lines if line.startswith(f"{name} ") and " % " in line)
        assert line.split("%")[0].split()[-1] == f"{rows[method]['error']:.2f}"
        assert float(line.split()[-1]) == pytest.approx(rows[method]["components"], abs=0.05)
        value, low, high = (float(number) for number in re.findall(r"\d+\.\d+", line)[:3])
        assert low < value < high
    text = " ".join(lines)
    assert "on 5 folds that took no part in the fits" in text
    assert "iris.csv: 150 samples, 4 features, 3 classes (target)." in text
    assert "Next: " in text
    assert lines[-1].endswith(" Tests, settings: --details.")
    assert notes[0].startswith("note: 1 of 150 samples is a duplicate of another")
    assert notes[1:] == ["written: iris.mpda, r.json"]


def test_answer_has_the_error_on_other_samples(iris, capsys):
    iris[::2].to_csv("train.csv", index=False)
    iris[1::2].to_csv("test.csv", index=False)
    words = ("train.csv", "--label", "target", "--method", "pca", "--test", "test.csv")
    lines, _ = read_answer(capsys, *words)
    assert "test.csv: The nearest neighbour among the samples of the fit" in " ".join(lines)


def test_answer_has_balanced_errors(iris, capsys):
    words = ("iris.csv", "--label", "target", "--method", "pca", "--score", "balanced")
    lines, _ = read_answer(capsys, *words)
    assert "Balanced error, the mean of the errors of the classes: " in " ".join(lines)


def test_notes_that_do_not_fit_are_counted(capsys):
    frame = load_wine(as_frame=True).frame.rename(columns={"target": "kind"})
    frame["constant"] = 1.0
    frame = pd.concat([frame, frame.head(30)])
    frame["kind"] = frame["kind"].astype(str)
    frame.loc[frame.index[:1], "kind"] = "rare"
    frame.to_csv("t.csv", index=False)
    words = ("t.csv", "--label", "kind", "--method", "pca", "--components", "2")
    assert call("fit", *words) == 0
    n_notes = capsys.readouterr().err.count("note: ")
    assert n_notes > 2
    lines, notes = read_answer(capsys, *words)
    assert sum(note.startswith("note: ") for note in notes) <= 2
    n_hidden = n_notes - sum(note.startswith("note: ") for note in notes)
    hidden = f", {n_hidden} note{'s'[: n_hidden - 1]}" if n_hidden else ""
    assert " ".join(lines).endswith(f" Tests, settings{hidden}: --details.")


def test_fit_without_an_error_says_so(iris, capsys):
    words = ("iris.csv", "--label", "target", "--folds", "0", "--method", "lda")
    lines, _ = read_answer(capsys, *words)
    assert lines[0] == "No error was measured (--folds 0), so that nothing shows whether LDA helps."
    assert any(line.startswith("Kept: LDA: 4 features to 1 component, ") for line in lines)


def test_long_parts_are_left_out_before_the_answer_grows():
    """Nothing that must be said is cut: only what --details prints anyway."""
    sentence = "word " * 60
    model = SimpleNamespace(
        rows=[],
        method="MPDA",
        map_name="MPDA",
        balanced_summary=[sentence + "more " * 60],
        retrieval={},
        table=SimpleNamespace(
            name="t", n_samples=3, n_features=2, y=None, embedding=None, label=None
        ),
        selected=SimpleNamespace(
            model=SimpleNamespace(n_features_in_=2, steps=[("mpda", None)]),
            selected=SimpleNamespace(n_components=1),
            has_choices=False,
            preparation=SimpleNamespace(describe=lambda: "standardised"),
        ),
    )
    notes = ["first", "second", "third"]
    lines, shown = answer.make_answer(model, ["verdict", "Next: step"], [sentence], None, notes)
    assert len(lines) + len(shown) <= 11
    assert lines[0] == "verdict"
    assert shown == ["first", "second"]
    assert lines[-1] == "Next: step Tests, settings, 1 note: --details."
    # The sentence on the samples of --test stays, the balanced error, as long, does not fit.
    assert " ".join(lines).count("word") == 60


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Return a table of vectors in a column, with four classes."""
    path = tmp_path_factory.mktemp("vectors") / "v.parquet"
    X, y = write_table(160, 12, 4).X, np.arange(160) % 4
    frame = pd.DataFrame({"vector": list(X), "kind": [f"class {label}" for label in y]})
    frame.to_parquet(path)
    return path


def test_answer_has_searches_and_stored_types(vectors, capsys):
    words = (vectors, "--label", "kind", "--method", "pca", "--folds", "2")
    lines, _ = read_answer(capsys, *words, "--bytes", "4", "--unseen", "--results", "r.json")
    results = read_results("r.json")
    seen, unseen = (results["retrieval"][name] for name in ("seen", "unseen"))
    among_all = results["retrieval"]["unseen_among_all"]
    for prefix, rows in (("Search", seen), ("Classes not seen", unseen)):
        line = next(line for line in lines if line.startswith(f"{prefix}: "))
        for measure, title in (("recall_at_1", "recall@1"), ("map_at_r", "MAP@R")):
            values = (rows[name][measure]["value"] for name in ("map", "raw"))
            assert "{} {:.3f} (raw {:.3f})".format(title, *values) in line
    values = (among_all[name]["map_at_r"]["value"] for name in ("map", "raw"))
    assert "among all {:.3f} ({:.3f}).".format(*values) in " ".join(lines)
    best = results["storage"]["candidates"][0]
    start = f"Stored as {best['type']} x {best['numbers']}, {best['bytes']} bytes instead of 48"
    (line,) = (line for line in lines if line.startswith("Stored as "))
    assert line.startswith(start)
    assert f"{best['loss']:+.2f} points of error" in line or best["type"] == "float32"
    assert not any("bytes instead of" in line for line in lines if line.startswith("Search"))
    assert call("fit", *words, "--bytes", "4") == 0
    assert f"bytes instead of 48: {best['type']} x" in " ".join(capsys.readouterr().out.split())


def test_answer_on_vectors_has_their_bytes(vectors, capsys):
    lines, _ = read_answer(capsys, vectors, "--label", "kind", "--method", "pca", "--folds", "2")
    line = next(line for line in lines if line.startswith("Search: "))
    assert line.endswith(" bytes instead of 48.")
    assert any(line.startswith("logistic regression ") for line in lines)


def test_default_budget_is_what_the_help_says(capsys):
    assert call_as_typed("fit", "--help") == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"{fit_command._TIME_BUDGET:g} seconds by default" in text
