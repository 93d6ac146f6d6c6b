"""Measures of retrieval on the page: raw vectors and maps, classes that were seen and not seen.

The section "retrieval" of the results has the text "how" and one dictionary for each kind of
search in ``SEARCHES``. It holds a row for each kind of vectors: "raw", and "map" or the names of
several methods.
"""

import math
from collections.abc import Mapping
from typing import Any

from mpda.assessment.retrieval_estimates import MEASURES, MeanEstimate, RetrievalEstimate

# Bytes of a number in float32, in which vector stores keep vectors.
_N_BYTES = 4
SEARCHES = {
    "seen": "classes of the fit",
    "test": "samples of --test",
    "among_rows": "among other rows",
    "among_fit": "among samples of the fit",
    "unseen": "classes not seen, among themselves",
    "unseen_among_all": "classes not seen, among all",
}
"""Captions of the kinds of searches."""
TITLES = {
    "recall_at_1": "recall@1",
    "recall_at_5": "recall@5",
    "recall_at_10": "recall@10",
    "precision_at_10": "precision@10",
    "map_at_r": "MAP@R",
}
"""Names of the measures."""
MEANING = (
    "recall@k: share of queries with a sample of their class among the k nearest. precision@k: "
    "share of the k nearest that have the class of the query. MAP@R: the same for as many nearest "
    "as the class has samples, where the first ones count more; 1 is best."
)
"""Explanation of the measures."""


def collect_retrieval(estimate: RetrievalEstimate, method: str, n_numbers: float) -> dict[str, Any]:
    """Collect the measures of one kind of vectors.

    Parameters
    ----------
    estimate : RetrievalEstimate
        Measures with their intervals.
    method : str
        Name of the method.
    n_numbers : float
        Numbers of a vector, the mean where folds differ.

    Returns
    -------
    dict
        A row of the section "retrieval". The bytes are those of float32. Numbers are None where no
        query counts.
    """
    row = {
        "method": method,
        "numbers": n_numbers,
        "bytes": round(_N_BYTES * n_numbers),
        "n_queries": estimate.n_queries,
        **{name: _collect_mean(estimate.measures[name]) for name in MEASURES},
    }
    if estimate.differences:
        gaps = {name: _collect_mean(gap) for name, gap in estimate.differences.items()}
        row["difference_from_raw"] = gaps
    return row


def _collect_mean(mean: MeanEstimate) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in vars(mean).items()}


def compare_with_raw(row: Mapping[str, Any], measure: str) -> str:
    """Say whether a measure is higher or lower than that of the raw vectors.

    Parameters
    ----------
    row : mapping
        Row of the section "retrieval".
    measure : str
        Name of the measure.

    Returns
    -------
    str
        "higher" or "lower" if the 95 % interval of the difference is on one side of zero, else
        empty.
    """
    gap = row.get("difference_from_raw", {}).get(measure, {})
    if gap.get("low") is None:
        return ""
    return "higher" if gap["low"] > 0.0 else "lower" if gap["high"] < 0.0 else ""
