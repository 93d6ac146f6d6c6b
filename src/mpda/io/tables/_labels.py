"""Labels as they come from files, as an array of whole numbers, words or truth values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mpda._lib.array_types import Labels
from mpda.exceptions import TableError
from mpda.io.unpacked import check_unpacked

_MEASUREMENT = (
    "The labels {name} are numbers that are not whole, such as {first:g}: that is a measurement. "
    "Labels name classes; cut the measurement into classes first."
)
# Whole numbers as they are written, of less than 64 bits.
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


def class_labels(column: Any, name: str, *, as_text: bool = False) -> Labels:
    """The labels of a column; where some are missing, an array of objects with None in it.

    as_text : whether it comes from a file that has no types, so that 1 may be a number
    """
    values, absent = _values(column)
    known = values[~absent]
    if known.size == 0 and absent.any():
        raise TableError(f"The labels {name!r} are all missing.")
    if known.dtype == object:
        known = _of_one_kind(known)
        known = _plain_words(known) if as_text and known.dtype.kind == "U" else known
    if known.dtype.kind == "U":
        _refuse_no_text(known, name)
        _refuse_measurements(known, name)
    if known.dtype.kind == "f":
        if np.abs(known).max(initial=0.0) >= 2.0**63:
            raise TableError(f"The labels {name!r} are numbers that are too large for classes.")
        if (known != np.rint(known)).any():
            first = known[known != np.rint(known)][0]
            raise TableError(_MEASUREMENT.format(name=repr(name), first=first))
        known = known.astype(np.int64)
    if known.dtype.kind not in "biuU":
        raise TableError(
            f"The labels {name!r} should be words or whole numbers, not {known.dtype}."
        )
    if not absent.any():
        return known
    labels = np.full(len(values), None, dtype=object)
    labels[~absent] = known.tolist()
    return labels


def _refuse_no_text(words: Labels, name: str) -> None:
    """Halves of characters, which nothing could be written with."""
    try:
        "".join(np.unique(words)).encode()
    except UnicodeEncodeError as error:
        raise TableError(f"The labels {name!r} are not all text.") from error


def _refuse_measurements(words: Labels, name: str) -> None:
    """Words that are all numbers, and not all whole."""
    try:
        numbers = np.unique(words).astype(float)
    except ValueError:
        return
    parts = numbers[np.isfinite(numbers) & (numbers != np.rint(numbers))]
    if parts.size:
        raise TableError(_MEASUREMENT.format(name=repr(name), first=parts[0]))


def _of_one_kind(known: Labels) -> Labels:
    """Objects as truth values or numbers if all are such, else as words."""
    kinds = {type(each) for each in known}
    if kinds == {int} and max(map(abs, known)) < 2**63:
        return known.astype(np.int64)
    if kinds in ({bool}, {float}):
        return known.astype(next(iter(kinds)))
    if kinds & {list, dict, tuple, np.ndarray, set}:
        return known
    words = [str(each) for each in known]
    # Every word takes as much room as the longest.
    longest = max(map(len, words), default=0)
    check_unpacked(4 * longest * len(words), sum(map(len, words)) + len(words))
    return np.array(words, dtype=str)


def _plain_words(known: Labels) -> Labels:
    """Words as whole numbers or truth values where all are such and could be written back."""
    distinct = np.unique(known)
    if set(distinct) <= {"True", "False"}:
        return known == "True"
    for ending in ("", ".0"):
        if all(_WHOLE.fullmatch(each.removesuffix(ending)) for each in distinct) and all(
            each.endswith(ending) for each in distinct
        ):
            return np.array([int(each.removesuffix(ending)) for each in known], dtype=np.int64)
    return known


def _values(column: Any) -> tuple[Any, Any]:
    """The values as an array, and which are missing."""
    if hasattr(column, "isna"):  # of pandas
        absent = column.isna().to_numpy(dtype=bool)
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iufb" and isinstance(column.dtype, np.dtype):
            return column.to_numpy(), absent
        if kind in "iufb":  # numbers of pandas, with a mask
            return column.to_numpy(dtype=object), absent
        found = np.array(column.astype(object), dtype=object)
        # In text, an empty word is a missing one.
        return found, absent | np.array([isinstance(v, str) and v == "" for v in found], dtype=bool)
    values = np.asarray(column)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
