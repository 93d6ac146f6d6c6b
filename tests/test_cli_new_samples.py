"""Tables that a model did not see: notes and errors of the commands that use a model."""

import contextlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from command_calls import call

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

QUICK = ("--label", "target", "--folds", "0", "--components", "2")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def wine_model(tmp_path_factory):
    """Return the bytes of a model, which is fitted once for all tests."""
    with contextlib.chdir(tmp_path_factory.mktemp("model")):
        load_wine(as_frame=True).frame.to_csv("wine.csv", index=False)
        assert call("fit", "wine.csv", *QUICK, "--quiet") == 0
        return Path("wine.mpda").read_bytes()


@pytest.fixture
def wine(wine_model):
    frame = load_wine(as_frame=True).frame
    frame.to_csv("wine.csv", index=False)
    Path("wine.mpda").write_bytes(wine_model)
    return frame


def read_errors(frame, command, capsys, *options):
    frame.to_csv("new.csv", index=False)
    out = [] if command == "evaluate" else ["--out", "out.csv"]
    assert call(command, "wine.mpda", "new.csv", *out, *options) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "predict", "transform"])
def test_smaller_unit_of_a_column_is_noticed(wine, command, capsys):
    text = "most values are outside the range of the fit in 'proline'"
    assert text in read_errors(wine.assign(proline=wine["proline"] / 1000), command, capsys)
    assert "range of the fit" not in read_errors(wine, command, capsys)
    # One new sample may be the largest one so far.
    new = wine.head(1).assign(proline=wine["proline"].max() + 1)
    assert "range of the fit" not in read_errors(new, command, capsys)


@pytest.mark.parametrize("options", [(), ("--label", "target")])
@pytest.mark.parametrize("command", ["predict", "transform"])
def test_unknown_labels_are_counted(wine, command, options, capsys):
    text = "48 of 178 samples have classes that the model does not know: 7"
    unknown = wine.assign(target=wine["target"].replace({2: 7}))
    assert text in read_errors(unknown, command, capsys, *options)
    for frame in (wine, wine.assign(target=wine["target"].astype(float))):
        assert "does not know" not in read_errors(frame, command, capsys, *options)


def test_tables_without_a_known_class_are_compared_with_themselves(wine, capsys):
    other = wine.assign(target=wine["target"] + 10)
    notes = read_errors(other, "evaluate", capsys)
    assert "the fit had none of these classes, so the samples are compared with each other" in notes
    assert "10, 11" in notes
    assert "count as wrong" not in notes


def test_labels_that_are_missing_are_not_unknown(wine, capsys):
    frame = wine.astype({"target": object})
    frame.loc[3:, "target"] = ""
    assert "does not know" not in read_errors(frame, "predict", capsys)


def test_groups_in_both_tables_are_counted(capsys):
    rng = np.random.default_rng(0)
    frame = load_wine(as_frame=True).frame.assign(person=rng.integers(0, 12, 178))
    frame[::2].to_csv("fit.csv", index=False)
    frame[1::2].to_csv("test.csv", index=False)
    words = ("fit", "fit.csv", *QUICK, "--groups", "person")
    assert call(*words, "--test", "test.csv") == 0
    assert "12 of 12 groups of the test table are also in the fit" in capsys.readouterr().err
    frame.assign(person=frame["person"] + 100).to_csv("test.csv", index=False)
    assert call(*words, "--test", "test.csv") == 0
    assert "groups of the test table" not in capsys.readouterr().err


def test_more_neighbours_than_samples_are_refused(wine, capsys):
    assert call("predict", "wine.mpda", "wine.csv", "--k", "700") == 1
    assert "--k 700 is more than the 178 samples of the fit" in capsys.readouterr().err


def test_graph_of_a_model_without_samples_is_checked(wine, capsys):
    pytest.importorskip("onnx", reason="needs mpda[onnx]")
    seconds = 1.7e9 + 60.0 * wine["target"] + np.random.default_rng(0).normal(size=178)
    wine.assign(when=seconds).to_csv("t.csv", index=False)
    for data in ("t", "wine"):
        assert call("fit", f"{data}.csv", *QUICK, "--no-keep-samples") == 0
    capsys.readouterr()
    for precision in ("mixed", "single"):
        assert call("export", "t.mpda", "--onnx", "t.onnx", "--precision", precision) == 1
        assert "float32 does not hold 'when' precisely enough" in capsys.readouterr().err
        assert not Path("t.onnx").exists()
    assert call("export", "t.mpda", "--onnx", "t.onnx", "--precision", "double") == 0
    assert call("export", "wine.mpda", "--onnx", "wine.onnx") == 0


def test_failed_comparison_leaves_no_directory(capsys):
    frame = pd.DataFrame({"a": ["x", "y", "z"], "b": [1, 2, 3], "target": [0, 1, 0]})
    frame.to_csv("t.csv", index=False)
    assert call("compare", "t.csv", "--label", "target", "--out", "results/first") == 1
    assert not Path("results").exists()


def test_one_feature_and_one_sample_are_singular(wine, capsys):
    wine[["proline", "target"]].to_csv("one.csv", index=False)
    assert call("fit", "one.csv", "--label", "target", "--folds", "2", "--json") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "MPDA maps 1 feature to 1 component." in text
    assert "1-NN on the only feature" in text
    errors = read_errors(wine.head(1), "transform", capsys)
    assert "new.csv: 1 sample, 13 features" in errors
