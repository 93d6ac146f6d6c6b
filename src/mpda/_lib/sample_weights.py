"""Weights of samples and classes: checked, multiplied and scaled to a mean of 1.

A weight is a multiplicity in sums: a sample of weight 2 counts twice in means, scatters and forms,
and one of weight 0 is left out of them. Neighbour lists and patches do not depend on weights. A
pair of samples counts w_i w_j times; a graph inside a class, whose number of edges grows with the
number of samples and not of pairs, is divided by a mean weight of the class (``edge_weights``).
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from mpda._lib.array_types import Array, ArrayLike, Floats, Ints, Labels
from mpda._lib.arrays import array_namespace, is_device_array, take, to_host


def resolve_weights(
    sample_weight: ArrayLike | None, class_weight: Any, classes: Labels, members: list[Ints]
) -> Floats | None:
    """Return the weight of every sample.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or None
        Weights of the user. None stands for ones.
    class_weight : {"balanced"}, dict or None
        Factors of the classes. "balanced" gives all classes the same sum of weights.
    classes : ndarray of shape (n_classes,)
        Distinct labels; none where there are no labels.
    members : list of ndarray
        Indices of the samples of each class.

    Returns
    -------
    ndarray of shape (n_samples,) or None
        Weights with mean 1 over the samples whose weight is not 0. None if all are equal.
    """
    n = sum(indices.size for indices in members)
    weights = np.ones(n) if sample_weight is None else _check_sample_weight(sample_weight, n)
    totals = np.array([weights[indices].sum() for indices in members])
    if classes.size > 0 and totals.min() <= 0.0:
        empty = classes[totals <= 0.0].tolist()
        raise ValueError(
            f"sample_weight must be positive for a sample of every class, but it is 0 for all "
            f"samples of {empty[:5]!r}. Leave these classes out of X and y."
        )
    for factor, indices in zip(_class_factors(class_weight, classes, totals), members, strict=True):
        weights[indices] *= factor
    positive = weights > 0.0
    weights /= weights[positive].mean()
    return None if np.ptp(weights) <= 4.0 * np.finfo(float).eps else weights


def _check_sample_weight(sample_weight: ArrayLike, n: int) -> Floats:
    """Return a copy of the weights (n,) in double precision, scaled so that the largest is 1."""
    if is_device_array(sample_weight):
        sample_weight = to_host(sample_weight)
    weights = check_array(
        sample_weight,
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        copy=True,
        input_name="sample_weight",
    )
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have one number per sample, shape ({n},), got an array of shape "
            f"{weights.shape}."
        )
    if weights.min() < 0.0:
        raise ValueError(f"sample_weight must not be negative, got {weights.min():g}.")
    if weights.max() == 0.0:
        raise ValueError("sample_weight must be positive for at least one sample, got only zeros.")
    return weights / weights.max()  # sums of the largest numbers would overflow


def _class_factors(class_weight: Any, classes: Labels, totals: Floats) -> Floats:
    """Return the factor of each class (n_classes,), given its sum of sample weights."""
    if class_weight is None:
        return np.ones(len(totals))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return totals.sum() / (len(totals) * totals)
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            'class_weight must be None, "balanced" or a dict from labels to positive numbers, got '
            f"{class_weight!r}."
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    numbers = [class_weight.get(label, 1.0) for label in labels]
    if unknown or not all(isinstance(f, Real) and 0.0 < float(f) < np.inf for f in numbers):
        raise ValueError(
            "class_weight must have positive numbers for labels of y, got "
            + (f"the unknown labels {unknown[:5]!r}." if unknown else f"{class_weight!r}.")
        )
    return np.array(numbers, dtype=float)


def edge_weights(weights: Array, edges: Array) -> Array:
    """Return the weights of the edges of a graph inside a class.

    Parameters
    ----------
    weights : array of shape (n,)
        Weights of the samples of the class.
    edges : array of int of shape (e, 2)
        Samples that each edge joins.

    Returns
    -------
    array of shape (e,)
        w_i w_j / m, with m the mean of the weights, each of which counts as often as it says. If
        all weights of a class are w, or 0, every edge has the weight w, or 0.
    """
    return pair_weights(weights, edges) / self_weighted_mean(weights)


def self_weighted_mean(weights: Array) -> float:
    """Return the mean of weights (n,) in which each counts as often as it says.

    It is sum w^2 / sum w: the mean of the weights that are not 0 where these are equal, and unlike
    that mean continuous at 0.
    """
    xp = array_namespace(weights)
    total = float(xp.sum(weights))
    return float(xp.sum(weights * weights)) / total if total > 0.0 else 1.0


def pair_weights(weights: Array, pairs: Array) -> Array:
    """Return w_i w_j (e,) for pairs of samples (e, 2)."""
    return take(weights, pairs[:, 0]) * take(weights, pairs[:, 1])
