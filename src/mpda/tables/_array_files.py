"""Samples in NumPy's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mpda._typing import Array
from mpda.exceptions import TableError
from mpda.tables._labels import class_labels
from mpda.tables._table import Table
from mpda.tables._words import listed


def of_array(path: Path, label: str | None) -> Table:
    X = _matrix(_loaded(path), path)
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
    labels = _loaded(other)
    if labels.shape not in ((len(X),), (len(X), 1)):
        raise TableError(
            f"--label: {other} has the shape {labels.shape}, but {path} has {len(X)} samples."
        )
    return Table(path.name, X, class_labels(labels.ravel(), label), label, None, rows, {})


def of_arrays(path: Path, label: str | None) -> Table:
    arrays = _loaded(path)
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


def _loaded(path: Path) -> Any:
    """The array of an .npy, or the arrays of an .npz by name."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return {name: found[name] for name in found.files}
    except OSError:
        raise
    # A broken zip, a short file, a pickle, an impossible header: NumPy says it in many ways.
    except Exception as error:
        raise TableError(
            f"{path} cannot be read as NumPy's {path.suffix}: it is damaged, something else, or "
            "holds Python objects, which are refused. Save numbers, and labels as numbers or "
            "fixed-width strings."
        ) from error


def _matrix(X: Any, path: Path) -> Array:
    if X.ndim != 2:
        raise TableError(
            f"{path}: samples should be the rows of a table, but the array has the shape {X.shape}."
            + (" X.reshape(len(X), -1) flattens images." if X.ndim > 2 else "")
        )
    if X.dtype.kind not in "biuf":
        raise TableError(f"{path}: samples should be real numbers, but the array is of {X.dtype}.")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
