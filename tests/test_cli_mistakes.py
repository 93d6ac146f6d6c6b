"""Mistakes of users: each command says what is wrong before the work, and loses no file."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_calls import call
from mpda._lib.fingerprints import fingerprint_rows
from mpda.cli.tables.check import check_table
from mpda.cli.tables.reading import read_table


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    kinds = np.array(["red", "green", "blue"])[np.arange(n) % 3]
    X = rng.normal(size=(n, 4)) + 4.0 * (np.arange(n) % 3)[:, None] * np.array([1, 0, -1, 0])
    return pd.DataFrame(X, columns=list("abcd")).assign(kind=kinds)


def write(name="t.csv", **columns):
    make_frame().assign(**columns).to_csv(name, index=False)
    return name, "--label", "kind", "--folds", "2", "--scale", "none"


def test_outputs_never_replace_inputs(capsys):
    assert call("fit", *write(), "--results", "results.json") == 0
    model, results = Path("t.mpda").read_bytes(), Path("results.json").read_bytes()
    for option in ("--onnx", "--numpy", "--faiss", "--matrix"):
        assert call("export", "t.mpda", option, "t.mpda") == 2
        assert "is an input file" in capsys.readouterr().err
    for path in ("results.json", "."):
        assert call("report", path, "--out", "results.json") == 2
        assert "is an input file" in capsys.readouterr().err
    assert Path("t.mpda").read_bytes() == model
    assert Path("results.json").read_bytes() == results


def test_advised_command_has_the_options_of_the_user(capsys):
    patients = np.arange(60) // 5
    words = write(patient=patients, town=np.array(["x", "y"])[patients % 2], e=np.arange(60))
    options = ["--groups", "patient", "--drop", "e", "--one-hot", "--impute", "median"]
    assert call("compare", *words, *options, "--methods", "lda", "mpda") == 0
    (entry,) = json.loads(Path("comparison/results.json").read_text())["next"]
    assert entry["command"].startswith("mpda fit t.csv --label kind ")
    for text in ("--drop e", "--groups patient", "--one-hot", "--impute median", "--folds 2"):
        assert text in entry["command"]
    assert call("fit", *words, *options, "--results", "r.json", "--components", "3") == 0
    advised = json.loads(Path("r.json").read_text())["next"][0]
    assert advised["purpose"] == "Fit as advised:"  # three round clouds: LDA is enough
    assert "--one-hot" in advised["command"]
    assert "--components" not in advised["command"]  # they were those of the other method
    assert call(*advised["command"].split()[1:]) == 0


def test_test_table_is_read_before_the_fit(capsys, monkeypatch):
    words = write(e=np.arange(60))
    make_frame(seed=1).to_csv("new.csv", index=False)
    assert call("fit", *words, "--drop", "e", "--test", "new.csv") == 0  # it need not have e
    Path("t.mpda").unlink()
    monkeypatch.setattr("mpda.cli.fit_steps.fit_model", None)  # would fail
    make_frame().drop(columns="kind").to_csv("unlabelled.csv", index=False)
    for test, message in (("nofile.csv", "nofile.csv"), ("unlabelled.csv", "no column 'kind'")):
        assert call("fit", *words, "--test", test) == 1
        assert message in capsys.readouterr().err


def test_rows_that_are_left_out_are_counted_everywhere(capsys):
    call("fit", *write())
    frame = make_frame().assign(town="x")
    frame.loc[[3, 5], "a"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    note = "2 of 60 rows have missing values and are left out"
    capsys.readouterr()
    for command in ("predict", "transform", "evaluate"):
        out = [] if command == "evaluate" else ["--out", f"{command}.csv"]
        assert call(command, "t.mpda", "gaps.csv", "--skip-missing", *out) == 0
        assert note in capsys.readouterr().err
    rows = pd.read_csv("predict.csv")["row"].tolist()
    assert rows == [row for row in range(1, 61) if row not in (4, 6)]
    words = ("gaps.csv", "--drop", "town", "--skip-missing")
    for label in ([], ["--label", "kind"]):
        drop = [] if label else ["--drop", "kind"]
        assert call("partition", *words, *drop, *label) == 0
        assert note in capsys.readouterr().err
    assert call("fit", *write(), "--test", "gaps.csv", "--skip-missing") == 0
    assert f"gaps.csv: {note}" in capsys.readouterr().err


def test_partition_checks_the_table(capsys):
    assert call("partition", *write(code=np.arange(60) % 3)[:3]) == 0
    assert "a copy of the label" in capsys.readouterr().err


def test_groups_must_divide_classes(capsys):
    words = write(site=np.arange(60) % 3)
    assert call("fit", *words[:3], "--groups", "site") == 1
    assert "all samples of a class are in one group" in capsys.readouterr().err
    sites = np.where(np.arange(60) % 3, np.arange(60) % 7, 9)
    assert call("fit", *write(site=sites), "--groups", "site") == 0
    assert "classes with one group: red; the folds that test them" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "found"), [("patient_id", True), ("number of legs", False)])
def test_few_subjects_are_recognised_by_the_name_of_their_column(name, found):
    write(**{name: np.arange(60) % 7 + 1})
    notes = " ".join(check_table(read_table(Path("t.csv"), label="kind")))
    assert ("number of a subject" in notes) == found


def test_samples_of_a_fit_are_recognised_in_another_format():
    X = np.random.default_rng(0).normal(size=(500, 7)) * np.logspace(-9, 9, 7)
    fifteen_digits = np.vectorize(lambda value: float(f"{value:.15g}"))(X)
    assert (fifteen_digits != X).any(axis=1).mean() > 0.9
    known = fingerprint_rows(X) == fingerprint_rows(fifteen_digits)
    assert known.mean() > 0.99
    assert not (fingerprint_rows(X) == fingerprint_rows(X * (1.0 + 1e-9))).any()


def test_columns_that_predict_writes_are_not_replaced(capsys):
    call("fit", *write())
    capsys.readouterr()
    for name in ("predicted", "distance", "agreement"):
        make_frame().assign(**{name: 1}).to_csv("new.csv", index=False)
        assert call("predict", "t.mpda", "new.csv") == 1
        assert f"already have a column '{name}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"e": np.nan}, ["--skip-missing"], "No value is in 'e': leave it out with --drop"),
        ({"e": np.nan}, ["--impute", "median"], "leave out the column with --drop"),
        ({}, ["--components", "9"], "--components 9 is more than there are: t.csv has 4 features"),
        ({}, ["--decimal", ","], "If they are decimal points, leave out --decimal"),
    ],
)
def test_messages_say_what_to_do(capsys, columns, options, message):
    assert call("fit", *write(**columns), *options) == 1
    assert message in capsys.readouterr().err


def test_missing_texts_are_not_called_replaced(capsys):
    towns = np.where(np.arange(60) % 5, "x", "")
    assert call("fit", *write(town=towns), "--one-hot", "--impute", "median") == 0
    errors = capsys.readouterr().err
    assert "12 texts are missing, which is a value of its own (--one-hot), in 'town'" in errors
    assert "replaced" not in errors


def test_one_sample_cannot_be_compared_with_itself(capsys):
    assert call("fit", *write(), "--no-keep-samples") == 0
    make_frame().head(1).to_csv("one.csv", index=False)
    capsys.readouterr()
    assert call("evaluate", "t.mpda", "one.csv") == 1
    assert "one.csv has only one" in capsys.readouterr().err


def test_error_of_the_choice_is_called_optimistic_only_if_it_is_lower(capsys):
    rng = np.random.default_rng(3)
    words = write()
    texts = []
    for seed in range(4):
        frame = make_frame().assign(kind=rng.permutation(make_frame()["kind"]))
        frame.to_csv("t.csv", index=False)
        assert call("fit", *words, "--seed", str(seed), "--json") == 0
        sentences = " ".join(json.loads(capsys.readouterr().out)["summary"])
        measured = float(sentences.split("left out of the fit: ")[1].split(" ")[0])
        chosen = float(sentences.split("chose them have an error of ")[1].split(" ")[0])
        texts.append(sentences)
        assert ("This is optimistic" in sentences) == (chosen < measured)
    assert len({"This is optimistic" in text for text in texts}) == 2  # both cases occurred


def test_two_outputs_with_one_name_are_refused(capsys):
    assert call("fit", *write(), "--out", "a.html", "--report", "a.html") == 2
    assert "two outputs are a.html" in capsys.readouterr().err
    assert not Path("a.html").exists()
    assert call("fit", *write(), "--out", "t.mpda", "--quiet") == 0
    assert call("export", "t.mpda", "--numpy", "m.npz", "--matrix", "m.npz") == 2
    assert "two outputs are m.npz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("factor", "message"),
    [(1e200, "too large to be squared in 'b' (60, "), (1e-200, "too small to be squared in 'b'")],
)
def test_values_whose_squares_leave_the_range_are_named(factor, message, capsys):
    assert call("fit", *write(b=factor * (1.0 + np.arange(60)))) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "leave out the column with --drop" in error


def test_a_label_that_is_dropped_or_not_there_is_named(capsys):
    assert call("fit", *write(), "--drop", "kind") == 1
    assert "--drop names 'kind', which is the column of --label" in capsys.readouterr().err
    np.save("t.npy", np.ones((10, 3)))
    assert call("fit", "t.npy", "--label", "3") == 1
    assert "--label 3: the columns are 0 to 2" in capsys.readouterr().err


def test_characters_that_the_terminal_lacks_are_replaced(monkeypatch, capsys):
    def call_in_ascii(*words):
        """Run a command with a standard output that has ASCII only; return code and output."""
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            code = call(*words)
        stream.flush()
        return code, stream.buffer.getvalue().decode("ascii")

    code, output = call_in_ascii("fit", *write(), "--out", "m.mpda", "--quiet")
    assert code == 0
    assert " ? " in output  # in place of plus-minus
    name = write(
        "greek.csv", kind=make_frame()["kind"].replace("red", "\N{GREEK SMALL LETTER RHO}")
    )
    assert call("fit", *name, "--out", "m.mpda", "--quiet") == 0
    capsys.readouterr()
    code, _ = call_in_ascii("predict", "m.mpda", "greek.csv")
    assert code == 1  # a table with other labels would be wrong
    assert "can't encode" in capsys.readouterr().err
