"""The classes of a fit, on this machine or on a cluster, and the sum over them.

Work goes to the stages of each class (``class_stages``); results come back in the order of the
classes and are added up (``class_sums``). There is no other loop over classes in a fit of MPDA or
PMPDA. Depends on ``_lib.threads`` for the threads over classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from mpda._lib.array_types import Array, ArrayLike
from mpda._lib.arrays import is_host
from mpda._lib.progress import report_progress
from mpda._lib.samples import LabelledSamples
from mpda._lib.threads import SMALL, count_threads, limit_openmp, one_blas_thread
from mpda.discriminant.class_stages import LARGE_CLASS, ClassStages, SharedTrees, StageMemory
from mpda.discriminant.class_sums import ClassSummary, ClassSums, Contributions
from mpda.discriminant.settings import ClassSettings, Strengths, UserObject
from mpda.partition.rules import check_patch_labels

if TYPE_CHECKING:
    from mpda.parallel.dask_cluster import ClusterSamples

# Bytes of within-class forms and of neighbour lists that are kept between the two passes of a fit.
# What does not fit is computed twice. Lists of 64 MiB are those of 1.6 million samples with 20
# neighbours, in classes of up to 65,535. Without them neighbours are searched twice: a
# million samples took 1.3 times as long. Forms are larger and faster to compute: with 112 MiB
# the peak of a million samples x 64 is below 2.5 times their size on x86_64, too.
_HOST_BYTES = {"forms": 112 * 2**20, "lists": 64 * 2**20}
# Samples of more numbers than these have forms of which few fit. Then forms take no more than a
# quarter of the memory of the samples, beyond 32 MiB: with 100,000 samples x 384 in single
# precision 112 MiB would hold a tenth of the forms, and save a hundredth of the time.
_MANY_NUMBERS, _FORMS_SHARE, _LEAST_FORMS = 15_000_000, 0.25, 32 * 2**20
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
    max_neighbors : mapping, default=None
        Largest number of neighbours that will be asked for, by ``neighbor_search``.
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
        max_neighbors: Mapping[str | UserObject, int] | None = None,
        keep_all: bool = False,
        n_jobs: int | None = None,
        progress: str | None = None,
    ) -> None:
        is_dense = isinstance(samples.X, np.ndarray)
        on_host = is_dense or is_host(samples.X)
        memory = None if keep_all else _limit_memory(samples.X, on_host=on_host)
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
        self._is_small = min(samples.X.shape) <= SMALL
        self.n_threads = 1
        n_large = sum(members.size >= LARGE_CLASS for members in samples.members)
        # Sparse samples have many features: one class at a time keeps the memory of its dense copy
        # and of its matrices of features by features, and BLAS has work for all threads.
        if is_dense and (n_large > 1 if n_jobs is None else n_jobs != 1):
            n_classes = n_large if n_jobs is None else len(self.stages)
            self.n_threads = min(count_threads(n_jobs), n_classes)

    def map(self, title: str, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield ``work(stages)`` for each class, in order."""
        run = self._map_serial if self.n_threads == 1 else self._map_threads
        report = self._progress and f"{self._progress}, {title}"
        return report_progress(run(work), len(self.stages), report, "classes")

    def _map_serial(self, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield the results one after the other."""
        # One limit for all classes: to change it takes longer than the work on a small class.
        with one_blas_thread(self._is_small):
            for stages in self.stages:
                yield work(stages)

    def _map_threads(self, work: Callable[[ClassStages], Result]) -> Iterator[Result]:
        """Yield the results in order; at most one class for each thread is under way."""
        with (
            one_blas_thread(),
            ThreadPoolExecutor(self.n_threads, initializer=limit_openmp, initargs=(1,)) as threads,
        ):
            pending: list[Future[Result]] = []
            for stages in self.stages:
                if len(pending) == self.n_threads:
                    yield pending.pop(0).result()
                pending.append(threads.submit(work, stages))
            for future in pending:
                yield future.result()


def _limit_memory(X: Array, *, on_host: bool) -> StageMemory:
    """Return the limits on what is kept between the two passes over samples X."""
    if not on_host:
        return StageMemory(**_DEVICE_BYTES)
    n_numbers, forms = X.shape[0] * X.shape[1], _HOST_BYTES["forms"]
    if n_numbers > _MANY_NUMBERS:
        share = int(_FORMS_SHARE * n_numbers * X.dtype.itemsize)
        forms = min(forms, max(_LEAST_FORMS, share))
    return StageMemory(**_HOST_BYTES | {"forms": forms})


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


def sum_contributions(
    classes: ClassPool,
    settings: ClassSettings,
    strengths: Strengths | None = None,
    sums: ClassSums | None = None,
) -> Contributions:
    """Add the contributions of all classes to sums.

    Parameters
    ----------
    classes : ClassPool
        Stages of the classes.
    settings : ClassSettings
        Parameters of the stages.
    strengths : Strengths, default=None
        With them v is eliminated, and the eliminated terms are added too.
    sums : ClassSums, default=None
        Sums over earlier classes.

    Returns
    -------
    Contributions
        Sums over the earlier and the new classes; summaries of the new ones.
    """
    title = "graphs and forms (1/2)" if strengths is None else "graphs, forms, Schur complements"
    summaries: list[ClassSummary] = []
    work = partial(ClassStages.contribute, settings=settings, strengths=strengths)
    for contribution in classes.map(title, work):
        sums = contribution.sums if sums is None else sums + contribution.sums
        summaries += contribution.summaries
        del contribution  # the next class is computed without the matrices of this one
    assert sums is not None  # there is at least one class
    return Contributions(sums, summaries)
