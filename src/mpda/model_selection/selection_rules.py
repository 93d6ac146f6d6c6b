"""Which grid point and dimension to take, given scores on folds.

With a few hundred samples the best mean over folds is mostly luck. The rules here look at more than
that one number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpda._lib.array_types import Floats, Ints

# How far a dimension looks around itself, as a share of its size, but at least one.
_REACH = 0.25
# What a step away from the usual parameters must gain, in standard errors (benchmarks/regret.py).
_PRICE_OF_STEP = 0.3


@dataclass(frozen=True)
class GridScores:
    """Scores of a search, the larger the better.

    scores : (splits, points, dimensions), nan where a split has no such dimension or no answer
    dimensions : (dimensions,) numbers of components, increasing
    axes : for each grid, whose points follow each other, and each of its parameters the places of
        the values: neighbours are 1 apart, what has no order more. The last parameter varies
        fastest.
    ridges : (points,) the strength of the ridge, for the order of what is simpler
    steps : (points,) how many values of the grid a point is away from the usual parameters
    n_repeats : how often the splits judge every sample, on average
    """

    scores: Floats
    dimensions: Ints
    axes: Sequence[tuple[Ints, ...]]
    ridges: Floats
    steps: Ints
    n_repeats: float = 1.0

    @property
    def means(self) -> Floats:
        """The mean over splits (points, dimensions); -inf unless every split has a score."""
        means = np.asarray(self.scores.mean(axis=0))
        return np.where(np.isnan(means), -np.inf, means)

    @property
    def standard_error(self) -> float:
        """Of a mean: from the spread over splits at the best dimension of each point.

        Repeated splits judge the same samples, so they do not make it smaller.
        """
        n_splits = len(self.scores)
        if n_splits < 2:
            return 0.0
        best = np.argmax(self.means, axis=1)
        found = self.scores[:, np.arange(best.size), best]
        variances = found[:, np.isfinite(found).all(axis=0)].var(axis=0, ddof=1)
        return float(np.sqrt(variances.mean() * self.n_repeats / n_splits))


@dataclass(frozen=True)
class Choice:
    """A grid point and the place of a number of components, both counted from 0."""

    point: int
    place: int


def smallest_error(grid: GridScores) -> Choice:
    """The best mean; at a tie fewer components, then the stronger ridge."""
    means = grid.means
    return _simplest(grid, means >= means.max() - 1e-12)


def one_standard_error(grid: GridScores) -> Choice:
    """The simplest of those within one standard error of the best mean."""
    means = grid.means
    return _simplest(grid, means >= means.max() - grid.standard_error - 1e-12)


def pooled(grid: GridScores) -> Choice:
    """The best mean of a neighbourhood: of near dimensions and of grid points one step away."""
    smooth = _pooled_means(grid)
    return _simplest(grid, smooth >= smooth.max() - 1e-12)


def robust(grid: GridScores, price: float = _PRICE_OF_STEP) -> Choice:
    """The best mean of a neighbourhood after a price for each step from the usual parameters.

    A parameter leaves its usual value only where that gains more than the noise of the scores
    would give by chance. ``price`` is in standard errors of a mean.
    """
    priced = _pooled_means(grid) - price * grid.standard_error * grid.steps[:, None]
    return _simplest(grid, priced >= priced.max() - 1e-12)


RULES: dict[str, Callable[[GridScores], Choice]] = {
    "robust": robust,
    "minimum": smallest_error,
    "pooled": pooled,
    "one-standard-error": one_standard_error,
}


def _pooled_means(grid: GridScores) -> Floats:
    """Means over near dimensions and grid points one step away; -inf where a split has no score."""
    smooth = _over_points(_over_dimensions(grid.means, grid.dimensions), grid.axes)
    return np.where(np.isfinite(grid.means), smooth, -np.inf)


def _simplest(grid: GridScores, allowed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Choice:
    """Of the allowed the fewest components, then the strongest ridge, then the first."""
    places = np.flatnonzero(allowed.any(axis=0))
    place = int(places[0])
    points = np.flatnonzero(allowed[:, place])
    return Choice(int(points[np.argmax(grid.ridges[points])]), place)


def _over_dimensions(means: Floats, dimensions: Ints) -> Floats:
    """Means over dimensions that differ by no more than a quarter or one, triangular weights."""
    gaps = np.abs(np.subtract.outer(dimensions, dimensions))
    reach = np.maximum(1.0, _REACH * dimensions)
    return _weighted(means, np.maximum(0.0, 1.0 - gaps / (reach[:, None] + 1.0)))


def _over_points(means: Floats, axes: Sequence[tuple[Ints, ...]]) -> Floats:
    """Means over the values of each parameter that are next to each other, weights 1, 2, 1."""
    shapes = [tuple(places.size for places in grid) for grid in axes]
    parts = np.split(means, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
    smooth = []
    for part, shape, grid in zip(parts, shapes, axes, strict=True):
        block = part.reshape(*shape, -1)
        for axis, places in enumerate(grid):
            steps = np.abs(np.subtract.outer(places, places))
            weights = np.maximum(0.0, 1.0 - 0.5 * steps)
            block = np.moveaxis(_weighted(np.moveaxis(block, axis, -1), weights), -1, axis)
        smooth.append(block.reshape(part.shape))
    return np.concatenate(smooth)


def _weighted(values: Floats, weights: Floats) -> Floats:
    """Weighted means (.., m) of values (.., m) that are finite; -inf where there are none."""
    finite = np.isfinite(values)
    total = np.where(finite, values, 0.0) @ weights.T
    share = finite @ weights.T
    return np.divide(total, share, out=np.full(values.shape, -np.inf), where=share > 0.0)
