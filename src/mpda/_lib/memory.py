"""The guard against matrices of all pairs of a class that do not fit, and memory that is free.

Linux grants more memory than there is and ends the process when it is touched. An error before the
allocation says what to do instead.
"""

import ctypes
import math
import os
from pathlib import Path

from mpda.exceptions import NotEnoughMemoryError


def check_pairwise_memory(n: int, n_matrices: int, advice: str) -> None:
    """Refuse to allocate matrices of all pairs of samples that do not fit into memory.

    Parameters
    ----------
    n : int
        Number of samples of the class.
    n_matrices : int
        Number of (n, n) matrices in double precision that exist at the same time.
    advice : str
        What the user can do, as the end of the message.

    Raises
    ------
    NotEnoughMemoryError
        If the matrices take more than the available memory. The message has both numbers.
    """
    needed, available = 8.0 * n_matrices * n * n, available_memory()
    if needed > available:
        raise NotEnoughMemoryError(
            f"The matrices of all pairs of {n} samples take about {needed / 2**30:.1f} GiB, and "
            f"{available / 2**30:.1f} GiB of memory are available. {advice}"
        )


def available_memory() -> float:
    """Return the bytes that can be allocated, or infinity where the system does not tell.

    Returns
    -------
    float
        The smaller of the machine's available memory (Linux), or all of its memory elsewhere, and
        what the limit of a container leaves (control groups, version 2).
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        machine = next(1024.0 * float(line.split()[1]) for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        try:
            machine = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):  # Windows
            return math.inf
    # In a container /proc/meminfo still tells of the machine, not of the limit.
    try:
        group = Path("/sys/fs/cgroup")
        limit, usage = (group / "memory.max").read_text(), (group / "memory.current").read_text()
        return min(machine, float(limit) - float(usage))
    except (OSError, ValueError):  # no container, or "max": no limit
        return machine


def release_free_memory() -> None:
    """Give memory that was freed back to the system, where the C library has a function for it.

    glibc keeps up to 64 MB of freed memory for each thread, in pieces that a stage with arrays of
    other sizes cannot use.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, macOS or Windows
        return
    trim(0)
