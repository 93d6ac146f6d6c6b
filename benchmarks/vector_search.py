"""Nearest neighbours of short vectors, found by faiss: sentence embeddings of Banking77.

    python benchmarks/vector_search.py --data DIR [--out docs/evidence/vector-search.md]

Training questions are the items of the index, test questions the queries (official split). Maps are
fitted to the training questions with default parameters, exported, and read by faiss. Vectors are
stored as float32 and compared exactly, by Euclidean distance or by cosine similarity.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from mpda import MPDA, NeighborhoodRefinement
from mpda.assessment import (
    CLASSIFIER,
    CLASSIFIER_NOTE,
    MAP_ADVANTAGE,
    Split,
    fit_label_classifier,
)
from mpda.assessment.significance import adjust_by_holm, mcnemar_test
from mpda.exceptions import DatasetError
from mpda.experiments.embeddings import split_embeddings
from mpda.io import export_faiss
from protocol import Array, data_argument, provenance

LENGTHS = (32, 64)
K = 10
HEADER = [
    *("vectors", "numbers", "bytes per vector", "comparison", "1-NN error in %", "p"),
    *("precision@10 in %", "recall@10 in %", "raw neighbours in %"),
]
EXPLANATION = """
Banking77: {n_items} training questions with {n_classes} intents are searched, {n_queries} test
questions are the queries. Of the ten nearest items of a query:

- **1-NN error**: queries whose nearest item has another intent. **p** tests the difference from raw
  (McNemar's test, Holm's adjustment for all rows); a difference with p above 0.05 may be chance.
- **precision@10**: items among the ten that have the intent of the query.
- **recall@10**: queries with at least one item of their intent among the ten, as in papers about
  metric learning.
- **raw neighbours**: items among the ten that are also among the ten nearest by all {n_features}
  numbers. Papers about approximate search call this recall. A map that moves intents apart finds
  other neighbours on purpose.

"raw" has all numbers of the embedding, which has length 1. "truncation" is its first numbers.
"refined" is `NeighborhoodRefinement(MPDA())`. Vectors compared by cosine similarity are scaled to
length 1 after the map. {classifier}
"""


def build_indexes(samples: Split) -> dict[tuple[str, int, str], Any]:
    """Return an empty index with its map for every row of the table."""
    d = samples.X.shape[1]
    indexes: dict[tuple[str, int, str], Any] = {("raw", d, "cosine"): faiss.IndexFlatIP(d)}
    for r in LENGTHS:
        columns = np.arange(r, dtype=np.int32)
        first = [faiss.RemapDimensionsTransform(d, r, faiss.swig_ptr(columns)) for _ in range(2)]
        unit = faiss.IndexPreTransform(faiss.NormalizationTransform(r), faiss.IndexFlatIP(r))
        unit.prepend_transform(first[0])
        plain = faiss.IndexPreTransform(first[1], faiss.IndexFlatL2(r))
        indexes |= {("truncation", r, "cosine"): unit, ("truncation", r, "Euclidean"): plain}
        maps = {
            "PCA": PCA(r, random_state=0),
            "MPDA": MPDA(n_components=r),
            "MPDA refined": NeighborhoodRefinement(MPDA(), n_components=r),
        }
        for name, model in maps.items():
            model.fit(samples.X, samples.y)
            print(f"{name} {r} fitted", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                path = str(export_faiss(model, Path(folder, "map.faiss")))
                linear = faiss.read_VectorTransform(path)
                # A Normalizer has nothing to fit.
                export_faiss(make_pipeline(model, Normalizer()), path)
                indexes[name, r, "cosine"] = faiss.read_index(path)
            index = faiss.IndexPreTransform(linear, faiss.IndexFlatL2(r))
            indexes[name, r, "Euclidean"] = index
    return indexes


def measure(neighbors: Array, raw: Array, samples: Split) -> list[float]:
    """Return the last four columns of the table for the ten nearest items of each query."""
    is_same = samples.y[neighbors] == samples.y_test[:, None]
    is_raw = (neighbors[:, :, None] == raw[:, None, :]).any(axis=2)
    shares = (~is_same[:, 0]).mean(), is_same.mean(), is_same.any(axis=1).mean(), is_raw.mean()
    return [100.0 * float(share) for share in shares]


def format_rows(neighbors: dict[tuple[str, int, str], Array], samples: Split) -> list[str]:
    """Return the lines of the table; the first index is that of the raw vectors."""
    raw, *others = neighbors.values()
    wrong_raw = samples.y[raw[:, 0]] != samples.y_test
    wrong = [samples.y[nearest[:, 0]] != samples.y_test for nearest in others]
    p_values = adjust_by_holm([mcnemar_test(wrong_raw, errors) for errors in wrong])
    lines = [f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
    for ((name, r, comparison), nearest), p in zip(
        neighbors.items(), [1.0, *p_values], strict=True
    ):
        error, *shares = (f"{share:.1f}" for share in measure(nearest, raw, samples))
        cells = [
            name,
            str(r),
            str(4 * r),
            comparison,
            error,
            "< 0.001" if p < 0.001 else f"{p:.3f}",
            *shares,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def format_classifier(samples: Split) -> str:
    """Return the line of the classifier, which has an error and no items."""
    model = fit_label_classifier(samples.X.astype(np.float32), samples.y)
    error = 100.0 * (1.0 - model.score(samples.X_test.astype(np.float32), samples.y_test))
    d, dash = samples.X.shape[1], "\N{EN DASH}"
    cells = [CLASSIFIER, str(d), str(4 * d), dash, f"{error:.1f}", *[dash] * 4]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/vector-search.md"))
    arguments = parser.parse_args()
    try:
        samples = split_embeddings("banking77", arguments.data, 0)
    except DatasetError as error:
        raise SystemExit(str(error)) from None
    items, queries = samples.X.astype(np.float32), samples.X_test.astype(np.float32)
    neighbors = {}
    for key, index in build_indexes(samples).items():
        index.add(items)
        neighbors[key] = index.search(queries, K)[1]
    lines = [*format_rows(neighbors, samples), format_classifier(samples)]
    n_items, n_features = items.shape
    counts = {"n_items": n_items, "n_features": n_features, "n_queries": len(queries)}
    classifier = f"{CLASSIFIER.capitalize()}: {CLASSIFIER_NOTE}; its error is that of its labels."
    classifier += f" {MAP_ADVANTAGE}"
    n_classes = len(np.unique(samples.y))
    text = EXPLANATION.format(n_classes=n_classes, classifier=classifier, **counts).lstrip()
    command = "python benchmarks/vector_search.py --data DIR"
    versions = f"{provenance()}, faiss {faiss.__version__}"
    text = "\n".join([text, *lines, "", f"Made by `{command}`; {versions}.", ""])
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
