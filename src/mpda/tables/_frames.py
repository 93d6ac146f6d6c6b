"""Tables with named columns, by pandas."""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._threads import CHANGING
from mpda.exceptions import TableError

FRAMES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")
# Words for a missing number; in the column of labels they are labels like any other.
_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>", "?")


def read_frame(
    path: Path,
    kind: str,
    label: str | None,
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
) -> Any:
    """The table of a file; its columns have names that are words and differ.

    What is not a feature is read as it stands: labels, and where features are given all others.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise TableError("Tables need pandas: pip install 'mpda[cli]'.") from error
    try:
        if kind in (".csv", ".tsv"):
            frame = _of_text(path, "\t" if kind == ".tsv" else None, label, drop, features)
        elif kind == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = _of_arrow(path)
    except (OSError, TableError):
        raise
    # pandas and pyarrow have many errors for a broken file.
    except Exception as error:
        said = str(error).strip().split("\n")[0]
        raise TableError(f"{path} cannot be read as {kind[1:]} ({said}).") from error
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame.columns = [str(name) for name in frame.columns]
    _refuse_same_names(list(frame.columns), path)
    return frame.reset_index(drop=True)


def _refuse_same_names(names: list[str], path: Path) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"{path} has more than one column {twice[0]!r}; give them other names.")


def _of_text(
    path: Path,
    separator: str | None,
    label: str | None,
    drop: Sequence[str],
    features: Sequence[str] | None,
) -> Any:
    import pandas as pd

    with _opened(path) as file:
        first = file.readline()
        separator = separator or max(",;\t", key=first.count)
        file.seek(0)
        found = next(csv.reader(file, delimiter=separator), [])
    names = [name.strip() or f"column {i}" for i, name in enumerate(found, start=1)]
    if not first.strip():
        raise TableError(f"{path} is empty.")
    if len(names) > 1 and all(map(_is_number, names)):
        raise TableError(
            f"The first line of {path} has only numbers ({', '.join(names[:3])}, ..). A first line "
            "with the names of the columns is needed."
        )
    _refuse_same_names(names, path)
    kept = {label} if features is None else set(names) - set(features)
    # The number that is written, to the last bit; from pandas 3 on it is so anyway.
    exact = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
    with CHANGING, warnings.catch_warnings():
        # Rows that are longer than the first line would be cut.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path,
            sep=separator,
            header=0,
            names=names,
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values={name: list(_MISSING) for name in names if name not in kept},
            dtype={name: str for name in names if name in kept},
            low_memory=False,
            **exact,
            encoding="utf-8-sig",
        )
    if not found[0].strip() and names[0] not in drop and _counts_rows(frame.iloc[:, 0]):
        raise TableError(
            f"The first column of {path} has no name and only counts the rows. Leave it out with "
            f"--drop {names[0]!r}, or write the file without it."
        )
    return frame


def _opened(path: Path) -> Any:
    opened = gzip.open if path.suffix == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def _counts_rows(column: Any) -> bool:
    values = column.to_numpy()
    return bool(values.dtype.kind == "i" and len(values) > 1 and (np.diff(values) == 1).all())


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _of_arrow(path: Path) -> Any:
    """Arrow's file format, which is Feather's too, or its stream format."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
        return table.to_pandas()
