"""From rows to what a table says: means, spreads, ties and costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda._lib.array_types import Floats, Ints
from mpda.plotting import ErrorCurve
from mpda.plotting._curve import curve_of_folds, half_width

FoldResult = dict[str, Any]


@dataclass(frozen=True)
class ErrorEstimate:
    """Errors in per cent and dimensions by split, in the order of the seeds.

    shared : test over training samples, where splits share samples and tests are to know it, as
        folds of a cross-validation; 0 for the plain t-test of the paper
    """

    seeds: Ints
    errors: Floats
    dimensions: Floats
    shared: float = 0.0

    @property
    def mean(self) -> float:
        return float(self.errors.mean())

    @property
    def spread(self) -> float:
        """Standard deviation over splits."""
        return float(self.errors.std(ddof=1)) if self.errors.size > 1 else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """95 % for the mean, by Student's t over splits."""
        n = self.errors.size
        half = half_width(self.spread, n, self.shared)
        return self.mean - half, self.mean + half


ErrorEstimates = Mapping[tuple[str, str], ErrorEstimate]


def estimate_errors(
    rows: Iterable[FoldResult], reading: str
) -> dict[tuple[str, str], ErrorEstimate]:
    """One for each problem and method."""
    found: dict[tuple[str, str], list[tuple[int, float, int]]] = defaultdict(list)
    shared: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        wrong = np.array(row["wrong"])
        place = int(wrong.argmin()) if reading == "best" else _chosen(row)
        error = 100.0 * wrong[place] / row["n_test"]
        found[row["problem"], row["method"]].append((row["seed"], error, row["dimensions"][place]))
        shared[row["problem"], row["method"]].append(row.get("test_share", 0.0))
    made = {}
    for key, values in found.items():
        seeds, errors, dimensions = zip(*sorted(values), strict=True)
        numbers = np.array(seeds), np.array(errors), np.array(dimensions, dtype=float)
        made[key] = ErrorEstimate(*numbers, float(np.mean(shared[key])))
    return made


def _chosen(row: FoldResult) -> int:
    """The place of the chosen dimension, or of the largest there is below it."""
    return int(np.searchsorted(row["dimensions"], row["cv_dimension"], side="right")) - 1


def find_best_methods(cells: Mapping[str, ErrorEstimate]) -> set[str]:
    """The method of the least mean error, and those that a paired t-test does not tell from it."""
    if not cells:
        return set()
    best = min(cells, key=lambda name: cells[name].mean)
    return {
        name for name in cells if name == best or not differ_significantly(cells[name], cells[best])
    }


def differ_significantly(one: ErrorEstimate, other: ErrorEstimate) -> bool:
    """Whether the errors of two methods on the same splits differ, at the level 0.05.

    With fewer than two common splits nothing speaks for a tie. Where splits share training samples
    their variance is corrected (Nadeau and Bengio, 2003).
    """
    common, i, j = np.intersect1d(one.seeds, other.seeds, return_indices=True)
    gaps = one.errors[i] - other.errors[j]
    if common.size < 2:
        return True
    if np.ptp(gaps) < 1e-9:  # the same gap everywhere, but for rounding
        return bool(np.abs(gaps).max() >= 1e-9)
    half = half_width(gaps.std(ddof=1), common.size, max(one.shared, other.shared))
    return bool(abs(gaps.mean()) > half)


def compute_fit_costs(rows: Sequence[FoldResult]) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds and MiB of a fit by problem and method, the medians; nan MiB where not measured.

    A mean would take a pause of the machine, or of the run, for the time of a fit.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if "fit_seconds" in row:
            memory = row.get("fit_mib", np.nan)
            found[row["problem"], row["method"]].append((row["fit_seconds"], memory))
    middle = {key: np.median(values, axis=0) for key, values in found.items()}
    return {key: (float(seconds), float(mib)) for key, (seconds, mib) in middle.items()}


def compute_error_curves(rows: Iterable[FoldResult]) -> dict[tuple[str, str], ErrorCurve]:
    """One for each problem and method, at the numbers of components that all splits have."""
    found: dict[tuple[str, str], list[dict[int, float]]] = defaultdict(list)
    shared: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        errors = np.array(row["wrong"]) / row["n_test"]
        shared[row["problem"], row["method"]].append(row.get("test_share", 0.0))
        found[row["problem"], row["method"]].append(
            dict(zip(row["dimensions"], errors.tolist(), strict=True))
        )
    made = {}
    for key, curves in found.items():
        common = sorted(set.intersection(*(set(curve) for curve in curves)))
        errors = np.array([[curve[r] for r in common] for curve in curves])
        numbers = np.array(common, dtype=np.float64), errors
        made[key] = curve_of_folds(key[1], *numbers, shared=float(np.mean(shared[key])))
    return made
