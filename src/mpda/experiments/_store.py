"""Rows of results in an append-only file, one JSON object a line.

A row is written whole and synced before the next task counts as done. What a kill leaves of a line
is no row and is passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mpda._lib.provenance import versions
from mpda.assessment import PCA_ENERGY, PCA_MIN_FEATURES, Contender
from mpda.exceptions import ReproductionError
from mpda.experiments._protocol import N_FOLDS, Problem

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One contender on one split of one problem.

    data : the checksum of the samples, in their order
    """

    problem: Problem
    contender: Contender
    seed: int
    data: str

    @property
    def title(self) -> str:
        return f"{self.contender.name} on {self.problem.title}, split {self.seed}"

    @property
    def identity(self) -> str:
        """The same for the same work with the same versions, and for nothing else."""
        method = self.contender.method
        said = {
            "problem": {**asdict(self.problem), "classes": sorted(self.problem.classes)},
            "data": self.data,
            "name": self.contender.name,
            "path": method.path if method else None,
            "fixed": dict(self.contender.fixed),
            "grid": dict(self.contender.grid),
            "most": self.contender.max_components,
            "dimensions": self.contender.dimensions,
            "seed": self.seed,
            "folds": N_FOLDS,
            "energy": PCA_ENERGY,
            "most features": PCA_MIN_FEATURES,
            "versions": versions(),
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


class Store:
    """The rows of a file, and more of them appended. Only one process may write at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer, which would try once more at the end what a full disk refused.
        self._file = path.open("ab", buffering=0)
        try:
            _lock(self._file, path)
            self.rows = read(path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, row: Row) -> None:
        line = json.dumps(row).encode() + b"\n"
        if self._ends_in_part_of_a_line():
            line = b"\n" + line
        end = self._path.stat().st_size
        try:
            left = memoryview(line)
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(end)
            raise ReproductionError(
                f"A row could not be written to {self._path} ({error.strerror}). What was there is "
                "kept; make room and run the same command again."
            ) from error
        self.rows.append(row)

    def _ends_in_part_of_a_line(self) -> bool:
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"


def read(path: Path) -> list[Row]:
    """The whole rows of a file; what else stands there is passed over."""
    rows = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else []:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # empty, or what a kill left of a line
            continue
        if _is_row(row):
            rows.append(row)
    return rows


def _is_row(row: Any) -> bool:
    """Whether a value of JSON has all that is asked of a row, in the types that it should have."""
    if not isinstance(row, dict) or not _fits(row, _ANY_ROW):
        return False
    if row["status"] != "done":
        return bool(row["status"] == "failed")
    others = {name: fits for name, fits in _MORE_OF_ROW.items() if name in row}
    if not _fits(row, _DONE_ROW | others):
        return False
    dimensions, wrong = row["dimensions"], row["wrong"]
    return (
        len(dimensions) == len(wrong)
        and dimensions == sorted(set(dimensions))
        and max(wrong) <= row["n_test"] > 0
    )


def _fits(row: Row, kinds: Mapping[str, Callable[[Any], bool]]) -> bool:
    return all(name in row and fits(row[name]) for name, fits in kinds.items())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_count, value))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300  # and no nan


_ANY_ROW = {
    **dict.fromkeys(("task", "problem", "method", "status"), _is_text),
    "seed": _is_count,
}
_DONE_ROW = {
    **dict.fromkeys(("dimensions", "wrong"), _are_counts),
    **dict.fromkeys(("n_test", "cv_dimension"), _is_count),
}
_MORE_OF_ROW = {
    **dict.fromkeys(("seconds", "fit_seconds", "fit_mib", "test_share"), _is_number),
    "parameters": lambda value: isinstance(value, dict),
}


def finished(rows: Sequence[Row], tasks: Sequence[Task]) -> list[Row]:
    """Rows that are results of these tasks; the first of each counts."""
    known: dict[str, Row] = {}
    for row in rows:
        if row["status"] == "done":
            known.setdefault(row["task"], row)
    return [known[task.identity] for task in tasks if task.identity in known]


def _lock(file: Any, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ReproductionError(
            f"Another run is writing to {path}. Wait for it, or name another directory with --out."
        ) from error
