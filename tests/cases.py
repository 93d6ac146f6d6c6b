"""Generated data and comparisons that several test files share."""

from __future__ import annotations

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mpda.discriminant.within_form import WithinForm


def unequal_classes(seed, sizes=(23, 14, 9, 1), d=6, duplicates=3):
    """Draw classes of unequal size, one of a single sample, with some duplicate samples."""
    rng = np.random.default_rng(seed)
    classes = []
    for c, size in enumerate(sizes):
        rotation = rng.normal(size=(2, d))
        samples = rng.normal(size=(size, 2)) ** 2 @ rotation + 0.3 * rng.normal(size=(size, d)) + c
        if size > 2 * duplicates:
            samples[size - duplicates :] = samples[:duplicates]
        classes.append(samples)
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(y))
    return np.concatenate(classes)[order], y[order]


def coupled_class(seed, n=30, d=7, n_patches=6):
    """One class with duplicate points and labels of patches of unequal size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1)
    X[-4:] = X[:4]
    labels = np.concatenate([np.arange(n_patches), rng.integers(0, n_patches - 2, n - n_patches)])
    return X, labels


def uncoupled_form(off_diagonal, first_order):
    """A form from blocks (P, d, m) and (P, m, m) in which no two patches are joined."""
    P, _, m = off_diagonal.shape
    zeros, pairs, mask = np.zeros((P, m, m)), np.empty((0, 2), dtype=int), np.ones((P, m), bool)
    return WithinForm(off_diagonal, first_order, zeros, pairs, zeros[:0], mask)


def largest_angle(A, B):
    """Return the largest principal angle between the column spaces of A and B."""
    return float(subspace_angles(A, B).max())


def bent_classes(seed=0, d=5, sizes=(30, 22, 25)):
    """Draw three curved classes; no two distances are equal."""
    rng = np.random.default_rng(seed)
    classes = []
    for c, size in enumerate(sizes):
        u = rng.uniform(-1, 1, size=(size, 2))
        curved = np.column_stack([u, u**2, rng.normal(scale=0.3, size=(size, d))])[:, :d]
        classes.append(curved @ rng.normal(size=(d, d)) + 2.0 * rng.normal(size=d) + c)
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(y))
    return np.concatenate(classes)[order], y[order]


def apart(model, gap=1e-3):
    """Return a mask of the components whose eigenvalues are apart from their neighbours.

    Only these are determined as vectors; the others only as a subspace.
    """
    eigenvalues = getattr(model, "eigenvalues_", None)
    if eigenvalues is None:  # LSDR: principal axes of a subspace
        return np.ones(len(model.components_), dtype=bool)
    if type(model).__name__ == "DMLMJ":
        eigenvalues = eigenvalues + 1.0 / eigenvalues  # sorted by divergence
    gaps = np.abs(np.diff(eigenvalues)) / np.maximum(eigenvalues[:-1], eigenvalues[1:])
    return np.minimum(np.r_[np.inf, gaps], np.r_[gaps, np.inf]) > gap


def same_rows(model, other, tolerance=1e-6):
    """Compare the components of two models where their eigenvalues are apart."""
    separated = apart(model)
    assert separated.mean() > 0.5
    lengths = np.linalg.norm(model.components_, axis=1)
    error = np.linalg.norm(model.components_ - other.components_, axis=1) / lengths
    assert error[separated].max() < tolerance


def lda_subspace(X, y):
    """Return the discriminant directions of LDA as columns (d, n_classes - 1)."""
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    return lda.scalings_[:, : len(np.unique(y)) - 1]


def orthonormal_rows(r, d, seed=0):
    """Draw an orthonormal basis of a random subspace of dimension r, as rows (r, d)."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, r)))[0].T
