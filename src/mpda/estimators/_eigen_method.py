"""What the methods share that end in one eigenproblem: its options, and the scale of its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import astype, numbers_to_device
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import (
    check_count,
    check_flag,
    check_jobs,
    check_number,
    is_dask_collection,
    validate_labelled,
    warn_small_classes,
)
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Directions
from mpda.discriminant.solutions import Solution, solve_largest
from mpda.estimators._base import ComponentPath, LinearMap
from mpda.estimators._health import narrowed, warn_of_trouble
from mpda.estimators._scale import Scale
from mpda.exceptions import SingularFormError
from mpda.parallel import import_dask_cluster

Memo = dict[Any, Any]
# Where a memo has the largest number of neighbours that any of the fits will ask for.
MOST_NEIGHBORS = ("most neighbors",)


class EigenMethod(LinearMap):
    """A linear map whose rows come from one eigenproblem.

    A method says what it checks, how its forms are made and how they are solved. What it makes is
    kept in ``memo`` under what it depends on, so that fits to the same samples can share it.
    """

    _unit_rows = False
    _increasing = False  # whether the smallest eigenvalues come first

    # Set by the constructors of the subclasses.
    n_components: int | None
    alpha: float
    eigenvalue_power: float
    orthonormal: bool
    n_jobs: int | None = None
    verbose: int

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map from the samples X (n_samples, n_features) and their class labels y."""
        self._check()
        if self._computes_on_devices and is_dask_collection(X):
            samples = import_dask_cluster().gather_by_class(self, X, y)
        else:
            samples = validate_labelled(self, X, y, devices=self._computes_on_devices)
        if self.class_neighbors is not None:
            warn_small_classes(samples.classes, samples.sizes, self.class_neighbors)
        coordinates = samples.coordinates
        with one_blas_thread(coordinates.dimension <= SMALL):
            solution = self._solution(samples, self._forms(samples, {}))
        self.classes_ = numbers_to_device(samples.classes, coordinates.origin)
        self._keep(samples, solution)
        return self

    def fit_many(
        self,
        X: ArrayLike,
        y: ArrayLike,
        parameter_sets: Sequence[Mapping[str, Any]],
        n_components: Sequence[int] | None = None,
    ) -> Iterator[ComponentPath]:
        """Fit with many parameter sets and share their work; see ``LinearMap.fit_many``."""
        samples = validate_labelled(self, X, y)
        methods = [copy(self).set_params(**parameters) for parameters in parameter_sets]
        n_neighbors = max(getattr(method, "n_neighbors", 0) for method in methods)
        memo: Memo = {MOST_NEIGHBORS: n_neighbors}
        n_rows = None if n_components is None else max(n_components)
        with one_blas_thread(samples.coordinates.dimension <= SMALL):
            for index, method in enumerate(methods):
                method._check()
                try:
                    yield from method._paths(index, samples, memo, n_rows)
                except SingularFormError as error:
                    yield ComponentPath(index, None, failure=str(error))

    def _paths(
        self, index: int, samples: LabelledSamples, memo: Memo, n_rows: int | None
    ) -> Iterator[ComponentPath]:
        """Yield the components for every number of them up to ``n_rows``."""
        # Solutions depend on the forms and on alpha, not on the scale of the components.
        forms = self._forms(samples, memo)
        key = "directions", id(forms), self.alpha
        if key not in memo:
            memo[key] = self._solution(samples, forms).directions, forms
        directions = memo[key][0]
        yield ComponentPath(
            index,
            self._scale_directions(directions.first(n_rows or directions.eigenvalues.shape[0])),
        )

    def _check(self) -> None:
        """Refuse parameters that mean nothing; subclasses check their own and then call this."""
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_number("alpha", self.alpha)
        check_number("eigenvalue_power", self.eigenvalue_power)
        check_flag("orthonormal", self.orthonormal)
        check_jobs(self.n_jobs)

    @abstractmethod
    def _forms(self, samples: Any, memo: Memo) -> Any:
        """What does not depend on alpha."""

    def _solution(self, samples: Any, forms: Any) -> Solution:
        return solve_largest(samples, forms, self.alpha, self.n_components)

    def _training_data(self, samples: Any, memo: Memo) -> TrainingData:
        """The samples by class, with the stages that are in the memo."""
        return TrainingData(
            samples=samples,
            n_jobs=self.n_jobs,
            title=type(self).__name__ if self.verbose else None,
            max_neighbors=memo.get(MOST_NEIGHBORS, 0),
            _stages=memo,
        )

    def _scale_directions(self, directions: Directions) -> Array:
        """Return the directions as components (r, d)."""
        scale = Scale(self.eigenvalue_power, self._unit_rows, self.orthonormal, self._increasing)
        return scale.applied(directions).T

    def _keep(self, samples: Any, solution: Solution) -> None:
        """Set the attributes that all these methods have."""
        dtype = samples.dtype
        self.components_ = narrowed(self._scale_directions(solution.directions), dtype)
        self.eigenvalues_ = solution.directions.eigenvalues
        self.mean_ = astype(samples.mean, dtype)
        self.units_ = {"alpha": solution.ridge}
        self.residual_ = solution.residual
        self.condition_ = solution.directions.condition
        warn_of_trouble(self.residual_, self.condition_)
