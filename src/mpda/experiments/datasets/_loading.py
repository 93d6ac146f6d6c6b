"""One way in: the directory, the cache, the public source."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from mpda._lib.array_types import Labels
from mpda.exceptions import DatasetError, DatasetWarning
from mpda.experiments.datasets._catalogue import (
    Bundled,
    Dataset,
    FirstOf,
    ImageArchive,
    OpenML,
    dataset,
)
from mpda.experiments.datasets._checksum import checksum
from mpda.experiments.datasets._files import cache_directory, check_directory, is_there, read, write
from mpda.experiments.datasets._sources import from_archive, from_openml


def load(
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    fetch: bool = True,
) -> tuple[Any, Labels]:
    """X and y of a data set.

    Parameters
    ----------
    name : str
        A key of ``mpda.experiments.datasets.DATASETS``.
    directory : path, default=None
        Where ``<name>.npz`` with the arrays X and y is looked for first; None means the directory
        that the environment variable MPDA_DATA names, if any.
    cache : path, default=None
        Where fetched data sets are kept; None means MPDA_CACHE, or mpda in the user's cache
        directory.
    fetch : bool, default=True
        Whether it may be fetched from its public source.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        In the type that the file has.
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from mpda.experiments.datasets import load
    >>> X, y = load("digits")
    >>> X.shape
    (1797, 64)
    """
    entry = dataset(name)
    directory = directory or os.environ.get("MPDA_DATA")
    if directory is not None:
        check_directory(Path(directory))
    if isinstance(entry.source, Bundled):
        found = _bundle(entry.source)
        return _checked(entry, found.data, found.target, "scikit-learn", exact=True)
    if directory is not None and is_there(path := Path(directory) / f"{name}.npz"):
        return _checked(entry, *read(path), str(path), exact=False)
    if isinstance(entry.source, FirstOf):
        return _first_of(entry, entry.source, directory, cache, fetch)
    kept = Path(cache or cache_directory()) / f"{name}.npz"
    if is_there(kept):
        return _checked(entry, *read(kept), str(kept), exact=entry.exact)
    where = f"{Path(directory) / f'{name}.npz'} or {kept}" if directory else str(kept)
    if not fetch or entry.source is None:
        reason = "has no public download" if entry.source is None else "may not be fetched"
        raise DatasetError(f"{name} is not at {where}, and {reason}. {_ADVICE.format(name=name)}")
    X, y = _fetched(entry, where)
    try:
        write(kept, X, y)
    except OSError as error:
        warnings.warn(
            f"{name} was fetched but cannot be kept at {kept} ({error.strerror}); it will be "
            "fetched again. Name another directory with MPDA_CACHE.",
            DatasetWarning,
            stacklevel=2,
        )
    return X, y


def column_names(name: str) -> tuple[list[str], list[str]]:
    """Names of the features, and of the classes 0, 1, ..; where nobody gave any, numbers."""
    entry = dataset(name)
    features = [f"feature{i}" for i in range(entry.n_features)]
    classes = [str(i) for i in range(entry.n_classes)]
    if isinstance(entry.source, Bundled):
        found = _bundle(entry.source)
        features, classes = list(found.feature_names), [str(each) for each in found.target_names]
    return features, classes


def _bundle(source: Bundled) -> Any:
    import sklearn.datasets

    return getattr(sklearn.datasets, source.loader)()


_ADVICE = (
    "Put {name}.npz with the arrays X and y in a directory and name it with --data or MPDA_DATA."
)


def _fetched(entry: Dataset, where: str) -> tuple[Any, Labels]:
    try:
        if isinstance(entry.source, OpenML):
            X, y = from_openml(entry.source, entry.name)
        else:
            assert isinstance(entry.source, ImageArchive)
            X, y = from_archive(entry.source, entry.name)
    except DatasetError as error:
        raise DatasetError(
            f"{entry.name} is not at {where}. {error} {_ADVICE.format(name=entry.name)}"
        ) from error
    return _checked(entry, X, y, str(entry.source), exact=entry.exact)


def _first_of(
    entry: Dataset,
    source: FirstOf,
    directory: str | os.PathLike[str] | None,
    cache: str | os.PathLike[str] | None,
    fetch: bool,
) -> tuple[Any, Labels]:
    X, y = load(source.name, directory, cache=cache, fetch=fetch)
    rows = [*range(source.n_train), *range(source.train_size, source.train_size + source.n_test)]
    return _checked(entry, X[rows], y[rows], str(source), exact=True)


def _checked(entry: Dataset, X: Any, y: Labels, where: str, *, exact: bool) -> tuple[Any, Labels]:
    """X and y, if they are what the catalogue says."""
    wanted = (entry.n_samples, entry.n_features)
    if X.shape != wanted or y.shape != wanted[:1]:
        raise DatasetError(
            f"{entry.name} has {wanted[0]} samples of {wanted[1]} features, but {where} gave X of "
            f"shape {X.shape} and y of shape {y.shape}. Replace or remove it."
        )
    if checksum(X, y) != entry.checksum:
        message = f"{entry.name} from {where} is not the data that our figures were made with"
        if exact:
            raise DatasetError(f"{message}: its checksum differs. Replace or remove it.")
        warnings.warn(f"{message}; results may differ.", DatasetWarning, stacklevel=3)
    return X, y
