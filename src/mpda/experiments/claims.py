"""Claims of the paper about partitions and expansions, measured: ``mpda reproduce claims``.

Sizes of patches on a Swiss roll, the order to which the graph Laplacian, tangent spaces of samples
and tangent spaces of patches approximate a coordinate of it, and MPDA with other partitions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from mpda._lib.array_types import Floats, Ints
from mpda._lib.validation import check_option
from mpda.assessment.data_split import reduce_by_pca
from mpda.discriminant.tangents import TangentBases, neighborhood_tangents, patch_tangents
from mpda.estimators._manifold_partition import ManifoldPartition
from mpda.estimators._mpda import MPDA
from mpda.exceptions import DatasetError
from mpda.experiments import experiment
from mpda.experiments.error_tables import format_markdown
from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.fields import draw_swiss_roll
from mpda.experiments.protocol import PROBLEMS, SEEDS, split
from mpda.model_selection import classification_curve
from mpda.neighbors.graph import symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors

# Data sets with classes of about 40, 140 and 105 training samples.
CLAIM_SETS = ("semeion", "optdigits", "vehicle")
_N_PARTITION_SPLITS = 3
_ROLL_SIZES = (500, 1000, 2000, 4000, 8000)
_N_NEIGHBORS = 6


def run_claims(options: ExperimentOptions) -> ExperimentResult:
    """Measure what the paper says of partitions and expansions.

    Parameters
    ----------
    options : ExperimentOptions
        ``problems`` are entries of ``CLAIM_SETS``, on which other partitions are tried.

    Returns
    -------
    ExperimentResult
        Tables as ``claims.md``.
    """
    names = [check_option("datasets", n, CLAIM_SETS) for n in options.problems or CLAIM_SETS]
    n_splits = min(options.n_splits, _N_PARTITION_SPLITS)
    lines, missing = [], []
    for name in names:
        try:
            lines.append(_compare_partitions(name, options.directory, n_splits))
        except DatasetError as error:
            missing.append(f"{name}: {error}")
    sections = [_describe_sizes(), _describe_orders()]
    if lines:
        sections.append(
            "1-NN error of MPDA in per cent at the best number of components, with its defaults "
            f"and other partitions, mean of {n_splits} splits. The clusterers get as many clusters "
            "as a class of the data set has patches on average.\n\n"
            + format_markdown(["data set", *_make_partitions(2)], lines)
        )
    run = ExperimentResult(failed=missing)
    return experiment.write_result(options, "claims", "\n\n".join(sections), run)


def _describe_sizes() -> str:
    """Count the samples of patches on a Swiss roll of 1000 samples."""
    sizes = ManifoldPartition().fit(draw_swiss_roll(1000, 0)[0]).patch_sizes_
    counts = np.bincount(sizes, minlength=11)[1:]
    lines = [[str(size), str(count)] for size, count in enumerate(counts, start=1)]
    return (
        f"Patches of a Swiss roll of 1000 samples: {len(sizes)}, of {sizes.min()} to {sizes.max()} "
        "samples.\n\n" + format_markdown(["samples of a patch", "patches"], lines)
    )


def measure_expansion_errors(n: int, seed: int = 0) -> tuple[float, Floats]:
    """Measure how well neighbours on a Swiss roll predict each other's arc length.

    Parameters
    ----------
    n : int
        Number of samples.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    spacing : float
        Mean distance of neighbours.
    errors : ndarray of shape (3,)
        Median error over neighbours i, j of the expansion of order 0, f_i - f_j, and of order 1,
        f_i - f_j - v_j'T_j'(x_i - x_j), with tangent spaces of samples and of patches. The tangent
        vectors are the true derivatives.
    """
    X, sheet = draw_swiss_roll(n, seed)
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


def _make_partitions(n_clusters: int) -> dict[str, Any]:
    return {
        "the paper's rule": "geodesic",
        "Euclidean distances": "euclidean",
        "principal-axis tree": "tree",
        "k-means": KMeans(n_clusters, n_init=1, random_state=0),
        "Gaussian mixture": GaussianMixture(n_clusters, covariance_type="diag", random_state=0),
    }


def _compare_partitions(name: str, directory: Path | None, n_splits: int) -> Sequence[str]:
    """Return the line of a data set: its title, and the mean error with each partition."""
    errors: dict[str, list[float]] = {}
    for seed in SEEDS[:n_splits]:
        samples = reduce_by_pca(split(PROBLEMS[name], directory, seed))
        patches = MPDA().fit(samples.X, samples.y).patch_classes_
        n_clusters = max(2, round(len(patches) / len(np.unique(samples.y))))
        for title, partition in _make_partitions(n_clusters).items():
            model = MPDA(partition=partition).fit(samples.X, samples.y)
            curve = classification_curve(
                model, samples.X, samples.y, samples.X_test, samples.y_test
            )
            errors.setdefault(title, []).append(100.0 * float(curve.min()))
    return [PROBLEMS[name].title, *(f"{np.mean(values):.2f}" for values in errors.values())]
