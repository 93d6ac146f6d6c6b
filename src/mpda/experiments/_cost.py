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
    traced = tracemalloc.is_tracing()  # by the caller, who wants to go on with it
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traced:
            tracemalloc.stop()
    return seconds, peak / 2**20
