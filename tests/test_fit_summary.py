"""Sums of a fit that are computed apart, sent and merged."""

import itertools
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cases import bent_classes, same_rows, unequal_classes
from mpda import MPDA, PMPDA, FitSummary, load, save
from mpda.exceptions import SmallClassWarning

pytestmark = pytest.mark.filterwarnings("ignore::mpda.exceptions.SmallClassWarning")
ABSOLUTE = {"units": "absolute", "gamma": 0.3, "alpha": 2.0, "n_neighbors": 4}


def summaries(method, X, y, groups):
    masks = [np.isin(y, group) for group in groups]
    return [method.summarize(X[mask], y[mask]) for mask in masks]


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("scale", [1.0, 1e60, 1e-60])
def test_merged_sums_give_the_fit_to_all_samples(method, scale):
    X, y = unequal_classes(0, sizes=(23, 14, 9, 12))
    X = scale * (X + 100.0)
    options = {**ABSOLUTE, "gamma": 0.3 * scale**2, "alpha": 2.0 * scale**2}
    expected = method(**options, n_components=3).fit(X, y)
    parts = summaries(method(**options), X, y, [[0], [1, 3], [2]])
    for order in itertools.permutations(parts):
        model = method.from_summary(sum(order), n_components=3)
        same_rows(expected, model, 1e-10)
        np.testing.assert_allclose(model.mean_, expected.mean_, rtol=1e-12)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
        assert model.classes_.tolist() == [0, 1, 2, 3]
        assert model.strengths_ == pytest.approx(expected.strengths_)
        np.testing.assert_allclose(model.transform(X), expected.transform(X), rtol=1e-7)


def test_classes_of_few_samples_and_different_scales_are_merged():
    X, y = bent_classes(d=8, sizes=(30, 6, 25))  # class 1 has fewer samples than features
    X[y == 2] *= 1e40  # and class 2 is scaled
    options = {"units": "absolute", "gamma": 0.1, "alpha": 1e70, "n_neighbors": 4}
    expected = MPDA(**options).fit(X, y)
    first, second, third = summaries(MPDA(**options), X, y, [[0], [1], [2]])
    same_rows(expected, MPDA.from_summary(first + second + third), 1e-8)
    same_rows(expected, MPDA.from_summary(third + (second + first)), 1e-8)


@pytest.mark.parametrize("tangent_alpha", [None, 0.5])
def test_relative_units_take_two_passes(tangent_alpha):
    X, y = bent_classes()
    relative = MPDA(n_neighbors=4, tangent_alpha=tangent_alpha)
    expected = relative.fit(X, y)
    first = sum(summaries(relative, X, y, [[0], [1], [2]]))
    with pytest.raises(ValueError, match=r"first pass.*absolute_parameters"):
        MPDA.from_summary(first)
    absolute = MPDA(n_neighbors=4).set_params(**first.absolute_parameters())
    model = MPDA.from_summary(sum(summaries(absolute, X, y, [[2], [0], [1]])))
    same_rows(expected, model, 1e-9)
    assert model.strengths_ == pytest.approx(expected.strengths_)


def test_summary_survives_pickle_and_has_its_stated_size():
    X, y = bent_classes()
    summary = MPDA(**ABSOLUTE).summarize(X, y)
    d = X.shape[1]
    n_patches = sum(report.linearity.size for report in summary.reports)
    assert summary.nbytes == 8 * (4 * d * d + 3 * d + 2 * n_patches)
    assert repr(summary) == f"<FitSummary of MPDA: 3 classes, {d} features, {summary.nbytes} bytes>"
    copy = pickle.loads(pickle.dumps(summary))
    assert isinstance(copy, FitSummary)
    expected = MPDA.from_summary(summary).components_
    np.testing.assert_array_equal(MPDA.from_summary(copy).components_, expected)
    assert len(pickle.dumps(MPDA(**ABSOLUTE).summarize(*bent_classes(sizes=(900, 900))))) < 40_000


def test_classes_can_be_added_to_a_fit_from_sums():
    X, y = bent_classes()
    later = y == 2
    model = MPDA.from_summary(MPDA(**ABSOLUTE).summarize(X[~later], y[~later]))
    model.partial_fit(X[later], y[later])
    same_rows(MPDA(**ABSOLUTE).fit(X, y), model, 1e-9)


def test_names_types_and_sparse_samples_are_kept():
    X, y = bent_classes()
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcde"))
    model = MPDA.from_summary(MPDA(**ABSOLUTE).summarize(frame, y), n_components=2)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.transform(frame).dtype == np.float32
    sparse = MPDA.from_summary(MPDA(**ABSOLUTE).summarize(csr_array(X), y))
    same_rows(MPDA(**ABSOLUTE).fit(X, y), sparse, 1e-9)


def test_summaries_that_do_not_fit_are_refused():
    X, y = bent_classes()
    first, second, third = summaries(MPDA(**ABSOLUTE), X, y, [[0], [1], [2]])
    with pytest.raises(ValueError, match=r"Classes \[1\] are in both summaries.*group"):
        (first + second) + (second + third)
    other = MPDA(**{**ABSOLUTE, "n_neighbors": 5}).summarize(X[y == 1], y[y == 1])
    with pytest.raises(ValueError, match="different parameters"):
        first + other
    with pytest.raises(ValueError, match="5 features and of MPDA with 3 features"):
        first + MPDA(**ABSOLUTE).summarize(X[y == 1, :3], y[y == 1])
    with pytest.raises(ValueError, match="MPDA with 5 features and of PMPDA"):
        first + PMPDA(**ABSOLUTE).summarize(X[y == 1], y[y == 1])
    with pytest.raises(ValueError, match="one of MPDA, not of PMPDA"):
        PMPDA.from_summary(first + second)
    with pytest.raises(ValueError, match="Only n_components, solver"):
        MPDA.from_summary(first + second, gamma=1.0)
    with pytest.raises(ValueError, match=r"at least 2 classes, got \[0\]"):
        MPDA.from_summary(first)
    with pytest.raises(TypeError):
        first + 1
    with pytest.raises(TypeError, match=r"summary must be what summarize returns.*got 0"):
        MPDA.from_summary(sum([]))
    with pytest.raises(ValueError, match="class_weight must be None"):
        MPDA(**ABSOLUTE, class_weight="balanced").summarize(X, y)


def test_small_classes_are_no_surprise():
    X, y = bent_classes()
    with pytest.warns(SmallClassWarning):
        MPDA(**{**ABSOLUTE, "n_neighbors": 40}).summarize(X, y)


def test_function_of_the_spark_sketch_summarizes_a_partition():
    page = Path(__file__).parents[1] / "docs" / "guide" / "merging.md"
    sketch = re.search(r"^```py\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE).group(1)
    scope = {"parameters": ABSOLUTE}
    exec(sketch[: sketch.index("samples = spark")], scope)
    X, y = bent_classes()
    rows = pd.DataFrame(X, columns=list("abcde")).assign(label=y)
    partitions = [rows[rows["label"] == 2], rows[rows["label"] < 2], rows[:0]]
    batches = [[part[:10], part[10:]] if len(part) else [] for part in partitions]
    frames = [frame for batch in batches for frame in scope["summarize"](iter(batch))]
    total = sum(pickle.loads(frame["summary"][0]) for frame in frames)
    same_rows(MPDA(**ABSOLUTE).fit(X, y), MPDA.from_summary(total), 1e-9)


@pytest.mark.parametrize("method", [MPDA, PMPDA])
@pytest.mark.parametrize("n", [1, 3])
def test_classes_without_extent_are_summarized(method, n):
    X, y = bent_classes()
    X, y = np.vstack([X, np.repeat(X[:1] + 9.0, n, axis=0)]), np.append(y, [7] * n)
    found = method.from_summary(sum(summaries(method(**ABSOLUTE), X, y, np.unique(y))))
    expected = method(**ABSOLUTE).fit(X, y).components_
    np.testing.assert_allclose(found.components_, expected, atol=1e-9 * np.abs(expected).max())


def test_summaries_with_a_clusterer_are_merged_after_a_journey():
    X, y = bent_classes()
    made = []
    for label in np.unique(y):
        model = MPDA(**ABSOLUTE, partition=KMeans(3, n_init=1, random_state=0))
        made.append(pickle.loads(pickle.dumps(model.summarize(X[y == label], y[y == label]))))
    merged = MPDA.from_summary(sum(made))
    np.testing.assert_allclose(merged.components_, model.fit(X, y).components_, atol=1e-9)
    other = MPDA(**ABSOLUTE, partition=KMeans(4, n_init=1, random_state=0))
    with pytest.raises(ValueError, match="different parameters"):
        made[0] + other.summarize(X[y == 1], y[y == 1])


@pytest.mark.parametrize(
    ("name", "make_object"),
    [
        ("partition", lambda: make_pipeline(StandardScaler(), KMeans(3, n_init=1, random_state=0))),
        ("partition", lambda: KMeans(3, n_init=1, random_state=np.random.RandomState(0))),
        ("neighbor_search", lambda: KNeighborsTransformer(n_neighbors=20, mode="distance")),
    ],
)
def test_objects_of_equal_parameters_are_equal_in_every_process(name, make_object):
    X, y = bent_classes()
    made = []
    for label in np.unique(y):
        model = MPDA(**ABSOLUTE).set_params(**{name: make_object()})
        made.append(pickle.loads(pickle.dumps(model)).summarize(X[y == label], y[y == label]))
    assert MPDA.from_summary(sum(made)).classes_.size == np.unique(y).size


def test_loaded_model_with_a_clusterer_takes_more_classes(tmp_path):
    X, y = bent_classes()
    model = MPDA(**ABSOLUTE, partition=KMeans(3, n_init=1, random_state=0))
    model.fit(X[y < 2], y[y < 2])
    save(model, tmp_path / "m.mpda")
    loaded = load(tmp_path / "m.mpda").partial_fit(X[y == 2], y[y == 2])
    expected = model.partial_fit(X[y == 2], y[y == 2])
    np.testing.assert_allclose(loaded.components_, expected.components_, atol=1e-9)


def test_labels_of_different_kinds_are_not_merged():
    X, y = bent_classes()
    model = MPDA(**ABSOLUTE)
    first, second = model.summarize(X[y == 0], [0] * sum(y == 0)), X[y == 1]
    with pytest.raises(ValueError, match="different kinds"):
        first + model.summarize(second, ["1"] * len(second))


@pytest.mark.parametrize("parameters", [{"class_weight": "balanced"}, {"unlabeled": -1}])
def test_parameters_without_effect_are_refused(parameters):
    X, y = bent_classes()
    summary = MPDA(**ABSOLUTE).summarize(X, y)
    with pytest.raises(ValueError, match="may differ"):
        MPDA.from_summary(summary, **parameters)
