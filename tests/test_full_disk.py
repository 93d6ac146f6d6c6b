"""A disk that is full: every writer says so in one line and leaves what was there.

Most disks here are full by a limit on the size of a file, which the system enforces for everybody;
one is a real one of a few kilobytes, where the system lets us have it.
"""

import contextlib
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from mpda.cli import run
from mpda.experiments import _demo
from mpda.experiments._store import read
from mpda.experiments.datasets import _files

ROOM = 200


@contextlib.contextmanager
def full_disk(room=ROOM):
    """No file can become longer than this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        run([str(each) for each in arguments])
    return ended.value.code


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its model and its results."""
    here = tmp_path_factory.mktemp("made")
    iris = load_iris(as_frame=True)
    frame = iris.data.assign(species=iris.target_names[iris.target])
    frame.to_csv(here / "iris.csv", index=False)
    given = ("fit", here / "iris.csv", "--label", "species", "--method", "lfda", "--folds", "0")
    files = ("--out", here / "iris.mpda", "--results", here / "results.json")
    assert call(*given, "--components", "2", *files, "--quiet") == 0
    rows = ("--methods", "1-nn", "--splits", "1", "--out", here / "rows", "--quiet")
    assert call("reproduce", "table2", "--datasets", "digits", *rows) == 0
    return here


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, made):
    """A directory of its own, with copies of what was made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)


FIT = ("fit", "iris.csv", "--label", "species", "--folds", "0", "--components", "2")
ROWS = ("--datasets", "digits", "--methods", "1-nn", "--splits", "1", "--out", "rows")
WRITERS = {
    "old.mpda": (*FIT, "--out"),
    **{
        f"z.{kind}": ("transform", "iris.mpda", "iris.csv", "--out")
        for kind in ("csv", "tsv", "parquet", "arrow", "feather", "npy")
    },
    "evaluated.json": ("evaluate", "iris.mpda", "iris.csv", "--results"),
    "evaluated.html": ("evaluate", "iris.mpda", "iris.csv", "--report"),
    "comparison/results.json": (
        *("compare", "iris.csv", "--label", "species", "--methods", "1-nn", "lda"),
        *("--folds", "2", "--out", "comparison"),
    ),
    "patches.csv": ("partition", "iris.csv", "--label", "species", "--out"),
    "patches.html": ("partition", "iris.csv", "--label", "species", "--report"),
    "page.html": ("report", "results.json", "--out"),
    "figures/embedding.png": ("report", "results.json", "--figures", "figures"),
    "m.npy": ("export", "iris.mpda", "--matrix"),
    "m.onnx": ("export", "iris.mpda", "--onnx"),
    "digits.npy": ("datasets", "digits", "--out"),
    "rows/table2.md": ("reproduce", "table2", *ROWS),
    "rows/partition.png": ("reproduce", "partition", "--out", "rows"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_command_says_so_and_leaves_what_was_there(name, capsys):
    arguments = WRITERS[name]
    Path(name).parent.mkdir(exist_ok=True)
    # Longer than what can be written, so that nothing of it can be from now.
    Path(name).write_bytes(b"before" * ROOM)
    before = contents()
    given = (*arguments, name) if arguments[-1].startswith("--") else arguments
    with full_disk(room=100 if name == "m.npy" else ROOM):
        assert call(*given, "--quiet") == 1
    said = capsys.readouterr()
    assert said.err.startswith("mpda: ")
    assert said.err.count("\n") == 1
    assert name in said.err
    assert "File too large" in said.err
    assert said.out == ""
    assert contents() == before


def contents():
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_a_demonstration_says_so(monkeypatch, capsys):
    monkeypatch.setattr(_demo, "METHODS", ("1-NN",))
    monkeypatch.setattr(_demo, "N_SPLITS", 1)
    with full_disk():
        assert call("demo", "--out", "demo", "--jobs", "1", "--quiet") == 1
    said = capsys.readouterr().err
    assert said.startswith("mpda: A row could not be written to demo/rows.jsonl (File too large)")
    assert said.count("\n") == 1
    assert Path("demo/rows.jsonl").read_bytes() == b""


def test_rows_that_do_not_fit_leave_those_before_and_a_run_goes_on(capsys):
    path = Path("rows/rows.jsonl")
    before = path.read_bytes()
    more = ("reproduce", "table2", *ROWS, "--splits", "2", "--quiet")
    with full_disk(room=len(before) + 50):
        assert call(*more) == 1
    said = capsys.readouterr().err
    assert "make room and run the same command again" in said
    assert said.count("\n") == 1
    assert path.read_bytes() == before
    assert call(*more) == 0
    assert path.read_bytes().startswith(before)
    assert len(read(path)) == len(path.read_bytes().splitlines()) == 2


def test_a_cache_that_is_full_keeps_its_file():
    _files.write(Path("cache/toy.npz"), np.ones((2, 2)), np.arange(2))
    before = contents()
    with full_disk(), pytest.raises(OSError, match=r"File too large: 'cache/toy\.npz'"):
        _files.write(Path("cache/toy.npz"), np.random.default_rng(0).normal(size=(9, 9)), [0] * 9)
    assert contents() == before


@pytest.fixture
def device(tmp_path):
    """A device that is always full; of our own where we could harm that of the machine."""
    if os.access("/dev", os.W_OK):
        os.mknod(tmp_path / "full", 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        return tmp_path / "full"
    return Path("/dev/full")


def test_a_full_device_stays_a_device(device, capsys):
    for link in ("z.csv", "z.npy", "z.parquet", "rows/table2.md", "link.mpda"):
        Path(link).unlink(missing_ok=True)
        Path(link).symlink_to(device)
    for given in (
        *(("transform", "iris.mpda", "iris.csv", "--out", f"z.{k}") for k in ("csv", "npy")),
        ("transform", "iris.mpda", "iris.csv", "--out", "z.parquet"),
        ("reproduce", "table2", *ROWS),
        (*FIT, "--out", "link.mpda"),
        (*FIT, "--out", device),
    ):
        assert call(*given, "--quiet") == 1
        said = capsys.readouterr().err
        assert "No space left on device" in said, given
        assert said.count("\n") == 1
        assert device.is_char_device()
    assert Path("z.csv").is_symlink()
    Path("rows/rows.jsonl").unlink()
    Path("rows/rows.jsonl").symlink_to(device)
    assert call("reproduce", "table2", *ROWS, "--quiet") == 1
    assert "rows.jsonl (No space left on device)" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("given", [["--version"], ["datasets"]])
def test_a_full_standard_output_is_one_line(given, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mpda", *given],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    assert done.stderr.startswith("mpda: ")
    assert done.stderr.endswith("No space left on device\n")
    assert done.stderr.count("\n") == 1


REAL = """
import subprocess, sys
from pathlib import Path
import numpy as np
from mpda import LFDA, save
from mpda.exceptions import ReproductionError, TableError
from mpda.experiments._store import Store
from mpda.io.tables import write_table

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
rng = np.random.default_rng(0)
names = ["a.csv", "a.npy", "a.parquet", "a.mpda", "rows.jsonl"]
for name in names:
    (disk / name).write_bytes(name.encode() * 100)
(disk / "filler").write_bytes(bytes(40_000))
for name in names[:3]:
    try:
        write_table(disk / name, rng.normal(size=(1000, 4)), list("pqrs"), {})
    except TableError as error:
        assert "No space left on device" in str(error), error
    else:
        raise AssertionError(name)
try:
    save(LFDA(25).fit(rng.normal(size=(99, 90)), np.arange(99) % 3), disk / "a.mpda")
except OSError as error:
    assert error.errno == 28 and error.filename == str(disk / "a.mpda"), error
else:
    raise AssertionError("a.mpda")
with Store(disk / "rows.jsonl") as store:
    try:
        store.append({"task": "x" * 40_000})
    except ReproductionError as error:
        assert "No space left on device" in str(error), error
    else:
        raise AssertionError("rows.jsonl")
for name in names:
    assert (disk / name).read_bytes() == name.encode() * 100, name
assert sorted(path.name for path in disk.iterdir()) == sorted([*names, "filler"])
"""


def test_a_real_disk_that_is_full(tmp_path):
    apart = ["unshare", "--map-root-user", "--mount"]
    (tmp_path / "disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "none", str(tmp_path / "disk")]
    if (
        not shutil.which("unshare")
        or subprocess.run([*apart, *mount], capture_output=True).returncode
    ):
        pytest.skip("the system does not let us mount a small disk")
    script = [sys.executable, "-c", REAL, str(tmp_path / "disk")]
    done = subprocess.run([*apart, *script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
