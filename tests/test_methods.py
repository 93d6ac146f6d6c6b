"""Laws that hold for every method of the list, and what each method promises of its own."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

import mpda
import oracles
from cases import apart, bent_classes, largest_angle, lda_subspace, same_rows, unequal_classes
from mpda import LFDA, LLTSA, LPFE, LSDA, MFA, GraphDiscriminant
from mpda.exceptions import SingularFormError, SmallClassWarning
from mpda.model_selection.methods import METHODS, method

# Small classes and few iterations are what some of these data and settings mean to have; both
# warnings have tests of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
OURS = {each.name: each.estimator for each in METHODS if each.is_ours}
OURS["GraphDiscriminant"] = GraphDiscriminant


X, Y = bent_classes()


@pytest.mark.parametrize("name", OURS)
class TestLaws:
    def test_translation(self, name):
        shifted = OURS[name]().fit(X + 10.0, Y)
        fitted = OURS[name]().fit(X, Y)
        same_rows(fitted, shifted)
        np.testing.assert_allclose(shifted.mean_, fitted.mean_ + 10.0)
        np.testing.assert_allclose(
            shifted.transform(X + 10.0),
            fitted.transform(X),
            atol=1e-5 * np.ptp(fitted.transform(X)),
        )

    def test_names_of_classes(self, name):
        renamed = OURS[name]().fit(X, np.array(["c", "a", "b"])[Y])
        same_rows(OURS[name]().fit(X, Y), renamed)

    def test_order_of_samples(self, name):
        fitted = OURS[name]().fit(X, Y)
        order = np.random.default_rng(1).permutation(len(X))
        # MPDA's partition asks the order where two parts tie, so its patches are carried along.
        known = {"patches": fitted.patch_labels_[order]} if name == "MPDA" else {}
        same_rows(fitted, OURS[name]().fit(X[order], Y[order], **known))

    def test_scale(self, name):
        fitted = OURS[name]().fit(X, Y)
        scaled = OURS[name]().fit(1000.0 * X, Y)
        A, B = fitted.components_[apart(fitted)], scaled.components_[apart(fitted)]
        lengths = np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)
        np.testing.assert_allclose(lengths, lengths[0], rtol=1e-6)
        np.testing.assert_allclose(B * lengths[0], A, atol=1e-6 * np.abs(A).max())

    def test_the_same_input_gives_the_same_output(self, name):
        first, second = OURS[name]().fit(X, Y), OURS[name]().fit(X, Y)
        np.testing.assert_array_equal(first.components_, second.components_)

    def test_signs(self, name):
        rows = OURS[name]().fit(X, Y).components_
        largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
        assert (largest > 0).all()

    def test_number_of_components(self, name):
        two = OURS[name](n_components=2).fit(X, Y)
        assert two.components_.shape == (2, 5)
        assert two.transform(X).shape == (len(X), 2)
        assert len(two.get_feature_names_out()) == 2
        with pytest.raises(ValueError, match=r"n_components=6 is more than there is: .*only [25] "):
            OURS[name](n_components=6).fit(X, Y)
        for bad in (0, 2.0, "two", True):
            with pytest.raises((ValueError, TypeError), match="n_components must be"):
                OURS[name](n_components=bad).fit(X, Y)

    def test_single_precision(self, name):
        fitted = OURS[name](n_components=2).fit(X.astype(np.float32), Y)
        assert fitted.components_.dtype == fitted.mean_.dtype == np.float32
        assert fitted.transform(X.astype(np.float32)).dtype == np.float32

    def test_inverse(self, name):
        fitted = OURS[name](n_components=2).fit(X, Y)
        Z = fitted.transform(X)
        np.testing.assert_allclose(
            fitted.transform(fitted.inverse_transform(Z)), Z, atol=1e-8 * np.abs(Z).max()
        )

    @pytest.mark.parametrize("scale", [1e-150, 1e150])
    def test_extreme_scales(self, name, scale):
        fitted = OURS[name](n_components=2).fit(scale * X, Y)
        assert np.isfinite(fitted.components_).all()
        assert np.linalg.matrix_rank(fitted.components_ / np.abs(fitted.components_).max()) == 2
        assert np.isfinite(fitted.transform(scale * X)).all()
        assert np.ptp(fitted.transform(scale * X), axis=0).min() > 0

    def test_duplicates_constant_features_and_small_classes(self, name):
        hard, labels = unequal_classes(3)
        hard = np.column_stack([hard, np.zeros(len(hard)), np.full(len(hard), 5.0), hard[:, 0]])
        fitted = OURS[name](n_components=2).fit(hard, labels)
        assert np.isfinite(fitted.components_).all()
        np.testing.assert_allclose(fitted.components_[:, 6:8], 0.0, atol=1e-9)

    def test_unknown_parameters_and_bad_values(self, name):
        estimator = OURS[name]
        for parameter in inspect.signature(estimator).parameters:
            if parameter in ("tangent_alpha", "tangent_dimension", "verbose", "max_time", "widths"):
                continue
            for bad in (object(), -3, np.nan):
                if parameter in ("n_jobs", "random_state") and bad == -3:
                    continue
                with pytest.raises((ValueError, TypeError), match=parameter):
                    estimator(**{parameter: bad}).fit(X, Y)

    def test_d_above_n_needs_a_ridge_or_says_so(self, name):
        rng = np.random.default_rng(4)
        wide = rng.normal(size=(20, 50)) + np.repeat([0, 1], 10)[:, None]
        labels = np.repeat([0, 1], 10)
        try:
            fitted = OURS[name](n_components=1).fit(wide, labels)
        except SingularFormError as error:
            if "alpha" not in str(error) or "PCA" not in str(error):
                raise
            fitted = OURS[name](n_components=1, alpha=0.1).fit(wide, labels)
        assert np.isfinite(fitted.components_).all()


@pytest.mark.parametrize("name", ["MFA", "LSDA", "LFDA", "LLTSA", "LPFE", "GraphDiscriminant"])
def test_the_ridge_does_not_count_constant_features(name):
    plain = OURS[name](n_components=2, alpha=0.3).fit(X, Y)
    wider = OURS[name](n_components=2, alpha=0.3).fit(np.column_stack([X, np.ones(len(X))]), Y)
    assert wider.units_["alpha"] == pytest.approx(plain.units_["alpha"])
    np.testing.assert_allclose(wider.components_[:, :5], plain.components_, rtol=1e-6)


def test_components_of_very_unequal_length_have_an_inverse():
    fitted = LFDA(eigenvalue_power=30.0).fit(X, Y)
    lengths = np.linalg.norm(fitted.components_, axis=1)
    assert lengths.min() < 1e-20 * lengths.max()
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, rtol=1e-8)


EIGEN = ["MFA", "LSDA", "LFDA", "GraphDiscriminant"]


@pytest.mark.parametrize("name", [*EIGEN, "LLTSA", "LPFE"])
def test_orthonormal_components_span_the_same_spaces(name):
    plain = OURS[name]().fit(X, Y)
    made = OURS[name](orthonormal=True).fit(X, Y)
    rows = made.components_
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    for r in range(1, len(rows)):
        assert largest_angle(rows[:r].T, plain.components_[:r].T) < 1e-6
    with pytest.raises(TypeError, match="orthonormal must be True or False, got 'yes'"):
        OURS[name](orthonormal="yes").fit(X, Y)


@pytest.mark.parametrize("name", EIGEN)
def test_eigenvalue_power(name):
    plain = OURS[name](eigenvalue_power=0.0).fit(X, Y)
    powered = OURS[name](eigenvalue_power=2.0).fit(X, Y)
    shares = plain.eigenvalues_ / plain.eigenvalues_[0]
    np.testing.assert_allclose(powered.components_, plain.components_ * shares[:, None] ** 2)


@pytest.mark.parametrize("name", ["LLTSA", "LPFE"])
def test_eigenvalue_power_where_the_smallest_come_first(name):
    plain = OURS[name](eigenvalue_power=0.0).fit(X, Y)
    powered = OURS[name](eigenvalue_power=0.5).fit(X, Y)
    values = np.maximum(plain.eigenvalues_, 1e-10)
    assert (np.diff(plain.eigenvalues_) >= -1e-12).all()
    shares = np.sqrt(values[0] / values)
    np.testing.assert_allclose(powered.components_, plain.components_ * shares[:, None])
    fewer = OURS[name](2, eigenvalue_power=0.5)
    if name == "LPFE":  # the tangent spaces of LLTSA follow the number of components
        np.testing.assert_allclose(fewer.fit(X, Y).components_, powered.components_[:2])


def test_every_method_with_an_eigenproblem_has_the_power():
    for name, estimator in OURS.items():
        assert ("eigenvalue_power" in estimator().get_params()) == (name != "LSDR")


@pytest.mark.parametrize("each", [m for m in METHODS if m.is_ours], ids=lambda m: m.name)
def test_scale_is_the_published_one(each):
    if each.scale == "unit":
        rows = each.estimator().fit(X, Y).components_
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    elif each.scale == "orthonormal":
        rows = each.estimator().fit(X, Y).components_
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    elif each.scale == "weighted":
        fitted = each.estimator().fit(X, Y)
        within = oracles.local_fisher_weights(X, Y, 7, "full")[1]
        S = oracles.weighted_scatter(X, within)
        lengths = np.einsum("ri,ij,rj->r", fitted.components_, S, fitted.components_)
        np.testing.assert_allclose(lengths, fitted.eigenvalues_ / fitted.eigenvalues_[0])
    elif each.name == "LLTSA":
        rows = each.estimator().fit(X, Y).components_
        centred = X - X.mean(axis=0)
        np.testing.assert_allclose(rows @ centred.T @ centred @ rows.T, np.eye(5), atol=1e-10)
    elif each.name in ("MPDA", "PMPDA"):  # checked against the authors' program
        assert each.scale == "form"
    else:
        assert (each.name, each.scale) == ("LPFE", "least squares")


def test_the_list():
    names = [each.name for each in METHODS]
    assert len(set(names)) == len(names)
    assert {"LFDA", "MFA", "LSDA", "LLTSA", "LPFE", "LSDR", "MPDA", "PMPDA", "PCA", "LDA"} <= set(
        names
    )
    others = {"ManifoldPartition", "GraphDiscriminant", "GramPCA"}  # PCA stands for the last
    classes = {name for name in mpda.__all__ if inspect.isclass(getattr(mpda, name))}
    assert classes - others <= set(names)
    for each in METHODS:
        parameters = inspect.signature(each.estimator).parameters
        assert set(each.grid) <= set(parameters)
        assert set(each.published) | set(each.always) <= set(parameters)
        assert not set(each.published_grid()) & set(each.published)
        for chosen in list(ParameterGrid({k: list(v) for k, v in each.grid.items()}))[:2]:
            each.estimator(**{**each.always, **each.published, **chosen}).fit(X, Y)
    assert method("LFDA").estimator is LFDA
    with pytest.raises(ValueError, match=r"method must be one of PCA, LDA, .* got 'TSNE'"):
        method("TSNE")


@pytest.mark.parametrize("seed", range(3))
def test_fishers_subspace(seed):
    X, y = bent_classes(seed, d=7, sizes=(40, 31, 12, 55))
    wanted = lda_subspace(X, y)
    for estimator in (GraphDiscriminant(), LFDA(affinity="ones"), GraphDiscriminant("fisher")):
        rows = estimator.fit(X, y).components_
        assert rows.shape == (3, 7)
        assert largest_angle(rows.T, wanted) < 1e-6


def equal_means():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]] * 5)
    return X, np.array([0, 1, 1, 0] * 5)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (GraphDiscriminant(), equal_means()),
        (LFDA(affinity="ones"), equal_means()),
        (GraphDiscriminant(between=lambda X, y: np.zeros((len(y), len(y)))), (X, Y)),
        (GraphDiscriminant(between=lambda X, y: -1.0 * np.equal.outer(y, y)), (X, Y)),
        (LPFE(tangent_energy=0.0), (X, Y)),
        (LPFE(), (X[:6], np.arange(6))),
    ],
)
def test_nothing_to_find_is_said(estimator, data):
    with pytest.raises(ValueError, match="There is no direction to find"):
        estimator.fit(*data)


@pytest.mark.parametrize(
    "estimator", [mpda.MPDA(n_neighbors=50), LFDA(n_neighbors=50), MFA(n_neighbors=50)]
)
def test_warnings_point_at_the_line_of_the_fit(estimator):
    with pytest.warns(SmallClassWarning) as seen:
        estimator.fit(X, Y)
    assert seen[0].filename == __file__


def test_no_method_makes_a_matrix_of_all_pairs():
    """Memory of a fit stays well below that of one n x n matrix."""
    import tracemalloc

    rng = np.random.default_rng(6)
    n = 4000
    y = np.arange(n) % 30
    X = rng.normal(size=(n, 3)) + 5.0 * rng.normal(size=(30, 3))[y]
    for estimator in (LFDA(), MFA(), LSDA(), LLTSA(2), LPFE(2), GraphDiscriminant()):
        tracemalloc.start()
        estimator.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * n * n * 8, type(estimator).__name__


@pytest.mark.parametrize("estimator", [LFDA(), MFA(), LPFE(), GraphDiscriminant("local")])
def test_small_classes_are_named(estimator):
    few, labels = bent_classes(7, sizes=(30, 4, 25))
    with pytest.warns(SmallClassWarning, match="class 1"):
        estimator.fit(few, labels)


@pytest.mark.parametrize("estimator", [LFDA, MFA, LSDA, LPFE, LLTSA, GraphDiscriminant])
def test_progress(estimator, capsys):
    estimator(verbose=1).fit(X, Y)
    assert estimator.__name__ in capsys.readouterr().err
    estimator().fit(X, Y)
    assert capsys.readouterr().err == ""


def test_warnings_are_no_more_than_meant():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, estimator in OURS.items():
            if name != "PMPDA" and name != "MPDA":
                estimator(n_components=2).fit(X, Y)
