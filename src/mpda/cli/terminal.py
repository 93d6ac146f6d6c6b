"""Standard streams of the commands: results, notes, progress bars and one-line errors.

Results go to standard output, as text or as one JSON object. Notes, warnings, progress and errors
go to standard error. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 error above a limit,
130 interrupted. Depends on no other module of the package before a command runs.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from mpda._lib.progress import ProgressPrinter

# Seconds until the first estimate of the time left, and between two lines about progress.
_FIRST_ESTIMATE, _LINE_INTERVAL = 2.0, 10.0
# Environment variable that turns one-line errors back into tracebacks.
_TRACEBACK = "MPDA_TRACEBACK"
# Exceptions by which libraries report bad input; any other exception is a fault of the program.
_USER_ERRORS = (ValueError, TypeError, RuntimeError, OSError, ImportError, MemoryError)


class Progress:
    """Work that is done and work that is left.

    Parameters
    ----------
    total : float
        Amount of work, in any unit.
    text : str
        Description of the present step.
    draw : callable
        Called with this object after every change.

    Attributes
    ----------
    start : float
        When the work began, by ``time.monotonic()``.
    done : float
        Amount of work that is done.
    """

    def __init__(self, total: float, text: str, draw: Callable[[Progress], None]) -> None:
        self.total = total
        self.text = text
        self.done = 0.0
        self._finished = 0.0
        self.start = time.monotonic()
        self._draw = draw
        draw(self)

    def update(self, amount: float, text: str | None = None) -> None:
        """Report how much of the present step is done.

        Parameters
        ----------
        amount : float
            Work of the present step so far.
        text : str, default=None
            New description.
        """
        self.done, self.text = self._finished + amount, text or self.text
        self._draw(self)

    def finish_step(self, amount: float, text: str | None = None) -> None:
        """Report that the present step is done.

        Parameters
        ----------
        amount : float
            Work of the step.
        text : str, default=None
            Description of the next step.
        """
        self._finished += amount
        self.update(0.0, text)

    @property
    def time_left(self) -> str:
        """Estimate from the time so far, for example "about 0:40 left"; empty at first."""
        elapsed = time.monotonic() - self.start
        if elapsed < _FIRST_ESTIMATE or self.done < 0.01 * self.total:
            return ""
        minutes, seconds = divmod(round(elapsed * (self.total / self.done - 1.0)), 60)
        return f"about {minutes}:{seconds:02d} left"


class _ProgressLines:
    """Prints a line about progress every ten seconds."""

    def __init__(self) -> None:
        self._printer = ProgressPrinter(None, _LINE_INTERVAL)

    def __call__(self, progress: Progress) -> None:
        if not self._printer.is_due():
            return
        share = f"{100 * progress.done / progress.total:.0f} % done"
        parts = filter(None, (progress.text, share, progress.time_left))
        print(f"mpda: {', '.join(parts)}", file=sys.stderr)


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

    def print_notes(self, notes: Sequence[str]) -> None:
        """Print notes about the data before a long computation begins.

        Parameters
        ----------
        notes : sequence of str
            Without a period. With --json nothing is printed.
        """
        for text in () if self.as_json else notes:
            self.note(f"note: {text}")

    @contextmanager
    def progress(self, total: float, title: str) -> Iterator[Progress]:
        """Show progress on standard error: a bar on a terminal, otherwise a line now and then.

        Parameters
        ----------
        total : float
            Amount of work.
        title : str
            Description of the first step.

        Yields
        ------
        Progress
            To be told what is done.
        """
        if self.quiet:
            yield Progress(total, title, lambda progress: None)
            return
        if not sys.stderr.isatty():
            yield Progress(total, title, _ProgressLines())
            return
        from rich import progress as bars
        from rich.console import Console

        columns = (
            *(bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TaskProgressColumn()),
            *(bars.TextColumn("{task.fields[left]}"), bars.TimeElapsedColumn()),
        )
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=total, left="")

            def draw(state: Progress) -> None:
                bar.update(task, completed=state.done, description=state.text, left=state.time_left)

            yield Progress(total, title, draw)

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
        # A character that the terminal does not have must not end a command half-way.
        encoding = sys.stdout.encoding or "utf-8"
        for line in lines:
            print(line.encode(encoding, "replace").decode(encoding))
        self.print_notes(notes)
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
