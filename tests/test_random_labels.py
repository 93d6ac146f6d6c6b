"""Random labels: no command, page or search claims a gain.

``robustness/random_labels.py`` counts claims over many seeds.
"""

import json

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from command_calls import call
from mpda import MPDA
from mpda.model_selection import DiscriminantSearchCV
from mpda.report import verdict
from random_label_cases import CLAIM, COMMANDS, NOTHING, make_samples, read_page, run_command

pytest.importorskip("matplotlib", reason="needs mpda[cli]")
pytest.importorskip("typer", reason="needs mpda[cli]")

FOLDS = ("--folds", "3")  # fewer than the default, to save time


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["fit", pytest.param("compare", marks=pytest.mark.slow)])
def test_command_and_page_say_that_no_method_separates(name, seed, tmp_path):
    for text in run_command(name, *make_samples(seed, n=60), tmp_path, *FOLDS):
        assert NOTHING in text
        assert "check the labels" in text
        assert not CLAIM.findall(text)


@pytest.mark.slow
def test_same_commands_claim_a_gain_for_true_labels(tmp_path):
    X, y = make_samples(1, n=60)
    X[:, 0] += 6.0 * y
    for name in COMMANDS:
        for text in run_command(name, X, y, tmp_path, *FOLDS):
            assert NOTHING not in text
            assert CLAIM.findall(text)


@pytest.mark.parametrize("keep", ["--keep-samples", "--no-keep-samples"])
def test_error_on_samples_of_the_fit_is_no_claim(keep, tmp_path, capsys):
    """It is far below that of a guess, and the printed line, the page and the results say why."""
    rng, page = np.random.default_rng(0), tmp_path / "page.html"
    table, model = tmp_path / "table.npz", tmp_path / "m.mpda"
    np.savez(table, X=rng.normal(size=(80, 60)), y=np.arange(80) % 2)
    assert call("fit", table, "--folds", "0", keep, "--out", model) == 0
    capsys.readouterr()
    assert call("evaluate", model, table, "--report", page, "--quiet") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert call("evaluate", model, table, "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert results["error"] < 30.0
    for text in (printed, read_page(page), *results["summary"]):
        if keep == "--keep-samples":
            assert "80 of 80 samples were used to fit the model; the error says nothing" in text
        else:
            assert "It is too low if they were used to fit the model" in text


def test_lowest_of_many_errors_is_compared_with_a_guess():
    """The guess must be beaten after a correction for the number of methods."""
    n = 100
    row = {"problem": "", "seed": 0, "dimensions": [2], "cv_dimension": 2, "n_test": n}
    samples = {"tested": np.arange(n), "guess_wrong": np.arange(n) < 50}

    def make_row(method, n_wrong):
        # Right on the samples of the guess that are wrong, and wrong on others.
        misclassified = np.arange(n) >= n - n_wrong
        return {
            **row,
            **samples,
            "method": method,
            "wrong": [n_wrong],
            "misclassified": misclassified,
        }

    rows = [make_row("MPDA", 31)]
    assert verdict.recommend_method(rows, ["MPDA"]).helps
    rows += [make_row(f"other {i}", 50) for i in range(5)]
    recommended = verdict.recommend_method(rows, [row["method"] for row in rows])
    assert not recommended.helps
    assert recommended.reason.startswith(f"{NOTHING}: MPDA errs on 31.0 %")
    assert verdict.summarize_errors(rows, "MPDA", 9).verdict == recommended.reason


def test_selected_method_is_compared_as_one_of_many():
    """p-values are adjusted for the comparisons of all methods that could have been selected."""
    rows = [
        {"problem": "", "method": method, "seed": seed, "dimensions": [2], "cv_dimension": 2}
        | {"n_test": 100, "wrong": [wrong + offset]}
        for method, offset in (("1-NN", 4), ("PCA", 4), ("LFDA", 4), ("MPDA", 0))
        for seed, wrong in enumerate((20, 24, 21, 23))
    ]
    for row, extra in zip(rows, (0, 6, 6, 0), strict=False):  # differences of 4, 10, 10, 4
        row["wrong"][0] += extra
    alone = verdict.summarize_errors(rows, "MPDA", 9)
    selected = verdict.summarize_errors(rows, "MPDA", 9, candidates=["PCA", "LFDA", "MPDA"])
    assert alone.verdict.startswith("MPDA helps here")
    assert "which may be chance" in selected.differences[0]


def test_search_is_no_better_than_a_guess_on_new_samples():
    grid = {"alpha": [0.03, 0.2, 1.0]}
    best, nested = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(80, 6)), np.arange(80) % 2
        search = DiscriminantSearchCV(MPDA(n_neighbors=5), grid, cv=3)
        best.append(search.fit(X, y).best_score_)
        nested.append(cross_val_score(search, X, y, cv=3).mean())
    # Three standard errors of the share of 320 samples.
    assert abs(np.mean(nested) - 0.5) < 3 * np.sqrt(0.25 / 320)
    assert np.mean(best) > np.mean(nested)  # optimistic, as its description says
