"""Successive halving: many parameter sets on few samples, then fewer sets on more samples.

Each round scores the remaining parameter sets on stratified subsets of the folds, keeps the best
and takes more samples, as scikit-learn's ``HalvingGridSearchCV`` does. Numbers of components far
from the best ones are left out as well. The last round has all samples, or as many as the user
allows.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mpda._lib.array_types import Ints, Labels
from mpda._lib.validation import check_count, check_option
from mpda.discriminant.settings import parameter_key
from mpda.estimators._base import sparse_counts
from mpda.model_selection.fold_scores import NEIGHBOR_NAMES
from mpda.model_selection.folds import Folds, stratified_order
from mpda.model_selection.selection_rules import GridScores

# Fewer samples are searched in one round: it takes seconds.
MIN_SAMPLES = 5000
# Parameter sets fall and samples grow by this factor from round to round.
FACTOR = 4
# Samples of the first round: at least this number for each class, because graphs have up to 30
# neighbours, and this number in all.
_CLASS_SAMPLES, _FIRST_SAMPLES = 30, 300
# Test samples of a fold: their number decides how exact an accuracy is, and 500 in each of 4 folds
# give a standard error of half a point at an error of 10 %.
MAX_TESTS = 500


@dataclass(frozen=True)
class Round:
    """One round.

    Parameters
    ----------
    n_samples : int
        Samples of all folds together.
    n_points : int
        Parameter sets.
    """

    n_samples: int
    n_points: int


def plan_rounds(
    y: Labels, n_points: int, halving: Any, max_samples: Any, least: int = 0
) -> list[Round]:
    """Plan the rounds of a search.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class labels.
    n_points : int
        Number of parameter sets.
    halving : bool or "auto"
        "auto" is True for more than `MIN_SAMPLES` samples.
    max_samples : int or None
        Samples of the last round; None is all.
    least : int, default=0
        Samples that every round needs.

    Returns
    -------
    list of Round
        Empty if all parameter sets are to be scored on all samples.
    """
    n_samples = len(y)
    last = n_samples
    if max_samples is not None:
        last = min(last, check_count("max_samples", max_samples))
    if not isinstance(halving, bool | np.bool_):
        check_option("halving", halving, ("auto",), also=", True or False")
        halving = n_samples > MIN_SAMPLES
    if not halving:
        return [Round(last, n_points)] if last < n_samples else []
    counts = np.unique(y, return_counts=True)[1]
    first = max(_FIRST_SAMPLES, int(np.minimum(counts, _CLASS_SAMPLES).sum()), least)
    # As many rounds as the samples allow, and no more than leave one parameter set.
    n_rounds = 1
    while last // FACTOR**n_rounds >= first and FACTOR**n_rounds <= n_points:
        n_rounds += 1
    if n_rounds == 1 and last == n_samples:  # there is nothing to halve
        return []
    return [
        Round(last // FACTOR ** (n_rounds - 1 - i), math.ceil(n_points / FACTOR**i))
        for i in range(n_rounds)
    ]


class FoldSubsets:
    """Stratified subsets of folds, each of which contains the smaller ones.

    Parameters
    ----------
    folds : list of (train, test)
        Indices of each fold.
    y : array of shape (n_samples,)
        Class labels.
    seed : int or RandomState
        Seed of the draw.
    max_tests : int or None, default=500
        Largest number of test samples of a fold. None is no limit.
    """

    def __init__(
        self, folds: Folds, y: Labels, seed: Any, max_tests: int | None = MAX_TESTS
    ) -> None:
        self._max_tests = math.inf if max_tests is None else max_tests
        rng = np.random.default_rng(int(check_random_state(seed).randint(2**31 - 1)))
        self._n_samples = len(y)
        self._folds = [
            (
                train[stratified_order(y[train], _CLASS_SAMPLES, rng)],
                test[stratified_order(y[test], 1, rng)],
            )
            for train, test in folds
        ]

    def take(self, n_samples: int) -> Folds:
        """Return the folds with a share of their samples.

        Parameters
        ----------
        n_samples : int
            Samples in all; a fold has the share of it that it has of all samples.

        Returns
        -------
        list of (train, test)
            Indices in increasing order.
        """
        share = n_samples / self._n_samples
        return [
            (_first(train, share), _first(test, min(share, self._max_tests / test.size)))
            for train, test in self._folds
        ]


def _first(samples: Ints, share: float) -> Ints:
    return np.sort(samples[: max(1, round(share * samples.size))])


def best_points(scores: GridScores, n_points: int, groups: Ints | None = None) -> Ints:
    """Return the grid points that reach the best mean scores at any number of components.

    Parameters
    ----------
    scores : GridScores
        Scores of a round.
    n_points : int
        Number of points to keep.
    groups : array of int of shape (n_points,), default=None
        Points of one group were the same fit in this round. They count as one and stay together.

    Returns
    -------
    array of int
        In increasing order; at equal scores the points nearest to the usual parameters.
    """
    best = scores.means.max(axis=1)
    order = np.lexsort((scores.steps, -np.round(best, 12)))
    groups = np.arange(order.size) if groups is None else groups
    kept = list(dict.fromkeys(groups[order].tolist()))[:n_points]
    has_score = np.isfinite(best)
    # Points of earlier rounds have no score any more.
    return np.flatnonzero(np.isin(groups, kept) & has_score)


def group_equal_fits(points: list[dict[str, Any]], largest_class: int) -> Ints:
    """Number the grid points so that points with the same fit have one number.

    In small classes the number of neighbours is cut to that of the other samples, so that larger
    ones are the same fit.

    Parameters
    ----------
    points : list of dict
        Grid points of a method that searches neighbours inside classes.
    largest_class : int
        Training samples of the largest class in any fold.

    Returns
    -------
    array of int
        Number of each point.
    """
    numbers: dict[tuple[Any, ...], int] = {}
    groups = []
    for point in points:
        cut = {
            name: min(value, largest_class - 1) if name in NEIGHBOR_NAMES else value
            for name, value in point.items()
        }
        key = tuple((name, parameter_key(value)) for name, value in sorted(cut.items()))
        groups.append(numbers.setdefault(key, len(numbers)))
    return np.array(groups)


def counts_near_best(
    scores: GridScores, points: Ints, largest: int | None = None
) -> tuple[int, ...]:
    """Return the numbers of components for the next round.

    Parameters
    ----------
    scores : GridScores
        Scores of a round.
    points : array of int
        Grid points of the next round.
    largest : int, default=None
        Largest number that the search may select.

    Returns
    -------
    tuple of int
        From half of the smallest to twice the largest number that is the best of a point. Beyond
        the numbers of this round, whose fits may have had fewer components, in steps of a quarter.
    """
    means = scores.means[points]
    means = means[np.isfinite(means).any(axis=1)]  # a point may have no answer
    best = scores.component_counts[means.argmax(axis=1)]
    further = sparse_counts(2 * int(best.max()))
    further = further[further > scores.component_counts.max()]
    counts = np.concatenate([scores.component_counts, further])
    limit = 2 * best.max() if largest is None else min(2 * best.max(), largest)
    return tuple(counts[(2 * counts >= best.min()) & (counts <= limit)].tolist())
