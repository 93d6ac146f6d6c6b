"""``mpda partition`` prepares features as ``mpda fit`` does."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from command_calls import call
from mpda import ManifoldPartition

pytest.importorskip("matplotlib", reason="needs mpda[cli]")


@pytest.fixture(autouse=True)
def wine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = load_wine(as_frame=True).frame
    frame.to_csv("wine.csv", index=False)
    return frame


def read_patches(*words):
    assert call("partition", "wine.csv", *words, "--out", "p.csv", "--json") == 0
    return pd.read_csv("p.csv")["patch"].to_numpy()


def test_features_are_standardised_where_that_lowers_the_error(wine, capsys):
    X, y = wine.drop(columns="target"), wine["target"]
    patches = read_patches("--label", "target")
    results = json.loads(capsys.readouterr().out)
    assert results["preparation"][0].startswith("by cross-validation: MPDA errs on ")
    expected = {
        scaled: ManifoldPartition().fit(StandardScaler().fit_transform(X) if scaled else X, y)
        for scaled in (True, False)
    }
    np.testing.assert_array_equal(patches, expected[True].labels_)
    assert not np.array_equal(patches, expected[False].labels_)
    raw = read_patches("--label", "target", "--scale", "none")
    np.testing.assert_array_equal(raw, expected[False].labels_)
    assert json.loads(capsys.readouterr().out)["preparation"] == []


def test_without_labels_the_user_decides(wine):
    X = wine.drop(columns="target")
    raw = read_patches("--drop", "target")
    np.testing.assert_array_equal(raw, ManifoldPartition().fit(X).labels_)
    patches = read_patches("--drop", "target", "--scale", "standard")
    expected = ManifoldPartition().fit(StandardScaler().fit_transform(X))
    np.testing.assert_array_equal(patches, expected.labels_)


def test_neighbours_of_the_graph_are_set(wine, capsys):
    X, y = wine.drop(columns="target"), wine["target"]
    words = ("--label", "target", "--scale", "none", "--partition-neighbors", "12")
    expected = ManifoldPartition(partition_neighbors=12).fit(X, y)
    np.testing.assert_array_equal(read_patches(*words), expected.labels_)


def test_text_and_missing_values_are_encoded(wine, capsys):
    wine.loc[3, "ash"] = np.nan
    wine["hue"] = np.where(wine["hue"] > 1.0, "red", "brown")
    wine.to_csv("wine.csv", index=False)
    patches = read_patches("--label", "target", "--impute", "median", "--one-hot")
    assert len(patches) == len(wine)
    assert call("partition", "wine.csv", "--label", "target", "--one-hot") == 1
    assert "--impute median" in capsys.readouterr().err
