"""GraphDiscriminant: the named graphs, functions as graphs, and what is refused."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import coo_array, csr_array

import oracles
from cases import bent_classes, same_rows
from mpda import LFDA, MFA, GraphDiscriminant

X, Y = bent_classes()
GRAPHS = [("fisher", "fisher"), ("local", "local"), ("neighbors", "pairs"), ("local", "pairs")]


def fisher_within(X, y):
    same = y[:, None] == y
    return same / same.sum(axis=1)[:, None]


def fisher_between(X, y):
    return 1.0 / len(y) - fisher_within(X, y)


def test_graphs_may_be_functions():
    named = GraphDiscriminant().fit(X, Y)
    for turn in (np.asarray, coo_array, csr_array):
        made = GraphDiscriminant(
            lambda X, y, turn=turn: turn(fisher_within(X, y)),
            lambda X, y, turn=turn: turn(fisher_between(X, y)),
        ).fit(X, Y)
        np.testing.assert_allclose(made.eigenvalues_, named.eigenvalues_, rtol=1e-9)
        same_rows(named, made)


@pytest.mark.parametrize(("within", "between"), GRAPHS)
def test_graph_discriminant_solves_its_pencil(within, between):
    fitted = GraphDiscriminant(within, between, n_neighbors=4, n_pairs=9, alpha=0.03).fit(X, Y)
    local = oracles.local_fisher_weights(X, Y, 4, "full")
    fisher = oracles.local_fisher_weights(X, Y, 4, "ones")
    marginal = oracles.marginal_weights(X, Y, 4, 9, "class")
    S = {"fisher": fisher, "local": local, "pairs": marginal}[between][0]
    M = {"fisher": fisher, "local": local, "neighbors": marginal}[within][1]
    S, M = oracles.weighted_scatter(X, S), oracles.weighted_scatter(X, M)
    ridge = 0.03 * np.trace(M) / 5
    values, vectors = eigh(S, M + ridge * np.eye(5))
    r = len(fitted.eigenvalues_)
    np.testing.assert_allclose(fitted.eigenvalues_, values[::-1][:r], rtol=1e-8)
    assert fitted.units_["alpha"] == pytest.approx(ridge)
    expected = vectors[:, ::-1][:, :r].T
    expected *= np.sign(np.sum(expected * fitted.components_, axis=1))[:, None]
    np.testing.assert_allclose(fitted.components_, expected, atol=1e-7 * np.abs(expected).max())
    assert fitted.residual_ < 1e-10


def test_a_within_graph_of_few_edges_is_no_indefinite_one():
    weights = np.zeros((len(X), len(X)))
    weights[0, 1] = weights[1, 0] = weights[2, 3] = weights[3, 2] = 1.0  # a form of rank 2 of 5
    fitted = GraphDiscriminant(lambda X, y: weights, alpha=0.1).fit(X, Y)
    M = oracles.weighted_scatter(X, weights)
    S = oracles.weighted_scatter(X, oracles.local_fisher_weights(X, Y, 4, "ones")[0])
    values = eigh(S, M + 0.1 * np.trace(M) / 5 * np.eye(5), eigvals_only=True)
    np.testing.assert_allclose(fitted.eigenvalues_, values[::-1][:2], rtol=1e-8)


def test_lfda_and_mfa_are_instances():
    same_rows(
        LFDA(n_neighbors=4).fit(X, Y),
        GraphDiscriminant("local", "local", n_neighbors=4, eigenvalue_power=0.5).fit(X, Y),
    )
    made = GraphDiscriminant("neighbors", "pairs", n_neighbors=5, n_pairs=20).fit(X, Y)
    made.components_ /= np.linalg.norm(made.components_, axis=1)[:, None]
    same_rows(MFA().fit(X, Y), made)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones((3, 3)), r"within must return weights of shape \(77, 77\).* got \(3, 3\)"),
        (np.full((77, 77), np.nan), "within must return finite weights"),
        (np.triu(np.ones((77, 77))), "within must return symmetric weights"),
        (np.full((77, 77), "a"), "within must return weights that are numbers"),
        (None, "within must return weights"),
        (np.full((77, 77), 1e306), "within must return finite weights below 1e.100"),
        ([[1.0], [1.0, 2.0]], "within must return weights as one matrix"),
    ],
)
def test_what_a_graph_returns_is_checked(returned, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GraphDiscriminant(lambda X, y: returned).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"within": "pairs"},
            "within must be one of 'fisher', 'local', 'neighbors', or a callable",
        ),
        ({"between": "near"}, "between must be one of 'fisher', 'local', 'pairs', or a callable"),
        ({"penalty": "all"}, "penalty must be one of 'class', 'global'"),
    ],
)
def test_names_of_graphs(parameters, message):
    with pytest.raises(ValueError, match=message):
        GraphDiscriminant(**parameters).fit(X, Y)


@pytest.mark.parametrize("n", [60, 600])
def test_entries_that_stand_twice_add_up(n):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(n, 4)), np.arange(n) % 3
    X[:, 0] += 2 * y

    def twice(X, y):
        rows, columns = np.nonzero(np.equal.outer(y, y))
        return coo_array(
            (np.full(2 * rows.size, 0.5), (np.r_[rows, rows], np.r_[columns, columns])),
            shape=(n, n),
        )

    once = GraphDiscriminant(lambda X, y: 1.0 * np.equal.outer(y, y)).fit(X, y)
    np.testing.assert_allclose(GraphDiscriminant(twice).fit(X, y).eigenvalues_, once.eigenvalues_)


def test_a_within_graph_that_pushes_apart_is_refused():
    def mixed(X, y):
        return np.where(np.equal.outer(y, y), 1.0, -0.5)

    for alpha in (0.0, 0.1):
        with pytest.raises(ValueError, match=r"within must return .* no negative eigenvalue"):
            GraphDiscriminant(mixed, alpha=alpha).fit(X, Y)


def test_a_graph_cannot_change_what_it_is_given():
    def vandal(X, y):
        W = fisher_within(X, y)
        X[:] = 0.0
        y[:] = 0
        return W

    labels = Y.copy()
    made = GraphDiscriminant(vandal, "fisher").fit(X, labels)
    np.testing.assert_array_equal(labels, Y)
    same_rows(GraphDiscriminant().fit(X, Y), made)
