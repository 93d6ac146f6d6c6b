"""Error messages about files: one line each, of bounded length, that names the file."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def name_file_in_errors(path: Path, kind: type[Exception], problem: str) -> Iterator[None]:
    """Turn everything that reading a wrong file raises into one type of error.

    Parameters
    ----------
    path : Path
        File that is read in the block.
    kind : type
        Type of error to raise. If the block raises it itself, only the name of the file is added.
    problem : str
        Predicate for all other errors, such as "cannot be read".

    Yields
    ------
    None
        The block runs once.
    """
    try:
        yield
    except kind as error:
        message = str(error)
        raise kind(message if str(path) in message else f"{path}: {message}") from error.__cause__
    # Libraries raise many types of errors for wrong content.
    except Exception as error:
        reason = getattr(error, "strerror", None) or one_line(error) or type(error).__name__
        raise kind(f"{path} {problem} ({reason}).") from error


def one_line(value: Any, limit: int = 200) -> str:
    """Return the text of an error or value in one printable line.

    Parameters
    ----------
    value : object
        Error or value from a file, of any length.
    limit : int, default=200
        Number of characters after which the text is cut.

    Returns
    -------
    str
        Text without line breaks and control characters.
    """
    # Cut before it is split, because a value from a damaged file may have megabytes.
    words = " ".join(str(value)[: 4 * limit].split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in words)
    return printable if len(printable) <= limit else f"{printable[:limit]}.."


def join_names(names: Sequence[Any], *, quoted: bool = True, limit: int = 5) -> str:
    """Join names with commas, and count those beyond a limit.

    Parameters
    ----------
    names : sequence
        Names of columns or arrays, or phrases about them.
    quoted : bool, default=True
        Put each name in quotes.
    limit : int, default=5
        Number of names that are written out.

    Returns
    -------
    str
        Such as "'a', 'b' and 3 more", or "none".
    """
    listed = [f"{name!r:.80}" if quoted else str(name) for name in names[:limit]]
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(listed) + rest if listed else "none"


def count_noun(number: int, noun: str) -> str:
    """Write a number with its noun.

    Parameters
    ----------
    number : int
        Number of things.
    noun : str
        Their name in the singular, with a plural in "s".

    Returns
    -------
    str
        Such as "1 row" or "12 rows".
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Suggest the nearest match for a misspelt name.

    Parameters
    ----------
    name : str
        Name that does not exist.
    names : iterable of str
        Names that exist.

    Returns
    -------
    str
        Such as " Did you mean species?", or "" if no name is near. The cutoff 0.75 accepts one
        wrong letter in four; lower values suggest unrelated names of short columns.
    """
    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.75)
    return f" Did you mean {matches[0]}?" if matches else ""
