"""Stored types of a vector: float32, float16, int8 with one scale, and one bit a number.

With the scale s = max |z| / 127 over training samples, int8 stores

    c_i = round(z_i / s), at most 127 in magnitude,    decoded as s c_i.

All numbers share s, so distances of codes are those of decoded vectors divided by s, and cosines
are equal: a store needs the scale for nothing. With a scale for each number the codes would have
another metric than the vectors. New samples beyond the training samples are clipped. A bit is the
sign; the Hamming distance of bits is a quarter of the squared distance of vectors of -1 and 1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.atomic_write import write_atomically

# Bits of a number.
_BITS = {"float32": 32, "float16": 16, "int8": 8, "bits": 1}
VECTOR_TYPES = tuple(_BITS)
"""Names of the stored types, from the largest to the smallest."""
# Largest code of int8. -128 stays unused, so that a vector and its negative have opposite codes.
_LARGEST_CODE = 127


@dataclass(frozen=True)
class VectorType:
    """A stored type of vectors, which encodes and decodes them.

    Parameters
    ----------
    name : {"float32", "float16", "int8", "bits"}
        Type of a number; "bits" is its sign.
    n_numbers : int
        Numbers of a vector.
    scale : float, default=None
        Value of the code 1 of int8, the same for all numbers of a vector. Other types have none.

    Examples
    --------
    >>> import numpy as np
    >>> from mpda.io import fit_vector_type
    >>> Z = np.array([[1.27, -0.5, 0.0], [0.3, 0.2, -0.1]], dtype=np.float32)
    >>> stored = fit_vector_type(Z, "int8")
    >>> stored.encode(Z)
    array([[127, -50,   0],
           [ 30,  20, -10]], dtype=int8)
    >>> stored.n_bytes
    3
    """

    name: str
    n_numbers: int
    scale: float | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if (self.scale is not None) != (self.name == "int8"):
            raise ValueError(f"scale must be given for int8 and for no other type, not {self}.")
        if self.scale is not None and not 0.0 < self.scale < np.inf:
            raise ValueError(f"scale must be positive and finite, got {self.scale!r}.")

    @property
    def n_bytes(self) -> int:
        """Bytes of a vector."""
        return -(-self.n_numbers * _BITS[self.name] // 8)

    def encode(self, Z: ArrayLike) -> Array:
        """Return vectors as they are stored.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_numbers)
            Vectors.

        Returns
        -------
        ndarray of shape (n_samples, n_numbers)
            In float32, float16 or int8. Bits are packed, eight to a uint8, the first number in the
            highest bit: shape (n_samples, n_bytes). A number that is not positive has the bit 0.

        Raises
        ------
        ValueError
            If the shape is another one, or if a number is not finite or too large for float16.
        """
        Z = np.asarray(Z)
        if Z.ndim != 2 or Z.shape[1] != self.n_numbers:
            raise ValueError(f"Z must have shape (n_samples, {self.n_numbers}), got {Z.shape}.")
        if not np.isfinite(Z).all():
            raise ValueError("Z must hold finite numbers, and has nan or infinity.")
        match self.name:
            case "bits":
                return np.packbits(Z > 0, axis=1)
            case "int8":
                assert self.scale is not None
                codes = np.rint(Z / self.scale)
                return np.clip(codes, -_LARGEST_CODE, _LARGEST_CODE).astype(np.int8)
            case "float16" if np.abs(Z).max(initial=0.0) > np.finfo(np.float16).max:
                raise ValueError(
                    f"float16 holds numbers up to {np.finfo(np.float16).max:.0f}, and the largest "
                    f"is {np.abs(Z).max():g}: use int8 or float32."
                )
        return Z.astype(self.name)

    def decode(self, codes: ArrayLike) -> Array:
        """Return stored vectors as numbers.

        Parameters
        ----------
        codes : array-like
            Vectors as `encode` returns them.

        Returns
        -------
        ndarray of float32 of shape (n_samples, n_numbers)
            Bits become -1 and 1.
        """
        codes = np.asarray(codes)
        if self.name == "bits":
            bits = np.unpackbits(codes, axis=1, count=self.n_numbers)
            return 2.0 * bits.astype(np.float32) - np.float32(1.0)
        numbers = codes.astype(np.float32)
        return numbers if self.scale is None else numbers * np.float32(self.scale)

    def to_dict(self) -> dict[str, Any]:
        """Return the type as values of JSON.

        Returns
        -------
        dict
            "type", "numbers", "bytes" and, for int8, "scale".
        """
        entries = {"type": self.name, "numbers": self.n_numbers, "bytes": self.n_bytes}
        return entries if self.scale is None else {**entries, "scale": self.scale}


def fit_vector_type(Z: ArrayLike, name: str = "int8") -> VectorType:
    """Return a stored type with the scale that training samples need.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_numbers)
        Vectors of training samples.
    name : {"float32", "float16", "int8", "bits"}, default="int8"
        Type of a number.

    Returns
    -------
    VectorType
        The scale of int8 gives the largest magnitude the code 127. It is rounded to float32.
    """
    Z = np.asarray(Z)
    if name != "int8":
        return VectorType(name, Z.shape[1])
    largest = float(np.abs(Z).max(initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("Z must hold finite numbers, and has nan or infinity.")
    # Vectors of zeros have the codes 0 with any scale.
    scale = float(np.float32(largest / _LARGEST_CODE)) or 1.0
    return VectorType(name, Z.shape[1], scale)


def count_numbers(name: str, n_bytes: int) -> int:
    """Return how many numbers of a type fit into a number of bytes.

    Parameters
    ----------
    name : {"float32", "float16", "int8", "bits"}
        Type of a number.
    n_bytes : int
        Bytes of a vector.

    Returns
    -------
    int
        0 if not even one fits.
    """
    _check_name(name)
    return 8 * n_bytes // _BITS[name]


def parse_vector_type(entries: Mapping[str, Any]) -> VectorType:
    """Return the type that `VectorType.to_dict` wrote.

    Parameters
    ----------
    entries : mapping
        "type", "numbers" and, for int8, "scale".

    Returns
    -------
    VectorType
        The type.
    """
    return VectorType(entries["type"], entries["numbers"], entries.get("scale"))


def write_vector_type(stored: VectorType, path: str | os.PathLike[str], **others: Any) -> Path:
    """Write a type with its scale as a JSON file.

    Parameters
    ----------
    stored : VectorType
        The type.
    path : str or path
        Target file.
    **others : object
        Further entries, values of JSON.

    Returns
    -------
    Path
        The file.
    """
    return write_atomically(Path(path), json.dumps(stored.to_dict() | others) + "\n")


def read_vector_type(path: str | os.PathLike[str]) -> VectorType:
    """Read a type from a file that `write_vector_type` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    VectorType
        The type.
    """
    return parse_vector_type(json.loads(Path(path).read_text(encoding="utf-8")))


def _check_name(name: str) -> None:
    if name not in _BITS:
        raise ValueError(f"The type must be one of {', '.join(_BITS)}, got {name!r}.")
