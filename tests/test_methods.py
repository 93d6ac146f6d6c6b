"""Laws that hold for every method of the list, and what each method promises of its own."""

import inspect
import warnings

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import coo_array, csr_array
from scipy.spatial.distance import cdist
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

import mpda
import oracles
from cases import largest_angle, unequal_classes
from mpda import LFDA, LLTSA, LPFE, LSDA, MFA, GraphDiscriminant
from mpda.exceptions import SingularFormError, SmallClassWarning
from mpda.methods import METHODS, method

# Small classes and few iterations are what some of these data and settings mean to have; both
# warnings have tests of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
OURS = {each.name: each.estimator for each in METHODS if each.is_ours}
OURS["GraphDiscriminant"] = GraphDiscriminant
GRAPHS = [("fisher", "fisher"), ("local", "local"), ("neighbors", "pairs"), ("local", "pairs")]


def samples(seed=0, d=5, sizes=(30, 22, 25)):
    """Three classes of bent pieces; no distances tie."""
    rng = np.random.default_rng(seed)
    parts = []
    for c, size in enumerate(sizes):
        u = rng.uniform(-1, 1, size=(size, 2))
        part = np.column_stack([u, u**2, rng.normal(scale=0.3, size=(size, d))])[:, :d]
        parts.append(part @ rng.normal(size=(d, d)) + 2.0 * rng.normal(size=d) + c)
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(y))
    return np.concatenate(parts)[order], y[order]


X, Y = samples()


def apart(model):
    """Which rows stand alone: their eigenvalues are apart from those of their neighbours."""
    lambdas = getattr(model, "eigenvalues_", None)
    if lambdas is None:  # LSDR: principal axes of a subspace
        return np.ones(len(model.components_), dtype=bool)
    gaps = np.abs(np.diff(lambdas)) / np.maximum(lambdas[:-1], lambdas[1:])
    return np.minimum(np.r_[np.inf, gaps], np.r_[gaps, np.inf]) > 1e-3


def same_rows(one, other, tolerance=1e-6):
    chosen = apart(one)
    assert chosen.mean() > 0.5
    lengths = np.linalg.norm(one.components_, axis=1)
    error = np.linalg.norm(one.components_ - other.components_, axis=1) / lengths
    assert error[chosen].max() < tolerance


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
    public = {
        name for name in mpda.__all__ if name not in ("ManifoldPartition", "GraphDiscriminant")
    }
    assert public <= set(names)
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


def lda_subspace(X, y):
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    return lda.scalings_[:, : len(np.unique(y)) - 1]


@pytest.mark.parametrize("seed", range(3))
def test_fishers_subspace(seed):
    X, y = samples(seed, d=7, sizes=(40, 31, 12, 55))
    wanted = lda_subspace(X, y)
    for estimator in (GraphDiscriminant(), LFDA(affinity="ones"), GraphDiscriminant("fisher")):
        rows = estimator.fit(X, y).components_
        assert rows.shape == (3, 7)
        assert largest_angle(rows.T, wanted) < 1e-6


def test_lfda_is_lda_where_affinities_are_one(monkeypatch):
    monkeypatch.setattr("mpda.scatter.scaled_affinity", lambda D, scales: np.ones(D.shape))
    assert largest_angle(LFDA().fit(X, Y).components_.T, lda_subspace(X, Y)) < 1e-6


def fisher_within(X, y):
    same = y[:, None] == y
    return same / same.sum(axis=1)[:, None]


def fisher_between(X, y):
    return 1.0 / len(y) - fisher_within(X, y)


def test_graphs_may_be_functions():
    named = GraphDiscriminant().fit(X, Y)
    for turn in (np.asarray, coo_array, csr_array):
        made = GraphDiscriminant(
            lambda X, y, turn=turn: turn(fisher_within(X, y)),
            lambda X, y, turn=turn: turn(fisher_between(X, y)),
        ).fit(X, Y)
        np.testing.assert_allclose(made.eigenvalues_, named.eigenvalues_, rtol=1e-9)
        same_rows(named, made)


@pytest.mark.parametrize(("within", "between"), GRAPHS)
def test_graph_discriminant_solves_its_pencil(within, between):
    fitted = GraphDiscriminant(within, between, n_neighbors=4, n_pairs=9, alpha=0.03).fit(X, Y)
    local = oracles.local_fisher_weights(X, Y, 4, "full")
    fisher = oracles.local_fisher_weights(X, Y, 4, "ones")
    marginal = oracles.marginal_weights(X, Y, 4, 9, "class")
    S = {"fisher": fisher, "local": local, "pairs": marginal}[between][0]
    M = {"fisher": fisher, "local": local, "neighbors": marginal}[within][1]
    S, M = oracles.weighted_scatter(X, S), oracles.weighted_scatter(X, M)
    ridge = 0.03 * np.trace(M) / 5
    values, vectors = eigh(S, M + ridge * np.eye(5))
    r = len(fitted.eigenvalues_)
    np.testing.assert_allclose(fitted.eigenvalues_, values[::-1][:r], rtol=1e-8)
    assert fitted.units_["alpha"] == pytest.approx(ridge)
    expected = vectors[:, ::-1][:, :r].T
    expected *= np.sign(np.sum(expected * fitted.components_, axis=1))[:, None]
    np.testing.assert_allclose(fitted.components_, expected, atol=1e-7 * np.abs(expected).max())
    assert fitted.residual_ < 1e-10


def test_lfda_and_mfa_are_instances():
    same_rows(
        LFDA(n_neighbors=4).fit(X, Y),
        GraphDiscriminant("local", "local", n_neighbors=4, eigenvalue_power=0.5).fit(X, Y),
    )
    made = GraphDiscriminant("neighbors", "pairs", n_neighbors=5, n_pairs=20).fit(X, Y)
    made.components_ /= np.linalg.norm(made.components_, axis=1)[:, None]
    same_rows(MFA().fit(X, Y), made)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones((3, 3)), r"within must return weights of shape \(77, 77\).* got \(3, 3\)"),
        (np.full((77, 77), np.nan), "within must return finite weights"),
        (np.triu(np.ones((77, 77))), "within must return symmetric weights"),
        (np.full((77, 77), "a"), "within must return weights that are numbers"),
        (None, "within must return weights"),
        (np.full((77, 77), 1e306), "within must return finite weights below 1e.100"),
        ([[1.0], [1.0, 2.0]], "within must return weights as one matrix"),
    ],
)
def test_what_a_graph_returns_is_checked(returned, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GraphDiscriminant(lambda X, y: returned).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"within": "pairs"},
            "within must be one of 'fisher', 'local', 'neighbors', or a callable",
        ),
        ({"between": "near"}, "between must be one of 'fisher', 'local', 'pairs', or a callable"),
        ({"penalty": "all"}, "penalty must be one of 'class', 'global'"),
    ],
)
def test_names_of_graphs(parameters, message):
    with pytest.raises(ValueError, match=message):
        GraphDiscriminant(**parameters).fit(X, Y)


def test_lsda_solves_its_pencil_without_directions_of_negative_eigenvalue():
    rng = np.random.default_rng(2)
    # Two samples a class, classes interleaved: W_w is little more than the identity here.
    X, y = rng.normal(size=(60, 6)), np.arange(60) % 30
    for b in (0.0, 0.1, 0.6):
        numerator, denominator = oracles.lsda_forms(X, y, 3, b)
        values = eigh(numerator, denominator, eigvals_only=True)[::-1]
        fitted = LSDA(n_neighbors=3, between_share=b).fit(X, y)
        kept = values[values > 1e-10 * values[0]]
        np.testing.assert_allclose(fitted.eigenvalues_, kept, rtol=1e-9)
    with pytest.raises(ValueError, match="between_share must be a number from 0 to less than 1"):
        LSDA(between_share=1.0).fit(X, y)


def test_lsda_where_no_edge_joins_two_classes():
    rng = np.random.default_rng(6)
    y = np.arange(600) % 3
    X = rng.normal(size=(600, 3)) + 100.0 * y[:, None]
    numerator, denominator = oracles.lsda_forms(X[:90], y[:90], 4, 0.5)
    few = LSDA(n_neighbors=4, between_share=0.5).fit(X[:90], y[:90])
    values = eigh(numerator, denominator, eigvals_only=True)[::-1]
    np.testing.assert_allclose(few.eigenvalues_, values, rtol=1e-9)
    many = LSDA(n_neighbors=4).fit(X, y)
    assert many.eigenvalues_[0] == pytest.approx(1.0, abs=1e-3)


def test_lsda_with_an_indefinite_numerator():
    # Each class is a square whose corners alternate along the first axis: a corner is linked to
    # itself and to two corners of the other side, so X'W_w X is negative there.
    square = np.array([[0.1, 0, 1], [-0.1, 1, 0], [0.1, 0, -1], [-0.1, -1, 0]])
    rng = np.random.default_rng(3)
    places = np.repeat(10.0 * np.arange(9), 4)
    X = np.column_stack([np.tile(square, (9, 1)), places]) + 1e-3 * rng.normal(size=(36, 4))
    y = np.repeat(np.arange(9), 4)
    X = X @ rng.normal(size=(4, 4))
    numerator, denominator = oracles.lsda_forms(X, y, 2, 0.0)
    values = eigh(numerator, denominator, eigvals_only=True)[::-1]
    assert values[-1] < -0.1
    fitted = LSDA(n_neighbors=2, between_share=0.0).fit(X, y)
    np.testing.assert_allclose(fitted.eigenvalues_, values[values > 1e-10 * values[0]], atol=1e-10)
    with pytest.raises(ValueError, match="n_components=4 is more than there is"):
        LSDA(4, n_neighbors=2, between_share=0.0).fit(X, y)


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_lltsa_recovers_a_planted_linear_manifold(dimension):
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    flat = rng.uniform(-1, 1, size=(300, dimension)) * np.array([3.0, 2.0, 1.0, 1.0])[:dimension]
    X = flat @ basis[:dimension] + 1e-3 * rng.normal(size=(300, 12)) @ basis
    fitted = LLTSA(n_components=dimension).fit(X)
    # The directions act on X through X'X: the manifold is what X'X t spans.
    centred = X - X.mean(axis=0)
    spanned = centred.T @ (centred @ fitted.components_.T)
    assert largest_angle(spanned, basis[:dimension].T) < 0.01
    assert largest_angle(fitted.components_.T, basis[:dimension].T) < 0.1
    assert fitted.eigenvalues_.max() < 1e-3
    exact = LLTSA(n_components=dimension).fit(flat @ basis[:dimension])
    assert largest_angle(exact.components_.T, basis[:dimension].T) < 1e-6


def test_lltsa_dimension_of_tangent_spaces():
    assert LLTSA(3).fit(X).tangent_dimension_ == 3
    assert LLTSA(3, tangent_dimension=2).fit(X).tangent_dimension_ == 2
    assert 1 <= LLTSA().fit(X).tangent_dimension_ <= 4
    assert LLTSA(5, n_neighbors=4).fit(X).tangent_dimension_ == 2
    with pytest.raises(ValueError, match=r"below n_neighbors - 1, here 4, .* here 5, got 4"):
        LLTSA(tangent_dimension=4, n_neighbors=5).fit(X)
    with pytest.raises(ValueError, match="n_neighbors must be at least 3"):
        LLTSA(n_neighbors=2).fit(X)


def test_lltsa_with_all_dimensions_of_the_samples():
    """As many tangent directions as dimensions would describe everything, and order nothing."""
    fitted = LLTSA(5).fit(X)
    assert fitted.tangent_dimension_ == 4
    assert fitted.eigenvalues_[0] > 1e-6
    same_rows(fitted, LLTSA(5).fit(X + 10.0))
    with pytest.raises(ValueError, match="here 5, got 5"):
        LLTSA(tangent_dimension=5).fit(X)


def test_lpfe_is_the_least_squares_of_its_fields():
    fitted = LPFE(2, n_neighbors=6, alpha=0.2).fit(X, Y)
    W = np.zeros((len(X), len(X)))
    for c in range(3):
        members = np.flatnonzero(c == Y)
        D = oracles.distances(X[members])
        W[np.ix_(members, members)] = oracles.union_weights(oracles.neighbors(D, 6))
    S = 2 * oracles.weighted_scatter(X, W)
    assert fitted.units_["alpha"] == pytest.approx(0.2 * np.trace(S) / 5)
    plain = LPFE(2, n_neighbors=6).fit(X, Y)
    pulls = S @ plain.components_.T
    expected = np.linalg.solve(S + fitted.units_["alpha"] * np.eye(5), pulls).T
    expected *= np.sign(np.sum(expected * fitted.components_, axis=1))[:, None]
    np.testing.assert_allclose(fitted.components_, expected, atol=1e-9 * np.abs(expected).max())


def full_dimensional(seed=0):
    """Tangent spaces fill the space, so the constant fields of every class do not turn at all."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 4)) * np.array([1.0, 2.0, 3.0, 4.0])
    X[:, 0] += 2 * y
    return X, y


def test_lpfe_does_not_depend_on_the_order_where_fields_tie():
    X, y = full_dimensional()
    fitted = LPFE(tangent_energy=1.0).fit(X, y)
    assert fitted.eigenvalues_[-1] < 1e-9
    order = np.random.default_rng(1).permutation(60)
    for other in (
        LPFE(tangent_energy=1.0).fit(X[order], y[order]),
        LPFE(tangent_energy=1.0).fit(X + 10, y),
    ):
        np.testing.assert_allclose(other.components_, fitted.components_, atol=1e-6)
    first = LPFE(2, tangent_energy=1.0).fit(X, y)
    np.testing.assert_allclose(first.components_, fitted.components_[:2], atol=1e-8)


def test_lpfe_finds_a_field_many_times_over_by_lanczos_too(monkeypatch):
    X, y = full_dimensional(1)
    dense = LPFE(3, tangent_energy=1.0).fit(X, y)
    monkeypatch.setattr("mpda.alignment._DENSE_LIMIT", 0)
    sparse = LPFE(3, tangent_energy=1.0).fit(X, y)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-6)


def test_lpfe_leaves_out_directions_that_depend_on_others():
    rng = np.random.default_rng(2)
    lines = np.outer(rng.normal(size=40), [2.0, -1.0, 0.0]) + np.repeat(
        [[0, 0, 0], [0, 0, 5.0]], 20, 0
    )
    y = np.repeat([0, 1], 20)
    fitted = LPFE().fit(lines, y)
    assert fitted.components_.shape == (1, 3)
    assert largest_angle(fitted.components_.T, np.array([[2.0, -1.0, 0.0]]).T) < 1e-7
    with pytest.raises(ValueError, match="n_components=2 is more than there is: only 1 "):
        LPFE(2).fit(lines, y)


def equal_means():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]] * 5)
    return X, np.array([0, 1, 1, 0] * 5)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (GraphDiscriminant(), equal_means()),
        (LFDA(affinity="ones"), equal_means()),
        (GraphDiscriminant(between=lambda X, y: np.zeros((len(y), len(y)))), (X, Y)),
        (GraphDiscriminant(between=lambda X, y: -fisher_within(X, y)), (X, Y)),
        (LPFE(tangent_energy=0.0), (X, Y)),
        (LPFE(), (X[:6], np.arange(6))),
    ],
)
def test_nothing_to_find_is_said(estimator, data):
    with pytest.raises(ValueError, match="There is no direction to find"):
        estimator.fit(*data)


@pytest.mark.parametrize("n", [60, 600])
def test_entries_that_stand_twice_add_up(n):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(n, 4)), np.arange(n) % 3
    X[:, 0] += 2 * y

    def twice(X, y):
        rows, columns = np.nonzero(np.equal.outer(y, y))
        return coo_array(
            (np.full(2 * rows.size, 0.5), (np.r_[rows, rows], np.r_[columns, columns])),
            shape=(n, n),
        )

    once = GraphDiscriminant(lambda X, y: 1.0 * np.equal.outer(y, y)).fit(X, y)
    np.testing.assert_allclose(GraphDiscriminant(twice).fit(X, y).eigenvalues_, once.eigenvalues_)


def test_a_within_graph_that_pushes_apart_is_refused():
    def mixed(X, y):
        return np.where(np.equal.outer(y, y), 1.0, -0.5)

    for alpha in (0.0, 0.1):
        with pytest.raises(ValueError, match=r"within must return .* no negative eigenvalue"):
            GraphDiscriminant(mixed, alpha=alpha).fit(X, Y)


def test_a_graph_cannot_change_what_it_is_given():
    def vandal(X, y):
        W = fisher_within(X, y)
        X[:] = 0.0
        y[:] = 0
        return W

    labels = Y.copy()
    made = GraphDiscriminant(vandal, "fisher").fit(X, labels)
    np.testing.assert_array_equal(labels, Y)
    same_rows(GraphDiscriminant().fit(X, Y), made)


def test_small_features_keep_their_digits_beside_large_ones():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    group = np.tile(np.repeat([0, 1], 30), 2)
    large = 20.0 * group + rng.normal(size=120)
    X = np.column_stack([large, group + 1e-7 * (rng.normal(size=120) + 1.5 * y)])
    for estimator, weights in (
        (LFDA(), oracles.local_fisher_weights(X, y, 7, "full")),
        (LFDA(affinity="knn"), oracles.local_fisher_weights(X, y, 7, "knn")),
        (MFA(), oracles.marginal_weights(X, y, 5, 20, "class")),
    ):
        S, M = (oracles.weighted_scatter(X, W) for W in weights)
        unit = 1.0 / np.sqrt(np.diag(M))
        values = eigh(S * np.outer(unit, unit), M * np.outer(unit, unit), eigvals_only=True)
        np.testing.assert_allclose(estimator.fit(X, y).eigenvalues_[0], values[-1], rtol=1e-6)


@pytest.mark.parametrize(
    "estimator", [mpda.MPDA(n_neighbors=50), LFDA(n_neighbors=50), MFA(n_neighbors=50)]
)
def test_warnings_point_at_the_line_of_the_fit(estimator):
    with pytest.warns(SmallClassWarning) as seen:
        estimator.fit(X, Y)
    assert seen[0].filename == __file__


def test_penalty_readings_differ():
    classes = MFA(2).fit(X, Y)
    whole = MFA(2, penalty="global").fit(X, Y)
    assert largest_angle(classes.components_.T, whole.components_.T) > 1e-3


def test_no_method_makes_a_matrix_of_all_pairs():
    """Memory of a fit stays well below that of one n x n matrix."""
    import tracemalloc

    rng = np.random.default_rng(6)
    n = 6000
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
    few, labels = samples(7, sizes=(30, 4, 25))
    with pytest.warns(SmallClassWarning, match="class 1"):
        estimator.fit(few, labels)


@pytest.mark.parametrize("estimator", [LFDA, MFA, LPFE, LLTSA, GraphDiscriminant])
def test_jobs_do_not_change_the_answer(estimator):
    one, two = estimator().fit(X, Y), estimator(n_jobs=2).fit(X, Y)
    np.testing.assert_allclose(two.components_, one.components_, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("estimator", [LFDA, MFA, LSDA, LPFE, LLTSA, GraphDiscriminant])
def test_progress(estimator, capsys):
    estimator(verbose=1).fit(X, Y)
    assert estimator.__name__ in capsys.readouterr().err
    estimator().fit(X, Y)
    assert capsys.readouterr().err == ""


def test_mfa_pairs_on_more_samples_than_a_block():
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(1500, 4)), rng.integers(0, 3, 1500)
    D = cdist(X, X)
    D[y[:, None] == y] = np.inf
    order = np.argsort(D, axis=None, kind="stable")[:31]
    wanted = {tuple(sorted(divmod(int(entry), 1500))) for entry in order}
    from mpda.engines import in_order
    from mpda.recipes import penalty_edges

    classes = [np.flatnonzero(y == c) for c in range(3)]
    edges = penalty_edges(X, classes, 31, "global", in_order)
    assert {tuple(edge) for edge in edges.tolist()} == wanted


def test_warnings_are_no_more_than_meant():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, estimator in OURS.items():
            if name != "PMPDA" and name != "MPDA":
                estimator(n_components=2).fit(X, Y)
