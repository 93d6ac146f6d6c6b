"""Read and write tables, save and load models, and export linear maps.

Optional packages (pandas, pyarrow, onnx, faiss, safetensors) are imported by the functions that
need them.
"""

from mpda.io.affine_maps import AffineMap, affine_map, export_matrix
from mpda.io.faiss_export import export_faiss
from mpda.io.model_files import load, read_header, save
from mpda.io.numpy_export import export_numpy
from mpda.io.onnx_export import export_onnx
from mpda.io.sentence_transformers_export import export_sentence_transformers
from mpda.io.table_files import write_table
from mpda.io.tables import Table, read_table

__all__ = [
    "AffineMap",
    "Table",
    "affine_map",
    "export_faiss",
    "export_matrix",
    "export_numpy",
    "export_onnx",
    "export_sentence_transformers",
    "load",
    "read_header",
    "read_table",
    "save",
    "write_table",
]
