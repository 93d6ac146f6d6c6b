"""From rows to tables: both readings, intervals, ties, and the paper's numbers."""

import re

import numpy as np
from scipy import stats

from mpda.assessment import (
    ErrorEstimate,
    compute_fit_costs,
    differ_significantly,
    estimate_errors,
    find_best_methods,
)
from mpda.experiments._summary import published, published_cell
from mpda.experiments._tables import (
    comparison,
    cost_table,
    difference_table,
    error_table,
    summary_csv,
)


def cell(errors, seeds=None):
    errors = np.asarray(errors, dtype=float)
    return ErrorEstimate(
        np.arange(errors.size) if seeds is None else np.asarray(seeds), errors, errors
    )


def row(problem, method, seed, wrong, cv, n_test=100, dimensions=None):
    dimensions = dimensions or list(range(1, len(wrong) + 1))
    return {
        **{"problem": problem, "method": method, "seed": seed, "wrong": wrong},
        **{"n_test": n_test, "cv_dimension": cv, "dimensions": dimensions},
    }


def test_both_readings_of_a_row():
    rows = [row("digits", "LFDA", 2, [9, 4, 6], 3), row("digits", "LFDA", 1, [8, 5, 5], 1)]
    best, cv = (
        estimate_errors(rows, "best")["digits", "LFDA"],
        estimate_errors(rows, "cv")["digits", "LFDA"],
    )
    np.testing.assert_array_equal(best.seeds, [1, 2])
    np.testing.assert_array_equal(best.errors, [5, 4])
    np.testing.assert_array_equal(best.dimensions, [2, 2])
    np.testing.assert_array_equal(cv.errors, [8, 6])
    np.testing.assert_array_equal(cv.dimensions, [1, 3])
    # A dimension that the whole training part does not have: the largest below it.
    rows = [row("digits", "NCA", 1, [9, 4], 20, dimensions=[5, 10])]
    assert estimate_errors(rows, "cv")["digits", "NCA"].dimensions == [10]


def test_a_pause_is_no_time_of_a_fit():
    """A run that was halted and went on has one fit that seems to have taken minutes."""
    cost = [(0.5, 10.0), (400.0, 12.0), (0.7, 90.0)]
    rows = [
        {**row("digits", "LFDA", seed, [9], 1), "fit_seconds": seconds, "fit_mib": mib}
        for seed, (seconds, mib) in enumerate(cost)
    ]
    assert compute_fit_costs(rows) == {("digits", "LFDA"): (0.7, 12.0)}
    assert "| LFDA | 0.700 s, 12 MiB |" in cost_table(rows, ["digits"], ["LFDA"])


def test_intervals_are_students():
    errors = np.array([3.0, 4.0, 6.0, 7.0])
    low, high = cell(errors).interval
    expected = stats.t.interval(0.95, 3, loc=5.0, scale=stats.sem(errors))
    np.testing.assert_allclose((low, high), expected)


def test_ties_are_by_a_paired_test():
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 3.0, size=20)
    found = {
        "best": cell(base),
        "always a little worse": cell(base + 0.3 + 0.05 * rng.normal(size=20)),
        "as good": cell(base + 0.05 + rng.normal(size=20)),
        "the same": cell(base.copy()),
        "shifted": cell(base + 1.0),
    }
    assert find_best_methods(found) == {"best", "as good", "the same"}
    pvalue = stats.ttest_rel(found["best"].errors, found["as good"].errors).pvalue
    assert differ_significantly(found["best"], found["as good"]) == (pvalue < 0.05)
    # Only splits that both have are compared.
    assert differ_significantly(cell([1, 2, 3, 90]), cell([2.0, 3.0, 4.1], seeds=[0, 1, 2]))
    # Where two have no two splits in common, nothing says that they tie.
    assert find_best_methods({"a": cell([1, 2, 3]), "b": cell([2.5], seeds=[0])}) == {"a"}
    assert find_best_methods({}) == set()


def test_published_numbers_are_there_with_table_and_row():
    assert published_cell("semeion", "MPDA") == {"error": 8.86, "dimension": 22.45, "best": True}
    assert published_cell("face_detection_equalized", "PMPDA")["error"] == 1.64
    assert published_cell("coil100", "PMPDA") is None
    assert published_cell("digits", "MPDA") is None
    assert published_cell("vehicle", "LFDA")["best"]
    counts = {name: len(cells) for name, cells in published()["table2"]["rows"].items()}
    assert counts.pop("LSDR") == counts.pop("PMPDA") == 5
    assert set(counts.values()) == {7}


def test_tables_mark_the_best_and_show_the_papers_numbers():
    rows = []
    for seed in range(1, 11):
        jitter = seed % 3
        rows.append(row("vehicle", "LFDA", seed, [30, 20 + jitter], 1))
        rows.append(row("vehicle", "PCA", seed, [40 + jitter, 38], 2))
        rows.append(row("vehicle", "NCA", seed, [15 + jitter], 1))
    found = estimate_errors(rows, "best")
    text = error_table(found, ["vehicle"], ["LFDA", "PCA", "NCA", "MPDA"])
    lines = dict(line.strip("| ").split(" | ", 1) for line in text.splitlines()[2:5])
    assert re.fullmatch(r"21\.00 ± 0\.82 \(2\.0\) †", lines["LFDA"])
    assert re.fullmatch(r"\*\*16\.00 ± 0\.82 \(1\.0\)\*\*", lines["NCA"])
    assert re.fullmatch(r"38\.00 ± 0\.00 \(2\.0\)", lines["PCA"])
    beside = comparison(found, ["vehicle"], ["LFDA", "PCA", "NCA"])
    assert "| Vehicle | LFDA | 21.00 | 20.42 to 21.58 | 19.63 | +1.37 | 2.0 | 10.65 |" in beside
    assert beside.splitlines()[2].endswith("ours is higher |")
    assert "NCA" not in beside
    table = summary_csv(rows).splitlines()
    assert len(table) == 7
    assert "vehicle,LFDA,best,10,21.0000" in table[1]


def test_differences_are_marked_where_a_test_tells_them_apart():
    rows = [
        *(row("digits", "MPDA", seed, [5 + seed % 2], 1) for seed in range(6)),
        *(row("digits", "LFDA", seed, [9 + (seed + 1) % 2], 1) for seed in range(6)),
        *(row("digits", "LFDA ridge", seed, [4 + 3 * (seed % 2)], 1) for seed in range(6)),
    ]
    found = estimate_errors(rows, "cv")
    text = difference_table(found, ["digits", "semeion"], ["MPDA", "LFDA", "LFDA ridge"])
    assert "| MPDA beside LFDA | **-4.00** |  |" in text
    assert "| MPDA beside LFDA ridge | +0.00 |  |" in text
    assert "tuned" not in text
    assert difference_table(found, ["digits"], ["PCA", "LDA"]) == ""
