"""Tables of the study of maps for retrieval (``retrieval_maps.py``): from rows to a page.

Cells have the mean over draws and, in brackets, the range. Measures of unseen classes are divided
by those of the raw vectors of the same draw.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mpda.assessment.label_classifier import CLASSIFIER, CLASSIFIER_NOTE, MAP_ADVANTAGE
from mpda.experiments.embeddings import EMBEDDING_SETS
from mpda.experiments.error_tables import format_markdown

TITLES = {"map_at_r": "MAP@R", "error": "1-NN error", "recall_at_10": "recall@10"}
UNSEEN = """
Half of the classes, drawn for each draw, are labelled. The database has 5,000 rows of the training
part, or all if there are fewer. Those of the other half of the classes have no labels and are the
gallery; queries are the test rows of these classes. Vectors are compared by their cosine.

"Whitening" is `WithinClassWhitening` with all rows of the database; "refined" adds
`NeighborhoodRefinement` with radius 1 and temperature 2. Other parameters of both are the defaults.
"Tangent whitening" has MPDA's within-class form in place of the within-class scatter. Heads start
from PCA of the database; their learning rate and number of epochs have the best MAP@R on a quarter
of the labelled classes, or on half of five. LDA has at most as many numbers as labelled classes
less one.
"""
SEEN = """
The gallery is the training rows, the queries are the official test part. "Refined" is
`NeighborhoodRefinement(MPDA())`, with geometry, objective and penalty for each coefficient; the
sphere has radius 1 and temperature 2, the Euclidean geometry temperature 4. There are 5 own and 40
nearest candidates, or 30 and 100 ("100 candidates"). "By validation": objective, candidates and
penalty have the best MAP@R on a fifth of the training rows of each class. Heads
start from PCA; their learning rate and number of epochs are chosen by the same measure on the same
rows. All are fitted again to all training rows. Vectors are compared by their cosine, except those
of the Euclidean geometry. int8 is one byte a number, with one scale for all numbers. Seconds are
those of a fit, in brackets those of the search for its settings; other work ran beside most fits.
Settings are objective, numbers of candidates and penalty, or learning rate, number of epochs, and
the numbers of epochs that were tried.
"""
CLASSIFIED = f"""
{CLASSIFIER.capitalize()}: {CLASSIFIER_NOTE}; its setting is the penalty, by cross-validation, and
it has no measures of retrieval. {MAP_ADVANTAGE}
"""

Row = Mapping[str, Any]
# Rows by draw, for data set, number of training rows, method and numbers.
Cells = Mapping[tuple[Any, ...], Mapping[int, Row]]


def format_page(rows: Sequence[Row], methods: Mapping[str, Sequence[str]]) -> str:
    """Return the tables of all rows; ``methods`` has the order of the methods of each study."""
    parts = ["# Maps for retrieval"]
    for study, format_study in (("unseen", format_unseen), ("seen", format_seen)):
        cells: dict[tuple[Any, ...], dict[int, Row]] = {}
        for row in rows:
            if row["study"] == study:
                key = tuple(row[name] for name in ("data", "train", "method", "numbers"))
                cells.setdefault(key, {})[row["draw"]] = row
        parts += format_study(cells, methods[study]) if cells else []
    parts.append("Made by `python benchmarks/retrieval_maps.py --data DIR`:")
    parts.append("\n".join(f"- {line}" for line in dict.fromkeys(row["measured"] for row in rows)))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def format_unseen(cells: Cells, methods: Sequence[str]) -> Iterator[str]:
    """Yield the parts of the page about classes that were not seen."""
    sets = _find_sets(cells)
    names = {data: EMBEDDING_SETS[data[0]].title for data in sets}
    if len(set(names.values())) < len(names):
        names = {data: f"{name}, {data[1]}" for data, name in names.items()}
    yield "## Classes without labels"
    yield UNSEEN
    sizes = ("labelled", "gallery", "queries")
    lines = []
    for data in sets:
        raw = list(cells.get((*data, "raw", "all"), {}).values())
        counts = [f"{np.mean([row[size] for row in raw]):.0f}" if raw else "" for size in sizes]
        scores = [_format_scores(raw, measure, "float32") for measure in TITLES]
        lines.append([names[data], str(len(raw)), *counts, *scores])
    titles = [f"raw {title}" + " in %" * (measure == "error") for measure, title in TITLES.items()]
    yield format_markdown(["data", "draws", *sizes, *titles], lines)
    numbers = sorted({key[3] for key in cells}, key=_sort_numbers)
    for measure, title in TITLES.items():
        yield f"Ratio to the raw vectors, {title}:"
        lines = [
            [names[data], method, *ratios]
            for data, method in itertools.product(sets, methods)
            if method != "raw" and any(ratios := _relate(cells, data, method, numbers, measure))
        ]
        yield format_markdown(["data", "method", *(f"{r} numbers" for r in numbers)], lines)
    yield "Seconds of a fit with 64 numbers, in brackets those of the search for its settings:"
    lines = []
    for method in methods:
        seconds = [_format_seconds(cells.get((*data, method, 64), {})) for data in sets]
        lines += [[method, *seconds]] if any(seconds) else []
    yield format_markdown(["method", *names.values()], lines)


def format_seen(cells: Cells, methods: Sequence[str]) -> Iterator[str]:
    """Yield the parts of the page about classes that have labels."""
    header = ["method", "numbers", "draws"]
    for kind, measure in itertools.product(("", "int8 "), TITLES):
        header.append(kind + TITLES[measure] + " in %" * (measure == "error"))
    yield "## Classes with labels"
    yield SEEN
    yield CLASSIFIED
    for data in _find_sets(cells):
        lines = []
        found = [key for key in cells if key[:2] == data]
        for key in sorted(found, key=lambda k: (methods.index(k[2]), _sort_numbers(k[3]))):
            rows = list(cells[key].values())
            scores = [
                _format_scores(rows, measure, kind)
                for kind, measure in itertools.product(("float32", "int8"), TITLES)
            ]
            chosen = [", ".join(map(str, row.get("settings", {}).values())) for row in rows]
            settings = "; ".join(dict.fromkeys(chosen))
            first = [key[2], str(rows[0]["outputs"]), str(len(rows))]
            lines.append([*first, *scores, _format_seconds(cells[key]), settings])
        some = next(iter(cells[found[0]].values()))
        title = EMBEDDING_SETS[data[0]].title
        yield f"### {title}, {some['labelled']} training rows, {some['queries']} queries"
        yield format_markdown([*header, "seconds", "settings"], lines)


def _find_sets(cells: Cells) -> list[tuple[str, Any]]:
    """Return data sets with numbers of training rows, sorted; "all" is the last."""
    order = list(EMBEDDING_SETS)
    return sorted(
        {key[:2] for key in cells}, key=lambda k: (order.index(k[0]), _sort_numbers(k[1]))
    )


def _sort_numbers(number: int | str) -> float:
    return float("inf") if isinstance(number, str) else float(number)


def _read_score(row: Row, measure: str, kind: str = "float32") -> float:
    if "error" in row:
        return float(row["error"])
    scores = row[kind]
    return float(1.0 - scores["recall_at_1"] if measure == "error" else scores[measure])


def _format_scores(rows: Sequence[Row], measure: str, kind: str) -> str:
    """Return the mean and the range of a measure; the error is in per cent.

    A classifier has an error, of vectors as they are, and no other measure.
    """
    if any("error" in row for row in rows) and (measure, kind) != ("error", "float32"):
        return "\N{EN DASH}"
    factor, digits = (100.0, 1) if measure == "error" else (1.0, 3)
    return _format_mean([factor * _read_score(row, measure, kind) for row in rows], digits)


def _relate(
    cells: Cells, data: tuple[str, Any], method: str, numbers: Sequence[Any], measure: str
) -> list[str]:
    """Return a measure divided by that of the raw vectors, for each of the numbers."""
    raw = {d: _read_score(row, measure) for d, row in cells.get((*data, "raw", "all"), {}).items()}
    texts = []
    for r in numbers:
        rows = cells.get((*data, method, r), {})
        ratios = [_read_score(rows[d], measure) / raw[d] for d in rows if raw.get(d)]
        note = f", {len(ratios)} draws" if 0 < len(ratios) < len(raw) else ""
        texts.append(_format_mean(ratios, 2) + note)
    return texts


def _format_mean(values: Sequence[float], digits: int) -> str:
    """Return the mean, with the range in brackets if there are several values."""
    if not values:
        return ""
    mean, low, high = (f"{f(values):.{digits}f}" for f in (np.mean, np.min, np.max))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def _format_seconds(rows: Mapping[int, Row]) -> str:
    """Return the median seconds of a fit, in brackets those of a search."""
    if not rows:
        return ""
    seconds = f"{np.median([row['seconds'] for row in rows.values()]):.1f}"
    searches = [row["search_seconds"] for row in rows.values() if "search_seconds" in row]
    return f"{seconds} ({np.median(searches):.1f})" if searches else seconds
