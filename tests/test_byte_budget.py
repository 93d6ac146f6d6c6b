"""``mpda fit --bytes``, ``transform --type``, ``export --scales`` and the curve on the page."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from command_calls import call, read_page
from mpda import load
from mpda.assessment import (
    AssessmentProtocol,
    Split,
    StorageCandidate,
    StorageChoice,
    choose_storage,
    make_contender,
    score_stored,
)
from mpda.cli.stored_vectors import describe_storage
from mpda.io import fit_vector_type, read_header, read_vector_type
from mpda.report import read_results

pytest.importorskip("matplotlib", reason="needs mpda[cli]")
from mpda.report.displays import make_displays

pa = pytest.importorskip("pyarrow", reason="needs mpda[cli]")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs mpda[cli]")
feather = pytest.importorskip("pyarrow.feather", reason="needs mpda[cli]")

AS_THEY_ARE = AssessmentProtocol(scaled=False, energy=None)
FIT = ("fit", "digits.parquet", "--label", "digit", "--method", "lda", "--scale", "none")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500].astype(np.float32), y[:500].astype(str)


@pytest.fixture
def table(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = digits
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    frame = pa.table(
        {"id": [f"image {i}" for i in range(len(X))], "digit": y, "embedding": vectors}
    )
    parquet.write_table(frame, "digits.parquet")
    return frame


@pytest.fixture
def model(table):
    """A model of 16 bytes a vector."""
    assert call(*FIT, "--folds", "0", "--bytes", "8", "--out", "m.mpda") == 0
    return load("m.mpda")


def read_error(capsys):
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert streams.err.startswith("mpda: ")
    return streams.err


# The choice


def test_candidates_fill_the_budget_and_the_best_is_chosen(digits):
    choice = choose_storage(*digits, make_contender("PCA", search=False), AS_THEY_ARE, 16)
    sizes = {entry.type: (entry.numbers, entry.bytes) for entry in choice.candidates}
    assert sizes == {"float32": (4, 16), "float16": (8, 16), "int8": (16, 16), "bits": (64, 8)}
    assert choice.chosen.type == "int8"
    recalls = [entry.recall_at_1 for entry in choice.candidates]
    assert recalls == sorted(recalls, reverse=True)
    assert choice.find("bits") is choice.candidates[recalls.index(choice.find("bits").recall_at_1)]
    # Pixels of digits are integers up to 16: rounding changes hardly any neighbour.
    assert abs(choice.find("int8").loss) < 1.0
    assert choice.find("float32").loss == 0.0
    assert choice.find("bits").loss > 1.0


def test_candidates_are_measured_on_held_out_samples(digits):
    """The mean over folds of a fit to the others, where both are stored."""
    X, y = digits
    entry = make_contender("LDA", search=False)
    choice = choose_storage(X, y, entry, AS_THEY_ARE, 6)
    found = choice.find("int8")
    assert (found.numbers, choice.n_folds) == (6, 3)
    scores = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        fitted = entry.estimator({}, 6).fit(X[train], y[train])
        mapped = Split(fitted.transform(X[train]), y[train], fitted.transform(X[test]), y[test])
        stored = fit_vector_type(mapped.X, "int8")
        scores.append(score_stored(mapped, stored, cosine=False))
    # Other folds of the same samples.
    assert (found.recall_at_1, found.map_at_r) == pytest.approx(np.mean(scores, axis=0), abs=0.04)


def test_choice_is_the_same_in_every_run(digits):
    entry = make_contender("MPDA", search=False)
    first, second = (choose_storage(*digits, entry, AS_THEY_ARE, 8) for _ in range(2))
    assert first == second


def test_budget_beyond_the_features_takes_all_numbers_in_float32(digits):
    choice = choose_storage(*digits, make_contender("PCA", search=False), AS_THEY_ARE, 1000)
    assert {entry.numbers for entry in choice.candidates} == {64}
    best = max(entry.recall_at_1 for entry in choice.candidates)
    assert choice.chosen.recall_at_1 == best


def test_methods_with_few_components_use_what_they_have(digits):
    choice = choose_storage(*digits, make_contender("LDA", search=False), AS_THEY_ARE, 64)
    assert {entry.numbers for entry in choice.candidates} == {9}


def test_refinement_is_fitted_for_each_number(digits):
    X, y = (values[:200] for values in digits)
    choice = choose_storage(X, y, make_contender("PCA refined", search=False), AS_THEY_ARE, 4)
    sizes = {entry.type: entry.numbers for entry in choice.candidates}
    assert sizes == {"float32": 1, "float16": 2, "int8": 4, "bits": 32}
    large = choose_storage(X, y, make_contender("PCA refined", search=False), AS_THEY_ARE, 20)
    assert large.find("bits") is None  # 160 bits take more time than they are worth


def test_choice_among_methods_is_represented_by_one(digits):
    X, y = (values[:200] for values in digits)
    auto = make_contender("auto", search=False)
    alone = choose_storage(X, y, auto.choices[-1], AS_THEY_ARE, 8)
    assert choose_storage(X, y, auto, AS_THEY_ARE, 8) == alone


def test_groups_are_not_divided(digits):
    X, y = digits
    groups = np.repeat(np.arange(250).astype(str), 2)
    X = X[np.repeat(np.arange(250), 2)]  # a copy of each sample, in its group
    y = y[np.repeat(np.arange(250), 2)]
    entry = make_contender("PCA", search=False)
    apart = choose_storage(X, y, entry, AS_THEY_ARE, 2, groups=groups)
    together = choose_storage(X, y, entry, AS_THEY_ARE, 2)
    assert apart.chosen.recall_at_1 < together.chosen.recall_at_1


def test_scale_of_the_features_is_part_of_a_fold(digits):
    X, y = digits
    X = X * np.where(np.arange(64) == 10, 1e4, 1.0)
    entry = make_contender("PCA", search=False)
    scaled = choose_storage(X, y, entry, replace(AS_THEY_ARE, scaled=True), 16)
    raw = choose_storage(X, y, entry, AS_THEY_ARE, 16)
    assert scaled.find("int8").recall_at_1 > raw.find("int8").recall_at_1 + 0.1


def test_numbers_beyond_float16_leave_that_type_out(digits):
    X, y = digits
    choice = choose_storage(1e4 * X, y, make_contender("PCA", search=False), AS_THEY_ARE, 16)
    assert {entry.type for entry in choice.candidates} == {"float32", "int8", "bits"}


def test_too_few_samples_are_refused(digits):
    X = digits[0]
    alone = np.arange(500).astype(str)
    with pytest.raises(ValueError, match="no class has two training samples"):
        choose_storage(X, alone, make_contender("PCA", search=False), AS_THEY_ARE, 8)
    one = np.full(500, "a")
    with pytest.raises(ValueError, match="LDA has no map on every fold for a vector of 8 bytes"):
        choose_storage(X, one, make_contender("LDA", search=False), AS_THEY_ARE, 8)


def test_lines_name_type_numbers_bytes_and_the_loss():
    best = StorageCandidate("int8", 64, 64, 0.95, 0.8, 0.9515)
    other = StorageCandidate("float16", 32, 64, 0.94, 0.7, 0.94)
    third, fourth = replace(other, type="float32", numbers=16), replace(other, type="bits")
    lines = describe_storage(StorageChoice(64, (best, other, third, fourth), 3), 384)
    assert lines == [
        "64 bytes instead of 1,536: int8 x 64 errs on 5.0 % (float16 x 32: 6.0 %, float32 x 16: "
        "6.0 %).",
        "int8 instead of float32: error +0.15 points with 64 numbers, on samples held out of 3 "
        "folds.",
    ]
    alone = describe_storage(StorageChoice(64, (other,), 3), 384)
    assert alone == ["64 bytes instead of 1,536: float16 x 32 errs on 6.0 %."]


# mpda fit --bytes


def test_fit_selects_numbers_and_type_and_the_model_remembers(table, capsys):
    assert call(*FIT, "--folds", "2", "--bytes", "5", "--results", "r.json") == 0
    out = capsys.readouterr().out
    assert "5 bytes instead of 256: int8 x 5 errs on " in out
    assert "int8 instead of float32: error " in out
    model, saved = load("digits.mpda"), read_header("digits.mpda")["notes"]["vectors"]
    Z = model[:-1].transform(np.stack(table["embedding"].to_numpy()))
    assert Z.shape == (500, 5)
    assert {key: saved[key] for key in ("type", "numbers", "bytes")} == {
        **{"type": "int8", "numbers": 5, "bytes": 5}
    }
    assert saved["scale"] == pytest.approx(np.abs(Z).max() / 127)
    assert saved["unit_scale"] == pytest.approx(np.abs(normalize(Z)).max() / 127)
    storage = json.loads(Path("r.json").read_text())["storage"]
    assert storage["vectors"] == saved
    assert storage["budget"] == 5
    assert storage["candidates"][0]["type"] == "int8"


def test_json_of_a_fit_has_the_bytes_of_a_vector(table, capsys):
    assert call(*FIT, "--folds", "0", "--components", "3", "--json") == 0
    storage = json.loads(capsys.readouterr().out)["storage"]
    assert storage["vectors"]["bytes"] == 12
    assert storage["vectors"]["type"] is None
    assert "rows" not in storage


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--components", "4"), "--bytes cannot be combined with --components: --bytes selects"),
        (("--scheduler", "tcp://x:1"), "--bytes cannot be combined with --scheduler"),
        (("--database", "digits.parquet"), "--database is for --method within-class-whitening"),
    ],
)
def test_options_that_exclude_a_budget_are_one_line(table, capsys, words, reason):
    assert call(*FIT, "--bytes", "8", *words) == 2
    assert reason in read_error(capsys)


def test_database_has_no_budget(table, capsys):
    pd.DataFrame({"embedding": table["embedding"].to_pylist()}).to_parquet("all.parquet")
    words = ("--database", "all.parquet", "--bytes", "8")
    assert call("fit", "digits.parquet", "--label", "digit", *words) == 2
    assert "--bytes cannot be combined with --database" in read_error(capsys)


def test_budget_must_be_positive(table, capsys):
    assert call(*FIT, "--bytes", "0") == 2
    assert "--bytes" in read_error(capsys)


# mpda transform --type


def test_transform_writes_the_type_of_the_model(model, table):
    assert call("transform", "m.mpda", "digits.parquet", "--out", "z.parquet") == 0
    written = parquet.read_table("z.parquet")
    assert written.column_names == ["id", "digit", "vector"]
    assert written.schema.field("vector").type == pa.list_(pa.int8(), 8)
    entries = json.loads(written.schema.metadata[b"mpda_vectors"])
    Z = model[:-1].transform(np.stack(table["embedding"].to_numpy()))
    codes = np.stack(written["vector"].to_numpy())
    expected = np.clip(np.rint(Z / entries["scale"]), -127, 127)
    assert np.abs(codes - expected).max() <= 1  # a number half-way may round to either
    assert np.mean(codes == expected) > 0.99
    assert np.abs(codes * entries["scale"] - Z).max() <= 0.501 * entries["scale"]
    assert written["digit"].to_pylist() == table["digit"].to_pylist()


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "bits"])
@pytest.mark.parametrize("form", ["parquet", "arrow", "feather", "npy", "csv"])
def test_every_format_holds_the_stored_vectors(model, table, kind, form, capsys):
    words = ("transform", "m.mpda", "digits.parquet", "--type", kind, "--out", f"z.{form}")
    assert call(*words, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    saved = read_header("m.mpda")["notes"]["vectors"]
    Z = np.asarray(model[:-1].transform(np.stack(table["embedding"].to_numpy())))
    stored = replace(fit_vector_type(Z, kind), scale=saved["scale"] if kind == "int8" else None)
    assert result["vectors"] == stored.to_dict()
    expected = stored.encode(Z)
    match form:
        case "npy":
            codes = np.load("z.npy")
            assert codes.dtype == expected.dtype
            assert read_vector_type("z-type.json") == stored
            assert result["files"] == ["z.npy", "z-type.json"]
        case "csv":
            codes = pd.read_csv("z.csv").iloc[:, 2:].to_numpy()
            codes = codes.astype(expected.dtype)
            if kind == "bits":
                assert set(np.unique(codes)) == {0, 1}
                expected = (Z > 0).astype(int)
        case _:
            read = parquet.read_table if form == "parquet" else feather.read_table
            written = read(f"z.{form}")
            assert json.loads(written.schema.metadata[b"mpda_vectors"]) == stored.to_dict()
            codes = np.stack(written["vector"].to_numpy())
            assert codes.dtype == expected.dtype
    assert codes == pytest.approx(expected, rel=1e-6)


def test_normalized_vectors_have_a_scale_of_their_own(model, table):
    words = ("transform", "m.mpda", "digits.parquet", "--normalize", "--out", "z.npy")
    assert call(*words) == 0
    stored, codes = read_vector_type("z-type.json"), np.load("z.npy")
    assert np.abs(codes).max() == 127
    assert np.linalg.norm(stored.decode(codes), axis=1) == pytest.approx(1.0, abs=0.02)


def test_models_without_a_budget_write_numbers_as_before(table, capsys):
    assert call(*FIT, "--folds", "0", "--components", "3", "--out", "m.mpda") == 0
    assert call("transform", "m.mpda", "digits.parquet", "--out", "z.npy") == 0
    assert np.load("z.npy").dtype.kind == "f"
    assert call("transform", "m.mpda", "digits.parquet", "--type", "int8", "--out", "z.npy") == 0
    assert "stored as int8, 3 bytes a vector; a number is " in capsys.readouterr().err


def test_models_without_samples_have_scales(table):
    words = (*FIT, "--folds", "0", "--components", "3", "--out", "m.mpda")
    assert call(*words) == 0
    kept = read_header("m.mpda")["notes"]["vectors"]
    assert call(*words, "--no-keep-samples") == 0
    assert read_header("m.mpda")["notes"]["vectors"] == pytest.approx(kept)


def test_models_without_scales_are_refused_for_int8(table, capsys):
    from mpda import save

    assert call(*FIT, "--folds", "0", "--components", "3", "--out", "m.mpda") == 0
    save(load("m.mpda"), "old.mpda", notes={"label": "digit", "embedding": "embedding"})
    capsys.readouterr()
    words = ("transform", "old.mpda", "digits.parquet", "--out", "z.npy", "--type")
    assert call(*words, "int8") == 1
    assert "old.mpda keeps no scale of int8" in read_error(capsys)
    assert call(*words, "float16") == 0
    assert np.load("z.npy").dtype == np.float16


def test_a_column_called_vector_is_not_overwritten(model, table, capsys):
    parquet.write_table(table.append_column("vector", table["id"]), "b.parquet")
    capsys.readouterr()
    assert call("transform", "m.mpda", "b.parquet", "--out", "z.parquet") == 1
    assert "already have a column 'vector'" in read_error(capsys)


def test_database_fits_have_scales(table):
    pd.DataFrame({"embedding": table["embedding"].to_pylist()}).to_parquet("all.parquet")
    words = ("--database", "all.parquet", "--components", "4", "--folds", "0", "--out", "m.mpda")
    assert call("fit", "digits.parquet", "--label", "digit", *words) == 0
    saved = read_header("m.mpda")["notes"]["vectors"]
    assert saved["scale"] == pytest.approx(saved["unit_scale"])  # the map has length 1


# mpda export --scales


def test_export_writes_the_scale(model):
    assert call("export", "m.mpda", "--scales", "s.json") == 0
    saved = read_header("m.mpda")["notes"]["vectors"]
    stored = read_vector_type("s.json")
    assert (stored.name, stored.n_numbers, stored.scale) == ("int8", 8, saved["scale"])
    assert call("export", "m.mpda", "--scales", "s.json", "--normalize") == 0
    assert read_vector_type("s.json").scale == saved["unit_scale"]


# The page


def test_page_begins_with_the_curve(table):
    words = ("--folds", "2", "--bytes", "8", "--report", "p.html", "--results", "r.json")
    assert call(*FIT, *words) == 0
    rows = json.loads(Path("r.json").read_text())["storage"]["rows"]
    assert {row["method"] for row in rows} == {"raw", "PCA", "LDA"}
    assert {row["type"] for row in rows} == {"float32", "int8"}
    assert {row["bytes"] for row in rows if row["method"] == "raw"} == {64, 256}
    assert {row["numbers"] for row in rows if row["method"] == "LDA"} == {8, 9}
    page = read_page("p.html")
    assert page.index('id="summary"') < page.index('id="bytes"') < page.index('class="next"')
    assert page.count('id="bytes"') == 1
    assert "bytes of a vector" in page
    assert "8 bytes instead of 256: int8 x 8 errs on " in page
    assert next(iter(make_displays(read_results("r.json")))) == "bytes"


def test_page_of_a_plain_table_has_no_curve(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = digits
    frame = pd.DataFrame(X[:, 18:24], columns=list("abcdef")).assign(kind=y)
    frame.to_csv("t.csv", index=False)
    words = ("--folds", "0", "--components", "2", "--scale", "none", "--method", "pca")
    assert call("fit", "t.csv", "--label", "kind", *words, "--report", "p.html") == 0
    assert 'id="bytes"' not in read_page("p.html")
