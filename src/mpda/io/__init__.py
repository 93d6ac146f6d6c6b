"""Save and load models, export linear maps, and stack columns of vectors.

Optional packages (pyarrow, onnx, faiss, safetensors) are imported by the functions that need them.
"""

from mpda.io.affine_maps import AffineMap, affine_map, export_matrix
from mpda.io.faiss_export import export_faiss
from mpda.io.model_files import load, read_header, save
from mpda.io.numpy_export import export_numpy
from mpda.io.onnx_export import export_onnx
from mpda.io.sentence_transformers_export import export_sentence_transformers
from mpda.io.vectors import stack_vectors

__all__ = [
    "AffineMap",
    "affine_map",
    "export_faiss",
    "export_matrix",
    "export_numpy",
    "export_onnx",
    "export_sentence_transformers",
    "load",
    "read_header",
    "save",
    "stack_vectors",
]
