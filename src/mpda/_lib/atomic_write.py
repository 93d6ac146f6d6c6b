"""Files that are written beside their place and renamed into it: all of them or nothing."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new file to write; if that succeeds it takes the place of ``path``, else it is removed.

    Directories on the way are made. A link stays, and the file that it names is replaced; a device
    such as /dev/null is written to. What goes wrong is an OSError that names ``path``.
    """
    place = Path(os.path.realpath(path))
    name = place.name[:50]  # or a long one would become too long
    made = place.parent / f".{name}-{secrets.token_hex(4)}.part"
    with _named(path, place, made):
        check_place(place)
        if place.is_char_device():
            yield place
            return
        make_directory(place.parent)
        with _swept(place.parent, f".{glob.escape(name)}-????????.part"):
            try:
                # Made here and not by tempfile, whose files only their owner may read.
                os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                yield made
                _sync(made)
                os.replace(made, place)
            except BaseException:
                made.unlink(missing_ok=True)
                raise


@contextlib.contextmanager
def _named(path: Path, *others: Path) -> Iterator[None]:
    """Errors that name no file, or one of these others, name the path that is known outside."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, *map(str, others)):
            raise
        reason = os.strerror(error.errno) if error.errno else error.strerror or str(error)
        raise OSError(error.errno, reason, str(path)) from error


def check_place(path: Path) -> None:
    """Refuse a place that no file can take: that of a directory, a pipe or a protected file."""
    if not os.path.lexists(path) or path.is_char_device():
        return
    check_plain_file(path)
    effective = os.access in os.supports_effective_ids
    if not os.access(path, os.W_OK, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def check_plain_file(path: Path) -> None:
    """Refuse what is no file. Who reads a pipe to which nobody writes waits for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(None, "Not a plain file", str(path))


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        reason = os.strerror(errno.ENOTDIR)
        raise NotADirectoryError(errno.ENOTDIR, reason, str(path)) from error


@contextlib.contextmanager
def _swept(directory: Path, pattern: str) -> Iterator[None]:
    """Remove what processes that were killed left, unless another one is writing here now."""
    try:
        import fcntl

        descriptor = os.open(directory, os.O_RDONLY)
    except (ImportError, OSError):  # Windows; a directory that may be written but not listed
        yield
        return
    try:
        with contextlib.suppress(OSError):  # somebody writes, or this file system has no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in directory.glob(pattern):
                left.unlink()
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _sync(made: Path) -> None:
    """Some disks say only now that they are full; and not even a crash leaves half of a file."""
    with made.open("r+b") as file:
        os.fsync(file.fileno())


def refuse_unwritable(*paths: Path | None) -> None:
    """Raise now what writing a file would raise after the work that it is for."""
    for path in paths:
        if path is not None:
            with contextlib.suppress(_Undone), beside(path):
                raise _Undone


class _Undone(Exception):
    """Nothing is to be written after all."""


def written(path: Path, content: str | bytes) -> Path:
    """Write a file of which a reader sees nothing or all."""
    with beside(path) as made:
        made.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_array(made: Path, array: Any) -> None:
    """Write an .npy to what ``beside`` gave."""
    import numpy as np

    # To a file that is opened with "wb" NumPy writes by itself and does not look whether the last
    # bytes went through: on a full disk it leaves a part of the array and says nothing.
    with made.open("w+b") as file:
        np.save(file, array)


def write_arrays(made: Path, **arrays: Any) -> None:
    """Write an .npz in the same way."""
    import numpy as np

    # The savez of NumPy 1.26 leaves an archive open that it cannot write, which complains later.
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
