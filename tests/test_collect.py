"""Sections of a report say what the samples, the model and the rows say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA, ManifoldPartition
from mpda.exceptions import ReportError
from mpda.experiments.rows_report import load_results
from mpda.report import collect, verdict
from mpda.report.hover import draw_images
from mpda.report.samples import ReportSamples


@pytest.fixture(scope="module")
def table():
    iris = load_iris()
    y = iris.target_names[iris.target]
    return ReportSamples("iris", iris.data, y, "species", tuple("abcd"), np.arange(1, 151))


def make_row(method, fold, wrong, selected, component_counts=(1, 2, 3)):
    row = {"problem": "", "method": method, "fold": fold, "dimensions": list(component_counts)}
    return {**row, "wrong": wrong, "n_test": 100, "cv_dimension": selected, "fit_seconds": 0.5}


ROWS = [
    *(make_row("1-NN", fold, [wrong], 4, [4]) for fold, wrong in enumerate([10, 12, 11])),
    *(make_row("LDA", fold, [20, wrong], 2, [1, 2]) for fold, wrong in enumerate([4, 8, 6])),
    *(make_row("MPDA", fold, [9, wrong, 7], 2) for fold, wrong in enumerate([5, 6, 5])),
]


def test_comparison_has_means_intervals_and_curves():
    (problem,) = collect.collect_comparison(ROWS, "how", {"": "iris"})["problems"]
    one_nn, lda, mpda = problem["rows"]
    assert one_nn["error"] == pytest.approx(11.0)
    assert one_nn["difference"] is None
    assert mpda["difference"] == pytest.approx(16 / 3 - 11.0)
    assert mpda["low"] < mpda["error"] < mpda["high"]
    assert [row["best"] for row in problem["rows"]] == [False, True, True]
    assert (lda["components"], mpda["seconds"]) == (2.0, 0.5)
    assert [curve["method"] for curve in problem["curves"]] == ["LDA", "MPDA"]
    curve = problem["curves"][1]
    assert list(curve["dimensions"]) == [1, 2, 3]
    assert curve["error"] == pytest.approx([9.0, 16 / 3, 7.0])
    assert (curve["selected"], curve["selected_error"]) == (2.0, pytest.approx(16 / 3))
    (single,) = collect.collect_comparison(ROWS[-1:], "how", {})["problems"]
    assert np.isnan(single["rows"][0]["low"])
    assert single["curves"][0]["low"] is None


def test_summary_compares_with_all_features_and_lda():
    summary = verdict.summarize_errors(ROWS, "MPDA", 4, 2)
    assert summary.errors[0] == "MPDA maps 4 features to 2 components."
    assert "5.33 ± 0.58 %" in summary.errors[1]  # an interval needs the predictions
    assert "5.67 points higher" in summary.differences[0]
    assert "6.00 ± 2.00 %: 0.67 points higher, which may be chance (p = " in summary.differences[1]
    assert "corrected resampled t-test over the splits, adjusted for" in summary.differences[2]
    assert summary.sentences == [
        *(summary.verdict, *summary.errors),
        *(*summary.differences, summary.next_step),
    ]
    assert "5.00 points lower" in verdict.summarize_errors(ROWS, "1-NN", 4).differences[0]
    equal = [*ROWS[:3], *({**row, "method": "LDA"} for row in ROWS[:3])]
    assert "the same" in verdict.summarize_errors(equal, "LDA", 4).differences[0]


@pytest.mark.parametrize(
    ("lda", "lfda", "mpda", "method", "reason"),
    [
        ((20, 2), (21, 9), (19, 5), "LDA", "LDA needs 2 numbers, and its error (4.00 %) is not"),
        ((60, 2), (21, 9), (19, 5), "MPDA", "MPDA has the lowest error of 3 methods (3.80 %)"),
        ((60, 2), (19, 5), (60, 1), "LFDA", "LFDA has the lowest error of 3 methods (3.80 %)"),
    ],
)
def test_smallest_of_the_good_methods_is_recommended(lda, lfda, mpda, method, reason):
    rows = rows_of(nearest=(90, 30), LDA=lda, LFDA=lfda, MPDA=mpda)
    found = verdict.recommend_method(rows, ["LDA", "LFDA", "MPDA"])
    assert found.method == method
    assert found.reason.startswith(f"Recommended: {method}. {reason}")


def test_error_has_the_interval_of_the_tested_samples():
    rows = rows_of(nearest=(60, 30), MPDA=(20, 5))
    summary = verdict.summarize_errors(rows, "MPDA", 30, 5)
    # Wilson's interval of 20 errors among 500 samples.
    assert "4.00 % (95 % interval 2.6 to 6.1 %)" in summary.errors[1]
    assert "McNemar's test" in summary.differences[-1]
    # All errors in two groups of 50: groups are what counts.
    for row in rows:
        row["groups"] = row["tested"] // 50
        row["misclassified"] = (row["tested"] < 20) & (row["method"] == "MPDA")
    summary = verdict.summarize_errors(rows, "MPDA", 30, 5)
    assert "(95 % interval 0.0 to 13.0 %)" in summary.errors[1]
    assert "a t-test over groups" in summary.differences[-1]


def test_correlations_are_those_of_features_and_components(table):
    steps = [("scale", StandardScaler()), ("lfda", LFDA(2, alpha=0.1))]
    model = Pipeline([*steps, ("neighbors", KNeighborsClassifier(1))]).fit(table.X, table.y)
    section = collect.collect_model(model, table, "my LFDA", (2, 2))
    expected = np.corrcoef(model[:-1].transform(table.X).T, table.X.T)[:2, 2:]
    np.testing.assert_allclose(section["correlations"], expected, atol=1e-10)
    assert section["component_names"] == ["my LFDA 1", "my LFDA 2"]
    assert section["features"] == list("abcd")
    assert [step["name"] for step in section["steps"]] == ["StandardScaler", "LFDA"]
    assert section["steps"][1]["parameters"]["alpha"] == 0.1
    assert section["image_shape"] == [2, 2]
    np.testing.assert_allclose(section["eigenvalues"], model["lfda"].eigenvalues_)


def test_features_of_largest_correlation_are_collected():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2100)), np.repeat([0, 1], 15)
    X[:, 7] = 3.7  # a constant feature has no correlation
    wide = ReportSamples("wide", X, y, "y", None, np.arange(1, 31))
    model = Pipeline([("lfda", LFDA(1, alpha=1.0))]).fit(X, y)
    section = collect.collect_model(model, wide, "LFDA", (42, 50))
    z = model.transform(X)[:, 0]
    weights = np.abs([np.corrcoef(x, z)[0, 1] if np.ptp(x) else 0.0 for x in X.T])
    omitted = set(range(2100)) - {int(name.split()[1]) for name in section["features"]}
    assert len(omitted) == 100
    assert 7 in omitted
    assert weights[sorted(omitted)].max() <= np.abs(section["correlations"]).min() + 1e-12
    assert section["image_shape"] is None


def test_embedding_marks_wrong_samples(table):
    Z = MPDA(4).fit(table.X, table.y).transform(table.X)
    predicted = table.y.copy()
    predicted[[3, 60]] = "virginica"
    section = collect.collect_embedding(Z, table, "MPDA", "150 samples", predicted)
    np.testing.assert_allclose(section["points"], Z)
    assert section["component_names"] == ["MPDA 1", "MPDA 2", "MPDA 3", "MPDA 4"]
    named = [section["predicted"]["labels"][code] for code in section["predicted"]["codes"]]
    assert named == predicted.tolist()
    assert [section["labels"][code] for code in section["codes"]] == table.y.tolist()
    assert np.flatnonzero(section["wrong"]).tolist() == [3, 60]


def test_samples_are_described_by_text_and_features_or_images(table):
    texts = {"name": np.array([f"flower {i}" for i in range(150)])}
    described = replace(table, texts=texts)
    Z = table.X[:, [2, 0]]
    hover = collect.collect_embedding(Z, described, "MPDA", "all", text="name")["hover"]
    assert hover["text"] == {"name": "name", "values": texts["name"].tolist()}
    assert [feature["name"] for feature in hover["features"]][:2] == ["a", "c"]
    assert hover["features"][1]["values"] == table.X[:, 2].tolist()
    long = replace(table, texts={"name": np.array(["word " * 200] * 150)})
    (text, *_) = collect.collect_embedding(Z, long, "MPDA", "all", text="name")["hover"]["text"][
        "values"
    ]
    assert len(text) == 300
    hover = collect.collect_embedding(Z, table, "MPDA", "all", image_shape=(2, 2))["hover"]
    assert set(hover) == {"images"}
    assert (hover["images"]["rows"], hover["images"]["columns"]) == (2, 2)


def test_images_of_many_samples_are_smaller():
    images = draw_images(np.random.default_rng(0).random((10_000, 30 * 40)), (30, 40))
    assert images["rows"] * images["columns"] <= 300
    assert images["rows"] >= 10
    assert len(images["source"]) < 3e6


def test_large_embeddings_keep_samples_of_every_class():
    y = np.array(["big"] * 19_990 + ["odd"] * 9 + ["rare"])
    X = np.arange(40_000.0).reshape(-1, 2)
    large = ReportSamples("large", X, y, "y", None, np.arange(1, 20_001))
    section = collect.collect_embedding(X, large, "PCA", "all")
    assert len(section["points"]) <= 10_000
    assert set(section["codes"]) == {0, 1, 2}
    assert section["n_all"] == 20_000
    np.testing.assert_array_equal(np.array(section["points"])[:, 0] / 2 + 1, section["rows"])
    assert collect.collect_embedding(X, large, "PCA", "all") == section


def test_large_embeddings_keep_equal_shares_of_equal_classes():
    y = np.repeat(np.arange(1000), 20)
    X = np.zeros((20_000, 2))
    large = ReportSamples("large", X, y, "y", None, np.arange(1, 20_001))
    section = collect.collect_embedding(X, large, "PCA", "all")
    counts = np.bincount(section["codes"])
    assert counts.min() >= 9
    assert counts.max() <= 11
    assert counts.sum() <= 10_000


def test_partition_describes_and_projects_every_class(table):
    fitted = ManifoldPartition().fit(table.X, table.y)
    section = collect.collect_partition(table.X, table.y, fitted.labels_, fitted.patch_linearity_)
    assert [entry["label"] for entry in section["classes"]] == ["setosa", "versicolor", "virginica"]
    for entry in section["classes"]:
        patches = np.flatnonzero(fitted.patch_classes_ == entry["label"])
        assert entry["patches"] == len(patches)
        assert entry["sizes"] == fitted.patch_sizes_[patches].tolist()
        np.testing.assert_array_equal(entry["linearity"], fitted.patch_linearity_[patches])
    pictures = {picture["label"]: picture for picture in section["pictures"]}
    most = max(entry["patches"] for entry in section["classes"])
    assert section["pictures"][0]["n_patches"] == most
    for entry in section["classes"]:
        picture = pictures[entry["label"]]
        assert np.bincount(picture["patches"]).tolist() == entry["sizes"]
        members = table.X[table.y == entry["label"]]
        variances = np.linalg.svd(members - members.mean(axis=0), compute_uv=False)[:2] ** 2
        points = np.array(picture["points"])
        np.testing.assert_allclose((points**2).sum(axis=0), variances)
        # Tangent lines go through the means of their patches.
        means = [
            points[np.array(picture["patches"]) == k].mean(axis=0)
            for k in range(most)[: entry["patches"]]
        ]
        np.testing.assert_allclose(np.mean(picture["lines"], axis=1), means, atol=1e-12)


def test_partition_of_many_classes_begins_with_the_one_with_most_patches():
    y = np.repeat(np.arange(150), 12)
    patches = 2 * y + (np.arange(y.size) % 12 > 5)
    patches[-3:] = 300  # the last class has three patches, all others two
    X = np.random.default_rng(0).normal(size=(y.size, 3))
    section = collect.collect_partition(X, y, patches, np.ones(301))
    assert [entry["label"] for entry in section["classes"]] == [str(label) for label in range(150)]
    assert [picture["label"] for picture in section["pictures"][:3]] == ["149", "0", "1"]


def test_pictures_of_large_classes_have_whole_patches_up_to_a_limit():
    y, patches = np.repeat([0, 1], 9000), np.arange(18_000) // 9
    X = np.random.default_rng(0).normal(size=(18_000, 3))
    for picture in collect.collect_partition(X, y, patches, np.ones(2000))["pictures"]:
        assert picture["n_patches"] == 1000
        assert len(picture["lines"]) == 555
        assert np.bincount(picture["patches"]).tolist() == [9] * 555


def test_confusion_has_true_classes_in_rows():
    y, predicted = np.array(["a", "a", "b"]), np.array(["b", "a", "c"])
    section = collect.collect_confusion(y, predicted, "1-NN")
    assert section["labels"] == ["a", "b", "c"]
    assert section["counts"] == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert collect.collect_confusion(np.arange(101), np.arange(101), "1-NN") is None


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_rows_of_the_experiments_become_results(tmp_path):
    base = {"problem": "digits", "dimensions": [1, 2], "n_test": 100, "cv_dimension": 2}
    base |= {"task": "a", "status": "done", "seed": 1}
    rows = [
        {**base, "method": "PCA", "wrong": [9, 5]},
        {**base, "method": "PCA", "wrong": [9, 99]},  # a second row of the task is ignored
        {**base, "method": "PCA", "seed": 2, "wrong": [9, 7]},
        {**base, "method": "MPDA", "status": "failed"},
        {**base, "method": "1-NN", "wrong": [9, 3]},
    ]
    path = tmp_path / "rows.jsonl"
    write_rows(path, rows)
    for source in (path, tmp_path):
        (problem,) = load_results(source)["comparison"]["problems"]
        assert [row["method"] for row in problem["rows"]] == ["1-NN", "PCA"]
        assert problem["rows"][1]["error"] == pytest.approx(6.0)
        assert problem["rows"][1]["n_splits"] == 2
    write_rows(path, rows[3:4])
    with pytest.raises(ReportError, match="no row of a finished task"):
        load_results(path)


def test_variants_of_a_parameter_are_not_compared_with_methods(tmp_path):
    base = {"problem": "semeion", "status": "done", "task": "a", "seed": 1}
    base |= {"dimensions": [1], "wrong": [9], "n_test": 100, "cv_dimension": 1}
    variants = [{**base, "method": f"MPDA, k = {k}"} for k in (1, 5)]
    path = tmp_path / "rows.jsonl"
    write_rows(path, variants)
    with pytest.raises(ReportError, match="no row of a finished task"):
        load_results(path)
    write_rows(path, [*variants, {**base, "method": "MPDA"}])
    results = load_results(path)
    (problem,) = results["comparison"]["problems"]
    assert [row["method"] for row in problem["rows"]] == ["MPDA"]
    assert results["summary"][0].startswith("Problems: 1, methods: 1, splits: 1.")


def rows_of(**methods):
    """Return rows of five folds; methods are given by wrong samples of 500 and components."""
    rows = []
    for name, (n_wrong, size) in methods.items():
        wrong = np.zeros(500, dtype=bool)
        wrong[:n_wrong] = True  # the better method errs on a part of the samples
        wrong = wrong.reshape(100, 5).T  # equally many in each fold
        for fold, misclassified in enumerate(wrong):
            count = int(misclassified.sum())
            rows.append(
                {
                    "problem": "",
                    "method": name.replace("_", "-"),
                    "fold": fold,
                    "dimensions": [size],
                    "wrong": [count],
                    "n_test": 100,
                    "cv_dimension": size,
                    "test_share": 0.25,
                    "tested": fold + 5 * np.arange(100),
                    "misclassified": misclassified,
                }
            )
    for row in rows:
        row["method"] = {"nearest": "1-NN"}.get(row["method"], row["method"])
    return rows


@pytest.mark.parametrize(
    ("mpda", "nearest", "lda", "expected"),
    [
        ((20, 5), (60, 30), (60, 2), "MPDA helps here: its error is 8.00 points lower"),
        ((20, 5), (60, 30), (21, 2), "LDA does as well with 2 numbers instead of 5."),
        ((20, 2), (60, 30), (21, 9), "MPDA helps here"),
        ((60, 5), (61, 30), (20, 2), "LDA is better here: its error is 8.00 points lower"),
        (
            (60, 5),
            (20, 30),
            (61, 9),
            "MPDA does not help here: the error of 1-NN",
        ),
        ((20, 5), (21, 30), (60, 2), "does not change the error, but a sample has 5 numbers"),
        ((20, 25), (21, 30), (60, 2), "MPDA does not help here: no difference to 1-NN"),
        ((20, 30), (60, 30), (60, 2), "than that of 1-NN on the features, with as many numbers."),
    ],
)
def test_verdict_follows_errors_and_sizes(mpda, nearest, lda, expected):
    rows = rows_of(nearest=nearest, LDA=lda, MPDA=mpda)
    summary = verdict.summarize_errors(rows, "MPDA", 30, mpda[1])
    assert expected in summary.verdict
    is_gain = "helps" in summary.verdict
    advice = "lda" if "LDA" in expected else "evaluate" if is_gain else "--method auto"
    assert advice in summary.next_step
    assert summary.next_step.startswith("Next: ")


@pytest.mark.parametrize(
    ("counts", "candidates"),
    [
        # 1-NN and MPDA differ from LDA on 7 and on 8 samples, by p-values of 0.016 and 0.008.
        ({"nearest": 27, "LDA": 20, "MPDA": 28}, ()),
        ({"nearest": 30, "LDA": 20, "MPDA": 26}, ()),
        ({"nearest": 27, "LDA": 20, "LFDA": 28, "MPDA": 28}, ("LDA", "LFDA", "MPDA")),
        ({"nearest": 20, "PCA": 27, "LDA": 28, "LFDA": 29, "MPDA": 20}, ()),
        ({"nearest": 21, "PCA": 23, "LDA": 27, "LFDA": 24, "MPDA": 20}, ()),
    ],
)
def test_table_and_sentences_agree_on_what_may_be_chance(counts, candidates):
    rows = rows_of(**{name: (count, 5) for name, count in counts.items()})
    judged = candidates or ("MPDA",)
    (problem,) = collect.collect_comparison(rows, "how", {}, judged)["problems"]
    is_best = {row["method"]: row["best"] for row in problem["rows"]}
    lowest = min(problem["rows"], key=lambda row: row["error"])["method"]
    for method in judged:
        differences = verdict.summarize_errors(rows, method, 30, 5, candidates).differences
        for name in {"1-NN", "LDA"} - {method}:
            (sentence,) = (text for text in differences if text.startswith(name))
            is_tie = "may be chance" in sentence or "the same" in sentence
            if lowest in (method, name):
                assert is_tie == (is_best[method] and is_best[name]), sentence


def test_weak_evidence_among_many_methods_makes_no_method_as_good():
    """LDA errs on 7 samples more than MPDA: p = 0.016 alone, and 0.06 among five methods."""
    sizes = {"nearest": (21, 30), "PCA": (23, 9), "LDA": (27, 2), "LFDA": (24, 9), "MPDA": (20, 5)}
    rows = rows_of(**sizes)
    summary = verdict.summarize_errors(rows, "MPDA", 30, 5)
    assert "1.40 points higher, which may be chance (p = 0.062" in summary.differences[1]
    assert summary.verdict == (
        "MPDA does not change the error, but a sample has 5 numbers instead of 30."
    )
    recommended = verdict.recommend_method(rows, ["PCA", "LDA", "LFDA", "MPDA"])
    assert recommended.method == "MPDA"
