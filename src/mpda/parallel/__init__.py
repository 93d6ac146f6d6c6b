"""Work on many classes, folds or tasks: in parallel on this machine, or on a Dask cluster."""

from types import ModuleType

from mpda.parallel.local import map_ordered

__all__ = ["import_dask_cluster", "map_ordered"]


def import_dask_cluster() -> ModuleType:
    """Import the module for Dask clusters, or raise an error that says how to install Dask."""
    try:
        from mpda.parallel import dask_cluster
    except ImportError as error:
        raise ImportError(
            f"Dask clusters need {error.name}, which is not installed: pip install 'mpda[dask]'."
        ) from error
    return dask_cluster
