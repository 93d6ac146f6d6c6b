"""Numbers and letters of other countries, through the commands."""

import numpy as np
import pandas as pd
import pytest

from command_calls import call
from mpda import load

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

FIT = ("fit", "t.csv", "--label", "kind", "--folds", "0", "--components", "1")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    large = rng.integers(500, 3000, 40) + 1000 * kind
    return pd.DataFrame(
        {"a": np.round(rng.normal(size=40) + kind, 2), "large": large, "kind": kind}
    )


def with_thousands(frame, separator):
    texts = [f"{value:,}".replace(",", separator) for value in frame["large"]]
    return frame.assign(large=texts)


@pytest.mark.parametrize("options", [(), ("--one-hot",)])
@pytest.mark.parametrize("suffix", ["", ",00"])
def test_points_between_thousands_are_refused_with_decimal_commas(frame, capsys, options, suffix):
    points = with_thousands(frame, ".")
    points["large"] += suffix
    points.to_csv("t.csv", sep=";", decimal=",", index=False)
    assert call(*FIT, "--decimal", ",", *options) == 1
    message = capsys.readouterr().err
    assert "'large' (row " in message
    assert "Remove the points" in message


def test_points_in_text_cells_of_a_sheet_are_refused_with_decimal_commas(frame, capsys):
    pytest.importorskip("openpyxl")
    commas = frame.assign(a=[str(value).replace(".", ",") for value in frame["a"]])
    words = (*FIT[:1], "t.xlsx", *FIT[2:], "--decimal", ",")
    commas.to_excel("t.xlsx", index=False)
    assert call(*words) == 0
    with_thousands(commas, ".").to_excel("t.xlsx", index=False)
    assert call(*words) == 1
    assert "points in their numbers" in capsys.readouterr().err


def test_commas_between_thousands_are_not_called_decimal(frame, capsys):
    with_thousands(frame, ",").to_csv("t.csv", index=False)
    assert call(*FIT) == 1
    message = capsys.readouterr().err
    assert "'large' (row " in message
    assert "Remove the commas if they divide thousands" in message
    assert call(*FIT, "--decimal", ",") == 1  # and never read as 1.065
    assert "have points in their numbers" in capsys.readouterr().err


def test_quoted_decimal_commas_are_read_from_a_file_of_commas(frame, capsys):
    frame.to_csv("t.csv", sep=",", decimal=",", index=False)
    assert call(*FIT) == 1
    assert "decimal commas: 'a' (row 1: " in capsys.readouterr().err
    assert call(*FIT, "--decimal", ",") == 0
    commas = load("t.mpda")
    frame.to_csv("t.csv", index=False)
    assert call(*FIT) == 0
    Z = (model[:-1].transform(frame[["a", "large"]]) for model in (commas, load("t.mpda")))
    np.testing.assert_allclose(*Z)


def test_byte_order_mark_of_utf_16_is_named(frame, capsys):
    frame.to_csv("t.csv", index=False, encoding="utf-16")
    assert call(*FIT) == 1
    assert "It begins as a file of --encoding utf-16." in capsys.readouterr().err
    assert call(*FIT, "--encoding", "utf-16") == 0
