"""Commands that compute on the workers of a Dask scheduler."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from cases import largest_angle
from command_calls import call
from mpda import MPDA, load

pytest.importorskip("distributed", reason="needs mpda[dask]")
dask_cluster = pytest.importorskip("mpda.parallel.dask_cluster")

# distributed leaves sockets of workers that are gone to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)


def make_digits():
    X, y = load_digits(return_X_y=True)
    X = X[:600, X[:600].std(axis=0) > 0]
    names = [f"p{j}" for j in range(X.shape[1])]
    return pd.DataFrame(X, columns=names).assign(digit=[f"d{c}" for c in y[:600]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "npz"])
def test_fit_on_the_cluster_equals_the_local_fit(client, kind, capsys):
    frame = make_digits()
    X, y = frame.drop(columns="digit"), frame["digit"]
    if kind == "npz":
        np.savez("d.npz", X=X.to_numpy(), digit=y.to_numpy(dtype=str))
    elif "csv" in kind:
        frame.assign(name="x", note="y").to_csv(f"d.{kind}", index=False)
    else:
        frame.to_parquet("d.parquet")
    drop = ("--drop", "name", "note") if "csv" in kind else ()
    options = ("--label", "digit", "--components", "5", "--set", "n_neighbors=8", *drop)
    address = client.scheduler.address
    assert call("fit", f"d.{kind}", *options, "--scheduler", address, "--pca", "none") == 0
    assert "features to 5 components" in capsys.readouterr().out
    local = MPDA(5, n_neighbors=8).fit(X, y)
    remote = load("d.mpda")["mpda"]
    assert largest_angle(remote.components_.T, local.components_.T) < 1e-6
    assert call("evaluate", "d.mpda", f"d.{kind}", "--label", "digit", *drop, "--json") == 0
    assert json.loads(capsys.readouterr().out)["error"] < 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz"])
def test_cluster_reads_decimal_commas_and_other_encodings(client, kind):
    frame = make_digits().rename(columns={"p0": "Gr\u00f6\u00dfe"})
    X, y = frame.drop(columns="digit") + 0.25, frame["digit"]
    written = {"sep": ";", "decimal": ",", "encoding": "latin-1", "index": False}
    X.assign(digit=y).to_csv(f"d.{kind}", **written)
    options = ("--label", "digit", "--components", "5", "--set", "n_neighbors=8", "--pca", "none")
    form = ("--decimal", ",", "--encoding", "latin-1")
    address = client.scheduler.address
    assert call("fit", f"d.{kind}", *options, *form, "--scheduler", address) == 0
    local = MPDA(5, n_neighbors=8).fit(X, y)
    model = load("d.mpda")["mpda"]
    assert largest_angle(model.components_.T, local.components_.T) < 1e-6


@pytest.mark.slow
def test_fit_on_the_cluster_applies_pca_first(client, capsys):
    make_digits().to_parquet("d.parquet")
    options = ("--label", "digit", "--components", "3", "--pca", "0.8", "--json")
    assert call("fit", "d.parquet", *options, "--scheduler", client.scheduler.address) == 0
    assert json.loads(capsys.readouterr().out)["n_components"] == 3
    model = load("d.mpda")
    assert [name for name, _ in model.steps] == ["pca", "mpda"]
    assert model["pca"].explained_variance_ratio_.sum() >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--label", "digit"), 2, "--components is required"),
        (("--label", "digit", "--method", "mfa", "--components", "2"), 2, "MPDA, PMPDA, LFDA"),
        (("--label", "kind", "--components", "2"), 1, "no column 'kind'"),
        (("--label", "digit", "--components", "2"), 1, "not numbers: 'name'"),
    ],
)
def test_mistake_is_one_line_and_an_exit_code(client, options, code, message, capsys):
    make_digits().assign(name="x").to_parquet("d.parquet")
    assert call("fit", "d.parquet", *options, "--scheduler", client.scheduler.address) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_folds_of_a_comparison_run_on_the_cluster(client, capsys):
    make_digits()[:200].to_parquet("d.parquet")
    options = ("--label", "digit", "--methods", "1-nn", "lda", "--folds", "2", "--jobs", "2")
    assert call("compare", "d.parquet", *options, "--scheduler", client.scheduler.address) == 0
    assert "LDA" in capsys.readouterr().out


@pytest.mark.slow
def test_reproduction_runs_on_the_cluster(client):
    words = ("--datasets", "digits", "--methods", "PCA", "LDA", "--splits", "2", "--jobs", "2")
    address = client.scheduler.address
    out = ("--out", "rows", "--quiet", "--scheduler", address)
    assert call("reproduce", "table2", *words, *out) == 0
    with open("rows/rows.jsonl") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == 4
    assert {row["status"] for row in rows} == {"done"}


def test_scheduler_that_does_not_answer_is_one_line(monkeypatch, capsys):
    # The wait of ten seconds for an answer.
    monkeypatch.setattr(dask_cluster, "_CONNECT_TIMEOUT", 0.2)
    assert call("reproduce", "table1", "--scheduler", "tcp://127.0.0.1:9") == 1
    err = capsys.readouterr().err
    assert "--scheduler tcp://127.0.0.1:9" in err
    assert "Traceback" not in err
