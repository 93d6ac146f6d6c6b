"""Measures of retrieval against their definitions, other libraries, and invariances."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn.neighbors import KNeighborsClassifier

from mpda.assessment import (
    map_at_r,
    precision_at_k,
    r_precision,
    recall_at_k,
    score_queries,
)
from mpda.model_selection.nearest_by_dimension import nearest_by_dimension
from mpda.model_selection.retrieval import find_measure
from mpda.neighbors import ordered_search, product_search
from oracles import score_slowly

MEASURES = ("recall_at_1", "recall_at_10", "precision_at_10", "r_precision", "map_at_r")


def make_vectors(kind="usual", n=90, m=40, r=4, n_classes=5):
    """Return a database and queries of overlapping classes of unequal size."""
    rng = np.random.default_rng(0)
    shares = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    y, y_query = (rng.choice(n_classes, size=size, p=shares) for size in (n, m))
    centres = rng.normal(size=(n_classes, r))
    Z, Z_query = (centres[c] + rng.normal(size=(len(c), r)) for c in (y, y_query))
    if kind == "copies":
        Z[30:60], Z_query[:20] = Z[:30], Z[:20]
    if kind == "grid":
        Z, Z_query = np.round(Z), np.round(Z_query)
    if kind == "equal":
        Z[:], Z_query[:] = 0.1, 0.1
    if kind == "far from the origin":
        Z, Z_query = Z + 1e9, Z_query + 1e9
    if kind == "distant query":
        Z_query[0] += 1e12
    if kind == "outlier":
        Z[3] *= 1e7
    if kind == "huge":
        Z, Z_query = 1e150 * Z, 1e150 * Z_query
    if kind == "near copies":
        Z[45:] = Z[:45] + 1e-15 * rng.normal(size=(45, r))
    if kind == "lone labels":
        y[0], y_query[0], y_query[1] = 50, 51, 50
    if kind == "single precision":
        Z, Z_query = Z.astype(np.float32), Z_query.astype(np.float32)
    return Z, y, Z_query, y_query


KINDS = (
    *("usual", "copies", "grid", "equal", "far from the origin", "distant query", "outlier"),
    *("huge", "near copies", "lone labels", "single precision"),
)


@pytest.mark.parametrize("among_themselves", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_measures_equal_their_definitions(kind, among_themselves):
    Z, y, Z_query, y_query = make_vectors(kind)
    if among_themselves:
        Z_query = y_query = None
    scores = score_queries(Z, y, Z_query, y_query, MEASURES)
    for name in MEASURES:
        expected = score_slowly(Z, y, Z_query, y_query, name)
        np.testing.assert_allclose(scores.values[name], expected, rtol=1e-12, err_msg=name)
        assert scores.means[name] == pytest.approx(np.nanmean(expected), rel=1e-12)
        np.testing.assert_array_equal(scores.n_relevant == 0, np.isnan(expected))


@pytest.mark.slow
@pytest.mark.parametrize("measures", [MEASURES, ("recall_at_1", "precision_at_3")])
@pytest.mark.parametrize(("n", "n_copies"), [(80, 14), (1500, 5), (1500, 30), (1500, 750)])
def test_copies_come_in_the_order_of_their_indices(n, n_copies, measures):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(n, 3)), rng.integers(4, size=n)
    # The order of products of equal vectors depends on their rounding.
    Z[rng.permutation(n)[: 2 * n_copies]] = np.repeat(Z[:2], n_copies, axis=0)
    y_query, Z_query = y[:20], Z[:20] + 0.01 * rng.normal(size=(20, 3))
    for vectors in ((Z, y, Z_query, y_query), (Z, y, Z[:20], y_query)):
        scores = score_queries(*vectors, measures)
        for name in measures:
            expected = score_slowly(*vectors, name)
            np.testing.assert_allclose(scores.values[name], expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("among_themselves", [False, True])
@pytest.mark.parametrize("kind", ["usual", "copies", "grid", "equal", "near copies"])
@pytest.mark.parametrize("entries", [1, 300, 2000])
def test_values_do_not_depend_on_blocks(monkeypatch, kind, entries, among_themselves):
    Z, y, Z_query, y_query = make_vectors(kind)
    if among_themselves:
        Z_query = y_query = None
    expected = score_queries(Z, y, Z_query, y_query, MEASURES).values
    monkeypatch.setattr(ordered_search, "BLOCK_ENTRIES", max(entries, Z.shape[1]))
    # The smallest number of rows would keep 90 vectors in one block.
    monkeypatch.setattr(ordered_search, "_MIN_ROWS", 1)
    monkeypatch.setattr(product_search, "BLOCK_ENTRIES", entries)
    values = score_queries(Z, y, Z_query, y_query, MEASURES).values
    for name in MEASURES:
        np.testing.assert_array_equal(values[name], expected[name])


def test_each_function_is_the_mean_of_its_measure():
    vectors = make_vectors()
    means = score_queries(*vectors, MEASURES).means
    assert recall_at_k(*vectors, k=1) == means["recall_at_1"]
    assert recall_at_k(*vectors) == means["recall_at_10"]
    assert precision_at_k(*vectors, k=10) == means["precision_at_10"]
    assert r_precision(*vectors) == means["r_precision"]
    assert map_at_r(*vectors) == means["map_at_r"]
    assert score_queries(*vectors, "map_at_r").means == {"map_at_r": means["map_at_r"]}
    assert isinstance(map_at_r(*vectors), float)


@pytest.mark.parametrize("kind", ["usual", "copies", "grid", "equal"])
def test_recall_at_1_is_the_accuracy_of_nearest_neighbors(kind):
    Z, y, Z_query, y_query = make_vectors(kind)
    nearest = nearest_by_dimension(Z, Z_query)[-1]
    assert recall_at_k(Z, y, Z_query, y_query, k=1) == np.mean(y[nearest] == y_query)
    if kind == "usual":
        classifier = KNeighborsClassifier(1).fit(Z, y)
        assert recall_at_k(Z, y, Z_query, y_query, k=1) == classifier.score(Z_query, y_query)


@pytest.mark.parametrize("kind", ["usual", "lone labels"])
@pytest.mark.parametrize("among_themselves", [False, True])
def test_measures_equal_pytorch_metric_learning(kind, among_themselves):
    reason = "needs mpda[test-retrieval]"
    torch = pytest.importorskip("torch", reason=reason)
    calculators = pytest.importorskip(
        "pytorch_metric_learning.utils.accuracy_calculator", reason=reason
    )
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.utils.inference import CustomKNN

    theirs = {
        "precision_at_1": "recall_at_1",
        "r_precision": "r_precision",
        "mean_average_precision_at_r": "map_at_r",
    }
    Z, y, Z_query, y_query = make_vectors(kind, n=300, m=120)
    calculator = calculators.AccuracyCalculator(
        include=tuple(theirs),
        k="max_bin_count",
        device=torch.device("cpu"),
        knn_func=CustomKNN(LpDistance(normalize_embeddings=False)),
    )
    if among_themselves:
        Z_query = y_query = None
        expected = calculator.get_accuracy(torch.asarray(Z), torch.asarray(y))
    else:
        arrays = (torch.asarray(array) for array in (Z_query, y_query, Z, y))
        expected = calculator.get_accuracy(*arrays, ref_includes_query=False)
    means = score_queries(Z, y, Z_query, y_query, tuple(theirs.values())).means
    for their_name, name in theirs.items():
        assert means[name] == pytest.approx(expected[their_name], rel=1e-6)


@pytest.mark.parametrize("among_themselves", [False, True])
def test_measures_equal_trec_eval(among_themselves):
    ir_measures = pytest.importorskip("ir_measures", reason="needs mpda[test-retrieval]")
    Z, y, Z_query, y_query = make_vectors()
    names = {
        ir_measures.Success @ 1: "recall_at_1",
        ir_measures.Success @ 10: "recall_at_10",
        ir_measures.P @ 10: "precision_at_10",
        ir_measures.P @ 3: "precision_at_3",
        ir_measures.Rprec: "r_precision",
    }
    distances = cdist(Z if among_themselves else Z_query, Z)
    query_labels = y if among_themselves else y_query
    if among_themselves:
        Z_query = y_query = None
        np.fill_diagonal(distances, np.inf)
    scores = score_queries(Z, y, Z_query, y_query, [*names.values(), "map_at_r"])
    run, relevance = {}, {}
    for q, query_distances in enumerate(distances):
        ranked = np.argsort(query_distances)[: len(Z) - among_themselves]
        # trec_eval reads scores in single precision, so ranks stand for distances.
        run[str(q)] = {str(i): -float(rank) for rank, i in enumerate(ranked)}
        relevance[str(q)] = {str(i): int(y[i] == query_labels[q]) for i in ranked}
    results = list(ir_measures.iter_calc(names, relevance, run))
    assert len(results) == len(names) * len(distances)
    for result in results:
        value = scores.values[names[result.measure]][int(result.query_id)]
        assert value == pytest.approx(result.value, rel=1e-12)
    # MAP@R is the average precision of trec_eval, cut at the R of each query.
    for q in range(0, len(distances), 7):
        measure = ir_measures.AP @ int(scores.n_relevant[q])
        one = {str(q): relevance[str(q)]}, {str(q): run[str(q)]}
        expected = ir_measures.calc_aggregate([measure], *one)[measure]
        assert scores.values["map_at_r"][q] == pytest.approx(expected, rel=1e-12)


def test_order_of_queries_is_that_of_the_values():
    Z, y, Z_query, y_query = make_vectors("copies")
    order = np.random.default_rng(1).permutation(len(y_query))
    expected = score_queries(Z, y, Z_query, y_query, MEASURES)
    permuted = score_queries(Z, y, Z_query[order], y_query[order], MEASURES)
    np.testing.assert_array_equal(permuted.n_relevant, expected.n_relevant[order])
    for name in MEASURES:
        np.testing.assert_array_equal(permuted.values[name], expected.values[name][order])


def test_measures_are_invariant_to_shift_rotation_and_scale():
    Z, y, Z_query, y_query = make_vectors()
    rotation = 3.7 * ortho_group.rvs(Z.shape[1], random_state=0)
    expected = score_queries(Z, y, Z_query, y_query, MEASURES).means
    moved = score_queries(Z @ rotation + 5.0, y, Z_query @ rotation + 5.0, y_query, MEASURES).means
    assert moved == expected
    # Squares of these numbers are not finite, or zero.
    for exponent in (700, -700):
        scaled = np.ldexp(Z, exponent), y, np.ldexp(Z_query, exponent), y_query
        assert score_queries(*scaled, MEASURES).means == expected


@pytest.mark.parametrize(
    "names",
    [
        np.array(["e", "d", "c", "b", "a"]),
        np.array(["one", "two", "three", "four", "five"], dtype=object),
        np.array([5, -1, 2**62, 3, 0]),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 3, 3, 0], dtype=np.uint64),
        np.array([0.5, 1.5, 2.5, 3.5, 1e300]),
    ],
)
def test_names_of_classes_do_not_matter(names):
    Z, y, Z_query, y_query = make_vectors()
    expected = score_queries(Z, y, Z_query, y_query, MEASURES).means
    assert score_queries(Z, names[y], Z_query, names[y_query], MEASURES).means == expected
    as_objects = names[y_query].astype(object)
    assert score_queries(Z, names[y], Z_query, as_objects, MEASURES).means == expected


def test_labels_of_different_lengths_stay_apart():
    Z, y = [[0.0], [1.0]], ["a", "b"]
    scores = score_queries(Z, y, [[0.0], [1.0]], ["ab", "b"], "recall_at_1")
    np.testing.assert_array_equal(scores.values["recall_at_1"], [np.nan, 1.0])
    large = np.array([2**40, 1])
    scores = score_queries(Z, np.array([0, 1], dtype=np.int32), Z, large, "recall_at_1")
    np.testing.assert_array_equal(scores.values["recall_at_1"], [np.nan, 1.0])


def test_large_labels_of_different_types_stay_apart():
    y = np.array([2**53, 2**53 + 1, 2**53])
    y_query = np.array([2**53 + 1], dtype=np.uint64)
    assert recall_at_k([[0.0], [1.0], [2.0]], y, [[0.0]], y_query, k=1) == 0.0


def test_separate_clusters_are_retrieved_perfectly():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(10), 30))
    Z = 100.0 * np.eye(10)[y] + rng.normal(size=(300, 10))
    assert set(score_queries(Z, y, measures=MEASURES).means.values()) == {1.0}


def test_random_labels_have_the_expected_values():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(4000, 5)), np.repeat(np.arange(4), 1000)
    means = score_queries(Z, y, measures=MEASURES).means
    p = 999 / 3999
    # Five standard deviations, for values that were independent.
    for name in ("recall_at_1", "precision_at_10", "r_precision"):
        assert means[name] == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 4000))
    assert means["recall_at_10"] == pytest.approx(1 - (1 - p) ** 10, abs=0.02)
    # E rel(i) P(i) = p (1 + (i - 1) p) / i, nearly.
    ranks = np.arange(1, 1000)
    assert means["map_at_r"] == pytest.approx(np.mean(p * (1 + (ranks - 1) * p) / ranks), rel=0.02)


def test_a_sample_finds_its_copies_but_not_itself():
    Z, y = np.zeros((3, 2)), np.array(["a", "a", "b"])
    scores = score_queries(Z, y, measures=["recall_at_1", "precision_at_2"])
    np.testing.assert_array_equal(scores.values["recall_at_1"], [1.0, 1.0, np.nan])
    np.testing.assert_array_equal(scores.values["precision_at_2"], [0.5, 0.5, np.nan])
    # As queries of their own they find all copies, the lowest index first.
    assert recall_at_k(Z, y, Z, y, k=1) == pytest.approx(2 / 3)


def test_queries_without_a_right_sample_do_not_count():
    Z, y = np.array([[0.0], [1.0], [5.0]]), np.array(["a", "a", "b"])
    scores = score_queries(Z, y, measures=MEASURES[:1])
    np.testing.assert_array_equal(scores.n_relevant, [1, 1, 0])
    assert np.isnan(scores.values["recall_at_1"][2])
    assert scores.means == {"recall_at_1": 1.0}
    with pytest.raises(ValueError, match="None of the 3 queries has another sample of its class"):
        map_at_r(Z, ["a", "b", "c"])
    with pytest.raises(ValueError, match="None of the 1 queries"):
        map_at_r(Z, y, [[0.0]], ["c"])


@pytest.mark.parametrize("name", ["recall_at_3", "precision_at_250", "r_precision", "map_at_r"])
def test_measures_are_found_by_name(name):
    measure = find_measure(name)
    assert measure.name == name
    assert measure.k == {"recall_at_3": 3, "precision_at_250": 250}.get(name)


@pytest.mark.parametrize(
    "name",
    ["recall", "recall_at_0", "recall_at_-1", "recall_at_1.5", "recall_at_k", "map", 3, None],
)
def test_unknown_names_are_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=r"recall_at_<k>.*precision_at_<k>.*r_precision.*map_at_r"):
        find_measure(name)


def test_bad_input_is_refused():
    Z, y, Z_query, y_query = make_vectors(n=20, m=6)
    bad = Z_query.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="Input Z_query contains NaN"):
        map_at_r(Z, y, bad, y_query)
    with pytest.raises(ValueError, match="Input Z contains infinity"):
        map_at_r(np.where(Z > 0, np.inf, Z), y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        map_at_r(Z, np.where(y == y[0], np.nan, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        map_at_r(Z, y[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        map_at_r(Z, y, Z_query, y_query[:-1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        map_at_r(Z[:, 0], y)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        map_at_r(Z, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="Z_query has 3 features, but Z has 4"):
        map_at_r(Z, y, Z_query[:, :3], y_query)
    with pytest.raises(ValueError, match="must be given together"):
        map_at_r(Z, y, Z_query)
    with pytest.raises(TypeError, match="labels of one kind, got int, str"):
        map_at_r(Z, y, Z_query, y_query.astype(str))


def test_more_neighbors_than_samples_are_refused():
    Z, y, Z_query, y_query = make_vectors(n=20, m=6)
    assert 0.0 < precision_at_k(Z, y, Z_query, y_query, k=20) <= 1.0
    with pytest.raises(ValueError, match=r"precision_at_21 needs at least 21 samples .* are 20"):
        precision_at_k(Z, y, Z_query, y_query, k=21)
    assert 0.0 < precision_at_k(Z, y, k=19) <= 1.0
    with pytest.raises(ValueError, match=r"recall_at_20 needs .* 19 besides a query"):
        recall_at_k(Z, y, k=20)
    with pytest.raises(ValueError, match="k must be at least 1"):
        recall_at_k(Z, y, k=0)
    with pytest.raises(TypeError, match="k must be an int"):
        recall_at_k(Z, y, k=2.5)


def test_rows_are_queries_of_the_database():
    Z, y, *_ = make_vectors()
    rows = [7, 3, 60, 3]
    everything = score_queries(Z, y, measures=MEASURES)
    found = score_queries(Z, y, measures=MEASURES, rows=rows)
    for name in MEASURES:
        np.testing.assert_array_equal(found.values[name], everything.values[name][rows])
    np.testing.assert_array_equal(found.n_relevant, everything.n_relevant[rows])


def test_rows_and_other_queries_exclude_each_other():
    Z, y, Z_query, y_query = make_vectors()
    with pytest.raises(ValueError, match="rows are queries of the database"):
        score_queries(Z, y, Z_query, y_query, rows=[1])
