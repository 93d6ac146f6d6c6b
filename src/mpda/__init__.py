"""Supervised linear dimensionality reduction, scikit-learn's way."""

from mpda.estimators._gram_pca import GramPCA
from mpda.estimators._graph_discriminant import GraphDiscriminant
from mpda.estimators._lfda import LFDA
from mpda.estimators._lltsa import LLTSA
from mpda.estimators._lpfe import LPFE
from mpda.estimators._lsda import LSDA
from mpda.estimators._lsdr import LSDR
from mpda.estimators._manifold_partition import ManifoldPartition
from mpda.estimators._mfa import MFA
from mpda.estimators._mpda import MPDA
from mpda.estimators._pmpda import PMPDA

__all__ = [
    "LFDA",
    "LLTSA",
    "LPFE",
    "LSDA",
    "LSDR",
    "MFA",
    "MPDA",
    "PMPDA",
    "GramPCA",
    "GraphDiscriminant",
    "ManifoldPartition",
]
__version__ = "0.1.0"
