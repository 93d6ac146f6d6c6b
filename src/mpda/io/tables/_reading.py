"""From a file to samples and labels, with what is wrong said by column and row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Bools, Labels
from mpda._lib.atomic_write import check_plain_file
from mpda.exceptions import TableError
from mpda.io.tables._array_files import of_array, of_arrays
from mpda.io.tables._frames import FRAMES, read_frame
from mpda.io.tables._labels import class_labels
from mpda.io.tables._table import Table
from mpda.io.tables._words import listed, named_in, near
from mpda.io.unpacked import one_line

KINDS = (*FRAMES, ".npy", ".npz")


def read_table(
    path: Path,
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
    skip_missing: bool = False,
) -> Table:
    """The samples of a file.

    Parameters
    ----------
    path : Path
        Its ending says what it is, one of ``KINDS``; CSV and TSV may be compressed (.gz).
    label : str, default=None
        The column of the labels; of an .npz the array, where None means "y" if it is there; of an
        .npy the number of a column (-1 for the last), or another .npy.
    drop : names of columns to leave out
    features : names of columns, default=None
        The features, in this order; None takes all columns that are left.
    skip_missing : bool, default=False
        Whether rows with missing values are left out; else these are refused.

    Raises
    ------
    TableError
        In one line that names the file, whatever is wrong with it. A file that says it needs more
        memory than 100 times its size, and more than 128 MiB, is refused before it is unpacked;
        reading takes up to four times what is allowed.
    """
    kind = _kind(path)
    with _refusals_that_name(path, kind):
        return _checked(path, kind, label, drop, features, skip_missing=skip_missing)


@contextmanager
def _refusals_that_name(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except TableError as error:
        said = str(error)
        raise TableError(said if str(path) in said else f"{path}: {said}") from error.__cause__
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or one_line(error)}).") from error
    # pandas and pyarrow have many errors for a broken file, and more for odd columns.
    except Exception as error:
        said = one_line(error) or type(error).__name__
        raise TableError(f"{path} cannot be read as {kind[1:]} ({said}).") from error


def _checked(
    path: Path,
    kind: str,
    label: str | None,
    drop: Sequence[str],
    features: Sequence[str] | None,
    *,
    skip_missing: bool,
) -> Table:
    """The samples, if there are any and none has a value that is missing or infinite."""
    if kind == ".npy":
        table = of_array(path, label)
    elif kind == ".npz":
        table = of_arrays(path, label)
    else:
        table = _of_frame(path, kind, label, drop, features)
    if kind in (".npy", ".npz") and drop:
        raise TableError(f"{path} has no names of columns, so --drop has no meaning for it.")
    table = _without_missing(table) if skip_missing else table
    if len(table.X) == 0:
        raise TableError(f"{path} has no rows.")
    if table.X.shape[1] == 0:
        raise TableError(f"{path} has no columns beside the labels, so there are no features.")
    _refuse_not_finite(table, can_drop=features is None and kind in FRAMES)
    return table


def is_frame(path: Path) -> bool:
    """Whether the name of a file says that it is a table with named columns."""
    return _named_kind(path) in FRAMES


def _named_kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] in ([".csv"], [".tsv"]):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def columns_of(path: Path) -> str:
    """What a file has that could be labels, in words."""
    kind = _kind(path)
    if kind in (".npy", ".npz"):
        return "columns without names: give a number, -1 for the last, or an .npy with the labels"
    with _refusals_that_name(path, kind):
        return f"the columns {listed(list(read_frame(path, kind, None).columns), most=20)}"


def _kind(path: Path) -> str:
    kind = _named_kind(path)
    if path.is_dir():
        raise TableError(f"{path} is a directory; name one file, {', '.join(KINDS)}.")
    if kind not in KINDS:
        raise TableError(
            f"{path} ends in {kind or 'nothing'}, which says nothing about what it is; files that "
            f"are understood end in {', '.join(KINDS)}."
        )
    try:
        if not path.exists():
            raise TableError(f"{path} does not exist.{near(path.name, _siblings(path))}")
        check_plain_file(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or one_line(error)}).") from error
    return kind


def _siblings(path: Path) -> list[str]:
    folder = path.parent
    return [each.name for each in folder.iterdir()] if folder.is_dir() else []


def _of_frame(
    path: Path, kind: str, label: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> Table:
    frame = read_frame(path, kind, label, drop, features)
    names = list(frame.columns)
    drop = named_in(drop, names)
    for name, option in [(label, "--label"), *((name, "--drop") for name in drop)]:
        if name is not None and name not in names:
            raise TableError(
                f"{option}: {path} has no column {name!r}; it has {listed(names)}."
                f"{near(name, names)}"
            )
    if features is None:
        features = [name for name in names if name != label and name not in drop]
    missing = [name for name in features if name not in names]
    if missing:
        raise TableError(
            f"{path} has no column {listed(missing)}, which the model was fitted with; it has "
            f"{listed(names)}."
        )
    others = {n: frame[n] for n in names if n not in features and n != label and n not in drop}
    y = (
        None
        if label is None
        else class_labels(frame[label], label, as_text=kind in (".csv", ".tsv"))
    )
    X = _numbers(frame, list(features))
    rows = np.arange(1, len(frame) + 1)
    return Table(path.name, X, y, label, tuple(features), rows, others)


def _numbers(frame: Any, features: list[str]) -> Array:
    """The columns as one array of floats; those that are no numbers are named."""
    import pandas as pd

    columns, wrong = {}, []
    for name in features:
        column = frame[name]
        if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
            columns[name] = column
            continue
        words = column.dtype == object or pd.api.types.is_string_dtype(column)
        read = pd.to_numeric(column, errors="coerce") if words else None
        if read is None or (read.isna() & ~column.isna()).any():
            wrong.append(_first_word(name, column, read))
        else:
            columns[name] = read
    if wrong:
        raise TableError(
            f"These columns are not numbers: {listed(wrong, quoted=False)}. Leave them out with "
            "--drop NAME, or turn them into numbers (for a category, one column of 0 and 1 for "
            "each value)."
        )
    types = [np.dtype(_plain(column.dtype)) for column in columns.values()]
    dtype = np.float32 if types and all(each == np.float32 for each in types) else np.float64
    made = pd.DataFrame(columns, index=frame.index)
    return made.to_numpy(dtype=dtype, na_value=np.nan) if columns else np.empty((len(frame), 0))


def _plain(dtype: Any) -> Any:
    """NumPy's type of a column of pandas, float64 where it has none."""
    return dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", np.float64)


def _first_word(name: str, column: Any, read: Any) -> str:
    """A column with the first of its values that is no number."""
    bad = ~column.isna() if read is None else read.isna() & ~column.isna()
    place = int(np.flatnonzero(bad.to_numpy())[0]) if bad.any() else 0
    return f"{name!r:.80} (row {place + 1}: {one_line(column.iloc[place], 40)})"


def _without_missing(table: Table) -> Table:
    kept = ~np.isnan(table.X).any(axis=1)
    if table.y is not None:
        kept &= ~_no_label(table.y)
    if kept.all():
        return table
    return replace(
        table,
        X=table.X[kept],
        y=None if table.y is None else _plain_labels(table.y[kept]),
        rows=table.rows[kept],
        others={name: column[kept] for name, column in table.others.items()},
    )


def _no_label(y: Labels) -> Bools:
    return np.array([each is None for each in y], dtype=bool)


def _plain_labels(y: Labels) -> Labels:
    """Labels of which none is missing, in the type that they have."""
    return np.array(y.tolist()) if y.dtype == object else y


def _refuse_not_finite(table: Table, *, can_drop: bool) -> None:
    columns = "leave the column out with --drop, or " if can_drop else "or leave out "
    advice = f"Fill them in, {columns}the rows with --skip-missing."
    if table.y is not None and _no_label(table.y).any():
        rows = table.rows[_no_label(table.y)]
        raise TableError(
            f"{len(rows)} rows have no label in {table.label!r}, the first is row {rows[0]}. Give "
            "them one, or leave them out with --skip-missing."
        )
    missing = np.isnan(table.X)
    if missing.any():
        raise TableError(f"Values are missing in {_where(table, missing)}. {advice}")
    infinite = np.isinf(table.X)
    if infinite.any():
        raise TableError(
            f"Values are infinite in {_where(table, infinite)}. Correct them"
            + (", or leave the column out with --drop." if can_drop else ".")
        )


def _where(table: Table, marks: Bools) -> str:
    """The columns with marks, how many each has, and the first row."""
    said = []
    for column in np.flatnonzero(marks.any(axis=0)):
        name = f"{table.features[column]!r:.80}" if table.features else f"column {column}"
        rows = table.rows[marks[:, column]]
        said.append(f"{name} ({len(rows)}, the first in row {rows[0]})")
    return listed(said, quoted=False)
