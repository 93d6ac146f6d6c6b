"""The fit that GMML and DMLMJ share: a metric from scatters of pairs of samples, in closed form.

A method computes all its directions from the stages of the training data, in ``_solve``. The base
class checks parameters, sets the attributes, and shares stages between the parameter sets of a
search. The matrices are in ``baselines``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import astype
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import check_count, check_number, validate_samples
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.eigenproblem import Directions, check_n_directions
from mpda.discriminant.settings import parameter_key
from mpda.estimators._base import LinearMap, SolutionPath
from mpda.estimators._components import cast_components
from mpda.exceptions import SingularFormError


class PairMetric(LinearMap):
    """Metric of differences between samples: common part of GMML and DMLMJ.

    Subclasses have the parameters below and compute their directions in ``_solve``.
    """

    n_components: int | None
    alpha: float

    eigenvalues_: Array
    classes_: Array

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_number("alpha", self.alpha)

    def _fit_samples(self, samples: LabelledSamples) -> None:
        """Set the attributes of a fit to validated samples."""
        with one_blas_thread(samples.coordinates.dimension <= SMALL):
            directions = self._solve(TrainingData(samples))
        r = check_n_directions(directions.eigenvalues.shape[0], self.n_components)
        self.components_ = cast_components(self._scale(directions)[:r], samples.dtype)
        self.eigenvalues_ = directions.eigenvalues[:r]
        self.mean_ = astype(samples.mean, samples.dtype)
        self.classes_ = samples.classes

    def _solve(self, data: TrainingData) -> Directions:
        """Compute all directions in the order of the method."""
        raise NotImplementedError

    def _solution_key(self) -> Hashable:
        self.check_parameters()
        parameters = self.get_params(deep=False).items()
        return tuple((k, parameter_key(v)) for k, v in parameters if k != "eigenvalue_power")

    def _solve_many(
        self,
        methods: Sequence[PairMetric],
        X: ArrayLike,
        y: ArrayLike,
        n_components: Sequence[int] | None,
    ) -> Iterator[SolutionPath]:
        """Yield the directions of each method; all of them, because they are nested.

        Scatters and factors are computed once for the parameters that they depend on.
        """
        max_neighbors = max(method.class_neighbors or 0 for method in methods)
        data = TrainingData(validate_samples(self, X, y), max_neighbors=max_neighbors)
        for index, method in enumerate(methods):
            try:
                yield SolutionPath(index, method._solve(data))
            except SingularFormError as error:
                yield SolutionPath(index, None, failure=str(error))

    def _scale(self, solution: Directions) -> Array:
        return solution.vectors.T
