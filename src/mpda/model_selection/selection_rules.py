"""Rules that select a grid point and a number of components from scores on folds.

With a few hundred samples the best mean over folds is mostly luck, so the rules also use the scores
of neighbouring grid points and numbers of components.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats, Ints

# Numbers of components within a quarter of each other, or 1 apart, are averaged. A wider window
# would hide how the error depends on them.
_WINDOW = 0.25
# Gain that a step away from the usual parameters must bring, in standard errors of a mean. This
# value had the least regret in benchmarks/regret.py.
_STEP_PENALTY = 0.3
# Means that differ by less differ by rounding: accuracies of n samples are at least 1 / n apart.
_TIE = 1e-12


@dataclass(frozen=True)
class GridScores:
    """Scores of a search; larger is better.

    Attributes
    ----------
    scores : ndarray of shape (n_splits, n_points, n_counts)
        nan where a split has no score.
    component_counts : ndarray of shape (n_counts,)
        Numbers of components, increasing.
    axes : sequence of tuple of ndarray
        Positions of the values of each parameter, for each grid; see ``SearchGrid``. The points of
        a grid follow each other, and its last parameter varies fastest.
    ridges : ndarray of shape (n_points,)
        Strength of the ridge; the stronger one is simpler.
    steps : ndarray of shape (n_points,)
        Number of grid values between a point and the usual parameters.
    n_repeats : float
        How often the splits test every sample, on average.
    """

    scores: Floats
    component_counts: Ints
    axes: Sequence[tuple[Ints, ...]]
    ridges: Floats
    steps: Ints
    n_repeats: float = 1.0

    @property
    def means(self) -> Floats:
        """Mean over splits (n_points, n_counts); -inf unless every split has a score."""
        means = np.asarray(self.scores.mean(axis=0))
        return np.where(np.isnan(means), -np.inf, means)

    @property
    def standard_error(self) -> float:
        """Standard error of a mean, from the variance over splits at the best of each point.

        Repeated splits test the same samples, so they do not reduce it.
        """
        n_splits = len(self.scores)
        if n_splits < 2:
            return 0.0
        # Only at the best dimension of each point: the variance of an accuracy p is p (1 - p), so
        # scores with too few components would make the error too large.
        best = np.argmax(self.means, axis=1)
        best_scores = self.scores[:, np.arange(best.size), best]
        variances = best_scores[:, np.isfinite(best_scores).all(axis=0)].var(axis=0, ddof=1)
        # n_splits / n_repeats test parts are disjoint, and only these count as independent.
        return float(np.sqrt(variances.mean() * self.n_repeats / n_splits))


@dataclass(frozen=True)
class SelectedPoint:
    """What a rule selects: a grid point and a number of components.

    Attributes
    ----------
    point : int
        Index of the grid point.
    column : int
        Index of the number of components in ``GridScores.component_counts``.
    """

    point: int
    column: int


def select_minimum(grid: GridScores) -> SelectedPoint:
    """Select the best mean; at a tie fewer components, then the stronger ridge."""
    return _simplest(grid, grid.means)


def select_one_standard_error(grid: GridScores) -> SelectedPoint:
    """Select the simplest of those within one standard error of the best mean."""
    return _simplest(grid, grid.means, grid.standard_error)


def select_paired(grid: GridScores) -> SelectedPoint:
    """Select the simplest that is worse than the best mean by at most one standard error.

    The error is that of the differences from the best on the same splits. It is for splits that
    differ more than what is selected, as those that hold out whole classes.
    """
    means, n_splits = grid.means, len(grid.scores)
    point, column = np.unravel_index(np.argmax(means), means.shape)
    gaps = grid.scores[:, [point]][:, :, [column]] - grid.scores
    errors = np.zeros(means.shape)
    if n_splits > 1:
        errors = gaps.std(axis=0, ddof=1) * np.sqrt(grid.n_repeats / n_splits)
    # Zero where the gap is within its error, else below.
    return _simplest(grid, np.where(means.max() - means <= errors + _TIE, 0.0, -1.0))


def select_pooled(grid: GridScores) -> SelectedPoint:
    """Select the best mean over near numbers of components and grid points one step away."""
    return _simplest(grid, pooled_means(grid))


def select_robust(grid: GridScores, penalty: float = _STEP_PENALTY) -> SelectedPoint:
    """Select the best pooled mean after a penalty for each step from the usual parameters.

    A parameter leaves its usual value only where that gains more than the noise of the scores
    would give by chance.

    Parameters
    ----------
    grid : GridScores
        Scores of a search.
    penalty : float
        Penalty for one step, in standard errors of a mean.
    """
    # No penalty on the number of components: unlike the parameters, it has no usual value.
    penalties = penalty * grid.standard_error * grid.steps[:, None]
    return _simplest(grid, pooled_means(grid) - penalties)


SelectionRule = Callable[[GridScores], SelectedPoint]
RULES: dict[str, SelectionRule] = {
    "robust": select_robust,
    "minimum": select_minimum,
    "pooled": select_pooled,
    "one-standard-error": select_one_standard_error,
}


def pooled_means(grid: GridScores) -> Floats:
    """Return means over near columns and grid points; -inf where a split has no score."""
    smooth = smooth_points(smooth_counts(grid.means, grid.component_counts), grid.axes)
    # Smoothing also fills entries without a score from their neighbours. No fit has these numbers
    # of components in every fold, so they must not be selected.
    return np.where(np.isfinite(grid.means), smooth, -np.inf)


def _simplest(grid: GridScores, values: Floats, tolerance: float = 0.0) -> SelectedPoint:
    """Select the simplest entry among those within a tolerance of the largest value.

    Simplest are the fewest components, then the strongest ridge, then the first grid point. The
    values have the shape (n_points, n_counts).
    """
    is_allowed = values >= values.max() - tolerance - _TIE
    column = int(np.flatnonzero(is_allowed.any(axis=0))[0])
    points = np.flatnonzero(is_allowed[:, column])
    return SelectedPoint(int(points[np.argmax(grid.ridges[points])]), column)


def smooth_counts(means: Floats, component_counts: Ints) -> Floats:
    """Average over near numbers of components, with triangular weights."""
    gaps = np.abs(np.subtract.outer(component_counts, component_counts))
    # In proportion to the dimension: the tenth component changes scores less than the second.
    width = np.maximum(1.0, _WINDOW * component_counts)
    return _weighted(means, np.maximum(0.0, 1.0 - gaps / (width[:, None] + 1.0)))


def smooth_points(means: Floats, axes: Sequence[tuple[Ints, ...]]) -> Floats:
    """Average over neighbouring values of each parameter, with weights 1, 2, 1."""
    shapes = [tuple(positions.size for positions in grid) for grid in axes]
    blocks = np.split(means, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
    smoothed = []
    for rows, shape, grid in zip(blocks, shapes, axes, strict=True):
        block = rows.reshape(*shape, -1)
        for axis, positions in enumerate(grid):
            steps = np.abs(np.subtract.outer(positions, positions))
            # Values without an order are 2 steps apart and so have no weight for each other.
            weights = np.maximum(0.0, 1.0 - 0.5 * steps)
            block = np.moveaxis(_weighted(np.moveaxis(block, axis, -1), weights), -1, axis)
        smoothed.append(block.reshape(rows.shape))
    return np.concatenate(smoothed)


def _weighted(values: Floats, weights: Floats) -> Floats:
    """Return weighted means (.., m) of the finite values (.., m); -inf where there are none."""
    finite = np.isfinite(values)
    total = np.where(finite, values, 0.0) @ weights.T
    share = finite @ weights.T
    return np.divide(total, share, out=np.full(values.shape, -np.inf), where=share > 0.0)
