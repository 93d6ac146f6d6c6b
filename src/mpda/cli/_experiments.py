"""``mpda reproduce``, ``demo``, ``datasets`` and ``report``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpda.cli._app import (
    app,
    connected,
    names,
    note,
    print_json,
    progress,
    said_in_one_line,
    stop,
)
from mpda.cli._names import Experiment
from mpda.cli._options import Json, Quiet

if TYPE_CHECKING:
    from mpda.experiments import ExperimentResult

_AGAIN = "; the same command goes on from here"


@app.command()
def reproduce(
    experiment: Annotated[Experiment, typer.Argument(metavar="EXPERIMENT", help="What to repeat.")],
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, with commas or spaces between; default: all.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, with commas or spaces between; default: all.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, max=20, help="Splits of each data set.")] = 20,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, such as tcp://HOST:8786; its workers run the tasks."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory of .npz files; default: MPDA_DATA.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for rows, tables and figures.")] = Path(
        "reproduction"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Repeat an experiment of the paper. A run that was stopped goes on where it was."""
    with said_in_one_line(_AGAIN, quiet=quiet):
        from mpda.experiments import CONTENDERS, PROBLEMS, ExperimentOptions, reproduce

        order = ExperimentOptions(
            out=out,
            problems=names(datasets, PROBLEMS, "--datasets"),
            methods=names(methods, CONTENDERS, "--methods"),
            n_splits=splits,
            jobs=jobs,
            directory=data,
            progress=None if quiet else sys.stderr,
        )
        with connected(scheduler):
            _show(reproduce(experiment.value, order), quiet, as_json)


def _show(outcome: ExperimentResult, quiet: bool, as_json: bool = False) -> None:
    if as_json:
        rows = [
            {
                key: row[key]
                for key in ("problem", "method", "seed", "dimensions", "wrong", "n_test")
            }
            for row in outcome.rows
        ]
        files = [str(path) for path in outcome.files]
        print_json({"rows": rows, "files": files, "failed": outcome.failed})
    elif outcome.text:
        print(outcome.text)
    if not as_json:
        note(f"written: {', '.join(map(str, outcome.files))}", quiet)
    if outcome.failed:
        stop(f"mpda: {len(outcome.failed)} tasks failed; the first: {outcome.failed[0]}", 1)


@app.command()
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("demo-output"),
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 2,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare methods on the digits that come with scikit-learn, in a minute."""
    with said_in_one_line(_AGAIN, quiet=quiet):
        from mpda.experiments.demo_report import write_demo

        _show(write_demo(out, jobs, None if quiet else sys.stderr, context.obj), quiet, as_json)


@app.command()
def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of them; default: list all.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With a name: write it as CSV, Parquet, .npy ..")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory of .npz files; default: MPDA_DATA.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the data sets (shape, licence, source, citation), or write one as a table."""
    with said_in_one_line(quiet=quiet):
        from mpda.experiments.datasets import DATASETS

        if out is not None and name is None:
            stop(f"mpda: --out needs the name of a data set: {', '.join(DATASETS)}.", 2)
        chosen = names(name, DATASETS, "datasets") or list(DATASETS)
        if out is not None and len(chosen) > 1:
            stop(f"mpda: --out takes one data set, not {', '.join(chosen)}.", 2)
        if as_json:
            print_json({each: _about(DATASETS[each]) for each in chosen})
        elif out is None:
            print("\n".join(line for each in chosen for line in _lines(DATASETS[each])))
        if out is not None:
            with progress(1, f"writing {out.name}", quiet) as step:
                _write_dataset(chosen[0], data, out)
                step("")
            note(f"written: {out}", quiet or as_json)


def _lines(entry: Any) -> list[str]:
    shape = f"{entry.n_samples} x {entry.n_features}, {entry.n_classes} classes"
    return [
        f"{entry.name}: {entry.title}; {shape}",
        f"    licence: {entry.licence}",
        f"    source: {_source(entry)}",
        f"    {entry.citation}",
    ]


def _about(entry: Any) -> dict[str, Any]:
    words = ("title", "licence", "citation", "checksum")
    counts = ("n_samples", "n_features", "n_classes")
    return {name: getattr(entry, name) for name in words + counts} | {"source": _source(entry)}


def _source(entry: Any) -> str:
    return str(entry.source or "a file of your own, named by --data or MPDA_DATA")


def _write_dataset(name: str, directory: Path | None, out: Path) -> None:
    """As a table with the labels as text, or as an .npy whose last column has them as numbers."""
    import numpy as np

    from mpda.experiments.datasets import column_names, load
    from mpda.io.table_files import check_output, write_table

    check_output(out)
    X, y = load(name, directory)
    features, classes = column_names(name)
    _, codes = np.unique(y, return_inverse=True)
    if out.suffix.lower() == ".npy":
        X = np.column_stack([X, codes])
    write_table(out, np.asarray(X), features, {"label": np.array(classes)[codes]})


@app.command()
def report(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS",
            help="results.json of fit, evaluate, compare or demo, rows.jsonl of reproduce, or a "
            "directory with one.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The page to write, .html.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Directory for the figures as PNG and SVG.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a page that opens anywhere, or figures for a paper, from results."""
    if out is None and figures is None:
        stop("mpda: report needs --out PAGE.html, --figures DIRECTORY, or both.", 2)
    with said_in_one_line(quiet=quiet):
        from mpda.experiments.rows_report import load_results
        from mpda.report import write_figures, write_page

        found = load_results(results)
        written = []
        with progress(2, "the page", quiet) as step:
            if out is not None:
                written.append(write_page(found, out))
            step("the figures")
            if figures is not None:
                written += write_figures(found, figures)
            step("")
        if as_json:
            print_json({"files": [str(path) for path in written]})
            return
        note(f"written: {', '.join(map(str, written))}", quiet)
