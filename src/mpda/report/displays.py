"""Displays of the results, and their figures as SVG or PNG.

`make_displays` turns results into the displays of `mpda.plotting`. The page draws eigenvalues, the
confusion matrix and images from them with matplotlib, and the other charts with scripts of its own;
figures for papers are all from matplotlib.
"""

from io import BytesIO
from typing import Any

import numpy as np

from mpda import plotting
from mpda._lib.array_types import Floats
from mpda.assessment import BASELINE, CLASSIFIER, ErrorCurve
from mpda.plotting.axes import Display
from mpda.plotting.partition_plot import describe_partition
from mpda.plotting.styles import display_name

# Methods that curves are compared with. They are drawn as level lines if they have no curve.
_REFERENCES = (BASELINE, "LDA", CLASSIFIER)
# Components whose correlations are drawn: three rows of bars or of images.
MAX_BAR_PANELS, _MAX_IMAGES = 6, 15
# Entries that matplotlib would write into an SVG. The date would differ between equal figures.
_SVG_METADATA = ("Date", "Creator", "Format", "Type")


def make_displays(results: dict[str, Any]) -> dict[str, Any]:
    """Return the displays of all figures.

    Parameters
    ----------
    results : dict
        Checked results.

    Returns
    -------
    dict of str to Display
        "bytes" and "bytes-unseen", "embedding" and "embedding-3d", "curve" or "curve-1" and so on,
        "partition", "components", "eigenvalues" and "confusion", as far as the results have them.
    """
    displays: dict[str, Display] = {}
    storage = results.get("storage", {})
    for name, entry in (("bytes", storage), ("bytes-unseen", storage.get("unseen", {}))):
        if rows := entry.get("rows"):
            displays[name] = plotting.BytesDisplay(rows)
    if (embedding := results.get("embedding")) and embedding["points"]:
        points, names = _to_floats(embedding["points"]), embedding.get("component_names")
        for name, width in (("embedding", 2), ("embedding-3d", 3)):
            if width == 2 or points.shape[1] >= 3:
                columns = points[:, :width], embedding["codes"], embedding["labels"]
                displays[name] = plotting.EmbeddingDisplay(*columns, component_names=names)
    problems = results.get("comparison", {}).get("problems", [])
    for i, problem in enumerate(problems):
        if problem.get("curves"):
            display = plotting.CurveDisplay(_make_curves(problem))
            # The files of several problems would otherwise look alike.
            display.title = display_name(problem["name"]) if len(problems) > 1 else None
            displays[f"curve-{i + 1}" if len(problems) > 1 else "curve"] = display
    partition = results.get("partition", {})
    if pictures := partition.get("pictures"):
        displays["partition"] = _make_partition(pictures[0], partition["classes"])
    model = results.get("model", {})
    if model.get("correlations"):
        limit = _MAX_IMAGES if model.get("image_shape") else MAX_BAR_PANELS
        # A value that is not finite is null in the file. It is drawn as zero, without a bar.
        displays["components"] = plotting.ComponentsDisplay(
            np.nan_to_num(_to_floats(model["correlations"][:limit])),
            feature_names=model.get("features"),
            component_names=(model.get("component_names") or [])[:limit] or None,
            image_shape=model.get("image_shape"),
            measure="correlation",
        )
    if eigenvalues := [value for value in model.get("eigenvalues") or [] if value is not None]:
        displays["eigenvalues"] = plotting.EigenvalueDisplay(eigenvalues)
    if (confusion := results.get("confusion")) and confusion["labels"]:
        displays["confusion"] = plotting.ConfusionDisplay(confusion["counts"], confusion["labels"])
    return displays


def _make_curves(problem: dict[str, Any]) -> list[ErrorCurve]:
    """Return the curves of a problem, then the references that have no curve as levels."""
    curves = []
    for entry in problem["curves"]:
        component_counts, error = _to_floats(entry["dimensions"]), _to_floats(entry["error"])
        options: dict[str, Any] = {k: entry.get(k) for k in ("selected", "selected_error")}
        options |= {k: _to_floats(entry[k]) for k in ("low", "high") if entry.get(k) is not None}
        curves.append(ErrorCurve(entry["method"], component_counts, error, **options))
    names = {curve.name for curve in curves}
    levels = [
        ErrorCurve(row["method"], np.empty(0), _to_floats([row["error"]]))
        for row in problem["rows"]
        if row["method"] in _REFERENCES and row["method"] not in names and row["error"] is not None
    ]
    return curves + levels


def _make_partition(picture: dict[str, Any], classes: list[dict[str, Any]]) -> Display:
    """Return the display of the patches of a class, with their mean linearity in the title."""
    names = "first principal component", "second principal component"
    points, patches, lines = (picture[key] for key in ("points", "patches", "lines"))
    display = plotting.PartitionDisplay(points, patches, lines=lines, axis_names=names)
    lists = (entry["linearity"] for entry in classes if entry["label"] == picture["label"])
    linearity = _to_floats(next(lists, []))
    display.title = describe_partition(picture["label"], len(display.lines), linearity)
    return display


def _to_floats(values: Any) -> Floats:
    """Return an array of floats, nan for None."""
    return np.asarray(values, dtype=np.float64)


def encode_figure(figure: Any, name: str, kind: str, **options: Any) -> bytes:
    """Return a figure as a file; equal figures give equal bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Figure.
    name : str
        Makes the identifiers inside an SVG unique.
    kind : {"png", "svg"}
        Format.
    **options : object
        Settings of matplotlib, such as ``{"svg.fonttype": "none"}``.

    Returns
    -------
    bytes
        Content of the file, without the date.
    """
    from matplotlib import rc_context

    buffer = BytesIO()
    metadata = {"Software": None} if kind == "png" else dict.fromkeys(_SVG_METADATA)
    with rc_context({"svg.hashsalt": name, **options}):
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()
