"""Rules that select a grid point and a number of components."""

from dataclasses import replace

import numpy as np
import pytest

from mpda.model_selection.selection_rules import (
    GridScores,
    SelectedPoint,
    pooled_means,
    select_minimum,
    select_one_standard_error,
    select_pooled,
    select_robust,
)


def grid_scores(means, shapes, ridges=None, spread=0.0, component_counts=None, steps=None):
    means = np.asarray(means, dtype=float)
    scores = np.stack([means - spread, means + spread])
    ridges = np.zeros(len(means)) if ridges is None else np.asarray(ridges, dtype=float)
    component_counts = (
        np.arange(1, means.shape[1] + 1) if component_counts is None else component_counts
    )
    steps = np.zeros(len(means), dtype=int) if steps is None else np.asarray(steps)
    axes = [tuple(np.arange(n) for n in shape) for shape in shapes]
    return GridScores(scores, np.asarray(component_counts), axes, ridges, steps)


def test_minimum_selects_the_best_score_and_breaks_ties_by_simplicity():
    grid = grid_scores([[0.5, 0.9, 0.9], [0.5, 0.9, 0.8]], [(2,)], ridges=[0.1, 1.0])
    assert select_minimum(grid) == SelectedPoint(1, 1)
    grid = grid_scores([[0.5, 0.9, 0.91], [0.5, 0.9, 0.8]], [(2,)])
    assert select_minimum(grid) == SelectedPoint(0, 2)
    grid = grid_scores([[0.5, np.nan, 0.6]], [(1,)])
    assert select_minimum(grid) == SelectedPoint(0, 2)


def test_one_standard_error_selects_the_simplest_within_the_error():
    grid = grid_scores([[0.5, 0.88, 0.9]], [(1,)], spread=0.03)
    assert select_one_standard_error(grid) == SelectedPoint(0, 1)
    grid = grid_scores([[0.5, 0.88, 0.9]], [(1,)], spread=0.01)
    assert select_one_standard_error(grid) == SelectedPoint(0, 2)


def test_standard_error_does_not_shrink_with_repeats():
    means = [[0.5, 0.88], [0.9, np.nan], [np.nan, np.nan]]
    grid = grid_scores(means, [(3,)], spread=0.03)
    # Two splits, 0.03 below and above: the standard deviation is 0.03 sqrt(2), of the mean 0.03.
    assert grid.standard_error == pytest.approx(0.03)
    again = replace(grid, scores=np.concatenate([grid.scores] * 50), n_repeats=50)
    assert again.standard_error == pytest.approx(0.03 * np.sqrt(0.5 * 100 / 99))
    assert replace(grid, scores=grid.scores[:1]).standard_error == 0.0


def test_robust_leaves_usual_parameters_only_for_a_gain():
    def selected_point(gain, away):
        # One dimension and two grids: no neighbours to pool.
        means = [[0.8], [0.8 + gain]]
        return select_robust(grid_scores(means, [(1,), (1,)], spread=0.1, steps=[0, away])).point

    assert selected_point(0.02, 1) == 0
    assert selected_point(0.04, 1) == 1
    assert selected_point(0.04, 2) == 0
    assert selected_point(0.07, 2) == 1
    # The number of components has no usual value.
    curve = [[0.5, 0.8, 0.8, 0.801, 0.801, 0.801]]
    assert select_robust(grid_scores(curve, [(1,)], spread=0.1)).column > 2


def test_pooled_prefers_a_plateau_to_a_peak():
    means = np.array([[0.95], [0.5], [0.8], [0.93], [0.93]])
    assert select_pooled(grid_scores(means, [(5,)])).point == 4
    curve = [[0.5, 0.5, 0.5, 0.95, 0.5, 0.5, 0.5, 0.5, 0.9, 0.9, 0.9, 0.9]]
    assert select_pooled(grid_scores(curve, [(1,)])).column in (9, 10, 11)


def pool_slowly(means, component_counts, positions):
    """Pool means (n_points, n_counts) of a grid with one parameter, by the definition."""
    smooth = np.empty_like(means)
    for j, r in enumerate(component_counts):
        window = max(1.0, 0.25 * r)
        weights = [max(0.0, 1.0 - abs(r - s) / (window + 1.0)) for s in component_counts]
        smooth[:, j] = means @ weights / sum(weights)
    pooled = np.empty_like(means)
    for i, place in enumerate(positions):
        weights = [{0: 2.0, 1: 1.0}.get(abs(place - other), 0.0) for other in positions]
        pooled[i] = weights @ smooth / sum(weights)
    return pooled


def test_pooled_selects_the_best_weighted_mean():
    rng = np.random.default_rng(0)
    component_counts = np.array([1, 2, 3, 5, 6, 8, 11, 14, 20])
    for _ in range(50):
        grid = grid_scores(rng.random((4, 9)), [(4,)], component_counts=component_counts)
        pooled = pool_slowly(grid.means, component_counts, range(4))
        np.testing.assert_allclose(pooled_means(grid), pooled)
        best = select_pooled(grid)
        assert (best.point, best.column) == np.unravel_index(pooled.argmax(), pooled.shape)


def test_pooled_does_not_mix_grids_of_a_list():
    means = np.array([[0.9], [0.2], [0.9], [0.88]])
    assert select_pooled(grid_scores(means, [(2,), (2,)])).point == 2


def test_pooled_selects_only_points_with_scores_in_every_fold():
    grid = grid_scores([[0.9, 0.9, np.nan, 0.5]], [(1,)])
    assert select_pooled(grid).column < 2
    sparse = grid_scores([[np.nan, 0.5, np.nan], [0.9, np.nan, 0.9], [0.9, np.nan, 0.9]], [(3,)])
    selection = select_pooled(sparse)
    assert np.isfinite(sparse.means[selection.point, selection.column])
