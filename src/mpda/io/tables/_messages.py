"""What a message of Arrow says it will be in memory, from its list of buffers.

This list stands in a FlatBuffer, which pyarrow checks but has no way to ask. Buffers may be
compressed one by one; each then begins with the size that it will have.
"""

from __future__ import annotations

import struct
from typing import Any

_DICTIONARY, _RECORDS = 2, 3
# Before Arrow 1.0 it was said elsewhere that buffers are compressed. Readers still believe it.
_OLD_COMPRESSION = b"ARROW:experimental_compression"


def message_places(footer: Any) -> list[int]:
    """Where the messages of a file begin that hold values."""
    found = _Record(footer, _number("<I", footer, 0))
    return [start for field in (2, 3) for start, *_ in found.structures(field, "<qiiq")]


def claimed_by_message(metadata: Any, body: Any) -> int:
    """Bytes that the values of a message will take, given its two parts as bytes."""
    if _OLD_COMPRESSION in bytes(metadata):
        raise ValueError("it is compressed in a way that Arrow gave up in 2020")
    message = _Record(metadata, _number("<I", metadata, 0))
    kind = message.number(1, "<B")
    if kind not in (_DICTIONARY, _RECORDS):
        return 0
    records = message.record(2)
    if kind == _DICTIONARY:
        records = records.record(1)
    lengths = [length for length, _ in records.structures(1, "<qq")]
    buffers = records.structures(2, "<qq")
    sizes = [size for _, size in buffers]
    if records.has(3):
        sizes = [_unpacked_size(body, *buffer) for buffer in buffers if buffer[1] > 0]
    numbers = [*lengths, *sizes, records.number(0, "<q")]
    if min(numbers) < 0:
        raise ValueError("it speaks of less than nothing")
    return 8 * sum(lengths) + sum(sizes)


def _unpacked_size(body: Any, start: int, size: int) -> int:
    said = _number("<q", body, start)
    return size if said == -1 else said


def _number(kind: str, data: Any, place: int) -> int:
    if place < 0:
        raise ValueError("it names a place before its beginning")
    found: int = struct.unpack_from(kind, data, place)[0]
    return found


class _Record:
    """A table of a FlatBuffer: fields by their numbers, some of which may be missing."""

    def __init__(self, data: Any, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - _number("<i", data, place)

    def has(self, field: int) -> bool:
        return self._offset(field) != 0

    def number(self, field: int, kind: str) -> int:
        offset = self._offset(field)
        return _number(kind, self._data, self._place + offset) if offset else 0

    def record(self, field: int) -> _Record:
        return _Record(self._data, self._target(field))

    def structures(self, field: int, kind: str) -> list[tuple[int, ...]]:
        """A list of structures, each a few numbers."""
        if not self.has(field):
            return []
        start = self._target(field)
        end = start + 4 + _number("<I", self._data, start) * struct.calcsize(kind)
        if start < 0 or end > len(self._data):
            raise ValueError("it names a place behind its end")
        return list(struct.iter_unpack(kind, bytes(self._data[start + 4 : end])))

    def _target(self, field: int) -> int:
        if not self.has(field):
            raise ValueError("it lacks a part that every message has")
        place = self._place + self._offset(field)
        return place + _number("<I", self._data, place)

    def _offset(self, field: int) -> int:
        place = 4 + 2 * field
        if place >= _number("<H", self._data, self._fields):
            return 0
        return _number("<H", self._data, self._fields + place)
