"""Arrays as members of a model file: the .npy format, with the place of every entry in memory.

Sums are rounded in an order that depends on how an array lies in memory. An array that is neither
in C nor in Fortran order, such as some columns of a matrix, is therefore described by strides
besides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any, BinaryIO

import numpy as np

from mpda._lib.array_types import Array
from mpda.exceptions import ModelFileError
from mpda.io.array_files import KINDS, MOST_AXES, check_values
from mpda.io.models._archive import Member

_MOST_OF_NOTHING = 1 << 24
_DTYPE = re.compile(rf"[<>|][{KINDS}][0-9]{{1,10}}(\[[0-9]*[a-zA-Z]{{1,2}}\])?")


@dataclass(frozen=True)
class Layout:
    """What an array is, but for its entries.

    dtype : as NumPy writes it in a .npy file
    shape : of the array
    fortran : whether entries are written first index first
    strides : in entries, where the array is neither in C nor in Fortran order
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool = False
    strides: tuple[int, ...] | None = None

    def npy_header(self) -> bytes:
        """The header of the .npy file, version 1.0."""
        said = (
            f"{{'descr': {self.dtype!r}, 'fortran_order': {self.fortran}, 'shape': {self.shape}, }}"
        )
        room = -(10 + len(said) + 1) % 64
        text = said.encode() + b" " * room + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape)}
        if self.fortran:
            said["order"] = "F"
        if self.strides is not None:
            said["strides"] = list(self.strides)
        return said

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Layout:
        shape, strides = said["shape"], said.get("strides")
        order, dtype = said.get("order", "C"), said["dtype"]
        # Nothing, many times over, is no room in memory, but work for what goes through it.
        if not _are_integers(shape, least=0) or (0 in shape and max(shape) > _MOST_OF_NOTHING):
            raise ModelFileError("describes an array that cannot be.")
        if order not in ("C", "F"):
            raise ModelFileError("describes an array that cannot be.")
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype) or len(shape) > MOST_AXES:
            raise ModelFileError(
                f"holds an array of a kind that model files never have: {dtype!r:.40}."
            )
        if strides is not None and not _are_integers(strides):
            raise ModelFileError("describes an array that cannot be.")
        return cls(dtype, tuple(shape), order == "F", None if strides is None else tuple(strides))


def _are_integers(values: Any, least: int | None = None) -> bool:
    return isinstance(values, list) and all(
        type(v) is int and (least is None or v >= least) for v in values
    )


def layout(array: Array) -> Layout:
    """The layout of an array of NumPy."""
    dtype, shape = array.dtype.str, array.shape
    if array.flags.c_contiguous:
        return Layout(dtype, shape)
    if array.flags.f_contiguous:
        return Layout(dtype, shape, fortran=True)
    return Layout(dtype, shape, strides=_modest_strides(array))


def _modest_strides(array: Array) -> tuple[int, ...]:
    """Strides, in entries, of an array that lies as this one does, but close together.

    The order of the axes, their directions and which have gaps (up to two axes) are kept: the gaps
    themselves may be much larger than the array.
    """
    strides = [0] * array.ndim
    true_room, room = array.itemsize, 1
    for axis in sorted(range(array.ndim), key=lambda i: (abs(array.strides[i]), -i)):
        step = array.strides[axis]
        has_gap = abs(step) != true_room and array.ndim <= 2 and array.shape[axis] > 1
        strides[axis] = (-1 if step < 0 else 1) * (room + has_gap)
        room = (room + has_gap) * array.shape[axis]
        true_room = abs(step) * array.shape[axis]
    return tuple(strides)


def npy_pieces(array: Array) -> list[Any]:
    """The bytes of the .npy file of an array of NumPy, in pieces."""
    how = layout(array)
    entries = np.ascontiguousarray(array.T if how.fortran else array)
    return [how.npy_header(), entries.reshape(-1).view(np.uint8).data if entries.nbytes else b""]


def npy_array(file: BinaryIO, member: Member, how: Layout, checksum: Any) -> Array:
    """The array of a member, whose entries are as the layout says and have the checksum.

    Nothing is made room for that the file does not have.
    """
    begin = how.npy_header()
    try:
        dtype = np.dtype(how.dtype)
    except TypeError as error:
        raise ModelFileError(
            f"holds an array that NumPy here does not know: {how.dtype!r:.40}."
        ) from error
    if dtype.str != how.dtype:
        raise ModelFileError(f"holds an array of a kind that model files never have: {how.dtype}.")
    if len(begin) + prod(how.shape) * dtype.itemsize != member.size:
        raise ModelFileError(f"is damaged: {member.name} has not the size of its array.")
    file.seek(member.contents)
    if file.read(len(begin)) != begin:
        raise ModelFileError(f"is damaged: the header of {member.name} does not say what it holds.")
    array = np.empty(how.shape, dtype, order="F" if how.fortran else "C")
    if array.dtype != dtype:  # NumPy makes room for strings of no length
        raise ModelFileError(f"holds an array of a kind that model files never have: {dtype.str}.")
    entries = array.reshape(-1, order="A").view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    found = file.readinto(entries.data) if array.nbytes else 0  # type: ignore[attr-defined]
    digest = sha256(begin)
    digest.update(entries.data)
    if found != array.nbytes or digest.hexdigest() != checksum:
        raise ModelFileError(f"is damaged: {member.name} does not have its checksum.")
    check_values(array)
    return array if how.strides is None else _laid_out(array, how.strides)


def _laid_out(array: Array, strides: Sequence[int]) -> Array:
    """A copy of the array with other strides, given in entries."""
    lowest, reach = 0, 0
    # From the closest entries to those farthest apart: no two may fall on one place.
    for step, n in sorted(zip(strides, array.shape, strict=True), key=lambda each: abs(each[0])):
        if abs(step) <= reach and n > 1:
            raise ModelFileError("describes an array that cannot be.")
        reach += abs(step) * (n - 1)
        lowest += min(step, 0) * (n - 1)
    if array.size == 0 or reach > 3 * array.size:
        raise ModelFileError("describes an array that cannot be.")
    base = np.zeros(reach + 1, array.dtype)[-lowest:]
    steps = [step * array.itemsize for step in strides]
    placed = np.lib.stride_tricks.as_strided(base, array.shape, steps)
    placed[...] = array
    return placed
