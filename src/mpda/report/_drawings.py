"""The figures of a report for papers, drawn by ``mpda.plotting``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats
from mpda._lib.atomic_write import write_atomically
from mpda.plotting import (
    ComponentsDisplay,
    ConfusionDisplay,
    CurveDisplay,
    EigenvalueDisplay,
    EmbeddingDisplay,
    ErrorCurve,
    PartitionDisplay,
)
from mpda.plotting._partition import partition_title
from mpda.plotting.styles import display_name
from mpda.report._graphs import level_rows
from mpda.report._results import checked


def write_figures(results: dict[str, Any], directory: str | Path) -> list[Path]:
    """Write each figure of the results as PNG (200 dots an inch) and as SVG.

    Parameters
    ----------
    results : dict
        As described for ``render``.
    directory : str or Path
        Made where it is missing.

    Returns
    -------
    list of Path
        What was written; the same results give the same bytes.
    """
    figures = _figures(checked(results))
    return [path for name, each in figures.items() for path in _saved(each, Path(directory), name)]


def _figures(results: dict[str, Any]) -> dict[str, Any]:
    """The figures by the names of their files."""
    made: dict[str, Any] = {}
    embedding = results.get("embedding")
    if embedding and embedding["points"]:
        made |= _embeddings(embedding)
    problems = (results.get("comparison") or {}).get("problems") or []
    for i, problem in enumerate(problems):
        if problem.get("curves"):
            name = "curve" if len(problems) == 1 else f"curve-{i + 1}"
            title = None if len(problems) == 1 else display_name(problem["name"])
            made[name] = CurveDisplay(_curves(problem)).plot(title=title).figure_
    partition = results.get("partition")
    if partition and (partition.get("shown") or {}).get("points"):
        made["partition"] = _patches(partition)
    made |= _of_model(results.get("model") or {})
    confusion = results.get("confusion")
    if confusion and confusion["labels"]:
        display = ConfusionDisplay(confusion["counts"], confusion["labels"])
        made["confusion"] = display.plot().figure_
    return made


def _embeddings(embedding: dict[str, Any]) -> dict[str, Any]:
    points = _numbers(embedding["points"])
    names = list(embedding.get("component_names") or [])
    names += [f"component {i}" for i in range(len(names), 3)]
    made = {}
    for name, width in (("embedding", min(points.shape[1], 2)), ("embedding-3d", 3)):
        if points.shape[1] >= width:
            display = EmbeddingDisplay(
                points[:, :width],
                embedding["codes"],
                embedding["labels"],
                component_names=names[:width],
            )
            made[name] = display.plot().figure_
    return made


def _curves(problem: dict[str, Any]) -> list[ErrorCurve]:
    curves = []
    for each in problem["curves"]:
        low, high = (None if each.get(k) is None else _numbers(each[k]) for k in ("low", "high"))
        curves.append(
            ErrorCurve(
                each["method"],
                _numbers(each["dimensions"]),
                _numbers(each["error"]),
                low,
                high,
                chosen=each.get("chosen"),
                chosen_error=each.get("chosen_error"),
            )
        )
    levels = [
        ErrorCurve(row["method"], np.empty(0), _numbers([row["error"]]))
        for row in level_rows(problem)
    ]
    return curves + levels


def _patches(partition: dict[str, Any]) -> Any:
    shown = partition["shown"]
    numbers, patches = np.unique(shown["patches"], return_inverse=True)
    known = [c["linearity"] for c in partition["classes"] if c["label"] == shown["label"]]
    linearity = _numbers(known[0]) if known else None
    title = partition_title(shown["label"], numbers.size, linearity)
    return PartitionDisplay(shown["points"], patches).plot(title=title).figure_


def _of_model(model: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if model.get("weights"):
        shape = model.get("image_shape")
        most = 4 if shape is None else 10
        weights = np.nan_to_num(_numbers(model["weights"][:most]))
        names = model.get("component_names")
        display = ComponentsDisplay(
            weights,
            feature_names=model.get("features"),
            component_names=None if names is None else names[: len(weights)],
            image_shape=shape,
        )
        made["components"] = display.plot().figure_
    values = [value for value in model.get("eigenvalues") or [] if value is not None]
    if values:
        made["eigenvalues"] = EigenvalueDisplay(values).plot().figure_
    return made


def _numbers(values: Any) -> Floats:
    """An array, nan where there is none."""
    return np.asarray(values, dtype=np.float64)


def _saved(figure: Any, directory: Path, name: str) -> list[Path]:
    from matplotlib import rc_context

    paths = []
    for kind in ("png", "svg"):
        buffer = BytesIO()
        # Neither a date nor names by chance: the same figure is the same file.
        with rc_context({"svg.hashsalt": name}):
            dated = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(buffer, format=kind, dpi=200, metadata=dated)
        paths.append(write_atomically(directory / f"{name}.{kind}", buffer.getvalue()))
    return paths
