"""Seconds for mapping a store that is full, and for mapping one query.

    python benchmarks/map_vectors.py [--vectors 1000000] [--numbers 64] [--block 50000]

Random vectors of 384 numbers in float32 are mapped in blocks by a refined map, which is fitted to
the sentences that come with mpda, and encoded as int8. CPU seconds do not count other work on the
machine. One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.preprocessing import normalize

from mpda import MPDA, NeighborhoodRefinement
from mpda.experiments.datasets import load_intents
from mpda.experiments.error_tables import format_markdown
from mpda.io import affine_map, fit_vector_type
from protocol import Array, provenance

N_QUERIES = 2000


class Stopwatch:
    """Sums of wall and CPU seconds of calls."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __call__(self, function: Callable[[Array], Array], X: Array) -> Array:
        wall, cpu = time.perf_counter(), time.process_time()
        result = function(X)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        return result

    def format(self, n: int = 1) -> list[str]:
        return [f"{seconds / n:.3g}" for seconds in (self.wall, self.cpu)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--numbers", type=int, default=64)
    parser.add_argument("--block", type=int, default=50_000)
    arguments = parser.parse_args()
    n, r = arguments.vectors, arguments.numbers
    intents = load_intents()
    X, y = (values[~intents.is_test] for values in (intents.vectors, intents.labels))
    fitting = Stopwatch()
    model = NeighborhoodRefinement(MPDA(), n_components=r, radius=1.0, temperature=2.0)
    fitting(lambda X: model.fit(X, y), X)
    stored = fit_vector_type(model.transform(X), "int8")
    rng = np.random.default_rng(0)
    d = X.shape[1]
    watches = {name: Stopwatch() for name in ("map", "encode", "query", "query_matrix")}
    for start in range(0, n, arguments.block):
        block = rng.standard_normal((min(arguments.block, n - start), d), dtype=np.float32)
        Z = watches["map"](model.transform, normalize(block))
        watches["encode"](stored.encode, Z)
    linear = affine_map(model)
    W, b = linear.matrix.astype(np.float32), (linear.offset - linear.matrix @ linear.mean)
    b = b.astype(np.float32)

    def map_by_matrix(x: Array) -> Array:
        z = x @ W.T + b
        return z / np.linalg.norm(z)

    for i in range(N_QUERIES):
        watches["query"](model.transform, X[[i]])
        watches["query_matrix"](map_by_matrix, X[i])
    header = ["step", "seconds", "CPU seconds"]
    lines = [
        [f"fit to {len(X):,} labelled vectors of {d} numbers", *fitting.format()],
        [f"map {n:,} vectors to {r} numbers", *watches["map"].format()],
        [f"encode them as int8, {stored.n_bytes} bytes each", *watches["encode"].format()],
        ["map one query, transform", *watches["query"].format(N_QUERIES)],
        ["map one query, matrix and vector", *watches["query_matrix"].format(N_QUERIES)],
    ]
    print(format_markdown(header, lines))
    print(f"\n{provenance()}")


if __name__ == "__main__":
    main()
