"""A column of vectors as one matrix: the way of embeddings from data frames into estimators.

Lists of pyarrow keep their numbers in one buffer. Where all lists have one length and none is
missing, the matrix is a view of that buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Bools, Ints
from mpda._lib.arrays import iter_slices
from mpda.exceptions import TableError
from mpda.io.error_text import count_noun, one_line

# Types that float32 holds without rounding. Other integers become float64.
_SINGLE = ("float16", "float32", "int8", "uint8", "int16", "uint16")
# Numbers that are checked at a time: 1 MB of booleans.
_BLOCK_NUMBERS = 1_000_000


def stack_vectors(column: Any, *, keep_missing: bool = False, name: str = "vectors") -> Array:
    """Return a column of vectors as a matrix, which every estimator takes.

    Parameters
    ----------
    column : column of n_samples vectors
        A pyarrow array or chunked array of lists, large lists or fixed-size lists; a polars series
        of type Array or List; a pandas series of arrays, lists or pyarrow lists; a sequence of
        arrays. All vectors have the same length and hold real numbers.
    keep_missing : bool, default=False
        Return nan for missing vectors and numbers instead of refusing them.
    name : str, default="vectors"
        Name of the column, for error messages.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Matrix in float32 for float32, float16 and integers of 8 and 16 bits, otherwise in float64.
        A view without a copy for pyarrow and polars columns of float32 and float64 in one chunk
        without missing values; it may be read-only.

    Raises
    ------
    mpda.exceptions.TableError
        If the column holds no vectors of numbers, if they differ in length, or if one is missing
        or has missing numbers. The message has the number of the row, counted from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mpda.io import stack_vectors
    >>> stack_vectors([np.array([0.0, 1.0]), np.array([2.0, 3.0])])
    array([[0., 1.],
           [2., 3.]])
    """
    X = stack_column(column, name)
    if not keep_missing and (rows := find_missing(X)).any():
        found = f"{count_noun(int(rows.sum()), 'vector')} with missing numbers, or none at all"
        raise TableError(
            f"{name}: {found}; the first is row {np.argmax(rows) + 1}. Remove these rows, or "
            "compute their vectors again."
        )
    return X


def stack_column(column: Any, name: str, first: int = 0, length: int | None = None) -> Array:
    """Return a column of vectors as a matrix with nan for what is missing.

    Parameters
    ----------
    column : column of n_samples vectors
        As for `stack_vectors`.
    name : str
        Name of the column, for error messages.
    first : int, default=0
        Number of rows of the table before those of the column.
    length : int, default=None
        Length of the vectors. None stands for that of the first one.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        In float32 or float64.
    """
    chunks = _list_chunks(column, name, first, length)
    X = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    if X.shape[1] == 0:
        raise TableError(f"{name}: the column has no vectors with numbers.")
    return X


def _list_chunks(column: Any, name: str, first: int, length: int | None) -> list[Array]:
    """Return the chunks of a column as matrices; at least one."""
    if type(column).__module__.split(".")[0] == "polars":
        column = column.to_arrow()
    elif hasattr(getattr(column, "array", None), "__arrow_array__"):
        column = column.array.__arrow_array__()  # a pandas series of pyarrow
    if not hasattr(column, "type"):
        return [_stack_objects(column, name, first, length)]
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    if not chunks:
        raise TableError(f"{name}: the column has no rows.")
    _check_type(column.type, name)
    length = length or next(filter(None, map(find_length, chunks)), 0)
    matrices = []
    for chunk in chunks:
        matrices.append(stack_chunk(chunk, name, first, length))
        first += len(chunk)
    return matrices


def find_length(chunk: Any) -> int:
    """Return the length of the first vector.

    Parameters
    ----------
    chunk : pyarrow.Array of n_samples lists
        Vectors, some of which may be missing.

    Returns
    -------
    int
        0 if all are missing.
    """
    if hasattr(chunk.type, "list_size"):
        return int(chunk.type.list_size)
    return next((len(vector) for vector in chunk if vector.is_valid), 0)


def stack_chunk(chunk: Any, name: str, first: int, length: int) -> Array:
    """Return an array of pyarrow as a matrix.

    Parameters
    ----------
    chunk : pyarrow.Array of n_samples lists
        Lists of numbers, not chunked.
    name : str
        Name of the column, for error messages.
    first : int
        Number of rows before those of the chunk.
    length : int
        Length that all vectors must have.

    Returns
    -------
    ndarray of shape (n_samples, length)
        Missing vectors and numbers are nan. A view of the array where possible.

    Raises
    ------
    mpda.exceptions.TableError
        If a vector has another length.
    """
    is_valid: Bools = chunk.is_valid().to_numpy(zero_copy_only=False)
    lengths: Ints = chunk.value_lengths().to_numpy(zero_copy_only=False)[is_valid]
    _check_lengths(lengths, length, np.flatnonzero(is_valid) + first, name)
    numbers = chunk.flatten()  # without those of missing vectors
    X = np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=find_dtype(chunk.type))
    return _insert_missing(
        X.reshape(-1, length) if length else X.reshape(len(lengths), 0), is_valid
    )


def find_dtype(kind: Any) -> type[np.floating[Any]]:
    """Return the precision in which vectors of a type are kept.

    Parameters
    ----------
    kind : pyarrow.DataType
        Lists of numbers.

    Returns
    -------
    type
        float32 where it holds all numbers of the type, otherwise float64.
    """
    return _choose_precision(np.dtype(kind.value_type.to_pandas_dtype()))


def _choose_precision(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    return np.float32 if dtype.name in _SINGLE else np.float64


def is_vector_type(kind: Any) -> bool:
    """Tell whether a type of pyarrow is a list of numbers.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of a column.

    Returns
    -------
    bool
        True for lists, large lists and fixed-size lists of floating-point numbers or integers.
    """
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list:
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _check_type(kind: Any, name: str) -> None:
    if not is_vector_type(kind):
        raise TableError(f"{name}: vectors must be lists of numbers, but the type is {kind}.")


def _check_lengths(lengths: Ints, length: int, rows: Ints, name: str) -> None:
    """Refuse vectors of another length; ``rows`` count from 0."""
    differs = lengths != length
    if differs.any():
        i = int(np.argmax(differs))
        raise TableError(
            f"{name}: all vectors must have one length; the first has {length} numbers, but row "
            f"{rows[i] + 1} has {lengths[i]}. Correct row {rows[i] + 1} or remove it."
        )


def _stack_objects(column: Any, name: str, first: int, length: int | None) -> Array:
    """Return a sequence of arrays or lists as a matrix; None is a missing vector."""
    if getattr(column, "ndim", 1) == 2:
        matrix = np.asarray(column)
        return np.asarray(matrix, dtype=_choose_precision(matrix.dtype))
    vectors = [np.asarray(vector) for vector in column]
    is_valid = np.array([vector.ndim > 0 for vector in vectors], dtype=bool)
    for i, vector in enumerate(vectors):
        is_missing = vector.ndim == 0 and (vector == None or vector != vector)  # noqa: E711
        if not is_missing and (vector.ndim != 1 or vector.dtype.kind not in "iuf"):
            raise TableError(
                f"{name}: vectors must be lists or arrays of numbers with one axis, but row "
                f"{first + i + 1} is {one_line(vector, 40)} (shape {vector.shape}, {vector.dtype})."
            )
    present = [vectors[i] for i in np.flatnonzero(is_valid)]
    if not present:
        return np.empty((len(vectors), 0))
    lengths = np.array([len(vector) for vector in present])
    _check_lengths(lengths, length or len(present[0]), np.flatnonzero(is_valid) + first, name)
    X = np.stack(present)
    return _insert_missing(X.astype(_choose_precision(X.dtype), copy=False), is_valid)


def _insert_missing(X: Array, is_valid: Bools) -> Array:
    """Return the vectors X with rows of nan where ``is_valid`` is False."""
    if len(X) == len(is_valid):
        return X
    stacked = np.full((len(is_valid), X.shape[1]), np.nan, dtype=X.dtype)
    stacked[is_valid] = X
    return stacked


def find_missing(X: Array) -> Bools:
    """Find the rows of a matrix that have missing numbers.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Vectors.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
        True where a number is nan.
    """
    missing = np.zeros(len(X), dtype=bool)
    for rows in iter_slices(len(X), max(_BLOCK_NUMBERS // max(X.shape[1], 1), 1)):
        missing[rows] = np.isnan(X[rows]).any(axis=1)
    return missing
