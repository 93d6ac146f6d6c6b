"""Weights of samples and classes against sums that are written out, and their laws."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oracles
from cases import apart, bent_classes, largest_angle, same_rows, unequal_classes
from mpda import LFDA, MPDA, PMPDA, GramPCA, GraphDiscriminant, NeighborhoodRefinement
from mpda._lib.arrays import to_host
from mpda.discriminant.scatter import graph_scatter
from mpda.discriminant.tangents import patch_tangents
from mpda.discriminant.within_form import build_within_form
from mpda.model_selection import DiscriminantSearchCV
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints

pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")

METHODS = [
    MPDA(n_neighbors=4),
    MPDA(n_neighbors=4, anchors=True),
    MPDA(n_neighbors=4, units="absolute"),
    PMPDA(n_neighbors=4, tangent_alpha=0.3),
    LFDA(n_neighbors=4, alpha=0.1),
    GraphDiscriminant("neighbors", "pairs", n_neighbors=4, alpha=0.1),
    NeighborhoodRefinement(MPDA(n_neighbors=4), n_components=2),
    GramPCA(),
]


def name(method):
    return str(method).replace(" ", "").replace("\n", "")


def draw_weights(n, seed=0):
    """Draw weights with mean 1 over the positive ones, some of them 0."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 3.0, n)
    weights[rng.choice(n, n // 6, replace=False)] = 0.0
    return weights / weights[weights > 0.0].mean()


def overlapping_classes(**options):
    """Return bent classes with noise, so that nearest neighbours often differ in class."""
    X, y = bent_classes(**options)
    return X + 3.0 * np.random.default_rng(5).normal(size=X.shape), y


def class_edge_weights(w, y):
    """Return w_i w_j / m_c inside class c, m_c = sum w^2 / sum w of the class."""
    mean = {c: (w[y == c] ** 2).sum() / w[y == c].sum() for c in np.unique(y)}
    return np.outer(w, w) / np.array([mean[c] for c in y])


def weighted_basis(X, w, energy):
    """Return the tangent basis of samples that occur w times."""
    X, w = X[w > 0.0], w[w > 0.0]
    if len(X) == 0:
        return np.zeros((X.shape[1], 0))
    roots = np.sqrt(w)[:, None]
    offsets = roots * (X - w @ X / w.sum())
    _, s, Vt = np.linalg.svd(offsets, full_matrices=False)
    if s[0] <= 1e-12 * np.abs(X).max():
        return np.zeros((X.shape[1], 0))
    share = s**2 / (s**2).sum()
    m = int(np.sum(np.cumsum(share) - share < energy - 1e-12))
    return Vt[: min(m, len(X) - 1)].T


def weighted_between_form(X, y, w, k):
    """Return S' = sum_ij w_i w_j W'_ij d_ij d_ij' with n and n_c as sums of weights."""
    A = oracles.class_blocks(y, lambda c: oracles.affinity(oracles.distances(X[c]), k, False))
    totals = np.array([w[y == c].sum() for c in y])
    inside = A * (1.0 / w.sum() - 1.0 / totals)
    pairs = np.where(np.equal.outer(y, y), inside, 1.0 / w.sum())
    return 2.0 * oracles.weighted_scatter(X, np.outer(w, w) * pairs)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("sizes", [(23, 14, 9), (20, 18)])
def test_weighted_fit_is_the_eigenproblem_of_weighted_sums(method, sizes):
    X, y = unequal_classes(6, sizes=sizes)
    w, k = draw_weights(len(X)), 4
    model = method(n_neighbors=k, alpha=0.1, tangent_alpha=0.5).fit(X, y, 7.0 * w)
    if method is MPDA:
        patch = model.patch_labels_
        bases = [weighted_basis(X[patch == p], w[patch == p], 0.95) for p in np.unique(patch)]
        assert [T.shape[1] for T in bases] == model.tangent_dimensions_.tolist()
    else:
        patch, bases = np.arange(len(X)), [np.zeros((X.shape[1], 0))] * len(X)
        for c in np.unique(y):
            members = np.flatnonzero(y == c)
            lists = oracles.neighbors(oracles.distances(X[members]), k)
            for i, near in zip(members, lists, strict=True):
                if w[i] > 0.0:
                    group = [i, *members[near]]
                    bases[i] = weighted_basis(X[group], w[group], 0.95)
    W = oracles.within_graph(X, y, k) * class_edge_weights(w, y)
    d, plain = X.shape[1], oracles.within_form(X, W, patch, bases, 0.0)
    gamma = 0.1 * np.trace(plain[:d, :d]) / W.sum()
    alpha, beta = 0.1 * np.trace(plain[:d, :d]) / d, 0.5 * np.diag(plain)[d:].mean()
    assert model.strengths_ == pytest.approx(
        {"gamma": gamma, "alpha": alpha, "beta": beta}, rel=1e-9
    )
    S = oracles.within_form(X, W, patch, bases, gamma)
    values, vectors = oracles.solve_pencil(weighted_between_form(X, y, w, k), S, alpha, beta)
    np.testing.assert_allclose(model.eigenvalues_, values[: len(model.eigenvalues_)], rtol=1e-8)
    assert largest_angle(model.components_[:1].T, vectors[:, :1]) <= 1e-6
    np.testing.assert_allclose(model.mean_, w @ X / w.sum(), rtol=1e-12)


@pytest.mark.parametrize("affinity", ["full", "knn", "ones"])
def test_weighted_lfda_is_that_of_weighted_pairs(affinity):
    X, y = unequal_classes(3, sizes=(15, 12, 9))
    w, k = draw_weights(len(X)), 4
    model = LFDA(n_neighbors=k, affinity=affinity, alpha=0.1).fit(X, y, w)
    A = np.equal.outer(y, y) * 1.0
    if affinity != "ones":
        full = affinity == "full"
        A = oracles.class_blocks(y, lambda c: oracles.affinity(oracles.distances(X[c]), k, full))
    totals = np.array([w[y == c].sum() for c in y])
    inside = A * (1.0 / w.sum() - 1.0 / totals)
    between = np.outer(w, w) * np.where(np.equal.outer(y, y), inside, 1.0 / w.sum())
    B = oracles.weighted_scatter(X, np.outer(w, w) * A / totals)
    B += 0.1 * np.trace(B) / len(B) * np.eye(len(B))
    values, _ = oracles.solve_pencil(oracles.weighted_scatter(X, between), B, 0.0, 0.0)
    np.testing.assert_allclose(
        model.eigenvalues_, values[: len(model.eigenvalues_)], rtol=1e-8, atol=1e-12
    )


def test_weighted_graphs_between_all_samples():
    X, y = bent_classes()
    w = draw_weights(len(X))
    rng = np.random.default_rng(1)
    W = rng.uniform(size=(len(X), len(X)))
    W += W.T
    model = GraphDiscriminant("fisher", lambda X, y: W, alpha=0.1).fit(X, y, w)
    expected = GraphDiscriminant("fisher", lambda X, y: W * np.outer(w, w), alpha=0.1)
    inside = np.equal.outer(y, y) / np.array([w[y == c].sum() for c in y])
    expected.set_params(within=lambda X, y: inside * np.outer(w, w)).fit(X, y)
    same_rows(model, expected, 1e-8)


@pytest.mark.parametrize("method", METHODS, ids=name)
@pytest.mark.parametrize("weight", [1.0, 0.3, 1e300])
def test_equal_weights_change_nothing(method, weight):
    X, y = bent_classes()
    plain = method.fit(X, y).components_
    weighted = method.fit(X, y, sample_weight=np.full(len(X), weight)).components_
    np.testing.assert_array_equal(weighted, plain)


def test_within_form_is_linear_in_class_weights_and_in_single_weights():
    X, _ = bent_classes(sizes=(30, 20))
    graph = build_class_graph(ClassPoints(X), 5)
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    patches, tangents = np.arange(len(X)) % 7, patch_tangents(X, np.arange(len(X)) % 7, 0.9)

    def blocks(w):
        embedded = EmbeddedGraph(X, graph, w)
        form = build_within_form(embedded, patches, tangents)
        return [graph_scatter(embedded), form.off_diagonal, form.tangent_block(0.3, 0.0)]

    for doubled, single in zip(blocks(2.0 * w), blocks(w), strict=True):
        np.testing.assert_allclose(doubled, 2.0 * single, atol=1e-9 * np.abs(single).max())
    steps = []
    for value in (1.0, 2.0, 3.0):
        w[4] = value
        steps.append([(w @ w) / w.sum() * block for block in blocks(w)])
    for first, middle, last in zip(*steps, strict=True):
        np.testing.assert_allclose(0.5 * (first + last), middle, atol=1e-9 * np.abs(middle).max())


# Tangent spaces of a patch with one positive weight, and absolute units, are exceptions.
@pytest.mark.parametrize(
    "method",
    [
        MPDA(n_neighbors=4),
        LFDA(n_neighbors=4, alpha=0.1),
        GraphDiscriminant("neighbors", "fisher", n_neighbors=4, alpha=0.1),
        GramPCA(),
    ],
    ids=name,
)
def test_small_weights_tend_to_weights_of_zero(method):
    X, y = overlapping_classes()
    share = np.where(y == y[0], 0.7, 0.1)  # of zeros; not the same in all classes
    w = np.where(np.random.default_rng(8).uniform(size=len(X)) < share, 0.0, 1.0)
    zero = method.fit(X, y, w).components_
    small = method.fit(X, y, np.maximum(w, 1e-9)).components_
    lengths = np.linalg.norm(zero, axis=1) * np.linalg.norm(small, axis=1)
    assert np.abs((zero * small).sum(axis=1) / lengths).min() > 1.0 - 1e-9


@pytest.mark.parametrize("method", METHODS, ids=name)
def test_scale_of_weights_has_no_effect(method):
    X, y = bent_classes()
    w = draw_weights(len(X))
    first = method.fit(X, y, w).components_
    second = method.fit(X, y, 4.0 * w).components_
    np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-9 * np.abs(first).max())
    assert np.abs(first - method.fit(X, y).components_).max() > 1e-3 * np.abs(first).max()


@pytest.mark.parametrize(
    "method",
    [
        MPDA(n_neighbors=4),
        PMPDA(n_neighbors=4, tangent_alpha=0.3),
        LFDA(n_neighbors=4, alpha=0.1),
        GraphDiscriminant("neighbors", "fisher", n_neighbors=4, alpha=0.1),
    ],
    ids=name,
)
def test_weight_zero_leaves_a_sample_out(method):
    """Far samples are in no list of other samples, so leaving them out of sums is all."""
    X, y = bent_classes()
    y_all = np.r_[y, [0, 1]]
    X_all = np.r_[X, 50.0 + np.arange(2.0 * X.shape[1]).reshape(2, -1) ** 2]
    w = np.r_[np.full(len(X), 2.0), 0.0, 0.0]
    options = {}
    if isinstance(method, MPDA):
        method.fit(X, y)
        patches = method.patch_labels_
        options = {"patches": np.r_[patches, [-1, -1]]}
    weighted = method.fit(X_all, y_all, w, **options).components_
    plain = method.fit(X, y, **({"patches": patches} if options else {}))
    assert apart(plain).mean() > 0.5
    np.testing.assert_allclose(
        weighted[: len(plain.components_)][apart(plain)],
        plain.components_[apart(plain)],
        atol=1e-7 * np.abs(plain.components_).max(),
    )


@pytest.mark.parametrize("n_noise", [0, 100], ids=["more samples", "more features"])
@pytest.mark.parametrize(
    "method",
    [
        MPDA(2, n_neighbors=4),
        PMPDA(2, n_neighbors=4),
        LFDA(2, n_neighbors=4, alpha=0.1),
        GraphDiscriminant(n_components=2, alpha=0.1),
        NeighborhoodRefinement(GramPCA(2), radius=1.0),
        NeighborhoodRefinement(GramPCA(2), radius=None),
        GramPCA(2),
    ],
    ids=name,
)
def test_distant_samples_of_weight_zero_cost_no_digits(method, n_noise):
    """A fill value of a missing sample, for example, wherever it stands."""
    X, y = overlapping_classes()
    X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), n_noise))])
    expected = method.fit(X, y)
    options = [{}, {}]
    if isinstance(method, MPDA):
        patches = expected.patch_labels_
        options = [{"patches": np.r_[-1, patches]}, {"patches": np.r_[patches, -1]}]
    expected = expected.components_
    w = np.ones(len(X))
    for fill_value in (1e12, 9.96921e36):
        row = np.full((1, X.shape[1]), fill_value)
        first = method.fit(np.r_[row, X], np.r_[0, y], np.r_[0.0, w], **options[0]).components_
        last = method.fit(np.r_[X, row], np.r_[y, 0], np.r_[w, 0.0], **options[1]).components_
        for components in (first, last):
            np.testing.assert_allclose(components, expected, atol=1e-9 * np.abs(expected).max())
    with pytest.raises(ValueError, match="leave these samples out of X"):
        method.fit(np.r_[X, np.full((1, X.shape[1]), 1e200)], np.r_[y, 0], np.r_[w, 0.0])


def test_weight_zero_leaves_a_sample_out_of_the_refinement():
    """Also of the default penalty, which counts samples where they are fewer than features."""
    X, y = overlapping_classes()
    rng = np.random.default_rng(0)
    X = np.hstack([X, rng.normal(size=(len(X), 100))])
    X_all, y_all = np.r_[X, 1e3 * rng.normal(size=(2, X.shape[1]))], np.r_[y, [0, 1]]
    refine = NeighborhoodRefinement(GramPCA(2))
    weighted = refine.fit(X_all, y_all, np.r_[np.ones(len(X)), 0.0, 0.0]).components_
    plain = refine.fit(X, y).components_
    np.testing.assert_allclose(weighted, plain, atol=1e-9 * np.abs(plain).max())


def test_weighted_scatter_of_pca_repeats_samples():
    X, _ = bent_classes()
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = GramPCA(3).fit(X, sample_weight=times)
    repeated = PCA(3).fit(np.repeat(X, times, axis=0))
    assert largest_angle(weighted.components_.T, repeated.components_.T) < 1e-7
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(
        weighted.explained_variance_ratio_, repeated.explained_variance_ratio_
    )


def test_balanced_classes_have_equal_sums_of_weights():
    X, y = bent_classes(sizes=(40, 10, 20))
    by_sample = np.array([1.0 / np.sum(y == c) for c in y])
    balanced = MPDA(n_neighbors=4, class_weight="balanced").fit(X, y)
    same_rows(balanced, MPDA(n_neighbors=4).fit(X, y, by_sample), 1e-9)
    factors = {0: 1.0, 1: 4.0, 2: 2.0}
    same_rows(balanced, MPDA(n_neighbors=4, class_weight=factors).fit(X, y), 1e-9)
    # Weights of samples count in the sizes of classes, so a weight of 0 changes no balance.
    first = LFDA(affinity="ones", alpha=0.1, class_weight="balanced").fit(X[3:], y[3:])
    second = LFDA(affinity="ones", alpha=0.1, class_weight="balanced")
    same_rows(first, second.fit(X, y, np.r_[np.zeros(3), np.ones(len(X) - 3)]), 1e-9)


@pytest.mark.parametrize(
    "method", [MPDA(n_neighbors=3), LFDA(alpha=0.1), NeighborhoodRefinement()], ids=name
)
def test_search_over_class_weights_uses_them(method):
    X, y = overlapping_classes(sizes=(40, 10, 20))
    sets = [{"class_weight": None}, {"class_weight": "balanced"}]
    paths = {path.index: path for path in method.fit_many(X, y, sets, [2])}
    for index, parameters in enumerate(sets):
        method.set_params(**parameters, n_components=2).fit(X, y)
        np.testing.assert_allclose(paths[index].components[:2], method.components_, rtol=1e-6)
    method.set_params(class_weight=None, n_components=None)
    first, second = (paths[index].components[:2] for index in range(2))
    assert np.abs(first - second).max() > 1e-3 * np.abs(first).max()
    search = DiscriminantSearchCV(method, {"class_weight": [None, "balanced"]}, n_components=[2])
    assert {None, "balanced"} <= set(search.fit(X, y).cv_results_["param_class_weight"].tolist())


def refinement_loss(T, X, y, w, sets, start, temperature, penalty):
    """Return the loss of the refinement with weights by its definition."""
    total = 0.0
    for i, candidates in enumerate(sets):
        terms = {
            j: w[j] * np.exp(-((T @ (X[i] - X[j])) ** 2).sum() / temperature) for j in candidates
        }
        own = sum(term for j, term in terms.items() if y[j] == y[i])
        if own > 0.0:
            total += w[i] * (np.log(sum(terms.values())) - np.log(own))
    return (total + penalty * ((T - start) ** 2).sum() / (start**2).sum()) / w.sum()


def test_refinement_minimises_the_weighted_loss():
    X, y = overlapping_classes()
    w = draw_weights(len(X))
    start = MPDA(n_components=2, n_neighbors=4).fit(X, y, w)
    refine = NeighborhoodRefinement(
        MPDA(n_components=2, n_neighbors=4),
        n_rounds=1,
        max_iter=200,
        radius=None,
        n_candidates=len(X),
        tol=1e-9,
        penalty=300.0,
        temperature=2.0,
    )
    refine.fit(X, y, w)
    np.testing.assert_allclose(refine.start_components_, start.components_, rtol=1e-9)
    T0 = start.components_
    squares = ((X[:, None] - X[None]) @ T0.T) ** 2
    squares = squares.sum(axis=2)
    own = np.equal.outer(y, y) & ~np.eye(len(X), dtype=bool) & (w > 0.0)
    nearest = np.where(own, squares, np.inf).min(axis=1)
    # The least distance that half of the weight does not exceed.
    temperature = 2.0 * min(t for t in nearest if w[nearest <= t].sum() >= 0.5 * w.sum())
    w = w * w.sum() / (w @ w)  # the sum is the effective number of samples
    sets = [set(range(len(X))) - {i} for i in range(len(X))]
    losses = [
        refinement_loss(T, X, y, w, sets, T0, temperature, 300.0) for T in (T0, refine.components_)
    ]
    np.testing.assert_allclose(refine.loss_curve_[0][[0, -1]], losses, rtol=1e-9)
    assert losses[1] < losses[0]


def test_refinement_hands_weights_to_the_first_method():
    X, y = bent_classes()
    w = draw_weights(len(X))
    pipeline = make_pipeline(StandardScaler(), MPDA(n_components=2, n_neighbors=4))
    refined = NeighborhoodRefinement(pipeline, radius=None, n_rounds=0).fit(X, y, w)
    start = MPDA(n_components=2, n_neighbors=4).fit(StandardScaler().fit_transform(X), y, w)
    np.testing.assert_allclose(refined.components_, start.components_)
    # PCA has no weights.
    from_pca = NeighborhoodRefinement(PCA(2), radius=None, n_rounds=0).fit(X, y, w)
    np.testing.assert_allclose(from_pca.components_, PCA(2).fit(X).components_)


def test_search_takes_no_weights_for_groups():
    X, y = bent_classes()
    with pytest.raises(TypeError, match="positional arguments"):
        DiscriminantSearchCV(MPDA(n_neighbors=4), {}, cv=3).fit(X, y, draw_weights(len(X)))


def test_grid_search_of_scikit_learn_hands_weights_on():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(MPDA(n_components=2), KNeighborsClassifier(1))
    search = GridSearchCV(pipeline, {"mpda__n_neighbors": [3, 5]}, cv=3)
    assert search.fit(X, y, mpda__sample_weight=draw_weights(len(X))).best_score_ > 0.9


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", [m for m in METHODS if m._computes_on_devices], ids=name)
def test_weights_on_a_device_give_the_same_map(method, dtype):
    torch = pytest.importorskip("torch")
    from sklearn import config_context

    X, y = bent_classes()
    X = X.astype(dtype)
    w = draw_weights(len(X)).astype(dtype)
    expected = method.fit(X, y, w).components_
    with config_context(array_api_dispatch=True):
        components = method.fit(torch.asarray(X), y, torch.asarray(w)).components_
    assert components.dtype == torch.asarray(X).dtype
    tolerance = 1e-7 if dtype is np.float64 else 2e-3
    np.testing.assert_allclose(
        to_host(components), expected, atol=tolerance * np.abs(expected).max()
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(77), "sample_weight must not be negative, got -1"),
        (np.zeros(77), "only zeros"),
        (np.ones((77, 2)), "one number per sample"),
        (np.ones(76), r"one number per sample, shape \(77,\), got an array of shape \(76,\)"),
        (2.0, r"sample_weight must have one number per sample.* shape \(\)"),
        (np.full(77, np.nan), "sample_weight contains NaN"),
    ],
)
@pytest.mark.parametrize("method", [MPDA(), GramPCA()], ids=name)
def test_bad_weights_are_named(method, weights, message):
    X, y = bent_classes()
    with pytest.raises(ValueError, match=message):
        method.fit(X, y, sample_weight=weights)


def test_bad_class_weights_are_named():
    X, y = bent_classes()
    for class_weight, message in [
        ("equal", "class_weight must be None"),
        ({9: 1.0}, "unknown labels \\[9\\]"),
        ({0: -1.0}, "positive numbers"),
        ({0: "heavy"}, "positive numbers.*'heavy'"),
        ({0: np.inf}, "positive numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            MPDA(class_weight=class_weight).fit(X, y)
    with pytest.raises(ValueError, match="all samples of \\[2\\]"):
        MPDA().fit(X, y, y != 2)
    with pytest.raises(ValueError, match="class_weight must be None in partial_fit"):
        PMPDA(class_weight="balanced").partial_fit(X, y)


def test_cluster_refuses_weights():
    array = pytest.importorskip("dask.array")
    X, y = bent_classes()
    blocks, labels = array.from_array(X, chunks=(20, -1)), array.from_array(y, chunks=20)
    with pytest.raises(TypeError, match="sample_weight must be None for Dask"):
        GramPCA().fit(blocks, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match="class_weight must be None for Dask"):
        LFDA(class_weight="balanced").fit(blocks, labels)
