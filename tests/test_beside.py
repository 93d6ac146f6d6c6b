"""Files are written beside and renamed into place, and rows of experiments are appended."""

import os
import subprocess
import sys

import numpy as np
import pytest

from mpda import LFDA, load, save
from mpda._lib.atomic_write import beside, refuse_unwritable, written
from mpda.exceptions import ReproductionError
from mpda.experiments import Order, reproduce


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "m.npy").write_text("before")
    (tmp_path / "link").symlink_to("far/m.npy")
    written(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "m.npy").read_text() == "after"
    assert sorted(os.listdir(tmp_path / "far")) == ["m.npy"]


def test_long_names_have_room_beside(tmp_path):
    name = "ü" * 120 + ".json"  # 245 of the 255 bytes that a name may have
    assert written(tmp_path / name, "after").read_text() == "after"
    assert os.listdir(tmp_path) == [name]


WRITER = """
import sys, time
from pathlib import Path
from mpda._lib.atomic_write import beside
with beside(Path(sys.argv[1])) as made:
    made.write_text("half")
    print("writing", flush=True)
    time.sleep(20)
"""


def test_what_a_kill_leaves_beside_is_removed_by_the_next_but_nothing_that_is_being_written(
    tmp_path,
):
    path = tmp_path / "table.md"
    path.write_text("before")
    given = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(given, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        written(path, "meanwhile")
        assert len(os.listdir(tmp_path)) == 2
        refuse_unwritable(path)
        assert len(os.listdir(tmp_path)) == 2
        writer.kill()
    assert path.read_text() == "meanwhile"
    assert len(os.listdir(tmp_path)) == 2
    written(tmp_path / "other.md", "not its business")
    assert len(os.listdir(tmp_path)) == 3
    written(path, "after")
    assert sorted(os.listdir(tmp_path)) == ["other.md", "table.md"]


def test_two_may_write_the_same_file_at_once(tmp_path):
    with beside(tmp_path / "m") as one, beside(tmp_path / "m") as other:
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "m").read_text() == "one"
    assert os.listdir(tmp_path) == ["m"]


# The rows of experiments


def test_lines_that_are_no_rows_are_passed_over(tmp_path):
    order = Order(tmp_path, ["digits"], ["1-NN"], 1)
    rows = reproduce("table2", order).rows
    path = tmp_path / "rows.jsonl"
    good = path.read_bytes()
    task = rows[0]["task"]
    nested = b"[" * 100_000
    bad = [b'{"task": "a"}', b"\x00" * 300, b"\xff\xfe", nested, b"null", b"3", b'{"task": ["a"]}']
    bad.append(f'{{"task": "{task}", "status": "done"}}'.encode())
    for each in bad:
        path.write_bytes(each + b"\n" + good + each)
        assert reproduce("table2", order).rows == rows
        assert path.read_bytes() == each + b"\n" + good + each


def test_a_lock_that_cannot_be_had_is_not_another_run(tmp_path, monkeypatch):
    import fcntl

    def none(*arguments):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(ReproductionError, match=r"cannot be written \(No locks available\)"):
        reproduce("table2", Order(tmp_path, ["digits"], ["1-NN"], 1))


def test_models_are_saved_where_links_and_directories_lead(tmp_path):
    model = LFDA(1).fit(np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2)
    save(model, tmp_path / "new" / "deep" / "m.mpda")
    assert isinstance(load(tmp_path / "new" / "deep" / "m.mpda"), LFDA)
    with pytest.raises(NotADirectoryError, match=r"m\.mpda'"):
        save(model, tmp_path / "new" / "deep" / "m.mpda" / "x")
