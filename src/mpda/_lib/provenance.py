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


# First version whose results are those of the present code. Stored rows are found by it, so a new
# version of mpda does not compute them again; it changes with a definition, and a test compares
# stored rows with new ones.
_RESULTS_SINCE = "0.1.0"


def results_versions() -> dict[str, str]:
    """Return the versions on which results depend.

    Returns
    -------
    dict of str to str
        As `versions`, with the first version of mpda that had the present results.
    """
    return {**versions(), "mpda": _RESULTS_SINCE}


def machine() -> str:
    """Return the number of cores and the architecture, such as ``8 cores, x86_64``.

    Returns
    -------
    str
        Text for the foot of a table. It names no host.
    """
    return f"{os.cpu_count()} cores, {platform.machine()}"
