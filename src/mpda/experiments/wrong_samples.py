"""Which test samples were wrong, stored in the rows of the experiments.

Tests that compare two methods sample by sample need more than the number of errors. A row has one
bit for each test sample, packed into text, and a hash of the test samples, in which the order of
the bits is fixed.
"""

import base64
from hashlib import sha256

import numpy as np

from mpda._lib.array_types import Bools, Ints


def pack_wrong(wrong: Bools) -> str:
    """Return bits as text.

    Parameters
    ----------
    wrong : ndarray of bool of shape (n,)
        True for each test sample with a wrong label.

    Returns
    -------
    str
        Base64 of the bits, eight in a byte, the first sample in the highest bit.
    """
    return base64.b64encode(np.packbits(wrong).tobytes()).decode("ascii")


def unpack_wrong(text: str, n: int) -> Bools:
    """Return the bits of a text.

    Parameters
    ----------
    text : str
        Result of `pack_wrong`.
    n : int
        Number of test samples.

    Returns
    -------
    ndarray of bool of shape (n,)
        True for each test sample with a wrong label.
    """
    packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    if packed.size != -(-n // 8):
        raise ValueError(f"{n} test samples need {-(-n // 8)} bytes, got {packed.size}.")
    return np.unpackbits(packed, count=n).astype(bool)


def hash_indices(tested: Ints) -> str:
    """Return a hash of the test samples.

    Parameters
    ----------
    tested : ndarray of int of shape (n,)
        Indices of the test samples, in the order of the bits.

    Returns
    -------
    str
        16 hexadecimal digits of a SHA-256. Rows of one problem and split must agree in it.
    """
    # The same bytes on every machine.
    return sha256(np.asarray(tested).astype("<i8").tobytes()).hexdigest()[:16]
