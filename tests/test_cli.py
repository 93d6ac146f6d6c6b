"""Commands on tables and models as users run them: results, files, notes, mistakes, exit codes."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from command_calls import call, read_page
from mpda import LFDA, MPDA, ManifoldPartition, load
from mpda.cli import fit_steps, run
from mpda.io import read_header
from mpda.report import read_results

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

SCRIPT = Path(sys.executable).with_name("mpda")
QUICK = ("--label", "species", "--components", "2", "--folds", "0")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)


@pytest.fixture(scope="module")
def iris():
    bunch = load_iris(as_frame=True)
    return bunch.data.assign(species=np.array(bunch.target_names)[bunch.target])


@pytest.fixture
def table(iris, tmp_path):
    iris.to_csv(tmp_path / "iris.csv", index=False)
    return "iris.csv"


@pytest.fixture(scope="module")
def fitted_model(iris, tmp_path_factory):
    """Return the bytes of a model, which is fitted once for all tests."""
    directory = tmp_path_factory.mktemp("model")
    iris.to_csv(directory / "iris.csv", index=False)
    with contextlib.chdir(directory):
        assert call("fit", "iris.csv", *QUICK, "--quiet") == 0
        return Path("iris.mpda").read_bytes()


@pytest.fixture
def model(table, fitted_model):
    Path("iris.mpda").write_bytes(fitted_model)
    return "iris.mpda"


# fit


@pytest.mark.skipif(not SCRIPT.exists(), reason="the package is not installed with its script")
def test_installed_program_leads_from_data_to_a_matrix(capsys):
    assert call("datasets", "wine", "--out", "wine.csv") == 0
    assert Path("wine.csv").read_text().startswith("label,alcohol,malic_acid")
    words = [SCRIPT, "fit", "wine.csv", "--label", "label", "--report", "wine.html"]
    words += ["--folds", "2", "--components", "2"]
    fit = subprocess.run(words, capture_output=True, text=True)
    assert fit.returncode == 0, fit.stderr
    assert "178 samples, 13 features, 3 classes" in fit.stdout
    assert "\nthis map " in fit.stdout
    assert fit.stderr.endswith("written: wine.mpda, wine.html\n")
    assert re.search(
        "<title>wine.csv: (PCA|shrinkage LDA|LFDA|MPDA)", Path("wine.html").read_text()
    )
    assert call("transform", "wine.mpda", "wine.csv", "--out", "mapped.parquet") == 0
    assert Path("mapped.parquet").exists()
    assert call("export", "wine.mpda", "--matrix", "wine.npy") == 0
    capsys.readouterr()
    assert call("evaluate", "wine.mpda", "wine.csv") == 0
    assert "error says nothing about new ones" in " ".join(capsys.readouterr().out.split())


def test_fit_measures_the_error_and_writes_the_model(table, capsys):
    assert call("fit", table, "--label", "species", "--results", "r.json", "--out", "m.mpda") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "iris.csv: 150 samples, 4 features, 3 classes (species)"
    assert [line.split()[0] for line in lines if "±" in line][:3] == ["1-NN", "LDA", "MPDA"]
    results = read_results("r.json")
    names = {"data", "comparison", "model", "embedding", "partition", "confusion"}
    assert set(results) >= names
    assert results["provenance"]["command"].startswith("mpda fit iris.csv --label species")
    assert np.sum(results["confusion"]["counts"]) == 150
    rows = {row["method"]: row for row in results["comparison"]["problems"][0]["rows"]}
    n_wrong = 150 - np.trace(results["confusion"]["counts"])
    assert rows["MPDA"]["error"] == pytest.approx(100 * n_wrong / 150)
    assert sum(results["embedding"]["wrong"]) == n_wrong
    notes = read_header("m.mpda")["notes"]
    assert notes["label"] == "species"
    assert notes["comparison"][0]["method"] == "1-NN"
    fitted = load("m.mpda")
    assert fitted.feature_names_in_.tolist() == load_iris().feature_names
    assert len(fitted["mpda"].components_) == results["model"]["n_components"]


def test_fit_prints_json_with_the_parameters_of_the_user(table, capsys):
    values = ("--set", "alpha=0.1", "--set", "n_neighbors=5", "--scale", "none")
    assert call("fit", table, "--label", "species", "--json", "--method", "lfda", *values) == 0
    streams = capsys.readouterr()
    results = json.loads(streams.out)
    step = results["model"]["steps"][-1]
    assert step["name"] == "LFDA"
    assert (step["parameters"]["alpha"], step["parameters"]["n_neighbors"]) == (0.1, 5)
    assert results["files"] == ["iris.mpda"]
    assert "embedding" not in results
    assert streams.err == ""


def test_text_of_samples_is_no_feature_and_part_of_the_results(iris, capsys):
    names = [f"{i:03d}" for i in range(len(iris))]
    iris.assign(name=names).to_csv("named.csv", index=False)
    X = iris.drop(columns="species").to_numpy()
    np.savez("named.npz", X=X, y=iris["species"].to_numpy(dtype=str), name=np.array(names))
    for data, label in (("named.csv", ("--label", "species")), ("named.npz", ())):
        words = ("--text", "name", "--folds", "2", "--results", "r.json", "--out", "m.mpda")
        words += ("--scale", "none")
        assert call("fit", data, *label, *words) == 0
        hover = read_results("r.json")["embedding"]["hover"]
        assert hover["text"] == {"name": "name", "values": names}
        assert load("m.mpda").n_features_in_ == 4
    # Features of an array have no names, and are not listed.
    assert "features" not in hover
    # Samples left out because of missing values have no text either.
    gaps = iris.assign(name=names)
    gaps.iloc[3, 0] = np.nan
    gaps.to_csv("gaps.csv", index=False)
    words = ("--label", "species", "--text", "name", "--skip-missing", "--folds", "0")
    assert call("fit", "gaps.csv", *words, "--results", "r.json") == 0
    values = read_results("r.json")["embedding"]["hover"]["text"]["values"]
    assert values == names[:3] + names[4:]
    capsys.readouterr()


def test_page_names_reasons_components_and_next_commands(table, capsys):
    words = ("--out", "my model.mpda", "--report", "p.html", "--results", "r.json")
    assert call("fit", table, "--label", "species", "--components", "2", *words) == 0
    results = read_results("r.json")
    assert results["embedding"]["component_names"] == ["MPDA 1", "MPDA 2"]
    assert results["model"]["component_names"] == ["MPDA 1", "MPDA 2"]
    advised, *commands = [entry["command"] for entry in results["next"]]
    assert advised == "mpda fit iris.csv --label species --method lda"
    assert commands[0] == "mpda predict 'my model.mpda' NEW.csv --out classes.csv"
    assert commands[1] == "mpda evaluate 'my model.mpda' LABELLED.csv"
    page = read_page("p.html")
    (reason,) = results["model"]["preparation"]
    assert reason.startswith("by cross-validation: MPDA errs on ")
    assert all(text in page for text in (reason, advised, *commands))
    assert call("fit", table, *QUICK, "--no-keep-samples", "--results", "r.json") == 0
    measure, entry = read_results("r.json")["next"]
    assert "--no-keep-samples" in measure["command"]
    assert entry["command"].startswith("mpda transform iris.mpda NEW.csv")


def test_search_prints_the_parameters_that_it_selected(table, capsys):
    words = ("--method", "lpfe", "--search", "--set", "n_neighbors=10", "--folds", "2", "--quiet")
    assert call("fit", table, "--label", "species", *words) == 0
    streams = capsys.readouterr()
    assert streams.err == ""
    fitted = load("iris.mpda")["lpfe"]
    assert fitted.n_neighbors == 10
    assert f"selected by cross-validation: alpha={fitted.alpha!r}" in streams.out


@pytest.mark.slow
def test_automatic_choice_is_reported(iris, capsys):
    table = "few.csv"
    iris.iloc[::2].to_csv(table, index=False)
    words = ("--method", "auto", "--components", "2", "--folds", "2")
    words += ("--results", "r.json", "--report", "r.html")
    assert call("fit", table, "--label", "species", *words) == 0
    out = " ".join(capsys.readouterr().out.split())
    winner = re.search(
        r"Cross-validation on all samples chose ([\w ]+), among LFDA, MPDA, PCA", out
    )
    assert winner
    counts = re.search(r"The 2 folds that measure the error chose (.*?)\.", out)
    assert sum(map(int, re.findall(r"\((\d)\)", counts[1]))) == 2
    rows = re.findall(
        r"(PCA|shrinkage LDA|LFDA|MPDA) (\d+\.\d\d) (\d+\.\d\d) (alone|refined) (\d)", out
    )
    best = min(rows, key=lambda row: float(row[1 if row[3] == "alone" else 2]))
    assert {row[0] for row in rows} == {"PCA", "shrinkage LDA", "LFDA", "MPDA"}
    assert winner[1].removesuffix(" refined") == best[0] == rows[0][0]
    assert winner[1].endswith("refined") == (best[3] == "refined")
    page = Path("r.html").read_text()
    assert f"few.csv: {winner[1]}" in page
    assert "<dt>error of auto</dt>" in page
    assert any("each refined or not" in text for text in read_results("r.json")["summary"])
    assert "left out:" not in out


def test_automatic_choice_names_what_it_leaves_out(iris, capsys):
    table = "few.csv"
    iris.iloc[::2].to_csv(table, index=False)
    words = ("--method", "auto", "--components", "3", "--folds", "0")
    assert call("fit", table, "--label", "species", *words) == 0
    out = capsys.readouterr().out
    assert not re.search(r"shrinkage LDA +\d", out)
    assert "left out: shrinkage LDA refined: the number of components is at most 2" in out
    assert call("fit", table, "--label", "species", "--method", "auto", "--set", "alpha=1") == 2
    assert "--method auto compares several" in capsys.readouterr().err


def test_no_refinement_is_no_parameter_of_a_refined_method(table, capsys):
    words = ("--method", "shrinkage-lda-refined", "--set", "n_rounds=0")
    assert call("fit", table, "--label", "species", *words) == 2
    assert "use --method shrinkage-lda" in capsys.readouterr().err


def test_refined_method_takes_parameters_of_both_stages(table, capsys):
    values = ("--set", "estimator__alpha=0.3", "--set", "penalty=100", "--components", "2")
    words = ("--method", "mpda-refined", "--report", "m.html", "--out", "m.mpda", "--folds", "2")
    assert call("fit", table, "--label", "species", *words, *values) == 0
    page = Path("m.html").read_text()
    assert "<dt>error of MPDA refined</dt>" in page
    assert 'id="patches"' in page
    fitted = load("m.mpda")["mpda_refined"]
    assert (fitted.penalty, fitted.estimator_.alpha) == (100, 0.3)
    capsys.readouterr()
    assert call("evaluate", "m.mpda", table) == 0
    assert "MPDA refined: 4 features to 2 components" in capsys.readouterr().out
    assert call("export", "m.mpda", "--matrix", "m.npy") == 0
    np.testing.assert_allclose(np.load("m.npy"), fitted.components_)


def test_infinite_radius_can_be_set(table):
    words = ("--method", "mpda-refined", "--components", "4", "--folds", "0", "--set", "radius=inf")
    assert call("fit", table, "--label", "species", *words, "--out", "m.mpda") == 0
    assert load("m.mpda")["mpda_refined"].radius_ is None


@pytest.mark.parametrize("folds", ["0", "2"])
def test_pages_draw_a_map_to_a_sphere_before_the_projection(iris, table, folds):
    words = ("--method", "mpda-refined", "--set", "radius=1", "--components", "4")
    words += ("--folds", folds, "--results", "fit.json", "--out", "m.mpda", "--scale", "none")
    assert call("fit", table, "--label", "species", *words) == 0
    assert call("evaluate", "m.mpda", table, "--results", "evaluation.json") == 0
    fitted = load("m.mpda")["mpda_refined"]
    linear = fitted.transform_linear(iris.drop(columns="species"))
    assert fitted.radius_ > 0
    assert linear.shape[1] == 3
    for name in ("fit.json", "evaluation.json"):
        section = json.loads(Path(name).read_text())["embedding"]
        assert len(section["component_names"]) == 3
        points = np.array(section["points"])
        assert points.shape == linear.shape
        if name == "evaluation.json" or folds == "0":
            np.testing.assert_allclose(points, linear, rtol=1e-2, atol=1e-2 * np.abs(linear).max())
        # Points on the sphere have a length of at most 1, and a last number.
        assert np.linalg.norm(points, axis=1).std() > 0.1 * np.linalg.norm(linear, axis=1).std()


def test_model_without_neighbours_is_evaluated_by_leaving_one_out(table, capsys):
    assert call("fit", table, *QUICK, "--no-keep-samples") == 0
    assert "Error on samples" not in capsys.readouterr().out
    assert not hasattr(load("iris.mpda").steps[-1][1], "kneighbors")
    assert call("evaluate", "iris.mpda", table) == 0
    assert "among the other samples of the file" in capsys.readouterr().out


def test_arrays_and_tables_give_the_same_model(iris, model):
    X, y = iris.drop(columns="species"), iris["species"].to_numpy(dtype=str)
    np.savez("a.npz", X=X.to_numpy(), y=y)
    np.save("b.npy", np.column_stack([X, load_iris().target]))
    assert call("fit", "a.npz", "--components", "2", "--folds", "0") == 0
    assert call("fit", "b.npy", "--label", "-1", "--components", "2", "--folds", "0") == 0
    components = load(model)["mpda"].components_
    for other in ("a.mpda", "b.mpda"):
        np.testing.assert_allclose(load(other)["mpda"].components_, components, rtol=1e-10)
    assert call("evaluate", model, "a.npz") == 0
    assert call("transform", model, "a.npz", "--out", "z.npy") == 0
    np.testing.assert_array_equal(np.load("z.npy"), load(model)[:-1].transform(X))


def test_small_classes_and_duplicates_are_noted_on_the_page_too(iris, capsys):
    pd.concat([iris[49:], iris[60:70]]).to_csv("few.csv", index=False)
    words = ("--label", "species", "--folds", "2", "--components", "2", "--results", "r.json")
    assert call("fit", "few.csv", *words) == 0
    reason = "no other sample is of their class, so that every fold errs on them"
    note = f"labels that occur once: setosa; {reason}"
    err = capsys.readouterr().err
    assert f"note: {note}\n" in err
    assert "note: 11 of 111 samples are duplicates of others" in err
    notes = read_results("r.json")["data"]["notes"]
    assert any(note[1:] in line for line in notes)
    assert any("11 of 111 samples are duplicates" in line for line in notes)


def test_notes_about_the_data_come_before_the_fit(iris, capsys, monkeypatch):
    def stop_here(*_, **__):
        raise ValueError("no fit")

    pd.concat([iris, iris[60:70]]).to_csv("copies.csv", index=False)
    with monkeypatch.context() as patch:
        patch.setattr(fit_steps, "fit_model", stop_here)
        assert call("fit", "copies.csv", "--label", "species") != 0
    assert "samples are duplicates of others" in capsys.readouterr().err
    assert call("fit", "copies.csv", *QUICK) == 0
    assert capsys.readouterr().err.count("samples are duplicates of others") == 1


# transform, evaluate, export


def test_transform_copies_the_columns_that_are_not_features(model, iris, capsys):
    copied = {"id": [f"{i:03d}" for i in range(150)], "land": ["NA", "null", ""] * 50}
    gaps = pd.array([*range(149), None], dtype="Int64")
    shuffled = iris[iris.columns[::-1]].assign(**copied, gaps=gaps)
    shuffled.to_csv("new.csv", index=False)
    assert call("transform", model, "new.csv", "--out", "mapped.csv") == 0
    assert "150 samples, 4 features to 2 components" in capsys.readouterr().err
    mapped = pd.read_csv("mapped.csv", dtype=str, keep_default_na=False)
    assert list(mapped.columns) == ["species", "id", "land", "gaps", "mpda0", "mpda1"]
    assert mapped["id"].tolist() == copied["id"]
    assert mapped["land"].tolist() == copied["land"]
    assert mapped["gaps"].tolist() == [*map(str, range(149)), ""]
    Z = load(model)[:-1].transform(iris.drop(columns="species"))
    np.testing.assert_allclose(mapped[["mpda0", "mpda1"]].astype(float), Z, rtol=1e-12)
    iris.assign(mpda0="mine").to_csv("clash.csv", index=False)
    assert call("transform", model, "clash.csv", "--out", "z.csv") == 1
    assert "mpda0" in capsys.readouterr().err


def test_evaluate_reports_errors_by_class_and_compares_with_a_limit(iris, capsys):
    iris[::2].to_csv("half.csv", index=False)
    species = iris["species"][1::2].replace("setosa", "new")
    iris[1::2].assign(species=species).to_csv("other.csv", index=False)
    assert call("fit", "half.csv", "--label", "species", "--folds", "0", "--components", "3") == 0
    capsys.readouterr()
    words = ("evaluate", "half.mpda", "other.csv")
    assert call(*words, "--report", "e.html") == 0
    streams = capsys.readouterr()
    lines = [line.split() for line in streams.out.splitlines()]
    assert ["new", "25", "25", "100.00", "setosa"] in lines
    assert "have classes that the model does not know and count as wrong: new" in streams.err
    # One flower occurs twice, once in each half.
    text = " ".join(streams.out.split())
    assert "1 of 75 samples was used to fit the model; without it the error is" in text
    assert Path("e.html").exists()
    assert call(*words, "--json", "--results", "e.json") == 0
    results = json.loads(capsys.readouterr().out)
    assert results["low"] < results["error"] < results["high"]
    assert results["n_known"] == 1
    assert any("1 of 75 samples" in line for line in results["summary"])
    n_wrong = 75 - np.trace(read_results("e.json")["confusion"]["counts"])
    assert results["error"] == pytest.approx(100 * n_wrong / 75)
    assert call(*words, "--at-most", "5") == 3
    assert "is above --at-most 5" in capsys.readouterr().err
    assert call(*words, "--at-most", "60") == 0


def test_numbers_and_texts_are_the_same_labels(iris, capsys):
    codes = iris["species"].factorize()[0]
    iris.assign(species=codes).to_csv("numbers.csv.gz", index=False)
    iris.assign(species=codes.astype(str)).to_parquet("texts.parquet")
    for fitted, other in (("texts.parquet", "numbers.csv.gz"), ("numbers.csv.gz", "texts.parquet")):
        assert call("fit", fitted, *QUICK, "--out", "m.mpda") == 0
        assert call("evaluate", "m.mpda", other, "--results", "e.json") == 0
        assert "wrong class for 0 of 150 samples" in capsys.readouterr().out
        assert not any(read_results("e.json")["embedding"]["wrong"])


def test_export_writes_the_matrix_and_onnx(model, iris, capsys):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs mpda[test]")
    assert call("export", model, "--onnx", "m.onnx", "--neighbors", "--matrix", "m.npy") == 0
    frame = iris.drop(columns="species")
    Z = (frame.to_numpy() - np.load("m-mean.npy")) @ np.load("m.npy").T
    np.testing.assert_allclose(Z, load(model)[:-1].transform(frame), atol=1e-10)
    session = onnxruntime.InferenceSession("m.onnx")
    labels = session.run(["label"], {"X": frame.to_numpy(dtype=np.float32)})[0]
    np.testing.assert_array_equal(labels, iris["species"])
    capsys.readouterr()
    assert call("export", model, "--matrix", "m.npy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["m.npy", "m-mean.npy"]


@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # import of faiss
def test_mapped_samples_are_scaled_to_length_1(model, iris):
    faiss = pytest.importorskip("faiss", reason="needs mpda[test]")
    words = ("--numpy", "m.npz", "--neighbors", "--faiss", "m.faiss", "--normalize")
    assert call("export", model, *words) == 0
    assert call("transform", model, "iris.csv", "--normalize", "--out", "z.npy") == 0
    frame = iris.drop(columns="species")
    plain = load(model)[:-1].transform(frame)
    Z = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(np.load("z.npy"), Z, atol=1e-12)
    with np.load("m.npz") as content:
        arrays = dict(content)
    assert arrays["unit_length"]
    assert arrays["feature_names"].tolist() == list(frame)
    np.testing.assert_allclose(arrays["samples"], Z, atol=1e-12)
    assert arrays["classes"][arrays["codes"]].tolist() == iris["species"].tolist()
    index = faiss.read_index("m.faiss")
    index.add(frame.to_numpy(dtype=np.float32))
    stored = faiss.downcast_index(index.index).reconstruct_n(0, len(Z))
    np.testing.assert_allclose(stored, Z, atol=1e-4)


def test_modules_for_sentence_transformers_are_written_into_a_new_folder(model, capsys):
    pytest.importorskip("safetensors", reason="needs mpda[test-stores]")
    words = ("--sentence-transformers", "map", "--normalize", "--json")
    assert call("export", model, *words) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["map"]
    modules = json.loads(Path("map/modules.json").read_text())
    assert [module["path"] for module in modules] == ["0_Dense", "1_Normalize"]
    assert call("export", model, *words, "--matrix", "m.npy") == 2
    assert call("export", model, *words) == 1
    assert "map has files already: choose a new folder" in capsys.readouterr().err
    assert not Path("m.npy").exists()


# compare, partition, report


@pytest.mark.usefixtures("jobs_in_threads")
def test_compare_measures_all_methods_on_the_same_folds(table, capsys):
    words = ("--methods", "1-nn", "PCA", "mpda", "--folds", "3", "--jobs", "2")
    assert call("compare", table, "--label", "species", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "±" in line][:3] == ["1-NN", "PCA", "MPDA"]
    rows = read_results("comparison")["comparison"]["problems"][0]["rows"]
    assert [row["n_splits"] for row in rows] == [3, 3, 3]
    assert any(row["best"] for row in rows)
    assert "nested cross-validation on 3 folds" in Path("comparison/report.html").read_text()
    (entry,) = read_results("comparison")["next"]
    options = "--label species --folds 3 --jobs 2"
    # The errors of PCA and MPDA differ by few samples, so either may be recommended.
    recommended = next(line.split()[1] for line in lines if line.startswith("Recommended: "))
    method = recommended.strip(".").lower()
    assert entry["command"] == f"mpda fit iris.csv {options} --method {method}"
    assert method in ("pca", "mpda")


def test_comparison_continues_without_a_method_that_fails(table, capsys, monkeypatch):
    def fail(self, X, y):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(LFDA, "fit", fail)
    words = ("--methods", "1-nn", "lda", "lfda", "mpda", "--folds", "2")
    assert call("compare", table, "--label", "species", *words) == 0
    streams = capsys.readouterr()
    assert "note: LFDA has no result: not positive definite" in streams.err
    assert "LFDA" not in streams.out
    assert {"model", "embedding", "confusion"} <= set(read_results("comparison"))


def test_partition_writes_the_patch_of_every_sample(table, capsys):
    words = ("partition", table, "--label", "species", "--out", "p.csv", "--report", "p.html")
    assert call(*words) == 0
    text = " ".join(capsys.readouterr().out.split())
    frame = pd.read_csv(table)
    fitted = ManifoldPartition().fit(frame.drop(columns="species").to_numpy(), frame["species"])
    excess = 100 * (fitted.patch_linearity_.mean() - 1)
    assert excess > 1
    assert f"150 samples in {len(fitted.patch_sizes_)} patches" in text
    assert f"on average {excess:.1f} % longer than the straight line" in text
    patches = pd.read_csv("p.csv")
    assert list(patches.columns) == ["row", "species", "patch"]
    assert patches.groupby("patch")["species"].nunique().max() == 1
    assert patches["patch"].value_counts().max() <= 10
    assert Path("p.html").exists()
    assert call("partition", table, "--drop", "species", "--json", "--max-patch-size", "20") == 0
    (entry,) = json.loads(capsys.readouterr().out)["classes"]
    assert entry["samples"] == 150
    assert entry["mean_size"] <= 20


@pytest.mark.slow
def test_report_draws_results_and_rows(table, capsys):
    call("fit", table, *QUICK[:-1], "2", "--results", "r.json")
    assert call("report", "r.json", "--out", "page.html", "--figures", "figures") == 0
    assert "<title>" in Path("page.html").read_text()
    names = {path.name for path in Path("figures").iterdir()}
    assert {"embedding.png", "embedding.svg", "curve.png", "confusion.svg"} <= names
    words = ("--datasets", "digits", "--methods", "lda", "1-nn", "--splits", "2", "--out", "rows")
    assert call("reproduce", "table2", *words, "--quiet") == 0
    capsys.readouterr()
    assert call("report", "rows", "--out", "rows.html", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["rows.html"]
    assert "Problems: 1, methods: 2, splits: 2." in Path("rows.html").read_text()


# Mistakes


FIT = ("fit", "iris.csv", "--label", "species")
MISTAKES = [
    (("fit", "iris.csv"), 2, "--label is missing; it names the classes. iris.csv has the columns"),
    ((*FIT, "--method", "svm"), 2, "--method: unknown name 'svm'; available: PCA"),
    ((*FIT, "--method", "pca,lda"), 2, "--method takes one method"),
    ((*FIT, "--set", "alpha"), 2, "NAME=VALUE"),
    ((*FIT, "--set", "beta=1"), 2, "no parameter 'beta'"),
    ((*FIT, "--set", "n_components=1"), 2, "use --components"),
    ((*FIT, "--set", "alpha=-1"), 1, "alpha must be"),
    ((*FIT, "--pca", "2"), 2, "--pca must be auto, none"),
    ((*FIT, "--folds", "1"), 2, "--folds 1"),
    ((*FIT, "--folds", "99"), 1, "--folds 99: the largest class has 50 samples"),
    ((*FIT, "--image", "8"), 2, "--image must be"),
    ((*FIT, "--text", "name"), 1, "--text: iris.csv has no column 'name'"),
    ((*FIT, "--text", "species"), 2, "--text names the column of --label"),
    ((*FIT, "--image", "²x²"), 2, "--image must be"),
    ((*FIT, "--sheet", "May"), 2, "--sheet is for .xlsx files"),
    ((*FIT, "--image", "2x2", "--one-hot"), 2, "--image is for tables of pixels"),
    ((*FIT, "--fold", "3"), 2, "No such option: --fold"),
    ((*FIT, "--folds", "x"), 2, "Invalid value for '--folds'"),
    (("fit",), 2, "Missing argument 'DATA'. See mpda fit --help."),
    (("fitt",), 2, "No such command 'fitt'"),
    ((*FIT, "--image", "8x8"), 1, "--image 8x8 does not match iris.csv: 4 features"),
    ((*FIT, "--out", "one.csv/m"), 1, "one.csv"),
    ((*FIT, "--out", "iris.csv"), 2, "iris.csv is an input file"),
    ((*FIT, "--scheduler", "tcp://127.0.0.1:1", "--search"), 2, "cannot be combined"),
    (("fit", "one.csv", "--label", "y"), 1, "All 3 samples have the label u"),
    (("fit", "names.csv", "--label", "y"), 1, "Every sample has a different label in 'y'"),
    (("fit", "equal.csv", "--label", "y"), 1, "All samples have the same features"),
    (("transform", "absent.mpda", "iris.csv", "--out", "z.csv"), 1, "absent.mpda"),
    (("transform", "iris.mpda", "iris.csv", "--out", "z.xls"), 2, ".xls"),
    (("transform", "broken.mpda", "iris.csv", "--out", "z.csv"), 1, "broken.mpda"),
    (("evaluate", "iris.mpda", "narrow.npz"), 1, "has 2 features, but the model was fitted with 4"),
    (("export", "iris.mpda"), 2, "--onnx FILE, --numpy FILE.npz"),
    (("export", "iris.mpda", "--matrix", "m.npy", "--neighbors"), 2, "--neighbors needs --onnx"),
    (("export", "iris.mpda", "--matrix", "m.npy", "--normalize"), 2, "--normalize is not for"),
    (("report", "absent.json", "--out", "p.html"), 1, "absent.json does not exist"),
    (("report", "iris.csv"), 2, "--out PAGE.html"),
    (("datasets", "wine,digits", "--out", "d.csv"), 2, "--out needs the name of one data set"),
]


@pytest.mark.parametrize(("words", "code", "message"), MISTAKES, ids=lambda value: str(value)[:60])
def test_mistake_is_one_line_and_an_exit_code(model, words, code, message, capsys):
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u"] * 3}).to_csv("one.csv", index=False)
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u", "v", "w"]}).to_csv("names.csv", index=False)
    pd.DataFrame({"a": [1.0] * 4, "y": ["u", "u", "v", "v"]}).to_csv("equal.csv", index=False)
    np.savez("narrow.npz", X=np.zeros((3, 2)), y=np.arange(3))
    Path("broken.mpda").write_bytes(Path(model).read_bytes()[:500])
    files = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert call(*words) == code
    streams = capsys.readouterr()
    assert message in " ".join(streams.err.split())
    assert "Traceback" not in streams.err
    assert streams.out == ""
    *notes, line = streams.err.splitlines()  # notes about the data come before the fit
    assert line.startswith("mpda: ")
    assert all(note.startswith("note: ") for note in notes)
    left = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert left == files


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "mpda: stopped\n"),
        (IndexError("out of range"), 1, "mpda: internal error (IndexError: out of range); "),
        (MemoryError(), 1, "mpda: MemoryError\n"),
    ],
)
def test_interrupt_and_fault_are_one_line(table, capsys, monkeypatch, error, code, line):
    def fail(self, X, y):
        raise error

    monkeypatch.setattr(MPDA, "fit", fail)
    assert call("fit", table, *QUICK) == code
    *notes, last = capsys.readouterr().err.splitlines(keepends=True)
    assert last.startswith(line)
    assert all(note.startswith("note: ") for note in notes)
    assert not Path("iris.mpda").exists()


def test_environment_variable_keeps_tracebacks(table, monkeypatch):
    monkeypatch.setenv("MPDA_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no column 'kind'"):
        run(["fit", table, "--label", "kind"])


# Streams


def test_warnings_are_notes_and_quiet_suppresses_them(table, capsys, monkeypatch):
    fit = MPDA.fit

    def warn_and_fit(self, X, y):
        warnings.warn("Something is\n odd.", DeprecationWarning, stacklevel=2)
        return fit(self, X, y)

    monkeypatch.setattr(MPDA, "fit", warn_and_fit)
    assert call("fit", table, *QUICK) == 0
    assert "note: Something is odd.\n" in capsys.readouterr().err
    assert call("fit", table, *QUICK, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_output_of_a_method_does_not_enter_the_json(table, capsys):
    words = ("--method", "nca", "--set", "verbose=1", "--json")
    assert call("fit", table, *QUICK, *words) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["model"]["method"] == "NCA"
    assert "NeighborhoodComponentsAnalysis" in streams.err


@pytest.mark.slow
def test_progress_is_drawn_on_a_terminal(table):
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    reader, writer = pty.openpty()
    words = [sys.executable, "-m", "mpda", *FIT, "--folds", "2", "--components", "2"]
    words += ["--method", "mpda"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=writer, env=environment)
    os.close(writer)
    shown = b""
    try:
        while chunk := os.read(reader, 65536):
            shown += chunk
    except OSError:  # Linux reports the closed end of a terminal as an error.
        pass
    os.close(reader)
    assert done.returncode == 0
    text = shown.decode(errors="replace")
    assert "fitting MPDA" in text
    assert "measuring the error" in text
    assert "100%" in text
    assert b"MPDA" in done.stdout


def test_shell_completes_methods(monkeypatch, capsys):
    monkeypatch.setenv("_MPDA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "mpda fit --method sh")
    monkeypatch.setenv("COMP_CWORD", "3")
    call()
    assert "shrinkage-lda" in capsys.readouterr().out


def test_missing_package_is_named():
    script = "import sys; sys.modules['typer'] = None; from mpda.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "mpda: the command line needs typer: pip install 'mpda[cli]'\n"


@pytest.mark.slow
def test_fit_imports_neither_experiments_nor_drawing_packages(table):
    script = (
        "import sys; from mpda.cli import run\n"
        f"try: run({['fit', table, *QUICK, '--quiet', '--results', 'r.json']!r})\n"
        "except SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert {"mpda.assessment", "mpda.report.collect"} <= modules
    drawing = {"matplotlib", "mpda.report.page_sections"}
    assert not modules & {"mpda.experiments", "onnx", "dask", *drawing}


def test_predictions_are_those_of_the_nearest_samples(table, capsys):
    frame = pd.read_csv(table)
    train, test = frame.iloc[::2], frame.iloc[1::2].assign(name=lambda f: f.index)
    train.to_csv("train.csv", index=False)
    test.drop(columns="species").to_csv("new.csv", index=False)
    assert call("fit", "train.csv", *QUICK, "--out", "m.mpda") == 0
    capsys.readouterr()
    assert call("predict", "m.mpda", "new.csv", "--k", "3", "--drop", "name") == 0
    streams = capsys.readouterr()
    found = pd.read_csv(io.StringIO(streams.out))
    assert list(found.columns) == ["predicted", "distance", "agreement"]
    model = load("m.mpda")
    Z, Z_new = (
        model[:-1].transform(f.drop(columns=["species"])) for f in (train, test[train.columns])
    )
    distances = np.linalg.norm(Z[:, None] - Z_new[None], axis=2)
    for i, row in found.iterrows():
        order = distances[:, i].argsort(kind="stable")
        labels = train["species"].to_numpy()[order]
        names, counts = np.unique(labels[:3], return_counts=True)
        best = names[counts == counts.max()]
        assert row["predicted"] == next(label for label in labels if label in best)
        assert row["distance"] == pytest.approx(distances[order[0], i])
        assert row["agreement"] == pytest.approx(np.mean(labels[:5] == row["predicted"]))
    assert "75 samples" in streams.err


def test_predictions_are_written_next_to_other_columns(table, capsys):
    assert call("fit", table, *QUICK, "--out", "m.mpda") == 0
    assert call("predict", "m.mpda", table, "--label", "species", "--out", "p.parquet") == 0
    frame = pd.read_parquet("p.parquet")
    assert list(frame.columns) == ["species", "predicted", "distance", "agreement"]
    assert (frame["species"] == frame["predicted"]).all()  # the samples of the fit
    np.testing.assert_allclose(frame["distance"], 0.0, atol=1e-6)
    capsys.readouterr()
    assert call("predict", "m.mpda", table, "--out", "p.csv", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert sum(results["counts"].values()) == results["n_samples"] == 150
    assert call("predict", "m.mpda", table, "--json") == 2
    assert "--json needs --out" in capsys.readouterr().err
    assert call("predict", "m.mpda", table, "--out", "p.npy") == 2
    assert call("fit", table, *QUICK, "--no-keep-samples", "--out", "n.mpda") == 0
    assert call("predict", "n.mpda", table) == 1
    assert "keeps no samples to compare with" in capsys.readouterr().err


def test_mapped_samples_go_to_standard_output(table, capsys):
    assert call("fit", table, *QUICK, "--out", "m.mpda") == 0
    capsys.readouterr()
    assert call("transform", "m.mpda", table, "--label", "species") == 0
    streams = capsys.readouterr()
    frame = pd.read_csv(io.StringIO(streams.out))
    features = pd.read_csv(table).drop(columns="species")
    expected = load("m.mpda")[:-1].transform(features)
    np.testing.assert_allclose(frame.drop(columns="species"), expected, rtol=1e-9)
    assert "150 samples" in streams.err


def test_groups_are_never_divided(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 4)
    X = 5.0 * rng.normal(size=(30, 3))[groups] + 0.1 * rng.normal(size=(120, 3))
    kinds = np.array(["a", "b"])[rng.integers(0, 2, size=30)[groups]]
    frame = pd.DataFrame(X, columns=["x", "y", "z"]).assign(kind=kinds, patient=groups)
    frame.to_csv("t.csv", index=False)
    words = ("t.csv", "--label", "kind", "--folds", "3", "--scale", "none", "--json")
    errors = {}
    for title, more in (("alone", ["--drop", "patient"]), ("grouped", ["--groups", "patient"])):
        assert call("fit", *words, *more, "--out", "m.mpda") == 0
        results = json.loads(capsys.readouterr().out)
        assert load("m.mpda").n_features_in_ == 3
        rows = {r["method"]: r["error"] for r in results["comparison"]["problems"][0]["rows"]}
        errors[title] = rows["1-NN"], rows["MPDA"]
    assert max(errors["alone"]) < 5.0  # the nearest sample is of the same patient
    assert min(errors["grouped"]) > 20.0
    assert call("compare", *words[:-1], "--groups", "patient", "--methods", "1-nn", "lda") == 0
    assert "there are 30 groups" in capsys.readouterr().err
    assert call("fit", *words, "--groups", "patents") == 1
    assert "Did you mean patient?" in capsys.readouterr().err
    frame.assign(patient=groups % 2).to_csv("two.csv", index=False)
    assert call("fit", "two.csv", *words[1:], "--groups", "patient") == 1
    assert "3 folds are too many" in capsys.readouterr().err
    frame.loc[3, "patient"] = np.nan
    frame.to_csv("missing.csv", index=False)
    assert call("fit", "missing.csv", *words[1:], "--groups", "patient") == 1
    assert "no group is named for 1 row, the first is row 4" in capsys.readouterr().err
    few = (*words[1:-1], "--components", "1")
    assert call("fit", "missing.csv", *few, "--groups", "patient", "--skip-missing") == 0
    assert "1 of 120 rows has missing values" in capsys.readouterr().err
    np.savez("t.npz", X=X, y=kinds, patient=groups)
    assert call("fit", "t.npz", "--folds", "0", "--groups", "patient") == 0
    assert call("fit", "t.npz", "--folds", "3", "--groups", "doctor") == 1


def test_values_far_outside_the_fit_are_named(table, capsys):
    assert call("fit", table, *QUICK, "--out", "m.mpda") == 0
    frame = pd.read_csv(table)
    features = [name for name in frame.columns if name != "species"]
    scaled = frame.copy()
    scaled[features] *= 1000.0
    scaled.to_csv("scaled.csv", index=False)
    one = frame.copy()
    one.loc[7, features[1]] = 1e6
    one.to_csv("one.csv", index=False)
    capsys.readouterr()
    for words in (("evaluate",), ("predict", "--out", "p.csv"), ("transform", "--out", "t.csv")):
        assert call(words[0], "m.mpda", "scaled.csv", *words[1:]) == 0
        note = "150 of 150 samples have values far outside the range of the fit"
        assert note in capsys.readouterr().err
        assert call(words[0], "m.mpda", "one.csv", *words[1:]) == 0
        message = capsys.readouterr().err
        assert "1 of 150 samples has values far outside" in message
        assert f"in {features[1]!r};" in message
        assert call(words[0], "m.mpda", table, *words[1:]) == 0
        assert "far outside" not in capsys.readouterr().err


def test_samples_of_unknown_classes_are_counted(table, capsys):
    frame = pd.read_csv(table)
    frame[frame["species"] != "virginica"].to_csv("two.csv", index=False)
    assert call("fit", "two.csv", *QUICK, "--out", "m.mpda") == 0
    capsys.readouterr()
    assert call("evaluate", "m.mpda", table) == 0
    assert "50 of 150 samples have classes that the model does not know" in capsys.readouterr().err


def test_precision_of_an_exported_graph(table, capsys):
    pytest.importorskip("onnx", reason="onnx is not installed")
    frame = pd.read_csv(table)
    frame.insert(0, "time", 1.7e9 + 60.0 * frame["petal length (cm)"])
    frame[["time", "sepal width (cm)", "species"]].to_csv("t.csv", index=False)
    assert call("fit", "t.csv", *QUICK, "--out", "m.mpda") == 0
    assert call("export", "m.mpda", "--onnx", "m.onnx") == 1
    assert "--precision double" in capsys.readouterr().err
    assert call("export", "m.mpda", "--onnx", "m.onnx", "--precision", "double") == 0
    assert Path("m.onnx").exists()


@pytest.mark.slow
def test_saved_settings_are_judged_and_compared_with_the_folds(table, capsys, monkeypatch):
    words = ("fit", table, "--label", "species", "--folds", "2")
    results = {}
    for rule in ("fewest", "best"):
        assert call(*words, "--select", rule, "--results", "r.json") == 0
        out = " ".join(capsys.readouterr().out.split())
        error = re.search(r"the folds that chose them have an error of (\d+\.\d\d) %", out)
        results[rule] = read_results("r.json")["model"]["n_components"], float(error[1])
        assert "This is optimistic." in out
    assert results["fewest"][0] <= results["best"][0]
    measure = fit_steps.measure_errors

    def change(*arguments):
        measured = measure(*arguments)
        for row in measured.rows:
            if row["method"] == "MPDA":
                row["cv_dimension"] = max(row["dimensions"])
        return measured

    monkeypatch.setattr(fit_steps, "measure_errors", change)
    assert call(*words, "--components", "1") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "The folds chose 4 components, the model has 1" in out
    assert "optimistic" not in out  # nothing was chosen


def test_error_on_a_separate_table(table, capsys):
    frame = pd.read_csv(table)
    frame.iloc[::2].to_csv("train.csv", index=False)
    # Columns in another order, and one that is no feature.
    test = frame.iloc[1::2].assign(id=range(75))
    test[test.columns[::-1]].to_csv("test.csv", index=False)
    words = ("fit", "train.csv", *QUICK, "--test", "test.csv", "--results", "r.json")
    assert call(*words, "--out", "m.mpda") == 0
    out = " ".join(capsys.readouterr().out.split())
    model = load("m.mpda")
    features = test[model.feature_names_in_]
    n_wrong = int((model.predict(features) != test["species"]).sum())
    text = "test.csv: The nearest neighbour among the samples of the fit has the wrong class for "
    assert f"{text}{n_wrong} of 75 samples" in out
    assert any(
        text.startswith("test.csv: The nearest") for text in read_results("r.json")["summary"]
    )
    assert call("fit", "train.csv", *QUICK, "--test", "train.csv") == 0
    assert "75 of 75 samples were used to fit the model" in " ".join(
        capsys.readouterr().out.split()
    )
    assert call("fit", "train.csv", *QUICK, "--test", "test.csv", "--no-keep-samples") == 2
    assert call("fit", "train.csv", *QUICK, "--test", "none.csv") == 1
    test.drop(columns=model.feature_names_in_[0]).to_csv("short.csv", index=False)
    assert call("fit", "train.csv", *QUICK, "--test", "short.csv") == 1
    assert "has no column" in capsys.readouterr().err


def test_tables_with_decimal_commas(table, capsys):
    frame = pd.read_csv(table)
    frame.to_csv("comma.csv", sep=";", decimal=",", index=False, encoding="latin-1")
    assert call("fit", "comma.csv", *QUICK) == 1
    assert "--decimal ," in capsys.readouterr().err
    words = ("--decimal", ",", "--encoding", "latin-1")
    assert call("fit", "comma.csv", *QUICK, *words, "--out", "m.mpda") == 0
    assert call("evaluate", "m.mpda", "comma.csv", *words) == 0
    assert call("fit", "comma.csv", *QUICK, "--decimal", ";") == 2
