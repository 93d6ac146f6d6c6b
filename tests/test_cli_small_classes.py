"""Tables whose classes have few samples, through ``mpda fit`` and ``mpda compare``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_calls import call
from mpda.report import read_results

pytest.importorskip("matplotlib", reason="needs mpda[cli]")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_classes(sizes, groups=None):
    """Write a table with classes of these sizes."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    X = 4.0 * rng.normal(size=(len(sizes), 4))[codes] + rng.normal(size=(len(codes), 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=[f"c{code}" for code in codes])
    frame = frame if groups is None else frame.assign(group=np.arange(len(codes)) % groups)
    frame.to_csv("t.csv", index=False)
    return "t.csv", "--label", "y"


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_classes_of_two_samples_measure_no_error(command, capsys):
    words = write_classes([2] * 6)
    for folds in ((), ("--folds", "2")):
        assert call(command, *words, *folds) == 1
        streams = capsys.readouterr()
        assert streams.err.startswith("mpda: No class has more than 2 samples")
        assert "mpda fit --folds 0" in streams.err
        assert streams.err.count("\n") == 1
        assert streams.out == ""
        assert not Path("t.mpda").exists()
    assert call("fit", *words, "--folds", "0", "--report", "r.html") == 0
    note = "classes with fewer than 5 samples are not reliable: c0, c1, c2, c3, c4 and 1 more"
    assert note in capsys.readouterr().err
    assert "0.0 %" not in Path("r.html").read_text()
    assert note[1:] in Path("r.html").read_text()


@pytest.mark.parametrize(("largest", "n_folds"), [(3, 3), (4, 4), (5, 5), (9, 5)])
def test_folds_adapt_to_the_largest_class(largest, n_folds, capsys):
    words = write_classes([largest, largest, 3])
    assert call("fit", *words, "--scale", "none", "--json") == 0
    streams = capsys.readouterr()
    results = json.loads(streams.out)
    rows = {row["method"]: row for row in results["comparison"]["problems"][0]["rows"]}
    assert rows["MPDA"]["n_splits"] == n_folds
    note = f"{n_folds} folds measure the error; there are too few samples for more".capitalize()
    assert any(note in line for line in results["data"]["notes"]) == (n_folds < 5)


def test_folds_of_the_user_are_not_changed(capsys):
    words = write_classes([4, 4, 4])
    assert call("fit", *words, "--folds", "7") == 1
    message = "--folds 7: the largest class has 4 samples. Use --folds 4 or fewer"
    assert message in capsys.readouterr().err
    assert call("compare", *words, "--folds", "2", "--methods", "1-nn", "mpda") == 0
    rows = read_results("comparison")["comparison"]["problems"][0]["rows"]
    assert [row["n_splits"] for row in rows] == [2, 2]


def test_folds_adapt_to_groups(capsys):
    words = write_classes([12, 12], groups=3)
    assert call("fit", *words, "--groups", "group") == 0
    streams = capsys.readouterr()
    assert "3 folds measure the error; there are too few groups for more" in streams.err
    assert "nested cross-validation on 3 folds" in " ".join(streams.out.split())
    words = write_classes([12, 12], groups=1)
    assert call("fit", *words, "--groups", "group") == 1
    assert "all samples are in one group" in capsys.readouterr().err


def test_method_without_a_result_leaves_no_comparison(capsys):
    rng = np.random.default_rng(1)
    # One fold has all samples of a class in its test part.
    frame = pd.DataFrame(rng.normal(size=(12, 2)), columns=["a", "b"])
    frame.assign(y=np.repeat(["u", "v"], 6), group=[0] * 6 + [1] * 3 + [2] * 3).to_csv(
        "t.csv", index=False
    )
    words = ("--groups", "group", "--folds", "3", "--results", "r.json", "--report", "r.html")
    assert call("fit", "t.csv", "--label", "y", *words) == 0
    streams = capsys.readouterr()
    assert "note: MPDA has no result: " in streams.err
    assert "±" not in streams.out
    assert "comparison" not in read_results("r.json")
    assert "0.0 %" not in Path("r.html").read_text()
