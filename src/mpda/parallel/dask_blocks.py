"""Dask arrays and dataframes as blocks of rows with labels, nothing of which is looked at yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.delayed import Delayed
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import Floats, Labels

_LABEL = "label of mpda"


@dataclass(frozen=True)
class Kind:
    """What samples are like.

    names : of the features, None where they have none
    n_features : d
    dtype : in which they are worked on, single or double precision
    """

    names: Sequence[Any] | None
    n_features: int
    dtype: np.dtype[Any]

    def sample(self) -> Any:
        """A sample of zeros, which stands for all where names and numbers are checked."""
        return self.named(np.zeros((1, self.n_features)))

    def named(self, X: Floats) -> Any:
        """Samples that are here, with the names of their features."""
        return X if self.names is None else pd.DataFrame(X, columns=list(self.names))


@dataclass(frozen=True)
class Blocks:
    """Samples in blocks of rows, where they are.

    X : the rows of each block (n_b, d), not yet made
    y : their labels (n_b,), empty where there are none
    """

    kind: Kind
    X: list[Delayed]
    y: list[Delayed] = field(default_factory=list)


def described(X: Any) -> Kind:
    """What the samples of a Dask array or dataframe are like, found without looking at them."""
    if isinstance(X, dd.DataFrame):
        wrong = [f"{name!r} ({kind})" for name, kind in X.dtypes.items() if kind.kind not in "biuf"]
        if wrong:
            raise ValueError(
                f"X has columns that are not numbers: {', '.join(wrong[:5])}. Drop them, or make "
                "numbers of them."
            )
        names, kinds = list(X.columns), [getattr(kind, "numpy_dtype", kind) for kind in X.dtypes]
    elif isinstance(X, da.Array):
        if X.ndim != 2 or np.isnan(X.shape[1]):
            raise ValueError(
                "X must have two dimensions and a known number of columns, got an array of shape "
                f"{X.shape}."
            )
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold numbers, got {X.dtype}.")
        names, kinds = None, [X.dtype]
    else:
        raise TypeError(f"X must be a Dask array or dataframe, got {type(X).__name__}.")
    if X.shape[1] == 0:
        raise ValueError("X has 0 features, and at least 1 is needed.")
    single = all(kind == np.float32 for kind in kinds)
    return Kind(names, X.shape[1], np.dtype(np.float32 if single else np.float64))


def unlabelled_blocks(X: Any) -> Blocks:
    """The blocks of a Dask array or dataframe."""
    kind = described(X)
    if kind.names is not None:
        return Blocks(kind, [delayed(_columns)(part, kind) for part in X.to_delayed()])
    parts = _whole_rows(X).to_delayed().ravel()
    return Blocks(kind, [delayed(_floats)(part, kind.dtype) for part in parts])


def labelled_blocks(X: Any, y: Any) -> Blocks:
    """The blocks of a Dask array or dataframe and of its labels.

    The labels of a dataframe may be the name of one of its columns.
    """
    if isinstance(X, dd.DataFrame):
        return _labelled_frame(X, y)
    kind = described(X)
    if isinstance(y, dd.Series):
        # Dask warns where it makes arrays of kinds that are pandas' own.
        own = pd.api.types.is_extension_array_dtype(y.dtype)
        y = (y.astype(object) if own else y).to_dask_array()
    if not isinstance(y, da.Array):
        y = np.asarray(y)
        if np.isnan(X.shape[0]):
            raise TypeError(
                "y is in memory, while the blocks of X are of unknown length. Give y as a Dask "
                "collection, or call X.compute_chunk_sizes() before."
            )
        if y.ndim == 1:
            refuse_lengths(X.shape[0], len(y))
            y = da.from_array(y, chunks=(X.chunks[0],))
    if y.ndim != 1:
        raise ValueError(f"y must be labels in one dimension, got shape {y.shape}.")
    if y.numblocks != X.numblocks[:1] and np.isnan([X.shape[0], y.shape[0]]).any():
        # Dask reads a column alone in other parts than many, and their lengths have to be known.
        X, y = X.copy().compute_chunk_sizes(), y.copy().compute_chunk_sizes()
    if not np.isnan([X.shape[0], y.shape[0]]).any():
        refuse_lengths(X.shape[0], y.shape[0])
        y = y.rechunk((X.chunks[0],))
    return replace(unlabelled_blocks(X), kind=kind, y=list(y.to_delayed()))


def _labelled_frame(X: Any, y: Any) -> Blocks:
    """The blocks of a dataframe whose labels are one of its columns or a series.

    Labels are read together with the rest, because the parts in which a column alone is read may
    be others. A series goes with the rows as they stand, whatever its index.
    """
    name: Any = _LABEL
    if isinstance(y, dd.Series):
        if y.npartitions != X.npartitions:
            raise ValueError(
                f"X has {X.npartitions} parts and y has {y.npartitions}: both must be cut at the "
                "same rows. Give the name of the column of labels, if X has it."
            )
        kind = described(X)
        meta = X._meta.assign(**{_LABEL: y._meta.to_numpy()})
        paired = dd.map_partitions(_paired, X, y, align_dataframes=False, meta=meta)
        parts = paired.to_delayed()
    elif np.isscalar(y) and y in X.columns:
        kind = described(X.drop(columns=y))
        name, parts = y, X.to_delayed()
    elif np.isscalar(y):
        raise ValueError(f"y={y!r} is no column of X, which has {list(X.columns)[:10]}.")
    else:
        raise TypeError(
            f"y is {type(y).__name__}, while the parts of the dataframe X are of unknown length. "
            "Give a Dask series of the same parts, or the name of a column of X."
        )
    return Blocks(
        kind,
        [delayed(_columns)(part, kind) for part in parts],
        [delayed(_column)(part, name) for part in parts],
    )


def _paired(X: pd.DataFrame, y: pd.Series) -> pd.DataFrame:
    refuse_lengths(len(X), len(y))
    return X.assign(**{_LABEL: y.to_numpy()})


def _columns(part: pd.DataFrame, kind: Kind) -> Floats:
    values = part[list(kind.names or [])]
    return np.asarray(values.to_numpy(dtype=kind.dtype, na_value=np.nan))


def _column(part: pd.DataFrame, name: Any) -> Labels:
    return np.asarray(part[name])


def _floats(part: Any, dtype: np.dtype[Any]) -> Floats:
    if not isinstance(part, np.ndarray):
        raise TypeError(f"The blocks of X must be NumPy arrays, got {type(part).__name__}.")
    return part.astype(dtype, copy=False)


def _whole_rows(X: Any) -> Any:
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def refuse_lengths(n: int, n_labels: int) -> None:
    if n != n_labels:
        raise ValueError(f"X has {n} samples and y has {n_labels} labels.")


def map_blocks(estimator: Any, X: Any, work: Callable[[Floats], Floats], n_columns: int) -> Any:
    """Return a lazy Dask array of what ``work`` makes of each block of rows.

    Parameters
    ----------
    estimator : estimator
        Its features are compared with those of X.
    X : Dask array or dataframe of shape (n_samples, n_features)
    work : callable
        Maps rows (n, n_features) to rows (n, n_columns).
    n_columns : int
    """
    kind = described(X)
    validate_data(estimator, kind.sample(), reset=False)
    if isinstance(X, dd.DataFrame):
        parts = [
            da.from_delayed(delayed(work)(rows), shape=(np.nan, n_columns), dtype=kind.dtype)
            for rows in unlabelled_blocks(X).X
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)
    rows = _whole_rows(X).astype(kind.dtype)
    meta = np.empty((0, n_columns), dtype=kind.dtype)
    return rows.map_blocks(work, chunks=(rows.chunks[0], (n_columns,)), dtype=kind.dtype, meta=meta)
