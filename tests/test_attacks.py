"""Files under attack: what is spoilt is refused in one line, and runs, takes and writes nothing.

``attack_runs.py`` goes on with the same attacks for as long as one likes.
"""

import io
import json
import os
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

import attack_bombs
import attack_runs
import attack_values
import attacks
from attack_targets import (
    REFUSALS,
    Fault,
    attacked,
    command_target,
    dataset_targets,
    each_kind,
    forget_peak,
    model_target,
    peak_memory,
    report_targets,
    table_targets,
)
from attack_values import model_file
from mpda.exceptions import ModelFileError, ModelVersionWarning, TableError
from mpda.experiments import read_rows
from mpda.io import unpacked as _unpacked
from mpda.io.models import load
from mpda.io.tables import _frames, read_table
from mpda.io.tables._pages import claimed_by_pages


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """No data set and no cache of this machine, and no mark of an attack."""
    monkeypatch.delenv("MPDA_DATA", raising=False)
    monkeypatch.setenv("MPDA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(attacks.MARK, raising=False)


@pytest.fixture
def place(tmp_path):
    """A directory in which only the attacked file may stand."""
    made = tmp_path / "deep" / "attacked"
    made.mkdir(parents=True)
    yield made
    assert list(made.iterdir()) == []
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["attacked"]


def ends(target, place, times, name):
    """How attacks of every kind end; the doors take turns, and each name has seeds of its own."""
    found = Counter()
    doors = list(target.doors)
    for k, kind in enumerate(target.kinds):
        for i in range(times):
            seeds = [zlib.crc32(name.encode()), k, i]
            door = doors[i % len(doors)]
            try:
                found[attacked(target, kind, door, np.random.default_rng(seeds), place)] += 1
            except AssertionError as error:
                raise Fault(f"{kind} by default_rng({seeds}) at {door}") from error
    return found


@pytest.mark.parametrize("model", each_kind(), ids=lambda model: type(model).__name__)
def test_model_files_are_what_was_saved_or_refused(model, place, tmp_path):
    target = model_target(model, tmp_path)
    found = ends(target, place, 4, type(model).__name__)
    assert found.total() == 4 * len(target.kinds)
    assert found["refused"] >= 70


@pytest.mark.parametrize("name", table_targets())
def test_tables_are_samples_or_refused(name, place):
    found = ends(table_targets()[name], place, 12, name)
    assert min(found["loaded"], found["refused"]) > 0


@pytest.mark.parametrize("name", dataset_targets())
def test_data_sets_are_samples_or_refused(name, place):
    found = ends(dataset_targets()[name], place, 5, name)
    assert min(found["loaded"], found["refused"]) > 0


@pytest.mark.parametrize("name", report_targets())
def test_reports_are_pages_or_refused(name, place):
    found = ends(report_targets()[name], place, 12, name)
    assert min(found["loaded"], found["refused"]) > 0


def test_commands_say_it_in_one_line(place, tmp_path):
    found = ends(command_target(tmp_path), place, 4, "command")
    assert found["refused"] > 30


# --- Bombs ----------------------------------------------------------------------------------------

# Refused before they are unpacked: what is left is to read the file and to say so.
MOST_GROWTH = 64 << 20


def bombs(whole):
    """By the name of a file and of a bomb, its bytes."""
    groups = {
        "model.mpda": attack_bombs.models(whole),
        **dict.fromkeys(["a.npz", "vehicle.npz"], attack_bombs.array_archives()),
        "a.npy": attack_bombs.arrays(),
        "a.csv": attack_bombs.texts(),
        "a.csv.gz": attack_bombs.packed_texts(),
        "a.parquet": attack_bombs.parquets(),
        "a.arrow": attack_bombs.arrows(),
        "coil.zip": attack_bombs.images(),
        "results.json": attack_bombs.reports(),
    }
    return {(file, name): made for file, group in groups.items() for name, made in group.items()}


def read_in_little_memory(directory):
    """Read every file by its door, and print how it ended, in how many seconds and bytes.

    Run in a process of its own, which cannot take what a bomb would.
    """
    targets = {
        target.file: target
        for group in (table_targets(), dataset_targets(), report_targets())
        for target in group.values()
    }
    doors = {file: next(iter(target.doors.values())) for file, target in targets.items()}
    doors["model.mpda"] = load
    attack_runs.limit_memory(3 << 29)
    for folder in sorted(Path(directory).iterdir()):
        (path,) = folder.iterdir()
        forget_peak()
        before, begin = peak_memory(), time.process_time()
        try:
            doors[path.name](path)
            ended = "loaded"
        except REFUSALS as error:
            ended = str(error)
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"
        seconds, grown = time.process_time() - begin, peak_memory() - before
        print(json.dumps([folder.name, ended, seconds, grown]), flush=True)


def test_bombs_are_refused_before_they_go_off(tmp_path):
    whole = model_target(each_kind()[0], tmp_path).whole
    made = bombs(whole)
    place = tmp_path / "bombs"
    for i, ((file, _), content) in enumerate(made.items()):
        assert len(content) < 12 << 20
        (place / f"{i:03}").mkdir(parents=True)
        (place / f"{i:03}" / file).write_bytes(content)
    here = Path(__file__).parent
    script = f"import test_attacks; test_attacks.read_in_little_memory({str(place)!r})"
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])},
    )
    assert result.returncode == 0, result.stderr
    lines = list(map(json.loads, result.stdout.splitlines()))
    assert len(lines) == len(made)
    for (file, name), (folder, said, seconds, grown) in zip(made, lines, strict=True):
        about = f"{file}, {name}: {said}"
        assert str(place / folder / file) in said or "example.org" in said, about
        assert "\n" not in said, about
        assert seconds < 3.0, about
        assert grown < MOST_GROWTH, f"{about}: {grown >> 20} MiB"


def test_what_is_large_and_honest_is_read(tmp_path, monkeypatch):
    """Far more than is free for all, packed as data are."""
    monkeypatch.setattr(_unpacked, "FREE", 10_000)
    frame = pd.DataFrame(np.round(np.random.default_rng(0).normal(size=(3000, 20)), 1))
    frame.columns = [f"x{i}" for i in range(20)]
    frame["y"] = np.repeat(["ash", "birch", "yew"], 1000)
    for name in ("a.csv", "a.csv.gz", "a.parquet", "a.feather", "a.npz", "a.npy"):
        path = tmp_path / name
        numbers = frame.drop(columns="y").to_numpy()
        if path.suffix == ".npz":
            np.savez_compressed(path, X=numbers, y=frame["y"].to_numpy(dtype=str))
        elif path.suffix == ".npy":
            np.save(path, numbers)
        else:
            {".gz": frame.to_csv, ".csv": frame.to_csv}.get(
                path.suffix, getattr(frame, f"to_{name[2:]}", None)
            )(path, **({"index": False} if "csv" in name else {}))
        read = read_table(path, label=None if name == "a.npy" else "y")
        np.testing.assert_array_equal(read.X, numbers)
        assert read.X.nbytes > 10_000


def test_a_run_of_attacks_counts_how_they_end():
    found = attack_runs.attack(1.5, seed=1)
    assert found.faults == [], str(found)
    assert sum(found.ends.values()) > 0
    assert str(found).endswith("0 faults")


# --- Faults that were found -----------------------------------------------------------------------


def stored(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


ONE = attacks.npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", bytes(8))
LABELS = {
    "too large": np.full(4, 1e300),
    "infinite": np.full(4, np.inf),
    "no text": np.full(4, b"\xff\xfe"),
    "half a character": np.full(4, "\ud800"),
    "no character": np.full(4, 0xFFFFFFFF, np.uint32).view("<U1"),
    "neither true nor false": np.full(4, 7, np.uint8).view(bool),
    "complex": np.full(4, 1j),
    "days": np.full(4, np.datetime64("2026-11-15")),
}
TABLES = {
    "an archive as an array": ("a.npy", attacks.zipped([("X.npy", ONE)])),
    "an array as an archive": ("a.npz", ONE),
    "objects": ("a.npz", attacks.zipped([("X.npy", attacks.object_array(None, None))])),
    "objects alone": ("a.npy", attacks.object_array(None, None)),
    "beyond a float": ("a.npy", stored(np.full((4, 2), np.longdouble("1e400")))),
    "one name twice": ("a.npz", attacks.zipped([("X.npy", ONE), ("X.npy", ONE)])),
    "an array that goes on": ("a.npy", ONE + b"x"),
    **{
        f"labels that are {name}": (
            "a.npz",
            attacks.zipped([("X.npy", stored(np.eye(4))), ("y.npy", stored(labels))]),
        )
        for name, labels in LABELS.items()
    },
}


@pytest.mark.parametrize(("file", "content"), TABLES.values(), ids=TABLES.keys())
def test_tables_that_were_misread_are_refused_by_name(file, content, tmp_path):
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(TableError, match=str(path)):
        read_table(path)
    assert attacks.MARK not in os.environ


def test_arrays_of_other_programs_are_read(tmp_path):
    """Entries in another order, other quotes and spaces, numbers of Python 2, other byte order."""
    path = tmp_path / "a.npy"
    numbers = np.arange(6.0).reshape(2, 3)
    content = numbers.astype(">f8").tobytes()
    for text in (
        "{'shape':(2,3),'fortran_order':False,'descr':'>f8'}",
        '{"descr": ">f8", "fortran_order": False, "shape": (2, 3)}   ',
        "{'descr': '>f8', 'fortran_order': False, 'shape': (2L, 3L), }",
    ):
        for version in (1, 2, 3):
            path.write_bytes(attacks.npy(text, content, version))
            np.testing.assert_array_equal(read_table(path).X, numbers)


def knn_said(said):
    return said["model"]["estimator"]


MODELS = {
    "weights of samples for a tree": lambda said: knn_said(said)["fitted"].update(
        effective_metric_params_={"dict": {"sample_weight": [1.0]}}
    ),
    "a function as metric": lambda said: knn_said(said)["fitted"].update(
        effective_metric_={"function": ["mpda.model_selection.selection_rules:RULES", "robust"]}
    ),
    "no character": lambda said: knn_said(said)["fitted"].update(a_={"numpy": ["<U1", "ffffffff"]}),
    "jobs": lambda said: knn_said(said)["parameters"].update(n_jobs=10**9),
    "a list as an array": lambda said: knn_said(said)["fitted"].update(
        a_={"masked": {"data": ["x" * 99, "y"], "mask": None}}
    ),
    "nothing, often": lambda said: knn_said(said)["fitted"].update(
        a_={"objects": {"shape": [10**15, 0], "values": []}}
    ),
    "notes": lambda said: said.update(notes=["label"]),
    "versions": lambda said: said["versions"].update(mpda=1),
    "too large": lambda said: json.dumps(said).replace('"leaf_size": 30', '"leaf_size": 1e999'),
}


@pytest.mark.parametrize("change", MODELS.values(), ids=MODELS.keys())
def test_models_that_were_believed_are_refused(change, tmp_path):
    whole = model_target(KNeighborsClassifier(3), tmp_path).whole
    (_, text), _, *arrays = attacks.members_of(whole)
    said = json.loads(text)
    changed = change(said)
    path = tmp_path / "model.mpda"
    path.write_bytes(model_file(changed.encode() if changed else said, arrays))
    with pytest.raises(ModelFileError, match=str(path)):
        load(path)


def test_versions_in_a_warning_are_one_short_line(tmp_path):
    (_, text), _, *arrays = attacks.members_of(model_target(each_kind()[0], tmp_path).whole)
    said = json.loads(text)
    said["versions"]["mpda"] = "9.9\n\x1b[2J" + "x" * 5000
    path = tmp_path / "model.mpda"
    path.write_bytes(model_file(said, arrays))
    with pytest.warns(ModelVersionWarning) as caught:
        load(path)
    line = str(caught[0].message)
    assert line.isprintable()
    assert len(line) < 300 + len(str(path))


def test_rows_of_wrong_types_are_no_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    good = attack_values.rows()
    bad = json.loads(good.splitlines()[0])
    path.write_bytes(good)
    n_rows = len(read_rows(path))
    assert n_rows == 9
    for change in (
        *({"seed": "1"}, {"seed": True}, {"dimensions": [2, 1, 3]}, {"dimensions": []}),
        *({"wrong": [1, 2]}, {"wrong": [1, 2, 101]}, {"n_test": 0}, {"status": "?"}, {"task": 5}),
        *({"method": ["MPDA"]}, {"seconds": "1"}, {"parameters": []}, {"cv_dimension": None}),
    ):
        path.write_bytes(good + json.dumps({**bad, **change}).encode() + b"\n" + b"[" * 10**5)
        assert len(read_rows(path)) == n_rows, change


def test_a_message_shows_the_beginning_of_a_long_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x" * 9000 + ",y,y\n1,2,3\n")
    with pytest.raises(TableError, match="more than one column 'y'"):
        read_table(path)
    path.write_text("x,y\n" + "word " * 9000 + ",1\n")
    with pytest.raises(TableError) as caught:
        read_table(path)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_wide_table_is_read_in_time_that_grows_with_its_width(tmp_path):
    """Names were once compared each with each: a minute for what now takes a moment."""
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{i}" for i in range(40_000)) + "\n" + ",".join("1" * 40_000))
    begin = time.process_time()
    with pytest.raises(TableError, match="more than one column"):
        _frames._refuse_same_names([*map(str, range(40_000)), "1"], path)
    assert time.process_time() - begin < 1.0


PAGES = {
    "so many bytes": b"\x19\xf3" + b"\xff" * 9 + b"\x01",
    "so many doubles": b"\x19\xf7" + b"\xff" * 9 + b"\x01",
    "lists in lists": b"\x19" * 100_000,
    "structures in structures": b"\x1c" * 100_000,
    "a text behind the end": b"\x18\x7f",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_header_of_a_page_takes_no_longer_than_it_is(name):
    column = SimpleNamespace(
        data_page_offset=0,
        has_dictionary_page=False,
        total_compressed_size=len(PAGES[name]),
    )
    group = SimpleNamespace(num_columns=1, column=lambda j: column)
    footer = SimpleNamespace(num_row_groups=1, row_group=lambda i: group)
    with pytest.raises(ValueError, match=r"it has a page (that is cut|whose header is nested)"):
        list(claimed_by_pages(footer, PAGES[name]))
