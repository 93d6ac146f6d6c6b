"""Write files atomically: a reader sees the old file or the complete new one.

The content goes to a temporary directory next to the target (the same file system) and is moved
over the target by ``os.replace``. Depends on the standard library only, since the command line
imports it before NumPy.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


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
    prefix = str(target.parent / ".mpda-")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_char_device():  # os.replace would put a file in its place
            yield target
            return
        if target.exists():
            target.open("ab").close()  # raises for directories and read-only files
        with tempfile.TemporaryDirectory(prefix=".mpda-", dir=target.parent) as folder:
            temporary = Path(folder, target.name)
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())  # some file systems report a full disk only here
            os.replace(temporary, target)
    except OSError as error:
        name = str(error.filename or target)
        if not (name.startswith(prefix) or str(target).startswith(name)):
            raise  # of another file, which the block wrote
        # mkdir reports a file in the way as "File exists", which would mislead here.
        code = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
        raise OSError(code, os.strerror(code) if code else str(error), str(path)) from error


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
