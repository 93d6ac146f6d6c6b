"""Demonstration: smaller vectors of sentences that find more, for intents seen and not seen.

Half of the work is for a store whose intents are all labelled: the map is fitted to the training
sentences, and the test sentences search among them. The other half is for intents that nobody has
labelled: a map of the database sees the labels of half of the intents, and the test sentences of
the others search among the training sentences of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA

from mpda import WithinClassWhitening
from mpda.assessment import (
    Contender,
    Split,
    StoredScore,
    make_contender,
    measure_stored_vectors,
)
from mpda.assessment.stored_vectors import RAW, MappedSamples, score_stored
from mpda.experiments.datasets import Intents, load_intents
from mpda.experiments.paper_figures import save_figure
from mpda.io.vector_types import fit_vector_type
from mpda.plotting import BytesDisplay
from mpda.plotting.axes import get_panels
from mpda.report import collect, write_page, write_results
from mpda.report.samples import ReportSamples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = (8, 16, 32, 64)
_TYPES = ("float32", "int8")
# Draws of the intents that have labels.
_N_DRAWS = 3
SEEN, UNSEEN = "MPDA refined", "whitening"
"""Names of the maps for intents that were seen, and for those that were not."""
_LINE = "{:<26}{:>7}  {:>16}  {:>6}"


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration measured.

    Parameters
    ----------
    seen, unseen : list of StoredScore
        Measures of stored vectors, for intents of the fit and for others.
    lines : list of str
        A table and how it was measured.
    files : list of Path
        Files that were written.
    """

    seen: list[StoredScore]
    unseen: list[StoredScore]
    lines: list[str]
    files: list[Path]


def demo(
    out: Path,
    command: str = "mpda demo",
    progress: Callable[[str], Any] = lambda text: None,
) -> Demonstration:
    """Map the bundled sentence embeddings, measure searches, and write a figure and a page.

    Parameters
    ----------
    out : Path
        Directory for the figure, results.json and report.html.
    command : str, default="mpda demo"
        Command line, for the page.
    progress : callable
        Called with a line before each step.

    Returns
    -------
    Demonstration
        Measures, text and files.
    """
    intents = load_intents()
    samples = _split(intents)
    progress("intents of the fit: raw vectors, PCA and refinements of MPDA to 8, 16, 32 and 64")
    methods: list[str | Contender] = [RAW, "PCA", _make_refinement()]
    seen = measure_stored_vectors(samples, methods, NUMBERS, _TYPES, cosine=True)
    progress("intents without labels: maps of the database")
    unseen = measure_unseen_intents(samples)
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{len(intents.labels):,} sentences of {len(set(intents.labels))} intents as vectors of "
        f"{samples.X.shape[1]} numbers (all-MiniLM-L6-v2):",
        "",
        *_format_table(seen, unseen),
        "",
        "Shares in %. Sentences that no fit has seen search among the training sentences. Not in",
        f"the fit: half of the intents had no labels, mean of {_N_DRAWS} draws.",
    ]
    results = _collect_results(intents, seen, unseen, command)
    files = [
        write_page(results, out / "report.html"),
        *save_figure(draw_bytes(seen, unseen), out, "intents"),
        write_results(results, out / "results.json"),
    ]
    return Demonstration(seen, unseen, lines, files)


def _split(intents: Intents) -> Split:
    train, test = ~intents.is_test, intents.is_test
    X: Any = intents.vectors
    y = intents.labels
    return Split(X[train], y[train], X[test], y[test])


def _make_refinement() -> Contender:
    """Return the refinement that draws whole classes together, which MAP@R measures."""
    entry = make_contender(SEEN, search=False)
    return replace(entry, fixed={**entry.fixed, "objective": "class"})


def measure_unseen_intents(samples: Split, n_draws: int = _N_DRAWS) -> list[StoredScore]:
    """Measure searches for classes whose labels no fit has.

    Parameters
    ----------
    samples : Split
        The database and the queries.
    n_draws : int, default=3
        Draws of the half of the classes that have labels.

    Returns
    -------
    list of StoredScore
        Means over the draws: raw vectors, PCA of the database, and its within-class whitening.
    """
    draws = [list(_measure_draw(samples, seed)) for seed in range(n_draws)]
    return [
        replace(
            scores[0],
            recall_at_1=float(np.mean([score.recall_at_1 for score in scores])),
            map_at_r=float(np.mean([score.map_at_r for score in scores])),
        )
        for scores in zip(*draws, strict=True)
    ]


def _measure_draw(samples: Split, seed: int) -> Iterator[StoredScore]:
    classes = np.random.default_rng(seed).permutation(np.unique(samples.y))
    has_label = np.isin(samples.y, classes[: len(classes) // 2])
    known, others = samples.X[has_label], samples.X[~has_label]
    is_query = np.isin(samples.y_test, classes[len(classes) // 2 :])
    searched = Split(
        others, samples.y[~has_label], samples.X_test[is_query], samples.y_test[is_query]
    )
    yield from _score(RAW, searched)
    pca = PCA(max(NUMBERS), svd_solver="covariance_eigh").fit(samples.X)
    projected = MappedSamples(_map_split(pca.transform, searched), has_unit_length=False)
    for r in NUMBERS:
        yield from _score("PCA", projected.cut(r).samples)
    for r in NUMBERS:
        whitening = WithinClassWhitening(r).fit(known, samples.y[has_label], database=others)
        yield from _score(UNSEEN, _map_split(whitening.transform, searched))


def _map_split(transform: Callable[[Any], Any], samples: Split) -> Split:
    return replace(samples, X=transform(samples.X), X_test=transform(samples.X_test))


def _score(method: str, samples: Split) -> Iterator[StoredScore]:
    for name in _TYPES:
        stored = fit_vector_type(samples.X, name)
        sizes = stored.n_numbers, name, stored.n_bytes
        yield StoredScore(method, *sizes, *score_stored(samples, stored, cosine=True))


def find_score(scores: Sequence[StoredScore], method: str, kind: str = "int8") -> StoredScore:
    """Return the score of the largest vectors of a method in a stored type.

    Parameters
    ----------
    scores : sequence of StoredScore
        All scores.
    method : str
        Name of the method.
    kind : str, default="int8"
        Stored type.
    """
    entries = [score for score in scores if (score.method, score.type) == (method, kind)]
    return max(entries, key=lambda score: score.numbers)


def _select_rows(seen: Sequence[StoredScore], unseen: Sequence[StoredScore]) -> Mapping[str, Any]:
    """Return the rows of the table for each kind of intents."""
    groups = {"intents of the fit": (seen, SEEN), "intents not in the fit": (unseen, UNSEEN)}
    return {
        title: [
            find_score(scores, RAW, "float32"),
            find_score(scores, "PCA"),
            find_score(scores, name),
        ]
        for title, (scores, name) in groups.items()
    }


def _format_table(seen: Sequence[StoredScore], unseen: Sequence[StoredScore]) -> list[str]:
    lines = []
    for title, rows in _select_rows(seen, unseen).items():
        lines.append(_LINE.format(title, "bytes", "nearest is right", "MAP@R"))
        for row in rows:
            shares = (f"{100.0 * value:.1f}" for value in (row.recall_at_1, row.map_at_r))
            lines.append(_LINE.format(f"  {row.method}, {row.type}", f"{row.bytes:,}", *shares))
    return lines


def draw_bytes(seen: Sequence[StoredScore], unseen: Sequence[StoredScore]) -> Figure:
    """Draw bytes against quality for intents of the fit, and below for the others.

    Parameters
    ----------
    seen, unseen : sequence of StoredScore
        The scores.

    Returns
    -------
    matplotlib Figure
        The figure.
    """
    panels = get_panels(None, 4, columns=2, width=4.2, height=3.3)
    BytesDisplay(seen).plot(panels[:2])
    BytesDisplay(unseen).plot(panels[2:])
    for panel, title in zip(
        panels[::2], ("Intents of the fit", "Intents that had no labels"), strict=True
    ):
        panel.set_title(title, loc="left")
    return panels[0].figure


def _describe_gain(rows: Sequence[StoredScore], classes: str) -> str:
    raw, _, ours = rows
    factor = raw.bytes / ours.bytes
    return (
        f"Vectors {factor:.0f} times smaller find {_compare(ours.recall_at_1, raw.recall_at_1)} "
        f"right nearest neighbours for {classes} ({100.0 * ours.recall_at_1:.1f} instead of "
        f"{100.0 * raw.recall_at_1:.1f} %), and MAP@R is {ours.map_at_r:.3f} instead of "
        f"{raw.map_at_r:.3f}."
    )


def _compare(value: float, raw: float) -> str:
    return "more" if value > raw else "fewer" if value < raw else "as many"


def _collect_results(
    intents: Intents, seen: Sequence[StoredScore], unseen: Sequence[StoredScore], command: str
) -> dict[str, Any]:
    """Collect the curve, and the measures of raw and of mapped vectors, for the page."""
    groups = _select_rows(seen, unseen)
    summary = [
        _describe_gain(groups["intents of the fit"], "intents of the fit"),
        _describe_gain(groups["intents not in the fit"], "intents that had no labels"),
        "Next: fit your own vectors.",
    ]
    names = tuple(f"number {j}" for j in range(1, intents.vectors.shape[1] + 1))
    rows = np.arange(1, len(intents.labels) + 1)
    table = ReportSamples("intents", intents.vectors, intents.labels, "intent", names, rows)
    how = (
        f"{np.count_nonzero(~intents.is_test):,} training sentences are the database, "
        f"{np.count_nonzero(intents.is_test):,} test sentences the queries. Both are stored in the "
        "type."
    )
    of_unseen = (
        f"Half of the intents had labels, mean of {_N_DRAWS} draws. Sentences of the other intents "
        "are the database and the queries."
    )
    commands = {
        "Write these vectors as a table:": "mpda datasets intents --out intents.parquet",
        "Fit a map, also to a table of yours:": "mpda fit intents.parquet --label intent",
        "Choose the type for a budget of bytes:": (
            "mpda fit intents.parquet --label intent --bytes 64"
        ),
    }
    sections = {
        "data": collect.collect_data(table),
        "storage": {
            "rows": [*map(asdict, seen)],
            "how": how,
            "unseen": {"rows": [*map(asdict, unseen)], "how": of_unseen},
        },
        "next": [{"purpose": purpose, "command": line} for purpose, line in commands.items()],
    }
    title = "Sentence embeddings: smaller vectors that find more"
    return collect.collect_results(title, command, summary, sections)
