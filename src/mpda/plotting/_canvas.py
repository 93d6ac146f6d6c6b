"""Figures that a notebook shows and that pyplot does not hold, and the axes to draw on."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import Any

import numpy as np


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches; IPython shows it, as it does whatever has ``_repr_png_``."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'mpda[plot]'.") from error
    figure: Any = Figure(figsize=(width, height), layout="constrained")
    figure._repr_png_ = partial(_png, figure)
    return figure


def axes_for(
    ax: Any, *, width: float = 6.0, height: float = 4.5, projection: str | None = None
) -> Any:
    """The axes that were given, checked, or those of a new figure."""
    if ax is None:
        return new_figure(width, height).add_subplot(projection=projection)
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise TypeError(f"ax must be axes of matplotlib or None, got {type(ax).__name__}.")
    if projection == "3d" and getattr(ax, "name", "") != "3d":
        raise ValueError(
            "ax must have three dimensions for three components: make it with "
            'figure.add_subplot(projection="3d"), or leave ax out.'
        )
    return ax


def panels_for(ax: Any, n: int, *, columns: int, width: float, height: float) -> list[Any]:
    """n axes: those given (one axes, or a sequence of as many), or those of a new figure."""
    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object)).tolist()
        if len(given) != n:
            raise ValueError(f"ax must hold one axes for each of {n} components, got {len(given)}.")
        return [axes_for(each) for each in given]
    columns = min(columns, n)
    rows = -(-n // columns)
    figure = new_figure(width * columns, height * rows)
    panels = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for unused in panels[n:]:
        unused.remove()
    return panels[:n]


def tidy(axis: Any) -> None:
    """Fewer lines around a plot."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color("0.6")
    axis.tick_params(color="0.6", labelcolor="0.25", labelsize=8)


def figure_of(axis: Any) -> Any:
    """The figure that axes stand in, also where they stand in a part of it."""
    return axis.figure.figure


def _png(figure: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
