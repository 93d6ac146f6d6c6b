"""Shared parts of the plotly charts: symbols, axes, and text and numbers for the page.

A chart is a dictionary that the script of the page passes to plotly. Colours are names that the
script replaces by those of the theme: "@0" to "@7" are the colours of classes, "@ink", "@soft",
"@grid" and "@paper" those of text and lines; "@0/0.2" is transparent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda.plotting.styles import LINES, shorten

Chart = dict[str, Any]

# Names of plotly for the markers and lines of matplotlib, so that page and paper look alike.
SYMBOLS = {
    **{"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down"},
    **{"P": "cross", "X": "x", "<": "triangle-left", ">": "triangle-right"},
    **{"p": "pentagon", "*": "star"},
}
DASHES = dict(zip(LINES, ("solid", "dash", "dashdot", "dot"), strict=True))


def plotly_text(text: object, limit: int = 60) -> str:
    """Return text from the data for plotly, which interprets tags and entities.

    Parameters
    ----------
    text : object
        Label or name.
    limit : int, default=60
        Largest number of characters before escaping.

    Returns
    -------
    str
        Shortened and escaped.
    """
    line = shorten(str(text), limit)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def round_values(values: Any, digits: int = 5) -> list[float | None]:
    """Round numbers to significant digits, which keeps the page small.

    Parameters
    ----------
    values : array-like
        Flattened before rounding.
    digits : int, default=5
        Significant digits. Five are finer than a pixel on any screen.

    Returns
    -------
    list of float or None
        None where a value is not finite.
    """
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in flat]


def make_axis(title: str, **options: Any) -> Chart:
    """Return the layout of an axis.

    Parameters
    ----------
    title : str
        Title, escaped here.
    **options : object
        Further options of plotly.

    Returns
    -------
    dict
        Layout with the colours of the theme.
    """
    colors = dict.fromkeys(("gridcolor", "zerolinecolor", "linecolor"), "@grid")
    heading = {"text": plotly_text(title), "standoff": 8}
    return {"title": heading, "automargin": True, **colors, **options}
