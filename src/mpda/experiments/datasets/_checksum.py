"""One number for what a data set holds, whatever the order of its rows."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from mpda._lib.array_types import Labels


def checksum(X: Any, y: Labels) -> str:
    """SHA-256 of the rows as float32, by class: neither the order of the rows nor the names of the
    classes matter, but every number and which samples share a class do."""
    with np.errstate(over="ignore"):  # a number that is too large is another number, too
        rows = np.ascontiguousarray(X, dtype="<f4") + np.float32(0.0)  # -0 is 0
    digests = np.array([sha256(row.tobytes()).hexdigest() for row in rows])
    classes = [sha256("".join(sorted(digests[y == label])).encode()) for label in np.unique(y)]
    return sha256("".join(sorted(each.hexdigest() for each in classes)).encode()).hexdigest()
