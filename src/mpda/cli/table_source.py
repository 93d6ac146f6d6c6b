"""Samples of a command: the table that its options name, read and checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpda._lib.atomic_write import check_writable
from mpda.cli.messages import list_labels, shorten_label
from mpda.cli.terminal import Terminal, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from mpda.io.tables import Table


@dataclass(frozen=True)
class TableSource:
    """File with samples, and the columns and rows that are read.

    Parameters
    ----------
    data : Path
        Table: CSV, TSV, Parquet, Arrow, .npy or .npz.
    label : str, default=None
        Column of the classes. For .npz: name of the array (default: y). For .npy: number of the
        column, or a file with the labels.
    drop : list of str, default=None
        Columns to leave out, separated by commas or spaces; can be repeated.
    skip_missing : bool, default=False
        Leave out rows with missing values.
    decimal : str, default="."
        Decimal separator of a CSV or TSV file: . or ,
    encoding : str, default=None
        Encoding of a CSV or TSV file, for example latin-1. Default: UTF-8.
    """

    data: Path
    label: str | None = None
    drop: list[str] | None = None
    # With its name, typer makes no second option --no-skip-missing.
    skip_missing: Annotated[bool, typer.Option("--skip-missing")] = False
    decimal: Annotated[str, typer.Option(metavar=".|,")] = "."
    encoding: str | None = None

    def check(self, *outputs: Path | None) -> None:
        """Stop if ``--label`` is missing, or if an output cannot be written.

        Parameters
        ----------
        *outputs : Path or None
            Files that the command writes.
        """
        from mpda.io.tables import describe_columns

        check_outputs([self.data], *outputs)
        if self.label is None and self.data.suffix.lower() != ".npz":
            columns = describe_columns(self.data)
            stop(f"mpda: --label is missing; it names the classes. {self.data} has {columns}.", 2)

    def read(
        self,
        terminal: Terminal,
        features: Sequence[str] | None = None,
        groups: str | None = None,
        text: str | None = None,
    ) -> Table:
        """Read the table.

        Parameters
        ----------
        terminal : Terminal
            Shows a progress bar meanwhile.
        features : sequence of str, default=None
            Columns that are features, in this order. None takes all columns that are left.
        groups : str, default=None
            Column of the groups.
        text : str, default=None
            Column that describes each sample.

        Returns
        -------
        Table
            The samples.
        """
        from mpda.io.tables import read_table

        if self.decimal not in (".", ","):
            stop(f"mpda: --decimal must be . or , and not {self.decimal!r}.", 2)
        read = partial(read_table, self.data, label=self.label, drop=self.drop or ())
        read = partial(read, decimal=self.decimal, encoding=self.encoding)
        with terminal.progress(1, f"reading {self.data.name}"):
            read = partial(read, skip_missing=self.skip_missing, groups=groups, text=text)
            return read(features=features)


def check_outputs(inputs: Sequence[Path], *outputs: Path | None) -> None:
    """Stop if a command would overwrite a file that it reads, or cannot write a file.

    Parameters
    ----------
    inputs : sequence of Path
        Files that are read.
    *outputs : Path or None
        Files that are written after the work, which takes longer than this check.
    """
    for path in filter(None, outputs):
        for source in inputs:
            if path.exists() and source.exists() and path.samefile(source):
                stop(f"mpda: {path} is an input file; choose another output file.", 2)
    check_writable(*outputs)


def check_classes(table: Table, n_folds: int) -> list[str]:
    """Refuse a table from which nothing can be learned or measured.

    Parameters
    ----------
    table : Table
        Samples with labels.
    n_folds : int
        Folds that measure the error; 0 for none.

    Returns
    -------
    list of str
        Findings of the data check, and notes on groups, small classes and duplicates.

    Raises
    ------
    TableError
        If there are fewer than two classes, if no class has two samples, if all samples are equal,
        if no class has a sample for every fold or if there are fewer groups than folds.
    """
    import numpy as np

    from mpda.io.table_check import check_table

    classes, counts = np.unique(table.labels, return_counts=True)
    n_samples, largest = len(table.X), counts.max()
    if classes.size < 2:
        label = shorten_label(classes[0])
        raise TableError(f"All {n_samples} samples have the label {label}; two classes are needed.")
    # The label column of a table is easily confused with its column of names or numbers.
    if largest < 2:
        raise TableError(
            f"Every sample has a different label in {table.label!r}, so these name samples, not "
            "classes. Is another column meant?"
        )
    if (table.X[0] == table.X).all():
        raise TableError("All samples have the same features, so nothing can be learned from them.")
    if n_folds > largest:
        advice = "Use fewer folds, or --folds 0 to measure no error."
        raise TableError(f"--folds {n_folds}: the largest class has {largest} samples. {advice}")
    notes = check_table(table)
    if table.groups is not None:
        n_groups = len(np.unique(table.groups))
        if n_groups < max(n_folds, 2):
            reason = f"the folds divide no group, and there are {n_groups}"
            raise TableError(f"--groups: {max(n_folds, 2)} folds are too many: {reason}.")
        notes.append(f"all samples of a group are in one fold; there are {n_groups} groups")
    # A class needs one sample in each fold; without folds, two samples for a scatter.
    n_required = max(n_folds, 2)
    small_classes = classes[counts < n_required]
    if small_classes.size:
        labels = list_labels(small_classes)
        notes.append(f"classes with fewer than {n_required} samples are not reliable: {labels}")
    # Rows are compared as bytes, because np.unique(axis=0) takes seconds for ten thousand images.
    rows = np.ascontiguousarray(table.X) + 0.0  # The bytes of -0.0 and 0.0 differ.
    n_duplicates = n_samples - len(np.unique(rows.view(f"V{rows.itemsize * rows.shape[1]}")))
    if n_duplicates:
        reason = "where one copy trains and another one tests, the measured error is too low"
        notes.append(f"{n_duplicates} of {n_samples} samples are duplicates of others; {reason}")
    return notes
