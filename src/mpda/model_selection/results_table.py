"""The scores of all folds side by side, and the table that a user reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda.model_selection.grid import Dimensions, SearchGrid


@dataclass(frozen=True)
class AlignedScores:
    """values : (splits, points, dimensions); dimensions : (dimensions,)"""

    values: Floats
    dimensions: Ints


def aligned(folds: list[Floats], wanted: Dimensions) -> AlignedScores:
    """The scores of all folds at the same numbers of components."""
    width = max(fold.shape[1] for fold in folds)
    dimensions = np.arange(1, width + 1) if wanted.given is None else np.array(wanted.given)
    values = np.full((len(folds), folds[0].shape[0], max(width, dimensions[-1])), np.nan)
    for i, fold in enumerate(folds):
        values[i, :, : fold.shape[1]] = fold
    values = values[:, :, dimensions - 1]
    if not np.isfinite(values.mean(axis=0)).any():
        silent = [i for i, fold in enumerate(folds) if not np.isfinite(fold).any()]
        if silent:
            raise ValueError(
                f"No grid point has a score in fold {silent[0]}: the method has no answer there, "
                "or scoring gives no number."
            )
        raise ValueError(
            f"No grid point has any of n_components={list(map(int, dimensions))} in every fold; at "
            f"most {width} were found in one. Ask for fewer components."
        )
    return AlignedScores(values, dimensions)


def results_table(grid: SearchGrid, scores: AlignedScores, seconds: Floats) -> dict[str, Any]:
    """The results, one row for each point and number of components."""
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
