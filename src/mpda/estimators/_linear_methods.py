"""Fits of any linear method, of mpda or of scikit-learn, as a search and a refinement need them.

The methods of mpda share work between parameter sets (``LinearMap.fit_many``). Those of
scikit-learn are fitted once for each parameter set, and once for each number of components where
their components are not nested. Depends on ``methods`` and on the affine maps of ``io``, which read
the matrix of each method.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from mpda._lib.array_types import ArrayLike, Floats
from mpda._lib.arrays import is_device_array, to_host
from mpda.estimators._base import ComponentPath, LinearMap, sparse_counts
from mpda.estimators.methods import find_method


def read_map(model: Any) -> tuple[Floats, Floats]:
    """Return matrix (r, d) and mean (d,) of a fitted linear method, in double precision.

    Of a map to a sphere it is the linear part, without the row of the constant.
    """
    from mpda.io.affine_maps import affine_map

    if has_plain_map(model):
        return _read_attributes(model)
    linear = affine_map(model)
    n_rows = len(linear.matrix) - (linear.constant > 0.0)
    return linear.matrix[:n_rows], linear.mean


def has_plain_map(model: Any) -> bool:
    """Return True for a fitted object that is known by ``components_`` and ``mean_`` only."""
    from mpda.io.affine_maps import has_affine_map

    if hasattr(model, "best_estimator_") or has_affine_map(model):
        return False
    return hasattr(model, "components_") and hasattr(model, "mean_")


def transform_linearly(model: Any, X: Any) -> Any:
    """Map samples by a fitted model, without the projection of its last step to a sphere.

    Pictures need it: two outputs on a sphere lie on an arc.

    Parameters
    ----------
    model : fitted transformer, pipeline or search
        Steps before the last one are applied as they are.
    X : array-like of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    array of shape (n_samples, n_components)
        Mapped samples.
    """
    from sklearn.pipeline import Pipeline  # not at the import of mpda, which it would slow down

    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        last = model.steps[-1][1]
        if len(model.steps) > 1:
            X = model[:-1].transform(X)
        return X if last in (None, "passthrough") else transform_linearly(last, X)
    return model.transform_linear(X) if is_on_sphere(model) else model.transform(X)


def is_on_sphere(model: Any) -> bool:
    """Return True if a fitted method of mpda maps to vectors of length 1."""
    return getattr(model, "radius_", None) is not None


def _read_attributes(model: Any) -> tuple[Floats, Floats]:
    try:
        matrix, mean = (
            np.asarray(to_host(values) if is_device_array(values) else values, dtype=np.float64)
            for values in (model.components_, model.mean_)
        )
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"components_ and mean_ of {type(model).__name__} must be arrays of numbers: {error}"
        ) from error
    if matrix.ndim != 2 or mean.shape != matrix.shape[1:] or not matrix.size:
        raise ValueError(
            "estimator must have components_ of shape (n_components, n_features) and mean_ of "
            f"shape (n_features,), got {matrix.shape} and {mean.shape} of {type(model).__name__}."
        )
    if not (np.isfinite(matrix).all() and np.isfinite(mean).all() and matrix.any()):
        raise ValueError(
            "components_ and mean_ of estimator must be finite, and components_ not all 0: "
            f"those of {type(model).__name__} are not."
        )
    return matrix, mean


def fit_paths(
    method: Any,
    X: ArrayLike,
    y: ArrayLike,
    parameter_sets: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] | None = None,
) -> Iterator[ComponentPath]:
    """Fit a linear method with each of several parameter sets.

    Parameters
    ----------
    method : estimator
        Linear method that `find_method` knows. It is not changed.
    X : array-like of shape (n_samples, n_features)
        Training samples.
    y : array-like of shape (n_samples,)
        Class labels.
    parameter_sets : sequence of dict
        Parameters and their values. They must not contain ``n_components``.
    n_components : sequence of int, default=None
        Numbers of components that are needed. None stands for all; of methods that need a fit for
        each number, for some of them (`sparse_counts`).

    Yields
    ------
    ComponentPath
        One or several for each parameter set, in the order in which work is shared best.
    """
    if isinstance(method, LinearMap):
        method = clone(method).set_params(n_components=None)
        yield from method.fit_many(X, y, parameter_sets, n_components)
        return
    entry = find_method(method)
    assert entry is not None
    n_samples, n_features = np.shape(X)
    if entry.is_identity:
        wanted = [n_features] if n_components is None else n_components
        if n_features in wanted or min(wanted) > n_features:  # the path says how many there are
            yield ComponentPath(0, np.eye(n_features), first=n_features)
        else:
            asked = ", ".join(map(str, wanted))
            failure = f'"passthrough" keeps all {n_features} features, and has no {asked} of them'
            yield ComponentPath(0, None, failure=failure)
        return
    most = entry.count_components(n_samples, n_features, np.unique(y).size)
    component_counts: list[int | None] = [None]
    if entry.fits_each_number:
        wanted = sparse_counts(most).tolist() if n_components is None else n_components
        # Without any of these numbers the largest one says how many there are.
        component_counts = [r for r in wanted if r <= most] or [most]
    for index, parameters in enumerate(parameter_sets):
        fitted = clone(method).set_params(**parameters)
        for r in component_counts:
            try:
                matrix, _ = read_map(fitted.set_params(n_components=r).fit(X, y))
            # Singular matrices, too few samples, and solvers that refuse a parameter or have no
            # map.
            except (ValueError, TypeError, NotImplementedError, np.linalg.LinAlgError) as error:
                yield ComponentPath(index, None, failure=str(error))
                break
            yield ComponentPath(index, matrix, first=r or 1)
