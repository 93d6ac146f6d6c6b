"""Whether an answer can be believed: what a fit measured of itself, and the warning about it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.arrays import array_namespace, astype
from mpda.exceptions import NumericalWarning

# Rounding, about 1e-16 of a matrix, grows by its condition number: four digits are left.
_LARGEST_CONDITION = 1e12
_LARGEST_RESIDUAL = 1e-6


def warn_of_trouble(residual: float, condition: float, stacklevel: int = 4) -> None:
    """Say if few digits are right, on the line that called fit; called by what fit calls."""
    if condition > _LARGEST_CONDITION:
        trouble = (
            f"The form that is to be small is nearly singular (condition number {condition:.1g}), "
            "so that few digits of the components are right. A larger alpha (0.1 in relative units "
            "is usual) or fewer features, for example by PCA, avoids this."
        )
    elif not residual <= _LARGEST_RESIDUAL:
        trouble = (
            f"Some components solve their eigenproblem only up to {residual:.1g}: the last of them "
            "are close to rounding beside the first. A smaller n_components or a larger alpha "
            "avoids this."
        )
    else:
        return
    warnings.warn(trouble, NumericalWarning, stacklevel=stacklevel)


def narrowed(components: Array, dtype: Any) -> Array:
    """The components in the precision of the samples; refused if they do not fit in."""
    xp = array_namespace(components)
    largest = float(xp.max(xp.abs(components)))
    if largest > float(xp.finfo(dtype).max):
        unit = 2 ** int(np.log2(largest))
        raise ValueError(
            f"The components would be as large as {largest:.1g}, more than {dtype} can hold: the "
            f"samples of X hardly vary. Give X in double precision, or multiply it by {unit:.1g}."
        )
    return astype(components, dtype)
