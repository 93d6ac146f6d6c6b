"""The base class of all methods: a linear map, and the interface that searches use.

Every method learns ``components_`` (r, d) and ``mean_`` (d,), and maps a sample x to
components_ (x - mean_).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mpda._lib.array_types import Array, ArrayLike, Ints
from mpda._lib.arrays import (
    array_namespace,
    astype,
    describe_library,
    detach,
    is_device_array,
    is_numpy,
    is_sparse,
    iter_slices,
    least_squares,
    move_to,
)
from mpda._lib.device_inputs import is_dispatched, refuse_accelerator
from mpda._lib.sphere import count_outputs, lift_from_sphere, project_to_sphere
from mpda._lib.validation import is_dask_collection, refuse_dask
from mpda.discriminant.settings import group_equal, parameter_key

Method = TypeVar("Method", bound="LinearMap")

# Entries of X that are mapped at a time: 16 MB, so that the centred copy stays small.
_BLOCK_ENTRIES = 2_000_000


@dataclass(frozen=True)
class ComponentPath:
    """Components of one parameter set, for a range of numbers of components.

    Attributes
    ----------
    index : int
        Number of the parameter set.
    components : array of shape (n_components, n_features) or None
        The first r rows are the components of a fit with ``n_components=r``, for every r from
        ``first`` to the number of rows. None where the method has no answer.
    first : int
        Smallest number of components for which that holds.
    failure : str or None
        Why there is no answer.
    radius : float or None
        The constant k of a sphere, to which mapped samples are projected; None for a linear map.
        The constant is one of the numbers of components. Each number has a projection of its own.
    mean : array of shape (n_features,) or None
        Vector that is subtracted from samples; None where it does not matter, without a sphere.
    """

    index: int
    components: Array | None
    first: int = 1
    failure: str | None = None
    radius: float | None = None
    mean: Array | None = None

    @property
    def n_outputs(self) -> int:
        """Largest number of components, with the constant of a sphere; 0 without an answer."""
        if self.components is None:
            return 0
        return count_outputs(self.components.shape[0], self.radius)


@dataclass(frozen=True)
class SolutionPath:
    """Solution of one parameter set whose components are not scaled yet.

    Attributes
    ----------
    index : int
        Number of the parameter set.
    solution : object or None
        What ``_scale`` of the method turns into components. None where there is no answer.
    first : int
        Smallest number of components for which the leading ones are those of a fit.
    failure : str or None
        Why there is no answer.
    mean : array of shape (n_features,) or None
        Vector that is subtracted from samples, for methods that map to a sphere.
    """

    index: int
    solution: Any
    first: int = 1
    failure: str | None = None
    mean: Array | None = None


def vary(estimator: Method, parameter_sets: Sequence[Mapping[str, Any]]) -> list[Method]:
    """Return copies of an estimator, one with each of several parameter sets.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and neither are its parameters.
    parameter_sets : sequence of dict
        Parameters and their values. Names such as ``partition__n_clusters`` are parameters of a
        parameter, which is cloned for each combination of their values.

    Returns
    -------
    list of estimator
        The copies have all other parameters in common.
    """
    clones: dict[Any, Any] = {}
    methods = []
    for parameters in parameter_sets:
        inner: dict[str, dict[str, Any]] = {}
        for name in sorted(name for name in parameters if "__" in name):
            outer, _, rest = name.partition("__")
            inner.setdefault(outer, {})[rest] = parameters[name]
        method = copy(estimator)
        method.set_params(**{k: v for k, v in parameters.items() if "__" not in k})
        for name, values in inner.items():
            value = getattr(method, name)
            if not hasattr(value, "set_params"):
                raise ValueError(
                    f"{name}={value!r} has no parameters, but {name}__{min(values)} is set."
                )
            key = parameter_key(value), *((k, parameter_key(v)) for k, v in values.items())
            if key not in clones:
                clones[key] = clone(value).set_params(**values)
            method.set_params(**{name: clones[key]})
        methods.append(method)
    return methods


def sparse_counts(r: int) -> Ints:
    """Return numbers from 1 to r in steps of a quarter, but of at least 1; r is one of them."""
    numbers = [1]
    while numbers[-1] < r:
        numbers.append(min(r, max(numbers[-1] + 1, round(1.25 * numbers[-1]))))
    return np.array(numbers)


class LinearMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A linear map that is learnt from samples.

    Subclasses set ``components_`` of shape (n_components, n_features) and ``mean_`` of shape
    (n_features,) in ``fit``. They are dataclasses: the constructor stores the parameters and does
    nothing else. ``eq=False, repr=False`` keep identity as equality, which hashing needs, and the
    representation of scikit-learn, which shows changed parameters only.
    """

    # True if a fit computes on device arrays, and if it takes sparse samples.
    _computes_on_devices = False
    _takes_sparse = False

    components_: Array
    mean_: Array
    # The constant k of a map to a sphere, 0 for vectors of length 1; None for a linear map.
    radius_: float | None = None

    def transform(self, X: ArrayLike) -> Array:
        """Map samples to the learnt space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples. A Dask collection is mapped lazily; a device array stays on its device. A
            sparse matrix stays sparse, for methods that were fitted to such.

        Returns
        -------
        array of shape (n_samples, n_components)
            Mapped samples, in the precision of X. Those of a map to a sphere have length 1.
        """
        return self._map_samples(X, self.radius_)

    def transform_linear(self, X: ArrayLike) -> Array:
        """Map samples without scaling them to length 1, for pictures.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_components)
            T (x - m), where ``transform`` projects this to a sphere. Otherwise it is what
            ``transform`` returns.
        """
        return self._map_samples(X, None)

    def _map_samples(self, X: ArrayLike, radius: float | None) -> Array:
        """Return mapped samples, on the sphere of a constant if there is one."""
        check_is_fitted(self, "components_")
        if is_dask_collection(X):
            from mpda.parallel.dask_blocks import map_blocks

            self._refuse_containers()
            work = partial(apply_map, mean=self.mean_, components=self.components_, radius=radius)
            return map_blocks(self, X, work, count_outputs(self.components_.shape[0], radius))
        self._refuse_other_device(X, "transform")
        accepted = "csr" if self._takes_sparse else False
        X = validate_data(
            self, detach(X), accept_sparse=accepted, reset=False, dtype=_float_types(X)
        )
        return apply_map(X, self.mean_, self.components_, radius)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Find samples that are mapped to given points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Mapped samples.

        Returns
        -------
        array of shape (n_samples, n_features)
            Of all samples that are mapped to X, those nearest to the training mean.
        """
        check_is_fitted(self, "components_")
        refuse_dask(self, X)
        self._refuse_other_device(X, "inverse_transform")
        X = check_array(detach(X), dtype=_float_types(X))
        n_components = self._n_features_out
        if X.shape[1] != n_components:
            raise ValueError(
                f"X has {X.shape[1]} columns, but {type(self).__name__} maps to {n_components} "
                "components: give what transform returned."
            )
        if self.radius_:
            if not bool(array_namespace(X).all(X[:, -1] > 0.0)):
                raise ValueError(
                    "The last column of X must be positive, since it is the constant of a sphere: "
                    "give what transform returned, or means of it."
                )
            X = lift_from_sphere(X, self.radius_)
        components, mean = move_to(self.components_, X), move_to(self.mean_, X)
        dtype = array_namespace(X).result_type(X, components)
        components = astype(components, dtype)
        # Rows of unit length: the lengths of components do not decide which are independent.
        lengths = _row_lengths(components)
        offsets = least_squares(components / lengths[:, None], (astype(X, dtype) / lengths).T).T
        return astype(offsets + mean, X.dtype)

    def mahalanobis_matrix(self) -> Array:
        """Return the matrix of the learnt metric.

        Returns
        -------
        array of shape (n_features, n_features)
            M = components_' components_. The Mahalanobis distance sqrt((x - z)' M (x - z)) of two
            samples is their Euclidean distance after ``transform``.
        """
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    def fit_many(
        self,
        X: ArrayLike,
        y: ArrayLike,
        parameter_sets: Sequence[Mapping[str, Any]],
        n_components: Sequence[int] | None = None,
    ) -> Iterator[ComponentPath]:
        """Fit the method with each of several parameter sets.

        This is the interface that ``DiscriminantSearchCV`` uses. Methods whose components are
        nested solve one eigenproblem for all numbers of components and share the work that
        parameter sets have in common. The estimator itself is not changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.
        parameter_sets : sequence of dict
            Parameters and their values. They must not contain ``n_components``.
        n_components : sequence of int, default=None
            Numbers of components that are needed. None stands for all.

        Yields
        ------
        ComponentPath
            One or several for each parameter set, in the order in which work is shared best.
        """
        # Weights of samples follow from the class weight: sets that differ in it share no work.
        name, default = "class_weight", getattr(self, "class_weight", None)
        weights = [parameters.get(name, default) for parameters in parameter_sets]
        for indices in group_equal(map(parameter_key, weights)):
            sets = [parameter_sets[index] for index in indices]
            method = copy(self)
            if name in sets[0]:
                method.set_params(class_weight=weights[indices[0]])
            for path in method._fit_group(X, y, sets, n_components):
                yield replace(path, index=indices[path.index])

    def _fit_group(
        self,
        X: ArrayLike,
        y: ArrayLike,
        parameter_sets: Sequence[Mapping[str, Any]],
        n_components: Sequence[int] | None,
    ) -> Iterator[ComponentPath]:
        """Yield the paths of parameter sets with the class weight of this estimator.

        Parameter sets that differ in the scale of the components only share their solution.
        """
        methods = vary(copy(self).set_params(n_components=None), parameter_sets)
        groups = group_equal(method._solution_key() for method in methods)
        distinct = [methods[indices[0]] for indices in groups]
        for path in self._solve_many(distinct, X, y, n_components):
            for index in groups[path.index]:
                components = None
                if path.solution is not None:
                    components = methods[index]._scale(path.solution)
                radius = methods[index].radius_
                yield ComponentPath(index, components, path.first, path.failure, radius, path.mean)

    def _solution_key(self) -> Hashable:
        """Return what the solution depends on: parameters without those of the scale."""
        parameters = self.get_params(deep=False).items()
        return tuple((name, parameter_key(value)) for name, value in parameters)

    def _solve_many(
        self,
        methods: Sequence[Any],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the solutions of methods that differ in their parameters.

        Here each number of components is a fit, and the solution its components.
        """
        X = np.asarray(X)
        rank = int(np.linalg.matrix_rank(X - X.mean(axis=0, dtype=np.float64)))
        # Without any of the numbers the largest one says how many there are.
        wanted = [r for r in n_components or range(1, rank + 1) if r <= rank] or [rank]
        for index, method in enumerate(methods):
            for r in wanted:
                fitted = clone(method).set_params(n_components=r).fit(X, y)
                yield SolutionPath(index, fitted.components_, first=r)

    def _scale(self, solution: Any) -> Array:
        """Return the components (r, d) of a solution."""
        return solution

    @property
    def class_neighbors(self) -> int | None:
        """Number of neighbours that are searched inside each class, None if there is no such."""
        return None

    @property
    def _n_features_out(self) -> int:
        return count_outputs(self.components_.shape[0], self.radius_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = self._computes_on_devices
        return tags

    def _refuse_other_device(self, X: Any, method: str) -> None:
        """With array API dispatch, X must lie on the device of the components."""
        refuse_accelerator(X)
        library = describe_library(X) if is_device_array(X) else "numpy"
        if get_config()["array_api_dispatch"] and library != describe_library(self.components_):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace "
                f"and the same device as those passed to fit(): X is of {library}, the components "
                f"are of {describe_library(self.components_)}. Move X there; or, without "
                "array_api_dispatch, everything is converted to NumPy arrays."
            )

    def _refuse_containers(self) -> None:
        """Raise an error if transform should return data frames of Dask collections."""
        config = getattr(self, "_sklearn_output_config", {})
        if config.get("transform", get_config()["transform_output"]) != "default":
            raise ValueError(
                "set_output and transform_output need samples in memory: for Dask collections "
                'leave them at "default", which gives a Dask array.'
            )


def _float_types(X: Any) -> list[Any]:
    """Return the types that are used as they are; other types become the first."""
    xp = array_namespace(X) if is_dispatched(X) else np
    return [xp.float64, xp.float32]


def apply_map(X: Array, mean: Array, components: Array, radius: float | None = None) -> Array:
    """Map samples, block by block.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, on the host or on a device, perhaps sparse.
    mean : array of shape (n_features,)
        Vector that is subtracted.
    components : array of shape (n_components, n_features)
        Linear part.
    radius : float, default=None
        The constant k of a sphere, to which the mapped samples are projected.

    Returns
    -------
    array of shape (n_samples, n_outputs)
        (X - mean) components' in the precision of X, or its points on the sphere.
    """
    if is_sparse(X):
        mapped = (X @ components.T - components @ mean).astype(X.dtype, copy=False)
        return project_to_sphere(mapped, radius)
    if not is_numpy(X):
        offsets = X - move_to(mean, X)
        # Not every library multiplies matrices of different precision.
        components = astype(move_to(components, X), offsets.dtype)
        return astype(project_to_sphere(offsets @ components.T, radius), X.dtype)
    X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
    mean, components = move_to(mean, X), move_to(components, X)
    mapped = np.empty((X.shape[0], count_outputs(components.shape[0], radius)), dtype=X.dtype)
    for rows in iter_slices(X.shape[0], _BLOCK_ENTRIES // X.shape[1]):
        mapped[rows] = project_to_sphere((X[rows] - mean) @ components.T, radius)
    return mapped


def _row_lengths(components: Array) -> Array:
    """Return the length of each row (r,), 1 for a row of zeros; squares stay in range."""
    xp = array_namespace(components)
    largest = xp.max(xp.abs(components), axis=1)
    largest = xp.where(largest > 0.0, largest, 1.0)
    lengths = largest * xp.linalg.vector_norm(components / largest[:, None], axis=1)
    return xp.where(lengths > 0.0, lengths, 1.0)
