"""Tables: every format gives the same samples, and errors name the column and the row."""

import gzip

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from mpda.cli.tables.files import write_table
from mpda.cli.tables.reading import read_table
from mpda.exceptions import TableError


@pytest.fixture
def frame():
    iris = load_iris(as_frame=True)
    return iris.data.assign(species=np.array(iris.target_names)[iris.target])


def write_frame(frame, path):
    suffix = path.suffix
    if suffix == ".gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    elif suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix in (".arrow", ".feather"):
        frame.to_feather(path)
    else:
        frame.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    return path


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.CSV", "a.csv.gz", "a.parquet", "a.arrow", "a.feather"]
)
def test_all_formats_give_the_same_table(frame, tmp_path, name):
    table = read_table(write_frame(frame, tmp_path / name), label="species")
    np.testing.assert_array_equal(table.X, load_iris().data)
    np.testing.assert_array_equal(table.y, frame["species"])
    assert table.y.dtype.kind == "U"
    assert table.features == tuple(load_iris().feature_names)
    assert table.label == "species"
    np.testing.assert_array_equal(table.rows, np.arange(1, 151))
    assert list(table.samples.columns) == list(table.features)


def test_semicolons_spaces_and_byte_order_mark_are_accepted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeffa; b ;kind\n1; 2;x\n3; 4;y\n".encode())
    table = read_table(path, label="kind")
    assert table.features == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])


def test_columns_are_selected_and_dropped(frame, tmp_path):
    path = write_frame(frame.assign(name=[f"s{i}" for i in range(150)]), tmp_path / "a.csv")
    names = list(frame.columns[:4])
    dropped = read_table(path, label="species", drop=["name", names[0]])
    assert dropped.features == tuple(names[1:])
    joined = read_table(path, label="species", drop=[f"name, {names[0]}"])
    assert joined.features == dropped.features
    comma = write_frame(frame.rename(columns={names[0]: "a,b"}), tmp_path / "b.csv")
    assert read_table(comma, label="species", drop=["a,b"]).features == dropped.features
    selected = read_table(path, features=[names[2], names[0]])
    np.testing.assert_array_equal(selected.X, frame[[names[2], names[0]]])
    assert list(selected.others) == [names[1], names[3], "species", "name"]
    assert selected.y is None
    with pytest.raises(TableError, match=r"a\.csv has no labels; --label names them"):
        selected.labels  # noqa: B018


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ([1, 2, 1], "i", [1, 2, 1]),
        ([True, False, True], "b", [True, False, True]),
        (["NA", "None", "nan"], "U", ["NA", "None", "nan"]),
        (["007", "7", "12"], "U", ["007", "7", "12"]),
        (["1e5", "2e5", "1e5"], "U", ["1e5", "2e5", "1e5"]),
        (["9007199254740993", "9007199254740992", "-3"], "i", [2**53 + 1, 2**53, -3]),
        (["12345678901234567890123", "1", "2"], "U", ["12345678901234567890123", "1", "2"]),
    ],
)
def test_text_labels_become_numbers_only_if_nothing_is_lost(tmp_path, column, kind, expected):
    path = write_frame(pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": column}), tmp_path / "a.csv")
    table = read_table(path, label="y")
    assert table.y.dtype.kind == kind
    assert table.y.tolist() == expected


def test_typed_columns_of_pandas_are_read(tmp_path):
    frame = pd.DataFrame(
        {
            "a": pd.array([1, 2, None, 4], dtype="Int64"),
            "b": np.array([0.5, 1, 2, 3], dtype=np.float32),
            "flag": [True, False, True, True],
            "text": ["1.5", "2", "3", "4"],
            "y": pd.Categorical(["u", "v", "u", None]),
            "z": pd.array([1, 2, 1, 2], dtype="Int64"),
        }
    )
    path = write_frame(frame, tmp_path / "a.parquet")
    table = read_table(path, label="y", skip_missing=True)
    np.testing.assert_array_equal(table.rows, [1, 2])
    np.testing.assert_array_equal(table.X, [[1, 0.5, 1, 1.5, 1], [2, 1, 0, 2, 2]])
    assert table.y.tolist() == ["u", "v"]
    single = read_table(path, label="z", drop=["a", "flag", "text", "y"])
    assert single.X.dtype == np.float32
    assert single.y.tolist() == [1, 2, 1, 2]


def test_table_holds_a_frame_of_numbers_and_text(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3], "town": ["Rome", None, "Oslo"], "b": [0.5, np.nan, 2.5]})
    path = write_frame(frame.assign(kind=list("uvu")), tmp_path / "a.parquet")
    table = read_table(path, label="kind", one_hot=True, keep_missing=True)
    assert list(table.samples.columns) == ["a", "town", "b"]
    assert table.samples["town"].tolist()[::2] == ["Rome", "Oslo"]
    assert {j: values.tolist() for j, values in table.categories.items()} == {1: ["Oslo", "Rome"]}
    np.testing.assert_array_equal(table.X, [[1, 1, 0.5], [2, np.nan, np.nan], [3, 0, 2.5]])
    assert table.select(np.array([2, 0])).samples["town"].tolist() == ["Oslo", "Rome"]
    renamed = read_table(path, features=["b", "a"], keep_missing=True).name_features(("x", "y"))
    assert list(renamed.samples.columns) == ["x", "y"]
    assert renamed.name_features(None).samples is renamed.X


def test_numbers_of_a_frame_are_a_view(frame, tmp_path):
    table = read_table(write_frame(frame, tmp_path / "a.csv"), label="species")
    assert np.shares_memory(table.X, table.samples.to_numpy())


def test_named_index_is_a_column(tmp_path, frame):
    path = write_frame(frame.set_index("species"), tmp_path / "a.parquet")
    assert set(read_table(path, label="species").y) == {"setosa", "versicolor", "virginica"}


def test_numpy_files_are_read(tmp_path):
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "a.npz", X=X.astype(np.float32), y=y, other=y + 1)
    table = read_table(tmp_path / "a.npz")
    assert table.X.dtype == np.float32
    assert (table.label, table.features) == ("y", None)
    assert read_table(tmp_path / "a.npz", label="other").y.max() == 3
    np.savez(tmp_path / "b.npz", samples=X, kinds=np.array(["u", "v"])[y % 2])
    assert read_table(tmp_path / "b.npz").y is None
    assert set(read_table(tmp_path / "b.npz", label="kinds").y) == {"u", "v"}
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    for label in ("-1", "4"):
        table = read_table(tmp_path / "a.npy", label=label)
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.y, y)
    np.save(tmp_path / "y.npy", np.array(["u", "v"])[y % 2])
    table = read_table(tmp_path / "a.npy", label=str(tmp_path / "y.npy"))
    assert table.X.shape == (150, 5)
    assert set(table.y) == {"u", "v"}


WRONG_TEXT = {
    "words": ("a,city,y\n1,Rome,u\n2,Oslo,v\n", {"label": "y"}, r"'city' .*row 1: Rome\).*--drop"),
    "comma": ("a;y\n1,5;u\n2,5;v\n", {"label": "y"}, r"'a' \(row 1: 1,5\)"),
    "missing": ("a,b,y\n1,2,u\n,3,v\n?,4,u\n", {"label": "y"}, r"'a' \(2, the first in row 2\)"),
    "infinite": ("a,y\n1,u\ninf,v\n", {"label": "y"}, r"infinite in 'a' \(1, the first in row 2\)"),
    "no label": ("a,y\n1,u\n2,\n", {"label": "y"}, r"No label is in 'y' for 1 row,.* row 2"),
    "measured": ("a,y\n1,0.5\n2,1\n", {"label": "y"}, r"not whole .* such as 0\.5.*measurement"),
    "typing": ("a,kind\n1,u\n", {"label": "knd"}, r"--label: .* no column 'knd'.*mean kind\?"),
    "features": ("a,y\n1,u\n", {"features": ["b"]}, r"the model: .* no column 'b'"),
    "twice": ("a,a,y\n1,2,u\n", {"label": "y"}, r"more than one column 'a'"),
    "numbers": ("1,2\n3,4\n", {}, r"only numbers \(1, 2"),
    "empty": ("", {}, "is empty"),
    "no rows": ("a,y\n", {"label": "y"}, "has no rows"),
    "only labels": ("y\nu\nv\n", {"label": "y"}, "no features"),
    "ragged": ("a,y\n1,u\n1,2,3,v\n", {"label": "y"}, "cannot be read as csv"),
    "counted": (",a,y\n0,5,u\n1,7,v\n", {"label": "y"}, r"only counts the rows.*--drop 'column 1'"),
    "all missing": ("a,y\n1,\n2,\n", {"label": "y"}, "all missing"),
}


@pytest.mark.parametrize("case", WRONG_TEXT)
def test_wrong_csv_is_refused_in_one_line(tmp_path, case):
    text, options, message = WRONG_TEXT[case]
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=message) as refusal:
        read_table(path, **options)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_row_numbers_and_incomplete_rows_can_be_left_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",a,y\n0,5,u\n1,7,v\n")
    assert read_table(path, label="y", drop=["column 1"]).features == ("a",)
    path.write_text("a,b,y\n1,2,u\n,3,v\n5,6,\n7,8,v\n")
    table = read_table(path, label="y", skip_missing=True)
    np.testing.assert_array_equal(table.X, [[1, 2], [7, 8]])
    np.testing.assert_array_equal(table.rows, [1, 4])
    assert table.y.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xls", b"x", r"ends in \.xls.*\.csv, \.tsv"),
        ("a.csv", b"\xff\xfe\x00", "is not in the encoding utf-8"),
        ("a.parquet", b"junk" * 50, "cannot be read as parquet"),
        ("a.arrow", b"junk" * 50, "cannot be read as arrow"),
        ("a.npy", b"junk" * 50, "cannot be read as npy"),
        ("a.npz", b"PK" * 50, "cannot be read as npz"),
    ],
)
def test_foreign_file_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / name)


def test_missing_file_is_refused_with_the_nearest_name(tmp_path):
    (tmp_path / "iris.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"does not exist\. Did you mean iris\.csv\?"):
        read_table(tmp_path / "irs.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(TableError, match=r"is a directory without .parquet files"):
        read_table(tmp_path / "d.csv")


@pytest.mark.parametrize(
    ("array", "label", "message"),
    [
        (np.zeros((2, 2, 2)), None, r"shape \(2, 2, 2\).*flattens images"),
        (np.array([["a", "b"]]), None, "real numbers"),
        (np.array([[{}]]), None, "Object arrays cannot be loaded"),
        (np.zeros((2, 2)), "5", "the columns are 0 to 1"),
        (np.array([[0.5, 0.5]]), "1", "not whole"),
    ],
)
def test_wrong_npy_is_refused(tmp_path, array, label, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / "a.npy", label=label)


def test_wrong_npz_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros((3, 2)), y=np.zeros(2), u=np.zeros(3))
    with pytest.raises(TableError, match=r"y has the shape \(2,\), but X has 3 samples"):
        read_table(path)
    with pytest.raises(TableError, match="no array 'v'; it has 'X', 'y', 'u'"):
        read_table(path, label="v")
    with pytest.raises(TableError, match="--drop cannot be used"):
        read_table(path, label="u", drop=["a"])
    np.savez(path, a=np.zeros((3, 2)), b=np.zeros((3, 2)))
    with pytest.raises(TableError, match="no array 'X'; it has 'a', 'b'"):
        read_table(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.arrow", "a.feather", "a.npy"])
def test_written_table_is_read_again(tmp_path, name):
    Z = np.random.default_rng(0).standard_normal((5, 2))
    path = tmp_path / "new" / name
    write_table(path, Z, ["z0", "z1"], {"who": pd.Series(list("abcde"), index=range(3, 8))})
    table = read_table(path, label=None if name == "a.npy" else "who")
    np.testing.assert_array_equal(table.X, Z)
    assert name == "a.npy" or (table.features, table.y.tolist()) == (("z0", "z1"), list("abcde"))
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_table_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(TableError, match=r"a\.xls: files that can be written"):
        write_table(tmp_path / "a.xls", np.eye(2), ["a", "b"], {})
    with pytest.raises(TableError, match="already have a column 'a'"):
        write_table(tmp_path / "a.csv", np.eye(2), ["a", "b"], {"a": np.zeros(2)})
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(IsADirectoryError, match=r"d\.csv"):
        write_table(tmp_path / "d.csv", np.eye(2), ["a", "b"], {})


def test_arrow_streams_are_read(frame, tmp_path):
    import pyarrow as pa

    path = tmp_path / "a.arrow"
    content = pa.Table.from_pandas(frame)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema) as stream:
        stream.write_table(content)
    assert read_table(path, label="species").X.shape == (150, 4)


def test_decimal_commas_and_encodings(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("länge;breite;art\n1,5;2,25;süß\n-3,0;4;herb\n".encode("latin-1"))
    table = read_table(path, label="art", decimal=",", encoding="latin-1")
    np.testing.assert_array_equal(table.X, [[1.5, 2.25], [-3.0, 4.0]])
    assert table.y.tolist() == ["süß", "herb"]
    assert table.features == ("länge", "breite")
    same = read_table(str(path), label="art", decimal=",", encoding="latin-1")
    np.testing.assert_array_equal(same.X, table.X)
    with pytest.raises(TableError, match=r"not in the encoding utf-8 \(byte 2\).*latin-1"):
        read_table(path, label="art", decimal=",")
    with pytest.raises(TableError, match="there is no encoding 'latin-99'"):
        read_table(path, label="art", encoding="latin-99")
    with pytest.raises(TableError, match=r"have decimal commas: 'länge' \(row 1: 1,5\).*--decimal"):
        read_table(path, label="art", encoding="latin-1")
    thousands = tmp_path / "thousands.csv"
    thousands.write_text("a;b\n1.654,18;x\n2.000,50;y\n")
    with pytest.raises(TableError, match=r"points between thousands.*Remove the points"):
        read_table(thousands, label="b", decimal=",")
    with pytest.raises(ValueError, match="decimal must be one of"):
        read_table(path, label="art", decimal=";")
    signs = tmp_path / "signs.csv"
    signs.write_text("a;b;c\n6.6%;$ 1.50;x\n7 %;-2 €;y\n")
    with pytest.raises(TableError, match=r"have signs next to .*'a' \(row 1: 6.6%\), 'b'.*Remove"):
        read_table(signs, label="c")
    mixed = tmp_path / "m.csv"
    mixed.write_text("a;b\n1,5;x\nred;y\n")
    with pytest.raises(TableError, match="are not numbers"):
        read_table(mixed, label="b")
