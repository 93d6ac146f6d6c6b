"""Wrong test samples in the rows of the experiments."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler, normalize

from mpda import MPDA
from mpda.assessment import make_contender
from mpda.experiments.contender_task import ContenderTask
from mpda.experiments.embeddings import EMBEDDING_CONTENDERS, run_embedding_task
from mpda.experiments.keel import KEEL_CONTENDERS, run_keel_task
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import PROBLEMS, draw_indices, load_samples, split
from mpda.experiments.task import Task, run_task
from mpda.experiments.wrong_samples import hash_indices, pack_wrong, unpack_wrong


@pytest.mark.parametrize("n", [0, 1, 8, 13, 3000])
def test_bits_survive_as_text(n):
    wrong = np.random.default_rng(n).random(n) < 0.3
    text = pack_wrong(wrong)
    np.testing.assert_array_equal(unpack_wrong(text, n), wrong)
    assert len(text) <= n / 6 + 4
    with pytest.raises(ValueError, match="test samples need"):
        unpack_wrong(text, n + 8)


def test_hash_is_of_the_samples_in_their_order():
    hashes = {hash_indices(np.array(tested)) for tested in ([1, 2], [2, 1], [1, 3])}
    assert len(hashes) == 3
    # Stored rows are compared across machines.
    for dtype in (np.int32, np.int64, ">i8"):
        assert hash_indices(np.array([1, 2], dtype=dtype)) == "0c730b69905c5ef7"


def digits_problem():
    return replace(PROBLEMS["optdigits"], dataset="digits", train_share=0.5)


@pytest.mark.parametrize(
    "name", ["1-NN", "MPDA", pytest.param("MPDA refined", marks=pytest.mark.slow)]
)
def test_rows_of_the_paper_have_the_samples_behind_their_numbers(name, monkeypatch):
    problem = digits_problem()
    contender = {**CONTENDERS, "MPDA refined": make_contender("MPDA refined", search=False)}[name]
    if name == "MPDA":
        contender = replace(contender, grid={"n_neighbors": (5, 10)}, max_components=8)
    if name == "MPDA refined":  # its components are not nested
        contender = replace(contender, component_counts=(3, 6))
    samples = load_digits(return_X_y=True)
    monkeypatch.setattr(
        "mpda.experiments.protocol._load_cached", lambda *_: (samples[0][:600], samples[1][:600])
    )
    row = run_task(Task(problem, contender, 3, "data"), None)
    assert row["status"] == "done"
    y = load_samples(problem, None)[1]
    test = draw_indices(problem, y, 3)[1]
    assert row["tested_hash"] == hash_indices(test)
    expected = train_test_split(np.arange(600), train_size=0.5, stratify=y, random_state=3)
    np.testing.assert_array_equal(test, expected[1])
    parts = split(problem, None, 3)
    np.testing.assert_array_equal(parts.X_test, samples[0][test])
    bits = {k: unpack_wrong(text, row["n_test"]) for k, text in row["wrong_samples"].items()}
    assert bits["best"].sum() == min(row["wrong"])
    selected = row["dimensions"].index(row["cv_dimension"])
    assert bits["cv"].sum() == row["wrong"][selected]
    if name == "1-NN":
        predicted = KNeighborsClassifier(1).fit(parts.X, parts.y).predict(parts.X_test)
    else:
        model = contender.estimator(row["parameters"], row["cv_dimension"])
        model.fit(parts.X, parts.y)
        nearest = KNeighborsClassifier(1).fit(model.transform(parts.X), parts.y)
        predicted = nearest.predict(model.transform(parts.X_test))
    # A tie of two neighbours may be decided by rounding.
    assert np.count_nonzero((predicted != parts.y_test) != bits["cv"]) <= 1


def test_images_of_two_classes_are_drawn_by_digit(monkeypatch):
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr("mpda.experiments.protocol._load_cached", lambda *_: (X, y))
    problem = next(p for p in PROBLEMS.values() if p.per_label is not None)
    problem = replace(problem, per_label=20)
    parts = split(problem, None, 5)
    train, test = draw_indices(problem, y, 5)
    assert not set(train) & set(test)
    assert np.bincount(y[test]).tolist() == [20] * 10
    np.testing.assert_array_equal(parts.y_test, np.isin(y[test], sorted(problem.classes)))


def test_rows_of_keel_have_the_wrong_samples(tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y, fold = X[:300], y[:300], np.arange(300) % 10
    (tmp_path / "keel").mkdir()
    np.savez(tmp_path / "keel" / "iris.npz", X=X, y=y.astype(str), fold=fold)
    row = run_keel_task(ContenderTask("keel", "iris", KEEL_CONTENDERS["Euclidean"], 4), tmp_path)
    is_test = fold == 4
    scaler = MinMaxScaler().fit(X[~is_test])
    nearest = KNeighborsClassifier(3).fit(scaler.transform(X[~is_test]), y[~is_test])
    wrong = nearest.predict(scaler.transform(X[is_test])) != y[is_test]
    np.testing.assert_array_equal(unpack_wrong(row["wrong_samples"], row["n_test"]), wrong)
    assert row["accuracy"] == np.mean(~wrong)
    assert row["tested_hash"] == hash_indices(np.flatnonzero(is_test))


def test_rows_of_embeddings_have_the_wrong_samples_and_map_at_r(tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = np.hstack([X, X[:, ::-1] ** 2])[:400], y[:400]
    parts = np.repeat([0, 1, 2], [200, 50, 150]).astype(np.int8)
    np.savez(tmp_path / "clinc150_minilm384.npz", X=X.astype(np.float16), y=y, split=parts)
    contender = EMBEDDING_CONTENDERS["MPDA"]
    row = run_embedding_task(ContenderTask("embeddings", "clinc150", contender, 0), tmp_path)
    # A validation part belongs to the training samples.
    X, is_test = normalize(X.astype(np.float16).astype(float)), parts == 2
    assert row["n_test"] == 150
    assert row["tested_hash"] == hash_indices(np.flatnonzero(is_test))
    model = MPDA(16).fit(X[~is_test], y[~is_test])
    Z, Z_test = (normalize(model.transform(part)) for part in (X[~is_test], X[is_test]))
    wrong = KNeighborsClassifier(5).fit(Z, y[~is_test]).predict(Z_test) != y[is_test]
    stored = unpack_wrong(row["wrong_samples"]["5-NN cosine"][1], 150)
    assert np.count_nonzero(stored != wrong) <= 1
    assert row["errors"]["5-NN cosine"][1] == pytest.approx(100.0 * stored.mean())
    values = []
    for z, label in zip(Z_test, y[is_test], strict=True):
        hits = (y[~is_test] == label)[np.argsort(((Z - z) ** 2).sum(axis=1), kind="stable")]
        n = hits.sum()
        precisions = np.cumsum(hits[:n]) / np.arange(1, n + 1)
        values.append((precisions * hits[:n]).sum() / n)
    assert row["map_at_r"]["cosine"][1] == pytest.approx(np.mean(values), abs=1e-6)
