"""TSIMR and PFE: matrices against loops, flat data, the Swiss roll, new samples, errors."""

import tracemalloc
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from command_calls import call
from mpda import PFE, TSIMR, ManifoldPartition
from mpda.discriminant.block_rows import build_block_rows
from mpda.discriminant.tangents import TangentBases
from mpda.discriminant.within_form import build_within_form, sample_block
from mpda.estimators._tangent_embedding import _find_tangents
from mpda.experiments.fields import affine_residual, draw_swiss_roll, rigid_residual
from mpda.neighbors.graph import EmbeddedGraph, graph_laplacian, symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors


def small_problem(n_patches):
    """Return samples, edges, patches and tangent spaces of a bent surface."""
    rng = np.random.default_rng(3)
    u = rng.uniform(-1, 1, size=(40, 2))
    X = np.column_stack([u, u[:, 0] ** 2, u[:, 0] * u[:, 1]])
    neighbors = find_neighbors(ClassPoints(X), 5)
    embedded = EmbeddedGraph(X, symmetric_graph(neighbors))
    patches = np.arange(40) if n_patches == 40 else KMeans(n_patches, n_init=1).fit(X).labels_
    return embedded, patches, _find_tangents(X, patches, neighbors, 2)


@pytest.mark.parametrize("n_patches", [40, 9])
def test_matrices_equal_sums_over_pairs(n_patches):
    embedded, patches, tangents = small_problem(n_patches)
    X, T = embedded.Z, tangents.bases
    rng = np.random.default_rng(0)
    f, v = rng.normal(size=40), rng.normal(size=(len(T), 2))
    pairs = [*map(tuple, embedded.graph.edges), *map(tuple, embedded.graph.edges[:, ::-1])]
    first = sum(
        (f[i] - f[j] - v[patches[j]] @ T[patches[j]].T @ (X[i] - X[j])) ** 2 for i, j in pairs
    )
    second = sum(
        ((v[patches[i]] - T[patches[i]].T @ T[patches[j]] @ v[patches[j]]) ** 2).sum()
        for i, j in pairs
        if patches[i] != patches[j]
    )
    form = build_within_form(embedded, patches, tangents)
    K = sample_block(embedded, patches, tangents)
    L = graph_laplacian(embedded.graph.edges, np.ones(len(embedded.graph.edges)), 40)
    w = v.ravel()
    for gamma in (0.0, 0.7):
        S_vv = build_block_rows(form, gamma).to_csr()
        value = 2.0 * f @ (L @ f) - 2.0 * w @ (K @ f) + w @ (S_vv @ w)
        assert value == pytest.approx(first + gamma * second, rel=1e-12)


@pytest.mark.parametrize("n_patches", [40, 9])
def test_block_of_samples_times_the_samples_is_that_of_pmpda(n_patches):
    embedded, patches, tangents = small_problem(n_patches)
    form = build_within_form(embedded, patches, tangents)
    K = sample_block(embedded, patches, tangents)
    expected = form.off_diagonal_matrix().T
    np.testing.assert_allclose(K @ embedded.Z, expected, atol=1e-12 * np.abs(expected).max())


def test_bases_of_fewer_dimensions_are_padded():
    embedded, patches, tangents = small_problem(9)
    dimensions = np.array([1, 2, 1, 2, 2, 2, 1, 2, 2])
    keep = np.arange(2) < dimensions[:, None]
    cut = TangentBases(tangents.bases * keep[:, None, :], dimensions)
    K = sample_block(embedded, patches, cut)
    full = sample_block(embedded, patches, tangents)
    np.testing.assert_allclose(K.toarray(), full.toarray()[keep.ravel()], atol=1e-14)


@pytest.mark.parametrize("partition", [None, "auto"])
def test_linear_functions_on_flat_data_have_no_energy(partition):
    rng = np.random.default_rng(1)
    sheet = rng.uniform(size=(300, 2)) * [3.0, 1.0]
    X = sheet @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    for model in (TSIMR(2, partition=partition), PFE(2, partition=partition)):
        embedding = model.fit_transform(X)
        assert model.eigenvalues_.max() < 1e-8
        assert rigid_residual(sheet, embedding) < 1e-8
        mapped = model.transform(X[:50] + (X[1] - X[0]))
        step = embedding[1] - embedding[0]
        np.testing.assert_allclose(mapped, embedding[:50] + step, atol=1e-4)


@pytest.mark.parametrize("hole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))])
def test_swiss_roll_is_unrolled(seed, hole):
    X, sheet = draw_swiss_roll(1000, seed, hole=hole)
    assert rigid_residual(sheet, PFE(2).fit_transform(X)) < 1e-3
    assert rigid_residual(sheet, PFE(2, partition="auto").fit_transform(X)) < 3e-3
    assert affine_residual(sheet, TSIMR(2).fit_transform(X)) < 1e-2
    assert affine_residual(sheet, TSIMR(2, partition="auto").fit_transform(X)) < 4e-2


def test_patches_of_many_samples_are_connected():
    # "auto" is the principal-axis tree here, whose straight cuts may join two turns of the roll.
    X, sheet = draw_swiss_roll(1500, 0)
    model = PFE(2, partition="auto").fit(X)
    assert rigid_residual(sheet, model.embedding_) < 3e-3
    assert affine_residual(sheet, TSIMR(2, partition="auto").fit_transform(X)) < 4e-2
    extents = [np.ptp(sheet[model.patch_labels_ == p, 0]) for p in np.unique(model.patch_labels_)]
    assert max(extents) < 20.0


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_patches_of_one_sample_equal_the_form_of_samples(kind):
    X, _ = draw_swiss_roll(300, 0)
    alone = kind(2).fit(X)
    patches = kind(2, partition=ManifoldPartition(max_patch_size=1)).fit(X)
    assert len(np.unique(patches.patch_labels_)) == 300
    scale = np.abs(alone.embedding_).max()
    signs = np.sign((alone.embedding_ * patches.embedding_).sum(axis=0))
    np.testing.assert_allclose(patches.embedding_ * signs, alone.embedding_, atol=1e-4 * scale)


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_new_samples_are_expanded_at_the_nearest_one(kind):
    X, sheet = draw_swiss_roll(1200, 2)
    model = kind(2).fit(X[:1000])
    np.testing.assert_allclose(model.transform(X[:1000]), model.embedding_)
    mapped = model.transform(X[1000:])
    i = np.linalg.norm(X[:1000] - X[1100], axis=1).argmin()
    T, v = model.tangent_bases_[i], model.fields_[i]
    expected = model.embedding_[i] + v.T @ T.T @ (X[1100] - X[i])
    np.testing.assert_allclose(mapped[100], expected)
    both = np.concatenate([model.embedding_, mapped])
    assert affine_residual(sheet, both) < 2e-2


def test_new_samples_take_memory_for_a_block_at_a_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 400))
    model = PFE(8, n_neighbors=12).fit(X)
    Y = np.repeat(X, 100, axis=0)
    tracemalloc.start()
    mapped = model.transform(Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * Y.nbytes  # all tangent spaces at a time would be 8 times Y
    np.testing.assert_allclose(mapped, np.repeat(model.embedding_, 100, axis=0), atol=1e-12)


@cache
def embed_once(kind, partition):
    return kind(2, partition=partition).fit_transform(draw_swiss_roll(400, 0)[0])


@pytest.mark.parametrize("factor", [1e-6, 0.01, 300.0])
@pytest.mark.parametrize("partition", [None, "auto"])
@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_embedding_scales_with_the_samples(kind, partition, factor):
    X, _ = draw_swiss_roll(400, 0)
    embedding = embed_once(kind, partition)
    model = kind(2, partition=partition).fit(factor * X)
    scale = np.abs(embedding).max()
    np.testing.assert_allclose(model.embedding_ / factor, embedding, atol=1e-5 * scale)
    mapped = model.transform(factor * X[:50])
    np.testing.assert_allclose(mapped, model.embedding_[:50], atol=1e-10 * factor * scale)


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_training_samples_far_from_zero_find_themselves(kind):
    X, _ = draw_swiss_roll(300, 0)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 3)))[0]
    X = X @ basis.T + 1e7
    model = kind(2).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_one_patch_keeps_flat_data(kind):
    X = np.random.default_rng(0).normal(size=(9, 2))
    model = kind(2, n_neighbors=5, partition="auto").fit(X)
    assert model.patch_labels_.max() == 0
    assert rigid_residual(X, model.embedding_) < 1e-20
    with pytest.raises(ValueError, match="n_components=2 is more than"):
        kind(2, n_neighbors=5, partition="auto", tangent_dimension=1).fit(X)


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_single_precision_is_kept(kind):
    X, _ = draw_swiss_roll(200, 0)
    model = kind(2).fit(X.astype(np.float32))
    assert model.embedding_.dtype == model.transform(X.astype(np.float32)).dtype == np.float32


def test_fields_of_a_sphere_are_not_parallel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    sphere = PFE(2).fit(X / np.linalg.norm(X, axis=1, keepdims=True))
    flat = PFE(2).fit(rng.uniform(size=(800, 2)) @ np.eye(2, 3))
    assert sphere.eigenvalues_[0] > 1e-3 > 1e3 * flat.eigenvalues_[1]


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_errors_say_what_to_do(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    with pytest.raises(ValueError, match="has 2 parts that no edge joins"):
        kind(2, n_neighbors=5).fit(np.concatenate([X, X + 100.0]))
    with pytest.raises(ValueError, match="tangent_dimension=4 is more than"):
        kind(2, tangent_dimension=4).fit(X)
    with pytest.raises(ValueError, match="tangent_dimension=3 is more than"):
        kind(3, n_neighbors=2).fit(X)
    for partition in ("trees", 3):
        with pytest.raises(ValueError, match="None, or a clusterer with fit_predict"):
            kind(2, partition=partition).fit(X)
    with pytest.raises(ValueError, match="failed on all samples"):
        kind(2, partition=KMeans(100)).fit(X)
    with pytest.raises(NotFittedError):
        kind(2).transform(X)
    for name in ("n_components", "n_neighbors", "tangent_dimension"):
        with pytest.raises((ValueError, TypeError), match=name):
            kind(**{"n_components": 2, name: -1}).fit(X)
    with pytest.raises(ValueError, match="tangent_dimension must be at least 1, got 0"):
        kind(2, tangent_dimension=0).fit(X)
    with pytest.raises(TypeError, match="tangent_dimension must be an int"):
        kind(2, tangent_dimension=False).fit(X)
    for gamma in (-1.0, 1e20):
        with pytest.raises(ValueError, match="gamma"):
            TSIMR(2, gamma=gamma).fit(X)


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_many_copies_of_samples_are_parts_of_the_graph(kind):
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 11, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="has 5 parts that no edge joins"):
            kind(2).fit(X)


@pytest.mark.parametrize("kind", [TSIMR, PFE])
def test_clusterer_gets_samples_in_their_units(kind):
    X, _ = draw_swiss_roll(200, 0)
    model = kind(2, partition=DBSCAN(eps=3.0, min_samples=2)).fit(X)
    # Samples of this scale are divided by a power of two for the fit.
    scaled = kind(2, partition=DBSCAN(eps=3e100, min_samples=2)).fit(1e100 * X)
    assert 1 < model.patch_labels_.max() < 199
    np.testing.assert_array_equal(scaled.patch_labels_, model.patch_labels_)


def test_largest_gamma_keeps_flat_data():
    sheet = np.random.default_rng(1).uniform(size=(300, 2)) * [3.0, 1.0]
    assert affine_residual(sheet, TSIMR(2, gamma=1e12).fit_transform(sheet @ np.eye(2, 4))) < 1e-6


def test_residuals_of_known_maps():
    rng = np.random.default_rng(0)
    sheet = rng.normal(size=(100, 2))
    turned = sheet @ np.array([[0.6, -0.8], [0.8, 0.6]]) + 3.0
    assert rigid_residual(sheet, turned) < 1e-20
    stretched = turned * [1.0, 2.0]
    assert affine_residual(sheet, stretched) < 1e-20 < 0.1 < rigid_residual(sheet, stretched)
    noise = rng.normal(size=(100, 2))
    assert affine_residual(sheet, noise) > 0.9


@pytest.mark.slow
def test_command_writes_both_tables(tmp_path, monkeypatch):
    words = ("--data", tmp_path / "none", "--out", tmp_path / "out", "--quiet")
    assert call("reproduce", "fields", "--datasets", "coil20", *words) == 1
    X, y = load_digits(return_X_y=True)
    load = "mpda.experiments.fields.load_samples"
    monkeypatch.setattr(load, lambda problem, directory: (X[:300], y[:300]))
    # Private: the experiment has no parameter for the size of its rolls.
    monkeypatch.setattr("mpda.experiments.fields._N_ROLL", 500)
    words = ("--datasets", "swiss-roll", "coil20", "--data", tmp_path, "--out", tmp_path / "out")
    assert call("reproduce", "fields", *words, "--splits", "1", "--quiet") == 0
    text = (tmp_path / "out" / "fields.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    residuals = [float(cell) for cell in rows["PFE, every sample"].split(" | ")[1:3]]
    X, sheet = draw_swiss_roll(500, 0)
    Z = PFE(2).fit_transform(X)
    expected = [rigid_residual(sheet, Z), affine_residual(sheet, Z)]
    np.testing.assert_allclose(residuals, expected, atol=2e-5)
    assert set(rows) >= {"Isomap", "LTSA", "TSIMR, patches"}
    assert text.count("| COIL20, ") == 4


def test_large_gamma_of_curved_data_leaves_the_laplacian():
    X, _ = draw_swiss_roll(300, 0)
    rigid = TSIMR(1, gamma=1e8, n_neighbors=8, tangent_dimension=2).fit(X)
    edges = symmetric_graph(find_neighbors(ClassPoints(X), 8)).edges
    L = graph_laplacian(edges, np.ones(len(edges)), 300)
    L = L if isinstance(L, np.ndarray) else L.toarray()
    eigenmap = np.linalg.eigh(L)[1][:, 1]
    correlation = np.corrcoef(eigenmap, rigid.embedding_[:, 0])[0, 1]
    assert abs(correlation) > 0.99
