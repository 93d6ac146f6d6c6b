"""Data sets as .npz files: read without pickle, written beside and renamed into place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Labels
from mpda._lib.atomic_write import atomic_path
from mpda.exceptions import DatasetError
from mpda.io.error_text import one_line


def read(path: Path) -> tuple[Any, Labels]:
    """X and y of an .npz with X and y, or with X_train, y_train, X_test and y_test."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if "X" in archive:
                X, y = archive["X"], archive["y"]
            else:
                X = np.concatenate([archive["X_train"], archive["X_test"]])
                y = np.concatenate([archive["y_train"], archive["y_test"]])
        _refuse_no_samples(X, y)
        return X, y
    # A broken archive speaks in many ways: of zip, of zlib, of codes, of memory.
    except Exception as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise DatasetError(
            f"{path} cannot be read as an .npz with the arrays X and y ({reason}). "
            "Replace the file, or remove it to have it fetched again."
        ) from error


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


def _refuse_no_samples(X: Any, y: Labels) -> None:
    """Refuse arrays that cannot be samples and classes, whatever their shape."""
    if X.dtype.kind not in "biuf" or y.dtype.kind not in "biufSU":
        raise ValueError(
            f"X should be real numbers and y labels, but they are of {X.dtype} and {y.dtype}"
        )
    if not np.isfinite(X).all() or (y.dtype.kind == "f" and not np.isfinite(y).all()):
        raise ValueError("some numbers are missing or infinite")


def write(path: Path, X: Any, y: Labels) -> None:
    with atomic_path(path) as temporary:
        np.savez_compressed(temporary, X=X, y=y)


def cache_directory() -> Path:
    """Where fetched data sets are kept: MPDA_CACHE, or mpda in the user's cache directory."""
    if "MPDA_CACHE" in os.environ:
        return Path(os.environ["MPDA_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpda"
