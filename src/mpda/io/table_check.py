"""Check of a table before a fit: columns that are probably no features, and unusual labels.

Each finding is a sentence with what to do. Nothing is changed: the user decides.
"""

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
    is_constant = (X[0] == X).all(axis=0)
    found: dict[str, list[str]] = {"copy": [], "subject": [], "row": [], "date": [], "constant": []}
    for j, name in enumerate(names):
        kind = "constant" if is_constant[j] else _find_kind(X[:, j], codes)
        if kind is not None:
            found[kind].append(name)
    is_named = table.features is not None
    sentences = [
        f"{join_names(found[kind], quoted=is_named)}: {text}"
        for kind, text in _FINDINGS.items()
        if found[kind]
    ]
    sentences += _check_scales(X, is_constant, names, is_named)
    sentences += _check_labels(table.labels)
    if table.n_skipped:
        total = len(X) + table.n_skipped
        sentences.append(f"{table.n_skipped} of {total} rows have missing values and are left out")
    return sentences


_FINDINGS = {
    "copy": "one value for each class; a copy of the label makes all methods look perfect (--drop)",
    "subject": "probably the number of a subject, since each value belongs to one class (--groups "
    "keeps a subject in one fold, --drop leaves the column out)",
    "row": "rows are numbered, which is probably no feature (--drop)",
    "date": "probably a date, which new samples will exceed (--drop)",
    "constant": "the same for all samples, without effect",
}


def _find_kind(values: Floats, codes: Ints) -> str | None:
    """Return the key of a finding about one column, None if it is an ordinary feature."""
    distinct, groups = np.unique(values, return_inverse=True)
    n_classes, n = codes.max() + 1, len(values)
    # Pairs of value and class: as many as values if every value belongs to one class.
    n_pairs = len(np.unique(groups * n_classes + codes))
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
    is_repeated = len(distinct) <= n / 2
    if n_pairs == len(distinct) >= max(_MIN_SUBJECTS, 2 * n_classes) and is_repeated:
        return "subject"
    return None


def _check_scales(
    X: Floats, is_constant: Floats, names: tuple[str, ...], is_named: bool
) -> list[str]:
    spreads = np.where(is_constant, np.nan, X.std(axis=0, dtype=np.float64))
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
