"""Refinement of a linear map for nearest neighbours, a second stage after any method."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mpda._lib.array_types import Array, ArrayLike, Floats, Ints
from mpda._lib.arrays import (
    array_namespace,
    astype,
    is_device_array,
    is_sparse,
    ldexp,
    take,
    to_device,
    to_host,
)
from mpda._lib.sample_weights import self_weighted_mean
from mpda._lib.samples import LabelledSamples
from mpda._lib.sphere import count_outputs
from mpda._lib.validation import (
    check_count,
    check_jobs,
    check_number,
    check_option,
    is_dask_collection,
    refuse_cluster_weights,
    resolve_seed,
    validate_samples,
)
from mpda.discriminant.eigenproblem import column_signs
from mpda.discriminant.scatter import centre_full_columns
from mpda.estimators._base import ComponentPath, LinearMap, apply_map, sparse_counts
from mpda.estimators._linear_methods import read_map
from mpda.estimators._mpda import MPDA
from mpda.estimators._refinement_start import (
    check_features,
    count_requested,
    fit_start,
    fit_starts,
    refuse_nonlinear_start,
    refuse_start_in_memory,
    split_pipeline,
)
from mpda.estimators.methods import PENALTY_PER_COEFFICIENT, find_method
from mpda.parallel import import_dask_cluster
from mpda.refinement.loss import OBJECTIVES
from mpda.refinement.optimize import (
    RefinedMap,
    RefinementSettings,
    count_coefficients,
    refine_map,
)

# Prefix of the parameters of the estimator, as in every meta-estimator of scikit-learn.
_PREFIX = "estimator__"
# Samples whose largest entry has a binary exponent beyond this one are scaled: squares and products
# of single precision then stay in range.
_LARGEST_EXPONENT = 30
# The square of the constant stays in the range of single precision. From 1e6 on the refinement on
# a sphere is the Euclidean one to seven digits.
_LARGEST_RADIUS = 1e9
# radius="auto": the usual constant, and the largest number of outputs that are drawn as they are.
# Leaving data sets out, the sphere has the lower error on average (benchmarks/defaults.py).
_USUAL_RADIUS = 1.0
_MOST_DRAWN = 3
# Distances are divided by the temperature, and must stay finite in single precision, too.
_SMALLEST_TEMPERATURE = 1e-12


# Constant of a sphere, None for the Euclidean geometry, or a choice by the number of outputs.
Radius = float | Literal["auto"] | None


@dataclass(eq=False, repr=False)
class NeighborhoodRefinement(LinearMap):
    """Refine a linear map so that nearest neighbours share a class more often.

    A method such as MPDA ends with an eigenproblem, which optimises scatter matrices and not the
    errors of nearest neighbours. Starting from its components T0, a few steps of L-BFGS minimise

        1/n sum_i [ log sum_{j in N_i} exp(-D_ij / tau) - log sum_{j in N_i, own class} exp(..) ]
        + (penalty / n) |T - T0|^2 / |T0|^2,      D_ij = |T (x_i - x_j)|^2,

    where N_i holds the samples nearest to sample i. This is neighbourhood components analysis
    restricted to near candidates, with a penalty that keeps the map near its start. Where there
    are more than three outputs the points lie on a sphere, for which cosine and Euclidean distance
    agree (see ``radius`` and Notes).

    Parameters
    ----------
    estimator : estimator, default=None
        Method that makes the first map: a method of this package, PCA, TruncatedSVD,
        LinearDiscriminantAnalysis or NeighborhoodComponentsAnalysis of scikit-learn, a pipeline
        that ends in one of them, or a fitted model in a ``FrozenEstimator``. A fitted model may be
        any object with ``components_`` (n_components, n_features) and ``mean_`` (n_features,),
        which stand for the map x -> components_ (x - mean_). None stands for ``MPDA()``.
    n_components : int, default=None
        Number of outputs. On a sphere with radius > 0 the constant is one of them, also of a number
        that is set on ``estimator``. None leaves the number of ``estimator``; if it has none
        either, all of its components are kept and the constant is added.
    radius : float, "auto" or None, default="auto"
        Constant k of the sphere in units of the root mean square length of the mapped training
        samples in the first map: 0 compares samples by their cosine, a positive number also by
        their lengths. None or inf is the Euclidean geometry, without a sphere, for pictures and for
        Mahalanobis distances. "auto" is 1 for more than three outputs, and None for fewer, which
        are for pictures: two outputs on a sphere lie on an arc.
    objective : {"nearest", "class"}, default="nearest"
        "nearest" asks for some near sample of the own class, as the loss above does. "class" asks
        for all own candidates, by the mean of log exp(-D_ij / tau) over them in place of the
        logarithm of the sum: for retrieval of whole classes.
    n_own_neighbors : int, default=5
        Number of nearest samples of the own class among the candidates N_i.
    n_candidates : int, default=40
        Number of nearest samples of all classes among the candidates N_i.
    penalty : float, default=None
        Weight of the distance from the first map. It is divided by the number of samples. None is
        ``penalty_per_coefficient`` times the number of coefficients, n_components min(n_features,
        n_samples - 1), without constant features: a larger map fits noise more easily. Components
        do not include the constant of a sphere.
    penalty_per_coefficient : float, default=None
        The penalty for each coefficient, where ``penalty`` is None. None is 0.1; 1.0 for a map that
        starts from :class:`WithinClassWhitening`, whose new samples have classes that the loss does
        not know.
    temperature : float, default=2.0
        Temperature tau in units of the median squared distance to the nearest sample of the own
        class, in the first map.
    n_rounds : int, default=5
        Number of times that candidates are searched. New ones join the earlier ones.
    max_iter : int, default=5
        Number of L-BFGS steps in a round.
    tol : float, default=1e-5
        A round ends where no entry of the gradient is larger, for a map of length 1.
    max_queries : int, default=60000
        Largest number of samples i in the sum. Of more samples as many are drawn; all samples stay
        candidates, unless they are on a Dask cluster.
    class_weight : {"balanced"} or dict, default=None
        Weights of the classes in the loss, as in :class:`MPDA`. The estimator has its own.
    random_state : int, RandomState or None, default=0
        Seed of the draw.
    n_jobs : int, default=None
        Number of threads on the host. None uses as many as BLAS would, with fewer than 4000
        queries one.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Refined map T; for a pipeline, of the features that its last step gets. On a sphere with
        k > 0 there is one component fewer than outputs: the constant has no row.
    mean_ : ndarray of shape (n_features,)
        Mean of the first map. On a sphere it is the weighted mean of the training samples, or that
        of a fitted model in a ``FrozenEstimator``, 0 where this has none.
    radius_ : float or None
        The constant k in the units of the mapped samples; None in the Euclidean geometry.
    start_components_ : ndarray of shape (n_components, n_features)
        First map T0, with the signs of ``components_``.
    estimator_ : estimator
        Fitted method that made it. The steps of a pipeline before the last are applied first.
    loss_curve_ : list of ndarray
        Loss at the start and after every step, for each round. Candidates differ between rounds.
    n_iter_ : int
        Number of L-BFGS steps in all rounds. A round that begins at its minimum counts as one.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names.

    Notes
    -----
    On a sphere ``transform`` gives

        z(x) = [T (x - m), k] / sqrt(|T (x - m)|^2 + k^2),      D_ij = |z(x_i) - z(x_j)|^2,

    with k = radius sqrt(mean_i |T0 (x_i - m)|^2), which stays fixed. These vectors have length 1:
    their Euclidean and cosine neighbours agree. What a vector store needs is the affine map
    [T (x - m), k] with the metric of the cosine: ``mpda.io.affine_map`` gives its matrix, whose
    last row is 0, and its offset. With radius=0 a sample that is mapped to 0 stays 0.

    References
    ----------
    .. [1] Goldberger, J., Roweis, S., Hinton, G. and Salakhutdinov, R. (2005). Neighbourhood
           components analysis. Advances in Neural Information Processing Systems, 17, 513-520.
    .. [2] Khosla, P. et al. (2020). Supervised contrastive learning. Advances in Neural
           Information Processing Systems, 33, 18661-18673. (The objective "class".)
    .. [3] Wu, Z., Efros, A. A. and Yu, S. X. (2018). Improving generalization via scalable
           neighborhood component analysis. European Conference on Computer Vision. (The unit
           sphere, radius=0.)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda import MPDA, NeighborhoodRefinement
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NeighborhoodRefinement(MPDA(n_components=10)).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (1797, 10)

    On a sphere nine components and the constant make ten outputs.

    >>> model.components_.shape
    (9, 64)
    >>> linear = NeighborhoodRefinement(MPDA(n_components=10), radius=None)
    >>> linear.fit(X[::2], y[::2]).components_.shape
    (10, 64)
    """

    _computes_on_devices = True
    _takes_sparse = True

    estimator: Any = None
    _: KW_ONLY
    n_components: int | None = None
    radius: float | str | None = "auto"
    objective: str = "nearest"
    n_own_neighbors: int = 5
    n_candidates: int = 40
    penalty: float | None = None
    penalty_per_coefficient: float | None = None
    temperature: float = 2.0
    n_rounds: int = 5
    max_iter: int = 5
    tol: float = 1e-5
    max_queries: int = 60_000
    class_weight: Any = None
    random_state: Any = 0
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the first map and refine it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, as an array, device array or Dask collection. The first map of a
            collection is fitted on the cluster, by a method that can; the refinement brings
            ``max_queries`` samples, drawn at random, to this machine.
        y : array-like of shape (n_samples,)
            Class labels. For a Dask dataframe also the name of a column.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, at least 0. Query i counts w_i times, and candidate j w_j times
            in every sum. The first method gets the weights, if its ``fit`` has them.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        settings = self._check_parameters()
        n_outputs = self._count_requested()
        n_rows = self._check_rows(n_outputs)
        start = self._make_start(n_rows)
        refuse_nonlinear_start(start)
        if n_rows is not None and n_outputs is not None:
            self._refuse_too_many(start, X, y, n_rows, n_outputs)
        if is_dask_collection(X):
            refuse_start_in_memory(start)
            refuse_cluster_weights(sample_weight, self.class_weight)
        start = fit_start(start, X, y, sample_weight)
        earlier, last, is_frozen = split_pipeline(start)
        is_distributed = is_dask_collection(X)
        if is_distributed:  # the gathered rows have no names of features
            X, y = import_dask_cluster().gather_rows(X, y, self._draw_queries)
        features = X if earlier is None else earlier.transform(X)
        if is_frozen and not is_distributed:
            check_features(last, features)
        unlabeled = _find_unlabeled(last)
        if unlabeled is not None:  # they have a part in the first map only
            labelled = np.flatnonzero(np.asarray(y) != unlabeled)
            features, y = _safe_indexing(features, labelled), np.asarray(y)[labelled]
        samples = validate_samples(
            self, features, y, sample_weight=sample_weight, devices=True, rotates=False
        )
        validate_data(self, X, skip_check_array=True)  # the number and names of the user's features
        matrix, mean = read_map(last)
        n_outputs = n_outputs or _count_outputs(len(matrix), self.radius)
        radius = _choose_radius(self.radius, n_outputs)
        if n_rows is not None and n_rows > len(matrix):
            raise ValueError(_say_too_many(n_rows, len(matrix), radius))
        matrix = matrix[:n_rows]  # a frozen model may have more
        keeps_mean = radius is None or is_frozen
        mean = to_device(mean, samples.X) if keeps_mean else samples.mean
        refined = self._refine(samples, matrix, mean, replace(settings, radius=radius))
        if not refined.is_usable:
            warnings.warn(
                "The refinement did not reach a finite map other than 0, and the map of the first "
                "method is kept. Look for features with extreme values, or raise penalty.",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif not refined.losses and settings.n_rounds:
            warnings.warn(
                "Nothing was refined: no sample has another one of its class, copies apart, among "
                "its candidates. Classes need at least two samples that differ; if there are many "
                "copies, remove them or raise n_candidates above their number.",
                ConvergenceWarning,
                stacklevel=2,
            )
        components, xp = refined.components, array_namespace(refined.components)
        signs = column_signs(xp.matrix_transpose(components))[:, None]
        signs = xp.where(signs == 0.0, xp.ones_like(signs), signs)  # a component may become 0
        self.estimator_ = start
        self.components_ = signs * components
        self.start_components_ = signs * astype(to_device(matrix, samples.X), samples.dtype)
        self.mean_ = astype(mean, samples.dtype)
        self.radius_ = refined.radius
        self.loss_curve_ = refined.losses
        self.n_iter_ = sum(max(1, curve.size - 1) for curve in refined.losses)
        return self

    def _fit_group(
        self,
        X: ArrayLike,
        y: ArrayLike,
        parameter_sets: Sequence[Mapping[str, Any]],
        n_components: Sequence[int] | None,
    ) -> Iterator[ComponentPath]:
        """Yield the paths of parameter sets with the class weight of this estimator.

        First maps are computed by ``fit_many`` of the first method, whose parameters begin with
        ``estimator__``. Each is refined for every number of components on its own, because refined
        maps are not nested. On a sphere numbers are those of outputs, with the constant.
        """
        samples = validate_samples(self, X, y, rotates=False)
        methods = [
            copy(self).set_params(**_without_prefix(point, inside=False))
            for point in parameter_sets
        ]
        for method in methods:
            method._check_parameters()
        starts = [_without_prefix(point, inside=True) for point in parameter_sets]
        distinct = [start for i, start in enumerate(starts) if start not in starts[:i]]
        start = self._make_start(None)
        refuse_nonlinear_start(start)
        numbers = None
        if n_components is not None:
            numbers = sorted(
                {_count_rows(r, m.radius) for r in n_components for m in methods} - {0}
            )
            if not numbers:
                for index, method in enumerate(methods):
                    yield ComponentPath(index, None, failure=_say_too_few(method.radius))
                return
            # A start that is a refinement on a sphere has a constant, too.
            inside = getattr(split_pipeline(start).last, "radius", None)
            radii = {_check_radius(point.get("radius", inside)) for point in distinct}
            numbers = sorted({_count_outputs(r, radius) for r in numbers for radius in radii})
        for path in fit_starts(start, X, y, distinct, numbers):
            for index, method in enumerate(methods):
                if starts[index] == distinct[path.index]:
                    yield from method._refine_path(
                        samples, replace(path, index=index), n_components
                    )

    def _refine_path(
        self, samples: LabelledSamples, path: ComponentPath, n_components: Sequence[int] | None
    ) -> Iterator[ComponentPath]:
        """Yield the refined map for each number of components of a path of first maps."""
        settings = self._check_parameters()
        if path.components is None:
            yield path
            return
        matrix = np.asarray(path.components, dtype=np.float64)
        most = _count_outputs(len(matrix), self.radius)
        if (
            settings.n_rounds == 0
            and path.radius is None
            and _choose_radius(self.radius, most) is None
        ):
            yield path
            return
        is_frozen = self.estimator is not None and split_pipeline(self.estimator).is_frozen
        mean = path.mean if is_frozen and path.mean is not None else samples.mean
        first = path.first - (path.n_outputs - len(matrix))  # in rows
        numbers = sparse_counts(most) if n_components is None else n_components
        fitting = [
            r for r in map(int, numbers) if first <= _count_rows(r, self.radius) <= len(matrix)
        ]
        # Without any of the numbers the largest one says how many there are.
        for number in fitting or [most]:
            radius = _choose_radius(self.radius, number)
            rows = matrix[: _count_rows(number, self.radius)]
            refined = self._refine(samples, rows, mean, replace(settings, radius=radius))
            yield ComponentPath(
                path.index,
                refined.components,
                first=number,
                radius=refined.radius,
                mean=None if radius is None else mean,
            )

    def _map_samples(self, X: ArrayLike, radius: float | None) -> Array:
        check_is_fitted(self, "components_")
        if self.earlier_steps is None:
            return super()._map_samples(X, radius)
        if is_dask_collection(X):
            from mpda.parallel.dask_blocks import map_blocks

            self._refuse_containers()
            n_outputs = count_outputs(len(self.components_), radius)
            return map_blocks(self, X, partial(self._apply_steps, radius=radius), n_outputs)
        return self._apply_steps(X, radius)

    def _apply_steps(self, X: Any, radius: float | None) -> Array:
        """Map samples in memory by the earlier steps and the components."""
        features = self.earlier_steps.transform(X)
        if not (is_device_array(features) or is_sparse(features)):
            features = np.asarray(features)
        return apply_map(features, self.mean_, self.components_, radius)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Find samples that are mapped to given points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_outputs)
            Mapped samples. On a sphere their length does not matter, so that means of points may
            be given; the constant in the last column must be positive.

        Returns
        -------
        array of shape (n_samples, n_features)
            Of all samples that are mapped to X, those nearest to the training mean. For a pipeline
            these are features of its last step, which the earlier steps then map back.

        Raises
        ------
        TypeError
            With radius=0, where the lengths of the mapped samples are lost.
        """
        check_is_fitted(self, "components_")
        if self.radius_ == 0.0:
            raise TypeError(
                "inverse_transform does not exist with radius=0: points of length 1 do not tell "
                "how far a sample is from the mean. Fit with another radius, or None."
            )
        features = super().inverse_transform(X)
        earlier = self.earlier_steps
        return features if earlier is None else earlier.inverse_transform(features)

    def mahalanobis_matrix(self) -> Array:
        """Return the matrix of the refined metric.

        Returns
        -------
        array of shape (n_features, n_features)
            M with sqrt((x - z)' M (x - z)) equal to the Euclidean distance after ``transform``. Of
            a pipeline it includes the earlier steps, which must be linear.

        Raises
        ------
        TypeError
            On a sphere, where no matrix has the distances.
        """
        check_is_fitted(self, "components_")
        if self.radius_ is not None:
            raise TypeError(
                f"mahalanobis_matrix does not exist on a sphere (radius={self.radius!r}): its "
                "distances depend on the lengths of the samples, not only on their difference. "
                "mpda.io.affine_map(model) has the matrix and the constant before the projection; "
                "or fit with radius=None."
            )
        if self.earlier_steps is None:
            return super().mahalanobis_matrix()
        matrix = read_map(self)[0]
        return matrix.T @ matrix

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that the first method searches in each class, or None.

        A frozen method searches none.
        """
        steps = split_pipeline(MPDA() if self.estimator is None else self.estimator)
        return None if steps.is_frozen else getattr(steps.last, "class_neighbors", None)

    @property
    def earlier_steps(self) -> Any:
        """Pipeline of fitted steps before ``components_``, None if there are none."""
        return split_pipeline(self.estimator_).earlier

    @property
    def first_method(self) -> Any:
        """Fitted method that made the first map: the last step of ``estimator_``."""
        return split_pipeline(self.estimator_).last

    def set_params(self, **params: Any) -> Self:
        """Set parameters, with the prefix ``estimator__`` also those of the first method.

        Parameters
        ----------
        **params : object
            Parameters and their values. If ``estimator`` is None and parameters of it are set, it
            becomes the `MPDA` for which None stands.

        Returns
        -------
        NeighborhoodRefinement
            The estimator itself.
        """
        start = params.get("estimator", self.estimator)
        if start is None and any(name.startswith(_PREFIX) for name in params):
            params = {**params, "estimator": MPDA()}
        return super().set_params(**params)

    def _check_parameters(self) -> RefinementSettings:
        """Return the parameters, without the radius, which may depend on the number of outputs."""
        check_count("max_queries", self.max_queries)
        _check_radius(self.radius)
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        if self.penalty_per_coefficient is not None:
            check_number("penalty_per_coefficient", self.penalty_per_coefficient, least=0.0)
            if self.penalty is not None:
                raise ValueError(
                    "penalty and penalty_per_coefficient are two ways to say the same, got "
                    f"{self.penalty!r} and {self.penalty_per_coefficient!r}. Set one of them."
                )
        return RefinementSettings(
            check_count("n_own_neighbors", self.n_own_neighbors),
            check_count("n_candidates", self.n_candidates),
            None if self.penalty is None else check_number("penalty", self.penalty, least=0.0),
            check_number("temperature", self.temperature, least=_SMALLEST_TEMPERATURE),
            check_count("n_rounds", self.n_rounds, least=0),
            check_count("max_iter", self.max_iter),
            check_number("tol", self.tol, least=0.0),
            check_jobs(self.n_jobs),
            objective=check_option("objective", self.objective, OBJECTIVES),
        )

    def _coefficient_penalty(self) -> float:
        """Return the penalty for each coefficient, by default the usual one of the first method."""
        if self.penalty_per_coefficient is not None:
            return float(self.penalty_per_coefficient)
        start = None if self.estimator is None else split_pipeline(self.estimator).last
        entry = find_method(start)
        return PENALTY_PER_COEFFICIENT if entry is None else entry.refinement_penalty

    def _count_requested(self) -> int | None:
        """Return the number of outputs that is set here or on the first method, None for all."""
        if self.n_components is not None or self.estimator is None:
            return self.n_components
        return count_requested(self.estimator)

    def _check_rows(self, n_outputs: int | None) -> int | None:
        """Return the number of rows that a number of outputs leaves for the first map.

        None leaves the number of the first method as it is.
        """
        if n_outputs is None:
            return None
        n_rows = _count_rows(n_outputs, self.radius)
        if n_rows < 1:
            raise ValueError(_say_too_few(self.radius))
        return self.n_components if n_rows == n_outputs else n_rows

    def _refuse_too_many(self, start: Any, X: Any, y: Any, n_rows: int, n_outputs: int) -> None:
        """Raise an error if no fit of the first method to samples in memory has so many rows.

        Messages of the method would not count the constant, and some name no number.
        """
        earlier, last, is_frozen = split_pipeline(start)
        entry = None if is_frozen or earlier is not None else find_method(last)
        labels = to_host(y) if is_device_array(y) else y
        if entry is None or is_dask_collection(X) or np.ndim(labels) != 1 or len(np.shape(X)) != 2:
            return
        n_samples, n_features = np.shape(X)
        n_classes = len(set(np.asarray(labels).tolist()))
        most = entry.count_components(n_samples, n_features, n_classes)
        if n_rows > most >= 1:  # a single sample is refused by the method
            raise ValueError(_say_too_many(n_rows, most, _choose_radius(self.radius, n_outputs)))

    def _make_start(self, n_rows: int | None) -> Any:
        """Return a copy of the estimator, not fitted, whose map has this number of rows if given.

        An object that is no estimator is copied, too.
        """
        start = MPDA() if self.estimator is None else clone(self.estimator, safe=False)
        last, is_frozen = split_pipeline(start)[1:]
        if n_rows is not None and not is_frozen:
            radius = _check_radius(getattr(last, "radius", None))
            last.set_params(n_components=_count_outputs(n_rows, radius))
        return start

    def _refine(
        self, samples: LabelledSamples, matrix: Floats, mean: Array, settings: RefinementSettings
    ) -> RefinedMap:
        """Return the refined map of a first one (r, d), in the units of the samples."""
        largest = np.abs(matrix).max()
        size = float(largest * np.linalg.norm(matrix / largest))  # squares stay in range
        # A start of length 1 and scaled samples: the loss does not depend on either.
        start = astype(to_device(matrix / size, samples.X), samples.X.dtype)
        codes = np.searchsorted(samples.classes, samples.y)
        X, weights = samples.X, samples.weights
        if weights is not None:
            # Samples of weight 0 add nothing to the loss, and must not take the place of others
            # among the nearest candidates.
            weights = to_host(weights)
            weighted = np.flatnonzero(weights)
            X = X[weighted] if is_sparse(X) else take(X, to_device(weighted, X))
            # The sum of the weights is the effective number of samples.
            weights, codes = (weights / self_weighted_mean(weights))[weighted], codes[weighted]
        queries = self._draw_queries(len(codes))
        if settings.penalty is None:
            n_coefficients = count_coefficients(len(matrix), samples.n_varying, len(codes))
            settings = replace(settings, penalty=self._coefficient_penalty() * n_coefficients)
        mean = samples.mean if settings.radius is None else mean
        centred = _centre(X, mean, samples.coordinates.exponent)
        centre = None if settings.radius is None else centred.centre
        refined = refine_map(centred.X, codes, queries, start, settings, weights, centre)
        radius = refined.radius
        if radius is not None:
            radius = size * float(np.ldexp(radius, centred.exponent))
        components = astype(size * refined.components, samples.dtype)
        return replace(refined, components=components, radius=radius)

    def _draw_queries(self, n: int) -> Ints:
        if n <= self.max_queries:
            return np.arange(n)
        rng = check_random_state(resolve_seed(self.random_state))
        return np.sort(rng.choice(n, self.max_queries, replace=False))


def _find_unlabeled(model: Any) -> Any:
    """Return the label of samples without a class, also of a refinement of a refinement."""
    while isinstance(model, NeighborhoodRefinement):
        model = split_pipeline(model.estimator_).last
    return getattr(model, "unlabeled", None)


def _without_prefix(point: Mapping[str, Any], *, inside: bool) -> dict[str, Any]:
    """Return the parameters of the estimator inside, or of the refinement itself."""
    if not inside:
        return {name: value for name, value in point.items() if not name.startswith(_PREFIX)}
    return {
        name.removeprefix(_PREFIX): value
        for name, value in point.items()
        if name.startswith(_PREFIX)
    }


def _check_radius(radius: Any) -> Radius:
    """Return the radius of a sphere, None for the Euclidean geometry, or "auto"."""
    if isinstance(radius, str) and radius == "auto":
        return "auto"
    if radius is None or (isinstance(radius, Real) and radius == math.inf):
        return None
    also = ', "auto", None or inf'
    return check_number("radius", radius, least=0.0, most=_LARGEST_RADIUS, also=also)


def _choose_radius(radius: Any, n_outputs: int) -> float | None:
    """Return the radius of a map with this number of outputs."""
    radius = _check_radius(radius)
    if radius == "auto":
        return _USUAL_RADIUS if n_outputs > _MOST_DRAWN else None
    return radius


def _count_rows(n_outputs: int, radius: Any) -> int:
    """Return the number of rows of a map with this number of outputs."""
    return n_outputs - count_outputs(0, _choose_radius(radius, n_outputs))


def _count_outputs(n_rows: int, radius: Any) -> int:
    """Return the number of outputs of a map with this number of rows.

    Three rows have three outputs, which are drawn, rather than four.
    """
    return n_rows if _count_rows(n_rows, radius) == n_rows else n_rows + 1


def _say_too_few(radius: Any) -> str:
    return (
        f"n_components must be at least 2 with radius={radius!r}, because the constant is one of "
        "the outputs, got 1. Ask for more, or set radius=None or 0."
    )


def _say_too_many(n_rows: int, most: int, radius: float | None) -> str:
    n_outputs = count_outputs(most, radius)
    constant = f", {n_outputs} with the constant" if n_outputs > most else ""
    return (
        f"n_components={count_outputs(n_rows, radius)} is more than there is: the first map has "
        f"at most {most} components{constant}."
    )


@dataclass(frozen=True, eq=False)
class _CentredSamples:
    """Centred samples, scaled by 2^-exponent.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples in their precision; sparse ones stay sparse.
    centre : array of shape (d,) or None
        What is left to subtract from sparse samples, scaled like them.
    exponent : int
        Binary exponent of their scale.
    """

    X: Array
    centre: Array | None
    exponent: int


def _centre(X: Array, mean: Array, scale: int) -> _CentredSamples:
    """Return samples, scaled by 2^-scale, minus a vector (d,) in the original units."""
    mean, centre = ldexp(mean, -scale), None
    if is_sparse(X):
        X, centre = centre_full_columns(X, mean)
        centre = centre.astype(X.dtype)
        largest = np.abs(X.data).max(initial=0.0)
    else:
        X = X - astype(mean, X.dtype)
        largest = float(array_namespace(X).max(array_namespace(X).abs(X)))
    # The loss does not depend on the scale, but squares must be in the range of single precision.
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) <= _LARGEST_EXPONENT:
        exponent = 0
    else:
        X = ldexp(X, -exponent)
        centre = None if centre is None else ldexp(centre, -exponent)
    return _CentredSamples(X, centre, scale + exponent)
