"""Points on the page: the classes in components, and the patches of a class."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda.plotting._embedding import spread
from mpda.plotting._partition import tangent_lines
from mpda.plotting.styles import COLORS, MARKERS, neighbor_styles
from mpda.report._marks import SYMBOLS, Chart, axis, rounded, shown_text

# All that differ in space, and no divisor in common with the colours.
_SOLIDS = ("circle", "square", "diamond", "cross", "x", "circle-open", "square-open")
_MANY = 3000  # points, above which they are drawn by WebGL


def embedding_chart(embedding: dict[str, Any], *, space: bool) -> Chart:
    """Classes in two components, or in three."""
    points = np.asarray(embedding["points"], dtype=np.float64)
    points = spread(points) if points.shape[1] == 1 else points
    codes = np.asarray(embedding["codes"], dtype=np.intp)
    rows = np.asarray(embedding.get("rows") or np.arange(len(points)))
    wrong = np.asarray(embedding.get("wrong") or np.zeros(len(points)), dtype=bool)
    verdict = "" if embedding.get("wrong") is None else "<br>1-NN gets it %{customdata[1]}"
    size = float(np.clip(9.0 - np.log10(max(len(points), 100) / 100.0) * 2.0, 4.5, 9.0))
    traces = []
    for code, label in enumerate(embedding["labels"]):
        mine = np.flatnonzero(codes == code)
        # Those that are wrong last: they lie on top, and a legend shows the first.
        mine = mine[np.argsort(wrong[mine], kind="stable")]
        said = [[int(rows[i]), "wrong" if wrong[i] else "right"] for i in mine]
        trace: Chart = {
            "type": "scatter3d" if space else "scattergl" if len(points) > _MANY else "scatter",
            "mode": "markers",
            "name": f"{shown_text(label, 28)} ({mine.size})",
            "meta": [shown_text(label)],
            "customdata": said,
            "hovertemplate": "<b>%{meta[0]}</b><br>row %{customdata[0]}"
            f"{verdict}<extra></extra>",
            "marker": _marker(code, size, wrong[mine], space=space),
        }
        for letter, column in zip("xyz" if space else "xy", points.T, strict=False):
            trace[letter] = rounded(column[mine])
        traces.append(trace)
    names = list(embedding.get("component_names") or [])
    names += [f"component {i}" for i in range(len(names), 3)]
    layout: Chart = {"legend": {"itemsizing": "constant"}, "hovermode": "closest"}
    if space:
        layout["legend"]["y"] = 0.92  # below the tools
        axes = zip("xyz", names, strict=False)
        layout["scene"] = {f"{letter}axis": _space_axis(name) for letter, name in axes}
        layout["scene"]["camera"] = {"eye": {"x": 1.35, "y": 1.35, "z": 0.9}}
        return {"data": traces, "layout": layout, "height": 560, "tools": True}
    layout["xaxis"] = axis(names[0], showticklabels=False)
    flat = len(embedding["points"]) and len(embedding["points"][0]) == 1
    layout["yaxis"] = axis("" if flat else names[1], showticklabels=False)
    return {"data": traces, "layout": layout, "height": 560, "tools": True}


def _marker(code: int, size: float, wrong: Any, *, space: bool) -> Chart:
    color = f"@{code % len(COLORS)}"
    if space:
        # Rims cannot differ in width there.
        solid = _SOLIDS[code % len(_SOLIDS)]
        return {"color": color, "symbol": solid, "size": 0.55 * size, "opacity": 0.9}
    rims: Chart = {"color": "@paper", "width": 0.5}
    sizes: Any = size
    if wrong.any():
        rims = {
            "color": ["@ink" if each else "@paper" for each in wrong],
            "width": [1.8 if each else 0.5 for each in wrong],
        }
        sizes = [round(1.35 * size, 1) if each else round(size, 1) for each in wrong]
    symbol = SYMBOLS[MARKERS[code % len(MARKERS)]]
    return {"color": color, "symbol": symbol, "size": sizes, "opacity": 0.88, "line": rims}


def _space_axis(title: str) -> Chart:
    return {
        "title": {"text": shown_text(title)},
        "showticklabels": False,
        "gridcolor": "@grid",
        "zerolinecolor": "@grid",
        "backgroundcolor": "@paper",
        "showspikes": False,
    }


def partition_chart(shown: dict[str, Any], facts: dict[str, Any] | None) -> Chart:
    """The patches of a class, and the tangent line of each."""
    points = np.asarray(shown["points"], dtype=np.float64)
    numbers, patches = np.unique(shown["patches"], return_inverse=True)
    centres = np.array([points[patches == p].mean(axis=0) for p in range(numbers.size)])
    places = neighbor_styles(centres)
    lines = tangent_lines(points, patches)
    linearity = facts["linearity"] if facts else []
    sizes = np.bincount(patches)
    said = [
        _patch_text(int(n), int(size), linearity) for n, size in zip(numbers, sizes, strict=True)
    ]
    traces: list[Chart] = []
    for place in range(len(COLORS)):
        chosen = np.flatnonzero(places == place)
        if not chosen.size:
            continue
        ends = np.full((chosen.size, 3, 2), np.nan)
        ends[:, :2] = lines[chosen]
        x, y = ends.reshape(-1, 2).T
        line = {"color": f"@{place}", "width": 1.3}
        traces.append(
            {"type": "scatter", "mode": "lines", "x": rounded(x), "y": rounded(y), "line": line}
            | {"hoverinfo": "skip", "opacity": 0.7}
        )
        mine = np.flatnonzero(np.isin(patches, chosen))
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": rounded(points[mine, 0]),
                "y": rounded(points[mine, 1]),
                "text": [said[patches[i]] for i in mine],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {
                    "color": f"@{place}",
                    "symbol": SYMBOLS[MARKERS[place]],
                    "size": 8 if len(points) < 600 else 5.5,
                    "line": {"color": "@paper", "width": 0.5},
                },
            }
        )
    # Angles between tangent lines mean nothing unless both axes have one scale.
    y_axis = axis("", showticklabels=False, scaleanchor="x")
    layout: Chart = {"xaxis": axis("", showticklabels=False), "yaxis": y_axis}
    layout |= {"showlegend": False, "hovermode": "closest"}
    return {"data": traces, "layout": layout, "height": 440, "tools": True}


def _patch_text(number: int, size: int, linearity: list[float | None]) -> str:
    text = f"patch {number}: {size} samples"
    if number < len(linearity) and linearity[number] is not None:
        text += f"<br>linearity {linearity[number]:.3f}"
    return text
