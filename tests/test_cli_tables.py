"""Tables with missing values, with text and from spreadsheets, through the commands."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from command_calls import call
from mpda import LFDA, load, save
from mpda.assessment import AssessmentProtocol, assess_methods, make_contender
from mpda.assessment.column_transformer import make_columns
from mpda.cli.tables.reading import read_table
from mpda.io import read_header
from mpda.report import read_results

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

FIT = ("fit", "trees.csv", "--label", "kind")
QUICK = ("--folds", "0", "--components", "2")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_trees(n=90, seed=0):
    """Return a table with numbers, text and missing values."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    colours = np.array(["red", "green", "blue", "grey"])
    frame = pd.DataFrame(
        {
            "width": rng.normal(size=n) + 2.0 * kind,
            "height": 100.0 * rng.normal(size=n) - 50.0 * kind,
            "colour": colours[np.where(rng.random(n) < 0.7, kind, 3)],
            "site": rng.choice(["north", "south"], n),
            "kind": np.array(["ash", "birch", "yew"])[kind],
        }
    )
    frame.loc[rng.random(n) < 0.2, "width"] = np.nan
    return frame


@pytest.fixture
def trees():
    frame = make_trees()
    frame.to_csv("trees.csv", index=False)
    return frame


# Missing values


def test_missing_values_become_medians_of_the_fit(trees, capsys):
    words = ("--drop", "colour site", "--out", "m.mpda")
    assert call(*FIT, *words, *QUICK) == 1
    assert "replace them with --impute median" in capsys.readouterr().err
    assert call(*FIT, *words, *QUICK, "--impute", "median") == 0
    n_missing = trees["width"].isna().sum()
    note = f"{n_missing} values are missing and replaced (--impute), in 'width'"
    assert note in capsys.readouterr().err
    numbers = trees[["width", "height"]]
    model = load("m.mpda")
    np.testing.assert_allclose(model["impute"].statistics_, numbers.median())
    new = make_trees(seed=1).drop(columns=["colour", "site"])
    new.to_csv("new.csv", index=False)
    assert call("transform", "m.mpda", "new.csv", "--out", "z.npy") == 0
    filled = new[["width", "height"]].fillna(numbers.median())
    np.testing.assert_allclose(np.load("z.npy"), model[1:-1].transform(filled.to_numpy()))
    capsys.readouterr()
    assert call("predict", "m.mpda", "new.csv") == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out))
    np.testing.assert_array_equal(found["predicted"], model.predict(filled))
    assert call("evaluate", "m.mpda", "trees.csv") == 0
    assert "90 of 90 samples were used to fit the model" in " ".join(
        capsys.readouterr().out.split()
    )


def test_error_of_a_table_with_missing_values_is_measured(trees, capsys):
    words = ("--drop", "colour,site", "--impute", "median", "--folds", "2", "--results", "r.json")
    words += ("--scale", "none")
    assert call(*FIT, *words, "--report", "r.html") == 0
    out = capsys.readouterr().out
    assert "SimpleImputer(" in out
    assert [line.split()[0] for line in out.splitlines() if "±" in line][:3] == [
        *("1-NN", "LDA", "MPDA"),
    ]
    results = read_results("r.json")
    assert results["model"]["features"] == ["width", "height"]
    assert "SimpleImputer" in results["model"]["steps"][0]["name"]
    assert np.isfinite(results["model"]["correlations"]).all()
    assert np.isfinite(read_header("trees.mpda")["notes"]["feature_range"]).all()
    assert call("compare", *FIT[1:], *words[:6], "--methods", "lda", "mpda") == 0
    assert read_results("comparison")["model"]["features"] == ["width", "height"]


def test_rows_without_a_label_can_be_left_out_of_an_imputed_table(trees, capsys):
    trees.loc[4, "kind"] = np.nan
    trees.to_csv("trees.csv", index=False)
    words = ("--drop", "colour,site", "--impute", "median", *QUICK)
    assert call(*FIT, *words) == 1
    assert "No label is in 'kind' for 1 row" in capsys.readouterr().err
    assert call(*FIT, *words, "--skip-missing", "--json") == 0
    assert json.loads(capsys.readouterr().out)["data"]["n_samples"] == 89


def test_column_without_any_value_and_infinite_values_are_refused(trees, capsys):
    words = ("--drop", "colour,site", "--impute", "median", *QUICK)
    trees.assign(empty=np.nan).to_csv("trees.csv", index=False)
    assert call(*FIT, *words) == 1
    assert "All values are missing in 'empty'" in capsys.readouterr().err
    trees.loc[3, "height"] = np.inf
    trees.to_csv("trees.csv", index=False)
    assert call(*FIT, *words) == 1
    assert "Values are infinite in 'height'" in capsys.readouterr().err
    assert call(*FIT, "--impute", "mean") == 2
    assert "'median'" in capsys.readouterr().err


def test_arrays_with_missing_values_are_imputed(trees):
    X = trees[["width", "height"]].to_numpy()
    np.savez("a.npz", X=X, y=trees["kind"].to_numpy(dtype=str))
    assert call("fit", "a.npz", *QUICK, "--impute", "median") == 0
    assert call("evaluate", "a.mpda", "a.npz") == 0


def test_matrix_and_graph_of_an_imputed_model(trees, capsys):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs mpda[test]")
    assert call(*FIT, "--drop", "colour,site", "--impute", "median", *QUICK) == 0
    capsys.readouterr()
    assert call("export", "trees.mpda", "--matrix", "m.npy", "--onnx", "m.onnx", "--neighbors") == 0
    assert "the matrix is for samples without missing values" in capsys.readouterr().err
    model, X = load("trees.mpda"), trees[["width", "height"]]
    complete = X.dropna()
    mapped = (complete - np.load("m-mean.npy")) @ np.load("m.npy").T
    np.testing.assert_allclose(mapped, model[:-1].transform(complete), rtol=1e-9, atol=1e-9)
    session = onnxruntime.InferenceSession("m.onnx")
    Z, labels = session.run(None, {"X": X.to_numpy(dtype=np.float32)})
    np.testing.assert_allclose(Z, model[:-1].transform(X), atol=1e-5)
    assert np.mean(labels == model.predict(X)) > 0.98


# Text


def test_text_columns_become_indicators(trees, capsys):
    assert call(*FIT, "--drop", "width", *QUICK) == 1
    err = capsys.readouterr().err
    assert "These columns are not numbers: 'colour'" in err
    assert "--drop NAME, or make them categories with --one-hot" in err
    words = ("--drop", "width", "--one-hot", "--folds", "2", "--scale", "none")
    assert call(*FIT, *words, "--results", "r.json", "--report", "r.html") == 0
    assert "OneHotEncoder(" in capsys.readouterr().out
    names = ["blue", "green", "grey", "red"]
    features = ["height", *(f"colour = {name}" for name in names), "site = north", "site = south"]
    assert read_results("r.json")["model"]["features"] == features
    assert "colour = grey" in Path("r.html").read_text()
    model = load("trees.mpda")
    indicators = pd.get_dummies(trees[["colour", "site"]]).to_numpy(dtype=float)
    expected = np.column_stack([trees["height"], indicators])
    encoded = model["columns"].transform(trees[["height", "colour", "site"]])
    np.testing.assert_array_equal(encoded, expected)
    assert call("evaluate", "trees.mpda", "trees.csv") == 0
    assert "90 of 90 samples were used to fit the model" in " ".join(
        capsys.readouterr().out.split()
    )
    assert call("compare", *FIT[1:], *words, "--methods", "1-nn", "lda") == 0


def test_unknown_text_counts_as_none(trees, capsys):
    assert call(*FIT, "--drop", "width", "--one-hot", *QUICK) == 0
    trees.loc[7, "colour"] = "violet"
    trees.to_csv("new.csv", index=False)
    capsys.readouterr()
    for words in (("evaluate",), ("transform", "--out", "z.npy"), ("predict", "--out", "p.csv")):
        assert call(words[0], "trees.mpda", "new.csv", *words[1:]) == 0
        note = "1 of 90 samples have text that the fit did not have and that counts as none"
        assert f"{note}: colour = violet" in capsys.readouterr().err
    model = load("trees.mpda")
    sites = trees.loc[7, "site"] == np.array(["north", "south"])
    Z = model[1:-1].transform([[trees.loc[7, "height"], 0, 0, 0, 0, *sites]])
    np.testing.assert_allclose(np.load("z.npy")[7], Z[0])
    trees.drop(columns="colour").to_csv("short.csv", index=False)
    assert call("predict", "trees.mpda", "short.csv") == 1
    assert "has no column 'colour'" in capsys.readouterr().err
    np.savez("a.npz", X=np.zeros((3, 3)))
    assert call("predict", "trees.mpda", "a.npz") == 1
    assert "has no text, but the model has: 'colour'" in capsys.readouterr().err


def test_text_that_looks_like_numbers_in_new_samples_is_the_same_text(trees):
    trees["site"] = np.where(trees["site"] == "north", "007", "x")
    trees.to_csv("trees.csv", index=False)
    assert call(*FIT, "--drop", "width,colour", "--one-hot", *QUICK) == 0
    trees[trees["site"] == "007"].to_csv("new.csv", index=False)
    assert call("transform", "trees.mpda", "new.csv", "--out", "z.npy") == 0
    assert call("transform", "trees.mpda", "trees.csv", "--out", "all.npy") == 0
    expected = np.load("all.npy")[trees["site"] == "007"]
    np.testing.assert_allclose(np.load("z.npy"), expected, atol=1e-12)


def test_missing_text_is_a_value_of_its_own(trees, capsys):
    trees.loc[::7, "colour"] = np.nan
    trees.to_csv("trees.csv", index=False)
    assert call(*FIT, "--one-hot", *QUICK) == 1
    assert "'colour' (13, the first in row 1)" in capsys.readouterr().err
    assert call(*FIT, "--one-hot", "--impute", "median", "--folds", "2", "--scale", "none") == 0
    categories = load("trees.mpda")["columns"].named_transformers_["text"].categories_[0]
    assert categories[:4].tolist() == ["blue", "green", "grey", "red"]
    assert np.isnan(categories[4])
    assert call("evaluate", "trees.mpda", "trees.csv") == 0
    assert "90 of 90 samples were used to fit the model" in " ".join(
        capsys.readouterr().out.split()
    )
    # Without a column of numbers, too.
    words = ("--drop", "width height", "--one-hot", "--impute", "median", *QUICK)
    assert call(*FIT, *words) == 0
    assert call("transform", "trees.mpda", "trees.csv", "--out", "z.npy") == 0
    assert np.isfinite(np.load("z.npy")).all()


def test_names_mistakes_and_commas_are_no_categories(trees, capsys):
    words = ("--drop", "width", "--one-hot", *QUICK)
    trees.assign(name=[f"tree {i}" for i in range(90)]).to_csv("trees.csv", index=False)
    assert call(*FIT, *words) == 0
    assert "'name': more than half of the rows have a text of their own" in capsys.readouterr().err
    wrong = trees["height"].astype(str)
    wrong[8] = "tall"
    trees.assign(height=wrong).to_csv("trees.csv", index=False)
    assert call(*FIT, *words) == 1
    message = "These columns are numbers with a few exceptions: 'height' (row 9: tall)"
    assert message in capsys.readouterr().err
    trees.to_csv("trees.csv", sep=";", decimal=",", index=False)
    assert call(*FIT, *words) == 1
    assert "--decimal ," in capsys.readouterr().err
    many = pd.concat([trees] * 12).assign(code=[f"c{i}" for i in range(1080)])
    many.to_csv("trees.csv", index=False)
    assert call(*FIT, *words) == 1
    assert "'code' has 1080 values, and each would be a feature" in capsys.readouterr().err


def test_export_of_a_model_with_text_is_refused_in_one_line(trees, capsys):
    assert call(*FIT, "--drop", "width", "--one-hot", *QUICK) == 0
    capsys.readouterr()
    for words in (("--matrix", "m.npy"), ("--onnx", "m.onnx")):
        assert call("export", "trees.mpda", *words) == 1
        err = capsys.readouterr().err
        assert err.startswith("mpda: Step 'columns' (ColumnTransformer) makes numbers of text")
        assert err.count("\n") == 1


def test_cluster_refuses_columns_that_are_not_complete_numbers(trees, capsys):
    for option in (("--impute", "median"), ("--one-hot",)):
        assert call(*FIT, *QUICK, "--scheduler", "tcp://127.0.0.1:1", *option) == 2
        assert option[0] in capsys.readouterr().err


# Medians and categories are those of the training samples


def test_medians_are_those_of_the_training_samples_of_each_fold():
    rng = np.random.default_rng(5)
    y = np.arange(40) % 2
    X = np.column_stack([rng.normal(size=40) + y, rng.standard_cauchy(40) * 3.0])
    X[rng.random(40) < 0.4, 1] = np.nan
    protocol = AssessmentProtocol(
        4, scaled=False, energy=None, columns=make_columns(2, imputes=True)
    )
    rows = assess_methods(X, y, [make_contender("1-NN", search=False)], protocol).rows
    n_different = 0
    for row in rows:
        test = row["tested"]
        train = np.setdiff1d(np.arange(40), test)
        predictions = []
        for known in (train, np.arange(40)):  # the second choice is the leak
            filled = np.where(np.isnan(X), np.nanmedian(X[known], axis=0), X)
            nearest = KNeighborsClassifier(1, algorithm="brute").fit(filled[train], y[train])
            predictions.append(nearest.predict(filled[test]))
        np.testing.assert_array_equal(row["predicted"], predictions[0])
        n_different += np.count_nonzero(predictions[0] != predictions[1])
    assert n_different > 0  # so that a leak would be noticed


@pytest.mark.parametrize("kind", [SimpleImputer, OneHotEncoder])
@pytest.mark.parametrize("method", ["MPDA", "LDA"])
def test_no_imputer_or_encoder_sees_the_samples_of_its_test(kind, method, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.column_stack([rng.normal(size=60) + y, np.arange(60.0), rng.integers(0, 4, size=60)])
    if kind is OneHotEncoder:
        X[:, [1, 2]] = X[:, [2, 1]]
    seen = []
    fit = kind.fit

    def record(self, X, y=None):
        seen.append({int(value) for value in np.asarray(X)[:, -1]})
        return fit(self, X, y)

    # The number of a sample is the last column that the transformer is fitted to.
    monkeypatch.setattr(kind, "fit", record)
    columns = make_columns(3, [2], imputes=True)
    protocol = AssessmentProtocol(3, n_inner=2, scaled=None, columns=columns)
    rows = assess_methods(X, y, [make_contender(method, search=False)], protocol).rows
    tests = [set(row["tested"].tolist()) for row in rows]
    assert all(any(not test & samples for test in tests) for samples in seen)
    # Two inner folds of the 40 training samples of each outer fold, and two folds for each of the
    # two preparations that are compared.
    assert [len(samples) for samples in seen].count(20) == 18


# Spreadsheets


def write_book(frame, path="trees.xlsx", **options):
    pytest.importorskip("openpyxl", reason="needs mpda[excel]")
    frame.to_excel(path, index=False, **options)


def test_spreadsheets_are_read(trees, capsys):
    with_gaps = trees.assign(kind=np.arange(90) % 3)
    write_book(with_gaps)
    table = read_table(Path("trees.xlsx"), label="kind", drop=("colour", "site"), keep_missing=True)
    numbers = trees[["width", "height"]].to_numpy()
    np.testing.assert_allclose(table.X, numbers, rtol=1e-14)  # openpyxl writes 16 digits
    assert table.y.dtype.kind == "i"
    write_book(trees)
    words = ("--label", "kind", "--one-hot", "--impute", "median", *QUICK)
    assert call("fit", "trees.xlsx", *words, "--out", "a.mpda") == 0
    assert call(*FIT, *words[2:], "--out", "b.mpda") == 0
    assert call("transform", "a.mpda", "trees.xlsx", "--out", "a.npy") == 0
    assert call("transform", "b.mpda", "trees.csv", "--out", "b.npy") == 0
    np.testing.assert_allclose(np.load("a.npy"), np.load("b.npy"), atol=1e-10)
    capsys.readouterr()
    assert call("fit", "trees.xlsx") == 2
    assert "has the columns 'width', 'height', 'colour'" in capsys.readouterr().err


def test_sheet_is_chosen_by_its_name(trees, capsys):
    pytest.importorskip("openpyxl", reason="needs mpda[excel]")
    numbers = trees.dropna().drop(columns=["colour", "site"])
    with pd.ExcelWriter("book.xlsx") as book:
        pd.DataFrame({"about": ["a survey"]}).to_excel(book, sheet_name="Notes", index=False)
        numbers.to_excel(book, sheet_name="Trees", index=False, startrow=2, startcol=1)
        pd.DataFrame().to_excel(book, sheet_name="Empty", index=False)
        pd.DataFrame([[1, 2], [3, 4]]).to_excel(book, sheet_name="Bare", index=False, header=False)
    assert call("fit", "book.xlsx", "--label", "kind", *QUICK) == 1
    assert "has no column 'kind'; it has 'about'" in capsys.readouterr().err
    words = ("fit", "book.xlsx", "--label", "kind", *QUICK)
    assert call(*words, "--sheet", "Trees") == 0
    assert f"{len(numbers)} samples, 2 features" in capsys.readouterr().out
    assert load("book.mpda").feature_names_in_.tolist() == ["width", "height"]
    assert call(*words, "--sheet", "Tree") == 1
    assert "has no sheet 'Tree'; it has 'Notes', 'Trees'" in capsys.readouterr().err
    assert call(*words, "--sheet", "Empty") == 1
    assert "the sheet is empty" in capsys.readouterr().err
    assert call(*words, "--sheet", "Bare") == 1
    assert "has only numbers" in capsys.readouterr().err
    Path("broken.xlsx").write_bytes(Path("book.xlsx").read_bytes()[:300])
    assert call("fit", "broken.xlsx", "--label", "kind") == 1
    assert "broken.xlsx cannot be read as xlsx" in capsys.readouterr().err


def test_numbers_that_a_spreadsheet_stores_as_text_are_read(trees, capsys):
    complete = trees.dropna().drop(columns=["colour", "site"])
    texts = complete["width"].map("{:.3f}".format)
    write_book(complete.assign(width=texts.str.replace(".", ",")))
    assert call("fit", "trees.xlsx", "--label", "kind", *QUICK) == 1
    assert "--decimal ," in capsys.readouterr().err
    table = read_table(Path("trees.xlsx"), label="kind", decimal=",")
    np.testing.assert_allclose(table.X[:, 0], texts.astype(float))


def test_missing_package_for_spreadsheets_is_named(capsys, monkeypatch):
    Path("trees.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert call("fit", "trees.xlsx", "--label", "kind") == 1
    expected = "mpda: trees.xlsx: .xlsx files need openpyxl: pip install 'mpda[excel]'.\n"
    assert capsys.readouterr().err == expected


# Columns


@pytest.mark.parametrize(
    "words", [["a,b c"], ["a", "b c"], ["a b c"], ["a, b, c"], ["a,b", "c"]], ids=str
)
def test_columns_are_dropped_in_every_spelling(words, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20, 5)), columns=["a", "b", "c", "d e", "f"])
    frame.assign(y=["u", "v"] * 10).to_csv("t.csv", index=False)
    assert call("fit", "t.csv", "--label", "y", *QUICK, "--drop", *words) == 0
    assert load("t.mpda").feature_names_in_.tolist() == ["d e", "f"]
    assert call("fit", "t.csv", "--label", "y", *QUICK, "--drop", "d e") == 0
    assert load("t.mpda").feature_names_in_.tolist() == ["a", "b", "c", "f"]
    capsys.readouterr()
    assert call("fit", "t.csv", "--label", "y", *QUICK, "--drop", "a x") == 1
    assert "--drop: t.csv has no column 'a x'; it has 'a', 'b'" in capsys.readouterr().err


def test_pipeline_of_a_user_is_read_by_its_columns(trees, capsys):
    columns = ColumnTransformer(
        [
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]),
            ("numbers", SimpleImputer(strategy="median"), ["width", "height"]),
        ]
    )
    model = make_pipeline(columns, LFDA(2), KNeighborsClassifier(1))
    X = trees[["width", "colour", "height"]]
    save(model.fit(X, trees["kind"]), "m.mpda")
    assert call("transform", "m.mpda", "trees.csv", "--out", "z.npy") == 0
    np.testing.assert_allclose(np.load("z.npy"), model[:-1].transform(X), atol=1e-10)
    trees.assign(height="high").to_csv("wrong.csv", index=False)
    assert call("transform", "m.mpda", "wrong.csv", "--out", "z.npy") == 1
    message = "The model was fitted to numbers in columns that have text: 'height' (row 1: high)"
    assert message in capsys.readouterr().err
