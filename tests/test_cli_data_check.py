"""Notes of the data check, as ``mpda fit`` prints them."""

import html
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from command_calls import call

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

FIT = ("fit", "t.csv", "--label", "target", "--folds", "0", "--components", "2", "--scale", "none")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def iris():
    return load_iris(as_frame=True).frame


def read_notes(frame, capsys, *options):
    frame.to_csv("t.csv", index=False)
    assert call(*FIT, *options) == 0
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]


def make_suspicious_columns(y):
    """Return columns that must not be features, by the words that the note has."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(10**5)[: len(y)]
    ids[3] = ids[4]
    return {
        "probably an id": ids,
        "each value belongs to one class": np.array([3, 2, 1])[y] + 6 * rng.integers(0, 2, len(y)),
        "each class has one value": (y == 0).astype(int),
        "a copy of the label": np.array([7.5, 1.25, 3.0])[y] + 1e-6 * rng.normal(size=len(y)),
    }


def test_columns_that_give_the_label_away_are_named(iris, capsys):
    for text, values in make_suspicious_columns(iris["target"].to_numpy()).items():
        notes = read_notes(iris.assign(odd=values), capsys)
        assert [note for note in notes if text in note and note.startswith("'odd': ")], text


def test_texts_that_give_the_label_away_are_named(iris, capsys):
    y, rng = iris["target"].to_numpy(), np.random.default_rng(0)
    codes = np.array(["F3", "A1", "C2", "B7", "K2", "M5"])[y + 3 * rng.integers(0, 2, len(y))]
    for text, values in (
        ("each value belongs to one class", codes),
        ("each class has one value", np.where(y == 1, "yes", "no")),
    ):
        notes = read_notes(iris.assign(odd=values), capsys, "--one-hot")
        assert [note for note in notes if text in note], text


def test_measurements_are_not_suspected(iris, capsys):
    texts = ("(--drop)", "label", "subject")
    easy = iris[iris["target"] < 2]  # the petals separate these two classes
    for frame in (iris, easy, load_wine(as_frame=True).frame, load_digits(as_frame=True).frame):
        notes = read_notes(frame, capsys)
        assert not [note for note in notes if any(text in note for text in texts)]


def test_labels_that_differ_in_spaces_are_named(iris, capsys):
    names = np.array(["a", "b", "C"])[iris["target"]].astype(object)
    names[:3] = ["a ", "B", "c "]
    notes = read_notes(iris.assign(target=names), capsys)
    (note,) = [note for note in notes if "different classes" in note]
    assert "'a' and 'a '" in note
    assert "'B' and 'b'" in note
    assert "'C' and 'c '" in note


def test_page_lists_the_notes(iris, capsys):
    notes = read_notes(iris.assign(odd=1.0, number=range(150)), capsys, "--report", "page.html")
    page = html.unescape(Path("page.html").read_text())
    assert '<h2>Notes on the data and the measurement</h2><ul class="reasons"><li>' in page
    assert len(notes) >= 2
    for note in notes:
        assert f"<li>{note[0].upper()}{note[1:]}.</li>" in page


def test_one_row_and_one_value_are_singular(iris, capsys):
    iris.iloc[5, 0] = np.nan
    iris["target"] = iris["target"].astype(str)
    notes = read_notes(iris, capsys, "--impute", "median")
    assert any(note.startswith("1 value is missing and replaced") for note in notes)
    assert "1 of 150 rows has missing values and is left out" in read_notes(
        iris, capsys, "--skip-missing"
    )
    iris.loc[5, "target"] = ""
    iris.to_csv("t.csv", index=False)
    assert call(*FIT) == 1
    assert "for 1 row, the first is row 6" in capsys.readouterr().err
