"""What figures were made with: versions and the size of the machine."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import version


def versions() -> dict[str, str]:
    python = ".".join(platform.python_version_tuple()[:2])
    names = ("mpda", "numpy", "scipy", "scikit-learn")
    return {"python": python, **{name: _version(name) for name in names}}


_version = cache(version)


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}"
