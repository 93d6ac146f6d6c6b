"""What the pages of a Parquet file say they will be in memory.

The footer speaks of columns; how large a page is once it is unpacked stands in the page, and
readers make room for it. A header is a structure of Thrift's compact protocol, of which two numbers
are wanted and the rest is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_UNPACKED, _PACKED = 2, 3  # fields of a header
_DEEPEST = 8
_TRUE, _FALSE, _BYTE, _DOUBLE, _TEXT, _LIST, _SET, _STRUCTURE = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS = (4, 5, 6)


def claimed_by_pages(metadata: Any, data: Any) -> Iterator[int]:
    """The size of each page when it is unpacked, given the footer and all bytes of the file."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            place = column.data_page_offset
            if column.has_dictionary_page and 0 < column.dictionary_page_offset < place:
                place = column.dictionary_page_offset
            end = place + column.total_compressed_size
            if not 0 <= place <= end <= len(data):
                raise ValueError("it names a page that it does not have")
            while place < end:
                header = _Header(data, place)
                packed, unpacked = (header.fields.get(each, -1) for each in (_PACKED, _UNPACKED))
                if min(packed, unpacked) < 0:
                    raise ValueError("it has a page without a size")
                yield unpacked
                place = header.end + packed


class _Header:
    """A structure that begins at a place: its whole numbers by field, and where it ends."""

    def __init__(self, data: Any, place: int) -> None:
        self._data, self.end = data, place
        self.fields = self._structure(0)

    def _structure(self, depth: int) -> dict[int, int]:
        found, field = {}, 0
        while sign := self._byte():
            step, kind = sign >> 4, sign & 15
            field = field + step if step else self._whole()
            value = self._value(kind, depth)
            if value is not None:
                found[field] = value
        return found

    def _value(self, kind: int, depth: int) -> int | None:
        if depth > _DEEPEST:
            raise ValueError("it has a page whose header is nested too deep")
        if kind in _NUMBERS:
            return self._whole()
        if kind == _STRUCTURE:
            self._structure(depth + 1)
        elif kind in (_LIST, _SET):
            sign = self._byte()
            for _ in range(self._varint() if sign >> 4 == 15 else sign >> 4):
                self._value(_BYTE if sign & 15 in (_TRUE, _FALSE) else sign & 15, depth + 1)
        elif kind in (_BYTE, _DOUBLE, _TEXT):
            self._pass({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._varint())
        elif kind not in (_TRUE, _FALSE):
            raise ValueError("it has a page whose header is not known")
        return None

    def _byte(self) -> int:
        self._pass(1)
        return int(self._data[self.end - 1])

    def _pass(self, length: int) -> None:
        self.end += length
        if self.end > len(self._data):  # or a list could have any length
            raise ValueError("it has a page that is cut short")

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("it has a page with a number that does not end")

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
