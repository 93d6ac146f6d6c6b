"""Data of the interactive charts: classes in the components, error curves, patches.

A chart is a dictionary of JSON types, which the scripts of the page (``assets``) draw. Classes,
curves and patches have a number; the scripts derive their colour and mark from it in the order of
`mpda.plotting.styles`, so that page and paper look alike.

The scripts are written for this page. plotly.js would add 4.8 MB to each page, or 1.1 to 1.8 MB as
a partial bundle, and has seven marks in three dimensions; bokeh would add 1.3 to 2.1 MB and has no
three dimensions. These scripts have 0.05 MB.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpda.assessment import BASELINE, CLASSIFIER, ErrorCurve
from mpda.plotting import CurveDisplay, EmbeddingDisplay
from mpda.plotting.styles import LINES, make_styles, shorten

Chart = dict[str, Any]
# Characters of a label.
_LABEL_LIMIT = 60


def describe_scatter(display: EmbeddingDisplay, embedding: dict[str, Any]) -> Chart:
    """Return the data of the scatter plot.

    Parameters
    ----------
    display : EmbeddingDisplay
        The first components; a single one gets a random second coordinate.
    embedding : dict
        Section of the results. "rows" are row numbers in the file. "wrong" are the samples that
        1-NN misclassifies. "predicted" and "hover" are shown for single samples.

    Returns
    -------
    dict
        One list of coordinates for each component, and one entry for each sample in all others.
    """
    points = np.asarray(embedding["points"], dtype=np.float64)
    n, n_axes = points.shape
    names = list(embedding.get("component_names") or display.component_names)[:n_axes]
    names += [f"component {i + 1}" for i in range(len(names), n_axes)]
    if n_axes == 1:
        points, names = display.coordinates(), [*names, ""]
    chart: Chart = {
        "names": names,
        "columns": [_round_values(column) for column in points.T],
        "codes": display.codes.tolist(),
        "labels": [shorten(label, _LABEL_LIMIT) for label in display.labels],
        "rows": _check_length("rows", embedding.get("rows") or list(range(1, n + 1)), n),
    }
    if embedding.get("wrong"):
        chart["wrong"] = [int(bool(wrong)) for wrong in embedding["wrong"]]
        _check_length("wrong", chart["wrong"], n)
    if predicted := embedding.get("predicted"):
        labels = [shorten(str(label), _LABEL_LIMIT) for label in predicted["labels"]]
        codes = _check_length("predicted", predicted["codes"], n)
        chart["predicted"] = {"labels": labels, "codes": codes}
    if hover := embedding.get("hover"):
        chart["hover"] = _describe_hover(hover, n)
    return chart


def _describe_hover(hover: dict[str, Any], n: int) -> Chart:
    """Return texts, features and images of n samples."""
    chart: Chart = {}
    if text := hover.get("text"):
        values = _check_length("text", [str(value) for value in text["values"]], n)
        chart["text"] = {"name": shorten(str(text["name"]), _LABEL_LIMIT), "values": values}
    if features := hover.get("features"):
        chart["features"] = [
            {
                "name": shorten(str(feature["name"]), _LABEL_LIMIT),
                "values": _check_length("features", _round_values(feature["values"], 4), n),
            }
            for feature in features
        ]
    if hover.get("images"):
        chart["images"] = hover["images"]
    return chart


def _check_length(name: str, values: list[Any], n: int) -> list[Any]:
    if len(values) != n:
        raise ValueError(f"{name} must have {n} entries, one for each sample, got {len(values)}")
    return values


def describe_curves(display: CurveDisplay) -> Chart:
    """Return the data of error curves; methods without components are level lines.

    Parameters
    ----------
    display : CurveDisplay
        Curves.

    Returns
    -------
    dict
        Chart.
    """
    styles = make_styles(len(display.curves))
    curves = [
        {**_describe_curve(curve), "style": i, "dash": LINES.index(style.line)}
        for i, (curve, style) in enumerate(zip(display.curves, styles, strict=True))
    ]
    longest = max(curve.component_counts.max(initial=1.0) for curve in display.curves)
    chart = {"measure": f"{display.measure} in %", "upper": float(f"{display.upper_limit():.5g}")}
    return {**chart, "longest": float(longest), "curves": curves}


def _describe_curve(curve: ErrorCurve) -> Chart:
    name = shorten(curve.name, _LABEL_LIMIT)
    if not curve.component_counts.size:
        name = f"{name}, all features" if curve.name in (BASELINE, CLASSIFIER) else name
        return {"name": name, "level": True, "x": [], "y": _round_values(curve.error[:1], 4)}
    chart = {"name": name, "x": curve.component_counts.tolist(), "y": _round_values(curve.error, 4)}
    if curve.low is not None and curve.high is not None:
        chart |= {"low": _round_values(curve.low, 4), "high": _round_values(curve.high, 4)}
    if (point := curve.selected_point()) is not None:
        chart["selected"] = _round_values(point, 4)
    return chart


def describe_patches(
    pictures: Sequence[dict[str, Any]], classes: Sequence[dict[str, Any]]
) -> list[Chart]:
    """Return the data of the pictures of patches, one for each class.

    Parameters
    ----------
    pictures : sequence of dict
        "pictures" of the section "partition".
    classes : sequence of dict
        "classes" of the section "partition", for the linearities.

    Returns
    -------
    list of dict
        Charts.
    """
    linearities = {entry["label"]: entry.get("linearity") or [] for entry in classes}
    return [
        {
            "label": shorten(picture["label"], _LABEL_LIMIT),
            "points": [_round_values(point, 4) for point in picture["points"]],
            "patches": _check_length("patches", picture["patches"], len(picture["points"])),
            "lines": [[_round_values(end, 4) for end in line] for line in picture["lines"]],
            "n_patches": picture.get("n_patches") or len(picture["lines"]),
            "linearity": [
                None if value is None else float(f"{value:.4g}")
                for value in linearities.get(picture["label"], [])[: len(picture["lines"])]
            ],
        }
        for picture in pictures
    ]


def _round_values(values: Any, digits: int = 5) -> list[float | None]:
    """Round numbers to significant digits, which keeps the page small; None if not finite.

    Five digits are finer than a pixel on any screen.
    """
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in flat]
