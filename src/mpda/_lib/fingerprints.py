"""Fingerprints of samples: 64-bit hashes by which equal rows are recognised without the rows."""

import numpy as np
from numpy.typing import NDArray

from mpda._lib.array_types import ArrayLike
from mpda._lib.arrays import iter_slices

# Multipliers and shifts of the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), and the step
# of its sequence: 2^64 divided by the golden ratio, odd.
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
# Bits of a number that are rounded away, and half of their range: 36 of 52 bits remain, eleven
# digits. Files of some programs have 15 digits, and so may differ from others in the last bits.
_ROUNDED, _HALF = np.uint64(2**16 - 1), np.uint64(2**15)
# Entries that are hashed at a time: 1 MB, which stays in the cache of a core. With 8 MB it takes
# two to four times as long.
_BLOCK_ENTRIES = 125_000


def fingerprint_rows(X: ArrayLike) -> NDArray[np.uint64]:
    """Hash every row of a matrix.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Numbers. They are rounded to eleven digits and hashed as float64, so float32 and integers
        have the fingerprint of their value.

    Returns
    -------
    ndarray of uint64 of shape (n_samples,)
        Equal rows have equal fingerprints. Two different rows among n have the same one with a
        probability of about n^2 / 2^65: 3e-8 for a million samples. 0.0 and -0.0 are equal.
    """
    rows = np.asarray(X)
    hashes = np.empty(len(rows), dtype=np.uint64)
    # Every column has its own offset, so that the order of values matters.
    offsets = _STEP * np.arange(1, rows.shape[1] + 1, dtype=np.uint64)
    for block in iter_slices(len(rows), max(_BLOCK_ENTRIES // max(rows.shape[1], 1), 1)):
        values = rows[block].astype(np.float64, order="C") + 0.0  # -0.0 becomes 0.0
        words = (values.view(np.uint64) + _HALF) & ~_ROUNDED
        hashes[block] = _mix(_mix(words + offsets).sum(axis=1, dtype=np.uint64))
    return hashes


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words of which every bit depends on every bit of the input; overflow wraps around."""
    words = (words ^ (words >> np.uint64(30))) * _MULTIPLIERS[0]
    words = (words ^ (words >> np.uint64(27))) * _MULTIPLIERS[1]
    return words ^ (words >> np.uint64(31))
