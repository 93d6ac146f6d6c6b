"""What the array API standard lacks: each piece against NumPy's own."""

import numpy as np

from mpda._lib import arrays as _arrays


def test_reading_and_writing_at_indices(library):
    X = np.arange(24.0).reshape(4, 3, 2)
    places = np.array([[2, 0], [3, 3]])
    given = library(X)
    np.testing.assert_array_equal(_arrays.to_host(_arrays.take(given, library(places))), X[places])
    index = np.array([1, 3]), slice(None), np.array([0, 1])
    there = tuple(library(each) if isinstance(each, np.ndarray) else each for each in index)
    picked = _arrays.take_nd(given, there)
    np.testing.assert_array_equal(_arrays.to_host(picked), X[index])
    changed = _arrays.set_at(library(X), there, -1.0)
    expected = X.copy()
    expected[index] = -1.0
    np.testing.assert_array_equal(_arrays.to_host(changed), expected)


def test_sums_by_owner(library):
    owners = np.array([0, 0, 2, 2, 2, 5])
    blocks = np.random.default_rng(0).normal(size=(6, 2, 3))
    expected = np.ones((7, 2, 3))
    np.add.at(expected, owners, blocks)
    total = _arrays.add_segments(library(np.ones((7, 2, 3))), library(owners), library(blocks))
    np.testing.assert_allclose(_arrays.to_host(total), expected, rtol=1e-12)
    nothing = _arrays.add_segments(
        library(np.ones((2, 3))), library(owners[:0]), library(np.ones((0, 3)))
    )
    np.testing.assert_array_equal(_arrays.to_host(nothing), np.ones((2, 3)))


def test_factors(library):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(6, 6))
    S, B = A @ A.T, rng.normal(size=(6, 2))
    L = _arrays.cholesky(library(S))
    np.testing.assert_allclose(_arrays.to_host(L), np.linalg.cholesky(S), rtol=1e-10)
    for transposed in (False, True):
        found = _arrays.solve_triangular(L, library(B), transposed=transposed)
        side = np.linalg.cholesky(S)
        expected = np.linalg.solve(side.T if transposed else side, B)
        np.testing.assert_allclose(_arrays.to_host(found), expected, rtol=1e-8)
    assert _arrays.cholesky(library(-S)) is None
    condition = float(np.linalg.cond(S))
    assert 0.5 * condition < _arrays.condition_number(library(S), L) < 2.0 * condition


def test_powers_of_two_beyond_the_range_of_a_factor(library):
    tiny = library(np.array([2.0**-1000, -(2.0**-1020)]))
    found = _arrays.ldexp(tiny, 1900)
    np.testing.assert_array_equal(_arrays.to_host(found), [2.0**900, -(2.0**880)])
    with np.errstate(over="ignore"):
        found = _arrays.ldexp(library(np.array([2.0, 0.0])), 2046)
    np.testing.assert_array_equal(_arrays.to_host(found), [np.inf, 0.0])


def test_order_by_two_keys_and_the_smallest(library):
    rng = np.random.default_rng(2)
    first, second = (
        rng.integers(0, 3, (5, 9)),
        rng.permuted(np.tile(np.arange(9), (5, 1)), axis=1),
    )
    order = _arrays.argsort_rows(library(first), library(second))
    np.testing.assert_array_equal(_arrays.to_host(order), np.lexsort((second, first), axis=1))
    D = rng.normal(size=(4, 12))
    found = np.sort(_arrays.to_host(_arrays.argsmallest(library(D), 5)), axis=1)
    np.testing.assert_array_equal(found, np.sort(np.argsort(D, axis=1)[:, :5], axis=1))


def test_the_shortest_least_squares_solution(library):
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(3, 7)), rng.normal(size=(3, 4))
    found = _arrays.least_squares(library(A), library(B))
    np.testing.assert_allclose(
        _arrays.to_host(found), np.linalg.lstsq(A, B, rcond=None)[0], atol=1e-12
    )
