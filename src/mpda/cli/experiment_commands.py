"""``mpda reproduce``, ``demo``, ``datasets`` and ``report``: experiments, their data and pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli import options
from mpda.cli.cluster_fit import connect
from mpda.cli.plain_text import format_plain
from mpda.cli.table_source import check_outputs, check_table_output
from mpda.cli.terminal import Terminal, stop

if TYPE_CHECKING:
    from mpda.experiments import ExperimentResult


# The parser needs the names before the module of the experiments is imported.
ExperimentName = StrEnum(
    "ExperimentName",
    "TABLE1 TABLE2 DIMENSION RANKS SENSITIVITY USPS PARTITION KEEL EMBEDDINGS FIELDS CLAIMS",
)
ExperimentName.__doc__ = "Experiments of the paper."


def reproduce(
    terminal: Terminal,
    experiment: ExperimentName,
    datasets: Annotated[list[str] | None, typer.Option(metavar="NAMES")] = None,
    methods: Annotated[list[str] | None, typer.Option(metavar="NAMES")] = None,
    splits: Annotated[int, typer.Option(min=1, max=20)] = 20,
    jobs: options.Count = 1,
    scheduler: str | None = None,
    data: Path | None = None,
    out: Path = Path("reproduction"),
) -> None:
    """Repeat an experiment of the paper. An interrupted run continues where it stopped.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    experiment : ExperimentName
        Experiment of the paper.
    datasets : list of str, default=None
        Data sets, separated by commas or spaces. Default: all.
    methods : list of str, default=None
        Methods, separated by commas or spaces. Default: all.
    splits : int, default=20
        Number of random splits of each data set.
    jobs : int, default=1
        Number of tasks computed in parallel.
    scheduler : str, default=None
        Compute the tasks on the Dask cluster with this scheduler, for example tcp://HOST:8786.
    data : Path, default=None
        Directory with .npz files. Default: MPDA_DATA.
    out : Path, default="reproduction"
        Directory for rows, tables and figures.
    """
    from mpda.experiments import ExperimentOptions, find_choices, reproduce

    known_datasets, known_methods = find_choices(experiment.value)
    problems = options.parse_names(datasets, known_datasets, "--datasets") or None
    names = options.parse_names(methods, known_methods, "--methods") or None
    stream = None if terminal.quiet else sys.stderr
    settings = ExperimentOptions(out, problems, names, splits, jobs, data, stream)
    with connect(scheduler):
        _run(terminal, lambda: reproduce(experiment.value, settings))


def demo(terminal: Terminal, out: Path = Path("demo-output")) -> None:
    """Make the bundled sentence embeddings smaller and measure searches; takes about a minute.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    out : Path, default="demo-output"
        Directory for the figure and the page.
    """
    from mpda import experiments

    outcome = experiments.demo(out, terminal.command, lambda text: terminal.note(f"mpda: {text}"))
    measured = {"seen": outcome.seen, "unseen": outcome.unseen}
    results = {name: [*map(asdict, scores)] for name, scores in measured.items()}
    terminal.finish(results, outcome.lines, files=outcome.files)


def _run(terminal: Terminal, experiment: Callable[[], ExperimentResult]) -> None:
    """Run an experiment, print its table, and stop if it is interrupted or a task failed."""
    try:
        outcome = experiment()
    except KeyboardInterrupt:
        stop("mpda: stopped; run the same command again to continue", 130)
    keys = ("problem", "method", "seed", "dimensions", "wrong", "n_test")
    rows = [{key: row[key] for key in keys} for row in outcome.rows]
    lines = format_plain(outcome.text).splitlines()
    terminal.finish({"rows": rows, "failed": outcome.failed}, lines, files=outcome.files)
    if outcome.failed:
        stop(f"mpda: failed tasks: {len(outcome.failed)}; the first one: {outcome.failed[0]}", 1)


def datasets(
    terminal: Terminal,
    name: Annotated[str | None, typer.Argument()] = None,
    out: Path | None = None,
    data: Path | None = None,
) -> None:
    """List the data sets (size, licence, source, citation), or write one as a table.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    name : str, default=None
        Data set. Default: list all.
    out : Path, default=None
        Table to write with the samples of the data set: CSV, TSV, Parquet, Arrow or .npy.
        Parquet and Arrow files of intents have one column of vectors, others one for each number.
    data : Path, default=None
        Directory with .npz files. Default: MPDA_DATA.
    """
    from mpda.experiments.datasets import DATASETS

    names = options.parse_names(name and [name], DATASETS, "datasets") or list(DATASETS)
    if out is not None and len(names) > 1:
        stop(f"mpda: --out needs the name of one data set: {', '.join(names)}.", 2)
    entries, lines = {}, []
    for entry in map(DATASETS.__getitem__, names):
        source = str(entry.source or "no download; put the file into --data or MPDA_DATA")
        entries[entry.name] = {**asdict(entry), "source": source}
        shape = f"{entry.n_samples} x {entry.n_features}, {entry.n_classes} classes"
        lines.append(f"{entry.name}: {entry.title}; {shape}\n    licence: {entry.licence}")
        lines.append(f"    source: {source}\n    {entry.citation}")
    if out is None:
        terminal.finish(entries, lines)
        return
    if names[0] == "intents":
        _write_intents(out)
    else:
        _write_dataset(names[0], data, out)
    # The keys of the JSON object are names of data sets, so "files" is no key of it.
    terminal.finish(entries, files=None if terminal.as_json else [out])


def _write_dataset(
    name: str, directory: Path | None, out: Path, columns: dict[str, Any] | None = None
) -> None:
    """Write a table with text labels, or an .npy whose last column holds the labels as numbers.

    ``columns`` are written in place of the column "label".
    """
    import numpy as np

    from mpda.cli.tables.files import write_table
    from mpda.experiments.datasets import column_names, load

    check_table_output(out)
    X, y = load(name, directory)
    features, classes = column_names(name, directory)
    _, codes = np.unique(y, return_inverse=True)
    if out.suffix.lower() == ".npy":
        X = np.column_stack([X, codes])
    columns = columns or {"label": np.array(classes)[codes]}
    write_table(out, np.asarray(X), features, columns)


def _write_intents(out: Path) -> None:
    """Write text, intent, split and embedding; CSV, TSV and .npy have a column for each number."""
    from mpda._lib.atomic_write import atomic_path
    from mpda.experiments.datasets import load_intents

    check_table_output(out)
    intents = load_intents()
    suffix = out.suffix.lower()
    if suffix not in (".parquet", ".arrow", ".feather"):
        _write_dataset("intents", None, out, intents.columns)
        return
    from pyarrow import feather, parquet

    write = parquet.write_table if suffix == ".parquet" else feather.write_feather
    with atomic_path(out) as temporary:
        write(intents.to_arrow(), temporary)


def report(
    terminal: Terminal, results: Path, out: Path | None = None, figures: Path | None = None
) -> None:
    """Write a report as one HTML page, or figures for a paper, from results.

    Parameters
    ----------
    terminal : Terminal
        Output of the command.
    results : Path
        The file results.json of fit, evaluate, compare or demo, the file rows.jsonl of reproduce,
        or a directory with one of them.
    out : Path, default=None
        HTML page to write.
    figures : Path, default=None
        Directory for the figures as PNG and SVG.
    """
    if out is None and figures is None:
        stop("mpda: report needs --out PAGE.html, --figures DIRECTORY, or both.", 2)
    check_outputs([results, results / "results.json", results / "rows.jsonl"], out)
    from mpda.experiments.rows_report import load_results
    from mpda.report import write_figures, write_page

    content = load_results(results, terminal.command)
    files = [] if out is None else [write_page(content, out)]
    files += [] if figures is None else write_figures(content, figures)
    terminal.finish({}, files=files)
