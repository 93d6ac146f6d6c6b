"""What the commands share: the program, its errors, lists of names and progress."""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

# Options whose values may be written with spaces between them.
_LISTS = ("--datasets", "--methods", "--drop")
# Set to see where an error comes from.
_TRACEBACK = "MPDA_TRACEBACK"

_ORDER = (
    *("fit", "transform", "evaluate", "compare", "partition", "report", "export"),
    *("datasets", "reproduce", "demo"),
)


class _Ordered(TyperGroup):
    """Commands in the order in which they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=_ORDER.index)


app = typer.Typer(
    cls=_Ordered,
    help="Supervised linear dimensionality reduction: fewer dimensions in which nearest neighbours "
    "share a class.",
    epilog="Exit codes: 0 done; 1 the data, a file or the machine stood in the way; 2 the command "
    "is wrong; 3 the error is larger than --at-most allows; 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"mpda {version('mpda')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> None:
    """Carry out what the arguments say, and exit with what came of it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _commands()(joined(given), prog_name="mpda", obj=f"mpda {shlex.join(given)}")


@cache
def _commands() -> Callable[..., Any]:
    """All commands with their options, which take a tenth of a second to put together."""
    return get_command(app)


def joined(arguments: Iterable[str]) -> list[str]:
    """``--datasets a b`` as ``--datasets a,b``: several values end at the next option."""
    made: list[str] = []
    begins = goes_on = False  # whether the next word is the first of a list, or one more of it
    for argument in arguments:
        if argument.startswith("-"):
            name, sign, _ = argument.partition("=")
            begins = name in _LISTS and not sign
            goes_on = name in _LISTS and bool(sign)
            made.append(argument)
        elif goes_on and not _is_positional(argument):
            made[-1] += f",{argument}"
        else:
            made.append(argument)
            begins, goes_on = False, begins
    return made


def _is_positional(word: str) -> bool:
    """Whether a word after a list is no more of it: an experiment, or a file."""
    from mpda.cli._names import EXPERIMENTS, FILES

    return word in EXPERIMENTS or Path(word).suffix.lower() in FILES or Path(word).exists()


def stop(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def said_in_one_line(again: str = "", *, quiet: bool = False) -> Iterator[None]:
    """What goes wrong is a line and an exit code, without a traceback; warnings are notes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = partial(_note_warning, quiet=quiet)
            yield
            sys.stdout.flush()  # what cannot be written is said here
    except KeyboardInterrupt:
        stop(f"mpda: stopped{again}", 130)
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, RuntimeError, OSError, ImportError, MemoryError) as error:
        # Libraries speak of users' mistakes in all of these.
        if os.environ.get(_TRACEBACK):
            raise
        said = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.strerror:
            said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        stop(f"mpda: {said}", 1)
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        said = " ".join(str(error).split())
        stop(f"mpda: failed ({type(error).__name__}: {said}); {_TRACEBACK}=1 shows where", 1)


def _note_warning(message: Warning | str, *_: Any, quiet: bool, **__: Any) -> None:
    note(f"note: {' '.join(str(message).split())}", quiet)


@contextmanager
def connected(scheduler: str | None) -> Iterator[None]:
    """Parallel work inside goes to the workers of a scheduler, if one is named."""
    if scheduler is None:
        yield
        return
    from mpda.parallel import dask_engine

    try:
        cluster = dask_engine().workers_of(scheduler)
    except (ImportError, OSError, ValueError) as error:
        stop(f"mpda: --scheduler {scheduler}: {error}", 1)
    with cluster:
        yield


def names(given: str | None, known: Iterable[str], what: str) -> list[str] | None:
    """The names of a list, in any case and with - or _ for a space; None where none was given."""
    by_plain = {_plain(name): name for name in known}
    asked = listed(given)
    for name in asked:
        if _plain(name) not in by_plain:
            stop(f"mpda: {what} has no {name!r}; there are: {', '.join(by_plain.values())}.", 2)
    if given is not None and not asked:
        stop(f"mpda: {what} names nothing; there are: {', '.join(by_plain.values())}.", 2)
    return list(dict.fromkeys(by_plain[_plain(name)] for name in asked)) or None


def listed(given: str | None) -> list[str]:
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", " ").replace("_", " ")


@contextmanager
def progress(total: int, title: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr where that is a terminal; what it gives is called after each step."""
    if quiet or not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TextColumn("about"), Remaining(), TextColumn("left")),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        def step(what: str) -> None:
            bar.update(task, advance=1, description=what or title)

        yield step


def note(line: str, quiet: bool) -> None:
    """Something a user should know, beside what was asked for."""
    if not quiet:
        print(line, file=sys.stderr)


def print_json(found: dict[str, Any]) -> None:
    """One line that other programs read; numbers that are none become null."""
    from mpda.report import to_json_types

    print(json.dumps(to_json_types(found), allow_nan=False))
