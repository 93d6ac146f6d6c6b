"""File formats of tables: data frames by pandas, pyarrow and openpyxl, arrays by NumPy.

``reading`` selects features and labels from what is read here. Files are written atomically.
"""

import csv
import gzip
import json
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.atomic_write import atomic_path
from mpda.exceptions import TableError
from mpda.io.array_files import write_array
from mpda.io.error_text import join_names, suggest_name
from mpda.io.vectors import is_vector_type

Names: TypeAlias = Sequence[str]
_WRITTEN_FRAMES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")
FRAME_SUFFIXES = (*_WRITTEN_FRAMES, ".jsonl", ".ndjson", ".xlsx")
TABLE_SUFFIXES = (*FRAME_SUFFIXES, ".npy", ".npz")
OUTPUT_SUFFIXES = (*_WRITTEN_FRAMES, ".npy")
# Words for a missing number. pandas has more of its own (such as "-nan"), but not "?" of UCI.
_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>", "?")
# Bytes of each column of a Parquet file that are read at a time; without a buffer it is all of a
# group of rows, which may be the file. Smaller buffers read more often. Pages of 1 MB that are
# decoded come on top: 3 MB for each column in all.
_BUFFER_BYTES = 65_536

# Bytes of JSON lines that a thread parses at a time.
_JSON_BLOCK = 16_777_216
# Types of values in JSON in words: one value, and several in a list.
_JSON_KINDS = {
    bool: ("true or false", "true or false"),
    int: ("a number", "numbers"),
    float: ("a number", "numbers"),
    str: ("text", "text"),
    list: ("a list", "lists"),
    dict: ("an object", "objects"),
}
_ARROW = (".arrow", ".feather")

# A number with a decimal comma, in a cell of text.
_DECIMAL_COMMA = re.compile(r"^\s*([-+]?\d*),(\d+)\s*$")


def table_suffix(path: Path) -> str:
    """Return the suffix that tells the format of a file, in lower case.

    Parameters
    ----------
    path : Path
        File name, such as ``iris.csv`` or ``iris.csv.gz``.

    Returns
    -------
    str
        Last suffix, without the ``.gz`` of a compressed file; "" if there is none. A folder has
        that of the Parquet files in it.
    """
    if path.is_dir():
        return ".parquet"
    return Path(path.name.lower().removesuffix(".gz")).suffix


def check_table_path(path: Path) -> str:
    """Check that a file exists and that its suffix names a known format.

    Parameters
    ----------
    path : Path
        File to read.

    Returns
    -------
    str
        One of ``TABLE_SUFFIXES``.

    Raises
    ------
    mpda.exceptions.TableError
        If the file cannot be read, with the nearest file name in the directory.
    """
    suffix = table_suffix(path)
    if path.is_dir() and not list_parts(path):
        raise TableError(
            f"{path} is a directory without .parquet files; a table is one file, or a directory "
            "with the .parquet files of one table."
        )
    if suffix not in TABLE_SUFFIXES:
        problem = f"ends in {suffix}" if suffix else "has no suffix, which names the format"
        raise TableError(f"{path} {problem}; tables are files in {', '.join(TABLE_SUFFIXES)}.")
    if not path.exists():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise TableError(f"{path} does not exist.{suggest_name(path.name, siblings)}")
    return suffix


@dataclass(frozen=True)
class FileFormat:
    """Format of a CSV or TSV file, and sheet of an .xlsx file.

    Parameters
    ----------
    decimal : {".", ","}, default="."
        Decimal separator. With "," columns are separated by semicolons or tabs, or values are in
        quotes.
    encoding : str, default="utf-8-sig"
        Encoding of the letters; UTF-8, with a byte order mark or without.
    sheet : str or None, default=None
        Name of the sheet. None stands for the first.
    """

    decimal: str = "."
    encoding: str = "utf-8-sig"
    sheet: str | None = None


def read_frame(
    path: Path,
    label: str | None,
    drop: Names,
    features: Names | None,
    file_format: FileFormat,
    texts: Names = (),
    words: Names = (),
    skipped: Names = (),
) -> Any:
    """Read a table with named columns.

    Parameters
    ----------
    path : Path
        File with one of ``FRAME_SUFFIXES``.
    label : str or None
        Column of the labels. CSV and TSV files have no types: labels are read as words, so that
        "007" does not become 7.
    drop : sequence of str
        Columns that the caller leaves out. They are read, but may be row numbers.
    features : sequence of str or None
        Columns that are read as numbers; all others are words. None: all except the label.
    file_format : FileFormat
        Encoding, decimal separator and sheet.
    texts : sequence of str, default=()
        Features that are read as words, with words for missing values.
    words : sequence of str, default=()
        Further columns that are read as words.
    skipped : sequence of str, default=()
        Columns of a Parquet file that are not read.

    Returns
    -------
    pandas.DataFrame
        Table whose column names are distinct strings. A named index becomes a column.
    """
    suffix = table_suffix(path)
    if suffix in (".csv", ".tsv"):
        words = [*words, *([] if label is None else [label])]
        frame = _read_text(path, words, drop, features, file_format, texts)
    elif suffix == ".xlsx":
        words = [*words, *([] if label is None else [label])]
        frame = _read_sheet(path, words, drop, features, file_format)
    elif suffix == ".parquet":
        names = [name for name in read_schema(path).names if name not in skipped]
        frame = _to_frame(_read_parquet(path, names if skipped else None))
    else:
        frame = _to_frame(_read_arrow(path) if suffix in _ARROW else _read_json_lines(path))
    return _name_columns(frame, path)


def read_frame_blocks(
    path: Path, features: Names | None, file_format: FileFormat, n_rows: int
) -> Iterator[Any]:
    """Read a table with named columns in blocks of rows.

    CSV, TSV and Parquet files are read block by block, files of other formats at once.

    Parameters
    ----------
    path : Path
        File with one of ``FRAME_SUFFIXES``.
    features : sequence of str or None
        Columns that are read as numbers; others may be left out. None: all columns.
    file_format : FileFormat
        Encoding, decimal separator and sheet.
    n_rows : int
        Largest number of rows of a block.

    Yields
    ------
    pandas.DataFrame
        Rows, as those of ``read_frame``. Their index counts the rows of the file from 0.
    """
    suffix = table_suffix(path)
    if suffix in (".csv", ".tsv"):
        yield from _read_text_blocks(path, features, file_format, n_rows)
    elif suffix == ".parquet":
        yield from _read_parquet_blocks(path, features, n_rows)
    else:
        frame = read_frame(path, None, (), features, file_format)
        for start in range(0, len(frame), n_rows):
            yield frame.iloc[start : start + n_rows]


def _read_text_blocks(
    path: Path, features: Names | None, file_format: FileFormat, n_rows: int
) -> Iterator[Any]:
    import pandas as pd

    header, options = _choose_text_options(path, (), features, file_format)
    with pd.read_csv(path, chunksize=n_rows, **options) as reader:
        first = True
        while True:
            # Not around the loop: the caller must not get this filter between two blocks.
            with _refuse_long_rows():
                frame = next(reader, None)
            if frame is None:
                return
            if first:
                _refuse_row_numbers(frame, header, (), path)
            first = False
            yield frame


def _read_parquet_blocks(path: Path, features: Names | None, n_rows: int) -> Iterator[Any]:
    import pandas as pd

    start = 0
    is_complete = features is not None and set(features) <= set(read_schema(path).names)
    for batch in iter_parquet(path, list(features or ()) if is_complete else None, n_rows):
        frame = _name_columns(_to_frame(batch), path)
        frame.index = pd.RangeIndex(start, start + len(frame))
        start += len(frame)
        yield frame


def list_parts(path: Path) -> list[Path]:
    """List the files of a table in Parquet.

    Parameters
    ----------
    path : Path
        File, or folder with the files of one table.

    Returns
    -------
    list of Path
        Files in the order of their names; those of a folder end in .parquet.
    """
    if not path.is_dir():
        return [path]
    return sorted(part for part in path.iterdir() if part.suffix.lower() == ".parquet")


def read_schema(path: Path) -> Any:
    """Read the names and types of the columns of a table in Parquet.

    Parameters
    ----------
    path : Path
        File or folder.

    Returns
    -------
    pyarrow.Schema
        That of the first file.

    Raises
    ------
    mpda.exceptions.TableError
        If a file of a folder has other columns, columns of other types, or no rows.
    """
    from pyarrow import parquet

    first, *others = parts = list_parts(path)
    schema = parquet.read_schema(first)
    for part in others:
        fields = parquet.read_schema(part)
        if set(fields.names) != set(schema.names):
            differing = sorted(set(fields.names) ^ set(schema.names))
            raise TableError(
                f"{part} has other columns than {first.name}: {join_names(differing)} is in one of "
                "them only. The files of a folder must be parts of one table."
            )
        for field in fields:
            _check_same_kind(field, schema.field(field.name), part, first)
    for part in parts if path.is_dir() else []:
        if parquet.read_metadata(part).num_rows == 0:
            raise TableError(f"{part} has no rows. Remove the file, or write it again.")
    return schema


def _check_same_kind(field: Any, expected: Any, part: Path, first: Path) -> None:
    """Refuse a column of Parquet files whose types are not both vectors, and cannot be joined."""
    import pyarrow as pa

    if is_vector_type(field.type) and is_vector_type(expected.type):
        return  # their lengths are compared row by row
    try:
        schemas = [pa.schema([field.remove_metadata()]), pa.schema([expected.remove_metadata()])]
        pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(
            f"{part} has {field.type} in the column {field.name!r:.80}, but {first.name} has "
            f"{expected.type}. The files of a folder must be parts of one table."
        ) from error


def count_parquet_rows(path: Path) -> int:
    """Count the rows of a table in Parquet.

    Parameters
    ----------
    path : Path
        File or folder.

    Returns
    -------
    int
        Rows of all files.
    """
    from pyarrow import parquet

    return sum(parquet.read_metadata(part).num_rows for part in list_parts(path))


def iter_parquet(path: Path, columns: list[str] | None, n_rows: int) -> Iterator[Any]:
    """Read a table in Parquet in blocks of rows.

    Parameters
    ----------
    path : Path
        File or folder.
    columns : list of str or None
        Columns to read. None: all.
    n_rows : int
        Largest number of rows of a block.

    Yields
    ------
    pyarrow.RecordBatch
        Rows in the order of the files.
    """
    from pyarrow import parquet

    for part in list_parts(path):
        with parquet.ParquetFile(part, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
            # Threads decode several columns at a time, which takes more memory.
            yield from file.iter_batches(n_rows, columns=columns, use_threads=False)


def _read_parquet(path: Path, columns: list[str] | None) -> Any:
    """Return the table (pyarrow) of all files."""
    import pyarrow as pa
    from pyarrow import parquet

    parts = [parquet.ParquetFile(part).read(columns) for part in list_parts(path)]
    if len(parts) == 1:
        return parts[0]
    names = parts[0].column_names
    return pa.concat_tables([part.select(names) for part in parts], promote_options="permissive")


def _to_frame(table: Any) -> Any:
    """Return a table of pyarrow as a data frame; lists and bytes stay columns of pyarrow."""
    import pandas as pd
    from pyarrow import types

    bytes_types = types.is_binary, types.is_large_binary, types.is_fixed_size_binary

    def keep(kind: Any) -> Any:
        is_kept = types.is_nested(kind) or any(is_type(kind) for is_type in bytes_types)
        return pd.ArrowDtype(kind) if is_kept else None

    return table.to_pandas(types_mapper=keep)


def _name_columns(frame: Any, path: Path) -> Any:
    """Return a data frame whose column names are distinct strings; a named index is a column."""
    frame = frame.reset_index(drop=list(frame.index.names) == [None])
    frame.columns = [str(name) for name in frame.columns]
    _check_distinct(frame.columns, path)
    return frame


def _check_distinct(names: Collection[str], path: Path) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{path} has more than one column {repeated[0]!r:.80}; rename them.")


def read_names(path: Path, file_format: FileFormat) -> tuple[str, list[str]]:
    """Read the first row of a CSV or TSV file.

    Parameters
    ----------
    path : Path
        The file, which may be compressed by gzip.
    file_format : FileFormat
        Encoding and decimal separator.

    Returns
    -------
    separator : str
        Of a .csv the most frequent of comma, semicolon and tab. With decimal commas a comma only
        where the line has neither of the others.
    names : list of str
        Cells of the first row.

    Raises
    ------
    TableError
        If the file is empty.
    """
    open_file = gzip.open if path.suffix.lower() == ".gz" else open
    separators = ";\t," if file_format.decimal == "," else ",;\t"
    with open_file(path, "rt", encoding=file_format.encoding, newline="") as file:
        first_line = file.readline()
        # csv.Sniffer fails on tables of one column and takes letters for separators.
        counts = {letter: first_line.count(letter) for letter in separators}
        if file_format.decimal == "," and (counts[";"] or counts["\t"]):
            counts[","] = 0
        separator = "\t" if table_suffix(path) == ".tsv" else max(counts, key=counts.__getitem__)
        file.seek(0)
        header = next(csv.reader(file, delimiter=separator), [])
    if not first_line.strip():
        raise TableError(f"{path} is empty.")
    return separator, header


def _read_text(
    path: Path,
    words: Names,
    drop: Names,
    features: Names | None,
    file_format: FileFormat,
    texts: Names,
) -> Any:
    """Read CSV or TSV."""
    import pandas as pd

    header, options = _choose_text_options(path, words, features, file_format, texts)
    with _refuse_long_rows():
        frame = pd.read_csv(path, low_memory=False, **options)
    _refuse_row_numbers(frame, header, drop, path)
    return frame


def _choose_text_options(
    path: Path, words: Names, features: Names | None, file_format: FileFormat, texts: Names = ()
) -> tuple[list[str], dict[str, Any]]:
    """Return the first row of a CSV or TSV file, and the options with which pandas reads it."""
    import pandas as pd

    encoding = file_format.encoding
    separator, header = read_names(path, file_format)
    names = _check_header(header, path)
    words = _list_words(names, words, features)
    options: dict[str, Any] = {"sep": separator, "header": 0, "names": names, "index_col": False}
    if pd.__version__ < "3":  # later versions convert decimals exactly by default
        options["float_precision"] = "round_trip"
    options["dtype"] = {name: str for name in names if name in {*words, *texts}}
    options |= {"decimal": file_format.decimal, "encoding": encoding}
    options["na_values"] = {name: list(_MISSING) for name in names if name not in words}
    return header, options | {"skipinitialspace": True, "keep_default_na": False}


@contextmanager
def _refuse_long_rows() -> Iterator[None]:
    """Make an error of the warning with which pandas cuts rows that are longer than the header."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _read_sheet(
    path: Path, words: Names, drop: Names, features: Names | None, file_format: FileFormat
) -> Any:
    """Read a sheet of an .xlsx file; empty rows and columns around the table are left out.

    Cells of a sheet have types, so that a decimal comma concerns numbers that are stored as text.
    """
    import pandas as pd

    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise TableError(
            f"{path}: .xlsx files need openpyxl: pip install 'mpda[excel]'."
        ) from error
    sheet = file_format.sheet
    with pd.ExcelFile(path, engine="openpyxl") as book:
        if sheet is not None and sheet not in book.sheet_names:
            raise TableError(
                f"--sheet: {path} has no sheet {sheet!r}; it has {join_names(book.sheet_names)}."
                f"{suggest_name(sheet, book.sheet_names)}"
            )
        options = {"header": None, "keep_default_na": False, "na_values": [""], "dtype": object}
        cells = pd.read_excel(book, sheet_name=0 if sheet is None else sheet, **options)
    cells = cells.dropna(how="all").dropna(axis="columns", how="all")
    if len(cells) == 0:
        raise TableError(f"{path}: the sheet is empty.")
    header = ["" if pd.isna(name) else str(name) for name in cells.iloc[0]]
    frame = cells.iloc[1:].reset_index(drop=True)
    frame.columns = names = _check_header(header, path)
    words = _list_words(names, words, features)
    for name in names:
        if name not in words:
            frame[name] = frame[name].where(~frame[name].isin(_MISSING))
            if file_format.decimal == ",":
                frame[name] = frame[name].map(_replace_comma)
    frame = frame.infer_objects()
    _refuse_row_numbers(frame, header, drop, path)
    return frame


def _replace_comma(cell: Any) -> Any:
    match = _DECIMAL_COMMA.fullmatch(cell) if isinstance(cell, str) else None
    return cell if match is None else float(f"{match[1]}.{match[2]}")


def _check_header(header: Names, path: Path) -> list[str]:
    """Return the names of the columns, with a name for those that have none."""
    import pandas as pd

    names = [name.strip() or f"column {i}" for i, name in enumerate(header, start=1)]
    if len(names) > 1 and not pd.to_numeric(pd.Series(names), errors="coerce").isna().any():
        raise TableError(
            f"The first line of {path} has only numbers ({', '.join(names[:3])}, ..). The first "
            "line must hold the names of the columns."
        )
    _check_distinct(names, path)
    return names


def _list_words(names: Names, words: Names, features: Names | None) -> list[str]:
    """Return the columns whose words stay what they are, also those for missing values."""
    return [name for name in names if (name in words if features is None else name not in features)]


def _refuse_row_numbers(frame: Any, header: Names, drop: Names, path: Path) -> None:
    """Refuse a first column without a name that only counts the rows."""
    index, name = frame.iloc[:, 0], frame.columns[0]
    counts_rows = index.dtype.kind == "i" and len(index) > 1 and (index.diff()[1:] == 1).all()
    if counts_rows and not header[0].strip() and name not in drop:
        raise TableError(
            f"The first column of {path} has no name and only counts the rows. Leave it out with "
            f"--drop {name!r}, or write the file without it."
        )


def _read_arrow(path: Path) -> Any:
    """Read the file format of Arrow (also called Feather), or its stream format.

    The file is mapped: columns that are used as they are take no memory.
    """
    import pyarrow as pa

    source = pa.memory_map(str(path)) if path.stat().st_size else pa.OSFile(str(path))
    with source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


def _read_json_lines(path: Path) -> Any:
    """Read one JSON object a line; the file may be compressed."""
    import pyarrow as pa
    from pyarrow.json import ReadOptions, read_json

    # A block must hold a line; the default of 1 MB is less than some vectors with their text.
    options = ReadOptions(block_size=_JSON_BLOCK)
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            return read_json(stream, read_options=options)
    except pa.ArrowInvalid as error:
        # Its row counts from 0, in one block.
        open_file = gzip.open if path.suffix.lower() == ".gz" else open
        with open_file(path, "rt", encoding="utf-8") as file:
            mistake = _find_json_mistake(file)
        if mistake is None:
            raise
        raise TableError(f"{path}: {mistake}. Correct the row or remove it.") from error


def _find_json_mistake(lines: Iterable[str]) -> str | None:
    """Describe the first line that is no JSON object, or has another type than those before."""
    kinds: dict[str, str] = {}
    for row, line in enumerate(filter(str.strip, lines), start=1):
        try:
            entry = json.loads(line.rstrip())
        except json.JSONDecodeError as error:
            return f"row {row} is not valid JSON ({error.msg}, character {error.colno})"
        if not isinstance(entry, dict):
            return f"row {row} is {_describe_json(entry)}, not an object with named values"
        for name, value in entry.items():
            kind = _describe_json(value)
            if kind is not None and kinds.setdefault(name, kind) != kind:
                return f"row {row} has {kind} in {name!r:.80}, but rows before have {kinds[name]}"
    return None


def _describe_json(value: Any) -> str | None:
    """Return the type of a value of JSON in words; None for a missing value or an empty list."""
    if isinstance(value, list):
        kinds = {_JSON_KINDS[type(item)][1] for item in value if item is not None}
        return f"a list of {' and '.join(sorted(kinds))}" if kinds else None
    return None if value is None else _JSON_KINDS[type(value)][0]


def check_output(path: Path) -> None:
    """Check that the suffix of an output file names a format that can be written.

    Parameters
    ----------
    path : Path
        Target file.

    Raises
    ------
    mpda.exceptions.TableError
        If the suffix is not one of ``OUTPUT_SUFFIXES``.
    """
    if path.suffix.lower() not in OUTPUT_SUFFIXES:
        endings = ", ".join(OUTPUT_SUFFIXES)
        raise TableError(f"--out {path}: files that can be written end in {endings}.")


def write_table(
    path: str | os.PathLike[str] | None, Z: Array, names: Names, others: Mapping[str, Any]
) -> None:
    """Write samples with named columns.

    Parameters
    ----------
    path : path-like or None
        Target file; its suffix selects the format. An .npy file holds only ``Z``. None writes CSV
        to standard output.
    Z : ndarray of shape (n_samples, n_components)
        Transformed samples.
    names : sequence of str
        Names of the columns of ``Z``.
    others : mapping of str to array-like of shape (n_samples,)
        Columns that are written before those of ``Z``.

    Raises
    ------
    mpda.exceptions.TableError
        If the suffix names no format, or two columns have one name.
    OSError
        If the file cannot be written. An existing file is left as it was.
    """
    if path is not None:
        path = Path(path)
        check_output(path)
    repeated = sorted(set(names) & set(others))
    if repeated and (path is None or path.suffix.lower() != ".npy"):
        raise TableError(f"The data already have a column {repeated[0]!r}: rename it.")
    import pandas as pd

    columns = {name: np.asarray(column) for name, column in others.items()}
    frame = pd.DataFrame(columns | {name: Z[:, i] for i, name in enumerate(names)})
    if path is None:
        frame.to_csv(sys.stdout, index=False)
        return
    with atomic_path(path) as temporary:
        match path.suffix.lower():
            case ".npy":
                write_array(temporary, Z)
            case ".parquet":
                frame.to_parquet(temporary, index=False)
            case ".arrow" | ".feather":
                frame.to_feather(temporary)
            case suffix:
                frame.to_csv(temporary, sep="\t" if suffix == ".tsv" else ",", index=False)
