"""Maps of embeddings to few numbers: splits, errors, the command."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from command_calls import call
from mpda.exceptions import DatasetError
from mpda.experiments import ExperimentOptions, read_rows, reproduce
from mpda.experiments.embeddings import load_embeddings, split_embeddings


@pytest.fixture
def directory(tmp_path):
    """Return a directory with digits in the place of the sets."""
    X, y = load_digits(return_X_y=True)
    X, y = np.hstack([X, X[:, ::-1] ** 2])[:500], y[:500]
    split = np.repeat([0, 2], [300, 200]).astype(np.int8)
    for name in ("banking77_wordllama256", "banking77_minilm384", "clinc150_minilm384"):
        np.savez(tmp_path / f"{name}.npz", X=X.astype(np.float16), y=y, split=split)
    np.savez(tmp_path / "cifar10_efficientnet_lite0.npz", X=X.astype(np.float16), y=y)
    return tmp_path


def run(directory, *methods, **options):
    out = directory / "out"
    reproduce("embeddings", ExperimentOptions(out, None, methods, directory=directory, **options))
    return out


@pytest.mark.slow
def test_errors_are_those_of_the_definition(directory):
    out = run(directory, "raw", "truncation", "PCA", "MPDA refined", n_splits=2)
    X, y, is_test = load_embeddings("banking77", directory)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0)
    assert is_test.sum() == 200
    pca = PCA(32).fit(X[~is_test])
    Z, Z_test = pca.transform(X[~is_test]), pca.transform(X[is_test])
    cosine = KNeighborsClassifier(5).fit(normalize(Z), y[~is_test])
    expected = 100.0 * (1.0 - cosine.score(normalize(Z_test), y[is_test]))
    rows = {
        (row["problem"], row["method"], row["seed"]): row
        for row in read_rows(out / "embeddings.jsonl")
    }
    assert len(rows) == 3 * 4 + 2 * 4  # the official splits, and two halves of CIFAR-10
    errors = rows["banking77", "PCA", 0]["errors"]
    assert errors["5-NN cosine"][2] == pytest.approx(expected)
    nearest = KNeighborsClassifier(1).fit(X[~is_test], y[~is_test])
    raw = 100.0 * (1.0 - nearest.score(X[is_test], y[is_test]))
    assert rows["banking77", "raw", 0]["errors"]["1-NN Euclidean"] == pytest.approx([raw] * 4)
    truncated = KNeighborsClassifier(1).fit(X[~is_test, :16], y[~is_test])
    error = 100.0 * (1.0 - truncated.score(X[is_test, :16], y[is_test]))
    assert rows["banking77", "truncation", 0]["errors"]["1-NN Euclidean"][1] == pytest.approx(error)
    text = (out / "embeddings.md").read_text()
    assert "## CIFAR-10, 2 splits" in text
    mean = np.mean([rows["cifar10", "PCA", seed]["errors"]["1-NN cosine"] for seed in (0, 1)], 0)
    assert f"| PCA | {' | '.join(f'{value:.2f}' for value in mean)} |" in text


def test_directory_may_be_set_in_the_environment(directory, monkeypatch):
    expected = load_embeddings("banking77", directory)
    monkeypatch.setenv("MPDA_DATA", str(directory))
    np.testing.assert_array_equal(load_embeddings("banking77", None)[0], expected[0])


def test_halves_are_stratified_and_differ(directory):
    first, second = (split_embeddings("cifar10", directory, seed) for seed in (0, 1))
    counts = np.bincount(first.y)
    assert abs(counts - np.bincount(first.y_test)).max() <= 1
    assert not np.array_equal(first.X, second.X)


def test_tuned_method_selects_on_the_training_part(directory, monkeypatch):
    seen = []
    select = "mpda.experiments.embeddings.select_least_error"

    def record(contender, X, *rest):
        seen.append((contender.component_counts, len(X)))
        from mpda.assessment.parameter_choice import SelectedParameters

        return SelectedParameters({"alpha": 0.1}, contender.component_counts[0])

    monkeypatch.setattr(select, record)
    options = ExperimentOptions(
        directory / "out", ["banking77"], ["LFDA tuned"], directory=directory
    )
    reproduce("embeddings", options)
    assert seen == [((r,), 300) for r in (8, 16, 32, 64)]


def test_command_names_what_is_missing(directory, tmp_path, capsys):
    (tmp_path / "none").mkdir()
    with pytest.raises(DatasetError, match="--data names the directory"):
        reproduce("embeddings", ExperimentOptions(tmp_path / "out", directory=tmp_path / "none"))
    (directory / "cifar10_efficientnet_lite0.npz").unlink()
    words = ("--methods", "pca", "--data", directory, "--out", tmp_path / "out", "--quiet")
    words = ("--datasets", "banking77", "cifar10", *words)
    assert call("reproduce", "embeddings", *words) == 1
    streams = capsys.readouterr()
    assert "cifar10" in streams.err
    assert "Banking77, 1 split" in streams.out
