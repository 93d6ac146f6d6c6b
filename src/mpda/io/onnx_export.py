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
from mpda._lib.array_types import Array, Floats
from mpda._lib.arrays import to_host
from mpda._lib.atomic_write import write_atomically
from mpda.io.affine_maps import AffineMap, affine_map
from mpda.io.model_classes import ESTIMATORS, find_path

# Versions of ONNX 1.8 (2020), the oldest that have all operators: onnxruntime reads them from 1.6.
_OPSET, _IR_VERSION = 13, 7
# Graphs in the textual syntax of ONNX. ``inside`` and ``outside`` are the types of the computation
# and of input and output: 11 for double, 1 for float.
_MAP_NODES = """
        input = Cast<to = {inside}>(X)
{imputation}        centred = Sub({complete}, mean)
        projected = MatMul(centred, matrix)
        reduced = Add(projected, offset)
        transformed = Cast<to = {outside}>(reduced)
"""
_IMPUTATION_NODES = """        is_missing = IsNaN(input)
        complete = Where(is_missing, medians, input)
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
# Largest share of training samples whose label rounding may change; of ties it changes some.
_CHANGED_SHARE = 1e-3
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

    A SimpleImputer as the first step of a pipeline becomes two nodes: the graph then accepts nan.
    """
    from mpda._lib.validation import check_option

    outside, inside = _PRECISIONS[check_option("precision", precision, tuple(_PRECISIONS))]
    linear = affine_map(model)
    if outside == "float":
        _check_single_inputs(model, linear)
    classifier = _find_classifier(model) if neighbors else None
    try:
        import onnx
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'mpda[onnx]'") from error
    dtype = np.dtype(np.float64 if inside == "double" else np.float32)
    codes = {"inside": _TYPE_CODES[inside], "outside": _TYPE_CODES[outside]}
    medians = _find_medians(model)
    texts = {"imputation": "", "complete": "input"}
    if medians is not None:
        texts = {"imputation": _IMPUTATION_NODES, "complete": "complete"}
    nodes, arrays = _MAP_NODES.format(**texts, **codes), _map_arrays(linear, dtype)
    if medians is not None:
        arrays["medians"] = medians.astype(dtype)
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


def _find_medians(model: Any) -> Floats | None:
    """Return the values (n_features,) that replace missing ones; None without an imputer."""
    from sklearn.impute import SimpleImputer

    first = model.steps[0][1] if hasattr(model, "steps") else None
    # The median of a feature that the imputer leaves out is nan; its weights are 0.
    return np.nan_to_num(first.statistics_) if isinstance(first, SimpleImputer) else None


def _check_single_inputs(model: Any, linear: AffineMap) -> None:
    """Refuse float32 for inputs where it changes the labels of the training samples.

    A model keeps its training samples mapped only. Of all samples with the same map those nearest
    to the mean are tried, with features scaled by their weights, so that every feature varies.
    Where a model keeps none, nothing is known of its samples, and nothing is checked.
    """
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    classifier = getattr(last, "classifier_", last)
    if not hasattr(classifier, "_fit_X") or not hasattr(classifier, "_y"):
        return
    Z, codes = np.asarray(classifier._fit_X, dtype=np.float64), np.asarray(classifier._y)
    if codes.ndim > 1:  # several labels a sample, which the graph does not have
        return
    weights = np.linalg.norm(linear.matrix, axis=0)
    weights[weights == 0.0] = 1.0
    scaled = np.linalg.lstsq(linear.matrix / weights, (Z - linear.offset).T, rcond=None)[0].T
    X = linear.mean + scaled / weights
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the range of float32
        errors = X.astype(np.float32) - X
        rounded = Z + errors @ linear.matrix.T
    is_finite = np.isfinite(rounded).all(axis=1)
    nearest = np.full(len(Z), -1)
    if is_finite.any():
        found = classifier.kneighbors(rounded[is_finite], n_neighbors=1, return_distance=False)
        nearest[is_finite] = found[:, 0]
    is_changed = (nearest < 0) | (codes[nearest] != codes)
    if is_changed.mean() <= _CHANGED_SHARE:
        return
    shifts = np.abs(errors).mean(axis=0) * weights
    shifts = np.where(np.isfinite(shifts), shifts, np.inf)
    columns = np.flatnonzero(shifts >= 0.1 * shifts.max())
    names = getattr(model, "feature_names_in_", None)
    named = [f"column {i}" if names is None else repr(str(names[i])) for i in columns[:5]]
    raise ValueError(
        f"float32 does not hold {', '.join(named)} precisely enough: it changes the labels of "
        f"{100.0 * is_changed.mean():.1f} % of the training samples. Subtract a constant from "
        'these columns before the fit, or export with precision="double" (--precision double).'
    )


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
