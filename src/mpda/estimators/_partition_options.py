"""The partition parameters that MPDA and ManifoldPartition share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from mpda._lib.array_types import Floats, Ints
from mpda._lib.validation import check_option
from mpda.partition.rules import CutRule

PARTITIONS = ("auto", "geodesic", "euclidean")


def partition_rule(partition: Any, max_patch_size: int, *, also: str = "") -> CutRule:
    """The rule that the parameter ``partition`` names."""
    return CutRule(check_option("partition", partition, PARTITIONS, also=also), max_patch_size)


def clustered(clusterer: Any, X: Floats, label: Any) -> Ints:
    """The labels (n,) that a clone of the clusterer gives to the samples X of class ``label``."""
    try:
        # With dispatch, KMeans of scikit-learn 1.7 does not take arrays of NumPy.
        with config_context(array_api_dispatch=False):
            labels = np.asarray(clone(clusterer).fit_predict(X.astype(np.float64)))
    except Exception as error:
        raise ValueError(
            f"partition={clusterer!r} failed on class {label!r} ({len(X)} samples): {error}"
        ) from error
    if labels.shape != (len(X),) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"partition={clusterer!r} must give one integer label per sample; on class {label!r} "
            f"({len(X)} samples) it gave an array of shape {labels.shape} and type {labels.dtype}."
        )
    return labels.astype(np.intp)
