"""First step of a pipeline: medians for missing values, indicators for text columns.

It is scikit-learn's ColumnTransformer on the data frame of a table, or a SimpleImputer where all
columns are numbers. Medians and categories are fitted together with the method, so inside every
fold: test samples take no part in them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from mpda._lib.array_types import Array, Floats, Labels
from mpda.assessment.contender import Step


def make_columns(
    n_columns: int, texts: Sequence[int] = (), *, imputes: bool = False
) -> ColumnTransformer | SimpleImputer | None:
    """Return the step that makes complete numbers of the columns of a table, not fitted.

    Parameters
    ----------
    n_columns : int
        Number of columns.
    texts : sequence of int, default=()
        Indices of the text columns. Each becomes one column of 0 and 1 for each value of the
        training samples; other values are 0 in all of them, and a missing value is a value.
    imputes : bool, default=False
        True replaces missing numbers by the median of the training samples.

    Returns
    -------
    ColumnTransformer, SimpleImputer or None
        None if all columns are complete numbers. An imputer alone can be exported.
    """
    # A column that is empty in the training samples of a fold stays, so that all folds have
    # the same columns of numbers.
    imputer = SimpleImputer(strategy="median", keep_empty_features=True)
    if not texts:
        return imputer if imputes else None
    numbers = [j for j in range(n_columns) if j not in texts]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    transformers = [("numbers", imputer if imputes else "passthrough", numbers)]
    transformers.append(("text", encoder, list(texts)))
    return ColumnTransformer(transformers[0 if numbers else 1 :])


def make_column_steps(columns: ColumnTransformer | SimpleImputer | None) -> list[Step]:
    """Return the first steps of a pipeline, not fitted.

    Parameters
    ----------
    columns : ColumnTransformer, SimpleImputer or None
        What `make_columns` returned.

    Returns
    -------
    list of (str, transformer)
        One step, or none.
    """
    if columns is None:
        return []
    return [("impute" if isinstance(columns, SimpleImputer) else "columns", clone(columns))]


def encode_samples(columns: ColumnTransformer | SimpleImputer | None, X: Any) -> Floats:
    """Fit the step to samples and return these as complete numbers.

    Parameters
    ----------
    columns : ColumnTransformer, SimpleImputer or None
        What `make_columns` returned.
    X : array or data frame of shape (n_samples, n_columns)
        Samples.

    Returns
    -------
    array of shape (n_samples, n_features)
        X itself if it is a complete array.
    """
    for _, step in make_column_steps(columns):
        X = step.fit_transform(X)
    return np.asarray(X)


def split_encoding(model: Pipeline) -> tuple[Pipeline | None, Pipeline]:
    """Divide a fitted pipeline after the step that encodes columns.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.

    Returns
    -------
    encoding : Pipeline or None
        Imputer or encoder; None if the model has none.
    rest : Pipeline
        Steps for complete numbers.
    """
    has_encoding = isinstance(model.steps[0][1], SimpleImputer | ColumnTransformer)
    return (model[:1], model[1:]) if has_encoding else (None, model)


def encode_columns(model: Pipeline, X: Any) -> Array:
    """Return samples as the complete numbers that a fitted pipeline works on.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.
    X : array or data frame of shape (n_samples, n_columns)
        Samples.

    Returns
    -------
    array of shape (n_samples, n_features)
        X as an array if the model encodes no columns.
    """
    encoding, _ = split_encoding(model)
    return np.asarray(X if encoding is None else encoding.transform(X))


def count_features(model: Pipeline) -> int:
    """Count the numbers that a fitted pipeline works on.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.

    Returns
    -------
    int
        Number of columns of the table, with one for each value of a text column.
    """
    encoding, _ = split_encoding(model)
    return int(model.n_features_in_ if encoding is None else len(encoding.get_feature_names_out()))


def find_categories(model: Pipeline) -> dict[int, Labels]:
    """Find the text columns of a fitted pipeline.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.

    Returns
    -------
    dict of int to array
        Values of the training samples by the index of the column.
    """
    first = model.steps[0][1]
    if not isinstance(first, ColumnTransformer):
        return {}
    return {
        _find_index(first, column): values
        for _, encoder, columns in first.transformers_
        if isinstance(encoder, OneHotEncoder)
        for column, values in zip(columns, encoder.categories_, strict=True)
    }


def _find_index(transformer: ColumnTransformer, column: Any) -> int:
    """Return the index of a column that is given by its name or index."""
    if isinstance(column, str):
        return list(transformer.feature_names_in_).index(column)
    return int(column)


def replaces_missing(model: Pipeline) -> bool:
    """Return whether a fitted pipeline accepts missing values.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.

    Returns
    -------
    bool
        True if it replaces missing numbers, or has a feature for missing text.
    """
    first = model.steps[0][1]
    if not isinstance(first, ColumnTransformer):
        return isinstance(first, SimpleImputer)
    imputes = any(isinstance(step, SimpleImputer) for _, step, _ in first.transformers_)
    # A missing value is the last of the values; only nan differs from itself.
    return imputes or any(values[-1] != values[-1] for values in find_categories(model).values())


def name_features(model: Pipeline, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the names of the numbers that a fitted pipeline works on.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline.
    names : tuple of str or None
        Names of the columns of the table.

    Returns
    -------
    tuple of str or None
        An indicator is called "column = value". None if columns have no names.
    """
    first = model.steps[0][1]
    if names is None or not isinstance(first, ColumnTransformer):
        return names
    categories, features = find_categories(model), []
    # A step that drops its columns is a word.
    steps = [entry for entry in first.transformers_ if not isinstance(entry[1], str)]
    for j in (_find_index(first, column) for _, _, columns in steps for column in columns):
        values = categories.get(j)
        features += [names[j]] if values is None else [f"{names[j]} = {v}" for v in values]
    return tuple(features)
