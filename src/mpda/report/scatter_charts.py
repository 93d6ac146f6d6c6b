"""Plotly charts of points: classes in the components, and patches of a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda._lib.array_types import Bools
from mpda.plotting import EmbeddingDisplay, PartitionDisplay
from mpda.plotting.styles import COLORS, MARKERS
from mpda.report.plotly_style import SYMBOLS, Chart, make_axis, plotly_text, round_values

# All symbols that plotly has in three dimensions. Seven and eight colours are coprime.
_SYMBOLS_3D = ("circle", "square", "diamond", "cross", "x", "circle-open", "square-open")
# Points above which WebGL draws them: SVG becomes slow at a few thousand elements.
_MAX_SVG_POINTS = 3000


def draw_embedding(
    display: EmbeddingDisplay,
    rows: Sequence[int] | None = None,
    wrong: Sequence[bool] | None = None,
) -> Chart:
    """Return the chart of an embedding in two or three dimensions.

    Parameters
    ----------
    display : EmbeddingDisplay
        Points and classes.
    rows : sequence of int, default=None
        Row numbers of the samples in their file, for the hover text.
    wrong : sequence of bool, default=None
        Samples that 1-NN misclassifies. They are drawn on top with a thick rim.

    Returns
    -------
    dict
        Chart.
    """
    points = display.coordinates()
    n, in_space = len(points), points.shape[1] == 3
    row_numbers = np.arange(n) if rows is None else np.asarray(rows)
    errors = np.zeros(n, dtype=bool) if wrong is None else np.asarray(wrong, dtype=bool)
    hover = "<b>%{meta[0]}</b><br>row %{customdata[0]}"
    hover += "" if wrong is None else "<br>1-NN gets it %{customdata[1]}"
    # Diameter in pixels: 9 up to 100 points, two less for every factor of ten.
    size = float(np.clip(9.0 - np.log10(max(n, 100) / 100.0) * 2.0, 4.5, 9.0))
    verdicts, traces = np.where(errors, "wrong", "right").tolist(), []
    for code, label in enumerate(display.labels):
        members = np.flatnonzero(display.codes == code)
        members = members[np.argsort(errors[members], kind="stable")]
        trace: Chart = {
            "type": "scatter3d" if in_space else "scattergl" if n > _MAX_SVG_POINTS else "scatter",
            "mode": "markers",
            "name": f"{plotly_text(label, 28)} ({members.size})",
            "meta": [plotly_text(label)],
            "customdata": [[int(row_numbers[i]), verdicts[i]] for i in members],
            "hovertemplate": f"{hover}<extra></extra>",
            "marker": _make_marker(code, size, errors[members], in_space=in_space),
        }
        trace |= {
            letter: round_values(column)
            for letter, column in zip("xyz", points[members].T, strict=False)
        }
        traces.append(trace)
    layout: Chart = {"legend": {"itemsizing": "constant"}, "hovermode": "closest"}
    if in_space:
        layout["legend"]["y"] = 0.92  # below the toolbar
        layout["scene"] = {"camera": {"eye": {"x": 1.35, "y": 1.35, "z": 0.9}}}
        bare = {"showticklabels": False, "backgroundcolor": "@paper", "showspikes": False}
        bare |= {"gridcolor": "@grid", "zerolinecolor": "@grid"}
        for letter, name in zip("xyz", display.component_names, strict=True):
            layout["scene"][f"{letter}axis"] = {"title": {"text": plotly_text(name)}, **bare}
    else:
        names = [*display.component_names, ""]
        layout["xaxis"] = make_axis(names[0], showticklabels=False)
        layout["yaxis"] = make_axis(names[1], showticklabels=False)
    return {"data": traces, "layout": layout, "height": 560, "tools": True}


def _make_marker(code: int, size: float, wrong: Bools, *, in_space: bool) -> Chart:
    color = f"@{code % len(COLORS)}"
    if in_space:  # rims have the same width for all points there
        symbol = _SYMBOLS_3D[code % len(_SYMBOLS_3D)]
        return {"color": color, "symbol": symbol, "size": 0.55 * size, "opacity": 0.9}
    rim: dict[str, Any] = {"color": "@paper", "width": 0.5}
    sizes: float | list[float] = size
    if wrong.any():
        rim = {"color": np.where(wrong, "@ink", "@paper").tolist()}
        rim["width"] = np.where(wrong, 1.8, 0.5).tolist()
        sizes = np.where(wrong, 1.35 * size, size).round(1).tolist()
    symbol = SYMBOLS[MARKERS[code % len(MARKERS)]]
    return {"color": color, "symbol": symbol, "size": sizes, "opacity": 0.88, "line": rim}


def draw_partition(display: PartitionDisplay, linearity: Sequence[float | None] = ()) -> Chart:
    """Return the chart of the patches of a class with their tangent lines.

    Parameters
    ----------
    display : PartitionDisplay
        Points, patches and lines.
    linearity : sequence of float or None, default=()
        Linearity of each patch, for the hover text.

    Returns
    -------
    dict
        Chart.
    """
    traces, n_styles = list[Chart](), len(COLORS) * len(MARKERS)
    numbers, patches, sizes = np.unique(display.patches, return_inverse=True, return_counts=True)
    texts = [f"patch {i}: {n} samples" for i, n in zip(numbers, sizes, strict=True)]
    for i, value in enumerate(linearity[: len(texts)]):
        texts[i] += "" if value is None else f"<br>linearity {value:.3f}"
    # Patches of the same style share a trace: plotly is slow with thousands of traces.
    for style in range(min(len(numbers), n_styles)):
        color = f"@{style % len(COLORS)}"
        segments = np.full((len(numbers[style::n_styles]), 3, 2), np.nan)  # nan ends a line
        segments[:, :2] = display.lines[style::n_styles]
        x, y = map(round_values, segments.reshape(-1, 2).T)
        line: Chart = {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip"}
        traces.append({**line, "opacity": 0.7, "line": {"color": color, "width": 1.3}})
        members = np.flatnonzero(patches % n_styles == style)
        x, y = map(round_values, display.points[members].T)
        symbol, size = SYMBOLS[MARKERS[style % len(MARKERS)]], 8 if len(patches) < 600 else 5.5
        rim = {"color": "@paper", "width": 0.5}
        marker = {"color": color, "symbol": symbol, "size": size, "line": rim}
        text = [texts[patch] for patch in patches[members]]
        dots: Chart = {"type": "scatter", "mode": "markers", "x": x, "y": y, "text": text}
        traces.append({**dots, "hovertemplate": "%{text}<extra></extra>", "marker": marker})
    # Angles between tangent lines are meaningful only if both axes have the same scale.
    y_axis = make_axis("", showticklabels=False, scaleanchor="x")
    layout: Chart = {"xaxis": make_axis("", showticklabels=False), "yaxis": y_axis}
    layout |= {"showlegend": False, "hovermode": "closest"}
    return {"data": traces, "layout": layout, "height": 440, "tools": True}
