"""The command line as a person uses it: every command, and every kind of mistake."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from mpda import load
from mpda.cli import run
from mpda.experiments.datasets import DATASETS
from mpda.io import read_header
from mpda.report import read_results

pytest.importorskip("plotly", reason="needs mpda[cli]")

SCRIPT = Path(sys.executable).with_name("mpda")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)


@pytest.fixture(scope="module")
def iris():
    found = load_iris(as_frame=True)
    return found.data.assign(species=np.array(found.target_names)[found.target])


@pytest.fixture
def table(iris, tmp_path):
    iris.to_csv(tmp_path / "iris.csv", index=False)
    return "iris.csv"


@pytest.fixture
def model(table, capsys):
    assert call("fit", table, "--label", "species", "--components", "2", "--folds", "0") == 0
    capsys.readouterr()
    return "iris.mpda"


def call(*arguments):
    """The exit code of the command."""
    with pytest.raises(SystemExit) as ended:
        run(list(map(str, arguments)))
    return ended.value.code


# The whole way, by the program itself


@pytest.mark.skipif(not SCRIPT.exists(), reason="the package is not installed with its script")
def test_the_way_of_a_newcomer(capsys):
    assert call("datasets", "wine", "--out", "wine.csv") == 0
    header_line = Path("wine.csv").read_text().split("\n")[0]
    assert header_line.startswith("label,alcohol,malic_acid")
    given = ["fit", "wine.csv", "--label", "label", "--report", "wine.html"]
    fit = subprocess.run([SCRIPT, *given], capture_output=True, text=True)
    assert fit.returncode == 0, fit.stderr
    assert "Traceback" not in fit.stderr
    assert "178 samples, 13 features, 3 classes" in fit.stdout
    assert "StandardScaler()" in fit.stdout
    assert "vs 1-NN" in fit.stdout
    assert "written: wine.mpda, wine.html" in fit.stderr
    assert "wine.csv: MPDA" in Path("wine.html").read_text()
    assert call("transform", "wine.mpda", "wine.csv", "--out", "mapped.parquet") == 0
    assert Path("mapped.parquet").exists()
    assert call("export", "wine.mpda", "--matrix", "wine.npy") == 0
    capsys.readouterr()
    assert call("evaluate", "wine.mpda", "wine.csv") == 0
    assert "no estimate for new ones" in capsys.readouterr().err


# fit


def test_fit_measures_and_keeps(table, capsys):
    assert call("fit", table, "--label", "species", "--results", "r.json", "--out", "m.mpda") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == "iris.csv: 150 samples, 4 features, 3 classes (species)"
    assert [line.split()[0] for line in lines if "%" in line and "±" in line][:3] == [
        *("1-NN", "LDA", "MPDA")
    ]
    assert "nearest neighbour has another class" in " ".join(said.out.split())
    found = read_results("r.json")
    assert set(found) >= {*("data", "comparison", "model", "embedding", "partition", "confusion")}
    assert found["provenance"]["command"].startswith("mpda fit iris.csv --label species")
    assert sum(map(sum, found["confusion"]["counts"])) == 150
    rows = {row["method"]: row for row in found["comparison"]["problems"][0]["rows"]}
    wrong = 150 - np.trace(found["confusion"]["counts"])
    assert rows["MPDA"]["error"] == pytest.approx(100 * wrong / 150)
    assert sum(found["embedding"]["wrong"]) == wrong
    kept = read_header("m.mpda")["notes"]
    assert kept["label"] == "species"
    assert kept["comparison"][0]["method"] == "1-NN"
    fitted = load("m.mpda")
    assert fitted.feature_names_in_.tolist() == load_iris().feature_names
    assert len(fitted["mpda"].components_) == found["model"]["n_components"]


def test_fit_for_machines(table, capsys):
    options = (
        "--method",
        "lfda",
        "--set",
        "alpha=0.1",
        "--set",
        "n_neighbors=5",
        "--scale",
        "none",
    )
    assert call("fit", table, "--label", "species", "--json", *options) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    step = found["model"]["steps"][-1]
    assert step["name"] == "LFDA"
    assert step["parameters"]["alpha"] == 0.1
    assert step["parameters"]["n_neighbors"] == 5
    assert found["files"] == ["iris.mpda"]
    assert "embedding" not in found
    assert said.err == ""


def test_fit_with_a_search(table, capsys, monkeypatch):
    from mpda.model_selection import methods

    few = methods.Method("LFDA", "mpda:LFDA", "weighted", {"alpha": (0.0, 0.5)})
    monkeypatch.setattr(methods, "BY_NAME", {**methods.BY_NAME, "LFDA": few})
    options = ("--method", "LFDA", "--search", "--folds", "2", "--quiet")
    assert call("fit", table, "--label", "species", *options) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "LFDA(alpha=" in said.out
    assert load("iris.mpda")["lfda"].alpha in (0.0, 0.5)


def test_fit_without_measuring_or_neighbours(table, capsys):
    options = ("--components", "2", "--folds", "0", "--no-neighbors")
    assert call("fit", table, "--label", "species", *options) == 0
    assert "%" not in capsys.readouterr().out
    assert not hasattr(load("iris.mpda").steps[-1][1], "kneighbors")
    assert call("evaluate", "iris.mpda", table) == 0
    assert "1-NN error beside each other" in capsys.readouterr().out


def test_fit_of_arrays(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    np.savez("a.npz", X=X, y=y)
    assert call("fit", "a.npz", "--components", "2", "--folds", "0") == 0
    np.save("b.npy", np.column_stack([X, y]))
    assert call("fit", "b.npy", "--label", "-1", "--components", "2", "--folds", "0") == 0
    one, other = load("a.mpda"), load("b.mpda")
    np.testing.assert_array_equal(one["mpda"].components_, other["mpda"].components_)
    assert call("transform", "a.mpda", "a.npz", "--out", "z.npy") == 0
    np.testing.assert_array_equal(np.load("z.npy"), one[:-1].transform(X))


def test_rows_with_missing_values_are_left_out_when_asked(iris, capsys):
    iris.assign(extra="x").mask(iris.index.to_series() == 3, np.nan).to_csv("a.csv", index=False)
    given = ("fit", "a.csv", "--label", "species", "--components", "2", "--folds", "0")
    assert call(*given) == 1
    assert "'extra' (row 1: x)" in capsys.readouterr().err
    assert call(*given, "--drop", "extra") == 1
    assert "--skip-missing" in capsys.readouterr().err
    assert call(*given, "--drop", "extra", "--skip-missing") == 0
    assert "149 samples" in capsys.readouterr().out


# What a model is for


def test_transform_keeps_other_columns(model, iris, capsys):
    shuffled = iris[iris.columns[::-1]].assign(name=[f"s{i}" for i in range(150)])
    shuffled.to_csv("new.csv", index=False)
    assert call("transform", model, "new.csv", "--out", "mapped.csv") == 0
    found = pd.read_csv("mapped.csv")
    assert list(found.columns) == ["species", "name", "mpda0", "mpda1"]
    Z = load(model)[:-1].transform(iris.drop(columns="species"))
    np.testing.assert_allclose(found[["mpda0", "mpda1"]], Z, rtol=1e-12)
    assert "150 samples, 4 features to 2 components" in capsys.readouterr().err


def test_evaluate_counts_by_class(table, iris, capsys):
    iris[::2].to_csv("half.csv", index=False)
    iris[1::2].assign(species=iris["species"][1::2].replace("setosa", "new")).to_csv(
        "other.csv", index=False
    )
    assert call("fit", "half.csv", "--label", "species", "--folds", "0", "--components", "3") == 0
    capsys.readouterr()
    assert call("evaluate", "half.mpda", "other.csv", "--report", "e.html") == 0
    said = capsys.readouterr()
    line = next(line for line in said.out.splitlines() if line.startswith("new "))
    assert line.split() == ["new", "25", "25", "100.00", "%", "setosa"]
    assert "estimate" not in said.err
    assert Path("e.html").exists()
    assert call("evaluate", "half.mpda", "other.csv", "--json", "--results", "e.json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["low"] < found["error"] < found["high"]
    assert found["n_known"] == 1  # one flower is there twice, once in each half
    wrong = 75 - np.trace(read_results("e.json")["confusion"]["counts"])
    assert found["error"] == pytest.approx(100 * wrong / 75)
    assert call("evaluate", "half.mpda", "other.csv", "--at-most", "5") == 3
    assert "is larger than --at-most 5" in capsys.readouterr().err
    assert call("evaluate", "half.mpda", "other.csv", "--at-most", "60") == 0


def test_whole_numbers_and_words_are_the_same_labels(iris, capsys):
    codes = iris["species"].factorize()[0]
    iris.assign(species=codes).to_csv("numbers.csv", index=False)
    iris.assign(species=codes.astype(str)).to_parquet("words.parquet")
    options = ("--components", "2", "--folds", "0", "--label", "species")
    assert call("fit", "words.parquet", *options) == 0
    assert call("evaluate", "words.mpda", "numbers.csv") == 0
    assert ": 0.00 %, 95 %" in capsys.readouterr().out
    assert call("fit", "numbers.csv", *options) == 0
    assert call("evaluate", "numbers.mpda", "words.parquet", "--results", "e.json") == 0
    assert not any(read_results("e.json")["embedding"]["wrong"])
    assert ": 0.00 %, 95 %" in capsys.readouterr().out


def test_names_of_features_are_not_needed_where_there_are_none(model, iris, recwarn):
    X, y = iris.drop(columns="species"), iris["species"]
    np.savez("a.npz", X=X.to_numpy(), y=y.to_numpy(dtype=str))
    assert call("evaluate", model, "a.npz") == 0
    assert call("transform", model, "a.npz", "--out", "z.npy") == 0
    np.testing.assert_array_equal(np.load("z.npy"), load(model)[:-1].transform(X))
    assert call("fit", "a.npz", "--components", "2", "--folds", "0", "--out", "bare.mpda") == 0
    X.to_csv("columns.csv", index=False)
    assert call("transform", "bare.mpda", "columns.csv", "--out", "again.npy") == 0
    np.testing.assert_allclose(np.load("again.npy"), np.load("z.npy"), atol=1e-12)
    assert len(recwarn) == 0


def test_export(model, iris, capsys):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs mpda[test]")
    assert call("export", model, "--onnx", "m.onnx", "--neighbors", "--matrix", "m.npy") == 0
    frame = iris.drop(columns="species")
    X = frame.to_numpy()
    Z = (X - np.load("m-mean.npy")) @ np.load("m.npy").T
    np.testing.assert_allclose(Z, load(model)[:-1].transform(frame), atol=1e-10)
    session = onnxruntime.InferenceSession("m.onnx")
    labels = session.run(["label"], {"X": X.astype(np.float32)})[0]
    np.testing.assert_array_equal(labels, iris["species"])
    capsys.readouterr()
    assert call("export", model, "--matrix", "m.npy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["m.npy", "m-mean.npy"]


# compare, partition, report, datasets


@pytest.mark.usefixtures("jobs_in_threads")
def test_compare(table, capsys):
    methods = ("--methods", "1-nn", "PCA", "mpda", "--folds", "3", "--jobs", "2")
    assert call("compare", table, "--label", "species", *methods) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines() if "±" in line][:3] == [
        *("1-NN", "PCA", "MPDA")
    ]
    found = read_results("comparison")
    rows = found["comparison"]["problems"][0]["rows"]
    assert [row["n_splits"] for row in rows] == [3, 3, 3]
    assert rows[0]["difference"] is None
    assert any(row["best"] for row in rows)
    page = Path("comparison/report.html").read_text()
    assert "3-fold nested cross-validation" in page


def test_partition(table, capsys):
    assert (
        call("partition", table, "--label", "species", "--out", "p.csv", "--report", "p.html") == 0
    )
    said = capsys.readouterr().out
    assert "150 samples in " in said
    found = pd.read_csv("p.csv")
    assert list(found.columns) == ["row", "species", "patch"]
    assert found.groupby("patch")["species"].nunique().max() == 1
    assert found["patch"].value_counts().max() <= 10
    assert Path("p.html").exists()
    assert call("partition", table, "--drop", "species", "--json", "--max-patch-size", "20") == 0
    (only,) = json.loads(capsys.readouterr().out)["classes"]
    assert only["samples"] == 150
    assert only["mean_size"] <= 20


def test_report_from_results_and_from_rows(table, capsys):
    call("fit", table, "--label", "species", "--folds", "2", "--results", "r.json")
    assert call("report", "r.json", "--out", "page.html", "--figures", "figures") == 0
    assert "<title>" in Path("page.html").read_text()
    drawn = {path.name for path in Path("figures").iterdir()}
    assert {"embedding.png", "embedding.svg", "curve.png", "confusion.svg"} <= drawn
    capsys.readouterr()
    given = ("--datasets", "digits", "--methods", "lda", "1-nn", "--splits", "2", "--out", "rows")
    assert call("reproduce", "table2", *given, "--quiet") == 0
    assert call("report", "rows", "--out", "rows.html") == 0
    assert call("report", "rows/rows.jsonl", "--out", "again.html", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["files"] == ["again.html"]
    assert "2 methods, 1 problem, 2 splits" in Path("rows.html").read_text()


def test_datasets(capsys):
    assert call("datasets") == 0
    listed = capsys.readouterr().out
    assert "wine: Wine of three cultivars" in listed
    assert "licence: CC BY 4.0" in listed
    assert call("datasets", "digits", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["digits"]
    assert found["digits"]["n_samples"] == 1797
    assert found["digits"]["checksum"] == DATASETS["digits"].checksum
    assert call("datasets", "digits", "--out", "d.npy") == 0
    assert np.load("d.npy").shape == (1797, 65)


# Mistakes


MISTAKES = [
    (("fit", "absent.csv", "--label", "y"), 1, "absent.csv does not exist"),
    (("fit", "iris.csv"), 2, "--label is missing: it names the classes. iris.csv has the columns"),
    (("fit", "iris.csv", "--label", "kind"), 1, "no column 'kind'"),
    (("fit", "iris.csv", "--label", "species", "--method", "svm"), 2, "--method has no 'svm'"),
    (("fit", "iris.csv", "--label", "species", "--components", "0"), 2, "--components"),
    (("fit", "iris.csv", "--label", "species", "--components", "9"), 1, "only 4 directions"),
    (("fit", "iris.csv", "--label", "species", "--set", "alpha"), 2, "NAME=VALUE"),
    (("fit", "iris.csv", "--label", "species", "--set", "beta=1"), 2, "no parameter 'beta'"),
    (("fit", "iris.csv", "--label", "species", "--set", "n_components=1"), 2, "--components"),
    (("fit", "iris.csv", "--label", "species", "--set", "alpha=-1"), 1, "alpha must be"),
    (("fit", "iris.csv", "--label", "species", "--set", "alpha=much"), 1, "alpha must be"),
    (("fit", "iris.csv", "--label", "species", "--pca", "2"), 2, "--pca must be auto, none"),
    (("fit", "iris.csv", "--label", "species", "--folds", "1"), 2, "--folds 1"),
    (("fit", "iris.csv", "--label", "species", "--image", "8"), 2, "--image must be"),
    (("fit", "iris.csv", "--label", "species", "--image", "8x8", "--folds", "0"), 1, "--image 8x8"),
    (("fit", "iris.csv", "--label", "species", "--out", "/dev/null/m"), 1, "/dev/null"),
    (("fit", "iris.csv", "--label", "species", "--scale", "much"), 2, "--scale"),
    (("fit", "iris.csv", "--label", "species", "--out", "."), 1, "Is a directory"),
    (("fit", "iris.csv", "--label", "species", "--report", "/dev/null/p"), 1, "/dev/null"),
    (("compare", "iris.csv", "--label", "species", "--out", "iris.csv"), 1, "iris.csv"),
    (("fit", "one.csv", "--label", "y"), 1, "All 3 samples have the label u"),
    (("fit", "own.csv", "--label", "y"), 1, "Every sample has a label of its own"),
    (("fit", "iris.csv", "--label", "species", "--scheduler", "tcp://127.0.0.1:1"), 2, "--comp"),
    (
        ("compare", "iris.csv", "--label", "species", "--methods", "svm"),
        2,
        "--methods has no 'svm'",
    ),
    (("transform", "iris.csv", "iris.csv", "--out", "z.csv"), 1, "iris.csv"),
    (("transform", "absent.mpda", "iris.csv", "--out", "z.csv"), 1, "absent.mpda"),
    (("transform", "iris.mpda", "one.csv", "--out", "z.csv"), 1, "which the model was fitted with"),
    (("transform", "iris.mpda", "iris.csv", "--out", "z.xls"), 2, "files that can be written"),
    (("transform", "iris.mpda", "iris.csv"), 2, "--out"),
    (("evaluate", "iris.mpda", "narrow.npz"), 1, "has 2 features, but the model was fitted with 4"),
    (("evaluate", "iris.mpda", "iris.csv", "--label", "kind"), 1, "no column 'kind'"),
    (("export", "iris.mpda"), 2, "--onnx FILE, --matrix"),
    (("export", "iris.mpda", "--matrix", "m.npy", "--neighbors"), 2, "--neighbors is for --onnx"),
    (("partition", "iris.csv"), 1, "'species' (row 1: setosa)"),
    (("report", "iris.csv", "--out", "p.html"), 1, "not a results file of mpda"),
    (("report", "absent.json", "--out", "p.html"), 1, "absent.json does not exist"),
    (("report", "iris.csv"), 2, "--out PAGE.html"),
    (("datasets", "--out", "d.csv"), 2, "--out needs the name"),
    (("datasets", "wine,digits", "--out", "d.csv"), 2, "--out takes one data set"),
    (("fit", "same.csv", "--label", "y"), 1, "All samples have the same features"),
    (("fit", "iris.csv", "--label", "species", "--folds", "99"), 1, "--folds 99 is more than"),
    (
        ("fit", "iris.csv", "--label", "species", "--method", "lda", "--components", "3"),
        1,
        "LDA has at most 2 components here, not 3",
    ),
    (("datasets", "moons"), 2, "has no 'moons'"),
    (("datasets", "coil20", "--out", "d.csv", "--data", "absent"), 1, "absent does not exist"),
    (("nothing",), 2, "nothing"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "message"), MISTAKES, ids=lambda each: str(each)[:60]
)
def test_mistakes_are_one_line_and_an_exit_code(model, arguments, code, message, capsys):
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u"] * 3}).to_csv("one.csv", index=False)
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u", "v", "w"]}).to_csv("own.csv", index=False)
    pd.DataFrame({"a": [1.0] * 4, "y": ["u", "u", "v", "v"]}).to_csv("same.csv", index=False)
    np.savez("narrow.npz", X=np.zeros((3, 2)), y=np.arange(3))
    assert call(*arguments) == code
    said = capsys.readouterr()
    assert " ".join(message.split()) in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert said.out == ""
    if said.err.startswith("mpda: "):
        assert said.err.count("\n") == 1


def test_what_cannot_be_written_is_said_before_the_work(table, monkeypatch, capsys):
    from mpda import assessment

    monkeypatch.setattr(assessment, "select_model", lambda *given, **named: pytest.fail("worked"))
    assert call("fit", table, "--label", "species", "--out", "/dev/null/m") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["iris.csv"]


def test_a_broken_model_file_is_refused_in_one_line(model, capsys):
    whole = Path(model).read_bytes()
    Path(model).write_bytes(whole[: len(whole) // 2])
    assert call("transform", model, "iris.csv", "--out", "z.csv") == 1
    said = capsys.readouterr().err
    assert said.startswith("mpda: ")
    assert said.count("\n") == 1
    assert not Path("z.csv").exists()


def test_where_an_error_comes_from_is_shown_when_asked(table, monkeypatch):
    monkeypatch.setenv("MPDA_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no column 'kind'"):
        run(["fit", table, "--label", "kind"])


def test_interrupted_it_stops_with_the_usual_code(table, capsys, monkeypatch):
    from mpda import assessment

    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(assessment, "select_model", interrupted)
    assert call("fit", table, "--label", "species") == 130
    assert capsys.readouterr().err == "mpda: stopped\n"
    assert not Path("iris.mpda").exists()


def test_classes_of_few_samples_are_named(iris, capsys):
    iris.drop(index=range(3, 50)).to_csv("few.csv", index=False)
    assert call("fit", "few.csv", "--label", "species", "--folds", "2", "--components", "2") == 0
    assert "few.csv" in capsys.readouterr().out
    iris.drop(index=range(1, 50)).to_csv("few.csv", index=False)
    assert call("fit", "few.csv", "--label", "species", "--folds", "2", "--components", "2") == 0
    assert "note: fewer than 2 samples of setosa" in capsys.readouterr().err


# Nothing is lost, hidden or stopped by one fault


def test_copies_are_counted_and_the_page_says_so(iris, capsys):
    pd.concat([iris, iris[:10]]).to_csv("copies.csv", index=False)
    options = ("--folds", "2", "--components", "2", "--results", "r.json")
    assert call("fit", "copies.csv", "--label", "species", *options) == 0
    assert "note: 11 samples are copies of others" in capsys.readouterr().err
    assert any("11 samples are copies" in line for line in read_results("r.json")["summary"])


def test_known_samples_and_strange_labels_are_told_on_the_page(iris, capsys):
    iris[::2].to_csv("half.csv", index=False)
    assert call("fit", "half.csv", "--label", "species", "--folds", "0", "--components", "2") == 0
    mixed = iris[1:60].assign(species=iris["species"][1:60].replace("versicolor", "vers"))
    mixed.to_csv("mixed.csv", index=False)
    capsys.readouterr()
    assert call("evaluate", "half.mpda", "mixed.csv", "--results", "e.json") == 0
    said = capsys.readouterr().err
    assert "29 of 59 samples are among those" in said
    assert "without them the error is" in said
    assert "no classes of the model count as wrong: vers" in said
    told = " ".join(read_results("e.json")["summary"])
    assert "29 of 59 samples" in told
    assert "vers" in told


def test_a_method_that_fails_does_not_stop_a_comparison(capsys, monkeypatch):
    X, y = load_iris(return_X_y=True)
    columns = {"a": X[:, 0], "b": X[:, 1], "one": np.ones(150), "kind": y}
    pd.DataFrame(columns).to_csv("const.csv", index=False)
    options = ("--methods", "1-nn", "lda", "lfda", "mpda", "--folds", "2", "--set")
    assert call("compare", "const.csv", "--label", "kind", *options[:-1]) == 0
    said = capsys.readouterr()
    assert "MPDA" in said.out
    from mpda import LFDA

    def fail(self, X, y):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(LFDA, "fit", fail)
    assert call("compare", "const.csv", "--label", "kind", *options[:-1]) == 0
    said = capsys.readouterr()
    assert "note: LFDA has no result here: not positive definite" in said.err
    assert "LFDA" not in said.out
    assert {"model", "embedding", "confusion"} <= set(read_results("comparison"))


def test_columns_that_are_kept_are_kept_as_they_stand(iris, model, capsys):
    kept = {"id": [f"{i:03d}" for i in range(150)], "land": ["NA", "null", ""] * 50}
    gaps = pd.array([*range(149), None], dtype="Int64")
    iris.assign(**kept, gaps=gaps).to_csv("kept.csv", index=False)
    assert call("transform", model, "kept.csv", "--out", "z.csv") == 0
    found = pd.read_csv("z.csv", dtype=str, keep_default_na=False)
    assert found["id"].tolist() == kept["id"]
    assert found["land"].tolist() == kept["land"]
    assert found["gaps"].tolist() == [*map(str, range(149)), ""]
    iris.assign(mpda0="mine").to_csv("taken.csv", index=False)
    assert call("transform", model, "taken.csv", "--out", "z.csv") == 1
    assert "already have a column 'mpda0'" in capsys.readouterr().err


def test_what_is_read_is_not_overwritten(model, table, capsys):
    before = Path(table).read_bytes()
    assert call("transform", model, table, "--out", table) == 2
    assert call("fit", table, "--label", "species", "--out", table) == 2
    assert "is the file that is read" in capsys.readouterr().err
    assert Path(table).read_bytes() == before


def test_compressed_tables_have_labels_too(iris, capsys):
    iris.to_csv("z.csv.gz", index=False)
    assert call("fit", "z.csv.gz", "--label", "species", "--folds", "0", "--components", "2") == 0
    assert call("evaluate", "z.mpda", "z.csv.gz") == 0


def test_names_of_columns_may_have_dots_and_commas(iris, capsys):
    names = dict(zip(iris.columns, ["petal.width", "a,b", "c", "d", "kind"], strict=True))
    iris.rename(columns=names).to_csv("dots.csv", index=False)
    options = ("--label", "kind", "--folds", "0", "--components", "1")
    assert call("fit", "dots.csv", *options, "--drop", "petal.width", "c") == 0
    assert "2 features" in capsys.readouterr().out
    assert call("fit", "dots.csv", *options, "--drop", "a,b", "--drop", "c,d") == 0
    assert "1 features" in capsys.readouterr().out


def test_warnings_are_notes_and_quiet_is_quiet(iris, capsys, monkeypatch):
    import warnings

    from mpda import assessment

    whole = assessment.select_model

    def warned(*given, **named):
        warnings.warn("Something is\n odd.", UserWarning, stacklevel=2)
        return whole(*given, **named)

    monkeypatch.setattr(assessment, "select_model", warned)
    iris.to_csv("iris.csv", index=False)
    given = ("fit", "iris.csv", "--label", "species", "--folds", "0", "--components", "2")
    assert call(*given) == 0
    assert "note: Something is odd.\n" in capsys.readouterr().err
    assert call(*given, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_what_a_method_prints_does_not_spoil_json(table, capsys):
    options = ("--method", "nca", "--set", "verbose=1", "--folds", "0", "--components", "2")
    assert call("fit", table, "--label", "species", *options, "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["model"]["method"] == "NeighborhoodComponentsAnalysis"
    assert "NeighborhoodComponentsAnalysis" in said.err


def test_a_fault_of_the_program_is_a_line_too(table, capsys, monkeypatch):
    from mpda import assessment

    monkeypatch.setattr(assessment, "select_model", lambda *given, **named: [][1])
    assert call("fit", table, "--label", "species") == 1
    assert capsys.readouterr().err.startswith("mpda: failed (IndexError: list index out of range)")


# Terminals


def test_bars_only_where_there_is_a_terminal(table):
    own, other = pty.openpty()
    given = [sys.executable, "-m", "mpda", "fit", table, "--label", "species", "--folds", "2"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    done = subprocess.run(given, stdout=subprocess.PIPE, stderr=other, env=environment)
    os.close(other)
    shown = b""
    while True:
        try:
            piece = os.read(own, 65536)
        except OSError:  # the other end is closed and all is read
            break
        if not piece:
            break
        shown += piece
    os.close(own)
    assert done.returncode == 0
    assert "7/7" in shown.decode(errors="replace")
    assert b"MPDA" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_methods(shell):
    words = {"bash": "mpda fit --method sh", "zsh": "mpda fit --method sh", "fish": "sh"}
    environment = {
        **os.environ,
        "_MPDA_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "mpda fit --method sh",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words[shell],
        "COMP_CWORD": "3",
    }
    script = "from mpda.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert "shrinkage-lda" in done.stdout, done.stderr
