"""Check of a table before a fit: columns that are probably no features, and unusual labels.

Each finding is a sentence with what to do. Nothing is changed: the user decides.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.cli.tables.columns import is_date_text
from mpda.cli.tables.reading import Table
from mpda.io.error_text import count_noun, join_names

# Labels with more values than this, all whole numbers, are rather a measurement.
_MANY_LABELS = 100
# Ratio of standard deviations above which the largest features hide the others.
_SCALE_RATIO = 1000.0
# Distinct values that a column of subjects has at least; with fewer it may be a category.
_MIN_SUBJECTS = 8
# The same for a column that is named after subjects; with two values it may be a yes or no.
_MIN_NAMED_SUBJECTS = 3
# Fewer rows may be in order by chance.
_MIN_ROWS = 10
# More columns with a number of its own in each row are counts or measurements.
_MAX_IDS = 2
# One row in so many may repeat an id: typing errors, or a sample that was measured twice.
_ROWS_PER_REPEATED_ID = 100
# Samples of each value of a column that the label determines; fewer may be chance.
_MIN_REPEATS = 5
# Width of the values of a class, relative to the gaps between classes, up to which a column is a
# copy of the label with noise. Measurements of one class vary more.
_COPY_WIDTH = 1e-3
# Days as 20240131, and seconds since 1970 from 2001 to 2065, also in thousandths and finer parts.
_DAYS, _SECONDS = (19000101, 21001231), (1e9, 3e9)
_PARTS_OF_SECONDS = (1.0, 1e3, 1e6, 1e9)
# Names of columns that number subjects or rows.
_SUBJECT = re.compile(
    r"(subj|subject|patient|participant|speaker|person|individual|animal|user|customer|donor|object|"
    r"session|batch|plate|run|group|site|id)s?([ _.-]?(id|no|nr|num|number|code))?",
    re.IGNORECASE,
)


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
    if table.embedding is not None:
        return [*_check_vectors(table), *_check_labels(table), *table.describe_skipped()]
    X, names = table.X, _list_names(table)
    columns: dict[str, list[str]] = {kind: [] for kind in _FINDINGS}
    for j, (name, values, classes) in enumerate(_iter_columns(table)):
        if j in table.categories:
            kind = _find_text_kind(values, table.categories[j], classes)
        else:
            kind = _find_kind(name, values, classes)
        if kind is not None:
            columns[kind].append(name)
    if len(columns["id"]) > min(_MAX_IDS, (len(names) - 1) / 2):
        columns["id"] = []
    is_named = table.features is not None
    sentences = [
        f"{join_names(columns[kind], quoted=is_named)}: {text}"
        for kind, text in _FINDINGS.items()
        if columns[kind]
    ]
    numbers = [j for j in range(X.shape[1]) if j not in table.categories]
    sentences += _check_scales(X[:, numbers], [names[j] for j in numbers], is_named)
    sentences += _check_missing(table)
    return [*sentences, *_check_labels(table), *table.describe_skipped()]


def _check_vectors(table: Table) -> list[str]:
    """Say which columns next to vectors are no features."""
    names = [name for name in table.others if name != table.text]
    shown = "" if table.text is None else f"; the report shows {table.text!r:.80}"
    if not names:
        return []
    return [
        f"the features are the vectors in {table.embedding!r:.80}, and no other column is one: "
        f"{join_names(names)}{shown}"
    ]


def find_label_copies(table: Table) -> list[str]:
    """Return the columns that have one value for each class, but for tiny noise.

    Parameters
    ----------
    table : Table
        Samples with labels.

    Returns
    -------
    list of str
        Names of the columns, or "column 0" and so on where they have no names.
    """
    if table.embedding is not None:  # no number of an embedding is one
        return []
    return [name for name, values, codes in _iter_columns(table) if _is_copy(values, codes)]


def _list_names(table: Table) -> tuple[str, ...]:
    return table.features or tuple(f"column {i}" for i in range(table.n_features))


def _iter_columns(table: Table) -> Iterator[tuple[str, Floats, Ints]]:
    """Yield the name of each column, its values that are not missing, and their classes."""
    codes = np.unique(table.labels, return_inverse=True)[1]
    for name, column in zip(_list_names(table), table.X.T, strict=True):
        is_present = ~np.isnan(column)
        yield name, column[is_present], codes[is_present]


_FINDINGS = {
    "copy": "one value for each class; a copy of the label makes all methods look perfect (--drop)",
    "indicator": "each class has one value; a column made from the label makes methods look "
    "too good (--drop)",
    "code": "each value belongs to one class; a code that is given with the class makes all "
    "methods look perfect (--drop)",
    "subject": "probably the number of a subject, since each value belongs to one class (--groups "
    "keeps a subject in one fold, --drop leaves the column out)",
    "session": "probably the number of a subject or session, by its name or because the rows of a "
    "value follow each other (--groups keeps a subject in one fold, --drop leaves the column out)",
    "name": "more than half of the rows have a text of their own, probably a name (--drop)",
    "row": "rows are numbered, which is probably no feature (--drop)",
    "id": "every row has a whole number of its own, with few exceptions: probably an id (--drop)",
    "date": "probably a date, which new samples will exceed (--drop)",
    "constant": "the same for all samples, without effect",
}


def _find_kind(name: str, values: Floats, codes: Ints) -> str | None:
    """Return the key of a finding about one column, None if it is an ordinary feature."""
    distinct, groups = np.unique(values, return_inverse=True)
    if len(distinct) <= 1:
        return "constant"
    if _is_copy(values, codes):
        return "copy"
    n = len(values)
    if _is_indicator(groups, codes):
        return "indicator"
    if _is_date(distinct):
        return "date"
    if (distinct != np.round(distinct)).any():
        return None
    steps = np.diff(values)
    if n >= _MIN_ROWS and ((steps > 0).all() or (steps < 0).all()):
        return "row"
    if n >= _MIN_ROWS and _is_id(name, n, len(distinct)):
        return "id"
    if _names_subjects(groups, codes):
        return "subject"
    if _is_code(groups, codes):
        return "code"
    return "session" if _is_session(name, values, len(distinct)) else None


def _is_copy(values: Floats, codes: Ints) -> bool:
    """Return whether a column has one value for each class, but for tiny noise."""
    order = np.argsort(codes, kind="stable")
    starts = np.unique(codes[order], return_index=True)[1]
    if not 1 < len(starts) < len(values):
        return False
    low = np.minimum.reduceat(values[order], starts)
    high = np.maximum.reduceat(values[order], starts)
    by_value = np.argsort(low)
    gap = (low[by_value][1:] - high[by_value][:-1]).min()
    return bool(gap > 0.0 and (high - low).max() <= _COPY_WIDTH * gap)


def _is_indicator(groups: Ints, codes: Ints) -> bool:
    """Return whether the class determines the value, as for a yes or no about one class."""
    n_classes, counts = len(np.unique(codes)), np.bincount(groups)
    is_frequent = 1 < len(counts) < n_classes and counts.min() >= _MIN_REPEATS
    return bool(is_frequent) and _count_pairs(groups, codes) == n_classes


def _is_id(name: str, n_rows: int, n_distinct: int) -> bool:
    """Return whether nearly all rows have a number of their own; half of them, by the name."""
    if _SUBJECT.fullmatch(name) and n_distinct > n_rows / 2:
        return True
    return n_rows - n_distinct <= n_rows // _ROWS_PER_REPEATED_ID


def _is_code(groups: Ints, codes: Ints) -> bool:
    """Return whether the value determines the class, by numbers without order.

    Values of a measurement that separates the classes are in order: one range for each class.
    """
    if not _determines_class(groups, codes):
        return False
    class_of_value = np.empty(groups.max() + 1, dtype=codes.dtype)
    class_of_value[groups] = codes
    n_ranges = 1 + np.count_nonzero(np.diff(class_of_value))
    return bool(n_ranges > len(np.unique(codes)))


def _determines_class(groups: Ints, codes: Ints) -> bool:
    """Return whether each of a few values belongs to one class."""
    n_values = int(groups.max()) + 1
    return n_values * _MIN_REPEATS <= len(groups) and _count_pairs(groups, codes) == n_values


def _is_date(distinct: Floats) -> bool:
    """Return whether all values are days such as 20240131, or times since 1970."""
    low, high = distinct[0], distinct[-1]
    if any(_SECONDS[0] * unit <= low and high <= _SECONDS[1] * unit for unit in _PARTS_OF_SECONDS):
        return True
    if not (_DAYS[0] <= low and high <= _DAYS[1]) or (distinct != np.round(distinct)).any():
        return False
    months, days = (distinct // 100) % 100, distinct % 100
    return bool(((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())


def _find_text_kind(values: Floats, texts: Labels, codes: Ints) -> str | None:
    """Return the key of a finding about a column of categories, given by their numbers."""
    distinct, groups = np.unique(values, return_inverse=True)
    if len(distinct) <= 1:
        return "constant"
    if _is_copy(values, codes):
        return "copy"
    if all(map(is_date_text, texts)):
        return "date"
    if _is_indicator(groups, codes):
        return "indicator"
    if _names_subjects(groups, codes):
        return "subject"
    if _determines_class(groups, codes):
        return "code"
    return "name" if len(distinct) > max(len(values) / 2, _MIN_SUBJECTS) else None


def _is_session(name: str, values: Floats, n_distinct: int) -> bool:
    """Return whether a column numbers subjects that may occur in all classes."""
    if n_distinct > len(values) / 2:
        return False
    if _SUBJECT.fullmatch(name):
        return n_distinct >= _MIN_NAMED_SUBJECTS
    if n_distinct < _MIN_SUBJECTS:
        return False
    # In a feature that is not sorted, equal values do not all follow each other.
    return int(np.count_nonzero(np.diff(values))) + 1 == n_distinct


def _names_subjects(groups: Ints, codes: Ints) -> bool:
    """Return whether many values, all of them repeated, belong to one class each."""
    n_values = int(groups.max()) + 1
    is_repeated = _MIN_SUBJECTS <= n_values <= len(groups) / 2
    is_many = n_values >= 2 * (codes.max() + 1)
    return is_repeated and bool(is_many) and _count_pairs(groups, codes) == n_values


def _count_pairs(groups: Ints, codes: Ints) -> int:
    """Count pairs of value and class: as many as values if every value belongs to one class."""
    return len(np.unique(groups * (codes.max() + 1) + codes))


def _check_missing(table: Table) -> list[str]:
    names, counts = _list_names(table), np.isnan(table.X).sum(axis=0)
    is_text = np.isin(np.arange(counts.size), list(table.categories))
    sentences = []
    for mask, noun, text in (
        (~is_text, "value", "missing and replaced (--impute)"),
        (is_text, "text", "missing, which is a value of its own (--one-hot)"),
    ):
        if n_missing := int(counts[mask].sum()):
            columns = [names[j] for j in np.flatnonzero(mask & (counts > 0)).tolist()]
            listed = join_names(columns, quoted=table.features is not None)
            verb = "is" if n_missing == 1 else "are"
            sentences.append(f"{count_noun(n_missing, noun)} {verb} {text}, in {listed}")
    return sentences


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


def _check_labels(table: Table) -> list[str]:
    return [*_check_spelling(table.labels), *_check_measurement(table.labels)]


def _check_spelling(labels: Labels) -> list[str]:
    """Find labels that differ only in spaces or capitals, and are two classes all the same."""
    spellings: dict[str, list[str]] = {}
    for label in np.unique(labels).tolist():
        spellings.setdefault(" ".join(str(label).split()).casefold(), []).append(str(label))
    pairs = [" and ".join(map(repr, names)) for names in spellings.values() if len(names) > 1]
    if not pairs:
        return []
    listed = join_names(pairs, quoted=False)
    return [f"labels that differ only in spaces or capitals are different classes: {listed}"]


def _check_measurement(labels: Labels) -> list[str]:
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
