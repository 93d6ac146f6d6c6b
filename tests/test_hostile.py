"""Hostile data give a finite fit that obeys the laws, or an error that names the cause.

``make fuzz`` draws many more cases.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hostile
import mpda
from hostile import LABELS, LAYOUTS, Recipe, fit_and_check

# Enough to meet every difficulty with some estimator; make fuzz takes minutes.
DRAWS = settings(hostile.SETTINGS, max_examples=12)
ignore_small_classes = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.NAMES)
def test_random_hostile_data_and_parameters_obey_the_laws(name):
    @DRAWS
    @given(hostile.draw_case(name))
    def check(case):
        fit_and_check(*case)

    check()


SOLVABLE = [
    *(Recipe(layout=layout) for layout in LAYOUTS),
    *(Recipe(labels=labels) for labels in LABELS),
    *(Recipe(dtype=dtype, scale="large") for dtype in ("float32", "int8", "float16", "uint16")),
    *(Recipe(scale=scale, d=8) for scale in ("mixed", "large", "small", "far away")),
    Recipe(scale="small", dtype="float32"),
    Recipe(sizes=(1, 1, 1, 40), d=3),
    Recipe(sizes=(2,) * 40, d=4),
    Recipe(sizes=(30, 20), d=1),
    Recipe(sizes=(20, 20), d=300),
    Recipe(within_copies=0.9),
    Recipe(copies=0.5),
    Recipe(constant=0.5, collinear=0.5, d=17),
    Recipe(constant=0.3, collinear=0.3, d=30, scale="wide and narrow", shape="heavy tails"),
    Recipe(constant=0.5, d=50, scale="wide and narrow"),
]


@pytest.mark.parametrize("recipe", SOLVABLE, ids=range(len(SOLVABLE)))
@pytest.mark.parametrize("method", [mpda.MPDA, mpda.PMPDA, mpda.LFDA, mpda.LSDA])
def test_solvable_data_are_fitted_without_a_warning(method, recipe):
    assert fit_and_check(method(n_neighbors=3, alpha=0.1), recipe) == ("answered", "")


# Cases of make fuzz that were once wrong: constant features had weights by rounding.
REGRESSIONS = [
    (
        mpda.LFDA(eigenvalue_power=1.0),
        Recipe(65536, (1, 150, 1), 60, "heavy tails", "wide and narrow", copies=0.1, collinear=0.1),
    ),
    (
        mpda.MFA(),
        Recipe(39834, (3, 5, 8, 2, 1, 5), 17, scale="wide and narrow", constant=0.5, subset=0.5),
    ),
    (
        mpda.LSDA(between_share=5e-324, orthonormal=True),
        Recipe(54874, (150, 4), 8, "plane", "mixed", copies=0.9, constant=0.5),
    ),
    (mpda.NeighborhoodRefinement(), Recipe(0, (1,) * 7, 1)),  # no sample has another of its class
]


@ignore_small_classes
@pytest.mark.parametrize(("estimator", "recipe"), REGRESSIONS, ids=lambda case: type(case).__name__)
def test_earlier_faults_stay_repaired(estimator, recipe):
    assert fit_and_check(estimator, recipe)[0].startswith("answered")


def test_two_samples_are_too_few_for_tangent_spaces():
    outcome, text = fit_and_check(mpda.LLTSA(), Recipe(sizes=(2,)))
    assert (outcome, text[:31]) == ("refused", "LLTSA needs 3 samples or more, ")


def test_a_ridge_with_which_eigenvalues_overflow_is_refused():
    recipe = Recipe(
        41, (13,), 5, "line", "mixed", within_copies=0.1, collinear=0.1, dtype="float32"
    )
    with pytest.raises(ValueError, match=r"alpha=1e\+300 is too large for samples of this scale"):
        mpda.LLTSA(alpha=1e300).fit(recipe.samples()[0])


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(subset=0.0), "Found array with 0 sample"),
        (Recipe(sizes=(5,)), "only 1 class"),
        (Recipe(sizes=(1,)), "minimum of 2 is required"),
        (Recipe(constant=1.0), "All samples of X are identical"),
        (Recipe(shape="duplicates"), "singular"),
    ],
)
def test_unsolvable_data_are_rejected_with_the_cause(recipe, message):
    outcome, text = fit_and_check(mpda.LFDA(), recipe)
    assert outcome == "refused"
    assert message in text


FAULTS = {
    "without a cause": lambda model, X, y: np.linalg.cholesky(-np.eye(2)),
    "input was modified": lambda model, X, y: X.fill(1.0),
    "differs between two fits": lambda model, X, y: model.mean_.fill(
        np.random.default_rng().normal()
    ),
    "not finite": lambda model, X, y: model.components_.fill(np.nan),
    "shape": lambda model, X, y: setattr(model, "components_", model.components_[:, :3]),
    "float32": lambda model, X, y: setattr(model, "components_", model.components_.astype("f4")),
    "not sorted": lambda model, X, y: model.eigenvalues_.sort(),
    "negative": lambda model, X, y: model.eigenvalues_.__isub__(1e3),
}


@pytest.mark.parametrize("message", FAULTS)
def test_faulty_fits_break_the_laws(message):
    class Faulty(mpda.LFDA):
        def fit(self, X, y):
            super().fit(X, y)
            FAULTS[message](self, X, y)
            return self

    with pytest.raises(AssertionError, match=message):
        fit_and_check(Faulty(n_neighbors=3), Recipe())


@pytest.mark.slow
@ignore_small_classes
@pytest.mark.parametrize("method", [mpda.MPDA, mpda.LFDA, mpda.LSDA])
def test_fit_is_equivariant_to_powers_of_two(method):
    """Multiplication by a power of two is exact, so the components change by its inverse."""

    @DRAWS
    @given(hostile.draw_recipe(), st.integers(-300, 300))
    def check(recipe, exponent):
        plain = {"dtype": "float64", "scale": "one", "layout": "C", "labels": "int", "subset": 1}
        X, y = replace(recipe, **plain).samples()
        assume(np.ptp(y) > 0 and np.ptp(X, axis=0).any())
        model = method(n_neighbors=4, alpha=0.1).fit(X, y)
        # If all neighbours are duplicates, alpha has no unit and is absolute.
        assume(model.strengths_["alpha"] != 0.1)
        scaled = method(n_neighbors=4, alpha=0.1).fit(np.ldexp(X, exponent), 2 * y - 7)
        power = 0 if method is mpda.LSDA else exponent  # components of LSDA have length 1
        np.testing.assert_array_equal(scaled.eigenvalues_, model.eigenvalues_)
        np.testing.assert_array_equal(np.ldexp(scaled.components_, power), model.components_)

    check()
