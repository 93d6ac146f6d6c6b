"""The affine map x -> (x - mean) W' + offset that a fitted linear model or pipeline computes.

Maps are read from public fitted attributes: ``components_`` and ``mean_`` of mpda's estimators, the
attributes of scikit-learn's linear transformers, the steps of a Pipeline (composed), and
``best_estimator_`` of a search. Matrices of scalers are sparse until they are composed, so that
nothing of shape (n_features, n_features) arises. A Normalizer at the end scales mapped samples to
length 1, and so does a refinement on a sphere, whose constant is a row of zeros with an offset. A
SimpleImputer sets the values that replace nan.
``export_matrix`` writes the map as .npy files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array

from mpda._lib.array_types import Array, ArrayLike, Floats
from mpda._lib.arrays import to_host
from mpda._lib.atomic_write import atomic_path
from mpda._lib.sphere import scale_to_unit_length
from mpda.io.array_files import write_array
from mpda.io.model_classes import ESTIMATORS, find_path

# An offset moves into the mean if it is reproduced to 64 roundings, and if the terms that cancel
# are at most 1000 times as large, which costs three of sixteen digits.
_OFFSET_TOLERANCE = 64 * np.finfo(np.float64).eps
_LARGEST_CANCELLATION = 1e3


@dataclass(frozen=True)
class AffineMap:
    """Affine map ``y = (x - mean) @ matrix.T + offset`` in double precision.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Vector that is subtracted first.
    matrix : ndarray of shape (n_components, n_features)
        Linear part.
    offset : ndarray of shape (n_components,)
        Vector that is added last, zero where the mean suffices.
    unit_length : bool, default=False
        True if y is then scaled to length 1. Vectors of zeros stay as they are.
    fill_values : ndarray of shape (n_features,), default=None
        Values that replace nan in x before the map. With None, nan stays.
    """

    mean: Floats
    matrix: Floats
    offset: Floats
    unit_length: bool = False
    fill_values: Floats | None = None

    @property
    def constant(self) -> float:
        """The constant k of a map to a sphere: the offset of a last row of zeros. 0 without one."""
        is_constant = self.unit_length and not self.matrix[-1].any()
        return float(self.offset[-1]) if is_constant else 0.0

    def __call__(self, X: ArrayLike) -> Floats:
        """Transform samples X (n_samples, n_features) to (n_samples, n_components)."""
        X = np.asarray(X, dtype=np.float64)
        if self.fill_values is not None:
            X = np.where(np.isnan(X), self.fill_values, X)
        Z = (X - self.mean) @ self.matrix.T + self.offset
        return scale_to_unit_length(Z) if self.unit_length else Z

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

        Raises
        ------
        TypeError
            If this map scales to length 1, which no matrix does.
        """
        if self.unit_length:
            raise TypeError(
                "A method that maps to length 1 (a refinement on a sphere, within-class whitening) "
                "or a Normalizer must be the last step before the classifier: steps after it and "
                "it are no matrix together. Scale the samples before the model instead, or refine "
                "with radius=None."
            )
        offset = (self.offset - outer.mean) @ outer.matrix.T + outer.offset
        fill_values, later_values = self.fill_values, outer.fill_values
        if fill_values is None and later_values is not None and isinstance(self.matrix, csr_array):
            # A scaler passes nan on, so the values of a later imputer are mapped back through it.
            fill_values = self.mean + (later_values - self.offset) / self.matrix.diagonal()
        matrix = outer.matrix @ self.matrix
        return AffineMap(self.mean, matrix, offset, outer.unit_length, fill_values)

    def fold_offset(self) -> AffineMap:
        """Move the offset into the mean, where that costs no accuracy.

        Returns
        -------
        AffineMap
            Equal map with offset zero, but for the constants of rows of zeros; this map if no mean
            reproduces the offset.
        """
        is_constant = ~self.matrix.any(axis=1)
        offset = np.where(is_constant, 0.0, self.offset)
        # The shift s solves W s = -offset. Columns of W are scaled to norm 1 first, since features
        # may have very different units.
        norms = np.linalg.norm(self.matrix, axis=0)
        norms[norms == 0.0] = 1.0
        shift = np.linalg.lstsq(self.matrix / norms, -offset, rcond=None)[0] / norms
        residual = np.abs(offset + self.matrix @ shift).max()
        terms = (np.abs(self.matrix) @ np.abs(shift)).max()
        size = np.abs(offset).max()
        if residual > _OFFSET_TOLERANCE * size or terms > _LARGEST_CANCELLATION * size:
            return self
        return replace(self, mean=self.mean + shift, offset=self.offset - offset)


def affine_map(model: Any) -> AffineMap:
    """Return the affine map that ``transform`` of a fitted model computes.

    Parameters
    ----------
    model : estimator
        Linear method of mpda, PCA, TruncatedSVD, LinearDiscriminantAnalysis,
        NeighborhoodComponentsAnalysis, StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler,
        SimpleImputer, a Pipeline of such steps, or a DiscriminantSearchCV. A KNeighborsClassifier
        at the end of a pipeline is left out. A Normalizer, a refinement on a sphere or a
        WithinClassWhitening at the end, or before this classifier, sets ``unit_length``. An imputer
        sets ``fill_values``.

    Returns
    -------
    AffineMap
        Map with ``mean``, ``matrix``, ``offset``, ``unit_length`` and ``fill_values``. The offset
        is zero unless no mean reproduces it. For a refinement on a sphere with a constant k the
        last row of the matrix is zero and the last offset is k.

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
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import Normalizer

    steps = _list_steps(model, type(model).__name__)
    if steps and isinstance(steps[-1][1], KNeighborsClassifier):
        steps.pop()
    if not steps:
        raise TypeError(
            f"{type(model).__name__} has no step that transforms: there is no matrix to export."
        )
    has_normalizer = False
    while len(steps) > 1 and isinstance(steps[-1][1], Normalizer) and steps[-1][1].norm == "l2":
        steps.pop()
        has_normalizer = True
    # From the last step to the first: products then have as few rows as the result.
    maps = (_map_step(step, title) for title, step in reversed(steps))
    composed = reduce(lambda outer, inner: inner.then(outer), maps)
    matrix: Any = composed.matrix
    matrix = np.ascontiguousarray(matrix.toarray() if isinstance(matrix, csr_array) else matrix)
    unit_length = has_normalizer or composed.unit_length
    return replace(composed, matrix=matrix, unit_length=unit_length).fold_offset()


def _list_steps(model: Any, title: str) -> list[tuple[str, Any]]:
    """Return the fitted steps of a model and of the pipelines inside, with titles for errors."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, Pipeline):
        steps = [(name, step) for name, step in model.steps if step not in (None, "passthrough")]
        titled = [(f"Step {name!r} ({type(step).__name__})", step) for name, step in steps]
        return [item for title, step in titled for item in _list_steps(step, title)]
    if isinstance(model, FrozenEstimator):
        return _list_steps(model.estimator, title)
    # A search with refit=False is fitted, but has no map.
    check_is_fitted(model, "best_estimator_" if hasattr(model, "param_grid") else None)
    if hasattr(model, "best_estimator_"):
        return _list_steps(model.best_estimator_, title)
    earlier = getattr(model, "earlier_steps", None)  # of a refined pipeline
    return [*([] if earlier is None else _list_steps(earlier, "")), (title, model)]


def _map_step(model: Any, title: str) -> AffineMap:
    """Return the map of one step; ``title`` names it in errors."""
    from sklearn.compose import ColumnTransformer

    if isinstance(model, ColumnTransformer):
        raise TypeError(
            f"{title} makes numbers of text, so there is no matrix for the columns of the table. "
            "Use the model file, or fit without --one-hot; in Python, export the steps after it."
        )
    rule = _find_rule(model)
    linear = rule(model) if rule and not getattr(model, "clip", False) else None
    if linear is None:
        raise TypeError(
            f"{title} is not a linear map, so there is no matrix for it (MinMaxScaler and "
            "MaxAbsScaler need clip=False, SimpleImputer missing_values=nan and "
            'add_indicator=False, LinearDiscriminantAnalysis solver="svd" or "eigen"; a Normalizer '
            'needs norm="l2" and must be the last step before the classifier). Export the steps '
            "after it separately, or save the complete model with mpda.save."
        )
    return linear


def has_affine_map(model: Any) -> bool:
    """Return True if fitted models of this class can have an affine map.

    Parameters
    ----------
    model : estimator
        One step, fitted or not.

    Returns
    -------
    bool
        False for classes of which `affine_map` knows that they are not linear.
    """
    rule = _find_rule(model)
    # Of mpda's estimators, those with a matrix have its metric.
    return hasattr(model, "mahalanobis_matrix") if rule is _mpda_map else rule is not None


def _find_rule(model: Any) -> Callable[[Any], AffineMap | None] | None:
    # Subclasses of mpda's estimators map by ``components_`` and ``mean_`` too. A subclass of
    # scikit-learn's may transform in another way, so only the listed classes themselves are known.
    is_mpda = any(base.__module__.startswith("mpda.") for base in type(model).__mro__)
    return _RULES.get("mpda" if is_mpda else find_path(type(model), ESTIMATORS) or "")


def _mpda_map(model: Any) -> AffineMap | None:
    if not hasattr(model, "components_"):
        return None
    linear, radius = _build(model.components_, model.mean_), getattr(model, "radius_", None)
    if not radius:
        return replace(linear, unit_length=radius is not None)
    matrix = np.vstack([linear.matrix, np.zeros(linear.matrix.shape[1])])
    return AffineMap(linear.mean, matrix, np.append(linear.offset, radius), unit_length=True)


def _pca_map(pca: Any) -> AffineMap:
    scale = np.ones(pca.components_.shape[0])
    if pca.whiten:
        # As in scikit-learn: components without variance are not scaled up without bound.
        deviations = np.sqrt(to_host(pca.explained_variance_))
        scale = np.maximum(deviations, np.finfo(deviations.dtype).eps).astype(np.float64)
    return _build(to_host(pca.components_) / scale[:, None], pca.mean_)


def _lda_map(lda: Any) -> AffineMap | None:
    if lda.solver == "lsqr":  # only classifies
        return None
    # scalings_ has a column for every feature with solver="eigen"; ``transform`` uses the first.
    scalings = to_host(lda.scalings_)[:, : len(lda.get_feature_names_out())]
    return _build(scalings.T, lda.xbar_ if lda.solver == "svd" else None)


def _imputer_map(imputer: Any) -> AffineMap | None:
    """Return the identity, without the features that the imputer leaves out."""
    marker = imputer.missing_values
    if imputer.add_indicator or not (isinstance(marker, float) and math.isnan(marker)):
        return None
    # The value of a feature that the imputer leaves out is nan; its weights are 0.
    values = np.asarray(imputer.statistics_, dtype=np.float64)
    identity = eye_array(len(values), format="csr")
    matrix = identity if imputer.keep_empty_features else identity[~np.isnan(values)]
    return replace(_build(matrix, None), fill_values=np.nan_to_num(values))


def _min_max_map(scaler: Any) -> AffineMap:
    scale = to_host(scaler.scale_).astype(np.float64)
    return _build(diags_array(scale, format="csr"), scaler.data_min_, scaler.feature_range[0])


def _scaling(scaler: Any, mean: Array | None) -> AffineMap:
    scale = np.ones(scaler.n_features_in_) if scaler.scale_ is None else to_host(scaler.scale_)
    return _build(diags_array(1.0 / scale.astype(np.float64), format="csr"), mean)


def _build(matrix: Any, mean: Array | None, offset: float = 0.0) -> AffineMap:
    """Return a map in double precision; a sparse matrix stays sparse."""
    if not isinstance(matrix, csr_array):
        matrix = np.array(to_host(matrix), dtype=np.float64, order="C")
    mean = np.zeros(matrix.shape[1]) if mean is None else np.array(to_host(mean), dtype=np.float64)
    return AffineMap(mean, matrix, np.full(matrix.shape[0], float(offset)))


# Rules for fitted models by their class; None means that the model is not linear.
_RULES: dict[str, Callable[[Any], AffineMap | None]] = {
    "mpda": _mpda_map,
    "sklearn.decomposition:PCA": _pca_map,
    "sklearn.decomposition:TruncatedSVD": lambda m: _build(m.components_, None),
    "sklearn.discriminant_analysis:LinearDiscriminantAnalysis": _lda_map,
    "sklearn.impute:SimpleImputer": _imputer_map,
    "sklearn.neighbors:NeighborhoodComponentsAnalysis": lambda m: _build(m.components_, None),
    "sklearn.preprocessing:StandardScaler": lambda m: _scaling(m, m.mean_ if m.with_mean else None),
    "sklearn.preprocessing:RobustScaler": lambda m: _scaling(m, m.center_),
    "sklearn.preprocessing:MinMaxScaler": _min_max_map,
    "sklearn.preprocessing:MaxAbsScaler": lambda m: _scaling(m, None),
}


def export_matrix(model: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write the matrix and the mean of a fitted model as .npy files.

    Parameters
    ----------
    model : estimator
        Fitted model, as in :func:`affine_map`.
    path : str or path
        File for the matrix of shape (n_components, n_features); must end in ".npy". The mean goes
        to ``<stem>-mean.npy``, an offset, if there is one, to ``<stem>-offset.npy``, and for a map
        whose vectors are compared by the cosine the word "cosine" to ``<stem>-metric.npy``. Older
        files of these names are removed, since they would be taken for a part of this map.

    Returns
    -------
    list of Path
        Files that were written, the matrix first, in double precision. The map is
        ``(x - mean) @ matrix.T + offset``; where the metric is "cosine", the model scales the
        result to length 1. Values that replace nan are not written.
    """
    path = Path(path)
    if path.suffix != ".npy":
        raise ValueError(f"path must end in .npy, got {str(path)!r}.")
    linear = affine_map(model)
    others = {n: path.with_stem(f"{path.stem}-{n}") for n in ("mean", "offset", "metric")}
    arrays = {path: linear.matrix, others["mean"]: linear.mean}
    if linear.offset.any():
        arrays[others["offset"]] = linear.offset
    if linear.unit_length:
        arrays[others["metric"]] = np.array("cosine")
    # All files are written before the first one is replaced: a matrix with the mean of another
    # model would be a wrong map.
    with ExitStack() as stack:
        for target, array in arrays.items():
            write_array(stack.enter_context(atomic_path(target)), array)
    for other in others.values():
        if other not in arrays:
            other.unlink(missing_ok=True)
    return list(arrays)
