"""Collect the sections of a report as dictionaries of plain values.

Each function returns one section of the results dictionary that `mpda.report.render` draws.
`collect_results` joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from mpda import assessment
from mpda._lib.array_types import Array, Floats, Ints, Labels
from mpda._lib.provenance import machine, versions
from mpda.assessment import BASELINE, name_deciding_test
from mpda.io.affine_maps import affine_map
from mpda.plotting.partition_plot import compute_principal_axes
from mpda.report.results_file import FORMAT, VERSION

if TYPE_CHECKING:
    from mpda.io.tables import Table

Results = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
# Limits that keep a page below 7 MB: samples in a scatter plot, features and components with
# weights, and classes of a confusion matrix.
_MAX_POINTS = 10_000
_MAX_FEATURES = 2_000
_MAX_COMPONENTS = 60
_MAX_CLASSES = 100


def collect_results(
    title: str, command: str, summary: Sequence[str], sections: Mapping[str, Any]
) -> Results:
    """Join sections to the results of a report.

    Parameters
    ----------
    title : str
        Title of the page.
    command : str
        Command that computed the results.
    summary : sequence of str
        Sentences at the top of the page.
    sections : mapping of str to dict or None
        Sections by name. None is left out.

    Returns
    -------
    dict
        With format, version, and versions of packages.
    """
    provenance = {
        "command": command,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": machine(),
    }
    header = {"format": FORMAT, "version": VERSION, "provenance": provenance, "title": title}
    present = {name: section for name, section in sections.items() if section is not None}
    return {**header, "summary": list(summary), **present}


def collect_data(table: Table) -> Results:
    """Describe the samples of a table.

    Parameters
    ----------
    table : Table
        Samples, with labels or without.

    Returns
    -------
    dict
        Section "data".
    """
    n, d = table.X.shape
    section: Results = {"name": table.name, "n_samples": n, "n_features": d}
    if table.y is not None:
        pairs = zip(*np.unique(table.y, return_counts=True), strict=True)
        classes = [{"label": str(label), "count": int(count)} for label, count in pairs]
        section |= {"label": table.label, "classes": classes}
    return section


def collect_comparison(rows: Rows, how: str, titles: Mapping[str, str]) -> Results:
    """Compare methods at the numbers of components that cross-validation selected.

    Parameters
    ----------
    rows : sequence of FoldResult
        Results of all methods and splits.
    how : str
        Description of the measurement.
    titles : mapping of str to str
        Titles of the problems.

    Returns
    -------
    dict
        Section "comparison".
    """
    curves, costs = assessment.compute_error_curves(rows), assessment.compute_fit_costs(rows)
    estimates = assessment.estimate_errors(rows, "cv")
    problems = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        methods = {name: value for (key, name), value in estimates.items() if key == problem}
        best = assessment.find_best_methods(methods)
        entries, lines = [], []
        for name, estimate in methods.items():
            # Student's intervals do not know that an error is between 0 and 100 %.
            low, high = np.clip(estimate.sample_interval or estimate.interval, 0.0, 100.0).tolist()
            entry = {
                "method": name,
                "error": estimate.mean,
                "n_splits": estimate.errors.size,
                # nan for a single split, which becomes null in a file
                **{"std": estimate.std, "low": low, "high": high},
                "difference": None,
                "components": float(estimate.dimensions.mean()),
                "best": name in best,
                "seconds": costs.get((problem, name), (None, None))[0],
            }
            entries.append(entry)
            if name == BASELINE:  # it has no components and is drawn as a level line
                continue
            if BASELINE in methods:
                entry["difference"] = estimate.mean - methods[BASELINE].mean
            curve = vars(curves[problem, name])
            mean = {"selected": entry["components"], "selected_error": estimate.mean}
            lines.append({"method": name, **curve, **mean})
        problems.append({"name": titles.get(problem, problem), "rows": entries, "curves": lines})
    test = name_deciding_test(estimates.values())
    return {"how": how, "test": test, "problems": problems}


def collect_model(model: Any, table: Table, image_shape: tuple[int, int] | None = None) -> Results:
    """Describe a fitted pipeline: its steps, eigenvalues and weights of features.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline. A step named "neighbors" is left out.
    table : Table
        Samples. Weights are for changes of a feature by its standard deviation.
    image_shape : tuple of two int, default=None
        Rows and columns, where features are pixels.

    Returns
    -------
    dict
        Section "model". With many features only those of largest weight are included.
    """
    steps = [step for name, step in model.steps if name != "neighbors"]
    # The map of all steps together has weights for the features of the user's table, also behind a
    # PCA. The factor makes features of different units comparable.
    matrix = affine_map(model).matrix
    weights = matrix[:_MAX_COMPONENTS] * table.X.std(axis=0, dtype=np.float64)
    order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")
    columns = np.sort(order[:_MAX_FEATURES])  # in the order of the table again
    features = table.features or tuple(f"feature {i}" for i in range(table.X.shape[1]))
    eigenvalues = getattr(steps[-1], "eigenvalues_", None)
    return {
        "method": type(steps[-1]).__name__,
        "n_components": len(matrix),
        "steps": [{"name": type(s).__name__, "parameters": _parameters(s)} for s in steps],
        "eigenvalues": None if eigenvalues is None else np.asarray(eigenvalues, float).tolist(),
        "component_names": steps[-1].get_feature_names_out().tolist()[:_MAX_COMPONENTS],
        "features": [features[i] for i in columns],
        "weights": weights[:, columns].tolist(),
        # An image cannot be drawn from a selection of its pixels.
        "image_shape": list(image_shape) if image_shape and len(columns) == len(features) else None,
    }


def _parameters(step: Any) -> Results:
    """Return the parameters of an estimator, other than numbers and text by their repr."""
    simple = bool | int | float | str | None
    return {
        name: value if isinstance(value, simple) else repr(value)
        for name, value in step.get_params(deep=False).items()
        if name not in ("n_jobs", "verbose", "copy")  # they do not change the model
    }


def collect_embedding(
    Z: Array, table: Table, names: Sequence[str], how: str, predicted: Labels | None = None
) -> Results:
    """Collect the samples in their first three components.

    Parameters
    ----------
    Z : array of shape (n_samples, n_components)
        Mapped samples.
    table : Table
        Labels and row numbers of the samples.
    names : sequence of str
        Names of the components.
    how : str
        Description of the samples and the map.
    predicted : array of shape (n_samples,), default=None
        Predicted labels.

    Returns
    -------
    dict
        Section "embedding". Of more than 10,000 samples a stratified draw is included.
    """
    labels, codes = np.unique(table.labels, return_inverse=True)
    drawn = _draw_stratified(codes, _MAX_POINTS)
    return {
        "how": how,
        "n_all": len(codes),
        "component_names": list(names)[:3],
        "points": np.asarray(Z, dtype=float)[drawn, :3].tolist(),
        "codes": codes[drawn].tolist(),
        "labels": labels.astype(str).tolist(),
        "rows": table.rows[drawn].tolist(),
        "wrong": None if predicted is None else (predicted != table.labels)[drawn].tolist(),
    }


def _draw_stratified(codes: Ints, limit: int) -> Ints:
    """Return indices of at most ``limit`` samples, with at least one of each class."""
    n = len(codes)
    if n <= limit:
        return np.arange(n)
    # Samples in random order, sorted by class: every k-th of them is a random sample in which all
    # classes have their share. The first one of each class is added for classes smaller than k.
    order = np.random.default_rng(0).permutation(n)
    by_class = order[np.argsort(codes[order], kind="stable")]
    firsts = np.unique(codes[by_class], return_index=True)[1]
    evenly = np.linspace(0, n - 1, max(limit - firsts.size, 0)).astype(np.intp)
    return np.sort(by_class[np.union1d(evenly, firsts)])


def collect_partition(points: Array, y: Labels, patches: Ints, linearity: Floats) -> Results:
    """Describe the patches of each class, and collect the class with most patches for a plot.

    Parameters
    ----------
    points : array of shape (n_samples, n_features)
        Samples, in the space of the partition.
    y : array of shape (n_samples,)
        Labels.
    patches : array of int of shape (n_samples,)
        Patch of each sample.
    linearity : array of shape (n_patches,)
        Linearity of each patch.

    Returns
    -------
    dict
        Section "partition".
    """
    classes = []
    labels = np.unique(y)
    for label in labels:
        numbers, sizes = np.unique(patches[y == label], return_counts=True)
        entry = {"label": str(label), "patches": len(numbers), "sizes": sizes.tolist()}
        classes.append({**entry, "linearity": linearity[numbers].tolist()})
    largest = labels[int(np.argmax([entry["patches"] for entry in classes]))]
    members = np.flatnonzero(y == largest)[:_MAX_POINTS]
    samples = np.asarray(points, dtype=float)[members]
    plane = (samples - samples.mean(axis=0)) @ compute_principal_axes(samples).T
    example = {
        "label": str(largest),
        "points": plane.tolist(),
        "patches": np.unique(patches[members], return_inverse=True)[1].tolist(),
        "how": "first two principal components of the class",
    }
    return {"classes": classes, "example": example}


def collect_confusion(y: Labels, predicted: Labels, how: str) -> Results | None:
    """Count the pairs of true and predicted classes.

    Parameters
    ----------
    y, predicted : array of shape (n_samples,)
        True and predicted labels.
    how : str
        Description of the classifier and the samples.

    Returns
    -------
    dict or None
        Section "confusion". None for more than 100 classes.
    """
    from sklearn.metrics import confusion_matrix

    labels = np.unique(np.concatenate([y, predicted]))
    if labels.size > _MAX_CLASSES:
        return None
    counts = confusion_matrix(y, predicted, labels=labels)
    return {"how": how, "labels": labels.astype(str).tolist(), "counts": counts.tolist()}
