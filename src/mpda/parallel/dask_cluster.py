"""Samples on a Dask cluster: rows are brought together by class, and work goes to the classes.

What comes here of the samples is what blocks and classes say about themselves, and matrices of
features by features. A class travels whole, to one worker; blocks stay where they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.delayed import Delayed
from distributed import Client, Future, default_client
from joblib import parallel_config

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.coordinates import Coordinates, frame_exponent, scale_only
from mpda.exceptions import NotEnoughMemoryError
from mpda.parallel.dask_blocks import (
    Blocks,
    Kind,
    described,
    labelled_blocks,
    mapped,
    refuse_lengths,
    unlabelled_blocks,
)
from mpda.parallel.local import reported

__all__ = [
    "all_facts",
    "block_facts",
    "by_class",
    "described",
    "gathered",
    "labelled_blocks",
    "mapped",
    "summed",
    "unlabelled_blocks",
    "workers_of",
]

# Seconds in which a scheduler has to answer.
_CONNECTING = 10
# Matrices that are added at a time.
_ADDED = 8
# Pieces of work that wait on the cluster for each of its threads.
_AHEAD = 4


@dataclass(frozen=True)
class Facts:
    """What the samples of a block, or all, say about themselves.

    n : the number of samples
    labels, counts : the distinct labels and how often they come
    low, high : (d,) the least and the largest value of each feature
    first : (d,) a sample
    mean : (d,)
    """

    n: int
    labels: Labels
    counts: Ints
    low: Floats
    high: Floats
    first: Floats
    mean: Floats


@dataclass(frozen=True)
class Class:
    """One of the classes: its size and its number."""

    size: int
    number: int


@dataclass(frozen=True)
class ClusterFrame(Coordinates):
    """The coordinates of a fit whose samples are on a cluster; there is no basis.

    samples : (0, d), of their type
    """

    varying: int = 0
    nonzero: bool = True
    average: Floats | None = None

    @property
    def n_varying(self) -> int:
        return self.varying

    @property
    def mean(self) -> Floats:
        assert self.average is not None
        return self.average

    def any(self) -> bool:
        return self.nonzero

    def at(self, exponent: int, origin: Floats) -> ClusterFrame:
        return replace(self, exponent=exponent, origin=origin)

    def part(self, members: Any) -> tuple[Any, Any]:
        """The class and the place of the frame; where its samples are, they become coordinates."""
        return members, (self.exponent, self.origin)


class ClusterSamples:
    """Samples and labels on a cluster, class by class.

    Rows are brought together when the first work on a class begins.

    classes : (C,) the distinct labels
    members : the classes, in this order
    dtype : of the samples
    """

    on_cluster = True

    def __init__(self, client: Client, kind: Kind, facts: Facts, made: list[Delayed]) -> None:
        self._client = client
        self._facts = facts
        self._made = made
        self._futures: list[Future] = []
        self.classes = facts.labels
        self.members = [Class(int(n), number) for number, n in enumerate(facts.counts)]
        self.dtype = kind.dtype

    def view(self) -> ClusterFrame:
        """The frame of the samples."""
        facts = self._facts
        exponent = frame_exponent(np.stack([facts.low, facts.high]))
        return ClusterFrame(
            samples=np.empty((0, facts.low.size), dtype=self.dtype),
            exponent=exponent,
            origin=np.ldexp(facts.first.astype(np.float64), -exponent),
            varying=int(np.count_nonzero(facts.low != facts.high)),
            nonzero=bool(facts.low.any() or facts.high.any()),
            average=facts.mean,
        )

    def only(self, kept: Any) -> ClusterSamples:
        """Some of the classes (C,)."""
        self._begin()
        part = copy.copy(self)
        part.classes = self.classes[kept]
        part.members = [each for each, keep in zip(self.members, kept, strict=True) if keep]
        return part

    def marks(self, mark: Callable[[Floats], bytes]) -> list[bytes]:
        """What ``mark`` says of the samples of each class."""
        arguments = ((self._samples(member),) for member in self.members)
        return list(self.each(mark, arguments, len(self.members)))

    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None:
        """Refuse a class if what it needs, in bytes from its size, is more than a worker has.

        A worker with several threads works on as many classes.
        """
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        shares = [each["memory_limit"] / each["nthreads"] for each in workers]
        share = min((each for each in shares if each), default=np.inf)
        largest = max(self.members, key=lambda member: member.size)
        if needed(largest.size) > share:
            label = self._facts.labels.tolist()[largest.number]
            raise NotEnoughMemoryError(
                f"Class {label!r} has {largest.size} samples. A class is work for one thread of a "
                f"worker, and this one takes about {needed(largest.size) / 2**30:.1f} GiB, more "
                f"than its {share / 2**30:.1f} GiB. {advice}"
            )

    def held(
        self, work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Future]:
        """Begin ``work(*a)`` for each a of the arguments; the results stay on the cluster."""
        return (self._submitted(work, each) for each in arguments)

    def each(
        self,
        work: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        n: int,
        *,
        n_jobs: int | None = None,
        report: str | None = None,
        unit: str = "classes",
        n_threads: int = 1,
    ) -> Iterator[Any]:
        """Yield ``work(*a)`` for each a of the arguments, in their order, as ``in_order`` does.

        The cluster decides how many run at the same time.
        """
        results = self._results(work, arguments)
        return results if report is None else reported(results, n, report, unit)

    def _results(
        self, work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        half = _AHEAD * max(1, sum(self._client.nthreads().values()))
        coming = (self._submitted(work, each) for each in arguments)
        waiting = list(islice(coming, half))
        while waiting:
            more = list(islice(coming, half))
            yield from _here(self._client, waiting)
            waiting = more

    def _submitted(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Future:
        first, *rest = arguments
        if isinstance(first, Class):
            samples = self._samples(first)
            return self._client.submit(_at_home, work, samples, *rest, pure=False)
        return self._client.submit(work, *arguments, pure=False)

    def _samples(self, member: Class) -> Future:
        self._begin()
        return self._futures[member.number]

    def _begin(self) -> None:
        if not self._futures:
            self._futures = self._client.compute(self._made)


def _at_home(work: Callable[..., Any], samples: Floats, place: Any, *rest: Any) -> Any:
    """Work on a class where its samples are."""
    return work(*Coordinates(samples, *place).part(np.arange(len(samples))), *rest)


def _here(client: Client, futures: Any) -> Any:
    """The results of futures.

    The client keeps an error with all that was at hand where it came out; a copy of it comes out
    instead, so that what a failed fit has on the cluster does not stay there.
    """
    try:
        return client.gather(futures)
    except Exception as error:
        found = copy.copy(error)
        error.with_traceback(None)
    raise found


def gathered(blocks: Blocks) -> tuple[Any, Labels]:
    """All samples and labels here, of data that are no larger than features by features."""
    client = current_client()
    X, y = _here(client, client.compute([delayed(list)(blocks.X), delayed(list)(blocks.y)]))
    return blocks.kind.named(np.concatenate(X)), np.concatenate(y)


def workers_of(scheduler: str) -> ExitStack:
    """Connect to a scheduler; while the answer is open, joblib's work goes to its workers."""
    stack = ExitStack()
    stack.enter_context(Client(scheduler, timeout=_CONNECTING))
    stack.enter_context(parallel_config("dask"))
    return stack


def current_client() -> Client:
    """The client of the cluster that is in use."""
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


def block_facts(blocks: Blocks) -> list[Facts]:
    """What each block says about itself."""
    client = current_client()
    labels: list[Any] = blocks.y or [None] * len(blocks.X)
    made = [delayed(_facts)(X, y) for X, y in zip(blocks.X, labels, strict=True)]
    found: list[Facts] = _here(client, client.compute(made))
    return found


def _facts(X: Floats, y: Labels | None) -> Facts:
    n, d = X.shape
    if not np.isfinite(X).all():
        raise ValueError("Input X contains NaN or infinity.")
    labels, counts = np.empty(0), np.empty(0, dtype=np.intp)
    if y is not None:
        refuse_lengths(n, len(y))
        if pd.isna(y).any():
            raise ValueError("Input y contains missing labels.")
        try:
            labels, counts = np.unique(y, return_counts=True)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in y.tolist()})
            raise TypeError(f"y must hold labels of one kind, got {', '.join(kinds)}.") from error
    if n == 0:
        nothing = np.full(d, np.nan)
        return Facts(0, labels, counts, nothing, nothing, nothing, nothing)
    mean = scale_only(X).mean
    return Facts(n, labels, counts, X.min(axis=0), X.max(axis=0), X[0].copy(), mean)


def all_facts(parts: list[Facts]) -> Facts:
    """What all blocks together say."""
    parts = [part for part in parts if part.n]
    if not parts:
        raise ValueError("X has 0 samples.")
    labels, places = np.unique(np.concatenate([part.labels for part in parts]), return_inverse=True)
    counts = np.bincount(places, np.concatenate([part.counts for part in parts]))
    sizes = np.array([part.n for part in parts])
    return Facts(
        n=int(sizes.sum()),
        labels=labels,
        counts=counts.astype(np.intp),
        low=np.min([part.low for part in parts], axis=0),
        high=np.max([part.high for part in parts], axis=0),
        first=parts[0].first,
        mean=(sizes / sizes.sum()) @ np.stack([part.mean for part in parts]),
    )


def by_class(blocks: Blocks, parts: list[Facts], facts: Facts) -> ClusterSamples:
    """The samples brought together by class."""
    places = np.concatenate([np.searchsorted(facts.labels, part.labels) for part in parts])
    if (np.bincount(places) == 1).all():  # every class is in one block only
        homes = np.repeat(np.arange(len(parts)), [part.labels.size for part in parts])
        made = [
            delayed(_rows_of)(blocks.X[home], blocks.y[home], label)
            for home, label in zip(homes[np.argsort(places)], facts.labels.tolist(), strict=True)
        ]
    else:
        made = _shuffled(blocks, parts, facts)
    return ClusterSamples(current_client(), blocks.kind, facts, made)


def _rows_of(X: Floats, y: Labels, label: Any) -> Floats:
    return X[y == label]


def _shuffled(blocks: Blocks, parts: list[Facts], facts: Facts) -> list[Delayed]:
    """The samples of each class, by Dask's shuffle, in the order in which they came.

    Small classes travel together, as many as make up a block.
    """
    starts = np.cumsum([0, *(part.n for part in parts)])
    buckets = _buckets(facts.counts, max(part.n for part in parts))
    tags = delayed((facts.labels, buckets))
    tagged = [
        delayed(_tagged)(X, y, tags, start)
        for X, y, start in zip(blocks.X, blocks.y, starts[:-1].tolist(), strict=True)
    ]
    nothing = np.empty((0, blocks.kind.n_features), dtype=blocks.kind.dtype)
    meta = _tagged(nothing, facts.labels[:0], (facts.labels, buckets), 0)
    frame = dd.from_delayed(tagged, meta=meta, verify_meta=False)
    divisions = list(range(int(buckets[-1]) + 2))
    together = frame.set_index("bucket", divisions=divisions).to_delayed()
    return [
        delayed(_class_rows)(together[bucket], code) for code, bucket in enumerate(buckets.tolist())
    ]


def _buckets(counts: Ints, room: int) -> Ints:
    """The bucket of each class: as many classes, in their order, as there is room for."""
    buckets, held = [], 0
    bucket = 0
    for n in counts.tolist():
        if held and held + n > room:
            bucket, held = bucket + 1, 0
        held += n
        buckets.append(bucket)
    return np.array(buckets, dtype=np.intp)


def _tagged(X: Floats, y: Labels, tags: tuple[Labels, Ints], start: int) -> pd.DataFrame:
    """Rows with their number, class and bucket; Dask's shuffle wants names that are strings."""
    classes, buckets = tags
    codes = np.searchsorted(classes, y)
    places = {"row": start + np.arange(len(X)), "code": codes, "bucket": buckets[codes]}
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return pd.concat([pd.DataFrame(places), frame], axis=1)


def _class_rows(part: pd.DataFrame, code: int) -> Floats:
    rows = part[part["code"] == code].sort_values("row").drop(columns=["row", "code"])
    return np.ascontiguousarray(rows.to_numpy())


def summed(blocks: Blocks, work: Callable[..., Floats], *rest: Any) -> Floats:
    """The sum over blocks of ``work(X, *rest)``, added up on the cluster."""
    sums = [delayed(work)(X, *rest) for X in blocks.X]
    while len(sums) > 1:
        sums = [delayed(sum)(sums[i : i + _ADDED]) for i in range(0, len(sums), _ADDED)]
    client = current_client()
    found: Floats = _here(client, client.compute(sums[0]))
    return found
