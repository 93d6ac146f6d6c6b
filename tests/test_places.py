"""Places that cannot be read or written: one line, and what was there stays.

Permissions do not bind root, so it is put aside where they are meant.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from mpda import LFDA, load, save
from mpda._beside import beside, refuse_unwritable, written
from mpda.cli import run
from mpda.datasets import load as load_dataset
from mpda.exceptions import DatasetError, DatasetWarning, ReproductionError, TableError
from mpda.export import export_matrix
from mpda.reproduction import Order, reproduce
from mpda.reproduction._store import Store, read
from mpda.tables import read_table

NOBODY = 65534
VEHICLE = (846, 18)
DIGITS = ("--datasets", "digits", "--methods", "1-nn")


@contextlib.contextmanager
def unprivileged():
    """As a user to whom permissions apply."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def here(monkeypatch):
    """A directory that anybody can reach, other than those of pytest."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        monkeypatch.chdir(directory)
        monkeypatch.delenv("MPDA_DATA", raising=False)
        monkeypatch.setenv("MPDA_CACHE", f"{directory}/cache")
        yield Path(directory)
        for path in Path(directory).rglob("*"):  # so that all of it can be removed
            if path.is_dir():
                path.chmod(0o777)


@pytest.fixture
def table(here):
    """A table, its model and results of it."""
    rows = [f"{i % 7},{i % 5},{'uv'[i % 2]}" for i in range(40)]
    Path("t.csv").write_text("\n".join(["a,b,y", *rows]))
    options = ("--label", "y", "--method", "lda", "--folds", "0", "--components", "1", "--quiet")
    assert call("fit", "t.csv", *options, "--results", "t.json") == 0
    for path in here.iterdir():
        path.chmod(0o666)
    return "t.csv"


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        run([str(each) for each in arguments])
    return ended.value.code


def contents(directory="."):
    return {path: path.read_bytes() for path in Path(directory).rglob("*") if path.is_file()}


def refused(capsys, *arguments):
    """The one line of a command that fails and changes nothing."""
    before = contents()
    assert call(*arguments, "--quiet") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("mpda: ")
    assert said.err.count("\n") == 1
    assert contents() == before
    return said.err


# Data directories


def unreadable(here):
    path = here / "locked"
    path.mkdir()
    np.savez(path / "vehicle.npz", X=np.zeros(VEHICLE), y=np.zeros(846))
    path.chmod(0)
    return path


def under_a_file(here):
    (here / "file").write_text("")
    return here / "file" / "data"


def loop(here):
    (here / "loop").symlink_to(here / "loop")
    return here / "loop"


def link_to_nothing(here):
    (here / "link").symlink_to(here / "absent")
    return here / "link"


def too_long(here):
    return here / ("x" * 300)


DIRECTORIES = {
    unreadable: "vehicle.npz cannot be read (Permission denied). Make it readable",
    under_a_file: "does not exist or is no directory",
    loop: "cannot be read (Too many levels of symbolic links)",
    link_to_nothing: "does not exist or is no directory",
    too_long: "cannot be read (File name too long)",
}


@pytest.mark.parametrize("kind", DIRECTORIES, ids=lambda kind: kind.__name__)
def test_an_unreadable_data_directory_is_one_line_and_leaves_the_tables(here, kind, capsys):
    given = ("reproduce", "table2", "--datasets", "vehicle,coil20", "--methods", "1-nn")
    for name in ("table2.md", "table2.csv", "rows.jsonl"):
        written(here / "out" / name, f"{name} of before")
    (here / "out").chmod(0o777)
    directory = kind(here)
    with unprivileged():
        said = refused(capsys, *given, "--out", here / "out", "--data", directory)
        with pytest.raises(DatasetError):
            load_dataset("vehicle", directory)
    assert DIRECTORIES[kind] in said
    assert str(directory) in said


def test_an_unreadable_cache_is_one_line(here):
    cache = unreadable(here)
    with (
        unprivileged(),
        pytest.raises(DatasetError, match=r"vehicle\.npz cannot be read .*MPDA_CA"),
    ):
        load_dataset("vehicle", cache=cache, fetch=False)


# Broken files of data, in a directory or a cache


def whole(path):
    rng = np.random.default_rng(0)
    np.savez_compressed(path, X=rng.normal(size=VEHICLE), y=np.arange(846) % 4)
    return path.read_bytes()


BROKEN = {
    "empty": lambda path: b"",
    "zeros": lambda path: bytes(5000),
    "noise": lambda path: np.random.default_rng(0).bytes(5000),
    "text": lambda path: b"<html>not found</html>",
    "start": lambda path: whole(path)[:3000],
    "end": lambda path: whole(path)[3000:],
    "no end": lambda path: whole(path)[:-1],
    "hole": lambda path: whole(path)[:5000] + bytes(500) + whole(path)[5500:],
}


@pytest.mark.parametrize("place", ["data", "cache"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_of_data_is_named_with_what_to_do(here, kind, place, capsys):
    path = here / place / "vehicle.npz"
    path.parent.mkdir()
    path.write_bytes(BROKEN[kind](path))
    given = ("--data", path.parent) if place == "data" else ()
    said = refused(capsys, "datasets", "vehicle", "--out", "v.csv", *given)
    assert f"{path} cannot be read as an .npz with the arrays X and y" in said
    assert "Replace the file, or remove it to have it fetched again" in said


WRONG = {
    "no y": {"X": np.zeros(VEHICLE)},
    "other names": {"a": np.zeros(VEHICLE), "b": np.zeros(846)},
    "words": {"X": np.full(VEHICLE, "word"), "y": np.zeros(846)},
    "objects": {"X": np.full(VEHICLE, None), "y": np.zeros(846)},
    "complex": {"X": np.full(VEHICLE, 1j), "y": np.zeros(846)},
    "other shape": {"X": np.zeros((18, 846)), "y": np.zeros(846)},
    "number": {"X": np.float64(1.0), "y": np.zeros(846)},
    "other numbers": {"X": np.zeros(VEHICLE), "y": np.zeros(846)},
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_arrays_in_the_cache_are_refused(here, kind, capsys):
    (here / "cache").mkdir()
    np.savez(here / "cache" / "vehicle.npz", **WRONG[kind])
    said = refused(capsys, "datasets", "vehicle", "--out", "v.csv")
    assert str(here / "cache" / "vehicle.npz") in said
    assert "emove it" in said


def test_a_file_that_is_broken_anywhere_is_refused_as_such(here):
    path = here / "vehicle.npz"
    content = whole(path)
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(150):
        broken = bytearray(content)
        start = int(rng.choice([0, len(content) - 400])) + int(rng.integers(400))
        broken[start : start + 4] = rng.bytes(4)
        path.write_bytes(broken)
        with warnings.catch_warnings():
            # These are no vehicles, and a byte that nobody reads may change.
            warnings.simplefilter("ignore", DatasetWarning)
            try:
                load_dataset("vehicle", here)
            except DatasetError:
                n_refused += 1
    assert n_refused > 75


# Things that are no files


def pipe(path):
    os.mkfifo(path)


def directory(path):
    path.mkdir()


def loop_at(path):
    path.symlink_to(path.absolute())


NO_FILES = {
    pipe: "Not a plain file",
    directory: "Is a directory",
    loop_at: "Too many levels of symbolic links",
}


@pytest.mark.parametrize("kind", NO_FILES, ids=lambda kind: kind.__name__)
def test_what_is_no_file_is_not_read(here, kind):
    names = ("vehicle.npz", "m.mpda", "t.csv", "r.json", "rows.jsonl")
    for name in names:
        kind(here / name)
    with pytest.raises(DatasetError, match=NO_FILES[kind]):
        load_dataset("vehicle", here)
    with pytest.raises(OSError, match=NO_FILES[kind]):
        load(here / "m.mpda")
    with pytest.raises(TableError):
        read_table(here / "t.csv")
    with pytest.raises(OSError, match=NO_FILES[kind]):
        Store(here / "rows.jsonl")
    assert read(here / "rows.jsonl") == []


@pytest.mark.parametrize("kind", NO_FILES, ids=lambda kind: kind.__name__)
def test_what_is_no_file_is_not_replaced(table, kind, capsys):
    for name in ("z.csv", "m.mpda", "out.html", "m.npy", "d.npy"):
        kind(Path(name))
    Path("out").mkdir()
    kind(Path("out/rows.jsonl"))
    kind(Path("out/table1.md"))
    for given in (
        ("transform", "t.mpda", table, "--out", "z.csv"),
        ("fit", table, "--label", "y", "--out", "m.mpda"),
        ("report", "t.json", "--out", "out.html"),
        ("export", "t.mpda", "--matrix", "m.npy"),
        ("datasets", "wine", "--out", "d.npy"),
        ("reproduce", "table2", "--datasets", "digits", "--methods", "1-nn", "--out", "out"),
        ("reproduce", "table1", "--datasets", "digits", "--out", "out"),
    ):
        assert NO_FILES[kind] in refused(capsys, *given)


def test_a_link_to_nothing_in_a_directory_is_not_passed_over(here):
    (here / "vehicle.npz").symlink_to(here / "unmounted.npz")
    with pytest.raises(DatasetError, match=r"vehicle\.npz cannot be read .*No such file"):
        load_dataset("vehicle", here)


# Output directories


def writers(table, place):
    """Every command that writes, to this place."""
    return (
        ("fit", table, "--label", "y", "--out", f"{place}/m.mpda"),
        ("fit", table, "--label", "y", "--report", f"{place}/m.html"),
        ("transform", "t.mpda", table, "--out", f"{place}/z.csv"),
        ("transform", "t.mpda", table, "--out", f"{place}/z.parquet"),
        ("evaluate", "t.mpda", table, "--results", f"{place}/r.json"),
        ("compare", table, "--label", "y", "--methods", "lda", "--folds", "2", "--out", place),
        ("partition", table, "--label", "y", "--out", f"{place}/p.npy"),
        ("report", "t.json", "--out", f"{place}/r.html"),
        ("report", "t.json", "--figures", place),
        ("export", "t.mpda", "--matrix", f"{place}/m.npy"),
        ("export", "t.mpda", "--onnx", f"{place}/m.onnx"),
        ("datasets", "wine", "--out", f"{place}/w.csv"),
        ("reproduce", "partition", "--out", place),
        ("reproduce", "table2", *DIGITS, "--splits", "1", "--out", place),
        ("demo", "--out", place, "--jobs", "1"),
    )


def test_a_read_only_output_directory_is_one_line(table, capsys):
    for given in writers(table, "warm")[2:-1]:  # what is imported late is read as ourselves
        assert call(*given, "--quiet") == 0
    capsys.readouterr()
    Path("locked").mkdir()
    Path("locked/z.csv").write_text("before")
    Path("locked/z.csv").chmod(0o666)
    Path("locked").chmod(0o555)
    with unprivileged():
        for given in writers(table, "locked"):
            said = refused(capsys, *given)
            assert "locked/" in said
            assert "Permission denied" in said


@pytest.mark.parametrize(
    ("place", "reason"),
    [("t.csv", "Not a directory"), ("/proc/mpda", "No such file"), ("x" * 300, "name too long")],
    ids=["file", "proc", "long"],
)
def test_an_output_directory_that_cannot_be_is_one_line(table, place, reason, capsys):
    for given in writers(table, place):
        said = refused(capsys, *given)
        assert reason in said
        assert place in said


def test_a_protected_file_is_not_replaced(table, capsys):
    Path("z.csv").write_text("before")
    Path("z.csv").chmod(0o444)
    Path().chmod(0o777)
    with unprivileged():
        said = refused(capsys, "transform", "t.mpda", table, "--out", "z.csv")
    assert said == "mpda: z.csv cannot be written (Permission denied).\n"


def test_a_matrix_and_its_mean_are_replaced_together(here):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    export_matrix(LFDA(1).fit(X, y), "m.npy")
    before = Path("m.npy").read_bytes()
    Path("m-mean.npy").unlink()
    Path("m-mean.npy").mkdir()
    with pytest.raises(IsADirectoryError, match=r"m-mean\.npy"):
        export_matrix(LFDA(2).fit(X, y), "m.npy")
    assert Path("m.npy").read_bytes() == before
    assert sorted(os.listdir()) == ["m-mean.npy", "m.npy"]


# Writing beside


def test_a_link_stays_and_its_file_is_replaced(here):
    (here / "far").mkdir()
    (here / "far" / "m.npy").write_text("before")
    (here / "link").symlink_to("far/m.npy")
    written(here / "link", "after")
    assert (here / "link").is_symlink()
    assert (here / "far" / "m.npy").read_text() == "after"
    assert sorted(os.listdir(here / "far")) == ["m.npy"]


def test_long_names_have_room_beside(here):
    name = "ü" * 120 + ".json"  # 245 of the 255 bytes that a name may have
    assert written(here / name, "after").read_text() == "after"
    assert os.listdir(here) == [name]


WRITER = """
import sys, time
from pathlib import Path
from mpda._beside import beside
with beside(Path(sys.argv[1])) as made:
    made.write_text("half")
    print("writing", flush=True)
    time.sleep(20)
"""


def test_what_a_kill_leaves_beside_is_removed_by_the_next_but_nothing_that_is_being_written(here):
    path = here / "table.md"
    path.write_text("before")
    given = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(given, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        written(path, "meanwhile")
        assert len(os.listdir(here)) == 2
        refuse_unwritable(path)
        assert len(os.listdir(here)) == 2
        writer.kill()
    assert path.read_text() == "meanwhile"
    assert len(os.listdir(here)) == 2
    written(here / "other.md", "not its business")
    assert len(os.listdir(here)) == 3
    written(path, "after")
    assert sorted(os.listdir(here)) == ["other.md", "table.md"]


def test_two_may_write_the_same_file_at_once(here):
    with beside(here / "m") as one, beside(here / "m") as other:
        one.write_text("one")
        other.write_text("other")
    assert (here / "m").read_text() == "one"
    assert os.listdir(here) == ["m"]


# The rows of experiments


def test_lines_that_are_no_rows_are_passed_over(here):
    order = Order(here, ["digits"], ["1-NN"], 1)
    rows = reproduce("table2", order).rows
    path = here / "rows.jsonl"
    good = path.read_bytes()
    task = rows[0]["task"]
    nested = b"[" * 100_000
    bad = [b'{"task": "a"}', b"\x00" * 300, b"\xff\xfe", nested, b"null", b"3", b'{"task": ["a"]}']
    bad.append(f'{{"task": "{task}", "status": "done"}}'.encode())
    for each in bad:
        path.write_bytes(each + b"\n" + good + each)
        assert reproduce("table2", order).rows == rows
        assert path.read_bytes() == each + b"\n" + good + each


def test_a_lock_that_cannot_be_had_is_not_another_run(here, monkeypatch):
    import fcntl

    def none(*arguments):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(ReproductionError, match=r"cannot be written \(No locks available\)"):
        reproduce("table2", Order(here, ["digits"], ["1-NN"], 1))


def test_models_are_saved_where_links_and_directories_lead(here):
    model = LFDA(1).fit(np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2)
    save(model, here / "new" / "deep" / "m.mpda")
    assert isinstance(load(here / "new" / "deep" / "m.mpda"), LFDA)
    with pytest.raises(NotADirectoryError, match=r"m\.mpda'"):
        save(model, here / "new" / "deep" / "m.mpda" / "x")
