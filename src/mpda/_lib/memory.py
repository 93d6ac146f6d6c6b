"""How much memory there is, and a refusal in words before the system ends the process."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from mpda.exceptions import NotEnoughMemoryError

# A limit of a control group that stands for none is larger.
_NO_LIMIT = 2**60


def refuse_beyond_memory(needed: float, what: str, advice: str) -> None:
    """Refuse a step that takes about so many bytes, if there are not as many."""
    free = free_bytes()
    if needed > free:
        raise NotEnoughMemoryError(
            f"{what} would take about {_shown(needed)} of memory, and {_shown(free)} are free. "
            f"{advice}"
        )


def free_bytes() -> float:
    """What this process may still take: of the machine, of its container, of its address space."""
    return max(0.0, min(_free_of_machine(), _free_of_group(), _free_addresses()))


def _free_of_machine() -> float:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024.0 * float(line.split()[1])
    try:  # all there is, where the system does not say what is free
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _free_of_group() -> float:
    """The least that the control groups of this process leave, version 1 or 2."""
    frees = [math.inf]
    for group, files in _groups():
        most, used = (_number(group / name) for name in files[:2])
        if most is not None and used is not None and most < _NO_LIMIT:
            frees.append(most - used + _reclaimable(group / "memory.stat", files[2]))
    return min(frees)


def _groups() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Directories of control groups that hold this process, with the names of their files."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.rstrip("\n").split(":", 2)
        if controllers == "":
            root, files = Path("/sys/fs/cgroup"), ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = root / path.lstrip("/")
        # A limit may stand further up; in a container its own group is the root.
        for each in (group, *group.parents):
            yield each, files
            if each == root:
                break


def _reclaimable(stat: Path, name: str) -> float:
    """What a group has of files in memory that go when room is needed."""
    for line in _lines(stat):
        key, _, value = line.partition(" ")
        if key == name:
            return float(value)
    return 0.0


def _free_addresses() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = next(iter(_lines("/proc/self/statm")), "0").split()[0]
    if most == resource.RLIM_INFINITY:
        return math.inf
    return most - float(pages) * resource.getpagesize()


def _number(path: Path) -> float | None:
    text = "".join(_lines(path)).strip()
    return float(text) if text.isdigit() else None


def _lines(path: Path | str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _shown(number: float) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


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
    try:
        group = Path("/sys/fs/cgroup")
        limit, usage = (group / "memory.max").read_text(), (group / "memory.current").read_text()
        return min(machine, float(limit) - float(usage))
    except (OSError, ValueError):  # no container, or "max": no limit
        return machine
