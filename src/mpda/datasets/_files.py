"""Data sets as .npz files: read without pickle, written beside and renamed into place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from mpda._beside import beside, check_plain_file
from mpda._typing import Labels
from mpda.exceptions import DatasetError


def read(path: Path) -> tuple[Any, Labels]:
    """X and y of an .npz with X and y, or with X_train, y_train, X_test and y_test."""
    try:
        check_plain_file(path)
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, own_fid=False) as content:
            X, y = _arrays(content)
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X is of {X.dtype}, which are no real numbers")
        return X, y
    # A short file, a broken zip, an impossible header: NumPy and zipfile say it in many ways.
    except Exception as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DatasetError(
            f"{path} cannot be read as an .npz with the arrays X and y "
            f"({reason or type(error).__name__}). Replace the file, or remove it to have it "
            "fetched again."
        ) from error


def _arrays(content: Any) -> tuple[Any, Labels]:
    if "X" in content.files:
        return content["X"], content["y"]
    parts = [[content[f"{name}_{part}"] for part in ("train", "test")] for name in "Xy"]
    return np.concatenate(parts[0]), np.concatenate(parts[1])


def is_there(path: Path) -> bool:
    """Whether a file has this name, be it a link to nothing; who may not look is told so."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read ({error.strerror}). Make it readable, or name another "
            "directory: --data or MPDA_DATA for your own files, MPDA_CACHE for fetched ones."
        ) from error
    return True


def check_directory(path: Path) -> None:
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise NotADirectoryError
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetError(
            f"The data directory {path} does not exist or is no directory."
        ) from error
    except OSError as error:
        raise DatasetError(
            f"The data directory {path} cannot be read ({error.strerror}). Make it readable, or "
            "name another one with --data or MPDA_DATA."
        ) from error


def write(path: Path, X: Any, y: Labels) -> None:
    with beside(path) as made, made.open("wb") as file:
        np.savez_compressed(file, X=X, y=y)


def cache_directory() -> Path:
    """Where fetched data sets are kept: MPDA_CACHE, or mpda in the user's cache directory."""
    if "MPDA_CACHE" in os.environ:
        return Path(os.environ["MPDA_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpda"
