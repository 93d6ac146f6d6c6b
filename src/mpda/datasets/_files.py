"""Data sets as .npz files: read without pickle, written beside and renamed into place."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mpda._beside import beside
from mpda._typing import Labels
from mpda.exceptions import DatasetError


def read(path: Path) -> tuple[Any, Labels]:
    """X and y of an .npz with X and y, or with X_train, y_train, X_test and y_test."""
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, own_fid=False) as content:
            if "X" in content.files:
                return content["X"], content["y"]
            parts = [[content[f"{name}_{part}"] for part in ("train", "test")] for name in "Xy"]
        return np.concatenate(parts[0]), np.concatenate(parts[1])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be read as an .npz with the arrays X and y ({error}). "
            "Replace the file, or remove it to have it fetched again."
        ) from error


def write(path: Path, X: Any, y: Labels) -> None:
    with beside(path) as made, made.open("wb") as file:
        np.savez_compressed(file, X=X, y=y)


def cache_directory() -> Path:
    """Where fetched data sets are kept: MPDA_CACHE, or mpda in the user's cache directory."""
    if "MPDA_CACHE" in os.environ:
        return Path(os.environ["MPDA_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpda"
