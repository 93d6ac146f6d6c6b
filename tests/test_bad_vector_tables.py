"""Bad tables of vectors: each command prints one line with what is wrong, and writes nothing."""

import datetime
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_calls import call

pa = pytest.importorskip("pyarrow", reason="needs mpda[cli]")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs mpda[cli]")
feather = pytest.importorskip("pyarrow.feather", reason="needs mpda[cli]")

N, LENGTH = 90, 6
KINDS = np.array(["ash", "birch", "yew"])[np.arange(N) % 3]
SINGLE = pa.list_(pa.float32())
FIXED = pa.list_(pa.float32(), LENGTH)
MODEL = "model.mpda"


def make_vectors(**rows):
    """Return vectors of three classes as lists; ``row5=[..]`` replaces the fifth of them."""
    X = np.random.default_rng(0).normal(size=(N, LENGTH)) + 2.0 * (np.arange(N) % 3)[:, None]
    vectors = X.astype(np.float32).tolist()
    for name, vector in rows.items():
        vectors[int(name.removeprefix("row")) - 1] = vector
    return vectors


def make_table(vectors=None, kind=None, **others):
    vectors = pa.array(make_vectors(), SINGLE) if vectors is None else vectors
    columns = {"kind": pa.array(KINDS) if kind is None else kind}
    return pa.table(
        {**columns, "note": [f"text {i}" for i in range(N)], "vector": vectors} | others
    )


def replace_row(vector, kind=SINGLE):
    return make_table(pa.array(make_vectors(row5=vector), kind))


def write_lines(lines):
    Path("t.jsonl").write_text("\n".join(lines))
    return "t.jsonl"


def make_lines(row5=None):
    """Return lines of JSON; ``row5`` is the text of the fifth, or its vector."""
    rows = [{"kind": kind, "vector": v} for kind, v in zip(KINDS, make_vectors(), strict=True)]
    lines = [json.dumps(row) for row in rows]
    if row5 is not None:
        lines[4] = row5 if isinstance(row5, str) else json.dumps({"kind": "ash", "vector": row5})
    return lines


def make_csv(change):
    """Write vectors as text; ``change`` takes the text of the fifth."""
    texts = [json.dumps(vector) for vector in make_vectors()]
    texts[4] = change(texts[4])
    pd.DataFrame({"kind": KINDS, "vector": texts}).to_csv("t.csv", index=False)
    return "t.csv"


def write_shards(first, second):
    Path("d").mkdir()
    parquet.write_table(first[:50], "d/a.parquet")
    parquet.write_table(second[50:], "d/b.parquet")
    return "d"


def write_feather(table):
    feather.write_feather(table, "t.feather")
    return "t.feather"


def write_bytes(name, content=b""):
    Path(name).write_bytes(content)
    return name


MISSING = "'vector' are missing or have missing numbers: 1 row, the first is row 5"
ZERO = "'vector' are zero and have no direction: {}, the first is row {}"
LENGTHS = "the first has 6 numbers, but row {} has 5"
NO_VECTORS = "no row has a vector with numbers in the column 'vector'"
NO_KIND = "neither numbers, text nor vectors|has no column of vectors, but the model was fitted to"
NO_LIST = "'vector' holds text of vectors, but row 5 is no list of numbers with commas"

# Tables that no command can read: a table or the path of a file that was written, and the message.
UNREADABLE = {
    "unequal": (lambda: replace_row([1.0] * 5), LENGTHS.format(5)),
    "empty list": (lambda: replace_row([]), "the first has 6 numbers, but row 5 has 0"),
    "null": (lambda: replace_row(None), MISSING),
    "null, fixed size": (lambda: replace_row(None, FIXED), MISSING),
    "null inside": (lambda: replace_row([None] + [1.0] * 5), MISSING),
    "null inside, fixed size": (lambda: replace_row([None] + [1.0] * 5, FIXED), MISSING),
    "nan": (lambda: replace_row([float("nan")] + [1.0] * 5), MISSING),
    "nan of a large list": (
        lambda: replace_row([float("nan")] + [1.0] * 5, pa.large_list(pa.float64())),
        MISSING,
    ),
    "nan of half precision": (
        lambda: replace_row([np.float16("nan")] * 6, pa.list_(pa.float16())),
        MISSING,
    ),
    "null of integers": (lambda: make_table(integers(pa.int8(), row5=None)), MISSING),
    "null inside integers": (lambda: make_table(integers(pa.int64(), row5=[None] * 6)), MISSING),
    "infinite": (
        lambda: replace_row([float("inf")] * 6),
        "'vector' are infinite: 1 row, the first is row 5",
    ),
    "zero": (lambda: replace_row([0.0] * 6), ZERO.format("1 row", 5)),
    "all zero": (lambda: make_table(pa.array([[0.0] * 6] * N)), ZERO.format("90 rows", 1)),
    "no rows": (lambda: make_table()[:0], r"t\.parquet has no rows\.$"),
    "no rows, Feather": (lambda: write_feather(make_table()[:0]), r"t\.feather has no rows\.$"),
    "no rows, JSON": (lambda: write_bytes("t.jsonl"), r"t\.jsonl cannot be read .*Empty JSON file"),
    "no rows, CSV": (lambda: write_bytes("t.csv", b"kind,vector\n"), r"t\.csv has no rows\.$"),
    "length 0": (lambda: make_table(pa.array([[]] * N, SINGLE)), NO_VECTORS),
    "fixed length 0": (
        lambda: make_table(pa.array([[]] * N, pa.list_(pa.float32(), 0))),
        NO_VECTORS,
    ),
    "lists of lists": (lambda: make_table(pa.array([[[1.0], [2.0]]] * N)), NO_KIND),
    "lists of booleans": (lambda: make_table(pa.array([[True, False]] * N)), NO_KIND),
    "bytes": (lambda: make_table(pa.array([b"\xbf\x01"] * N)), NO_KIND),
    "structs": (lambda: make_table(pa.array([{"a": 1.0}] * N)), NO_KIND),
    "an empty shard": (
        lambda: write_shards(make_table(), make_table()[:0]),
        r"b\.parquet has no rows\. Remove the file",
    ),
    "shards of other columns": (
        lambda: write_shards(make_table(), make_table().drop_columns("vector")),
        r"b\.parquet has other columns than a\.parquet: 'vector' is in one",
    ),
    "shards of other types": (
        lambda: write_shards(make_table(), make_table(pa.array(["x"] * N))),
        r"b\.parquet has string in the column 'vector', but a\.parquet has list",
    ),
    "shards of other labels": (
        lambda: write_shards(make_table(), make_table(kind=pa.array(range(N)))),
        r"b\.parquet has int64 in the column 'kind', but a\.parquet has string",
    ),
    "shards of other lengths": (
        lambda: write_shards(make_table(), make_table(pa.array([[1.0] * 5] * N, SINGLE))),
        LENGTHS.format(51),
    ),
    "shards of other fixed lengths": (
        lambda: write_shards(
            make_table(pa.array(make_vectors(), FIXED)),
            make_table(pa.array([[1.0] * 5] * N, pa.list_(pa.float32(), 5))),
        ),
        LENGTHS.format(51),
    ),
    "no suffix": (
        lambda: write_bytes("t", b"PAR1"),
        r"t has no suffix, .* tables are files in \.csv",
    ),
    "no Parquet": (lambda: write_bytes("t.parquet", b"text"), r"cannot be read as parquet"),
    "no file": (lambda: "none.parquet", r"none\.parquet does not exist"),
    "unequal JSON": (lambda: write_lines(make_lines([1.0] * 5)), LENGTHS.format(5)),
    "null of JSON": (lambda: write_lines(make_lines([None] * 6)), MISSING),
    "text in JSON": (
        lambda: write_lines(make_lines('{"kind": "ash", "vector": "none"}')),
        r"t\.jsonl: row 5 has text in 'vector', but rows before have a list of numbers",
    ),
    "text in a list of JSON": (
        lambda: write_lines(make_lines([1.0, "x", 2.0])),
        "row 5 has a list of numbers and text in 'vector', but rows before have a list of numbers",
    ),
    "no object of JSON": (
        lambda: write_lines(["", *make_lines("[1, 2]")]),  # an empty line is no row
        "row 5 is a list of numbers, not an object with named values",
    ),
    "cut JSON": (
        lambda: write_lines(make_lines('{"kind": "ash", "vector": [1.0, ')),
        r"row 5 is not valid JSON \(Expecting value, character",
    ),
    "unequal CSV": (lambda: make_csv(lambda text: "[1, 2, 3, 4, 5]"), LENGTHS.format(5)),
    "nan of CSV": (lambda: make_csv(lambda text: "[1, 2, 3, 4, 5, nan]"), MISSING),
    "no vector in CSV": (lambda: make_csv(lambda text: ""), MISSING),
    "text in CSV": (lambda: make_csv(lambda text: text[:-1] + "x]"), NO_LIST),
    "cut CSV": (lambda: make_csv(lambda text: text[:-3]), NO_LIST),
}


def integers(kind, row5):
    numbers = np.random.default_rng(0).integers(1, 9, (N, LENGTH)).tolist()
    return pa.array([*numbers[:4], row5, *numbers[5:]], pa.list_(kind))


TWO = "t.parquet has 2 columns of vectors: 'vector', 'other'. Choose one with --embedding NAME"
# Tables from which nothing can be learned or measured, for commands that need labels.
WITHOUT_LABELS = {
    "a label is missing": (
        lambda: make_table(kind=pa.array([None if i == 4 else k for i, k in enumerate(KINDS)])),
        "No label is in 'kind' for 1 row, the first is row 5",
    ),
    "a label is nan": (
        lambda: make_table(kind=pa.array([float("nan") if i == 4 else i % 3 for i in range(N)])),
        "No label is in 'kind' for 1 row, the first is row 5",
    ),
    "all labels are missing": (
        lambda: make_table(kind=pa.nulls(N)),
        "The labels 'kind' are all missing",
    ),
    "labels are lists": (
        lambda: make_table(kind=pa.array([[kind] for kind in KINDS])),
        r"The labels 'kind' must be words or whole numbers, not \['ash'\]",
    ),
    "labels are vectors": (
        lambda: make_table(kind=pa.array([[1.0]] * N)),
        "The labels 'kind' must be words or whole numbers, not",
    ),
    "labels are measurements": (
        lambda: make_table(kind=pa.array(np.linspace(0.0, 1.5, N))),
        "numbers that are not whole .* divide it into classes",
    ),
    "labels are all different": (
        lambda: make_table(kind=pa.array(range(N))),
        "[Ee]very sample has a different label in 'kind'",
    ),
}


def list_files():
    return sorted(str(path) for path in Path().rglob("*"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a model of vectors."""
    folder = tmp_path_factory.mktemp("model")
    parquet.write_table(make_table(), folder / "good.parquet")
    words = ("--label", "kind", "--method", "lda", "--folds", "0", "--scale", "none", "--quiet")
    assert call("fit", folder / "good.parquet", *words, "--out", folder / MODEL) == 0
    return folder / MODEL


@pytest.fixture
def check_refusal(model, tmp_path, monkeypatch, capsys):
    """Return a function that runs a command on a table and compares the only line it prints."""
    monkeypatch.chdir(tmp_path)

    def check(command, table, message, *options):
        path = table()
        if not isinstance(path, str):
            parquet.write_table(path, "t.parquet")
            path = "t.parquet"
        files = list_files()
        fit = ("--label", "kind", "--folds", "2")
        words = {
            "fit": ("fit", path, *fit, "--report", "r.html", "--results", "r.json"),
            "compare": ("compare", path, *fit, "--methods", "lda"),
            "evaluate": ("evaluate", model, path, "--report", "r.html", "--results", "r.json"),
            "transform": ("transform", model, path, "--out", "z.parquet"),
        }[command]
        capsys.readouterr()
        assert call(*words, *options) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.strip().splitlines()
        assert line.startswith("mpda: ")
        assert re.search(message, line), line
        assert "Error" not in line
        assert "object has no attribute" not in line
        assert list_files() == files
        return line

    return check


@pytest.mark.parametrize("command", ["fit", "compare", "evaluate", "transform"])
@pytest.mark.parametrize("problem", UNREADABLE)
def test_unreadable_tables_are_refused_in_one_line(check_refusal, command, problem):
    line = check_refusal(command, *UNREADABLE[problem])
    if command in ("evaluate", "transform"):  # they have no such option
        assert "--drop" not in line


@pytest.mark.parametrize("command", ["fit", "compare", "evaluate"])
@pytest.mark.parametrize("problem", WITHOUT_LABELS)
def test_labels_that_are_no_classes_are_refused_in_one_line(check_refusal, command, problem):
    check_refusal(command, *WITHOUT_LABELS[problem])


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_column_of_vectors_must_be_known(check_refusal, command):
    def two():
        return make_table(other=pa.array([[1.0, 2.0]] * N))

    check_refusal(command, two, TWO)
    for name, message in (
        ("vectr", "--embedding: t.parquet has no column 'vectr'.* Did you mean vector"),
        ("note", "--embedding: the column 'note' of t.parquet holds no vectors"),
        ("kind", "--embedding: the column 'kind' is also named by --label"),
    ):
        check_refusal(command, two, message, "--embedding", name)
    unequal = UNREADABLE["unequal"]
    assert "--drop" in check_refusal(command, *unequal)
    assert "--drop" not in check_refusal(command, *unequal, "--embedding", "vector")


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_ten_thousand_classes_of_one_sample_are_refused(check_refusal, command):
    def table(kind):
        X = np.random.default_rng(0).normal(size=(len(kind), 3)).astype(np.float32)
        return pa.table({"kind": kind, "vector": pa.array(X.tolist(), SINGLE)})

    numbers = np.arange(10_000)
    check_refusal(command, lambda: table(numbers), "Every sample has a different label in 'kind'")
    message = "No class has more than 2 samples, which is too few to measure an error"
    check_refusal(command, lambda: table(numbers // 2), message)


@pytest.mark.parametrize("command", ["evaluate", "transform"])
def test_vectors_of_another_length_are_refused_by_a_model(check_refusal, command):
    for name in ("vector", "other"):
        table = pa.table({"kind": KINDS, name: pa.array([[1.0, 2.0]] * N)})
        message = f"t.parquet has 2 features in '{name}', but the model was fitted with 6"
        check_refusal(command, lambda table=table: table, message)
    table = pa.table({"kind": KINDS, "x": np.arange(N)})
    check_refusal(command, lambda: table, "t.parquet has 1 feature|no column of vectors")
    two = make_table(other=pa.array([[1.0, 2.0]] * N)).rename_columns(["kind", "note", "a", "b"])
    check_refusal(command, lambda: two, "2 columns of vectors: 'a', 'b'. Choose one")
    message = "no column 'vector'; it has 'kind', 'note', 'a', 'b'"
    check_refusal(command, lambda: two, message, "--embedding", "vector")


def test_only_column_of_vectors_may_have_another_name(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet.write_table(make_table().rename_columns(["kind", "note", "text vector"]), "t.parquet")
    assert call("transform", model, "t.parquet", "--out", "z.csv") == 0
    parquet.write_table(make_table(), "u.parquet")
    assert call("transform", model, "u.parquet", "--out", "y.csv") == 0
    assert Path("z.csv").read_text() == Path("y.csv").read_text()


LABELS = {
    "dictionary": (pa.array(KINDS).dictionary_encode(), ["ash", "birch", "yew"]),
    "booleans": (pa.array([bool(i % 2) for i in range(N)]), ["False", "True"]),
    "dates": (
        pa.array([datetime.date(2024, 1, 1 + i % 2) for i in range(N)]),
        ["2024-01-01", "2024-01-02"],
    ),
    "unsigned": (pa.array(np.arange(N) % 2, pa.uint8()), ["0", "1"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_other_types_are_classes(kind, tmp_path, monkeypatch):
    from mpda import load

    monkeypatch.chdir(tmp_path)
    labels, expected = LABELS[kind]
    parquet.write_table(make_table(kind=labels), "t.parquet")
    words = ("--label", "kind", "--folds", "0", "--method", "lda", "--components", "1")
    assert call("fit", "t.parquet", *words, "--quiet") == 0
    assert list(map(str, load("t.mpda").classes_)) == expected


def test_vectors_of_one_number_are_vectors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    parquet.write_table(make_table(pa.array([v[:1] for v in make_vectors()])), "t.parquet")
    words = ("fit", "t.parquet", "--label", "kind", "--method", "lda", "--folds", "0")
    assert call(*words, "--components", "1") == 0
    assert "90 samples, 1 feature of vector" in capsys.readouterr().out
    Path("t.mpda").unlink()
    assert call(*words, "--components", "2") == 1
    assert capsys.readouterr().err.endswith("more than there are: t.parquet has 1 feature.\n")
    assert not Path("t.mpda").exists()


def test_widest_type_of_shards_is_kept(tmp_path, monkeypatch):
    from mpda.cli.tables.reading import read_table

    monkeypatch.chdir(tmp_path)
    double = make_table(pa.array([[1.0 + 2.0**-40] * 6] * N, pa.list_(pa.float64())))
    write_shards(make_table(), double)
    X = read_table("d", label="kind").X
    assert X.dtype == np.float64
    assert (X[50:] == 1.0 + 2.0**-40).all()
