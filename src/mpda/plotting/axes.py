"""Figures and axes of matplotlib that the displays draw on.

A new figure belongs to no global state: it is shown by a notebook and freed with its last
reference. All access to matplotlib is here and in the ``plot`` methods, so importing
`mpda.plotting` does not import matplotlib.
"""

import math
from functools import partial
from io import BytesIO
from typing import Any, Self

import numpy as np

# Position of a legend on the right of the axes.
OUTSIDE = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}


class Display:
    """Base of all displays: default title, and axes and figure of the last plot."""

    title: str | None = None
    ax_: Any
    figure_: Any

    def _finish(self, axis: Any, title: str | None) -> Self:
        """Set the title and remember axes and figure."""
        title = self.title if title is None else title
        if title is not None:
            axis.set_title(title, fontsize=11)
        self.ax_, self.figure_ = axis, axis.figure.figure  # a subfigure leads to its figure
        return self


def new_figure(width: float, height: float) -> Any:
    """Return a figure of the given size in inches, which IPython displays as PNG.

    Parameters
    ----------
    width, height : float
        Size in inches.

    Returns
    -------
    matplotlib.figure.Figure
        Not managed by any global state.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'mpda[plot]'.") from error
    figure: Any = Figure(figsize=(width, height), layout="constrained")
    # IPython has no formatter for figures before pyplot is imported, and then asks for this method.
    # A partial function can be pickled with its figure, a local function cannot.
    figure._repr_png_ = partial(_encode_png, figure)
    return figure


def _encode_png(figure: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def get_axes(ax: Any, *, width: float, height: float, projection: str | None = None) -> Any:
    """Return the given axes after a check, or the axes of a new figure.

    Parameters
    ----------
    ax : matplotlib axes or None
        None makes a figure.
    width, height : float
        Size of a new figure in inches.
    projection : {"3d"} or None, default=None
        Projection that the axes must have.

    Returns
    -------
    matplotlib axes
        With thin, grey spines unless three-dimensional.
    """
    if ax is None:
        ax = new_figure(width, height).add_subplot(projection=projection)
    elif not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise TypeError(f"ax must be axes of matplotlib or None, got {type(ax).__name__}.")
    elif projection == "3d" and getattr(ax, "name", "") != "3d":
        raise ValueError('ax must have projection="3d" for three components, or be None.')
    if projection is None:  # axes in space have panes instead of spines
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("0.6")
        ax.tick_params(color="0.6", labelcolor="0.25", labelsize=8)
    return ax


def get_panels(ax: Any, n: int, *, columns: int, width: float, height: float) -> list[Any]:
    """Return n axes: the given ones, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib axes, sequence of axes or None
        None makes a figure.
    n : int
        Number of panels.
    columns : int
        Panels in a row of a new figure.
    width, height : float
        Size of a panel of a new figure in inches.

    Returns
    -------
    list of matplotlib axes
        Of length n.
    """
    if ax is None:
        rows = math.ceil(n / columns)
        figure = new_figure(width * min(columns, n), height * rows)
        ax = [figure.add_subplot(rows, min(columns, n), i + 1) for i in range(n)]
    panels = np.ravel(np.asarray(ax, dtype=object)).tolist()
    if len(panels) != n:
        raise ValueError(f"ax must hold one axes for each of {n} components, got {len(panels)}.")
    return [get_axes(panel, width=width, height=height) for panel in panels]
