"""How the work on classes is carried out: on this machine by joblib, or on a Dask cluster."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from mpda.parallel.local import (
    crew,
    map_ordered,
    map_serial,
    prefetch,
    workers_hear_no_ctrl_c,
)

__all__ = [
    "crew",
    "dask_engine",
    "is_dask_collection",
    "map_ordered",
    "map_serial",
    "prefetch",
    "workers_hear_no_ctrl_c",
]


def is_dask_collection(X: Any) -> bool:
    """Whether X is a Dask collection, found without loading Dask."""
    dask = sys.modules.get("dask")
    return dask.is_dask_collection(X) if dask else hasattr(X, "__dask_graph__")


def dask_engine() -> ModuleType:
    """The module for samples on a Dask cluster, loaded when the first such samples come."""
    try:
        from mpda.parallel import dask_cluster
    except ImportError as error:
        raise ImportError(
            f"Samples on Dask need {error.name}, which is not installed: pip install 'mpda[dask]'."
        ) from error
    return dask_cluster
