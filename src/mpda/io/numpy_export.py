"""Export a fitted model as one .npz file that needs only NumPy to be used.

docs/guide/vector-search.md has the twenty lines that read it.
"""

import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.arrays import to_host
from mpda._lib.atomic_write import write_atomically
from mpda.io.affine_maps import affine_map
from mpda.io.exported_classifier import find_classifier, plain_labels


def export_numpy(model: Any, path: str | os.PathLike[str], *, neighbors: bool = False) -> Path:
    """Write the map of a fitted model, and optionally its 1-NN classifier, as a .npz file.

    Parameters
    ----------
    model : estimator
        Fitted model, as in :func:`affine_map`. Scalers are part of the matrix and the mean.
    path : str or path
        Target file; must end in ".npz".
    neighbors : bool, default=False
        Add the mapped training samples and their labels. The model must then be one that
        :func:`export_onnx` accepts with ``neighbors``.

    Returns
    -------
    Path
        The file. It has no pickled objects and these arrays:

        - ``matrix`` (n_components, n_features), ``mean`` (n_features,) and ``offset``
          (n_components,) in double precision; the map is ``(x - mean) @ matrix.T + offset``;
        - ``unit_length``, True if mapped samples are then scaled to length 1;
        - ``fill_values`` (n_features,), which replace nan before the map, if the model has a
          SimpleImputer;
        - ``feature_names`` (n_features,), if the model has names;
        - with ``neighbors`` the mapped training samples ``samples`` (n_samples, n_components) in
          the precision of the model, the labels ``classes`` (n_classes,), and ``codes``
          (n_samples,), the index of each sample's label.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"path must end in .npz, got {str(path)!r}.")
    linear = affine_map(model)
    fields = {name: value for name, value in vars(linear).items() if value is not None}
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in fields.items()}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = np.array([str(name) for name in model.feature_names_in_])
    if neighbors:
        classifier = find_classifier(model)
        arrays["samples"] = to_host(classifier._fit_X)
        arrays["codes"] = np.asarray(classifier._y, dtype=np.int64)
        arrays["classes"] = plain_labels(classifier.classes_)
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    return write_atomically(path, buffer.getvalue())
