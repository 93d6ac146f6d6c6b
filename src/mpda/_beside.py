"""Files that are written beside their place and renamed into it: all of them or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new file to write; if that succeeds it takes the place of ``path``, else it is removed.

    Directories on the way are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.parent / f".{path.name}-{secrets.token_hex(4)}.part"
    # Made here and not by tempfile, whose files only their owner may read.
    os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield made
        os.replace(made, path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def refuse_unwritable(*paths: Path | None) -> None:
    """Raise now what writing a file would raise after the work that it is for."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with contextlib.suppress(_Undone), beside(path):
            raise _Undone


class _Undone(Exception):
    """Nothing is to be written after all."""


def written(path: Path, content: str | bytes) -> Path:
    """Write a file of which a reader sees nothing or all."""
    with beside(path) as made:
        made.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
