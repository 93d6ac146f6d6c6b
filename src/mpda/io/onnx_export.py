"""Export a fitted model as an ONNX graph of a few nodes.

The graph computes (x - mean) W' + offset and, on request, the label of the nearest training sample.
It is built by hand with the ``onnx`` package, which is an optional dependency (``mpda[onnx]``).
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from mpda import __version__
from mpda._lib.array_types import Array
from mpda._lib.arrays import to_host
from mpda._lib.atomic_write import write_atomically
from mpda.io.affine_maps import AffineMap, affine_map
from mpda.io.model_classes import ESTIMATORS, find_path

# Versions of ONNX 1.8 (2020), the oldest that have all operators: onnxruntime reads them from 1.6.
_OPSET, _IR_VERSION = 13, 7
# Graphs in the textual syntax of ONNX. ``dtype`` is 11 for double, 1 for float.
_MAP_NODES = """
        input = Cast<to = {dtype}>(X)
        centred = Sub(input, mean)
        projected = MatMul(centred, matrix)
        reduced = Add(projected, offset)
        transformed = Cast<to = 1>(reduced)
"""
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
    model: Any, path: str | os.PathLike[str], *, neighbors: bool = False, precision: str = "double"
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
    from mpda._lib.validation import check_option

    is_double = check_option("precision", precision, ("double", "single")) == "double"
    linear = affine_map(model)
    classifier = _find_classifier(model) if neighbors else None
    try:
        import onnx
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'mpda[onnx]'") from error
    dtype = np.dtype(np.float64 if is_double else np.float32)
    nodes, arrays = _MAP_NODES.format(dtype=11 if is_double else 1), _map_arrays(linear, dtype)
    n_components, n_features = linear.matrix.shape
    outputs = f"float[n, {n_components}] transformed"
    if classifier is not None:
        nodes += _NEIGHBOR_NODES
        arrays |= _neighbor_arrays(classifier, dtype)
        outputs += f", {_ONNX_TYPES[arrays['classes'].dtype.kind]}[n] label"
    header = f'ir_version: {_IR_VERSION}, opset_import: ["": {_OPSET}], producer_name: "mpda"'
    proto = onnx.parser.parse_model(
        f'<{header}, producer_version: "{__version__}">'
        f"mpda (float[n, {n_features}] X) => ({outputs}) {{ {nodes} }}"
    )
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    proto.graph.initializer.extend(tensors)
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    path_of_class = find_path(type(model), ESTIMATORS) or type(model).__qualname__
    properties = {"class": path_of_class, "feature_names": json.dumps(names, ensure_ascii=False)}
    onnx.helper.set_model_props(proto, properties)
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
    # Rounded before the squares are computed: |b|^2 must belong to the b of the graph.
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
    options = ("n_neighbors", "effective_metric_", "outputs_2d_")
    is_nearest = isinstance(classifier, KNeighborsClassifier) and classifier is not model
    if not is_nearest or [getattr(classifier, n) for n in options] != [1, "euclidean", False]:
        raise TypeError(
            "neighbors=True needs a DiscriminantSearchCV, or a Pipeline that ends in a "
            "KNeighborsClassifier with one neighbour, Euclidean distances and one label for a "
            f"sample, got {classifier!r:.200}: fit make_pipeline(.., KNeighborsClassifier(1))."
        )
    return classifier


def _onnx_labels(classes: Array) -> Array:
    """Return the labels (n_classes,) in a type of ONNX: bool, int64, double, or str objects."""
    values = np.array(to_host(classes).tolist())
    if values.dtype.kind not in "bifU":
        raise TypeError(
            "labels must be strings, booleans or numbers of at most 64 bits to be exported, got "
            f"{values[:1].tolist()!r} and others of {classes.dtype}."
        )
    return values.astype(object) if values.dtype.kind == "U" else values
