"""Lines about progress on stderr, for fits that take longer than a few seconds."""

import sys
import time
from collections.abc import Generator, Iterator
from typing import TypeVar

Result = TypeVar("Result")

# Seconds between two lines: often enough to see that a fit goes on, seldom enough to read.
_INTERVAL = 2.0


class ProgressPrinter:
    """Prints lines about progress, with the time since the start, and not too many of them.

    Parameters
    ----------
    title : str or None
        First words of every line. None prints nothing.
    interval : float, default=None
        Seconds between two lines. None stands for two.
    """

    def __init__(self, title: str | None, interval: float | None = None) -> None:
        self._title = title
        self._interval = _INTERVAL if interval is None else interval
        self._start = self._last = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def is_due(self, *, is_last: bool = False) -> bool:
        """Return True, and start a new interval, if it is time for a line or for the last one."""
        now = time.monotonic()
        if not is_last and now - self._last < self._interval:
            return False
        self._last = now
        return True

    def report(self, text: str, *, is_last: bool = False) -> None:
        """Print a line if one is due.

        Parameters
        ----------
        text : str
            State of the work.
        is_last : bool, default=False
            Set to True for the line at the end, which is always printed.
        """
        if self._title is not None and self.is_due(is_last=is_last):
            print(f"{self._title}: {text}, {self.elapsed:.1f} s", file=sys.stderr)


def report_progress(
    results: Iterator[Result], n: int, title: str | None, unit: str
) -> Generator[Result, None, None]:
    """Yield results and report how many of them there are.

    Parameters
    ----------
    results : iterator
        The results, which may be computed one after the other.
    n : int
        Number of results.
    title : str or None
        First words of every line. None prints nothing.
    unit : str
        Name of the results in these lines.

    Yields
    ------
    object
        Each result.
    """
    printer, count = ProgressPrinter(title), 0
    for result in results:
        count += 1  # noqa: SIM113  enumerate would keep each result until the next one is there
        printer.report(f"{count}/{n} {unit}", is_last=count == n)
        yield result
        del result  # the next one is computed without the matrices of this one
