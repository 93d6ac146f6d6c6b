"""Keeping BLAS to one thread where matrices are small."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# Up to this many dimensions a fit gains nothing from threads inside BLAS.
SMALL = 256


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """BLAS uses one thread inside, if wanted and if this is the main thread.

    NumPy and SciPy may each carry a BLAS with its own threads, which wait for work by spinning: on
    matrices of a few hundred rows the two pools take the cores from each other and a fit becomes
    two to three times slower. The setting is one for the whole process, and OpenBLAS lets no other
    thread put back what the main thread has lowered; so fits in other threads leave it alone.
    """
    if wanted and threading.current_thread() is threading.main_thread():
        with _controller().limit(limits=1, user_api="blas"):
            yield
    else:
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
