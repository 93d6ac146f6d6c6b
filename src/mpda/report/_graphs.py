"""The other figures of the page: errors by dimension, weights, eigenvalues, confusion."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpda._lib.array_types import Floats
from mpda.plotting._curve import top_error
from mpda.plotting._tallies import row_shares, wide
from mpda.plotting.styles import COLORS, LINES, make_styles
from mpda.report._marks import SYMBOLS, Chart, axis, rounded, shown_text

_DASHES = dict(zip(LINES, ("solid", "dash", "dashdot", "dot"), strict=True))
_MOST_COMPONENTS = 30
_MOST_BARS = 15


def curve_chart(problem: dict[str, Any]) -> Chart:
    """Error against the number of components, and level lines for methods without any."""
    traces: list[Chart] = []
    longest = max((max(c["dimensions"], default=1) for c in problem["curves"]), default=1)
    drawn = make_styles(len(problem["curves"]))
    for i, (curve, style) in enumerate(zip(problem["curves"], drawn, strict=True)):
        color = f"@{i % len(COLORS)}"
        name = shown_text(curve["method"])
        dimensions = curve["dimensions"]
        if curve.get("low") and curve.get("high"):
            traces += _band(name, color, curve)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(dimensions) <= 40 else "lines",
                "name": name,
                "legendgroup": name,
                "x": dimensions,
                "y": rounded(curve["error"], 4),
                "customdata": _intervals(curve),
                "line": {"color": color, "width": 2.2, "dash": _DASHES[style.line]},
                "marker": {
                    "color": color,
                    "size": 6 if len(dimensions) <= 20 else 4,
                    "symbol": SYMBOLS[style.marker],
                },
                "meta": [name],
                "hovertemplate": "%{meta[0]}: %{y:.2f} %%{customdata}<extra></extra>",
            }
        )
        if curve.get("chosen") is not None:
            traces.append(_chosen_mark(name, color, curve))
    traces += [_level(row, longest) for row in level_rows(problem)]
    top = _top(problem)
    whole = {"dtick": 1} if longest <= 15 else {}
    return {
        "data": traces,
        "layout": {
            "xaxis": axis("number of components", rangemode="tozero", **whole),
            "yaxis": axis("error in %", range=[0.0, top]),
            "hovermode": "x unified",
        },
        "height": 440,
        "tools": True,
    }


def level_rows(problem: dict[str, Any]) -> list[dict[str, Any]]:
    """What curves are compared with, where it has none of its own."""
    drawn = {curve["method"] for curve in problem["curves"]}
    rows = [row for row in problem["rows"] if row["method"] in ("1-NN", "LDA")]
    return [row for row in rows if row["method"] not in drawn and row["error"] is not None]


def _band(name: str, color: str, curve: dict[str, Any]) -> list[Chart]:
    edge = {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": name,
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"width": 0, "color": color},
        "x": curve["dimensions"],
    }
    low = {**edge, "y": rounded(curve["low"], 4)}
    high = {**edge, "y": rounded(curve["high"], 4), "fill": "tonexty", "fillcolor": f"{color}/0.14"}
    return [low, high]


def _intervals(curve: dict[str, Any]) -> list[str]:
    low, high = curve.get("low"), curve.get("high")
    if not low or not high:
        return [""] * len(curve["dimensions"])
    return [
        "" if a is None or b is None else f" ({a:.1f} to {b:.1f})"
        for a, b in zip(low, high, strict=True)
    ]


def _chosen_mark(name: str, color: str, curve: dict[str, Any]) -> Chart:
    errors = np.asarray(curve["error"], dtype=np.float64)
    kept = np.isfinite(errors)
    height = curve.get("chosen_error")
    if height is None:
        height = np.interp(curve["chosen"], np.asarray(curve["dimensions"])[kept], errors[kept])
    return {
        "type": "scatter",
        "mode": "markers",
        "legendgroup": name,
        "showlegend": False,
        "x": [curve["chosen"]],
        "y": rounded([height], 4),
        "marker": {
            "size": 14,
            "color": color,
            "symbol": "circle",
            "line": {"color": "@ink", "width": 2},
        },
        "hoverinfo": "skip",
    }


def _level(row: dict[str, Any], longest: float) -> Chart:
    name = shown_text(row["method"])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name}, all features" if row["method"] == "1-NN" else name,
        "x": [0, longest],
        "y": rounded([row["error"]] * 2, 4),
        "line": {
            "color": "@soft",
            "width": 1.6,
            "dash": "longdash" if row["method"] == "1-NN" else "dot",
        },
        "hoverinfo": "skip",
    }


def _top(problem: dict[str, Any]) -> float:
    errors = [curve["error"] for curve in problem["curves"]]
    errors += [[row["error"]] for row in problem["rows"]]
    return top_error(np.array(each, dtype=np.float64) for each in errors)  # None is nan


def component_charts(model: dict[str, Any]) -> list[Chart]:
    """For each component its largest weights as bars, or all of them as an image."""
    weights = np.nan_to_num(np.asarray(model["weights"], dtype=np.float64))[:_MOST_COMPONENTS]
    features = model.get("features") or [f"feature {i}" for i in range(weights.shape[1])]
    names = list(model.get("component_names") or [])
    names += [f"component {i}" for i in range(len(names), len(weights))]
    shape = model.get("image_shape")
    charts = []
    for name, row in zip(names, weights, strict=False):
        chart = _bars(features, row) if shape is None else _image(shape, row)
        charts.append({"name": name, **chart})
    return charts


def _bars(features: list[str], weights: Floats) -> Chart:
    largest = np.argsort(-np.abs(weights), kind="stable")[:_MOST_BARS]
    values = weights[largest]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": rounded(values),
        # Places, not names: names may come twice.
        "y": list(range(len(largest))),
        "text": [shown_text(features[i]) for i in largest],
        "textposition": "none",
        "marker": {"color": ["@1" if value < 0.0 else "@0" for value in values]},
        "hovertemplate": "%{text}: %{x:.3g}<extra></extra>",
    }
    ticks = {"tickvals": trace["y"], "ticktext": [shown_text(features[i], 34) for i in largest]}
    y_axis = axis("", autorange="reversed", showgrid=False, zeroline=False, **ticks)
    layout = {"xaxis": axis("weight"), "yaxis": y_axis, "bargap": 0.35}
    return {"data": [trace], "layout": layout, "height": 110 + 24 * len(largest)}


def _image(shape: list[int], weights: Floats) -> Chart:
    rows, columns = shape
    limit = float(np.abs(weights).max()) or 1.0
    picture = rounded(weights, 3)
    trace = {
        "type": "heatmap",
        "z": [picture[i * columns : (i + 1) * columns] for i in range(rows)],
        "zmin": -limit,
        "zmax": limit,
        # Two hues around zero that also grow brighter: readable in grey.
        "colorscale": "Cividis",
        "colorbar": {
            "tickvals": [-limit, 0.0, limit],
            "ticktext": ["negative", "0", "positive"],
            "thickness": 12,
            "outlinewidth": 0,
            "len": 0.9,
        },
        "hovertemplate": "row %{y}, column %{x}<br>weight %{z:.3g}<extra></extra>",
    }
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": ""}
    layout = {
        "xaxis": axis("", constrain="domain", **bare),
        "yaxis": axis("", constrain="domain", scaleanchor="x", autorange="reversed", **bare),
    }
    return {"data": [trace], "layout": layout, "height": 400}


def eigenvalue_chart(eigenvalues: list[float | None]) -> Chart:
    """The eigenvalue of each component as bars; over a wide range by powers of ten."""
    values = np.array([v for v in eigenvalues if v is not None], dtype=np.float64)
    trace = {
        "type": "bar",
        "x": list(range(len(values))),
        "y": rounded(values),
        "marker": {"color": "@0"},
        "hovertemplate": "component %{x}: %{y:.4g}<extra></extra>",
    }
    scale = {"type": "log", "dtick": 1} if wide(values) else {"rangemode": "tozero"}
    x_axis = axis("component", showgrid=False, **({"dtick": 1} if len(values) <= 20 else {}))
    layout = {
        "xaxis": x_axis,
        "yaxis": axis("eigenvalue", **scale),
        "bargap": 0.3 if len(values) > 6 else 0.6,
    }
    return {"data": [trace], "layout": layout, "height": 340}


def confusion_chart(confusion: dict[str, Any]) -> Chart:
    """Counts of true and predicted classes; the colour is the root of the share of the row."""
    n = len(confusion["labels"])
    labels = [shown_text(label, 20 if n <= 12 else 12) for label in confusion["labels"]]
    counts = confusion["counts"]
    shares = row_shares(counts)
    trace = {
        "type": "heatmap",
        "z": [rounded(row, 3) for row in np.sqrt(shares)],
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": "@shares",
        "showscale": False,
        "text": [[str(count) if count else "" for count in row] for row in counts],
        "xgap": 1,
        "ygap": 1,
        "hoverinfo": "text",
        "hovertext": [
            [_pair_text(labels[i], labels[j], counts[i][j], shares[i, j]) for j in range(n)]
            for i in range(n)
        ],
    }
    if n <= 30:
        trace["texttemplate"] = "%{text}"
    ticks = {"tickvals": list(range(n)), "ticktext": labels, "showgrid": False, "zeroline": False}
    ticks["ticks"] = ""
    if n > 12:
        ticks["tickfont"] = {"size": 10}
    if n > 40:  # names would run into each other; hovering tells them
        ticks["showticklabels"] = False
    layout = {
        "xaxis": axis("taken for", constrain="domain", **ticks),
        "yaxis": axis(
            "true class", constrain="domain", scaleanchor="x", autorange="reversed", **ticks
        ),
    }
    return {"data": [trace], "layout": layout, "height": int(np.clip(220 + 20 * n, 340, 860))}


def _pair_text(label: str, other: str, count: int, share: float) -> str:
    if label == other:
        return f"{label}: {count} right ({share:.1%})"
    return f"{label} taken for {other}: {count} ({share:.1%})"
