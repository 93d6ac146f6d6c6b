"""Sparse samples give the maps of dense ones, without a dense copy of all of them."""

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, csr_matrix, random_array
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from cases import apart
from mpda import LFDA, MFA, MPDA, PMPDA, GramPCA, NeighborhoodRefinement
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors import neighbor_lists
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors

pytestmark = pytest.mark.filterwarnings(
    "ignore::mpda.exceptions.SmallClassWarning", "ignore::mpda.exceptions.FeatureScaleWarning"
)

METHODS = [
    MPDA(n_neighbors=5),
    MPDA(n_neighbors=5, partition="tree", affinity="full"),
    PMPDA(n_neighbors=5),
    LFDA(n_neighbors=5, alpha=0.1),
    NeighborhoodRefinement(MPDA(n_neighbors=5), n_components=3),
    NeighborhoodRefinement(GramPCA(), n_components=3),
    GramPCA(),
]


def name(method):
    return str(method).replace(" ", "").replace("\n", "")


def slow(method):
    """Mark a method whose search takes a second or more."""
    return pytest.param(method, marks=pytest.mark.slow)


def word_counts(n=120, d=40, n_classes=3, density=0.15, seed=0):
    """Draw samples with mostly zeros, whose classes differ in the features that occur."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    rates = density * (0.3 + 2.0 * rng.uniform(size=(n_classes, d)) ** 2)
    return csr_array(rng.poisson(rates[y]) * rng.uniform(0.5, 1.5, size=(n, d))), y


def assert_same_map(sparse, dense, tolerance=1e-8):
    mask = apart(dense) if hasattr(dense, "eigenvalues_") else slice(None)
    expected = dense.components_[mask]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(sparse.components_[mask], expected, atol=tolerance * scale)
    np.testing.assert_allclose(sparse.mean_, dense.mean_, atol=1e-12 * np.abs(dense.mean_).max())


@pytest.mark.parametrize("n", [120, 30], ids=["more samples", "more features"])
@pytest.mark.parametrize("method", METHODS, ids=name)
def test_sparse_samples_give_the_map_of_dense_ones(method, n):
    X, y = word_counts(n)
    dense = method.fit(X.toarray(), y)
    mapped = dense.transform(X.toarray())
    components, mean = dense.components_, dense.mean_
    sparse = method.fit(X, y)
    np.testing.assert_allclose(sparse.mean_, mean, atol=1e-12)
    if isinstance(method, GramPCA):  # directions without variance are rounding
        return
    np.testing.assert_allclose(sparse.components_, components, atol=1e-7 * np.abs(components).max())
    np.testing.assert_allclose(sparse.transform(X), mapped, atol=1e-7 * np.abs(mapped).max())


@pytest.mark.parametrize("kind", ["counts", "copies", "numbers"])
def test_neighbours_by_sparse_products_are_those_of_dense_samples(monkeypatch, kind):
    rng = np.random.default_rng(5)
    X = rng.poisson(0.05, (300, 200)).astype(float)  # counts: most distances occur many times
    if kind == "copies":
        X = X[rng.integers(0, 60, len(X))]
    if kind == "numbers":
        X *= rng.uniform(size=X.shape)
    expected = find_neighbors(ClassPoints(X), 9)
    monkeypatch.setattr(neighbor_lists, "_DIRECT_SEARCH_LIMIT", 0)
    points = ClassPoints(X, csr_array(X))
    points.__dict__["straight"] = None  # all pairs of dense samples must not be used
    found = find_neighbors(points, 9)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=name)
@pytest.mark.parametrize("constant", [2e3, 1e6])
def test_column_with_an_offset_loses_no_digits(method, constant):
    X, y = word_counts()
    X = X.toarray()
    X[:, 3] += constant
    dense = clone(method).fit(X, y)
    sparse = clone(method).fit(csr_array(X), y)
    # Coordinates of 1e6 have a rounding of 1e-10, which both fits have.
    scale = np.abs(dense.components_).max()
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7 * scale)


@pytest.mark.parametrize("method", METHODS, ids=name)
def test_zeros_of_samples_without_weight_cost_no_digits(method):
    X, y = word_counts()
    X = X.toarray()
    X[:, 3] += 2e5
    X[4] = 0.0
    weights = np.ones(len(X))
    weights[4] = 0.0
    dense = clone(method).fit(X, y, sample_weight=weights)
    sparse = clone(method).fit(csr_array(X), y, sample_weight=weights)
    scale = np.abs(dense.components_).max()
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7 * scale)


def test_entries_may_be_stored_in_summands():
    X, y = word_counts()
    once = csr_array(X)
    twice = csr_array(
        (np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), 2 * once.indptr), once.shape
    )
    stored = twice.data.copy()
    found = MPDA(3, n_neighbors=5).fit(twice, y)
    expected = MPDA(3, n_neighbors=5).fit(once, y)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10)
    np.testing.assert_array_equal(twice.data, stored)


def test_pca_of_sparse_samples():
    X, y = word_counts()
    weights = np.random.default_rng(1).uniform(size=len(y))
    for sample_weight in (None, weights):
        dense = GramPCA(10).fit(X.toarray(), sample_weight=sample_weight)
        variances, components = dense.explained_variance_, dense.components_
        sparse = GramPCA(10).fit(X, sample_weight=sample_weight)
        np.testing.assert_allclose(sparse.explained_variance_, variances, rtol=1e-9)
        np.testing.assert_allclose(sparse.components_, components, atol=1e-8)
    assert GramPCA().fit(word_counts(20)[0]).components_.shape == (19, 40)


@pytest.mark.parametrize("kind", [csr_matrix, csc_array, "float32", "int64 indices"])
def test_kinds_of_sparse_matrices(kind):
    X, y = word_counts()
    expected = MPDA(n_neighbors=5, n_components=2).fit(X.toarray(), y)
    if kind == "float32":
        other = X.astype(np.float32)
    elif kind == "int64 indices":
        other = csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    else:
        other = kind(X)
    model = MPDA(n_neighbors=5, n_components=2).fit(other, y)
    assert model.components_.dtype == model.transform(other).dtype == other.dtype
    assert_same_map(model, expected, 1e-3 if kind == "float32" else 1e-9)


def test_weights_of_sparse_samples():
    X, y = word_counts()
    weights = np.random.default_rng(1).integers(0, 3, len(y))
    sparse = MPDA(n_neighbors=5).fit(X, y, weights)
    assert_same_map(sparse, MPDA(n_neighbors=5).fit(X.toarray(), y, weights))


def test_extreme_sparse_samples_are_scaled():
    X, y = word_counts()
    large = MPDA(n_neighbors=5).fit(1e200 * X, y).components_
    expected = MPDA(n_neighbors=5).fit(1e200 * X.toarray(), y).components_
    np.testing.assert_allclose(large, expected, atol=1e-8 * np.abs(expected).max())


def test_classes_can_be_added():
    X, y = word_counts(n_classes=4)
    first = y < 2
    added = MPDA(n_neighbors=5).fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    dense = X.toarray()
    expected = MPDA(n_neighbors=5).fit(dense[first], y[first]).partial_fit(dense[~first], y[~first])
    assert_same_map(added, expected)


@pytest.mark.parametrize("start", [GramPCA(), slow(NeighborhoodRefinement(GramPCA()))], ids=name)
def test_search_over_components_of_sparse_pca(start):
    X, y = word_counts()
    search = DiscriminantSearchCV(start, {}, n_components=[2, 3], cv=3)
    scores = search.fit(X.toarray(), y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.fit(X, y).cv_results_["mean_test_score"], scores, atol=0.03)


@pytest.mark.parametrize("method", [MPDA(), LFDA(), slow(NeighborhoodRefinement())], ids=name)
def test_search_takes_sparse_samples(method):
    X, y = word_counts()
    name = "estimator__n_neighbors" if hasattr(method, "estimator") else "n_neighbors"
    search = DiscriminantSearchCV(method, {name: [4, 7]}, n_components=[2, 3], cv=3)
    if isinstance(method, LFDA):
        method.set_params(alpha=0.1)
    scores = search.fit(X.toarray(), y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.fit(X, y).cv_results_["mean_test_score"], scores, atol=0.03)
    assert search.predict(X).shape == y.shape


def test_memory_is_that_of_one_class(monkeypatch):
    """No array as large as X is made: every dense copy has the rows of one class at most."""
    X, y = word_counts(400, 30, n_classes=8)
    largest = []
    todense = csr_array.todense

    def record(self, *arguments, **options):
        largest.append(self.shape[0])
        return todense(self, *arguments, **options)

    monkeypatch.setattr(csr_array, "todense", record)
    MPDA(n_neighbors=5).fit(X, y).transform(X)
    assert 0 < max(largest) <= 50


@pytest.mark.parametrize("method", [MPDA(), LFDA(), GramPCA(), NeighborhoodRefinement()], ids=name)
def test_too_many_features_are_refused_with_a_remedy(method):
    X = random_array((60, 5001), density=0.01, rng=np.random.default_rng(0), format="csr")
    y = np.arange(60) % 3
    with pytest.raises(ValueError, match=r"5,001 sparse features.*0\.2 GB each.*TruncatedSVD"):
        method.fit(X, y)
    model = make_pipeline(TruncatedSVD(20, random_state=0), MPDA(n_components=2))
    assert model.fit_transform(X, y).shape == (60, 2)


def test_other_methods_refuse_sparse_samples():
    X, y = word_counts()
    with pytest.raises(TypeError, match="dense data is required"):
        MFA().fit(X, y)
