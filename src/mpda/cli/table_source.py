"""Samples of a command: the table that its options name, read and checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpda._lib.atomic_write import check_writable
from mpda.cli.messages import list_labels, shorten_label
from mpda.cli.options import DEFAULT_FOLDS, FeatureOptions
from mpda.cli.terminal import Terminal, stop
from mpda.exceptions import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from mpda._lib.array_types import Labels
    from mpda.cli.tables.reading import Table

# Samples of a class with which an error can be measured: one tests, and two are divided into the
# folds that select the number of components.
MIN_SAMPLES = 3


@dataclass(frozen=True)
class TableSource:
    """File with samples, and the columns and rows that are read.

    Parameters
    ----------
    data : Path
        Table: CSV, TSV, Parquet, Arrow, JSON lines, .xlsx (needs openpyxl), .npy, .npz, or a
        directory of Parquet files. Of vectors in a column, these are the features.
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
    sheet : str, default=None
        Sheet of an .xlsx file. Default: the first one.
    embedding : str, default=None
        Column of vectors. Default: the only one that holds lists of numbers.
    """

    data: Path
    label: str | None = None
    drop: Annotated[list[str] | None, typer.Option(metavar="NAMES")] = None
    # With its name, typer makes no second option --no-skip-missing.
    skip_missing: Annotated[bool, typer.Option("--skip-missing")] = False
    decimal: Annotated[str, typer.Option(metavar=".|,")] = "."
    encoding: str | None = None
    sheet: Annotated[str | None, typer.Option(metavar="NAME")] = None
    embedding: Annotated[str | None, typer.Option(metavar="NAME")] = None

    def check(self, *outputs: Path | None) -> None:
        """Stop if ``--label`` is missing, or if an output cannot be written.

        Parameters
        ----------
        *outputs : Path or None
            Files that the command writes.
        """
        from mpda.cli.tables.files import FileFormat
        from mpda.cli.tables.reading import describe_columns

        check_outputs([self.data], *outputs)
        if self.label is None and self.data.suffix.lower() != ".npz":
            self._check_format()
            file_format = FileFormat(self.decimal, self.encoding or "utf-8-sig", self.sheet)
            columns = describe_columns(self.data, file_format)
            stop(f"mpda: --label is missing; it names the classes. {self.data} has {columns}.", 2)

    def read(
        self,
        terminal: Terminal,
        features: Sequence[str] | None = None,
        groups: str | None = None,
        text: str | None = None,
        *,
        keep_missing: bool = False,
        one_hot: bool = False,
        texts: Sequence[str] = (),
        usual_embedding: str | None = None,
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
        keep_missing : bool, default=False
            Accept missing values of features.
        one_hot : bool, default=False
            Accept columns of text.
        texts : sequence of str, default=()
            Features that are text whatever their values are.
        usual_embedding : str, default=None
            Column of the vectors of a fit.

        Returns
        -------
        Table
            The samples.
        """
        from mpda.cli.tables.reading import read_table

        self._check_format()
        read = partial(read_table, self.data, label=self.label, drop=self.drop or ())
        read = partial(read, decimal=self.decimal, encoding=self.encoding, sheet=self.sheet)
        read = partial(read, keep_missing=keep_missing, one_hot=one_hot, texts=texts)
        read = partial(read, embedding=self.embedding, usual_embedding=usual_embedding)
        with terminal.progress(1, f"reading {self.data.name}"):
            read = partial(read, skip_missing=self.skip_missing, groups=groups, text=text)
            return read(features=features)

    def _check_format(self) -> None:
        """Stop if an option does not belong to the format of the file."""
        if self.decimal not in (".", ","):
            stop(f"mpda: --decimal must be . or , and not {self.decimal!r}.", 2)
        if self.sheet is not None and self.data.suffix.lower() != ".xlsx":
            stop(f"mpda: --sheet is for .xlsx files, not for {self.data}.", 2)


def read_samples(
    source: TableSource,
    terminal: Terminal,
    features: FeatureOptions,
    groups: str | None = None,
    text: str | None = None,
) -> Table:
    """Read the samples to which a model is fitted.

    Parameters
    ----------
    source : TableSource
        The file.
    terminal : Terminal
        Shows a progress bar meanwhile.
    features : FeatureOptions
        Whether missing values and columns of text are accepted.
    groups : str, default=None
        Column of the groups.
    text : str, default=None
        Column that describes each sample.

    Returns
    -------
    Table
        The samples.
    """
    keep_missing = features.impute is not None
    read = partial(source.read, terminal, groups=groups, text=text)
    return read(keep_missing=keep_missing, one_hot=features.one_hot)


def read_new_samples(
    source: TableSource, terminal: Terminal, model: Pipeline, embedding: str | None = None
) -> Table:
    """Read the features of a model from a table, in the order of the fit.

    Parameters
    ----------
    source : TableSource
        The file.
    terminal : Terminal
        Shows a progress bar meanwhile.
    model : Pipeline
        Fitted model. It says which features are text, and whether values may be missing.
    embedding : str, default=None
        Column of the vectors of the fit.

    Returns
    -------
    Table
        The samples.

    Raises
    ------
    TableError
        If the table has another number of features than the model.
    """
    from mpda.assessment import column_transformer

    names = getattr(model, "feature_names_in_", None)
    features = None if names is None else tuple(names.tolist())
    texts = [features[j] for j in column_transformer.find_categories(model)] if features else []
    keep_missing = column_transformer.replaces_missing(model)
    n_features = model.n_features_in_
    return _read_features(source, terminal, features, texts, keep_missing, n_features, embedding)


def read_test_samples(
    source: TableSource, terminal: Terminal, features: FeatureOptions, fitted: Table
) -> Table:
    """Read the samples that test a model, before the model is fitted.

    Parameters
    ----------
    source : TableSource
        The file. Columns of ``drop`` may be absent.
    terminal : Terminal
        Shows a progress bar meanwhile.
    features : FeatureOptions
        Whether missing values are accepted.
    fitted : Table
        Samples of the fit, whose features are read.

    Returns
    -------
    Table
        The samples.

    Raises
    ------
    TableError
        If the table has other features than the samples of the fit, or no labels.
    """
    names, keep_missing = fitted.features, features.impute is not None
    texts = [] if names is None else [names[j] for j in fitted.categories]
    source, n_features = replace(source, drop=None, embedding=None), fitted.n_features
    usual = fitted.embedding
    table = _read_features(source, terminal, names, texts, keep_missing, n_features, usual)
    return replace(table, y=table.labels)  # an error without labels


def _read_features(
    source: TableSource,
    terminal: Terminal,
    features: tuple[str, ...] | None,
    texts: Sequence[str],
    keep_missing: bool,
    n_features: int,
    embedding: str | None,
) -> Table:
    """Read the features of a model, in their order.

    ``texts`` are those that are text, ``embedding`` is the column of vectors in the fit.
    """
    from mpda.cli.tables.files import FRAME_SUFFIXES, table_suffix
    from mpda.io.error_text import count_noun

    if texts and table_suffix(source.data) not in FRAME_SUFFIXES:
        raise TableError(f"{source.data} has no text, but the model has: {texts[0]!r}.")
    read = partial(source.read, terminal, features, keep_missing=keep_missing, texts=texts)
    table = read(usual_embedding=embedding)
    if table.n_features != n_features:
        found = count_noun(table.n_features, "feature")
        found += "" if table.embedding is None else f" in {table.embedding!r:.80}"
        reason = f"{found}, but the model was fitted with {n_features}"
        raise TableError(f"{source.data} has {reason}.")
    # An array has no names, and a model without names takes columns in their order.
    return table.name_features(features)


def check_outputs(inputs: Sequence[Path], *outputs: Path | None) -> None:
    """Stop if a command would overwrite a file that it reads or writes, or cannot write a file.

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
    resolved = [path.resolve() for path in filter(None, outputs)]
    if len(set(resolved)) < len(resolved):
        repeated = next(path for path in resolved if resolved.count(path) > 1)
        stop(f"mpda: two outputs are {repeated.name}; choose another name for one of them.", 2)
    folders = [folder for path in filter(None, outputs) for folder in path.parents]
    missing = [folder for folder in folders if not folder.exists()]
    check_writable(*outputs)
    for folder in missing:  # a command that fails leaves no empty directory
        with suppress(OSError):
            folder.rmdir()


def check_table_output(out: Path | None) -> None:
    """Stop if the suffix of a table to write names no format.

    Parameters
    ----------
    out : Path or None
        Value of --out.
    """
    from mpda.cli.tables.files import check_output

    if out is not None:
        try:
            check_output(out)
        except TableError as error:
            stop(f"mpda: {error}", 2)


def check_classes(table: Table, n_folds: int | None) -> tuple[int, list[str]]:
    """Refuse a table from which nothing can be learned or measured.

    Parameters
    ----------
    table : Table
        Samples with labels.
    n_folds : int or None
        Folds that measure the error; 0 for none. None stands for 5, or for fewer where classes
        or groups are too small.

    Returns
    -------
    n_folds : int
        Number of folds.
    notes : list of str
        Findings of the data check, and notes on groups, small classes and duplicates.

    Raises
    ------
    TableError
        If there are fewer than two classes, if no class has two samples, if all samples are equal,
        or if there are too few samples or groups for the folds.
    """
    import numpy as np

    from mpda._lib.fingerprints import fingerprint_rows
    from mpda.cli.tables.check import check_table

    classes, counts = np.unique(table.labels, return_counts=True)
    n_samples = table.n_samples
    if classes.size < 2:
        label = shorten_label(classes[0])
        raise TableError(f"All {n_samples} samples have the label {label}; two classes are needed.")
    # The label column of a table is easily confused with its column of names or numbers.
    if counts.max() < 2:
        raise TableError(
            f"Every sample has a different label in {table.label!r}, so these name samples, not "
            "classes. Is another column meant?"
        )
    if (table.X[0] == table.X[-1]).all() and (table.X[0] == table.X).all():
        raise TableError("All samples have the same features, so nothing can be learned from them.")
    n_groups = None if table.groups is None else len(np.unique(table.groups))
    requested, n_folds = n_folds, _choose_folds(n_folds, int(counts.max()), n_groups)
    lonely = _find_classes_of_one_group(table)
    if lonely.size == classes.size:
        raise TableError(
            "--groups: all samples of a class are in one group, so that no fold can train and test "
            "with samples of the same class. Name a column whose groups divide the classes."
        )
    notes = check_table(table)
    if requested is None and n_folds < DEFAULT_FOLDS:
        lack = "groups" if n_groups == n_folds else "samples"
        notes.append(f"{n_folds} folds measure the error; there are too few {lack} for more")
    if n_groups is not None:
        notes.append(f"all samples of a group are in one fold; there are {n_groups} groups")
    if lonely.size:
        reason = "the folds that test them have no such sample to train with, and err on all"
        notes.append(f"classes with one group: {list_labels(lonely)}; {reason}")
    # A class needs one sample in each fold, and some samples also where no error is measured.
    n_required = max(n_folds, DEFAULT_FOLDS)
    single_classes = classes[counts == 1]
    small_classes = classes[(counts > 1) & (counts < n_required)]
    if single_classes.size:
        labels = list_labels(single_classes)
        reason = "no other sample is of their class, so that every fold errs on them"
        notes.append(f"labels that occur once: {labels}; {reason}")
    if small_classes.size:
        labels = list_labels(small_classes)
        notes.append(f"classes with fewer than {n_required} samples are not reliable: {labels}")
    # Rows are compared as hashes, because np.unique(axis=0) takes seconds for ten thousand images.
    n_duplicates = n_samples - len(np.unique(fingerprint_rows(table.X)))
    if n_duplicates:
        reason = "where one copy trains and another one tests, the measured error is too low"
        kind = "is a duplicate of another" if n_duplicates == 1 else "are duplicates of others"
        notes.append(f"{n_duplicates} of {n_samples} samples {kind}; {reason}")
    return n_folds, notes


def _find_classes_of_one_group(table: Table) -> Labels:
    """Return the classes whose samples are all in one group; none without groups."""
    import numpy as np

    if table.groups is None:
        return table.labels[:0]
    classes, codes = np.unique(table.labels, return_inverse=True)
    groups = np.unique(table.groups, return_inverse=True)[1]
    pairs = np.unique(np.column_stack([codes, groups]), axis=0)
    return classes[np.bincount(pairs[:, 0]) == 1]


def _choose_folds(n_folds: int | None, largest: int, n_groups: int | None) -> int:
    """Return the number of folds; ``largest`` is the size of the largest class."""
    advice = "or fit a model without measuring its error (mpda fit --folds 0)"
    if n_folds != 0 and largest < MIN_SAMPLES:
        raise TableError(
            f"No class has more than {largest} samples, which is too few to measure an error: one "
            f"tests, and {MIN_SAMPLES - 1} select the components. Add samples, {advice}."
        )
    if n_folds is None:
        limits = [DEFAULT_FOLDS, largest, *([] if n_groups is None else [n_groups])]
        n_folds = max(2, min(limits))
    if n_folds > largest:
        raise TableError(
            f"--folds {n_folds}: the largest class has {largest} samples. Use --folds {largest} or "
            f"fewer, {advice}."
        )
    # Folds also select the number of components, so that two are needed in any case.
    if n_groups is not None and n_groups < max(n_folds, 2):
        if n_groups == 1:
            raise TableError("--groups: all samples are in one group, and folds divide no group.")
        reason = f"the folds divide no group, and there are {n_groups}"
        raise TableError(f"--groups: {max(n_folds, 2)} folds are too many: {reason}.")
    return n_folds
