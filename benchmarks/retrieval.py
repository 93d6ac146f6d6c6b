"""Time and memory of the measures of retrieval, against the least that any of them needs.

    python benchmarks/retrieval.py [--out docs/evidence/retrieval.md]

The floor is the matrix product of queries and database in single precision and NumPy's
``argpartition`` for as many neighbours, in blocks of 128 queries. Queries are divided into parts;
each part is timed with the measure and with the floor in turn, because the machine is shared.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from pathlib import Path

import numpy as np

from mpda.assessment import score_queries
from protocol import Array, highest_resident, provenance, resident

N_SAMPLES, N_QUERIES, N_FEATURES = 100_000, 10_000, 64
N_PARTS, BLOCK = 5, 128
CASES = [
    (77, "recall_at_10"),
    (77, "map_at_r"),
    (150, "map_at_r"),
    (10, "map_at_r"),
]
BOUND = 3.0
EXPLANATION = f"""
{N_SAMPLES:,} database vectors and {N_QUERIES:,} queries of {N_FEATURES} numbers in single precision
in overlapping classes of equal size, 77, 150 or 10 of them. The floor is the product of queries and
database in single precision and `argpartition` for as many neighbours (10, or R for MAP@R).
**ratio** is the time of the measure over that of the floor, in the same run; at most {BOUND:g} is
wanted for R up to 1300. Seconds depend on what else the machine does; the ratio hardly does.
**memory** is what the measure adds to the resident memory of a new process: mostly five copies of
the database in double precision, while the search is prepared. The distances of all pairs would
take {4e-6 * N_SAMPLES * N_QUERIES:,.0f} MB.
"""


def make_vectors(n_classes: int) -> tuple[Array, Array, Array, Array]:
    """Return database, labels, queries and their labels."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, N_FEATURES))
    vectors: list[Array] = []
    for n in (N_SAMPLES, N_QUERIES):
        y = np.arange(n) % n_classes
        noise = 2.0 * rng.normal(size=(n, N_FEATURES))
        vectors += [(centres[y] + noise).astype(np.float32), y]
    Z, y, Z_query, y_query = vectors
    return Z, y, Z_query, y_query


def time_floor(Z: Array, Z_query: Array, k: int) -> float:
    """Return the seconds of products and ``argpartition``."""
    start = time.perf_counter()
    columns, norms = np.ascontiguousarray(Z.T), np.einsum("ij,ij->i", Z, Z)
    for first in range(0, len(Z_query), BLOCK):
        squares = Z_query[first : first + BLOCK] @ columns
        squares *= -2.0
        squares += norms
        np.argpartition(squares, k - 1, axis=1)[:, :k]
    return time.perf_counter() - start


def compare_times(n_classes: int, measure: str) -> list[str]:
    """Return the cells of a row: score, seconds of the measure and of the floor, ratio."""
    Z, y, Z_query, y_query = make_vectors(n_classes)
    k = 10 if measure == "recall_at_10" else N_SAMPLES // n_classes
    seconds, floor, means = 0.0, 0.0, []
    for part in np.array_split(np.arange(N_QUERIES), N_PARTS):
        start = time.perf_counter()
        means.append(score_queries(Z, y, Z_query[part], y_query[part], measure).means[measure])
        seconds += time.perf_counter() - start
        floor += time_floor(Z, Z_query[part], k)
    ratio = seconds / floor
    score = f"{np.mean(means):.3f}"
    return [measure, str(k), score, f"{seconds:.1f}", f"{floor:.1f}", f"{ratio:.2f}"]


def measure_memory(n_classes: int, measure: str) -> float:
    """Return the MB that all queries add to the memory of this process, which should be new."""
    Z, y, Z_query, y_query = make_vectors(n_classes)
    score_queries(Z[:1000], y[:1000], measures="recall_at_1")  # loads BLAS
    before = resident()
    score_queries(Z, y, Z_query, y_query, measure)
    return (highest_resident() - before) * 2**20 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/retrieval.md"))
    arguments = parser.parse_args()
    header = ["measure", "neighbours", "score", "s", "s of the floor", "ratio", "memory in MB"]
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    print(*lines, sep="\n")
    for case in CASES:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            memory = process.apply(measure_memory, case)
        cells = [*compare_times(*case), f"{memory:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    command = "python benchmarks/retrieval.py"
    text = "\n".join(
        [EXPLANATION.lstrip(), *lines, "", f"Made by `{command}`; {provenance()}.", ""]
    )
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
