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
# A NumPy array, or a device array (PyTorch, CuPy) of the same shape. Device arrays have the part of
# NumPy's interface that the array API standard defines; type checkers see NumPy's.
Array: TypeAlias = NDArray[Any]
