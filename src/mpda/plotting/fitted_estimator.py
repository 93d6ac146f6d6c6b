"""Access to fitted estimators, alone or in a search or pipeline; checks of arguments.

Displays accept a bare estimator, a pipeline around it, and a search around either. The functions
here find the step with the attribute that is drawn, and the names of its features and components.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Floats
from mpda._lib.arrays import is_device_array, to_host
from mpda.estimators._linear_methods import is_on_sphere, transform_linearly


def to_numpy(X: Any) -> Any:
    """Return a NumPy array of an array on any device, or of a data frame.

    Parameters
    ----------
    X : array-like
        Array, tensor or data frame.

    Returns
    -------
    numpy.ndarray
        On the host.
    """
    return np.asarray(to_host(X) if is_device_array(X) else X)


def map_samples(estimator: Any, X: Any) -> Floats:
    """Return the samples in the space of an estimator.

    Of a refinement on a sphere it is the space before the projection: two outputs on a sphere lie
    on an arc.

    Parameters
    ----------
    estimator : fitted transformer, pipeline or None
        A classifier at the end of a pipeline is left out. None takes X as mapped already.
    X : array-like of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    array of shape (n_samples, n_components)
        Mapped samples.
    """
    if estimator is not None:
        transformer = _without_classifier(estimator)
        if not hasattr(transformer, "transform"):
            kind = type(estimator).__name__
            raise TypeError(f"estimator must have transform or be None for mapped X, got {kind}.")
        X = transform_linearly(transformer, X)
    Z = to_numpy(X)
    Z = Z[:, None] if Z.ndim == 1 else Z  # one mapped component
    if Z.ndim != 2 or not np.issubdtype(Z.dtype, np.number):
        raise ValueError(f"X must be a table of numbers, got shape {Z.shape} of {Z.dtype}.")
    return np.asarray(Z, dtype=np.float64)


def find_step(estimator: Any, *attributes: str, first_methods: bool = False) -> Any:
    """Return the step of a fitted estimator that has one of the attributes.

    Parameters
    ----------
    estimator : fitted estimator, search or pipeline
        Where to look.
    *attributes : str
        Names of fitted attributes.
    first_methods : bool, default=False
        True to look inside refinements too.

    Returns
    -------
    fitted estimator
        Last step that has one of them.
    """
    candidates = [_best(step) for step in (_best(estimator), *_pipeline_steps(estimator))]
    if first_methods:  # that of a refinement comes before it
        candidates = [method for step in candidates for method in (*_first_method(step), step)]
    # Two steps may have the attribute, PCA before MPDA for example. The last one is the method.
    for step in reversed(candidates):
        if any(hasattr(step, name) for name in attributes):
            return step
    kind, names = type(estimator).__name__, " or ".join(attributes)
    raise ValueError(f"estimator must be fitted and have {names}, got {kind} without.")


def steps_before(estimator: Any, step: Any) -> list[Any]:
    """Return the steps of a pipeline that come before one of its steps.

    Parameters
    ----------
    estimator : fitted estimator, search or pipeline
        As given to `find_step`.
    step : fitted estimator
        Result of `find_step`.

    Returns
    -------
    list of fitted transformers
        Empty where there is no pipeline.
    """
    steps = [_best(other) for other in _pipeline_steps(estimator) or [_best(estimator)]]
    # Without a pipeline the position is 0, and no step is before it.
    holds_step = (step is other or any(step is m for m in _first_method(other)) for other in steps)
    position = next((i for i, holds in enumerate(holds_step) if holds), 0)
    before = [other for other in steps[:position] if other not in (None, "passthrough")]
    earlier = getattr(steps[position], "earlier_steps", None)  # of a refined pipeline
    return before if earlier is None else [*before, *(other for _, other in earlier.steps)]


def get_component_names(estimator: Any, n: int) -> list[str]:
    """Return the names of the components, by method and counted from 1.

    Parameters
    ----------
    estimator : fitted estimator, search, pipeline or None
        Its ``get_feature_names_out`` is asked.
    n : int
        Number of components.

    Returns
    -------
    list of str
        "MPDA 1" and so on for scikit-learn's names of components ("mpda0"), other names as they
        are, and "component 1" and so on where the estimator has no names.
    """
    transformer = _best(_without_classifier(estimator))
    try:
        names = [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError):  # no such method, or a step needs names of features
        names = []
    last = _last_step(transformer)
    method = type(last).__name__
    if is_on_sphere(last):  # without the name of the constant
        names = names[:n]
    if names == [f"{method.lower()}{i}" for i in range(n)]:
        return [f"{method} {i + 1}" for i in range(n)]
    return names if len(names) == n else [f"component {i + 1}" for i in range(n)]


def get_feature_names(estimator: Any, step: Any, n: int) -> Sequence[str] | None:
    """Return the names of the features that a step sees.

    Parameters
    ----------
    estimator : fitted estimator, search or pipeline
        As given to `find_step`.
    step : fitted estimator
        Result of `find_step`.
    n : int
        Number of features.

    Returns
    -------
    sequence of str or None
        None where there are no names.
    """
    names = getattr(_best(estimator), "feature_names_in_", None)
    try:
        for transformer in steps_before(estimator, step):
            names = transformer.get_feature_names_out(names)
    except AttributeError:  # a step without names
        return None
    return names if names is not None and len(names) == n else None


def check_shape(name: str, values: Array, shape: tuple[int, ...]) -> None:
    """Raise a ValueError if an array does not have the expected shape.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    values : array
        Its value.
    shape : tuple of int
        Expected shape.
    """
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")


def check_components(components: int | Sequence[int], n: int) -> list[int]:
    """Check the components that a user asks for.

    Parameters
    ----------
    components : int or sequence of int
        Indices from 0.
    n : int
        Number of components.

    Returns
    -------
    list of int
        At least one index.
    """
    indices = np.atleast_1d(np.asarray(components))
    if indices.ndim != 1 or not indices.size or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"components must be int, one or several, got {components!r}.")
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(f"components must be from 0 to {n - 1}, got {components!r}.")
    return indices.tolist()


def _best(estimator: Any) -> Any:
    """Return the result of a search, or the estimator itself."""
    return getattr(estimator, "best_estimator_", estimator)


def _first_method(step: Any) -> list[Any]:
    """Return the fitted first method of a refinement; nothing of other steps."""
    # ``first_method`` of a refinement that is not fitted raises AttributeError.
    return [step.first_method] if hasattr(step, "first_method") else []


def _pipeline_steps(estimator: Any) -> list[Any]:
    """Return all steps of a pipeline, those of inner pipelines included."""
    steps: list[Any] = []
    for _, step in getattr(_best(estimator), "steps", None) or []:
        steps += _pipeline_steps(step) or [step]
    return steps


def _last_step(transformer: Any) -> Any:
    """Return the last step of a pipeline, or the transformer itself."""
    return _best((_pipeline_steps(transformer) or [_best(transformer)])[-1])


def _without_classifier(estimator: Any) -> Any:
    if not hasattr(estimator, "transform") and hasattr(estimator, "named_steps"):
        return estimator[:-1]
    return estimator
