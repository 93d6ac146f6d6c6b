"""Arrays as users give them: which are taken, in which precision, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    array_namespace,
    describe_library,
    has_double_precision,
    is_complex,
    is_device_array,
    is_mutable,
    is_on_accelerator,
)
from mpda._lib.memory import refuse_beyond_memory


def is_dispatched(X: Any) -> bool:
    """Whether X is of another array library, and work on it is to be done there."""
    return bool(get_config()["array_api_dispatch"]) and is_device_array(X)


def refuse_device(estimator: Any, X: Any, *, able: bool) -> None:
    """Refuse arrays of another library where they cannot be worked on, or it was not asked for."""
    name = type(estimator).__name__
    if is_dispatched(X) and not able:
        raise TypeError(
            f"{name} works on NumPy arrays, and X is of {describe_library(X)}. MPDA, PMPDA, LFDA and "
            f"GramPCA work on such arrays where they are; for {name} give X as a NumPy array."
        )
    if is_device_array(X) and is_complex(X):
        raise ValueError(f"Complex data not supported: X is of {X.dtype}.")
    if is_dispatched(X) and not is_mutable(X):
        raise TypeError(
            f"{name} changes arrays in place, which those of {describe_library(X)} do not allow: give X as "
            "a NumPy array, or of PyTorch or CuPy."
        )
    if is_dispatched(X) and not has_double_precision(X):
        raise TypeError(
            f"{name} works in double precision, which {describe_library(X)} does not have: move X to "
            "another device, or give it as a NumPy array."
        )
    if is_device_array(X) and not is_dispatched(X) and is_on_accelerator(X):
        raise TypeError(
            f"X is an array of {describe_library(X)}. To have the work done there, set the environment "
            "variable SCIPY_ARRAY_API=1 before the first import of SciPy and call "
            "sklearn.set_config(array_api_dispatch=True); or give X as a NumPy array."
        )


def refuse_conversion(X: Any) -> None:
    """Refuse integers, half precision and the like that do not fit into memory as doubles."""
    if isinstance(X, np.ndarray) and X.dtype not in (np.float64, np.float32):
        refuse_beyond_memory(
            8.0 * X.size,
            f"X of {X.shape} {X.dtype} in double precision",
            "Give a part of the samples or of the features, or X in single precision.",
        )


def float_types(X: Any) -> list[Any]:
    """The types that are taken as they are; others become the first."""
    xp = array_namespace(X) if is_dispatched(X) else np
    return [xp.float64, xp.float32]


def limits(X: Array) -> tuple[Array, Array]:
    """The least and the largest value of each feature (d,)."""
    xp = array_namespace(X)
    return xp.min(X, axis=0), xp.max(X, axis=0)


def refuse_identical(low: Array, high: Array) -> None:
    if bool(array_namespace(low).all(low == high)):
        raise ValueError("All samples of X are identical, so nothing can be learnt from them.")
