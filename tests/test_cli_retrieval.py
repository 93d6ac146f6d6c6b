"""Measures of retrieval in ``mpda fit``, ``compare`` and ``evaluate``: lines, JSON, page."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize

from command_calls import call, read_page
from mpda import WithinClassWhitening, load
from mpda.assessment import (
    AssessmentProtocol,
    SelectedModel,
    assess_methods,
    assess_unseen_classes,
    make_contender,
    score_queries,
)
from mpda.assessment import retrieval_estimates as estimates
from mpda.assessment.model_choice import RankedContender, Ranking
from mpda.assessment.parameter_choice import SelectedParameters
from mpda.assessment.preparation import Preparation
from mpda.assessment.retrieval_estimates import (
    MEASURES,
    MeanEstimate,
    RetrievalEstimate,
    estimate_rows,
)
from mpda.cli import retrieval_results
from mpda.cli.messages import describe_choices
from mpda.model_selection.folds import stratified_folds
from mpda.model_selection.unseen_classes import draw_unseen_folds
from mpda.report.html_tables import retrieval_table
from mpda.report.retrieval import collect_retrieval, compare_with_raw

pytest.importorskip("matplotlib", reason="needs mpda[cli]")

FIXED = ("--components", "2", "--scale", "none", "--pca", "none")
NAMES = [f"v{i}" for i in range(6)]


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Classes:
    """Vectors of overlapping classes, of which each has as many samples."""

    def __init__(self, n_classes=8, size=12, letters="abcdefghijkl"):
        rng = np.random.default_rng(n_classes)
        codes = rng.permutation(np.repeat(np.arange(n_classes), size))
        self.X = 2.0 * rng.normal(size=(n_classes, 6))[codes] + rng.normal(size=(len(codes), 6))
        self.y = np.array(list(letters))[codes]

    def write(self, name="table.csv", rows=slice(None)):
        frame = pd.DataFrame(self.X[rows], columns=NAMES).assign(kind=self.y[rows])
        frame.to_csv(name, index=False)

    def write_vectors(self, name, scale=1.0):
        numbers = pa.array((scale * self.X).astype(np.float32).ravel())
        vectors = pa.FixedSizeListArray.from_arrays(numbers, 6)
        pq.write_table(pa.table({"embedding": vectors, "kind": self.y.tolist()}), name)


@pytest.fixture
def classes():
    found = Classes()
    found.write()
    return found


def run_json(capsys, *words):
    assert call(*words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def values_of(row):
    return {name: row[name]["value"] for name in MEASURES}


def describe(estimate):
    return {name: vars(mean) for name, mean in estimate.measures.items()}


def without_names(row):
    return {name: row[name] for name in MEASURES}


# fit


def test_fit_has_measures_of_the_map_and_of_raw_vectors(classes, capsys):
    fit = ("fit", "table.csv", "--label", "kind", "--method", "lda", *FIXED)
    results = run_json(capsys, *fit)
    seen = results["retrieval"]["seen"]
    contenders = [make_contender(name, search=False) for name in ("1-NN", "LDA")]
    protocol = AssessmentProtocol(scaled=False, energy=None, n_components=2)
    expected = estimate_rows(assess_methods(classes.X, classes.y, contenders, protocol).rows, None)
    assert without_names(seen["raw"]) == describe(expected["1-NN"])
    assert without_names(seen["map"]) == describe(expected["LDA"])
    assert {row["n_queries"] for row in seen.values()} == {96}
    assert seen["raw"]["numbers"] == 6
    assert seen["map"]["numbers"] == 2
    assert results["bytes"] == {"raw": 24, "map": 8}
    assert "unseen" not in results["retrieval"]
    gap = seen["map"]["difference_from_raw"]["map_at_r"]
    difference = values_of(seen["map"])["map_at_r"] - values_of(seen["raw"])["map_at_r"]
    assert gap["value"] == pytest.approx(difference)
    # The same folds measure the error.
    errors = {row["method"]: row for row in results["comparison"]["problems"][0]["rows"]}
    for name, method in (("raw", "1-NN"), ("map", "LDA")):
        recall, error = seen[name]["recall_at_1"], errors[method]
        assert recall["low"] == pytest.approx(1 - error["high"] / 100)
        assert recall["high"] == pytest.approx(1 - error["low"] / 100)


def test_fit_prints_one_line_about_the_search(classes, capsys):
    assert call("fit", "table.csv", "--label", "kind", *FIXED, "--results", "r.json") == 0
    found = [line for line in capsys.readouterr().out.splitlines() if "recall@1" in line]
    seen = json.loads(Path("r.json").read_text())["retrieval"]["seen"]
    raw, mapped = values_of(seen["raw"]), values_of(seen["map"])
    assert found == [
        f"Search: recall@1 {mapped['recall_at_1']:.3f} (raw {raw['recall_at_1']:.3f}), "
        f"MAP@R {mapped['map_at_r']:.3f} (raw {raw['map_at_r']:.3f}); 8 bytes instead of 24."
    ]


def test_small_table_has_measures_but_one_line(capsys):
    load_wine(as_frame=True).frame.to_csv("wine.csv", index=False)
    fit = ("fit", "wine.csv", "--label", "target", "--method", "lda", "--components", "2")
    assert call(*fit, "--report", "wine.html", "--results", "wine.json") == 0
    assert capsys.readouterr().out.count("MAP@R") == 1
    retrieval = json.loads(Path("wine.json").read_text())["retrieval"]
    for row in retrieval["seen"].values():
        for name in MEASURES:
            assert 0 <= row[name]["low"] <= row[name]["value"] <= row[name]["high"] <= 1
    page = read_page("wine.html")
    assert "What a search finds" in page
    assert page.count(f"{retrieval['seen']['map']['map_at_r']['value']:.3f}") > 0


def test_unseen_classes_stand_next_to_those_of_the_fit(classes, capsys):
    fit = ("fit", "table.csv", "--label", "kind", "--method", "lda", *FIXED, "--unseen")
    results = run_json(capsys, *fit, "--report", "page.html")
    retrieval = results["retrieval"]
    assert [name for name in retrieval if name != "how"] == ["seen", "unseen", "unseen_among_all"]
    contenders = [make_contender(name, search=False) for name in ("1-NN", "LDA")]
    protocol = AssessmentProtocol(scaled=False, energy=None, n_components=2)
    rows = assess_unseen_classes(classes.X, classes.y, contenders, protocol, 4).rows
    for search, key in (("unseen", "retrieval"), ("unseen_among_all", "retrieval_among_all")):
        expected = estimate_rows(rows, classes.y, key)
        assert without_names(retrieval[search]["raw"]) == describe(expected["1-NN"])
        assert without_names(retrieval[search]["map"]) == describe(expected["LDA"])
    table = read_page("page.html").partition("Measures of retrieval</caption>")[2]
    heading = table.partition("</thead>")[0]
    for title in ("classes of the fit", "classes not seen, among themselves", "among all"):
        assert title in heading
    assert heading.count(">raw<") == heading.count(">map<") == 3
    for row in (retrieval["seen"]["map"], retrieval["unseen"]["raw"]):
        assert f"{row['map_at_r']['value']:.3f}" in table
        assert f"{row['map_at_r']['low']:.3f} to {row['map_at_r']['high']:.3f}" in table
    assert "4 folds hold out whole classes" in results["retrieval"]["how"]
    assert call(*fit) == 0
    lines = capsys.readouterr().out
    value = values_of(retrieval["unseen"]["map"])["recall_at_1"]
    assert f"Classes not seen: recall@1 {value:.3f} (raw" in lines


def test_unseen_classes_are_measured_without_other_folds(classes, capsys):
    fit = ("fit", "table.csv", "--label", "kind", *FIXED, "--folds", "0", "--unseen")
    retrieval = run_json(capsys, *fit)["retrieval"]
    assert "seen" not in retrieval
    assert retrieval["unseen"]["map"]["n_queries"] == 96


@pytest.mark.parametrize(
    "words",
    [("--method", "within-class-whitening"), ("--method", "mpda", "--select", "best")],
)
def test_unseen_classes_are_measured_for_each_method(words, capsys):
    classes = Classes(6, 10)
    classes.write_vectors("table.parquet")
    fit = ("fit", "table.parquet", "--label", "kind", "--folds", "2", "--unseen", *words)
    retrieval = run_json(capsys, *fit)["retrieval"]
    assert set(retrieval) == {"how", "seen", "unseen", "unseen_among_all"}
    assert "compared by the cosine" in retrieval["how"]


def test_too_few_classes_are_one_error(capsys):
    for words, n_classes, message in (
        (["--unseen"], 3, "--unseen holds out whole classes and needs 4 of at least two samples"),
        (["--select-for", "unseen"], 3, "--select-for unseen holds out whole classes and needs 4"),
        (["--unseen", "--select-for", "unseen"], 5, "needs 6 of at least two samples"),
    ):
        Classes(n_classes).write()
        for command in (("fit",), ("compare", "--methods", "lda")):
            call_words = (command[0], "table.csv", "--label", "kind", *command[1:], *words)
            assert call(*call_words) == 1
            streams = capsys.readouterr()
            assert streams.out == ""
            assert streams.err.count("\n") == 1
            assert f"{message}" in streams.err
            assert f"table.csv has {n_classes}." in streams.err
    assert [path.name for path in Path().iterdir()] == ["table.csv"]


def test_classes_of_one_sample_are_no_classes_that_can_be_held_out(capsys):
    classes = Classes(4)
    classes.y[np.flatnonzero(classes.y == "d")[1:]] = "a"
    classes.write()
    assert call("fit", "table.csv", "--label", "kind", "--unseen") == 1
    assert "table.csv has 3." in capsys.readouterr().err


def test_settings_can_be_selected_for_unseen_classes(capsys):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 12)
    X = rng.normal(size=(12, 6))[y] + 0.7 * rng.normal(size=(len(y), 6))
    pd.DataFrame(X, columns=NAMES).assign(kind=y).to_csv("table.csv", index=False)
    fit = ("fit", "table.csv", "--label", "kind", "--method", "pca", "--select", "best")
    assert call(*fit, "--scale", "none", "--folds", "2", "--select-for", "unseen") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the folds that chose them, which hold out classes, have a MAP@R of" in text
    assert "have an error of" not in text


def test_balanced_error_does_not_select_for_unseen_classes(classes, capsys):
    words = ("--score", "balanced", "--select-for", "unseen")
    assert call("fit", "table.csv", "--label", "kind", *words) == 2
    assert "--score balanced cannot be combined with --select-for" in capsys.readouterr().err


def test_test_samples_are_searched_among_those_of_the_fit(classes, capsys):
    classes.write("train.csv", slice(0, 60))
    classes.write("test.csv", slice(60, None))
    words = ("--label", "kind", "--method", "lda", *FIXED, "--folds", "0", "--test", "test.csv")
    test = run_json(capsys, "fit", "train.csv", *words)["retrieval"]["test"]
    X, y = classes.X, classes.y
    Z = load("train.mpda")[:-1].transform(pd.DataFrame(X, columns=NAMES))
    for name, A in (("raw", X), ("map", Z)):
        expected = score_queries(A[:60], y[:60], A[60:], y[60:], MEASURES).means
        assert values_of(test[name]) == pytest.approx(expected)


def test_embeddings_as_they_are_are_compared_by_the_cosine(capsys):
    classes = Classes()
    lengths = np.exp(np.random.default_rng(0).normal(size=(96, 1)))
    fit = ("--label", "kind", "--method", "pca", "--components", "3", "--folds", "3")
    found = []
    for name, scale in (("a.parquet", 1.0), ("b.parquet", lengths)):
        classes.write_vectors(name, scale)
        found.append(values_of(run_json(capsys, "fit", name, *fit)["retrieval"]["seen"]["raw"]))
    assert found[0] == pytest.approx(found[1])


def test_queries_of_large_tables_are_drawn_and_counted(classes, capsys, monkeypatch):
    monkeypatch.setattr(estimates, "_MAX_QUERIES", 6)
    monkeypatch.setattr(estimates, "_MIN_QUERIES", 3)
    fit = ("fit", "table.csv", "--label", "kind", "--method", "lda", *FIXED, "--folds", "3")
    results = run_json(capsys, *fit)
    assert results["retrieval"]["seen"]["map"]["n_queries"] == 18
    assert "The search was measured on 18 queries, drawn at random." in results["data"]["notes"]
    assert results["retrieval"]["how"].count("Queries: 18;") == 1


# compare


def test_comparison_has_measures_of_each_method(classes, capsys):
    words = ("--label", "kind", "--methods", "1-nn,lda,pca", *FIXED, "--unseen")
    assert call("compare", "table.csv", *words) == 0
    text = capsys.readouterr().out
    retrieval = json.loads(Path("comparison/results.json").read_text())["retrieval"]
    for search in ("seen", "unseen", "unseen_among_all"):
        assert set(retrieval[search]) == {"raw", "LDA", "PCA"}
    lda = f"{values_of(retrieval['unseen']['LDA'])['map_at_r']:.3f}"
    table = text.partition("Search, classes not seen, among themselves:")[2].splitlines()
    assert next(line.split()[-1] for line in table if line.strip().startswith("LDA")) == lda
    page = read_page("comparison/report.html")
    assert page.count("Measures of retrieval</caption>") == 3


# evaluate


@pytest.fixture
def model(classes):
    classes.write("train.csv", slice(0, 60))
    classes.write("new.csv", slice(60, None))
    fit = ("fit", "train.csv", "--label", "kind", "--method", "lda", *FIXED, "--folds", "0")
    assert call(*fit, "--out", "m.mpda", "--quiet") == 0
    return load("m.mpda")


def test_evaluation_searches_other_rows_and_samples_of_the_fit(classes, model, capsys):
    capsys.readouterr()
    results = run_json(capsys, "evaluate", "m.mpda", "new.csv", "--report", "page.html")
    X, y = classes.X, classes.y
    Z = model[:-1].transform(pd.DataFrame(X, columns=NAMES))
    retrieval = results["retrieval"]
    for name, A in (("raw", X), ("map", Z)):
        expected = score_queries(A[60:], y[60:], measures=MEASURES).means
        assert values_of(retrieval["among_rows"][name]) == pytest.approx(expected)
    expected = score_queries(Z[:60], y[:60], Z[60:], y[60:], MEASURES).means
    among_fit = retrieval["among_fit"]
    assert set(among_fit) == {"map"}
    assert values_of(among_fit["map"]) == pytest.approx(expected)
    assert values_of(among_fit["map"])["recall_at_1"] == pytest.approx(1 - results["error"] / 100)
    assert "among samples of the fit" in read_page("page.html")
    assert call("evaluate", "m.mpda", "new.csv") == 0
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if line.strip().startswith("MAP@R"))
    for row in (*retrieval["among_rows"].values(), among_fit["map"]):
        mean = row["map_at_r"]
        assert f"{mean['value']:.3f} ({mean['low']:.3f} to {mean['high']:.3f})" in line


def test_evaluation_of_classes_that_the_fit_did_not_have(classes, model, capsys):
    others = Classes(5, letters="vwxyz")
    others.write("other.csv")
    capsys.readouterr()
    retrieval = run_json(capsys, "evaluate", "m.mpda", "other.csv")["retrieval"]
    assert set(retrieval) == {"how", "unseen"}
    Z = model[:-1].transform(pd.DataFrame(others.X, columns=NAMES))
    expected = score_queries(Z, others.y, measures=MEASURES).means
    assert values_of(retrieval["unseen"]["map"]) == pytest.approx(expected)


def test_evaluation_of_a_model_without_samples(classes, capsys):
    fit = ("fit", "table.csv", "--label", "kind", *FIXED, "--folds", "0", "--no-keep-samples")
    assert call(*fit, "--quiet") == 0
    capsys.readouterr()
    retrieval = run_json(capsys, "evaluate", "table.mpda", "table.csv")["retrieval"]
    assert set(retrieval) == {"how", "among_rows"}


def test_raw_features_are_those_of_the_model_before_its_map(classes, capsys):
    classes.X[:, 0] *= 1000.0
    classes.write("wide.csv")
    fit = ("fit", "wide.csv", "--label", "kind", "--components", "2", "--folds", "0")
    assert call(*fit, "--scale", "standard", "--quiet") == 0
    capsys.readouterr()
    retrieval = run_json(capsys, "evaluate", "wide.mpda", "wide.csv")["retrieval"]
    A = (classes.X - classes.X.mean(axis=0)) / classes.X.std(axis=0)
    expected = score_queries(A, classes.y, measures=MEASURES).means
    assert values_of(retrieval["among_rows"]["raw"]) == pytest.approx(expected)


def test_labels_that_occur_once_have_no_measures(classes, model, capsys):
    frame = pd.read_csv("new.csv")
    known = pd.read_csv("train.csv")["kind"].iloc[0]
    frame["kind"] = [known, *(f"only {i}" for i in range(1, len(frame)))]
    frame.to_csv("once.csv", index=False)
    capsys.readouterr()
    retrieval = run_json(capsys, "evaluate", "m.mpda", "once.csv")["retrieval"]
    row = retrieval["among_rows"]["map"]
    assert row["n_queries"] == 0
    assert row["map_at_r"] == {"value": None, "low": None, "high": None}
    assert call("evaluate", "m.mpda", "once.csv", "--report", "page.html") == 0
    nothing = retrieval_results.format_measures({"how": "", "among_rows": {"map": row}})
    assert nothing[0].startswith("No class has two samples")


def test_numbers_as_labels_are_found_in_a_file_of_text(capsys):
    classes = Classes(letters="12345678")
    X, y = classes.X, classes.y
    np.savez("train.npz", X=X[:60], y=y[:60].astype(int))
    pd.DataFrame(X[60:]).assign(kind=[f"{label}" for label in y[60:]]).to_json(
        "new.jsonl", orient="records", lines=True
    )
    assert call("fit", "train.npz", *FIXED, "--folds", "0", "--method", "lda", "--quiet") == 0
    capsys.readouterr()
    words = ("evaluate", "train.mpda", "new.jsonl", "--label", "kind")
    results = run_json(capsys, *words)
    recall = values_of(results["retrieval"]["among_fit"]["map"])["recall_at_1"]
    assert recall == pytest.approx(1 - results["error"] / 100)
    assert recall > 0.5


# fit --database


def test_map_of_a_database_has_measures_of_both_kinds_of_classes(capsys):
    classes = Classes(8, 20)
    classes.write()
    database = np.random.default_rng(1).normal(size=(300, 6))
    np.save("vectors.npy", database)
    fit = ("fit", "table.csv", "--label", "kind", "--database", "vectors.npy", "--unseen")
    results = run_json(capsys, *fit, "--components", "3")
    retrieval = results["retrieval"]
    assert set(retrieval) == {"how", "seen", "unseen", "unseen_among_all"}
    X = normalize(classes.X)
    expected = score_queries(X, classes.y, measures=MEASURES).means
    assert values_of(retrieval["unseen_among_all"]["raw"]) == pytest.approx(expected)
    assert results["bytes"] == {"raw": 24, "map": 12}
    unseen = results["unseen_classes"]
    assert unseen["mapped"]["map_at_r"] == values_of(retrieval["unseen"]["map"])["map_at_r"]
    assert call(*fit, "--components", "3") == 0
    assert "Classes not seen: recall@1" in capsys.readouterr().out


def test_map_of_a_database_is_fitted_without_the_labels_of_a_fold(capsys):
    classes = Classes(6, 15)
    classes.write()
    database = np.random.default_rng(1).normal(size=(200, 6))
    np.save("vectors.npy", database)
    fit = ("fit", "table.csv", "--label", "kind", "--database", "vectors.npy")
    retrieval = run_json(capsys, *fit, "--components", "3")["retrieval"]
    X, y, seen, among_all = classes.X, classes.y, [], []
    for train, test in stratified_folds(y, 5, 0):
        model = WithinClassWhitening(3)
        model.fit(X[train], y[train], np.concatenate([X[test], database]))
        found = score_queries(
            model.transform(X[train]), y[train], model.transform(X[test]), y[test], "map_at_r"
        )
        seen.extend(found.values["map_at_r"])
    for train, test in draw_unseen_folds(y, 3, 0):
        model = WithinClassWhitening(3)
        model.fit(X[train], y[train], np.concatenate([X[test], database]))
        found = score_queries(model.transform(X), y, measures="map_at_r", rows=test)
        among_all.extend(found.values["map_at_r"])
    assert values_of(retrieval["seen"]["map"])["map_at_r"] == pytest.approx(np.mean(seen))
    found = values_of(retrieval["unseen_among_all"]["map"])["map_at_r"]
    assert found == pytest.approx(np.mean(among_all))


def test_database_needs_classes_and_folds_to_measure_unseen_ones(capsys):
    Classes(3).write()
    np.save("vectors.npy", np.random.default_rng(1).normal(size=(50, 6)))
    fit = ("fit", "table.csv", "--label", "kind", "--database", "vectors.npy", "--unseen")
    assert call(*fit, "--components", "2") == 1
    assert "table.csv has 3." in capsys.readouterr().err
    assert call(*fit, "--components", "2", "--folds", "0") == 2
    assert "--folds 0 measures nothing" in capsys.readouterr().err
    assert not Path("table.mpda").exists()


# Words


def test_choice_for_unseen_classes_names_its_score():
    choices = [
        RankedContender(
            make_contender(name, search=False), SelectedParameters({}, 3, 0.85, score, 0.85)
        )
        for name, score in (("LFDA refined", 0.81), ("PCA refined", 0.72))
    ]
    model = Pipeline([("map", "passthrough")])
    selected = SelectedModel(model, Ranking(tuple(choices)), Preparation(False, None))
    text = " ".join(describe_choices(selected, for_unseen=True))
    assert "MAP@R in % of classes that folds held out" in text
    assert "81.00" in text
    assert "72.00" in text
    text = " ".join(describe_choices(selected))
    assert "errors in %" in text
    assert "28.00" in text


def test_page_says_where_a_difference_is_clear():
    means = dict.fromkeys(MEASURES, MeanEstimate(0.8, 0.7, 0.9))
    gaps = {
        "recall_at_1": MeanEstimate(0.1, 0.02, 0.18),
        "recall_at_5": MeanEstimate(-0.1, -0.18, -0.02),
        "recall_at_10": MeanEstimate(0.1, -0.02, 0.22),
    }
    row = collect_retrieval(RetrievalEstimate(50, means, gaps), "LDA", 2)
    found = [compare_with_raw(row, name) for name in MEASURES]
    assert found == ["higher", "lower", "", "", ""]
    table = retrieval_table([("classes", {"map": row})])
    assert table.count("higher</span> 0.800") == table.count("lower</span> 0.800") == 1
    assert "0.700 to 0.900" in table
