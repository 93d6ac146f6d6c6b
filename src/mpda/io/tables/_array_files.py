"""Samples in NumPy's own files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda.exceptions import TableError
from mpda.io.array_files import ArrayArchive, read_npy
from mpda.io.tables._labels import class_labels
from mpda.io.tables._table import Table
from mpda.io.tables._words import listed
from mpda.io.unpacked import one_line

# Samples become numbers of eight bytes.
_WIDTH = 8


def of_array(path: Path, label: str | None) -> Table:
    X = _matrix(_array(path), path)
    rows = np.arange(1, len(X) + 1)
    if label is None:
        return Table(path.name, X, None, None, None, rows, {})
    if label.lstrip("+-").isdigit():
        column = int(label)
        if not -X.shape[1] <= column < X.shape[1]:
            raise TableError(
                f"--label {label}: {path} has {X.shape[1]} columns, numbered from 0 (-1 is the "
                "last)."
            )
        y = class_labels(X[:, column], f"column {label}")
        return Table(path.name, np.delete(X, column, axis=1), y, label, None, rows, {})
    other = Path(label)
    if other.suffix != ".npy" or not other.exists():
        raise TableError(
            f"--label {label}: for an .npy give the number of a column (-1 for the last) or the "
            "path of an .npy with the labels."
        )
    labels = _array(other)
    if labels.shape not in ((len(X),), (len(X), 1)):
        raise TableError(
            f"--label: {other} has the shape {labels.shape}, but {path} has {len(X)} samples."
        )
    return Table(path.name, X, class_labels(labels.ravel(), label), label, None, rows, {})


def of_arrays(path: Path, label: str | None) -> Table:
    arrays = _arrays(path)
    if "X" in arrays:
        name = "X"
    else:
        wide = [key for key, value in arrays.items() if value.ndim == 2 and key != label]
        if len(wide) != 1:
            raise TableError(
                f"{path} has the arrays {listed(list(arrays))}; the samples should be called X."
            )
        name = wide[0]
    X = _matrix(arrays[name], path)
    key = label if label is not None else ("y" if "y" in arrays else None)
    if key is not None and key not in arrays:
        raise TableError(f"--label: {path} has no array {key!r}; it has {listed(list(arrays))}.")
    y = None
    if key is not None:
        if arrays[key].shape not in ((len(X),), (len(X), 1)):
            raise TableError(
                f"{path}: {key} has the shape {arrays[key].shape}, but {name} has {len(X)} samples."
            )
        y = class_labels(arrays[key].ravel(), key)
    return Table(path.name, X, y, key, None, np.arange(1, len(X) + 1), {})


def _array(path: Path) -> Array:
    with _refused_by_name(path), path.open("rb") as file:
        return read_npy(file, width=_WIDTH)


def _arrays(path: Path) -> dict[str, Array]:
    with _refused_by_name(path), path.open("rb") as file:
        archive = ArrayArchive(file)
        return dict(zip(archive.names, archive.arrays(*archive.names, width=_WIDTH), strict=True))


@contextmanager
def _refused_by_name(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    # A broken zip, a short file, a pickle, an impossible header: said in many ways.
    except Exception as error:
        raise TableError(
            f"{path} cannot be read as NumPy's {path.suffix} ({one_line(error)}): it is damaged, "
            "something else, or holds Python objects, which are refused. Save numbers, and labels "
            "as numbers or fixed-width strings."
        ) from error


def _matrix(X: Any, path: Path) -> Array:
    if X.ndim != 2:
        raise TableError(
            f"{path}: samples should be the rows of a table, but the array has the shape {X.shape}."
            + (" X.reshape(len(X), -1) flattens images." if X.ndim > 2 else "")
        )
    if X.dtype.kind not in "biuf":
        raise TableError(f"{path}: samples should be real numbers, but the array is of {X.dtype}.")
    if X.size == 0:  # a shape costs nothing, and may say anything
        raise TableError(f"{path} has no {'columns' if len(X) else 'rows'}.")
    with np.errstate(over="ignore"):  # what is infinite then is said by its place
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
