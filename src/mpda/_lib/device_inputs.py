"""Checks of device arrays: arrays of PyTorch and CuPy, with scikit-learn's array API dispatch.

A fit computes on the device of X if dispatch is on and the estimator supports it. Other arrays on
an accelerator are refused with advice, because a silent copy to the host would hide a large cost.
"""

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mpda._lib import arrays
from mpda._lib.array_types import Array


def is_dispatched(X: Any) -> bool:
    """Return True if X is a device array and scikit-learn's array API dispatch is on."""
    if isinstance(X, np.ndarray) or not get_config()["array_api_dispatch"]:
        return False
    return arrays.is_device_array(X)


def validate_device_array(
    estimator: BaseEstimator, X: Any, devices: bool, reset: bool, n_samples: int
) -> Array:
    """Check a device array (n_samples, n_features) and return it without its gradient."""
    name, library = type(estimator).__name__, arrays.describe_library(X)
    if not devices:
        raise TypeError(
            f"{name} works on NumPy arrays, and X is an array of {library}. MPDA, PMPDA, LFDA, "
            "GramPCA, WithinClassWhitening and NeighborhoodRefinement compute on device arrays; "
            f"for {name} give X as a NumPy array."
        )
    if arrays.is_complex(X):
        raise ValueError(f"Complex data not supported: X is of {X.dtype}.")
    if not arrays.is_mutable(X):
        raise TypeError(
            f"{name} changes arrays in place, which {library} does not allow: give X as a NumPy "
            "array, a PyTorch tensor or a CuPy array."
        )
    # Scatter matrices of float32 samples need more than their seven digits.
    if not arrays.has_double_precision(X):
        raise TypeError(
            f"{name} computes in double precision, which {library} does not have: move X to "
            "another device, or give it as a NumPy array."
        )
    xp = arrays.array_namespace(X)
    return validate_data(
        estimator,
        arrays.detach(X),
        dtype=[xp.float64, xp.float32],
        reset=reset,
        ensure_min_samples=n_samples,
    )


def refuse_accelerator(X: Any) -> None:
    """Raise an error if X lies on an accelerator and array API dispatch is off."""
    # Arrays on the host go on: without dispatch scikit-learn converts them to NumPy.
    if arrays.is_device_array(X) and not is_dispatched(X) and arrays.is_on_accelerator(X):
        raise TypeError(
            f"X is an array of {arrays.describe_library(X)}. To compute there, set the environment "
            "variable SCIPY_ARRAY_API=1 before the first import of SciPy and call "
            "sklearn.set_config(array_api_dispatch=True); or give X as a NumPy array."
        )
