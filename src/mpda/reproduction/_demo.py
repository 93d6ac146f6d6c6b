"""The machinery of the experiments on the bundled digits: a table and a picture in a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np

from mpda import MPDA
from mpda.assessment import cells, costs
from mpda.reproduction import _figures
from mpda.reproduction._contenders import CONTENDERS
from mpda.reproduction._experiments import Order, Outcome, reproduce
from mpda.reproduction._protocol import PROBLEMS, SEEDS, split
from mpda.reproduction._store import Row

METHODS = ("1-NN", "PCA", "LDA", "LFDA", "LFDA ridge", "MPDA")
N_SPLITS = 10


def demo(out: Path, jobs: int, progress: TextIO | None) -> Outcome:
    """Errors on the digits of scikit-learn, the dimension chosen on the training part."""
    order = Order(out, ["digits"], METHODS, N_SPLITS, jobs, progress=progress)
    outcome = reproduce("table2", order)
    rows = outcome.rows
    part = split(PROBLEMS["digits"], None, SEEDS[0])
    Z = MPDA(2).fit(part.X, part.y).transform(part.X_test)
    figure = _figures.demo_figure(Z, part.y_test, rows)
    files = [*_figures.save(figure, out, "digits"), *outcome.files]
    return replace(outcome, text=_table(rows), files=files)


def _table(rows: Sequence[Row]) -> str:
    """One line a method: what a newcomer wants to know."""
    found, cost = cells(rows, "cv"), costs(rows)
    baseline = found["digits", "1-NN"].mean
    lines = [
        f"digits: 1797 images of 64 pixels, {N_SPLITS} splits, 25 % training; components and",
        "parameters by cross-validation on the training part",
        "",
        f"{'':12}{'test error':>16}{'beside 1-NN':>13}{'components':>12}{'fit':>10}",
    ]
    for name in (name for name in CONTENDERS if name in METHODS):
        cell = found["digits", name]
        seconds, _ = cost.get(("digits", name), (np.nan, np.nan))
        fit = "" if np.isnan(seconds) else f"{1000 * seconds:.0f} ms"
        gain = "" if name == "1-NN" else f"{cell.mean - baseline:+.2f}"
        error = f"{cell.mean:.2f} ± {cell.spread:.2f} %"
        lines.append(f"{name:12}{error:>16}{gain:>13}{cell.dimensions.mean():12.1f}{fit:>10}")
    return "\n".join(lines)
