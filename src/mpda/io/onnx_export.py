"""Export a fitted model as an ONNX graph of a few nodes.

The graph computes (x - mean) W' + offset, scales it to length 1 if the model does, and adds the
label of the nearest training sample on request. It is built by hand with the ``onnx`` package,
which is an optional dependency (``mpda[onnx]``).
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
from mpda.io.exported_classifier import check_single_inputs, find_classifier, plain_labels
from mpda.io.model_classes import ESTIMATORS, find_path

# Versions of ONNX 1.8 (2020), the oldest that have all operators: onnxruntime reads them from 1.6.
_OPSET, _IR_VERSION = 13, 7
# Graphs in the textual syntax of ONNX. ``inside`` and ``outside`` are the types of the computation
# and of input and output: 11 for double, 1 for float.
_MAP_NODES = """
        input = Cast<to = {inside}>(X)
{imputation}        centred = Sub({complete}, mean)
        projected = MatMul(centred, matrix)
        {sum} = Add(projected, offset)
{scaling}        transformed = Cast<to = {outside}>(reduced)
"""
_IMPUTATION_NODES = """        is_missing = IsNaN(input)
        complete = Where(is_missing, fill_values, input)
"""
# Divided by the largest entry first: squares of small numbers vanish in single precision.
_SCALING_NODES = """        magnitudes = Abs(sum)
        largest = ReduceMax<axes = [1], keepdims = 1>(magnitudes)
        divisor = Max(largest, tiny)
        scaled = Div(sum, divisor)
        length = ReduceL2<axes = [1], keepdims = 1>(scaled)
        positive = Max(length, tiny)
        reduced = Div(scaled, positive)
"""
_NEIGHBOR_NODES = """
        shifted = Sub(reduced, centre)
        products = MatMul(shifted, samples)
        distances = Add(products, squares)
        nearest = ArgMin<axis = 1, keepdims = 0>(distances)
        code = Gather<axis = 0>(codes, nearest)
        label = Gather<axis = 0>(classes, code)
"""
# Types of input and output, and of the computation.
_PRECISIONS = {"mixed": ("float", "double"), "single": ("float", "float")}
_PRECISIONS["double"] = ("double", "double")
_TYPE_CODES = {"float": 1, "double": 11}
# Type names of labels by the kind of their NumPy dtype.
_ONNX_TYPES = {"b": "bool", "i": "int64", "f": "double", "O": "string"}


def export_onnx(
    model: Any, path: str | os.PathLike[str], *, neighbors: bool = False, precision: str = "mixed"
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
    precision : {"mixed", "double", "single"}, default="mixed"
        "mixed": input and output are float32, the computation is in double precision. "double":
        input and output are float64. "single": everything is float32, for runtimes without double
        precision.

    Returns
    -------
    Path
        The file. Its graph has the input "X" (n, n_features), the output "transformed"
        (n, n_components) and, with ``neighbors``, the output "label" (n,) of int64, bool, double or
        string.

    Notes
    -----
    With "mixed", only input and output are rounded to float32, about 1e-7 of each number. With
    "single" products are rounded too: about 1e-7 of the sum of |matrix| |x - mean|, which is
    more than 1e-5 of the result where features nearly cancel. A mean that is large relative to
    the spread of the samples costs nothing: its rounding error is corrected by an offset.
    Models without a mean (NeighborhoodComponentsAnalysis, LinearDiscriminantAnalysis with
    solver="eigen") multiply large values as they are.

    Distances are compared as |b|^2 - 2 a'b with the training samples b centred. In double precision
    this resolves differences of 1e-15 of the largest squared distance, in single precision 1e-6.
    The first of equally near training samples counts. The graph forms a matrix of samples by
    training samples, so pass a few thousand samples at a time.

    A SimpleImputer becomes two nodes: the graph then accepts nan. Without one, "transformed" has
    nan where a sample has nan, and the "label" of this sample means nothing.
    """
    from mpda._lib.validation import check_option

    outside, inside = _PRECISIONS[check_option("precision", precision, tuple(_PRECISIONS))]
    linear = affine_map(model)
    if outside == "float":
        check_single_inputs(model, linear)
    classifier = find_classifier(model) if neighbors else None
    try:
        import onnx
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'mpda[onnx]'") from error
    dtype = np.dtype(np.float64 if inside == "double" else np.float32)
    codes = {"inside": _TYPE_CODES[inside], "outside": _TYPE_CODES[outside]}
    texts = {"imputation": "", "complete": "input", "sum": "reduced", "scaling": ""}
    arrays = _map_arrays(linear, dtype)
    if linear.fill_values is not None:
        texts |= {"imputation": _IMPUTATION_NODES, "complete": "complete"}
        arrays["fill_values"] = linear.fill_values.astype(dtype)
    if linear.unit_length:
        texts |= {"sum": "sum", "scaling": _SCALING_NODES}
        # A vector of zeros stays as it is.
        arrays["tiny"] = np.array(np.finfo(str(dtype)).tiny, dtype=dtype)
    nodes = _MAP_NODES.format(**texts, **codes)
    n_components, n_features = linear.matrix.shape
    outputs = f"{outside}[n, {n_components}] transformed"
    if classifier is not None:
        nodes += _NEIGHBOR_NODES
        arrays |= _neighbor_arrays(classifier, dtype)
        outputs += f", {_ONNX_TYPES[arrays['classes'].dtype.kind]}[n] label"
    header = f'ir_version: {_IR_VERSION}, opset_import: ["": {_OPSET}], producer_name: "mpda"'
    proto = onnx.parser.parse_model(
        f'<{header}, producer_version: "{__version__}">'
        f"mpda ({outside}[n, {n_features}] X) => ({outputs}) {{ {nodes} }}"
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
    centre, classes = samples.mean(axis=0), plain_labels(classifier.classes_)
    # Rounded before the squares are computed: |b|^2 must belong to the b of the graph.
    samples = (samples - centre).astype(dtype).astype(np.float64)
    return {
        "centre": centre.astype(dtype),
        "samples": np.ascontiguousarray(-2.0 * samples.T, dtype=dtype),
        "squares": (samples**2).sum(axis=1).astype(dtype),
        "codes": np.asarray(classifier._y, dtype=np.int64),
        "classes": classes.astype(object) if classes.dtype.kind == "U" else classes,
    }
