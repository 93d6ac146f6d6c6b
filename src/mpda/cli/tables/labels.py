"""Class labels from a column of a table: integers, words or booleans.

Labels of CSV files are read as words, so that "007" and "NA" stay what they are; words that are all
integers or all booleans become such.
"""

import re
from typing import Any

import numpy as np

from mpda._lib.array_types import Labels
from mpda.exceptions import TableError
from mpda.io.error_text import one_line

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
    import pandas as pd

    is_bytes = isinstance(column, np.ndarray) and column.dtype.kind == "S"
    values = pd.Series(np.char.decode(column) if is_bytes else column).astype(object)
    is_missing = (values.isna() | (values.astype(str) == "")).to_numpy()
    present = values[~is_missing].tolist()
    if is_missing.any() and not present:
        raise TableError(f"The labels {name!r} are all missing.")
    kinds = set(map(type, present))
    if kinds & {list, dict, tuple, set, np.ndarray, complex}:
        found = one_line(present[0], 40)
        raise TableError(f"The labels {name!r} must be words or whole numbers, not {found}.")
    is_plain = kinds in ({bool}, {int}, {float})
    labels = np.array(present) if is_plain else np.array([str(item) for item in present], dtype=str)
    labels = _parse_words(labels) if as_text and labels.dtype.kind == "U" else labels
    _check_no_measurements(labels, name)
    labels = labels.astype(np.int64) if labels.dtype.kind == "f" else labels
    if not is_missing.any():
        return labels
    values[is_missing] = None
    values[~is_missing] = labels.tolist()
    return values.to_numpy()


def _parse_words(words: Labels) -> Labels:
    """Convert words to booleans or integers if all of them are such and read the same again."""
    distinct = np.unique(words)
    if set(distinct) <= {"True", "False"}:
        return np.asarray(words == "True")
    # All with ".0" or all without: "1" and "1.0" in one column are two words, perhaps two classes.
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
    is_large = (np.abs(numbers) >= 2.0**63) & (labels.dtype.kind == "f")  # beyond int64
    wrong = numbers[np.isfinite(numbers) & ((numbers != np.rint(numbers)) | is_large)]
    if wrong.size:
        raise TableError(
            f"The labels {name!r} are numbers that are not whole or too large, such as "
            f"{wrong[0]:g}: that is a measurement. Labels name classes; divide it into classes."
        )
