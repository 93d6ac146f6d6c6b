"""Unlabelled samples: the form over all samples against its definition, and its limits."""

import numpy as np
import pytest
from scipy.linalg import eigh

import oracles
from cases import bent_classes, largest_angle, same_rows
from mpda import MPDA, ManifoldPartition
from mpda.model_selection import DiscriminantSearchCV

pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


def partly_labelled(seed=0):
    X, y = bent_classes(seed)
    labels = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    return X, labels


def reduced_form(X, y, patch, k, gamma, alpha, beta):
    """Return S_tt and S_tv (S_vv + beta I)^-1 S_vt by the sums written out; beta may be None."""
    d = X.shape[1]
    bases = [oracles.tangent_basis(X[patch == p], 0.95) for p in range(patch.max() + 1)]
    units = oracles.relative_units(X, y, patch, bases, k)
    alpha = alpha * units[1]
    beta = alpha if beta is None else beta * units[2]
    S = oracles.within_form(X, oracles.within_graph(X, y, k), patch, bases, gamma * units[0])
    V = S[d:, d:] + beta * np.eye(len(S) - d)
    return S[:d, :d], S[:d, d:] @ np.linalg.solve(V, S[d:, :d]), alpha


@pytest.mark.parametrize("tangent_alpha", [None, 0.5])
@pytest.mark.parametrize("weight", [0.3, 2.0])
def test_fit_is_the_eigenproblem_with_the_form_over_all_samples(weight, tangent_alpha):
    X, labels = partly_labelled()
    k, gamma, alpha = 4, 0.1, 0.2
    model = MPDA(n_neighbors=k, unlabeled=-1, unlabeled_weight=weight, tangent_alpha=tangent_alpha)
    model.fit(X, labels)
    known = labels != -1
    assert (model.patch_labels_[~known] == -1).all()
    assert model.classes_.tolist() == [0, 1, 2]
    within, eliminated, ridge = reduced_form(
        X[known], labels[known], model.patch_labels_[known], k, gamma, alpha, tangent_alpha
    )
    patches = ManifoldPartition(max_patch_size=10).fit_predict(X)
    all_within, all_eliminated, _ = reduced_form(
        X, np.zeros(len(X)), patches, k, gamma, alpha, tangent_alpha
    )
    factor = weight * np.trace(within) / np.trace(all_within)
    B = within - eliminated + ridge * np.eye(len(within)) + factor * (all_within - all_eliminated)
    A = oracles.between_form(X[known], labels[known], k, False)
    values = eigh(A, B, eigvals_only=True)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[: len(model.eigenvalues_)], rtol=1e-8)
    np.testing.assert_allclose(model.mean_, X[known].mean(axis=0))


def test_weight_zero_is_the_fit_to_labelled_samples():
    X, labels = partly_labelled()
    known = labels != -1
    expected = MPDA(n_neighbors=4).fit(X[known], labels[known])
    model = MPDA(n_neighbors=4, unlabeled=-1, unlabeled_weight=0.0).fit(X, labels)
    same_rows(expected, model, 1e-9)
    np.testing.assert_allclose(model.mean_, expected.mean_)
    assert model.strengths_ == pytest.approx(expected.strengths_)


def test_every_label_is_a_class_unless_asked():
    X, labels = partly_labelled()
    assert MPDA(n_neighbors=4).fit(X, labels).classes_.tolist() == [-1, 0, 1, 2]
    names = np.array(["a", "b", "c", "?"])[labels]
    model = MPDA(n_neighbors=4, unlabeled="?").fit(X, names)
    assert model.classes_.tolist() == ["a", "b", "c"]
    same_rows(MPDA(n_neighbors=4, unlabeled=-1).fit(X, labels), model, 1e-12)


def test_more_features_than_samples_and_a_missing_label():
    X, labels = partly_labelled()
    wide = np.random.default_rng(0).normal(size=(len(X), 120)) + np.pad(X, ((0, 0), (0, 115)))
    assert MPDA(2, unlabeled=-1).fit(wide, labels).transform(wide).shape == (len(X), 2)
    y = np.abs(labels)  # no sample is without a label
    assert MPDA(2, unlabeled=-1).fit(X, y).transform(X).shape == (len(X), 2)


def test_what_does_not_go_together_is_refused():
    X, labels = partly_labelled()
    method = MPDA(unlabeled=-1)
    with pytest.raises(ValueError, match="cannot be combined with sample_weight"):
        method.fit(X, labels, np.ones(len(X)))
    with pytest.raises(ValueError, match="cannot be combined with patches"):
        method.fit(X, labels, patches=np.zeros(len(X), dtype=int))
    with pytest.raises(ValueError, match="cannot be combined with class_weight"):
        MPDA(unlabeled=-1, class_weight="balanced").fit(X, labels)
    with pytest.raises(ValueError, match="unlabeled must be None in partial_fit"):
        method.partial_fit(X, labels)
    with pytest.raises(ValueError, match="unlabeled must be None in a search"):
        DiscriminantSearchCV(method, {"n_neighbors": [3]}).fit(X, labels)
    for name in ("unlabeled", "unlabeled_weight"):
        grid = {"unlabeled": [-1], "unlabeled_weight": [0.0, 10.0]}
        with pytest.raises(ValueError, match="unlabeled must be None in a search"):
            DiscriminantSearchCV(MPDA(), {"unlabeled": [-1], name: grid[name]}).fit(X, labels)
    with pytest.raises(ValueError, match="computed with other parameters"):
        MPDA(unlabeled=-1).fit(X, labels).set_params(unlabeled=None).partial_fit(X[:9], [7] * 9)
    with pytest.raises(ValueError, match="only 1 class"):
        method.fit(X, np.where(labels == 0, 0, -1))
    with pytest.raises(ValueError, match="unlabeled_weight must be"):
        MPDA(unlabeled=-1, unlabeled_weight=-1.0).fit(X, labels)


def test_form_counts_with_one_labelled_sample_in_each_class():
    X, labels = partly_labelled()
    first = [np.flatnonzero(labels == c)[0] for c in np.unique(labels[labels >= 0])]
    few = np.full(len(X), -1)
    few[first] = labels[first]
    maps = [MPDA(2, unlabeled=-1, unlabeled_weight=w).fit(X, few).components_ for w in (0, 1.0)]
    assert largest_angle(maps[0].T, maps[1].T) > 0.1
    scaled = MPDA(2, unlabeled=-1, unlabeled_weight=1.0).fit(1000.0 * X, few).components_
    assert largest_angle(maps[1].T, scaled.T) < 1e-6


@pytest.mark.parametrize(
    ("label", "kind"), [(-1, str), (-1, np.uint8), ([-1, 0], int), (True, int), ("-1", int)]
)
def test_label_of_another_kind_is_refused(label, kind):
    X, labels = partly_labelled()
    with pytest.raises(ValueError, match=r"cannot be a label of y|must be one label"):
        MPDA(unlabeled=label).fit(X, labels.astype(kind))
    objects = np.where(labels < 0, "?", labels.astype(str)).astype(object)
    assert MPDA(unlabeled="?").fit(X, objects).classes_.tolist() == ["0", "1", "2"]
    assert MPDA(unlabeled=-1.0).fit(X, labels).classes_.tolist() == [0, 1, 2]
