"""GraphDiscriminant: the named graphs, callables as graphs, and rejected weights."""

import warnings

import numpy as np
import pytest
from scipy.linalg import eigh, expm
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits

import oracles
from cases import bent_classes, same_rows
from mpda import LFDA, MFA, GraphDiscriminant
from mpda.baselines.graph_methods import BETWEEN_GRAPHS, WITHIN_GRAPHS
from mpda.exceptions import NumericalWarning, SmallClassWarning

X, Y = bent_classes()


def fisher_within(X, y):
    same_class = y[:, None] == y
    return same_class / same_class.sum(axis=1)[:, None]


def fisher_between(X, y):
    return 1.0 / len(y) - fisher_within(X, y)


@pytest.mark.parametrize("convert", [np.asarray, coo_array, csr_array])
def test_callables_define_the_named_graphs(convert):
    named = GraphDiscriminant().fit(X, Y)
    custom = GraphDiscriminant(
        lambda X, y: convert(fisher_within(X, y)), lambda X, y: convert(fisher_between(X, y))
    ).fit(X, Y)
    np.testing.assert_allclose(custom.eigenvalues_, named.eigenvalues_, rtol=1e-9)
    same_rows(named, custom)


@pytest.mark.parametrize(
    ("within", "between"),
    [("fisher", "fisher"), ("local", "local"), ("neighbors", "pairs"), ("local", "pairs")],
)
def test_components_solve_the_generalized_eigenproblem(within, between):
    fitted = GraphDiscriminant(within, between, n_neighbors=4, n_pairs=9, alpha=0.03).fit(X, Y)
    local = oracles.local_fisher_weights(X, Y, 4, "full")
    fisher = oracles.local_fisher_weights(X, Y, 4, "ones")
    marginal = oracles.marginal_weights(X, Y, 4, 9, "class")
    between_weights = {"fisher": fisher, "local": local, "pairs": marginal}
    within_weights = {"fisher": fisher, "local": local, "neighbors": marginal}
    assert between_weights.keys() == BETWEEN_GRAPHS.keys()
    assert within_weights.keys() == WITHIN_GRAPHS.keys()
    S, M = between_weights[between][0], within_weights[within][1]
    S, M = oracles.weighted_scatter(X, S), oracles.weighted_scatter(X, M)
    ridge = 0.03 * np.trace(M) / 5
    values, vectors = eigh(S, M + ridge * np.eye(5))
    r = len(fitted.eigenvalues_)
    np.testing.assert_allclose(fitted.eigenvalues_, values[::-1][:r], rtol=1e-8)
    assert fitted.strengths_["alpha"] == pytest.approx(ridge)
    expected = vectors[:, ::-1][:, :r].T
    expected *= np.sign(np.sum(expected * fitted.components_, axis=1))[:, None]
    np.testing.assert_allclose(fitted.components_, expected, atol=1e-7 * np.abs(expected).max())
    assert fitted.residual_ < 1e-10


def test_a_within_scatter_of_low_rank_is_accepted_with_a_ridge():
    weights = np.zeros((len(X), len(X)))
    weights[0, 1] = weights[1, 0] = weights[2, 3] = weights[3, 2] = 1.0  # rank 2 of 5
    fitted = GraphDiscriminant(lambda X, y: weights, alpha=0.1).fit(X, Y)
    M = oracles.weighted_scatter(X, weights)
    S = oracles.weighted_scatter(X, oracles.local_fisher_weights(X, Y, 4, "ones")[0])
    values = eigh(S, M + 0.1 * np.trace(M) / 5 * np.eye(5), eigvals_only=True)
    np.testing.assert_allclose(fitted.eigenvalues_, values[::-1][:2], rtol=1e-8)


def test_lfda_and_mfa_are_instances():
    lfda = GraphDiscriminant("local", "local", n_neighbors=4, eigenvalue_power=0.5).fit(X, Y)
    same_rows(LFDA(n_neighbors=4).fit(X, Y), lfda)
    mfa = GraphDiscriminant("neighbors", "pairs", n_neighbors=5, n_pairs=20).fit(X, Y)
    mfa.components_ /= np.linalg.norm(mfa.components_, axis=1)[:, None]
    same_rows(MFA().fit(X, Y), mfa)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((3, 3)), r"within must return weights of shape \(77, 77\).* got \(3, 3\)"),
        (np.full((77, 77), np.nan), "within must return finite weights"),
        (np.triu(np.ones((77, 77))), "within must return symmetric weights"),
        (np.full((77, 77), "a"), "within must return weights that are numbers"),
        (None, "within must return weights"),
        (np.full((77, 77), 1e306), "within must return finite weights below 1e.100"),
        ([[1.0], [1.0, 2.0]], "within must return weights as one matrix"),
        (np.where(np.equal.outer(Y, Y), 1.0, -0.5), r"within must return .* no negative eigenvalu"),
    ],
)
def test_weights_of_a_callable_are_checked(weights, message):
    for alpha in (0.0, 0.1):
        with pytest.raises((ValueError, TypeError), match=message):
            GraphDiscriminant(lambda X, y: weights, alpha=alpha).fit(X, Y)


@pytest.mark.parametrize(
    ("parameter", "value", "options"),
    [
        ("within", "pairs", "'fisher', 'local', 'neighbors'.*, or a callable"),
        ("between", "near", "'fisher', 'local', 'pairs'.*, or a callable"),
        ("penalty", "all", "'class', 'global'"),
    ],
)
def test_unknown_graph_names_are_rejected(parameter, value, options):
    with pytest.raises(ValueError, match=f"{parameter} must be one of {options}"):
        GraphDiscriminant(**{parameter: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("graphs", "warns"),
    [
        *(({"within": name}, name in ("local", "neighbors")) for name in WITHIN_GRAPHS),
        *(({"between": name}, name == "local") for name in BETWEEN_GRAPHS),
    ],
)
def test_graphs_with_neighbors_warn_of_small_classes(graphs, warns):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GraphDiscriminant(**graphs, n_neighbors=len(X), alpha=0.1).fit(X, Y)
    assert any(issubclass(w.category, SmallClassWarning) for w in caught) == warns


@pytest.mark.parametrize("n", [60, 600])
def test_duplicate_sparse_entries_are_summed(n):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(n, 4)), np.arange(n) % 3
    X[:, 0] += 2 * y

    def doubled(X, y):
        rows, columns = np.nonzero(np.equal.outer(y, y))
        indices = np.tile(rows, 2), np.tile(columns, 2)
        return coo_array((np.full(2 * rows.size, 0.5), indices), shape=(n, n))

    single = GraphDiscriminant(lambda X, y: 1.0 * np.equal.outer(y, y)).fit(X, y)
    fitted = GraphDiscriminant(doubled).fit(X, y)
    np.testing.assert_allclose(fitted.eigenvalues_, single.eigenvalues_)


def test_a_callable_receives_copies():
    def overwriting(X, y):
        W = fisher_within(X, y)
        X[:] = 0.0
        y[:] = 0
        return W

    fitted = GraphDiscriminant(overwriting, "fisher").fit(X, Y)
    assert np.unique(Y).size == 3
    same_rows(GraphDiscriminant().fit(X, Y), fitted)


@pytest.mark.parametrize("scale", [1.0, 5.0, 20.0])
def test_exponential_solves_the_problem_of_matrix_exponentials(scale):
    X, y = bent_classes()
    plain = GraphDiscriminant().fit(X, y)
    A, B = (scatter(X, y) for scatter in (between_scatter, within_scatter))
    s = scale * np.trace(B) / X.shape[1]
    values, vectors = eigh(expm(A / s), expm(B / s))
    model = GraphDiscriminant(exponential=True, exponential_scale=scale, n_components=3).fit(X, y)
    expected = values[::-1][:3] / values[-1]
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-6, atol=1e-12)
    for row, vector in zip(model.components_, vectors[:, ::-1].T, strict=False):
        cosine = row @ vector / np.linalg.norm(row) / np.linalg.norm(vector)
        assert abs(cosine) == pytest.approx(1.0, abs=1e-8)
    assert model.residual_ < 1e-10
    assert len(plain.components_) == 2


def test_exponential_needs_no_ridge_and_no_units():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 60)), np.arange(30) % 3  # a singular within scatter
    model = GraphDiscriminant(exponential=True, n_components=2).fit(X, y)
    scaled = GraphDiscriminant(exponential=True, n_components=2).fit(1000.0 * X, y)
    np.testing.assert_allclose(scaled.eigenvalues_, model.eigenvalues_, rtol=1e-8)
    with pytest.warns(NumericalWarning, match="condition number 1e"):
        large = GraphDiscriminant(exponential=True, exponential_scale=1e-3).fit(X, y)
    assert np.isfinite(large.components_).all()
    with pytest.raises(ValueError, match="exponential_scale"):
        GraphDiscriminant(exponential=True, exponential_scale=0.0).fit(X, y)
    with pytest.raises(TypeError, match="exponential"):
        GraphDiscriminant(exponential="yes").fit(X, y)


@pytest.mark.parametrize("factor", [1e-200, 1e-5, 300.0, 1e200])
def test_components_of_exponentials_do_not_depend_on_the_scale(factor):
    X, y = bent_classes()
    model = GraphDiscriminant(exponential=True, exponential_scale=5.0, n_components=3).fit(X, y)
    B = within_scatter(X, y)
    B = expm(B / (5.0 * np.trace(B) / X.shape[1]))
    lengths = np.einsum("rd,de,re->r", model.components_, B, model.components_)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-8)
    scaled = clone(model).fit(factor * X, y)
    np.testing.assert_allclose(scaled.components_, model.components_, rtol=1e-6)


def test_exponential_has_no_component_on_which_samples_are_constant():
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:600], labels[:600]
    constant = np.ptp(digits, axis=0) == 0.0
    model = GraphDiscriminant(exponential=True, exponential_scale=10.0, n_components=20)
    assert model.fit_transform(digits, labels).std(axis=0).min() > 0.01
    assert not model.components_[:, constant].any()
    model.set_params(n_components=None).fit(digits, labels)
    assert len(model.components_) == np.linalg.matrix_rank(digits - digits.mean(axis=0))


def test_exponential_of_dependent_features_is_that_of_the_others():
    X, y = bent_classes()
    plain = GraphDiscriminant(exponential=True).fit_transform(X, y)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(2 * X.shape[1],) * 2))[0]
    wide = np.column_stack([X, np.full(X.shape, 1e3)]) @ rotation
    # The unit of the scale is a mean over twice as many features.
    model = GraphDiscriminant(exponential=True, exponential_scale=2.0)
    mapped = model.fit_transform(wide, y)
    np.testing.assert_allclose(np.abs(mapped), np.abs(plain), atol=1e-8)


def test_exponential_ignores_samples_of_weight_zero():
    X, y = bent_classes()
    X = np.column_stack([X, np.full(len(X), 0.1)])
    X[0, -1] = 5.0
    weights = (np.arange(len(X)) > 0).astype(float)
    model = GraphDiscriminant(exponential=True).fit(X, y, weights)
    assert len(model.components_) == X.shape[1] - 1
    assert not model.components_[:, -1].any()


def test_condition_of_exponentials_is_that_of_the_denominator():
    X, y = bent_classes()
    B = within_scatter(X, y)
    expected = np.linalg.cond(expm(B / (np.trace(B) / X.shape[1])))
    assert GraphDiscriminant(exponential=True).fit(X, y).condition_ == pytest.approx(expected)


def within_scatter(X, y):
    residuals = np.concatenate([X[y == c] - X[y == c].mean(axis=0) for c in np.unique(y)])
    return residuals.T @ residuals


def between_scatter(X, y):
    offsets = X - X.mean(axis=0)
    return offsets.T @ offsets - within_scatter(X, y)
