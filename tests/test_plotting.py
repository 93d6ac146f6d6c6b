"""Plots hold what they should, leave nothing behind, and can be read without colour."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine, make_moons, make_s_curve
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA, ManifoldPartition
from mpda.model_selection import DiscriminantSearchCV, classification_curve

pytest.importorskip("matplotlib", reason="needs mpda[plot]")

from mpda.plotting import (
    ConfusionDisplay,
    CurveDisplay,
    EigenvalueDisplay,
    EmbeddingDisplay,
    ErrorCurve,
    PartitionDisplay,
    plot_components,
    plot_curve,
    plot_embedding,
    plot_partition,
)
from mpda.plotting._canvas import new_figure
from mpda.plotting._curve import top_error
from mpda.plotting.styles import COLORS, MARKERS, luminance, make_styles, neighbor_styles

WINE = load_wine()
X, Y = WINE.data, WINE.target_names[WINE.target]


@pytest.fixture(scope="module")
def pipeline():
    steps = StandardScaler(), MPDA(n_components=3, n_neighbors=10), KNeighborsClassifier(1)
    return make_pipeline(*steps).fit(X, Y)


@pytest.fixture(scope="module")
def search():
    return DiscriminantSearchCV(MPDA(), {"n_neighbors": [5, 10], "alpha": [0.1, 1.0]}).fit(X, Y)


@pytest.fixture(autouse=True)
def _nothing_left_open():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def legend_texts(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


# Figures


def test_a_figure_shows_itself_and_pyplot_does_not_know_it(pipeline):
    figure = plot_embedding(pipeline, X, Y)
    assert figure._repr_png_().startswith(b"\x89PNG")
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_() == figure._repr_png_()


def test_pyplot_is_not_imported():
    script = (
        "import sys, mpda.plotting as p; assert 'matplotlib' not in sys.modules;"
        "p.plot_embedding(None, [[0., 1.], [1., 0.]], [0, 1]);"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'mpda\[plot\]'"):
        plot_curve({"a": [0.1, 0.2]})


def test_given_axes_are_drawn_on():
    figure = new_figure(8, 4)
    left, right = figure.subfigures(1, 2)
    axes = left.subplots(), right.subplots()
    assert plot_embedding(None, X[:, :2], Y, ax=axes[0], title="wine") is figure
    assert axes[0].get_title() == "wine"
    assert plot_curve({"a": [0.3, 0.1]}, ax=axes[1]) is figure
    assert len(figure.axes) == 2
    with pytest.raises(TypeError, match=r"ax must be axes.*got list"):
        plot_embedding(None, X[:, :2], Y, ax=[1])


# Styles


def test_pairs_of_colour_and_marker_are_distinct_in_colour_and_in_grey():
    looks = make_styles(88)
    assert len({(s.color, s.marker) for s in looks}) == 88
    # A grey print keeps the brightness and the marker.
    assert len({(round(luminance(s.color), 2), s.marker) for s in looks}) == 88
    assert len({s.marker for s in looks[: len(MARKERS)]}) == len(MARKERS)
    assert len({(s.color, s.line) for s in make_styles(32)}) == 32


def test_colours_stand_out_from_white():
    assert luminance("#FFFFFF") == pytest.approx(1.0)
    assert luminance("#777777") == pytest.approx(0.184, abs=1e-3)
    for color in COLORS:
        assert 1.05 / (luminance(color) + 0.05) > 2.0, color


def test_patches_side_by_side_differ():
    rng = np.random.default_rng(0)
    centres = rng.uniform(size=(300, 2))
    chosen = neighbor_styles(centres)
    gaps = np.linalg.norm(centres[:, None] - centres, axis=2) + np.diag(np.full(300, np.inf))
    three = np.argsort(gaps, axis=1)[:, :3]
    assert np.all(chosen[three] != chosen[:, None])
    assert set(chosen.tolist()) == set(range(len(COLORS)))
    # One patch, and patches at one place, are no trouble.
    assert neighbor_styles(np.zeros((1, 2))).shape == (1,)
    assert len(set(neighbor_styles(np.zeros((5, 2))).tolist())) == 5


# The embedding


def test_embedding_holds_every_sample_in_its_class(pipeline):
    axis = plot_embedding(pipeline, X, Y, components=(2, 0)).axes[0]
    Z = pipeline[:-1].transform(X)[:, [2, 0]]
    names = [f"class_{i}" for i in range(3)]
    assert legend_texts(axis) == names
    for name, drawn in zip(names, axis.collections, strict=True):
        np.testing.assert_array_equal(drawn.get_offsets(), Z[name == Y])
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("mpda2", "mpda0")
    colors = {tuple(c.get_facecolor()[0]) for c in axis.collections}
    shapes = {c.get_paths()[0].vertices.tobytes() for c in axis.collections}
    assert len(colors) == len(shapes) == 3


def test_embedding_of_one_component_is_the_same_strip_every_time(pipeline):
    first, second = (plot_embedding(pipeline, X, Y, components=0).axes[0] for _ in range(2))
    Z = pipeline[:-1].transform(X)[:, 0]
    drawn = [c.get_offsets() for c in first.collections]
    # The samples of wine stand class by class, as they are drawn.
    np.testing.assert_array_equal(np.concatenate(drawn)[:, 0], Z)
    assert np.ptp(np.concatenate(drawn)[:, 1]) > 1.0
    np.testing.assert_array_equal(drawn[0], second.collections[0].get_offsets())


def test_embedding_in_three_components(pipeline):
    display = EmbeddingDisplay.from_estimator(pipeline, X, Y, components=(0, 1, 2))
    assert display.ax_.name == "3d"
    assert display.ax_.get_zlabel() == "mpda2"
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="ax must have three dimensions"):
        display.plot(new_figure(3, 3).add_subplot())


def test_classes_of_one_character_are_drawn_by_it():
    axis = plot_embedding(None, X[:, :2], WINE.target).axes[0]
    assert axis.get_legend() is None
    assert len(axis.collections) == 3
    names = np.array(["a", "b", "cc"])[WINE.target]
    assert legend_texts(plot_embedding(None, X[:, :2], names).axes[0]) == ["a", "b", "cc"]


def test_names_are_no_formulas_and_never_left_out():
    names = np.array(["_hidden", "$\\frac$", "x" * 80])[WINE.target]
    figure = plot_embedding(None, X[:, :2], names)
    figure._repr_png_()
    texts = legend_texts(figure.axes[0])
    assert len(texts) == 3
    assert any("_hidden" in text for text in texts)
    assert max(len(text) for text in texts) < 40


def test_a_long_legend_is_cut_and_says_so():
    y = np.arange(400) % 50
    axis = plot_embedding(None, np.random.default_rng(0).normal(size=(400, 2)), y).axes[0]
    assert len(axis.collections) == 50
    assert len(legend_texts(axis)) == 20
    assert axis.get_legend().get_title().get_text() == "20 of 50 classes"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"components": (0, 3)}, r"components must be from 0 to 2.*got \(0, 3\)"),
        ({"components": ()}, "components must be one, two or three int"),
        ({"components": (0.5, 1)}, "components must be one, two or three int"),
        ({"y": Y[:-1]}, "y must hold one label for each of 178 samples"),
    ],
)
def test_bad_embeddings_are_refused(pipeline, changed, message):
    given = {"X": X, "y": Y} | changed
    with pytest.raises(ValueError, match=message):
        plot_embedding(pipeline, **given)


def test_what_does_not_map_is_refused():
    with pytest.raises(TypeError, match="estimator must have transform, got KNeighborsClassifier"):
        plot_embedding(KNeighborsClassifier(), X, Y)
    with pytest.raises(ValueError, match="X must be numbers"):
        plot_embedding(None, [["a", "b"]], [1])


# Curves


def test_curve_of_a_search_is_the_mean_over_folds_at_its_parameters(search):
    axis = plot_curve(search).axes[0]
    line = axis.lines[0]
    table, best = search.cv_results_, search.best_params_
    rows = [
        i
        for i, p in enumerate(table["params"])
        if (p["n_neighbors"], p["alpha"]) == (best["n_neighbors"], best["alpha"])
    ]
    np.testing.assert_allclose(line.get_ydata(), 100 * (1 - table["mean_test_score"][rows]))
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 14))
    assert line.get_label() == f"MPDA (chosen: {best['n_components']})"
    band, mark = axis.collections
    np.testing.assert_allclose(
        mark.get_offsets(), [[best["n_components"], 100 * (1 - search.best_score_)]]
    )
    scores = np.array([table[f"split{i}_test_score"][rows[0]] for i in range(4)])
    half = 3.182446305284263 * 100 * scores.std(ddof=1) / 2  # Student's t, 3 degrees of freedom
    top = 100 * (1 - scores.mean()) + half
    assert np.isclose(band.get_paths()[0].vertices[:, 1], top).any()
    assert axis.get_ylabel() == "error in %"


def test_curves_of_arrays():
    errors = {"a": [0.5, 0.25], "b": np.array([[0.4, 0.2, np.nan], [0.2, 0.2, 0.1]]), "level": 0.1}
    axis = plot_curve(errors, title="both").axes[0]
    assert legend_texts(axis) == ["a", "b", "level"]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), [50, 25])
    np.testing.assert_allclose(axis.lines[1].get_ydata(), [30, 20])  # not where a fold has none
    np.testing.assert_allclose(axis.lines[2].get_ydata(), [10, 10])
    assert len(axis.collections) == 1
    assert len({line.get_linestyle() for line in axis.lines}) == 3


def test_the_legend_of_many_curves_hides_none():
    figure = plot_curve({f"method {i}": [0.5, 0.2, 0.1] for i in range(17)})
    figure.draw_without_rendering()
    (axis,) = figure.axes
    legend = axis.get_legend().get_window_extent()
    assert legend.x0 > axis.get_window_extent().x1
    assert figure.bbox.x1 >= legend.x1
    assert legend.y0 >= figure.bbox.y0
    assert len({(line.get_color(), line.get_linestyle()) for line in axis.lines}) == 17


def test_the_axis_of_errors_ends_a_little_above_what_matters():
    one_component_is_far_worse = np.array([90.0, 40.0, np.nan, 10.0])
    assert top_error([one_component_is_far_worse, np.array([80.0, 2.0])]) == 25.0
    assert top_error([np.array([60.0, 1.0])]) == 11.0
    assert top_error([np.array([6.0, 5.0])]) == pytest.approx(1.08 * 6.0)
    assert top_error([np.zeros(3), np.empty(0), np.array([np.nan])]) == 1.0


def test_curve_of_another_score_says_so():
    other = DiscriminantSearchCV(LFDA(), {"n_neighbors": [5]}, scoring="f1_macro").fit(X, Y)
    assert CurveDisplay.from_estimator(other).ax_.get_ylabel() == "1 - f1_macro in %"
    pipe = make_pipeline(StandardScaler(), LFDA())
    found = DiscriminantSearchCV(pipe, {"n_neighbors": [5]}).fit(X, Y)
    chosen = found.best_params_["lfda__n_components"]
    assert legend_texts(plot_curve(found).axes[0]) == [f"LFDA (chosen: {chosen})"]


def test_curve_of_classification_curve():
    model = LFDA().fit(X[::2], Y[::2])
    errors = classification_curve(model, X[::2], Y[::2], X[1::2], Y[1::2])
    line = plot_curve({"LFDA": errors}).axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), 100 * errors)


@pytest.mark.parametrize(
    ("curves", "error", "message"),
    [
        (
            {"a": [5.0, 12.0]},
            ValueError,
            r"curves\['a'\] must hold errors from 0 to 1, got 5 to 12",
        ),
        ({"a": np.zeros((2, 2, 2))}, ValueError, "must have one dimension"),
        ({"a": []}, ValueError, "must have one dimension"),
        ({"a": "high"}, TypeError, "must be a fitted search or errors"),
        ({}, ValueError, "at least one curve"),
        (MPDA(), ValueError, "MPDA has no cv_results_"),
    ],
)
def test_bad_curves_are_refused(curves, error, message):
    with pytest.raises(error, match=message):
        plot_curve(curves)


# Patches


def test_partition_shows_the_patches_of_one_class():
    P, y = make_moons(120, noise=0.02, random_state=0)
    model = ManifoldPartition().fit(P, y)
    axis = plot_partition(model, P, label=1).axes[0]
    mine = np.flatnonzero(model.patch_classes_ == 1)
    assert len(axis.collections) == len(axis.lines) == mine.size
    for drawn, patch in zip(axis.collections, mine, strict=True):
        np.testing.assert_array_equal(drawn.get_offsets(), P[model.labels_ == patch])
    linearity = model.patch_linearity_[mine].mean()
    assert axis.get_title() == f"class 1: {mine.size} patches, mean linearity {linearity:.3f}"
    # The line of a patch goes through its mean, along its points.
    for line, patch in zip(axis.lines, mine, strict=True):
        ends, points = np.array(line.get_xydata()), P[model.labels_ == patch]
        np.testing.assert_allclose(ends.mean(axis=0), points.mean(axis=0))
        along = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
        centred = points - points.mean(axis=0)
        turned = np.array([-along[1], along[0]])
        assert np.sum((centred @ along) ** 2) > np.sum((centred @ turned) ** 2)
        assert centred @ along @ (centred @ turned) == pytest.approx(0.0, abs=1e-12)


def test_partition_of_more_features_is_shown_in_principal_components():
    P, _ = make_s_curve(150, random_state=0)
    model = ManifoldPartition().fit(P)
    display = PartitionDisplay.from_estimator(model, P)
    assert display.ax_.get_xlabel() == "first principal component"
    wanted = PCA(2).fit_transform(P)
    np.testing.assert_allclose(np.abs(display.points), np.abs(wanted), atol=1e-9)
    # Lines come along: they still go through the means of the patches.
    means = [display.points[display.patches == p].mean(axis=0) for p in range(len(display.lines))]
    np.testing.assert_allclose(display.lines.mean(axis=1), means, atol=1e-9)
    with pytest.raises(ValueError, match="label=1: the partition was fitted without y"):
        plot_partition(model, P, label=1)
    with pytest.raises(ValueError, match="X must be the 150 samples"):
        plot_partition(model, P[1:])


def test_partition_of_a_pipeline_takes_the_largest_class(pipeline):
    axis = plot_partition(pipeline, X).axes[0]
    assert axis.get_title().startswith("class class_1: ")
    assert sum(len(c.get_offsets()) for c in axis.collections) == 71
    # What is shown is what MPDA saw: scaled features, not those with the largest numbers.
    scaled = pipeline[0].transform(X)[Y == "class_1"]
    drawn = np.concatenate([c.get_offsets() for c in axis.collections])
    np.testing.assert_allclose(drawn.var(axis=0), PCA(2).fit_transform(scaled).var(axis=0))
    with pytest.raises(ValueError, match=r"label must be one of 'class_0'.*got 'gin'"):
        plot_partition(pipeline, X, label="gin")
    with pytest.raises(ValueError, match="estimator must be fitted and have patch_labels_"):
        plot_partition(LFDA().fit(X, Y), X)


# Components, eigenvalues, confusion


def test_bars_are_the_largest_weights(pipeline):
    figure = plot_components(pipeline, components=[1, 2], feature_names=WINE.feature_names, top=4)
    assert [axis.get_title() for axis in figure.axes] == ["mpda1", "mpda2"]
    weights = pipeline["mpda"].components_[1]
    largest = np.argsort(-np.abs(weights))[:4]
    bars = figure.axes[0].patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], weights[largest])
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == [WINE.feature_names[i] for i in largest]


def test_names_are_those_that_the_step_sees():
    frame = load_iris(as_frame=True)
    scaled = make_pipeline(StandardScaler(), LFDA(n_components=1)).fit(frame.data, frame.target)
    names = [t.get_text() for t in plot_components(scaled).axes[0].get_yticklabels()]
    assert sorted(names) == sorted(frame.data.columns)
    # All four principal components are kept; their names are not those of the columns.
    rotated = make_pipeline(PCA(), LFDA(n_components=1)).fit(frame.data, frame.target)
    names = [t.get_text() for t in plot_components(rotated).axes[0].get_yticklabels()]
    assert sorted(names) == ["pca0", "pca1", "pca2", "pca3"]


def test_images_have_zero_in_the_middle():
    model = LFDA(n_components=2, n_neighbors=5).fit(X[:, :12], Y)
    figure = plot_components(model, image_shape=(3, 4))
    for axis, weights in zip(figure.axes, model.components_, strict=False):
        picture = axis.images[0]
        np.testing.assert_array_equal(picture.get_array(), weights.reshape(3, 4))
        low, high = picture.get_clim()
        assert low == -high == -np.abs(weights).max()
    figure._repr_png_()
    # Ever brighter: below and above zero differ in grey.
    from matplotlib.colors import to_hex

    steps = [luminance(to_hex(picture.get_cmap()(v))) for v in np.linspace(0, 1, 20)]
    assert np.all(np.diff(steps) > 0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"image_shape": (3, 4)},
            r"image_shape must be \(rows, columns\) with 13 pixels.*\(3, 4\)",
        ),
        ({"components": 3}, "components must be from 0 to 2, got 3"),
        ({"feature_names": ["a"]}, "feature_names must hold 13 names, got 1"),
        ({"top": 0}, "top must be at least 1"),
        ({"ax": [None]}, "ax must hold one axes for each of 3 components, got 1"),
    ],
)
def test_bad_components_are_refused(pipeline, changed, message):
    with pytest.raises(ValueError, match=message):
        plot_components(pipeline, **changed)


def test_eigenvalues_are_bars(pipeline):
    bars = EigenvalueDisplay.from_estimator(pipeline).ax_.patches
    np.testing.assert_allclose([b.get_height() for b in bars], pipeline["mpda"].eigenvalues_)
    wide = EigenvalueDisplay([100.0, 1.0, 0.01]).plot().ax_
    assert wide.get_yscale() == "log"
    np.testing.assert_allclose([b.get_y() + b.get_height() for b in wide.patches], [100, 1, 0.01])
    assert EigenvalueDisplay([1.0, -1e-9]).plot().ax_.get_yscale() == "linear"


def test_confusion_shows_the_counts():
    display = ConfusionDisplay([[9, 1, 0], [0, 0, 0], [2, 0, 8]], ["a", "b", "long name"]).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["9", "1", "2", "8"]
    np.testing.assert_allclose(display.ax_.images[0].get_array()[0], np.sqrt([0.9, 0.1, 0.0]))
    with pytest.raises(ValueError, match="counts must have one row and column for each of 1"):
        ConfusionDisplay([[1, 2], [3, 4]], ["a"])


def test_a_chosen_error_is_drawn_where_it_is_and_not_on_the_curve():
    errors = np.array([9.0, 5.0, 7.0])
    curve = ErrorCurve("a", np.arange(1.0, 4.0), errors, chosen=2.5, chosen_error=4.0)
    display = CurveDisplay([curve]).plot()
    assert display.ax_.collections[-1].get_offsets().tolist() == [[2.5, 4.0]]
    on_curve = ErrorCurve("a", np.arange(1.0, 4.0), errors, chosen=2.5)
    display = CurveDisplay([on_curve]).plot()
    assert display.ax_.collections[-1].get_offsets().tolist() == [[2.5, 6.0]]
