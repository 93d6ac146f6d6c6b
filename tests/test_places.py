"""Places that cannot be read or written: one line, and what was there stays.

Permissions do not bind root, so it is put aside where they are meant.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from mpda import LFDA, load
from mpda._lib.atomic_write import written
from mpda.exceptions import DatasetError, TableError
from mpda.experiments._store import Store, read
from mpda.experiments.datasets import load as load_dataset
from mpda.io.export import export_matrix
from mpda.io.tables import read_table
from places import VEHICLE, call, refused, unprivileged

DIGITS = ("--datasets", "digits", "--methods", "1-nn")


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
