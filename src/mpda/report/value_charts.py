"""Plotly charts of values: error curves, weights of components, eigenvalues and confusion."""

from __future__ import annotations

import numpy as np

from mpda.assessment import BASELINE, ErrorCurve
from mpda.plotting import ComponentsDisplay, ConfusionDisplay, CurveDisplay, EigenvalueDisplay
from mpda.plotting.confusion_plot import MAX_COUNTS, MAX_NAMES
from mpda.plotting.styles import COLORS, Style, make_styles
from mpda.report.plotly_style import DASHES, SYMBOLS, Chart, make_axis, plotly_text, round_values

# Bars of a component: more do not fit on a screen.
_MAX_BARS = 15


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
    ticks = {"dtick": 1} if longest <= 15 else {}
    layout = {
        "xaxis": make_axis("number of components", rangemode="tozero", **ticks),
        "yaxis": make_axis(f"{display.measure} in %", range=[0.0, display.upper_limit()]),
        "hovermode": "x unified",
    }
    return {"data": traces, "layout": layout, "height": 440, "tools": True}


def _draw_curve(curve: ErrorCurve, style: Style, color: str) -> list[Chart]:
    """Return the traces of the band, the line and the ring of a curve."""
    name, n = plotly_text(curve.name), curve.dimensions.size
    base: Chart = {"type": "scatter", "legendgroup": name, "x": curve.dimensions.tolist()}
    silent = {"showlegend": False, "hoverinfo": "skip"}
    traces, intervals = [], [""] * n
    if curve.low is not None and curve.high is not None:
        edge = {**base, **silent, "mode": "lines", "line": {"width": 0, "color": color}}
        fill = {"fill": "tonexty", "fillcolor": f"{color}/0.14"}
        traces.append({**edge, "y": round_values(curve.low, 4)})
        traces.append({**edge, "y": round_values(curve.high, 4), **fill})
        ends = zip(curve.low, curve.high, strict=True)
        intervals = [f" ({a:.1f} to {b:.1f})" if np.isfinite(a + b) else "" for a, b in ends]
    line = {
        "mode": "lines+markers" if n <= 40 else "lines",
        "name": name,
        "y": round_values(curve.error, 4),
        "customdata": intervals,
        "line": {"color": color, "width": 2.2, "dash": DASHES[style.line]},
        "marker": {"color": color, "size": 6 if n <= 20 else 4, "symbol": SYMBOLS[style.marker]},
        "meta": [name],
        "hovertemplate": "%{meta[0]}: %{y:.2f} %%{customdata}<extra></extra>",
    }
    traces.append({**base, **line})
    if (point := curve.selected_point()) is not None:
        ring = {"size": 14, "color": color, "line": {"color": "@ink", "width": 2}}
        position = {"x": [point[0]], "y": round_values(point[1], 4)}
        traces.append({**base, **silent, **position, "mode": "markers", "marker": ring})
    return traces


def _draw_level(curve: ErrorCurve, longest: float) -> Chart:
    name, dash = plotly_text(curve.name), "dot"
    if curve.name == BASELINE:
        name, dash = f"{name}, all features", "longdash"
    return {
        **{"type": "scatter", "mode": "lines", "name": name, "hoverinfo": "skip"},
        **{"x": [0, float(longest)], "y": round_values([curve.error[0]] * 2, 4)},
        "line": {"color": "@soft", "width": 1.6, "dash": dash},
    }


def draw_components(display: ComponentsDisplay) -> list[Chart]:
    """Return one chart for each component: its largest weights as bars, or all as an image.

    Parameters
    ----------
    display : ComponentsDisplay
        Weights.

    Returns
    -------
    list of dict
        Charts with a "name".
    """
    draw = _draw_bars if display.image_shape is None else _draw_image
    return [{"name": name, **draw(display, i)} for i, name in enumerate(display.component_names)]


def _draw_bars(display: ComponentsDisplay, component: int) -> Chart:
    features = display.rank_features(component, _MAX_BARS)
    weights = display.weights[component, features]
    names = [display.feature_names[i] for i in features]
    positions = list(range(len(features)))  # names may occur twice, positions do not
    trace = {
        **{"type": "bar", "orientation": "h", "x": round_values(weights), "y": positions},
        **{"text": [plotly_text(name) for name in names], "textposition": "none"},
        "marker": {"color": np.where(weights < 0.0, "@1", "@0").tolist()},
        "hovertemplate": "%{text}: %{x:.3g}<extra></extra>",
    }
    ticks = {"tickvals": positions, "ticktext": [plotly_text(name, 34) for name in names]}
    y_axis = make_axis("", autorange="reversed", showgrid=False, zeroline=False, **ticks)
    layout = {"xaxis": make_axis("weight"), "yaxis": y_axis, "bargap": 0.35}
    return {"data": [trace], "layout": layout, "height": 110 + 24 * len(features)}


def _draw_image(display: ComponentsDisplay, component: int) -> Chart:
    weights = display.weights[component].reshape(display.image_shape)
    limit = float(np.abs(weights).max()) or 1.0
    labels = {"tickvals": [-limit, 0.0, limit], "ticktext": ["negative", "0", "positive"]}
    trace = {
        **{"type": "heatmap", "z": [round_values(row, 3) for row in weights]},
        **{"zmin": -limit, "zmax": limit, "colorscale": "Cividis"},
        "colorbar": {**labels, "thickness": 12, "outlinewidth": 0, "len": 0.9},
        "hovertemplate": "row %{y}, column %{x}<br>weight %{z:.3g}<extra></extra>",
    }
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": ""}
    y_axis = make_axis("", constrain="domain", scaleanchor="x", autorange="reversed", **bare)
    layout = {"xaxis": make_axis("", constrain="domain", **bare), "yaxis": y_axis}
    return {"data": [trace], "layout": layout, "height": 400}


def draw_eigenvalues(display: EigenvalueDisplay) -> Chart:
    """Return the bar chart of eigenvalues.

    Parameters
    ----------
    display : EigenvalueDisplay
        Eigenvalues.

    Returns
    -------
    dict
        Chart.
    """
    n = len(display.eigenvalues)
    trace = {
        **{"type": "bar", "x": list(range(n)), "y": round_values(display.eigenvalues)},
        "marker": {"color": "@0"},
        "hovertemplate": "component %{x}: %{y:.4g}<extra></extra>",
    }
    scale = {"type": "log", "dtick": 1} if display.is_log_scale() else {"rangemode": "tozero"}
    x_axis = make_axis("component", showgrid=False, **({"dtick": 1} if n <= 20 else {}))
    layout = {"xaxis": x_axis, "yaxis": make_axis("eigenvalue", **scale)}
    return {"data": [trace], "layout": {**layout, "bargap": 0.3 if n > 6 else 0.6}, "height": 340}


def draw_confusion(display: ConfusionDisplay) -> Chart:
    """Return the heat map of a confusion matrix.

    Parameters
    ----------
    display : ConfusionDisplay
        Counts and labels.

    Returns
    -------
    dict
        Chart.
    """
    n, counts, shares = len(display.labels), display.counts.tolist(), display.row_shares()
    labels = [plotly_text(label, 20 if n <= 12 else 12) for label in display.labels]
    texts = [
        [
            f"{labels[i]} as {labels[j]}: {counts[i][j]} ({shares[i, j]:.1%})"
            if i != j
            else f"{labels[i]}: {counts[i][j]} right ({shares[i, j]:.1%})"
            for j in range(n)
        ]
        for i in range(n)
    ]
    trace = {
        **{"type": "heatmap", "z": [round_values(row, 3) for row in np.sqrt(shares)]},
        **{"zmin": 0.0, "zmax": 1.0, "colorscale": "@shares", "showscale": False},
        "text": [[str(count) if count else "" for count in row] for row in counts],
        **{"xgap": 1, "ygap": 1, "hoverinfo": "text", "hovertext": texts},
        **({"texttemplate": "%{text}"} if n <= MAX_COUNTS else {}),
    }
    ticks = {"tickvals": list(range(n)), "ticktext": labels, "showgrid": False, "zeroline": False}
    ticks |= {"ticks": "", "showticklabels": n <= MAX_NAMES, "constrain": "domain"}
    ticks |= {"tickfont": {"size": 13 if n <= 12 else 10}}
    y_axis = make_axis("true class", scaleanchor="x", autorange="reversed", **ticks)
    layout = {"xaxis": make_axis("predicted class", **ticks), "yaxis": y_axis}
    return {"data": [trace], "layout": layout, "height": int(np.clip(220 + 20 * n, 340, 860))}
