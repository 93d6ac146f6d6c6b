"""Nearest samples by products in single precision, against all distances in double precision."""

import numpy as np
import pytest

from mpda.neighbors import product_search
from mpda.neighbors.product_search import ProductSearch, search_products


def make_samples(kind, n=500, r=7):
    Z = np.random.default_rng(0).normal(size=(n, r))
    if kind == "tiny":
        return 1e-150 * Z
    if kind == "huge":
        return 1e150 * Z
    if kind == "far from the mean":
        return Z + 1e4
    if kind == "outlier":
        Z[0] *= 1e6
    if kind == "copies":
        Z[100:] = Z[:400]
    if kind == "equal":
        Z[:] = 1.0
    if kind == "single precision":
        return Z.astype(np.float32)
    return Z


KINDS = (
    "usual",
    "tiny",
    "huge",
    "far from the mean",
    "outlier",
    "copies",
    "equal",
    "single precision",
)


@pytest.mark.parametrize("entries", [1, 3_000, 4_000_000])
@pytest.mark.parametrize("k", [1, 9, 495, 500])
@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_the_smallest(monkeypatch, kind, k, entries):
    monkeypatch.setattr(product_search, "BLOCK_ENTRIES", entries)
    monkeypatch.setattr(product_search, "_CANDIDATE_ENTRIES", entries)
    Z = make_samples(kind)
    rows = np.arange(3, 500, 13)
    search = ProductSearch(Z)
    found = [search.find(block, k) for block in search.iter_blocks(rows, k)]
    indices, squares = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    assert all(len(set(row)) == k for row in indices.tolist())
    differences = (Z[rows][:, None].astype(float) - Z[None].astype(float)) ** 2
    expected = differences.sum(axis=2)
    # Of equal distances, any sample is right; squares have the rounding of products.
    rounding = 1e-14 * (search.squared_norms[rows] + search.squared_norms.max())[:, None]
    assert np.all(np.abs(np.take_along_axis(expected, indices, axis=1) - squares) <= rounding)
    smallest = np.sort(expected, axis=1)[:, :k]
    assert np.all(np.abs(np.sort(squares, axis=1) - smallest) <= 2.0 * rounding)


@pytest.mark.parametrize(("kind", "again"), [("usual", False), ("far from the mean", True)])
def test_only_doubtful_rows_are_searched_again(monkeypatch, kind, again):
    called = []
    compute = ProductSearch._compute_all_squares
    monkeypatch.setattr(
        ProductSearch,
        "_compute_all_squares",
        lambda self, rows: called.append(rows) or compute(self, rows),
    )
    ProductSearch(make_samples(kind)).find(np.arange(500), 9)
    assert bool(called) == again


def test_smallest_entries_of_a_product():
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(20, 3)), rng.normal(size=(3, 300))
    values, indices = search_products(left, right, 12)
    product = left @ right
    np.testing.assert_allclose(np.take_along_axis(product, indices, axis=1), values)
    np.testing.assert_allclose(np.sort(values, axis=1), np.sort(product, axis=1)[:, :12])
