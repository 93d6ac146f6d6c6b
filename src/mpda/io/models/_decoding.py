"""Models from values of JSON and arrays, without running any code that these could choose."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda.exceptions import ModelFileError
from mpda.io.array_files import check_values
from mpda.io.models._classes import (
    ESTIMATORS,
    FUNCTIONS,
    NOT_KEPT,
    RECORDS,
    UNFITTED,
    is_fitted_attribute,
    named,
    parameters_of,
    rebuild,
)
from mpda.io.models._encoding import DEEPEST
from mpda.io.models._npy import Layout

_MOST_JOBS = 1024  # more would take a machine down before they did anything
_TAGS = (
    *("int", "float", "bytes", "tuple", "dict", "items", "numpy", "array", "objects", "masked"),
    *("function", "record", "estimator"),
)


@dataclasses.dataclass(frozen=True)
class Decoded:
    """A model, and the packages, mpda or sklearn, that its classes come from."""

    model: Any
    packages: set[str]


def decoded(said: Any, arrays: Sequence[Array], other_versions: set[str]) -> Decoded:
    """The model that ``encoded`` described.

    ``other_versions`` are the packages, mpda or sklearn, that had another version: a parameter that
    their classes did not have then is at its default. Raises whatever work on values that are not
    what they should be may raise.
    """
    reader = _Reader(arrays, other_versions)
    model = reader.value(said, 0)
    if reader.unused:
        raise ModelFileError(f"has an array that belongs to nothing: {min(reader.unused)}.npy.")
    return Decoded(model, reader.packages)


class _Reader:
    """Turns values of JSON into what they stand for."""

    def __init__(self, arrays: Sequence[Array], other_versions: set[str]) -> None:
        self._arrays = arrays
        self._other_versions = other_versions
        self.unused = set(range(len(arrays)))
        self.packages: set[str] = set()

    def value(self, said: Any, depth: int) -> Any:
        if depth > 2 * DEEPEST:  # a masked array takes two levels
            raise ModelFileError("is nested too deep for a model.")
        if isinstance(said, list):
            return [self.value(each, depth + 1) for each in said]
        if not isinstance(said, dict):
            return said
        ((tag, content),) = said.items()
        read = getattr(self, f"_{tag}", None) if tag in _TAGS else None
        if read is None:
            raise ModelFileError(f"holds a value of an unknown kind: {tag!r:.40}.")
        return read(content, depth + 1)

    def _int(self, content: str, depth: int) -> int:
        return int(content, 16)

    def _float(self, content: str, depth: int) -> float:
        return {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}[content]

    def _bytes(self, content: str, depth: int) -> bytes:
        return bytes.fromhex(content)

    def _tuple(self, content: list[Any], depth: int) -> tuple[Any, ...]:
        return tuple([self.value(each, depth) for each in content])

    def _dict(self, content: dict[str, Any], depth: int) -> dict[str, Any]:
        return {name: self.value(each, depth) for name, each in content.items()}

    def _items(self, content: list[Any], depth: int) -> dict[Any, Any]:
        return {self.value(key, depth): self.value(each, depth) for key, each in content}

    def _numpy(self, content: list[str], depth: int) -> Any:
        dtype, digits = content
        how = Layout.from_json({"dtype": dtype, "shape": []})
        found = np.frombuffer(bytes.fromhex(digits), np.dtype(how.dtype), 1)
        check_values(found)
        return found[0]

    def _array(self, content: int, depth: int) -> Array:
        if content not in self.unused:
            raise ModelFileError(f"has no array for one place: {content!r:.40}.")
        self.unused.remove(content)
        return self._arrays[content]

    def _objects(self, content: dict[str, Any], depth: int) -> Array:
        how = Layout.from_json({"dtype": "|b1", "shape": content["shape"]})
        values = [self.value(each, depth) for each in content["values"]]
        if len(values) != prod(how.shape):
            raise ModelFileError("describes an array that cannot be.")
        flat = np.empty(len(values), dtype=object)
        for i, each in enumerate(values):  # at once, NumPy would look into lists
            flat[i] = each
        return flat.reshape(how.shape)

    def _masked(self, content: dict[str, Any], depth: int) -> Any:
        data, mask = (self.value(content[name], depth) for name in ("data", "mask"))
        # Of a list NumPy would make an array of its own choice, as wide as its longest string.
        if type(data) is not np.ndarray or not (
            mask is None or (mask.dtype == bool and mask.shape == data.shape)
        ):
            raise ModelFileError("describes an array that cannot be.")
        return np.ma.MaskedArray(data, np.ma.nomask if mask is None else mask)

    def _function(self, content: list[str], depth: int) -> Any:
        path, name = content
        if path not in FUNCTIONS:
            raise ModelFileError(f"names a function that is not known: {path!r:.80}.")
        return named(path)[name]

    def _record(self, content: dict[str, Any], depth: int) -> Any:
        kind = _class(content["class"], RECORDS)
        fields = {name: self.value(v, depth) for name, v in content["fields"].items()}
        if set(fields) != {field.name for field in dataclasses.fields(kind)}:
            raise ModelFileError(f"does not hold the fields that {kind.__name__} has.")
        return kind(**fields)

    def _estimator(self, content: dict[str, Any], depth: int) -> Any:
        path = content["class"]
        kind = _class(path, ESTIMATORS + UNFITTED)
        parameters = {name: self.value(v, depth) for name, v in content["parameters"].items()}
        fitted = {name: self.value(v, depth) for name, v in content["fitted"].items()}
        if parameters.get("memory") is not None:
            raise ModelFileError(f"names a cache as memory of {kind.__name__}, which is not taken.")
        jobs = parameters.get("n_jobs")
        if jobs is not None and not (
            isinstance(jobs, int | np.integer) and abs(int(jobs)) <= _MOST_JOBS
        ):
            raise ModelFileError(f"sets n_jobs of {kind.__name__} to {jobs!r:.40}.")
        for name in fitted:
            unwanted = name in NOT_KEPT.get(path, ()) or path in UNFITTED
            if unwanted or not is_fitted_attribute(kind, name):
                raise ModelFileError(f"sets {name!r:.40}, which no fit of {kind.__name__} does.")
        # Not by the constructor, which could do anything with what it is given.
        model = object.__new__(kind)
        vars(model).update(self._completed(kind, parameters) | fitted)
        rebuild(path, model)
        return model

    def _completed(self, kind: type[Any], parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a class, no more and no fewer."""
        known = parameters_of(kind)
        unknown = sorted(set(parameters) - set(known))
        if unknown:
            raise ModelFileError(
                f"sets {unknown[0]!r:.40}, which is no parameter of {kind.__name__} here."
            )
        package = kind.__module__.split(".")[0]
        self.packages.add(package)
        for name in set(known) - set(parameters):
            default = known[name].default
            if package not in self._other_versions or default is inspect.Parameter.empty:
                raise ModelFileError(f"lacks the parameter {name} of {kind.__name__}.")
            parameters[name] = default
        return parameters


def _class(path: Any, allowed: tuple[str, ...]) -> Any:
    if path not in allowed:
        raise ModelFileError(f"holds a class that is not known: {path!r:.80}.")
    return named(path)
