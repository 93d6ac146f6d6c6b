"""What v takes off at many ridges at once, against its definition."""

import numpy as np
import pytest

from cases import uncoupled_form
from mpda._lib.threads import one_blas_thread
from mpda.discriminant import many_ridges as ridges
from mpda.discriminant.many_ridges import eliminated_at
from mpda.discriminant.tangents import neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import WithinForm, tangent_form
from mpda.neighbors.graph import EmbeddedGraph, build_class_graph
from mpda.neighbors.neighbor_lists import ClassPoints

WAYS = ["tridiagonal", "steps"]


def forms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * np.arange(1, 7)
    X[-4:] = X[:4]
    X[:, 2] = 1.0  # a feature without a say in S_tv
    graph = build_class_graph(ClassPoints(X), 5)
    placed = EmbeddedGraph(X, graph)
    own = np.arange(60)
    labels = rng.integers(0, 30, 60)
    labels = np.unique(labels, return_inverse=True)[1]
    return [
        tangent_form(placed, own, neighborhood_tangents(X, graph.neighbors, 0.95)),
        tangent_form(placed, labels, patch_tangents(X, labels, 1.0)),
    ]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """One of the two ways for forms of any size; what it was asked for is counted."""
    calls = []
    name = {"tridiagonal": "_by_tridiagonal_form", "steps": "_by_steps"}[request.param]
    whole = getattr(ridges, name)
    monkeypatch.setattr(ridges, name, lambda *given: calls.append(given) or whole(*given))
    monkeypatch.setattr(ridges, "_is_stepped", lambda *_: request.param == "steps")
    monkeypatch.setattr(ridges, "_is_tridiagonal", lambda *_: request.param == "tridiagonal")
    with one_blas_thread():
        yield calls


def defined(form, gamma, beta):
    C = form.tangent_block(gamma, 0.0) + beta * np.eye(form.size)
    B = form.cross_columns()
    return B @ np.linalg.solve(C, B.T)


@pytest.mark.parametrize("gamma", [0.0, 0.01, 3.0])
@pytest.mark.parametrize("form", forms(), ids=["neighbourhoods", "patches"])
def test_what_is_taken_at_every_ridge_is_that_of_the_definition(form, gamma, way):
    unit = np.trace(form.tangent_block(gamma, 0.0)) / form.size
    betas = [unit * ridge for ridge in (1.0, 1e-4, 0.03, 10.0)]  # in any order
    found = eliminated_at(form, gamma, betas)
    assert len(way) == 1
    for beta, taken in zip(betas, found, strict=True):
        expected = defined(form, gamma, beta)
        np.testing.assert_array_equal(taken, taken.T)
        np.testing.assert_allclose(taken, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("scale", [1e-100, 1e-12, 1e12, 1e100])
def test_the_scale_of_samples_decides_nothing(scale, way):
    form = forms()[0]
    scaled = WithinForm(
        scale * form.cross,
        scale**2 * form.first_order,
        scale**2 * form.turning,
        form.pairs,
        scale**2 * form.couplings,
        form.used,
    )
    for taken, again in zip(
        eliminated_at(form, 0.3, [0.01, 0.2]),
        eliminated_at(scaled, 0.3, [0.01 * scale**2, 0.2 * scale**2]),
        strict=True,
    ):
        np.testing.assert_allclose(again, taken, atol=1e-9 * np.abs(taken).max())


def test_a_singular_block_is_met_on_its_range(way):
    # Every tangent coordinate stands twice, so S_vv is singular; S_tv lies in its range.
    rng = np.random.default_rng(1)
    lengths = rng.uniform(0.1, 2.0, size=(40, 2, 1))
    cross = np.tile(rng.normal(size=(40, 3, 2)), 2)
    twice = uncoupled_form(cross, np.tile(lengths * np.eye(2), (2, 2)))
    B = twice.cross_columns()
    for beta, taken in zip([0.0, 0.5], eliminated_at(twice, 1.0, [0.0, 0.5]), strict=True):
        C = twice.tangent_block(1.0, beta)
        expected = B @ np.linalg.pinv(C, rcond=1e-12, hermitian=True) @ B.T
        np.testing.assert_allclose(taken, expected, atol=1e-9 * np.abs(expected).max())


def test_a_pivot_of_rounding_is_no_pivot():
    for seed in range(20):  # in some of them every pivot is positive
        rng = np.random.default_rng(seed)
        A, W = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
        form = uncoupled_form((W @ A.T)[None], (A @ A.T)[None])
        alone, ridged = ridges._by_tridiagonal_form(form, 1.0, [0.0, 0.1])
        assert alone is None
        assert ridged is not None


def test_steps_that_do_not_suffice_leave_a_ridge_to_a_factor(monkeypatch):
    form = forms()[0]
    monkeypatch.setattr(ridges, "_is_stepped", lambda *_: True)
    monkeypatch.setattr(ridges, "_MAX_STEPS", 4)
    alone = []
    whole = ridges.eliminate_tangents
    monkeypatch.setattr(ridges, "eliminate_tangents", lambda *g: alone.append(g[2]) or whole(*g))
    unit = np.linalg.norm(form.tangent_block(1.0, 0.0), 2)
    betas = [1e-6 * unit, 1e4 * unit]  # where steps are many, and where they are few
    with one_blas_thread():
        found = eliminated_at(form, 1.0, betas)
    for beta, taken in zip(betas, found, strict=True):
        expected = defined(form, 1.0, beta)
        np.testing.assert_allclose(taken, expected, atol=1e-10 * np.abs(expected).max())
    assert alone == betas[:1]


@pytest.mark.parametrize(
    ("size", "n_betas", "expected"),
    [
        (0, 9, False),
        (1, 9, False),
        (2, 3, True),
        (1200, 4, False),
        (1200, 5, True),
        (2000, 6, True),
        (2001, 60, False),
    ],
)
def test_a_tridiagonal_form_is_made_where_it_is_faster(size, n_betas, expected):
    assert ridges._is_tridiagonal(size, n_betas) == expected


@pytest.mark.parametrize(
    ("size", "d", "n_betas", "expected"),
    [
        (1500, 50, 9, False),
        (1501, 50, 4, True),
        (1501, 50, 3, False),
        (3000, 187, 9, True),
        (3000, 188, 9, False),
        (8192, 50, 4, True),
        (8193, 50, 40, False),
    ],
)
def test_steps_are_made_where_they_are_faster(size, d, n_betas, expected):
    assert ridges._is_stepped(size, d, n_betas) == expected
