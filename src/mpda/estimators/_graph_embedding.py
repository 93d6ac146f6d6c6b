"""The fit that LFDA, MFA, LSDA, LLTSA, LPFE and GraphDiscriminant share.

A method computes the directions of its eigenproblem from the stages of the training data, in
``_solve``. The base class checks parameters, sets the attributes, and shares stages between the
parameter sets of a search. The matrices are in ``baselines``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import astype, numbers_to_device
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import (
    check_count,
    check_flag,
    check_jobs,
    check_number,
    validate_samples,
    warn_small_classes,
)
from mpda.baselines.ridge_eigenproblem import Solution
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.settings import parameter_key
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.estimators._components import cast_components, scale_directions, warn_inaccurate
from mpda.exceptions import SingularFormError

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# Parameters that only change the scale of the components, after the eigenproblem is solved.
_SCALE_PARAMETERS = ("eigenvalue_power", "orthonormal")


class GraphEmbedding(LinearMap):
    """Linear embedding of neighbour graphs: common part of the baselines.

    Subclasses have the parameters below and compute their directions in ``_solve``.
    """

    n_components: int | None
    n_neighbors: int
    alpha: float
    eigenvalue_power: float
    orthonormal: bool
    verbose: int
    n_jobs: int | None = None  # LSDA has no such parameter: its work is one task
    # Smallest allowed ``n_neighbors``.
    _min_neighbors = 1

    eigenvalues_: Array
    classes_: Array
    strengths_: dict[str, float]
    residual_: float
    condition_: float

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map from labelled samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        LinearMap
            The fitted estimator itself.
        """
        self.check_parameters()
        self._fit_samples(validate_samples(self, X, y))
        return self

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_count("n_neighbors", self.n_neighbors, least=self._min_neighbors)
        check_number("alpha", self.alpha)
        check_number("eigenvalue_power", self.eigenvalue_power)
        check_flag("orthonormal", self.orthonormal)
        check_jobs(self.n_jobs)

    def _fit_samples(self, samples: LabelledSamples | ClusterSamples) -> TrainingData:
        """Set the attributes of a fit to validated samples; return the stages of the data."""
        if self.class_neighbors is not None:
            warn_small_classes(samples, self.class_neighbors, stacklevel=4)
        data = self._training_data(samples)
        with one_blas_thread(samples.coordinates.dimension <= SMALL):
            solution = self._solve(data)
        if samples.classes.size > 0:
            self.classes_ = numbers_to_device(samples.classes, samples.coordinates.origin)
        self.components_ = cast_components(self._scale(solution), samples.dtype)
        self.eigenvalues_ = solution.directions.eigenvalues
        self.mean_ = astype(samples.mean, samples.dtype)
        self.strengths_ = {"alpha": solution.ridge}
        self.residual_ = solution.residual
        self.condition_ = solution.directions.condition
        warn_inaccurate(self.residual_, self.condition_, stacklevel=4)
        return data

    def _training_data(
        self, samples: LabelledSamples | ClusterSamples, max_neighbors: int = 0
    ) -> TrainingData:
        title = type(self).__name__ if self.verbose else None
        return TrainingData(samples, self.n_jobs, title, max_neighbors)

    def _solve(self, data: TrainingData) -> Solution:
        """Compute the directions in the order of the method."""
        raise NotImplementedError

    def _solve_path(
        self, data: TrainingData, max_components: int | None
    ) -> list[tuple[int, Solution]]:
        """Return solutions with the smallest number of components for which each holds.

        ``n_components`` is None. Directions are nested, so one solution serves all numbers.
        """
        solution = self._solve(data)
        return [(1, solution if max_components is None else solution.first(max_components))]

    def _solution_key(self) -> Hashable:
        self.check_parameters()
        parameters = self.get_params(deep=False).items()
        return tuple((k, parameter_key(v)) for k, v in parameters if k not in _SCALE_PARAMETERS)

    def _solve_many(
        self,
        methods: Sequence[GraphEmbedding],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the directions of each method.

        Neighbour lists and scatter matrices are computed once for the parameters that they depend
        on.
        """
        samples = validate_samples(self, X, y)
        data = self._training_data(samples, max(method.n_neighbors for method in methods))
        max_components = None if n_components is None else max(n_components)
        for index, method in enumerate(methods):
            try:
                solutions = method._solve_path(data, max_components)
            except SingularFormError as error:
                yield SolutionPath(index, None, failure=str(error))
                continue
            for first, solution in solutions:
                yield SolutionPath(index, solution, first)

    def _scale(self, solution: Solution) -> Array:
        return scale_directions(
            solution.directions,
            self.eigenvalue_power,
            orthonormal=self.orthonormal,
            increasing=solution.increasing,
        )
