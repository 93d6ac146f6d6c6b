"""Comparison with published metric learners: folds, agreement, ranks, the command."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from command_calls import call
from mpda import LFDA
from mpda.exceptions import DatasetError
from mpda.experiments import ExperimentOptions, read_rows, reproduce
from mpda.experiments.contender_task import ContenderTask
from mpda.experiments.keel import (
    KEEL_CONTENDERS,
    load_samples,
    rank_among_published,
    read_published,
    run_keel_task,
)


@pytest.fixture
def directory(tmp_path):
    """Return a directory with iris, wdbc, and wine with random labels."""
    (tmp_path / "keel").mkdir()
    rng = np.random.default_rng(0)
    loaders = {"iris": load_iris, "wdbc": load_breast_cancer, "wine": load_wine}
    for name, load in loaders.items():
        X, y = load(return_X_y=True)
        y = rng.permutation(y) if name == "wine" else y
        fold = np.empty(len(y), dtype=np.int8)
        splitter = StratifiedKFold(10, shuffle=True, random_state=0)
        for number, (_, test) in enumerate(splitter.split(X, y)):
            fold[test] = number
        np.savez(tmp_path / "keel" / f"{name}.npz", X=X, y=y.astype(str), fold=fold)
    return tmp_path


@pytest.mark.slow
def test_data_sets_that_do_not_agree_are_left_out(directory, capsys):
    words = ("--methods", "mpda", "--data", directory, "--out", directory / "out", "--quiet")
    assert call("reproduce", "keel", *words) == 1  # most data sets do not exist
    assert "appendicitis" in capsys.readouterr().err
    words = ("--datasets", "iris", "wdbc", "wine", *words)
    assert call("reproduce", "keel", *words) == 0
    text = (directory / "out" / "keel.md").read_text()
    assert "on 2 data sets" in text
    assert "| iris |" in text
    assert "| wine |" not in text
    rows = read_rows(directory / "out" / "keel.jsonl")
    assert {row["problem"] for row in rows if row["method"] == "MPDA"} == {"iris", "wdbc"}
    with np.load(directory / "keel" / "iris.npz") as arrays:
        X, y, is_test = arrays["X"], arrays["y"], arrays["fold"] == 4
    scaler = MinMaxScaler().fit(X[~is_test])
    knn = KNeighborsClassifier(3).fit(scaler.transform(X[~is_test]), y[~is_test])
    expected = knn.score(scaler.transform(X[is_test]), y[is_test])
    key = "iris", "Euclidean", 4
    (row,) = [row for row in rows if (row["problem"], row["method"], row["seed"]) == key]
    assert row["accuracy"] == expected


def test_one_data_set_has_no_ranks(directory, capsys):
    words = ("--datasets", "iris", "wine", "--data", directory, "--out", directory / "out", "-q")
    assert call("reproduce", "keel", *words) == 1
    assert "of iris, wine it has it on iris" in capsys.readouterr().err


def test_ranks_among_thirteen():
    published = read_published()
    datasets = list(published)[:5]
    best = {(name, "ours"): max(published[name].values()) + 0.01 for name in datasets}
    ranks = rank_among_published(best, "ours", datasets)
    assert len(ranks.methods) == 13
    assert ranks.ranks[0] == 1.0
    level = {(name, "ours"): published[name]["NCA"] for name in datasets}
    ranks = rank_among_published(level, "ours", datasets)
    assert ranks.ranks[0] == ranks.ranks[ranks.methods.index("NCA")]


def test_missing_data_sets_are_named(tmp_path):
    with pytest.raises(DatasetError, match="--data names the directory"):
        reproduce("keel", ExperimentOptions(tmp_path, directory=tmp_path))


def test_directory_may_be_set_in_the_environment(directory, monkeypatch):
    monkeypatch.setenv("MPDA_DATA", str(directory))
    assert load_samples("iris", None).X.shape == (150, 4)
    monkeypatch.setenv("MPDA_DATA", str(directory / "absent"))
    with pytest.raises(DatasetError, match="absent does not exist"):
        load_samples("iris", None)


@pytest.mark.slow
def test_tuned_method_is_selected_on_the_training_samples(directory):
    grid = {"alpha": (0.001, 10.0), "n_neighbors": (3, 20)}
    contender = replace(KEEL_CONTENDERS["LFDA tuned"], grid=grid)
    row = run_keel_task(ContenderTask("keel", "wine", contender, 4), directory)
    with np.load(directory / "keel" / "wine.npz") as arrays:
        X, y, is_test = arrays["X"], arrays["y"], arrays["fold"] == 4
    scaler = MinMaxScaler().fit(X[~is_test])
    X, X_test = scaler.transform(X[~is_test]), scaler.transform(X[is_test])
    numbers = {"lfda__n_components": list(range(1, X.shape[1] + 1))}
    search = GridSearchCV(
        Pipeline([("lfda", LFDA()), ("knn", KNeighborsClassifier(3))]),
        {**{f"lfda__{name}": values for name, values in grid.items()}, **numbers},
        cv=StratifiedKFold(4, shuffle=True, random_state=4),
    ).fit(X, y[~is_test])
    scores = search.cv_results_["mean_test_score"]
    best = [search.cv_results_["params"][i] for i in np.flatnonzero(scores > scores.max() - 1e-9)]
    assert len(best) < len(scores) / 4
    model = search.best_estimator_
    accuracies = {
        model.set_params(**point).fit(X, y[~is_test]).score(X_test, y[is_test]) for point in best
    }
    assert row["accuracy"] in accuracies
