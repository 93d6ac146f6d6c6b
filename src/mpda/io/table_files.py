"""Read tables from disk: data frames by pandas and pyarrow, arrays by NumPy without pickle.

This module knows the file formats. ``tables`` selects features and labels from what is read here.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda.exceptions import TableError
from mpda.io.error_text import one_line, suggest_name

FRAME_SUFFIXES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")
TABLE_SUFFIXES = (*FRAME_SUFFIXES, ".npy", ".npz")
# Words for a missing number. pandas has more of its own (such as "-nan"), but not "?" of UCI.
_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>", "?")


def table_suffix(path: Path) -> str:
    """Return the suffix that tells the format of a file, in lower case.

    Parameters
    ----------
    path : Path
        File name, such as ``iris.csv`` or ``iris.csv.gz``.

    Returns
    -------
    str
        Last suffix, without the ``.gz`` of a compressed CSV or TSV file; "" if there is none.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] in ([".csv"], [".tsv"]):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def check_table_path(path: Path) -> str:
    """Check that a file exists and that its suffix names a known format.

    Parameters
    ----------
    path : Path
        File to read.

    Returns
    -------
    str
        One of ``TABLE_SUFFIXES``.

    Raises
    ------
    mpda.exceptions.TableError
        If the file cannot be read, with the nearest file name in the directory.
    """
    suffix = table_suffix(path)
    if path.is_dir():
        raise TableError(f"{path} is a directory; name one file, {', '.join(TABLE_SUFFIXES)}.")
    if suffix not in TABLE_SUFFIXES:
        raise TableError(
            f"{path} ends in {suffix or 'nothing'}, which is not a known format; files that can be "
            f"read end in {', '.join(TABLE_SUFFIXES)}."
        )
    if not path.exists():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise TableError(f"{path} does not exist.{suggest_name(path.name, siblings)}")
    return suffix


def read_frame(
    path: Path, label: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> Any:
    """Read a table with named columns.

    Parameters
    ----------
    path : Path
        File with one of ``FRAME_SUFFIXES``.
    label : str or None
        Column of the labels. CSV and TSV files have no types: labels are read as words, so that
        "007" does not become 7.
    drop : sequence of str
        Columns that the caller leaves out. They are read, but may be row numbers.
    features : sequence of str or None
        Columns that are read as numbers; all others are words. None: all except the label.

    Returns
    -------
    pandas.DataFrame
        Table whose column names are distinct strings. A named index becomes a column.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise TableError("Tables need pandas: pip install 'mpda[cli]'.") from error
    suffix = table_suffix(path)
    if suffix in (".csv", ".tsv"):
        frame = _read_text(path, label, drop, features)
    else:
        frame = pd.read_parquet(path) if suffix == ".parquet" else _read_arrow(path)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame.columns = [str(name) for name in frame.columns]
    _check_distinct(frame.columns, path)
    return frame.reset_index(drop=True)


def _check_distinct(names: Collection[str], path: Path) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{path} has more than one column {repeated[0]!r:.80}; rename them.")


def _read_text(
    path: Path, label: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> Any:
    """Read CSV or TSV; the separator of a .csv is the most frequent of comma, semicolon and tab."""
    import pandas as pd

    open_file = gzip.open if path.suffix.lower() == ".gz" else open
    with open_file(path, "rt", encoding="utf-8-sig", newline="") as file:
        first_line = file.readline()
        separator = "\t" if table_suffix(path) == ".tsv" else max(",;\t", key=first_line.count)
        file.seek(0)
        header = next(csv.reader(file, delimiter=separator), [])
    if not first_line.strip():
        raise TableError(f"{path} is empty.")
    names = [name.strip() or f"column {i}" for i, name in enumerate(header, start=1)]
    if len(names) > 1 and all(map(_is_number, names)):
        raise TableError(
            f"The first line of {path} has only numbers ({', '.join(names[:3])}, ..). The first "
            "line must hold the names of the columns."
        )
    _check_distinct(names, path)
    words = {label} if features is None else set(names) - set(features)
    options: dict[str, Any] = {"sep": separator, "header": 0, "names": names, "index_col": False}
    options["dtype"] = {name: str for name in names if name in words}
    options["na_values"] = {name: list(_MISSING) for name in names if name not in words}
    if pd.__version__ < "3":  # later versions convert decimals exactly by default
        options["float_precision"] = "round_trip"
    with warnings.catch_warnings():
        # pandas cuts rows that are longer than the header, with this warning.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path, skipinitialspace=True, keep_default_na=False, low_memory=False, **options
        )
    index = frame.iloc[:, 0]
    counts_rows = index.dtype.kind == "i" and len(index) > 1 and (index.diff()[1:] == 1).all()
    if counts_rows and not header[0].strip() and names[0] not in drop:
        raise TableError(
            f"The first column of {path} has no name and only counts the rows. Leave it out with "
            f"--drop {names[0]!r}, or write the file without it."
        )
    return frame


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _read_arrow(path: Path) -> Any:
    """Read the file format of Arrow (also called Feather), or its stream format."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        try:
            return pa.ipc.open_file(source).read_all().to_pandas()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all().to_pandas()


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npy or .npz file without pickle.

    Parameters
    ----------
    path : Path
        File to read. The array of an .npy file is called "X".

    Returns
    -------
    dict of ndarray
        Arrays by name.

    Raises
    ------
    mpda.exceptions.TableError
        If the file is damaged, is something else, or holds Python objects.
    """
    try:
        with path.open("rb") as file:  # NumPy leaves a damaged .npz open if it opens it itself
            content = np.load(file, allow_pickle=False)
            return {"X": content} if isinstance(content, np.ndarray) else dict(content)
    except OSError:
        raise
    # NumPy, zipfile and zlib raise many types of errors for a broken file.
    except Exception as error:
        raise TableError(
            f"{path} cannot be read as NumPy's {path.suffix} ({one_line(error)}): it is damaged, "
            "something else, or holds Python objects, which are refused. Save numbers, and labels "
            "as numbers or fixed-width strings."
        ) from error
