"""What the methods share that end in one eigenproblem: its options, and the scale of its rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from mpda._lib.array_types import ArrayLike
from mpda._lib.arrays import astype, numbers_to_device
from mpda._lib.coordinates import Coordinates
from mpda._lib.threads import SMALL, one_blas_thread
from mpda._lib.validation import check_count, check_flag, check_jobs, check_number
from mpda.baselines.training_data import TrainingData
from mpda.discriminant.solutions import Solution, solve_largest
from mpda.estimators._health import narrowed, warn_of_trouble
from mpda.estimators._linear_map import LinearMap
from mpda.estimators._samples import LabelledSamples
from mpda.estimators._scale import Scale
from mpda.parallel import map_ordered

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
        samples = self._given(X, y)
        self._check()
        if isinstance(samples, LabelledSamples):
            self._refuse_beyond_memory(samples.X, samples.sizes)
        self._warn(samples)
        view = samples.view()
        with one_blas_thread(view.dimension <= SMALL):
            solution = self._solution(view, self._forms(view, samples, {}))
        self.classes_ = numbers_to_device(samples.classes, view.origin)
        self._keep(view, solution)
        return self

    def _check_before(self) -> None:
        self._check()

    def _check(self) -> None:
        """Refuse parameters that mean nothing; subclasses check their own and then call this."""
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_number("alpha", self.alpha)
        check_number("eigenvalue_power", self.eigenvalue_power)
        check_flag("orthonormal", self.orthonormal)
        check_jobs(self.n_jobs)

    def _warn(self, samples: Any) -> None:
        """Warn of classes that are too small for the neighbours of this method, if any are."""

    @abstractmethod
    def _forms(self, view: Coordinates, samples: Any, memo: Memo) -> Any:
        """What does not depend on alpha."""

    def _solution(self, view: Coordinates, forms: Any) -> Solution:
        return solve_largest(view, forms, self.alpha, self.n_components)

    def _training_data(self, view: Coordinates, samples: Any, memo: Memo) -> TrainingData:
        """The samples by class, with the stages that are in the memo."""
        return TrainingData(
            coords=view,
            classes=[] if samples is None else samples.members,
            mapper=map_ordered if samples is None else samples.each,
            n_jobs=self.n_jobs,
            title=type(self).__name__ if self.verbose else None,
            max_neighbors=memo.get(MOST_NEIGHBORS, 0),
            _stages=memo,
        )

    def _keep(self, view: Coordinates, solution: Solution) -> None:
        """Set the attributes that all these methods have."""
        dtype = view.samples.dtype
        scale = Scale(self.eigenvalue_power, self._unit_rows, self.orthonormal, self._increasing)
        self.components_ = narrowed(scale.applied(solution.directions).T, dtype)
        self.eigenvalues_ = solution.directions.eigenvalues
        self.mean_ = astype(view.mean, dtype)
        self.units_ = {"alpha": solution.ridge}
        self.residual_ = solution.residual
        self.condition_ = solution.directions.condition
        warn_of_trouble(self.residual_, self.condition_)
