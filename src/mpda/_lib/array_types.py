"""Names for the arrays that functions take and give."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
Bools: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = NDArray[Any]
# What users hand to estimators: arrays, data frames, lists; scikit-learn's validation reads them.
ArrayLike: TypeAlias = Any
# An array of NumPy, or of any library where a fit may be on another device.
Array: TypeAlias = Any
