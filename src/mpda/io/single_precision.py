"""The affine map of a model as ``A x + b`` in single precision, which other programs compute.

Used by the exports to faiss and to sentence-transformers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda.io.affine_maps import affine_map
from mpda.io.exported_classifier import check_single_inputs


@dataclass(frozen=True)
class SingleMap:
    """Affine map ``y = A x + b`` in single precision.

    Attributes
    ----------
    matrix : ndarray of shape (n_components, n_features), dtype float32
        The matrix A.
    bias : ndarray of shape (n_components,), dtype float32
        The constant b.
    unit_length : bool
        True if y is then scaled to length 1.
    """

    matrix: Array
    bias: Array
    unit_length: bool


def round_to_single(model: Any, program: str) -> SingleMap:
    """Return the map of a fitted model in single precision.

    Parameters
    ----------
    model : estimator
        Fitted model, as in `affine_map`.
    program : str
        Program that will compute the map, for messages.

    Returns
    -------
    SingleMap
        The rounded map.

    Raises
    ------
    TypeError
        If the model is not linear, or replaces missing values.
    ValueError
        If the model keeps training samples, and float32 changes their labels.
    """
    linear = affine_map(model)
    if linear.fill_values is not None:
        raise TypeError(
            f"{program} does not replace missing values (nan), but the model does (SimpleImputer). "
            "Export to ONNX or NumPy (export_onnx, export_numpy), or replace them before the fit."
        )
    check_single_inputs(model, linear)
    matrix = linear.matrix.astype(np.float32)
    # With the rounded matrix: the mean is then mapped to the offset, whatever its length.
    bias = (linear.offset - matrix @ linear.mean).astype(np.float32)
    return SingleMap(matrix, bias, linear.unit_length)
