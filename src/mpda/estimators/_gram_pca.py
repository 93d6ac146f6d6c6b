"""GramPCA."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import ArrayLike, Floats
from mpda._lib.arrays import array_namespace, astype, ldexp, maximum, to_host
from mpda._lib.validation import (
    check_count,
    check_not_constant,
    check_number,
    is_dask_collection,
    scale_exponent,
    validate_unlabelled,
)
from mpda.discriminant.eigenproblem import fix_signs
from mpda.discriminant.scatter import total_scatter
from mpda.estimators._base import LinearMap
from mpda.parallel import import_dask_cluster


class GramPCA(LinearMap):
    """Principal component analysis by the matrix of features by features.

    The samples are gone through twice, a block at a time, for their mean and for the sum of
    products of features; nothing else of them is kept. So they may be larger than memory (a
    ``numpy.memmap``), or on a Dask cluster. With many more samples than features this is also the
    fastest way.

    Parameters
    ----------
    n_components : int or float, default=None
        The number of components; or, between 0 and 1, the share of the variance that they are to
        hold at least. None keeps as many as there are features, or samples if these are fewer.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal, by decreasing variance; the entry of largest magnitude is positive.
    explained_variance_ : ndarray of shape (n_components,)
    explained_variance_ratio_ : ndarray of shape (n_components,)
    mean_ : ndarray of shape (n_features,)
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    Squares of features are added up, so components whose variance is below about 1e-15 of the
    largest are rounding.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda import GramPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> GramPCA(0.95).fit_transform(X).shape
    (1797, 29)
    """

    _computes_on_devices = True

    def __init__(self, n_components: float | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the components from the samples X (n_samples, n_features); y is not used."""
        _check_components(self.n_components)
        if is_dask_collection(X):
            n, dtype, mean, exponent, scatter = self._sum_over_cluster(X, y)
        else:
            samples = validate_unlabelled(self, X, devices=True)
            n, dtype, mean = samples.X.shape[0], samples.dtype, samples.mean
            exponent = samples.coordinates.exponent
            scatter = total_scatter(samples.X, 0, ldexp(mean, -exponent))
        xp = array_namespace(scatter)
        values, vectors = xp.linalg.eigh(scatter)
        values, vectors = maximum(xp.flip(values), 0.0), xp.flip(vectors, axis=1)
        ratios = values / xp.sum(values)
        kept = _number_kept(self.n_components, to_host(ratios), min(n, ratios.shape[0]))
        self.n_components_ = kept
        self.components_ = astype(fix_signs(vectors[:, :kept]).T, dtype)
        self.explained_variance_ = ldexp(values[:kept] / (n - 1), 2 * exponent)
        self.explained_variance_ratio_ = ratios[:kept]
        self.mean_ = astype(mean, dtype)
        return self

    def _sum_over_cluster(self, X: Any, y: Any) -> tuple[int, Any, Floats, int, Floats]:
        """Return n, dtype, mean, exponent and scatter of a Dask collection."""
        if np.isscalar(y):
            raise TypeError(
                f"y={y!r} is not used: GramPCA returns arrays, without columns for labels. Give X "
                "without its labels, and these as a series."
            )
        cluster = import_dask_cluster()
        blocks = cluster.unlabelled_blocks(X)
        validate_data(self, blocks.kind.sample())
        facts = cluster.merge_facts(cluster.collect_facts(blocks))
        check_not_constant(facts.low, facts.high)
        exponent = scale_exponent(facts.low, facts.high)
        scatter = cluster.sum_over_blocks(blocks, total_scatter, exponent, facts.mean)
        return facts.n, blocks.kind.dtype, facts.mean, exponent, scatter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def _check_components(n_components: Any) -> None:
    if isinstance(n_components, float | np.floating) and not isinstance(n_components, int):
        check_number("n_components", n_components, least=math.ulp(0.0), below=1.0)
    elif n_components is not None:
        check_count("n_components", n_components)


def _number_kept(n_components: float | None, ratios: Floats, most: int) -> int:
    if n_components is None:
        return most
    if isinstance(n_components, float | np.floating):
        return min(most, int(np.searchsorted(np.cumsum(ratios), n_components, side="right")) + 1)
    if n_components > most:
        raise ValueError(
            f"n_components={n_components} is more than there is: {most} at most for these samples."
        )
    return int(n_components)
