"""Settings that are chosen by the balanced accuracy, and the balanced error that is printed."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

from command_calls import call
from mpda.assessment import (
    AssessmentProtocol,
    assess_methods,
    balanced_errors,
    find_better_balanced,
    make_contender,
    select_model,
)
from mpda.assessment.balanced_error import BalancedError

pytest.importorskip("matplotlib", reason="needs mpda[cli]")


def slow(value):
    """Mark a method whose choice takes seconds."""
    return pytest.param(value, marks=pytest.mark.slow)


def unequal_samples(sizes=(300, 60, 25), d=6):
    """Draw three classes of unequal size that overlap."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), sizes)
    return 2.0 * rng.normal(size=(len(y), d)) + 3.0 * np.eye(3, d)[y], y


def test_balanced_error_is_that_of_the_predictions():
    X, y = unequal_samples()
    contenders = [make_contender(name, search=False) for name in ("1-NN", "LDA", "LFDA")]
    protocol = AssessmentProtocol(3, n_components=2)
    rows = assess_methods(X, y, contenders, protocol).rows
    errors = balanced_errors(rows, y)
    assert list(errors) == ["1-NN", "LDA", "LFDA"]
    for name, value in errors.items():
        folds = [row for row in rows if row["method"] == name]
        predicted = np.empty_like(y)
        for row in folds:
            predicted[row["tested"]] = row["predicted"]
        assert value.error == pytest.approx(100.0 * (1.0 - balanced_accuracy_score(y, predicted)))
        low, high = value.interval
        assert 2.0 < value.error - low < 15.0
        assert high - value.error == pytest.approx(value.error - low)
    groups = assess_methods(X, y, contenders[:1], protocol, groups=np.arange(len(y)) // 2).rows
    assert balanced_errors(groups, y)["1-NN"].interval is None


@pytest.mark.parametrize("method", ["LDA", "PCA", "LFDA", slow("MPDA refined")])
def test_settings_are_chosen_by_the_score_of_the_protocol(method):
    X, y = unequal_samples()
    contender = make_contender(method, search=False)
    scores = {}
    for scoring in ("accuracy", "balanced_accuracy"):
        protocol = AssessmentProtocol(scoring=scoring, scaled=False, energy=None)
        scores[scoring] = select_model(X, y, contender, protocol).selected.score
    # Guessing the largest class has an accuracy of 0.78, and a balanced accuracy of 0.33.
    assert scores["accuracy"] > 0.7
    assert 0.33 < scores["balanced_accuracy"] < 0.65


def test_fit_prints_the_balanced_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = unequal_samples((150, 40, 20))
    pd.DataFrame(X).assign(kind=np.array(["a", "b", "c"])[y]).to_csv("table.csv", index=False)
    words = ("fit", "table.csv", "--label", "kind", "--folds", "2", "--report", "page.html")
    assert call(*words, "--score", "balanced", "--set", "class_weight=balanced") == 0
    output = " ".join(capsys.readouterr().out.split())
    pattern = r"Balanced error, .*?: 1-NN ([\d.]+) % .*? LDA ([\d.]+) % .*? MPDA ([\d.]+) %"
    values = [float(value) for value in re.search(pattern, output).groups()]
    assert all(25.0 < value < 66.0 for value in values)
    assert "Always guessing one class has 66.67 %" in output
    assert "the folds that chose them have a balanced error of" in output
    assert "Balanced error" in (tmp_path / "page.html").read_text()


def test_balanced_errors_are_compared_with_a_guess():
    near, far = BalancedError(40.0, (30.5, 49.5)), BalancedError(20.0, (10.5, 29.5))
    level = BalancedError(45.0, (35.5, 54.5))
    assert find_better_balanced({"near": near}, 2) == ["near"]  # one-sided: up to 48.0
    others = {"far": far, "level": level, "groups": BalancedError(10.0, None)}
    assert find_better_balanced({"near": near, **others}, 2) == ["far"]  # four methods
    assert find_better_balanced({"far": far}, 1) == []


@pytest.mark.parametrize(
    ("options", "verdict", "advice"),
    [
        (["--score", "balanced"], "the guess on 12.7 %. By the balanced error", "judge the"),
        (
            [],
            "the guess on 12.7 %. MPDA maps",
            "mpda fit --score balanced (classes are of unequal size)",
        ),
    ],
)
def test_a_rare_class_is_not_called_inseparable(options, verdict, advice, tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = (np.arange(150) % 8 == 0).astype(int)
    X = rng.normal(size=(150, 3)) + 2.5 * np.outer(y, [1.0, 0.0, 0.0])
    X[1::2] += np.outer(1 - y[1::2], [2.0, 0.0, 0.0])  # half of the frequent class lies there, too
    np.savez(tmp_path / "rare.npz", X=X, y=y)
    words = ("fit", tmp_path / "rare.npz", *options, "--out", tmp_path / "m.mpda", "--quiet")
    assert call(*words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "No method is significantly better than always guessing" in text
    assert verdict in text
    assert advice in text
    assert ("Balanced error, " in text) == ("balanced" in options)
