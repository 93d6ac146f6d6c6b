"""Supervised linear dimensionality reduction, scikit-learn's way."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from mpda.io.model_files import load, save

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
    "load",
    "save",
]
__version__ = "0.1.0"

_HOMES = {
    "GramPCA": "estimators._gram_pca",
    "GraphDiscriminant": "estimators._graph_discriminant",
    "LFDA": "estimators._lfda",
    "LLTSA": "estimators._lltsa",
    "LPFE": "estimators._lpfe",
    "LSDA": "estimators._lsda",
    "LSDR": "estimators._lsdr",
    "MFA": "estimators._mfa",
    "MPDA": "estimators._mpda",
    "ManifoldPartition": "estimators._manifold_partition",
    "PMPDA": "estimators._pmpda",
    "load": "io.model_files",
    "save": "io.model_files",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: `mpda --help` and `mpda.__version__` need not wait for scikit-learn.
    if name not in _HOMES:
        raise AttributeError(f"module 'mpda' has no attribute {name!r}")
    found = getattr(import_module(f"mpda.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
