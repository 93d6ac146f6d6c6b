"""``mpda`` and ``python -m mpda``: the command line, where its packages are installed."""

from __future__ import annotations


def main() -> None:
    try:
        from mpda.cli import run

        run()
    except ModuleNotFoundError as error:
        raise SystemExit(f"The command line needs {error.name}: pip install 'mpda[cli]'") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
