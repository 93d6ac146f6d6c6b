"""Check of a table before a fit: what is found, and what is not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from command_calls import call
from mpda.io import read_table
from mpda.io.table_check import check_table


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
        (np.full(60, 4.0), "the same for all samples"),
        (1e5 * np.random.default_rng(0).normal(size=60), "differ more than a thousandfold"),
    ],
)
def test_suspicious_columns_are_named(frame, tmp_path, values, text):
    (finding,) = [t for t in check(frame.assign(odd=values), tmp_path) if text in t]
    assert "'odd'" in finding


def test_labels_that_are_a_measurement(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=900), "kind": rng.integers(0, 300, size=900)})
    assert any("looks like a measurement" in text for text in check(frame, tmp_path))
    digits = load_digits(as_frame=True).frame.rename(columns={"target": "kind"})
    assert not any("measurement" in text for text in check(digits, tmp_path))
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "kind"})
    assert not any("measurement" in text for text in check(wine, tmp_path))


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
