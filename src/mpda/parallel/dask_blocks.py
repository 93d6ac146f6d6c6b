"""Dask arrays and dataframes as lazy blocks of rows with labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.delayed import Delayed
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import Floats, Labels

# Name of the column of labels that is added to a dataframe; no feature has it.
_LABEL = "label of mpda"


@dataclass(frozen=True)
class FeatureSpec:
    """Names, number and precision of the features of a Dask collection.

    Attributes
    ----------
    names : sequence or None
        Names of the features; None where they have none.
    n_features : int
        Number of features.
    dtype : dtype
        Single precision if all features are, else double.
    """

    names: Sequence[Any] | None
    n_features: int
    dtype: np.dtype[Any]

    def sample(self) -> Any:
        """Return one sample of zeros, for checks of names and numbers of features."""
        return self.with_names(np.zeros((1, self.n_features)))

    def with_names(self, X: Floats) -> Any:
        """Return samples in memory with the names of their features."""
        return X if self.names is None else pd.DataFrame(X, columns=list(self.names))


@dataclass(frozen=True)
class Blocks:
    """Samples in lazy blocks of rows.

    Attributes
    ----------
    kind : FeatureSpec
        Features of the samples.
    X : list of Delayed
        Rows (n_b, n_features) of each block.
    y : list of Delayed
        Labels (n_b,) of each block; empty where there are none.
    """

    kind: FeatureSpec
    X: list[Delayed]
    y: list[Delayed] = field(default_factory=list)


def describe_features(X: Any) -> FeatureSpec:
    """Describe the features of a Dask array or dataframe without computing anything."""
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
    return FeatureSpec(names, X.shape[1], np.dtype(np.float32 if single else np.float64))


def unlabelled_blocks(X: Any) -> Blocks:
    """Return the blocks of a Dask array or dataframe (n_samples, n_features)."""
    kind = describe_features(X)
    if kind.names is not None:
        return Blocks(kind, [delayed(_columns)(partition, kind) for partition in X.to_delayed()])
    # Blocks of complete rows: an array may be divided by columns too.
    partitions = X.rechunk({1: -1}).to_delayed().ravel()
    return Blocks(kind, [delayed(_floats)(partition, kind.dtype) for partition in partitions])


def labelled_blocks(X: Any, y: Any) -> Blocks:
    """Return the blocks of samples and labels.

    Parameters
    ----------
    X : Dask array or dataframe of shape (n_samples, n_features)
        Samples.
    y : array-like or Dask collection of shape (n_samples,), or str
        Labels, or the name of a column of the dataframe X.

    Returns
    -------
    Blocks
        Lazy blocks with labels.
    """
    if isinstance(X, dd.DataFrame):
        return _labelled_frame(X, y)
    blocks = unlabelled_blocks(X)
    if isinstance(y, dd.Series):
        # Dask warns where it makes arrays of kinds that are pandas' own.
        is_extension = pd.api.types.is_extension_array_dtype(y.dtype)
        y = (y.astype(object) if is_extension else y).to_dask_array()
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
        # Dask may read one column in other partitions than many: their lengths must be known.
        X, y = X.copy().compute_chunk_sizes(), y.copy().compute_chunk_sizes()
    if not np.isnan([X.shape[0], y.shape[0]]).any():
        refuse_lengths(X.shape[0], y.shape[0])
        y = y.rechunk((X.chunks[0],))
    return replace(blocks, y=list(y.to_delayed()))


def _labelled_frame(X: Any, y: Any) -> Blocks:
    """Return the blocks of a dataframe whose labels are one of its columns or a series.

    Labels are read together with the features, because a single column may be read in other
    partitions. A series is paired with the rows by position, whatever its index.
    """
    name: Any = _LABEL
    if isinstance(y, dd.Series):
        if y.npartitions != X.npartitions:
            raise ValueError(
                f"X has {X.npartitions} partitions and y has {y.npartitions}: both must be divided "
                "at the same rows. Give the name of the column of labels, if X has it."
            )
        kind = describe_features(X)
        meta = X._meta.assign(**{_LABEL: y._meta.to_numpy()})
        paired = dd.map_partitions(_paired, X, y, align_dataframes=False, meta=meta)
        partitions = paired.to_delayed()
    elif np.isscalar(y) and y in X.columns:
        kind = describe_features(X.drop(columns=y))
        name, partitions = y, X.to_delayed()
    elif np.isscalar(y):
        raise ValueError(f"y={y!r} is no column of X, which has {list(X.columns)[:10]}.")
    else:
        raise TypeError(
            f"y is {type(y).__name__}, while the partitions of the dataframe X are of unknown "
            "length. Give a Dask series of the same partitions, or the name of a column of X."
        )
    return Blocks(
        kind,
        [delayed(_columns)(partition, kind) for partition in partitions],
        [delayed(_column)(partition, name) for partition in partitions],
    )


def _paired(X: pd.DataFrame, y: pd.Series) -> pd.DataFrame:
    refuse_lengths(len(X), len(y))
    return X.assign(**{_LABEL: y.to_numpy()})


def _columns(partition: pd.DataFrame, kind: FeatureSpec) -> Floats:
    values = partition[list(kind.names or [])]
    return np.asarray(values.to_numpy(dtype=kind.dtype, na_value=np.nan))


def _column(partition: pd.DataFrame, name: Any) -> Labels:
    return np.asarray(partition[name])


def _floats(partition: Any, dtype: np.dtype[Any]) -> Floats:
    if not isinstance(partition, np.ndarray):
        raise TypeError(f"The blocks of X must be NumPy arrays, got {type(partition).__name__}.")
    return partition.astype(dtype, copy=False)


def refuse_lengths(n: int, n_labels: int) -> None:
    if n != n_labels:
        raise ValueError(f"X has {n} samples and y has {n_labels} labels.")


def map_blocks(
    estimator: BaseEstimator, X: Any, work: Callable[[Floats], Floats], n_columns: int
) -> Any:
    """Return a lazy Dask array of what ``work`` makes of each block of rows.

    Parameters
    ----------
    estimator : estimator
        Its features are compared with those of X.
    X : Dask array or dataframe of shape (n_samples, n_features)
        Samples.
    work : callable
        Maps rows (n, n_features) to rows (n, n_columns).
    n_columns : int
        Number of columns of the result.
    """
    kind = describe_features(X)
    validate_data(estimator, kind.sample(), reset=False)
    if isinstance(X, dd.DataFrame):
        partitions = [
            da.from_delayed(delayed(work)(rows), shape=(np.nan, n_columns), dtype=kind.dtype)
            for rows in unlabelled_blocks(X).X
        ]
        return da.concatenate(partitions, allow_unknown_chunksizes=True)
    rows = X.rechunk({1: -1}).astype(kind.dtype)
    meta = np.empty((0, n_columns), dtype=kind.dtype)
    return rows.map_blocks(work, chunks=(rows.chunks[0], (n_columns,)), dtype=kind.dtype, meta=meta)
