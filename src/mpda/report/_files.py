"""Files written beside and renamed into place, so that none is ever half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_beside(path: Path, content: bytes) -> Path:
    """Write a file of which a reader sees nothing or all; its directory is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp lets only the owner read; a new file is as open as any other.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    return path
