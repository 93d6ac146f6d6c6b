"""The program ``mpda``: its commands in the order of ``mpda --help``, and the way they are called.

The commands are functions in modules named after them; ``command_factory`` makes them known to
typer.
"""

import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from mpda.cli.command_factory import DocumentedCommand, hide_flag_types, make_command
from mpda.cli.data_commands import compare, partition
from mpda.cli.experiment_commands import ExperimentName, datasets, demo, report, reproduce
from mpda.cli.fit_command import fit
from mpda.cli.model_commands import evaluate, export, predict, transform
from mpda.cli.terminal import stop

COMMANDS = (
    *(fit, predict, evaluate, transform, export),
    *(compare, partition, report, datasets, reproduce, demo),
)
# Building the commands takes a tenth of a second, which tests that run many would notice.
_get_command = cache(get_command)
# Wrong options and arguments. typer has moved this class between packages; its subclass stays.
_USAGE_ERROR: Any = typer.BadParameter.__base__
# Options that accept several words: --datasets a b.
_LIST_OPTIONS = ("--datasets", "--methods", "--drop")


class _ListOptionGroup(TyperGroup):
    """Group of commands with options that accept several words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeat_list_options(args))

    def get_params(self, ctx: Any) -> list[Any]:
        return hide_flag_types(super().get_params(ctx))


def _repeat_list_options(arguments: Iterable[str]) -> list[str]:
    """Write ``--datasets a b`` as ``--datasets a --datasets b``, which typer understands.

    A list ends at the next option, at the name of an experiment and at the name of a file.
    """
    words: list[str] = []
    option = None
    for word in arguments:
        if word.startswith("-"):
            name = word.partition("=")[0]
            option = name if name in _LIST_OPTIONS else None
        # The first word after the option is its value in any case, even if a file has that name.
        elif option is not None and words[-1] != option:
            if word in tuple(ExperimentName) or Path(word).exists():
                option = None
            else:
                words.append(option)
        words.append(word)
    return words


app = typer.Typer(
    cls=_ListOptionGroup,
    help="Reduce labelled data to a few dimensions in which nearest neighbours share a class.",
    epilog="Exit codes: 0 success; 1 a problem with the data, a file or the machine; 2 wrong "
    "usage; 3 the error is above --at-most; 130 interrupted.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _function in COMMANDS:
    app.command(cls=DocumentedCommand)(make_command(_function))


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"mpda {version('mpda')}")
        raise typer.Exit


_Version = typer.Option("--version", callback=_print_version, is_eager=True, help="Print version.")


@app.callback()
def _parse_program_options(version: Annotated[bool, _Version] = False) -> None:
    """Accept options that stand before the name of a command."""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit.

    Parameters
    ----------
    arguments : sequence of str, default=None
        Words after ``mpda``. None takes those of the process.

    Raises
    ------
    SystemExit
        Always, with the exit code of the command.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Commands record the command line in the files that they write.
    command = f"mpda {shlex.join(words)}"
    try:
        # Not standalone: typer would print its own errors, in a frame of several lines.
        code = _get_command(app)(
            words or ["--help"], prog_name="mpda", obj=command, standalone_mode=False
        )
    except _USAGE_ERROR as error:
        path = error.ctx.command_path if error.ctx else "mpda"
        text = " ".join(error.format_message().split()).removesuffix(".")
        text = text.replace("Value error, ", "")  # of typer's types
        stop(f"mpda: {text}. See {path} --help.", 2)
    raise SystemExit(code or 0)
