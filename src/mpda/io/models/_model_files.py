"""What is written to a model file, and what is asked of one that is read."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from mpda._lib.atomic_write import beside, check_plain_file
from mpda._lib.provenance import versions
from mpda.exceptions import ModelFileError, ModelVersionWarning
from mpda.io.models._archive import Member, archive_members, write_archive
from mpda.io.models._classes import ESTIMATORS
from mpda.io.models._decoding import decoded
from mpda.io.models._encoding import encoded
from mpda.io.models._npy import Layout, layout, npy_array, npy_pieces
from mpda.io.unpacked import one_line

_FORMAT = "mpda model"
_VERSION = 1
_HEADER, _CHECKSUM = "header.json", "header.sha256"
# The packages whose classes a model may have, and what their modules are called.
_MODULES = {"mpda": "mpda", "scikit-learn": "sklearn"}

# What work on values that are not what they should be may raise.
_WRONG_VALUES = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def save(
    model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a model to a file that :func:`load` reads.

    The file is a zip archive of a readable ``header.json`` and of plain .npy files, not compressed,
    with a SHA-256 checksum of each. It is written beside its place and renamed into it, and is the
    same, byte for byte, for the same model and the same versions of packages.

    Parameters
    ----------
    model : estimator
        Any estimator of mpda, ``DiscriminantSearchCV``, or one of scikit-learn that goes with them
        (Pipeline, StandardScaler, MinMaxScaler, RobustScaler, Normalizer, PCA,
        LinearDiscriminantAnalysis, NeighborhoodComponentsAnalysis, KNeighborsClassifier, Nystroem).
        Parameters may hold clusterers of scikit-learn that are not fitted. Anything else is refused
        and named, functions among it, since a file holds no code.
    path : str or path
        By custom its name ends in ".mpda".
    notes : mapping, default=None
        Values of JSON that come back in ``header(path)["notes"]``.

    Notes
    -----
    Arrays keep their type and their order in memory, so that what a loaded model computes is equal
    to the last bit; those of PyTorch, CuPy and other libraries become arrays of NumPy. MPDA and
    PMPDA are saved with the sums that ``partial_fit`` adds to, four matrices of n_features x
    n_features: 20 MB for 784 features. Where only the map is wanted,
    :func:`mpda.io.export.export_matrix` writes just that.

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
    >>> bool((loaded.transform(X) == model.transform(X)).all())
    True
    """
    content = encoded(model)
    arrays = [npy_pieces(array) for array in content.arrays]
    described = [
        {**layout(array).as_json(), "sha256": _checksum(*pieces)}
        for array, pieces in zip(content.arrays, arrays, strict=True)
    ]
    said = {
        "format": _FORMAT,
        "version": _VERSION,
        "class": content.model["estimator"]["class"],
        "versions": versions(),
        "notes": _checked_notes(notes),
        "model": content.model,
        "arrays": described,
    }
    text = json.dumps(said, indent=1, ensure_ascii=False, allow_nan=False)
    text_bytes = (text + "\n").encode("utf-8", "surrogatepass")
    members: list[tuple[str, list[Any]]] = [
        (_HEADER, [text_bytes]),
        (_CHECKSUM, [f"{_checksum(text_bytes)}\n".encode()]),
        *((f"{i}.npy", pieces) for i, pieces in enumerate(arrays)),
    ]
    with beside(Path(path)) as made, made.open("wb") as file:
        write_archive(file, members)


def load(path: str | os.PathLike[str]) -> Any:
    """The model of a file that :func:`save` wrote.

    Nothing in the file is run, and no class is made that is not on a list; no more memory is taken
    for arrays than the file is long (three times that for one that was a view with gaps).

    Raises
    ------
    mpda.exceptions.ModelFileError
        If the file is no model file, is damaged, or was made by a newer version of mpda.

    Warns
    -----
    mpda.exceptions.ModelVersionWarning
        If the first two numbers of the version of mpda were others; or of that of scikit-learn,
        where the model has parts of it.
    """
    path = Path(path)
    check_plain_file(path)
    with path.open("rb") as file, _named_refusals(path):
        members = archive_members(file, _HEADER)
        said = _read_header(file, members)
        arrays = [
            npy_array(file, member, Layout.from_json(each), each["sha256"])
            for member, each in zip(members[2:], said["arrays"], strict=True)
        ]
        now = versions()
        others = {
            module for name, module in _MODULES.items() if said["versions"][name] != now[name]
        }
        found = decoded(said["model"], arrays, others)
        lines = list(_version_lines(said["versions"], found.packages))
    for line in lines:
        warnings.warn(f"{path} {line}", ModelVersionWarning, stacklevel=2)
    return found.model


def header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says of itself, without its arrays.

    Returns
    -------
    dict
        ``format`` and its ``version``; ``class`` as "module:name"; ``versions`` of packages;
        ``parameters``, in which an estimator is a dict of its class and parameters, and what JSON
        has no value for is put in words; ``notes``.
    """
    path = Path(path)
    check_plain_file(path)
    with path.open("rb") as file, _named_refusals(path):
        said = _read_header(file, archive_members(file, _HEADER))
        shown = {name: said[name] for name in ("format", "version", "class", "versions")}
        parameters = _readable(said["model"])["parameters"]
        return {**shown, "parameters": parameters, "notes": said["notes"]}


@contextmanager
def _named_refusals(path: Path) -> Iterator[None]:
    """Refuse a file by its name; whatever else is wrong with what it says is a refusal too."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from error.__cause__
    except _WRONG_VALUES as error:
        said = one_line(error)
        raise ModelFileError(f"{path} does not describe a model ({said}).") from error


def _checksum(*pieces: Any) -> str:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _checked_notes(notes: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        kept = dict(notes or {})
        if json.loads(json.dumps(kept, allow_nan=False)) == kept:
            return kept
    except (TypeError, ValueError, RecursionError):
        pass
    raise TypeError(
        "notes must be a mapping of values that JSON gives back as they are (None, truth values, "
        f"finite numbers, strings, lists, dicts with strings as keys), got {notes!r:.200}."
    )


def _read_header(file: BinaryIO, members: list[Member]) -> dict[str, Any]:
    """What stands in the header, after its checksum and the names of the members were checked."""
    if len(members) < 2:
        raise ModelFileError(
            f"is a zip archive, but no model file of mpda: {_CHECKSUM} is missing."
        )
    text, checksum = (_contents(file, member) for member in members[:2])
    said = _parsed(text)
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise ModelFileError("is a zip archive, but no model file of mpda.")
    version = said.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise ModelFileError(
            f"was made by a newer mpda (file format {version!s:.20}, this one reads {_VERSION}): "
            "upgrade with pip install --upgrade mpda."
        )
    if version != _VERSION or checksum != f"{_checksum(text)}\n".encode():
        raise ModelFileError("is damaged: its header does not have its checksum.")
    expected = [_HEADER, _CHECKSUM, *(f"{i}.npy" for i in range(len(said["arrays"])))]
    if [member.name for member in members] != expected:
        raise ModelFileError("is damaged: its members are not those that its header names.")
    if not isinstance(said["notes"], dict) or not all(
        isinstance(said["versions"][name], str) for name in _MODULES
    ):
        raise ModelFileError("is damaged: its notes or versions are not what mpda.save writes.")
    if said["class"] not in ESTIMATORS or said["model"]["estimator"]["class"] != said["class"]:
        raise ModelFileError(f"holds a class that is not known: {said['class']!r:.80}.")
    return said


def _contents(file: BinaryIO, member: Member) -> bytes:
    file.seek(member.contents)
    return file.read(member.size)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(
            text.decode("utf-8", "surrogatepass"),
            object_pairs_hook=_distinct,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError("is damaged: its header cannot be read.") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.20} is too large")
    return value


def _readable(said: Any) -> Any:
    """A value as it was described, without the marks that tell kinds apart."""
    if isinstance(said, list):
        return [_readable(each) for each in said]
    if not isinstance(said, dict):
        return said
    ((tag, content),) = said.items()
    if tag == "estimator":
        parameters = {name: _readable(each) for name, each in content["parameters"].items()}
        return {"class": content["class"], "parameters": parameters}
    if tag == "tuple":
        return _readable(content)
    if tag == "dict":
        return {name: _readable(each) for name, each in content.items()}
    if tag in ("int", "float"):
        return content
    if tag == "function":
        return content[1]
    if tag == "numpy":
        value = decoded(said, (), set()).model.item()
        return value if isinstance(value, bool | int) else _number_or_words(value)
    return f"({tag})"


def _number_or_words(value: Any) -> float | str:
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def _version_lines(before: dict[str, str], packages: set[str]) -> Iterator[str]:
    """What is to be said of versions that are others by their first two numbers."""
    for name, module in _MODULES.items():
        then, now = one_line(before[name], 40), versions()[name]
        if module in {"mpda", *packages} and then.split(".")[:2] != now.split(".")[:2]:
            yield (
                f"was saved with {name} {then}, and this is {now}: what the model computes may "
                "differ. Fit it anew, or use that version."
            )
