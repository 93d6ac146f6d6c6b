"""Seconds and memory of a call."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any


def cost(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of a call, and the MiB that Python and NumPy allocate at most in another one."""
    begin = time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    tracemalloc.start()
    try:
        call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return seconds, peak / 2**20
