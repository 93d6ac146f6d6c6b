"""What commands say of samples and results, and the files that they write."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpda.cli._app import stop

if TYPE_CHECKING:
    from mpda.assessment import FoldResult, SelectedModel
    from mpda.io.tables import Table

STAR = (
    "* the least, and what a paired t-test at 0.05, corrected for folds that share samples, does "
    "not tell from it"
)


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


def check_classes(table: Table, folds: int) -> list[str]:
    """Refuse samples that nothing can be learnt or measured of; what should be known of others."""
    import numpy as np

    from mpda.exceptions import TableError

    labels, counts = np.unique(table.labels, return_counts=True)
    if labels.size < 2:
        raise TableError(
            f"All {len(table.X)} samples have the label {shown(labels[0])}; classes are separated, "
            "so at least two are needed."
        )
    if counts.max() < 2:
        raise TableError(
            f"Every sample has a label of its own in {table.label!r}: that names samples, not "
            "classes. Is another column meant?"
        )
    if (table.X[0] == table.X).all():
        raise TableError("All samples have the same features, so nothing can be learnt from them.")
    if folds > counts.max():
        raise TableError(
            f"--folds {folds} is more than the largest class has samples, {counts.max()}: give "
            "fewer folds, or --folds 0 to fit without measuring the error."
        )
    notes = []
    few = max(folds, 2)
    small = [shown(label) for label in labels[counts < few].tolist()]
    if small:
        more = f" and {len(small) - 5} more" if len(small) > 5 else ""
        notes.append(
            f"fewer than {few} samples of {', '.join(small[:5])}{more}; little can be said about "
            "them"
        )
    n_copies = len(table.X) - len(np.unique(_rows_as_bytes(table.X)))
    if n_copies:
        copies = "1 sample is a copy" if n_copies == 1 else f"{n_copies} samples are copies"
        notes.append(
            f"{copies} of others; where a fold tests a copy of what it learnt from, the error is "
            "flattered"
        )
    return notes


def _rows_as_bytes(X: Any) -> Any:
    import numpy as np

    rows = np.ascontiguousarray(X) + 0.0  # -0 is 0
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def shown(label: Any) -> str:
    """A label in a line of text."""
    from mpda.plotting.styles import shorten

    return shorten(str(label), 30)


def sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].rstrip('.')}."


def refuse_input_as_output(data: Path, *outputs: Path | None) -> None:
    for path in outputs:
        if path is not None and path.exists() and data.exists() and path.samefile(data):
            stop(f"mpda: {path} is the file that is read; name another one to write.", 2)


def model_results(
    title: str,
    command: str,
    summary: list[str],
    table: Table,
    method: str,
    rows: list[FoldResult],
    chosen: SelectedModel,
    shape: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Rows of a comparison, and all about the model of one of its methods."""
    import numpy as np

    from mpda.report import collect

    n_folds = len({row["seed"] for row in rows})
    own = [row for row in rows if row["method"] == method]
    predicted = None
    if own:
        tested = np.concatenate([row["tested"] for row in own])
        predicted = np.concatenate([row["predicted"] for row in own])[np.argsort(tested)]
    before = chosen.model[: -1 if chosen.model.steps[-1][0] == "neighbors" else None]
    Z = np.asarray(before.transform(table.to_frame()))
    last = before.steps[-1][1]
    how = f"{method}: the {len(Z)} samples that the map was fitted to; new ones scatter more"
    sections: dict[str, Any] = {
        "data": collect.collect_data(table),
        "model": collect.collect_model(chosen.model, table, shape),
        "embedding": collect.collect_embedding(
            Z, table, last.get_feature_names_out().tolist(), how, predicted
        ),
    }
    if rows:
        sections["comparison"] = collect.collect_comparison(
            rows, how_measured(n_folds), {"": table.name}
        )
    if predicted is not None:
        how = f"{method}, 1-NN on samples left out, {n_folds}-fold cross-validation"
        sections["confusion"] = collect.collect_confusion(table.labels, predicted, how)
    if hasattr(last, "patch_labels_"):
        inner = before[:-1].transform(table.to_frame()) if len(before.steps) > 1 else table.X
        sections["partition"] = collect.collect_partition(
            np.asarray(inner), table.labels, last.patch_labels_, last.patch_linearity_
        )
    return collect.collect_results(title, command, summary, sections)


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
