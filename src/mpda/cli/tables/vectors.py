"""Columns of vectors in a table: found by their type, read into one matrix, and checked.

A column of vectors is the only feature of its table: numbers beside embeddings are row numbers or
have another unit. Parquet files are read in batches into the matrix, because the lists of a column
take more than four times its memory in pyarrow alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Bools
from mpda._lib.arrays import iter_slices
from mpda.cli.tables import files
from mpda.cli.tables.files import Names
from mpda.exceptions import TableError
from mpda.io.error_text import count_noun, join_names, one_line, suggest_name
from mpda.io.vectors import find_dtype, find_length, is_vector_type, stack_chunk, stack_column

# Numbers that are read or checked at a time: 4 MB in single precision. Smaller batches are slower,
# larger ones take memory next to the matrix.
_BATCH_NUMBERS = 1_000_000
# Rows that are read to find the length of the vectors, where the type does not tell it.
_FIRST_ROWS = 100
# Text of a vector: numbers in brackets, separated by commas or, as NumPy prints them, by spaces.
_TEXT_VECTOR = re.compile(r"\s*\[[-+.,\s\deEnaNulif]*\d[-+.,\s\deEnaNulif]*\]\s*")
# Squares of larger numbers overflow in scatter matrices.
_LARGEST_NUMBER = 1e150


@dataclass(frozen=True)
class Vectors:
    """Column of vectors.

    Parameters
    ----------
    name : str
        Name of the column.
    X : ndarray of shape (n_samples, n_features)
        Vectors in float32 or float64; nan where they are missing. It may be read-only.
    columns : tuple of str
        All columns of vectors, which the data frame of the table does not have.
    """

    name: str
    X: Array
    columns: tuple[str, ...]


@dataclass(frozen=True)
class FoundVectors:
    """Columns of vectors in a table.

    Parameters
    ----------
    name : str or None, default=None
        Column that is taken; None if there is none.
    columns : tuple of str, default=()
        All columns of vectors without another purpose. The others are not copied to any output.
    """

    name: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class EmbeddingChoice:
    """Which column of a table holds the vectors.

    Parameters
    ----------
    name : str or None, default=None
        Column that the user named.
    usual : str or None, default=None
        Column that had the vectors of a fit. It is taken if the table has it.
    excluded : collection of str, default=()
        Columns that have another purpose, such as the labels.
    dropped : collection of str, default=()
        Columns of ``--drop``.
    """

    name: str | None = None
    usual: str | None = None
    excluded: Collection[str] = ()
    dropped: Collection[str] = ()

    def without(self, dropped: Collection[str]) -> EmbeddingChoice:
        """Return a choice among other columns than those that are dropped.

        Parameters
        ----------
        dropped : collection of str
            Columns of ``--drop``.

        Returns
        -------
        EmbeddingChoice
            The same names.
        """
        return replace(self, dropped=tuple(dropped))

    def find(self, path: Path, columns: Collection[str], vectors: Names) -> FoundVectors:
        """Find the column of the vectors.

        Parameters
        ----------
        path : Path
            File of the table, for messages.
        columns : collection of str
            Names of all columns.
        vectors : sequence of str
            Those that hold vectors.

        Returns
        -------
        FoundVectors
            The column that is taken, and all.

        Raises
        ------
        mpda.exceptions.TableError
            If the column that the user named is none of them, or if several are.
        """
        all_vectors = tuple(name for name in vectors if name not in self.excluded)
        if self.name is not None:
            if self.name not in columns:
                raise TableError(
                    f"--embedding: {path} has no column {self.name!r}; it has "
                    f"{join_names(list(columns))}.{suggest_name(self.name, columns)}"
                )
            if self.name in {*self.excluded, *self.dropped}:
                reason = "is also named by --label, --groups, --text or --drop"
                raise TableError(f"--embedding: the column {self.name!r} {reason}.")
            if self.name not in vectors:
                found = join_names(list(vectors)) if vectors else "no column"
                raise TableError(
                    f"--embedding: the column {self.name!r} of {path} holds no vectors (lists of "
                    f"numbers); {found} does."
                )
            return FoundVectors(self.name, all_vectors)
        names = [name for name in all_vectors if name not in self.dropped]
        if self.usual in names:
            return FoundVectors(self.usual, all_vectors)
        if len(names) > 1:
            raise TableError(
                f"{path} has {len(names)} columns of vectors: {join_names(names)}. Choose one with "
                "--embedding NAME."
            )
        return FoundVectors(names[0] if names else None, all_vectors)


def find_parquet_vectors(path: Path, choice: EmbeddingChoice) -> FoundVectors:
    """Find the column of the vectors in a Parquet file, or in a folder of such files.

    Parameters
    ----------
    path : Path
        File or folder.
    choice : EmbeddingChoice
        Which column is taken.

    Returns
    -------
    FoundVectors
        The column that is taken, and all.
    """
    schema = files.read_schema(path)
    vectors = [field.name for field in schema if is_vector_type(field.type)]
    # Text may hold vectors, too, which the type does not tell.
    is_text = choice.name in schema.names and choice.name not in vectors
    return FoundVectors() if is_text else choice.find(path, schema.names, vectors)


def find_frame_vectors(path: Path, frame: Any, choice: EmbeddingChoice) -> FoundVectors:
    """Find the column of the vectors in a data frame.

    Parameters
    ----------
    path : Path
        File of the table, for messages.
    frame : pandas.DataFrame
        Columns of pyarrow or text hold vectors.
    choice : EmbeddingChoice
        Which column is taken.

    Returns
    -------
    FoundVectors
        The column that is taken, and all.
    """
    vectors = [name for name, column in frame.items() if _holds_vectors(column)]
    return choice.find(path, list(frame.columns), vectors)


def _holds_vectors(column: Any) -> bool:
    """Tell whether a column holds lists of numbers, or their text."""
    if hasattr(column.dtype, "pyarrow_dtype"):
        return is_vector_type(column.dtype.pyarrow_dtype)
    if not (column.dtype == object or column.dtype == "string"):
        return False
    index = column.first_valid_index()
    first = None if index is None else column.loc[index]
    return isinstance(first, str) and _TEXT_VECTOR.fullmatch(first) is not None


def stack_frame_vectors(column: Any, name: str, length: int | None = None) -> Array:
    """Return a column of a data frame as a matrix.

    Parameters
    ----------
    column : pandas.Series of shape (n_samples,)
        Lists of pyarrow, or text such as "[0.1, 0.2]". Its index counts the rows from 0.
    name : str
        Name of the column.
    length : int, default=None
        Length of the vectors. None stands for that of the first one.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Missing vectors and numbers are nan.
    """
    first = int(column.index[0]) if len(column) else 0
    if hasattr(column.dtype, "pyarrow_dtype"):
        return stack_column(column, repr(name), first, length)
    rows = range(first + 1, first + 1 + len(column))
    vectors = [_parse(cell, row, name) for cell, row in zip(column, rows, strict=True)]
    return stack_column(vectors, repr(name), first, length)


def _parse(cell: Any, row: int, name: str) -> Array | None:
    """Return the numbers of a text such as "[0.1, 0.2]", None for a missing cell."""
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    words = text[1:-1].replace("null", "nan")
    try:
        if (text[:1], text[-1:]) != ("[", "]"):  # text that was cut may end inside a number
            raise ValueError
        return np.array(words.split(",") if words.strip() else [], dtype=np.float64)
    except ValueError:
        raise TableError(
            f"The column {name!r} holds text of vectors, but row {row} is no list of numbers "
            f"with commas in brackets: {one_line(cell, 40)} Text of NumPy arrays may lack "
            "numbers. Write a Parquet file instead (frame.to_parquet), or lists such as [0.1, 0.2]."
        ) from None


def read_parquet_vectors(path: Path, name: str) -> Array:
    """Read a column of vectors of a Parquet file, or of a folder of such files.

    Parameters
    ----------
    path : Path
        File or folder.
    name : str
        Column of lists of numbers.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Missing vectors and numbers are nan.
    """
    import pyarrow as pa

    length = find_parquet_length(path, name)
    types = [files.read_schema(part).field(name).type for part in files.list_parts(path)]
    dtype = np.result_type(*map(find_dtype, types))
    X = np.empty((files.count_parquet_rows(path), length), dtype=dtype)
    start = 0
    for block in iter_parquet_vectors(path, name, max(_BATCH_NUMBERS // length, 1)):
        X[start : start + len(block)] = block
        start += len(block)
    del block
    # Memory of the batches, which pyarrow would keep for its next array: 25 MB and more.
    pa.default_memory_pool().release_unused()
    return X


def find_parquet_length(path: Path, name: str) -> int:
    """Return the length of the first vector in Parquet files.

    Parameters
    ----------
    path : Path
        File or folder.
    name : str
        Column of lists of numbers.

    Returns
    -------
    int
        Number of features.

    Raises
    ------
    mpda.exceptions.TableError
        If no row has a vector with numbers.
    """
    if files.count_parquet_rows(path) == 0:
        raise TableError(f"{path} has no rows.")
    length = 0
    if getattr(files.read_schema(path).field(name).type, "list_size", None) != 0:
        batches = files.iter_parquet(path, [name], _FIRST_ROWS)
        length = next(filter(None, (find_length(batch.column(0)) for batch in batches)), 0)
    if length == 0:
        raise TableError(f"{path}: no row has a vector with numbers in the column {name!r}.")
    return length


def iter_parquet_vectors(path: Path, name: str, n_rows: int) -> Iterator[Array]:
    """Read a column of vectors of Parquet files in blocks.

    Parameters
    ----------
    path : Path
        File or folder.
    name : str
        Column of lists of numbers.
    n_rows : int
        Largest number of rows of a block.

    Yields
    ------
    ndarray of shape (n_block, n_features)
        Missing vectors and numbers are nan.
    """
    start, length = 0, find_parquet_length(path, name)
    for batch in files.iter_parquet(path, [name], n_rows):
        chunk = batch.column(0)
        yield stack_chunk(chunk, repr(name), start, length)
        start += len(chunk)


def find_incomplete(X: Array) -> Bools:
    """Find vectors that are missing, have missing numbers, or have no direction.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Vectors.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
        True for rows with nan and for rows of zeros.
    """
    incomplete = np.zeros(len(X), dtype=bool)
    for rows in _iter_blocks(X):
        incomplete[rows] = np.isnan(X[rows]).any(axis=1) | ~X[rows].any(axis=1)
    return incomplete


def check_vectors(X: Array, name: str, numbers: Array) -> None:
    """Refuse vectors that no fit can use.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Vectors.
    name : str
        Name of their column.
    numbers : ndarray of int of shape (n_samples,)
        Number of each row in the file, from 1.

    Raises
    ------
    mpda.exceptions.TableError
        If a vector is missing, has missing, infinite or too large numbers, or is zero.
    """
    advice = "Correct them, or leave out the rows with --skip-missing."
    for find, problem, remedy in (
        (lambda X: np.isnan(X).any(axis=1), "missing or have missing numbers", advice),
        (lambda X: np.isinf(X).any(axis=1), "infinite", "Correct them."),
        (_is_too_large, "too large to be squared", "Correct them."),
        (lambda X: ~X.any(axis=1), "zero and have no direction", advice),
    ):
        found = np.concatenate([np.asarray(find(X[rows])) for rows in _iter_blocks(X)])
        if found.any():
            size = count_noun(int(found.sum()), "row")
            raise TableError(
                f"Vectors in {name!r} are {problem}: {size}, the first is row "
                f"{numbers[np.argmax(found)]}. {remedy}"
            )


def _is_too_large(X: Array) -> Bools:
    return np.asarray(np.abs(X).max(axis=1).astype(np.float64) > _LARGEST_NUMBER)


def _iter_blocks(X: Array) -> Iterator[slice]:
    return iter_slices(len(X), max(_BATCH_NUMBERS // X.shape[1], 1))
