"""GramPCA beside scikit-learn's PCA."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from cases import largest_angle
from mpda import GramPCA


def unequal_axes(n=60, d=7, seed=0):
    """Samples far from the origin whose variances are apart."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * 2.0 ** -np.arange(d) @ turn + 100.0


@pytest.mark.parametrize("scale", [1.0, 1e-9, 3e7])
def test_variances_and_components_are_those_of_pca(scale):
    X = scale * unequal_axes()
    ours, theirs = GramPCA().fit(X), PCA(svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    for name in ("explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    products = np.abs(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(products, 1.0, atol=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.75, 0.9, 0.99])
def test_a_share_is_held_by_the_fewest_components(share):
    X = unequal_axes()
    model = GramPCA(share).fit(X)
    held = np.cumsum(GramPCA().fit(X).explained_variance_ratio_)
    assert model.n_components_ == np.flatnonzero(held >= share)[0] + 1
    assert model.explained_variance_ratio_.sum() >= share


def test_blocks_of_rows_add_up(monkeypatch):
    X = unequal_axes()
    whole = GramPCA(3).fit(X)
    monkeypatch.setattr("mpda.discriminant.scatter._BLOCK_ENTRIES", 35)
    monkeypatch.setattr("mpda._lib.coordinates._BLOCK_ENTRIES", 35)
    parts = GramPCA(3).fit(X)
    assert largest_angle(whole.components_.T, parts.components_.T) < 1e-7
    np.testing.assert_allclose(parts.explained_variance_, whole.explained_variance_)
