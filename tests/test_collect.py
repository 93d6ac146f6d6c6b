"""What a report is made of: every section says what the samples, the model and the rows say."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA, ManifoldPartition
from mpda.exceptions import ReportError
from mpda.experiments.rows_report import load_results
from mpda.io.tables import Table
from mpda.report import collect
from mpda.report._results import checked


@pytest.fixture(scope="module")
def table():
    found = load_iris()
    y = found.target_names[found.target]
    return Table("iris", found.data, y, "species", tuple("abcd"), np.arange(1, 151), {})


def row(method, fold, wrong, cv, dimensions=(1, 2, 3)):
    about = {"problem": "", "method": method, "seed": fold, "dimensions": list(dimensions)}
    return {**about, "wrong": wrong, "n_test": 100, "cv_dimension": cv, "fit_seconds": 0.5}


ROWS = [
    *(row("1-NN", fold, [wrong], 4, [4]) for fold, wrong in enumerate([10, 12, 11])),
    *(row("LDA", fold, [20, wrong], 2, [1, 2]) for fold, wrong in enumerate([4, 8, 6])),
    *(row("MPDA", fold, [9, wrong, 7], 2) for fold, wrong in enumerate([5, 6, 5])),
]


def test_the_data(table):
    found = collect.collect_data(table)
    assert found["n_samples"] == 150
    assert found["label"] == "species"
    assert found["classes"][0] == {"label": "setosa", "count": 50}


def test_the_comparison():
    section = collect.collect_comparison(ROWS, "how", {"": "iris"})
    (problem,) = section["problems"]
    assert problem["name"] == "iris"
    one_nn, lda, mpda = problem["rows"]
    assert one_nn["error"] == pytest.approx(11.0)
    assert one_nn["beside"] is None
    assert mpda["beside"] == pytest.approx(16 / 3 - 11.0)
    assert mpda["low"] < mpda["error"] < mpda["high"]
    assert mpda["best"]
    assert not one_nn["best"]
    assert (lda["components"], mpda["components"], one_nn["components"]) == (2.0, 2.0, 4.0)
    assert mpda["seconds"] == 0.5
    curves = {each["method"]: each for each in problem["curves"]}
    assert list(curves) == ["LDA", "MPDA"]  # 1-NN, without components, is a level
    assert curves["MPDA"]["dimensions"] == [1, 2, 3]
    assert curves["MPDA"]["error"] == pytest.approx([9.0, 16 / 3, 7.0])
    assert curves["MPDA"]["chosen"] == 2.0
    assert curves["MPDA"]["chosen_error"] == pytest.approx(16 / 3)
    alone = collect.collect_comparison(ROWS[-1:], "how", {})["problems"][0]
    assert alone["rows"][0]["low"] is None
    assert alone["curves"][0]["low"] is None


def test_the_verdict_says_who_errs_more_and_what_may_be_chance():
    said = collect.summarize_errors(ROWS, "MPDA", 4, 2)
    assert said[0] == "MPDA puts 2 components in the place of 4 features."
    assert "(2 of 4 on average)" in said[1]
    assert "5.33 ± 0.58 % of cases" in said[1]
    assert said[2] == "With all features it is 11.00 ± 1.00 %: 5.67 points more."
    assert said[3] == "With LDA it is 6.00 ± 2.00 %: the difference may be chance."
    other = collect.summarize_errors(ROWS, "1-NN", 4)
    assert "(4 of 4 on average)" in other[0]
    assert other[1] == "With LDA it is 6.00 ± 2.00 %: 5.00 points less."
    same = [*ROWS[:3], *({**row, "method": "LDA"} for row in ROWS[:3])]
    assert (
        collect.summarize_errors(same, "LDA", 4)[1]
        == "With all features it is 11.00 ± 1.00 %: the same."
    )


def test_weights_are_those_of_the_whole_pipeline_by_the_spread_of_features(table):
    steps = [("scale", StandardScaler()), ("lfda", LFDA(2, alpha=0.1))]
    model = Pipeline([*steps, ("neighbors", KNeighborsClassifier(1))]).fit(table.X, table.y)
    found = collect.collect_model(model, table, (2, 2))
    # One standard deviation of a feature moves a component by its weight.
    moved = table.X[:1] + np.vstack([np.zeros(4), np.diag(table.X.std(axis=0))])
    Z = model[:-1].transform(moved)
    np.testing.assert_allclose(found["weights"], (Z[1:] - Z[0]).T, atol=1e-10)
    assert found["features"] == list("abcd")
    assert found["method"] == "LFDA"
    assert [step["name"] for step in found["steps"]] == ["StandardScaler", "LFDA"]
    assert found["steps"][1]["parameters"]["alpha"] == 0.1
    assert found["n_components"] == 2
    assert found["image_shape"] == [2, 2]
    np.testing.assert_allclose(found["eigenvalues"], model["lfda"].eigenvalues_)


def test_of_many_features_the_heaviest_are_shown():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2100)), np.repeat([0, 1], 15)
    wide = Table("wide", X, y, "y", None, np.arange(1, 31), {})
    model = Pipeline([("lfda", LFDA(1, alpha=1.0))]).fit(X, y)
    found = collect.collect_model(model, wide, (42, 50))
    weights = np.abs(model["lfda"].components_ * X.std(axis=0))[0]
    left_out = set(range(2100)) - {int(name.split()[1]) for name in found["features"]}
    assert len(left_out) == 100
    assert weights[sorted(left_out)].max() <= np.abs(found["weights"]).min()
    assert found["image_shape"] is None


def test_the_embedding(table):
    Z = MPDA(4).fit(table.X, table.y).transform(table.X)
    predicted = table.y.copy()
    predicted[[3, 60]] = "virginica"
    found = collect.collect_embedding(Z, table, ["u", "v", "w", "x"], "150 samples", predicted)
    np.testing.assert_allclose(found["points"], Z[:, :3])
    assert found["component_names"] == ["u", "v", "w"]
    assert [found["labels"][code] for code in found["codes"]] == table.y.tolist()
    assert np.flatnonzero(found["wrong"]).tolist() == [3, 60]
    assert found["rows"][3] == 4
    assert found["how"] == "150 samples"


def test_of_many_samples_some_of_every_class_are_shown():
    y = np.array(["big"] * 19_990 + ["odd"] * 9 + ["rare"])
    X = np.arange(40_000.0).reshape(-1, 2)
    many = Table("many", X, y, "y", None, np.arange(1, 20_001), {})
    found = collect.collect_embedding(X, many, ["u", "v"], "all", None)
    assert len(found["points"]) <= 10_000
    assert set(found["codes"]) == {0, 1, 2}
    assert found["n_all"] == 20_000
    assert "of them are shown" in found["how"]
    np.testing.assert_array_equal(np.array(found["points"])[:, 0] / 2 + 1, found["rows"])
    again = collect.collect_embedding(X, many, ["u", "v"], "all", None)
    assert again == found


def test_the_partition(table):
    fitted = ManifoldPartition().fit(table.X, table.y)
    found = collect.collect_partition(table.X, table.y, fitted.labels_, fitted.patch_linearity_)
    assert [each["label"] for each in found["classes"]] == ["setosa", "versicolor", "virginica"]
    for each in found["classes"]:
        own = np.flatnonzero(fitted.patch_classes_ == each["label"])
        assert each["patches"] == len(own)
        assert each["sizes"] == fitted.patch_sizes_[own].tolist()
        np.testing.assert_array_equal(each["linearity"], fitted.patch_linearity_[own])
    shown = found["shown"]
    most = max(found["classes"], key=lambda each: each["patches"])
    assert shown["label"] == most["label"]
    assert np.bincount(shown["patches"]).tolist() == most["sizes"]
    points = np.array(shown["points"])
    own = table.X[table.y == shown["label"]]
    variances = np.linalg.svd(own - own.mean(axis=0), compute_uv=False)[:2] ** 2
    np.testing.assert_allclose((points**2).sum(axis=0), variances)
    one = collect.collect_partition(table.X[:, :1], table.y, fitted.labels_, np.ones(99))
    assert np.array(one["shown"]["points"]).shape[1] == 2


def test_rows_of_the_confusion_are_true_classes():
    found = collect.collect_confusion(np.array(["a", "a", "b"]), np.array(["b", "a", "c"]), "1-NN")
    assert found["labels"] == ["a", "b", "c"]
    assert found["counts"] == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    many = np.arange(101)
    assert collect.collect_confusion(many, many, "1-NN") is None


def test_sections_without_content_are_left_out_and_the_whole_is_what_pages_take(table):
    sections = {"data": collect.collect_data(table), "confusion": None}
    found = collect.collect_results("title", "mpda fit", ["A sentence."], sections)
    assert "confusion" not in found
    assert set(found["made"]) == {"command", "at", "versions", "machine"}
    assert checked(json.loads(json.dumps(found)))["title"] == "title"


def test_results_of_the_experiments_are_those_of_finished_tasks(tmp_path):
    about = {"problem": "digits", "dimensions": [1, 2], "n_test": 100, "cv_dimension": 2}
    rows = [
        {**about, "task": "a", "status": "done", "method": "PCA", "seed": 1, "wrong": [9, 5]},
        {**about, "task": "a", "status": "done", "method": "PCA", "seed": 1, "wrong": [9, 99]},
        {**about, "task": "b", "status": "done", "method": "PCA", "seed": 2, "wrong": [9, 7]},
        {"task": "c", "status": "failed", "problem": "digits", "method": "MPDA", "seed": 1},
        {**about, "task": "d", "status": "done", "method": "1-NN", "seed": 1, "wrong": [9, 3]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    for place in (path, tmp_path):
        (problem,) = load_results(place)["comparison"]["problems"]
        assert [each["method"] for each in problem["rows"]] == ["1-NN", "PCA"]
        assert problem["rows"][1]["error"] == pytest.approx(6.0)
        assert problem["rows"][1]["splits"] == 2
    path.write_text(json.dumps(rows[3]) + "\n")
    with pytest.raises(ReportError, match="no row of a finished task"):
        load_results(path)


def test_a_method_with_one_parameter_varied_is_not_beside_the_others(tmp_path):
    about = {"problem": "semeion", "status": "done", "task": "a", "seed": 1}
    about |= {"dimensions": [1], "wrong": [9], "n_test": 100, "cv_dimension": 1}
    varied = [{**about, "method": f"MPDA, k = {k}"} for k in (1, 5)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in varied))
    (problem,) = load_results(path)["comparison"]["problems"]
    assert [each["method"] for each in problem["rows"]] == ["MPDA, k = 1", "MPDA, k = 5"]
    with path.open("a") as file:
        file.write(json.dumps({**about, "method": "MPDA"}) + "\n")
    found = load_results(path)
    (problem,) = found["comparison"]["problems"]
    assert [each["method"] for each in problem["rows"]] == ["MPDA"]
    assert found["summary"][0].startswith("1 method, 1 problem, 1 split;")
    assert "varied (2 values) are not on this page" in found["summary"][1]
