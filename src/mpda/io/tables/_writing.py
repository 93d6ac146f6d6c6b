"""Samples to files, written beside and renamed into place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.atomic_write import beside, write_array
from mpda.exceptions import TableError

OUTPUTS = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".npy")


def check_output(path: Path) -> None:
    """Refuse a name that does not say what to write, or a place that is not there."""
    if path.suffix.lower() not in OUTPUTS:
        raise TableError(
            f"--out {path} ends in {path.suffix or 'nothing'}; what can be written ends in "
            f"{', '.join(OUTPUTS)}."
        )


def write_table(path: Path, Z: Array, names: Sequence[str], others: Mapping[str, Any]) -> None:
    """Samples Z (n, r) with named columns, after other columns; an .npy has only Z."""
    check_output(path)
    taken = sorted(set(names) & set(others))
    if taken and path.suffix.lower() != ".npy":
        raise TableError(
            f"The data have a column {taken[0]!r} already, which is the name of a new one: rename "
            "it there."
        )
    try:
        with beside(path) as made:
            if path.suffix.lower() == ".npy":
                write_array(made, Z)
            else:
                _write_frame(made, path.suffix.lower(), Z, names, others)
    except OSError as error:
        raise TableError(f"{path} cannot be written ({error.strerror or error}).") from error


def _write_frame(
    made: Path, kind: str, Z: Array, names: Sequence[str], others: Mapping[str, Any]
) -> None:
    import pandas as pd

    columns = {
        name: each.reset_index(drop=True) if hasattr(each, "reset_index") else np.asarray(each)
        for name, each in others.items()
    }
    columns |= {name: Z[:, i] for i, name in enumerate(names)}
    frame = pd.DataFrame(columns)
    if kind in (".csv", ".tsv"):
        frame.to_csv(made, sep="," if kind == ".csv" else "\t", index=False)
    elif kind == ".parquet":
        _write_parquet(made, frame)
    else:
        frame.to_feather(made)


def _write_parquet(made: Path, frame: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Given the name of a file, as pandas does, it would remove one that it cannot write: a device.
    with made.open("wb") as file:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)
