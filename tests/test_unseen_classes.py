"""Folds that hold out whole classes: every class once, parts of equal size, groups apart."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from mpda.model_selection import UnseenClassFolds
from mpda.model_selection.unseen_classes import is_unseen


def make_labels(seed, n_classes, largest=40):
    """Return shuffled labels of classes of random sizes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest, size=n_classes)
    return rng.permutation(np.repeat(np.array([f"class {c}" for c in range(n_classes)]), sizes))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_splits", "n_classes"), [(2, 4), (2, 7), (4, 8), (4, 77), (5, 23)])
def test_every_class_is_held_out_once(n_splits, n_classes, seed):
    y = make_labels(seed, n_classes)
    folds = list(UnseenClassFolds(n_splits, random_state=seed).split(y[:, None], y))
    assert len(folds) == n_splits
    n_held_out = [len(set(y[test])) for _, test in folds]
    assert sum(n_held_out) == n_classes
    assert min(n_held_out) >= max(2, max(n_held_out) - 1)
    for train, test in folds:
        assert not set(y[train]) & set(y[test])
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert is_unseen(y[train], y[test])
    n_test = [len(test) for _, test in folds]
    assert sum(n_test) == len(y)
    assert max(n_test) - min(n_test) <= np.unique(y, return_counts=True)[1].max()


def test_parts_are_drawn_at_random():
    y = np.repeat(np.arange(20), 5)
    splitter = UnseenClassFolds(random_state=3)

    def held_out(splitter):
        return [tuple(np.unique(y[test])) for _, test in splitter.split(y, y)]

    assert held_out(splitter) == held_out(splitter)
    assert held_out(splitter) != held_out(UnseenClassFolds(random_state=4))
    assert held_out(UnseenClassFolds()) == held_out(UnseenClassFolds(random_state=0))
    # Every pair of classes is held out together in some draw.
    pairs = {
        (a, b)
        for seed in range(60)
        for part in held_out(UnseenClassFolds(random_state=seed))
        for a in part
        for b in part
        if a < b
    }
    assert len(pairs) == 20 * 19 / 2
    assert held_out(UnseenClassFolds(random_state=None)) != held_out(
        UnseenClassFolds(random_state=None)
    )


def test_groups_of_the_test_part_are_left_out_of_training():
    rng = np.random.default_rng(0)
    y, groups = rng.integers(12, size=300), rng.integers(100, size=300)
    for train, test in UnseenClassFolds(3).split(y, y, groups):
        assert not set(groups[train]) & set(groups[test])
        others = np.setdiff1d(np.arange(300), test)
        np.testing.assert_array_equal(train, others[~np.isin(groups[others], groups[test])])
        assert 0 < len(train) < len(others)
    plain = UnseenClassFolds(3).split(y, y)
    for (_, test), (_, expected) in zip(
        UnseenClassFolds(3).split(y, y, groups), plain, strict=True
    ):
        np.testing.assert_array_equal(test, expected)


def test_groups_that_leave_too_few_classes_are_refused():
    y = np.repeat(np.arange(4), 5)
    with pytest.raises(ValueError, match=r"fold 0 has samples of 0 classes, .*: 10 samples"):
        list(UnseenClassFolds(2).split(y, y, np.zeros(20)))


def test_too_few_classes_are_refused_with_the_possible_number():
    y = np.repeat(np.arange(7), 3)
    with pytest.raises(ValueError, match=r"needs 8 classes, .* y has 7. At most 3 folds"):
        next(UnseenClassFolds(4).split(y, y))
    with pytest.raises(ValueError, match=r"needs 4 classes, .* y has 3. 2 folds need 4"):
        next(UnseenClassFolds(2).split(y[:9], y[:9]))


def test_bad_input_is_refused():
    y = np.repeat(np.arange(8), 3)
    with pytest.raises(ValueError, match="n_splits must be at least 2"):
        UnseenClassFolds(1)
    with pytest.raises(TypeError, match="n_splits must be an int"):
        UnseenClassFolds(2.5)
    with pytest.raises(ValueError, match="needs labels"):
        next(UnseenClassFolds().split(y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(UnseenClassFolds().split(y[:, None], y[:-1]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(UnseenClassFolds().split(y, y, y[:-1]))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        next(UnseenClassFolds().split(y, np.where(y == 0, np.nan, y)))


def test_it_is_a_splitter_of_scikit_learn():
    splitter = UnseenClassFolds(n_splits=3, random_state=5)
    assert repr(splitter) == "UnseenClassFolds(n_splits=3, random_state=5)"
    assert splitter.get_n_splits() == 3
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.repeat(np.arange(6), 10)
    scores = cross_val_score(KNeighborsClassifier(1), X, y, cv=splitter)
    # No classifier knows a class that it has not seen.
    np.testing.assert_array_equal(scores, np.zeros(3))


def test_seen_classes_are_recognised():
    assert is_unseen(["a", "b"], ["c", "d"])
    assert not is_unseen(["a", "b"], ["b", "c"])
    assert is_unseen(np.array([1, 2]), np.array([3, 4, 3]))
    assert not is_unseen(np.array([1, 2]), np.array([3, 3]))  # all neighbours would be right
    assert isinstance(is_unseen([1], [1]), bool)
