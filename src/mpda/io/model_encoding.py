"""Translate models to a JSON document and a list of arrays, and back.

None, booleans, integers, finite floats, strings and lists stand for themselves. Every other value
is an object with one key that names its type: ``{"tuple": [..]}``, ``{"array": 3}``,
``{"object": ["mpda:LFDA", {..}]}``. Classes are restricted to those of ``model_classes``.
"""

import math
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.arrays import is_device_array, to_host
from mpda.exceptions import ModelFileError
from mpda.io import model_classes
from mpda.io.model_classes import DATACLASSES, ESTIMATORS, find_path, import_object

# Kinds of dtypes that NumPy stores without pickle: booleans, numbers, fixed-width strings, dates.
_ARRAY_KINDS = "biufcSUmM"


class ModelEncoder:
    """Encode a model as JSON values, with its arrays collected separately.

    Attributes
    ----------
    arrays : list of ndarray
        C-contiguous arrays in the order in which they are numbered in the encoded model.
    """

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def encode(self, model: Any) -> dict[str, Any]:
        """Encode a model.

        Parameters
        ----------
        model : estimator
            Instance of a class in ``ESTIMATORS``.

        Returns
        -------
        dict
            JSON value ``{"object": ..}``. The arrays it refers to are in ``arrays``.

        Raises
        ------
        TypeError
            If the model holds a value that a model file cannot hold; the attribute is named.
        """
        return self._encode_object(model, type(model).__name__)

    def _encode(self, value: Any, where: str) -> Any:
        """Encode any value; ``where`` names it in error messages."""
        if isinstance(value, type):  # the dtype of an encoder of scikit-learn
            return self._encode_type(value, where)
        if is_device_array(value):
            value = to_host(value)
        # Exact types: a subclass of int or str would come back as its base.
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:  # JSON has no nan and no infinity
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind in (list, tuple):
            items = [self._encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        # As pairs, because keys of a JSON object are strings only.
        if kind is dict:
            pairs = [(key, item, f"{where}[{key!r}]") for key, item in value.items()]
            return {"dict": [[self._encode(k, at), self._encode(v, at)] for k, v, at in pairs]}
        if kind is slice:
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, np.dtype) and value.kind in _ARRAY_KINDS + "O":
            return {"dtype": value.str}
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
            return {"scalar": [value.dtype.str, self._encode(value.item(), where)]}
        if kind is np.ma.MaskedArray:
            arrays = (value.data, np.ma.getmaskarray(value))
            return {"masked": [self._encode(array, where) for array in arrays]}
        if kind is np.ndarray and value.dtype == object:
            items = self._encode(value.ravel().tolist(), f"{where}.flat")
            return {"objects": [list(value.shape), items]}
        if kind in (np.ndarray, np.memmap) and value.dtype.kind in _ARRAY_KINDS:
            self.arrays.append(np.asarray(value, order="C"))
            return {"array": len(self.arrays) - 1}
        return self._encode_object(value, where)

    def _encode_type(self, kind: type[Any], where: str) -> dict[str, Any]:
        """Encode the type of a NumPy scalar."""
        if issubclass(kind, np.number | np.bool_):
            return {"number type": np.dtype(kind).str}
        return self._encode_object(kind, where)

    def _encode_object(self, value: Any, where: str) -> dict[str, Any]:
        """Encode an estimator or dataclass by its attributes."""
        path = find_path(type(value), ESTIMATORS + DATACLASSES)
        if path is None:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
            names = ", ".join(name.split(":")[1] for name in ESTIMATORS if "sklearn" in name)
            raise TypeError(
                f"{where} is a {kind}{dtype}, which a model file cannot hold. Use plain values "
                "(None, numbers, strings, lists, dicts, NumPy arrays of them, an integer as "
                f"random_state), estimators of mpda or scikit-learn's {names}; no functions. For "
                "others there are skops and joblib."
            )
        attributes = {
            name: self._encode(item, f"{where}.{name}")
            for name, item in vars(value).items()
            if name not in model_classes.TRANSIENT_ATTRIBUTES
        }
        return {"object": [path, attributes]}


class ModelDecoder:
    """Decode a model from JSON values and arrays, without running code that these could choose.

    Estimators are created by ``object.__new__`` and their attributes set directly, so no
    constructor sees a value from the file. Values of a wrong form raise ordinary errors (KeyError,
    TypeError, ...), which the caller reports as a damaged file.

    Parameters
    ----------
    arrays : list of ndarray
        Arrays of the file by their number.

    Attributes
    ----------
    packages : set of str
        Packages ("mpda", "sklearn") of the classes that were decoded.
    """

    def __init__(self, arrays: list[Array]) -> None:
        self._arrays = arrays
        self.packages: set[str] = set()

    def decode(self, value: Any) -> Any:
        """Decode a value.

        Parameters
        ----------
        value : JSON value
            Value that :meth:`ModelEncoder.encode` returned.

        Returns
        -------
        object
            Model, or any value inside of one.

        Raises
        ------
        mpda.exceptions.ModelFileError
            If a class or type of value is not one that model files have.
        """
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((tag, content),) = value.items()
        match tag, content:
            case "float", text:
                return float(text)
            case "tuple", items:
                return tuple(self.decode(items))
            case "dict", pairs:
                return {self.decode(key): self.decode(item) for key, item in pairs}
            case "scalar", [dtype, item]:
                return np.dtype(dtype).type(self.decode(item))
            case "array", number:
                return self._arrays[number]
            case "slice", [start, stop, step]:
                return slice(start, stop, step)
            case "dtype", text:
                return np.dtype(text)
            case "number type", text:
                return np.dtype(text).type
            case "masked", [data, mask]:
                return np.ma.MaskedArray(self.decode(data), self.decode(mask))
            case "objects", [shape, items]:
                # np.array would make a further axis of items that are sequences.
                return np.fromiter(self.decode(items), dtype=object).reshape(shape)
            case "object", [path, attributes]:
                decoded = {name: self.decode(item) for name, item in attributes.items()}
                return self._create(path, decoded)
        raise ModelFileError(f"The file holds a value of an unknown type: {tag!r:.40}.")

    def _create(self, path: str, attributes: dict[str, Any]) -> Any:
        """Create an estimator or dataclass with these attributes."""
        if path not in ESTIMATORS + DATACLASSES:
            raise ModelFileError(f"The file names {path!r:.80}, which may not be loaded.")
        kind: Any = import_object(path)
        self.packages.add(kind.__module__.split(".")[0])
        if path in DATACLASSES:
            return kind(**attributes)
        instance = object.__new__(kind)
        # A parameter that did not exist when the file was written is at its default. Attributes are
        # also first, so that they keep their order and saving again gives the same bytes.
        defaults = model_classes.parameter_defaults(kind)
        vars(instance).update({**attributes, **defaults, **attributes})
        model_classes.rebuild_search_tree(instance)
        return instance
