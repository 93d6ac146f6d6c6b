"""Check of a table before a fit: what is found, and what is not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from command_calls import call
from mpda.cli.tables.check import check_table
from mpda.cli.tables.reading import read_table
from mpda.exceptions import TableError


@pytest.fixture
def frame():
    """Return 60 samples of three classes with two ordinary features."""
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=60), "b": rng.integers(0, 20, size=60)}
    return pd.DataFrame(columns).assign(kind=np.array(["x", "y", "z"])[np.arange(60) % 3])


def check(frame, tmp_path, **options):
    frame.to_csv(tmp_path / "t.csv", index=False)
    return check_table(read_table(tmp_path / "t.csv", label="kind", **options))


def test_ordinary_tables_have_no_findings(frame, tmp_path):
    assert check(frame, tmp_path) == []
    for load in (load_iris, load_breast_cancer):
        data = load(as_frame=True).frame.rename(columns={"target": "kind"})
        findings = check(data, tmp_path)
        assert not [text for text in findings if "scales" not in text]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.arange(60) + 1, "rows are numbered"),
        (np.arange(60)[::-1] * 5, "rows are numbered"),
        (np.array([7, 3, 11])[np.arange(60) % 3], "one value for each class"),
        (np.array([0.5, 0.25, 1.5])[np.arange(60) % 3], "one value for each class"),
        (np.arange(60) % 3 + 3 * (np.arange(60) % 4), "probably the number of a subject"),
        (20240101 + np.arange(60) % 28, "probably a date"),
        (1.7e9 + 86400.0 * np.random.default_rng(0).permutation(60), "probably a date"),
        (1e12 * 1.7 + np.random.default_rng(0).integers(0, 10**9, 60), "probably a date"),
        (1.7e9 + np.random.default_rng(0).uniform(0, 1e6, 60), "probably a date"),
        (np.random.default_rng(0).permutation(60) + 100, "every row has a whole number"),
        (np.random.default_rng(0).choice(10**6, 60, replace=False), "every row has a whole number"),
        (np.arange(60) // 6, "number of a subject or session"),
        (np.array([3, 1, 2])[np.arange(60) % 3] + 6 * (np.arange(60) % 2), "each value belongs to"),
        (np.arange(60) % 3 == 1, "each class has one value"),
        (np.arange(60) % 3 + 1e-6 * np.random.default_rng(0).normal(size=60), "a copy of the"),
        (np.full(60, 4.0), "the same for all samples"),
        (1e5 * np.random.default_rng(0).normal(size=60), "differ more than a thousandfold"),
    ],
)
def test_suspicious_columns_are_named(frame, tmp_path, values, text):
    (finding,) = [t for t in check(frame.assign(odd=values), tmp_path) if text in t]
    assert "'odd'" in finding


def test_subjects_are_found_by_the_name_of_their_column(frame, tmp_path):
    numbers = np.arange(60) % 10
    assert check(frame.assign(count=numbers), tmp_path) == []
    for name in ("patient_id", "Subject", "speaker no"):
        (finding,) = check(frame.assign(**{name: numbers}), tmp_path)
        assert f"{name!r}: probably the number of a subject or session" in finding
        assert "--groups" in finding


def test_many_columns_of_distinct_whole_numbers_are_no_ids(tmp_path):
    rng = np.random.default_rng(0)
    counts = {f"gene {i}": rng.choice(10**6, 60, replace=False) for i in range(5)}
    frame = pd.DataFrame(counts).assign(kind=np.arange(60) % 3)
    assert check(frame, tmp_path) == []


def test_dates_as_text_are_found(frame, tmp_path):
    days = pd.date_range("2024-01-01", periods=60)
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%y", "%Y-%m-%d %H:%M"):
        findings = check(frame.assign(when=days.strftime(form)), tmp_path, one_hot=True)
        assert [text for text in findings if "'when': probably a date" in text]
    versions = pd.Series(["1.2", "1.3.1", "12-b", "1.x"] * 15)
    assert check(frame.assign(version=versions), tmp_path, one_hot=True) == []


def test_text_columns_are_described(frame, tmp_path):
    days = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    names = [f"no. {i} of the list" for i in range(60)]
    persons = np.array(["anna", "ben", "cleo", "dan"])[np.arange(60) % 4]
    table = frame.assign(when=days, title=names, who=persons)
    with pytest.raises(TableError) as raised:
        check(table, tmp_path)
    message = str(raised.value)
    assert "'when' (dates, row 1: 2024-01-01)" in message
    assert "'title' (a text of its own in most rows, row 1: no. 0 of the list)" in message
    assert "'who' (4 values, row 1: anna)" in message
    for option in ("--drop", "--one-hot", "--groups", "--text"):
        assert option in message
    mistaken = frame.assign(a=frame["a"].astype(str).where(frame.index != 3, "none?"))
    with pytest.raises(TableError, match=r"'a' \(row 4: none\?\)"):
        check(mistaken, tmp_path)


def test_labels_that_are_a_measurement(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=900), "kind": rng.integers(0, 300, size=900)})
    assert any("looks like a measurement" in text for text in check(frame, tmp_path))
    digits = load_digits(as_frame=True).frame.rename(columns={"target": "kind"})
    assert not any("measurement" in text for text in check(digits, tmp_path))
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "kind"})
    assert not any("measurement" in text for text in check(wine, tmp_path))


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_no_verdict_where_the_label_is_a_feature(frame, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    copy = frame["kind"].map({"x": 2.0, "y": 9.0, "z": 4.5})
    frame.assign(code=copy).to_csv("t.csv", index=False)
    options = ["--report", "r.html"] if command == "fit" else ["--methods", "PCA,LDA"]
    assert call(command, "t.csv", "--label", "kind", "--folds", "2", *options) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "mean nothing if a copy of the label is among the features: 'code' has one" in words
    assert "leave it out with --drop" in words
    assert "Recommended" not in words


def test_command_prints_the_findings(frame, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = frame.assign(id=np.arange(60))
    table.loc[[4, 9], "a"] = np.nan
    table.to_csv("t.csv", index=False)
    words = ("t.csv", "--label", "kind", "--skip-missing", "--folds", "2", "--report", "r.html")
    assert call("fit", *words) == 0
    message = capsys.readouterr().err
    assert "note: 'id': rows are numbered" in message
    assert "note: 2 of 60 rows have missing values and are left out" in message
    assert "2 of 60 rows" in (tmp_path / "r.html").read_text()
