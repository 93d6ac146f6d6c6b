"""Keeping BLAS to one thread where matrices are small."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limiter: Any = None


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """BLAS uses one thread inside, if wanted.

    NumPy and SciPy may each carry a BLAS with its own threads, which wait for work by spinning: on
    matrices of a few hundred rows the two pools take the cores from each other and a fit becomes
    two to three times slower. The setting is one for the whole process, so fits that run at the
    same time share it: the first sets it and the last puts back what was there.
    """
    if not wanted:
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _limiter
    with _lock:
        if _inside == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
        _inside += 1


def _leave() -> None:
    global _inside, _limiter
    with _lock:
        _inside -= 1
        if _inside == 0:
            _limiter.restore_original_limits()
            _limiter = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
