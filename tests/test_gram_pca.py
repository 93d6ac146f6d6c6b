"""GramPCA against scikit-learn's PCA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from cases import largest_angle
from mpda import GramPCA


def elongated_samples(n=60, d=7):
    """Samples far from the origin whose variances are apart."""
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * 2.0 ** -np.arange(d) @ rotation + 100.0


@pytest.mark.parametrize("scale", [1.0, 1e-9, 3e7])
def test_variances_and_components_equal_those_of_pca(scale):
    X = scale * elongated_samples()
    gram, pca = GramPCA().fit(X), PCA(svd_solver="full").fit(X)
    np.testing.assert_allclose(gram.mean_, pca.mean_, rtol=1e-12)
    for name in ("explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(gram, name), getattr(pca, name), rtol=1e-6)
    cosines = np.abs(np.sum(gram.components_ * pca.components_, axis=1))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.75, 0.9, 0.99])
def test_a_share_of_variance_takes_the_fewest_components(share):
    X = elongated_samples()
    model = GramPCA(share).fit(X)
    cumulative = np.cumsum(GramPCA().fit(X).explained_variance_ratio_)
    assert model.n_components_ == np.flatnonzero(cumulative >= share)[0] + 1
    assert model.explained_variance_ratio_.sum() >= share


def test_samples_in_several_blocks_equal_those_of_pca():
    X = elongated_samples(n=150_000)  # 1.05 million entries, more than a block
    gram, pca = GramPCA(3).fit(X), PCA(3, svd_solver="full").fit(X)
    assert largest_angle(gram.components_.T, pca.components_.T) < 1e-7
    np.testing.assert_allclose(gram.explained_variance_, pca.explained_variance_, rtol=1e-9)


@pytest.mark.parametrize("n_components", [0, 8, 1.0, 0.0, "mle", True])
def test_invalid_numbers_of_components_are_rejected(n_components):
    with pytest.raises((ValueError, TypeError), match="n_components"):
        GramPCA(n_components).fit(elongated_samples())
