"""From rows to tables: both readings, intervals, best methods, and the paper's numbers."""

import re

import numpy as np

from mpda.assessment import (
    ErrorEstimate,
    compare_errors,
    compute_fit_costs,
    estimate_errors,
    find_best_methods,
    find_best_unpaired,
)
from mpda.experiments.error_tables import (
    comparison_table,
    cost_table,
    difference_table,
    error_table,
    rank_methods,
    rank_table,
    ratio_table,
    summary_csv,
)
from mpda.experiments.published import PublishedResult, find_published, read_published


def estimate(errors, seeds=None):
    errors = np.asarray(errors, dtype=float)
    return ErrorEstimate(np.arange(errors.size) if seeds is None else seeds, errors, errors)


def row(problem, method, seed, wrong, cv, component_counts=None):
    component_counts = component_counts or list(range(1, len(wrong) + 1))
    row = {"problem": problem, "method": method, "seed": seed, "wrong": wrong, "n_test": 100}
    return {**row, "cv_dimension": cv, "dimensions": component_counts}


def test_both_readings_of_a_row():
    rows = [row("digits", "LFDA", 2, [9, 4, 6], 3), row("digits", "LFDA", 1, [8, 5, 5], 1)]
    best, cv = (estimate_errors(rows, reading)["digits", "LFDA"] for reading in ("best", "cv"))
    np.testing.assert_array_equal(best.splits, [1, 2])
    np.testing.assert_array_equal(best.errors, [5, 4])
    np.testing.assert_array_equal(best.component_counts, [2, 2])
    np.testing.assert_array_equal(cv.errors, [8, 6])
    np.testing.assert_array_equal(cv.component_counts, [1, 3])
    # A dimension that the full training set does not have: the largest one below it.
    rows = [row("digits", "NCA", 1, [9, 4], 20, component_counts=[5, 10])]
    assert estimate_errors(rows, "cv")["digits", "NCA"].component_counts == [10]


def test_costs_are_medians_over_splits():
    costs = [(0.5, 10.0), (400.0, 12.0), (0.7, 90.0)]  # the second run was paused
    rows = [
        {**row("digits", "LFDA", seed, [9], 1), "fit_seconds": seconds, "fit_mib": mib}
        for seed, (seconds, mib) in enumerate(costs)
    ]
    assert compute_fit_costs(rows) == {("digits", "LFDA"): (0.7, 12.0)}
    assert "| LFDA | 0.700 s, 12 MiB |" in cost_table(rows, ["digits"], ["LFDA"])


def test_best_methods_are_found_by_tests_for_many_comparisons():
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 3.0, size=20)
    methods = {
        "best": estimate(base),
        "always a little worse": estimate(base + 0.3 + 0.05 * rng.normal(size=20)),
        "as good": estimate(base + 0.05 + rng.normal(size=20)),
        "equal": estimate(base.copy()),
        "shifted": estimate(base + 1.0),
    }
    assert find_best_methods(methods) == {"best", "as good", "equal"}
    assert not compare_errors([(methods["best"], methods["as good"])])[0].is_significant
    # Only common splits are compared; with fewer than two of them there is no tie.
    first, second = estimate([1, 2, 3, 90]), estimate([2.0, 3.0, 4.1], [0, 1, 2])
    assert compare_errors([(first, second)])[0].is_significant
    assert find_best_methods({"a": estimate([1, 2, 3]), "b": estimate([2.5], [0])}) == {"a"}
    assert find_best_methods({}) == set()


def test_comparisons_are_adjusted_for_the_number_of_methods():
    """A difference with p = 0.03 is significant alone, and not among ten others."""
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 1.0, size=20)
    noise = rng.normal(size=(11, 20))
    noise -= noise.mean(axis=1)[:, None]
    methods = {"best": estimate(base), "worse": estimate(base + 0.5 * noise[0] + 0.19)}
    assert 0.01 < compare_errors([(*methods.values(),)])[0].p_splits < 0.05
    assert find_best_methods(methods) == {"best"}
    others = {str(i): estimate(base + 0.01 + noise[i]) for i in range(1, 11)}
    assert "worse" in find_best_methods({**methods, **others})


def test_marks_of_the_paper_are_by_an_unpaired_test():
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 3.0, size=20)
    methods = {"best": estimate(base), "shifted": estimate(base + 1.0), "far": estimate(base + 9.0)}
    assert find_best_unpaired(methods) == {"best", "shifted"}
    assert find_best_methods(methods) == {"best"}
    assert find_best_unpaired({}) == set()


def test_published_results_are_those_of_the_paper():
    assert find_published("semeion", "MPDA") == PublishedResult(8.86, 22.45, True)
    assert find_published("face_detection_equalized", "PMPDA").error == 1.64
    assert find_published("coil100", "PMPDA") is None
    assert find_published("digits", "MPDA") is None
    counts = {name: len(cells) for name, cells in read_published()["table2"]["rows"].items()}
    assert counts.pop("LSDR") == counts.pop("PMPDA") == 5
    assert set(counts.values()) == {7}


def test_tables_mark_the_best_and_compare_with_the_paper():
    rows = []
    for seed in range(1, 11):
        rows.append(row("vehicle", "LFDA", seed, [30, 20 + seed % 3], 1))
        rows.append(row("vehicle", "PCA", seed, [40 + seed % 3, 38], 2))
        rows.append(row("vehicle", "NCA", seed, [15 + seed % 3], 1))
    estimates = estimate_errors(rows, "best")
    lines = error_table(estimates, ["vehicle"], ["LFDA", "PCA", "NCA", "MPDA"]).splitlines()
    assert lines[2:] == [
        "| LFDA | 21.00 ± 0.82 (2.0) † |",
        "| PCA | 38.00 ± 0.00 (2.0) |",
        "| NCA | **16.00 ± 0.82 (1.0)** |",
        "| MPDA |  |",
    ]
    comparison = comparison_table(estimates, ["vehicle"], ["LFDA", "NCA"]).splitlines()
    numbers = "21.00 | 20.42 to 21.58 | 19.63 | +1.37 | 2.0 | 10.65 | ours is higher"
    assert comparison[2:] == [f"| Vehicle | LFDA | {numbers} |"]
    assert comparison_table(estimates, ["vehicle"], ["NCA"]) == ""
    for spread, verdict in ((1, "agrees"), (12, "not precise enough")):
        wrong = [20 + spread, 20 - spread, 20 + spread, 20 - spread]
        near = [row("vehicle", "LFDA", seed, [n], 1) for seed, n in enumerate(wrong, start=1)]
        table = comparison_table(estimate_errors(near, "best"), ["vehicle"], ["LFDA"])
        assert table.splitlines()[2].endswith(f"| {verdict} |")
    table = summary_csv(rows).splitlines()
    assert len(table) == 7
    assert "vehicle,LFDA,best,10,21.0000" in table[1]


def test_significant_differences_are_bold():
    rows = [
        *(row("digits", "MPDA", seed, [5 + seed % 2], 1) for seed in range(6)),
        *(row("digits", "LFDA", seed, [9 + (seed + 1) % 2], 1) for seed in range(6)),
        *(row("digits", "LFDA ridge", seed, [4 + 3 * (seed % 2)], 1) for seed in range(6)),
    ]
    estimates = estimate_errors(rows, "cv")
    text = difference_table(estimates, ["digits", "semeion"], ["MPDA", "LFDA", "LFDA ridge"])
    assert "| MPDA minus LFDA | **-4.00** |  |" in text
    assert "| MPDA minus LFDA ridge | +0.00 |  |" in text


def test_ratios_to_the_best_method_without_refinement():
    errors = {
        "LDA": (2.0, 8.0, 9.0, 5.0),
        "PCA": (4.0, 4.0, 10.0, 4.0),
        "MPDA tuned refined": (1.0, 4.0, 18.0, 2.0),
        "NCA from MPDA": (0.5, 1.0, 1.0),
    }
    problems = ["coil20", "face_detection", "face_detection_equalized", "vehicle"]
    estimates = {
        (problem, name): estimate([value, value])
        for name, values in errors.items()
        for problem, value in zip(problems, values, strict=False)
    }
    text = ratio_table(estimates, problems, [*errors])
    assert "| best without refinement | LDA | PCA | LDA | PCA |  |  |" in text
    # The faces count once, with sqrt(1 * 2): (0.5 * sqrt(2) * 0.5)^(1/3).
    typical = (0.25 * 2**0.5) ** (1 / 3)
    line = f"| MPDA tuned refined | 0.50 | 1.00 | 2.00 | 0.50 | {typical:.3f} (3) | 0.71 to 0.71 |"
    assert line in text
    assert "| NCA from MPDA | 0.25 | 0.25 | 0.11 |  | " in text
    assert ratio_table(estimates, problems, ["LDA", "PCA"]) == ""
    assert ratio_table(estimates, problems, ["NCA from MPDA"]) == ""


def test_interval_of_a_ratio_is_that_of_drawn_splits():
    estimates = {
        ("digits", "LDA"): estimate([10.0, 12.0, 8.0, 10.0]),
        ("digits", "MPDA refined"): estimate([5.0, 6.0, 4.0, 5.0]),
        ("digits", "PCA refined"): estimate([8.0, 2.0, 2.0, 8.0]),
    }
    text = ratio_table(estimates, ["digits"], ["LDA", "MPDA refined", "PCA refined"])
    # Half the error on every split is half the error of every draw.
    assert "| MPDA refined | 0.50 | 0.500 (1) | 0.50 to 0.50 |" in text
    line = next(line for line in text.splitlines() if line.startswith("| PCA refined | 0.50"))
    low, high = map(float, re.search(r"([\d.]+) to ([\d.]+)", line).groups())
    # The rarest draws have ratios of 0.2 and 0.8.
    assert 0.15 < low < 0.35
    assert 0.65 < high < 0.85


def test_ranks_count_versions_of_one_data_set_once():
    errors = {"LDA": (1.0, 4.0, 9.0, 5.0), "PCA": (2.0, 7.0, 7.0, 4.0), "MFA": (3.0, 9.0, 5.0, 5.0)}
    problems = ["coil20", "face_detection", "face_detection_equalized", "vehicle"]
    estimates = {
        (problem, name): estimate([value, value])
        for name, values in errors.items()
        for problem, value in zip(problems, values, strict=True)
    }
    del estimates["coil20", "MFA"]  # without all problems a method has no rank
    comparison = rank_methods(estimates, problems, [*errors])
    assert comparison.methods == ("LDA", "PCA")
    assert comparison.n_problems == 3
    # Faces: 6.5 and 7 on average, so LDA is first on two sets of three.
    np.testing.assert_allclose(comparison.ranks, [4 / 3, 5 / 3])
    text = rank_table(comparison)
    assert "| LDA | 1.33 |  |" in text
    assert "| PCA | 1.67 | 0.56 |" in text  # z = 0.333 / sqrt(1 / 3)
    assert "Data sets: 3." in text
    assert rank_methods(estimates, problems[1:3], [*errors]) is None


def test_pairs_that_are_compared_together_are_adjusted_together():
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 1.0, size=20)
    noise = rng.normal(size=(2, 20))
    noise -= noise.mean(axis=1)[:, None]
    clear, weak = estimate(base + 1.0 + noise[0]), estimate(base + 0.4 + noise[1])
    alone = [compare_errors([(estimate(base), other)])[0] for other in (clear, weak)]
    together = compare_errors([(estimate(base), clear), (estimate(base), weak)])
    p_values = [comparison.p_splits for comparison in alone]
    assert [comparison.p_adjusted for comparison in alone] == p_values
    # Holm: the smaller of two p-values is doubled, the larger one stays.
    assert p_values[0] < p_values[1]
    assert [comparison.p_adjusted for comparison in together] == [2 * p_values[0], p_values[1]]
