"""NumPy's files, read without pickle, without evaluating a header, and without lies about sizes.

NumPy makes room for what a header says before it looks whether the file has that much, and unpacks
whatever an archive holds. Here nothing is made room for that the file does not account for. What
is wrong is a ValueError, or what the standard library says of a broken archive.
"""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from mpda._lib.array_types import Array
from mpda.io.unpacked import check_unpacked

# Truth values, numbers, strings, dates: all that is nothing but its bytes.
KINDS = "biufcSUmM"
MOST_AXES = 32
_LONGEST_HEADER = 10_000  # as NumPy has it
_PIECE = 1 << 20
_DTYPE = r"[<>=|]?[a-zA-Z?]\d{0,10}(?:\[\d{0,9}[a-zA-Z]{1,2}\])?"
# The three entries in any order, once each, as the programs of many languages write them.
_ENTRY = "|".join(
    (
        rf"""['"]descr['"] ?: ?['"](?P<descr>{_DTYPE})['"]""",
        r"""['"]fortran_order['"] ?: ?(?P<fortran>True|False)""",
        r"""['"]shape['"] ?: ?\( ?(?P<shape>(?:\d{1,19}L? ?, ?)*(?:\d{1,19}L?)?) ?\)""",
    )
)
_HEADER = re.compile(rf"\{{ ?(?:(?:{_ENTRY})(?: ?, ?|(?= ?\}}))){{3}} ?\}}")


@dataclass(frozen=True)
class Described:
    """What a .npy file says of its array.

    dtype, shape : of the array
    fortran : whether entries are written first index first
    start : where they begin
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    def n_bytes(self, width: int = 1) -> int:
        """Of the entries, each of at least this width."""
        return prod(self.shape) * max(self.dtype.itemsize, width)


def read_npy(file: IO[bytes], *, width: int = 1) -> Array:
    """The array of a .npy file; ``width`` is what an entry takes at least in what it becomes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    found = _described(file)
    if found.start + found.n_bytes() != size:
        raise ValueError(
            f"it has {size} bytes, but its header speaks of {found.start + found.n_bytes()}"
        )
    check_unpacked(found.n_bytes(width), size)
    return _entries(file, found)


class ArrayArchive:
    """The arrays of an .npz file, none of which is unpacked before it is asked for.

    names : of the arrays
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._size = file.seek(0, os.SEEK_END)
        self._archive = zipfile.ZipFile(file)
        members = self._archive.infolist()
        if sum(each.compress_size for each in members) > self._size:
            raise ValueError("its members overlap")
        check_unpacked(sum(each.file_size for each in members), self._size)
        arrays = [each for each in members if each.filename.endswith(".npy")]
        self._members = {each.filename.removesuffix(".npy"): each for each in arrays}
        if len(self._members) < len(arrays):
            raise ValueError("two of its arrays have one name")

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def arrays(self, *names: str, width: int = 1) -> list[Array]:
        """Arrays by their names; see ``read_npy``."""
        for name in names:
            if name not in self._members:
                raise ValueError(f"it has no array {name!r:.80}")
        described = []
        for name in names:
            with self._opened(name) as file:
                described.append(_described(file))
                if described[-1].start + described[-1].n_bytes() != self._members[name].file_size:
                    raise ValueError(f"{name!r:.80} is not as long as its header says")
        check_unpacked(sum(each.n_bytes(width) for each in described), self._size)
        made = []
        for name in names:
            with self._opened(name) as file:
                made.append(_entries(file, _described(file)))
        return made

    def _opened(self, name: str) -> IO[bytes]:
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # NumPy writes no others, and they unpack to much more at a time.
            raise ValueError(f"{name!r:.80} is compressed in a way that NumPy never does")
        return self._archive.open(member)


def _described(file: IO[bytes]) -> Described:
    begin = file.read(8)
    if begin[:6] != b"\x93NUMPY":
        raise ValueError("it is no array of NumPy")
    if len(begin) < 8 or begin[6] not in (1, 2, 3) or begin[7] != 0:
        raise ValueError("it is of a version of NumPy's format that is not known")
    digits = 2 if begin[6] == 1 else 4
    length = int.from_bytes(file.read(digits), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes, which no array needs")
    text = " ".join(file.read(length).decode("latin-1").split())
    match = _HEADER.fullmatch(text)
    if match is None or None in match.groups():
        raise ValueError(f"its header does not describe numbers or strings: {text!r:.80}")
    shape = tuple(int(each.strip(" L")) for each in match["shape"].split(",") if each.strip())
    if len(shape) > MOST_AXES:
        raise ValueError(f"its header speaks of {len(shape)} axes")
    dtype = plain_dtype(match["descr"])
    return Described(dtype, shape, match["fortran"] == "True", 8 + digits + length)


def plain_dtype(text: str) -> np.dtype[Any]:
    """The type of this name, if it is nothing but its bytes."""
    try:
        dtype = np.dtype(text)
    except TypeError as error:
        raise ValueError(f"NumPy here does not know the type {text!r:.40}") from error
    if dtype.kind not in KINDS or dtype.itemsize == 0:
        raise ValueError(
            f"it holds Python objects or entries without a size ({text!r:.40}), which are refused"
        )
    return dtype


def _entries(file: IO[bytes], found: Described) -> Array:
    """The array, whose entries are all that is left of the file."""
    array: Array = np.empty(found.shape, found.dtype, order="F" if found.fortran else "C")
    if array.size:
        room = array.reshape(-1, order="A").view(np.uint8).data
        place = 0
        while place < len(room):
            read = file.readinto(room[place : place + _PIECE])  # type: ignore[attr-defined]
            if not read:
                raise ValueError("it is cut short")
            place += read
    if file.read(1):  # at the end of a member its checksum is compared, too
        raise ValueError("it goes on behind its array")
    array = array.astype(found.dtype.newbyteorder("="), copy=False)
    check_values(array)
    return array


def check_values(array: Array) -> None:
    """Refuse bytes that are no value of their type: other software trusts that there are none."""
    if array.size == 0:
        return
    if array.dtype.kind == "b" and array.view(np.uint8).max() > 1:
        raise ValueError("it has truth values that are neither true nor false")
    if array.dtype.kind == "U" and _codes(array).max() > 0x10FFFF:
        raise ValueError("it has strings that are no text")


def _codes(array: Array) -> Array:
    """The characters of strings as numbers."""
    flat = np.ascontiguousarray(array.reshape(-1, order="A"))
    return flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
