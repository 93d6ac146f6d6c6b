"""Verdicts, reasons and next commands, as ``mpda fit`` and ``mpda compare`` give them."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from command_calls import call, call_as_typed, read_page
from mpda.report import read_results

pytest.importorskip("matplotlib", reason="needs mpda[cli]")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_classes(n_classes, n_each, n_features, spread=3.0):
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(n_classes), n_each)
    X = spread * rng.normal(size=(n_classes, n_features))[kind]
    X += rng.normal(size=X.shape)
    frame = pd.DataFrame(X).add_prefix("f").assign(kind=[f"c{code}" for code in kind])
    frame.to_csv("t.csv", index=False)
    return "t.csv", "--label", "kind"


def words_of(capsys):
    return " ".join(capsys.readouterr().out.split())


# Commands


@pytest.mark.slow
def test_advised_command_repeats_the_options_of_the_page(capsys):
    images = load_digits(as_frame=True).frame.head(120)
    images.assign(file=[f"{i}.png" for i in range(120)]).to_csv("d.csv", index=False)
    images.tail(30).to_csv("new.csv", index=False)
    words = ("--label", "target", "--text", "file", "--image", "8x8", "--test", "new.csv")
    words += ("--scale", "none", "--pca", "none")
    words = ("fit", "d.csv", *words, "--score", "balanced", "--folds", "2", "--results", "r.json")
    assert call(*words) == 0
    advised, *_ = read_results("r.json")["next"]
    assert advised["purpose"] == "Fit as advised:"
    for option in ("--text file", "--image 8x8", "--test new.csv", "--score balanced"):
        assert option in advised["command"]
    assert call(*shlex.split(advised["command"].replace("--method auto", "--method lda"))[1:]) == 0


def test_search_is_advised_with_the_method_and_parameters_of_the_user(capsys):
    words = ("fit", *write_classes(25, 5, 4), "--method", "lfda", "--set", "alpha=0.1")
    assert call(*words, "--folds", "3", "--results", "r.json") == 0
    advised, *_ = read_results("r.json")["next"]
    assert advised["command"].endswith("--method lfda --set alpha=0.1 --search")


def test_commands_for_new_tables_have_the_notation_of_the_user():
    frame = load_wine(as_frame=True).frame
    frame.to_csv("w.csv", sep=";", decimal=",", encoding="latin-1", index=False)
    form = ("--decimal", ",", "--encoding", "latin-1")
    assert (
        call("fit", "w.csv", "--label", "target", *form, "--folds", "2", "--results", "r.json") == 0
    )
    commands = [shlex.split(entry["command"]) for entry in read_results("r.json")["next"]]
    assert all(set(form) <= set(command) for command in commands)
    (predict,) = [command for command in commands if command[1] == "predict"]
    frame.to_csv("NEW.csv", sep=";", decimal=",", encoding="latin-1", index=False)
    assert call(*predict[1:]) == 0


def test_comparison_ends_with_the_command_that_fits(capsys):
    load_wine(as_frame=True).frame.to_csv("w.csv", index=False)
    words = ("w.csv", "--label", "target", "--methods", "1-nn,lda,mpda", "--folds", "3")
    assert call("compare", *words) == 0
    text = capsys.readouterr().out
    command = "mpda fit w.csv --label target --folds 3 --method lda"
    assert text.splitlines()[-1].strip() == command
    assert "Features for LDA, by cross-validation: LDA errs on" in text
    assert "Next: fit LDA and use the model." in text
    page = read_page("comparison/report.html")
    assert "Next: fit LDA and use the model." in page
    assert command in page
    assert page.count("Next: ") == 1


# Verdicts


@pytest.mark.parametrize("command", ["fit", pytest.param("compare", marks=pytest.mark.slow)])
def test_lda_is_no_advice_where_it_does_not_help(command, capsys):
    load_iris(as_frame=True).frame.iloc[:, [2, 4]].to_csv("one.csv", index=False)
    tables = [("one.csv", "--label", "target"), write_classes(25, 5, 4)]
    methods = ["--methods", "1-nn,lda,mpda"] if command == "compare" else []
    for words in tables:
        assert call(command, *words, *methods, "--folds", "3", "--scale", "none") == 0
        text = words_of(capsys)
        assert "helps here: none" in text or "does not help here" in text
        assert "Recommended" not in text
        assert "--method lda" not in text


def test_page_without_an_error_says_so(capsys):
    load_wine(as_frame=True).frame.to_csv("w.csv", index=False)
    words = ("fit", "w.csv", "--label", "target", "--folds", "0", "--components", "2")
    assert call_as_typed(*words, "--report", "w.html", "--results", "r.json") == 0
    assert "No error was measured (--folds 0)" in words_of(capsys)
    results = read_results("r.json")
    assert results["summary"][0].startswith("No error was measured")
    entry = results["next"][0]
    assert entry["purpose"] == "Measure the error by cross-validation:"
    assert entry["command"] == "mpda fit w.csv --label target --components 2"
    page = Path("w.html").read_text()
    assert '<p class="verdict">No error was measured' in page
    assert "<p>Next: measure it by cross-validation" in page
    assert call("fit", *write_classes(5, 2, 3), "--folds", "0", "--results", "r.json") == 0
    assert not any("fit" in entry["command"].split() for entry in read_results("r.json")["next"])


# Reasons


def test_lda_is_measured_on_classes_of_three(capsys):
    assert call("fit", *write_classes(20, 3, 5), "--json") == 0
    streams = capsys.readouterr()
    (problem,) = json.loads(streams.out)["comparison"]["problems"]
    assert [row["method"] for row in problem["rows"]] == ["1-NN", "LDA", "MPDA"]
    assert "no result" not in streams.err


def test_reasons_are_printed_where_cross_validation_cannot_decide(capsys):
    words = (*write_classes(12, 3, 110), "--folds", "0", "--components", "3")
    assert call("fit", *words) == 0
    text = words_of(capsys)
    assert "PCA(" not in text
    assert "the error of 1-NN, and classes are too small for cross-validation" in text
    assert "no PCA: classes are too small for cross-validation (--pca 0.95 applies it)" in text
