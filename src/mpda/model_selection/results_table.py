"""The results of a search: scores of all folds, and the table ``cv_results_``."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda.model_selection.grid import SearchGrid


@dataclass(frozen=True)
class AlignedScores:
    """Scores of all folds at the same numbers of components.

    Attributes
    ----------
    values : ndarray of shape (n_splits, n_points, n_dimensions)
    dimensions : ndarray of shape (n_dimensions,)
        Numbers of components.
    """

    values: Floats
    dimensions: Ints


def align_scores(folds: list[Floats], n_components: tuple[int, ...] | int | None) -> AlignedScores:
    """Align the scores of folds, which may have different numbers of components.

    Parameters
    ----------
    folds : list of ndarray of shape (n_points, max_components)
    n_components : tuple of int, int or None
        As ``check_n_components`` returns it.
    """
    width = max(fold.shape[1] for fold in folds)
    dimensions = np.arange(1, width + 1)
    if isinstance(n_components, tuple):
        dimensions = np.array(n_components)
    values = np.full((len(folds), folds[0].shape[0], max(width, dimensions[-1])), np.nan)
    for i, fold in enumerate(folds):
        values[i, :, : fold.shape[1]] = fold
    values = values[:, :, dimensions - 1]
    if not np.isfinite(values.mean(axis=0)).any():
        without_score = [i for i, fold in enumerate(folds) if not np.isfinite(fold).any()]
        if without_score:
            raise ValueError(
                f"No grid point has a score in fold {without_score[0]}: the method has no answer "
                "there, or scoring gives no number."
            )
        raise ValueError(
            f"No grid point has any of n_components={list(map(int, dimensions))} in every fold; at "
            f"most {width} exist in one. Ask for fewer components."
        )
    return AlignedScores(values, dimensions)


def results_table(grid: SearchGrid, scores: AlignedScores, seconds: Floats) -> dict[str, Any]:
    """Return ``cv_results_``: one row for each grid point and number of components.

    Parameters
    ----------
    grid : SearchGrid
    scores : AlignedScores
    seconds : ndarray of shape (n_splits, n_points)
    """
    n_dimensions = scores.dimensions.size
    flat = scores.values.reshape(len(scores.values), -1)
    params = [
        {**{f"{grid.prefix}{k}": v for k, v in point.items()}, f"{grid.prefix}n_components": int(r)}
        for point in grid.points
        for r in scores.dimensions
    ]
    table: dict[str, Any] = {"params": params}
    for name in sorted({name for row in params for name in row}):
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for i, row in enumerate(params):
            if name in row:
                column[i] = row[name]
        table[f"param_{name}"] = column
    for i, row_scores in enumerate(flat):
        table[f"split{i}_test_score"] = row_scores
    mean = flat.mean(axis=0)
    table["mean_test_score"] = mean
    table["std_test_score"] = flat.std(axis=0)
    _, order = np.unique(np.where(np.isnan(mean), np.inf, -mean), return_inverse=True)
    counts = np.bincount(order)
    table["rank_test_score"] = (np.cumsum(counts) - counts + 1)[order].astype(np.int32)
    table["mean_fit_time"] = np.repeat(seconds.mean(axis=0), n_dimensions)
    return table
