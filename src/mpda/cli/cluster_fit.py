"""``--scheduler``: work on the Dask cluster of a scheduler.

``mpda fit --scheduler`` fits a pipeline (PCA, method) to samples that the workers read. Other
commands send their tasks to the workers. Needs ``pip install 'mpda[dask]'``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from mpda.cli.table_source import TableSource
from mpda.cli.terminal import stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda.assessment import AssessmentProtocol, Contender

# Methods whose fit is a sum over classes, so that workers can compute its terms. A refinement
# brings a sample of the rows to this machine.
_METHODS = ("MPDA", "PMPDA", "LFDA", "MPDA refined", "LFDA refined")
# Rows of an array that are sent to a worker at a time: 16 MB for 100 features. Larger chunks
# occupy fewer workers, smaller ones make more tasks.
_CHUNK_ROWS = 20_000


def connect(scheduler: str | None) -> AbstractContextManager[object]:
    """Send parallel work to the workers of a scheduler.

    Parameters
    ----------
    scheduler : str or None
        Address of the scheduler; None keeps the work on this machine.

    Returns
    -------
    context manager
        The connection lasts as long as the context.
    """
    if scheduler is None:
        return nullcontext()
    from mpda.parallel import import_dask_cluster

    try:
        return import_dask_cluster().connect_workers(scheduler)
    except (ImportError, OSError, ValueError) as error:
        stop(f"mpda: --scheduler {scheduler}: {error}", 1)


def fit_on_cluster(
    scheduler: str, source: TableSource, contender: Contender, protocol: AssessmentProtocol
) -> Pipeline:
    """Fit a model on a Dask cluster.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler.
    source : TableSource
        The samples. Workers read CSV, TSV and Parquet files themselves; other files are read here
        and sent to them.
    contender : Contender
        Method and its parameters.
    protocol : AssessmentProtocol
        Number of components and PCA.

    Returns
    -------
    Pipeline
        The model. It keeps no samples for 1-NN.
    """
    from sklearn.pipeline import Pipeline

    from mpda import GramPCA
    from mpda.assessment import default_pca_energy

    name, energy = contender.name, protocol.energy
    if source.embedding is not None:
        stop("mpda: --scheduler is for columns of numbers, not for --embedding.", 2)
    if name not in _METHODS:
        stop(f"mpda: --scheduler works with {', '.join(_METHODS)}, not with {name}.", 2)
    if protocol.n_components is None:
        stop("mpda: --scheduler runs no cross-validation; --components is required.", 2)
    with connect(scheduler):
        X, y = _open_collections(source)
        if isinstance(energy, str):
            energy = default_pca_energy(X.shape[1])
        steps = [] if energy is None else [("pca", GramPCA(energy))]
        estimator = contender.estimator({}, protocol.n_components)
        return Pipeline([*steps, (name.lower().replace(" ", "_"), estimator)]).fit(X, y)


def _open_collections(source: TableSource) -> tuple[Any, Any]:
    """Return samples (n, d) and labels (n,) as Dask collections."""
    import dask.array as da
    import dask.dataframe as dd
    import numpy as np

    from mpda.cli.tables.files import FileFormat, read_names
    from mpda.cli.tables.reading import read_table, split_names

    suffix, path = source.data.suffix.lower(), str(source.data.resolve())
    if suffix in (".csv", ".tsv"):
        encoding = source.encoding or "utf-8-sig"
        separator, _ = read_names(source.data, FileFormat(source.decimal, encoding))
        frame = dd.read_csv(path, sep=separator, decimal=source.decimal, encoding=encoding)
    elif suffix == ".parquet" or source.data.is_dir():
        frame = dd.read_parquet(path)
    else:
        read = partial(read_table, source.data, label=source.label, drop=source.drop or ())
        read = partial(read, decimal=source.decimal, encoding=source.encoding, sheet=source.sheet)
        table = read(skip_missing=source.skip_missing)
        return da.from_array(np.asarray(table.X), chunks=(_CHUNK_ROWS, -1)), table.labels
    drop = split_names(source.drop or (), list(frame.columns))
    missing = [name for name in [source.label, *drop] if name not in frame.columns]
    if missing:
        raise TableError(f"{source.data} has no column {missing[0]!r}.")
    frame = frame.drop(columns=drop)
    frame = frame.dropna() if source.skip_missing else frame
    X, y = frame.drop(columns=source.label), frame[source.label]
    texts = [name for name, dtype in X.dtypes.items() if getattr(dtype, "kind", "O") not in "iufb"]
    if texts:
        names = ", ".join(map(repr, texts[:5]))
        raise TableError(
            f"These columns are not numbers: {names}. --drop NAME leaves them out; vectors in a "
            "column are fitted without --scheduler."
        )
    return X, y
