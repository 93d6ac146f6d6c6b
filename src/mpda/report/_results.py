"""The file results.json: read, checked and written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.atomic_write import write_atomically
from mpda.exceptions import ReportError

FORMAT, VERSION = "mpda results", 1
_LARGEST = 2**53

# What a results dictionary looks like. "?" ends the name of an entry that may be missing or null;
# a list holds any number of what it names; "numbers" are numbers or null.
_ROW = {
    "method": "text",
    "error": "number or null",
    "spread?": "number",
    "low?": "number",
    "high?": "number",
    "splits?": "number",
    "beside?": "number",
    "components?": "number",
    "best?": "flag",
    "seconds?": "number",
}
_CURVE = {
    "method": "text",
    "dimensions": ["number"],
    "error": ["number or null"],
    "low?": ["number or null"],
    "high?": ["number or null"],
    "chosen?": "number",
    "chosen_error?": "number",
}
_SHAPE = {
    "format": "text",
    "version": "count",
    "made": {
        "command?": "text",
        "at?": "text",
        "versions?": "dictionary",
        "machine?": "text",
    },
    "title?": "text",
    "summary?": ["text"],
    "data?": {
        "name?": "text",
        "n_samples?": "count",
        "n_features?": "count",
        "label?": "text",
        "classes?": [{"label": "text", "count": "count"}],
    },
    "comparison?": {
        "how?": "text",
        "problems": [{"name": "text", "rows": [_ROW], "curves?": [_CURVE]}],
    },
    "model?": {
        "method": "text",
        "n_components?": "count",
        "steps?": [{"name": "text", "parameters?": "dictionary"}],
        "eigenvalues?": ["number or null"],
        "component_names?": ["text"],
        "features?": ["text"],
        "weights?": [["number or null"]],
        "image_shape?": ["count"],
    },
    "embedding?": {
        "how?": "text",
        "n_all?": "count",
        "component_names?": ["text"],
        "points": [["number or null"]],
        "codes": ["count"],
        "labels": ["text"],
        "rows?": ["count"],
        "wrong?": ["flag"],
    },
    "partition?": {
        "classes": [
            {
                "label": "text",
                "patches": "count",
                "sizes": ["count"],
                "linearity": ["number or null"],
            }
        ],
        "shown?": {
            "label": "text",
            "points": [["number or null"]],
            "patches": ["count"],
            "how?": "text",
        },
    },
    "confusion?": {"how?": "text", "labels": ["text"], "counts": [["count"]]},
}


def read_results(path: str | Path) -> dict[str, Any]:
    """Read a results file.

    Parameters
    ----------
    path : str or Path
        The file, or a directory that holds ``results.json``.

    Returns
    -------
    dict
        As described for ``render``.

    Raises
    ------
    ReportError
        Where the file is none, or not what this version reads.
    """
    path = Path(path)
    file = path / "results.json" if path.is_dir() else path
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ReportError(
            f"{file} does not exist: give a results.json or its directory."
        ) from error
    except OSError as error:
        raise ReportError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{file} is not a results file of mpda: it is not JSON.") from error
    return checked(results, str(file))


def write_results(results: dict[str, Any], path: str | Path) -> Path:
    """Write a results dictionary as JSON, numbers that are not finite as null.

    Parameters
    ----------
    results : dict
        As described for ``render``; arrays and scalars of NumPy are allowed.
    path : str or Path
        The file; it is written beside and renamed into place.

    Returns
    -------
    Path
    """
    text = json.dumps(checked(results), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return write_atomically(Path(path), text + "\n")


def checked(results: Any, where: str = "results") -> dict[str, Any]:
    """The results in JSON's types, if a page can be made of them."""
    try:
        results = to_json_types(results)
    except RecursionError as error:
        raise ReportError(
            f"{where} is not a results file of mpda: it is nested too deep."
        ) from error
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise ReportError(f"{where} is not a results file of mpda: its format is not {FORMAT!r}.")
    version = results.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ReportError(
            f"{where} was made by a newer mpda (version {version!s:.20} of the file, this one "
            f"reads {VERSION}): upgrade mpda."
        )
    _check(results, _SHAPE, where)
    _check_lengths(results, where)
    return results


def to_json_types(value: Any) -> Any:
    """The same in JSON's types."""
    if isinstance(value, dict):
        return {to_json_types(str(key)): to_json_types(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json_types(value.tolist())
    if isinstance(value, list | tuple):
        return [to_json_types(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()  # halves of characters cannot be written
    return value


def _check(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise ReportError(f"{where} must be a dictionary, got {_kind(value)}.")
        for name, inside in shape.items():
            key = name.rstrip("?")
            if value.get(key) is not None:
                _check(value[key], inside, f"{where}: {key}")
            elif not name.endswith("?") and not (inside == "number or null" and key in value):
                raise ReportError(f"{where} has no {key!r}.")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise ReportError(f"{where} must be a list, got {_kind(value)}.")
        for i, each in enumerate(value):
            _check(each, shape[0], f"{where}[{i}]")
    elif not _KINDS[shape](value):
        raise ReportError(f"{where} must be a {shape}, got {_kind(value)}.")


def _is_number(value: Any) -> bool:
    # Whole numbers beyond are no floats, and NumPy makes objects of them.
    return isinstance(value, float) or (type(value) is int and abs(value) < _LARGEST)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "dictionary": lambda value: isinstance(value, dict),
    "number": _is_number,
    "number or null": lambda value: value is None or _is_number(value),
    "count": lambda value: type(value) is int and 0 <= value < _LARGEST,
}


def _kind(value: Any) -> str:
    if type(value) is int and abs(value) >= _LARGEST:
        return "a number that is too large"
    return f"{value!r:.40}" if isinstance(value, str | int | float) else type(value).__name__


def _check_lengths(results: dict[str, Any], where: str) -> None:
    """Lists that belong together are equally long, and codes name something."""
    for problem in (results.get("comparison") or {}).get("problems", []):
        for curve in problem.get("curves") or []:
            _same_lengths(curve, ("dimensions", "error", "low", "high"), f"{where}: curves")
    if embedding := results.get("embedding"):
        place = f"{where}: embedding"
        _same_lengths(embedding, ("points", "codes", "rows", "wrong"), place)
        _same_widths(embedding["points"], (1, 2, 3), f"{place}: points")
        if max(embedding["codes"], default=-1) >= len(embedding["labels"]):
            raise ReportError(f"{place}: codes must be places in labels.")
    if shown := (results.get("partition") or {}).get("shown"):
        _same_lengths(shown, ("points", "patches"), f"{where}: partition: shown")
        _same_widths(shown["points"], (2,), f"{where}: partition: shown: points")
    if confusion := results.get("confusion"):
        n = len(confusion["labels"])
        _same_lengths(confusion, ("labels", "counts"), f"{where}: confusion")
        _same_widths(confusion["counts"], (n,), f"{where}: confusion: counts")
    model = results.get("model") or {}
    if model.get("weights"):
        n_features = len(model.get("features") or model["weights"][0])
        _same_widths(model["weights"], (n_features,), f"{where}: model: weights")
        shape = model.get("image_shape")
        if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != n_features):
            raise ReportError(f"{where}: model: image_shape must have {n_features} pixels.")


def _same_lengths(section: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    lengths = {name: len(section[name]) for name in names if section.get(name) is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ReportError(f"{where} must have lists of one length, got {listed}.")


def _same_widths(rows: list[list[Any]], allowed: tuple[int, ...], where: str) -> None:
    widths = {len(row) for row in rows}
    if rows and (len(widths) > 1 or not widths <= set(allowed)):
        wanted = " or ".join(map(str, allowed))
        raise ReportError(f"{where} must have rows of {wanted} entries, got {sorted(widths)}.")
