"""Quality of retrieval against the bytes of a vector, which stores are paid for."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mpda.assessment.stored_vectors import RAW, StoredScore
from mpda.plotting.axes import OUTSIDE, Display, get_panels
from mpda.plotting.styles import LINES, display_name, make_styles

# Panels: field of a row and title of the axis.
_MEASURES = {"recall_at_1": "right nearest neighbours in %", "map_at_r": "MAP@R in %"}
# Types by their line styles. uint8 are codes of product quantisation.
_TYPE_LINES = dict(
    zip(("float32", "int8", "float16", "bits", "uint8"), (*LINES, LINES[1]), strict=True)
)


class BytesDisplay(Display):
    """Recall at 1 and MAP@R in per cent against the bytes of a vector.

    A method has a colour and a mark, a stored type a line style. The float32 vectors of a method
    have full marks, all others open ones. A level line is at the raw vectors in float32.

    Parameters
    ----------
    rows : sequence of StoredScore or of mapping
        As `mpda.assessment.measure_stored_vectors` returns them, or dictionaries of their fields.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of MAP@R of the last plot; those of recall at 1 stand on their left.
    """

    def __init__(self, rows: Sequence[StoredScore | Mapping[str, Any]]) -> None:
        if len(rows) == 0:
            raise ValueError("rows must hold at least one row, got none.")
        self.rows = [row if isinstance(row, StoredScore) else StoredScore(**row) for row in rows]

    @property
    def curves(self) -> dict[tuple[str, str], list[StoredScore]]:
        """Rows by name in the legend and stored type, by increasing bytes."""
        curves: dict[tuple[str, str], list[StoredScore]] = {}
        for row in sorted(self.rows, key=lambda row: row.bytes):
            cut = "" if row.cut_from is None else f", cut from {row.cut_from}"
            curves.setdefault((row.method + cut, row.type), []).append(row)
        return curves

    @property
    def names(self) -> list[str]:
        """Names in the legend, in the order of the rows."""
        methods = list(dict.fromkeys(row.method for row in self.rows))
        names = dict.fromkeys(name for name, _ in self.curves)
        return sorted(names, key=lambda name: (methods.index(name.partition(", cut")[0]), name))

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw with matplotlib.

        Parameters
        ----------
        ax : sequence of two matplotlib axes, default=None
            Where to draw recall at 1 and MAP@R; None makes a figure.
        title : str, default=None
            Title of the axes of MAP@R.

        Returns
        -------
        BytesDisplay
            With ``figure_`` and ``ax_``.
        """
        panels = get_panels(ax, len(_MEASURES), columns=len(_MEASURES), width=4.2, height=3.6)
        for panel, (measure, label) in zip(panels, _MEASURES.items(), strict=True):
            self._draw(panel, measure)
            panel.set(xlabel="bytes of a vector", ylabel=label)
            panel.set_xscale("log", base=2)
            panel.set_xticks(_choose_ticks([row.bytes for row in self.rows]))
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.grid(alpha=0.25, linewidth=0.5)
        self._draw_legend(panels[-1])
        return self._finish(panels[-1], title)

    def _draw(self, axis: Any, measure: str) -> None:
        styles = dict(zip(self.names, make_styles(len(self.names)), strict=True))
        for (name, kind), rows in self.curves.items():
            style = styles[name]
            axis.plot(
                [row.bytes for row in rows],
                [100.0 * getattr(row, measure) for row in rows],
                color=style.color,
                marker=style.marker,
                markersize=5,
                markerfacecolor=style.color if kind == "float32" else "white",
                linestyle=_TYPE_LINES[kind],
                linewidth=1.4,
                label=f"{display_name(name)}, {kind}",
            )
        for row in self.curves.get((RAW, "float32"), []):
            level = {"color": "0.6", "linewidth": 0.8, "linestyle": ":", "zorder": 1}
            axis.axhline(100.0 * getattr(row, measure), **level)

    def _draw_legend(self, axis: Any) -> None:
        """Draw one legend for methods and types, on the right of the axes."""
        from matplotlib.lines import Line2D

        kinds = [kind for kind in _TYPE_LINES if kind in {kind for _, kind in self.curves}]
        handles = [
            Line2D([], [], color=style.color, marker=style.marker, label=display_name(name))
            for name, style in zip(self.names, make_styles(len(self.names)), strict=True)
        ]
        for kind in kinds:
            line = _TYPE_LINES[kind]
            fill = "0.4" if kind == "float32" else "white"
            look: dict[str, Any] = {"color": "0.4", "marker": "o", "markerfacecolor": fill}
            handles.append(Line2D([], [], linestyle=line, label=kind, **look))
        axis.legend(handles=handles, frameon=False, fontsize=8, **OUTSIDE)


def _choose_ticks(sizes: Sequence[int]) -> list[int]:
    """Return powers of two, or of four, that cover some numbers of bytes."""
    low, high = np.floor(np.log2(min(sizes))), np.ceil(np.log2(max(sizes)))
    step = 1 if high - low <= 6 else 2
    return [2 ** int(exponent) for exponent in np.arange(low, high + 1, step)]


def plot_bytes(rows: Sequence[StoredScore | Mapping[str, Any]], *, ax: Any = None) -> Any:
    """Draw the quality of retrieval against the bytes of a vector.

    Parameters
    ----------
    rows : sequence of StoredScore or of mapping
        As `mpda.assessment.measure_stored_vectors` returns them, or dictionaries of their fields.
    ax : sequence of two matplotlib axes, default=None
        Where to draw recall at 1 and MAP@R; None makes a figure.

    Returns
    -------
    matplotlib.figure.Figure
        Figure with the plot.

    Examples
    --------
    >>> from mpda.plotting import plot_bytes
    >>> row = {"method": "PCA", "numbers": 8, "type": "int8", "bytes": 8}
    >>> figure = plot_bytes([row | {"recall_at_1": 0.8, "map_at_r": 0.5}])
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['right nearest neighbours in %', 'MAP@R in %']
    """
    return BytesDisplay(rows).plot(ax).figure_
