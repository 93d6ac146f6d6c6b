"""Sentences with their intents: the sample, its rounding, its licence, and the written tables."""

import json
import re
from collections import Counter
from hashlib import sha256
from importlib.resources import files

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from sklearn.neighbors import KNeighborsClassifier

from command_calls import call
from mpda.experiments.datasets import column_names, load, load_intents
from mpda.io import stack_vectors
from test_datasets import REAL
from test_versions import PROJECT, ROOT

FOLDER = files("mpda.experiments.datasets")
ATTRIBUTION = FOLDER.joinpath("intents.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def intents():
    return load_intents()


def test_every_intent_has_as_many_sentences(intents):
    assert intents.vectors.shape == (6000, 384)
    assert len(set(intents.texts)) == 6000  # no test sentence is one of training
    for is_test, size in ((False, 30), (True, 10)):
        counts = Counter(intents.labels[intents.is_test == is_test].tolist())
        assert set(counts.values()) == {size}
        assert len(counts) == 150
    assert not intents.is_test[:4500].any()
    index = intents.texts.tolist().index("what time is it in new york")
    assert intents.labels[index] == "time"


def test_vectors_have_length_1_and_are_float32(intents):
    assert intents.vectors.dtype == np.float32
    lengths = np.linalg.norm(intents.vectors.astype(float), axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-7)


def test_file_is_smaller_than_2_megabytes_and_has_one_scale():
    path = FOLDER.joinpath("intents.npz")
    assert path.stat().st_size < 2_000_000
    with np.load(path) as arrays:
        assert arrays["vectors"].dtype == np.int8
        assert arrays["scale"].shape == ()
        rounded = arrays["vectors"] * arrays["scale"]
    # Rows had length 1 before they were rounded; the standard deviation of lengths is 7e-4.
    np.testing.assert_allclose(np.linalg.norm(rounded, axis=1), 1.0, atol=5e-3)


def test_error_of_nearest_neighbours_is_the_documented_one(intents):
    train, test = ~intents.is_test, intents.is_test
    nearest = KNeighborsClassifier(1).fit(intents.vectors[train], intents.labels[train])
    error = 100 * (1 - nearest.score(intents.vectors[test], intents.labels[test]))
    assert "1-NN error of the test part is 13.7 %" in re.sub(r"\s+", " ", load_intents.__doc__)
    assert "1-NN error is 13.7 %" in (ROOT / "docs/api/datasets.rst").read_text()
    assert "is 13.73 % with the stored" in ATTRIBUTION
    assert error == pytest.approx(13.73, abs=0.1)  # a tie that is decided otherwise is 0.07 points


def test_attribution_and_licence_are_where_the_data_are():
    assert "src/mpda/experiments/datasets/intents.md" in PROJECT["project"]["license-files"]
    page = (ROOT / "docs/api/datasets.rst").read_text()
    for text in (ATTRIBUTION, page, load_intents.__doc__):
        assert "Larson" in text
        assert "github.com/clinc/oos-eval" in text
        assert "https://creativecommons.org/licenses/by/3.0/" in text
        assert "Apache" in text


def test_catalogue_has_the_data_set(intents, capsys):
    X, y = load("intents")  # compares shape and checksum with the catalogue
    np.testing.assert_array_equal(X, intents.vectors)
    np.testing.assert_array_equal(y, intents.labels)
    features, classes = column_names("intents")
    assert features[:2] == ["embedding0", "embedding1"]
    assert classes == sorted(set(intents.labels))
    assert call("datasets", "intents") == 0
    text = capsys.readouterr().out
    assert "6000 x 384, 150 classes" in text
    assert "licence: CC BY 3.0" in text
    assert "source: mpda\n" in text
    assert call("datasets", "intents", "--json") == 0
    assert json.loads(capsys.readouterr().out)["intents"]["source"] == "mpda"


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_files_of_arrow_have_one_column_of_vectors(intents, ending, tmp_path):
    path = tmp_path / f"intents.{ending}"
    assert call("datasets", "intents", "--out", path) == 0
    table = parquet.read_table(path) if ending == "parquet" else feather.read_table(path)
    assert table.column_names == ["text", "intent", "split", "embedding"]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 384)
    assert table["text"].to_pylist() == intents.texts.tolist()
    assert table["intent"].to_pylist() == intents.labels.tolist()
    assert table["split"].to_pylist() == ["train"] * 4500 + ["test"] * 1500
    np.testing.assert_array_equal(stack_vectors(table["embedding"]), intents.vectors)


@pytest.mark.slow
def test_text_files_have_a_column_for_each_number(intents, tmp_path):
    assert call("datasets", "intents", "--out", tmp_path / "intents.csv") == 0
    frame = pd.read_csv(tmp_path / "intents.csv")
    numbers = [f"embedding{i}" for i in range(384)]
    assert frame.columns.tolist() == ["text", "intent", "split", *numbers]
    assert frame["text"].tolist() == intents.texts.tolist()
    np.testing.assert_allclose(frame[numbers], intents.vectors, atol=1e-8)


def test_npy_file_has_the_index_of_the_intent_in_its_last_column(intents, tmp_path):
    assert call("datasets", "intents", "--out", tmp_path / "intents.npy") == 0
    array = np.load(tmp_path / "intents.npy")
    np.testing.assert_array_equal(array[:, :-1], intents.vectors)
    np.testing.assert_array_equal(
        np.unique(intents.labels)[array[:, -1].astype(int)], intents.labels
    )


def test_sample_follows_its_rule_and_is_rounded_as_documented(intents):
    path = REAL / "clinc150_minilm384.npz"
    if not path.exists():
        pytest.skip("MPDA_DATA does not name a directory with clinc150_minilm384.npz")
    with np.load(path) as arrays:
        X, texts, split = arrays["X"].astype(float), arrays["text"].tolist(), arrays["split"]
        labels = arrays["names"][arrays["y"]].tolist()
    counts = Counter(texts)
    keys = [sha256(f"0:{text}".encode()).hexdigest() for text in texts]
    chosen = []
    for part, size in ((0, 30), (2, 10)):
        for label in sorted(set(labels)):
            rows = [
                i
                for i, text in enumerate(texts)
                if labels[i] == label and split[i] == part and counts[text] == 1
            ]
            chosen += sorted(rows, key=keys.__getitem__)[:size]
    assert intents.texts.tolist() == [texts[i] for i in chosen]
    assert intents.labels.tolist() == [labels[i] for i in chosen]
    assert intents.is_test.tolist() == [split[i] == 2 for i in chosen]
    given = X[chosen] / np.linalg.norm(X[chosen], axis=1, keepdims=True)
    assert np.sum(given * intents.vectors, axis=1).min() > 0.9998
    change = np.abs(given @ given.T - intents.vectors @ intents.vectors.T)
    assert change.max() < 0.006
    assert np.sqrt(np.mean(change**2)) < 0.0011
