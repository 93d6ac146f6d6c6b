"""Folds that hold out whole classes, to measure a map on classes that it was not fitted to.

In use, a database gets samples of classes that nobody has labelled. A fold imitates that: its test
part has all samples of some classes, and its training part none of them. Test samples are then
searched among themselves (`mpda.model_selection.retrieval`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import (
    assert_all_finite,
    check_consistent_length,
    check_random_state,
    column_or_1d,
)

from mpda._lib.array_types import ArrayLike, Bools, Ints, Labels
from mpda._lib.validation import check_count, distinct_labels, resolve_seed
from mpda.model_selection.folds import Folds, check_groups


class UnseenClassFolds(BaseCrossValidator):
    """Splitter that holds out whole classes, for cross-validation on classes not seen before.

    The classes are divided at random into parts. A part is the test part of one fold, with all
    samples of its classes; the training part has all samples of the other classes. Every class is
    held out once. The numbers of classes of two parts differ by at most one, and their numbers of
    samples by at most the size of the largest class.

    Parameters
    ----------
    n_splits : int, default=4
        Number of folds, at least 2 and at most half the number of classes: a test part has two
        classes or more, because in a single one every neighbour is right.
    random_state : int, RandomState or None, default=0
        Seed of the division. None makes the folds of every call differ.

    Notes
    -----
    If ``groups`` are given, training samples are left out if their group has a sample in the test
    part: one photograph may show samples of several classes. At least two classes must remain.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mpda.model_selection import UnseenClassFolds
    >>> X, y = load_digits(return_X_y=True)
    >>> for train, test in UnseenClassFolds(n_splits=3).split(X, y):
    ...     print(len(train), len(test), len(set(y[train])), len(set(y[test])))
    1258 539 7 3
    1078 719 6 4
    1258 539 7 3
    """

    # With scikit-learn's metadata routing enabled, searches pass groups on.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(self, n_splits: int = 4, *, random_state: Any = 0) -> None:
        self.n_splits = check_count("n_splits", n_splits, least=2)
        self.random_state = random_state

    def split(
        self, X: ArrayLike, y: ArrayLike = None, groups: ArrayLike = None
    ) -> Iterator[tuple[Ints, Ints]]:
        """Yield the training and the test samples of each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; only their number matters.
        y : array-like of shape (n_samples,)
            Class labels.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample.

        Yields
        ------
        train : ndarray of int
            Indices of the training samples.
        test : ndarray of int
            Indices of the test samples.

        Raises
        ------
        ValueError
            If there are fewer than two classes for each fold, or if fewer than two classes remain
            in a training part because of ``groups``.
        """
        if y is None:
            raise ValueError("UnseenClassFolds divides classes, so it needs labels: split(X, y).")
        y = column_or_1d(y)
        assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        groups = check_groups(groups, y)
        codes = distinct_labels(y)[1]
        parts = self._divide_classes(np.bincount(codes))
        for fold in range(self.n_splits):
            is_test = parts[codes] == fold
            is_train = ~is_test
            if groups is not None:
                is_train &= ~np.isin(groups, groups[is_test])
                n_left = len(np.unique(codes[is_train]))
                if n_left < 2:
                    raise ValueError(
                        f"The training part of fold {fold} has samples of {n_left} classes, but 2 "
                        f"are needed: {np.count_nonzero(~is_test & ~is_train)} samples of other "
                        "classes are in a group with test samples. Use other groups or fewer folds."
                    )
            yield np.flatnonzero(is_train), np.flatnonzero(is_test)

    def get_n_splits(
        self, X: ArrayLike = None, y: ArrayLike = None, groups: ArrayLike = None
    ) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X : object, default=None
            Ignored.
        y : object, default=None
            Ignored.
        groups : object, default=None
            Ignored.

        Returns
        -------
        int
            Number of folds.
        """
        return self.n_splits

    def _divide_classes(self, sizes: Ints) -> Ints:
        """Return the part (n_classes,) of each class, given the numbers of samples."""
        if sizes.size < 2 * self.n_splits:
            most = sizes.size // 2
            remedy = f"At most {most} folds are possible." if most > 1 else "2 folds need 4."
            raise ValueError(
                f"n_splits={self.n_splits} needs {2 * self.n_splits} classes, two for each test "
                f"part, but y has {sizes.size}. {remedy}"
            )
        rng = check_random_state(resolve_seed(self.random_state))
        order = rng.permutation(sizes.size)
        parts = np.empty(sizes.size, dtype=np.intp)
        n_samples = np.zeros(self.n_splits, dtype=np.intp)
        # Every part gets one of the next classes, the part with the fewest samples the largest.
        for start in range(0, sizes.size, self.n_splits):
            classes = order[start : start + self.n_splits]
            classes = classes[np.argsort(-sizes[classes], kind="stable")]
            smallest = np.argsort(n_samples, kind="stable")[: classes.size]
            parts[classes] = smallest
            n_samples[smallest] += sizes[classes]
        return parts


def count_unseen_folds(y: Labels, most: int) -> int:
    """Return the number of folds that can hold out classes.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels.
    most : int
        Largest number of folds.

    Returns
    -------
    int
        Half the number of classes with at least two samples, at most ``most``. Fewer than 2 are
        no folds.
    """
    return min(most, int(np.count_nonzero(np.unique(y, return_counts=True)[1] > 1)) // 2)


def draw_unseen_folds(y: Labels, n_folds: int, seed: Any, groups: Labels | None = None) -> Folds:
    """Draw folds that hold out classes in which a sample has another one to be found.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels.
    n_folds : int
        Number of folds, as `count_unseen_folds` has it.
    seed : int
        Seed of the draw.
    groups : ndarray of shape (n_samples,) or None, default=None
        Group of each sample.

    Returns
    -------
    list of (train, test)
        Indices of each fold of `UnseenClassFolds`. Classes of one sample are in all training
        parts.
    """
    rows = np.flatnonzero(find_repeated_classes(y))
    single = np.setdiff1d(np.arange(len(y)), rows)
    known = None if groups is None else groups[rows]
    folds = UnseenClassFolds(n_folds, random_state=seed).split(rows, y[rows], known)
    parts = [(rows[train], rows[test]) for train, test in folds]
    if groups is None:
        return [(np.union1d(train, single), test) for train, test in parts]
    return [
        (np.union1d(train, single[~np.isin(groups[single], groups[test])]), test)
        for train, test in parts
    ]


def find_repeated_classes(y: Labels) -> Bools:
    """Find the samples that can be searched among themselves.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
        True for samples of classes with at least two samples.
    """
    _, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    return sizes[codes] > 1


def is_unseen(y_train: ArrayLike, y_test: ArrayLike) -> bool:
    """Return True if the test part has several classes, and the training part none of them.

    Parameters
    ----------
    y_train : array-like of shape (n_train,)
        Labels of the training part.
    y_test : array-like of shape (n_test,)
        Labels of the test part.

    Returns
    -------
    bool
        True for the folds of `UnseenClassFolds`: test samples are then searched among themselves.
        In a single class every neighbour would be right.
    """
    return np.unique(y_test).size > 1 and not np.isin(y_test, y_train).any()
