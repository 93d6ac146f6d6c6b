"""Labels as they come from files, as an array of whole numbers, words or truth values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda._typing import Labels
from mpda.exceptions import TableError


def class_labels(column: Any, name: str) -> Labels:
    """The labels of a column; where some are missing, an array of objects with None in it."""
    values, absent = _values(column)
    known = values[~absent]
    if known.size == 0 and absent.any():
        raise TableError(f"The labels {name!r} are all missing.")
    if known.dtype == object:
        known = _of_one_kind(known)
    if known.dtype.kind == "f":
        if (known != np.rint(known)).any():
            first = known[known != np.rint(known)][0]
            raise TableError(
                f"The labels {name!r} are numbers that are not whole, such as {first:g}: that is a "
                "measurement. Labels name classes; cut the measurement into classes first."
            )
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


def _of_one_kind(known: Labels) -> Labels:
    """Objects as truth values or numbers if all are such, else as words."""
    kinds = {type(each) for each in known}
    for kind in (bool, int, float):
        if kinds == {kind}:
            return known.astype(kind)
    return known.astype(str)


def _values(column: Any) -> tuple[Any, Any]:
    """The values as an array, and which are missing."""
    if hasattr(column, "isna"):  # of pandas
        absent = column.isna().to_numpy(dtype=bool)
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iufb" and isinstance(column.dtype, np.dtype):
            return column.to_numpy(), absent
        if kind in "iufb":  # numbers of pandas, with a mask
            return column.to_numpy(dtype=object), absent
        return np.array(column.astype(object), dtype=object), absent
    values = np.asarray(column)
    if values.dtype.kind == "S":
        values = values.astype(str)
    return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
