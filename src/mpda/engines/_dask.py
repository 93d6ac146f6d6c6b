"""Samples on a Dask cluster: rows are brought together by class, and work goes to the classes.

What comes here of the samples is what blocks and classes say about themselves, and matrices of
features by features. A class travels whole, to one worker; blocks stay where they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.delayed import Delayed
from distributed import Client, Future, default_client
from joblib import parallel_config

from mpda._typing import Floats, Ints, Labels
from mpda.engines._local import reported
from mpda.frames import Frame, frame_exponent, plain_frame

# What working on a class takes beside its samples in double precision: neighbours, patches, forms
# and their solution.
_TIMES_ITS_SAMPLES = 8
# Seconds in which a scheduler has to answer.
_CONNECTING = 10
# Matrices that are added at a time.
_ADDED = 8
# Pieces of work that wait on the cluster for each of its threads.
_AHEAD = 4


@dataclass(frozen=True)
class Blocks:
    """Samples in blocks of rows, where they are.

    X : the rows of each block (n_b, d), not yet made
    y : their labels (n_b,), empty where there are none
    names : the names of the features, None where they have none
    n_features : d
    dtype : of the rows
    """

    X: list[Delayed]
    y: list[Delayed]
    names: Sequence[str] | None
    n_features: int
    dtype: np.dtype[Any]


def sample_of(blocks: Blocks) -> Any:
    """A sample of zeros with the names of the features, which stands for all where these are
    checked."""
    zeros = np.zeros((1, blocks.n_features))
    return zeros if blocks.names is None else pd.DataFrame(zeros, columns=list(blocks.names))


@dataclass(frozen=True)
class Facts:
    """What the samples of a block, or all, say about themselves.

    n : the number of samples
    labels, counts : the distinct labels and how often they come
    low, high : (d,) the least and the largest value of each feature
    first : (d,) a sample
    mean : (d,)
    dtype : of the samples
    """

    n: int
    labels: Labels
    counts: Ints
    low: Floats
    high: Floats
    first: Floats
    mean: Floats
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Class:
    """A class on the cluster: its samples (size, d) are what the future holds."""

    size: int
    samples: Future


@dataclass(frozen=True)
class ClusterFrame(Frame):
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

    classes : (C,) the distinct labels
    members : the classes, in this order
    dtype : of the samples
    """

    on_cluster = True

    def __init__(self, client: Client, classes: Labels, members: list[Class], facts: Facts) -> None:
        self._client = client
        self._facts = facts
        self.classes = classes
        self.members = members
        self.dtype = facts.dtype

    def view(self) -> ClusterFrame:
        """The frame of the samples."""
        facts = self._facts
        exponent = frame_exponent(np.stack([facts.low, facts.high]))
        return ClusterFrame(
            samples=np.empty((0, facts.low.size), dtype=facts.dtype),
            exponent=exponent,
            origin=np.ldexp(facts.first.astype(np.float64), -exponent),
            varying=int(np.count_nonzero(facts.low != facts.high)),
            nonzero=bool(facts.low.any() or facts.high.any()),
            average=facts.mean,
        )

    def only(self, kept: Any) -> ClusterSamples:
        """Some of the classes (C,)."""
        members = [each for each, keep in zip(self.members, kept, strict=True) if keep]
        return ClusterSamples(self._client, self.classes[kept], members, self._facts)

    def marks(self, mark: Callable[[Floats], bytes]) -> list[bytes]:
        """What ``mark`` says of the samples of each class."""
        return list(self.each(mark, ((member.samples,) for member in self.members), 0))

    def held(
        self, work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Future]:
        """Begin ``work(*a)`` for each a of the arguments; the results stay on the cluster."""
        return (self._submitted(work, each) for each in arguments)

    def refuse_beyond(self, needed: Callable[[int], float], advice: str) -> None:
        """Refuse a class if what it needs, in bytes from its size, is more than a worker has."""
        sizes = [member.size for member in self.members]
        _refuse_large_classes(self._client, self.classes, sizes, needed, advice)

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
        window = _AHEAD * max(1, sum(self._client.nthreads().values()))
        waiting: deque[Future] = deque()
        for each in arguments:
            waiting.append(self._submitted(work, each))
            if len(waiting) > window:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _submitted(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Future:
        if isinstance(arguments[0], Class):
            member, place, *rest = arguments
            return self._client.submit(_at_home, work, member.samples, place, *rest, pure=False)
        return self._client.submit(work, *arguments, pure=False)


def _at_home(work: Callable[..., Any], samples: Floats, place: Any, *rest: Any) -> Any:
    """Work on a class where its samples are."""
    return work(*Frame(samples, *place).part(np.arange(len(samples))), *rest)


def labelled_blocks(X: Any, y: Any) -> Blocks:
    """The blocks of a Dask array or dataframe and of its labels.

    The labels of a dataframe may be the name of one of its columns.
    """
    if isinstance(X, dd.DataFrame):
        return _labelled_frame(X, y)
    blocks = unlabelled_blocks(X)
    if isinstance(y, dd.Series):
        y = y.to_dask_array()
    known = not np.isnan(X.shape[0])
    if not isinstance(y, da.Array):
        if not known:
            raise TypeError(
                f"y is {type(y).__name__} in memory, while the blocks of X are of unknown length. "
                "Give y as a Dask collection with the same blocks."
            )
        y = np.asarray(y)
        _refuse_lengths(X.shape[0], len(y))
        pieces = np.split(y, np.cumsum(X.chunks[0])[:-1])
        return replace(blocks, y=[delayed(piece) for piece in pieces])
    if y.ndim != 1:
        raise ValueError(f"y must have one dimension, got an array of shape {y.shape}.")
    if known and not np.isnan(y.shape[0]):
        _refuse_lengths(X.shape[0], y.shape[0])
        y = y.rechunk((X.chunks[0],))
    if y.numblocks != X.numblocks[:1]:
        raise ValueError(
            f"X has {X.numblocks[0]} blocks of rows and y has {y.numblocks[0]}: both must be cut "
            "at the same rows."
        )
    return replace(blocks, y=list(y.to_delayed()))


def _labelled_frame(X: Any, y: Any) -> Blocks:
    """The blocks of a dataframe whose labels are one of its columns or another series.

    Labels are read together with the rest, because the parts in which a column alone is read may
    be others.
    """
    if isinstance(y, str):
        if y not in X.columns:
            raise ValueError(f"y={y!r} is no column of X, which has {list(X.columns)[:10]}.")
        name, whole, X = y, X, X.drop(columns=y)
    elif isinstance(y, dd.Series):
        name = "label of mpda"
        whole = X.assign(**{name: y})
    else:
        raise TypeError(
            f"y is {type(y).__name__}, while the parts of the dataframe X are of unknown length. "
            "Give y as a series of the same parts, or the name of its column in X."
        )
    blocks = unlabelled_blocks(X)
    parts = whole.to_delayed()
    return replace(
        blocks,
        X=[delayed(_columns)(part, blocks.names, blocks.dtype) for part in parts],
        y=[delayed(_column)(part, name) for part in parts],
    )


def _columns(part: pd.DataFrame, names: list[str], dtype: np.dtype[Any]) -> Floats:
    return part[names].to_numpy(dtype=dtype)


def _column(part: pd.DataFrame, name: str) -> Labels:
    return np.asarray(part[name])


def unlabelled_blocks(X: Any) -> Blocks:
    """The blocks of a Dask array or dataframe."""
    if isinstance(X, dd.DataFrame):
        wrong = [f"{name!r} ({kind})" for name, kind in X.dtypes.items() if kind.kind not in "biuf"]
        if wrong:
            raise ValueError(
                f"X has columns that are not numbers: {', '.join(wrong[:5])}. Drop them, or make "
                "numbers of them."
            )
        parts, names = X.to_delayed(), list(X.columns)
        given = np.result_type(*X.dtypes)
    elif isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got an array of shape {X.shape}.")
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold numbers, got {X.dtype}.")
        parts, names = _whole_rows(X).to_delayed().ravel(), None
        given = X.dtype
    else:
        raise TypeError(f"X must be a Dask array or dataframe, got {type(X).__name__}.")
    dtype = np.dtype(np.float32 if given == np.float32 else np.float64)
    made = [delayed(_floats)(part, dtype) for part in parts]
    return Blocks(made, [], names, X.shape[1], dtype)


def _whole_rows(X: Any) -> Any:
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _refuse_lengths(n: int, n_labels: int) -> None:
    if n != n_labels:
        raise ValueError(f"X has {n} samples and y has {n_labels} labels.")


def _floats(part: Any, dtype: np.dtype[Any]) -> Floats:
    return np.asarray(part, dtype=dtype)


def gathered(blocks: Blocks) -> tuple[Floats, Labels]:
    """All samples and labels here, of data that are no larger than features by features."""
    client = current_client()
    X, y = client.gather(client.compute([delayed(list)(blocks.X), delayed(list)(blocks.y)]))
    return np.concatenate(X), np.concatenate(y)


def workers_of(scheduler: str) -> ExitStack:
    """Connect to a scheduler; while the answer is open, joblib's work goes to its workers."""
    stack = ExitStack()
    stack.enter_context(Client(scheduler, timeout=_CONNECTING))
    stack.enter_context(parallel_config("dask"))
    return stack


def current_client() -> Client:
    """The client of the cluster that is in use."""
    try:
        return default_client()
    except ValueError as error:
        raise RuntimeError(
            "Samples on Dask are worked on by its cluster, and none is connected. Start one first, "
            "for example: from distributed import Client; client = Client()."
        ) from error


def block_facts(blocks: Blocks) -> list[Facts]:
    """What each block says about itself."""
    client = current_client()
    labels = blocks.y or [None] * len(blocks.X)
    made = [delayed(_facts)(X, y) for X, y in zip(blocks.X, labels, strict=True)]
    found: list[Facts] = client.gather(client.compute(made))
    return found


def _facts(X: Floats, y: Labels | None) -> Facts:
    n, d = X.shape
    if y is not None:
        _refuse_lengths(n, len(y))
    if not np.isfinite(X).all():
        raise ValueError("Input X contains NaN or infinity.")
    labels, counts = np.unique(y if y is not None else np.zeros(n, int), return_counts=True)
    if n == 0:
        nothing = np.full(d, np.nan)
        return Facts(0, labels, counts, nothing, nothing, nothing, nothing, X.dtype)
    mean = plain_frame(X).mean
    return Facts(n, labels, counts, X.min(axis=0), X.max(axis=0), X[0].copy(), mean, X.dtype)


def all_facts(parts: list[Facts]) -> Facts:
    """What all blocks together say."""
    dtype = np.result_type(*(part.dtype for part in parts))
    parts = [part for part in parts if part.n]
    if not parts:
        raise ValueError("X has no samples.")
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
        dtype=dtype,
    )


def by_class(blocks: Blocks, parts: list[Facts], facts: Facts) -> ClusterSamples:
    """The samples brought together by class."""
    client = current_client()
    _refuse_large_classes(
        client,
        facts.labels,
        facts.counts.tolist(),
        lambda n: _TIMES_ITS_SAMPLES * 8.0 * n * blocks.n_features,
        "Use workers with more memory, fewer features (GramPCA), or a part of the samples of this "
        "class.",
    )
    labels = facts.labels.tolist()
    homes = [home for label in labels if (home := _home(parts, label)) is not None]
    if len(homes) == len(labels):
        made = [
            delayed(_rows_of)(blocks.X[home], blocks.y[home], label)
            for home, label in zip(homes, labels, strict=True)
        ]
    else:
        made = _shuffled(blocks, parts, facts)
    futures = client.compute(made)
    members = [Class(int(n), each) for n, each in zip(facts.counts, futures, strict=True)]
    return ClusterSamples(client, facts.labels, members, facts)


def _home(parts: list[Facts], label: Any) -> int | None:
    """The only block that has this class, or None."""
    holding = [b for b, part in enumerate(parts) if (part.labels == label).any()]
    return holding[0] if len(holding) == 1 else None


def _rows_of(X: Floats, y: Labels, label: Any) -> Floats:
    return X[y == label]


def _shuffled(blocks: Blocks, parts: list[Facts], facts: Facts) -> list[Delayed]:
    """The samples of each class, by Dask's shuffle, in the order in which they came.

    Small classes travel together, as many as make up a block.
    """
    columns = [f"x{j}" for j in range(blocks.n_features)]
    starts = np.cumsum([0, *(part.n for part in parts)])
    buckets = _buckets(facts.counts, max(part.n for part in parts))
    tagged = [
        delayed(_tagged)(X, y, facts.labels, buckets, start, columns)
        for X, y, start in zip(blocks.X, blocks.y, starts[:-1].tolist(), strict=True)
    ]
    nothing = np.empty((0, blocks.n_features), dtype=facts.dtype)
    meta = _tagged(nothing, facts.labels[:0], facts.labels, buckets, 0, columns)
    frame = dd.from_delayed(tagged, meta=meta, verify_meta=False)
    divisions = list(range(int(buckets[-1]) + 2))
    together = frame.set_index("bucket", divisions=divisions).to_delayed()
    return [
        delayed(_class_rows)(together[bucket], code, columns)
        for code, bucket in enumerate(buckets.tolist())
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


def _tagged(
    X: Floats, y: Labels, classes: Labels, buckets: Ints, start: int, columns: list[str]
) -> pd.DataFrame:
    codes = np.searchsorted(classes, y)
    tags = {"row": start + np.arange(len(X)), "code": codes, "bucket": buckets[codes]}
    return pd.concat([pd.DataFrame(X, columns=columns), pd.DataFrame(tags)], axis=1)


def _class_rows(part: pd.DataFrame, code: int, columns: list[str]) -> Floats:
    rows = part[part["code"] == code].sort_values("row")
    return np.ascontiguousarray(rows[columns].to_numpy())


def _refuse_large_classes(
    client: Client,
    labels: Labels,
    sizes: Sequence[int],
    needed: Callable[[int], float],
    advice: str,
) -> None:
    limits = [each.get("memory_limit") or 0 for each in _workers(client)]
    limit = min((each for each in limits if each), default=0)
    largest = int(np.argmax(sizes))
    n = int(sizes[largest])
    if limit and needed(n) > limit:
        raise MemoryError(
            f"Class {labels.tolist()[largest]!r} has {n} samples. A class is work for one worker, "
            f"and this one takes about {needed(n) / 2**30:.1f} GiB, more than the "
            f"{limit / 2**30:.1f} GiB of a worker. {advice}"
        )


def _workers(client: Client) -> list[dict[str, Any]]:
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def summed(blocks: Blocks, work: Callable[..., Floats], *rest: Any) -> Floats:
    """The sum over blocks of ``work(X, *rest)``, added up on the cluster."""
    sums = [delayed(work)(X, *rest) for X in blocks.X]
    while len(sums) > 1:
        sums = [delayed(sum)(sums[i : i + _ADDED]) for i in range(0, len(sums), _ADDED)]
    found: Floats = current_client().compute(sums[0]).result()
    return found


def mapped(X: Any, work: Callable[[Floats], Floats], width: int, dtype: Any) -> Any:
    """A lazy array of what ``work`` makes of each block of rows, with so many columns."""
    rows = X.to_dask_array() if isinstance(X, dd.DataFrame) else _whole_rows(X)
    meta = np.empty((0, width), dtype=dtype)
    return rows.map_blocks(work, chunks=(rows.chunks[0], (width,)), dtype=meta.dtype, meta=meta)
