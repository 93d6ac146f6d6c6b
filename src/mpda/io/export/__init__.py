"""What a fitted model comes to, for programs that know nothing of it: a matrix, an ONNX graph."""

from mpda.io.export._affine import AffineMap, affine_map
from mpda.io.export._matrix import export_matrix
from mpda.io.export._onnx import export_onnx

__all__ = ["AffineMap", "affine_map", "export_matrix", "export_onnx"]
