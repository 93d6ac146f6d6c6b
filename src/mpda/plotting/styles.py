"""Colours, markers and line styles that colour-blind readers and grey prints can tell apart.

Used by the plots, by the charts of the report and by the figures of the experiments, so that a
class or method looks alike in all of them. Names from the data are made safe for matplotlib here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Okabe and Ito's colours without yellow, which vanishes on white; black and grey replace it. Wine
# and olive of Tol's palette make them ten, so that ten classes have ten colours.
COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"),
    *("#E69F00", "#000000", "#999999", "#882255", "#999933"),
)
# The same hues for dark ground, lighter: each has a contrast of at least 4.5 to the dark page.
DARK_COLORS = (
    *("#3F9BE6", "#FF7F3F", "#1FC794", "#EBA3CB", "#A6DBFF"),
    *("#FFC03A", "#F7F7F7", "#B3B3B3", "#D9609C", "#CFCF60"),
)
# The numbers of markers (11) and colours (10) are coprime: 110 pairs before one repeats.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*")
LINES = ("-", "--", "-.", ":")
# Entries of a legend: 20 lines of 8 points fill the height of a figure.
LEGEND_LIMIT = 20
# Characters of a name in a plot. Longer ones would take half the width of a figure.
_NAME_LIMIT = 32


@dataclass(frozen=True)
class Style:
    """Colour, marker and line style of a class, patch or method.

    Parameters
    ----------
    color : str
        Hexadecimal colour.
    marker, line : str
        Codes of matplotlib.
    """

    color: str
    marker: str
    line: str


def make_styles(n: int) -> list[Style]:
    """Return one style for each of n items.

    Parameters
    ----------
    n : int
        Number of items.

    Returns
    -------
    list of Style
        The first ten differ in colour and in marker, the first 110 in the pair of both, and the
        first 40 in colour and line.
    """
    # Without the shift by i // 10 the pairs of ten colours and four lines would repeat after 20.
    return [
        Style(
            COLORS[i % len(COLORS)],
            MARKERS[i % len(MARKERS)],
            LINES[(i + i // len(COLORS)) % len(LINES)],
        )
        for i in range(n)
    ]


def display_name(name: object) -> str:
    """Return a name from the data as text for matplotlib.

    Parameters
    ----------
    name : object
        Label or name of a feature, component or method.

    Returns
    -------
    str
        At most 32 characters, not read as a formula, and never hidden from a legend.
    """
    text = shorten(str(name), _NAME_LIMIT).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # legends skip names that start so


def shorten(text: str, limit: int) -> str:
    """Return a text as one line of limited length.

    Parameters
    ----------
    text : str
        Any text.
    limit : int
        Largest number of characters.

    Returns
    -------
    str
        The middle is replaced by an ellipsis, because names often differ at the end.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    end = (limit - 1) // 2
    return f"{line[: limit - 1 - end]}…{line[-end:]}"


def letter_markers(names: Sequence[str]) -> list[str] | None:
    """Return markers that are the names, for up to ten names of one letter or digit.

    Parameters
    ----------
    names : sequence of str
        Names of classes.

    Returns
    -------
    list of str or None
        Markers of matplotlib. None where a name is longer.
    """
    if len(names) > 10 or not all(len(n) == 1 and n.isascii() and n.isalnum() for n in names):
        return None
    # matplotlib draws text as a marker only where it is a formula.
    return [rf"$\mathdefault{{{name}}}$" for name in names]
