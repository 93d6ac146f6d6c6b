"""The paper's counts of operations, step by step, next to measured growth.

    python benchmarks/complexity.py --out docs/evidence/complexity.md

One generated class, a curved sheet of three dimensions in 50, with 500 to 4000 samples. Each step
of MPDA and PMPDA is timed alone, best of two. The exponent is the slope of log(time) over the three
largest sizes. The paper's eigenproblem has all tangent vectors as unknowns and is solved as it is
written; the one of PMPDA is too large for that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh

from growth import sheets
from mpda.discriminant.scatter import graph_scatter
from mpda.discriminant.schur_complement import eliminate_tangents
from mpda.discriminant.tangents import TangentBases, neighborhood_tangents, patch_tangents
from mpda.discriminant.within_form import WithinForm, build_within_form
from mpda.neighbors.graph import EmbeddedGraph, symmetric_graph
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors
from mpda.partition.geodesics import geodesic_distances
from mpda.partition.split import manifold_partition
from protocol import Array, provenance

SIZES = (500, 1000, 2000, 4000)
N_FEATURES, N_NEIGHBORS, PARTITION_NEIGHBORS, PATCH_SIZE = 50, 6, 6, 10
ENERGY, GAMMA, RIDGE = 0.95, 1.0, 1.0
# Step, the paper's count, and the exponent of n that follows from it.
COUNTS = {
    "geodesics": ("n^2 log n + k' n^2 / 2", "2"),
    "partition": ("n^2", "2"),
    "tangent spaces of patches": ("sum of d^2 N_p + N_p^2 d", "1"),
    "eigenproblem of MPDA, as written": ("(d + n)^3", "3"),
    "elimination of v, MPDA": ("", ""),
    "tangent spaces of samples": ("(d^2 k + k^2 d) n", "1"),
    "elimination of v, PMPDA": ("", ""),
}


def steps(n: int) -> dict[str, float]:
    """Seconds of every step for a class of n samples."""
    X, _ = sheets(n, N_FEATURES, 1)
    points = ClassPoints(X)
    lists = find_neighbors(points, max(N_NEIGHBORS, PARTITION_NEIGHBORS))
    embedded = EmbeddedGraph(X, symmetric_graph(lists.first(N_NEIGHBORS)))
    seconds = []

    def timed(compute: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        compute()
        middle = time.perf_counter()
        result = compute()
        seconds.append(min(middle - begin, time.perf_counter() - middle))
        return result

    distances = timed(lambda: geodesic_distances(points, lists.first(PARTITION_NEIGHBORS)))
    patches = timed(lambda: manifold_partition(distances, PATCH_SIZE)).labels
    bases: TangentBases = timed(lambda: patch_tangents(X, patches, ENERGY))
    form = build_within_form(embedded, patches, bases)
    timed(lambda: solve_as_written(X, graph_scatter(embedded), form))
    timed(lambda: eliminate_tangents(form, GAMMA, RIDGE))
    bases = timed(lambda: neighborhood_tangents(X, lists.first(N_NEIGHBORS), ENERGY))
    form = build_within_form(embedded, np.arange(n), bases)
    timed(lambda: eliminate_tangents(form, GAMMA, RIDGE))
    return dict(zip(COUNTS, seconds, strict=True))


def solve_as_written(X: Array, S_tt: Array, form: WithinForm) -> Array:
    """Largest eigenvalue of equation (19), with the total scatter in place of S'."""
    d, S_vt = X.shape[1], -form.off_diagonal_matrix().T
    S = np.block([[S_tt, S_vt.T], [S_vt, form.tangent_block(GAMMA, 0.0)]])
    numerator = np.zeros_like(S)
    numerator[:d, :d] = np.cov(X.T)
    last = len(S) - 1
    values = eigh(
        numerator, S + RIDGE * np.eye(len(S)), eigvals_only=True, subset_by_index=(last, last)
    )
    return np.asarray(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/complexity.md"))
    arguments = parser.parse_args()
    results = [steps(n) for n in SIZES]
    lines = [
        f"| step | the paper's count | exponent | {' | '.join(f'n = {n}' for n in SIZES)} "
        "| measured exponent |",
        "|---|---|---|" + "---|" * len(SIZES) + "---|",
    ]
    for step, (count, expected) in COUNTS.items():
        seconds = [result[step] for result in results]
        slope = np.polyfit(np.log(SIZES[-3:]), np.log(seconds[-3:]), 1)[0]
        cells = [step, count, expected, *(f"{s:.3f} s" for s in seconds), f"{slope:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    command = "python benchmarks/complexity.py"
    text = "\n".join(lines) + f"\n\nMade by `{command}`; {provenance()}.\n"
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
