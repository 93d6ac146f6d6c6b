"""Checks of device arrays: arrays of PyTorch and CuPy, with scikit-learn's array API dispatch."""

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import validate_data

from mpda._lib.array_types import Array
from mpda._lib.arrays import (
    array_namespace,
    describe_library,
    detach,
    has_double_precision,
    is_complex,
    is_device_array,
    is_mutable,
    is_on_accelerator,
)


def is_dispatched(X: Any) -> bool:
    """Return True if X is a device array and scikit-learn's array API dispatch is on."""
    if isinstance(X, np.ndarray) or not get_config()["array_api_dispatch"]:
        return False
    return is_device_array(X)


def validate_device_array(
    estimator: Any, X: Any, devices: bool, reset: bool, n_samples: int
) -> Array:
    """Check a device array (n_samples, n_features) and return it without its gradient."""
    name, library = type(estimator).__name__, describe_library(X)
    if not devices:
        raise TypeError(
            f"{name} works on NumPy arrays, and X is an array of {library}. MPDA, PMPDA, LFDA and "
            f"GramPCA compute on device arrays; for {name} give X as a NumPy array."
        )
    if is_complex(X):
        raise ValueError(f"Complex data not supported: X is of {X.dtype}.")
    if not is_mutable(X):
        raise TypeError(
            f"{name} changes arrays in place, which {library} does not allow: give X as a NumPy "
            "array, a PyTorch tensor or a CuPy array."
        )
    if not has_double_precision(X):
        raise TypeError(
            f"{name} computes in double precision, which {library} does not have: move X to "
            "another device, or give it as a NumPy array."
        )
    xp = array_namespace(X)
    return validate_data(
        estimator,
        detach(X),
        dtype=[xp.float64, xp.float32],
        reset=reset,
        ensure_min_samples=n_samples,
    )


def refuse_accelerator(X: Any) -> None:
    """Raise an error if X lies on an accelerator and array API dispatch is off."""
    if is_device_array(X) and not is_dispatched(X) and is_on_accelerator(X):
        raise TypeError(
            f"X is an array of {describe_library(X)}. To compute there, set the environment "
            "variable SCIPY_ARRAY_API=1 before the first import of SciPy and call "
            "sklearn.set_config(array_api_dispatch=True); or give X as a NumPy array."
        )
