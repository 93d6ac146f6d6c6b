"""Data built to hurt: a finite answer that obeys its laws, or an error that names the cause.

``make fuzz`` draws many more of the same.
"""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mpda
from hostile import EDGES, LABELS, LAYOUTS, Fault, Recipe, cases, laws, outcome, recipes
from mpda.exceptions import NumericalWarning

# As many in every run of the suite, and the same ones.
DRAWS = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", EDGES)
def test_drawn_data_and_parameters(name):
    @DRAWS
    @given(cases(name))
    def ends_well(case):
        outcome(*case)

    ends_well()


HURTS = [
    *(Recipe(layout=layout) for layout in LAYOUTS),
    *(Recipe(labels=labels) for labels in LABELS),
    *(Recipe(dtype=dtype, scale="large") for dtype in ("float32", "int8", "float16", "uint16")),
    Recipe(scale="mixed", d=8),
    Recipe(scale="small", dtype="float32"),
    Recipe(sizes=(1, 1, 1, 40), d=3),
    Recipe(sizes=(2,) * 40, d=4),
    Recipe(sizes=(30, 20), d=1),
    Recipe(sizes=(20, 20), d=300),
    Recipe(inside=0.9),
    Recipe(across=0.5),
    Recipe(constant=0.5, collinear=0.5, d=17),
    Recipe(constant=0.3, collinear=0.3, d=30, scale="wide and narrow", shape="heavy tails"),
    Recipe(constant=0.5, d=50, scale="wide and narrow"),
]


@pytest.mark.parametrize("recipe", HURTS, ids=lambda recipe: _told(recipe))
@pytest.mark.parametrize("name", ["MPDA", "LFDA", "LSDA"])
def test_what_must_have_an_answer(name, recipe):
    estimator = getattr(mpda, name)(n_neighbors=3, alpha=0.1)
    assert outcome(estimator, recipe).kind == "answered"


# A constant feature had a part in these by rounding, and the first was right to one digit alone.
FOUND = {
    "more samples than features": (
        mpda.LFDA(eigenvalue_power=1.0),
        Recipe(65536, (1, 150, 1), 60, "heavy tails", "wide and narrow", across=0.1, collinear=0.1),
    ),
    "fewer": (
        mpda.MFA(),
        Recipe(39834, (3, 5, 8, 2, 1, 5), 17, scale="wide and narrow", constant=0.5, selected=0.5),
    ),
    "parallel but for rounding": (
        mpda.LSDA(between_share=5e-324, orthonormal=True),
        Recipe(54874, (150, 4), 8, "plane", "mixed", across=0.9, constant=0.5),
    ),
    "squares that are negative by rounding": (
        mpda.LLTSA(),
        Recipe(
            1000,
            (2, 40, 2, 2, 40, 40, 40, 2, 1, 2, 40, 1, 3, 1, 2, 3, 1, 1, 1),
            17,
            "grid",
            "mixed",
            collinear=0.1,
            dtype="float32",
        ),
    ),
}


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("name", FOUND)
def test_what_was_answered_wrongly(name, tmp_path):
    estimator, recipe = FOUND[name]
    found = outcome(estimator, recipe)
    assert found.kind.startswith("answered")
    with pytest.warns(NumericalWarning) if "warned" in found.kind else nullcontext():
        assert estimator.fit(*recipe.samples(tmp_path)).residual_ < 1e-9


def _told(recipe):
    plain = Recipe()
    return "-".join(
        f"{name}={value}" for name, value in vars(recipe).items() if value != getattr(plain, name)
    )


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe(selected=0.0), "Found array with 0 sample"),
        (Recipe(sizes=(5,)), "only 1 class"),
        (Recipe(sizes=(1,)), "minimum of 2 is required"),
        (Recipe(constant=1.0), "All samples of X are identical"),
        (Recipe(shape="copies"), "singular"),
    ],
)
def test_what_cannot_have_one_is_refused_with_the_cause(recipe, said):
    found = outcome(mpda.LFDA(), recipe)
    assert found.kind == "refused"
    assert said in found.said


class TestTheLawsCanFail:
    """Each law, broken on purpose."""

    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3

    @pytest.mark.parametrize(
        ("broken", "law"),
        [
            (lambda m: setattr(m, "components_", m.components_ * np.nan), "not finite"),
            (lambda m: setattr(m, "eigenvalues_", m.eigenvalues_[::-1]), "out of order"),
            (lambda m: setattr(m, "eigenvalues_", -m.eigenvalues_[::-1]), "negative"),
            (lambda m: setattr(m, "components_", m.components_[:, :3]), "shape"),
            (lambda m: setattr(m, "components_", m.components_.astype("f4")), "float32"),
        ],
    )
    def test_a_wrong_answer(self, broken, law):
        model = mpda.LFDA().fit(self.X, self.y)
        broken(model)
        with pytest.raises(Fault, match=law):
            laws(model, self.X, self.y)

    def test_an_error_without_a_cause(self):
        class Careless(mpda.LFDA):
            def fit(self, X, y):
                np.linalg.cholesky(-np.eye(2))

        with pytest.raises(Fault, match="without a cause"):
            outcome(Careless(), Recipe())

    def test_input_that_is_changed(self):
        class Rude(mpda.LFDA):
            def fit(self, X, y):
                super().fit(X, y)
                X[0, 0] += 1.0
                return self

        with pytest.raises(Fault, match="the input was changed"):
            outcome(Rude(), Recipe())

    def test_another_answer_the_second_time(self):
        class Moody(mpda.LFDA):
            def fit(self, X, y):
                return super().fit(X + np.random.default_rng().normal(size=X.shape), y)

        with pytest.raises(Fault, match="differs between two fits"):
            outcome(Moody(), Recipe())


@pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
@pytest.mark.parametrize("method", [mpda.MPDA, mpda.LFDA, mpda.LSDA])
def test_units_and_names_decide_nothing(method, tmp_path):
    """A power of two is exact, so components change by exactly its inverse."""

    @settings(DRAWS, max_examples=8)
    @given(recipes(), st.integers(-300, 300))
    def same(recipe, exponent):
        recipe = replace(recipe, dtype="float64", scale="one", layout="C", labels="int", selected=1)
        X, y = recipe.samples(tmp_path)
        assume(np.ptp(y) > 0 and np.ptp(X, axis=0).any())
        one = method(n_neighbors=4, alpha=0.1).fit(X, y)
        # Where neighbours are copies there is nothing that alpha could be relative to: it is taken
        # as it stands, in the units of the samples.
        assume(one.units_["alpha"] != 0.1)
        other = method(n_neighbors=4, alpha=0.1).fit(np.ldexp(X, exponent), 2 * y - 7)
        unit = 0 if method is mpda.LSDA else exponent  # its rows have length 1
        np.testing.assert_array_equal(np.abs(other.eigenvalues_), np.abs(one.eigenvalues_))
        np.testing.assert_array_equal(np.ldexp(other.components_, unit), one.components_)

    same()
