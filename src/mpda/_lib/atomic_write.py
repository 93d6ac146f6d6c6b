"""Write files and folders atomically: a reader sees the old file or the complete new one.

The content goes to a temporary directory next to the target (the same file system) and is moved
over the target by ``os.replace``. A folder is new. Depends on the standard library only, since the
command line imports it before NumPy.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Name of temporary directories, which a killed process leaves.
_PREFIX = ".mpda-"


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path; the file written there replaces ``path`` on success.

    Missing parent directories are created. A symbolic link stays, and the file it points to is
    replaced. If the block raises, the temporary file is removed and ``path`` is left untouched.

    Parameters
    ----------
    path : Path
        Target of the write. A character device such as ``/dev/null`` is written directly.

    Yields
    ------
    Path
        Path with the name of the target, in a temporary directory next to it.

    Raises
    ------
    OSError
        If the target cannot be written. The error names ``path``, not the temporary file.
    """
    # Resolved, because os.replace would replace a symbolic link itself.
    target = Path(os.path.realpath(path))
    with _name_in_errors(path, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_char_device():  # os.replace would put a file in its place
            yield target
            return
        if target.exists():
            target.open("ab").close()  # raises for directories and read-only files
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=target.parent) as folder:
            temporary = Path(folder, target.name)
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())  # some file systems report a full disk only here
            os.replace(temporary, target)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder; on success it becomes ``path``.

    Files of an existing folder are not mixed with new ones: a folder with files is refused. Missing
    parent directories are created. If the block raises, nothing is left.

    Parameters
    ----------
    path : Path
        Folder to create. It may exist if it is empty.

    Yields
    ------
    Path
        Empty temporary folder next to the target.

    Raises
    ------
    FileExistsError
        If ``path`` is a file or a folder with files.
    """
    check_new_folder(path)
    target = Path(os.path.realpath(path))
    with _name_in_errors(path, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=target.parent) as parent:
            folder = Path(parent, target.name)
            folder.mkdir()
            yield folder
            if target.exists():
                target.rmdir()  # empty; os.replace cannot replace it on Windows
            os.replace(folder, target)


@contextlib.contextmanager
def _name_in_errors(path: Path, target: Path) -> Iterator[None]:
    """Name ``path`` in errors of the system that are about its target or a temporary file."""
    prefix = str(target.parent / _PREFIX)
    try:
        yield
    except OSError as error:
        name = str(error.filename or target)
        if not (name.startswith(prefix) or str(target).startswith(name)):
            raise  # of another file, which the block wrote
        # mkdir reports a file in the way as "File exists", which would mislead here.
        code = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
        raise OSError(code, os.strerror(code) if code else str(error), str(path)) from error


def check_new_folder(path: Path) -> None:
    """Raise an error if a folder exists and has files, or if there is a file in its place.

    Parameters
    ----------
    path : Path
        Folder to create.

    Raises
    ------
    FileExistsError
        If it cannot be created.
    """
    if path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"{path} has files already: choose a new folder, or delete it first")
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file: choose a new folder")


def check_writable(*paths: Path | None) -> None:
    """Raise the error that writing would raise, before a long computation.

    Parameters
    ----------
    *paths : Path or None
        Files that will be written later. None is ignored.

    Raises
    ------
    OSError
        If one of the paths cannot be written. Missing directories are created.
    """
    for path in paths:
        if path is not None:
            with contextlib.suppress(_CancelWrite), atomic_path(path):
                raise _CancelWrite


class _CancelWrite(Exception):
    """Leave ``atomic_path`` without writing."""


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a text (as UTF-8) or bytes atomically.

    Parameters
    ----------
    path : Path
        Target of the write.
    content : str or bytes
        Complete content of the file.

    Returns
    -------
    Path
        The target.
    """
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
