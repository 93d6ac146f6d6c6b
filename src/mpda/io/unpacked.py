"""How much a file may become in memory: a multiple of what it holds, whatever it says of itself."""

from __future__ import annotations

from typing import Any

# Honest data are rarely packed closer; a bomb is, by a thousand times and more.
MOST = 100
# What any file may take, since a small table of zeros is no attack.
FREE = 128 << 20


def check_unpacked(needed: int, held: int) -> None:
    """Refuse what a file of ``held`` bytes says it needs in memory, if no honest file does."""
    if needed > max(FREE, MOST * held):
        raise ValueError(
            f"it holds {held} bytes and would take {needed:.3g} in memory, more than {MOST} times "
            "as much, as files do that are made to exhaust it; if it is honest, write it without "
            "compression"
        )


def one_line(said: Any, most: int = 200) -> str:
    """What an error or a value says, in one line that is not too long and can be printed."""
    words = " ".join(str(said)[: 4 * most].split())
    shown = "".join(each if each.isprintable() else "?" for each in words)
    return shown if len(shown) <= most else f"{shown[:most]}.."
