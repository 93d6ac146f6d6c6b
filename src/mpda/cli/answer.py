"""The short answer of ``mpda fit``: does the map help, by how much, and what to do next.

At most twelve lines with those on standard error. ``--details`` prints everything instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpda.cli import messages
from mpda.cli.model_results import MeasuredModel
from mpda.cli.retrieval_results import retrieval_lines
from mpda.cli.stored_vectors import summarize_storage

if TYPE_CHECKING:
    from mpda.assessment import ErrorEstimate, StorageChoice

# Lines of the answer and of the notes, without the one that names the files.
_MOST_LINES = 11
_MOST_NOTES = 2


def make_answer(
    measured: MeasuredModel,
    verdict: Sequence[str],
    outcome: Sequence[str],
    storage: StorageChoice | None,
    notes: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Return the lines of the answer and the notes that fit below them.

    Parameters
    ----------
    measured : MeasuredModel
        The model and the errors.
    verdict : sequence of str
        Sentences on the errors: the verdict first, the next step last.
    outcome : sequence of str
        Sentences on the samples of ``--test``.
    storage : StorageChoice or None
        The choice for ``--bytes``.
    notes : sequence of str
        Notes on the data and the fit.

    Returns
    -------
    lines : list of str
        For standard output.
    notes : list of str
        For standard error.
    """
    head = [*_wrap(verdict[0]), *_format_errors(measured)]
    search = retrieval_lines(measured.retrieval, sizes=storage is None)
    seen, unseen = search[:1], search[1:]
    stored = [] if storage is None else [summarize_storage(storage, measured.table.n_features)]
    asked = [*stored, *outcome]  # by an option, and always printed
    balanced = measured.balanced_summary
    about = [_describe_samples(measured), _describe(measured)]
    candidates = notes[:_MOST_NOTES]
    if measured.table.embedding is not None:
        by_importance = [*unseen, *seen, *balanced, *candidates, *about]
    else:
        by_importance = [*unseen, *balanced, *candidates, *about, *seen]
    n_left = _MOST_LINES - len(head) - len(_wrap(_end(verdict[-1], len(notes))))
    n_left -= sum(len(_wrap(text)) for text in asked)
    kept = set(asked)
    for text in by_importance:
        n_lines = 1 if text in candidates else len(_wrap(text))  # a note is not wrapped
        if n_lines <= n_left:
            n_left -= n_lines
            kept.add(text)
    body = [*seen, *unseen, *asked, *balanced, *about]
    lines = [line for text in body if text in kept for line in _wrap(text)]
    shown = [note for note in candidates if note in kept]
    return [*head, *lines, *_wrap(_end(verdict[-1], len(notes) - len(shown)))], shown


def _end(next_step: str, n_hidden: int) -> str:
    """Return the next step, and the option that prints the rest."""
    notes = f", {n_hidden} note{'' if n_hidden == 1 else 's'}" if n_hidden else ""
    return f"{next_step} Tests, settings{notes}: --details."


def _wrap(text: str) -> list[str]:
    return messages.wrap(text).splitlines()


def _format_errors(measured: MeasuredModel) -> list[str]:
    """Return a table of the errors, with the map first; no lines if none was measured."""
    from mpda.assessment import BASELINE, estimate_errors

    estimates = {key[1]: value for key, value in estimate_errors(measured.rows, "cv").items()}
    if measured.method not in estimates:
        return []
    names = {measured.method: "this map", BASELINE: "the features"}
    order = [measured.method, *(name for name in estimates if name != measured.method)]
    rows = [_format_error(names.get(name, name), estimates[name]) for name in order]
    rows.insert(0, ("", "error", "95 % interval", "numbers"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def _format_error(name: str, estimate: ErrorEstimate) -> tuple[str, str, str, str]:
    low, high = estimate.sample_interval or estimate.interval
    interval = "" if math.isnan(low) else f"{low:.1f} to {high:.1f} %"
    size = f"{estimate.component_counts.mean():.1f}".removesuffix(".0")
    return name, f"{estimate.mean:.2f} %", interval, size


def _describe_samples(measured: MeasuredModel) -> str:
    """Say what the errors are and which samples they are from."""
    table = messages.describe_table(measured.table)
    if not measured.rows:
        return f"{table}."
    n_folds = len({row["fold"] for row in measured.rows})
    return (
        f"Error: share of samples whose nearest neighbour has another class, on {n_folds} folds "
        f"that took no part in the fits; numbers on average over the folds. {table}."
    )


def _describe(measured: MeasuredModel) -> str:
    """Describe the map that is kept."""
    selected = measured.selected
    n_components = selected.selected.n_components
    text = messages.describe_map(measured.map_name, selected.model, n_components)
    chosen = ", chosen by cross-validation" if selected.has_choices else ""
    return f"Kept: {text}{chosen}, {selected.preparation.describe()}."
