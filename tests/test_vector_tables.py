"""Tables with a column of vectors: every format gives the same samples, and errors name the row."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from command_calls import call
from mpda import load
from mpda.cli.tables import blocks
from mpda.cli.tables.files import FileFormat
from mpda.cli.tables.reading import read_table
from mpda.exceptions import TableError
from mpda.io import read_header, stack_vectors

pa = pytest.importorskip("pyarrow", reason="needs mpda[cli]")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs mpda[cli]")
feather = pytest.importorskip("pyarrow.feather", reason="needs mpda[cli]")

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
QUICK = ("--label", "digit", "--folds", "0", "--components", "3", "--scale", "none")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=5, return_X_y=True)
    return (X[:200] + 1.0).astype(np.float32), NAMES[y[:200]]


@pytest.fixture
def table(digits, tmp_path, monkeypatch):
    """A table of pyarrow with a row number, a text, a label and vectors; tests run beside it."""
    monkeypatch.chdir(tmp_path)
    X, y = digits
    return make_table(X, y)


def make_table(X, y):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    texts = [f"image {i}" for i in range(len(X))]
    return pa.table({"id": np.arange(len(X)), "text": texts, "digit": y, "embedding": vectors})


def with_lists(table, kind):
    """Return the table with another type of its vectors."""
    return table.set_column(3, "embedding", table["embedding"].cast(kind))


def with_vectors(table, vectors, kind=None):
    """Return the table with the first rows of its vectors replaced."""
    column = [*vectors, *table["embedding"].to_pylist()[len(vectors) :]]
    return table.set_column(3, "embedding", pa.array(column, kind or pa.list_(pa.float32())))


def write(table, name):
    if name == "folder":
        (path := Path(name)).mkdir()
        parquet.write_table(table[:70], path / "part-0.parquet")
        parquet.write_table(table[70:], path / "part-1.parquet", row_group_size=20)
    elif name.endswith(".parquet"):
        parquet.write_table(table, name, row_group_size=64)
    elif name.endswith((".arrow", ".feather")):
        feather.write_feather(table, name, compression="uncompressed")
    else:
        rows = table.to_pylist()
        if name.endswith(".csv"):
            for row in rows:
                row["embedding"] = row["embedding"] and json.dumps(row["embedding"])
            pd.DataFrame(rows).to_csv(name, index=False)
        else:
            pd.DataFrame(rows).to_json(name, orient="records", lines=True)
    return name


@pytest.mark.parametrize(
    "name", ["a.parquet", "folder", "a.arrow", "a.feather", "a.jsonl", "a.ndjson.gz", "a.csv"]
)
def test_all_formats_give_the_same_vectors(table, digits, name):
    found = read_table(write(table, name), label="digit")
    np.testing.assert_array_equal(found.X, digits[0])
    np.testing.assert_array_equal(found.y, digits[1])
    is_typed = name.endswith((".parquet", "folder", ".arrow", ".feather"))
    assert found.X.dtype == (np.float32 if is_typed else np.float64)
    assert (found.embedding, found.text, found.features) == ("embedding", "text", None)
    assert set(found.others) == {"id", "text"}
    np.testing.assert_array_equal(found.rows, np.arange(1, 201))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@pytest.mark.parametrize("size", ["", "large", "fixed"])
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("float", np.float32),
        ("double", np.float64),
        ("int8", np.float32),
        ("uint16", np.float32),
        ("int64", np.float64),
        ("halffloat", np.float32),
    ],
)
def test_lists_of_all_numbers_are_vectors(table, digits, name, size, number, expected):
    kind = pa.type_for_alias(number)
    lists = {"": pa.list_(kind), "large": pa.large_list(kind), "fixed": pa.list_(kind, 64)}[size]
    X = digits[0].astype(kind.to_pandas_dtype())
    table = table.set_column(3, "embedding", pa.array(list(X), lists))
    found = read_table(write(table, name), label="digit")
    assert found.X.dtype == expected
    np.testing.assert_array_equal(found.X, digits[0])


def test_vectors_of_an_arrow_file_are_not_copied(table):
    write(table, "a.feather")
    before = pa.total_allocated_bytes()
    found = read_table("a.feather", label="digit")
    assert not found.X.flags.owndata
    assert pa.total_allocated_bytes() - before < found.X.nbytes


def test_column_of_vectors_is_found_or_named(table):
    two = table.append_column("short", pa.array([[1.0, 2.0]] * 100 + [[2.0, 1.0]] * 100))
    for name in ("two.parquet", "two.feather"):
        write(two, name)
        message = r"two\.\w+ has 2 columns of vectors: 'embedding', 'short'.*--embedding NAME"
        with pytest.raises(TableError, match=message):
            read_table(name, label="digit")
        assert read_table(name, label="digit", embedding="short").X.shape == (200, 2)
        assert read_table(name, label="digit", drop=["short"]).X.shape == (200, 64)
        assert read_table(name, label="digit", usual_embedding="short").X.shape == (200, 2)
        assert set(read_table(name, label="digit", embedding="short").others) == {"id", "text"}
        for wrong, message in (
            ("shrt", "no column 'shrt'.*Did you mean short?"),
            ("id", "'id' of two.* holds no vectors .lists of numbers.; 'embedding', 'short' does"),
            ("digit", "'digit' is also named by --label"),
        ):
            with pytest.raises(TableError, match=message):
                read_table(name, label="digit", embedding=wrong)
        with pytest.raises(TableError, match=r"must be words or whole numbers, not .{,45}$"):
            read_table(name, label="embedding")
        with pytest.raises(TableError, match=r"'short' is also named by .* --drop"):
            read_table(name, label="digit", embedding="short", drop=["short"])
        for option in ("groups", "text"):
            with pytest.raises(
                TableError, match=f"--{option}: the column 'short' of .* is of type"
            ):
                read_table(name, label="digit", **{option: "short"})


@pytest.mark.parametrize("options", [{}, {"embedding": "embedding"}])
def test_text_of_vectors_is_understood_in_parquet(table, digits, options):
    texts = pa.array([json.dumps(vector) for vector in table["embedding"].to_pylist()])
    write(table.set_column(3, "embedding", texts), "a.parquet")
    found = read_table("a.parquet", label="digit", **options)
    np.testing.assert_array_equal(found.X, digits[0])
    assert (found.embedding, found.text) == ("embedding", "text")


def test_only_text_column_describes_the_samples(table):
    write(table.append_column("title", table["text"]), "a.parquet")
    assert read_table("a.parquet", label="digit").text is None
    assert read_table("a.parquet", label="digit", text="title").text == "title"
    assert read_table("a.parquet", label="digit", drop=["title"]).text == "text"


# Each change of the first rows, and the message about it.
WRONG_VECTORS = {
    "unequal": ([[1.0] * 64, [1.0] * 63], "must have one length; the first has 64 .* row 2 has 63"),
    "empty list": ([[1.0] * 64, []], "the first has 64 numbers, but row 2 has 0"),
    "null": ([[1.0] * 64, [2.0] * 64, None], "missing or have missing.*1 row, the first is row 3"),
    "null inside": ([[1.0] * 64, [None] + [1.0] * 63], "missing numbers: 1 row, .* row 2"),
    "zero": ([[1.0] * 64, [0.0] * 64, [0.0] * 64], "zero and have no direction: 2 rows, .* row 2"),
}


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.jsonl", "a.csv"])
@pytest.mark.parametrize("problem", WRONG_VECTORS)
def test_wrong_vectors_are_refused_with_their_row(table, name, problem, capsys):
    vectors, message = WRONG_VECTORS[problem]
    write(with_vectors(table, vectors), name)
    with pytest.raises(TableError, match=message):
        read_table(name, label="digit")
    assert call("fit", name, *QUICK) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not Path("a.mpda").exists()


@pytest.mark.parametrize("value", ["nan", "inf", "1e200"])
def test_numbers_that_cannot_be_used_are_refused(table, value):
    write(with_vectors(table, [[1.0] * 64, [float(value)] * 64], pa.list_(pa.float64())), "a.arrow")
    message = {"nan": "missing", "inf": "infinite", "1e200": "too large to be squared"}[value]
    with pytest.raises(TableError, match=rf"'embedding' are .*{message}.*first is row 2"):
        read_table("a.arrow", label="digit")


def test_row_numbers_count_the_rows_that_are_left_out(table):
    vectors = [None, [1.0] * 64, [float("inf")] * 64]
    write(with_vectors(table, vectors), "a.parquet")
    with pytest.raises(TableError, match=r"infinite: 1 row, the first is row 3\."):
        read_table("a.parquet", label="digit", skip_missing=True)


def test_missing_text_is_an_empty_description(table):
    texts = pa.array([None, *table["text"].to_pylist()[1:]])
    write(table.set_column(1, "text", texts), "a.parquet")
    assert read_table("a.parquet", label="digit").others["text"].tolist()[:2] == ["", "image 1"]


def test_leading_cells_without_text_do_not_hide_vectors(table):
    write(with_vectors(table, [None, None]), "a.csv")
    assert read_table("a.csv", label="digit", skip_missing=True).X.shape == (198, 64)


def test_lines_of_json_may_be_long(table, digits):
    long = pa.array(["x" * 30_000] * 200)
    write(table.append_column("more", long), "a.jsonl")
    np.testing.assert_array_equal(read_table("a.jsonl", label="digit").X, digits[0])


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.jsonl", "a.csv"])
def test_rows_without_a_vector_are_left_out_on_request(table, digits, name):
    write(with_vectors(table, [[1.0] * 64, None, [None] + [1.0] * 63, [0.0] * 64]), name)
    found = read_table(name, label="digit", skip_missing=True)
    np.testing.assert_array_equal(found.rows, [1, *range(5, 201)])
    np.testing.assert_array_equal(found.X[1:], digits[0][4:])
    assert found.describe_skipped() == ["3 of 200 rows have missing values and are left out"]
    assert found.others["text"].tolist()[1] == "image 4"


def test_leading_rows_without_a_vector_do_not_hide_the_length(table):
    write(with_vectors(table, [None] * 150), "a.parquet")
    assert read_table("a.parquet", label="digit", skip_missing=True).X.shape == (50, 64)
    write(with_vectors(table, [None] * 200), "b.parquet")
    with pytest.raises(TableError, match=r"no row has a vector with numbers in .* 'embedding'"):
        read_table("b.parquet", label="digit")


def test_folder_must_have_parts_of_one_table(table, tmp_path):
    folder = Path(write(table, "folder"))
    (folder / "_SUCCESS").touch()
    assert read_table(folder, label="digit").X.shape == (200, 64)
    parquet.write_table(table[:0], folder / "part-2.parquet")
    with pytest.raises(TableError, match=r"part-2\.parquet has no rows\. Remove the file"):
        read_table(folder, label="digit")
    parquet.write_table(table.drop_columns("text"), folder / "part-2.parquet")
    with pytest.raises(TableError, match=r"other columns than part-0\.parquet: 'text' is in one"):
        read_table(folder, label="digit")
    (folder / "part-2.parquet").write_bytes(b"")
    with pytest.raises(TableError, match="folder cannot be read as parquet"):
        read_table(folder, label="digit")
    (tmp_path / "none").mkdir()
    with pytest.raises(TableError, match=r"is a directory without \.parquet files"):
        read_table("none", label="digit")


def test_parts_of_a_folder_may_differ_in_the_order_of_columns(table, digits):
    folder = Path(write(table, "folder"))
    last = table.select(["digit", "embedding", "text", "id"])[150:]
    parquet.write_table(table[70:150], folder / "part-1.parquet")
    parquet.write_table(last, folder / "part-2.PARQUET")
    found = read_table(folder, label="digit")
    np.testing.assert_array_equal(found.X, digits[0])
    np.testing.assert_array_equal(found.y, digits[1])
    np.testing.assert_array_equal(found.others["id"], np.arange(200))


def test_columns_of_numbers_in_a_folder_are_a_table(digits, tmp_path):
    X, y = digits
    frame = pd.DataFrame(X[:, 20:24], columns=list("abcd")).assign(kind=y)
    frame[:90].to_parquet(tmp_path / "0.parquet")
    frame[90:].to_parquet(tmp_path / "1.parquet")
    found = read_table(tmp_path, label="kind")
    np.testing.assert_array_equal(found.X, X[:, 20:24])
    assert found.features == tuple("abcd")


def test_lists_of_tokens_can_be_dropped(table):
    tokens = pa.array([[1] * (1 + i % 3) for i in range(200)])
    for name in ("a.parquet", "a.feather"):
        write(pa.table({"x": np.arange(200) % 7, "tokens": tokens, "y": table["digit"]}), name)
        with pytest.raises(TableError, match=r"row 2 has 2.* If 'tokens' holds no .*--drop it"):
            read_table(name, label="y")
        assert read_table(name, label="y", drop=["tokens"]).features == ("x",)


def test_text_of_arrays_is_refused_with_a_way_out(table):
    frame = table.to_pandas()
    frame.assign(embedding=frame["embedding"].map(str)).to_csv("a.csv", index=False)
    with pytest.raises(TableError, match=r"row 1 is no list of numbers .*Write a Parquet file"):
        read_table("a.csv", label="digit")


def test_lists_that_are_no_vectors_are_refused_at_once(table):
    words = pa.array([["a", "b"]] * 200)
    write(table.set_column(3, "embedding", words), "a.parquet")
    with pytest.raises(
        TableError, match=r"'embedding' is of type list<.*string>: neither .*--drop"
    ):
        read_table("a.parquet", label="digit")


# Commands


def test_model_of_vectors_serves_the_other_commands(table, digits, capsys):
    for name in ("a.parquet", "folder", "b.csv"):
        write(table, name)
    assert call("fit", "a.parquet", *QUICK, "--out", "m.mpda", "--report", "r.html") == 0
    streams = capsys.readouterr()
    assert "200 samples, 64 features of embedding, 5 classes (digit)" in streams.out
    assert "no other column is one: 'id'; the report shows 'text'" in streams.err
    assert "image 7" in Path("r.html").read_text()
    assert read_header("m.mpda")["notes"]["embedding"] == "embedding"
    model = load("m.mpda")
    assert model.steps[0][1].components_.dtype == np.float32
    assert call("transform", "m.mpda", "folder", "--out", "z.parquet") == 0
    mapped = pd.read_parquet("z.parquet")
    assert list(mapped.columns) == ["id", "text", "digit", "mpda0", "mpda1", "mpda2"]
    np.testing.assert_allclose(mapped.iloc[:, 3:], model[:-1].transform(digits[0]), atol=1e-4)
    assert call("predict", "m.mpda", "b.csv", "--out", "p.csv") == 0
    assert (pd.read_csv("p.csv")["predicted"] == digits[1]).all()
    np.save("x.npy", digits[0])
    assert call("transform", "m.mpda", "x.npy", "--out", "z.npy") == 0
    two = table.append_column("short", pa.array([[1.0, 2.0]] * 200))
    write(two, "two.parquet")
    capsys.readouterr()
    assert call("evaluate", "m.mpda", "two.parquet") == 0
    assert "wrong class for 0 of 200 samples" in " ".join(capsys.readouterr().out.split())
    assert call("transform", "m.mpda", "two.parquet", "--embedding", "short") == 1
    assert "has 2 features in 'short', but the model was fitted with 64" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["d.parquet", "folder", "d.csv", "d.feather"])
def test_database_of_vectors_is_read_in_blocks(table, digits, name, monkeypatch, capsys):
    from mpda import WithinClassWhitening

    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 64 * 33)
    write(table[:150], "a.parquet")
    write(table, name)
    words = ("--label", "digit", "--components", "3", "--folds", "0", "--no-keep-samples")
    assert call("fit", "a.parquet", "--database", name, *words, "--out", "m.mpda") == 0
    assert f"{name}: 200 rows without labels" in capsys.readouterr().out
    X, y = digits
    expected = WithinClassWhitening(3).fit(X[:150], y[:150], X)
    found = load("m.mpda").steps[0][1].components_
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.abs(found), np.abs(expected.components_), rtol=0, atol=1e-4)
    sizes = [len(block.X) for block in blocks.read_blocks(Path(name), None, 64, FileFormat())]
    assert max(sizes) <= 33 or name == "d.feather"
    assert sum(sizes) == 200


def test_wrong_vector_of_a_database_has_its_row(table, monkeypatch, capsys):
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 64 * 30)
    write(table, "a.parquet")
    vectors = table["embedding"].to_pylist()
    vectors[120] = None
    write(with_vectors(table, vectors), "d.parquet")
    words = ("fit", "a.parquet", "--label", "digit", "--components", "3", "--folds", "0")
    assert call(*words, "--database", "d.parquet") == 1
    assert "1 row, the first is row 121" in capsys.readouterr().err
    vectors[120] = [1.0] * 63
    write(with_vectors(table, vectors), "e.csv")
    assert call(*words, "--database", "e.csv") == 1
    assert "row 121 has 63" in capsys.readouterr().err
    frame = pd.read_csv("e.csv")
    frame.loc[120, "embedding"] = "[1.0, x]"
    frame.to_csv("f.csv", index=False)
    assert call(*words, "--database", "f.csv") == 1
    assert "row 121 is no list of numbers" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--impute=median", "--one-hot"])
def test_options_for_columns_are_refused_for_vectors(table, option, capsys):
    write(table, "a.parquet")
    words = option.split("=")
    assert call("fit", "a.parquet", *QUICK, *words) == 1
    assert "only features of a.parquet are the vectors in 'embedding'" in capsys.readouterr().err


def test_tables_of_tests_and_comparisons_may_hold_vectors(table, capsys):
    table = table.append_column("person", pa.array([f"p{i % 20}" for i in range(200)]))
    for name in ("a.feather", "test.jsonl"):
        write(table, name)
    words = (*QUICK, "--groups", "person", "--test", "test.jsonl", "--out", "m.mpda")
    assert call("fit", "a.feather", *words) == 0
    assert "test.jsonl: " in capsys.readouterr().out
    words = ("--label", "digit", "--groups", "person", "--folds", "2", "--methods", "1-nn", "lda")
    assert call("compare", "a.feather", *words) == 0
    assert "there are 20 groups" in capsys.readouterr().err
    assert call("partition", "a.feather", "--label", "digit", "--out", "patches.csv") == 0
    assert len(pd.read_csv("patches.csv")) == 200


def test_labels_that_occur_once_are_named(table, capsys):
    labels = table["digit"].to_pylist()
    labels[3], labels[7] = "alone", "lonely"
    write(table.set_column(2, "digit", pa.array(labels)), "a.parquet")
    assert call("fit", "a.parquet", *QUICK) == 0
    assert "labels that occur once: alone, lonely; no other sample is" in capsys.readouterr().err


def test_missing_label_is_reported_without_reading_the_vectors(table, capsys, monkeypatch):
    write(table, "a.parquet")
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", None)
    assert call("fit", "a.parquet") == 2
    assert "has the columns 'id', 'text', 'digit', 'embedding'" in capsys.readouterr().err


def test_label_of_ten_thousand_classes_is_one_clear_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(10_000, 4)).astype(np.float32)
    write(make_table(X, np.arange(10_000)), "a.parquet")
    assert call("fit", "a.parquet", "--label", "digit") == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "Every sample has a different label in 'digit'" in line
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


# The helper for Python


def test_vectors_of_other_libraries_are_stacked(digits):
    X = digits[0]
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 64)
    assert np.shares_memory(stack_vectors(fixed), fixed.values.to_numpy())
    lists = fixed.cast(pa.list_(pa.float32()))
    assert np.shares_memory(stack_vectors(lists), lists.values.to_numpy())
    columns = [fixed, lists, fixed.cast(pa.large_list(pa.float32()))]
    columns += [pa.chunked_array([fixed[:9], fixed[9:]]), pd.Series(list(X)), list(X), X]
    columns += [pd.Series(fixed, dtype=pd.ArrowDtype(fixed.type))]
    for column in columns:
        found = stack_vectors(column)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(stack_vectors(fixed[50:60]), X[50:60])
    assert stack_vectors([[1, 2], [3, 4]]).dtype == np.float64


def test_polars_columns_are_stacked_and_fitted(digits):
    pl = pytest.importorskip("polars")
    from mpda import LFDA

    X, y = digits
    frame = pl.DataFrame({"embedding": pl.Series(X), "digit": y})
    assert frame["embedding"].dtype == pl.Array(pl.Float32, 64)
    found = stack_vectors(frame["embedding"])
    np.testing.assert_array_equal(found, X)
    lists = frame["embedding"].cast(pl.List(pl.Float32))
    np.testing.assert_array_equal(stack_vectors(lists), X)
    np.testing.assert_array_equal(LFDA(2).fit(found, y).components_, LFDA(2).fit(X, y).components_)


def test_missing_vectors_are_kept_as_nan_on_request():
    column = pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32()))
    found = stack_vectors(column, keep_missing=True)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, np.nan], [3, np.nan]])
    np.testing.assert_array_equal(stack_vectors([[1.0, 2.0], None], keep_missing=True)[0], [1, 2])
    with pytest.raises(TableError, match=r"words: 2 vectors with missing.*first is row 2"):
        stack_vectors(column, name="words")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1, 2], [3]], "the first has 2 numbers, but row 2 has 1"),
        ([[1, 2], "x"], "row 2 is x"),
        ([[[1]]], "one axis, but row 1"),
        ([None, None], "no vectors with numbers"),
        ([], "no vectors with numbers"),
        (pd.Series(["a", "b"]), "vectors must be lists"),
        (pa.array(["a", "b"]), "vectors must be lists of numbers, but the type is string"),
        (pa.array([["a"]]), "but the type is list<item: string>"),
        (pa.array([[], []], pa.list_(pa.float32())), "no vectors with numbers"),
        (pa.array([], pa.list_(pa.float32())), "no rows"),
    ],
)
def test_columns_without_vectors_are_refused(column, message):
    with pytest.raises(TableError, match=message):
        stack_vectors(column)
