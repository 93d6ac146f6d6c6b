"""The classes of a fit and where they are worked on: in threads of this machine, or on a cluster.

W never joins two classes, so a fit is independent work for each class, a sum (``class_sums``), and
one eigenproblem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from mpda._lib.array_types import ArrayLike
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, THREADS, count_threads, limit_openmp
from mpda.discriminant.class_stages import ClassStages, SharedTrees, StageMemory
from mpda.parallel.local import report_progress
from mpda.partition.rules import check_patch_labels

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# From this many samples on, most of the work on a class is in NumPy, SciPy and scikit-learn, which
# release Python's lock, so that classes gain from threads.
LARGE_CLASS = 1000
# Bytes of within-class forms and of neighbour lists that are kept between the two passes of a fit.
# What does not fit is computed twice. Lists of 64 MiB are those of 200,000 samples: with them a
# class of 100,000 samples takes 27 s, without them 42 s. Forms are larger and faster to compute.
_HOST_BYTES = {"forms": 96 * 2**20, "lists": 64 * 2**20}
# On a device, where memory is larger and computing twice costs many kernel launches.
_DEVICE_BYTES = {"forms": 2**32, "lists": 2**31}

Result = TypeVar("Result")


class ClassPool(Protocol):
    """The stages of all classes, in the memory of this machine or on a cluster."""

    def map(self, title: str, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield ``work(stages)`` for each class, in order."""


class LocalClasses:
    """The stages of all classes in the memory of this machine.

    Parameters
    ----------
    samples : LabelledSamples
        Samples of all classes.
    patches : array-like of int of shape (n_samples,), default=None
        Patches given by the user.
    max_neighbors : int, default=0
        Largest number of neighbours that will be asked for.
    keep_all : bool, default=False
        Set to True to keep every stage, for a search.
    n_jobs : int, default=None
        Number of classes that are worked on at a time, in threads. With None, large classes use as
        many threads as BLAS would.
    progress : str, default=None
        Name under which progress goes to stderr.
    """

    def __init__(
        self,
        samples: LabelledSamples,
        *,
        patches: ArrayLike | None = None,
        max_neighbors: int = 0,
        keep_all: bool = False,
        n_jobs: int | None = None,
        progress: str | None = None,
    ) -> None:
        on_host = isinstance(samples.X, np.ndarray)
        memory = None if keep_all else StageMemory(**(_HOST_BYTES if on_host else _DEVICE_BYTES))
        trees = None if on_host else SharedTrees(samples)
        labels = None if patches is None else check_patch_labels(patches, samples.y)
        self.stages = [
            ClassStages(
                samples,
                index,
                patch_labels=None if labels is None else labels[members],
                max_neighbors=max_neighbors,
                memory=memory,
                trees=trees,
            )
            for index, members in enumerate(samples.members)
        ]
        self._progress = progress
        # With n <= d samples are rotated into their span, so the smaller number is the dimension.
        self._blas_threads = 1 if min(samples.X.shape) <= SMALL else None
        self.n_threads = 1
        n_large = sum(members.size >= LARGE_CLASS for members in samples.members)
        if on_host and (n_large > 1 if n_jobs is None else n_jobs != 1):
            n_classes = n_large if n_jobs is None else len(self.stages)
            self.n_threads = min(count_threads(n_jobs), n_classes)

    def map(self, title: str, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield ``work(stages)`` for each class, in order."""
        run = self._map_serial if self.n_threads == 1 else self._map_threads
        results = run(work)
        if self._progress is None:
            return results
        return report_progress(results, len(self.stages), f"{self._progress}, {title}", "classes")

    def _map_serial(self, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield the results one after the other."""
        # One limit for all classes: changing it costs more than the work on a small class.
        with THREADS.limit(limits=self._blas_threads, user_api="blas"):
            for stages in self.stages:
                yield work(stages)

    def _map_threads(self, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield the results in order; at most one class for each thread is under way."""
        with (
            THREADS.limit(limits=1, user_api="blas"),
            ThreadPoolExecutor(self.n_threads, initializer=limit_openmp, initargs=(1,)) as threads,
        ):
            pending: list[Any] = []
            for stages in self.stages:
                if len(pending) == self.n_threads:
                    yield pending.pop(0).result()
                pending.append(threads.submit(work, stages))
            for future in pending:
                yield future.result()


def build_class_pool(
    samples: LabelledSamples | ClusterSamples,
    patches: ArrayLike | None,
    n_jobs: int | None,
    progress: str | None,
) -> ClassPool:
    """Create the stages of all classes where their samples are.

    Parameters
    ----------
    samples : LabelledSamples or ClusterSamples
        Samples of all classes.
    patches : array-like of int of shape (n_samples,) or None
        Patches given by the user, for samples in memory only.
    n_jobs : int or None
        Number of classes that are worked on at a time. A cluster decides that itself.
    progress : str or None
        Name under which progress goes to stderr.

    Returns
    -------
    ClassPool
        The classes in their order.
    """
    if not isinstance(samples, LabelledSamples):
        return samples.class_pool(ClassStages, progress)
    return LocalClasses(samples, patches=patches, n_jobs=n_jobs, progress=progress)
