"""Models as values of JSON and a list of arrays.

None, truth values, integers, finite floats, strings and lists stand for themselves. Everything else
is an object with one key, which says what it is: {"tuple": [..]}, {"array": 3}, {"estimator": ..}.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.arrays import is_device_array, to_host
from mpda.io.array_files import KINDS
from mpda.io.models._classes import (
    ESTIMATORS,
    FUNCTIONS,
    NOT_KEPT,
    RECORDS,
    UNFITTED,
    is_fitted_attribute,
    named,
    parameters_of,
    path_of,
)

# Beyond it a value is taken to hold itself.
DEEPEST = 40


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A model as values of JSON, and the arrays that these name by their numbers."""

    model: dict[str, Any]
    arrays: list[Array]


def encoded(model: Any) -> Encoded:
    """A model that holds nothing but what is known here; anything else is refused by its name."""
    path = path_of(type(model), ESTIMATORS)
    if path is None:
        raise TypeError(
            f"model must be an estimator of mpda, or one of scikit-learn that goes with them "
            f"({', '.join(_short(ESTIMATORS, 'sklearn'))}), got {_kind(model)}. For others use "
            "skops or joblib."
        )
    writer = _Writer()
    return Encoded(writer.estimator(path, model, type(model).__name__, 0), writer.arrays)


class _Writer:
    """Turns values into those of JSON, and puts arrays aside. ``where`` names the value."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def value(self, value: Any, where: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise TypeError(f"{where[:80]}.. is nested more than {DEEPEST} deep: make it flatter.")
        if is_device_array(value):
            value = to_host(value)
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) < 2**63 else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind in (list, tuple):
            items = [self.value(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict:
            return self.mapping(value, where, depth)
        if isinstance(value, np.generic | np.ndarray):
            return self.array(value, where, depth)
        return self.instance(value, where, depth)

    def mapping(self, value: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
        if all(type(key) is str for key in value):
            names = {k: self.value(v, f"{where}[{k!r}]", depth + 1) for k, v in value.items()}
            return {"dict": names}
        items = []
        for key, each in value.items():
            if isinstance(key, list | dict | np.ndarray):
                raise TypeError(f"{where} has a key that is no plain value: {key!r}.")
            name = f"{where}[{key!r}]"
            items.append([self.value(key, name, depth + 1), self.value(each, name, depth + 1)])
        return {"items": items}

    def array(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        kind = type(value)
        if kind is np.ma.MaskedArray:
            mask = None if value.mask is np.ma.nomask else value.mask
            return {
                "masked": {
                    "data": self.array(value.data, where, depth),
                    "mask": self.value(mask, where, depth),
                }
            }
        if kind is np.ndarray and value.dtype == object:
            flat = [
                self.value(v, f"{where}.flat[{i}]", depth + 1)
                for i, v in enumerate(value.reshape(-1).tolist())
            ]
            return {"objects": {"shape": list(value.shape), "values": flat}}
        if value.dtype.kind not in KINDS or value.dtype.itemsize == 0:
            raise TypeError(
                f"{where} is an array of {value.dtype}, which a model file cannot hold: give "
                "numbers, truth values, dates or strings."
            )
        if isinstance(value, np.generic):
            return {"numpy": [value.dtype.str, value.tobytes().hex()]}
        if kind is not np.ndarray and kind is not np.memmap:
            raise TypeError(f"{where} is a {_kind(value)}: give a plain array of NumPy.")
        self.arrays.append(np.asarray(value))
        return {"array": len(self.arrays) - 1}

    def instance(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        if callable(value):
            return _function(value, where)
        path = path_of(type(value), ESTIMATORS + UNFITTED)
        if path is not None:
            return self.estimator(path, value, where, depth)
        path = path_of(type(value), RECORDS)
        if path is not None:
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return {"record": {"class": path, "fields": self.named(fields, where, depth)}}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            raise TypeError(
                f"{where} is a random generator, whose state changes with use: set an integer."
            )
        if hasattr(value, "get_params"):
            allowed = ", ".join(_short(ESTIMATORS + UNFITTED, "sklearn"))
            raise TypeError(
                f"{where} is a {_kind(value)}, which a model file cannot hold. Use one of mpda or "
                f"{allowed}; for others there are skops and joblib."
            )
        raise TypeError(
            f"{where} is a {_kind(value)}, which a model file cannot hold: use plain values (None, "
            "numbers, strings, lists, dicts, arrays of NumPy)."
        )

    def estimator(self, path: str, model: Any, where: str, depth: int) -> dict[str, Any]:
        kind = type(model)
        parameters = {name: getattr(model, name) for name in parameters_of(kind)}
        if parameters.get("memory") is not None:
            raise TypeError(
                f"{where}.memory must be None to be saved, got {parameters['memory']!r}: what is "
                "cached there is not part of the model. Call set_params(memory=None)."
            )
        kept = {
            name: value
            for name, value in vars(model).items()
            if name not in parameters and name not in NOT_KEPT.get(path, ())
        }
        if kept and path in UNFITTED:
            raise TypeError(
                f"{where} is a fitted {kind.__name__}, and only its parameters can be saved: give "
                "sklearn.base.clone of it."
            )
        for name in kept:
            if not is_fitted_attribute(kind, name):
                raise TypeError(
                    f"{where}.{name} is no parameter of {kind.__name__} and nothing that a fit "
                    f"sets: remove it with del model.{name}."
                )
        return {
            "estimator": {
                "class": path,
                "parameters": self.named(parameters, where, depth),
                "fitted": self.named(kept, where, depth),
            }
        }

    def named(self, values: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        return {k: self.value(v, f"{where}.{k}", depth + 1) for k, v in values.items()}


def _function(value: Any, where: str) -> dict[str, Any]:
    """A function of the package, by its name; no other, since its code would have to be kept."""
    for path in FUNCTIONS:
        for name, function in named(path).items():
            if function is value:
                return {"function": [path, name]}
    raise TypeError(
        f"{where} is a function or class ({getattr(value, '__name__', _kind(value))}), and model "
        "files hold no code: use one of the names that the parameter takes, or set it to None "
        "after the fit and again after loading."
    )


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _short(paths: tuple[str, ...], package: str) -> list[str]:
    return [path.split(":")[1] for path in paths if path.startswith(package)]
