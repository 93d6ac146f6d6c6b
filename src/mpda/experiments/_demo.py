"""The machinery of the experiments on the bundled digits: a table and a picture in a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from mpda import MPDA
from mpda.assessment import format_error_table
from mpda.experiments import _figures
from mpda.experiments._contenders import CONTENDERS
from mpda.experiments._experiments import Order, Outcome, reproduce
from mpda.experiments._protocol import PROBLEMS, SEEDS, split
from mpda.experiments._store import Row

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
    order = list(CONTENDERS)
    sorted_rows = sorted(rows, key=lambda row: order.index(row["method"]))
    return "\n".join(
        [
            f"digits: 1797 images of 64 pixels, {N_SPLITS} splits, 25 % training; components and",
            "parameters by cross-validation on the training part",
            "",
            *format_error_table(sorted_rows, "test error"),
            "",
            "* the least error, and what a paired t-test at 0.05 does not tell from it",
        ]
    )
