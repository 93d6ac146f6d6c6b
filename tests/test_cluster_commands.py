"""Commands whose work goes to the workers of a Dask scheduler."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from cases import largest_angle
from mpda import MPDA, load
from mpda.cli import run

pytest.importorskip("distributed", reason="needs mpda[dask]")
dask_engine = pytest.importorskip("mpda.parallel.dask_cluster")

# distributed leaves sockets of workers that are gone to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)


def call(*words):
    with pytest.raises(SystemExit) as ended:
        run(list(map(str, words)))
    return ended.value.code


def digits():
    X, y = load_digits(return_X_y=True)
    X = X[:600, X[:600].std(axis=0) > 0]
    names = [f"p{j}" for j in range(X.shape[1])]
    return pd.DataFrame(X, columns=names).assign(digit=[f"d{c}" for c in y[:600]])


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_a_fit_on_the_cluster_is_the_fit_of_this_machine(client, kind, capsys):
    frame = digits()
    X, y = frame.drop(columns="digit"), frame["digit"]
    if kind == "npz":
        np.savez("d.npz", X=X.to_numpy(), digit=y.to_numpy(dtype=str))
    elif kind == "csv":
        frame.assign(name="x", note="y").to_csv("d.csv", index=False)
    else:
        frame.to_parquet("d.parquet")
    drop = ("--drop", "name", "note") if kind == "csv" else ()
    options = ("--label", "digit", "--components", "5", "--set", "n_neighbors=8", *drop)
    address = client.scheduler.address
    assert call("fit", f"d.{kind}", *options, "--scheduler", address, "--pca", "none") == 0
    assert "features to 5 components" in capsys.readouterr().out
    here = MPDA(5, n_neighbors=8).fit(X, y)
    there = load("d.mpda")["mpda"]
    assert largest_angle(there.components_.T, here.components_.T) < 1e-6
    assert call("evaluate", "d.mpda", f"d.{kind}", "--label", "digit", "--json") == 0
    assert json.loads(capsys.readouterr().out)["error"] < 10


def test_pca_before_a_fit_on_the_cluster(client, capsys):
    digits().to_parquet("d.parquet")
    options = ("--label", "digit", "--components", "3", "--pca", "0.8", "--json")
    assert call("fit", "d.parquet", *options, "--scheduler", client.scheduler.address) == 0
    assert json.loads(capsys.readouterr().out)["n_components"] == 3
    model = load("d.mpda")
    assert [name for name, _ in model.steps] == ["pca", "mpda"]
    assert model["pca"].explained_variance_ratio_.sum() >= 0.8


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--label", "digit"), 2, "give --components"),
        (("--label", "digit", "--method", "mfa", "--components", "2"), 2, "MPDA, PMPDA, LFDA"),
        (("--label", "kind", "--components", "2"), 1, "no column 'kind'"),
        (("--label", "digit", "--components", "2"), 1, "not numbers: 'name'"),
    ],
)
def test_mistakes_are_one_line(client, options, code, message, capsys):
    digits().assign(name="x").to_parquet("d.parquet")
    assert call("fit", "d.parquet", *options, "--scheduler", client.scheduler.address) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_folds_of_a_comparison_run_on_the_cluster(client, capsys):
    digits()[:200].to_parquet("d.parquet")
    options = ("--label", "digit", "--methods", "1-nn", "lda", "--folds", "2", "--jobs", "2")
    assert call("compare", "d.parquet", *options, "--scheduler", client.scheduler.address) == 0
    assert "LDA" in capsys.readouterr().out


def test_the_reproduction_runs_on_the_cluster(client):
    words = ("--datasets", "digits", "--methods", "PCA", "LDA", "--splits", "2", "--jobs", "2")
    address = client.scheduler.address
    out = ("--out", "rows", "--quiet", "--scheduler", address)
    assert call("reproduce", "table2", *words, *out) == 0
    with open("rows/rows.jsonl") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == 4
    assert {row["status"] for row in rows} == {"done"}


@pytest.mark.parametrize("command", ["reproduce", "fit"])
def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch, capsys, command):
    monkeypatch.setattr(dask_engine, "_CONNECTING", 0.2)
    digits()[:50].to_parquet("d.parquet")
    words = ("table1",) if command == "reproduce" else ("d.parquet", "--label", "digit")
    more = () if command == "reproduce" else ("--components", "2")
    assert call(command, *words, *more, "--scheduler", "tcp://127.0.0.1:9") == 1
    said = capsys.readouterr().err
    assert "--scheduler tcp://127.0.0.1:9" in said
    assert "Traceback" not in said
