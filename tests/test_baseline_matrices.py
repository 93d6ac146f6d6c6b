"""Every scatter and alignment matrix against its definition, written out with loops."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.spatial.distance import cdist

import oracles
from cases import unequal_classes
from mpda import LFDA, LLTSA
from mpda._lib.samples import ClassSamples
from mpda._lib.validation import load_class, validate_samples
from mpda.baselines.alignment import alignment_problem, alignment_scatters, energy_dimension
from mpda.baselines.graph_methods import (
    intrinsic_scatter,
    local_fisher_problem,
    lsda_scatters,
    penalty_edges,
    penalty_scatter,
    weighted_scatter,
)
from mpda.baselines.training_data import TrainingData
from mpda.baselines.vector_fields import class_fields, smoothest_fields


def grid_points(seed):
    """Draw whole numbers: many distances tie exactly, and samples coincide, also across classes."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, size=(40, 3)).astype(float), np.repeat([0, 1, 2, 3], [17, 12, 10, 1])


def wide_samples(seed):
    """Draw more features than samples, one of them constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, 20)) + np.repeat([0, 2, 5], 5)[:, None]
    X[:, 3] = 7.0
    return X, np.repeat([0, 1, 2], 5)


CASES = [make(seed) for make in (unequal_classes, grid_points, wide_samples) for seed in (0, 1)]
NAMES = [f"{name}{seed}" for name in ("duplicates", "grid", "wide") for seed in (0, 1)]
cases = pytest.mark.parametrize(("X", "y"), CASES, ids=NAMES)


def training_data(X, y=None, **options):
    """Return the samples as the estimators pass them on, which show only eigenvectors to users."""
    if y is None or len(np.unique(y)) == 1:  # of one class, which no estimator accepts
        samples = validate_samples(LLTSA(), X)
        samples = replace(samples, y=np.zeros(len(X)), members=[np.arange(len(X))])
    else:
        samples = validate_samples(LFDA(), X, y)
    return TrainingData(samples, **options)


def assert_scatter_equals(scatter, data, expected):
    """Compare a matrix over the coordinates of a fit with one over the features."""
    coords = data.samples.coordinates
    basis = np.eye(scatter.shape[0]) if coords.basis is None else coords.basis
    in_features = np.ldexp(basis @ scatter @ basis.T, 2 * coords.exponent)
    np.testing.assert_allclose(in_features, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_array_equal(scatter, scatter.T)


@cases
@pytest.mark.parametrize("affinity", ["full", "knn", "ones"])
@pytest.mark.parametrize("k", [3, 7])
def test_local_fisher_scatters_equal_their_definition(X, y, affinity, k):
    data = training_data(X, y)
    between, within = oracles.local_fisher_weights(X, y, k, affinity)
    problem = local_fisher_problem(data, k, affinity)
    assert_scatter_equals(problem.numerator, data, oracles.weighted_scatter(X, between))
    assert_scatter_equals(problem.denominator, data, oracles.weighted_scatter(X, within))


@pytest.mark.parametrize("gap", [0.0, 1e7])
def test_full_affinity_of_a_class_larger_than_a_block(gap):
    X = np.random.default_rng(4).normal(size=(810, 3)) + gap * (np.arange(810) % 2)[:, None]
    D = cdist(X, X)
    sigma = np.sort(D, axis=1)[:, 5]
    A = np.exp(-(D**2) / np.outer(sigma, sigma))
    differences = X[:, None] - X
    expected = np.einsum("ij,ijk,ijl->kl", A, differences, differences) / (2 * len(X))
    data = training_data(X)
    assert_scatter_equals(local_fisher_problem(data, 5, "full").denominator, data, expected)


@pytest.mark.parametrize("affinity", ["full", "knn"])
def test_short_distances_in_distant_groups_of_a_class_are_accurate(affinity):
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(size=(12, 3)), rng.normal(size=(12, 3)) + 1e7])
    X, y = np.concatenate([X, X + 3.0]), np.repeat([0, 1], 24)
    within = oracles.local_fisher_weights(X, y, 4, affinity)[1]
    data = training_data(X, y)
    problem = local_fisher_problem(data, 4, affinity)
    assert_scatter_equals(problem.denominator, data, oracles.weighted_scatter(X, within))


@cases
@pytest.mark.parametrize("penalty", ["class", "global"])
@pytest.mark.parametrize(("k", "n_pairs"), [(1, 1), (4, 7), (4, 20), (4, 10_000)])
def test_marginal_fisher_scatters_equal_their_definition(X, y, penalty, k, n_pairs):
    data = training_data(X, y)
    between, intrinsic = oracles.marginal_weights(X, y, k, n_pairs, penalty)
    edges = penalty_edges(data, n_pairs, penalty)
    np.testing.assert_array_equal(edges, np.argwhere(np.triu(between)))
    scatter = penalty_scatter(data, n_pairs, penalty)
    assert_scatter_equals(scatter, data, oracles.weighted_scatter(X, between))
    scatter = intrinsic_scatter(data, k)
    assert_scatter_equals(scatter, data, oracles.weighted_scatter(X, intrinsic))


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize(("low", "n"), [(-30, 900), (-300, 1500)])
def test_closest_pairs_of_more_samples_than_a_block(offset, low, n):
    rng = np.random.default_rng(8)
    X = rng.integers(low, -low, size=(n, 3)) + offset  # exact distances, with ties
    y = rng.integers(0, 3, n)
    D = cdist(X, X)
    D[y[:, None] == y] = np.inf
    entries = np.argsort(D, axis=None, kind="stable")[:31]
    expected = np.unique(np.sort(np.column_stack(divmod(entries, n)), axis=1), axis=0)
    np.testing.assert_array_equal(penalty_edges(training_data(X, y), 31, "global"), expected)


@cases
@pytest.mark.parametrize("b", [0.0, 0.1, 0.8])
def test_lsda_scatters_equal_their_definition(X, y, b):
    data = training_data(X, y)
    numerator, denominator = oracles.lsda_forms(X, y, 4, b)
    problem = lsda_scatters(data, 4).eigenproblem(b)
    assert_scatter_equals(problem.numerator, data, numerator)
    assert_scatter_equals(problem.denominator, data, denominator)


@cases
def test_scatter_of_any_weights_equals_its_definition(X, y):
    rng = np.random.default_rng(9)
    W = rng.normal(size=(len(X), len(X))) * (rng.random((len(X), len(X))) < 0.2)
    W = W + W.T
    data = training_data(X, y)
    scatter = weighted_scatter(data, coo_array(W))
    assert_scatter_equals(scatter, data, oracles.weighted_scatter(X, W))


@pytest.mark.parametrize(("X", "y"), CASES[:2] + CASES[4:], ids=NAMES[:2] + NAMES[4:])
@pytest.mark.parametrize("r", [1, 2, 4])
def test_alignment_scatter_equals_its_definition(X, y, r):
    data = training_data(X, y)
    centred = X - X.mean(axis=0)
    problem = alignment_problem(data, 7, r)
    expected = centred.T @ oracles.alignment_matrix(X, 7, r) @ centred
    assert_scatter_equals(problem.numerator, data, expected)
    assert_scatter_equals(problem.denominator, data, centred.T @ centred)


def test_alignment_scatter_is_a_sum_over_blocks():
    rng = np.random.default_rng(6)
    Z, neighbors = rng.normal(size=(500, 5)), rng.integers(0, 500, size=(30_000, 7))
    halves = sum(alignment_scatters(Z, half, (1, 2)) for half in np.split(neighbors, 2))
    both = alignment_scatters(Z, neighbors, (1, 2))
    np.testing.assert_allclose(both, halves, rtol=1e-9)
    np.testing.assert_allclose(both[1:], alignment_scatters(Z, neighbors, (2,)), rtol=1e-9)


def test_energy_dimension_of_noisy_planes():
    rng = np.random.default_rng(6)
    plane = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 9))
    noisy = plane + 1e-3 * rng.normal(size=plane.shape)
    assert energy_dimension(training_data(noisy), 10, 0.95) == 2
    assert energy_dimension(training_data(noisy), 10, 1.0) == 9
    assert energy_dimension(training_data(plane), 10, 1.0) == 2


@pytest.mark.parametrize("n", [12, 200])  # a dense eigenproblem, and Lanczos
def test_smoothest_fields_are_eigenvectors_of_their_energy(n):
    X = unequal_classes(7, sizes=(n,))[0]
    k, q = 5, 4
    lists = oracles.neighbors(oracles.distances(X), k)
    W = oracles.union_weights(lists)
    T = [oracles.tangent_basis(X[[i, *near]], 0.95) for i, near in enumerate(lists)]
    ends = np.cumsum([0, *(basis.shape[1] for basis in T)])
    rows = [slice(*pair) for pair in itertools.pairwise(ends)]
    E = np.zeros((ends[-1], ends[-1]))  # the quadratic form of |v_i - T_i'T_j v_j|^2
    for i, j in np.argwhere(W):
        Q = T[i].T @ T[j]
        E[rows[i], rows[i]] += np.eye(len(Q))
        E[rows[i], rows[j]] -= Q
        E[rows[j], rows[i]] -= Q.T
        E[rows[j], rows[j]] += Q.T @ Q
    values, vectors = np.linalg.eigh(E)
    assert np.diff(values[: q + 1]).min() > 1e-4
    sides = np.zeros((X.shape[1], q))
    for i, j in np.argwhere(W):
        difference = X[i] - X[j]
        sides += np.outer(difference, vectors[rows[j], :q].T @ (T[j].T @ difference))
    fields = class_fields(ClassSamples(X, X - X[0]), k, 0.95, q)
    assert fields.n_total == ends[-1]
    np.testing.assert_allclose(fields.energies, values[:q], rtol=1e-8)
    signs = np.sign(np.sum(fields.right_hand_sides * sides, axis=0))
    error = np.abs(fields.right_hand_sides * signs - sides).max()
    assert error <= 1e-7 * np.abs(sides).max()
    np.testing.assert_allclose(fields.normal_matrix, 2 * oracles.weighted_scatter(X, W), rtol=1e-9)


def test_fields_of_all_classes_are_sorted_by_energy():
    data = training_data(*unequal_classes(8))
    classes = [load_class(data.samples, index) for index in range(4)]
    energies = [class_fields(c, 4, 0.9, 100).energies for c in classes]
    fields = smoothest_fields(data, 4, 0.9, 5)
    np.testing.assert_allclose(fields.energies, np.sort(np.concatenate(energies))[:5], rtol=1e-10)


@pytest.mark.usefixtures("jobs_in_threads")
def test_scatters_do_not_depend_on_the_number_of_jobs():
    serial, parallel = (training_data(*unequal_classes(10), n_jobs=n) for n in (None, 2))
    for stage, parameters in ((intrinsic_scatter, [4]), (penalty_scatter, [9, "class"])):
        np.testing.assert_array_equal(stage(parallel, *parameters), stage(serial, *parameters))


def test_shorter_neighbor_lists_are_prefixes_of_longer_ones():
    data = training_data(*unequal_classes(0), max_neighbors=6)
    longest = data.neighbors(6).indices
    np.testing.assert_array_equal(data.neighbors(3).indices, longest[:, :3])
