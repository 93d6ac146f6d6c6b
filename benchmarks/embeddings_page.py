"""The page of the table of embeddings (``embeddings_table.py``): goals first, then all measures.

Values are means over draws. A goal is judged by the mean over draws of the ratio to the raw vectors
(float32) of the same draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpda.assessment.label_classifier import CLASSIFIER, CLASSIFIER_NOTE, MAP_ADVANTAGE
from mpda.experiments.embeddings import EMBEDDING_SETS
from mpda.experiments.error_tables import format_markdown

Row = Mapping[str, Any]
Rows = Mapping[tuple[Any, ...], Row]

RAW = "raw"
HEADS = {f"head, {loss}": loss for loss in ("SupCon", "ProxyAnchor")}
OURS = {
    "seen": ("ours, refined, best MAP@R", "ours, refined, best recall@1"),
    "unseen": ("whitening", "whitening, refined"),
}
_BOTH: tuple[int | None, ...] = (32, 64)
# Methods of each study with the numbers of outputs that they are fitted with; None is all.
METHODS: dict[str, dict[str, tuple[int | None, ...]]] = {
    "seen": {
        RAW: (None,),
        CLASSIFIER: (None,),
        **dict.fromkeys(("PCA", "LDA", "PQ", *HEADS, *OURS["seen"]), _BOTH),
    },
    "unseen": {
        RAW: (None,),
        **dict.fromkeys(("PCA of the database", "LDA", "PQ", *HEADS, *OURS["unseen"]), _BOTH),
    },
}
_DASH = "\N{EN DASH}"
_TITLES = {"seen": "Classes with labels", "unseen": "Classes without labels"}
_MEASURES = {"map_at_r": "MAP@R", "error": "1-NN error"}


@dataclass(frozen=True)
class Goal:
    """A limit of a measure at 64 numbers, relative to the raw vectors."""

    study: str
    data: str
    measure: str
    kind: str
    limit: float

    def is_reached(self, ratio: float) -> bool:
        """Return whether a ratio is within the limit, which is the highest of an error."""
        return ratio <= self.limit if self.measure == "error" else ratio >= self.limit

    def describe(self) -> str:
        """Return for example "1-NN error at most 0.45 times raw"."""
        bound = "at most" if self.measure == "error" else "at least"
        return f"{_MEASURES[self.measure]} {bound} {self.limit:g} times raw"


_SEEN = {"clinc150": (0.45, 1.4), "banking77_minilm": (0.93, 1.5)}
GOALS = [
    *(
        Goal("seen", data, measure, "int8", limit)
        for data in EMBEDDING_SETS
        for measure, limit in zip(("error", "map_at_r"), _SEEN.get(data, (1.0, 1.3)), strict=True)
    ),
    *(
        Goal("unseen", data, measure, "float32", limit)
        for data in EMBEDDING_SETS
        for measure, limit in (("error", 1.08), ("map_at_r", 1.09))
    ),
]

_INTRODUCTION = f"""
# Embeddings: how good are small vectors?

**Classes with labels ("seen")**: the gallery is the training part, queries are the official test
part; CIFAR-10 has random halves. **Classes without labels ("unseen")**: half of the classes, drawn
for each draw, are labelled; the database has at most 5,000 rows of the training part, and the test
rows of the other classes are searched among those of the database. Vectors are compared by their
cosine. Every choice is made on the training part: on a fifth of the rows of each class, for unseen
classes on held-out classes, of at most 5,000 rows. "Ours" chooses objective, candidates and penalty
among the three settings on the sphere of [maps for retrieval](retrieval-maps.md).

| row | what it is |
|---|---|
| raw | the vectors as they are |
| {CLASSIFIER} | {CLASSIFIER_NOTE}: penalty by cross-validation (`mpda compare` has the same row) |
| PCA | of the training rows; for unseen classes of all rows of the database |
| LDA | without or with shrinkage, by MAP@R; it has at most as many numbers as classes less one |
| PQ | product quantisation of faiss, one byte a number; queries are not quantised |
| head | one linear layer trained on the CPU, with learning rate and epochs by MAP@R |
| ours, refined | `NeighborhoodRefinement(MPDA())` on the sphere, the best of three settings |
| whitening | `WithinClassWhitening` with all rows of the database: `mpda fit --database` |
| whitening, refined | the same with `NeighborhoodRefinement` |

{MAP_ADVANTAGE} A classifier has no neighbours, so it has no measures of retrieval ({_DASH}), and no
answer for classes that it was not trained on.

int8 has one scale for all numbers, from the gallery. Bytes are those of a stored vector. Seconds
are those of a fit, in brackets those of the search for its settings; other work ran on the machine
at the same time.
"""
_GOALS = """
## Goals and what was reached

At 64 numbers, on classes with labels as int8. Goals are ratios to the raw vectors: the mean over
draws of the same draw's ratio. Banking77 (MiniLM) and CLINC150 have goals of their own, the other
sets have an error no higher than raw and 1.3 times the MAP@R.
"""


def is_complete(row: Row | None) -> bool:
    """Return whether a row has the measures of all types of its numbers."""
    return row is not None and ("codes" in row or "error" in row or "int8" in row)


def format_page(rows: Rows) -> str:
    """Return the page of the complete rows, by the values of ``retrieval_maps.KEY``."""
    used = [row for row in rows.values() if is_complete(row) and _is_shown(row)]
    parts = [_INTRODUCTION, _GOALS, *_format_goals(used)]
    for study in METHODS:
        parts.append(f"## {_TITLES[study]}")
        for data in EMBEDDING_SETS:
            parts += _format_set(used, study, data)
    parts.append("Made by `python benchmarks/embeddings_table.py --data DIR`:")
    parts.append("\n".join(f"- {line}" for line in dict.fromkeys(row["measured"] for row in used)))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _is_shown(row: Row) -> bool:
    """Return whether a row belongs to a table: the other study has further methods and sizes."""
    numbers = METHODS[row["study"]].get(row["method"], ())
    size = "all" if row["study"] == "seen" else 5000
    return row["train"] == size and any(row["numbers"] == (r or "all") for r in numbers)


def _select(rows: Sequence[Row], study: str, data: str, method: str, r: int | None) -> list[Row]:
    """Return the rows of a method, sorted by draw."""
    values = (study, data, method, r or "all")
    names = ("study", "data", "method", "numbers")
    found = [row for row in rows if tuple(row[name] for name in names) == values]
    return sorted(found, key=lambda row: row["draw"])


def _format_goals(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how many goals each method reaches, then a table for each study."""
    verdicts = {
        (goal, method): _judge(rows, goal, method) for goal in GOALS for method in OURS[goal.study]
    }
    lines = []
    for study, method in ((name, method) for name in OURS for method in OURS[name]):
        found = [v for (goal, name), v in verdicts.items() if (goal.study, name) == (study, method)]
        measured = [verdict for verdict in found if verdict is not None]
        n_reached = sum(verdict.is_reached for verdict in measured)
        line = f"- {_TITLES[study]}, {method}: {n_reached} of {len(found)} goals are reached"
        line += f", {len(measured) - n_reached} missed"
        if len(measured) < len(found):
            line += f", {len(found) - len(measured)} not measured yet"
        lines.append(f"{line}.")
    yield "\n".join(lines)
    for study, methods in OURS.items():
        table = [
            [
                EMBEDDING_SETS[goal.data].title,
                goal.describe(),
                *(str(verdicts[goal, method] or "not measured") for method in methods),
            ]
            for goal in GOALS
            if goal.study == study
        ]
        yield f"### {_TITLES[study]}"
        yield format_markdown(["data", "goal", *methods], table)


@dataclass(frozen=True)
class Verdict:
    """Ratios to the raw vectors by draw, and whether their mean is within a goal."""

    goal: Goal
    ratios: tuple[float, ...]
    n_draws: int

    @property
    def mean(self) -> float:
        """Mean ratio."""
        return float(np.mean(self.ratios))

    @property
    def is_reached(self) -> bool:
        """True if the goal is reached."""
        return self.goal.is_reached(self.mean)

    def __str__(self) -> str:
        spread = ""
        if len(self.ratios) > 1:
            spread = f" ({min(self.ratios):.2f} to {max(self.ratios):.2f})"
        if len(self.ratios) < self.n_draws:
            spread += f", {len(self.ratios)} of {self.n_draws} draws"
        return f"{self.mean:.3f}{spread}: {'reached' if self.is_reached else '**missed**'}"


def _judge(rows: Sequence[Row], goal: Goal, method: str) -> Verdict | None:
    """Return the verdict on a method at 64 numbers, None where it was not measured."""
    raw = {row["draw"]: row for row in _select(rows, goal.study, goal.data, RAW, None)}
    ratios = tuple(
        _read(row, goal.measure, goal.kind) / _read(raw[row["draw"]], goal.measure, "float32")
        for row in _select(rows, goal.study, goal.data, method, 64)
        if row["draw"] in raw
    )
    return Verdict(goal, ratios, len(raw)) if ratios else None


def _read(row: Row, measure: str, kind: str) -> float:
    scores = row[kind]
    return float(1.0 - scores["recall_at_1"] if measure == "error" else scores[measure])


def _format_set(rows: Sequence[Row], study: str, data: str) -> Iterator[str]:
    """Yield the table of a data set, and what it lacks."""
    header = ["method", "numbers", "draws", "error in %", "recall@1", "MAP@R", "bytes"]
    header += ["int8 recall@1", "int8 MAP@R", "int8 bytes", "seconds"]
    lines: list[list[str]] = []
    missing: dict[str, list[str]] = {}
    for method, numbers in METHODS[study].items():
        shown: set[int] = set()
        for r in numbers:
            found = _select(rows, study, data, method, r)
            if not found:
                missing.setdefault(method, []).append("all" if r is None else str(r))
            elif found[0]["outputs"] not in shown:  # LDA may have fewer than both
                shown.add(found[0]["outputs"])
                lines.append(_format_line(found))
    yield f"### {EMBEDDING_SETS[data].title}"
    if lines:
        yield _describe_sizes(_select(rows, study, data, RAW, None))
        yield format_markdown(header, lines)
    if missing:
        names = [f"{method} ({' and '.join(r)} numbers)" for method, r in missing.items()]
        yield f"Not measured yet: {'; '.join(names)}."


def _describe_sizes(raw: Sequence[Row]) -> str:
    """Return the numbers of rows, which do not depend on the method."""
    if not raw:
        return ""
    sizes = {
        size: np.mean([row[size] for row in raw]) for size in ("labelled", "gallery", "queries")
    }
    return (
        f"{sizes['labelled']:,.0f} labelled rows, {sizes['gallery']:,.0f} rows in the gallery, "
        f"{sizes['queries']:,.0f} queries."
    )


def _format_line(rows: Sequence[Row]) -> list[str]:
    """Return the cells of a method with one number of outputs."""
    first, outputs = rows[0], rows[0]["outputs"]
    line = [first["method"], str(outputs), str(len(rows))]
    kind, size = ("codes", outputs) if "codes" in first else ("float32", 4 * outputs)
    if "error" in first:
        error = np.mean([row["error"] for row in rows])
        line += [f"{100.0 * error:.1f}", _DASH, _DASH, f"{size:,}", _DASH, _DASH, _DASH]
    else:
        line.append(f"{100.0 * _average(rows, 'error', kind):.1f}")
        line += [f"{_average(rows, name, kind):.3f}" for name in ("recall_at_1", "map_at_r")]
        line.append(f"{size:,}")
        if "int8" in first:
            line += [f"{_average(rows, name, 'int8'):.3f}" for name in ("recall_at_1", "map_at_r")]
            line.append(f"{outputs:,}")
        else:
            line += [_DASH] * 3
    seconds = f"{np.median([row['seconds'] for row in rows]):.1f}"
    searches = [row["search_seconds"] for row in rows if "search_seconds" in row]
    return [*line, f"{seconds} ({np.median(searches):.1f})" if searches else seconds]


def _average(rows: Sequence[Row], measure: str, kind: str) -> float:
    return float(np.mean([_read(row, measure, kind) for row in rows]))
