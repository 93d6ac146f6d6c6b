"""Write transformed samples as a table or an .npy file, atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Array
from mpda._lib.atomic_write import atomic_path
from mpda.exceptions import TableError

OUTPUT_SUFFIXES = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".npy")


def check_output(path: Path) -> None:
    """Check that the suffix of an output file names a format that can be written.

    Parameters
    ----------
    path : Path
        Target file.

    Raises
    ------
    mpda.exceptions.TableError
        If the suffix is not one of ``OUTPUT_SUFFIXES``.
    """
    if path.suffix.lower() not in OUTPUT_SUFFIXES:
        raise TableError(
            f"--out {path} ends in {path.suffix or 'nothing'}; files that can be written end in "
            f"{', '.join(OUTPUT_SUFFIXES)}."
        )


def write_table(path: Path, Z: Array, names: Sequence[str], others: Mapping[str, Any]) -> None:
    """Write samples with named columns.

    Parameters
    ----------
    path : Path
        Target file; its suffix selects the format. An .npy file holds only ``Z``.
    Z : ndarray of shape (n_samples, n_components)
        Transformed samples.
    names : sequence of str
        Names of the columns of ``Z``.
    others : mapping of str to array-like of shape (n_samples,)
        Columns that are written before those of ``Z``.

    Raises
    ------
    mpda.exceptions.TableError
        If the file cannot be written, or two columns have one name.
    """
    check_output(path)
    suffix = path.suffix.lower()
    repeated = sorted(set(names) & set(others))
    if repeated and suffix != ".npy":
        raise TableError(
            f"The data already have a column {repeated[0]!r}, the name of a new one: rename it."
        )
    try:
        with atomic_path(path) as temporary:
            if suffix == ".npy":
                write_array(temporary, Z)
            else:
                _write_frame(temporary, suffix, Z, names, others)
    except OSError as error:
        raise TableError(f"{path} cannot be written ({error.strerror or error}).") from error


def write_array(path: Path, array: Array) -> None:
    """Write an array in the .npy format, not atomically.

    Parameters
    ----------
    path : Path
        Temporary path from :func:`mpda._lib.atomic_write.atomic_path`.
    array : ndarray
        Array of numbers, booleans or fixed-width strings.
    """
    # NumPy bypasses Python's buffer for files opened with "wb" and does not check the final flush:
    # on a full disk the array would be cut silently. For "w+b" it uses ``file.write``.
    with path.open("w+b") as file:
        np.save(file, array, allow_pickle=False)


def _write_frame(
    path: Path, suffix: str, Z: Array, names: Sequence[str], others: Mapping[str, Any]
) -> None:
    import pandas as pd

    columns = {name: np.asarray(column) for name, column in others.items()}
    frame = pd.DataFrame(columns | {name: Z[:, i] for i, name in enumerate(names)})
    if suffix in (".csv", ".tsv"):
        frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_feather(path)
