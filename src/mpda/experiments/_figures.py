"""Figures for papers: PNG and SVG, colours that a colour-blind reader can tell, lines that differ
in grey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats
from mpda._lib.atomic_write import atomic_path
from mpda.assessment import ErrorEstimate, compute_error_curves
from mpda.exceptions import ReproductionError
from mpda.experiments._contenders import CONTENDERS
from mpda.experiments._illustrations import Curve
from mpda.experiments._protocol import PROBLEMS
from mpda.plotting.styles import COLORS, make_styles


def _figure(n_panels: int, n_columns: int, width: float = 3.2, height: float = 2.7) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ReproductionError("Figures need matplotlib: pip install 'mpda[plot]'.") from error
    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(n_rows, n_columns)).ravel()
    for unused in axes[n_panels:]:
        unused.remove()
    return figure, axes[:n_panels]


def save(figure: Any, out: Path, name: str) -> list[Path]:
    paths = [out / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:])
    return paths


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {
        name: {"color": style.color, "linestyle": style.line}
        for name, style in zip(names, make_styles(len(names)), strict=True)
    }


def dimension_figure(
    rows: Sequence[Mapping[str, Any]], problems: Sequence[str], methods: Sequence[str]
) -> Any:
    """Accuracy against the number of components, one panel for each problem."""
    curves = compute_error_curves(rows)
    figure, axes = _figure(len(problems), 4)
    styles = _styles([name for name in methods if any((p, name) in curves for p in problems)])
    for axis, problem in zip(axes, problems, strict=True):
        tops = []
        for name, style in styles.items():
            if (problem, name) not in curves:
                continue
            curve = curves[problem, name]
            means = 100.0 - curve.error
            if CONTENDERS[name].method is None:
                axis.axhline(means[0], linewidth=1.0, label=name, **style)
            else:
                marker = "." if means.size < 6 else ""
                axis.plot(
                    curve.dimensions, means, linewidth=1.3, label=name, marker=marker, **style
                )
            tops.append(means.max())
        if tops:
            # What is far below the best is cut.
            axis.set_ylim(min(tops) - 0.6 * (max(tops) - min(tops)) - 3.0, max(tops) + 1.0)
        axis.set_xlim(0, 60)
        axis.set_title(PROBLEMS[problem].title, fontsize=9)
        axis.set_xlabel("components", fontsize=8)
        axis.set_ylabel("1-NN accuracy, %", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25, linewidth=0.5)
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, fontsize=8)
    return figure


def demo_figure(Z: Floats, y: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    """The digits in two components, and the error against the number of components."""
    figure, (plane, curves) = _figure(2, 2, width=5.5, height=4.4)
    for label in np.unique(y):
        # The digit itself is the marker, so the picture does not depend on colour.
        color = COLORS[label % len(COLORS)]
        plane.scatter(*Z[y == label].T, marker=f"${label}$", s=24, color=color, linewidths=0)
    plane.set(title="Test digits in the first two components of MPDA", xticks=[], yticks=[])
    found = compute_error_curves(rows)
    styles = _styles([name for name in CONTENDERS if ("digits", name) in found])
    for name, style in styles.items():
        curve = found["digits", name]
        if CONTENDERS[name].method is None:
            curves.axhline(curve.error[0], color="0.5", linewidth=1, label="1-NN on pixels")
        else:
            curves.plot(curve.dimensions, curve.error, linewidth=1.8, label=name, **style)
    curves.set(title="1-NN error on the test part", xlabel="components", ylabel="error in %")
    curves.set(xlim=(0, 40), ylim=(0, 15))
    curves.legend(frameon=False)
    return figure


def sensitivity_figure(panels: Mapping[str, Mapping[float, ErrorEstimate]]) -> Any:
    """Mean accuracy and its spread over splits against the values of each parameter."""
    figure, axes = _figure(len(panels), 4)
    for axis, (name, cells), color in zip(axes, panels.items(), cycle(COLORS), strict=False):
        values = sorted(cells)
        means = np.array([100.0 - cells[value].mean for value in values])
        spreads = np.array([cells[value].std for value in values])
        axis.errorbar(values, means, spreads, marker="o", markersize=3, linewidth=1.2, color=color)
        if name == "gamma":
            axis.set_xscale("log")
        axis.set_ylim(86, 94)
        axis.set_xlabel(name, fontsize=9)
        axis.set_ylabel("1-NN accuracy, %", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25, linewidth=0.5)
    return figure


def partition_figure(curve: Curve) -> Any:
    """Left: the patches of a curve with their tangent lines. Right: where two neighbours give a
    wrong tangent and the patch a right one."""
    figure, (left, right) = _figure(2, 2, width=4.2, height=4.0)
    for axis in (left, right):
        axis.set_aspect("equal")
        axis.set_xticks([])
        axis.set_yticks([])
    for patch, color, marker in _patches(curve):
        points = curve.X[patch]
        left.scatter(*points.T, s=16, color=color, marker=marker, zorder=2)
        left.plot(*_line(points, curve.patch_tangents[patch][0]).T, color="0.35", linewidth=0.9)
    left.set_title("patches and their tangent spaces", fontsize=9)
    worst = int(np.argmax(curve.neighbor_angles - curve.patch_angles))
    patch = curve.labels == curve.labels[worst]
    near = np.linalg.norm(curve.X - curve.X[worst], axis=1) < 0.9
    right.scatter(*curve.X[near].T, s=16, color="0.7")
    right.scatter(*curve.X[patch].T, s=22, color=COLORS[0], label="patch")
    lot = [worst, *curve.neighbors[worst]]
    right.scatter(*curve.X[lot].T, s=60, facecolors="none", edgecolors=COLORS[1], label="k-NN")
    patch_line = _line(curve.X[patch], curve.patch_tangents[worst])
    right.plot(*patch_line.T, color=COLORS[0], linestyle="--", label="tangent of the patch")
    lot_line = _line(curve.X[lot], curve.neighbor_tangents[worst], least=0.3)
    right.plot(*lot_line.T, color=COLORS[1], linewidth=1.6, label="tangent of the neighbours")
    right.legend(fontsize=7, loc="best")
    right.set_title(
        f"off the curve by {curve.neighbor_angles[worst]:.0f}° (2-NN) and "
        f"{curve.patch_angles[worst]:.0f}° (patch)",
        fontsize=9,
    )
    return figure


def _patches(curve: Curve) -> Iterator[tuple[Any, str, str]]:
    markers = cycle("osD^v")
    for i, label in enumerate(np.unique(curve.labels)):
        yield curve.labels == label, COLORS[i % 6], next(markers)


def _line(points: Floats, direction: Floats, least: float = 0.0) -> Floats:
    centre = points.mean(axis=0)
    half = max(least, 1.15 * float(np.abs((points - centre) @ direction).max()))
    return np.stack([centre - half * direction, centre + half * direction])
