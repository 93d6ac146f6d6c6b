"""Stored types of vectors against their definitions, and the quality of stored vectors."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from mpda import MPDA, NeighborhoodRefinement
from mpda.assessment import (
    Contender,
    Split,
    make_contender,
    map_at_r,
    measure_stored_vectors,
    recall_at_k,
    score_stored,
)
from mpda.io import (
    VECTOR_TYPES,
    VectorType,
    count_numbers,
    fit_vector_type,
    parse_vector_type,
    read_vector_type,
    write_vector_type,
)


def make_vectors(n=40, r=11, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=(n, r)).astype(dtype)


@pytest.fixture(scope="module")
def digits():
    X, y = (values[::3] for values in load_digits(return_X_y=True))
    return Split(X[::2], y[::2], X[1::2], y[1::2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_int8_codes_are_multiples_of_one_scale(dtype):
    Z, new = make_vectors(dtype=dtype), 2.0 * make_vectors(dtype=dtype, seed=1)
    stored = fit_vector_type(Z, "int8")
    assert stored.scale == pytest.approx(np.abs(Z).max() / 127)
    codes = stored.encode(new)
    assert codes.dtype == np.int8
    for row, vector in zip(codes, new, strict=True):
        for code, number in zip(row, vector, strict=True):
            nearest = min(range(-127, 128), key=lambda c: abs(c * stored.scale - float(number)))
            assert abs(int(code) - nearest) <= 1  # a number half-way may round to either
            error = abs(code * stored.scale - float(number))
            assert error <= 0.5001 * stored.scale or abs(int(code)) == 127
    assert np.abs(stored.encode(Z)).max() == 127


def test_numbers_beyond_the_training_samples_are_clipped_symmetrically():
    stored = fit_vector_type([[1.0, -0.5]], "int8")
    assert stored.encode([[5.0, -5.0]]).tolist() == [[127, -127]]
    assert stored.encode([[-1.0, 0.0]]).tolist() == [[-127, 0]]


def test_a_vector_and_its_negative_have_opposite_codes():
    Z = make_vectors()
    stored = fit_vector_type(Z, "int8")
    assert (stored.encode(-Z) == -stored.encode(Z)).all()


def test_codes_have_the_neighbours_of_decoded_vectors():
    Z = make_vectors() * np.geomspace(1.0, 100.0, 11, dtype=np.float32)
    stored = fit_vector_type(Z, "int8")
    codes, decoded = stored.encode(Z).astype(float), stored.decode(stored.encode(Z))
    assert decoded.dtype == np.float32
    assert cdist(decoded, decoded) == pytest.approx(stored.scale * cdist(codes, codes), rel=1e-5)
    cosines = 1 - cdist(codes, codes, "cosine")
    assert 1 - cdist(decoded, decoded, "cosine") == pytest.approx(cosines, abs=1e-5)


def test_bits_are_signs_with_the_hamming_distance():
    Z = make_vectors()
    Z[0, 0] = 0.0
    stored = fit_vector_type(Z, "bits")
    codes = stored.encode(Z)
    assert codes.shape == (40, 2)
    assert codes.dtype == np.uint8
    for packed, vector in zip(codes, Z, strict=True):
        text = "".join("1" if number > 0 else "0" for number in vector).ljust(16, "0")
        assert [int(text[:8], 2), int(text[8:], 2)] == packed.tolist()
    hamming = [[sum((a > 0) != (b > 0) for a, b in zip(u, v, strict=True)) for u in Z] for v in Z]
    decoded = stored.decode(codes)
    assert set(np.unique(decoded)) == {-1.0, 1.0}
    assert cdist(decoded, decoded, "sqeuclidean") / 4 == pytest.approx(np.array(hamming))


@pytest.mark.parametrize(
    ("name", "n_bytes", "dtype"),
    [("float32", 44, np.float32), ("float16", 22, np.float16), ("int8", 11, np.int8)],
)
def test_bytes_are_those_of_the_array(name, n_bytes, dtype):
    Z = make_vectors(dtype=np.float64)
    stored = fit_vector_type(Z, name)
    codes = stored.encode(Z)
    assert codes.dtype == dtype
    assert stored.n_bytes == n_bytes == codes[0].nbytes
    assert stored.decode(codes) == pytest.approx(Z, abs={"int8": 0.02}.get(name, 2e-3))
    assert fit_vector_type(Z, "bits").n_bytes == 2


@pytest.mark.parametrize(("name", "n"), [*zip(VECTOR_TYPES, (16, 32, 64, 512), strict=True)])
def test_numbers_of_a_budget_fill_it(name, n):
    assert count_numbers(name, 64) == n
    assert VectorType(name, n, 1.0 if name == "int8" else None).n_bytes == 64


def test_wrong_vectors_and_types_are_refused():
    with pytest.raises(ValueError, match="float32, float16, int8, bits, got 'int4'"):
        fit_vector_type(make_vectors(), "int4")
    stored = fit_vector_type(make_vectors(), "int8")
    with pytest.raises(ValueError, match=r"\(n_samples, 11\), got \(40, 3\)"):
        stored.encode(make_vectors(r=3))
    broken = make_vectors()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        stored.encode(broken)
    with pytest.raises(ValueError, match="finite"):
        fit_vector_type(broken, "int8")
    with pytest.raises(ValueError, match=r"up to 65504, and the largest is 1e\+06: use int8"):
        fit_vector_type([[1e6]], "float16").encode([[1e6]])
    for scale in (None, 0.0, np.inf):
        with pytest.raises(ValueError, match="scale must be"):
            VectorType("int8", 3, scale)
    with pytest.raises(ValueError, match="scale must be given for int8"):
        VectorType("float16", 3, 0.1)


def test_vectors_of_zeros_have_codes_of_zero():
    stored = fit_vector_type(np.zeros((3, 2)), "int8")
    assert not stored.encode(np.zeros((3, 2))).any()


@pytest.mark.parametrize("name", VECTOR_TYPES)
def test_a_type_survives_its_file(tmp_path, name):
    stored = fit_vector_type(make_vectors(), name)
    path = write_vector_type(stored, tmp_path / "type.json", metric="cosine")
    assert read_vector_type(path) == stored
    assert parse_vector_type(json.loads(json.dumps(stored.to_dict()))) == stored
    entries = json.loads(path.read_text())
    assert entries["metric"] == "cosine"
    assert ("scale" in entries) == (name == "int8")


def measure_slowly(samples, name, *, cosine):
    """Return recall at 1 and MAP@R of rounded vectors."""
    Z, Z_test = (np.asarray(part, dtype=np.float64) for part in (samples.X, samples.X_test))
    if name == "float16":
        Z, Z_test = (part.astype(np.float16).astype(float) for part in (Z, Z_test))
    if name == "int8":
        scale = np.float32(np.abs(Z).max() / 127)
        Z, Z_test = (np.clip(np.rint(part / scale), -127, 127) for part in (Z, Z_test))
    if name == "bits":
        Z, Z_test = (np.where(part > 0, 1.0, -1.0) for part in (Z, Z_test))
    elif cosine:
        Z, Z_test = normalize(Z), normalize(Z_test)
    labels = samples.y, Z_test, samples.y_test
    return recall_at_k(Z, *labels, k=1), map_at_r(Z, *labels)


@pytest.mark.parametrize("cosine", [False, True])
def test_raw_vectors_are_measured_as_they_are_stored(digits, cosine):
    rows = measure_stored_vectors(digits, ["raw"], [8], VECTOR_TYPES, cosine=cosine)
    assert [(row.type, row.numbers, row.bytes) for row in rows] == [
        *(("float32", 64, 256), ("float16", 64, 128), ("int8", 64, 64), ("bits", 64, 8))
    ]
    for row in rows:
        expected = measure_slowly(digits, row.type, cosine=cosine)
        # Equal distances have another order; bits have many.
        tolerance = 0.03 if row.type == "bits" else 0.01
        assert (row.recall_at_1, row.map_at_r) == pytest.approx(expected, abs=tolerance)
    assert rows[-1].recall_at_1 < rows[0].recall_at_1 - 0.02  # signs of pixels say little


def test_equal_distances_do_not_favour_a_database_sorted_by_class():
    Z, y = np.ones((200, 3)), np.repeat(["a", "b"], 100)
    samples = Split(Z, y, Z[::10], y[::10])
    _, precision = score_stored(samples, fit_vector_type(Z, "bits"), cosine=False)
    # A class that stands first would have 1 and the other 0, in the mean 0.5; by chance it is 0.26.
    assert precision < 0.35


def test_truncation_is_the_first_numbers(digits):
    rows = measure_stored_vectors(digits, ["truncation"], [20, 40, 99], ["float32"])
    assert [row.numbers for row in rows] == [20, 40, 64]
    first = Split(digits.X[:, :20], digits.y, digits.X_test[:, :20], digits.y_test)
    expected = measure_slowly(first, "float32", cosine=False)[1]
    # Pixels are integers, so that some distances are equal.
    assert rows[0].map_at_r == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("name", ["PCA", "MPDA"])
def test_a_cut_eigenvector_map_is_the_smaller_map(digits, name):
    together = measure_stored_vectors(digits, [name], [4, 12], ["float32", "int8"], cuts=True)
    alone = measure_stored_vectors(digits, [name], [4], ["float32", "int8"])
    assert all(row.cut_from is None for row in together)
    for cut, row in zip(together, alone, strict=False):
        assert cut.numbers == row.numbers == 4
        assert cut.map_at_r == pytest.approx(row.map_at_r, abs=0.005)


def test_a_refined_map_is_fitted_for_each_number_and_cut_for_comparison(digits):
    rows = measure_stored_vectors(digits, ["PCA refined"], [4, 12], ["float32"], cuts=True)
    assert [(row.numbers, row.cut_from) for row in rows] == [(4, None), (12, None), (4, 12)]
    model = clone(make_contender("PCA refined", search=False).estimator({}, 12))
    model.fit(digits.X, digits.y)
    assert isinstance(model, NeighborhoodRefinement)
    Z, Z_test = (normalize(model.transform(X)[:, :4]) for X in (digits.X, digits.X_test))
    expected = map_at_r(Z, digits.y, Z_test, digits.y_test)
    assert rows[-1].map_at_r == pytest.approx(expected, abs=0.005)
    assert rows[0].map_at_r > rows[-1].map_at_r + 0.05


def test_a_method_has_at_most_the_numbers_that_it_can_have(digits):
    rows = measure_stored_vectors(digits, ["LDA"], [4, 8, 16, 32], ["bits"])
    assert [(row.numbers, row.bytes) for row in rows] == [(4, 1), (8, 1), (9, 2)]


@pytest.mark.parametrize("name", ["MPDA", "MPDA refined"])
def test_samples_of_low_rank_have_all_their_directions(digits, name):
    X, X_test = digits.X.copy(), digits.X_test.copy()
    X[:, 8:], X_test[:, 8:] = X[:, :8] @ np.ones((8, 56)), X_test[:, :8] @ np.ones((8, 56))
    flat = Split(X, digits.y, X_test, digits.y_test)
    rows = measure_stored_vectors(flat, [name], [4, 32, 64], ["float32"])
    rank = np.linalg.matrix_rank(X - X.mean(axis=0))
    first, second = (row.numbers for row in rows)
    assert first == 4
    assert second in (rank, rank + 1)  # with the constant of a sphere


def test_vectors_of_length_1_are_compared_by_the_cosine(digits):
    unit = Split(normalize(digits.X), digits.y, normalize(digits.X_test), digits.y_test)
    names = "truncation", "PCA"
    found = measure_stored_vectors(unit, names, [10], ["float32"])
    assert found == measure_stored_vectors(unit, names, [10], ["float32"], cosine=True)
    other = measure_stored_vectors(unit, names, [10], ["float32"], cosine=False)
    assert all(a.map_at_r != b.map_at_r for a, b in zip(found, other, strict=True))


def test_contenders_keep_their_name_and_parameters(digits):
    entry = make_contender("MPDA", search=False)
    contender = Contender("mine", entry.method, {"n_components": 3, "n_neighbors": 5})
    (row,) = measure_stored_vectors(digits, [contender], [6], ["float32"])
    model = MPDA(6, n_neighbors=5).fit(digits.X, digits.y)
    mapped = Split(
        *(model.transform(digits.X), digits.y, model.transform(digits.X_test), digits.y_test)
    )
    assert (row.method, row.numbers) == ("mine", 6)
    assert row.map_at_r == pytest.approx(measure_slowly(mapped, "float32", cosine=False)[1])


def test_preparation_is_fitted_to_the_training_samples():
    X, y = load_iris(return_X_y=True)
    samples = Split(X[::2], y[::2], X[1::2], y[1::2])
    (row,) = measure_stored_vectors(
        samples, ["PCA"], [2], ["float32"], steps=[("pca", PCA(3, svd_solver="full"))]
    )
    model = PCA(2).fit(samples.X)
    mapped = Split(
        *(model.transform(samples.X), samples.y, model.transform(samples.X_test), samples.y_test)
    )
    assert row.map_at_r == pytest.approx(measure_slowly(mapped, "float32", cosine=False)[1])


def test_plot_shows_each_map_and_type_once():
    pytest.importorskip("matplotlib", reason="needs mpda[plot]")
    from mpda.plotting import BytesDisplay, plot_bytes

    row = {"recall_at_1": 0.5, "map_at_r": 0.25}
    rows = [
        {"method": method, "numbers": n, "type": kind, "bytes": n * size, **row, "cut_from": cut}
        for method, n, cut in [("raw", 64, None), ("a", 8, None), ("a", 4, None), ("a", 4, 8)]
        for kind, size in (("float32", 4), ("int8", 1))
    ]
    figure = plot_bytes(rows)
    for axes in figure.axes:
        lines = [line for line in axes.lines if not line.get_label().startswith("_")]
        assert [line.get_label() for line in lines] == [
            *("a, int8", "a, cut from 8, int8", "a, float32", "a, cut from 8, float32"),
            *("raw, int8", "raw, float32"),
        ]
        assert list(lines[2].get_xdata()) == [16, 32]
        assert axes.get_xscale() == "log"
    assert [axes.lines[0].get_ydata()[0] for axes in figure.axes] == [50.0, 25.0]
    texts = [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    assert texts == ["raw", "a", "a, cut from 8", "float32", "int8"]
    with pytest.raises(ValueError, match="at least one row"):
        BytesDisplay([])
