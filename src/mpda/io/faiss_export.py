"""Export the map of a fitted model for faiss, a library for vector search.

faiss computes A x + b in single precision. The package ``faiss`` is an optional dependency
(``mpda[faiss]``).
"""

import os
from pathlib import Path
from typing import Any

from mpda._lib.atomic_write import write_atomically
from mpda.io.single_precision import round_to_single


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
    linear = round_to_single(model, "faiss")
    try:
        import faiss
    except ImportError as error:
        raise ImportError("export to faiss needs faiss: pip install 'mpda[faiss]'") from error
    n_components, n_features = linear.matrix.shape
    transform = faiss.LinearTransform(n_features, n_components, True)
    faiss.copy_array_to_vector(linear.matrix.ravel(), transform.A)
    faiss.copy_array_to_vector(linear.bias, transform.b)
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
