"""Tables with named columns, by pandas."""

from __future__ import annotations

import csv
import gzip
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.threads import CHANGING
from mpda.exceptions import TableError
from mpda.io.tables._columns import check_frame, of_arrow, of_parquet
from mpda.io.unpacked import check_unpacked

FRAMES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")
_PIECE = 1 << 20
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
        import pandas  # noqa: F401
    except ImportError as error:
        raise TableError("Tables need pandas: pip install 'mpda[cli]'.") from error
    if kind in (".csv", ".tsv"):
        frame = _of_text(path, "\t" if kind == ".tsv" else None, label, drop, features)
    elif kind == ".parquet":
        frame = of_parquet(path)
    else:
        frame = of_arrow(path)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame.columns = [str(name) for name in frame.columns]
    _refuse_same_names(list(frame.columns), path)
    return frame.reset_index(drop=True)


def _refuse_same_names(names: list[str], path: Path) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise TableError(
            f"{path} has more than one column {twice[0]!r:.80}; give them other names."
        )


def _of_text(
    path: Path,
    separator: str | None,
    label: str | None,
    drop: Sequence[str],
    features: Sequence[str] | None,
) -> Any:
    import pandas as pd

    n_lines = _lines(path)
    with _opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        separator = separator or max(",;\t", key=first.count)
        # Rows may be shorter than the first line, and take as much room.
        check_frame(n_lines, [8] * (first.count(separator) + 1), path.stat().st_size)
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
            compression="gzip" if _is_packed(path) else None,
        )
    if not found[0].strip() and names[0] not in drop and _counts_rows(frame.iloc[:, 0]):
        raise TableError(
            f"The first column of {path} has no name and only counts the rows. Leave it out with "
            f"--drop {names[0]!r}, or write the file without it."
        )
    return frame


def _lines(path: Path) -> int:
    """The number of lines; what unpacks to much more than the file holds is refused on the way."""
    held = path.stat().st_size
    n_bytes = newlines = returns = 0
    with _opened(path, "rb") as file:
        while piece := file.read(_PIECE):
            n_bytes += len(piece)
            check_unpacked(n_bytes, held)
            newlines += piece.count(b"\n")
            returns += piece.count(b"\r")
    return max(newlines, returns) + 1


def _opened(path: Path, mode: str, **options: Any) -> Any:
    opened = gzip.open if _is_packed(path) else open
    return opened(path, mode, **options)


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _counts_rows(column: Any) -> bool:
    values = column.to_numpy()
    return bool(values.dtype.kind == "i" and len(values) > 1 and (np.diff(values) == 1).all())


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
