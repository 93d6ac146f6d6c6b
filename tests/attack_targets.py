"""What is attacked: each format with a valid file, the ways in, and what may come of it."""

import contextlib
import io
import json
import os
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import attack_values as values
import attacks
from model_cases import MODELS, NAMES, X, Y, fitted, refuse_difference
from mpda.cli import run as command
from mpda.exceptions import (
    DatasetError,
    DatasetWarning,
    ModelFileError,
    ModelVersionWarning,
    ReportError,
    TableError,
)
from mpda.experiments import datasets
from mpda.experiments.datasets import _sources
from mpda.experiments.datasets._catalogue import ImageArchive
from mpda.experiments.rows_report import load_results
from mpda.io.models import header, load, save
from mpda.io.tables import read_table
from mpda.report import render

# A file of this size is read in some hundredths of a second.
MOST_SECONDS = 3.0
PEAK = Path("/proc/self/status")
MOST_BYTES = 400 << 20
# Kinds of attacks that leave nothing to read.
NEVER = (
    *("foreign_class", "other_names_in_model", "strange_model", "object_array", "code_as_header"),
)
REFUSALS = (ModelFileError, TableError, DatasetError, ReportError)


class Fault(AssertionError):
    """An attack that came to something that it must not."""


@dataclass(frozen=True)
class Target:
    """A format.

    file : what the attacked file is called; whole : a valid one
    doors : by name, what reads a path
    kinds : by name, what makes attacks
    same : refuses what is not what was saved, after attacks of the kinds in ``exact``
    sound : refuses what cannot be what such a file holds
    """

    file: str
    whole: bytes
    doors: dict
    kinds: dict
    same: object = None
    exact: tuple = ()
    sound: object = field(default=lambda found: None)


def outcome(target, kind, door, path):
    """ "loaded" or "refused"; anything else is a fault."""
    forget_peak()
    before, begin = peak_memory(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What they are about is said in them, and the file is read.
        warnings.simplefilter("ignore", ModelVersionWarning)
        warnings.simplefilter("ignore", DatasetWarning)
        try:
            found = target.doors[door](path)
        except REFUSALS as error:
            _check_refusal(str(error), path)
            ended = "refused"
        except Exception as error:
            raise Fault(f"{type(error).__name__}: {error!s:.300}") from error
        else:
            ended = "loaded"
            if (
                kind in NEVER and door != "header"
            ):  # which tells what stands there, and makes nothing
                raise Fault("it was read")
            target.sound(found)
            if kind in target.exact:
                target.same(found)
    _check_cost(begin, before)
    if attacks.MARK in os.environ:
        del os.environ[attacks.MARK]
        raise Fault("code of the file was run")
    if sorted(path.parent.iterdir()) != [path] and door != "export":
        raise Fault(f"files were written: {sorted(path.parent.iterdir())}")
    return ended


def _check_refusal(said, path):
    if "\n" in said or not said.isprintable() or len(said) > 1500:
        raise Fault(f"a refusal that is not one line: {said!r:.300}")
    if str(path) not in said and "example.org" not in said:
        raise Fault(f"a refusal that does not name the file: {said:.300}")


def _check_cost(begin, before):
    seconds, grown = time.process_time() - begin, peak_memory() - before
    if seconds > MOST_SECONDS:
        raise Fault(f"it took {seconds:.1f} seconds")
    if grown > MOST_BYTES:
        raise Fault(f"it took {grown >> 20} MiB")


def forget_peak():
    """Let the largest memory of this process be what it has now; not everywhere can it be known."""
    if PEAK.exists():
        PEAK.with_name("clear_refs").write_text("5")


def peak_memory():
    """The most bytes of memory that this process had since then, 0 where it is not known."""
    if not PEAK.exists():
        return 0
    (line,) = (line for line in PEAK.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def attacked(target, kind, door, rng, directory):
    """How an attack ends, which the generator draws."""
    path = Path(directory) / target.file
    spoilt = target.kinds[kind](target.whole, rng)
    path.write_bytes(spoilt)
    try:
        return outcome(target, kind, door, path)
    finally:
        for each in path.parent.iterdir():
            each.unlink()


# --- Doors ----------------------------------------------------------------------------------------


def _said_by_command(*arguments):
    """What a command prints on stderr; an exit code that is not 0 is a refusal."""
    said, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        try:
            command([*map(str, arguments), "--quiet"])
        except SystemExit as ended:
            if ended.code not in (None, 0):
                line = said.getvalue().strip()
                if ended.code != 1 or not line.startswith("mpda: "):
                    raise Fault(f"exit code {ended.code}: {line:.300}") from ended
                # What a model that was tampered with cannot do is said without the file.
                raise ReportError(f"{arguments[1]} {line}") from ended


def _dataset(path):
    with warnings.catch_warnings():
        return datasets.load("vehicle", path.parent, fetch=False)


def _images(path):
    def given(url, name, file):
        file.write(path.read_bytes())

    before, _sources._download = _sources._download, given
    try:
        source = ImageArchive("http://example.org/coil.zip", "block mean")
        return _sources.from_archive(source, "coil20")
    finally:
        _sources._download = before


# --- What may be read -----------------------------------------------------------------------------


def sound_table(table):
    assert table.X.ndim == 2
    assert table.X.dtype in (np.float32, np.float64)
    assert np.isfinite(table.X).all()
    assert table.X.size
    if table.y is not None:
        assert table.y.shape == (len(table.X),)
        assert table.y.dtype.kind in "biuU"
        "".join(map(str, table.y.tolist())).encode()


def sound_arrays(found):
    samples, labels = found
    assert samples.dtype.kind in "biuf"
    assert samples.ndim == 2
    assert np.isfinite(samples).all()
    assert labels.shape == (len(samples),)


# --- Valid files ----------------------------------------------------------------------------------


def model_target(model, directory):
    found = fitted(model)
    path = Path(directory) / "made.mpda"
    save(found, path, notes={"label": "y"})
    whole = path.read_bytes()
    path.unlink()

    def same(loaded):
        refuse_difference(found, loaded)

    return Target(
        "model.mpda",
        whole,
        {"load": load},
        {**attacks.BYTES, **attacks.ARCHIVES, **values.MODEL_FILES},
        same,
        (*attacks.BYTES, *attacks.ARCHIVES),
    )


def each_kind(models=MODELS):
    """The first model of each class."""
    return list({type(model): model for model in reversed(models)}.values())[::-1]


def _frame():
    columns = {f"x{i}": column for i, column in enumerate(X[:40].T)}
    return pd.DataFrame({**columns, "y": NAMES[Y[:40]]})


def _written(write, *arguments, **options):
    file = io.BytesIO()
    write(file, *arguments, **options)
    return file.getvalue()


@cache
def table_targets():
    frame = _frame()
    arrow = pa.Table.from_pandas(frame)
    text = frame.to_csv(index=False).encode()
    arrays = {"X": X[:40], "y": Y[:40]}

    def labelled(path):
        return read_table(path, label="y")

    def skipping(path):
        return read_table(path, label="y", skip_missing=True)

    doors = {"labelled": labelled, "plain": read_table, "skipping": skipping}
    plain = {"plain": read_table}
    numbered = {"plain": read_table, "numbered": lambda path: read_table(path, label="-1")}
    feather = {**attacks.BYTES, **values.COLUMNS}
    stream = _written(_as_stream, arrow)

    def table(file, whole, doors, kinds):
        return Target(file, whole, doors, kinds, sound=sound_table)

    return {
        "csv": table("a.csv", text, doors, {**attacks.BYTES, **values.TEXTS}),
        "tsv": table("a.tsv", text.replace(b",", b"\t"), doors, attacks.BYTES),
        "csv.gz": table("a.csv.gz", values.packed(text), doors, {**attacks.BYTES, **values.PACKED}),
        "parquet": table("a.parquet", _written(_as_parquet, arrow), doors, feather),
        "arrow": table("a.arrow", _written(_as_arrow, arrow), doors, feather),
        "feather": table("a.feather", _written(frame.to_feather), doors, feather),
        "stream": table("b.arrow", stream, doors, attacks.BYTES),
        "npy": table("a.npy", _written(np.save, X[:40]), numbered, _arrays()),
        "npz": table("a.npz", _written(np.savez, **arrays), plain, _archives()),
        "packed npz": table("b.npz", _written(np.savez_compressed, **arrays), plain, _archives()),
    }


def _arrays():
    return {**attacks.BYTES, **attacks.ARRAYS}


def _archives():
    return {**attacks.BYTES, **attacks.ARCHIVES, "spoilt_array": attacks.spoilt_array}


def _as_parquet(file, table):
    pq.write_table(table, file, compression="zstd")


def _as_arrow(file, table):
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _as_stream(file, table):
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


@cache
def dataset_targets():
    rng = np.random.default_rng(0)
    samples, labels = rng.normal(size=(846, 18)).astype(np.float32), np.arange(846) % 4
    parts = {"X_train": samples[:600], "X_test": samples[600:]}
    parts |= {"y_train": labels[:600], "y_test": labels[600:]}
    doors = {"load": _dataset}
    return {
        "data set": Target(
            *("vehicle.npz", _written(np.savez_compressed, X=samples, y=labels), doors),
            *(_archives(),),
            sound=sound_arrays,
        ),
        "data set in parts": Target(
            *("vehicle.npz", _written(np.savez, **parts), doors, _archives()), sound=sound_arrays
        ),
        "images": Target(
            *("coil.zip", values.images(), {"read": _images}),
            {**attacks.BYTES, **attacks.ARCHIVES, **values.IMAGES},
            sound=sound_arrays,
        ),
    }


@cache
def report_targets():
    results = values.results()
    rows = values.rows()

    def page(path):
        return render(load_results(path)).encode()

    return {
        "results": Target(
            *("results.json", json.dumps(results).encode(), {"read": load_results, "page": page}),
            {**attacks.BYTES, **values.DOCUMENTS},
        ),
        "rows": Target("rows.jsonl", rows, {"page": page}, {**attacks.BYTES, **values.LINES}),
    }


def command_target(directory):
    """A model file at the doors of the command."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    import mpda

    model = make_pipeline(mpda.GramPCA(2), KNeighborsClassifier(1)).fit(
        _frame().drop(columns="y"), _frame()["y"].to_numpy(dtype=str)
    )
    made = Path(directory) / "made.mpda"
    save(model, made, notes={"label": "y"})
    whole = made.read_bytes()
    made.unlink()
    data = Path(directory) / "data.csv"
    _frame().to_csv(data, index=False)
    out = Path(directory) / "out"
    doors = {
        "header": header,
        "transform": lambda path: _said_by_command("transform", path, data, "--out", out / "z.csv"),
        "evaluate": lambda path: _said_by_command("evaluate", path, data),
        "export": lambda path: _said_by_command("export", path, "--matrix", out / "m.npy"),
    }
    kinds = {**attacks.BYTES, **values.MODEL_FILES}
    return Target("model.mpda", whole, doors, kinds)
