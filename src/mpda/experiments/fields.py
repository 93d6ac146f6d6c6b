"""TSIMR and PFE with and without patches: ``mpda reproduce fields``.

The paper says that its partition makes methods with tangent spaces cheaper, and refers to a
supplement that is not available. Here are our own measurements: a Swiss roll, whose coordinates are
known, and images of MNIST and COIL20, judged by nearest neighbours.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.manifold import Isomap, LocallyLinearEmbedding
from sklearn.neighbors import NearestNeighbors

from mpda._lib.array_types import Floats, Labels
from mpda._lib.validation import check_option
from mpda.estimators._tangent_embedding import PFE, TSIMR
from mpda.exceptions import DatasetError
from mpda.experiments import experiment
from mpda.experiments.contender_task import load_available
from mpda.experiments.error_tables import format_markdown
from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.protocol import PROBLEMS, load_samples
from mpda.neighbors.graph import symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors

N_NEIGHBORS = 10
ROLL = "swiss roll"
FIELD_SETS = (ROLL, "mnist_2k2k", "coil20")
# Length along the roll and height, and the hole in its middle.
_SHEET, _HOLE = np.array([90.0, 21.0]), np.array([24.0, 8.0])
_N_ROLL, _N_SEEDS = 1000, 4
_N_IMAGES, _TANGENT_DIMENSION = 1000, 8
_PARTITIONS = {"every sample": None, "patches": "auto"}


def draw_swiss_roll(n: int, seed: int, *, hole: bool = False) -> tuple[Floats, Floats]:
    """Draw samples of a sheet and roll it up, without stretching it.

    Parameters
    ----------
    n : int
        Number of samples.
    seed : int
        Seed of the draw.
    hole : bool, default=False
        True leaves a rectangle in the middle of the sheet empty.

    Returns
    -------
    X : ndarray of shape (n, 3)
        Samples of the roll.
    sheet : ndarray of shape (n, 2)
        Arc length and height.
    """
    sheet = np.random.default_rng(seed).uniform(size=(4 * n, 2)) * _SHEET
    if hole:
        sheet = sheet[(np.abs(sheet - _SHEET / 2) >= _HOLE / 2).any(axis=1)]
    sheet = sheet[:n]
    # The spiral r = t has this arc length from 0 to t.
    t = np.linspace(1.5 * np.pi, 4.5 * np.pi, 20_001)
    arcs = 0.5 * (t * np.sqrt(1.0 + t**2) + np.arcsinh(t))
    angles = np.interp(sheet[:, 0], arcs - arcs[0], t)
    return np.column_stack([angles * np.cos(angles), sheet[:, 1], angles * np.sin(angles)]), sheet


def rigid_residual(sheet: Floats, embedding: Floats) -> float:
    """Return the share of the variance of a sheet that no rotated embedding has.

    Parameters
    ----------
    sheet : ndarray of shape (n, r)
        Known coordinates.
    embedding : ndarray of shape (n, r)
        Coordinates that were found.

    Returns
    -------
    float
        0 for equal coordinates, up to translation, rotation and reflection.
    """
    A, B = sheet - sheet.mean(axis=0), embedding - embedding.mean(axis=0)
    left, _, right = np.linalg.svd(B.T @ A)
    return float(((A - B @ left @ right) ** 2).sum() / (A**2).sum())


def affine_residual(sheet: Floats, embedding: Floats) -> float:
    """Return the share of the variance of a sheet that no affine map of the embedding has.

    Parameters
    ----------
    sheet : ndarray of shape (n, r)
        Known coordinates.
    embedding : ndarray of shape (n, r)
        Coordinates that were found.

    Returns
    -------
    float
        0 for equal coordinates up to an affine map.
    """
    A, B = sheet - sheet.mean(axis=0), embedding - embedding.mean(axis=0)
    residual = A - B @ np.linalg.lstsq(B, A, rcond=None)[0]
    return float((residual**2).sum() / (A**2).sum())


def run_fields(options: ExperimentOptions) -> ExperimentResult:
    """Compare embeddings with a tangent space for every sample and for every patch.

    Parameters
    ----------
    options : ExperimentOptions
        ``problems`` are entries of ``FIELD_SETS``. All methods are always run.

    Returns
    -------
    ExperimentResult
        Tables as ``fields.md``.
    """
    names = [check_option("datasets", n, FIELD_SETS) for n in options.problems or FIELD_SETS]
    sections = []
    if ROLL in names:
        sections += [_roll_table(min(options.n_splits, _N_SEEDS))]
    samples, missing = load_available(
        [name for name in names if name != ROLL],
        lambda name: _select_images(*load_samples(PROBLEMS[name], options.directory)),
    )
    lines = [
        line for name, part in samples.items() for line in _image_lines(PROBLEMS[name].title, *part)
    ]
    if lines:
        header = ["data set", "method", "tangent spaces", "unknowns", "seconds", "1-NN error"]
        sections.append(
            f"Images to {_TANGENT_DIMENSION} coordinates, {N_NEIGHBORS} neighbours, tangent "
            f"dimension {_TANGENT_DIMENSION}. Unknowns: entries of all tangent vectors. Seconds of "
            "processor time, with the partition. Error in per cent of 1-NN by leaving one sample "
            "out. Samples outside the largest part of the graph are left out.\n\n"
            + format_markdown(header, lines)
        )
    if not sections:
        raise DatasetError(missing[0])
    run = ExperimentResult(failed=missing)
    return experiment.write_result(options, "fields", "\n\n".join(sections), run)


def _roll_table(n_seeds: int) -> str:
    methods: dict[str, Any] = {
        f"{kind.__name__}, {title}": kind(2, n_neighbors=N_NEIGHBORS, partition=partition)
        for kind in (PFE, TSIMR)
        for title, partition in _PARTITIONS.items()
    }
    methods["Isomap"] = Isomap(n_neighbors=N_NEIGHBORS)
    methods["LTSA"] = LocallyLinearEmbedding(
        n_neighbors=N_NEIGHBORS, method="ltsa", eigen_solver="dense"
    )
    lines = []
    for title, method in methods.items():
        cells = []
        for hole in (False, True):
            found = [
                (rigid_residual(sheet, Z), affine_residual(sheet, Z))
                for X, sheet in (draw_swiss_roll(_N_ROLL, s, hole=hole) for s in range(n_seeds))
                for Z in [method.fit_transform(X)]
            ]
            cells += [f"{value:.5f}" for value in np.median(found, axis=0)]
        lines.append([title, *cells])
    header = ["method", "rigid", "affine", "with a hole: rigid", "affine"]
    return (
        f"Swiss roll of {_SHEET[0]:g} x {_SHEET[1]:g}, {_N_ROLL} samples, {N_NEIGHBORS} "
        f"neighbours, with and without a hole of {_HOLE[0]:g} x {_HOLE[1]:g}. Share of the "
        "variance of the sheet that the embedding misses after the best rotation and after the "
        f"best affine map, median of {n_seeds} seeds. LTSA has coordinates of length 1, without "
        "the scale of the sheet.\n\n" + format_markdown(header, lines)
    )


def _select_images(X: Floats, y: Labels) -> tuple[Floats, Labels]:
    """Draw samples and keep the largest part of their graph."""
    if len(X) > 2 * _N_IMAGES:
        drawn = np.random.default_rng(0).choice(len(X), _N_IMAGES, replace=False)
        X, y = X[np.sort(drawn)], y[np.sort(drawn)]
    X = np.asarray(X, dtype=np.float64)
    edges = symmetric_graph(find_neighbors(ClassPoints(X), N_NEIGHBORS)).edges
    graph = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(len(X), len(X)))
    parts = connected_components(graph, directed=False)[1]
    is_largest = parts == np.bincount(parts).argmax()
    return X[is_largest], y[is_largest]


def _image_lines(title: str, X: Floats, y: Labels) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = []
    for kind in (PFE, TSIMR):
        for spaces, partition in _PARTITIONS.items():
            model = kind(_TANGENT_DIMENSION, n_neighbors=N_NEIGHBORS, partition=partition)
            begin = time.process_time()  # other programs may share the processor
            Z = model.fit_transform(X)
            seconds = time.process_time() - begin
            nearest = NearestNeighbors(n_neighbors=1).fit(Z).kneighbors(return_distance=False)
            error = 100.0 * float(np.mean(y[nearest[:, 0]] != y))
            unknowns = str(int(np.prod(model.fields_.shape[:2])))
            name = f"{title}, {len(X)} samples"
            numbers = [unknowns, f"{seconds:.1f}", f"{error:.1f}"]
            lines.append([name, kind.__name__, spaces, *numbers])
    return lines
