"""Test samples of all outer folds in one space, each mapped by a fit that did not see it.

The maps of folds differ by a rotation, signs and a scale, which do not matter to a nearest
neighbour but to a picture. They are aligned with the map of the model by training samples of each
fold (orthogonal Procrustes analysis), so that test samples take no part in that either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats, Ints, Labels
from mpda.assessment.outer_fold import FoldResult


@dataclass(frozen=True)
class HeldOut:
    """Test samples of all folds, in the order of the table.

    Parameters
    ----------
    indices : array of int of shape (n_tested,)
        Samples that were tested.
    predicted : array of shape (n_tested,)
        Their predicted labels.
    points : array of shape (n_tested, n_components)
        Samples mapped by the fold that tested them, in the space of the model.
    """

    indices: Ints
    predicted: Labels
    points: Floats


def align_folds(rows: Sequence[FoldResult], Z: Floats) -> HeldOut:
    """Join the test samples of the folds of one method.

    Parameters
    ----------
    rows : sequence of FoldResult
        Outer folds.
    Z : array of shape (n_samples, n_components)
        All samples mapped by the model.

    Returns
    -------
    HeldOut
        Each tested sample once.
    """
    tested = np.concatenate([row["tested"] for row in rows])
    order = np.argsort(tested)
    predicted = np.concatenate([row["predicted"] for row in rows])
    points = np.concatenate([_align(row, Z) for row in rows])
    return HeldOut(tested[order], predicted[order], points[order])


def _align(row: FoldResult, Z: Floats) -> Floats:
    """Rotate and scale the test samples of a fold into the space of Z."""
    A, B = row["anchor_points"], Z[row["anchors"]]
    origin, target = A.mean(axis=0), B.mean(axis=0)
    A, B = A - origin, B - target
    U, s, Vt = np.linalg.svd(A.T @ B, full_matrices=False)
    scale = s.sum() / max(np.vdot(A, A), np.finfo(float).tiny)
    return np.asarray(scale * ((row["projected"] - origin) @ U @ Vt) + target)
