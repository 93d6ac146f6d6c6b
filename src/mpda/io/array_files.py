"""NumPy files (.npy, .npz) without pickle."""

from pathlib import Path

import numpy as np

from mpda._lib.array_types import Array


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npy or .npz file without pickle.

    Parameters
    ----------
    path : Path
        File to read. The array of an .npy file is called "X".

    Returns
    -------
    dict of ndarray
        Arrays by name.
    """
    with path.open("rb") as file:  # NumPy leaves a damaged .npz open if it opens it itself
        content = np.load(file, allow_pickle=False)
        return {"X": content} if isinstance(content, np.ndarray) else dict(content)


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
