"""Arrays of other libraries: PyTorch, CuPy, and whatever follows the array API standard.

What is at work shows only here. Elsewhere a function takes ``xp = namespace(X)`` and uses what the
standard has; what it lacks, or what NumPy does much faster in a way of its own, is a function of
this file. Counts, names and the bookkeeping of classes stay with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.externals import array_api_compat
from sklearn.externals.array_api_compat import numpy as numpy_namespace

Array = Any
"""An array of any library; functions that take several take all from one, on one device."""


def on_host(X: Any) -> bool:
    """Whether X is an array of NumPy."""
    return isinstance(X, np.ndarray | np.generic)


def namespace(X: Array) -> Any:
    """The functions of the standard for arrays such as X."""
    return numpy_namespace if on_host(X) else array_api_compat.array_namespace(X)


def to_host(X: Array) -> Any:
    """X as an array of NumPy."""
    if on_host(X):
        return X
    if array_api_compat.is_cupy_array(X):
        return X.get()
    if array_api_compat.is_torch_array(X):
        return X.detach().cpu().numpy()
    return np.asarray(X)


def like(values: Any, X: Array) -> Array:
    """An array of NumPy, where X is."""
    if on_host(X):
        return values
    xp = namespace(X)
    return xp.asarray(np.ascontiguousarray(values), device=array_api_compat.device(X))


def _natively(X: Array) -> bool:
    """Whether X can be indexed and changed by arrays of indices, as those of NumPy can."""
    return (
        on_host(X) or array_api_compat.is_torch_array(X) or array_api_compat.is_cupy_array(X)
    )


def put(X: Array, places: Any, values: Any) -> Array:
    """X[places] = values, in place if the library can; the result counts."""
    if _natively(X):
        X[places] = values
        return X
    host = to_host(X).copy()
    if isinstance(places, tuple):
        host[tuple(_host_index(each) for each in places)] = _host_index(values)
    else:
        host[_host_index(places)] = _host_index(values)
    return like(host, X)


def pick(X: Array, places: tuple[Any, ...]) -> Array:
    """X[places] for several arrays of indices, with slices among them."""
    if _natively(X):
        return X[places]
    return like(to_host(X)[tuple(_host_index(each) for each in places)], X)


def _host_index(value: Any) -> Any:
    return to_host(value) if array_api_compat.is_array_api_obj(value) else value
