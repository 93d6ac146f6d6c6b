"""What a report shows, collected into one dictionary of plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mpda._lib.array_types import Array, Floats, Ints, Labels
from mpda._lib.provenance import machine, versions
from mpda.assessment import (
    BASELINE,
    ErrorCurve,
    ErrorEstimate,
    compute_error_curves,
    compute_fit_costs,
    differ_significantly,
    estimate_errors,
    find_best_methods,
)
from mpda.io.affine_maps import affine_map
from mpda.io.tables import Table
from mpda.report._results import FORMAT, VERSION

Results = dict[str, Any]
_MOST_POINTS = 10_000
_MOST_FEATURES = 2_000
_MOST_WEIGHTS = 60
_MOST_CLASSES = 100


def collect_results(
    title: str, command: str, summary: Sequence[str], sections: Mapping[str, Any]
) -> Results:
    """The dictionary of a report; sections that are None are left out."""
    made = {
        "command": command,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": machine(),
    }
    about = {"format": FORMAT, "version": VERSION, "made": made, "title": title}
    kept = {name: section for name, section in sections.items() if section is not None}
    return {**about, "summary": list(summary), **kept}


def collect_data(table: Table) -> Results:
    found: Results = {
        "name": table.name,
        "n_samples": len(table.X),
        "n_features": table.X.shape[1],
    }
    if table.y is not None:
        labels, counts = np.unique(table.y, return_counts=True)
        found["label"] = table.label
        found["classes"] = [
            {"label": str(label), "count": int(count)}
            for label, count in zip(labels.tolist(), counts, strict=True)
        ]
    return found


def collect_comparison(
    rows: Sequence[Mapping[str, Any]], how: str, titles: Mapping[str, str]
) -> Results:
    """Methods side by side, the number of components chosen without the test part."""
    found, curves, cost = (
        estimate_errors(rows, "cv"),
        compute_error_curves(rows),
        compute_fit_costs(rows),
    )
    problems = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        here = {method: cell for (where, method), cell in found.items() if where == problem}
        best = find_best_methods(here)
        problems.append(
            {
                "name": titles.get(problem, problem),
                "rows": [
                    _row(name, here, cost.get((problem, name)), name in best) for name in here
                ],
                # Raw 1-NN has no components and is drawn as a level, not at its many features.
                "curves": [
                    _curve(name, curves[problem, name], here[name])
                    for name in here
                    if name != BASELINE
                ],
            }
        )
    return {"how": how, "problems": problems}


def _row(name: str, here: Mapping[str, ErrorEstimate], cost: Any, best: bool) -> Results:
    cell = here[name]
    low, high = cell.interval if cell.errors.size > 1 else (None, None)
    if low is not None and high is not None:
        low, high = max(low, 0.0), min(high, 100.0)
    beside = cell.mean - here[BASELINE].mean if BASELINE in here and name != BASELINE else None
    return {
        **{"method": name, "error": cell.mean, "low": low, "high": high},
        "spread": cell.std if cell.errors.size > 1 else None,
        **{"splits": cell.errors.size, "beside": beside, "best": best},
        "components": float(cell.dimensions.mean()),
        "seconds": cost[0] if cost else None,
    }


def _curve(name: str, curve: ErrorCurve, cell: ErrorEstimate) -> Results:
    ends = {"low": curve.low, "high": curve.high}
    return {
        **{"method": name, "dimensions": curve.dimensions.tolist(), "error": curve.error.tolist()},
        **{end: None if values is None else values.tolist() for end, values in ends.items()},
        # Splits choose different numbers, so this point need not lie on the curve.
        **{"chosen": float(cell.dimensions.mean()), "chosen_error": cell.mean},
    }


def collect_model(model: Any, table: Table, image_shape: tuple[int, int] | None = None) -> Results:
    """The steps of a fitted pipeline, and what features weigh in its components."""
    steps = [step for name, step in model.steps if name != "neighbors"]
    method = steps[-1]
    matrix = affine_map(model).matrix
    shown = matrix[:_MOST_WEIGHTS] * table.X.std(axis=0, dtype=np.float64)
    kept = _heaviest(shown)
    features = table.features or tuple(f"feature {i}" for i in range(table.X.shape[1]))
    values = getattr(method, "eigenvalues_", None)
    return {
        "method": type(method).__name__,
        "n_components": len(matrix),
        "steps": [{"name": type(step).__name__, "parameters": parameters(step)} for step in steps],
        "eigenvalues": None if values is None else np.asarray(values, dtype=float).tolist(),
        "component_names": method.get_feature_names_out().tolist()[:_MOST_WEIGHTS],
        "features": [features[i] for i in kept],
        "weights": shown[:, kept].tolist(),
        "image_shape": list(image_shape) if image_shape and len(kept) == len(features) else None,
    }


def _heaviest(weights: Floats) -> Ints:
    """The features to show, in their order; where there are too many those of largest weight."""
    if weights.shape[1] <= _MOST_FEATURES:
        return np.arange(weights.shape[1])
    order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")
    return np.sort(order[:_MOST_FEATURES])


def parameters(step: Any) -> Results:
    """The parameters of an estimator that can be said in a word."""
    said = step.get_params(deep=False)
    return {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in said.items()
        if name not in ("n_jobs", "verbose", "copy")
    }


def collect_embedding(
    Z: Array, table: Table, names: Sequence[str], how: str, predicted: Labels | None = None
) -> Results:
    """Samples in their first three components; where there are many, some of each class."""
    labels, codes = np.unique(table.labels, return_inverse=True)
    kept = _some(codes, _MOST_POINTS)
    if len(kept) < len(codes):
        how = f"{how}; {len(kept)} of them are shown"
    wrong = None if predicted is None else (predicted != table.labels)[kept].tolist()
    return {
        "how": how,
        "n_all": len(codes),
        "component_names": list(names)[:3],
        "points": np.asarray(Z, dtype=float)[kept, :3].tolist(),
        "codes": codes[kept].tolist(),
        "labels": [str(label) for label in labels.tolist()],
        "rows": table.rows[kept].tolist(),
        "wrong": wrong,
    }


def _some(codes: Ints, most: int) -> Ints:
    """Samples with the same shares of classes, at least one of each; all if they are few."""
    n = len(codes)
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n)
    by_class = order[np.argsort(codes[order], kind="stable")]
    places = np.linspace(0, n - 1, most).astype(np.intp)
    firsts = np.unique(codes[by_class], return_index=True)[1]
    return np.sort(by_class[np.unique(np.concatenate([places[: most - firsts.size], firsts]))])


def collect_partition(
    points: Array, y: Labels, patches: Ints, linearity: Floats, shown: Any = None
) -> Results:
    """The patches of each class, and those of one class in its two directions of most variance.

    shown : the class to draw; None takes the one with the most patches
    """
    classes = []
    for label in np.unique(y)[:_MOST_CLASSES]:
        own, sizes = np.unique(patches[y == label], return_counts=True)
        classes.append(
            {
                "label": str(label),
                "patches": len(own),
                "sizes": sizes.tolist(),
                "linearity": linearity[own].tolist(),
            }
        )
    if shown is None:
        counts = [each["patches"] for each in classes]
        shown = np.unique(y)[int(np.argmax(counts))]
    members = np.flatnonzero(y == shown)[:_MOST_POINTS]
    _, numbers = np.unique(patches[members], return_inverse=True)
    drawn = {
        "label": str(shown),
        "points": _plane(np.asarray(points, dtype=float)[members]).tolist(),
        "patches": numbers.tolist(),
        "how": "first two principal components of the class",
    }
    return {"classes": classes, "shown": drawn}


def _plane(points: Floats) -> Floats:
    """Two principal components (n, 2)."""
    centred = points - points.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    plane = centred @ directions.T
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def collect_confusion(y: Labels, predicted: Labels, how: str) -> Results | None:
    """How often samples of a class were given to each; not for very many classes."""
    labels = np.unique(np.concatenate([y, predicted]))
    if labels.size > _MOST_CLASSES:
        return None
    counts = np.zeros((labels.size, labels.size), dtype=np.intp)
    np.add.at(counts, (np.searchsorted(labels, y), np.searchsorted(labels, predicted)), 1)
    said = [str(label) for label in labels.tolist()]
    return {"how": how, "labels": said, "counts": counts.tolist()}


def summarize_errors(
    rows: Sequence[Mapping[str, Any]], method: str, n_features: int, n_components: int | None = None
) -> list[str]:
    """What the errors say, in sentences for someone who has one minute.

    n_components : of the model that is kept; None where none is
    """
    found = {name: cell for (_, name), cell in estimate_errors(rows, "cv").items()}
    cell = found[method]
    mean = _number(cell.dimensions.mean())
    said = []
    if n_components is not None:
        word = "component" if n_components == 1 else "components"
        said.append(f"{method} puts {n_components} {word} in the place of {n_features} features.")
    said.append(
        f"Measured with what each fold chose ({mean} of {n_features} on average), the nearest "
        f"neighbour of a new sample has the wrong class in {_percent(cell)} of cases."
    )
    names = {BASELINE: "all features", "LDA": "LDA"}
    for other in (name for name in names if name in found and name != method):
        gap = found[other].mean - cell.mean
        how = f"{abs(gap):.2f} points {'more' if gap > 0 else 'less'}"
        if abs(gap) < 0.005:
            how = "the same"
        elif not differ_significantly(cell, found[other]):
            how = "the difference may be chance"
        said.append(f"With {names[other]} it is {_percent(found[other])}: {how}.")
    return said


def mean_error(rows: Sequence[Mapping[str, Any]], method: str) -> float:
    """In per cent, at the chosen numbers of components."""
    return next(
        cell.mean for (_, name), cell in estimate_errors(rows, "cv").items() if name == method
    )


def _percent(cell: ErrorEstimate) -> str:
    spread = f" ± {cell.std:.2f}" if cell.errors.size > 1 else ""
    return f"{cell.mean:.2f}{spread} %"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
