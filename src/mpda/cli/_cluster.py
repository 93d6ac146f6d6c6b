"""``mpda fit --scheduler``: samples that the workers of a Dask cluster read and work on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mpda.cli._app import stop
from mpda.exceptions import TableError
from mpda.methods import method

# Methods that are sums over classes.
_ABLE = ("MPDA", "PMPDA", "LFDA")
# Samples of an array that are sent at a time.
_SENT = 20_000


def fit_on_cluster(
    scheduler: str,
    data: Path,
    label: str | None,
    name: str,
    components: int | None,
    parameters: dict[str, Any],
    energy: float | str | None,
    out: Path,
) -> None:
    """Fit on the cluster, and keep the map; errors are for ``evaluate`` on samples left out."""
    if name not in _ABLE:
        stop(f"mpda: --scheduler is for the methods {', '.join(_ABLE)}, not {name}.", 2)
    if components is None:
        stop("mpda: with --scheduler nothing is chosen by cross-validation: give --components.", 2)
    from sklearn.pipeline import Pipeline

    from mpda import GramPCA, save
    from mpda.assessment import usual_energy
    from mpda.engines import dask_engine

    try:
        cluster = dask_engine().workers_of(scheduler)
    except (ImportError, OSError, ValueError) as error:
        stop(f"mpda: --scheduler {scheduler}: {error}", 1)
    with cluster:
        X, y = _collections(data, label)
        n_features = X.shape[1] if hasattr(X, "chunks") else len(X.columns)
        share = usual_energy(n_features) if energy == "usual" else energy
        steps: list[tuple[str, Any]] = []
        if share is not None:
            steps.append(("pca", GramPCA(float(share))))
        chosen = method(name).estimator(n_components=components, **parameters)
        model = Pipeline([*steps, (name.lower(), chosen)]).fit(X, y)
    notes = {"label": label, "method": name, "n_samples": None, "comparison": None}
    save(model, out, notes=notes)
    print(
        f"{data.name}: {n_features} features to {components} components by {name}, on {scheduler}"
    )
    print(f"The error is not measured here: mpda evaluate {out} FILE, on samples left out.")


def _collections(data: Path, label: str | None) -> tuple[Any, Any]:
    """Samples and labels on Dask: tables are read by the workers, arrays sent to them."""
    import dask.array as da
    import dask.dataframe as dd

    kind = data.suffix.lower()
    if kind in (".parquet", ".csv", ".tsv") or data.is_dir():
        place = str(data.resolve())
        if kind in (".csv", ".tsv"):
            frame = dd.read_csv(place, sep="\t" if kind == ".tsv" else ",")
        else:
            frame = dd.read_parquet(place)
        if label not in frame.columns:
            raise TableError(f"--label: {data} has no column {label!r}.")
        words = [
            name
            for name, kind in frame.dtypes.items()
            if name != label and not (isinstance(kind, np.dtype) and kind.kind in "iufb")
        ]
        if words:
            raise TableError(
                f"These columns are not numbers: {', '.join(map(repr, words[:5]))}. Write a file "
                "without them for the cluster."
            )
        return frame.drop(columns=label), frame[label]
    from mpda.tables import read_table

    table = read_table(data, label=label)
    assert table.y is not None
    return da.from_array(np.asarray(table.X), chunks=(_SENT, -1)), table.y
