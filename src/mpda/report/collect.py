"""Collect the sections of a report as dictionaries of plain values.

Each function returns one section of the results dictionary that `mpda.report.render` draws.
`collect_results` joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mpda import assessment
from mpda._lib.array_types import Array, Floats, Ints, Labels
from mpda._lib.provenance import machine, versions
from mpda.assessment import BASELINE, CLASSIFIER, CLASSIFIER_NOTE, name_deciding_test
from mpda.io.affine_maps import affine_map
from mpda.plotting.component_plot import correlate_features
from mpda.plotting.partition_plot import compute_principal_axes, compute_tangent_lines
from mpda.report.hover import collect_hover
from mpda.report.results_file import FORMAT, VERSION
from mpda.report.samples import ReportSamples

Results = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
# Limits that keep a page below 4 MB: samples and components in a scatter plot, samples in all
# pictures of patches, features and components with correlations, classes of a confusion matrix.
_MAX_POINTS = 10_000
_MAX_AXES = 6
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


def collect_data(samples: ReportSamples) -> Results:
    """Describe the samples of a table.

    Parameters
    ----------
    samples : ReportSamples
        Samples, with labels or without.

    Returns
    -------
    dict
        Section "data".
    """
    n, d = samples.X.shape
    section: Results = {"name": samples.name, "n_samples": n, "n_features": d}
    if samples.y is not None:
        pairs = zip(*np.unique(samples.y, return_counts=True), strict=True)
        classes = [{"label": str(label), "count": int(count)} for label, count in pairs]
        section |= {"label": samples.label, "classes": classes}
    return section


def collect_comparison(
    rows: Rows, how: str, titles: Mapping[str, str], methods: Sequence[str] = ()
) -> Results:
    """Compare methods at the numbers of components that cross-validation selected.

    Parameters
    ----------
    rows : sequence of FoldResult
        Results of all methods and splits.
    how : str
        Description of the measurement.
    titles : mapping of str to str
        Titles of the problems.
    methods : sequence of str, default=()
        Methods about which the page has sentences, as in `mpda.assessment.compare_methods`.

    Returns
    -------
    dict
        Section "comparison".
    """
    curves, costs = assessment.compute_error_curves(rows), assessment.compute_fit_costs(rows)
    estimates = assessment.estimate_errors(rows, "cv")
    problems = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        errors = {name: value for (key, name), value in estimates.items() if key == problem}
        best = assessment.find_best_methods(errors, methods)
        entries, lines = [], []
        for name, estimate in errors.items():
            # Student's intervals do not know that an error is between 0 and 100 %.
            low, high = np.clip(estimate.sample_interval or estimate.interval, 0.0, 100.0).tolist()
            entry = {
                "method": name,
                "error": estimate.mean,
                "n_splits": estimate.errors.size,
                # nan for a single split, which becomes null in a file
                **{"std": estimate.std, "low": low, "high": high},
                "difference": None,
                "components": float(estimate.component_counts.mean()),
                "best": name in best,
                "seconds": costs.get((problem, name), (None, None))[0],
            }
            if name == CLASSIFIER:
                entry["note"] = CLASSIFIER_NOTE
            entries.append(entry)
            if BASELINE in errors and name != BASELINE:
                entry["difference"] = estimate.mean - errors[BASELINE].mean
            if name in (BASELINE, CLASSIFIER):  # no components: drawn as level lines
                continue
            curve = dict(vars(curves[problem, name]))
            curve["dimensions"] = curve.pop("component_counts")  # the name in files of results
            mean = {"selected": entry["components"], "selected_error": estimate.mean}
            lines.append({"method": name, **curve, **mean})
        problems.append({"name": titles.get(problem, problem), "rows": entries, "curves": lines})
    test = name_deciding_test(estimates.values())
    return {"how": how, "test": test, "problems": problems}


def collect_model(
    model: Any, samples: ReportSamples, method: str, image_shape: tuple[int, int] | None = None
) -> Results:
    """Describe a fitted pipeline: its steps, eigenvalues, and correlations with features.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline. A step named "neighbors" is left out.
    samples : ReportSamples
        Samples, for the correlations of their features with the components.
    method : str
        Name of the method.
    image_shape : tuple of two int, default=None
        Rows and columns, where features are pixels.

    Returns
    -------
    dict
        Section "model". With many features only those of largest correlation are included.
    """
    steps = [step for name, step in model.steps if name != "neighbors"]
    # The map of all steps together is one of the features of the user's table, also behind a PCA.
    matrix = affine_map(model).matrix
    correlations = correlate_features(samples.X, samples.X @ matrix[:_MAX_COMPONENTS].T)
    order = np.argsort(-np.abs(correlations).max(axis=0), kind="stable")
    columns = np.sort(order[:_MAX_FEATURES])  # in the order of the table again
    features = samples.features or tuple(f"feature {i}" for i in range(samples.X.shape[1]))
    eigenvalues = getattr(steps[-1], "eigenvalues_", None)
    return {
        "method": method,
        "n_components": len(matrix),
        "steps": [{"name": type(s).__name__, "parameters": _parameters(s)} for s in steps],
        "eigenvalues": None if eigenvalues is None else np.asarray(eigenvalues, float).tolist(),
        "component_names": name_components(method, len(correlations)),
        "features": [features[i] for i in columns],
        "correlations": correlations[:, columns].tolist(),
        # An image cannot be drawn from a selection of its pixels.
        "image_shape": list(image_shape) if image_shape and len(columns) == len(features) else None,
    }


def name_components(method: str, n: int) -> list[str]:
    """Return the names of components on the page.

    Parameters
    ----------
    method : str
        Name of the method.
    n : int
        Number of components.

    Returns
    -------
    list of str
        Such as "MPDA 1", counted from 1.
    """
    return [f"{method} {i + 1}" for i in range(n)]


def _parameters(step: Any) -> Results:
    """Return the parameters of an estimator, other than numbers and text by their repr."""
    simple = bool | int | float | str | None
    return {
        name: value if isinstance(value, simple) else repr(value)
        for name, value in step.get_params(deep=False).items()
        if name not in ("n_jobs", "verbose", "copy")  # they do not change the model
    }


def collect_embedding(
    Z: Array,
    samples: ReportSamples,
    method: str,
    how: str,
    predicted: Labels | None = None,
    *,
    text: str | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Results:
    """Collect the samples in their first six components.

    Parameters
    ----------
    Z : array of shape (n_samples, n_components)
        Mapped samples.
    samples : ReportSamples
        Labels and row numbers of the samples.
    method : str
        Name of the method, for the names of the components.
    how : str
        Description of the samples and the map.
    predicted : array of shape (n_samples,), default=None
        Predicted labels.
    text : str, default=None
        Column of ``texts`` that is shown for a sample.
    image_shape : tuple of two int, default=None
        Rows and columns, where features are pixels; samples are then shown as images.

    Returns
    -------
    dict
        Section "embedding". Of more than 10,000 samples a stratified draw is included.
    """
    labels, codes = np.unique(samples.labels, return_inverse=True)
    drawn = _draw_stratified(codes, _MAX_POINTS)
    Z = np.asarray(Z, dtype=np.float64)[:, :_MAX_AXES]
    section = {
        "how": how,
        "n_all": len(codes),
        "component_names": name_components(method, Z.shape[1]),
        "points": Z[drawn].tolist(),
        "codes": codes[drawn].tolist(),
        "labels": labels.astype(str).tolist(),
        "rows": samples.rows[drawn].tolist(),
        "hover": collect_hover(samples, drawn, correlate_features(samples.X, Z), text, image_shape),
    }
    if predicted is not None:
        classes, numbers = np.unique(predicted[drawn], return_inverse=True)
        section["wrong"] = (predicted != samples.labels)[drawn].tolist()
        names = classes.astype(str).tolist()
        section["predicted"] = {"labels": names, "codes": numbers.tolist()}
    return section


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
    """Describe the patches of each class, and collect a picture of each class.

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
        Section "partition". Pictures of many samples have some of the patches only; the class
        with most patches is the first one.
    """
    classes, pictures = [], []
    labels = np.unique(y)
    for label in labels:
        numbers, sizes = np.unique(patches[y == label], return_counts=True)
        entry = {"label": str(label), "patches": len(numbers), "sizes": sizes.tolist()}
        classes.append({**entry, "linearity": linearity[numbers].tolist()})
    limit = _MAX_POINTS // labels.size
    for label, entry in zip(labels, classes, strict=True):
        members = np.flatnonzero(y == label)
        numbers = np.unique(patches[members], return_inverse=True)[1]
        pictures.append(_draw_patches(points[members], numbers, limit) | {"label": entry["label"]})
    # Sorting is stable, so classes with equally many patches keep their order.
    pictures.sort(key=lambda picture: -picture["n_patches"])
    return {"classes": classes, "pictures": pictures}


def _draw_patches(points: Array, patches: Ints, limit: int) -> Results:
    """Return the patches of a class in its first two principal components.

    Parameters
    ----------
    points : array of shape (n_samples, n_features)
        Samples of the class.
    patches : array of int of shape (n_samples,)
        Patch of each sample, from 0.
    limit : int
        Number of samples up to which further patches are included.

    Returns
    -------
    dict
        Points, patches, and tangent lines of the patches.
    """
    samples = np.asarray(points, dtype=np.float64)
    mean, axes = samples.mean(axis=0), compute_principal_axes(samples)
    n_patches = int(patches.max()) + 1
    sums = np.cumsum(np.bincount(patches))
    n_shown = max(int(np.searchsorted(sums, limit, side="right")), 1)
    shown = patches < n_shown
    samples, patches = samples[shown], patches[shown]
    # Tangents are taken before the projection: a direction that is principal in the space of the
    # partition need not be principal in the plane of the picture.
    lines = (compute_tangent_lines(samples, patches) - mean) @ axes.T
    return {
        "points": ((samples - mean) @ axes.T).tolist(),
        "patches": patches.tolist(),
        "lines": lines.tolist(),
        "n_patches": n_patches,
    }


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
    labels = np.unique(np.concatenate([y, predicted]))
    if labels.size > _MAX_CLASSES:
        return None
    counts = np.zeros((labels.size, labels.size), dtype=int)
    np.add.at(counts, (np.searchsorted(labels, y), np.searchsorted(labels, predicted)), 1)
    return {"how": how, "labels": labels.astype(str).tolist(), "counts": counts.tolist()}
