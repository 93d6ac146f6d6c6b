"""The affine map x -> (x - mean) W' + offset that a fitted linear model or pipeline computes.

Maps are read from public fitted attributes: ``components_`` and ``mean_`` of mpda's estimators, the
attributes of scikit-learn's linear transformers, the steps of a Pipeline (composed), and
``best_estimator_`` of a search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, ArrayLike, Floats
from mpda._lib.arrays import to_host
from mpda.io.model_classes import ESTIMATORS, find_path

# An offset moves into the mean if it is reproduced to 64 roundings, and if the terms that cancel
# are at most 1000 times as large, which costs three of sixteen digits.
_OFFSET_TOLERANCE = 64 * np.finfo(np.float64).eps
_LARGEST_CANCELLATION = 1e3


@dataclass(frozen=True)
class AffineMap:
    """Affine map ``y = (x - mean) @ matrix.T + offset`` in double precision.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        Vector that is subtracted first.
    matrix : ndarray of shape (n_components, n_features)
        Linear part.
    offset : ndarray of shape (n_components,)
        Vector that is added last, zero where the mean suffices.
    """

    mean: Floats
    matrix: Floats
    offset: Floats

    def __call__(self, X: ArrayLike) -> Floats:
        """Transform samples X (n_samples, n_features) to (n_samples, n_components)."""
        return (np.asarray(X, dtype=np.float64) - self.mean) @ self.matrix.T + self.offset

    def then(self, outer: AffineMap) -> AffineMap:
        """Return the composition that applies this map first.

        Parameters
        ----------
        outer : AffineMap
            Map that is applied to the result of this one.

        Returns
        -------
        AffineMap
            Composition of both.
        """
        offset = (self.offset - outer.mean) @ outer.matrix.T + outer.offset
        return AffineMap(self.mean, outer.matrix @ self.matrix, offset)

    def fold_offset(self) -> AffineMap:
        """Move the offset into the mean, where that costs no accuracy.

        Returns
        -------
        AffineMap
            Equal map with offset zero; this map if no mean reproduces the offset.
        """
        # The shift s solves W s = -offset. Columns of W are scaled to norm 1 first, since features
        # may have very different units.
        norms = np.linalg.norm(self.matrix, axis=0)
        norms[norms == 0.0] = 1.0
        shift = np.linalg.lstsq(self.matrix / norms, -self.offset, rcond=None)[0] / norms
        residual = np.abs(self.offset + self.matrix @ shift).max()
        terms = (np.abs(self.matrix) @ np.abs(shift)).max()
        size = np.abs(self.offset).max()
        if residual > _OFFSET_TOLERANCE * size or terms > _LARGEST_CANCELLATION * size:
            return self
        return AffineMap(self.mean + shift, self.matrix, np.zeros_like(self.offset))


def affine_map(model: Any) -> AffineMap:
    """Return the affine map that ``transform`` of a fitted model computes.

    Parameters
    ----------
    model : estimator
        Linear method of mpda, PCA, LinearDiscriminantAnalysis, NeighborhoodComponentsAnalysis,
        StandardScaler, RobustScaler, MinMaxScaler, a Pipeline of such steps, or a
        DiscriminantSearchCV. A KNeighborsClassifier at the end of a pipeline is left out.

    Returns
    -------
    AffineMap
        Map with ``mean``, ``matrix`` and ``offset``. The offset is zero unless no mean reproduces
        it.

    Raises
    ------
    TypeError
        If a step is not linear; it is named.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from mpda import MPDA
    >>> from mpda.io import affine_map
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), MPDA(n_components=2)).fit(X, y)
    >>> linear = affine_map(model)
    >>> np.allclose((X - linear.mean) @ linear.matrix.T, model.transform(X))
    True
    """
    return _compose(model, type(model).__name__).fold_offset()


def _compose(model: Any, title: str) -> AffineMap:
    """Return the map of a model without folding; ``title`` names it in errors."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, Pipeline):
        steps = [(name, step) for name, step in model.steps if step not in (None, "passthrough")]
        if steps and isinstance(steps[-1][1], KNeighborsClassifier):
            steps.pop()
        if not steps:
            raise TypeError("Pipeline has no step that transforms: there is no matrix to export.")
        maps = [_compose(step, f"Step {name!r} ({type(step).__name__})") for name, step in steps]
        composed = maps[0]
        for outer in maps[1:]:
            composed = composed.then(outer)
        return composed
    check_is_fitted(model, "best_estimator_" if hasattr(model, "param_grid") else None)
    if hasattr(model, "best_estimator_"):
        return _compose(model.best_estimator_, title)
    if any(base.__module__.startswith("mpda.") for base in type(model).__mro__):
        rule: Callable[[Any], AffineMap] | None = (
            _centred if hasattr(model, "components_") else None
        )
    else:
        rule = _RULES.get(find_path(type(model), ESTIMATORS) or "")
    if rule is None:
        raise TypeError(
            f"{title} is not a linear map, so there is no matrix for it. Export the steps after it "
            "separately, or save the complete model with mpda.save."
        )
    return rule(model)


def _centred(model: Any) -> AffineMap:
    return _build(model.components_, model.mean_)


def _pca_map(pca: Any) -> AffineMap:
    scale = np.ones(len(pca.components_))
    if pca.whiten:
        # As in scikit-learn: components without variance are not scaled up without bound.
        deviations = np.sqrt(to_host(pca.explained_variance_))
        scale = np.maximum(deviations, np.finfo(deviations.dtype).eps).astype(np.float64)
    return _build(to_host(pca.components_) / scale[:, None], pca.mean_)


def _lda_map(lda: Any) -> AffineMap:
    if lda.solver == "lsqr":
        raise TypeError(
            'LinearDiscriminantAnalysis with solver="lsqr" only classifies: use "svd" or "eigen" '
            "to obtain a map."
        )
    scalings = to_host(lda.scalings_)[:, : len(lda.get_feature_names_out())]
    return _build(scalings.T, lda.xbar_ if lda.solver == "svd" else None)


def _min_max_map(scaler: Any) -> AffineMap:
    if scaler.clip:
        raise TypeError(
            "MinMaxScaler with clip=True is not a linear map, so there is no matrix for it: fit it "
            "with clip=False, or save the complete model with mpda.save."
        )
    return _build(np.diag(to_host(scaler.scale_)), scaler.data_min_, scaler.feature_range[0])


def _scaling(scaler: Any, mean: Array | None) -> AffineMap:
    n = scaler.n_features_in_
    scale = np.ones(n) if scaler.scale_ is None else to_host(scaler.scale_).astype(np.float64)
    return _build(np.diag(1.0 / scale), mean)


def _build(matrix: Array, mean: Array | None, offset: float = 0.0) -> AffineMap:
    matrix = np.array(to_host(matrix), dtype=np.float64, order="C")
    mean = np.zeros(matrix.shape[1]) if mean is None else np.array(to_host(mean), dtype=np.float64)
    return AffineMap(mean, matrix, np.full(len(matrix), float(offset)))


_RULES: dict[str, Callable[[Any], AffineMap]] = {
    "sklearn.decomposition:PCA": _pca_map,
    "sklearn.discriminant_analysis:LinearDiscriminantAnalysis": _lda_map,
    "sklearn.neighbors:NeighborhoodComponentsAnalysis": lambda nca: _build(nca.components_, None),
    "sklearn.preprocessing:StandardScaler": lambda s: _scaling(s, s.mean_ if s.with_mean else None),
    "sklearn.preprocessing:RobustScaler": lambda scaler: _scaling(scaler, scaler.center_),
    "sklearn.preprocessing:MinMaxScaler": _min_max_map,
}
