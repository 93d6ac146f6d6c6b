"""Figures of the experiments, as PNG and SVG (``pip install 'mpda[plot]'``).

Colours can be told apart by colour-blind readers, and line styles differ in a grey print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Labels
from mpda._lib.atomic_write import atomic_path
from mpda.assessment import ErrorEstimate, compute_error_curves
from mpda.exceptions import ReproductionError
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS
from mpda.experiments.row_store import Row
from mpda.experiments.tangent_curve import TangentCurve
from mpda.plotting.styles import COLORS, make_styles

# Figures and axes of matplotlib, which is optional and only imported where a figure is made.
Figure = Any
Axes = Any
# Dots per inch of the PNG files: sharp on a screen, below 300 kB a figure.
_DPI = 150


def save_figure(figure: Figure, out: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG.

    Parameters
    ----------
    figure : matplotlib Figure
        The figure.
    out : Path
        Directory of the files.
    name : str
        File name without suffix.

    Returns
    -------
    list of Path
        The two files.
    """
    paths = [out / f"{name}.{suffix}" for suffix in ("png", "svg")]
    for path in paths:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=_DPI, format=path.suffix[1:])
    return paths


def _create_panels(n: int, width: float = 3.2, height: float = 2.7) -> list[Axes]:
    """Return the panels of a new figure in rows of four; width and height of a panel in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ReproductionError("Figures need matplotlib: pip install 'mpda[plot]'.") from error
    n_columns = min(4, n)
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return [figure.add_subplot(n_rows, n_columns, i + 1) for i in range(n)]


def _line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return a colour and a line style for each name, as keywords of matplotlib."""
    return {
        name: {"color": style.color, "linestyle": style.line}
        for name, style in zip(names, make_styles(len(names)), strict=True)
    }


def _format_axes(axes: Axes, xlabel: str) -> None:
    axes.set_xlabel(xlabel, fontsize=8)
    axes.set_ylabel("1-NN accuracy, %", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)


def dimension_figure(
    rows: Sequence[Row], problems: Sequence[str], methods: Sequence[str]
) -> Figure:
    """Draw accuracy against the number of components, one panel for each problem.

    Parameters
    ----------
    rows : sequence of Row
        Rows of a run.
    problems, methods : sequence of str
        Panels, and lines of each panel.

    Returns
    -------
    matplotlib Figure
        The figure.
    """
    curves = compute_error_curves(rows)
    panels = _create_panels(len(problems))
    line_styles = _line_styles([m for m in methods if any((p, m) in curves for p in problems)])
    legend = {}
    for axes, problem in zip(panels, problems, strict=True):
        best = []
        for name, style in line_styles.items():
            if (problem, name) in curves:
                curve = curves[problem, name]
                accuracy = 100.0 - curve.error
                legend[name] = _draw_line(axes, name, curve.dimensions, accuracy, style)
                best.append(accuracy.max())
        if best:
            # Accuracies far below the best of the weakest method are cut off.
            axes.set_ylim(min(best) - 0.6 * (max(best) - min(best)) - 3.0, max(best) + 1.0)
        axes.set_xlim(0, 60)
        axes.set_title(PROBLEMS[problem].title, fontsize=9)
        _format_axes(axes, "components")
    lines = [legend[name] for name in line_styles]
    figure = panels[0].figure
    figure.legend(lines, list(line_styles), loc="outside lower center", ncols=6, fontsize=8)
    return figure


def _draw_line(
    axes: Axes, name: str, dimensions: Floats, values: Floats, style: Mapping[str, Any]
) -> Any:
    """Draw values against numbers of components; 1-NN, which has none, as a horizontal line."""
    if CONTENDERS[name].method is None:
        return axes.axhline(values[0], linewidth=1.0, label=name, **style)
    marker = "." if values.size < 6 else ""
    return axes.plot(dimensions, values, linewidth=1.3, marker=marker, label=name, **style)[0]


def demo_figure(Z: Floats, y: Labels, rows: Sequence[Row]) -> Figure:
    """Draw the digits in two components, and error against the number of components.

    Parameters
    ----------
    Z : ndarray of shape (n, 2)
        Mapped test samples.
    y : ndarray of shape (n,)
        Their digits.
    rows : sequence of Row
        Rows of the demonstration.

    Returns
    -------
    matplotlib Figure
        The figure.
    """
    plane, axes = _create_panels(2, width=5.5, height=4.4)
    for label in np.unique(y):
        # The digit itself is the marker, so that the picture does not depend on colour.
        color = COLORS[label % len(COLORS)]
        plane.scatter(*Z[y == label].T, marker=f"${label}$", s=24, color=color, linewidths=0)
    plane.set(title="Test digits in the first two components of MPDA", xticks=[], yticks=[])
    curves = compute_error_curves(rows)
    for name, style in _line_styles([m for m in CONTENDERS if ("digits", m) in curves]).items():
        curve = curves["digits", name]
        _draw_line(axes, name, curve.dimensions, curve.error, style)
    axes.set(title="1-NN error on the test samples", xlabel="components", ylabel="error in %")
    axes.set(xlim=(0, 40), ylim=(0, 15))
    axes.legend(frameon=False)
    return axes.figure


def sensitivity_figure(panels: Mapping[str, Mapping[float, ErrorEstimate]]) -> Figure:
    """Draw mean accuracy and its standard deviation against the values of each parameter.

    Parameters
    ----------
    panels : mapping of str to mapping of float to ErrorEstimate
        For each parameter, the errors at each of its values.

    Returns
    -------
    matplotlib Figure
        The figure, one panel for each parameter.
    """
    axes_list = _create_panels(len(panels))
    for axes, (name, panel), color in zip(axes_list, panels.items(), cycle(COLORS), strict=False):
        values = sorted(panel)
        means = [100.0 - panel[value].mean for value in values]
        spreads = [panel[value].std for value in values]
        axes.errorbar(values, means, spreads, marker="o", markersize=3, linewidth=1.2, color=color)
        if name == "gamma":
            axes.set_xscale("log")
        axes.set_ylim(86, 94)  # the paper's axis
        _format_axes(axes, name)
    return axes_list[0].figure


def partition_figure(curve: TangentCurve) -> Figure:
    """Draw patches with their tangents, and a sample where the k-NN tangent fails.

    Parameters
    ----------
    curve : TangentCurve
        Samples with true and estimated tangents.

    Returns
    -------
    matplotlib Figure
        Left all patches, right the sample with the largest difference between the two estimates.
    """
    left, right = _create_panels(2, width=4.2, height=4.0)
    for axes in (left, right):
        axes.set(aspect="equal", xticks=[], yticks=[])
    # Six colours and five markers: neighbouring patches differ in both.
    for label, color, marker in zip(
        np.unique(curve.labels), cycle(COLORS[:6]), cycle("osD^v"), strict=False
    ):
        patch = curve.labels == label
        left.scatter(*curve.X[patch].T, s=16, color=color, marker=marker, zorder=2)
        segment = _tangent_segment(curve.X[patch], curve.patch_tangents[patch][0])
        left.plot(*segment.T, color="0.35", linewidth=0.9)
    left.set_title("patches and their tangent spaces", fontsize=9)
    worst = int(np.argmax(curve.neighbor_angles - curve.patch_angles))
    patch = curve.labels == curve.labels[worst]
    nearby = np.linalg.norm(curve.X - curve.X[worst], axis=1) < 0.9
    right.scatter(*curve.X[nearby].T, s=16, color="0.7")
    right.scatter(*curve.X[patch].T, s=22, color=COLORS[0], label="patch")
    trio = curve.X[[worst, *curve.neighbors[worst]]]
    right.scatter(*trio.T, s=60, facecolors="none", edgecolors=COLORS[1], label="k-NN")
    segment = _tangent_segment(curve.X[patch], curve.patch_tangents[worst])
    right.plot(*segment.T, color=COLORS[0], linestyle="--", label="tangent of the patch")
    segment = _tangent_segment(trio, curve.neighbor_tangents[worst], minimum=0.3)
    right.plot(*segment.T, color=COLORS[1], linewidth=1.6, label="tangent of the neighbours")
    right.legend(fontsize=7, loc="best")
    right.set_title(
        f"off the curve by {curve.neighbor_angles[worst]:.0f}° (2-NN) and "
        f"{curve.patch_angles[worst]:.0f}° (patch)",
        fontsize=9,
    )
    return right.figure


def _tangent_segment(points: Floats, direction: Floats, minimum: float = 0.0) -> Floats:
    """Return the ends, shape (2, 2), of a line through the mean that is longer than the points."""
    centre = points.mean(axis=0)
    half = max(minimum, 1.15 * float(np.abs((points - centre) @ direction).max()))
    return np.stack([centre - half * direction, centre + half * direction])
