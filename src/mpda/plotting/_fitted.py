"""What plots need of a fitted estimator: itself, a search around it, or a pipeline that ends in
it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Labels
from mpda._lib.arrays import is_device_array, to_host


def mapped(estimator: Any, X: Any) -> Floats:
    """The samples in the space of an estimator; without one they are there already."""
    if estimator is not None:
        if not hasattr(estimator, "transform") and _steps(estimator):
            estimator = estimator[:-1]  # a classifier stands behind the map
        if not hasattr(estimator, "transform"):
            raise TypeError(
                f"estimator must have transform, got {type(estimator).__name__}: give a fitted "
                "method or pipeline, or None where X is mapped already."
            )
        X = estimator.transform(X)
    Z = host_array(X)
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or not np.issubdtype(Z.dtype, np.number):
        raise ValueError(
            f"X must be numbers of shape (n_samples, n_features), got {Z.shape} of {Z.dtype}."
        )
    return np.asarray(Z, dtype=np.float64)


def host_array(X: Any) -> Any:
    """An array of NumPy, wherever X was; data frames too."""
    return np.asarray(to_host(X) if is_device_array(X) else X)


def map_of(estimator: Any, *attributes: str) -> Any:
    """The step of a fitted estimator that has one of the attributes."""
    step = _inner(estimator)
    while _steps(step):
        # From the back: what follows a map, such as 1-NN, does not have them.
        inside = [_inner(each) for _, each in reversed(step.steps)]
        step = next((each for each in inside if _has(each, attributes)), inside[0])
    if not _has(step, attributes):
        raise ValueError(
            f"estimator must be fitted and have {' or '.join(attributes)}, got "
            f"{type(estimator).__name__} without."
        )
    return step


def before(estimator: Any, step: Any, X: Any) -> Any:
    """The samples as that step of a pipeline sees them."""
    for each in _steps_before(estimator, step):
        X = each.transform(X)
    return X


def component_names(estimator: Any, n: int) -> list[str]:
    """The names that the estimator gives its components, else numbers from 0."""
    if estimator is not None and not hasattr(estimator, "transform") and _steps(estimator):
        estimator = estimator[:-1]
    try:
        names = [str(name) for name in estimator.get_feature_names_out()]
    except (AttributeError, ValueError):  # it has no names, or not without those of the features
        names = []
    return names if len(names) == n else [f"component {i}" for i in range(n)]


def feature_names(estimator: Any, step: Any, n: int) -> Labels:
    """The names of the features that a step sees, else numbers from 0."""
    names = getattr(_inner(estimator), "feature_names_in_", None)
    try:
        for each in _steps_before(estimator, step):
            names = each.get_feature_names_out(names)
    except AttributeError:  # a step has no names to give
        names = None
    if names is None or len(names) != n:
        names = [f"feature {i}" for i in range(n)]
    return np.asarray(names, dtype=object)


def _steps_before(estimator: Any, step: Any) -> list[Any]:
    found = []
    for _, each in getattr(_inner(estimator), "steps", []):
        if _inner(each) is step:
            break
        if each not in (None, "passthrough"):
            found.append(each)
    return found


def _inner(estimator: Any) -> Any:
    """What a search found, or the estimator itself."""
    return getattr(estimator, "best_estimator_", estimator)


def _steps(estimator: Any) -> bool:
    return bool(getattr(estimator, "steps", None)) and hasattr(estimator, "named_steps")


def _has(step: Any, attributes: tuple[str, ...]) -> bool:
    return any(hasattr(step, name) for name in attributes)
