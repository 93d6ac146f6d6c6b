"""Model files: save fitted models without pickle and load them without running code.

A model file is an uncompressed zip archive of ``model.json`` (format, versions, notes, the encoded
model), the arrays ``0.npy``, ``1.npy``, ... and ``sha256``, the checksum of the names and contents
of all other members. ``model_encoding`` translates between models and JSON.
"""

import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from mpda._lib.atomic_write import atomic_path
from mpda._lib.provenance import versions
from mpda.exceptions import ModelFileError, ModelVersionWarning
from mpda.io.error_text import name_file_in_errors, one_line
from mpda.io.model_classes import parameter_defaults
from mpda.io.model_encoding import ModelDecoder, ModelEncoder

_FORMAT = "mpda model"
# Files of version 1, before the first release, had a member "header.json" instead of _DOCUMENT.
_VERSION, _OLD_DOCUMENT = 2, "header.json"
_PROBLEM = "is not a model file of mpda, or is damaged"
_DOCUMENT, _CHECKSUM = "model.json", "sha256"
# Distributions whose versions decide what a loaded model computes, and their import names.
_PACKAGES = {"mpda": "mpda", "scikit-learn": "sklearn"}


def save(
    model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a model to a file that :func:`load` reads.

    The file is a zip archive of a JSON document and plain .npy files, with one SHA-256 checksum.
    It is written atomically. The same model gives the same bytes.

    Parameters
    ----------
    model : estimator
        Any estimator of mpda, ``DiscriminantSearchCV``, or an estimator of scikit-learn that is
        used with them (Pipeline, ColumnTransformer, SimpleImputer, OneHotEncoder, StandardScaler,
        MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, PCA, TruncatedSVD,
        LinearDiscriminantAnalysis, NeighborhoodComponentsAnalysis, KNeighborsClassifier, Nystroem).
        Parameters may hold clusterers of scikit-learn. Anything else is refused and named,
        including functions, since a model file holds no code.
    path : str or path
        Target file. By convention its name ends in ".mpda".
    notes : mapping, default=None
        JSON values that :func:`mpda.io.read_header` returns as ``notes``.

    Raises
    ------
    TypeError
        If the model or the notes hold a value that cannot be saved.
    OSError
        If the file cannot be written. An existing file is left as it was.

    Notes
    -----
    Arrays keep their dtype and become C-contiguous. Arrays of PyTorch, CuPy and other libraries
    become NumPy arrays. MPDA and PMPDA are saved with the sums that ``partial_fit`` updates, four
    matrices of shape (n_features, n_features): 20 MB for 784 features.
    :func:`mpda.io.export_matrix` writes only the linear map.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> import mpda
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mpda.MPDA(n_components=2).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "iris.mpda"
    ...     mpda.save(model, path, notes={"data": "iris"})
    ...     loaded = mpda.load(path)
    >>> loaded.transform(X).shape
    (150, 2)
    """
    encoder = ModelEncoder()
    encoded = encoder.encode(model)
    notes = dict(notes or {})
    if json.loads(json.dumps(notes)) != notes:  # tuples become lists, and NaN differs from itself
        raise TypeError(
            "notes must be a mapping of values that JSON returns unchanged (None, booleans, finite "
            f"numbers, strings, lists, dicts with strings as keys), got {notes!r:.200}."
        )
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "class": encoded["object"][0],
        "versions": versions(),
        "parameters": {n: repr(getattr(model, n)) for n in parameter_defaults(type(model))},
        "notes": notes,
        "model": encoded,
    }
    members = {_DOCUMENT: json.dumps(document, indent=1, allow_nan=False).encode()}
    for i, array in enumerate(encoder.arrays):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        members[f"{i}.npy"] = buffer.getvalue()
    members[_CHECKSUM] = _checksum(members)
    with atomic_path(Path(path)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without the time of day


def _checksum(members: dict[str, bytes]) -> bytes:
    checksum = sha256()
    for name, member in members.items():
        checksum.update(name.encode())
        checksum.update(member)
    return checksum.hexdigest().encode()


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model from a file that :func:`save` wrote.

    No code in the file is run, and only classes of a fixed list are created.

    Parameters
    ----------
    path : str or path
        Model file.

    Returns
    -------
    estimator
        The model, with the parameters and fitted attributes that it had.

    Raises
    ------
    mpda.exceptions.ModelFileError
        If the file is not a model file, is damaged, or has the format of another version of mpda.
    OSError
        If the file cannot be read.

    Warns
    -----
    mpda.exceptions.ModelVersionWarning
        If the model was saved with another minor version of mpda, or of scikit-learn where the
        model contains estimators of it.
    """
    with open(path, "rb") as file, name_file_in_errors(Path(path), ModelFileError, _PROBLEM):
        document, members = _read_members(file)
        arrays = [
            np.lib.format.read_array(io.BytesIO(members.pop(f"{i}.npy")), allow_pickle=False)
            for i in range(len(members))
        ]
        decoder = ModelDecoder(arrays)
        model = decoder.decode(document["model"])
    for name, package in _PACKAGES.items():
        old, new = str(document["versions"].get(name)), versions()[name]
        if package in decoder.packages and old.split(".")[:2] != new.split(".")[:2]:
            warnings.warn(
                f"{path} was saved with {name} {one_line(old, 40)}, and this is {new}: results may "
                "differ. Fit the model again, or install that version.",
                ModelVersionWarning,
                stacklevel=2,
            )
    return model


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the description of a model file, without creating the model.

    Parameters
    ----------
    path : str or path
        Model file.

    Returns
    -------
    dict
        ``format`` and ``version`` of the file, ``class`` as "module:name", ``versions`` of
        packages, ``parameters`` (the ``repr`` of each) and ``notes``.

    Raises
    ------
    mpda.exceptions.ModelFileError
        If the file is not a model file or is damaged.
    """
    with open(path, "rb") as file, name_file_in_errors(Path(path), ModelFileError, _PROBLEM):
        document, _ = _read_members(file)
    del document["model"]
    return document


def _read_members(file: BinaryIO) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the JSON document and the other members, after comparing checksum and version.

    The directory of the archive is checked before anything is read: members are not compressed, so
    together they cannot be longer than the file.
    """
    with zipfile.ZipFile(file) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > os.fstat(file.fileno()).st_size:
            raise ModelFileError(f"The file is too large when unpacked ({size} bytes).")
        members = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    if not {_CHECKSUM, _DOCUMENT} <= members.keys():
        if _OLD_DOCUMENT in members:
            _refuse_version(1)
        raise ModelFileError(
            f"The file is a zip archive, but no model file: it has no {_DOCUMENT}."
        )
    if members.pop(_CHECKSUM) != _checksum(members):
        raise ModelFileError("The file is damaged: its content does not have its checksum.")
    document: dict[str, Any] = json.loads(members.pop(_DOCUMENT))
    if document["format"] != _FORMAT:
        raise ModelFileError(f"The file is no model file of mpda but {document['format']!s:.40}.")
    if document["version"] != _VERSION:
        _refuse_version(document["version"])
    return document, members


def _refuse_version(version: Any) -> NoReturn:
    """Raise an error that says whether the file is older or newer than this program."""
    if isinstance(version, int) and version < _VERSION:
        raise ModelFileError(
            f"The file is older than this version of mpda (format {version}, now {_VERSION}): fit "
            "and save the model again, or install the mpda that wrote it."
        )
    raise ModelFileError(
        f"The file is newer than this version of mpda (format {version!s:.20}, this one reads "
        f"{_VERSION}): install the mpda that wrote it."
    )
