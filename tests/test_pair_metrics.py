"""GMML and DMLMJ against their definitions, written out pair by pair."""

from collections import Counter

import numpy as np
import pytest
from scipy.linalg import eigh, sqrtm, subspace_angles
from sklearn.datasets import load_iris
from sklearn.model_selection import ParameterGrid

import mpda.baselines.geometric_mean as geometric_mean
import mpda.baselines.jeffrey_divergence as jeffrey_divergence
from cases import bent_classes
from mpda import DMLMJ, GMML
from mpda.exceptions import SingularFormError, SmallClassWarning
from mpda.experiments import rivals
from mpda.model_selection import DiscriminantSearchCV


@pytest.fixture(scope="module")
def samples():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    keep = rng.permutation(150)[:60]
    return X[keep] + 0.01 * rng.normal(size=(60, 4)), y[keep]


def mean_outer(pairs):
    return np.mean([np.outer(a - b, a - b) for a, b in pairs], axis=0)


@pytest.mark.parametrize("t", [0.0, 0.3, 0.5, 1.0])
def test_gmml_is_the_geometric_mean_of_the_scatters_of_pairs(samples, t):
    X, y = samples
    pairs = [(i, j) for i in range(len(y)) for j in range(i)]
    S = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] == y[j]])
    D = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] != y[j]])
    root = np.real(sqrtm(S))
    values, vectors = np.linalg.eigh(root @ D @ root)
    expected = np.linalg.solve(root, (vectors * values**t) @ vectors.T) @ np.linalg.inv(root)
    components = GMML(geodesic=t).fit(X, y).components_
    assert components.T @ components == pytest.approx(expected, rel=1e-6, abs=1e-8)
    lengths = np.linalg.norm(components, axis=1)
    assert np.all(np.diff(lengths) <= 1e-12)
    assert components @ components.T == pytest.approx(np.diag(lengths**2), abs=1e-8)


def test_gmml_solves_the_riccati_equation(samples):
    """For t = 1/2 the mean A is the positive solution of A S A = D."""
    X, y = samples
    pairs = [(i, j) for i in range(len(y)) for j in range(i)]
    S = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] == y[j]])
    D = mean_outer([(X[i], X[j]) for i, j in pairs if y[i] != y[j]])
    components = GMML().fit(X, y).components_
    A = components.T @ components
    assert pytest.approx(D, rel=1e-6, abs=1e-8) == A @ S @ A


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("k", [5, 25])  # 25 are more than the others of a class
def test_dmlmj_maximises_the_jeffrey_divergence(samples, k):
    X, y = samples
    near, far = [], []
    for i in range(len(y)):
        order = np.argsort(np.linalg.norm(X - X[i], axis=1), kind="stable")
        near += [(X[i], X[j]) for j in order if y[j] == y[i] and j != i][:k]
        far += [(X[i], X[j]) for j in order if y[j] != y[i]][:k]
    S, D = mean_outer(near), mean_outer(far)
    values, vectors = eigh(D, S)
    best = np.argsort(-(values + 1 / values))[:2]
    components = DMLMJ(2, n_neighbors=k).fit(X, y).components_
    assert components.shape == (2, 4)
    assert subspace_angles(components.T, vectors[:, best]).max() < 1e-4


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_directions_without_differences_come_last_in_dmlmj(alpha):
    """One feature varies between two classes of duplicates only, far from all the others."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    X = np.column_stack([X, 1e4 * (np.arange(40) >= 20)])  # no neighbour differs in the last one
    components = DMLMJ(alpha=alpha).fit(X, y).components_
    assert np.abs(components[:-1, -1]).max() < 1e-8 * np.abs(components[-1, -1])


def test_power_of_dmlmj_is_relative_to_the_largest_eigenvalue():
    """Samples of many classes without structure are nearer to others than to their own."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(200, 4)) * [1.0, 2.0, 3.0, 4.0], np.arange(200) % 20
    plain, powered = (DMLMJ(alpha=0.01, eigenvalue_power=p).fit(X, y) for p in (0.0, 0.5))
    values = plain.eigenvalues_
    assert values[0] < values.max() < 1.0
    factors = np.sqrt(values / values.max())[:, None]
    np.testing.assert_allclose(powered.components_, factors * plain.components_)
    two = DMLMJ(2, alpha=0.01, eigenvalue_power=0.5).fit(X, y)
    np.testing.assert_array_equal(two.components_, powered.components_[:2])


def test_committed_rows_find_the_public_classes():
    assert (rivals.GMML, rivals.DMLMJ) == (GMML, DMLMJ)


def test_weights_of_gmml_are_multiplicities_up_to_the_length_of_components(samples):
    X, y = samples
    counts = np.random.default_rng(2).integers(0, 4, size=len(y))
    weighted = GMML(alpha=0.1).fit(X, y, sample_weight=counts)
    repeated = GMML(alpha=0.1).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    ratios = weighted.components_ / repeated.components_
    np.testing.assert_allclose(ratios, ratios[0, 0], rtol=1e-8)
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    equal = GMML().fit(X, y, sample_weight=np.full(len(y), 3.0))
    np.testing.assert_array_equal(equal.components_, GMML().fit(X, y).components_)


@pytest.mark.parametrize("geodesic", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("factor", [2.0**-200, 8.0, 2.0**200])
def test_metric_scales_with_the_samples(samples, geodesic, factor):
    """S and D have squared units, so A has them to the power 2 t - 1."""
    X, y = samples
    plain, scaled = (GMML(geodesic=geodesic).fit(Z, y) for Z in (X, factor * X))
    expected = factor ** (2.0 * geodesic - 1.0) * plain.components_
    np.testing.assert_allclose(scaled.components_, expected, rtol=1e-9)
    np.testing.assert_allclose(
        scaled.eigenvalues_, np.sum(scaled.components_**2, axis=1), rtol=1e-10
    )


@pytest.mark.parametrize("method", [GMML(alpha=1e-3), DMLMJ(alpha=1e-3)])
def test_directions_in_which_nothing_varies_have_no_component(method):
    X, y = bent_classes(d=4)
    fitted = method.fit(X, y)
    wide = np.column_stack([X, X[:, 0] - 2.0 * X[:, 1], np.full(len(X), 7.0)])
    padded = type(method)(**method.get_params()).fit(wide, y)
    assert padded.components_.shape == (4, 6)
    assert fitted.components_.shape == (4, 4)
    np.testing.assert_array_equal(padded.components_[:, 5], 0.0)


@pytest.mark.parametrize("method", [GMML(), DMLMJ()])
def test_more_features_than_samples(method):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 80)), np.arange(30) % 3
    fitted = method.set_params(alpha=0.2).fit(X, y)
    assert fitted.components_.shape == (29, 80)
    centred = X - X.mean(axis=0)
    outside = centred.T @ np.linalg.lstsq(centred.T, fitted.components_.T)[0]
    np.testing.assert_allclose(outside.T, fitted.components_, atol=1e-8)


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("method", [GMML(), DMLMJ()])
def test_classes_without_differences_inside_are_refused(method):
    with pytest.raises(SingularFormError, match="All samples of each class are identical"):
        method.fit(np.repeat(np.eye(3), 4, axis=0), np.repeat([0, 1, 2], 4))
    with pytest.raises(SingularFormError, match="more than one distinct sample of some class"):
        method.fit(np.eye(3), [0, 1, 2])


def test_small_classes_are_named_at_the_line_of_the_fit():
    X, y = bent_classes(7, sizes=(30, 4, 25))
    with pytest.warns(SmallClassWarning, match="class 1") as caught:
        DMLMJ().fit(X, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("method", "grid", "counts"),
    [
        (
            GMML(),
            {"geodesic": [0.2, 0.5, 0.8], "alpha": [0.0, 0.1]},
            {"all_pair_scatters": 1, "geodesic_spectrum": 2},
        ),
        (
            DMLMJ(),
            {"n_neighbors": [3, 6], "alpha": [0.0, 0.1], "eigenvalue_power": [0.0, 0.25, 0.5]},
            {"neighbor_scatters": 2, "jeffrey_directions": 4},
        ),
    ],
)
def test_a_search_computes_shared_work_once(method, grid, counts, monkeypatch):
    X, y = bent_classes()
    points, calls = list(ParameterGrid(grid)), Counter()
    expected = [method.set_params(**point).fit(X, y).components_.copy() for point in points]

    def counted(function):
        def call(*arguments):
            calls[function.__name__] += 1
            return function(*arguments)

        return call

    # The stages of a fit are reached through these names only.
    from mpda.estimators import _dmlmj

    modules = {
        "all_pair_scatters": geometric_mean,
        "geodesic_spectrum": geometric_mean,
        "neighbor_scatters": jeffrey_divergence,
        "jeffrey_directions": _dmlmj,
    }
    for name in counts:
        monkeypatch.setattr(modules[name], name, counted(getattr(modules[name], name)))
    paths = list(method.fit_many(X, y, points))
    assert calls == counts
    assert sorted(path.index for path in paths) == list(range(len(points)))
    for path in paths:
        assert path.first == 1
        np.testing.assert_allclose(path.components, expected[path.index], rtol=1e-12)


def test_search_selects_a_position_on_the_geodesic():
    X, y = load_iris(return_X_y=True)
    search = DiscriminantSearchCV(GMML(), {"geodesic": [0.1, 0.5, 0.9], "alpha": [0.0, 0.2]})
    search.fit(X, y)
    assert 1 <= search.best_params_["n_components"] <= 4
    assert search.score(X, y) > 0.9
