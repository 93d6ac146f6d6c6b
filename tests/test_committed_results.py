"""The committed tables of the paper's experiments are those of the committed rows."""

import gzip
import json
import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import wilcoxon

from mpda.assessment import compare_errors, estimate_errors
from mpda.experiments import CONTENDERS, EXPERIMENTS, PROBLEMS, SEEDS, read_rows
from mpda.experiments.embeddings import EMBEDDING_SETS
from mpda.experiments.error_tables import (
    READINGS,
    comparison_table,
    cost_table,
    difference_table,
    error_table,
    summary_csv,
)
from mpda.experiments.paper_methods import SAME_SEARCH
from mpda.experiments.protocol import TABLE2_PROBLEMS, USPS_PROBLEMS, compute_fingerprint
from mpda.experiments.task import Task, measure_errors

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "reproduction"
PAGE = (ROOT / "docs" / "reproduction.md").read_text()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_bytes(gzip.decompress((RESULTS / "rows.jsonl.gz").read_bytes()))
    return [row for row in read_rows(path) if row["status"] == "done"]


def split_line(line):
    """Return the entries of a line of a table."""
    return [text.strip() for text in line.strip("|").split("|")]


def methods_of(name):
    """Return the methods of a table: those that were run."""
    first_table = (RESULTS / f"{name}.md").read_text().split("\n## ")[1].splitlines()
    return [m for line in first_table if (m := split_line(line)[0]) in CONTENDERS]


def test_every_method_was_run_on_every_split(rows):
    finished = [(row["problem"], row["method"], row["seed"]) for row in rows]
    assert len(finished) == len(set(finished))
    expected = {
        (problem, name, seed)
        for problem in TABLE2_PROBLEMS
        for name in methods_of("table2")
        if problem not in CONTENDERS[name].skipped
        for seed in SEEDS
    }
    assert expected <= set(finished)
    assert f"{len(expected)} rows" in PAGE


@pytest.mark.parametrize(
    ("name", "problems"), [("table2", TABLE2_PROBLEMS), ("usps", USPS_PROBLEMS)]
)
def test_tables_are_those_of_the_rows(rows, name, problems):
    text = (RESULTS / f"{name}.md").read_text()
    methods = methods_of(name)
    rows = [row for row in rows if row["problem"] in problems and row["method"] in methods]
    for reading in READINGS:
        estimates = estimate_errors(rows, reading)
        assert error_table(estimates, problems, methods) in text
        assert difference_table(estimates, problems, methods) in text
    comparison = comparison_table(estimate_errors(rows, "best"), problems, methods)
    assert comparison in text
    assert bool(comparison) == (name == "table2")  # the paper has no numbers for USPS
    assert cost_table(rows, problems, methods) in text
    lines = summary_csv(rows).splitlines()
    assert sorted(lines) == sorted((RESULTS / f"{name}.csv").read_text().splitlines())


@pytest.mark.skipif("MPDA_DATA" not in os.environ, reason="needs the paper's data sets")
@pytest.mark.parametrize(
    ("problem", "method"),
    [("coil20", "LDA"), ("semeion", "LFDA ridge"), ("vehicle", "MPDA"), ("optdigits", "MFA")],
)
def test_a_row_of_the_table_is_computed_again(rows, problem, method):
    keys = problem, method, SEEDS[0]
    row = next(row for row in rows if (row["problem"], row["method"], row["seed"]) == keys)
    directory = Path(os.environ["MPDA_DATA"])
    assert compute_fingerprint(PROBLEMS[problem], directory) == row["data"]
    task = Task(PROBLEMS[problem], CONTENDERS[method], SEEDS[0], row["data"])
    grid = {name: (value,) for name, value in row["parameters"].items()}
    chosen = replace(task, contender=replace(task.contender, grid=grid))
    again = measure_errors(chosen, directory)
    assert again["dimensions"] == row["dimensions"]
    # Rounding may change the nearest neighbour of a few samples.
    allowed = 0.003 * row["n_test"]
    np.testing.assert_allclose(again["wrong"], row["wrong"], rtol=0, atol=allowed)
    # Rounding may also decide between grid points of nearly the same score in the inner folds.
    errors = [
        result["wrong"][result["dimensions"].index(result["cv_dimension"])] / row["n_test"]
        for result in (row, measure_errors(task, directory))
    ]
    assert errors[0] == pytest.approx(errors[1], abs=0.015)


def test_the_readme_has_rows_of_the_table():
    table = (RESULTS / "table2.md").read_text().split("\n## ")[2]
    expected = re.sub(r" ± [\d.]+| †", "", table).splitlines()
    readme = re.findall(r"^\| .+\(\d+\.\d\).*\|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(readme) == 5
    assert set(readme) <= set(expected)


def test_the_readme_counts_the_significant_differences(rows):
    estimates = estimate_errors([r for r in rows if r["problem"] in TABLE2_PROBLEMS], "cv")
    others = ("1-NN", "LDA", "LFDA", "LFDA ridge")
    pairs = [(p, other) for other in others for p in TABLE2_PROBLEMS]
    compared = compare_errors([(estimates[p, "MPDA"], estimates[p, other]) for p, other in pairs])
    counts = dict.fromkeys(others, 0)
    for (_, other), comparison in zip(pairs, compared, strict=True):
        if comparison.is_significant:
            assert comparison.difference > 0  # the other error is higher
            counts[other] += 1
    assert counts["LFDA"] == counts["LFDA ridge"] == 0
    numbers = "zero", "one", "two", "three", "four", "five"
    assert (
        f"adjusted over all {len(pairs)} comparisons, MPDA's error is lower than that of 1-NN on "
        f"{numbers[counts['1-NN']]} of the eight problems, than that of LDA on "
        f"{numbers[counts['LDA']]}, and than that of LFDA, as published or with a ridge, on none"
    ) in (ROOT / "README.md").read_text()


def test_every_claim_has_a_verdict_and_a_command():
    _, *lines = PAGE.split("## Claims of the paper")[1].split("|---|---|---|")[1].splitlines()
    claims = [split_line(line) for line in lines[: lines.index("")]]
    assert len(claims) >= 20
    for _, verdict, shown in claims:
        assert verdict
        commands = re.findall(r"`((?:mpda|python) [^`]*)`", shown)
        assert commands or shown.startswith("the same")
        for command in commands:
            program, name, *options = command.split()
            if program == "python":
                assert (ROOT / name).is_file()
            else:
                assert options[0] in EXPERIMENTS
        # A linked table names the command that wrote it.
        for table in re.findall(r"\[table\]\(reproduction/(\w+\.md)\)", shown):
            assert f"`{commands[0]}`; " in (RESULTS / table).read_text()


def test_verdicts_have_the_numbers_of_the_claims():
    lines = (RESULTS / "claims.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if "no tangent vectors" in line) + 2
    rows = [split_line(line) for line in lines[first : lines.index("", first)]]
    errors = {name: [float(cell) for cell in cells] for name, *cells in rows}
    for name in ("COIL20", "Semeion", "Vehicle"):
        with_tangents, without = errors[name][0], errors[name][-1]
        assert f"{without:.1f} instead of {with_tangents:.1f}" in PAGE
    for name in ("FaceDetection", "OptDigits"):
        assert abs(errors[name][0] - errors[name][-1]) < 0.1
    changes = [error - row[0] for row in errors.values() for error in row[3:5]]
    stated = re.search(r"mixture as .* changes by (\S+) to (\S+) points", PAGE)
    extremes = [float(number) for number in stated.groups()]
    np.testing.assert_allclose(extremes, [min(changes), max(changes)], atol=0.06)


def test_verdict_on_embeddings_has_the_numbers_of_their_table():
    lines = [split_line(line) for line in (RESULTS / "fields.md").read_text().splitlines()]
    rows = [row for row in lines if len(row) == 6 and row[1] in ("PFE", "TSIMR")]
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    unknowns, seconds = (
        [float(alone[column]) / float(patches[column]) for alone, patches in pairs]
        for column in (3, 4)
    )
    assert "holds: five times fewer unknowns; PFE and TSIMR take less than a quarter" in PAGE
    assert [round(ratio) for ratio in unknowns] == [5, 5, 5, 5]
    assert min(seconds[:2]) > 4.0
    np.testing.assert_allclose(seconds[2:], 2.0, atol=0.25)
    for alone, patches in pairs:
        if alone[1] == "TSIMR":
            assert f"{alone[5]} to {patches[5]} %" in PAGE


def test_numbers_of_the_page_are_those_of_the_rows(rows):
    rows = [row for row in rows if row["problem"] in TABLE2_PROBLEMS]
    estimates = {reading: estimate_errors(rows, reading) for reading in READINGS}
    methods = methods_of("table2")
    reading, n_means, n_differences = "best", 0, 0
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            reading = "best"
            continue
        if "by cross-validation" in line:
            reading = "cv"
        name, *numbers = split_line(line)
        if " minus " in name:
            table = difference_table(estimates[reading], TABLE2_PROBLEMS, methods)
            assert line in table.splitlines()
            n_differences += 1
        elif name in CONTENDERS and len(numbers) >= len(TABLE2_PROBLEMS):
            means = [estimates[reading][problem, name].mean for problem in TABLE2_PROBLEMS]
            texts = [f"{mean:.2f}" for mean in means]
            if name in SAME_SEARCH:
                lowest = [
                    min(estimates[reading][problem, other].mean for other in SAME_SEARCH)
                    for problem in TABLE2_PROBLEMS
                ]
                is_lowest = np.array(means) == lowest
                texts = [f"**{t}**" if b else t for t, b in zip(texts, is_lowest, strict=True)]
            assert numbers[: len(texts)] == texts
            n_means += 1
    assert n_means >= 8
    assert n_differences >= 6


@pytest.mark.parametrize(("reduced", "n_lines"), [(True, 9), (False, 5)])
def test_the_page_reports_usps_as_in_the_rows(rows, reduced, n_lines):
    _, with_pca, without_pca = PAGE.split("| even against odd |")
    table = (with_pca if reduced else without_pca).split("\n\n")[0].splitlines()[2:]
    assert len(table) >= n_lines
    estimates = estimate_errors(rows, "cv")
    problems = [name for name in USPS_PROBLEMS if PROBLEMS[name].reduced == reduced]
    for column, problem in enumerate(problems):
        complete = {
            method: estimate
            for (name, method), estimate in estimates.items()
            if name == problem and estimate.errors.size == len(SEEDS)
        }
        best = min(complete, key=lambda method: complete[method].mean)
        for label, *numbers in map(split_line, table):
            first, *variants = label.split(" / ")
            methods = [first, *(f"{first} {text.removeprefix('with a ')}" for text in variants)]
            texts = [f"{complete[name].mean:.2f}" for name in methods]
            bold = [f"**{t}**" if m == best else t for m, t in zip(methods, texts, strict=True)]
            assert numbers[column] == " / ".join(bold)


def read_committed(name):
    """Return the rows of an experiment beyond the paper."""
    lines = gzip.decompress((RESULTS / f"{name}.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


def read_table(text, first):
    """Return the lines of the table that begins with a header entry, by their first entry."""
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    header, *entries = [
        split_line(line) for line in lines if not line.startswith(("| ---", "|---"))
    ]
    return {entry[0]: dict(zip(header, entry, strict=True)) for entry in entries}


def read_accuracies():
    """Return the accuracies of all folds of KEEL by data set and method, in per cent."""
    accuracies = defaultdict(list)
    for row in read_committed("keel"):
        accuracies[row["problem"], row["method"]].append(100.0 * row["accuracy"])
    return accuracies


def read_embedding_errors():
    """Return mean errors of embeddings over splits, by data set and method, then by measure."""
    splits = defaultdict(lambda: defaultdict(list))
    for row in read_committed("embeddings"):
        for measure, errors in row["errors"].items():
            splits[row["problem"], row["method"]][measure].append(errors)
    return {
        key: {measure: np.mean(rows, axis=0) for measure, rows in measures.items()}
        for key, measures in splits.items()
    }


def test_tables_beyond_the_paper_are_those_of_the_rows():
    accuracies = read_accuracies()
    assert {len(folds) for folds in accuracies.values()} == {10}
    methods = {method for _, method in accuracies}
    for name, line in read_table((RESULTS / "keel.md").read_text(), "data set").items():
        for method in methods:
            assert float(line[method]) == pytest.approx(np.mean(accuracies[name, method]), abs=0.06)
    text = (RESULTS / "embeddings.md").read_text()
    for (problem, method), errors in read_embedding_errors().items():
        section = text[text.index(f"## {EMBEDDING_SETS[problem].title}") :]
        for measure, means in errors.items():
            line = read_table(section, f"error of {measure} in %")[method]
            printed = [float(cell) for cell in list(line.values())[1:]]
            assert printed == pytest.approx(means, abs=0.006)


def test_the_page_of_the_refinement_has_the_numbers_of_the_rows():
    page = (ROOT / "docs" / "evidence" / "refinement.md").read_text()
    keel = (RESULTS / "keel.md").read_text()
    ranks = read_table(keel, "method")
    for method, line in {**read_table(page, "method"), **read_table(page, "tuned method")}.items():
        if method in ranks:
            expected = ranks[method]
            for column, source in (
                ("average rank among 13", "average rank among 13"),
                ("mean accuracy, %", "mean accuracy"),
            ):
                assert float(line[column]) == pytest.approx(float(expected[source]), abs=0.06)
    means = {key: np.mean(folds) for key, folds in read_accuracies().items()}
    names = list(read_table(keel, "data set"))
    gains = np.round([means[name, "MPDA refined"] - means[name, "MPDA"] for name in names], 6)
    n_better, n_worse = np.count_nonzero(gains > 0.05), np.count_nonzero(gains < -0.05)
    assert f"better on {n_better} of the {len(names)} sets" in page
    assert f"worse on {n_worse}:" in page
    section = page[page.index("**Where it does not help.**") :]
    listed = section[section.index("and worse on") : section.index("A Wilcoxon")]
    assert [name for name in names if name in listed] == [
        name for name, gain in zip(names, gains, strict=True) if gain < -0.05
    ]
    assert f"p = {wilcoxon(gains).pvalue:.2f}" in page
    tuned = np.array([means[name, "MPDA tuned refined"] for name in names])
    for other in ("MPDA tuned", "LFDA tuned", "NCA tuned", "Euclidean"):
        gains = np.round(tuned - [means[name, other] for name in names], 6)
        counts = np.count_nonzero(gains > 0), np.count_nonzero(gains < 0)
        wins = rf"better on {counts[0]}( sets)? and worse on {counts[1]}"
        assert re.search(rf"{wins} \((Wilcoxon's )?p = {wilcoxon(gains).pvalue:.2g}\)", page)
    errors = read_embedding_errors()
    lines = page[page.index("| start |") :].split("\n\n")[0].splitlines()[2:]
    name = ""
    for line in lines:
        start, kind, *cells = split_line(line)
        name = f"{name} refined" if kind == "refined" else start
        printed = [float(cell.strip("*")) for cell in cells]
        assert printed == pytest.approx(errors["banking77", name]["1-NN Euclidean"], abs=0.06)
    features = read_table(page[page.index("**Image features.**") :], "method")
    assert len(features) == 9
    for name, line in features.items():
        printed = [float(cell.strip("*")) for cell in list(line.values())[1:]]
        assert printed == pytest.approx(errors["cifar10", name]["1-NN Euclidean"], abs=0.06)


EVIDENCE = ROOT / "docs" / "evidence"


@pytest.fixture
def benchmarks(monkeypatch):
    """Let a test import the modules of the folder of benchmarks."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def read_evidence(*names):
    """Return the rows of studies by their key; of equal keys the last row counts."""
    rows = {}
    for name in names:
        for line in (EVIDENCE / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            key = ("study", "data", "draw", "train", "method", "numbers")
            rows[tuple(row[part] for part in key)] = row
    return rows


@pytest.mark.usefixtures("benchmarks")
def test_the_page_of_embeddings_is_that_of_the_rows():
    from embeddings_page import format_page

    rows = read_evidence("retrieval-maps", "embeddings")
    assert format_page(rows) == (EVIDENCE / "embeddings.md").read_text()


@pytest.mark.usefixtures("benchmarks")
def test_goals_of_embeddings_are_judged_by_the_rows():
    from embeddings_page import format_page

    def row(study, method, draw, numbers, error, precision):
        scores = {"recall_at_1": 1.0 - error, "map_at_r": precision}
        sizes = {"labelled": 9, "gallery": 9, "queries": 9, "outputs": numbers, "seconds": 1.0}
        train = "all" if study == "seen" else 5000
        key = {"study": study, "data": "clinc150", "draw": draw, "train": train}
        key |= {"method": method, "numbers": "all" if method == "raw" else numbers}
        return {**key, **sizes, "float32": scores, "int8": scores, "measured": "by hand"}

    def page(*found):
        return format_page(dict(enumerate(found)))

    raw = row("seen", "raw", 0, 384, 0.1, 0.5)
    ours = "ours, refined, best MAP@R"
    good = page(raw, row("seen", ours, 0, 64, 0.044, 0.75))
    assert "| CLINC150 (MiniLM) | 1-NN error at most 0.45 times raw | 0.440: reached |" in good
    assert "| CLINC150 (MiniLM) | MAP@R at least 1.4 times raw | 1.500: reached |" in good
    assert f"{ours}: 2 of 8 goals are reached, 0 missed, 6 not measured yet." in good
    bad = page(raw, row("seen", ours, 0, 64, 0.046, 0.69))
    assert "| 0.460: **missed** | not measured |" in bad
    assert "| 1.380: **missed** | not measured |" in bad
    # Ratios are those of equal draws, and an incomplete mean says so.
    raws = [row("unseen", "raw", draw, 384, 0.1 * (draw + 1), 0.5) for draw in range(3)]
    some = [row("unseen", "whitening", draw, 64, 0.1, 0.6) for draw in range(2)]
    assert "| 0.750 (0.50 to 1.00), 2 of 3 draws: reached |" in page(*raws, *some)
    assert "| 1.200 (1.20 to 1.20): reached |" in page(*raws[:2], *some)
    # A row without one byte a number does not count.
    old = {name: value for name, value in some[0].items() if name != "int8"}
    assert "whitening (32 and 64 numbers)" in page(raws[0], old)


@pytest.mark.usefixtures("benchmarks")
def test_a_classifier_has_an_error_and_dashes_in_tables_of_maps():
    from embeddings_page import format_page
    from retrieval_tables import format_page as format_maps

    rows, maps = read_evidence("retrieval-maps", "embeddings"), read_evidence("retrieval-maps")
    methods = {study: [] for study in ("seen", "unseen")}
    for row in maps.values():
        methods[row["study"]].append(row["method"])
    key = ("seen", "clinc150", 0, "all", "logistic regression", "all")
    error = 100.0 * rows[key]["error"]
    dash = "\N{EN DASH}"
    start = f"| logistic regression | 384 | 1 | {error:.1f} | {dash} | {dash} | 1,536 | {dash} |"
    assert start in format_page(rows)
    error = 100.0 * maps[key]["error"]
    line = f"| logistic regression | 384 | 1 | {dash} | {error:.1f} | {dash} |"
    assert line in format_maps(list(maps.values()), methods)


def test_guide_to_vector_search_has_the_errors_of_the_classifier():
    rows = read_evidence("embeddings")
    errors = [
        100.0 * rows["seen", data, 0, "all", "logistic regression", "all"]["error"]
        for data in ("banking77_minilm", "clinc150", "banking77")
    ]
    text = (ROOT / "docs" / "guide" / "vector-search.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| logistic regression")]
    numbers = [float(n) for line in lines for n in re.findall(r"([\d.]+) %", line)]
    assert numbers == pytest.approx(errors, abs=0.06)
    assert (
        f"{errors[1]:.1f} % (CLINC150) and {errors[0]:.1f} % (Banking77)"
        in (ROOT / "docs" / "guide" / "comparison.md").read_text()
    )
