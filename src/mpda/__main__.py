"""``mpda`` and ``python -m mpda``: start the command line, and handle what no command can.

That is a missing package, Ctrl-C before a command starts, and a standard output that cannot be
written.
"""

import os
import sys


def main() -> None:
    """Run the command of ``sys.argv`` and exit.

    Raises
    ------
    SystemExit
        Always, with the exit code of the command.
    """
    try:
        from mpda.cli import run

        try:
            run()
        finally:
            sys.stdout.flush()
    except ModuleNotFoundError as error:
        advice = f"the command line needs {error.name}: pip install 'mpda[cli]'"
        raise SystemExit(f"mpda: {advice}") from None
    except KeyboardInterrupt:
        print("mpda: stopped", file=sys.stderr)
        raise SystemExit(130) from None
    except OSError as error:
        # The interpreter flushes again at exit and would print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        is_closed = isinstance(error, BrokenPipeError)  # The reader has seen enough.
        message = f"mpda: standard output: {error.strerror}"
        raise SystemExit(1 if is_closed else message) from None


if __name__ == "__main__":
    main()
