"""Supervised linear dimensionality reduction in the manner of scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpda.estimators._dmlmj import DMLMJ as DMLMJ
    from mpda.estimators._fit_summary import FitSummary as FitSummary
    from mpda.estimators._gmml import GMML as GMML
    from mpda.estimators._gram_pca import GramPCA as GramPCA
    from mpda.estimators._graph_discriminant import GraphDiscriminant as GraphDiscriminant
    from mpda.estimators._lfda import LFDA as LFDA
    from mpda.estimators._lltsa import LLTSA as LLTSA
    from mpda.estimators._lpfe import LPFE as LPFE
    from mpda.estimators._lsda import LSDA as LSDA
    from mpda.estimators._lsdr import LSDR as LSDR
    from mpda.estimators._manifold_partition import ManifoldPartition as ManifoldPartition
    from mpda.estimators._mfa import MFA as MFA
    from mpda.estimators._mpda import MPDA as MPDA
    from mpda.estimators._neighborhood_refinement import (
        NeighborhoodRefinement as NeighborhoodRefinement,
    )
    from mpda.estimators._pmpda import PMPDA as PMPDA
    from mpda.estimators._tangent_embedding import PFE as PFE
    from mpda.estimators._tangent_embedding import TSIMR as TSIMR
    from mpda.estimators._within_class_whitening import WithinClassWhitening as WithinClassWhitening
    from mpda.io.model_files import load as load
    from mpda.io.model_files import save as save

    __version__: str

# Modules of the public names. They are imported when a name is first used, so that ``mpda --help``
# and ``mpda.__version__`` do not wait for scikit-learn.
_MODULES = {
    "DMLMJ": "mpda.estimators._dmlmj",
    "FitSummary": "mpda.estimators._fit_summary",
    "GMML": "mpda.estimators._gmml",
    "GramPCA": "mpda.estimators._gram_pca",
    "GraphDiscriminant": "mpda.estimators._graph_discriminant",
    "LFDA": "mpda.estimators._lfda",
    "LLTSA": "mpda.estimators._lltsa",
    "LPFE": "mpda.estimators._lpfe",
    "LSDA": "mpda.estimators._lsda",
    "LSDR": "mpda.estimators._lsdr",
    "MFA": "mpda.estimators._mfa",
    "MPDA": "mpda.estimators._mpda",
    "ManifoldPartition": "mpda.estimators._manifold_partition",
    "NeighborhoodRefinement": "mpda.estimators._neighborhood_refinement",
    "PFE": "mpda.estimators._tangent_embedding",
    "PMPDA": "mpda.estimators._pmpda",
    "TSIMR": "mpda.estimators._tangent_embedding",
    "WithinClassWhitening": "mpda.estimators._within_class_whitening",
    "load": "mpda.io.model_files",
    "save": "mpda.io.model_files",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("mpda")
    if name not in _MODULES:
        raise AttributeError(f"module 'mpda' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "__version__"})
