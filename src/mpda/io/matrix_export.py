"""Export the affine map of a fitted model as .npy files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mpda._lib.atomic_write import atomic_path
from mpda.io.affine_maps import affine_map
from mpda.io.table_writing import write_array


def export_matrix(model: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write the matrix and the mean of a fitted model as .npy files.

    Parameters
    ----------
    model : estimator
        Fitted model, as in :func:`affine_map`.
    path : str or path
        File for the matrix of shape (n_components, n_features); must end in ".npy". The mean goes
        to ``<stem>-mean.npy``, and an offset, if there is one, to ``<stem>-offset.npy``. If there
        is none, an older offset file is removed, since it would be taken for a part of this map.

    Returns
    -------
    list of Path
        Files that were written, the matrix first, in double precision. The map is
        ``(x - mean) @ matrix.T + offset``.
    """
    path = Path(path)
    if path.suffix != ".npy":
        raise ValueError(f"path must end in .npy, got {str(path)!r}.")
    linear = affine_map(model)
    mean_path, offset_path = (path.with_stem(f"{path.stem}-{n}") for n in ("mean", "offset"))
    arrays = {path: linear.matrix, mean_path: linear.mean}
    if linear.offset.any():
        arrays[offset_path] = linear.offset
    # All files are written before the first one is replaced: a matrix with the mean of another
    # model would be a wrong map.
    with ExitStack() as stack:
        for target, array in arrays.items():
            write_array(stack.enter_context(atomic_path(target)), array)
    if offset_path not in arrays:
        offset_path.unlink(missing_ok=True)
    return list(arrays)
