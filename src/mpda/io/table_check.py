"""Check of a table before a fit: columns that are probably no features, and unusual labels.

Each finding is a sentence with what to do. Nothing is changed: the user decides.
"""

from collections.abc import Sequence

import numpy as np

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.io.error_text import join_names
from mpda.io.tables import Table

# Labels with more values than this, all whole numbers, are rather a measurement.
_MANY_LABELS = 100
# Ratio of standard deviations above which the largest features hide the others.
_SCALE_RATIO = 1000.0
# Distinct values that a column of subjects has at least; with fewer it may be a category.
_MIN_SUBJECTS = 8
# Fewer rows may be in order by chance.
_MIN_ROWS = 10
# Days as 20240131, and seconds since 1970 from 2001 to 2065.
_DAYS, _SECONDS = (19000101, 21001231), (1e9, 3e9)


def check_table(table: Table) -> list[str]:
    """Look for columns and labels that are probably a mistake.

    Parameters
    ----------
    table : Table
        Samples with labels.

    Returns
    -------
    list of str
        Findings, most serious first; empty if there are none.
    """
    X, codes = table.X, np.unique(table.labels, return_inverse=True)[1]
    names = table.features or tuple(f"column {i}" for i in range(X.shape[1]))
    columns: dict[str, list[str]] = {kind: [] for kind in _FINDINGS}
    for j, name in enumerate(names):
        is_present = ~np.isnan(X[:, j])
        find = _find_text_kind if j in table.categories else _find_kind
        kind = find(X[is_present, j], codes[is_present])
        if kind is not None:
            columns[kind].append(name)
    is_named = table.features is not None
    sentences = [
        f"{join_names(columns[kind], quoted=is_named)}: {text}"
        for kind, text in _FINDINGS.items()
        if columns[kind]
    ]
    numbers = [j for j in range(X.shape[1]) if j not in table.categories]
    sentences += _check_scales(X[:, numbers], [names[j] for j in numbers], is_named)
    sentences += _check_missing(X, names, is_named)
    sentences += _check_labels(table.labels)
    if table.n_skipped:
        total = len(X) + table.n_skipped
        sentences.append(f"{table.n_skipped} of {total} rows have missing values and are left out")
    return sentences


_FINDINGS = {
    "copy": "one value for each class; a copy of the label makes all methods look perfect (--drop)",
    "subject": "probably the number of a subject, since each value belongs to one class (--groups "
    "keeps a subject in one fold, --drop leaves the column out)",
    "name": "more than half of the rows have a text of their own, probably a name (--drop)",
    "row": "rows are numbered, which is probably no feature (--drop)",
    "date": "probably a date, which new samples will exceed (--drop)",
    "constant": "the same for all samples, without effect",
}


def _find_kind(values: Floats, codes: Ints) -> str | None:
    """Return the key of a finding about one column, None if it is an ordinary feature."""
    distinct, groups = np.unique(values, return_inverse=True)
    if len(distinct) == 1:
        return "constant"
    n_classes, n = codes.max() + 1, len(values)
    n_pairs = _count_pairs(groups, codes)
    if n_pairs == len(distinct) == n_classes:
        return "copy"
    is_whole = bool((values == np.round(values)).all())
    if not is_whole:
        return None
    low, high = distinct[0], distinct[-1]
    if _DAYS[0] <= low and high <= _DAYS[1] and len(distinct) > 1:
        months, days = (values // 100) % 100, values % 100
        if ((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all():
            return "date"
    if _SECONDS[0] <= low and high <= _SECONDS[1]:
        return "date"
    steps = np.diff(values)
    if n >= _MIN_ROWS and ((steps > 0).all() or (steps < 0).all()):
        return "row"
    return "subject" if _names_subjects(groups, codes) else None


def _find_text_kind(values: Floats, codes: Ints) -> str | None:
    """Return the key of a finding about a column of categories, given by their codes."""
    distinct, groups = np.unique(values, return_inverse=True)
    if len(distinct) == 1:
        return "constant"
    if _count_pairs(groups, codes) == len(distinct) == len(np.unique(codes)):
        return "copy"
    if _names_subjects(groups, codes):
        return "subject"
    return "name" if len(distinct) > max(len(values) / 2, _MIN_SUBJECTS) else None


def _names_subjects(groups: Ints, codes: Ints) -> bool:
    """Return whether many values, all of them repeated, belong to one class each."""
    n_values = int(groups.max()) + 1
    is_repeated = _MIN_SUBJECTS <= n_values <= len(groups) / 2
    is_many = n_values >= 2 * (codes.max() + 1)
    return is_repeated and bool(is_many) and _count_pairs(groups, codes) == n_values


def _count_pairs(groups: Ints, codes: Ints) -> int:
    """Count pairs of value and class: as many as values if every value belongs to one class."""
    return len(np.unique(groups * (codes.max() + 1) + codes))


def _check_missing(X: Floats, names: Sequence[str], is_named: bool) -> list[str]:
    counts = np.isnan(X).sum(axis=0)
    if not counts.any():
        return []
    columns = [names[j] for j in np.flatnonzero(counts).tolist()]
    return [
        f"{counts.sum()} values are missing and are replaced (--impute), in "
        f"{join_names(columns, quoted=is_named)}"
    ]


def _check_scales(X: Floats, names: Sequence[str], is_named: bool) -> list[str]:
    if X.shape[1] < 2:
        return []
    spreads = np.nanstd(X, axis=0, dtype=np.float64)
    # By values: a constant column may have a spread of rounding errors.
    spreads[np.nanmin(X, axis=0) == np.nanmax(X, axis=0)] = np.nan
    if np.isfinite(spreads).sum() < 2:
        return []
    largest, smallest = int(np.nanargmax(spreads)), int(np.nanargmin(spreads))
    if spreads[largest] < _SCALE_RATIO * spreads[smallest]:
        return []
    pair = join_names([names[largest], names[smallest]], quoted=is_named)
    return [
        f"the scales of features differ more than a thousandfold ({pair}); features are "
        "standardised if that lowers the error, or by --scale standard"
    ]


def _check_labels(labels: Labels) -> list[str]:
    if labels.dtype.kind not in "iuf":
        try:
            labels = labels.astype(float)
        except ValueError:
            return []
    n_values = len(np.unique(labels))
    if n_values <= _MANY_LABELS or not (labels == np.round(labels)).all():
        return []
    return [
        f"the label has {n_values} values, all whole numbers: it looks like a measurement, and "
        "these methods are for classes"
    ]
