"""``mpda`` and ``python -m mpda``: the command line, where its packages are installed."""

from __future__ import annotations

import os
import sys


def main() -> None:
    try:
        from mpda.cli import run

        run()
    except ModuleNotFoundError as error:
        raise SystemExit(f"The command line needs {error.name}: pip install 'mpda[cli]'") from None
    except KeyboardInterrupt:
        _forget_the_interrupt()
        print("mpda: stopped", file=sys.stderr)
        raise SystemExit(130) from None
    except SystemExit as ended:
        _forget_the_interrupt()
        # Commands say that they were stopped; before they begin Typer only gives the code.
        if ended.code == 130 and not isinstance(ended.__context__, KeyboardInterrupt):
            print("mpda: stopped", file=sys.stderr)
        left = _said_in_full()
        raise SystemExit(ended.code or left) from None
    except OSError as error:  # of the help, or the version: commands say what went wrong
        _said_in_full()
        raise SystemExit(f"mpda: standard output: {error.strerror}") from None


def _said_in_full() -> str | int:
    """What standard output could not take, or 0."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would be tried once more at the end, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        broken = isinstance(error, BrokenPipeError)  # nobody wants to read on
        return 1 if broken else f"mpda: standard output: {error.strerror}"
    return 0


def _forget_the_interrupt() -> None:
    """CPython ends by the signal, and not with our code, where an interrupt came while code from a
    string was run (every data class is made so); that it did is forgotten by running some anew."""
    exec("")


if __name__ == "__main__":
    main()
