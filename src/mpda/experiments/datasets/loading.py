"""Loading a data set: local directory first, then the cache, then the public source.

Files are .npz archives with the arrays X and y. Samples are compared with the shape and the
checksum of the catalogue before anyone uses them.
"""

import os
import warnings
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import numpy as np

from mpda._lib.array_types import Array, Labels
from mpda._lib.atomic_write import atomic_path
from mpda.exceptions import DatasetError, DatasetWarning
from mpda.experiments.datasets.catalogue import Dataset, dataset
from mpda.experiments.datasets.public_sources import Bundled, Download, Excerpt, Packaged
from mpda.io.array_files import read_arrays
from mpda.io.error_text import name_file_in_errors, one_line

_ADVICE = "Put {}.npz with the arrays X and y in a directory and name it with --data or MPDA_DATA."


def find_directory(directory: str | os.PathLike[str] | None) -> Path | None:
    """Return the directory of the user's data sets.

    Parameters
    ----------
    directory : str or Path, default=None
        Directory that the user named. None is the one in the environment variable MPDA_DATA.

    Returns
    -------
    Path or None
        None if neither is set.

    Raises
    ------
    DatasetError
        If it does not exist. A misspelt directory must not end in a download of what is there.
    """
    named = directory or os.environ.get("MPDA_DATA")
    if not named:
        return None
    if not os.path.isdir(named):
        raise DatasetError(f"The data directory {named} does not exist or is not a directory.")
    return Path(named)


def load(name: str, directory: str | os.PathLike[str] | None = None) -> tuple[Array, Labels]:
    """Load a data set of the catalogue.

    Downloaded data sets are kept in the directory MPDA_CACHE, or ``mpda`` in the user's cache
    directory.

    Parameters
    ----------
    name : str
        A key of ``mpda.experiments.datasets.DATASETS``.
    directory : path, default=None
        Directory that is searched first for ``<name>.npz`` with the arrays X and y. None means
        the directory in the environment variable MPDA_DATA, if it is set.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Samples, in the data type of the file.
    y : ndarray of shape (n_samples,)
        Class labels.

    Raises
    ------
    DatasetError
        If the data set is not available, cannot be read, or does not agree with the catalogue.

    Warns
    -----
    DatasetWarning
        If a file of the directory has other numbers than those of the published results.

    Examples
    --------
    >>> from mpda.experiments.datasets import load
    >>> X, y = load("digits")
    >>> X.shape
    (1797, 64)
    """
    entry = dataset(name)
    directory = find_directory(directory)
    if isinstance(entry.source, Bundled | Packaged):
        bunch = entry.source.bunch()
        return _check(entry, bunch.data, bunch.target, str(entry.source), exact=True)
    local = Path(directory or "") / f"{name}.npz"
    if directory is not None and (arrays := _read(local)) is not None:
        # Not exact: users may have another edition of a data set on purpose. They are warned.
        return _check(entry, *arrays, str(local), exact=False)
    if isinstance(entry.source, Excerpt):
        X, y = load(entry.source.name, directory)
        index = entry.source.index
        return _check(entry, X[index], y[index], str(entry.source), exact=True)
    cached = _cache_directory() / f"{name}.npz"
    if (arrays := _read(cached)) is not None:
        return _check(entry, *arrays, str(cached), exact=entry.exact)
    absence = f"{name} is not at " + (f"{local} or {cached}" if directory else f"{cached}")
    if entry.source is None:
        raise DatasetError(f"{absence}, and has no public download. {_ADVICE.format(name)}")
    try:
        download = entry.source.fetch()
    except Exception as error:  # no network, an incomplete download, another format
        reason = f"{entry.source} could not be downloaded ({one_line(error)})"
        raise DatasetError(f"{absence}. {reason}. {_ADVICE.format(name)}") from error
    # Checked before it is kept, so that a wrong download is not found in the cache for ever after.
    _check(entry, download.X, download.y, str(entry.source), exact=entry.exact)
    _keep(cached, download)
    return download.X, download.y


def _cache_directory() -> Path:
    if "MPDA_CACHE" in os.environ:
        return Path(os.environ["MPDA_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpda"


def _read(path: Path) -> tuple[Array, Labels] | None:
    """Read X and y, or X_train, y_train, X_test and y_test joined, from an .npz file.

    Return None if there is no such file.
    """
    if not path.is_file():
        return None
    problem = "cannot be read as an .npz with the arrays X and y; replace it or remove it"
    with name_file_in_errors(path, DatasetError, problem):
        arrays = read_arrays(path)
        if "X" not in arrays:
            for name in ("X", "y"):
                arrays[name] = np.concatenate([arrays[f"{name}_train"], arrays[f"{name}_test"]])
        X, y = arrays["X"], arrays["y"]
        if X.dtype.kind not in "biuf" or not np.isfinite(X).all():
            raise ValueError(f"X must be finite real numbers, got {X.dtype}")
    return X, y


def _check(
    entry: Dataset, X: Array, y: Labels, origin: str, *, exact: bool
) -> tuple[Array, Labels]:
    """Return X and y if they agree with the catalogue.

    Another shape is an error. Another checksum is an error if ``exact``, else a warning.
    """
    shape = (entry.n_samples, entry.n_features)
    if X.shape != shape or y.shape != shape[:1]:
        raise DatasetError(
            f"{entry.name} has {shape[0]} samples of {shape[1]} features, but {origin} has X of "
            f"shape {X.shape} and y of shape {y.shape}. Replace or remove it."
        )
    if compute_checksum(X, y) != entry.checksum:
        message = f"{entry.name} from {origin} differs from the data of the published results"
        if exact:
            raise DatasetError(f"{message}: its checksum is another one. Replace or remove it.")
        warnings.warn(f"{message}; results may differ.", DatasetWarning, stacklevel=3)
    return X, y


def compute_checksum(X: Array, y: Labels) -> str:
    """Compute the checksum of a data set.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples; they are compared as float32.
    y : ndarray of shape (n_samples,)
        Class labels. Their names do not matter, only which samples share one.

    Returns
    -------
    str
        SHA-256 in hexadecimal, of the sorted hashes of the classes. The hash of a class is that of
        the sorted hashes of its samples, so the order of samples does not matter.
    """
    with np.errstate(over="ignore"):  # an overflow to inf changes the checksum, as it should
        samples = np.ascontiguousarray(X, dtype="<f4") + np.float32(0.0)  # -0 becomes 0
    digests = np.array([sha256(row.tobytes()).hexdigest() for row in samples])
    return _hash_sorted(_hash_sorted(digests[y == label]) for label in np.unique(y))


def _hash_sorted(digests: Iterable[str]) -> str:
    return sha256("".join(sorted(digests)).encode()).hexdigest()


def _keep(path: Path, download: Download) -> None:
    """Write a downloaded data set to the cache; warn if that is not possible."""
    try:
        with atomic_path(path) as temporary:
            np.savez_compressed(temporary, X=download.X, y=download.y, **download.names)
    except OSError as error:
        warnings.warn(
            f"{path.stem} was downloaded but cannot be kept at {path} ({error.strerror}), so it "
            "will be downloaded again. Name another directory with MPDA_CACHE.",
            DatasetWarning,
            stacklevel=3,
        )


def column_names(
    name: str, directory: str | os.PathLike[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return names for the columns and classes of a data set.

    Parameters
    ----------
    name : str
        A key of ``mpda.experiments.datasets.DATASETS``.
    directory : path, default=None
        Directory that is searched first, as by :func:`load`. Names are the arrays "features" and
        "names" of ``<name>.npz``.

    Returns
    -------
    features : list of str
        Names of the features; ``feature0``, ``feature1``, ... if the data set has none.
    classes : list of str
        Names of the classes in the order of their labels; the labels if the data set has none.
    """
    entry = dataset(name)
    if isinstance(entry.source, Bundled | Packaged):
        bunch = entry.source.bunch()
        return list(bunch.feature_names), [str(label) for label in bunch.target_names]
    directory = find_directory(directory)
    paths = [Path(folder) / f"{name}.npz" for folder in (directory, _cache_directory()) if folder]
    arrays = next((read_arrays(path) for path in paths if path.is_file()), {})
    labels = np.unique(arrays["y"]) if "y" in arrays else np.arange(entry.n_classes)
    features, classes = arrays.get("features"), arrays.get("names", labels)
    if features is None or len(features) != entry.n_features:
        features = np.array([f"feature{i}" for i in range(entry.n_features)])
    classes = classes if len(classes) == entry.n_classes else labels
    return [str(column) for column in features], [str(label) for label in classes]
