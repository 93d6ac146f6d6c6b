"""Generated data that the tests share."""

from __future__ import annotations

import numpy as np
from scipy.linalg import subspace_angles


def unequal_classes(seed, sizes=(23, 14, 9, 1), d=6, duplicates=3):
    """Classes of unequal size, one of one point, with some duplicate points."""
    rng = np.random.default_rng(seed)
    parts, labels = [], []
    for c, size in enumerate(sizes):
        turn = rng.normal(size=(2, d))
        part = rng.normal(size=(size, 2)) ** 2 @ turn + 0.3 * rng.normal(size=(size, d)) + c
        if size > 2 * duplicates:
            part[size - duplicates :] = part[:duplicates]
        parts.append(part)
        labels += [c] * size
    order = rng.permutation(len(labels))
    return np.concatenate(parts)[order], np.array(labels)[order]


def largest_angle(A, B):
    """The largest principal angle between the column spaces of A and B."""
    return float(subspace_angles(A, B).max())
