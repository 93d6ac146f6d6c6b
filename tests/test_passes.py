"""The passes over classes: what is kept between them, threads, and solvers that fall back."""

import numpy as np
import pytest
from sklearn.base import clone

from cases import unequal_classes
from mpda import MPDA, PMPDA
from mpda.discriminant import class_contribution as contributions
from mpda.discriminant import passes
from mpda.discriminant import schur_complement as reduction
from mpda.discriminant import within_form as forms

# The smallest class of these data has one sample, so k is cut, and said to be, in every fit.
pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


@pytest.mark.parametrize("method", [MPDA(), MPDA(anchors=True), PMPDA()])
@pytest.mark.parametrize("list_bytes", [0, 500, 10**9])  # for no lists, for some, for all
def test_forms_that_are_not_kept_are_made_again(method, list_bytes, monkeypatch):
    X, y = unequal_classes(23)
    kept = clone(method).set_params(n_neighbors=5).fit(X, y)
    monkeypatch.setattr(passes.Passes, "_kept_bytes", 0)
    monkeypatch.setattr(passes.Passes, "_kept_lists", list_bytes)
    made = []
    whole = contributions.tangent_form
    monkeypatch.setattr(contributions, "tangent_form", lambda *a: made.append(a) or whole(*a))
    again = clone(method).set_params(n_neighbors=5).fit(X, y)
    assert len(made) == len(np.unique(y)) - 1  # the first is kept in any case
    np.testing.assert_array_equal(again.components_, kept.components_)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
def test_large_forms_are_kept_without_their_unused_entries(method, monkeypatch):
    X, y = unequal_classes(23)
    plain = method(n_neighbors=5).fit(X, y)
    monkeypatch.setattr(forms, "_SMALL_BYTES", 0)
    packed = method(n_neighbors=5).fit(X, y)
    np.testing.assert_array_equal(packed.components_, plain.components_)


def test_a_fit_says_where_it_fell_back(monkeypatch, capsys):
    X, y = unequal_classes(24)
    plain = MPDA(5, n_neighbors=5, verbose=1).fit(X, y)
    assert "sparse factor" not in capsys.readouterr().err
    assert set(plain.class_solvers_) <= {"dense", "none"}
    monkeypatch.setattr(reduction, "_DENSE_LIMIT", 0)
    monkeypatch.setattr(reduction, "_FACTOR_LIMIT", 0)
    monkeypatch.setattr(reduction, "_MAX_STEPS", 0)
    fallen = MPDA(5, n_neighbors=5, verbose=1).fit(X, y)
    assert "MPDA, class 0, 1" in capsys.readouterr().err
    assert "sparse" in fallen.class_solvers_
    np.testing.assert_allclose(fallen.components_, plain.components_, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("method", [MPDA(5), PMPDA(5)])
def test_threads_over_large_classes_change_nothing(method, monkeypatch):
    X, y = unequal_classes(24)
    plain = clone(method).set_params(n_neighbors=5).fit(X, y)
    monkeypatch.setattr(passes, "class_threads", lambda sizes: 3)
    threaded = clone(method).set_params(n_neighbors=5).fit(X, y)
    np.testing.assert_array_equal(threaded.components_, plain.components_)
    np.testing.assert_array_equal(threaded.classes_, plain.classes_)
