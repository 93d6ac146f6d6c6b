"""Claims of the paper outside its tables, measured: ``mpda reproduce claims``.

Sizes of patches on a Swiss roll, the order to which the graph Laplacian, tangent spaces of samples
and tangent spaces of patches approximate a coordinate of it, MPDA with other partitions and without
tangent vectors, matrix exponentials instead of a ridge, and variants of LPFE on Vehicle.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from mpda._lib.array_types import Floats, Ints
from mpda._lib.validation import check_option
from mpda.assessment import Split
from mpda.assessment.data_split import reduce_by_pca
from mpda.discriminant.tangents import TangentBases, neighborhood_tangents, patch_tangents
from mpda.estimators._graph_discriminant import GraphDiscriminant
from mpda.estimators._lpfe import LPFE
from mpda.estimators._manifold_partition import ManifoldPartition
from mpda.estimators._mpda import MPDA
from mpda.exceptions import SmallClassWarning
from mpda.experiments import experiment
from mpda.experiments.contender_task import load_available
from mpda.experiments.error_tables import format_markdown
from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.fields import draw_swiss_roll
from mpda.experiments.protocol import N_FOLDS, PROBLEMS, SEEDS, split
from mpda.model_selection import DiscriminantSearchCV, classification_curve
from mpda.neighbors.graph import symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors

# Data sets with classes of 18 to 250 training samples.
CLAIM_SETS = ("coil20", "face_detection", "optdigits", "semeion", "vehicle")
_N_SPLITS = 3
_ROLL_SIZES = (500, 1000, 2000, 4000, 8000)
_N_NEIGHBORS = 6
# Graphs for similar and for different samples, by the method that has them.
_GRAPHS = {
    "Fisher": ("fisher", "fisher"),
    "LFDA": ("local", "local"),
    "MFA": ("neighbors", "pairs"),
}
_RIDGES, _SCALES = (1e-4, 1e-3, 0.01, 0.1, 1.0), (1.0, 10.0, 100.0, 1e3, 1e4)


def run_claims(options: ExperimentOptions) -> ExperimentResult:
    """Measure what the paper says of partitions and expansions.

    Parameters
    ----------
    options : ExperimentOptions
        ``problems`` are entries of ``CLAIM_SETS``, on which errors are measured.

    Returns
    -------
    ExperimentResult
        Tables as ``claims.md``.
    """
    names = [check_option("datasets", n, CLAIM_SETS) for n in options.problems or CLAIM_SETS]
    seeds = SEEDS[: min(options.n_splits, _N_SPLITS)]
    splits, missing = load_available(
        names, lambda name: [split(PROBLEMS[name], options.directory, seed) for seed in seeds]
    )
    sections = [_describe_sizes(), _describe_orders()]
    if splits:
        reduced = {name: list(map(reduce_by_pca, parts)) for name, parts in splits.items()}
        with warnings.catch_warnings():
            # Expected: classes of COIL20 have 18 samples.
            warnings.simplefilter("ignore", SmallClassWarning)
            sections += [_describe_partitions(reduced), _describe_exponentials(reduced)]
    if "vehicle" in splits:
        sections.append(_describe_lpfe(splits["vehicle"]))
    if splits:
        sections.append(
            f"Errors are those of 1-NN on the test samples, in per cent, mean of {len(seeds)} "
            f"split{'s' * (len(seeds) > 1)}."
        )
    run = ExperimentResult(failed=missing)
    return experiment.write_result(options, "claims", "\n\n".join(filter(None, sections)), run)


def _describe_sizes() -> str:
    """Count the samples of patches on a Swiss roll of 1000 samples."""
    sizes = ManifoldPartition().fit(draw_swiss_roll(1000, 0)[0]).patch_sizes_
    counts = np.bincount(sizes, minlength=11)[1:]
    lines = [[str(size), str(count)] for size, count in enumerate(counts, start=1)]
    return (
        f"Patches of a Swiss roll of 1000 samples: {len(sizes)}, of {sizes.min()} to {sizes.max()} "
        "samples.\n\n" + format_markdown(["samples of a patch", "patches"], lines)
    )


def measure_expansion_errors(n: int) -> tuple[float, Floats]:
    """Measure how well neighbours on a Swiss roll predict each other's arc length.

    Parameters
    ----------
    n : int
        Number of samples.

    Returns
    -------
    spacing : float
        Mean distance of neighbours.
    errors : ndarray of shape (3,)
        Median error over neighbours i, j of the expansion of order 0, f_i - f_j, and of order 1,
        f_i - f_j - v_j'T_j'(x_i - x_j), with tangent spaces of samples and of patches. The tangent
        vectors are the true derivatives.
    """
    X, sheet = draw_swiss_roll(n, 0)
    neighbors = find_neighbors(ClassPoints(X), _N_NEIGHBORS)
    graph = symmetric_graph(neighbors)
    labels = ManifoldPartition(partition="auto").fit(X).labels_
    angle = np.arctan2(X[:, 2], X[:, 0])
    radius = np.hypot(X[:, 0], X[:, 2])
    # Unit vector along the spiral r = t: one part outwards, r parts around.
    outwards = np.column_stack([np.cos(angle), np.zeros(n), np.sin(angle)])
    around = np.column_stack([-np.sin(angle), np.zeros(n), np.cos(angle)])
    directions = (outwards + radius[:, None] * around) / np.sqrt(1.0 + radius**2)[:, None]
    heads, tails = graph.edges.T
    steps = sheet[tails, 0] - sheet[heads, 0]
    errors = [np.median(np.abs(steps))]
    own = np.arange(n)
    for patches, tangents in (
        (own, neighborhood_tangents(X, neighbors, 1.0, 2)),
        (labels, patch_tangents(X, labels, 1.0, None, 2)),
    ):
        predicted = _predict_steps(X, directions, patches, tangents, heads, tails)
        errors.append(np.median(np.abs(steps - predicted)))
    return float(graph.lengths.mean()), np.array(errors)


def _predict_steps(
    X: Floats, directions: Floats, patches: Ints, tangents: TangentBases, heads: Ints, tails: Ints
) -> Floats:
    """Return v_p'T_p'(x_i - x_j) for the patch p of j; v_p is the mean derivative in the patch."""
    means = np.zeros((len(tangents.bases), X.shape[1]))
    np.add.at(means, patches, directions)
    means /= np.bincount(patches)[:, None]
    projected = np.einsum("pdm,pd->pm", tangents.bases, means)
    gradients = np.einsum("pdm,pm->pd", tangents.bases, projected)
    return np.asarray(np.sum(gradients[patches[heads]] * (X[tails] - X[heads]), axis=1))


def _describe_orders() -> str:
    found = [measure_expansion_errors(n) for n in _ROLL_SIZES]
    spacings, errors = np.array([h for h, _ in found]), np.array([e for _, e in found])
    orders = np.polyfit(np.log(spacings), np.log(errors), 1)[0]
    lines = [
        [str(n), f"{h:.2f}", *(f"{value:.1e}" for value in row)]
        for n, h, row in zip(_ROLL_SIZES, spacings, errors, strict=True)
    ]
    lines.append(["order", "", *(f"h^{order:.1f}" for order in orders)])
    header = ["samples", "h", "order 0 (Laplacian)", "tangents of samples", "tangents of patches"]
    return (
        "Median error of the expansion of the arc length of a Swiss roll from a sample to its "
        f"{_N_NEIGHBORS} nearest neighbours, at mean distance h.\n\n"
        + format_markdown(header, lines)
    )


def _make_variants(n_clusters: int) -> dict[str, MPDA]:
    partitions = {
        "the paper's rule": "geodesic",
        "Euclidean distances": "euclidean",
        "principal-axis tree": "tree",
        "k-means": KMeans(n_clusters, n_init=1, random_state=0),
        "Gaussian mixture": GaussianMixture(n_clusters, covariance_type="diag", random_state=0),
    }
    variants = {title: MPDA(partition=partition) for title, partition in partitions.items()}
    return variants | {"no tangent vectors": MPDA(tangent_energy=0.0)}


def _mean_errors(
    splits: Sequence[Split], measure: Callable[[Split], dict[str, float]]
) -> dict[str, float]:
    """Return mean errors in per cent; ``measure`` returns those of one split by their names."""
    found = [measure(part) for part in splits]
    return {name: 100.0 * float(np.mean([errors[name] for errors in found])) for name in found[0]}


def _lowest_error(model: Any, part: Split) -> float:
    """Fit a method and return its 1-NN error at the number of components best on the test part."""
    model.fit(part.X, part.y)
    return float(classification_curve(model, part.X, part.y, part.X_test, part.y_test).min())


def _describe_partitions(splits: dict[str, list[Split]]) -> str:
    lines = []
    for name, parts in splits.items():
        errors = _mean_errors(parts, _try_variants)
        lines.append([PROBLEMS[name].title, *(f"{error:.2f}" for error in errors.values())])
    return (
        "Error of MPDA at the best number of components, with its defaults and other partitions. "
        "The clusterers get as many clusters as a class of the data set has patches on average. "
        "Without tangent vectors the within-class form is that of the graph Laplacian."
        "\n\n" + format_markdown(["data set", *_make_variants(2)], lines)
    )


def _try_variants(part: Split) -> dict[str, float]:
    patches = MPDA().fit(part.X, part.y).patch_classes_
    n_clusters = max(2, round(len(patches) / len(np.unique(part.y))))
    variants = _make_variants(n_clusters)
    return {title: _lowest_error(model, part) for title, model in variants.items()}


def _describe_exponentials(splits: dict[str, list[Split]]) -> str:
    """Compare matrix exponentials with a ridge; empty if there is no suitable data set."""
    lines = []
    for name, parts in splits.items():
        # The features of Vehicle differ in scale, so that one direction dominates exponentials.
        if name != "vehicle":
            errors = _mean_errors(parts, _try_exponentials)
            for method in _GRAPHS:
                pair = [f"{errors[f'{method}, {form}']:.2f}" for form in ("ridge", "exponential")]
                lines.append([PROBLEMS[name].title, method, *pair])
    if not lines:
        return ""
    return (
        "Error at the number of components that cross-validation selected, with a ridge (alpha "
        f"{' '.join(f'{v:g}' for v in _RIDGES)}) and with matrix exponentials (exponential_scale "
        f"{' '.join(f'{v:g}' for v in _SCALES)}), `GraphDiscriminant`.\n\n"
        + format_markdown(["data set", "graphs of", "ridge", "exponential"], lines)
    )


def _try_exponentials(part: Split) -> dict[str, float]:
    errors = {}
    for method, graphs in _GRAPHS.items():
        for form, estimator, grid in (
            ("ridge", GraphDiscriminant(*graphs), {"alpha": _RIDGES}),
            (
                "exponential",
                GraphDiscriminant(*graphs, exponential=True),
                {"exponential_scale": _SCALES},
            ),
        ):
            search = DiscriminantSearchCV(estimator, grid, cv=N_FOLDS).fit(part.X, part.y)
            errors[f"{method}, {form}"] = 1.0 - search.score(part.X_test, part.y_test)
    return errors


def _describe_lpfe(parts: Sequence[Split]) -> str:
    """Vary what the paper leaves open about LPFE, on Vehicle."""
    errors = _mean_errors(parts, _try_lpfe)
    lines = [[*name.split(", "), f"{error:.2f}"] for name, error in errors.items()]
    header = ["samples", "neighbours", "tangent energy", "error"]
    return (
        "Error of LPFE on Vehicle at the best number of components; the paper has 49.43.\n\n"
        + format_markdown(header, lines)
    )


def _try_lpfe(part: Split) -> dict[str, float]:
    scaler = StandardScaler().fit(part.X)
    scaled = replace(part, X=scaler.transform(part.X), X_test=scaler.transform(part.X_test))
    samples = {"as they are": part, "standardised": scaled}
    return {
        f"{title}, {k}, {energy:g}": _lowest_error(
            LPFE(n_neighbors=k, tangent_energy=energy), samples[title]
        )
        for title, k, energy in product(samples, (5, 10, 20), (0.8, 0.9, 0.95))
    }
