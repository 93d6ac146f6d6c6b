"""Laws that hold for every method of the list, and the list itself."""

import inspect
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import mpda
import oracles
from cases import apart, bent_classes, largest_angle, lda_subspace, same_rows, unequal_classes
from mpda import LFDA, LLTSA, LPFE, LSDA, LSDR, MFA, MPDA, PMPDA, GraphDiscriminant
from mpda.estimators._base import LinearMap
from mpda.estimators.methods import METHODS, method
from mpda.exceptions import FeatureScaleWarning, SmallClassWarning

# Data and settings have small classes and few iterations on purpose; both warnings are tested
# elsewhere.
pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
# Refined methods have tests of their own.
SINGLE_STAGE = [entry for entry in METHODS if not entry.start]
OWN = [entry for entry in SINGLE_STAGE if issubclass(entry.estimator, LinearMap)]
ESTIMATORS = {entry.name: entry.estimator for entry in OWN}
ESTIMATORS["GraphDiscriminant"] = GraphDiscriminant
# Fewer starts and folds run the same code in less time.
ESTIMATORS["LSDR"] = partial(LSDR, init="pca", n_folds=2)
MAXIMISING = ["MFA", "LSDA", "LFDA", "GraphDiscriminant"]
MINIMISING = ["LLTSA", "LPFE"]

X, Y = bent_classes()


@pytest.mark.parametrize("name", ESTIMATORS)
class TestLaws:
    def test_fit_is_invariant_to_translation(self, name):
        fitted, shifted = ESTIMATORS[name]().fit(X, Y), ESTIMATORS[name]().fit(X + 10.0, Y)
        same_rows(fitted, shifted)
        np.testing.assert_allclose(shifted.mean_, fitted.mean_ + 10.0)
        Z = fitted.transform(X)
        np.testing.assert_allclose(shifted.transform(X + 10.0), Z, atol=1e-5 * np.ptp(Z))

    def test_fit_is_invariant_to_class_names(self, name):
        renamed = ESTIMATORS[name]().fit(X, np.array(["c", "a", "b"])[Y])
        same_rows(ESTIMATORS[name]().fit(X, Y), renamed)

    def test_fit_is_invariant_to_the_order_of_samples(self, name):
        fitted = ESTIMATORS[name]().fit(X, Y)
        order = np.random.default_rng(1).permutation(len(X))
        # MPDA's partition breaks ties by index, so its patches are passed on.
        options = {"patches": fitted.patch_labels_[order]} if name == "MPDA" else {}
        same_rows(fitted, ESTIMATORS[name]().fit(X[order], Y[order], **options))

    def test_fit_is_equivariant_to_scale(self, name):
        fitted, scaled = ESTIMATORS[name]().fit(X, Y), ESTIMATORS[name]().fit(1000.0 * X, Y)
        A, B = fitted.components_[apart(fitted)], scaled.components_[apart(fitted)]
        ratios = np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)
        np.testing.assert_allclose(B * ratios[0], A, atol=1e-6 * np.abs(A).max())

    def test_fit_is_repeatable_with_fixed_signs(self, name):
        rows = ESTIMATORS[name]().fit(X, Y).components_
        np.testing.assert_array_equal(ESTIMATORS[name]().fit(X, Y).components_, rows)
        assert (rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)] > 0).all()

    def test_number_of_components_is_honoured_or_rejected(self, name):
        two = ESTIMATORS[name](n_components=2).fit(X, Y)
        assert two.components_.shape == (2, 5)
        assert two.transform(X).shape == (len(X), 2)
        assert len(two.get_feature_names_out()) == 2
        with pytest.raises(ValueError, match=r"n_components=6 is more than there is: .*only [25] "):
            ESTIMATORS[name](n_components=6).fit(X, Y)
        for value in (0, 2.0, "two", True):
            with pytest.raises((ValueError, TypeError), match="n_components must be"):
                ESTIMATORS[name](n_components=value).fit(X, Y)

    def test_single_precision_is_kept(self, name):
        fitted = ESTIMATORS[name](n_components=2).fit(X.astype(np.float32), Y)
        assert fitted.components_.dtype == fitted.mean_.dtype == np.float32
        assert fitted.transform(X.astype(np.float32)).dtype == np.float32

    def test_inverse_transform_is_a_right_inverse(self, name):
        fitted = ESTIMATORS[name](n_components=2).fit(X, Y)
        Z = fitted.transform(X)
        again = fitted.transform(fitted.inverse_transform(Z))
        np.testing.assert_allclose(again, Z, atol=1e-8 * np.abs(Z).max())

    @pytest.mark.parametrize("scale", [1e-150, 1e150])
    def test_extreme_scales_give_finite_components(self, name, scale):
        fitted = ESTIMATORS[name](n_components=2).fit(scale * X, Y)
        assert np.isfinite(fitted.components_).all()
        assert np.linalg.matrix_rank(fitted.components_ / np.abs(fitted.components_).max()) == 2
        assert np.isfinite(fitted.transform(scale * X)).all()
        assert np.ptp(fitted.transform(scale * X), axis=0).min() > 0

    def test_duplicates_constant_features_and_small_classes(self, name):
        samples, labels = unequal_classes(3)
        constants = np.zeros(len(samples)), np.full(len(samples), 5.0)
        samples = np.column_stack([samples, *constants, samples[:, 0]])
        fitted = ESTIMATORS[name](n_components=2).fit(samples, labels)
        assert np.isfinite(fitted.components_).all()
        np.testing.assert_allclose(fitted.components_[:, 6:8], 0.0, atol=1e-9)

    def test_invalid_parameters_are_named(self, name):
        optional = {
            "tangent_alpha",
            "tangent_dimension",
            "verbose",
            "max_time",
            "widths",
            "unlabeled",
        }
        for parameter in set(inspect.signature(ESTIMATORS[name]).parameters) - optional:
            for value in (object(), -3, np.nan):
                if parameter in ("n_jobs", "random_state") and value == -3:
                    continue
                with pytest.raises((ValueError, TypeError), match=parameter):
                    ESTIMATORS[name](**{parameter: value}).fit(X, Y)


@pytest.mark.parametrize("name", MAXIMISING + MINIMISING)
def test_ridge_does_not_count_constant_features(name):
    plain = ESTIMATORS[name](n_components=2, alpha=0.3).fit(X, Y)
    padded = ESTIMATORS[name](n_components=2, alpha=0.3).fit(np.c_[X, np.ones(len(X))], Y)
    assert padded.strengths_["alpha"] == pytest.approx(plain.strengths_["alpha"])
    np.testing.assert_allclose(padded.components_[:, :5], plain.components_, rtol=1e-6)


def test_components_of_very_unequal_length_have_an_inverse():
    fitted = LFDA(eigenvalue_power=30.0).fit(X, Y)
    lengths = np.linalg.norm(fitted.components_, axis=1)
    assert lengths.min() < 1e-20 * lengths.max()
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, rtol=1e-8)


@pytest.mark.parametrize("name", MAXIMISING + MINIMISING)
def test_orthonormal_components_span_the_nested_subspaces(name):
    plain = ESTIMATORS[name]().fit(X, Y)
    rows = ESTIMATORS[name](orthonormal=True).fit(X, Y).components_
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    for r in range(1, len(rows)):
        assert largest_angle(rows[:r].T, plain.components_[:r].T) < 1e-6
    with pytest.raises(TypeError, match="orthonormal must be True or False, got 'yes'"):
        ESTIMATORS[name](orthonormal="yes").fit(X, Y)


@pytest.mark.parametrize("name", ["MPDA", "PMPDA", *MAXIMISING, *MINIMISING])
def test_eigenvalue_power_multiplies_the_components(name):
    plain = ESTIMATORS[name](eigenvalue_power=0.0).fit(X, Y)
    powered = ESTIMATORS[name](eigenvalue_power=0.5).fit(X, Y)
    values = np.maximum(plain.eigenvalues_, 1e-10)
    ratios = values / values[0] if name not in MINIMISING else values[0] / values
    np.testing.assert_allclose(powered.components_, plain.components_ * np.sqrt(ratios)[:, None])
    if name in MINIMISING:
        assert (np.diff(plain.eigenvalues_) >= -1e-12).all()
    if name != "LLTSA":  # whose tangent spaces depend on the number of components
        first = ESTIMATORS[name](n_components=2, eigenvalue_power=0.5).fit(X, Y)
        np.testing.assert_allclose(first.components_, powered.components_[:2])


@pytest.mark.parametrize("name", MAXIMISING + MINIMISING)
def test_fit_many_equals_single_fits(name):
    grid = {"n_neighbors": [4, 6], "alpha": [0.1, 1.0], "eigenvalue_power": [0.0, 0.5]}
    points = list(ParameterGrid(grid))
    fits = set()
    for path in ESTIMATORS[name]().fit_many(X, Y, points, [1, 3]):
        for r in range(path.first, len(path.components) + 1):
            fitted = ESTIMATORS[name](n_components=r, **points[path.index]).fit(X, Y)
            size = np.abs(fitted.components_).max()
            np.testing.assert_allclose(path.components[:r], fitted.components_, atol=1e-8 * size)
            fits.add((path.index, r))
    n_components = 2 if name == "GraphDiscriminant" else 3  # of Fisher's graphs with three classes
    assert fits == {(i, r) for i in range(len(points)) for r in range(1, n_components + 1)}


@pytest.mark.parametrize("entry", OWN, ids=lambda m: m.name)
def test_components_have_the_published_scale(entry):
    fitted = entry.estimator().fit(X, Y)
    rows, centred = fitted.components_, X - X.mean(axis=0)
    if entry.scale == "unit":
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    elif entry.scale == "orthonormal":
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    elif entry.scale == "weighted":
        S = oracles.weighted_scatter(X, oracles.local_fisher_weights(X, Y, 7, "full")[1])
        lengths = np.einsum("ri,ij,rj->r", rows, S, rows)
        np.testing.assert_allclose(lengths, fitted.eigenvalues_ / fitted.eigenvalues_[0])
    elif entry.name == "LLTSA":
        np.testing.assert_allclose(rows @ centred.T @ centred @ rows.T, np.eye(5), atol=1e-10)
    else:  # MPDA and PMPDA are compared with the authors' program
        expected = {"MPDA": "form", "PMPDA": "form", "LPFE": "least squares"}
        expected |= {"GMML": "metric", "DMLMJ": "form"}  # test_pair_metrics.py
        expected |= {"within-class whitening": "form"}  # test_within_class_whitening.py
        assert entry.scale == expected[entry.name]


def test_method_list_is_consistent():
    names = [entry.name for entry in METHODS]
    assert len(set(names)) == len(names)
    assert {"PCA", "LDA"} < set(names)
    # PCA stands for GramPCA, and refinements have the names of their starts.
    others = {"ManifoldPartition", "GraphDiscriminant", "GramPCA", "NeighborhoodRefinement"}
    others |= {"TSIMR", "PFE"}  # without labels
    others |= {"WithinClassWhitening"}  # in words
    classes = {name for name in mpda.__all__ if hasattr(getattr(mpda, name), "fit")}
    assert classes - others <= set(names)
    for entry in METHODS:
        parameters = entry.make().get_params()
        assert set(entry.grid) <= set(parameters)
        assert set(entry.published) | set(entry.always) <= set(parameters)
        assert not set(entry.published_grid()) & set(entry.published)
        for point in list(ParameterGrid({k: list(v) for k, v in entry.grid.items()}))[:2]:
            entry.make(**{**entry.always, **entry.published, **point}).fit(X, Y)
    assert method("LFDA").estimator is LFDA
    with pytest.raises(ValueError, match=r"method must be one of PCA, LDA, .* got 'TSNE'"):
        method("TSNE")


@pytest.mark.parametrize("seed", range(3))
def test_fisher_graphs_give_the_subspace_of_lda(seed):
    X, y = bent_classes(seed, d=7, sizes=(40, 31, 12, 55))
    for estimator in (GraphDiscriminant(), LFDA(affinity="ones")):
        rows = estimator.fit(X, y).components_
        assert rows.shape == (3, 7)
        assert largest_angle(rows.T, lda_subspace(X, y)) < 1e-6


EQUAL_MEANS = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]] * 5), np.array([0, 1, 1, 0] * 5)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (GraphDiscriminant(), EQUAL_MEANS),
        (LFDA(affinity="ones"), EQUAL_MEANS),
        (GraphDiscriminant(between=lambda X, y: np.zeros((len(y), len(y)))), (X, Y)),
        (GraphDiscriminant(between=lambda X, y: -1.0 * np.equal.outer(y, y)), (X, Y)),
        (LPFE(tangent_energy=0.0), (X, Y)),
        (LPFE(), (X[:6], np.arange(6))),
    ],
)
def test_a_problem_without_directions_is_an_error(estimator, data):
    with pytest.raises(ValueError, match="There is no direction to find"):
        estimator.fit(*data)


@pytest.mark.slow
def test_no_method_allocates_a_matrix_of_all_pairs():
    rng = np.random.default_rng(6)
    n = 4000
    y = np.arange(n) % 30
    X = rng.normal(size=(n, 3)) + 5.0 * rng.normal(size=(30, 3))[y]
    for estimator in (LFDA(), MFA(), LSDA(), LLTSA(2), LPFE(2), GraphDiscriminant()):
        tracemalloc.start()
        with threadpool_limits(2):  # each thread has a block of rows
            estimator.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * n * n * 8, type(estimator).__name__


def test_features_of_very_different_scales_are_named_at_the_line_of_the_fit():
    X, y = load_iris(return_X_y=True, as_frame=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MPDA().fit(X, y)
        MPDA().fit(X * [1.0, 1.0, 100.0, 1.0], y)
    far = X * [1.0, 1.0, 1e4, 1.0]
    message = r"petal length \(cm\) spread more than 1000 times as wide as those of feature petal"
    with pytest.warns(FeatureScaleWarning, match=message) as caught:
        MPDA(n_components=1).fit(far, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(FeatureScaleWarning, match="feature 2 spread more than 1000 times"):
        PMPDA(n_components=1).fit(far.to_numpy(), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Constant features have no scale, and those of PCA, which are centred, are no units.
        MPDA().fit(np.column_stack([X, np.ones(150)]), y)
        MPDA(n_components=1).fit(PCA().fit_transform(far), y)
        make_pipeline(StandardScaler(), MPDA()).fit(far, y)


@pytest.mark.parametrize("estimator", [MPDA(), LFDA(), MFA(), LPFE(), GraphDiscriminant("local")])
def test_small_classes_are_named_at_the_line_of_the_fit(estimator):
    samples, labels = bent_classes(7, sizes=(30, 4, 25))
    with pytest.warns(SmallClassWarning, match="class 1") as warning:
        estimator.fit(samples, labels)
    assert warning[0].filename == __file__


@pytest.mark.parametrize(
    "name", [name for name in ESTIMATORS if "verbose" in ESTIMATORS[name]().get_params()]
)
def test_progress_is_printed_to_stderr(name, capsys):
    ESTIMATORS[name](verbose=1).fit(X, Y)
    output = capsys.readouterr()
    assert (name in output.err, output.out) == (True, "")
    ESTIMATORS[name]().fit(X, Y)
    assert capsys.readouterr().err == ""


def test_default_fits_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in set(ESTIMATORS) - {"MPDA", "PMPDA"}:  # whose default k exceeds these classes
            ESTIMATORS[name](n_components=2).fit(X, Y)
