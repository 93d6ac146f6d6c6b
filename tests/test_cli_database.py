"""``mpda fit --database``: a map of labelled rows and of a table without labels."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import normalize

from command_calls import call
from mpda import WithinClassWhitening, load
from mpda._lib.array_types import Array
from mpda.assessment import score_queries, unseen_retrieval
from mpda.assessment.unseen_retrieval import UnseenScores
from mpda.cli.tables import blocks
from mpda.cli.tables.blocks import BLOCK_NUMBERS, read_blocks
from mpda.cli.tables.files import FileFormat
from mpda.io import export_numpy, read_header
from mpda.model_selection import UnseenClassFolds

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

FIT = ("fit", "labelled.csv", "--label", "kind")
QUICK = ("--folds", "0", "--components", "3")
NAMES = [f"v{i}" for i in range(8)]


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Vectors:
    """Labelled vectors of a few classes, and a database of twelve."""

    def __init__(self, n_labelled: int = 6) -> None:
        rng = np.random.default_rng(0)
        # Classes vary most in directions that say nothing about the class.
        means, spread = rng.normal(size=(12, 8)), np.linalg.qr(rng.normal(size=(8, 8)))[0]
        spread *= np.array([3.0, 3.0, 2.0, *5 * [0.4]])[:, None]
        classes = rng.integers(0, 12, 700)
        rows = means[classes] + rng.normal(size=(700, 8)) @ spread
        is_labelled = (classes < n_labelled) & (np.arange(700) < 350)
        self.X, self.y = rows[is_labelled], np.array(list("abcdefghijkl"))[classes[is_labelled]]
        self.database: Array = rows[~is_labelled]

    def write_labelled(self) -> None:
        frame = pd.DataFrame(self.X, columns=NAMES).assign(kind=self.y)
        frame.to_csv("labelled.csv", index=False)

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.database, columns=NAMES)


@pytest.fixture
def vectors():
    found = Vectors()
    found.write_labelled()
    return found


def read_error(capsys):
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert streams.err.startswith("mpda: ")
    return streams.err


def write_database(frame, name):
    match name.rsplit(".")[-1]:
        case "csv":
            frame.to_csv(name, index=False)
        case "tsv":
            frame.to_csv(name, index=False, sep="\t")
        case "gz":
            frame.to_csv(name, index=False)
        case "parquet":
            frame.to_parquet(name)
        case "feather":
            frame.to_feather(name)
        case "npy":
            np.save(name, frame.to_numpy())
        case "npz":
            np.savez(name, X=frame.to_numpy(), ids=np.arange(len(frame)))


# The map


@pytest.mark.parametrize("form", ["csv", "csv.gz", "tsv", "parquet", "feather", "npy", "npz"])
def test_map_is_that_of_the_library_for_every_format(vectors, form, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 800)  # several blocks
    write_database(vectors.frame(), f"vectors.{form}")
    words = ("--database", f"vectors.{form}", *QUICK, "--set", "shrinkage=0.3", "--out", "m.mpda")
    assert call(*FIT, *words) == 0
    model = load("m.mpda").steps[0][1]
    expected = WithinClassWhitening(3, shrinkage=0.3).fit(vectors.X, vectors.y, vectors.database)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.mean_, expected.mean_, rtol=0, atol=1e-10)
    assert model.feature_names_in_.tolist() == NAMES


def test_columns_are_found_by_name_in_any_order_next_to_others(vectors):
    vectors.frame().to_csv("a.csv", index=False)
    mixed = vectors.frame()[NAMES[::-1]].assign(kind="?", number=range(len(vectors.database)))
    mixed.to_csv("b.csv", index=False)
    mixed.set_index("number").to_parquet("c.parquet")
    maps = []
    for name in ("a.csv", "b.csv", "c.parquet"):
        assert call(*FIT, "--database", name, *QUICK, "--out", "m.mpda") == 0
        maps.append(load("m.mpda").steps[0][1].components_)
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_allclose(maps[0], maps[2], rtol=0, atol=1e-12)


def test_labelled_array_takes_columns_in_their_order(vectors):
    np.savez("labelled.npz", X=vectors.X.astype(np.float32), y=vectors.y)
    vectors.frame().to_csv("vectors.csv", index=False)
    words = ("--database", "vectors.csv", *QUICK, "--no-keep-samples", "--out", "m.mpda")
    assert call("fit", "labelled.npz", *words) == 0
    (_, model), *others = load("m.mpda").steps
    assert others == []
    expected = WithinClassWhitening(3).fit(
        vectors.X.astype(np.float32), vectors.y, vectors.database
    )
    assert model.components_.dtype == np.float32
    np.testing.assert_allclose(model.components_, expected.components_, rtol=0, atol=1e-6)


def test_model_file_serves_the_other_commands(vectors, capsys):
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", *QUICK, "--out", "m.mpda") == 0
    assert call("transform", "m.mpda", "vectors.npy", "--out", "z.npy") == 0
    model = load("m.mpda")
    assert np.linalg.norm(np.load("z.npy"), axis=1) == pytest.approx(1.0)
    notes = read_header("m.mpda")["notes"]
    assert notes["n_database"] == len(vectors.database)
    # Of both tables: vectors of the database are not far from the fit.
    both = np.concatenate([vectors.X, vectors.database])
    np.testing.assert_allclose(notes["feature_range"], [both.min(axis=0), both.max(axis=0)])
    assert "far outside" not in capsys.readouterr().err
    assert call("predict", "m.mpda", "labelled.csv", "--out", "p.csv") == 0
    assert (pd.read_csv("p.csv")["predicted"] == vectors.y).all()
    assert call("evaluate", "m.mpda", "labelled.csv") == 0
    assert "used to fit the model" in capsys.readouterr().out
    export_numpy(model, "m.npz")


def test_rows_with_missing_values_are_left_out_on_request(vectors, capsys, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 800)
    frame = vectors.frame()
    frame.loc[[3, 210], "v2"] = np.nan
    frame.to_csv("vectors.csv", index=False)
    assert call(*FIT, "--database", "vectors.csv", *QUICK, "--skip-missing") == 0
    n_rows = len(frame)
    assert f"2 of {n_rows} rows have missing values and are left out" in capsys.readouterr().err
    expected = WithinClassWhitening(3).fit(vectors.X, vectors.y, frame.dropna().to_numpy())
    found = load("labelled.mpda").steps[0][1].components_
    np.testing.assert_allclose(found, expected.components_, rtol=0, atol=1e-10)


# What is printed


def test_output_compares_with_the_vectors_as_they_are(vectors, capsys):
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", "--components", "7") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"vectors.npy: {len(vectors.database)} rows without labels, so the method is" in text
    assert "within-class whitening: 8 features to 7 components" in text
    assert "The map helps to find classes without labels: MAP@R is" in text
    assert "higher in every fold" in text
    assert "selected" not in text
    assert "Measured on 3 folds, which hold out whole classes" in text
    assert "mpda transform labelled.mpda FILE" in text


def test_numbers_are_those_of_folds_that_hold_out_classes(vectors, capsys):
    np.save("vectors.npy", vectors.database)
    words = ("--database", "vectors.npy", "--folds", "2", "--seed", "5", "--json")
    assert call(*FIT, *words, "--components", "4") == 0
    results = json.loads(capsys.readouterr().out)
    assert results["n_components"] == 4
    found = results["unseen_classes"]
    assert found["selected"] == [4, 4]
    expected = measure_by_definition(vectors, n_components=4, n_splits=2, seed=5)
    assert found["raw"] == pytest.approx(expected["raw"])
    assert found["mapped"] == pytest.approx(expected["mapped"])


def measure_by_definition(vectors, n_components, n_splits, seed):
    """Return means over queries of all folds, by public functions one after the other."""
    X, y = vectors.X, vectors.y
    found = {"raw": [], "mapped": []}
    for train, test in UnseenClassFolds(n_splits, random_state=seed).split(X, y):
        model = WithinClassWhitening(n_components)
        model.fit(X[train], y[train], np.concatenate([X[test], vectors.database]))
        for name, Z in (("raw", normalize(X[test])), ("mapped", model.transform(X[test]))):
            values = score_queries(Z, y[test], measures=["recall_at_1", "map_at_r"]).values
            found[name].append(np.array(list(values.values())))
    means = {name: np.concatenate(values, axis=1).mean(axis=1) for name, values in found.items()}
    return {name: {"error": 100.0 * (1.0 - r), "map_at_r": m} for name, (r, m) in means.items()}


def test_map_that_does_not_help_is_said_not_to_help(vectors, capsys):
    rng = np.random.default_rng(1)
    # Classes differ where the labelled rows vary most: the map takes away what tells them apart.
    y = np.repeat(list("abcdefgh"), 25)
    X = rng.normal(size=(200, 8)) * 0.1
    X[:, :2] += rng.normal(size=(8, 2)).repeat(25, axis=0) + 0.3 * rng.normal(size=(200, 2))
    pd.DataFrame(X, columns=NAMES).assign(kind=y).to_csv("labelled.csv", index=False)
    np.save("vectors.npy", rng.normal(size=(500, 8)) * ([0.0, 0.0] + 6 * [30.0]))
    assert call(*FIT, "--database", "vectors.npy", "--components", "2") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The map does not help to find classes without labels" in text
    assert "The nearest row is of another class more often than before." in text


def test_number_of_components_is_selected_by_folds(vectors, capsys):
    np.save("vectors.npy", vectors.database)
    selected = {}
    for rule in ("fewest", "best"):
        assert call(*FIT, "--database", "vectors.npy", "--select", rule, "--json") == 0
        results = json.loads(capsys.readouterr().out)
        selected[rule] = results["n_components"]
        assert len(results["unseen_classes"]["selected"]) == 3
    assert 1 < selected["fewest"] <= selected["best"] <= 8


def test_error_says_which_folds_selected_the_components(capsys):
    for n_classes, sentence in (
        (6, "The same folds selected"),
        (12, "selected by the other folds"),
    ):
        vectors = Vectors(n_labelled=n_classes)
        vectors.write_labelled()
        np.save("vectors.npy", vectors.database)
        assert call(*FIT, "--database", "vectors.npy") == 0
        assert sentence in " ".join(capsys.readouterr().out.split())


def test_components_within_one_standard_error_of_the_best_are_as_good():
    # Rows are queries, columns numbers of components.
    folds = [
        np.array([[0.3, 0.50, 0.52], [0.3, 0.52, 0.52]]),
        np.array([[0.5, 0.70, 0.68], [0.5, 0.78, 0.74]]),
        np.array([[0.3, 0.60, 0.61], [0.3, 0.60, 0.69]]),
    ]
    map_at_r = np.array([queries.mean(axis=0) for queries in folds])
    mapped = np.stack([np.zeros((3, 3)), map_at_r], axis=2)
    precision = [queries.T for queries in folds]
    scores = UnseenScores(np.array([2, 4, 8]), np.zeros((3, 2)), mapped, precision)
    # Mean differences from 8 are 0.26, 0.01 and 0; their standard errors 0.02, 0.011 and 0.
    assert scores.select_count(fewest=True) == 4
    assert scores.select_count(fewest=False) == 8
    assert scores.select_by_others(fewest=False).tolist() == [8, 8, 4]
    assert scores.look_up(np.array([8, 8, 4]))[:, 1] == pytest.approx([0.52, 0.71, 0.60])


def test_large_folds_are_measured_on_some_samples(vectors, capsys, monkeypatch):
    monkeypatch.setattr(unseen_retrieval, "MAX_TESTS", 20)
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", "--components", "3") == 0
    assert "a fold was measured on at most 20 samples" in capsys.readouterr().err


def test_few_classes_have_no_error_but_a_map(vectors, capsys):
    is_kept = np.isin(vectors.y, list("abc"))
    vectors.X, vectors.y = vectors.X[is_kept], vectors.y[is_kept]
    vectors.write_labelled()
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", "--components", "3") == 0
    assert "No error was measured" in capsys.readouterr().out
    assert call(*FIT, "--database", "vectors.npy") == 1
    assert "--components is required" in read_error(capsys)
    assert call(*FIT, "--database", "vectors.npy", "--folds", "2") == 1
    assert "needs 4 classes of at least two samples" in read_error(capsys)


def test_advice_to_standardise_is_not_given(vectors, capsys):
    vectors.X[:, 0] *= 1e5
    vectors.write_labelled()
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", *QUICK) == 0
    note = capsys.readouterr().err
    assert "differ more than a thousandfold" in note
    assert "--scale" not in note


# What is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--method lfda", "--database is for --method within-class-whitening, not for LFDA"),
        ("--scale standard", "--scale standard cannot be combined with --database"),
        ("--pca 0.9", "--pca cannot be combined with --database"),
        ("--search", "--search cannot be combined with --database"),
        ("--impute median", "--impute cannot be combined with --database"),
        ("--groups v0", "--groups cannot be combined with --database"),
        ("--test vectors.npy", "--test cannot be combined with --database"),
        ("--score balanced", "--score cannot be combined with --database"),
        ("--report r.html", "--report cannot be combined with --database"),
        ("--scheduler tcp://127.0.0.1:1", "--scheduler cannot be combined with --database"),
        ("--set unlabeled=a", "rows without labels belong into --database"),
        ("--set alpha=1", "within-class whitening has no parameter 'alpha'"),
        ("--folds 0", "--components is required"),
        ("--out vectors.npy", "vectors.npy is an input file"),
    ],
)
def test_options_of_other_fits_are_refused(vectors, words, message, capsys):
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", *words.split()) == 2
    assert message in read_error(capsys)


def test_labelled_table_is_no_database_of_itself(vectors, capsys):
    assert call(*FIT, "--database", "./labelled.csv", *QUICK) == 2
    assert "--database is the labelled table itself" in read_error(capsys)


def with_value(value, row=200):
    def change(frame):
        frame = frame.astype(object) if isinstance(value, str) else frame
        frame.loc[row, "v2"] = value
        return frame

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "vectors.csv",
            lambda frame: frame.rename(columns={"v2": "w2"}),
            "vectors.csv has no column 'v2', which is a feature; it has 'v0', 'v1', 'w2'",
        ),
        (
            "vectors.parquet",
            lambda frame: frame.drop(columns="v7"),
            "vectors.parquet has no column 'v7', which is a feature",
        ),
        (
            "vectors.npy",
            lambda frame: frame.drop(columns="v7"),
            "vectors.npy has 7 features, but 8 are needed",
        ),
        ("vectors.csv", with_value(np.nan), "Values are missing in 'v2' (1, the first in row 201)"),
        ("vectors.npy", with_value(np.nan), "missing in column 2 (1, the first in row 201)"),
        ("vectors.parquet", with_value(np.inf), "infinite in 'v2' (1, the first in row 201)"),
        ("vectors.csv", with_value("high"), "columns that have text: 'v2' (row 201: high)"),
        ("vectors.csv", lambda frame: frame[:0], "vectors.csv has no rows"),
        ("vectors.parquet", lambda frame: frame[:0], "vectors.parquet has no rows"),
        ("vectors.npy", lambda frame: frame[:0], "vectors.npy has no rows"),
    ],
)
def test_wrong_database_is_one_error(vectors, name, change, message, capsys, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 800)
    write_database(change(vectors.frame()), name)
    assert call(*FIT, "--database", name, *QUICK) == 1
    assert message in read_error(capsys)


@pytest.mark.parametrize(
    ("write", "name", "message"),
    [
        (lambda: None, "vectors.npy", "vectors.npy does not exist. Did you mean vector.npy?"),
        (lambda: None, "vectors.txt", "vectors.txt ends in .txt; tables are files in"),
        (lambda: np.save("a.npy", np.ones(8)), "a.npy", "must be the rows of a table"),
        (lambda: np.save("a.npy", np.full((2, 8), "x")), "a.npy", "must be the rows of a table"),
        (lambda: np.save("a.npy", np.array([{}])), "a.npy", "a.npy cannot be read as npy"),
        (lambda: np.savez("a.npz", U=np.ones((2, 8)), V=np.ones((2, 8))), "a.npz", "no array 'X'"),
    ],
)
def test_file_that_is_no_table_is_one_error(vectors, write, name, message, capsys):
    np.save("vector.npy", vectors.database)
    write()
    assert call(*FIT, "--database", name, *QUICK) == 1
    assert message in read_error(capsys)


def test_labels_of_one_class_are_refused(vectors, capsys):
    vectors.y[:] = "a"
    vectors.write_labelled()
    np.save("vectors.npy", vectors.database)
    assert call(*FIT, "--database", "vectors.npy", *QUICK) == 1
    assert "two classes are needed" in read_error(capsys)


# Memory


def test_array_is_read_within_the_memory_of_three_blocks():
    n, d = 8 * BLOCK_NUMBERS // 2 // 32, 32  # four blocks
    X = np.lib.format.open_memmap("X.npy", mode="w+", dtype=np.float32, shape=(n, d))
    rows = np.random.default_rng(0).standard_normal((1000, d), dtype=np.float32)
    X.reshape(-1, 1000, d)[:] = rows
    del X
    tracemalloc.start()
    try:
        n_read, sums = 0, 0
        for block in read_blocks(Path("X.npy"), None, d, FileFormat()):
            n_read += len(block.X)
            sums = sums + WithinClassWhitening().summarize(block.X)
            del block
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_read == n
    assert sums.n_rows == n
    assert peak < 3 * 4 * BLOCK_NUMBERS
