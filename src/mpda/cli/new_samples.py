"""Warnings about samples that are new to a model: other labels, other groups, other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mpda.cli.messages import list_labels, shorten_label

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Floats
    from mpda.cli.tables.reading import Table

# Values of a column outside the range of the fit that are not chance, if they are most of them.
_MIN_OUTSIDE = 5


def describe_shared_groups(table: Table, fitted: Table, groups: str | None) -> list[str]:
    """Say how many groups of a test table are also in the fit.

    Parameters
    ----------
    table : Table
        Test samples.
    fitted : Table
        Samples of the fit.
    groups : str or None
        Column of the groups.

    Returns
    -------
    list of str
        One note, or none.
    """
    import numpy as np

    if fitted.groups is None or groups not in table.others:
        return []
    # A column with missing values has groups such as "3.0".
    texts = (np.asarray(values).astype(str) for values in (table.others[groups], fitted.groups))
    tested, known_groups = ({text.removesuffix(".0") for text in column} for column in texts)
    n_shared = len(tested & known_groups)
    if not n_shared:
        return []
    return [
        f"{n_shared} of {len(tested)} groups of the test table are also in the fit, so that its "
        "error is not that of new groups"
    ]


def describe_unknown_labels(table: Table, saved: Mapping[str, Any], model: Pipeline) -> list[str]:
    """Count labels that a model does not know, where new samples have labels.

    Parameters
    ----------
    table : Table
        New samples.
    saved : mapping
        Notes of the model file, with the name of the label.
    model : Pipeline
        Fitted model.

    Returns
    -------
    list of str
        One note, or none.
    """
    import numpy as np

    labels = table.y if table.y is not None else table.others.get(saved.get("label") or "")
    classes = getattr(model.steps[-1][1], "classes_", None)
    if labels is None or classes is None:
        return []
    texts, names = (
        np.array([str(label).removesuffix(".0") for label in np.asarray(values).tolist()])
        for values in (labels, classes)
    )
    is_unknown = ~np.isin(texts, [*names, "", "nan", "None"])
    if not is_unknown.any():
        return []
    return [
        f"{is_unknown.sum()} of {len(texts)} samples have classes that the model does not know: "
        f"{list_labels(np.unique(texts[is_unknown]))}"
    ]


def describe_far_values(table: Table, saved: Mapping[str, Any]) -> list[str]:
    """Describe values outside the range of a fit: by more than its width, or most of a column.

    Parameters
    ----------
    table : Table
        New samples.
    saved : mapping
        Notes of the model file.

    Returns
    -------
    list of str
        Notes; none if there is nothing to say.
    """
    import numpy as np

    from mpda.io.error_text import join_names

    if "feature_range" not in saved:  # a model of another program, or of mpda.save
        return []
    low, high = np.array(saved["feature_range"], dtype=float)
    # A feature that was constant has no width; rounding is no change of it.
    width = np.maximum(high - low, 1e-6 * np.maximum(np.abs(low), np.abs(high)))
    is_far = (low - width > table.X) | (high + width < table.X)
    rounding = 1e-6 * width
    is_outside = (low - rounding > table.X) | (high + rounding < table.X)
    counts, n_outside = is_far.sum(axis=0), is_outside.sum(axis=0)
    is_shifted = (n_outside > table.n_samples / 2) & (n_outside >= _MIN_OUTSIDE) & (counts == 0)
    names = table.features or [f"column {i}" for i in range(table.n_features)]

    def list_columns(numbers: Floats) -> str:
        """List the columns where a number is not 0, by decreasing number."""
        worst = np.argsort(-numbers, kind="stable")[: np.count_nonzero(numbers)]
        return join_names([names[i] for i in worst.tolist()], quoted=table.features is not None)

    question = "are the columns and their units the same?"
    notes = []
    if counts.any():
        n_samples = int(is_far.any(axis=1).sum())
        verb = "has" if n_samples == 1 else "have"
        notes.append(
            f"{n_samples} of {table.n_samples} samples {verb} values far outside the range of the "
            f"fit, in {list_columns(counts)}; {question}"
        )
    if is_shifted.any():
        columns = list_columns(n_outside * is_shifted)
        notes.append(f"most values are outside the range of the fit in {columns}; {question}")
    return notes


def describe_unknown_values(table: Table, model: Pipeline) -> list[str]:
    """Describe values of text columns that a model does not know.

    Parameters
    ----------
    table : Table
        New samples.
    model : Pipeline
        Fitted model.

    Returns
    -------
    list of str
        One note, or none.
    """
    import numpy as np

    from mpda.assessment.column_transformer import find_categories
    from mpda.io.error_text import join_names

    values = []
    is_unknown = np.full(table.n_samples, False)
    for j, categories in find_categories(model).items():
        name = (table.features or ())[j]
        column = table.samples[name]
        is_new = (column.notna() & ~column.isin(categories)).to_numpy()
        is_unknown |= is_new
        texts = np.unique(column[is_new].to_numpy(dtype=str))
        values += [f"{name} = {shorten_label(text)}" for text in texts]
    if not is_unknown.any():
        return []
    return [
        f"{is_unknown.sum()} of {table.n_samples} samples have text that the fit did not have and "
        f"that counts as none: {join_names(values, quoted=False)}"
    ]
