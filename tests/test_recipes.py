"""Every scatter and alignment matrix against its definition, written out with loops."""

from functools import partial

import numpy as np
import pytest

import oracles
from cases import unequal_classes
from mpda._lib.coordinates import build_coordinates
from mpda.baselines import alignment
from mpda.baselines.alignment import alignment_scatter, class_fields, energy_dimension
from mpda.baselines.graph_methods import (
    class_codes,
    local_pencil,
    lsda_forms,
    neighbor_form,
    pair_form,
    penalty_edges,
    smoothest_fields,
    weighted_form,
)
from mpda.discriminant import scatter
from mpda.neighbors import closest_pairs as pairs
from mpda.neighbors.graph import find_neighbors_blockwise
from mpda.parallel import map_ordered


def with_duplicates(seed):
    return unequal_classes(seed)


def on_a_grid(seed):
    """Whole numbers, so that many distances tie and some samples coincide, also across classes."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, size=(40, 3)).astype(float), np.repeat([0, 1, 2, 3], [17, 12, 10, 1])


def wide(seed):
    """More features than samples, and a feature that is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, 20)) + np.repeat([0, 2, 5], 5)[:, None]
    X[:, 3] = 7.0
    return X, np.repeat([0, 1, 2], 5)


CASES = [make(seed) for make in (with_duplicates, on_a_grid, wide) for seed in (0, 1)]
NAMES = [f"{m}{s}" for m in ("duplicates", "grid", "wide") for s in (0, 1)]
cases = pytest.mark.parametrize(("X", "y"), CASES, ids=NAMES)


def members(y):
    return [np.flatnonzero(y == c) for c in np.unique(y)]


def in_features(view, S):
    """A form over the coordinates of a frame as one over the features."""
    basis = np.eye(S.shape[0]) if view.basis is None else view.basis
    return np.ldexp(basis @ S @ basis.T, 2 * view.exponent)


def close(form, view, wanted):
    size = np.abs(wanted).max()
    np.testing.assert_allclose(in_features(view, form), wanted, rtol=0.0, atol=1e-10 * size)
    np.testing.assert_array_equal(form, form.T)


@cases
@pytest.mark.parametrize("kind", ["full", "knn", "ones"])
@pytest.mark.parametrize("k", [3, 7])
def test_local_fisher(X, y, kind, k):
    between, within = oracles.local_fisher_weights(X, y, k, kind)
    view = build_coordinates(X)
    pencil = local_pencil(view, members(y), k, kind, map_ordered)
    close(pencil.numerator, view, oracles.weighted_scatter(X, between))
    close(pencil.denominator, view, oracles.weighted_scatter(X, within))


def test_with_all_affinities_one_the_scatters_are_fishers():
    X, y = with_duplicates(3)
    pencil = local_pencil(build_coordinates(X), members(y), 3, "ones", map_ordered)
    S_w, S_b = np.zeros((2, 6, 6))
    for c in np.unique(y):
        part = X[y == c]
        S_w += (part - part.mean(axis=0)).T @ (part - part.mean(axis=0))
        S_b += len(part) * np.outer(
            part.mean(axis=0) - X.mean(axis=0), part.mean(axis=0) - X.mean(0)
        )
    close(pencil.numerator, build_coordinates(X), S_b)
    close(pencil.denominator, build_coordinates(X), S_w)


@pytest.mark.parametrize("step", [1, 60])
def test_affinities_in_blocks(monkeypatch, step):
    X, y = with_duplicates(4)
    whole = local_pencil(build_coordinates(X), members(y), 5, "full", map_ordered)
    monkeypatch.setattr(scatter, "_BLOCK_ENTRIES", step)
    blocks = local_pencil(build_coordinates(X), members(y), 5, "full", map_ordered)
    np.testing.assert_allclose(blocks.denominator, whole.denominator, rtol=1e-12)
    np.testing.assert_allclose(blocks.numerator, whole.numerator, rtol=1e-12)


@pytest.mark.parametrize("kind", ["full", "knn"])
@pytest.mark.parametrize("block", [500_000, 100])
def test_near_pairs_of_a_class_in_far_groups_keep_their_digits(kind, block, monkeypatch):
    monkeypatch.setattr(scatter, "_BLOCK_ENTRIES", block)
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(size=(12, 3)), rng.normal(size=(12, 3)) + 1e7])
    X = np.concatenate([X, X + 3.0])
    y = np.repeat([0, 1], 24)
    within = oracles.local_fisher_weights(X, y, 4, kind)[1]
    view = build_coordinates(X)
    pencil = local_pencil(view, members(y), 4, kind, map_ordered)
    close(pencil.denominator, view, oracles.weighted_scatter(X, within))


@cases
@pytest.mark.parametrize("k", [1, 4])
def test_intrinsic_graph(X, y, k):
    view = build_coordinates(X)
    intrinsic = oracles.marginal_weights(X, y, k, 1, "class")[1]
    form = neighbor_form(view, members(y), k, map_ordered)
    close(form, view, oracles.weighted_scatter(X, intrinsic))


@cases
@pytest.mark.parametrize("penalty", ["class", "global"])
@pytest.mark.parametrize("n_pairs", [1, 7, 20, 10_000])
def test_penalty_graph_has_the_pairs_that_brute_force_finds(X, y, penalty, n_pairs):
    W = oracles.marginal_weights(X, y, 3, n_pairs, penalty)[0]
    edges = penalty_edges(X, members(y), n_pairs, penalty, map_ordered)
    np.testing.assert_array_equal(edges, np.argwhere(np.triu(W)))
    view = build_coordinates(X)
    form = pair_form(view, members(y), n_pairs, penalty, map_ordered)
    close(form, view, oracles.weighted_scatter(X, W))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_closest_pairs_in_blocks_and_far_from_the_origin(monkeypatch, seed, offset):
    X, y = on_a_grid(seed)
    X = 1e-3 * X + offset
    W = oracles.marginal_weights(X, y, 3, 9, "class")[0]
    monkeypatch.setattr(pairs, "_BLOCK_ENTRIES", 3 * len(X))
    edges = penalty_edges(X, members(y), 9, "class", map_ordered)
    np.testing.assert_array_equal(edges, np.argwhere(np.triu(W)))


@cases
@pytest.mark.parametrize("b", [0.0, 0.1, 0.8])
def test_lsda(X, y, b):
    view = build_coordinates(X)
    numerator, denominator = oracles.lsda_forms(X, y, 4, b)
    pencil = lsda_forms(view, members(y), find_neighbors_blockwise(view.points, 4)).pencil(b)
    close(pencil.numerator, view, numerator)
    close(pencil.denominator, view, denominator)


@pytest.mark.parametrize(("X", "y"), CASES[:2] + CASES[4:], ids=NAMES[:2] + NAMES[4:])
@pytest.mark.parametrize("r", [1, 2, 4])
def test_alignment(monkeypatch, X, y, r):
    view = build_coordinates(X)
    centred = X - X.mean(axis=0)
    wanted = centred.T @ oracles.alignment_matrix(X, 7, r) @ centred
    lists = find_neighbors_blockwise(view.points, 7).indices
    form = alignment_scatter(view.all_coordinates, lists, r)
    close(form, view, wanted)
    monkeypatch.setattr(alignment, "_BLOCK_ENTRIES", 5 * 7 * X.shape[1])
    np.testing.assert_allclose(
        alignment_scatter(view.all_coordinates, lists, r), form, atol=1e-12 * np.abs(form).max()
    )


def test_dimension_of_neighbourhoods_by_their_energy():
    rng = np.random.default_rng(6)
    plane = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 9))
    noisy = plane + 1e-3 * rng.normal(size=plane.shape)
    lists = find_neighbors_blockwise(noisy, 10).indices
    assert energy_dimension(noisy, lists, 0.95) == 2
    assert energy_dimension(noisy, lists, 1.0) == 9
    assert energy_dimension(plane, lists, 1.0) == 2


def test_smoothest_fields(monkeypatch):
    X = with_duplicates(7)[0][:12]
    n, k, q = len(X), 5, 4
    lists = oracles.neighbors(oracles.distances(X), k)
    W = oracles.union_weights(lists)
    T = [oracles.tangent_basis(X[[i, *near]], 0.95) for i, near in enumerate(lists)]
    ends = np.cumsum([0, *(basis.shape[1] for basis in T)])

    def energy(v):
        return oracles.field_energy(W, T, [v[ends[i] : ends[i + 1]] for i in range(n)])

    units = np.eye(ends[-1])
    E = np.array(
        [
            [(energy(a + b) - energy(a - b)) / 4 if i <= j else 0.0 for j, b in enumerate(units)]
            for i, a in enumerate(units)
        ]
    )
    E += np.triu(E, 1).T
    values, vectors = np.linalg.eigh(E)
    assert np.diff(values[: q + 1]).min() > 1e-3
    pulls = np.zeros((X.shape[1], q))
    for i in range(n):
        for j in range(n):
            gap = X[i] - X[j]
            along = vectors[ends[j] : ends[j + 1], :q].T @ (T[j].T @ gap)
            pulls += W[i, j] * np.outer(gap, along)
    for dense_limit in (0, 1000):
        monkeypatch.setattr(alignment, "_DENSE_LIMIT", dense_limit)
        found = class_fields(X, X - X[0], k, 0.95, q)
        np.testing.assert_allclose(found.energies, values[:q], rtol=1e-9)
        signs = np.sign(np.sum(found.pulls * pulls, axis=0))
        np.testing.assert_allclose(found.pulls * signs, pulls, atol=1e-8 * np.abs(pulls).max())
        np.testing.assert_allclose(found.within, 2 * oracles.weighted_scatter(X, W), rtol=1e-10)


def test_fields_of_all_classes_come_by_energy():
    X, y = with_duplicates(8)
    view = build_coordinates(X)
    fields = smoothest_fields(view, members(y), 4, 0.9, 5, map_ordered)
    alone = [class_fields(*view.part(each), 4, 0.9, 100).energies for each in members(y)]
    np.testing.assert_allclose(fields.energies, np.sort(np.concatenate(alone))[:5], rtol=1e-10)


@cases
def test_any_weights(X, y):
    from scipy.sparse import coo_array

    rng = np.random.default_rng(9)
    W = rng.normal(size=(len(X), len(X))) * (rng.random((len(X), len(X))) < 0.2)
    W = W + W.T
    view = build_coordinates(X)
    close(weighted_form(view, coo_array(W)), view, oracles.weighted_scatter(X, W))


@pytest.mark.usefixtures("jobs_in_threads")
def test_work_on_classes_may_be_shared_out():
    X, y = with_duplicates(10)
    view = build_coordinates(X)
    two = partial(map_ordered, n_jobs=2)
    for recipe in (
        lambda each: local_pencil(view, members(y), 4, "full", each).numerator,
        lambda each: neighbor_form(view, members(y), 4, each),
        lambda each: pair_form(view, members(y), 9, "class", each),
    ):
        np.testing.assert_array_equal(recipe(two), recipe(map_ordered))


def test_codes_of_classes():
    np.testing.assert_array_equal(class_codes([np.array([2, 0]), np.array([1])], 3), [0, 1, 0])
