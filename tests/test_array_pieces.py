"""Array helpers for device libraries against NumPy's functions."""

import numpy as np

from mpda._lib import arrays
from mpda._lib.arrays import to_host


def test_index_arrays_read_and_write(library):
    X = np.arange(24.0).reshape(4, 3, 2)
    rows = np.array([[2, 0], [3, 3]])
    np.testing.assert_array_equal(to_host(arrays.take(library(X), library(rows))), X[rows])
    index = np.array([1, 3]), slice(None), np.array([0, 1])
    device_index = library(index[0]), index[1], library(index[2])
    expected = X.copy()
    expected[index] = -1.0
    np.testing.assert_array_equal(to_host(arrays.set_at(library(X), device_index, -1.0)), expected)


def test_segments_are_added_to_their_owners(library):
    owners = np.array([0, 0, 2, 2, 2, 5])
    blocks = np.random.default_rng(0).normal(size=(6, 2, 3))
    expected = np.ones((7, 2, 3))
    np.add.at(expected, owners, blocks)
    total = arrays.add_segments(library(np.ones((7, 2, 3))), library(owners), library(blocks))
    np.testing.assert_allclose(to_host(total), expected, rtol=1e-12)
    ones, no_owners, no_blocks = np.ones((2, 3)), owners[:0], np.ones((0, 3))
    total = arrays.add_segments(library(ones), library(no_owners), library(no_blocks))
    np.testing.assert_array_equal(to_host(total), ones)


def test_cholesky_factor_solves_and_estimates_the_condition(library):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(6, 6))
    S, B = A @ A.T, rng.normal(size=(6, 2))
    expected_factor = np.linalg.cholesky(S)
    L = arrays.cholesky(library(S))
    np.testing.assert_allclose(to_host(L), expected_factor, rtol=1e-10)
    for transposed, matrix in ((False, expected_factor), (True, expected_factor.T)):
        solution = arrays.solve_triangular(L, library(B), transposed=transposed)
        np.testing.assert_allclose(to_host(solution), np.linalg.solve(matrix, B), rtol=1e-8)
    assert arrays.cholesky(library(-S)) is None
    condition = float(np.linalg.cond(S))
    assert 0.5 * condition < arrays.condition_number(library(S), L) < 2.0 * condition


def test_ldexp_scales_beyond_the_range_of_one_factor(library):
    scaled = arrays.ldexp(library(np.array([2.0**-1000, -(2.0**-1020)])), 1900)
    np.testing.assert_array_equal(to_host(scaled), [2.0**900, -(2.0**880)])
    with np.errstate(over="ignore"):
        scaled = arrays.ldexp(library(np.array([2.0, 0.0])), 2046)
    np.testing.assert_array_equal(to_host(scaled), [np.inf, 0.0])


def test_rows_are_sorted_by_two_keys_and_cut_to_the_smallest(library):
    rng = np.random.default_rng(2)
    first = rng.integers(0, 3, (5, 9))
    second = rng.permuted(np.tile(np.arange(9), (5, 1)), axis=1)
    order = arrays.argsort_rows(library(first), library(second))
    np.testing.assert_array_equal(to_host(order), np.lexsort((second, first), axis=1))
    D = rng.normal(size=(4, 12))
    smallest = np.sort(to_host(arrays.argsmallest(library(D), 5)), axis=1)
    np.testing.assert_array_equal(smallest, np.sort(np.argsort(D, axis=1)[:, :5], axis=1))


def test_least_squares_solution_has_the_smallest_norm(library):
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(3, 7)), rng.normal(size=(3, 4))
    solution = to_host(arrays.least_squares(library(A), library(B)))
    np.testing.assert_allclose(solution, np.linalg.lstsq(A, B, rcond=None)[0], atol=1e-12)
