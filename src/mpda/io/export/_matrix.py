"""The bare matrix of a model as .npy files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mpda._lib.atomic_write import beside, write_array
from mpda.io.export._affine import affine_map


def export_matrix(model: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write the matrix of a fitted model, and beside it what is taken off before.

    Parameters
    ----------
    model : estimator
        As in :func:`affine_map`.
    path : str or path that ends in .npy
        For the matrix (r, d). The mean (d,) goes to ``<stem>-mean.npy``; and to
        ``<stem>-offset.npy`` an offset (r,), if there is one: an older file of that name is removed
        if not, since it would be taken for a part of this map.

    Returns
    -------
    list of Path
        The files that were written, of the matrix first; all in double precision:
        ``(x - mean) @ matrix.T + offset``.
    """
    path = Path(path)
    if path.suffix != ".npy":
        raise ValueError(f"path must end in .npy, got {str(path)!r}.")
    found = affine_map(model)
    mean_path, offset_path = (
        path.with_name(f"{path.stem}-{what}.npy") for what in ("mean", "offset")
    )
    arrays = {path: found.matrix, mean_path: found.mean}
    if found.offset.any():
        arrays[offset_path] = found.offset
    # All are written before the first is renamed: a matrix with another mean is another map.
    with ExitStack() as files:
        for place, array in arrays.items():
            write_array(files.enter_context(beside(place)), array)
    if offset_path not in arrays:
        offset_path.unlink(missing_ok=True)
    return list(arrays)
