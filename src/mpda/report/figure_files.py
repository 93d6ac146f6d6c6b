"""Displays of the results, and their figures as files for papers.

`make_displays` turns results into the displays of `mpda.plotting`. The page draws them with plotly,
`write_figures` with matplotlib.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats
from mpda._lib.atomic_write import write_atomically
from mpda.assessment import BASELINE, ErrorCurve
from mpda.plotting import (
    ComponentsDisplay,
    ConfusionDisplay,
    CurveDisplay,
    EigenvalueDisplay,
    EmbeddingDisplay,
    PartitionDisplay,
)
from mpda.plotting.axes import Display
from mpda.plotting.component_plot import MAX_BAR_PANELS, MAX_IMAGES
from mpda.plotting.partition_plot import describe_partition
from mpda.plotting.styles import display_name
from mpda.report.results_file import check_results, refuse_corrupt_results

# Methods that curves are compared with. They are drawn as level lines if they have no curve.
_REFERENCES = (BASELINE, "LDA")


def write_figures(results: dict[str, Any], directory: str | Path) -> list[Path]:
    """Write every figure of the results as PNG (200 dots per inch) and SVG.

    Parameters
    ----------
    results : dict
        As described for `render`.
    directory : str or Path
        Made if it does not exist.

    Returns
    -------
    list of Path
        Written files. Equal results give equal bytes.
    """
    results, paths = check_results(results), []
    with refuse_corrupt_results():
        displays, titles = make_displays(results), _make_titles(results)
        for name, display in displays.items():
            title = {"title": titles[name]} if name in titles else {}
            paths += _save(display.plot(**title).figure_, Path(directory), name)
    return paths


def _save(figure: Any, directory: Path, name: str) -> list[Path]:
    from matplotlib import rc_context

    paths = []
    # Without dates and random identifiers equal figures are equal files.
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = BytesIO()
        with rc_context({"svg.hashsalt": name}):
            figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
        paths.append(write_atomically(directory / f"{name}.{kind}", buffer.getvalue()))
    return paths


def _make_titles(results: dict[str, Any]) -> dict[str, str]:
    titles = {}
    problems = results.get("comparison", {}).get("problems", [])
    if len(problems) > 1:
        titles = {f"curve-{i + 1}": display_name(p["name"]) for i, p in enumerate(problems)}
    if example := results.get("partition", {}).get("example"):
        classes = {entry["label"]: entry for entry in results["partition"]["classes"]}
        linearity = to_floats(classes.get(example["label"], {}).get("linearity", []))
        n_patches = len(set(example["patches"]))
        titles["partition"] = describe_partition(example["label"], n_patches, linearity)
    return titles


def make_displays(results: dict[str, Any], max_components: int | None = None) -> dict[str, Any]:
    """Return the displays of all figures.

    Parameters
    ----------
    results : dict
        Checked results.
    max_components : int or None, default=None
        Number of components whose weights are drawn. None takes as many as fit on a printed page.

    Returns
    -------
    dict of str to Display
        "embedding" and "embedding-3d", "curve" or "curve-1" and so on, "partition", "components",
        "eigenvalues" and "confusion", as far as the results have them.
    """
    displays: dict[str, Display] = {}
    if (embedding := results.get("embedding")) and embedding["points"]:
        points = to_floats(embedding["points"])
        if len(embedding.get("rows") or points) != len(points):
            raise ValueError("rows of the embedding must have one entry for each point")
        names = embedding.get("component_names")
        for name, width in (("embedding", 2), ("embedding-3d", 3)):
            if width == 2 or points.shape[1] == 3:
                columns = points[:, :width], embedding["codes"], embedding["labels"]
                displays[name] = EmbeddingDisplay(*columns, component_names=names)
    problems = results.get("comparison", {}).get("problems", [])
    for i, problem in enumerate(problems):
        if problem.get("curves"):
            name = "curve" if len(problems) == 1 else f"curve-{i + 1}"
            displays[name] = CurveDisplay(_make_curves(problem))
    if (example := results.get("partition", {}).get("example")) and example["points"]:
        patches = np.unique(example["patches"], return_inverse=True)[1]
        names = "first principal component", "second principal component"
        displays["partition"] = PartitionDisplay(example["points"], patches, axis_names=names)
    displays |= _make_model_displays(results.get("model", {}), max_components)
    if (confusion := results.get("confusion")) and confusion["labels"]:
        displays["confusion"] = ConfusionDisplay(confusion["counts"], confusion["labels"])
    return displays


def _make_curves(problem: dict[str, Any]) -> list[ErrorCurve]:
    curves = []
    for entry in problem["curves"]:
        low, high = (None if entry.get(k) is None else to_floats(entry[k]) for k in ("low", "high"))
        dimensions, error = to_floats(entry["dimensions"]), to_floats(entry["error"])
        lists = [values for values in (error, low, high) if values is not None]
        if any(values.shape != dimensions.shape for values in lists):
            raise ValueError(f"the lists of the curve of {entry['method']!r} differ in length")
        selection = {key: entry.get(key) for key in ("selected", "selected_error")}
        curves.append(ErrorCurve(entry["method"], dimensions, error, low, high, **selection))
    names = {curve.name for curve in curves}
    levels = [
        ErrorCurve(row["method"], np.empty(0), to_floats([row["error"]]))
        for row in problem["rows"]
        if row["method"] in _REFERENCES and row["method"] not in names and row["error"] is not None
    ]
    return curves + levels


def _make_model_displays(model: dict[str, Any], max_components: int | None) -> dict[str, Display]:
    displays: dict[str, Display] = {}
    if model.get("weights"):
        if max_components is None:
            max_components = MAX_IMAGES if model.get("image_shape") else MAX_BAR_PANELS
        names = model.get("component_names")
        displays["components"] = ComponentsDisplay(
            np.nan_to_num(to_floats(model["weights"][:max_components])),
            feature_names=model.get("features"),
            component_names=None if names is None else names[:max_components],
            image_shape=model.get("image_shape"),
        )
    eigenvalues = [value for value in model.get("eigenvalues") or [] if value is not None]
    if eigenvalues:
        displays["eigenvalues"] = EigenvalueDisplay(eigenvalues)
    return displays


def to_floats(values: Any) -> Floats:
    """Return an array of floats, nan for None.

    Parameters
    ----------
    values : nested lists of numbers and None
        From a results file.

    Returns
    -------
    array of float
        With the shape of the lists.
    """
    return np.asarray(values, dtype=np.float64)
