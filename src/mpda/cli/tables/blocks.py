"""Features of a table in blocks of rows, for tables that are larger than memory.

.npy files are memory-mapped; CSV, TSV and Parquet files are read block by block, also a column of
vectors in Parquet, and files of other formats at once. Blocks pass the checks of ``reading``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda.cli.tables import files
from mpda.cli.tables.columns import convert_columns
from mpda.cli.tables.files import FRAME_SUFFIXES, FileFormat, Names
from mpda.cli.tables.reading import (
    Table,
    check_matrix,
    check_values,
    explain_encoding_errors,
    skip_missing_rows,
)
from mpda.cli.tables.vectors import (
    EmbeddingChoice,
    find_frame_vectors,
    find_parquet_vectors,
    iter_parquet_vectors,
    stack_frame_vectors,
)
from mpda.exceptions import TableError
from mpda.io.array_files import read_arrays
from mpda.io.error_text import count_noun, join_names, name_file_in_errors, suggest_name

# Numbers in a block: 64 MB in double precision. Sums over rows need about 40 MB of temporary
# arrays for a block of any size, and smaller blocks would make these the larger part.
BLOCK_NUMBERS = 8_000_000


def read_blocks(
    path: Path,
    features: Names | None,
    n_features: int,
    file_format: FileFormat,
    *,
    skip_missing: bool = False,
    usual_embedding: str | None = None,
) -> Iterator[Table]:
    """Read the features of a fit from a table, block by block.

    Parameters
    ----------
    path : Path
        File in a format that its suffix names.
    features : sequence of str or None
        Names of the features; they are put into this order. None takes all columns as they are,
        and so do files without names.
    n_features : int
        Number of features.
    file_format : FileFormat
        Encoding, decimal separator and sheet.
    skip_missing : bool, default=False
        Leave out rows with missing values instead of refusing them.
    usual_embedding : str, default=None
        Column of vectors that is taken where several hold vectors.

    Yields
    ------
    Table
        A block without labels, of at most ``BLOCK_NUMBERS`` numbers. No reference to it is kept.

    Raises
    ------
    mpda.exceptions.TableError
        If the file cannot be read, has no rows or other features, or has values that are no finite
        numbers.
    """
    suffix = files.check_table_path(path)
    n_rows, n_read = max(BLOCK_NUMBERS // n_features, 1), 0

    def check_block(block: Table) -> Table:
        """Return a block that passes all checks."""
        nonlocal n_read
        if block.X.shape[1] != n_features:
            found = count_noun(block.X.shape[1], "feature")
            raise TableError(f"{path} has {found}, but {n_features} are needed.")
        block = skip_missing_rows(block) if skip_missing else block
        check_values(block, of_model=True)
        n_read += len(block.X)
        return block

    with name_file_in_errors(path, TableError, f"cannot be read as {suffix[1:]}"):
        if suffix in FRAME_SUFFIXES:
            choice = None if features else EmbeddingChoice(usual=usual_embedding)
            blocks = _read_columns(path, features, file_format, n_rows, choice)
        else:
            blocks = _read_matrix(path, n_rows)
        # A loop would keep a reference to each block while the caller works on it.
        yield from map(check_block, blocks)
        if n_read == 0:
            lack = "rows without missing values" if skip_missing else "rows"
            raise TableError(f"{path} has no {lack}.")


def _read_columns(
    path: Path,
    features: Names | None,
    file_format: FileFormat,
    n_rows: int,
    choice: EmbeddingChoice | None,
) -> Iterator[Table]:
    """Return the blocks of a table with named columns; ``choice`` finds a column of vectors."""
    embedding: str | None = None
    length: int | None = None
    if choice is not None and files.table_suffix(path) == ".parquet":
        embedding = find_parquet_vectors(path, choice).name
        if embedding is not None:
            yield from _read_parquet_vectors(path, embedding, n_rows)
            return

    def convert(frame: Any) -> Table:
        nonlocal embedding, length
        if choice is not None and embedding is None:
            embedding = find_frame_vectors(path, frame, choice).name
        if embedding is not None:  # also in later blocks, whatever their first cell holds
            X = stack_frame_vectors(frame[embedding], embedding, length)
            length = X.shape[1]
            return _make_block(path, embedding, X, frame.index[0])
        names = list(frame.columns) if features is None else list(features)
        missing = [name for name in names if name not in frame.columns]
        if missing:
            columns = list(frame.columns)
            raise TableError(
                f"{path} has no column {missing[0]!r:.80}, which is a feature; it has "
                f"{join_names(columns)}.{suggest_name(missing[0], columns)}"
            )
        X = convert_columns(frame[names], of_model=True, decimal=file_format.decimal)
        rows = frame.index.to_numpy() + 1
        return Table(path.name, X, None, None, tuple(names), rows, {})

    with explain_encoding_errors(path, file_format):
        yield from map(convert, files.read_frame_blocks(path, features, file_format, n_rows))


def _read_parquet_vectors(path: Path, name: str, n_rows: int) -> Iterator[Table]:
    """Return the blocks of a column of vectors."""
    start = 0

    def count(X: Array) -> Table:
        nonlocal start
        start += len(X)
        return _make_block(path, name, X, start - len(X))

    yield from map(count, iter_parquet_vectors(path, name, n_rows))


def _make_block(path: Path, name: str, X: Array, start: int) -> Table:
    """Return the vectors X as the rows of the table that follow ``start`` others."""
    rows = np.arange(start + 1, start + 1 + len(X))
    return Table(path.name, X, None, None, None, rows, {}, embedding=name)


def _read_matrix(path: Path, n_rows: int) -> Iterator[Table]:
    """Return the blocks of an .npy or .npz file."""
    if path.suffix.lower() == ".npz":
        arrays = read_arrays(path)
        matrices = [name for name, array in arrays.items() if array.ndim == 2]
        name = matrices[0] if len(matrices) == 1 else "X"
        if name not in arrays:
            raise TableError(f"{path} has no array 'X'; it has {join_names(list(arrays))}.")
        matrix = arrays[name]
    else:
        name, matrix = "X", None

    def load() -> Array:
        # Mapped anew for each block: pages of earlier blocks would stay in memory.
        return np.load(path, mmap_mode="r", allow_pickle=False) if matrix is None else matrix

    def cut(start: int) -> Table:
        X = _as_floats(load()[start : start + n_rows])
        rows = np.arange(start + 1, start + 1 + len(X))
        return Table(path.name, X, None, None, None, rows, {})

    check_matrix(load(), name, path)
    yield from map(cut, range(0, len(load()), n_rows))


def _as_floats(X: Array) -> Array:
    """Return an array in float32 or float64, which may be a part of the file."""
    return np.asarray(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64))
