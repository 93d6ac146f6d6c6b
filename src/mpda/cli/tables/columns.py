"""Columns of a data frame as numbers, or as text that is accepted for categories."""

import re
from typing import Any, NoReturn

import numpy as np

from mpda._lib.array_types import Bools
from mpda.cli.tables.files import Names
from mpda.exceptions import TableError
from mpda.io.error_text import join_names, one_line

# Distinct values of a text column above which it is refused: each becomes a feature.
_MAX_CATEGORIES = 1000
# A column with more distinct values than this, of which more than half are numbers, is a column of
# numbers with mistakes and no category.
_MANY_VALUES = 20
# Numbers with a comma, and with points as well where these divide thousands.
_COMMAS = r"\s*[-+]?[\d.\s]*,\d+\s*"
# Numbers whose commas may divide thousands.
_THOUSANDS = r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d+)?\s*"
# Numbers with a point, which is no decimal separator in a file of decimal commas.
_POINTS = r"\s*[-+]?(\d+\.\d*|\d{1,3}(\.\d{3})+)(,\d+)?\s*"
# Numbers with a sign of per cent or of a currency.
_SIGNS = r"\s*[-+]?[$€£]?\s*[-+]?[\d.,]*\d\s*[%‰$€£]?\s*"
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d\d))(\D|$)")


def convert_columns(
    frame: Any,
    *,
    one_hot: bool = False,
    texts: Names = (),
    of_model: bool = False,
    decimal: str = ".",
) -> Any:
    """Convert the features of a data frame to numbers and text.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n_samples, n_features)
        Features. The index counts the rows of the file from 0.
    one_hot : bool, default=False
        Accept columns that are not numbers as categories.
    texts : sequence of str, default=()
        Columns that are categories whatever their values are.
    of_model : bool, default=False
        The columns are those of a model, so that none can be left out.
    decimal : {".", ","}, default="."
        Decimal separator of the file. With "," text with a point is no number.

    Returns
    -------
    pandas.DataFrame of shape (n_samples, n_features)
        Numbers in float32 if all columns are float32, else in float64; text as objects. Missing
        values are nan.

    Raises
    ------
    mpda.exceptions.TableError
        If a column is neither numbers nor an accepted category.
    """
    import pandas as pd

    columns, categories, wrong = {}, {}, []
    notations: set[str | None] = set()
    for name, column in frame.items():
        if hasattr(column.dtype, "pyarrow_dtype"):
            kind = one_line(column.dtype.pyarrow_dtype, 40)
            raise TableError(
                f"The column {name!r:.80} is of type {kind}: neither numbers, text nor vectors. "
                "Leave it out with --drop NAME; vectors are lists of numbers."
            )
        is_numeric = pd.api.types.is_numeric_dtype(column)
        numbers = column if is_numeric else _parse_numbers(column, decimal)
        is_wrong = (numbers.isna() & ~column.isna()).to_numpy()
        notation = _find_notation(column[is_wrong], decimal) if is_wrong.any() else None
        is_category = one_hot and is_wrong.any() and notation is None
        if name in texts or (is_category and not _is_mostly_numbers(column, is_wrong)):
            categories[name] = column.astype(str).astype(object).where(column.notna(), np.nan)
            continue
        elif is_wrong.any():
            first = int(np.argmax(is_wrong))
            text = one_line(column.iloc[first], 40)
            kind = "" if notation or of_model else _describe(column, is_wrong)
            wrong.append(f"{name!r:.80} ({kind}row {column.index[first] + 1}: {text})")
            notations.add(notation)
        columns[name] = numbers
    if wrong:
        _refuse(wrong, notations, one_hot=one_hot, of_model=of_model)
    if not of_model:
        _check_categories(categories)
    is_single = {str(numbers.dtype) for numbers in columns.values()} == {"float32"}
    dtype = np.float32 if is_single and not categories else np.float64
    matrix = pd.DataFrame(columns, index=frame.index).to_numpy(dtype, na_value=np.nan)
    numeric = pd.DataFrame(matrix, columns=list(columns), index=frame.index, copy=False)
    return numeric.assign(**categories)[list(frame.columns)] if categories else numeric


def _parse_numbers(column: Any, decimal: str) -> Any:
    """Return the numbers of a column of text, nan for what is none."""
    import pandas as pd

    # As text: to_numeric would turn dates into large integers.
    numbers = pd.to_numeric(column.astype(str), errors="coerce")
    if decimal == ",":
        numbers = numbers.where(~column.map(lambda cell: isinstance(cell, str) and "." in cell))
    return numbers


def _find_notation(values: Any, decimal: str) -> str | None:
    """Return the key of `_NOTATIONS` for numbers in another notation, None for other text."""
    texts = values.astype(str).str

    def match_all(pattern: str) -> bool:
        return bool(texts.fullmatch(pattern).all())

    if match_all(_SIGNS) and texts.contains("[%‰$€£]").all():
        return "signs"
    if decimal == ",":
        is_number = match_all(f"{_POINTS}|{_COMMAS}")
        return ("both" if texts.contains(",").any() else "points") if is_number else None
    if match_all(_THOUSANDS):
        return "thousands"
    if not match_all(_COMMAS):
        return None
    return "both" if texts.contains(".", regex=False).any() else "commas"


# Of several notations in a table the first one is named: the one that needs most care.
_NOTATIONS = {
    "points": "have points in their numbers, but --decimal , was set: {}. Remove the points if "
    "they divide thousands. If they are decimal points, leave out --decimal.",
    "both": "have decimal commas and points between thousands: {}. Remove the points, and read the "
    "commas with --decimal , (a comma).",
    "commas": "have decimal commas: {}. Read them with --decimal , (a comma).",
    "thousands": "have commas in their numbers: {}. Remove the commas if they divide thousands. If "
    "they are decimal commas, read them with --decimal , (a comma).",
    "signs": "have signs next to their numbers: {}. Remove the signs: 6.6 instead of 6.6 %.",
}


def _is_mostly_numbers(column: Any, is_wrong: Bools) -> bool:
    n_present = int(column.notna().sum())
    return column.nunique() > _MANY_VALUES and 2 * int(is_wrong.sum()) < n_present


def is_date_text(text: str) -> bool:
    """Tell whether a text begins with a date.

    Parameters
    ----------
    text : str
        Text of a cell, for example "2024-01-31 12:00" or "31.1.2024".

    Returns
    -------
    bool
        True for a year, month and day in this or the opposite order.
    """
    return _DATE.match(text) is not None


def _describe(column: Any, is_wrong: Bools) -> str:
    """Return what a column of text holds; nothing about numbers with a few exceptions."""
    texts = column.dropna().astype(str)
    n_values = texts.nunique()
    if 2 * int(is_wrong.sum()) < len(texts):
        return ""
    if texts.map(is_date_text).all():
        return "dates, "
    if 2 * n_values > len(texts):
        return "a text of its own in most rows, "
    return "one value, " if n_values == 1 else f"{n_values} values, "


def _refuse(
    wrong: list[str], notations: set[str | None], *, one_hot: bool, of_model: bool
) -> NoReturn:
    """Raise an error about columns that are not numbers."""
    names = join_names(wrong, quoted=False)
    if None not in notations:
        notation = next(key for key in _NOTATIONS if key in notations)
        raise TableError(f"These columns {_NOTATIONS[notation].format(names)}")
    if of_model:
        raise TableError(f"The model was fitted to numbers in columns that have text: {names}.")
    if one_hot:
        raise TableError(
            f"These columns are numbers with a few exceptions: {names}. Correct them, or leave the "
            "columns out with --drop NAME."
        )
    raise TableError(
        f"These columns are not numbers: {names}. Leave them out with --drop NAME, or make them "
        "categories with --one-hot (one column of 0 and 1 for each value). For a column that names "
        "subjects, fit and compare have --groups; a text can be shown on the page of fit by --text."
    )


def _check_categories(categories: dict[str, Any]) -> None:
    for name, column in categories.items():
        n_values = column.nunique()
        if n_values > _MAX_CATEGORIES:
            raise TableError(
                f"--one-hot: {name!r:.80} has {n_values} values, and each would be a feature. "
                "Leave the column out with --drop, or join its values to a few."
            )
