"""The samples of a fit by class, with the stages of the baselines that were computed from them.

Every baseline computes its matrices by functions ``stage(data, *parameters)``. A stage is computed
when it is first needed and kept, so that fits with other parameters on the same samples share it.
Work on classes is mapped by joblib, or on the cluster that holds the samples. Depends on the
validated samples and on the neighbour search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

import numpy as np

from mpda._lib.array_types import Ints
from mpda._lib.samples import LabelledSamples
from mpda._lib.validation import load_class
from mpda.neighbors.neighbor_lists import NeighborLists, find_neighbors_blockwise
from mpda.parallel import map_ordered

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

Parameters = TypeVarTuple("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TrainingData:
    """Samples by class, and a cache of what was computed from them.

    Parameters
    ----------
    samples : LabelledSamples or ClusterSamples
        The samples of the fit.
    n_jobs : int or None
        Number of tasks at the same time.
    title : str or None
        First words of the lines about progress; None prints nothing.
    max_neighbors : int
        Largest number of neighbours that any fit on these samples will need. The neighbours among
        all samples are searched once for all of them.
    """

    samples: LabelledSamples | ClusterSamples
    n_jobs: int | None = None
    title: str | None = None
    max_neighbors: int = 0
    _stages: dict[Hashable, object] = field(default_factory=dict, init=False, repr=False)

    @property
    def local_samples(self) -> LabelledSamples:
        """The samples, which must be in the memory of this machine."""
        if not isinstance(self.samples, LabelledSamples):
            raise TypeError("This method needs all samples in memory.")
        return self.samples

    @property
    def codes(self) -> Ints:
        """Number of the class of each sample, shape (n,)."""
        return np.searchsorted(self.local_samples.classes, self.local_samples.y)

    def cached(
        self, stage: Callable[[TrainingData, *Parameters], Result], *parameters: *Parameters
    ) -> Result:
        """Return ``stage(self, ...)``, computed at the first call with these arguments.

        Parameters
        ----------
        stage : callable
            Function of the training data and of hashable parameters.
        *parameters : hashable
            The parameters.

        Returns
        -------
        object
            The result of the stage, which must not be modified.
        """
        key = (stage, parameters)
        if key not in self._stages:
            self._stages[key] = stage(self, *parameters)
        return cast(Result, self._stages[key])

    def map_classes(
        self, title: str, work: Callable[..., Result], *parameters: Any
    ) -> Iterator[Result]:
        """Map work over classes: ``work(samples, *parameters)`` for each class.

        Parameters
        ----------
        title : str
            Name of the work in lines about progress.
        work : callable
            Takes the ``ClassSamples`` of a class.
        *parameters : object
            Further arguments.

        Returns
        -------
        iterator
            The results in the order of the classes.
        """
        samples = self.samples
        if not isinstance(samples, LabelledSamples):
            return samples.map_classes(work, parameters, self._progress_title(title))
        n_classes = len(samples.members)
        # Generators: a class is copied when its task is handed out, not all at once.
        arguments = ((load_class(samples, index), *parameters) for index in range(n_classes))
        return self.map_tasks(title, work, arguments, n_classes)

    def map_tasks(
        self,
        title: str,
        work: Callable[..., Result],
        arguments: Iterable[tuple[Any, ...]],
        n: int,
        unit: str = "classes",
    ) -> Iterator[Result]:
        """Map work over tasks: ``work(*a)`` for each tuple of arguments.

        Parameters
        ----------
        title : str
            Name of the work in lines about progress.
        work : callable
            The work.
        arguments : iterable of tuples
            Arguments of the tasks.
        n : int
            Number of tasks.
        unit : str, default="classes"
            Name of the tasks in lines about progress.

        Returns
        -------
        iterator
            The results in the order of the tasks.
        """
        report = self._progress_title(title)
        return map_ordered(work, arguments, n, n_jobs=self.n_jobs, report=report, unit=unit)

    def _progress_title(self, title: str) -> str | None:
        return None if self.title is None else f"{self.title}, {title}"

    def neighbors(self, n_neighbors: int) -> NeighborLists:
        """Find the nearest neighbours of every sample among all samples.

        Parameters
        ----------
        n_neighbors : int
            Number of neighbours, cut to the number of other samples.

        Returns
        -------
        NeighborLists
            Nearest first, ties by lower index.
        """
        # Lists are sorted, so those of the largest k hold all shorter ones.
        k = max(n_neighbors, self.max_neighbors)
        return self.cached(_search_neighbors, k).first(n_neighbors)


def _search_neighbors(data: TrainingData, n_neighbors: int) -> NeighborLists:
    arguments = [(data.local_samples.points, n_neighbors)]
    (lists,) = data.map_tasks("neighbours", find_neighbors_blockwise, arguments, 1, "searches")
    return lists
