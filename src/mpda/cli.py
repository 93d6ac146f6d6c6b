"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mpda.reproduction import Outcome

_LISTS = ("--datasets", "--methods")

app = typer.Typer(
    help="Supervised linear dimensionality reduction.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Experiment(StrEnum):
    """Experiments of the paper."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    DIMENSION = "dimension"
    SENSITIVITY = "sensitivity"
    USPS = "usps"
    PARTITION = "partition"


def run(arguments: Sequence[str] | None = None) -> None:
    """Carry out what the arguments say, and exit with what came of it."""
    app(_joined(sys.argv[1:] if arguments is None else arguments))


@contextmanager
def _said_in_one_line() -> Iterator[None]:
    """What is no fault of the program is a line and an exit code, without a traceback."""
    from mpda.exceptions import DatasetError, ReproductionError

    try:
        yield
    except (DatasetError, ReproductionError) as error:
        _stop(f"mpda: {error}", 1)
    except KeyboardInterrupt:
        _stop("mpda: stopped; the same command goes on from here", 130)


@contextmanager
def _connected(scheduler: str | None) -> Iterator[None]:
    """Parallel work inside goes to the workers of a scheduler, if one is named."""
    if scheduler is None:
        yield
        return
    from mpda.engines import dask_engine

    try:
        cluster = dask_engine().workers_of(scheduler)
    except (ImportError, OSError, ValueError) as error:
        _stop(f"mpda: --scheduler {scheduler}: {error}", 1)
    with cluster:
        yield


def _joined(arguments: Iterable[str]) -> list[str]:
    """``--datasets a b`` as ``--datasets a,b``: several values end at the next option."""
    made: list[str] = []
    begins = goes_on = False  # whether the next word is the first of a list, or one more of it
    for argument in arguments:
        if argument.startswith("-"):
            name, sign, _ = argument.partition("=")
            begins = name in _LISTS and not sign
            goes_on = name in _LISTS and bool(sign)
            made.append(argument)
        elif goes_on and argument not in list(Experiment):
            made[-1] += f",{argument}"
        else:
            made.append(argument)
            begins, goes_on = False, begins
    return made


def _stop(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(code)


def _chosen(given: str | None, known: Iterable[str], what: str) -> list[str] | None:
    """The names of a list, in any case and with - or _ for a space; None where none was given."""

    def plain(name: str) -> str:
        return name.strip().lower().replace("-", " ").replace("_", " ")

    names = {plain(name): name for name in known}
    asked = [name for name in (given or "").split(",") if name.strip()]
    for name in asked:
        if plain(name) not in names:
            _stop(f"mpda: {what} has no {name!r}; there are: {', '.join(names.values())}.", 2)
    if given is not None and not asked:
        _stop(f"mpda: {what} names nothing; there are: {', '.join(names.values())}.", 2)
    return list(dict.fromkeys(names[plain(name)] for name in asked)) or None


@app.command()
def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="What to repeat.")],
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
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Repeat an experiment of the paper. A run that was stopped goes on where it was."""
    from mpda.reproduction import CONTENDERS, PROBLEMS, Order, reproduce

    order = Order(
        out=out,
        problems=_chosen(datasets, PROBLEMS, "--datasets"),
        methods=_chosen(methods, CONTENDERS, "--methods"),
        n_splits=splits,
        jobs=jobs,
        directory=data,
        progress=None if quiet else sys.stderr,
    )
    with _said_in_one_line(), _connected(scheduler):
        _show(reproduce(experiment.value, order), quiet)


def _show(outcome: Outcome, quiet: bool) -> None:
    if outcome.text:
        print(outcome.text)
    if not quiet:
        print(f"written: {', '.join(map(str, outcome.files))}", file=sys.stderr)
    if outcome.failed:
        _stop(f"mpda: {len(outcome.failed)} tasks failed; the first: {outcome.failed[0]}", 1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("demo-output"),
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Compare methods on the digits that come with scikit-learn, in a minute."""
    from mpda.reproduction import demo

    with _said_in_one_line():
        _show(demo(out, jobs, None if quiet else sys.stderr), quiet)


@app.command()
def datasets() -> None:
    """List the data sets: shape, licence, source and citation."""
    from mpda.datasets import DATASETS

    for entry in DATASETS.values():
        shape = f"{entry.n_samples} x {entry.n_features}, {entry.n_classes} classes"
        print(f"{entry.name}: {entry.title}; {shape}")
        print(f"    licence: {entry.licence}")
        print(f"    source: {entry.source or 'a file of your own, named by --data or MPDA_DATA'}")
        print(f"    {entry.citation}")
