"""Versions, machine and tables of a robustness run, for the pages in docs/evidence."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import version


def describe_environment() -> str:
    """Return date, machine and package versions as one line of text.

    Returns
    -------
    str
        For example "2026-11-17; 2 cores, x86_64; Python 3.11.7, numpy 2.4.6, ...".
    """
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    return f"{date.today()}; {machine}; Python {platform.python_version()}, {packages}"


def format_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in cells
    )
