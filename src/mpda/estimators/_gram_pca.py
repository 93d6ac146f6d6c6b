"""Principal component analysis of samples that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import EPSILON, array_namespace, astype, ldexp, maximum, to_host
from mpda._lib.validation import (
    check_count,
    check_not_constant,
    check_number,
    is_dask_collection,
    refuse_cluster_weights,
    scale_exponent,
    validate_samples,
)
from mpda.discriminant.eigenproblem import fix_signs
from mpda.discriminant.scatter import total_scatter
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.parallel import import_dask_cluster


@dataclass(eq=False, repr=False)
class GramPCA(LinearMap):
    """Principal component analysis by the matrix of features by features.

    GramPCA reads the samples twice, block by block, and computes their mean and their scatter
    matrix. So they may be larger than memory (a ``numpy.memmap``), or on a Dask cluster. With many
    more samples than features this is also the fastest method.

    Parameters
    ----------
    n_components : int or float, default=None
        Number of components. A float between 0 and 1 is the share of the variance that the
        components hold at least. None keeps all components whose variance is not rounding.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal, by decreasing variance; the entry of largest magnitude is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the mapped samples along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of the total variance along each component.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    The scatter matrix sums squares, so components with a variance below about 1e-15 of the largest
    are rounding errors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda import GramPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> GramPCA(0.95).fit_transform(X).shape
    (1797, 29)
    """

    _computes_on_devices = True
    _takes_sparse = True

    n_components: float | None = None

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the components from samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, as an array, memory map, device array or Dask collection.
        y : object, default=None
            Not used.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, at least 0: multiplicities in the mean and in the scatter
            matrix. Only their ratios matter.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        r = self.n_components
        if isinstance(r, float | np.floating):
            check_number("n_components", r, above=0.0, below=1.0)
        elif r is not None:
            check_count("n_components", r)
        if is_dask_collection(X):
            refuse_cluster_weights(sample_weight, None)
            moments = self._cluster_moments(X, y)
        else:
            moments = self._moments(X, sample_weight)
        xp, exponent = array_namespace(moments.scatter), moments.exponent
        values, vectors = xp.linalg.eigh(moments.scatter)
        # A scatter matrix has no negative eigenvalues, except by rounding.
        values, vectors = maximum(xp.flip(values), 0.0), xp.flip(vectors, axis=1)
        ratios = values / xp.sum(values)
        d = ratios.shape[0]
        largest = min(moments.n, d)
        if r is None:
            r = int(xp.count_nonzero(values > d * EPSILON * values[0]))
        elif isinstance(r, float | np.floating):
            n_below = np.searchsorted(np.cumsum(to_host(ratios)), r, side="right")
            r = min(largest, int(n_below) + 1)
        if r > largest:
            raise ValueError(
                f"n_components={r} is more than there is: {largest} at most for these samples."
            )
        self.n_components_ = r = int(r)
        self.components_ = astype(fix_signs(vectors[:, :r]).T, moments.dtype)
        self.explained_variance_ = ldexp(values[:r] / (moments.n - 1), 2 * exponent)
        self.explained_variance_ratio_ = ratios[:r]
        self.mean_ = astype(moments.mean, moments.dtype)
        return self

    def _solve_many(
        self,
        methods: Sequence[GramPCA],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the components of each method, which are nested."""
        n_rows = None if n_components is None else max(n_components)
        for index, method in enumerate(methods):
            yield SolutionPath(index, clone(method).fit(X).components_[:n_rows])

    def _moments(self, X: ArrayLike, sample_weight: ArrayLike | None) -> _Moments:
        samples = validate_samples(
            self, X, sample_weight=sample_weight, devices=True, rotates=False
        )
        exponent, mean = samples.coordinates.exponent, samples.mean
        scatter = total_scatter(samples.X, 0, ldexp(mean, -exponent), samples.weights)
        # Weights have a mean of 1 over the samples whose weight is not 0.
        n = samples.X.shape[0] if samples.weights is None else np.count_nonzero(samples.weights)
        return _Moments(int(n), samples.dtype, mean, exponent, scatter)

    def _cluster_moments(self, X: Any, y: Any) -> _Moments:
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
        return _Moments(facts.n, blocks.kind.dtype, facts.mean, exponent, scatter)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@dataclass(frozen=True)
class _Moments:
    """Number, mean (d,) and scatter (d, d) about the mean of samples; the scatter is scaled.

    The scatter is that of the samples times 2^-exponent; dtype is the precision of the samples.
    """

    n: int
    dtype: Any
    mean: Array
    exponent: int
    scatter: Array
