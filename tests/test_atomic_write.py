"""Files are written completely or not at all; errors are one line that names the file."""

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from command_calls import call
from mpda import LFDA, save
from mpda._lib.atomic_write import atomic_path, check_writable, write_atomically
from mpda.cli.tables.files import write_table
from mpda.io import (
    export_faiss,
    export_matrix,
    export_numpy,
    export_onnx,
    export_sentence_transformers,
)

resource = pytest.importorskip("resource", reason="limits the size of files, not on Windows")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def full_disk(room=200):
    """Limit the size of files, which every writer meets as an error of the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_file_is_replaced_and_a_link_stays(folder):
    (folder / "far").mkdir()
    (folder / "far" / "m.npy").write_text("before")
    (folder / "link").symlink_to("far/m.npy")
    write_atomically(folder / "link", "after")
    assert (folder / "link").is_symlink()
    assert (folder / "far" / "m.npy").read_text() == "after"
    assert os.listdir(folder / "far") == ["m.npy"]


def test_new_directories_long_names_and_permissions(folder):
    name = "ü" * 120 + ".json"  # 245 of the 255 bytes that a name may have
    path = write_atomically(folder / "new" / "deep" / name, "text")
    assert path.read_text() == "text"
    Path("plain").write_text("")
    assert path.stat().st_mode == Path("plain").stat().st_mode


def test_failed_write_leaves_nothing(folder):
    Path("m").write_text("before")
    with contextlib.suppress(KeyboardInterrupt), atomic_path(Path("m")) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert os.listdir() == ["m"]
    assert Path("m").read_text() == "before"


def test_writable_paths_are_checked_without_a_trace(folder):
    Path("file").write_text("before")
    check_writable(Path("file"), None, Path("new"))
    assert os.listdir() == ["file"]
    assert Path("file").read_text() == "before"
    with pytest.raises(NotADirectoryError, match=r"Not a directory: 'file/x'"):
        check_writable(Path("file/x"))
    with pytest.raises(IsADirectoryError, match=r"Is a directory: '\.'"):
        check_writable(Path())


def write_samples(name):
    return lambda model: write_table(Path(name), np.ones((99, 2)), ["a", "b"], {})


WRITERS = {
    "m.mpda": lambda model: save(model, "m.mpda"),
    "m.onnx": lambda model: export_onnx(model, "m.onnx"),
    "m.npy": lambda model: export_matrix(model, "m.npy"),
    "m.npz": lambda model: export_numpy(model, "m.npz"),
    "m.faiss": lambda model: export_faiss(model, "m.faiss"),
    **{f"z.{kind}": write_samples(f"z.{kind}") for kind in ("csv", "parquet", "feather", "npy")},
}


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("faiss", reason="faiss is not installed")
    return LFDA(2).fit(*load_iris(return_X_y=True))


def test_folder_on_a_full_disk_is_not_written(folder, model):
    pytest.importorskip("safetensors", reason="needs mpda[test-stores]")
    (folder / "map").mkdir()
    with full_disk(room=50), pytest.raises(OSError, match="File too large: 'map'"):
        export_sentence_transformers(model, "map")
    assert os.listdir(folder) == ["map"]
    assert os.listdir(folder / "map") == []
    export_sentence_transformers(model, folder / "new" / "map")
    assert os.listdir(folder / "new") == ["map"]


@pytest.mark.parametrize("name", WRITERS)
def test_full_disk_is_an_error_that_keeps_the_old_file(name, model, folder):
    Path(name).write_bytes(b"before" * 99)
    with full_disk(room=50), pytest.raises(OSError, match=f"File too large: '{name}"):
        WRITERS[name](model)
    assert os.listdir() == [name]
    assert Path(name).read_bytes() == b"before" * 99


def test_command_reports_a_full_disk_in_one_line(folder, capsys):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.assign(y=y).to_csv("t.csv", index=False)
    words = ("fit", "t.csv", "--label", "y", "--folds", "0", "--components", "1")
    with full_disk(room=100):
        assert call(*words, "--out", "m.mpda", "--quiet") == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("mpda: m.mpda: File too large")
    assert output.err.count("\n") == 1
    assert os.listdir() == ["t.csv"]
