"""The one matrix that a fitted model, or a pipeline of linear steps, comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from mpda._lib.array_types import Array, ArrayLike, Floats
from mpda._lib.arrays import EPSILON, to_host
from mpda.estimators._linear_map import LinearMap
from mpda.io.models._classes import ESTIMATORS, named, path_of

SEARCH = "mpda.model_selection:DiscriminantSearchCV"
PIPELINE = "sklearn.pipeline:Pipeline"
NEIGHBORS = "sklearn.neighbors:KNeighborsClassifier"


@dataclass(frozen=True)
class AffineMap:
    """y = (x - mean) @ matrix.T + offset, in double precision.

    mean : (d,)
    matrix : (r, d)
    offset : (r,) of zeros where the mean says all
    """

    mean: Floats
    matrix: Floats
    offset: Floats

    def __call__(self, X: ArrayLike) -> Floats:
        """The samples X (n, d) mapped to (n, r)."""
        return (np.asarray(X, dtype=np.float64) - self.mean) @ self.matrix.T + self.offset

    def then(self, after: AffineMap) -> AffineMap:
        """This map and another one after it."""
        offset = (self.offset - after.mean) @ after.matrix.T + after.offset
        return AffineMap(self.mean, after.matrix @ self.matrix, offset)

    def folded(self) -> AffineMap:
        """The same map with its offset put into the mean, where that costs no digits."""
        if not self.offset.any():
            return self
        # Features may be in any units, so the shift is sought in those in which columns are alike.
        units = np.linalg.norm(self.matrix, axis=0)
        units[units == 0.0] = 1.0
        shift = lstsq(self.matrix / units, -self.offset)[0] / units
        left = self.offset + shift @ self.matrix.T
        added_up = np.abs(shift) @ np.abs(self.matrix).T
        largest = np.abs(self.offset).max()
        if np.abs(left).max() > 64 * EPSILON * largest or added_up.max() > 1e3 * largest:
            return self
        return AffineMap(self.mean + shift, self.matrix, np.zeros_like(self.offset))


def affine_map(model: Any) -> AffineMap:
    """The affine map that ``transform`` of a fitted model is.

    Parameters
    ----------
    model : estimator
        A linear method of mpda, PCA, LinearDiscriminantAnalysis, NeighborhoodComponentsAnalysis,
        StandardScaler, RobustScaler, MinMaxScaler, a Pipeline of such steps, of which a last
        KNeighborsClassifier is left out, or a DiscriminantSearchCV. Steps that are not linear are
        refused by name.

    Returns
    -------
    AffineMap
        With ``mean`` (d,), ``matrix`` (r, d) and ``offset`` (r,). The offset is zero unless it
        cannot be put into the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from mpda import MPDA
    >>> from mpda.io.export import affine_map
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), MPDA(n_components=2)).fit(X, y)
    >>> found = affine_map(model)
    >>> np.allclose((X - found.mean) @ found.matrix.T, model.transform(X))
    True
    """
    path = path_of(type(model), ESTIMATORS)
    if path == SEARCH:
        _check_fitted(model, "best_estimator_")
        return affine_map(model.best_estimator_)
    if path == PIPELINE:
        return _pipeline_map(model)
    return _step_map(model, type(model).__name__).folded()


def _pipeline_map(pipeline: Any) -> AffineMap:
    found: AffineMap | None = None
    for name, step in mapping_steps(pipeline):
        if path_of(type(step), ESTIMATORS) in (SEARCH, PIPELINE):
            step_map = affine_map(step)
        else:
            step_map = _step_map(step, f"The step {name!r} ({type(step).__name__})")
        found = step_map if found is None else found.then(step_map)
    if found is None:
        raise TypeError("Pipeline has no step that maps samples: there is no matrix to export.")
    return found.folded()


def mapping_steps(pipeline: Any) -> Iterator[tuple[str, Any]]:
    """The steps of a pipeline that do something, without a classifier by neighbours at its end."""
    for i, (name, step) in enumerate(pipeline.steps):
        is_last = i == len(pipeline.steps) - 1
        by_neighbors = path_of(type(step), ESTIMATORS) == NEIGHBORS
        if step is not None and step != "passthrough" and not (is_last and by_neighbors):
            yield name, step


def _step_map(step: Any, title: str) -> AffineMap:
    _check_fitted(step)
    if isinstance(step, LinearMap):
        return _made(step.mean_, step.components_)
    make = _MAPS.get(path_of(type(step), ESTIMATORS) or "")
    if make is None:
        raise TypeError(
            f"{title} is not a linear map, so there is no one matrix for it. Export the steps "
            "after it by themselves, or keep the whole model with mpda.save."
        )
    return make(step)


def _pca_map(step: Any) -> AffineMap:
    found = _made(step.mean_, step.components_)
    if not step.whiten:
        return found
    # As scikit-learn has it: components of no variance are not blown up without bound.
    deviations = np.sqrt(to_host(step.explained_variance_))
    least = np.finfo(deviations.dtype).eps
    scale = np.maximum(deviations, least).astype(np.float64)
    return replace(found, matrix=found.matrix / scale[:, None])


def _lda_map(step: Any) -> AffineMap:
    if step.solver == "lsqr":
        raise TypeError(
            'LinearDiscriminantAnalysis with solver="lsqr" only classifies: use "svd" or "eigen" '
            "to have a map."
        )
    scalings = to_host(step.scalings_)[:, : step._max_components]
    mean = step.xbar_ if step.solver == "svd" else np.zeros(scalings.shape[0])
    return _made(mean, scalings.T)


def _nca_map(step: Any) -> AffineMap:
    return _made(np.zeros(step.components_.shape[1]), step.components_)


def _standard_map(step: Any) -> AffineMap:
    return _scaling(step, step.mean_ if step.with_mean else None, step.scale_)


def _robust_map(step: Any) -> AffineMap:
    return _scaling(step, step.center_, step.scale_)


def _min_max_map(step: Any) -> AffineMap:
    if step.clip:
        raise TypeError(
            "MinMaxScaler with clip=True is not a linear map, so there is no one matrix for it: "
            "fit it with clip=False, or keep the whole model with mpda.save."
        )
    found = _made(step.data_min_, np.diag(to_host(step.scale_)))
    return replace(found, offset=found.offset + step.feature_range[0])


def _scaling(step: Any, mean: Array | None, scale: Array | None) -> AffineMap:
    nothing = np.zeros(step.n_features_in_)
    factors = nothing + 1.0 if scale is None else 1.0 / to_host(scale).astype(np.float64)
    return _made(nothing if mean is None else mean, np.diag(factors))


def _made(mean: Array, matrix: Array) -> AffineMap:
    matrix = np.array(to_host(matrix), dtype=np.float64, order="C")
    mean = np.array(to_host(mean), dtype=np.float64)
    return AffineMap(mean, matrix, np.zeros(matrix.shape[0]))


def _check_fitted(model: Any, attribute: str | None = None) -> None:
    if hasattr(model, "get_params"):
        named("sklearn.utils.validation:check_is_fitted")(model, attribute)


_MAPS: dict[str, Callable[[Any], AffineMap]] = {
    "sklearn.decomposition:PCA": _pca_map,
    "sklearn.discriminant_analysis:LinearDiscriminantAnalysis": _lda_map,
    "sklearn.neighbors:NeighborhoodComponentsAnalysis": _nca_map,
    "sklearn.preprocessing:StandardScaler": _standard_map,
    "sklearn.preprocessing:RobustScaler": _robust_map,
    "sklearn.preprocessing:MinMaxScaler": _min_max_map,
}
