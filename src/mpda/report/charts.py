"""Plotly charts: classes in the components, and error against the number of components.

A chart is a dictionary that the script of the page passes to plotly. Colours are names that the
script replaces by those of the theme: "@0" to "@7" are the colours of classes, "@ink", "@soft",
"@grid" and "@paper" those of text and lines; "@0/0.2" is transparent.
"""

from html import escape
from typing import Any

import numpy as np

from mpda._lib.array_types import Bools
from mpda.assessment import BASELINE, ErrorCurve
from mpda.plotting import CurveDisplay, EmbeddingDisplay
from mpda.plotting.styles import COLORS, LINES, MARKERS, Style, make_styles, shorten

Chart = dict[str, Any]

# Names of plotly for the markers and lines of matplotlib, so that page and paper look alike.
_SYMBOL_NAMES = (
    "circle square triangle-up diamond triangle-down cross x triangle-left triangle-right pentagon "
    "star"
)
_SYMBOLS = dict(zip(MARKERS, _SYMBOL_NAMES.split(), strict=True))
_DASHES = dict(zip(LINES, ("solid", "dash", "dashdot", "dot"), strict=True))
# All symbols that plotly has in three dimensions. Seven and eight colours are coprime.
_SYMBOLS_3D = ("circle", "square", "diamond", "cross", "x", "circle-open", "square-open")
# Points above which WebGL draws them: SVG becomes slow at a few thousand elements.
_MAX_SVG_POINTS = 3000


def draw_embedding(display: EmbeddingDisplay, embedding: dict[str, Any]) -> Chart:
    """Return the chart of an embedding in two or three dimensions.

    Parameters
    ----------
    display : EmbeddingDisplay
        Points and classes.
    embedding : dict
        Section of the results. "rows" are row numbers in the file, for the hover text. "wrong" are
        the samples that 1-NN misclassifies, which are drawn on top with a thick rim.

    Returns
    -------
    dict
        Chart.
    """
    points = display.coordinates()
    n, in_space = len(points), points.shape[1] == 3
    row_numbers = np.asarray(embedding.get("rows") or range(n))
    errors = np.asarray(embedding.get("wrong") or [False] * n, dtype=bool)
    hover = "<b>%{meta[0]}</b><br>row %{customdata[0]}"
    hover += "<br>1-NN gets it %{customdata[1]}" if embedding.get("wrong") else ""
    # Diameter in pixels: 9 up to 100 points, two less for every factor of ten.
    size = float(np.clip(9.0 - np.log10(max(n, 100) / 100.0) * 2.0, 4.5, 9.0))
    verdicts, traces = np.where(errors, "wrong", "right").tolist(), []
    for code, label in enumerate(display.labels):
        members = np.flatnonzero(display.codes == code)
        members = members[np.argsort(errors[members], kind="stable")]  # errors last, on top
        columns = zip("xyz", points[members].T, strict=False)
        trace = {
            "type": "scatter3d" if in_space else "scattergl" if n > _MAX_SVG_POINTS else "scatter",
            "mode": "markers",
            "name": f"{_plotly_text(label, 28)} ({members.size})",
            "meta": [_plotly_text(label)],
            "customdata": [[int(row_numbers[i]), verdicts[i]] for i in members],
            "hovertemplate": f"{hover}<extra></extra>",
            "marker": _make_marker(code, size, errors[members], in_space=in_space),
            **{letter: _round_values(values) for letter, values in columns},
        }
        traces.append(trace)
    layout: Chart = {"legend": {"itemsizing": "constant"}, "hovermode": "closest"}
    if in_space:
        layout["legend"]["y"] = 0.92  # below the toolbar
        layout["scene"] = {"camera": {"eye": {"x": 1.35, "y": 1.35, "z": 0.9}}}
        bare = {"showticklabels": False, "backgroundcolor": "@paper", "showspikes": False}
        bare |= {"gridcolor": "@grid", "zerolinecolor": "@grid"}
        for letter, name in zip("xyz", display.component_names, strict=True):
            layout["scene"][f"{letter}axis"] = {"title": {"text": _plotly_text(name)}, **bare}
    else:
        names = [*display.component_names, ""]
        layout["xaxis"] = _make_axis(names[0], showticklabels=False)
        layout["yaxis"] = _make_axis(names[1], showticklabels=False)
    return {"data": traces, "layout": layout, "height": 560}


def _make_marker(code: int, size: float, wrong: Bools, *, in_space: bool) -> Chart:
    """Return the markers of a class; ``wrong``, shape (n_members,), get a thick rim."""
    color = f"@{code % len(COLORS)}"
    if in_space:  # rims have the same width for all points there
        symbol = _SYMBOLS_3D[code % len(_SYMBOLS_3D)]
        return {"color": color, "symbol": symbol, "size": 0.55 * size, "opacity": 0.9}
    rim: dict[str, Any] = {"color": "@paper", "width": 0.5}
    sizes: float | list[float] = size
    # One value for all points where it is enough, which keeps the page small.
    if wrong.any():
        rim = {"color": np.where(wrong, "@ink", "@paper").tolist()}
        rim["width"] = np.where(wrong, 1.8, 0.5).tolist()
        sizes = np.where(wrong, 1.35 * size, size).round(1).tolist()
    symbol = _SYMBOLS[MARKERS[code % len(MARKERS)]]
    return {"color": color, "symbol": symbol, "size": sizes, "opacity": 0.88, "line": rim}


def draw_curves(display: CurveDisplay) -> Chart:
    """Return the chart of error curves, with level lines for methods without components.

    Parameters
    ----------
    display : CurveDisplay
        Curves.

    Returns
    -------
    dict
        Chart.
    """
    longest = max(curve.dimensions.max(initial=1.0) for curve in display.curves)
    styles, traces = make_styles(len(display.curves)), []
    for i, (curve, style) in enumerate(zip(display.curves, styles, strict=True)):
        if curve.dimensions.size:
            traces += _draw_curve(curve, style, f"@{i % len(COLORS)}")
        else:
            traces.append(_draw_level(curve, longest))
    # Numbers of components are whole. Left alone, plotly labels 0.5 and 1.5 on a short axis.
    ticks = {"dtick": 1} if longest <= 15 else {}
    layout = {
        "xaxis": _make_axis("number of components", rangemode="tozero", **ticks),
        "yaxis": _make_axis(f"{display.measure} in %", range=[0.0, display.upper_limit()]),
        "hovermode": "x unified",
    }
    return {"data": traces, "layout": layout, "height": 440}


def _draw_curve(curve: ErrorCurve, style: Style, color: str) -> list[Chart]:
    """Return the traces of the band, the line and the ring of a curve."""
    # A group: a click on the line in the legend hides its band and ring as well.
    name, n = _plotly_text(curve.name), curve.dimensions.size
    base: Chart = {"type": "scatter", "legendgroup": name, "x": curve.dimensions.tolist()}
    silent = {"showlegend": False, "hoverinfo": "skip"}
    traces, intervals = [], [""] * n
    if curve.low is not None and curve.high is not None:
        # Two invisible edges; plotly fills from a trace to the one before it ("tonexty").
        edge = {**base, **silent, "mode": "lines", "line": {"width": 0, "color": color}}
        fill = {"fill": "tonexty", "fillcolor": f"{color}/0.14"}
        traces.append({**edge, "y": _round_values(curve.low, 4)})
        traces.append({**edge, "y": _round_values(curve.high, 4), **fill})
        ends = zip(curve.low, curve.high, strict=True)
        intervals = [f" ({a:.1f} to {b:.1f})" if np.isfinite(a + b) else "" for a, b in ends]
    line = {
        "mode": "lines+markers" if n <= 40 else "lines",
        "name": name,
        "y": _round_values(curve.error, 4),
        "customdata": intervals,
        "line": {"color": color, "width": 2.2, "dash": _DASHES[style.line]},
        "marker": {"color": color, "size": 6 if n <= 20 else 4, "symbol": _SYMBOLS[style.marker]},
        "meta": [name],
        "hovertemplate": "%{meta[0]}: %{y:.2f} %%{customdata}<extra></extra>",
    }
    traces.append({**base, **line})
    if (point := curve.selected_point()) is not None:
        ring = {"size": 14, "color": color, "line": {"color": "@ink", "width": 2}}
        position = {"x": [point[0]], "y": _round_values(point[1], 4)}
        traces.append({**base, **silent, **position, "mode": "markers", "marker": ring})
    return traces


def _draw_level(curve: ErrorCurve, longest: float) -> Chart:
    """Return a horizontal line as long as the longest curve."""
    name, dash = _plotly_text(curve.name), "dot"
    if curve.name == BASELINE:
        name, dash = f"{name}, all features", "longdash"
    return {
        **{"type": "scatter", "mode": "lines", "name": name, "hoverinfo": "skip"},
        **{"x": [0, float(longest)], "y": _round_values([curve.error[0]] * 2, 4)},
        "line": {"color": "@soft", "width": 1.6, "dash": dash},
    }


def _plotly_text(text: object, limit: int = 60) -> str:
    """Return text from the data for plotly, which interprets tags and entities."""
    return escape(shorten(str(text), limit), quote=False)


def _round_values(values: Any, digits: int = 5) -> list[float | None]:
    """Round numbers to significant digits, which keeps the page small; None if not finite.

    Five digits are finer than a pixel on any screen.
    """
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in flat]


def _make_axis(title: str, **options: Any) -> Chart:
    """Return the layout of an axis with the colours of the theme."""
    colors = dict.fromkeys(("gridcolor", "zerolinecolor", "linecolor"), "@grid")
    heading = {"text": _plotly_text(title), "standoff": 8}
    return {"title": heading, "automargin": True, **colors, **options}
