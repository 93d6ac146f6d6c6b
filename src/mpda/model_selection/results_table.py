"""The results of a search: scores of all folds, and the table ``cv_results_``.

``align_scores`` brings the folds to common numbers of components, for the selection rules and for
the table.
"""

from typing import Any

import numpy as np
from scipy.stats import rankdata

from mpda._lib.array_types import Floats, Ints
from mpda.model_selection.grid import SearchGrid
from mpda.model_selection.selection_rules import GridScores


def align_scores(
    folds: list[Floats],
    n_components: tuple[int, ...] | int | None,
    grid: SearchGrid,
    points: Ints,
    n_repeats: float,
) -> GridScores:
    """Align the scores of folds, which may have different numbers of components.

    Parameters
    ----------
    folds : list of ndarray of shape (len(points), max_components)
        Scores of each fold; folds may have different numbers of components.
    n_components : tuple of int, int or None
        As ``check_n_components`` returns it.
    grid : SearchGrid
        Parameter sets of the search.
    points : ndarray of int
        Indices of those that were scored; the others have scores of nan.
    n_repeats : float
        How often the folds test a sample, on average.
    """
    width = max(fold.shape[1] for fold in folds)
    # Numbers that the user listed keep their columns of nan where no fold has so many components.
    is_listed = isinstance(n_components, tuple)
    component_counts = np.array(n_components) if is_listed else np.arange(1, width + 1)
    values = np.full((len(folds), len(grid.points), max(width, component_counts[-1])), np.nan)
    for i, fold in enumerate(folds):
        values[i, points, : fold.shape[1]] = fold
    if not is_listed:  # some numbers may have been left out
        scored = np.isfinite(values).any(axis=(0, 1))
        component_counts = component_counts[scored] if scored.any() else component_counts
    values = values[:, :, component_counts - 1]
    # A mean over folds is nan where one fold has no score: such points cannot be compared.
    if not np.isfinite(values.mean(axis=0)).any():
        without_score = [i for i, fold in enumerate(folds) if not np.isfinite(fold).any()]
        narrowest = min(fold.shape[1] for fold in folds)
        if without_score and (narrowest == 0 or component_counts[0] <= narrowest):
            raise ValueError(
                f"No grid point has a score in fold {without_score[0]}: the method has no answer "
                "there, or scoring gives no number."
            )
        raise ValueError(
            f"No grid point has any of n_components={component_counts.tolist()} in every fold; at "
            f"most {narrowest} exist in every one. Ask for fewer components."
        )
    return GridScores(values, component_counts, grid.axes, grid.ridges, grid.steps, n_repeats)


def results_table(
    grid: SearchGrid, points: Ints, grid_scores: GridScores, seconds: Floats
) -> dict[str, Any]:
    """Return ``cv_results_``: one row for each grid point and number of components.

    Parameters
    ----------
    grid : SearchGrid
        Parameter sets of the search.
    points : ndarray of int
        Indices of those that were scored.
    grid_scores : GridScores
        Scores of all folds.
    seconds : ndarray of shape (n_splits, len(points))
        Time of each grid point in each fold.
    """
    scores, component_counts = grid_scores.scores[:, points], grid_scores.component_counts
    flat = scores.reshape(len(scores), -1)
    params = [
        {f"{grid.prefix}{name}": value for name, value in {**point, "n_components": int(r)}.items()}
        for point in (grid.points[i] for i in points)
        for r in component_counts
    ]
    table: dict[str, Any] = {"params": params}
    for name in sorted({name for row in params for name in row}):
        # Masked arrays of objects, as in GridSearchCV: a list of grids need not share parameters.
        column = np.empty(len(params), dtype=object)
        for i, row in enumerate(params):
            column[i] = row.get(name)
        table[f"param_{name}"] = np.ma.MaskedArray(column, [name not in row for row in params])
    for i, row_scores in enumerate(flat):
        table[f"split{i}_test_score"] = row_scores
    mean = flat.mean(axis=0)
    table["mean_test_score"] = mean
    table["std_test_score"] = flat.std(axis=0)
    table["rank_test_score"] = _rank(mean)
    table["mean_fit_time"] = np.repeat(seconds.mean(axis=0), component_counts.size)
    return table


def concatenate_tables(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Join tables of rounds or stages of a search.

    Ranks are those among the rows of one stage; stages have other folds. Rows of the last stage
    come first.

    Parameters
    ----------
    tables : list of dict
        Tables with the same folds. A parameter that a table does not have is masked there.
    """
    if len(tables) == 1:
        return tables[0]
    sizes = [len(table["params"]) for table in tables]
    joined: dict[str, Any] = {"params": [row for table in tables for row in table["params"]]}
    for name in dict.fromkeys(name for table in tables for name in table if name != "params"):
        columns = [
            table.get(name, np.ma.MaskedArray(np.empty(size, dtype=object), mask=True))
            for table, size in zip(tables, sizes, strict=True)
        ]
        concatenate = np.ma.concatenate if name.startswith("param_") else np.concatenate
        joined[name] = concatenate(columns)
    stages = joined.get("stage", np.zeros(sum(sizes), dtype=int))
    ranks = np.empty(sum(sizes), dtype=np.int32)
    n_before = 0
    for stage in np.unique(stages)[::-1]:
        rows = stages == stage
        ranks[rows] = n_before + _rank(joined["mean_test_score"][rows])
        n_before += int(np.count_nonzero(rows))
    joined["rank_test_score"] = ranks
    return joined


def _rank(means: Floats) -> Ints:
    """Return ranks from 1 on: ties share the best rank, rows without a score come last."""
    return rankdata(np.where(np.isnan(means), np.inf, -means), method="min").astype(np.int32)
