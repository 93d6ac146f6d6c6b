"""Plots hold the right data, leave no global state, and can be read without colour."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification, make_moons, make_s_curve
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA, ManifoldPartition, NeighborhoodRefinement
from mpda.assessment.significance import RankComparison
from mpda.exceptions import FeatureScaleWarning
from mpda.model_selection import DiscriminantSearchCV

pytest.importorskip("matplotlib", reason="needs mpda[plot]")

from mpda.plotting import (
    ComponentsDisplay,
    ConfusionDisplay,
    CurveDisplay,
    EigenvalueDisplay,
    EmbeddingDisplay,
    ErrorCurve,
    PartitionDisplay,
    RankDisplay,
    plot_components,
    plot_curve,
    plot_embedding,
    plot_partition,
)
from mpda.plotting.axes import new_figure
from mpda.plotting.styles import make_styles

WINE = load_wine()
X, Y = WINE.data, WINE.target_names[WINE.target]


@pytest.fixture(scope="module")
def pipeline():
    steps = StandardScaler(), MPDA(n_components=3, n_neighbors=10), KNeighborsClassifier(1)
    return make_pipeline(*steps).fit(X, Y)


@pytest.fixture(scope="module")
def search():
    grid = {"n_neighbors": [5, 10], "alpha": [0.1, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FeatureScaleWarning)  # wine is not standardised here
        return DiscriminantSearchCV(MPDA(), grid).fit(X, Y)


def legend_texts(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


# Figures


def test_figures_display_themselves_and_can_be_pickled(pipeline):
    figure = plot_embedding(pipeline, X, Y)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure))._repr_png_() == figure._repr_png_()


@pytest.mark.slow
def test_pyplot_is_not_imported():
    script = (
        "import sys, mpda.plotting as p; assert 'matplotlib' not in sys.modules;"
        "p.plot_embedding(None, [[0., 1.], [1., 0.]], [0, 1]);"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[plot\]'"):
        plot_curve({"a": [0.1, 0.2]})


def test_plots_use_given_axes():
    figure = new_figure(8, 4)
    left, right = (subfigure.subplots() for subfigure in figure.subfigures(1, 2))
    assert plot_embedding(None, X[:, :2], Y, ax=left, title="wine") is figure
    assert left.get_title() == "wine"
    assert plot_curve({"a": [0.3, 0.1]}, ax=right) is figure
    assert len(figure.axes) == 2
    with pytest.raises(TypeError, match=r"ax must be axes.*got list"):
        plot_embedding(None, X[:, :2], Y, ax=[1])


def test_styles_differ_in_colour_and_in_grey():
    styles = make_styles(110)
    assert len({(s.color, s.marker) for s in styles}) == 110
    assert len({s.color for s in styles[:10]}) == 10
    assert len({s.marker for s in styles[:11]}) == 11
    assert len({(s.color, s.line) for s in styles[:40]}) == 40


# Embeddings


def test_embedding_draws_every_sample_in_its_class(pipeline):
    axis = plot_embedding(pipeline, X, Y, components=(2, 0)).axes[0]
    Z = pipeline[:-1].transform(X)[:, [2, 0]]
    names = [f"class_{i}" for i in range(3)]
    assert legend_texts(axis) == names
    for name, drawn in zip(names, axis.collections, strict=True):
        np.testing.assert_array_equal(drawn.get_offsets(), Z[name == Y])
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("MPDA 3", "MPDA 1")


def test_embedding_of_one_component_is_a_reproducible_strip(pipeline):
    first, second = (
        np.concatenate([c.get_offsets() for c in axis.collections])
        for axis in (plot_embedding(pipeline, X, Y, components=0).axes[0] for _ in range(2))
    )
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first[:, 0], pipeline[:-1].transform(X)[:, 0])
    assert np.ptp(first[:, 1]) > 1.0


def test_embedding_in_three_components(pipeline):
    display = EmbeddingDisplay.from_estimator(pipeline, X, Y, components=(0, 1, 2))
    assert display.ax_.name == "3d"
    assert display.ax_.get_zlabel() == "MPDA 3"
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match='ax must have projection="3d"'):
        display.plot(new_figure(3, 3).add_subplot())


def test_labels_of_one_character_are_drawn_as_markers():
    axis = plot_embedding(None, X[:, :2], WINE.target).axes[0]
    assert axis.get_legend() is None
    assert len(axis.collections) == 3
    names = np.array(["a", "b", "cc"])[WINE.target]
    assert legend_texts(plot_embedding(None, X[:, :2], names).axes[0]) == ["a", "b", "cc"]


def test_names_are_never_formulas_and_never_hidden():
    names = np.array(["_hidden", "$\\frac$", "x" * 80])[WINE.target]
    figure = plot_embedding(None, X[:, :2], names)
    figure._repr_png_()
    texts = legend_texts(figure.axes[0])
    assert len(texts) == 3
    assert max(map(len, texts)) < 40


def test_long_legends_are_cut():
    y = np.arange(400) % 50
    axis = plot_embedding(None, np.random.default_rng(0).normal(size=(400, 2)), y).axes[0]
    assert len(axis.collections) == 50
    assert len(legend_texts(axis)) == 20
    assert axis.get_legend().get_title().get_text() == "20 of 50 classes"


# Curves


def test_curve_of_a_search_is_the_mean_over_folds_at_its_parameters(search):
    axis = plot_curve(search).axes[0]
    (line,) = axis.lines
    table, best = search.cv_results_, search.best_params_
    other = {name: value for name, value in best.items() if name != "n_components"}
    rows = [i for i, point in enumerate(table["params"]) if other.items() <= point.items()]
    np.testing.assert_allclose(line.get_ydata(), 100 * (1 - table["mean_test_score"][rows]))
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 14))
    assert line.get_label() == f"MPDA (selected: {best['n_components']})"
    band, ring = axis.collections
    expected = [[best["n_components"], 100 * (1 - search.best_score_)]]
    np.testing.assert_allclose(ring.get_offsets(), expected)
    errors = 100 - 100 * np.array([table[f"split{i}_test_score"][rows[0]] for i in range(4)])
    high = stats.t.interval(0.95, 3, loc=errors.mean(), scale=stats.sem(errors))[1]
    assert np.isclose(band.get_paths()[0].vertices[:, 1], high).any()
    assert axis.get_ylabel() == "error in %"


def test_curve_of_a_search_by_halving_is_that_of_the_last_round():
    X, y = make_classification(1300, 6, n_informative=4, random_state=0)
    halved = DiscriminantSearchCV(LFDA(), {"alpha": [0.1, 1.0, 3.0, 10.0]}, halving=True).fit(X, y)
    table = halved.cv_results_
    assert set(table["iter"]) == {0, 1}
    (line,) = plot_curve(halved).axes[0].lines
    scores = table["mean_test_score"][table["iter"] == 1]  # one grid point is left
    np.testing.assert_allclose(line.get_ydata(), 100 * (1 - scores))


def test_curves_of_arrays():
    errors = {"a": [0.5, 0.25], "b": np.array([[0.4, 0.2, np.nan], [0.2, 0.2, 0.1]]), "level": 0.1}
    axis = plot_curve(errors, title="both").axes[0]
    assert legend_texts(axis) == ["a", "b", "level"]
    for line, values in zip(axis.lines, ([50, 25], [30, 20], [10, 10]), strict=True):
        np.testing.assert_allclose(line.get_ydata(), values)
    assert len(axis.collections) == 1
    assert len({line.get_linestyle() for line in axis.lines}) == 3


def test_error_axis_ends_slightly_above_the_relevant_errors():
    def upper_limit(*errors):
        curves = [ErrorCurve("a", np.arange(len(e)) + 1.0, np.array(e)) for e in errors]
        return CurveDisplay(curves).upper_limit()

    assert upper_limit([90.0, 40.0, np.nan, 10.0], [80.0, 2.0]) == 25.0
    assert upper_limit([60.0, 1.0]) == 11.0
    assert upper_limit([6.0, 5.0]) == pytest.approx(1.08 * 6.0)
    assert upper_limit([0.0, 0.0], [], [np.nan]) == 1.0
    band = {"low": np.array([3.0, 2.0]), "high": np.array([9.0, np.nan])}
    curve = ErrorCurve("a", np.array([1, 2]), np.array([6.0, 5.0]), **band)
    assert CurveDisplay([curve]).upper_limit() == pytest.approx(1.08 * 9.0)


def test_axis_names_the_score_of_the_search():
    steps = make_pipeline(StandardScaler(), LFDA())
    search = DiscriminantSearchCV(steps, {"n_neighbors": [5]}, scoring="f1_macro").fit(X, Y)
    axis = CurveDisplay.from_estimator(search).ax_
    assert axis.get_ylabel() == "1 - f1_macro in %"
    n_components = search.best_params_["lfda__n_components"]
    assert legend_texts(axis) == [f"LFDA (selected: {n_components})"]


# Partitions


def test_partition_draws_the_patches_of_one_class():
    points, y = make_moons(120, noise=0.02, random_state=0)
    model = ManifoldPartition().fit(points, y)
    axis = plot_partition(model, points, label=1).axes[0]
    patches = np.flatnonzero(model.patch_classes_ == 1)
    linearity = model.patch_linearity_[patches].mean()
    assert axis.get_title() == f"class 1: {patches.size} patches, mean linearity {linearity:.3f}"
    for drawn, line, patch in zip(axis.collections, axis.lines, patches, strict=True):
        members = points[model.labels_ == patch]
        np.testing.assert_array_equal(drawn.get_offsets(), members)
        # The tangent line passes through the mean along the first principal direction.
        ends, pca = np.array(line.get_xydata()), PCA(1).fit(members)
        np.testing.assert_allclose(ends.mean(axis=0), pca.mean_)
        assert abs(np.diff(ends, axis=0) @ pca.components_[0]) == pytest.approx(
            np.linalg.norm(np.diff(ends, axis=0))
        )


def test_partition_of_more_features_is_drawn_in_principal_components():
    points, _ = make_s_curve(150, random_state=0)
    model = ManifoldPartition().fit(points)
    display = PartitionDisplay.from_estimator(model, points)
    assert display.ax_.get_xlabel() == "first principal component"
    expected = PCA(2).fit_transform(points)
    np.testing.assert_allclose(np.abs(display.points), np.abs(expected), atol=1e-9)
    with pytest.raises(ValueError, match="label must be None for a partition without y"):
        plot_partition(model, points, label=1)
    with pytest.raises(ValueError, match="X must be the 150 training samples"):
        plot_partition(model, points[1:])


def test_partition_of_a_pipeline_is_drawn_in_the_space_of_its_step(pipeline):
    axis = plot_partition(pipeline, X).axes[0]
    assert axis.get_title().startswith("class class_1: ")  # the largest class
    drawn = np.concatenate([c.get_offsets() for c in axis.collections])
    scaled = pipeline[0].transform(X)[Y == "class_1"]
    np.testing.assert_allclose(drawn.var(axis=0), PCA(2).fit_transform(scaled).var(axis=0))
    with pytest.raises(ValueError, match=r"label must be one of 'class_0'.*got 'gin'"):
        plot_partition(pipeline, X, label="gin")
    with pytest.raises(ValueError, match="estimator must be fitted and have patch_labels_"):
        plot_partition(LFDA().fit(X, Y), X)


def test_partition_of_a_refined_model_is_that_of_its_first_method(pipeline):
    expected = PartitionDisplay.from_estimator(pipeline, X)
    scaler, method = StandardScaler(), clone(pipeline[1])
    inside = NeighborhoodRefinement(make_pipeline(scaler, method), n_rounds=1)
    outside = make_pipeline(scaler, NeighborhoodRefinement(method, n_rounds=1))
    for model in (inside, outside):
        model.fit(X, Y)
        found = PartitionDisplay.from_estimator(model, X)
        np.testing.assert_array_equal(found.patches, expected.patches)
        np.testing.assert_allclose(found.points, expected.points)
        with pytest.raises(ValueError, match="must be fitted and have eigenvalues_"):
            EigenvalueDisplay.from_estimator(model)  # those of the start are not of its components


# Components, eigenvalues, confusion


def test_bars_are_the_largest_weights(pipeline):
    figure = plot_components(pipeline, components=[1, 2], feature_names=WINE.feature_names, top=4)
    assert [axis.get_title() for axis in figure.axes] == ["MPDA 2", "MPDA 3"]
    weights = pipeline["mpda"].components_[1]
    largest = np.argsort(-np.abs(weights))[:4]
    bars = figure.axes[0].patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], weights[largest])
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == [WINE.feature_names[i] for i in largest]


def test_bars_are_correlations_where_samples_are_passed():
    frame = load_wine(as_frame=True).data
    model = make_pipeline(StandardScaler(), LFDA(2), KNeighborsClassifier(1)).fit(frame, Y)
    axis = plot_components(model, frame, components=1, top=4).axes[0]
    z = model[:-1].transform(frame)[:, 1]
    correlations = np.array([np.corrcoef(x, z)[0, 1] for x in X.T])
    largest = np.argsort(-np.abs(correlations))[:4]
    np.testing.assert_allclose([bar.get_width() for bar in axis.patches], correlations[largest])
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    assert names == [frame.columns[i] for i in largest]
    assert (axis.get_xlabel(), axis.get_xlim()) == ("correlation", (-1.0, 1.0))


def test_images_of_correlations_have_the_same_limits():
    model = LFDA(n_components=2, n_neighbors=5).fit(X[:, :12], Y)
    figure = plot_components(model, X[:, :12], image_shape=(3, 4))
    limits = {axis.images[0].get_clim() for axis in figure.axes[:2]}
    assert len(limits) == 1
    assert 0.0 < limits.pop()[1] <= 1.0


def test_components_are_named_by_method_and_counted_from_one():
    pca = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    assert plot_embedding(pca, X, Y).axes[0].get_xlabel() == "PCA 1"
    assert plot_embedding(None, X[:, :2], Y).axes[0].get_ylabel() == "component 2"
    names = ComponentsDisplay([[1.0, 2.0]]).component_names
    assert names == ["component 1"]
    bars = EigenvalueDisplay([3.0, 2.0]).plot().ax_.patches
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx([1.0, 2.0])


def test_feature_names_are_those_that_the_step_sees():
    frame = load_iris(as_frame=True)
    principal = ["pca0", "pca1", "pca2", "pca3"]
    for first, expected in ((StandardScaler(), frame.data.columns), (PCA(), principal)):
        inner = make_pipeline(first, LFDA(n_components=1))
        refined = NeighborhoodRefinement(inner, radius=None, max_iter=1)
        for model in (inner, make_pipeline(inner, KNeighborsClassifier(1)), refined):
            axis = plot_components(model.fit(frame.data, frame.target)).axes[0]
            names = [tick.get_text() for tick in axis.get_yticklabels()]
            assert sorted(names) == sorted(expected)


def test_images_have_zero_in_the_middle():
    model = LFDA(n_components=2, n_neighbors=5).fit(X[:, :12], Y)
    figure = plot_components(model, image_shape=(3, 4))
    for axis, weights in zip(figure.axes, model.components_, strict=False):
        image = axis.images[0]
        np.testing.assert_array_equal(image.get_array(), weights.reshape(3, 4))
        low, high = image.get_clim()
        assert low == -high == -np.abs(weights).max()


def test_eigenvalues_are_bars(pipeline):
    bars = EigenvalueDisplay.from_estimator(pipeline).ax_.patches
    np.testing.assert_allclose([b.get_height() for b in bars], pipeline["mpda"].eigenvalues_)
    axis = EigenvalueDisplay([100.0, 1.0, 0.01]).plot().ax_
    assert axis.get_yscale() == "log"
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("component", "eigenvalue")
    np.testing.assert_allclose([b.get_y() + b.get_height() for b in axis.patches], [100, 1, 0.01])
    assert EigenvalueDisplay([1.0, -1e-9]).plot().ax_.get_yscale() == "linear"


def test_confusion_shows_counts():
    display = ConfusionDisplay([[9, 1, 0], [0, 0, 0], [2, 0, 8]], ["a", "b", "long name"]).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["9", "1", "2", "8"]
    np.testing.assert_allclose(display.ax_.images[0].get_array()[0], np.sqrt([0.9, 0.1, 0.0]))
    with pytest.raises(ValueError, match=r"counts must have shape \(1, 1\)"):
        ConfusionDisplay([[1, 2], [3, 4]], ["a"])


@pytest.mark.parametrize(
    ("draw", "arguments", "message"),
    [
        (plot_embedding, {"X": X, "y": Y, "components": (0, 3)}, "components must be from 0 to 2"),
        (plot_embedding, {"X": X, "y": Y, "components": [0] * 4}, "must be one, two or three int"),
        (plot_embedding, {"X": X, "y": Y[:-1]}, r"y must have shape \(178,\), got \(177,\)"),
        (plot_components, {"image_shape": (3, 4)}, r"image_shape must be .* 13 pixels, got \(3, 4"),
        (plot_components, {"components": 3}, "components must be from 0 to 2, got 3"),
        (plot_components, {"feature_names": ["a"]}, "feature_names must hold 13 names, got 1"),
        (plot_components, {"top": 0}, "top must be at least 1"),
        (plot_components, {"ax": [None]}, "ax must hold one axes for each of 3 components, got 1"),
    ],
)
def test_bad_arguments_are_refused(pipeline, draw, arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(pipeline, **arguments)


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({"a": [5.0, 12.0]}, r"curves\['a'\] must hold errors from 0 to 1, got 5 to"),
        ({"a": []}, "must have shape"),
        ({"a": "high"}, "must be a fitted search or errors"),
        ({}, "at least one curve"),
        (MPDA(), "must be a fitted search or errors, got MPDA"),
    ],
)
def test_bad_curves_are_refused(curves, message):
    with pytest.raises((TypeError, ValueError), match=message):
        plot_curve(curves)


@pytest.mark.parametrize(
    ("estimator", "values", "message"),
    [
        (KNeighborsClassifier(), X, "estimator must have transform"),
        (None, np.array([["a", "b"]]), "X must be a table of numbers"),
    ],
)
def test_samples_that_cannot_be_mapped_are_refused(estimator, values, message):
    with pytest.raises((TypeError, ValueError), match=message):
        plot_embedding(estimator, values, Y)


def make_ranks(ranks, critical_difference):
    k = len(ranks)
    names = tuple("abcdefgh"[:k])
    return RankComparison(names, np.array(ranks), 5, 0.01, critical_difference, np.ones((k, k)))


def test_groups_are_the_largest_sets_within_the_critical_difference():
    display = RankDisplay(make_ranks([4.0, 1.0, 2.5, 5.5, 2.0], 2.0))
    # By rank: b 1, e 2, c 2.5, a 4, d 5.5.
    assert [group.tolist() for group in display.groups()] == [[1, 4, 2], [2, 0], [0, 3]]
    assert RankDisplay(make_ranks([1.0, 2.0, 3.0], 0.5)).groups() == []
    # A difference of exactly the critical one is significant.
    assert RankDisplay(make_ranks([1.0, 2.0], 1.0)).groups() == []


def test_rank_diagram_places_methods_at_their_ranks():
    display = RankDisplay(make_ranks([2.75, 1.0, 2.25], 1.5)).plot(title="five sets")
    texts = {text.get_text().strip(): text for text in display.ax_.texts}
    assert {"b  1.00", "c  2.25", "2.75  a", "critical difference 1.50"} <= set(texts)
    ranks = sorted(line.get_xdata()[0] for line in display.ax_.lines)
    assert ranks == [1.0, 2.25, 2.75]
    assert texts["b  1.00"].get_position()[1] > texts["c  2.25"].get_position()[1]
    assert display.ax_.get_title() == "five sets"


def test_one_component_is_drawn_without_being_asked_for():
    X, y = load_iris(return_X_y=True)
    display = EmbeddingDisplay.from_estimator(MPDA(1).fit(X, y), X, y)
    assert display.points.shape == (150, 1)
    display = EigenvalueDisplay.from_estimator(MPDA(1).fit(X, y))
    ticks = [tick for tick in display.ax_.get_xticks() if 0.5 < tick < 1.5]
    assert ticks == [1.0]
