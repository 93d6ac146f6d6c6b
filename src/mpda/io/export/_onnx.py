"""A fitted model as an ONNX graph of a few nodes, made by hand."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Floats
from mpda._lib.arrays import to_host
from mpda._lib.atomic_write import beside
from mpda._lib.validation import check_option
from mpda.io.export._affine import NEIGHBORS, PIPELINE, SEARCH, AffineMap, affine_map
from mpda.io.models._classes import ESTIMATORS, path_of

# Of ONNX 1.8 (2020), so that runtimes from onnxruntime 1.6 on take the file.
_OPSET, _IR_VERSION = 13, 7
_LARGEST_FILE = 2**31 - 2**20


def export_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    neighbors: bool = False,
    precision: str = "double",
) -> Path:
    """Write the map of a fitted model, and its 1-NN classifier if wanted, as an ONNX graph.

    Parameters
    ----------
    model : estimator
        As in :func:`affine_map`.
    path : str or path
    neighbors : bool, default=False
        Whether the graph also gives the label of the nearest training sample in the reduced space.
        The model must then be a DiscriminantSearchCV, or a Pipeline that ends in a
        KNeighborsClassifier with one neighbour and Euclidean distances.
    precision : {"double", "single"}, default="double"
        In which the graph computes; what goes in and comes out is float32 always.

    Returns
    -------
    Path
        The file. Its graph has the input "X" (n, d), the output "transformed" (n, r) and with
        ``neighbors`` the output "label" (n,) of int64, bool, double or string.

    Notes
    -----
    With "double", only the input and the output are rounded to float32, about 1e-7 of each number.
    With "single", for runtimes without double precision, products are rounded too: about 1e-7 of
    the sum of |matrix| |x - mean|, which is more than 1e-5 of the result where features nearly
    cancel. A mean that is large beside the spread of the samples costs nothing: what its own
    rounding changes is put right by an offset. But where a model takes off no mean
    (NeighborhoodComponentsAnalysis, LinearDiscriminantAnalysis with solver="eigen"), large values
    are multiplied as they are.

    Distances are compared as |b|^2 - 2 a'b with the training samples b centred. In double precision
    that tells distances apart that differ by 1e-15 of the largest squared distance, in single
    precision by 1e-6 of it. Of training samples that are equally near the first counts. The graph
    makes a table of samples by training samples, so give it some thousand samples at a time.
    """
    double = check_option("precision", precision, ("double", "single")) == "double"
    found = affine_map(model)
    graph = _Graph(np.dtype(np.float64 if double else np.float32))
    reduced = _add_map(graph, found)
    if neighbors:
        _add_neighbors(graph, _neighbors(model), reduced)
    path = Path(path)
    content = _serialized(graph, model, found)
    with beside(path) as made:
        made.write_bytes(content)
    return path


@dataclass
class _Graph:
    """The nodes of a graph in their order, as (operator, inputs, output, attributes), and arrays.

    dtype : the precision of what is computed
    label : of which type labels are, None where there are none
    """

    dtype: np.dtype[Any]
    nodes: list[tuple[str, list[str], str, dict[str, Any]]] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    label: np.dtype[Any] | None = None

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append((operator, inputs, output, attributes))
        return output

    def numbers(self, name: str, values: Floats) -> str:
        """Put in an array of numbers, in the precision of the graph."""
        self.arrays[name] = np.ascontiguousarray(values, dtype=self.dtype)
        return name


def _add_map(graph: _Graph, found: AffineMap) -> str:
    """Add the map; returns the name of what it makes, in the precision of the graph."""
    mean = found.mean.astype(graph.dtype)
    # What rounding the mean changes.
    offset = found.offset + (mean - found.mean) @ found.matrix.T
    double = graph.dtype == np.float64
    x = graph.add("Cast", ["X"], "wide", to=np.dtype(np.float64)) if double else "X"
    x = graph.add("Sub", [x, graph.numbers("mean", mean)], "centred")
    has_offset = bool(offset.any())
    name = "reduced" if double else "transformed"
    matrix = graph.numbers("matrix", found.matrix.T)
    mapped = graph.add("MatMul", [x, matrix], "turned" if has_offset else name)
    if has_offset:
        mapped = graph.add("Add", [mapped, graph.numbers("offset", offset)], name)
    if double:
        graph.add("Cast", [mapped], "transformed", to=np.dtype(np.float32))
    return mapped


def _add_neighbors(graph: _Graph, classifier: Any, reduced: str) -> None:
    """Add the label of the nearest of the samples that a classifier was fitted to."""
    samples = to_host(classifier._fit_X).astype(np.float64)
    centre = samples.mean(axis=0)
    samples = (samples - centre).astype(graph.dtype).astype(np.float64)
    labels = _label_values(classifier.classes_)
    graph.label = labels.dtype
    graph.arrays["codes"] = np.asarray(classifier._y, dtype=np.int64)
    graph.arrays["classes"] = labels
    graph.add("Sub", [reduced, graph.numbers("centre", centre)], "placed")
    graph.add("MatMul", ["placed", graph.numbers("samples", -2.0 * samples.T)], "products")
    graph.add("Add", ["products", graph.numbers("squares", (samples**2).sum(axis=1))], "distances")
    graph.add("ArgMin", ["distances"], "nearest", axis=1, keepdims=0)
    graph.add("Gather", ["codes", "nearest"], "code", axis=0)
    graph.add("Gather", ["classes", "code"], "label", axis=0)


def _neighbors(model: Any) -> Any:
    """The classifier by neighbours of a model, if it is one that can be exported."""
    path = path_of(type(model), ESTIMATORS)
    classifier = None
    if path == SEARCH:
        classifier = model.classifier_
    elif path == PIPELINE:
        classifier = model.steps[-1][1]
        if path_of(type(classifier), ESTIMATORS) == SEARCH:
            classifier = classifier.classifier_
    if classifier is None or path_of(type(classifier), ESTIMATORS) != NEIGHBORS:
        raise TypeError(
            "neighbors=True needs a DiscriminantSearchCV, or a Pipeline that ends in a "
            f"KNeighborsClassifier, got {type(model).__name__}: put one behind it with "
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


def _label_values(classes: Array) -> Array:
    """The labels (C,) in a type that ONNX has: bool, int64, double, or strings as objects."""
    values = to_host(classes)
    if values.dtype == object:
        values = np.array(values.tolist())
    if values.dtype.kind == "U":
        return values.astype(object)
    types = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
    if values.dtype.kind in types and (values.dtype != np.uint64 or values.max() < 2**63):
        return values.astype(types[values.dtype.kind])
    raise TypeError(
        f"labels must be strings, truth values or numbers of at most 64 bits to be exported, got "
        f"{values[:1].tolist()!r} and others of {classes.dtype}."
    )


def _serialized(graph: _Graph, model: Any, found: AffineMap) -> bytes:
    """The bytes of the file, checked by ONNX's own checker."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'mpda[onnx]'") from error
    from mpda import __version__

    size = sum(array.nbytes for array in graph.arrays.values())
    if size > _LARGEST_FILE:
        raise ValueError(
            f"An ONNX file holds at most 2 GB, and the arrays of this model are {size / 1e9:.1f} "
            "GB: leave neighbors out, or fit to fewer samples."
        )
    types = {
        np.dtype(np.float32): TensorProto.FLOAT,
        np.dtype(np.float64): TensorProto.DOUBLE,
        np.dtype(np.int64): TensorProto.INT64,
        np.dtype(np.bool_): TensorProto.BOOL,
        np.dtype(object): TensorProto.STRING,
    }
    nodes = [
        helper.make_node(
            operator,
            inputs,
            [output],
            name=output,
            **{k: types[v] if isinstance(v, np.dtype) else v for k, v in attributes.items()},
        )
        for operator, inputs, output, attributes in graph.nodes
    ]
    r, d = found.matrix.shape
    outputs = [helper.make_tensor_value_info("transformed", TensorProto.FLOAT, ["n", r])]
    if graph.label is not None:
        outputs.append(helper.make_tensor_value_info("label", types[graph.label], ["n"]))
    proto = helper.make_model(
        helper.make_graph(
            nodes,
            "mpda",
            [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", d])],
            outputs,
            [numpy_helper.from_array(array, name) for name, array in graph.arrays.items()],
        ),
        producer_name="mpda",
        producer_version=__version__,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    helper.set_model_props(proto, _properties(model, __version__))
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString(deterministic=True))


def _properties(model: Any, version: str) -> dict[str, str]:
    kind = type(model)
    path = path_of(kind, ESTIMATORS) or f"{kind.__module__}:{kind.__qualname__}"
    said = {"producer": "mpda", "version": version, "class": path}
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        said["feature_names"] = json.dumps([str(name) for name in names], ensure_ascii=False)
    return said
