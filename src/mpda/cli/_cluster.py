"""``mpda fit --scheduler``: samples that the workers of a Dask cluster read and work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpda.cli._app import connected, stop
from mpda.exceptions import TableError
from mpda.io.tables import split_names
from mpda.model_selection.methods import method

# Methods that are sums over classes.
_ABLE = ("MPDA", "PMPDA", "LFDA")
# Samples of an array that are sent at a time.
_SENT = 20_000


@dataclass(frozen=True)
class ClusterOrder:
    """What is to be fitted: the data, the method, and what comes before it.

    energy : as in ``Protocol``
    """

    data: Path
    label: str | None
    drop: Sequence[str]
    skip_missing: bool
    method: str
    n_components: int | None
    parameters: dict[str, Any]
    energy: float | str | None


def fitted_on_cluster(scheduler: str, order: ClusterOrder) -> Any:
    """The model, without samples for 1-NN: errors are for ``evaluate`` on samples left out."""
    if order.method not in _ABLE:
        stop(f"mpda: --scheduler is for the methods {', '.join(_ABLE)}, not {order.method}.", 2)
    if order.n_components is None:
        stop("mpda: with --scheduler nothing is chosen by cross-validation: give --components.", 2)
    from sklearn.pipeline import Pipeline

    from mpda import GramPCA
    from mpda.assessment import default_pca_energy

    with connected(scheduler):
        X, y = _collections(order)
        n_features = X.shape[1] if hasattr(X, "chunks") else len(X.columns)
        energy = default_pca_energy(n_features) if isinstance(order.energy, str) else order.energy
        first = [] if energy is None else [("pca", GramPCA(energy))]
        last = method(order.method).estimator(n_components=order.n_components, **order.parameters)
        return Pipeline([*first, (order.method.lower(), last)]).fit(X, y)


def _collections(order: ClusterOrder) -> tuple[Any, Any]:
    """Samples and labels on Dask: tables are read by the workers, arrays sent to them."""
    import dask.array as da
    import dask.dataframe as dd

    kind, place = order.data.suffix.lower(), str(order.data.resolve())
    if kind in (".csv", ".tsv"):
        frame = dd.read_csv(place, sep="\t" if kind == ".tsv" else ",")
    elif kind == ".parquet" or order.data.is_dir():
        frame = dd.read_parquet(place)
    else:
        from mpda.io.tables import read_table

        table = read_table(order.data, label=order.label, skip_missing=order.skip_missing)
        return da.from_array(np.asarray(table.X), chunks=(_SENT, -1)), table.labels
    drop = split_names(order.drop, list(frame.columns))
    for name, option in [(order.label, "--label"), *((name, "--drop") for name in drop)]:
        if name not in frame.columns:
            raise TableError(f"{option}: {order.data} has no column {name!r}.")
    frame = frame.drop(columns=drop)
    words = [
        name
        for name, kind in frame.dtypes.items()
        if name != order.label and getattr(kind, "kind", "O") not in "iufb"
    ]
    if words:
        raise TableError(
            f"These columns are not numbers: {', '.join(map(repr, words[:5]))}. Leave them out "
            "with --drop NAME."
        )
    frame = frame.dropna() if order.skip_missing else frame
    return frame.drop(columns=order.label), frame[order.label]
