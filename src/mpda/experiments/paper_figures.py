"""Figures of the experiments, as PNG and SVG (``pip install 'mpda[plot]'``).

Colours can be told apart by colour-blind readers, and line styles differ in a grey print.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats
from mpda._lib.atomic_write import atomic_path
from mpda.assessment import ErrorEstimate, compute_error_curves
from mpda.assessment.significance import RankComparison
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS
from mpda.experiments.row_store import Row
from mpda.experiments.tangent_curve import TangentCurve
from mpda.plotting import PartitionDisplay, RankDisplay
from mpda.plotting.axes import get_panels
from mpda.plotting.styles import COLORS, make_styles

# Figures and axes of matplotlib, which is optional and only imported where a figure is made.
Figure = Any
Axes = Any
# Dots per inch of the PNG files: sharp on a screen, below 300 kB a figure.
_DPI = 150
# Panels in a row: four of 3.2 inches are as wide as a page in landscape.
_N_COLUMNS = 4


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
    panels = get_panels(None, len(problems), columns=_N_COLUMNS, width=3.2, height=2.7)
    # A method has one style in all panels, and one entry in the legend that they share.
    drawn = [m for m in methods if any((p, m) in curves for p in problems)]
    legend = {}
    for axes, problem in zip(panels, problems, strict=True):
        best = []
        for name, style in zip(drawn, make_styles(len(drawn)), strict=True):
            if (problem, name) in curves:
                curve = curves[problem, name]
                accuracy = 100.0 - curve.error
                best.append(accuracy.max())
                look = {"color": style.color, "linestyle": style.line, "linewidth": 1.3}
                if CONTENDERS[name].method is None:  # 1-NN has no components
                    legend[name] = axes.axhline(accuracy[0], **look)
                else:
                    # Methods with a few numbers of components, such as NCA, show where these are.
                    look["marker"] = "." if accuracy.size < 6 else ""
                    legend[name] = axes.plot(curve.component_counts, accuracy, **look)[0]
        if best:
            # Accuracies far below the best of the weakest method are cut off.
            axes.set_ylim(min(best) - 0.6 * (max(best) - min(best)) - 3.0, max(best) + 1.0)
        axes.set_xlim(0, 60)
        axes.set_title(PROBLEMS[problem].title, fontsize=9)
        _format_axes(axes, "components")
    lines = [legend[name] for name in drawn]
    panels[0].figure.legend(lines, drawn, loc="outside lower center", ncols=6, fontsize=8)
    return panels[0].figure


def rank_figure(comparisons: Mapping[str, RankComparison]) -> Figure:
    """Draw a critical-difference diagram for each group of methods, one below the other.

    Parameters
    ----------
    comparisons : mapping of str to RankComparison
        Ranks by the title of the group.

    Returns
    -------
    matplotlib Figure
        The figure.
    """
    panels = get_panels(None, len(comparisons), columns=1, width=7.0, height=3.0)
    for axes, (title, comparison) in zip(panels, comparisons.items(), strict=True):
        RankDisplay(comparison).plot(axes, title=title)
    return panels[0].figure


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
    all_axes = get_panels(None, len(panels), columns=len(panels), width=2.6, height=2.7)
    for axes, (name, panel), color in zip(all_axes, panels.items(), COLORS, strict=False):
        means = [100.0 - estimate.mean for estimate in panel.values()]
        spreads = [estimate.std for estimate in panel.values()]
        axes.errorbar([*panel], means, spreads, marker="o", ms=3, linewidth=1.2, color=color)
        if name in ("gamma", "alpha"):
            axes.set_xscale("log")
        axes.set_ylim(86, 94)  # the paper's axis
        _format_axes(axes, name)
    return all_axes[0].figure


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
    left, right = get_panels(None, 2, columns=2, width=4.2, height=4.0)
    PartitionDisplay(curve.X, curve.labels).plot(left, title="patches and their tangent spaces")
    for axes in (left, right):
        axes.set(aspect="equal", xticks=[], yticks=[])
    worst = int(np.argmax(curve.neighbor_angles - curve.patch_angles))
    patch = curve.labels == curve.labels[worst]
    # Radius of the detail: four patches, so that the course of the curve can be seen.
    nearby = np.linalg.norm(curve.X - curve.X[worst], axis=1) < 0.9
    right.scatter(*curve.X[nearby].T, s=16, color="0.7")
    right.scatter(*curve.X[patch].T, s=22, color=COLORS[0], label="patch")
    trio = curve.X[[worst, *curve.neighbors[worst]]]
    right.scatter(*trio.T, s=60, facecolors="none", edgecolors=COLORS[1], label="k-NN")
    segment = _tangent_segment(curve.X[patch], curve.patch_tangents[worst])
    right.plot(*segment.T, color=COLORS[0], linestyle="--", label="tangent of the patch")
    # Three neighbours lie so close together that a line of their length could not be seen.
    segment = _tangent_segment(trio, curve.neighbor_tangents[worst], minimum=0.3)
    right.plot(*segment.T, color=COLORS[1], linewidth=1.6, label="tangent of the neighbours")
    right.legend(fontsize=7, loc="best")
    angles = curve.neighbor_angles[worst], curve.patch_angles[worst]
    title = "off the curve by {:.0f}° (2-NN) and {:.0f}° (patch)".format(*angles)
    right.set_title(title, fontsize=9)
    return right.figure


def _tangent_segment(points: Floats, direction: Floats, minimum: float = 0.0) -> Floats:
    """Return the ends, shape (2, 2), of a line through the mean that is longer than the points."""
    centre = points.mean(axis=0)
    half = max(minimum, 1.15 * float(np.abs((points - centre) @ direction).max()))
    return np.stack([centre - half * direction, centre + half * direction])
