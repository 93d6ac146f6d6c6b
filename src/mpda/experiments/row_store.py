"""Store of results: an append-only file of JSON lines, one row for each finished task.

Every row is written by one system call and synced before the next task counts as done. A run can be
killed at any time: complete lines are rows, and a line that was cut off is skipped by the reader.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mpda.exceptions import ReproductionError

# A row of results as JSON values. "task" is the fingerprint of the task and "status" is "done" or
# "failed"; the other entries are those of ``mpda.assessment.FoldResult``, or "error".
Row = dict[str, Any]
_ROW_KEYS = {"task", "problem", "method", "seed", "status"}


def read_rows(path: Path) -> list[Row]:
    """Read all rows of a file.

    Parameters
    ----------
    path : Path
        File of JSON lines. A missing file has no rows.

    Returns
    -------
    list of Row
        Rows of finished and failed tasks in the order of the file. Lines that are not complete and
        valid rows are skipped.
    """
    rows = []
    # Bytes, because a file that a crash damaged need not be UTF-8. RecursionError: a line of
    # thousands of brackets is JSON, and the parser recurses.
    for line in path.read_bytes().split(b"\n") if path.is_file() else []:
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and row.keys() >= _ROW_KEYS:
                rows.append(row)
    return rows


def append_row(path: Path, row: Row) -> None:
    """Append a row to a file and wait until it is on the disk.

    Parameters
    ----------
    path : Path
        File of JSON lines; it is created if necessary.
    row : Row
        The row.

    Raises
    ------
    ReproductionError
        If the row cannot be written, for example to a full disk. The file is then as before.
    """
    line = json.dumps(row).encode() + b"\n"
    # Unbuffered: the line is one system call, so that rows of two runs are not mixed up.
    with path.open("a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size > 0:
            file.seek(size - 1)
            if file.read(1) != b"\n":  # a killed run left part of a line
                line = b"\n" + line
        try:
            while line:  # a full disk may take part of it and refuse the remainder
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError as error:
            # Best effort: if the truncation fails too, the reader skips the incomplete line.
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise ReproductionError(
                f"A row could not be written to {path} ({error.strerror}). Rows before it are "
                "kept; make room and run the same command again."
            ) from error


def select_finished(rows: Iterable[Row], fingerprints: Iterable[str]) -> list[Row]:
    """Select the results of tasks.

    Parameters
    ----------
    rows : iterable of Row
        Rows of a file.
    fingerprints : iterable of str
        Fingerprints of the tasks.

    Returns
    -------
    list of Row
        The first finished row of each task, in the order of the tasks; tasks without one are
        left out.
    """
    finished: dict[str, Row] = {}
    for row in rows:
        if row["status"] == "done":
            finished.setdefault(row["task"], row)
    return [finished[key] for key in fingerprints if key in finished]
