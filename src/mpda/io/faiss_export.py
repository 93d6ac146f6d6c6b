"""Export the map of a fitted model for faiss, a library for vector search.

faiss computes A x + b in single precision. The package ``faiss`` is an optional dependency
(``mpda[faiss]``).
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.atomic_write import write_atomically
from mpda.io.affine_maps import affine_map
from mpda.io.exported_classifier import check_single_inputs


def export_faiss(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write the map of a fitted model as a file of faiss.

    Parameters
    ----------
    model : estimator
        Fitted model, as in :func:`affine_map`.
    path : str or path
        Target file.

    Returns
    -------
    Path
        The file. ``faiss.read_VectorTransform`` reads it as a ``LinearTransform``. If the model
        scales to length 1, ``faiss.read_index`` reads it as an empty index by inner product, with
        this transform and a ``NormalizationTransform`` before it: faiss has no single transform
        for both.

    Raises
    ------
    TypeError
        If the model replaces missing values, which faiss does not.
    ValueError
        If the model keeps training samples, and float32 changes their labels.

    Notes
    -----
    Each result is rounded by about 1e-7 of the sum of |A| |x|. Subtract large means before the fit.
    """
    linear = affine_map(model)
    if linear.fill_values is not None:
        raise TypeError(
            "faiss does not replace missing values (nan), but the model does (SimpleImputer). "
            "Export to ONNX or NumPy (export_onnx, export_numpy), or replace them before the fit."
        )
    check_single_inputs(model, linear)
    try:
        import faiss
    except ImportError as error:
        raise ImportError("export to faiss needs faiss: pip install 'mpda[faiss]'") from error
    n_components, n_features = linear.matrix.shape
    matrix = linear.matrix.astype(np.float32)
    # With the rounded matrix: the mean is then mapped to the offset, whatever its length.
    bias = (linear.offset - matrix @ linear.mean).astype(np.float32)
    transform = faiss.LinearTransform(n_features, n_components, True)
    faiss.copy_array_to_vector(matrix.ravel(), transform.A)
    faiss.copy_array_to_vector(bias, transform.b)
    transform.is_trained = True
    # Written to memory first: faiss reports a full disk as a RuntimeError.
    writer: Any = faiss.VectorIOWriter()
    if linear.unit_length:
        normalization = faiss.NormalizationTransform(n_components)
        index = faiss.IndexPreTransform(normalization, faiss.IndexFlatIP(n_components))
        index.prepend_transform(transform)
        faiss.write_index(index, writer)
    else:
        faiss.write_VectorTransform(transform, writer)
    return write_atomically(Path(path), faiss.vector_to_array(writer.data).tobytes())
