"""A zip archive of stored members in which every byte beside their contents has one right value.

Any zip program opens it. Reading is stricter than such programs are: from names, sizes and
checksums the archive is made again, and a file that differs from it in one byte is refused. So
there is nothing to unpack, nothing between or behind the members, and no size that the file does
not have.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from mpda.exceptions import ModelFileError

# From here on a number does not fit into the fields of the first zip programs.
LARGE = 0xFFFFFFFF
_MANY = 0xFFFF
_LOCAL = struct.Struct("<4s5H3I2H")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LARGE_END = struct.Struct("<4sQ2H2I4Q4sIQI")
_FIRST_DAY = 0x21  # 1980-01-01, so that files do not depend on when they were made
_PLAIN_FILE = 0o100644 << 16
_LONGEST_NAME = 32


@dataclass(frozen=True)
class Member:
    """A member: its name, the length and CRC-32 of its contents, and where its header begins."""

    name: str
    size: int
    crc: int
    start: int

    @property
    def contents(self) -> int:
        """Where the contents begin."""
        return self.start + len(_local_header(self))

    @property
    def end(self) -> int:
        return self.contents + self.size


def write_archive(file: BinaryIO, contents: Iterable[tuple[str, Sequence[Any]]]) -> None:
    """Write members, each a name and pieces of bytes, and the directory."""
    members: list[Member] = []
    for name, pieces in contents:
        crc = 0
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        start = members[-1].end if members else 0
        members.append(Member(name, sum(memoryview(p).nbytes for p in pieces), crc, start))
        file.write(_local_header(members[-1]))
        for piece in pieces:
            file.write(piece)
    file.write(_directory(members))


def archive_members(file: BinaryIO, first: str) -> list[Member]:
    """The members of a file whose first has this name; all but their contents is checked."""
    size = file.seek(0, os.SEEK_END)
    members = [_first_member(file, first)]
    while True:
        end = members[-1].end
        if end + 4 > size:
            raise ModelFileError("is cut short.")
        file.seek(end)
        if file.read(4) != b"PK\x03\x04":
            break
        members.append(_member_at(file, end))
    expected = _directory(members)
    file.seek(end)
    if end + len(expected) > size:
        raise ModelFileError("is cut short.")
    if end + len(expected) < size or file.read() != expected:
        raise ModelFileError("is damaged: its zip directory does not agree with its members.")
    return members


def _first_member(file: BinaryIO, name: str) -> Member:
    """The first member, or what kind of other file this is."""
    file.seek(0)
    begin = file.read(_LOCAL.size + len(name))
    if begin[:4] != b"PK\x03\x04":
        raise ModelFileError("is not a model file of mpda: it is no zip archive.")
    if begin[_LOCAL.size :] != name.encode():
        raise ModelFileError(f"is a zip archive, but no model file of mpda: {name} is not first.")
    if begin[8:10] != b"\x00\x00":
        raise ModelFileError(
            "is a zip archive with compressed members, which model files never have: give the "
            "file that mpda.save wrote."
        )
    return _member_at(file, 0)


def _member_at(file: BinaryIO, start: int) -> Member:
    """The member whose header begins there."""
    file.seek(start)
    begin = file.read(_LOCAL.size)
    if len(begin) < _LOCAL.size:
        raise ModelFileError("is cut short.")
    *_, crc, _, size, name_length, more = _LOCAL.unpack(begin)
    begin += file.read(min(name_length, _LONGEST_NAME) + min(more, 20))
    name = begin[_LOCAL.size : _LOCAL.size + name_length]
    if size >= LARGE and more == 20 and len(begin) == _LOCAL.size + name_length + more:
        size = struct.unpack("<Q", begin[-16:-8])[0]
    member = Member(name.decode("latin-1"), size, crc, start)
    if not member.name.isascii() or _local_header(member) != begin:
        raise ModelFileError("is damaged: the header of a member is not what mpda.save writes.")
    return member


def _local_header(member: Member) -> bytes:
    extra = b""
    size = member.size
    if size >= LARGE:
        extra = struct.pack("<2H2Q", 1, 16, size, size)
        size = 0xFFFFFFFF
    needed = 45 if extra else 20
    name = member.name.encode()
    fixed = (b"PK\x03\x04", needed, 0, 0, 0, _FIRST_DAY, member.crc, size, size)
    return _LOCAL.pack(*fixed, len(name), len(extra)) + name + extra


def _directory(members: Sequence[Member]) -> bytes:
    """What stands behind the members."""
    entries = b"".join(map(_directory_entry, members))
    start, count = members[-1].end, len(members)
    large = b""
    shown, shown_start, shown_length = count, start, len(entries)
    if start >= LARGE or len(entries) >= LARGE or count >= _MANY:
        place = start + len(entries)
        large = _LARGE_END.pack(
            *(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(entries), start),
            *(b"PK\x06\x07", 0, place, 1),
        )
        shown, shown_start, shown_length = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    end = _END.pack(b"PK\x05\x06", 0, 0, shown, shown, shown_length, shown_start, 0)
    return entries + large + end


def _directory_entry(member: Member) -> bytes:
    size, start = member.size, member.start
    large = b""
    if size >= LARGE:
        large += struct.pack("<2Q", size, size)
        size = 0xFFFFFFFF
    if start >= LARGE:
        large += struct.pack("<Q", start)
        start = 0xFFFFFFFF
    extra = struct.pack("<2H", 1, len(large)) + large if large else b""
    needed = 45 if large else 20
    name = member.name.encode()
    fixed = (b"PK\x01\x02", 3 << 8 | needed, needed, 0, 0, 0, _FIRST_DAY, member.crc, size, size)
    lengths = (len(name), len(extra), 0, 0, 0, _PLAIN_FILE, start)
    return _ENTRY.pack(*fixed, *lengths) + name + extra
