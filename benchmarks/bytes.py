"""Bytes of a vector against the quality of a search: types of numbers, maps and quantisation.

    python benchmarks/bytes.py --data DIR [--out docs/evidence/bytes.jsonl]
        [--sets clinc150 banking77_minilm ..]

The training part is the database, the official test part (CIFAR-10: a random half) the queries.
FILE gets a line of JSON for each measured vector; a run goes on where an earlier one was stopped.
The tables and the curves are next to FILE (.md, .png). Product quantisation needs faiss and is left
out with a note where it is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from mpda.assessment import (
    Contender,
    Split,
    StoredScore,
    make_contender,
    measure_stored_vectors,
    score_queries,
)
from mpda.estimators.methods import method
from mpda.exceptions import DatasetError
from mpda.experiments.embeddings import EMBEDDING_SETS
from mpda.experiments.error_tables import format_markdown
from mpda.io import VECTOR_TYPES
from mpda.plotting import BytesDisplay
from mpda.plotting.axes import new_figure
from mpda.report.displays import encode_figure
from protocol import data_argument, provenance
from retrieval_maps import REFINED, SETS, draw_problem

NUMBERS = (8, 16, 32, 64, 128)
# Nested maps cost one fit for all numbers; with one bit a number more of them are of use.
NESTED_NUMBERS = (*NUMBERS, 256)
QUANTISED, QUANTISED_BYTES = "product quantisation", (8, 16, 32, 64)
CODES = "uint8"
CLASS = "MPDA refined, whole classes"
METHODS: dict[str, tuple[str | Contender, Sequence[int]]] = {
    "raw": ("raw", (0,)),
    "truncation": ("truncation", NESTED_NUMBERS),
    "PCA": ("PCA", NESTED_NUMBERS),
    "LDA": ("LDA", NESTED_NUMBERS),
    "MPDA": ("MPDA", NESTED_NUMBERS),
    "MPDA refined": ("MPDA refined", NUMBERS),
    CLASS: (
        Contender(
            CLASS,
            method("MPDA refined"),
            {**make_contender("MPDA refined", search=False).fixed}
            | REFINED["refined, sphere, class, 0.02"],
        ),
        NUMBERS,
    ),
}
DRAWN = ("raw", "PCA", QUANTISED, "LDA", "MPDA", "MPDA refined", CLASS)
INTRODUCTION = """
# Bytes against quality

The database is the training part, the queries are the official test part; of CIFAR-10, which has
none, both are random halves. Vectors are compared by their cosine, bits by the Hamming distance.
Database and queries are stored in the same type; only with product quantisation are queries left as
they are. int8 has one scale for all numbers, the largest magnitude of the database by 127. Methods
have their default parameters; "whole classes" is the refinement with the objective "class" and the
penalty 0.02. LDA has at most as many numbers as classes less one. Product quantisation is
`ProductQuantizer` of faiss with one byte for each part of a vector. Of equal distances a random
order decides.

Codes of few bytes are the centres of groups of vectors, so product quantisation may find more of a
class than the raw vectors do. Quantising mapped vectors was not measured.

Eigenvector maps (PCA, LDA, MPDA) are nested: the first k numbers of a larger map are the map to k
numbers. Refined maps are not.

![Curves of bytes against recall and MAP@R](bytes.png)
"""


def measure(samples: Split, name: str, types: Sequence[str]) -> Iterator[StoredScore]:
    """Yield the rows of a method in some types."""
    if name == QUANTISED:
        yield from quantise(samples)
        return
    entry, numbers = METHODS[name]
    yield from measure_stored_vectors(samples, [entry], numbers, types, cosine=True, cuts=True)


def quantise(samples: Split) -> Iterator[StoredScore]:
    """Yield the rows of product quantisation; queries are compared as they are."""
    import faiss

    make: Any = faiss.ProductQuantizer  # whose annotations are those of C++
    d = samples.X.shape[1]
    Z, Z_test = (
        np.ascontiguousarray(part, dtype=np.float32) for part in (samples.X, samples.X_test)
    )
    Z, Z_test = normalize(Z), normalize(Z_test)
    # Vectors of one code are equally far: those of a class must not stand together.
    order = np.random.default_rng(0).permutation(len(Z))
    for n_bytes in QUANTISED_BYTES:
        if d % n_bytes:
            continue  # parts must be of equal length
        quantiser = make(d, n_bytes, 8)
        quantiser.train(Z)
        decoded = quantiser.decode(quantiser.compute_codes(Z))[order]
        labels = samples.y[order], Z_test, samples.y_test
        means = score_queries(normalize(decoded), *labels, ("recall_at_1", "map_at_r")).means
        yield StoredScore(QUANTISED, d, CODES, n_bytes, means["recall_at_1"], means["map_at_r"])


def run(arguments: argparse.Namespace, done: set[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the methods and types that are not done, those of a method together."""
    names, measured = [*METHODS], provenance()
    try:
        import faiss
    except ImportError:
        print("faiss is missing: product quantisation is left out", file=sys.stderr)
    else:
        names.append(QUANTISED)
        measured += f", faiss {faiss.__version__}"
    for data in arguments.sets:
        missing = {
            name: types
            for name in names
            if (types := [kind for kind in list_types(name) if (data, name, kind) not in done])
        }
        if not missing:
            continue
        problem = draw_problem("seen", data, 0, None, arguments.data)
        assert problem.queries is not None
        assert problem.query_labels is not None
        samples = Split(problem.X, problem.y, problem.queries, problem.query_labels)
        for name, types in missing.items():
            begin = time.perf_counter()
            rows = [asdict(row) for row in measure(samples, name, types)]
            seconds = time.perf_counter() - begin
            print(data, name, f"{seconds:.0f} s", file=sys.stderr)
            size = {"database": len(samples.y), "queries": len(samples.y_test)}
            yield from ({"data": data, **row, **size, "measured": measured} for row in rows)


def list_types(name: str) -> Sequence[str]:
    return (CODES,) if name == QUANTISED else VECTOR_TYPES


def format_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with the tables of all data sets."""
    names, kinds = [*METHODS, QUANTISED], [*VECTOR_TYPES, CODES]
    rows = sorted(rows, key=lambda row: (names.index(row["method"]), kinds.index(row["type"])))
    parts = [INTRODUCTION.strip()]
    for data in sorted({row["data"] for row in rows}):
        found = [row for row in rows if row["data"] == data]
        n, m = found[0]["database"], found[0]["queries"]
        parts.append(f"## {EMBEDDING_SETS[data].title}")
        parts.append(f"{n:,} vectors in the database, {m:,} queries.")
        parts.append("1-NN error in % (1 less recall@1), MAP@R:")
        parts.append(format_sizes([row for row in found if row["cut_from"] is None]))
        parts.append(
            "One bit in place of 32, and the price of each type. 1-NN error in %, MAP@R with 64 "
            "numbers, raw vectors with all:"
        )
        parts.append(format_types(found))
        parts.append(
            "The first numbers of a refined map that is larger, and the map to as many numbers "
            "(int8):"
        )
        parts.append(format_cuts(found))
    parts.append("Made by `python benchmarks/bytes.py --data DIR` with one thread:")
    parts.append("\n".join(f"- {line}" for line in dict.fromkeys(row["measured"] for row in rows)))
    return "\n\n".join(parts) + "\n"


def format_scores(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{100.0 * (1.0 - row['recall_at_1']):.1f}, {row['map_at_r']:.3f}"


def format_sizes(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with one column for each number of bytes."""
    raw = [row["bytes"] for row in rows if row["method"] == "raw"]
    sizes = sorted({2**i for i in range(3, 10)} | set(raw))
    cells = {(row["method"], row["type"], row["bytes"]): row for row in rows}
    lines = []
    for name, kind in dict.fromkeys((row["method"], row["type"]) for row in rows):
        scores = [format_scores(cells.get((name, kind, size))) for size in sizes]
        lines.append([name, "" if name == QUANTISED else kind, *scores])
    return format_markdown(["vectors", "type", *(f"{size:,} bytes" for size in sizes)], lines)


def format_types(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with one column for each type, of 64 numbers."""
    lines = []
    for name in METHODS:
        cells = {
            row["type"]: row
            for row in rows
            if row["method"] == name
            and row["cut_from"] is None
            and (row["numbers"] == 64 or name == "raw")
        }
        if cells:
            lines.append([name, *(format_scores(cells[kind]) for kind in VECTOR_TYPES)])
    return format_markdown(["vectors", *VECTOR_TYPES], lines)


def format_cuts(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of refined maps that are cut, and of those that are not."""
    lines = []
    for name in ("MPDA refined", CLASS):
        found = [row for row in rows if row["method"] == name and row["type"] == "int8"]
        for row in found:
            if row["cut_from"] is not None:
                own = next(
                    r for r in found if (r["numbers"], r["cut_from"]) == (row["numbers"], None)
                )
                sizes = str(row["numbers"]), str(row["cut_from"])
                lines.append([name, *sizes, format_scores(own), format_scores(row)])
    return format_markdown(["vectors", "numbers", "cut from", "fitted", "cut"], lines)


def draw_curves(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the curves of all data sets, float32 and int8, as PNG."""
    sets = sorted({row["data"] for row in rows})
    figure = new_figure(10.0, 3.6 * len(sets))
    axes = figure.subplots(len(sets), 2, squeeze=False)
    fields = StoredScore.__dataclass_fields__
    for data, pair in zip(sets, axes, strict=True):
        drawn = [
            StoredScore(**{field: row[field] for field in fields})
            for name in DRAWN
            for row in rows
            if (row["data"], row["method"]) == (data, name)
            and row["type"] in ("float32", "int8", CODES)
            and row["cut_from"] is None
        ]
        BytesDisplay(drawn).plot(pair, title=EMBEDDING_SETS[data].title)
    return encode_figure(figure, "bytes", "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data_argument(parser)
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/bytes.jsonl"))
    parser.add_argument("--sets", nargs="+", choices=SETS["unseen"], default=list(SETS["unseen"]))
    arguments = parser.parse_args()
    out, rows = arguments.out, []
    if out.exists():
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    try:
        for row in run(arguments, {(row["data"], row["method"], row["type"]) for row in rows}):
            rows.append(row)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    except DatasetError as error:
        sys.exit(str(error))
    out.with_suffix(".md").write_text(format_page(rows))
    out.with_suffix(".png").write_bytes(draw_curves(rows))


if __name__ == "__main__":
    main()
