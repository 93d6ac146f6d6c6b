"""What the figures of the page share: colours, symbols, axes, and text that plotly may be given.

Figures are plain dictionaries that plotly's script draws. Colours in them are names that begin with
"@", which the page replaces by those of its theme: "@0" to "@7" are the colours of classes, "@ink",
"@soft", "@grid" and "@paper" those of text and lines; "@0/0.2" is one that lets through what is
behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda.plotting.styles import shorten

Chart = dict[str, Any]

# What matplotlib's markers are called, so that pages and papers have the same ones.
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "D": "diamond",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "<": "triangle-left",
    ">": "triangle-right",
    "p": "pentagon",
    "*": "star",
}


def shown_text(text: object, limit: int = 60) -> str:
    """Text from the data for plotly, which would read tags and entities in it."""
    return shorten(str(text), limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rounded(values: Any, digits: int = 5) -> list[Any]:
    """Numbers with so many significant digits; None where there is none."""
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in flat]


def axis(title: str, **more: Any) -> Chart:
    return {
        "title": {"text": shown_text(title), "standoff": 8},
        "gridcolor": "@grid",
        "zerolinecolor": "@grid",
        "linecolor": "@grid",
        "automargin": True,
        **more,
    }
