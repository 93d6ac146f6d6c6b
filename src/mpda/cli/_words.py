"""What commands say of samples and results, and the files that they write."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpda.cli._app import note

if TYPE_CHECKING:
    from mpda.tables import Table

STAR = "* the least, and what a paired t-test at 0.05 does not tell from it"


def wrapped(text: str) -> str:
    """Text in lines that are easy to read."""
    return textwrap.fill(text, 96)


def how_measured(n_folds: int) -> str:
    return (
        f"{n_folds}-fold nested cross-validation: inner folds choose the number of components and "
        "what else is open, outer folds measure the error of 1-NN; ± is the standard deviation "
        "over outer folds"
    )


def about(table: Table) -> str:
    """One line on the samples."""
    import numpy as np

    shape = f"{len(table.X)} samples, {table.X.shape[1]} features"
    if table.y is None:
        return f"{table.name}: {shape}"
    return f"{table.name}: {shape}, {len(np.unique(table.y))} classes ({table.label})"


def check_classes(table: Table, quiet: bool) -> None:
    """Refuse samples of one class, or all of different ones; say which classes are tiny."""
    import numpy as np

    from mpda.exceptions import TableError

    labels, counts = np.unique(table.labels, return_counts=True)
    if labels.size < 2:
        raise TableError(
            f"All {len(table.X)} samples have the label {labels[0]!s}; classes are separated, so "
            "at least two are needed."
        )
    if counts.max() < 2:
        raise TableError(
            f"Every sample has a label of its own in {table.label!r}: that names samples, not "
            "classes. Is another column meant?"
        )
    small = [str(label) for label in labels[counts < 5].tolist()]
    if small:
        shown = ", ".join(small[:5]) + (f" and {len(small) - 5} more" if len(small) > 5 else "")
        note(f"note: fewer than 5 samples of {shown}; little can be said about them", quiet)


def write_outputs(found: dict[str, Any], results: Path | None, report: Path | None) -> list[Path]:
    from mpda.report import write_page, write_results

    written = []
    if results is not None:
        written.append(write_results(found, results))
    if report is not None:
        written.append(write_page(found, report))
    return written


def said(found: dict[str, Any], written: list[Path]) -> dict[str, Any]:
    """Results without what only a picture needs, and the files that were written."""
    kept = {name: part for name, part in found.items() if name not in ("embedding", "partition")}
    if "model" in kept:
        left_out = ("weights", "features", "image_shape")
        kept["model"] = {k: v for k, v in kept["model"].items() if k not in left_out}
    return {**kept, "files": [str(path) for path in written]}
