"""Files of data that are broken, in a directory or in the cache: named, with what to do."""

import warnings

import numpy as np
import pytest

from mpda.cli import run
from mpda.exceptions import DatasetError, DatasetWarning
from mpda.experiments.datasets import load as load_dataset

VEHICLE = (846, 18)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPDA_DATA", raising=False)
    monkeypatch.setenv("MPDA_CACHE", str(tmp_path / "cache"))
    return tmp_path


def refused(capsys, *arguments):
    """Run a command that fails, and return its one line."""
    with pytest.raises(SystemExit) as ended:
        run([*map(str, arguments), "--quiet"])
    assert ended.value.code == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


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
