"""Within-class whitening: its definition, its sums over any blocks of rows, its unit vectors."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mpda
import oracles
from cases import largest_angle, lda_subspace
from mpda import WithinClassWhitening
from mpda._lib.arrays import to_host
from mpda._lib.sphere import project_to_sphere
from mpda.assessment import map_at_r
from mpda.exceptions import NumericalWarning, SingularFormError
from mpda.io import affine_map, export_onnx
from mpda.model_selection import DiscriminantSearchCV, UnseenClassFolds


def draw(n=240, d=7, n_classes=6, seed=0):
    """Draw classes of unequal size; the last two are the rest of the database."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, n_classes, size=n))[rng.permutation(n)]
    mixing = rng.normal(size=(d, d))
    X = rng.normal(size=(n, d)) @ mixing + 2.0 * rng.normal(size=(n_classes, d))[y] + 3.0
    return X, y


X, Y = draw()
SEEN = Y < 4
MARKED = np.where(SEEN, Y, -1)


def same_map(model, other, tolerance=1e-10):
    size = np.abs(other.components_).max()
    np.testing.assert_allclose(
        to_host(model.components_), to_host(other.components_), atol=tolerance * size
    )
    np.testing.assert_allclose(
        to_host(model.eigenvalues_), to_host(other.eigenvalues_), rtol=tolerance
    )
    np.testing.assert_allclose(to_host(model.mean_), to_host(other.mean_), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(to_host(model.classes_), to_host(other.classes_))


class TestDefinition:
    @pytest.mark.parametrize("shrinkage", [0.0, 0.1, 0.5, 1.0])
    def test_components_solve_the_slow_eigenproblem(self, shrinkage):
        A, B = oracles.whitening_pencil(X[SEEN], Y[SEEN], X[~SEEN], shrinkage)
        values, vectors = eigh(A, B)
        model = WithinClassWhitening(shrinkage=shrinkage).fit(X[SEEN], Y[SEEN], X[~SEEN])
        np.testing.assert_allclose(model.eigenvalues_, values[::-1], rtol=1e-10)
        T = model.components_
        np.testing.assert_allclose(T @ B @ T.T, np.eye(7), atol=1e-10)
        cosines = np.abs(np.sum(T * vectors.T[::-1], axis=1))
        lengths = np.linalg.norm(T, axis=1) * np.linalg.norm(vectors.T[::-1], axis=1)
        np.testing.assert_allclose(cosines, lengths, rtol=1e-9)
        np.testing.assert_allclose(model.mean_, X.mean(axis=0))
        assert model.residual_ < 1e-12
        assert list(model.classes_) == [0, 1, 2, 3]

    def test_numbers_of_the_prototype(self):
        """As in the four lines of the design: centred classes, one call of eigh."""
        A, codes, s = X[SEEN], Y[SEEN], 0.3
        W = A - np.stack([A[codes == c].mean(0) for c in range(4)])[codes]
        within = W.T @ W / len(A)
        within = (1 - s) * within + s * np.trace(within) / 7 * np.eye(7)
        mean = X.mean(0)
        _, vectors = eigh((X - mean).T @ (X - mean) / len(X), within, subset_by_index=[4, 6])
        model = WithinClassWhitening(3, shrinkage=s, unlabeled=-1).fit(X, MARKED)
        np.testing.assert_allclose(np.abs(model.components_), np.abs(vectors.T[::-1]), rtol=1e-9)
        np.testing.assert_allclose(model.mean_, mean)

    def test_a_marker_and_a_database_are_the_same_rows(self):
        marked = WithinClassWhitening(unlabeled=-1).fit(X, MARKED)
        same_map(WithinClassWhitening().fit(X[SEEN], Y[SEEN], database=X[~SEEN]), marked)
        both = WithinClassWhitening(unlabeled=-1)
        half = np.flatnonzero(~SEEN)[::2]
        rest = np.setdiff1d(np.arange(len(X)), half)
        same_map(both.fit(X[rest], MARKED[rest], X[half]), marked)
        names = np.array(["d", "c", "b", "a", "none"])[MARKED]
        named = WithinClassWhitening(unlabeled="none").fit(X, names)
        np.testing.assert_allclose(named.components_, marked.components_, atol=1e-10)
        assert list(named.classes_) == ["a", "b", "c", "d"]
        # Without the parameter every label is a class.
        assert list(WithinClassWhitening().fit(X, MARKED).classes_) == [-1, 0, 1, 2, 3]

    def test_without_shrinkage_the_first_directions_are_those_of_lda(self):
        model = WithinClassWhitening(shrinkage=0.0).fit(X, Y)
        assert model.components_.shape == (7, 7)
        assert largest_angle(model.components_[:5].T, lda_subspace(X, Y)) < 1e-8
        np.testing.assert_allclose(model.eigenvalues_[5:], 1.0, rtol=1e-10)

    def test_all_components_whiten_the_classes(self):
        model = WithinClassWhitening(shrinkage=0.0).fit(X, Y)
        linear = affine_map(model)
        Z = (X - linear.mean) @ linear.matrix.T
        residuals = Z - np.stack([Z[c == Y].mean(axis=0) for c in range(6)])[Y]
        np.testing.assert_allclose(residuals.T @ residuals / len(X), np.eye(7), atol=1e-10)

    def test_full_shrinkage_is_pca(self):
        model = WithinClassWhitening(3, shrinkage=1.0).fit(X, Y)
        assert largest_angle(model.components_.T, PCA(3).fit(X).components_.T) < 1e-8

    @pytest.mark.parametrize("factor", [1e-3, 7.0, 2.0**-300, 2.0**300])
    def test_scale_of_the_rows_does_not_change_the_result(self, factor):
        plain, scaled = (
            WithinClassWhitening().fit(f * X[SEEN], Y[SEEN], f * X[~SEEN]) for f in (1.0, factor)
        )
        np.testing.assert_allclose(scaled.components_ * factor, plain.components_, rtol=1e-9)
        np.testing.assert_allclose(scaled.transform(factor * X), plain.transform(X), atol=1e-10)

    def test_rotation_of_the_rows_rotates_the_components(self):
        Q = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
        plain, rotated = (
            WithinClassWhitening().fit(Z[SEEN], Y[SEEN], Z[~SEEN]) for Z in (X, X @ Q)
        )
        signs = np.sign(np.sum(rotated.components_ @ Q.T * plain.components_, axis=1))
        np.testing.assert_allclose(
            signs[:, None] * rotated.components_ @ Q.T, plain.components_, atol=1e-10
        )

    def test_unlabelled_rows_change_the_map(self):
        """Labelled classes differ in one feature, those of the database in another."""
        rng = np.random.default_rng(0)
        A, B = rng.normal(size=(2, 100, 3))
        A[50:, 0] += 8.0
        B[50:, 1] += 20.0
        labels = np.repeat([0, 1], 50)
        alone = WithinClassWhitening(1).fit(A, labels)
        joint = WithinClassWhitening(1).fit(A, labels, database=B)
        assert np.abs(alone.components_[0]).argmax() == 0
        assert np.abs(joint.components_[0]).argmax() == 1


class TestSums:
    @pytest.mark.parametrize("offset", [0.0, 1e6])
    @pytest.mark.parametrize("step", [1, 7, 100])
    def test_any_blocks_give_one_fit(self, offset, step):
        shifted, order = X + offset, np.random.default_rng(step).permutation(len(X))
        single = WithinClassWhitening(shrinkage=0.2, unlabeled=-1).fit(shifted, MARKED)
        model = clone(single)
        for start in range(0, len(X), step):
            rows = order[start : start + step]
            model.partial_fit(shifted[rows], MARKED[rows])
        same_map(model, single)
        # The offset itself rounds the rows: 1e-10 of a difference of 1.
        plain = WithinClassWhitening(shrinkage=0.2, unlabeled=-1).fit(X, MARKED)
        np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-8)

    def test_rows_without_labels_may_come_first_and_in_any_call(self):
        single = WithinClassWhitening().fit(X[SEEN], Y[SEEN], X[~SEEN])
        model = WithinClassWhitening().partial_fit(X[~SEEN][:20])
        for mask in (Y == 3, Y == 0):
            with pytest.raises(NotFittedError):
                model.transform(X)
            model.partial_fit(X[mask], Y[mask])
        model.transform(X)
        model.partial_fit(X[~SEEN][20:]).partial_fit(X[Y == 1], Y[Y == 1])
        same_map(model.partial_fit(X[Y == 2], Y[Y == 2]), single)

    def test_classes_of_single_rows_wait_for_a_second_one(self):
        model = WithinClassWhitening().partial_fit(np.eye(3)[:2], [0, 1])
        with pytest.raises(NotFittedError):
            model.transform(np.eye(3))
        assert model.partial_fit([[2.0, 1.0, 0.0]], [1]).components_.shape == (2, 3)

    def test_calls_go_on_after_a_fit_and_after_an_error(self):
        single = WithinClassWhitening().fit(X, Y)
        model = WithinClassWhitening().fit(X[Y < 2], Y[Y < 2])
        with pytest.raises(TypeError, match=r"labels of one kind in all calls, got \['a'\] after"):
            model.partial_fit(X[:3], ["a", "b", "a"])
        with pytest.raises(ValueError, match="features"):
            model.partial_fit(X[:, :3])
        same_map(model.partial_fit(X[Y >= 2], Y[Y >= 2]), single)

    def test_parameters_may_change_between_calls(self):
        model = WithinClassWhitening().fit(X[:120], Y[:120])
        model.set_params(shrinkage=0.1, n_components=2).partial_fit(X[120:], Y[120:])
        same_map(model, WithinClassWhitening(2, shrinkage=0.1).fit(X, Y))

    def test_summaries_are_merged_in_any_order(self):
        parts = [slice(0, 50), slice(50, 51), slice(51, 200), slice(200, 240)]
        helper = WithinClassWhitening(unlabeled=-1)
        summaries = [helper.summarize(X[part], MARKED[part]) for part in parts]
        summaries += [pickle.loads(pickle.dumps(helper.summarize(X[:9])))]
        expected = WithinClassWhitening(3, unlabeled=-1).fit(X, MARKED, database=X[:9])
        for merged in (sum(summaries), sum(summaries[::-1])):
            model = WithinClassWhitening.from_summary(merged, n_components=3)
            same_map(model, expected)
        assert not hasattr(helper, "n_features_in_")
        assert repr(merged).startswith("<WithinClassSums of 249 rows, ")
        more = model.partial_fit(X[:30], Y[:30])
        same_map(more, clone(expected).fit(np.r_[X, X[:30]], np.r_[MARKED, Y[:30]], X[:9]))

    @pytest.mark.parametrize("factor", [2.0**-400, 2.0**400])
    def test_blocks_may_differ_in_scale(self, factor):
        merged = WithinClassWhitening().fit(X, Y).partial_fit(factor * X)
        assert np.isfinite(merged.components_).all()
        assert np.isfinite(merged.transform(X)).all()
        np.testing.assert_allclose(merged.mean_, 0.5 * (1.0 + factor) * X.mean(axis=0))

    def test_summaries_of_other_features_are_refused(self):
        frame = pd.DataFrame(X, columns=list("abcdefg"))
        summary = WithinClassWhitening().summarize(frame, Y)
        with pytest.raises(ValueError, match="7 features and with 3 features cannot be added"):
            summary + WithinClassWhitening().summarize(X[:, :3], Y)
        with pytest.raises(ValueError, match="different names"):
            summary + WithinClassWhitening().summarize(frame[list("gfedcba")], Y)
        with pytest.raises(TypeError, match="summary must be what summarize returns"):
            WithinClassWhitening.from_summary(3)
        with pytest.raises(ValueError, match=r"only 1 class: \[0\]"):
            WithinClassWhitening.from_summary(WithinClassWhitening().summarize(X, 0 * Y))
        with pytest.raises(TypeError, match="unsupported operand"):
            summary + 3
        assert list(WithinClassWhitening.from_summary(summary).feature_names_in_) == list("abcdefg")

    def test_weights_are_multiplicities(self):
        counts = np.random.default_rng(2).integers(0, 4, size=SEEN.sum())
        A, labels, rest = X[SEEN], Y[SEEN], X[~SEEN]
        weighted = WithinClassWhitening().fit(A, labels, rest, sample_weight=counts)
        repeated = WithinClassWhitening()
        repeated.fit(np.repeat(A, counts, axis=0), np.repeat(labels, counts), rest)
        same_map(weighted, repeated)
        matrices = oracles.whitening_pencil(A, labels, rest, 0.5, counts.astype(float))
        values = eigh(*matrices, eigvals_only=True)
        np.testing.assert_allclose(weighted.eigenvalues_, values[::-1], rtol=1e-10)
        # Weights of different calls are compared with each other.
        parts = WithinClassWhitening().partial_fit(rest)
        for rows in (slice(0, 60), slice(60, None)):
            parts.partial_fit(A[rows], labels[rows], sample_weight=counts[rows])
        same_map(parts, repeated)
        # Equal weights count rows of X more than those of the database.
        three = WithinClassWhitening().fit(A, labels, rest, sample_weight=np.full(len(A), 3.0))
        same_map(three, WithinClassWhitening().fit(np.repeat(A, 3, axis=0), labels.repeat(3), rest))

    @pytest.mark.parametrize("offset", [0.0, 1e6])
    def test_sparse_rows_give_the_map_of_dense_ones(self, offset):
        rng = np.random.default_rng(3)
        dense = X * (rng.random(X.shape) < 0.4)
        dense[:, 2] = X[:, 2] + offset  # a column without zeros
        dense[Y == 1, 4] = 50.0 + 1e-3 * X[Y == 1, 4]  # without zeros in one class
        expected = WithinClassWhitening(shrinkage=0.1).fit(dense[SEEN], Y[SEEN], dense[~SEEN])
        S = sp.csr_array(dense)
        model = WithinClassWhitening(shrinkage=0.1).fit(S[SEEN], Y[SEEN], S[~SEEN])
        same_map(model, expected, 1e-9)
        np.testing.assert_allclose(model.transform(S), expected.transform(dense), atol=1e-8)
        parts = WithinClassWhitening(shrinkage=0.1).partial_fit(S[~SEEN])
        parts.partial_fit(S[SEEN][:90], Y[SEEN][:90]).partial_fit(S[SEEN][90:], Y[SEEN][90:])
        same_map(parts, expected, 1e-9)

    def test_single_precision_is_that_of_the_labelled_rows(self):
        A = X.astype(np.float32)
        model = WithinClassWhitening().fit(A[SEEN], Y[SEEN], database=X[~SEEN])
        assert model.components_.dtype == model.mean_.dtype == np.float32
        assert model.transform(A).dtype == np.float32
        expected = WithinClassWhitening().fit(X[SEEN], Y[SEEN], X[~SEEN])
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-3)
        assert model.partial_fit(X[:5]).components_.dtype == np.float64

    @pytest.mark.parametrize("n_classes", [3, 800])
    def test_rows_in_many_blocks_and_classes(self, n_classes, monkeypatch):
        rng = np.random.default_rng(5)
        A, labels = rng.normal(size=(2500, 9)), rng.integers(0, n_classes, 2500)
        labels[:n_classes] = np.arange(n_classes)
        expected = WithinClassWhitening().fit(A, labels)
        # A block of a hundred rows; the sums must not depend on it.
        monkeypatch.setattr(mpda.baselines.within_class_sums, "_BLOCK_ENTRIES", 900)
        same_map(WithinClassWhitening().fit(A, labels), expected)


class TestDevices:
    def test_device_arrays_give_the_map_of_numpy(self, library):
        expected = WithinClassWhitening(4).fit(X[SEEN], Y[SEEN], X[~SEEN])
        model = WithinClassWhitening(4).fit(library(X[SEEN]), Y[SEEN], library(X[~SEEN]))
        assert library.holds(model.components_, "float64")
        same_map(model, expected)
        Z = model.transform(library(X))
        assert library.holds(Z, "float64")
        np.testing.assert_allclose(to_host(Z), expected.transform(X), atol=1e-9)

    def test_blocks_on_a_device(self, library):
        model = WithinClassWhitening().partial_fit(library(X[~SEEN]))
        for mask in (Y < 2, Y == 2, Y == 3):
            model.partial_fit(library(X[mask]), Y[mask])
        same_map(model, WithinClassWhitening().fit(X[SEEN], Y[SEEN], X[~SEEN]))
        with pytest.raises(TypeError, match="Rows must be of the array library of earlier rows"):
            model.partial_fit(X[:10], Y[:10])


class TestUnitVectors:
    def test_transform_scales_the_affine_map_to_length_1(self):
        model = WithinClassWhitening(3).fit(X, Y)
        linear = affine_map(model)
        assert linear.unit_length
        Z = (X - linear.mean) @ linear.matrix.T
        expected = Z / np.linalg.norm(Z, axis=1, keepdims=True)
        np.testing.assert_allclose(model.transform(X), expected, atol=1e-12)
        np.testing.assert_allclose(linear(X), expected, atol=1e-12)
        at_mean = model.transform(np.vstack([model.mean_, X[0]]))
        np.testing.assert_allclose(np.linalg.norm(at_mean, axis=1), [0.0, 1.0], atol=1e-12)
        frame = model.set_output(transform="pandas").transform(X)
        assert list(frame.columns) == [f"withinclasswhitening{i}" for i in range(3)]

    def test_a_step_after_unit_vectors_has_no_matrix(self):
        model = make_pipeline(WithinClassWhitening(3), StandardScaler()).fit(X, Y)
        with pytest.raises(TypeError, match="A method that maps to length 1"):
            affine_map(model)
        scaled = make_pipeline(StandardScaler(), WithinClassWhitening(3)).fit(X, Y)
        np.testing.assert_allclose(affine_map(scaled)(X), scaled.transform(X), atol=1e-10)

    def test_onnx_graph_has_unit_vectors(self, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime", reason="needs mpda[onnx]")
        model = WithinClassWhitening(3).fit(X, Y)
        (path,) = np.atleast_1d(export_onnx(model, tmp_path / "model.onnx"))
        session = onnxruntime.InferenceSession(path)
        (Z,) = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[:1]
        np.testing.assert_allclose(Z, model.transform(X), atol=1e-5)

    def test_model_file_keeps_the_sums(self, tmp_path):
        frame = pd.DataFrame(X, columns=list("abcdefg"))
        model = WithinClassWhitening(3, unlabeled=-1).fit(frame[:200], MARKED[:200])
        mpda.save(model, tmp_path / "model.mpda")
        loaded = mpda.load(tmp_path / "model.mpda")
        np.testing.assert_array_equal(loaded.transform(frame), model.transform(frame))
        loaded.partial_fit(frame[200:], MARKED[200:])
        same_map(loaded, WithinClassWhitening(3, unlabeled=-1).fit(frame, MARKED))

    @pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
    def test_projection_to_the_sphere(self, scale):
        Z = scale * np.array([[3.0, 4.0], [0.0, 0.0]])
        np.testing.assert_allclose(project_to_sphere(Z, 0.0), [[0.6, 0.8], [0.0, 0.0]])
        assert project_to_sphere(Z, None) is Z
        lifted = project_to_sphere(Z, 12.0 * scale)
        np.testing.assert_allclose(lifted, [[3 / 13, 4 / 13, 12 / 13], [0.0, 0.0, 1.0]])
        assert project_to_sphere(np.ones((2, 3), np.float32), 1.0).dtype == np.float32


class TestSearch:
    def test_scores_are_those_of_the_unit_vectors_of_each_fit(self):
        A, labels = draw(300, 8, 12, seed=4)
        folds = list(UnseenClassFolds(3).split(A, labels))
        search = DiscriminantSearchCV(
            WithinClassWhitening(),
            {"shrinkage": [0.1, 0.9]},
            cv=folds,
            scoring="map_at_r",
            n_components=[1, 3, 8],
        ).fit(A, labels)
        results = search.cv_results_
        for point, score in zip(results["params"], results["mean_test_score"], strict=True):
            expected = []
            for train, test in folds:
                Z = clone(search.estimator).set_params(**point).fit(A[train], labels[train])
                expected.append(map_at_r(Z.transform(A[test]), labels[test]))
            assert score == pytest.approx(np.mean(expected))
        assert len(results["params"]) == 6

    @pytest.mark.parametrize("scoring", ["accuracy", "map_at_r"])
    def test_all_numbers_are_tried_in_steps_of_a_quarter(self, scoring):
        A, labels = draw(300, 12, 12, seed=4)
        search = DiscriminantSearchCV(
            WithinClassWhitening(), cv=UnseenClassFolds(3), scoring=scoring, param_grid={}
        ).fit(A, labels)
        scored = np.isfinite(search.cv_results_["mean_test_score"])
        numbers = np.array([p["n_components"] for p in search.cv_results_["params"]])[scored]
        assert numbers.tolist() == [1, 2, 3, 4, 5, 6, 8, 10, 12]

    def test_sparse_rows_are_scored_about_their_mean(self):
        A, labels = draw(200, 6, 4, seed=6)
        A += 5.0
        options = {"param_grid": {"shrinkage": [0.5]}, "n_components": [2, 4], "cv": 3}
        scores = [
            DiscriminantSearchCV(WithinClassWhitening(), **options).fit(rows, labels).cv_results_
            for rows in (A, sp.csr_array(A))
        ]
        np.testing.assert_allclose(*(score["mean_test_score"] for score in scores))

    def test_singular_shrinkages_are_left_out(self):
        A, labels = draw(40, 35, 4)
        with pytest.warns(FitFailedWarning, match="With shrinkage=0 the within"):
            search = DiscriminantSearchCV(
                WithinClassWhitening(), {"shrinkage": [0.0, 0.5]}, n_components=[2, 4], cv=2
            ).fit(A, labels)
        assert search.best_params_["shrinkage"] == 0.5

    def test_marked_rows_are_refused(self):
        search = DiscriminantSearchCV(WithinClassWhitening(unlabeled=-1), {"shrinkage": [0.5]})
        with pytest.raises(ValueError, match="unlabeled must be None in a search, got -1"):
            search.fit(X, MARKED)


class TestBadInput:
    @pytest.mark.parametrize("shrinkage", [-0.1, 1.5, np.nan, "auto", True])
    def test_shrinkage_is_from_0_to_1(self, shrinkage):
        with pytest.raises((ValueError, TypeError), match="shrinkage must be a number from 0 to 1"):
            WithinClassWhitening(shrinkage=shrinkage).fit(X, Y)

    def test_singular_scatter_without_shrinkage_is_an_error(self):
        A, labels = draw(30, 40, 3)
        with pytest.raises(SingularFormError, match="With shrinkage=0 the within-class scatter"):
            WithinClassWhitening(shrinkage=0.0).fit(A, labels)
        assert WithinClassWhitening().fit(A, labels).components_.shape == (29, 40)
        model = WithinClassWhitening(shrinkage=0.0)
        model.partial_fit(A, labels)
        with pytest.raises(NotFittedError):
            model.transform(A)
        B, more = draw(300, 40, 3)  # later calls make it regular
        single = WithinClassWhitening(shrinkage=0.0).fit(np.r_[A, B], np.r_[labels, more])
        model.partial_fit(B, more)
        # Beyond the second direction all eigenvalues are 1, which determines no vectors.
        np.testing.assert_allclose(model.eigenvalues_, single.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(model.components_[:2], single.components_[:2], atol=1e-8)

    def test_nearly_singular_scatter_is_a_warning(self):
        A, labels = draw(100, 3, 3)
        A = np.column_stack([A, A[:, 0] + 1e-6 * A[:, 1] ** 2])
        with pytest.warns(NumericalWarning, match="A larger shrinkage or fewer features") as caught:
            WithinClassWhitening(shrinkage=0.0).fit(A, labels)
        assert caught[0].filename == __file__

    @pytest.mark.parametrize("shrinkage", [0.0, 0.5, 1.0])
    def test_classes_without_scatter_are_an_error(self, shrinkage):
        with pytest.raises(SingularFormError, match="All samples of each class are identical"):
            WithinClassWhitening(shrinkage=shrinkage).fit(
                np.eye(3).repeat(2, 0), [0, 0, 1, 1, 2, 2]
            )

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (np.zeros(len(X)), r"only 1 class: \[0.0\]"),
            (np.where(Y == 2, 2, -1), r"only 1 class: \[2\]"),
            (np.full(len(X), -1), r"only 0 classes: \[\]"),
            (np.array(["a", "b"])[Y % 2], "unlabeled=-1 cannot be a label of y, .* such as 'a'"),
            (Y[:5], "inconsistent numbers of samples"),
            (None, "requires y to be passed"),
        ],
    )
    def test_labels_that_cannot_be_used(self, labels, message):
        with pytest.raises(ValueError, match=message):
            WithinClassWhitening(unlabeled=-1).fit(X, labels)

    def test_marker_that_no_label_can_be_is_refused_in_blocks_too(self):
        with pytest.raises(ValueError, match="unlabeled='none' cannot be a label of y"):
            WithinClassWhitening(unlabeled="none").partial_fit(X, Y)
        with pytest.raises(ValueError, match="unlabeled must be one label"):
            WithinClassWhitening(unlabeled=[1, 2]).fit(X, Y)

    @pytest.mark.parametrize(
        ("database", "message"),
        [
            (X[:, :4], "X has 7 features, database 4"),
            (np.where(X > 5.0, np.nan, X), "contains NaN"),
            (X[:0], "got none. Leave database out"),
            (X[0], "1 dimension, .* Weights are sample_weight"),
        ],
    )
    def test_database_that_cannot_be_used(self, database, message):
        needed = "database must hold rows of the features"
        with pytest.raises(ValueError, match=f"{needed}.*{message}") as raised:
            WithinClassWhitening().fit(X, Y, database=database)
        assert "\n" not in str(raised.value)

    def test_columns_of_the_database_in_another_order_are_refused(self):
        frame = pd.DataFrame(X, columns=list("abcdefg"))
        with pytest.raises(ValueError, match=r"database must hold.*feature names should match"):
            WithinClassWhitening().fit(frame, Y, database=frame[list("bacdefg")])
        model = WithinClassWhitening().fit(frame[SEEN], Y[SEEN], database=frame[~SEEN])
        assert list(model.feature_names_in_) == list("abcdefg")
        with pytest.raises(ValueError, match="same order"):
            model.partial_fit(frame[list("bacdefg")])

    def test_blocks_may_span_fewer_directions_than_components(self):
        model = WithinClassWhitening(6)
        for rows in np.array_split(np.arange(len(X)), len(X) // 4):
            model.partial_fit(X[rows], Y[rows])
        expected = WithinClassWhitening(6).fit(X, Y)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
        early = WithinClassWhitening(6).partial_fit(X[:4], Y[:4])
        with pytest.raises(NotFittedError):
            early.transform(X)
        with pytest.raises(ValueError, match="n_components=8 is more than there is: only 7"):
            WithinClassWhitening(8).partial_fit(X, Y)

    def test_more_components_than_directions(self):
        with pytest.raises(ValueError, match="n_components=8 is more than there is: only 7"):
            WithinClassWhitening(8).fit(X, Y)


class TestCluster:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dask_collections_give_the_map_of_numpy(self, client, dtype):
        da = pytest.importorskip("dask.array", reason="needs mpda[dask]")
        A = X.astype(dtype)
        expected = WithinClassWhitening(4).fit(A[SEEN], Y[SEEN], A[~SEEN])
        lazy, rest = (da.from_array(rows, chunks=(50, 3)) for rows in (A[SEEN], A[~SEEN]))
        tolerance = 1e-10 if dtype == np.float64 else 1e-5
        model = WithinClassWhitening(4).fit(lazy, Y[SEEN], database=rest)
        assert model.components_.dtype == dtype
        same = np.abs(model.components_ - expected.components_).max()
        assert same <= tolerance * np.abs(expected.components_).max()
        Z = model.transform(da.from_array(A, chunks=(60, 7)))
        assert Z.dtype == dtype
        np.testing.assert_allclose(Z.compute(), expected.transform(A), atol=100 * tolerance)
        in_memory = WithinClassWhitening(4).fit(A[SEEN], Y[SEEN], database=rest)
        assert in_memory.components_.dtype == dtype
        marked = WithinClassWhitening(4, unlabeled=-1)
        marked.fit(da.from_array(A, chunks=(50, 7)), da.from_array(MARKED, chunks=50))
        for other in (in_memory, marked):
            np.testing.assert_allclose(
                other.components_, expected.components_, rtol=1e-3 if tolerance > 1e-6 else 1e-8
            )

    def test_blocks_and_summaries_from_the_cluster(self, client):
        da = pytest.importorskip("dask.array", reason="needs mpda[dask]")
        dd = pytest.importorskip("dask.dataframe", reason="needs mpda[dask]")
        frame = pd.DataFrame(X, columns=list("abcdefg")).assign(kind=[f"k{c}" for c in Y])
        expected = WithinClassWhitening().fit(X, frame["kind"])
        model = WithinClassWhitening().fit(dd.from_pandas(frame[:100], npartitions=3), "kind")
        assert list(model.feature_names_in_) == list("abcdefg")
        same_map(model.partial_fit(dd.from_pandas(frame[100:], npartitions=2), "kind"), expected)
        parts = [
            WithinClassWhitening().summarize(da.from_array(X[:100], chunks=30), Y[:100]),
            WithinClassWhitening().summarize(X[100:], Y[100:]),
        ]
        model = WithinClassWhitening.from_summary(sum(parts))
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)

    def test_invalid_collections_are_refused(self, client):
        da = pytest.importorskip("dask.array", reason="needs mpda[dask]")
        lazy = da.from_array(X, chunks=(50, 7))
        with pytest.raises(ValueError, match="only 1 class"):
            WithinClassWhitening().fit(lazy, 0 * Y)
        with pytest.raises(TypeError, match="sample_weight must be None for Dask"):
            WithinClassWhitening().fit(lazy, Y, sample_weight=np.ones(len(X)))
        with pytest.raises(ValueError, match="unlabeled='none' cannot be a label"):
            WithinClassWhitening(unlabeled="none").fit(lazy, Y)
        with pytest.raises(ValueError, match=r"database must hold rows .*NaN"):
            WithinClassWhitening().fit(X, Y, database=da.where(lazy > 5.0, np.nan, lazy))
        with pytest.raises(ValueError, match="identical"):
            WithinClassWhitening().fit(da.ones_like(lazy), Y)


def test_unit_vectors_of_digits_find_classes_that_nobody_labelled():
    A, labels = load_digits(return_X_y=True)
    known, test = labels < 5, np.arange(len(A)) % 2 == 1
    queries = test & ~known
    train = known & ~test
    model = WithinClassWhitening(16).fit(A[train], labels[train], database=A[~known & ~test])
    pca = PCA(16).fit(A[~test])
    scores = [map_at_r(m.transform(A[queries]), labels[queries]) for m in (model, pca)]
    assert scores[0] > scores[1]
