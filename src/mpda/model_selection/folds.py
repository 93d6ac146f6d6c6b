"""Folds of a search, and their stratified subsets for successive halving.

Folds are drawn here, or come from a splitter of scikit-learn or from a list. No fold divides a
group of samples.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d

from mpda._lib.array_types import Ints, Labels
from mpda._lib.validation import check_count

Folds = list[tuple[Ints, Ints]]
"""Indices of training and test samples of each fold."""


def draw_folds(
    cv: Any, X: Any, y: Labels, groups: Labels | None, seed: Any, n_repeats: int = 1
) -> Folds:
    """Return the folds that the parameter ``cv`` of a search stands for.

    Parameters
    ----------
    cv : int, splitter or iterable
        A number makes stratified folds.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Class labels.
    groups : array of shape (n_samples,) or None
        Group of each sample.
    seed : int or RandomState
        Seed of the draw where ``cv`` is a number.
    n_repeats : int, default=1
        Number of draws where ``cv`` is a number.

    Returns
    -------
    list of (train, test)
        Indices of each fold.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        # Shuffled, unlike the folds of check_cv: neighbouring rows of a file are often alike.
        n_folds, n_repeats = check_count("cv", cv, least=2), check_count("n_repeats", n_repeats)
        if groups is not None:
            return split_groups(y, groups, n_folds, seed, n_repeats)
        cv = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=n_repeats, random_state=seed)
    folds = check_cv(cv, y, classifier=True).split(X, y, groups)
    return [(_indices(train), _indices(test)) for train, test in folds]


def stratified_folds(y: Labels, n_folds: int, seed: int, groups: Labels | None = None) -> Folds:
    """Divide samples into shuffled folds that are alike in their classes.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Labels.
    n_folds : int
        Number of folds.
    seed : int
        Seed of the draw.
    groups : array of shape (n_samples,) or None, default=None
        Group of each sample. No fold divides a group.

    Returns
    -------
    list of (train, test)
        Indices of each fold.
    """
    check_count("n_folds", n_folds, least=2)
    if groups is not None:
        return split_groups(y, groups, n_folds, seed)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Callers name small classes once, when they read the samples.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(splitter.split(np.zeros(len(y)), y))


def split_groups(y: Labels, groups: Labels, n_folds: int, seed: Any, n_repeats: int = 1) -> Folds:
    """Divide samples into folds that are alike in their classes and divide no group.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class labels.
    groups : array of shape (n_samples,)
        Group of each sample.
    n_folds : int
        Number of folds.
    seed : int or RandomState
        Seed of the draw.
    n_repeats : int, default=1
        Number of draws.

    Returns
    -------
    list of (train, test)
        Indices of each fold.

    Raises
    ------
    ValueError
        If there are fewer groups than folds.
    """
    n_groups = len(np.unique(groups))
    if n_groups < n_folds:
        raise ValueError(f"{n_folds} folds need as many groups, but there are {n_groups}.")
    rng = check_random_state(seed)
    folds = []
    for _ in range(n_repeats):
        splitter = StratifiedGroupKFold(
            n_folds, shuffle=True, random_state=int(rng.randint(2**31 - 1))
        )
        # Very unequal groups may leave a fold empty.
        drawn = splitter.split(np.zeros(len(y)), y, groups)
        folds += [(train, test) for train, test in drawn if test.size]
    return folds


def check_groups(groups: Any, y: Labels) -> Labels | None:
    """Return groups as an array of the length of y, None if there are none."""
    if groups is None:
        return None
    groups = column_or_1d(groups)
    check_consistent_length(groups, y)
    return groups


def stratified_order(y: Labels, least: int, rng: np.random.Generator) -> Ints:
    """Order samples so that the first of them are a stratified subset, however many are taken.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class labels.
    least : int
        Samples of each class that come before all others.
    rng : Generator
        Draws the order within classes.

    Returns
    -------
    array of int of shape (n_samples,)
        Indices. After the first samples of each class the others follow evenly, in proportion to
        the sizes of the classes.
    """
    shuffled = rng.permutation(len(y))
    labels = np.unique(y[shuffled], return_inverse=True)[1]
    by_class = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    ranks = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    # The first of all classes, the second of all classes, .., then shares of the classes.
    shares = (ranks + 1 - least) / np.repeat(counts, counts)
    position = np.where(ranks < least, ranks - least, shares)
    return np.asarray(shuffled[by_class[np.argsort(position, kind="stable")]])


def _indices(samples: Any) -> Ints:
    """Return the indices of the samples of a fold, given by indices or by a mask."""
    samples = np.asarray(samples)
    return np.flatnonzero(samples) if samples.dtype == bool else samples
