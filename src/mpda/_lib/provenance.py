"""Provenance of results: versions of the packages and size of the machine.

Model files, report pages and rows of experiments record both.
"""

import os
import platform
from functools import cache
from importlib.metadata import version


@cache
def _version(package: str) -> str:
    return version(package)


def versions() -> dict[str, str]:
    """Return the versions of Python (major and minor), mpda, NumPy, SciPy and scikit-learn.

    Returns
    -------
    dict of str to str
        Versions by package name.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    packages = ("mpda", "numpy", "scipy", "scikit-learn")
    return {"python": python, **{package: _version(package) for package in packages}}


def machine() -> str:
    """Return the number of cores and the architecture, such as ``8 cores, x86_64``.

    Returns
    -------
    str
        Text for the foot of a table. It names no host.
    """
    return f"{os.cpu_count()} cores, {platform.machine()}"
