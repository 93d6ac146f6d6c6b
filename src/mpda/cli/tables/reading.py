"""Read samples and labels from a table; report what is wrong with it by column and row.

Formats: CSV, TSV (also .gz) and .xlsx by pandas, Parquet, Arrow, Feather and JSON lines by pyarrow,
.npy and .npz by NumPy. If a column holds vectors, these are the features, and no others.
Row numbers in messages count the samples from 1, without the header line. Messages name the options
of the command line (``--label``, ``--drop``, ``--impute``), which pass their values on to here.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from mpda._lib.array_types import Array, Bools, Ints, Labels
from mpda._lib.validation import check_option
from mpda.cli.tables import files
from mpda.cli.tables.columns import convert_columns
from mpda.cli.tables.files import FRAME_SUFFIXES, FileFormat, Names
from mpda.cli.tables.labels import class_labels
from mpda.cli.tables.vectors import (
    EmbeddingChoice,
    FoundVectors,
    Vectors,
    check_vectors,
    find_frame_vectors,
    find_incomplete,
    find_parquet_vectors,
    read_parquet_vectors,
    stack_frame_vectors,
)
from mpda.exceptions import TableError
from mpda.io.array_files import read_arrays
from mpda.io.error_text import (
    count_noun,
    join_names,
    name_file_in_errors,
    one_line,
    suggest_name,
)
from mpda.report.samples import ReportSamples

# Squares of larger values overflow in scalers and scatter matrices, and those of values below the
# inverse are zero.
_LARGEST_VALUE = 1e150


@dataclass(frozen=True)
class Table:
    """Samples and labels of a file.

    Parameters
    ----------
    name : str
        Name of the file.
    samples : DataFrame or ndarray of shape (n_samples, n_features)
        Features in float32 or float64, and text. Missing values are nan, where they are accepted.
        An array where features have no names, and for a column of vectors.
    y : ndarray of shape (n_samples,) or None
        Labels.
    label : str or None
        Name of the labels in the file.
    features : tuple of str or None
        Names of the features, None for .npy and .npz files.
    rows : ndarray of shape (n_samples,)
        Number of each sample in the file, from 1.
    others : dict
        Columns that are neither features nor labels.
    groups : ndarray of shape (n_samples,) or None
        Group of each sample, as text.
    n_skipped : int
        Number of rows that were left out because of missing values.
    embedding : str or None
        Column of the vectors, if these are the features.
    text : str or None
        One of ``others`` that describes each sample.
    """

    name: str
    samples: Any
    y: Labels | None
    label: str | None
    features: tuple[str, ...] | None
    rows: Ints
    others: dict[str, Any]
    groups: Labels | None = None
    n_skipped: int = 0
    embedding: str | None = None
    text: str | None = None

    def select(self, samples: Ints) -> Table:
        """Return a table of some samples.

        Parameters
        ----------
        samples : array of int
            Indices.

        Returns
        -------
        Table
            Those samples in this order.
        """
        return replace(
            self,
            samples=_safe_indexing(self.samples, samples),
            y=None if self.y is None else self.y[samples],
            rows=self.rows[samples],
            others={name: np.asarray(values)[samples] for name, values in self.others.items()},
            groups=None if self.groups is None else self.groups[samples],
        )

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.rows)

    @property
    def n_features(self) -> int:
        """Number of columns that are features, or of the numbers of a vector."""
        return int(self.samples.shape[1])

    @cached_property
    def categories(self) -> dict[int, Labels]:
        """Values of each text column by the index of the feature."""
        if not hasattr(self.samples, "items"):
            return {}
        columns = enumerate(self.samples.items())
        return {
            j: np.unique(column.dropna().to_numpy(dtype=str))
            for j, (_, column) in columns
            if column.dtype.kind != "f"
        }

    @cached_property
    def X(self) -> Array:
        """Samples as numbers to look at: codes of the categories in place of text."""
        if not self.categories:
            return np.asarray(self.samples)
        columns = [
            _encode(column, self.categories[j]) if j in self.categories else column.to_numpy()
            for j, (_, column) in enumerate(self.samples.items())
        ]
        return np.column_stack(columns).astype(np.float64)

    @property
    def labels(self) -> Labels:
        """Labels of shape (n_samples,); a TableError if there are none."""
        if self.y is None:
            raise TableError(f"{self.name} has no labels; --label names them.")
        return self.y

    def describe_skipped(self) -> list[str]:
        """Say how many rows were left out because of missing values.

        Returns
        -------
        list of str
            One note, none if no row was left out.
        """
        if not self.n_skipped:
            return []
        total = self.n_samples + self.n_skipped
        verbs = ("has", "is") if self.n_skipped == 1 else ("have", "are")
        return [
            f"{self.n_skipped} of {total} rows {verbs[0]} missing values and {verbs[1]} left out"
        ]

    def name_features(self, features: tuple[str, ...] | None) -> Table:
        """Return the table with the names of the features in a model.

        Parameters
        ----------
        features : tuple of str or None
            Names in the order of the columns. None stands for an array without names.

        Returns
        -------
        Table
            The same samples.
        """
        if features == self.features:
            return self
        if features is None:
            return replace(self, samples=self.X, features=None)
        import pandas as pd

        samples = pd.DataFrame(self.samples, columns=list(features), copy=False)
        return replace(self, samples=samples, features=features)

    def to_report(self) -> ReportSamples:
        """Return the samples as a report shows them.

        Returns
        -------
        ReportSamples
            The same arrays.
        """
        return ReportSamples(
            self.name, self.X, self.y, self.label, self.features, self.rows, self.others
        )


def _encode(column: Any, values: Labels) -> Array:
    """Return the index of each text in the sorted values, nan where it is missing."""
    codes = np.full(len(column), np.nan)
    is_present = column.notna().to_numpy()
    codes[is_present] = np.searchsorted(values, column[is_present].to_numpy(dtype=str))
    return codes


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Names = (),
    features: Names | None = None,
    skip_missing: bool = False,
    groups: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    text: str | None = None,
    sheet: str | None = None,
    keep_missing: bool = False,
    one_hot: bool = False,
    texts: Names = (),
    embedding: str | None = None,
    usual_embedding: str | None = None,
) -> Table:
    """Read the samples of a file.

    Parameters
    ----------
    path : path-like
        File in a format that its suffix names, or folder of Parquet files; CSV, TSV and JSON lines
        may be compressed (.gz).
    label : str, default=None
        Column of the labels. For an .npz file the name of an array, where None stands for "y" if
        there is one. For an .npy file the number of a column (-1 for the last) or another .npy.
    drop : sequence of str, default=()
        Columns to leave out, each a name or several names separated by commas or spaces.
    features : sequence of str, default=None
        Columns that are features, in this order. None takes all other columns.
    skip_missing : bool, default=False
        Leave out rows with missing values instead of refusing them. With ``keep_missing`` only
        rows without a label are left out.
    groups : str, default=None
        Column, or array of an .npz file, that names the group of each sample. It is no feature.
    decimal : {".", ","}, default="."
        Decimal separator of a CSV or TSV file. With "," columns are separated by semicolons or
        tabs, or values are in quotes.
    encoding : str, default=None
        Encoding of a CSV or TSV file, such as "latin-1". None stands for UTF-8.
    text : str, default=None
        Column, or array of an .npz file, that describes each sample. It is no feature, and one of
        ``others`` of the table.
    sheet : str, default=None
        Sheet of an .xlsx file. None stands for the first.
    keep_missing : bool, default=False
        Accept missing values of features, as nan.
    one_hot : bool, default=False
        Accept columns that are not numbers as categories.
    texts : sequence of str, default=()
        Features that are categories whatever their values are, as those of a model.
    embedding : str, default=None
        Column of vectors, which are then the features. None takes the only column of vectors, if
        there is one and ``features`` is None.
    usual_embedding : str, default=None
        Column that is taken with None where several hold vectors.

    Returns
    -------
    Table
        Samples without infinite values and, unless they are accepted, without missing ones.

    Raises
    ------
    mpda.exceptions.TableError
        If the file cannot be read or is not a table of numbers, in one line that names the file.
    """
    path = Path(path)
    suffix = files.check_table_path(path)
    is_frame = suffix in FRAME_SUFFIXES
    with name_file_in_errors(path, TableError, f"cannot be read as {suffix[1:]}"):
        if drop and not is_frame:
            raise TableError(f"{path} has no column names, so --drop cannot be used with it.")
        if embedding is not None and (not is_frame or features is not None):
            reason = "has no column names" if not is_frame else "is read for a model of its columns"
            raise TableError(f"--embedding cannot be used, because {path} {reason}.")
        if is_frame:
            check_option("decimal", decimal, (".", ","))
            file_format = FileFormat(decimal, encoding or "utf-8-sig", sheet)
            words = [] if text is None else [text]
            excluded = [name for name in (label, groups, text) if name is not None]
            choice = EmbeddingChoice(embedding, usual_embedding, excluded)
            read = partial(_read_frame, path, label, drop, features, file_format, texts, words)
            frame, vectors = read(choice if features is None else None)
            if vectors is not None:
                if keep_missing or one_hot:
                    raise TableError(_describe_no_columns(path, vectors.name))
                table = _from_vectors(path, frame, vectors, label, drop, groups, text)
            else:
                table = _from_frame(path, frame, label, drop, features, groups, text)
                names = list(table.features or ())
                if usual_embedding is not None:
                    _check_numbers(path, frame[names], usual_embedding)
                columns = convert_columns(
                    frame[names],
                    one_hot=one_hot,
                    texts=texts,
                    of_model=features is not None,
                    decimal=decimal,
                )
                table = replace(table, samples=columns)
        else:
            table = _from_arrays(path, label, groups, text)
        if skip_missing:
            complete = skip_missing_rows(table, keep_missing=keep_missing)
            if table.n_samples and not complete.n_samples:
                raise TableError(_describe_no_rows(table))
            table = complete
        if table.n_samples * table.n_features == 0:
            lack = (
                "columns except the labels, so there are no features" if table.n_samples else "rows"
            )
            raise TableError(f"{path} has no {lack}.")
        check_values(table, of_model=features is not None, keep_missing=keep_missing)
    return table if table.groups is None else replace(table, groups=table.groups.astype(str))


def _read_frame(
    path: Path,
    label: str | None,
    drop: Names,
    features: Names | None,
    file_format: FileFormat,
    texts: Names,
    words: Names,
    choice: EmbeddingChoice | None,
) -> tuple[Any, Vectors | None]:
    """Read a data frame and the vectors that a choice finds in it.

    Wrong encodings are reported with the option that names them.
    """
    found = FoundVectors()
    if choice is not None and files.table_suffix(path) == ".parquet":
        columns = files.read_schema(path).names
        found = find_parquet_vectors(path, choice.without(split_names(drop, columns)))
    skipped = () if found.name is None else found.columns
    with explain_encoding_errors(path, file_format):
        frame = files.read_frame(path, label, drop, features, file_format, texts, words, skipped)
    if len(frame) == 0:
        raise TableError(f"{path} has no rows.")
    if found.name is not None:
        with _advise_to_drop(choice, found.name):
            X = read_parquet_vectors(path, found.name)
        return frame, Vectors(found.name, X, found.columns)
    if choice is not None:
        columns = list(frame.columns)
        found = find_frame_vectors(path, frame, choice.without(split_names(drop, columns)))
    if found.name is None:
        return frame, None
    with _advise_to_drop(choice, found.name):
        X = stack_frame_vectors(frame[found.name], found.name)
    return frame.drop(columns=list(found.columns)), Vectors(found.name, X, found.columns)


@contextmanager
def _advise_to_drop(choice: EmbeddingChoice | None, name: str) -> Iterator[None]:
    """Say how to leave out a column of lists that the user did not name, such as tokens."""
    try:
        yield
    except TableError as error:
        # Commands with a model, which know the column of its fit, have no --drop.
        if choice is None or choice.name is not None or choice.usual is not None:
            raise
        raise TableError(f"{error} If {name!r} holds no vectors, --drop it.") from error


def _from_vectors(
    path: Path,
    frame: Any,
    vectors: Vectors,
    label: str | None,
    drop: Names,
    groups: str | None,
    text: str | None,
) -> Table:
    """Return vectors as the samples of a table, and the columns of the data frame next to them."""
    names = split_names(drop, [*frame.columns, *vectors.columns])
    dropped = [name for name in names if name not in vectors.columns]
    table = _from_frame(path, frame, label, dropped, (), groups, text)
    rows = np.arange(1, len(vectors.X) + 1)
    table = replace(table, samples=vectors.X, rows=rows, features=None)
    return _find_text(replace(table, embedding=vectors.name))


def _check_numbers(path: Path, frame: Any, embedding: str) -> None:
    """Refuse a table for a model of vectors that has neither vectors nor one column per number."""
    from pandas.api.types import is_numeric_dtype

    if not all(is_numeric_dtype(column) for _, column in frame.items()):
        raise TableError(
            f"{path} has no column of vectors, but the model was fitted to those in "
            f"{embedding!r:.80}. Vectors are lists of numbers; the table has "
            f"{join_names(list(frame.columns))}."
        )


def _describe_no_columns(path: Path, name: str) -> str:
    return (
        f"--impute and --one-hot are for columns of numbers and text, but the only features of "
        f"{path} are the vectors in {name!r}. Rows without a vector are left out by --skip-missing."
    )


def _find_text(table: Table) -> Table:
    """Return the table with its only column of text as the one that describes the samples."""
    if table.text is not None:
        return table
    from pandas.api.types import is_string_dtype

    texts = [
        name
        for name, column in table.others.items()
        if not hasattr(column.dtype, "pyarrow_dtype") and is_string_dtype(column)
    ]
    if len(texts) != 1:
        return table
    column = table.others[texts[0]].fillna("").astype(str)
    return replace(table, text=texts[0], others={**table.others, texts[0]: column})


@contextmanager
def explain_encoding_errors(path: Path, file_format: FileFormat) -> Iterator[None]:
    """Report a wrong encoding with the option that names it.

    Parameters
    ----------
    path : Path
        File that is read in the block.
    file_format : FileFormat
        Its encoding.

    Yields
    ------
    None
        The block runs once.
    """
    try:
        yield
    except LookupError as error:
        if "encoding" not in str(error):
            raise
        raise TableError(f"--encoding: there is no encoding {file_format.encoding!r}.") from error
    except UnicodeDecodeError as error:
        advice = "Files of older spreadsheets are often --encoding latin-1."
        if error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            advice = "It begins as a file of --encoding utf-16."
        raise TableError(
            f"{path} is not in the encoding {file_format.encoding.removesuffix('-sig')} (byte "
            f"{error.start + 1}). {advice}"
        ) from error


def _from_frame(
    path: Path,
    frame: Any,
    label: str | None,
    drop: Names,
    features: Names | None,
    groups: str | None,
    text: str | None,
) -> Table:
    """Return labels, groups and other columns of a data frame; X is still empty."""
    names = list(frame.columns)
    drop = split_names(drop, names)
    for option, columns in (
        ("--label", [label]),
        ("--groups", [groups]),
        ("--text", [text]),
        ("--drop", drop),
        ("the model", features or ()),
    ):
        for name in columns:
            if name is not None and name not in names:
                raise TableError(
                    f"{option}: {path} has no column {name!r}; it has {join_names(names)}."
                    f"{suggest_name(name, names)}"
                )
    for option, name in (("--groups", groups), ("--text", text)):
        if name is not None and (kind := getattr(frame[name].dtype, "pyarrow_dtype", None)):
            raise TableError(
                f"{option}: the column {name!r:.80} of {path} is of type {one_line(kind, 40)}; "
                "numbers or text are needed."
            )
    if label is not None and label in drop:
        raise TableError(f"--drop names {label!r}, which is the column of --label.")
    if features is None:
        features = [name for name in names if name not in {label, groups, text, *drop}]
    others = {name: frame[name] for name in names if name not in {*features, label, *drop}}
    if text is not None:
        others[text] = frame[text].fillna("").astype(str)
    is_text = files.table_suffix(path) in (".csv", ".tsv")
    y = None if label is None else class_labels(frame[label], label, as_text=is_text)
    ids = None if groups is None else _group_labels(frame[groups])
    rows = np.arange(1, len(frame) + 1)
    empty = np.empty((len(rows), 0))
    return Table(path.name, empty, y, label, tuple(features), rows, others, ids, text=text)


def _group_labels(column: Any) -> Labels:
    """Return the groups of the samples as text; None where a group is missing."""
    import pandas as pd

    labels = np.asarray(column).astype(str).astype(object)
    labels[np.asarray(pd.isna(column))] = None
    return labels


def split_names(names: Iterable[str], columns: Names) -> list[str]:
    """Split column names that are separated by commas or spaces.

    Parameters
    ----------
    names : iterable of str
        Names, or several names separated by commas or spaces.
    columns : sequence of str
        Columns of the table. A column whose own name has a comma or a space is not split.

    Returns
    -------
    list of str
        One name each.
    """
    available, single = set(columns), []
    for item in names:
        for name in [item] if item in available else map(str.strip, item.split(",")):
            # Split at spaces only where all words are columns: the message about an unknown column
            # must name what the user wrote.
            words = name.split()
            is_list = name not in available and available.issuperset(words)
            single += words if is_list else [name]
    return single


def _from_arrays(path: Path, label: str | None, groups: str | None, text: str | None) -> Table:
    arrays = read_arrays(path)
    if path.suffix.lower() == ".npy" and label is not None:
        arrays = _split_label(arrays["X"], label)
    elif label is None and "y" in arrays:
        label = "y"
    matrices = [name for name, array in arrays.items() if array.ndim == 2 and name != label]
    name = "X" if "X" in arrays or len(matrices) != 1 else matrices[0]
    if name not in arrays or label not in (None, *arrays):
        raise TableError(
            f"{path} has no array {label if name in arrays else name!r}; it has "
            f"{join_names(list(arrays))} (X are the samples, --label names the labels)."
        )
    X, y = arrays[name], None if label is None else arrays[label]
    check_matrix(X, name, path)
    if y is not None and y.shape not in ((len(X),), (len(X), 1)):
        raise TableError(f"{label} has the shape {y.shape}, but {name} has {len(X)} samples.")
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    labels = None if y is None else class_labels(y.ravel(), str(label))
    for option, column in (("--groups", groups), ("--text", text)):
        if column is not None and (column not in arrays or arrays[column].shape != (len(X),)):
            raise TableError(f"{option}: {path} has no array {column!r} with a value per sample.")
    ids = None if groups is None else _group_labels(arrays[groups])
    others = {} if text is None else {text: arrays[text].astype(str)}
    rows = np.arange(1, len(X) + 1)
    return Table(path.name, X, labels, label, None, rows, others, ids, text=text)


def check_matrix(X: Array, name: str, path: Path) -> None:
    """Raise an error if an array of a file is not a matrix of real numbers.

    Parameters
    ----------
    X : ndarray
        The array.
    name : str
        Its name.
    path : Path
        File that has it.
    """
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path}: samples must be the rows of a table of real numbers, but {name} is of "
            f"{X.dtype} and has the shape {X.shape}."
            + (" X.reshape(len(X), -1) flattens images." if X.ndim > 2 else "")
        )


def _split_label(X: Array, label: str) -> dict[str, Array]:
    """Return samples and labels of an .npy file; the labels are a column of it or another file."""
    if Path(label).suffix == ".npy":
        return {"X": X, label: read_arrays(Path(label))["X"]}
    column = int(label) if label.lstrip("+-").isdigit() else X.shape[-1]
    if X.ndim != 2:
        return {"X": X, label: X}  # refused for its shape, not for the label
    if -X.shape[1] <= column < X.shape[1]:
        return {"X": np.delete(X, column, axis=1), label: X[:, column]}
    raise TableError(
        f"--label {label}: the columns are 0 to {X.shape[1] - 1} (-1 is the last), or name another "
        ".npy file with the labels."
    )


def skip_missing_rows(table: Table, *, keep_missing: bool = False) -> Table:
    """Leave out samples without a label and, unless these are accepted, with a missing value.

    Parameters
    ----------
    table : Table
        Samples.
    keep_missing : bool, default=False
        Accept missing values of features.

    Returns
    -------
    Table
        The other samples, with the number of those that were left out.
    """
    if table.embedding is not None:
        complete = ~find_incomplete(table.X)
    else:
        complete = np.full(table.n_samples, keep_missing) | ~np.isnan(table.X).any(axis=1)
    y = table.y
    for values in (y, table.groups):
        if values is not None:
            complete &= ~_is_none(values)
    if y is not None:
        y = np.array(y[complete].tolist()) if y.dtype == object else y[complete]
    if complete.all():  # no copy of the samples
        return replace(table, y=y)
    others = {name: column[complete] for name, column in table.others.items()}
    groups = None if table.groups is None else table.groups[complete]
    rows, n_skipped = table.rows[complete], int((~complete).sum())
    samples = _safe_indexing(table.samples, np.flatnonzero(complete))
    table = replace(table, samples=samples, y=y, rows=rows, others=others)
    return replace(table, groups=groups, n_skipped=n_skipped)


def _describe_no_rows(table: Table) -> str:
    """Say why --skip-missing leaves no row of the table."""
    reason = f"all {table.n_samples} rows have missing values, and --skip-missing leaves them out"
    if table.embedding is not None:
        return f"{table.name}: {reason}. Compute the vectors in {table.embedding!r} again."
    is_empty = np.isnan(table.X).all(axis=0)
    if not is_empty.any():
        return f"{table.name}: {reason}. Replace the values with --impute median."
    columns = np.flatnonzero(is_empty).tolist()
    names = [table.features[j] if table.features else f"column {j}" for j in columns]
    listed = join_names(names, quoted=table.features is not None)
    return f"{table.name}: {reason}. No value is in {listed}: leave it out with --drop."


def _is_none(y: Labels) -> Bools:
    return np.array([label is None for label in y], dtype=bool)


def check_values(table: Table, *, of_model: bool, keep_missing: bool = False) -> None:
    """Refuse missing labels, infinite values, and missing values that are not accepted.

    Parameters
    ----------
    table : Table
        Samples.
    of_model : bool
        The features are those of a model, so that none can be left out.
    keep_missing : bool, default=False
        Accept missing values of features.
    """
    if table.y is not None and _is_none(table.y).any():
        rows = table.rows[_is_none(table.y)]
        raise TableError(
            f"No label is in {table.label!r} for {count_noun(len(rows), 'row')}, the first is row "
            f"{rows[0]}. Add the labels, or leave out the rows with --skip-missing."
        )
    if table.groups is not None and _is_none(table.groups).any():
        rows = table.rows[_is_none(table.groups)]
        raise TableError(
            f"--groups: no group is named for {count_noun(len(rows), 'row')}, the first is row "
            f"{rows[0]}. Name their groups, or leave out the rows with --skip-missing."
        )
    if table.embedding is not None:
        check_vectors(table.X, table.embedding, table.rows)
        return
    missing, infinite = np.isnan(table.X), np.isinf(table.X)
    can_drop = table.features is not None and not of_model
    drop = ["leave out the column with --drop"] if can_drop else []
    if infinite.any():
        advice = ", or ".join(["Correct them", *drop])
        raise TableError(f"Values are infinite in {_locate(table, infinite)}. {advice}.")
    _check_range(table, drop, of_model=of_model)
    if keep_missing:
        # A new sample may lack a feature. A feature that all samples of a fit lack has no median.
        if not of_model and (is_empty := missing.all(axis=0)).any():
            advice = ", or ".join(["Add values", *drop])
            raise TableError(
                f"All values are missing in {_locate(table, missing & is_empty)}. {advice}."
            )
    elif missing.any():
        median = [] if of_model else ["replace them with --impute median"]
        advice = ", ".join(["Correct them", *median, *drop])
        raise TableError(
            f"Values are missing in {_locate(table, missing)}. {advice}, or leave out the rows "
            "with --skip-missing."
        )


def _check_range(table: Table, advice: list[str], *, of_model: bool) -> None:
    """Refuse columns whose squares would overflow, or would all be zero."""
    if not table.n_samples:
        return
    low, high = (np.abs(reduce(table.X, axis=0)) for reduce in (np.fmin.reduce, np.fmax.reduce))
    largest = np.maximum(low, high, dtype=np.float64)
    is_large = largest > _LARGEST_VALUE
    is_tiny = (largest > 0.0) & (largest < 1.0 / _LARGEST_VALUE) & (not of_model)
    for columns, size, first in (
        (is_large, "large", "Correct them"),
        (is_tiny, "small", "Rescale them"),
    ):
        if columns.any():
            values = np.abs(table.X[:, columns])
            mask = np.zeros(table.X.shape, dtype=bool)
            mask[:, columns] = values > (_LARGEST_VALUE if size == "large" else 0.0)
            raise TableError(
                f"Values are too {size} to be squared in {_locate(table, mask)}. "
                f"{', or '.join([first, *advice])}."
            )


def _locate(table: Table, mask: Bools) -> str:
    """List the columns where the mask is True, with counts and first rows."""
    phrases = []
    for column in np.flatnonzero(mask.any(axis=0)):
        name = f"{table.features[column]!r:.80}" if table.features else f"column {column}"
        rows = table.rows[mask[:, column]]
        phrases.append(f"{name} ({len(rows)}, the first in row {rows[0]})")
    return join_names(phrases, quoted=False)


def describe_columns(path: Path, file_format: FileFormat | None = None) -> str:
    """Describe the columns of a file that could be labels.

    Parameters
    ----------
    path : Path
        File to read.
    file_format : FileFormat, default=None
        Encoding, decimal separator and sheet. None stands for the defaults.

    Returns
    -------
    str
        Phrase that lists up to 20 column names.
    """
    suffix = files.check_table_path(path)
    if suffix not in FRAME_SUFFIXES:
        return "columns without names: use a number, -1 for the last, or an .npy with the labels"
    with name_file_in_errors(path, TableError, f"cannot be read as {suffix[1:]}"):
        if suffix == ".parquet":
            names = files.read_schema(path).names
        else:
            read = partial(_read_frame, path, None, (), None, file_format or FileFormat())
            names = list(read((), (), None)[0].columns)
    return f"the columns {join_names(names, limit=20)}"
