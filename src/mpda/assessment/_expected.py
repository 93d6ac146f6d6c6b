"""Warnings of one fit among many, which are nothing that a user can act on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from mpda._lib.threads import CHANGING


class _Filters:
    """The filters of warnings as they were before anyone wanted some to be ignored.

    They are one for the whole process: of fits in several threads the last to go puts them back.
    """

    def __init__(self) -> None:
        self._n_inside = 0
        self._before = warnings.catch_warnings()

    @contextmanager
    def ignoring(self, *categories: type[Warning]) -> Iterator[None]:
        """Without warnings of these categories; deprecations are for those who maintain this."""
        with CHANGING:
            if self._n_inside == 0:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
            self._n_inside += 1
            for category in categories or (UserWarning, RuntimeWarning):
                warnings.simplefilter("ignore", category)
        try:
            yield
        finally:
            with CHANGING:
                self._n_inside -= 1
                if self._n_inside == 0:
                    self._before.__exit__(None, None, None)


expected_warnings = _Filters().ignoring
