"""Generated data that the tests share."""

from __future__ import annotations

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mpda.discriminant.within_form import WithinForm


def unequal_classes(seed, sizes=(23, 14, 9, 1), d=6, duplicates=3):
    """Classes of unequal size, one of one point, with some duplicate points."""
    rng = np.random.default_rng(seed)
    parts, labels = [], []
    for c, size in enumerate(sizes):
        turn = rng.normal(size=(2, d))
        part = rng.normal(size=(size, 2)) ** 2 @ turn + 0.3 * rng.normal(size=(size, d)) + c
        if size > 2 * duplicates:
            part[size - duplicates :] = part[:duplicates]
        parts.append(part)
        labels += [c] * size
    order = rng.permutation(len(labels))
    return np.concatenate(parts)[order], np.array(labels)[order]


def uncoupled_form(cross, first_order):
    """A form (P, d, m), (P, m, m) in which no two patches are joined."""
    P, _, m = cross.shape
    turning, pairs = np.zeros((P, m, m)), np.empty((0, 2), dtype=int)
    return WithinForm(cross, first_order, turning, pairs, turning[:0], np.ones((P, m), dtype=bool))


def largest_angle(A, B):
    """The largest principal angle between the column spaces of A and B."""
    return float(subspace_angles(A, B).max())


def bent_classes(seed=0, d=5, sizes=(30, 22, 25)):
    """Three classes of bent pieces; no distances tie."""
    rng = np.random.default_rng(seed)
    parts = []
    for c, size in enumerate(sizes):
        u = rng.uniform(-1, 1, size=(size, 2))
        part = np.column_stack([u, u**2, rng.normal(scale=0.3, size=(size, d))])[:, :d]
        parts.append(part @ rng.normal(size=(d, d)) + 2.0 * rng.normal(size=d) + c)
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(y))
    return np.concatenate(parts)[order], y[order]


def apart(model):
    """Which rows stand alone: their eigenvalues are apart from those of their neighbours."""
    lambdas = getattr(model, "eigenvalues_", None)
    if lambdas is None:  # LSDR: principal axes of a subspace
        return np.ones(len(model.components_), dtype=bool)
    gaps = np.abs(np.diff(lambdas)) / np.maximum(lambdas[:-1], lambdas[1:])
    return np.minimum(np.r_[np.inf, gaps], np.r_[gaps, np.inf]) > 1e-3


def same_rows(one, other, tolerance=1e-6):
    chosen = apart(one)
    assert chosen.mean() > 0.5
    lengths = np.linalg.norm(one.components_, axis=1)
    error = np.linalg.norm(one.components_ - other.components_, axis=1) / lengths
    assert error[chosen].max() < tolerance


def lda_subspace(X, y):
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    return lda.scalings_[:, : len(np.unique(y)) - 1]


def orthonormal_rows(r, d, seed=0):
    """A subspace of dimension r, drawn at random (r, d)."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, r)))[0].T
