"""Colours and markers that a colour-blind reader and a grey print tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats, Ints

# Okabe and Ito's colours without yellow, which vanishes on white; black and grey in its place.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")
# As many markers as have no common divisor with the colours: 88 pairs before one comes again.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*")
LINES = ("-", "--", "-.", ":")
LEGEND_LIMIT = 20  # entries of a legend; the rest is counted
_NAME_LIMIT = 32  # characters of a name in a plot


@dataclass(frozen=True)
class Style:
    """What a class, a patch or a method is drawn with."""

    color: str
    marker: str
    line: str


def make_styles(n: int) -> list[Style]:
    """One style for each of n things; the first 88 differ, neighbours in colour and marker."""
    return [
        Style(
            COLORS[i % len(COLORS)],
            MARKERS[i % len(MARKERS)],
            LINES[(i + i // len(COLORS)) % len(LINES)],
        )
        for i in range(n)
    ]


def neighbor_styles(centres: Floats, n_near: int = 5) -> Ints:
    """The place in ``styles(8)`` for each patch, so that patches side by side differ.

    centres : (p, 2) the means of the patches. Each is given, in turn, a style that no patch near it
    has, or that the nearest of them do not have.
    """
    n_styles, n_patches = len(COLORS), len(centres)
    gaps = np.linalg.norm(centres[:, None] - centres[None, :], axis=2)
    np.fill_diagonal(gaps, np.inf)
    nearest = np.argsort(gaps, axis=1, kind="stable")[:, : min(n_near, n_patches - 1)]
    near = np.zeros((n_patches, n_patches), dtype=bool)
    np.put_along_axis(near, nearest, True, axis=1)
    near |= near.T
    chosen = np.zeros(n_patches, dtype=np.intp)
    for patch in range(n_patches):
        before = np.flatnonzero(near[patch, :patch])
        nearness = 1.0 / np.maximum(gaps[patch, before], np.finfo(float).tiny)
        cost = np.bincount(chosen[before], nearness, minlength=n_styles)
        # Where several would do, the next in turn: styles are spread evenly.
        turn = np.roll(np.arange(n_styles), -patch)
        chosen[patch] = turn[np.argmin(cost[turn])]
    return chosen


def luminance(color: str) -> float:
    """How bright a colour "#rrggbb" is, 0 to 1, as WCAG defines it."""
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def display_name(name: object) -> str:
    """A name from the data as matplotlib is to show it: short, not as a formula, never left out."""
    text = shorten(str(name), _NAME_LIMIT).replace("$", r"\$")
    # Names that begin so are kept out of legends.
    return f" {text}" if text.startswith("_") else text


def shorten(text: str, limit: int) -> str:
    """One line of at most so many characters; the middle goes, as names often differ at the end."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    end = (limit - 1) // 2
    return f"{line[: limit - 1 - end]}…{line[-end:]}"


def letters(names: Sequence[str]) -> list[str] | None:
    """Markers that are the names themselves, where each is a letter or a digit; else None."""
    if len(names) > 10 or not all(len(n) == 1 and n.isascii() and n.isalnum() for n in names):
        return None
    return [rf"$\mathdefault{{{name}}}$" for name in names]
