"""Class labels from a column of a table: integers, words or booleans.

Labels of CSV files are read as words, so that "007" and "NA" stay what they are; words that are all
integers or all booleans become such.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mpda._lib.array_types import Bools, Labels
from mpda.exceptions import TableError

# Integers in canonical form (no leading zeros) with at most 18 digits, which fit into int64.
_INTEGER = re.compile(r"(0|-?[1-9]\d{0,17})(\.0)?")


def class_labels(column: Any, name: str, *, as_text: bool = False) -> Labels:
    """Convert a column to class labels.

    Parameters
    ----------
    column : pandas.Series or ndarray of shape (n_samples,)
        Labels of any type.
    name : str
        Name of the column, for error messages.
    as_text : bool, default=False
        Treat words as untyped text of a CSV file, where "1" may be a number.

    Returns
    -------
    ndarray of shape (n_samples,)
        Labels of dtype bool, int64, unsigned or str. If some are missing, an array of objects with
        None in their place.

    Raises
    ------
    mpda.exceptions.TableError
        If the labels are all missing, measurements (fractions) or of another type.
    """
    values, is_missing = _label_values(column)
    present = values[~is_missing]
    if is_missing.all() and is_missing.any():
        raise TableError(f"The labels {name!r} are all missing.")
    if present.dtype == object:
        present = _infer_dtype(present)
    if present.dtype.kind == "U" and as_text:
        present = _parse_words(present)
    if present.dtype.kind in "fU":
        _check_no_measurements(present, name)
    if present.dtype.kind == "f":
        present = present.astype(np.int64)
    if present.dtype.kind not in "biuU":
        raise TableError(
            f"The labels {name!r} must be words or whole numbers, not {present.dtype}."
        )
    if not is_missing.any():
        return present
    labels = np.full(len(values), None, dtype=object)
    labels[~is_missing] = present.tolist()
    return labels


def _label_values(column: Any) -> tuple[Labels, Bools]:
    """Return the values as an array, and a mask of missing ones."""
    if isinstance(column, np.ndarray):
        values = np.char.decode(column, "utf-8") if column.dtype.kind == "S" else column
        is_nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        return values, is_nan
    is_numeric = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
    values = column.to_numpy() if is_numeric else np.array(column.astype(object), dtype=object)
    is_missing = column.isna().to_numpy(dtype=bool)
    return values, is_missing if is_numeric else is_missing | np.asarray(column.astype(str) == "")


def _infer_dtype(values: Labels) -> Labels:
    """Convert objects to booleans, integers or floats if all are such, else to words."""
    kinds = {type(value) for value in values}
    if kinds in ({bool}, {int}, {float}):
        return np.array(values.tolist())
    is_container = kinds & {list, dict, tuple, set, np.ndarray}
    return values if is_container else np.array([str(value) for value in values], dtype=str)


def _parse_words(words: Labels) -> Labels:
    """Convert words to booleans or integers if all of them are such and read the same again."""
    distinct = np.unique(words)
    if set(distinct) <= {"True", "False"}:
        return np.asarray(words == "True")
    matches = [_INTEGER.fullmatch(word) for word in distinct]
    if all(matches) and len({match[2] for match in matches if match}) == 1:
        return words.astype(np.float64 if matches[0] and matches[0][2] else np.int64)
    return words


def _check_no_measurements(labels: Labels, name: str) -> None:
    """Refuse numbers with fractions, whether they are floats or words."""
    try:
        numbers = np.unique(labels).astype(float)
    except ValueError:
        return
    fractions = numbers[np.isfinite(numbers) & (numbers != np.rint(numbers))]
    if fractions.size:
        raise TableError(
            f"The labels {name!r} are numbers that are not whole, such as {fractions[0]:g}: that "
            "is a measurement. Labels name classes; divide the measurement into classes first."
        )
    if labels.dtype.kind == "f" and np.abs(numbers).max(initial=0.0) >= 2.0**63:
        raise TableError(f"The labels {name!r} are numbers that are too large for classes.")
