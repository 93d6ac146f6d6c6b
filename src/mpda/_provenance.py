"""What figures were made with: versions and the size of the machine."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import version


@cache
def versions() -> dict[str, str]:
    names = ("mpda", "numpy", "scipy", "scikit-learn")
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **{name: version(name) for name in names}}


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}"
