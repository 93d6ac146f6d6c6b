"""Save and load models, export linear maps, stack columns of vectors, and store vectors as int8.

Optional packages (pyarrow, onnx, faiss, safetensors) are imported by the functions that need them.
"""

from mpda.io.affine_maps import AffineMap, affine_map, export_matrix
from mpda.io.faiss_export import export_faiss
from mpda.io.model_files import load, read_header, save
from mpda.io.numpy_export import export_numpy
from mpda.io.onnx_export import export_onnx
from mpda.io.sentence_transformers_export import export_sentence_transformers
from mpda.io.vector_types import (
    VECTOR_TYPES,
    VectorType,
    count_numbers,
    fit_vector_type,
    parse_vector_type,
    read_vector_type,
    write_vector_type,
)
from mpda.io.vectors import stack_vectors

__all__ = [
    "VECTOR_TYPES",
    "AffineMap",
    "VectorType",
    "affine_map",
    "count_numbers",
    "export_faiss",
    "export_matrix",
    "export_numpy",
    "export_onnx",
    "export_sentence_transformers",
    "fit_vector_type",
    "load",
    "parse_vector_type",
    "read_header",
    "read_vector_type",
    "save",
    "stack_vectors",
    "write_vector_type",
]
