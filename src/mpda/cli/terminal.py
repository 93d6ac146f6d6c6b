"""Standard streams of the commands: results, notes, progress bars and one-line errors.

Results go to standard output, as text or as one JSON object. Notes, warnings, progress and errors
go to standard error. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 error above a limit,
130 interrupted. Depends on no other module of the package before a command runs.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

# Environment variable that turns one-line errors back into tracebacks.
_TRACEBACK = "MPDA_TRACEBACK"
# Exceptions by which libraries report bad input; any other exception is a fault of the program.
_USER_ERRORS = (ValueError, TypeError, RuntimeError, OSError, ImportError, MemoryError)


@dataclass(frozen=True)
class Terminal:
    """Output of one command.

    Parameters
    ----------
    context : typer.Context
        Holds the command line.
    quiet : bool, default=False
        Print no progress and no notes.
    as_json : bool, default=False
        Print one JSON object, for other programs.
    """

    context: typer.Context
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False
    as_json: Annotated[bool, typer.Option("--json")] = False

    @property
    def command(self) -> str:
        """The command line, which is recorded in the files that a command writes."""
        return str(self.context.obj)

    def note(self, text: str) -> None:
        """Print a line on standard error, unless the command is quiet.

        Parameters
        ----------
        text : str
            The line.
        """
        if not self.quiet:
            print(text, file=sys.stderr)

    @contextmanager
    def progress(self, total: int, title: str) -> Iterator[Callable[[str], None]]:
        """Draw a progress bar on standard error if that is a terminal.

        Parameters
        ----------
        total : int
            Number of steps.
        title : str
            Description of the first step.

        Yields
        ------
        callable
            To be called after every step with the description of the next one; an empty
            description repeats the title.
        """
        if self.quiet or not sys.stderr.isatty():
            yield lambda description: None
            return
        from rich import progress as bars
        from rich.console import Console

        columns = (*bars.Progress.get_default_columns(), bars.MofNCompleteColumn())
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda text: bar.update(task, advance=1, description=text or title)

    def finish(
        self,
        results: Mapping[str, Any],
        lines: Sequence[str] = (),
        notes: Sequence[str] = (),
        files: Sequence[Path] | None = None,
    ) -> None:
        """Print the result of a command.

        Parameters
        ----------
        results : mapping
            Content of the JSON object; numbers that are not finite become null.
        lines : sequence of str
            The result as text.
        notes : sequence of str
            Notes for a reader of the text. The JSON object must contain them already.
        files : sequence of Path, default=None
            Files that were written. They are named in a note or in the JSON object.
        """
        if self.as_json:
            from mpda.report import to_json_types

            names = {} if files is None else {"files": [*map(str, files)]}
            print(json.dumps(to_json_types({**results, **names}), allow_nan=False))
            return
        for line in lines:
            print(line)
        for text in notes:
            self.note(f"note: {text}")
        if files:
            self.note(f"written: {', '.join(map(str, files))}")


def stop(message: str, code: int) -> NoReturn:
    """Print a message on standard error and exit.

    Parameters
    ----------
    message : str
        One line.
    code : int
        Exit code.

    Raises
    ------
    SystemExit
        Always.
    """
    print(message, file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def report_in_one_line(*, quiet: bool) -> Iterator[None]:
    """Report every failure as one line and an exit code, and warnings as notes.

    Parameters
    ----------
    quiet : bool
        Suppress warnings.

    Yields
    ------
    None
        The environment variable MPDA_TRACEBACK keeps tracebacks of what happens inside.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if quiet else "default")
            warnings.showwarning = _print_warning
            yield
    except KeyboardInterrupt:
        stop("mpda: stopped", 130)
    except BrokenPipeError:
        raise  # The reader of a pipe has seen enough; typer exits without a message.
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        stop(f"mpda: {_describe_error(error)}", 1)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"note: {' '.join(str(message).split())}", file=sys.stderr)


def _describe_error(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, _USER_ERRORS):
        return text or type(error).__name__
    return f"internal error ({type(error).__name__}: {text}); {_TRACEBACK}=1 shows where"
