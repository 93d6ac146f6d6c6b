"""Tables of Parquet and Arrow, whose sizes are known before anything is unpacked.

Both formats can say a billion rows in a few bytes, and readers make room for what they say. What
is read is checked before it is used: pandas trusts its places and lengths.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Ints
from mpda.io.tables._messages import claimed_by_message, message_places
from mpda.io.tables._pages import claimed_by_pages
from mpda.io.unpacked import check_unpacked

# What a column costs whatever its length, and a value that becomes an object of Python.
_COLUMN = 2048
_OBJECT = 100
_MAGIC = b"ARROW1"
_TEXTS = (
    *("string", "large_string", "string_view"),
    *("binary", "large_binary", "binary_view"),
)


def check_frame(n_rows: int, widths: Sequence[int], held: int) -> None:
    """Refuse a table whose columns, of so many bytes a row, are out of proportion to the file."""
    check_unpacked(_COLUMN * len(widths) + n_rows * sum(widths), held)


def of_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    held = path.stat().st_size
    with path.open("rb") as source:
        file = pq.ParquetFile(source)
        schema = file.schema_arrow
        check_frame(_most_values(file.metadata), list(map(_width, schema.types)), held)
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
            claimed = 0
            for size in claimed_by_pages(file.metadata, data):
                claimed += size
                check_unpacked(claimed, held)
        # Words that come often stay one, as the file has them, until their sum is known.
        texts = [field.name for field in schema if _is_text(field.type)]
        file = pq.ParquetFile(source, read_dictionary=texts, page_checksum_verification=True)
        return _frame(file.read(use_threads=False), schema, held)


def _most_values(metadata: Any) -> int:
    """The number of values of the longest column, where lists count by their entries."""
    lengths = np.zeros(metadata.num_columns + 1, dtype=object)
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        own = [group.num_rows, *(group.column(j).num_values for j in range(group.num_columns))]
        _refuse_negative(own)
        lengths += np.array(own, dtype=object)
    _refuse_negative([metadata.num_rows])
    return max(metadata.num_rows, *lengths)


def _refuse_negative(numbers: Sequence[int]) -> None:
    if min(numbers) < 0:
        raise ValueError("it speaks of less than nothing")


def of_arrow(path: Path) -> Any:
    """Arrow's file format, which is Feather's too, or its stream format."""
    import pyarrow as pa

    held = path.stat().st_size
    with pa.memory_map(str(path)) as source:
        is_file = source.read(len(_MAGIC)) == _MAGIC
        source.seek(0)
        opened = pa.ipc.open_file if is_file else pa.ipc.open_stream
        schema = opened(source).schema
        messages = _of_file(source) if is_file else _of_stream(source)
        claimed = 0
        for message in messages:
            claimed += claimed_by_message(
                memoryview(message.metadata), memoryview(message.body or b"")
            )
            check_unpacked(claimed, held)
        source.seek(0)
        table = opened(source).read_all()
        check_frame(table.num_rows, list(map(_width, schema.types)), held)
        return _frame(table, schema, held)


def _of_file(source: Any) -> Iterator[Any]:
    import pyarrow as pa

    source.seek(-10, os.SEEK_END)
    length = int.from_bytes(source.read(4), "little")
    source.seek(-10 - length, os.SEEK_END)
    for start in message_places(source.read(length)):
        source.seek(start)
        yield pa.ipc.read_message(source)


def _of_stream(source: Any) -> Iterator[Any]:
    import pyarrow as pa

    source.seek(0)
    yield from pa.ipc.MessageReader.open_stream(source)


def _frame(table: Any, schema: Any, held: int) -> Any:
    """The table in pandas, its texts unpacked where the schema has them so."""
    import pyarrow as pa

    table.validate()
    # Views may show one text a million times, and all of it would be looked at.
    views = [column for column in table.columns if str(column.type).endswith("_view")]
    check_unpacked(sum(map(_text_bytes, views)), held)
    table.validate(full=True)
    check_unpacked(sum(map(_text_bytes, table.columns)), held)
    made = [
        column.cast(field.type)
        if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type)
        else column
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(made, schema=schema.with_metadata(table.schema.metadata)).to_pandas()


def _text_bytes(column: Any) -> int:
    """Bytes of all words of a column, whether the file has them once or often."""
    import pyarrow as pa

    if not _is_text(column.type):
        return 0
    total = 0
    for chunk in column.chunks:
        chunk = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
        if pa.types.is_dictionary(chunk.type):
            counts = np.bincount(chunk.indices.drop_null(), minlength=len(chunk.dictionary))
            total += int(counts @ _lengths(chunk.dictionary))
        else:
            total += int(_lengths(chunk).sum())
    return total


def _lengths(words: Any) -> Ints:
    """Bytes of each word, none where one is missing."""
    import pyarrow.compute as pc

    if str(words.type).endswith(
        "_view"
    ):  # a length, the first characters, and where the others are
        views = np.frombuffer(words.buffers()[1] or b"", dtype=np.int32).reshape(-1, 4)
        here = views[words.offset : words.offset + len(words), 0]
        return np.where(words.is_valid().to_numpy(zero_copy_only=False), here, 0).astype(np.int64)
    return pc.binary_length(words).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _is_text(kind: Any) -> bool:
    """Whether values are words or bytes of any length."""
    import pyarrow as pa

    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(kind) in _TEXTS


def _width(kind: Any) -> int:
    """Bytes of a value in pandas; types that could be much more are refused."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if types.is_dictionary(kind):
        return _width(kind.value_type)
    if types.is_nested(kind):
        inside = [kind.field(i).type for i in range(kind.num_fields)]
        if any(map(_is_text, inside)) or not (
            types.is_list(kind) or types.is_large_list(kind) or types.is_struct(kind)
        ):
            raise ValueError(f"it has columns of {kind}, which are no use here: leave them out")
        return _OBJECT + sum(map(_width, inside))
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return _OBJECT + kind.byte_width
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return 8 if plain or types.is_timestamp(kind) or types.is_duration(kind) else _OBJECT
