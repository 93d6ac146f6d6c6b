"""Export a fitted model as an ONNX graph of a few nodes.

The graph computes (x - mean) W' + offset and, on request, the label of the nearest training sample.
It is built by hand with the ``onnx`` package, which is an optional dependency (``mpda[onnx]``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from mpda import __version__
from mpda._lib.array_types import Array
from mpda._lib.arrays import to_host
from mpda._lib.atomic_write import write_atomically
from mpda._lib.validation import check_option
from mpda.io.affine_maps import AffineMap, affine_map
from mpda.io.model_classes import ESTIMATORS, find_path

# Versions of ONNX 1.8 (2020), the oldest that have all operators: onnxruntime reads them from 1.6.
_OPSET, _IR_VERSION = 13, 7
# Protocol buffers hold at most 2 GiB; one MiB is left for everything except arrays.
_LARGEST_FILE = 2**31 - 2**20
# Graphs in the textual syntax of ONNX. Types 1 and 11 are float and double.
_MAP_NODES = {
    "double": """
        wide = Cast<to = 11>(X)
        centred = Sub(wide, mean)
        projected = MatMul(centred, matrix)
        reduced = Add(projected, offset)
        transformed = Cast<to = 1>(reduced)
    """,
    "single": """
        centred = Sub(X, mean)
        projected = MatMul(centred, matrix)
        reduced = Add(projected, offset)
        transformed = Identity(reduced)
    """,
}
_NEIGHBOR_NODES = """
        shifted = Sub(reduced, centre)
        products = MatMul(shifted, samples)
        distances = Add(products, squares)
        nearest = ArgMin<axis = 1, keepdims = 0>(distances)
        code = Gather<axis = 0>(codes, nearest)
        label = Gather<axis = 0>(classes, code)
"""
# Type names of labels by the kind of their NumPy dtype.
_ONNX_TYPES = {"b": "bool", "i": "int64", "f": "double", "O": "string"}


def export_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    neighbors: bool = False,
    precision: str = "double",
) -> Path:
    """Write the map of a fitted model, and optionally its 1-NN classifier, as an ONNX graph.

    Parameters
    ----------
    model : estimator
        Fitted model, as in :func:`affine_map`.
    path : str or path
        Target file.
    neighbors : bool, default=False
        Add the label of the nearest training sample in the reduced space. The model must then be a
        DiscriminantSearchCV, or a Pipeline that ends in one or in a KNeighborsClassifier with one
        neighbour and Euclidean distances.
    precision : {"double", "single"}, default="double"
        Precision of the computation. Input and output are float32 in both cases.

    Returns
    -------
    Path
        The file. Its graph has the input "X" (n, n_features), the output "transformed"
        (n, n_components) and, with ``neighbors``, the output "label" (n,) of int64, bool, double or
        string.

    Notes
    -----
    With "double", only input and output are rounded to float32, about 1e-7 of each number. With
    "single", for runtimes without double precision, products are rounded too: about 1e-7 of the sum
    of |matrix| |x - mean|, which is more than 1e-5 of the result where features nearly cancel. A
    mean that is large relative to the spread of the samples costs nothing: its rounding error is
    corrected by an offset. Models without a mean (NeighborhoodComponentsAnalysis,
    LinearDiscriminantAnalysis with solver="eigen") multiply large values as they are.

    Distances are compared as |b|^2 - 2 a'b with the training samples b centred. In double precision
    this resolves differences of 1e-15 of the largest squared distance, in single precision 1e-6.
    The first of equally near training samples counts. The graph forms a matrix of samples by
    training samples, so pass a few thousand samples at a time.
    """
    is_double = check_option("precision", precision, ("double", "single")) == "double"
    linear = affine_map(model)
    classifier = _find_classifier(model) if neighbors else None
    try:
        import onnx
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'mpda[onnx]'") from error
    dtype = np.dtype(np.float64 if is_double else np.float32)
    nodes, arrays = _MAP_NODES[precision], _map_arrays(linear, dtype)
    n_components, n_features = linear.matrix.shape
    outputs = f"float[n, {n_components}] transformed"
    if classifier is not None:
        nodes += _NEIGHBOR_NODES
        arrays |= _neighbor_arrays(classifier, dtype)
        outputs += f", {_ONNX_TYPES[arrays['classes'].dtype.kind]}[n] label"
    size = sum(array.nbytes for array in arrays.values())
    if size > _LARGEST_FILE:
        raise ValueError(
            f"An ONNX file holds at most 2 GB, and the arrays of this model take {size / 1e9:.1f} "
            "GB: leave out neighbors, or fit to fewer samples."
        )
    header = f'ir_version: {_IR_VERSION}, opset_import: ["": {_OPSET}], producer_name: "mpda"'
    proto = onnx.parser.parse_model(
        f'<{header}, producer_version: "{__version__}">'
        f"mpda (float[n, {n_features}] X) => ({outputs}) {{ {nodes} }}"
    )
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    proto.graph.initializer.extend(tensors)
    onnx.helper.set_model_props(proto, _properties(model))
    onnx.checker.check_model(proto, full_check=True)
    return write_atomically(Path(path), proto.SerializeToString(deterministic=True))


def _map_arrays(linear: AffineMap, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Return the arrays of the map; the offset corrects the rounding of the mean."""
    mean = linear.mean.astype(dtype)
    offset = linear.offset + (mean - linear.mean) @ linear.matrix.T
    matrix = np.ascontiguousarray(linear.matrix.T, dtype=dtype)
    return {"mean": mean, "matrix": matrix, "offset": offset.astype(dtype)}


def _neighbor_arrays(classifier: Any, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Return the centred training samples, as -2 b' and |b|^2, and their labels."""
    samples = to_host(classifier._fit_X).astype(np.float64)
    centre = samples.mean(axis=0)
    samples = (samples - centre).astype(dtype).astype(np.float64)
    return {
        "centre": centre.astype(dtype),
        "samples": np.ascontiguousarray(-2.0 * samples.T, dtype=dtype),
        "squares": (samples**2).sum(axis=1).astype(dtype),
        "codes": np.asarray(classifier._y, dtype=np.int64),
        "classes": _onnx_labels(classifier.classes_),
    }


def _find_classifier(model: Any) -> Any:
    """Return the nearest-neighbour classifier of a model, if it can be exported."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline

    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    classifier = getattr(last, "classifier_", last)
    if classifier is model or not isinstance(classifier, KNeighborsClassifier):
        raise TypeError(
            "neighbors=True needs a DiscriminantSearchCV, or a Pipeline that ends in a "
            f"KNeighborsClassifier, got {type(model).__name__}: append one with "
            "make_pipeline(.., KNeighborsClassifier(1)) and fit."
        )
    if classifier.n_neighbors != 1 or classifier.effective_metric_ != "euclidean":
        raise ValueError(
            "neighbors=True exports one neighbour by Euclidean distance, got "
            f"n_neighbors={classifier.n_neighbors} and metric={classifier.effective_metric_!r}: "
            "fit with KNeighborsClassifier(1), or export the map alone."
        )
    if classifier.outputs_2d_:
        raise ValueError("neighbors=True exports one label for a sample, but y had columns.")
    return classifier


def _onnx_labels(classes: Array) -> Array:
    """Return the labels (n_classes,) in a type of ONNX: bool, int64, double, or str objects."""
    values = to_host(classes)
    values = np.array(values.tolist()) if values.dtype == object else values
    types = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64, "U": object}
    if values.dtype.kind in types and (values.dtype != np.uint64 or values.max() < 2**63):
        return values.astype(types[values.dtype.kind])
    raise TypeError(
        "labels must be strings, truth values or numbers of at most 64 bits to be exported, got "
        f"{values[:1].tolist()!r} and others of {classes.dtype}."
    )


def _properties(model: Any) -> dict[str, str]:
    kind = type(model)
    path = find_path(kind, ESTIMATORS) or f"{kind.__module__}:{kind.__qualname__}"
    properties = {"producer": "mpda", "version": __version__, "class": path}
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        properties["feature_names"] = json.dumps([str(name) for name in names], ensure_ascii=False)
    return properties
