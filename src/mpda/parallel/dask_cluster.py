"""Samples on a Dask cluster: rows are brought together by class, and work goes to the classes.

Facts about blocks and classes, and matrices of features by features, come to the client. A class
travels as a whole to one worker, which keeps the stages of its fit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from operator import getitem
from typing import Any, Generic, TypeVar, cast

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.delayed import Delayed
from distributed import Client, Future, default_client
from joblib import parallel_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.progress import report_progress
from mpda._lib.samples import Coordinates, LabelledSamples
from mpda._lib.validation import (
    check_not_constant,
    check_number_of_classes,
    distinct_labels,
    group_by_class,
    load_class,
    scale_exponent,
    validate_samples,
)
from mpda.parallel.dask_blocks import Blocks, labelled_blocks, refuse_lengths
from mpda.parallel.dask_blocks import unlabelled_blocks as unlabelled_blocks

Stages = TypeVar("Stages")
Result = TypeVar("Result")

# Seconds in which a scheduler has to answer.
_CONNECT_TIMEOUT = 10
# Matrices that are added in one task: a tree of sums with few levels and small tasks.
_SUMMANDS = 8
# Tasks that wait on the cluster for each of its threads, so that no thread runs out of work.
_TASKS_PER_THREAD = 4


@dataclass(frozen=True)
class BlockFacts:
    """Facts about the samples of a block, or of all blocks.

    Attributes
    ----------
    n : int
        Number of samples.
    labels, counts : ndarrays of shape (n_classes,)
        Distinct labels and their counts.
    low, high, first, mean : ndarrays of shape (n_features,)
        Smallest and largest value of each feature, one sample, and the mean.
    """

    n: int
    labels: Labels
    counts: Ints
    low: Floats
    high: Floats
    first: Floats
    mean: Floats


@dataclass(frozen=True)
class ClusterClass:
    """A class on the cluster: its number of samples and a future of its rows."""

    size: int
    rows: Future


@dataclass(frozen=True)
class ClusterSamples:
    """Samples and labels on a cluster, by class.

    Attributes
    ----------
    client : Client
        Client of the cluster.
    classes : ndarray of shape (n_classes,)
        Sorted distinct labels.
    members : list of ClusterClass
        Samples of each class, on the workers.
    dtype : dtype
        Precision of the samples.
    low, high, mean : ndarrays of shape (n_features,)
        Smallest value, largest value and mean of each feature.
    coordinates : Coordinates
        Without rotation.
    """

    client: Client
    classes: Labels
    members: list[ClusterClass]
    dtype: np.dtype[Any]
    low: Floats
    high: Floats
    mean: Floats
    coordinates: Coordinates

    @property
    def n_varying(self) -> int:
        """Number of features that are not constant."""
        return int(np.count_nonzero(self.low != self.high))

    def in_coordinates(self, coordinates: Coordinates) -> ClusterSamples:
        """Return the samples in the coordinates of an earlier fit."""
        return replace(self, coordinates=coordinates)

    def class_pool(
        self, build: Callable[[LabelledSamples, int], Stages], progress: str | None
    ) -> ClusterClasses[Stages]:
        """Create the stages of each class on the workers.

        Parameters
        ----------
        build : callable
            Creates the stages of a class from samples and the number of the class.
        progress : str or None
            Name under which progress goes to stderr.
        """
        stages = [
            self.client.submit(_build_stages, build, member.rows, self.coordinates, pure=False)
            for member in self.members
        ]
        return ClusterClasses(self.client, stages, progress)

    def map_classes(
        self, work: Callable[..., Result], parameters: Sequence[Any], title: str | None
    ) -> Iterator[Result]:
        """Yield ``work(samples, *parameters)`` for each class, in order."""
        futures = (
            self.client.submit(
                _apply_to_class, work, member.rows, self.coordinates, *parameters, pure=False
            )
            for member in self.members
        )
        results = _gather_in_order(self.client, futures)
        return report_progress(results, len(self.members), title, "classes")


class ClusterClasses(Generic[Stages]):
    """The stages of all classes, kept on the workers of a cluster."""

    def __init__(self, client: Client, stages: list[Future], progress: str | None) -> None:
        self._client = client
        self._stages = stages
        self._progress = progress

    def map(self, title: str, work: Callable[[Stages], Result]) -> Iterator[Result]:
        """Yield ``work(stages)`` for each class, in order; the stages stay on the workers."""
        results = _gather_in_order(self._client, self._submit(work))
        report = self._progress and f"{self._progress}, {title}"
        return report_progress(results, len(self._stages), report, "classes")

    def _submit(self, work: Callable[[Stages], Any]) -> Iterator[Future]:
        for index, stages in enumerate(self._stages):
            # The stages come back with the result: what they computed and kept is then used by the
            # next call, although Dask's tasks must not change their arguments.
            both = self._client.submit(_apply, work, stages, pure=False)
            self._stages[index] = self._client.submit(getitem, both, 0, pure=False)
            yield self._client.submit(getitem, both, 1, pure=False)


def _class_samples(rows: Floats, coordinates: Coordinates) -> LabelledSamples:
    """Return the rows of one class, on the worker that has them, as samples in coordinates."""
    # Rows are scaled here and not on their way, because they may be used in the coordinates of an
    # earlier fit.
    if coordinates.exponent:
        rows = np.ldexp(rows.astype(np.float64), -coordinates.exponent)
    no_labels = np.zeros(1, dtype=np.intp)
    members = [np.arange(len(rows))]
    return LabelledSamples(rows, no_labels, no_labels, members, 0, rows.dtype, coordinates)


def _build_stages(build: Callable[..., Any], rows: Floats, coordinates: Coordinates) -> Any:
    return build(_class_samples(rows, coordinates), 0)


def _apply(work: Callable[[Any], Any], stages: Any) -> tuple[Any, Any]:
    result = work(stages)
    return stages, result


def _apply_to_class(
    work: Callable[..., Any], rows: Floats, coordinates: Coordinates, *parameters: Any
) -> Any:
    return work(load_class(_class_samples(rows, coordinates), 0), *parameters)


def _gather_in_order(client: Client, futures: Iterator[Future]) -> Iterator[Any]:
    """Yield the results of futures in order; a limited number of them is submitted ahead."""
    n_ahead = _TASKS_PER_THREAD * max(1, sum(client.nthreads().values()))
    waiting = list(islice(futures, n_ahead))
    while waiting:
        # The next tasks are submitted before this waits, so that the cluster never runs dry.
        coming = list(islice(futures, n_ahead))
        yield from _gather(client, waiting)
        waiting = coming


def _gather(client: Client, futures: Any) -> Any:
    """Return the results of futures.

    The client keeps an error with all local variables of the place where it was raised. A copy of
    the error is raised instead, so that what a failed fit has on the cluster is released.
    """
    try:
        return client.gather(futures)
    except Exception as error:
        raised = copy.copy(error)
        error.with_traceback(None)
    raise raised


def gather_by_class(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool = True, single_class: bool = False
) -> LabelledSamples | ClusterSamples:
    """Bring the rows of Dask collections together by class.

    Parameters
    ----------
    estimator : estimator
        It gets ``n_features_in_`` and ``feature_names_in_``, or is compared with them.
    X : Dask array or dataframe of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,), or the name of a column of X
        Class labels.
    reset : bool, default=True
        Set to False for samples that are added to an earlier fit.
    single_class : bool, default=False
        Set to True if samples of one class are enough.

    Returns
    -------
    ClusterSamples or LabelledSamples
        The latter, in the memory of this machine, if there are no more samples than features.
    """
    blocks = labelled_blocks(X, y)
    validate_data(estimator, blocks.kind.sample(), reset=reset)
    block_facts = collect_facts(blocks)
    facts = merge_facts(block_facts)
    if facts.n <= blocks.kind.n_features and reset:
        X, y = _compute([delayed(list)(blocks.X), delayed(list)(blocks.y)])
        return validate_samples(
            estimator,
            blocks.kind.with_names(np.concatenate(X)),
            np.concatenate(y),
            single_class=single_class,
        )
    group_by_class(np.repeat(facts.labels, np.minimum(facts.counts, 3)))  # checks the labels
    single_class = single_class or not reset
    check_number_of_classes(estimator, facts.labels, 1 if single_class else 2)
    if not single_class:
        check_not_constant(facts.low, facts.high)
    client = current_client()
    rows = client.compute(_rows_by_class(blocks, block_facts, facts))
    exponent = scale_exponent(facts.low, facts.high)
    return ClusterSamples(
        client,
        facts.labels,
        [ClusterClass(int(n), future) for n, future in zip(facts.counts, rows, strict=True)],
        blocks.kind.dtype,
        facts.low,
        facts.high,
        facts.mean,
        Coordinates(exponent, np.ldexp(facts.first.astype(np.float64), -exponent)),
    )


def gather_rows(
    X: Any, y: Any, choose: Callable[[int], Ints], unlabeled: Any = None
) -> tuple[Any, Labels]:
    """Bring some rows of Dask collections to this machine.

    Parameters
    ----------
    X : Dask array or dataframe of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,), or the name of a column of X
        Class labels.
    choose : callable
        ``choose(n_samples)`` returns the numbers of the rows, in increasing order. So the choice
        does not depend on the blocks.
    unlabeled : object, default=None
        Label of rows without a class, which are neither counted nor brought.

    Returns
    -------
    X : ndarray or DataFrame of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,)
        Their labels.
    """
    blocks = labelled_blocks(X, y)
    labelled = _compute([delayed(_find_labelled)(labels, unlabeled) for labels in blocks.y])
    ends = np.cumsum([rows.size for rows in labelled])
    rows = choose(int(ends[-1]))
    parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
    starts = [0, *ends[:-1]]
    drawn = [
        delayed(_take_rows)(X, y, known[part - start])
        for X, y, known, part, start in zip(
            blocks.X, blocks.y, labelled, parts, starts, strict=True
        )
        if part.size
    ]
    samples, labels = zip(*_compute(drawn), strict=True)
    return blocks.kind.with_names(np.concatenate(samples)), np.concatenate(labels)


def _find_labelled(y: Labels, unlabeled: Any) -> Ints:
    """Return the numbers of the rows of a block that have a class."""
    y = np.asarray(y)
    return np.arange(len(y)) if unlabeled is None else np.flatnonzero(y != unlabeled)


def _take_rows(X: Floats, y: Labels, rows: Ints) -> tuple[Floats, Labels]:
    return X[rows], np.asarray(y)[rows]


def _compute(tasks: Any) -> Any:
    """Compute delayed tasks on the cluster and return their results."""
    client = current_client()
    return _gather(client, client.compute(tasks))


def connect_workers(scheduler: str) -> ExitStack:
    """Connect to a scheduler; inside the returned context joblib's work goes to its workers."""
    stack = ExitStack()
    stack.enter_context(Client(scheduler, timeout=_CONNECT_TIMEOUT))
    stack.enter_context(parallel_config("dask"))
    return stack


def current_client() -> Client:
    """Return the client of the cluster that is in use, or raise an error if there is none."""
    try:
        client = default_client()
    except ValueError as error:
        raise RuntimeError(
            "Samples on Dask are worked on by its cluster, and none is connected. Start one first, "
            "for example: from distributed import Client; client = Client()."
        ) from error
    if client.asynchronous:
        raise RuntimeError("A fit waits for the cluster, which an asynchronous Client cannot do.")
    return client


def collect_facts(blocks: Blocks) -> list[BlockFacts]:
    """Compute the facts about each block on the cluster."""
    labels: list[Any] = blocks.y or [None] * len(blocks.X)
    tasks = [delayed(_block_facts)(X, y) for X, y in zip(blocks.X, labels, strict=True)]
    return list(_compute(tasks))


def _block_facts(X: Floats, y: Labels | None) -> BlockFacts:
    n, d = X.shape
    if not np.isfinite(X).all():
        raise ValueError("Input X contains NaN or infinity.")
    labels, counts = np.empty(0), np.empty(0, dtype=np.intp)
    if y is not None:
        refuse_lengths(n, len(y))
        if pd.isna(y).any():
            raise ValueError("Input y contains missing labels.")
        labels, codes = distinct_labels(y)
        counts = np.bincount(codes)
    if n == 0:
        empty = np.full(d, np.nan)
        return BlockFacts(0, labels, counts, empty, empty, empty, empty)
    low, high = X.min(axis=0), X.max(axis=0)
    # Scaled, because the sum of the largest floats would overflow.
    exponent = scale_exponent(low, high)
    scaled = np.ldexp(X, -exponent) if exponent else X
    mean = np.ldexp(scaled.mean(axis=0, dtype=np.float64), exponent)
    return BlockFacts(n, labels, counts, low, high, X[0].copy(), mean)


def merge_facts(blocks: list[BlockFacts]) -> BlockFacts:
    """Return the facts about all samples from those about blocks."""
    blocks = [block for block in blocks if block.n]
    if not blocks:
        raise ValueError("X has 0 samples.")
    labels, codes = np.unique(
        np.concatenate([block.labels for block in blocks]), return_inverse=True
    )
    counts = np.bincount(codes, np.concatenate([block.counts for block in blocks]))
    sizes = np.array([block.n for block in blocks])
    return BlockFacts(
        n=int(sizes.sum()),
        labels=labels,
        counts=counts.astype(np.intp),
        low=np.min([block.low for block in blocks], axis=0),
        high=np.max([block.high for block in blocks], axis=0),
        first=blocks[0].first,
        mean=(sizes / sizes.sum()) @ np.stack([block.mean for block in blocks]),
    )


def _rows_by_class(
    blocks: Blocks, block_facts: list[BlockFacts], facts: BlockFacts
) -> list[Delayed]:
    """Return the rows of each class (n_c, d) as tasks."""
    codes = np.concatenate([np.searchsorted(facts.labels, block.labels) for block in block_facts])
    if (np.bincount(codes) > 1).any():  # a class is in more than one block
        return _shuffle(blocks, block_facts, facts)
    # Files are often sorted by class; then no shuffle is needed.
    homes = np.repeat(np.arange(len(block_facts)), [block.labels.size for block in block_facts])
    return [
        delayed(_rows_of)(blocks.X[home], blocks.y[home], label)
        for home, label in zip(homes[np.argsort(codes)], facts.labels.tolist(), strict=True)
    ]


def _rows_of(X: Floats, y: Labels, label: Any) -> Floats:
    return X[y == label]


def _shuffle(blocks: Blocks, block_facts: list[BlockFacts], facts: BlockFacts) -> list[Delayed]:
    """Return the rows of each class by Dask's shuffle, in their original order.

    Small classes travel together, as many as begin within the length of a block.
    """
    starts = np.cumsum([0, *(block.n for block in block_facts)])
    capacity = max(block.n for block in block_facts)
    first_rows = np.cumsum(facts.counts) - facts.counts
    buckets = np.unique(first_rows // capacity, return_inverse=True)[1]
    tags = delayed((facts.labels, buckets))
    tagged = [
        delayed(_tag_rows)(X, y, tags, start)
        for X, y, start in zip(blocks.X, blocks.y, starts[:-1].tolist(), strict=True)
    ]
    no_rows = np.empty((0, blocks.kind.n_features), dtype=blocks.kind.dtype)
    meta = _tag_rows(no_rows, facts.labels[:0], (facts.labels, buckets), 0)
    frame = dd.from_delayed(tagged, meta=meta, verify_meta=False)
    divisions = list(range(int(buckets[-1]) + 2))
    partitions = frame.set_index("bucket", divisions=divisions).to_delayed()
    return [
        delayed(_class_rows)(partitions[bucket], code)
        for code, bucket in enumerate(buckets.tolist())
    ]


def _tag_rows(X: Floats, y: Labels, tags: tuple[Labels, Ints], start: int) -> pd.DataFrame:
    """Return rows with their number, class and bucket; Dask's shuffle needs string names."""
    classes, buckets = tags
    codes = np.searchsorted(classes, y)
    columns = {"row": start + np.arange(len(X)), "code": codes, "bucket": buckets[codes]}
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return pd.concat([pd.DataFrame(columns), frame], axis=1)


def _class_rows(frame: pd.DataFrame, code: int) -> Floats:
    # Dask's shuffle keeps no order, and results must not depend on the number of workers.
    rows = frame[frame["code"] == code].sort_values("row").drop(columns=["row", "code"])
    return np.ascontiguousarray(rows.to_numpy())


@dataclass(frozen=True)
class ClusterBlocks:
    """Samples on a cluster in their own blocks, and the facts about all of them.

    Attributes
    ----------
    blocks : Blocks
        Lazy blocks, with labels or without.
    facts : BlockFacts
        Facts about all samples.
    coordinates : Coordinates
        Without rotation.
    """

    blocks: Blocks
    facts: BlockFacts
    coordinates: Coordinates


def describe_blocks(
    estimator: BaseEstimator, X: Any, y: Any = None, *, reset: bool = True
) -> ClusterBlocks:
    """Check Dask collections whose rows stay in their blocks.

    Parameters
    ----------
    estimator : estimator
        It gets ``n_features_in_`` and ``feature_names_in_``, or is compared with them.
    X : Dask array or dataframe of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,), or the name of a column of X, default=None
        Class labels; None for samples without labels.
    reset : bool, default=True
        Set to False for samples that are added to an earlier fit.

    Returns
    -------
    ClusterBlocks
    """
    blocks = unlabelled_blocks(X) if y is None else labelled_blocks(X, y)
    validate_data(estimator, blocks.kind.sample(), reset=reset)
    facts = merge_facts(collect_facts(blocks))
    if y is not None:
        group_by_class(np.repeat(facts.labels, np.minimum(facts.counts, 3)))  # checks the labels
    exponent = scale_exponent(facts.low, facts.high)
    origin = np.ldexp(facts.first.astype(np.float64), -exponent)
    return ClusterBlocks(blocks, facts, Coordinates(exponent, origin))


def sum_over_blocks(blocks: Blocks, work: Callable[..., Result], *parameters: Any) -> Result:
    """Return the sum of ``work(X, *parameters)`` over blocks, added up on the cluster.

    Blocks with labels call ``work(X, y, *parameters)``.
    """
    rows = zip(blocks.X, blocks.y, strict=True) if blocks.y else ((X,) for X in blocks.X)
    sums = [delayed(work)(*block, *parameters) for block in rows]
    while len(sums) > 1:
        sums = [delayed(sum)(sums[i : i + _SUMMANDS]) for i in range(0, len(sums), _SUMMANDS)]
    return cast(Result, _compute(sums[0]))
