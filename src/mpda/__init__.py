"""Supervised linear dimensionality reduction, scikit-learn's way."""

from mpda.estimators._manifold_partition import ManifoldPartition
from mpda.estimators._mpda import MPDA
from mpda.estimators._pmpda import PMPDA

__all__ = ["MPDA", "PMPDA", "ManifoldPartition"]
__version__ = "0.1.0"
