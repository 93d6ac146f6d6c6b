"""Names in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

_SHOWN = 5


def listed(names: Sequence[Any], *, quoted: bool = True, most: int = _SHOWN) -> str:
    shown = [f"{name!r:.80}" if quoted else str(name) for name in names[:most]]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + rest if shown else "none"


def named_in(given: Iterable[str], known: Sequence[str]) -> list[str]:
    """Names that were given, each as a word of its own or several with commas between."""
    return [
        name
        for each in given
        for name in ([each] if each in known else map(str.strip, each.split(",")))
        if name
    ]


def near(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" Did you mean {found[0]}?" if found else ""
