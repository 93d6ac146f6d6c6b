"""The file results.json: reading, checking and writing.

A file is accepted if its format name, version and required keys are right. Wrong values inside a
section are found when it is drawn, by the displays of `mpda.plotting`.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.atomic_write import write_atomically
from mpda.exceptions import ReportError

FORMAT, VERSION = "mpda results", 1
_REQUIRED = {
    "provenance": (),
    "data": (),
    "comparison": ("problems",),
    "model": ("method",),
    "embedding": ("points", "codes", "labels"),
    "partition": ("classes",),
    "confusion": ("labels", "counts"),
    "storage": (),
    "retrieval": (),
}


def read_results(path: str | Path) -> dict[str, Any]:
    """Read a results file.

    Parameters
    ----------
    path : str or Path
        The file, or a directory with a ``results.json``.

    Returns
    -------
    dict
        As described for `render`.

    Raises
    ------
    ReportError
        If the file cannot be read or is no results file of this version.
    """
    path = Path(path)
    file = path / "results.json" if path.is_dir() else path
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        message = f"{file} does not exist: give a results.json or its directory."
        raise ReportError(message) from error
    except OSError as error:
        raise ReportError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # the latter for thousands of nested brackets
        raise ReportError(f"{file} is not a results file of mpda: it is not JSON.") from error
    return check_results(results, str(file))


def write_results(results: dict[str, Any], path: str | Path) -> Path:
    """Write results atomically as JSON.

    Parameters
    ----------
    results : dict
        As described for `render`. NumPy arrays and scalars are allowed.
    path : str or Path
        The file. Missing directories are made.

    Returns
    -------
    Path
        The file.
    """
    text = json.dumps(check_results(results), ensure_ascii=False, separators=(",", ":"))
    return write_atomically(Path(path), text + "\n")


def check_results(results: Any, source: str = "results") -> dict[str, Any]:
    """Return results in JSON types after checking format, version and required keys.

    Parameters
    ----------
    results : dict
        As described for `render`.
    source : str, default="results"
        Name in error messages.

    Returns
    -------
    dict
        Copy with lists instead of arrays, and without sections that are None.

    Raises
    ------
    ReportError
        With the name of the first wrong entry.
    """
    with refuse_corrupt_results(source):
        results = to_json_types(results)
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise ReportError(f"{source} is not a results file of mpda: its format is not {FORMAT!r}.")
    version = results.get("version")
    if not isinstance(version, int) or version != VERSION:
        raise ReportError(
            f"{source} has version {version!r:.20}, and this mpda reads version {VERSION}: use the "
            "mpda that wrote it, or upgrade mpda."
        )
    # Programs that write JSON often write null for what they do not have.
    results = {name: section for name, section in results.items() if section is not None}
    if "provenance" not in results:
        raise ReportError(f"{source} has no 'provenance'.")
    for name, keys in _REQUIRED.items():
        section = results.get(name, dict.fromkeys(keys))  # a missing section passes
        if not isinstance(section, dict):
            kind = type(section).__name__
            raise ReportError(f"{source}: {name} must be a dictionary, not {kind}.")
        if missing := [key for key in keys if key not in section]:
            raise ReportError(f"{source}: {name} has no {missing[0]!r}.")
    return results


@contextmanager
def refuse_corrupt_results(source: str = "results") -> Iterator[None]:
    """Turn the errors of wrong entries into a ReportError of one line.

    Parameters
    ----------
    source : str, default="results"
        Name in the message.

    Yields
    ------
    None
        Around the code that uses entries of results.
    """
    try:
        yield
    except KeyError as error:
        raise ReportError(f"{source} cannot be shown: the entry {error} is missing.") from error
    except (AttributeError, IndexError, TypeError, ValueError, OverflowError, RecursionError) as e:
        reason = " ".join(str(e).split())
        raise ReportError(f"{source} cannot be shown, an entry is wrong: {reason:.200}") from e


def to_json_types(value: Any) -> Any:
    """Convert a value to JSON types.

    Parameters
    ----------
    value : object
        Nested dictionaries, sequences, NumPy arrays and scalars.

    Returns
    -------
    object
        Dictionaries with str keys, lists, str, numbers, bool and None. Numbers that are not finite
        become None.
    """
    if isinstance(value, dict):
        return {to_json_types(str(key)): to_json_types(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json_types(value.tolist())
    if isinstance(value, list | tuple):
        return [to_json_types(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()  # lone surrogates cannot be written
    return value
