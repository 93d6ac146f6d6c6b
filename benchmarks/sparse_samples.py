"""Sparse samples: peak memory and time of fits, and their agreement with dense ones.

    python benchmarks/sparse_samples.py [--only TEXT] [--out docs/evidence]

Samples are generated: each class prefers some features, and 1 % of the entries are not zero. Every
fit runs in a process of its own, whose peak resident memory includes Python and the samples.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from mpda import LFDA, MPDA, GramPCA, NeighborhoodRefinement
from protocol import highest_resident, provenance

# Name, estimator, features, classes.
FITS: dict[str, tuple[Any, int, int]] = {
    "GramPCA": (GramPCA(20), 5000, 20),
    "LFDA": (LFDA(20, alpha=0.1), 5000, 20),
    "MPDA": (MPDA(20), 5000, 20),
    "GramPCA refined": (NeighborhoodRefinement(GramPCA(20)), 5000, 20),
    "TruncatedSVD(300), MPDA": (
        make_pipeline(TruncatedSVD(300, random_state=0), MPDA(20)),
        50_000,
        20,
    ),
}
N_SAMPLES, DENSITY, LIMIT = 20_000, 0.01, 4096.0
# Samples and features of the comparison with dense samples, which fit into memory quickly.
COMPARED = (3000, 1000, 10)


def draw_samples(n: int, d: int, n_classes: int) -> tuple[csr_array, Any]:
    """Draw samples half of whose entries are among the features that their class prefers."""
    rng = np.random.default_rng(0)
    y, m = rng.integers(0, n_classes, n), int(d * DENSITY)
    preferred = rng.permuted(np.tile(np.arange(d), (n_classes, 1)), axis=1)[:, : d // 10]
    own = preferred[y[:, None], rng.integers(0, d // 10, (n, m // 2))]
    columns = np.concatenate([own, rng.integers(0, d, (n, m - m // 2))], axis=1)
    rows = np.repeat(np.arange(n), m)
    X = csr_array((rng.uniform(size=rows.size), (rows, columns.ravel())), shape=(n, d))
    X.sum_duplicates()
    return X, y


def fit_in_this_process(name: str) -> None:
    """Print the seconds of a fit and the peak resident memory in MiB."""
    model, d, n_classes = FITS[name]
    X, y = draw_samples(N_SAMPLES, d, n_classes)
    begin = time.perf_counter()
    model.fit(X, y)
    print(json.dumps([time.perf_counter() - begin, highest_resident()]))


def largest_difference(model: Any) -> float:
    """Return the largest difference of sparse and dense components, relative to the largest."""
    X, y = draw_samples(*COMPARED)
    dense = model.fit(X.toarray(), y).components_
    return float(np.abs(model.fit(X, y).components_ - dense).max() / np.abs(dense).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="fits whose name has this text")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.fit:
        fit_in_this_process(arguments.fit)
        return
    lines = [
        "# Sparse samples",
        "",
        f"{N_SAMPLES:,} samples, {100 * DENSITY:g} % of the entries not zero. Peak: resident "
        f"memory of the process, at most {LIMIT / 1024:g} GiB. Times are those of a shared "
        "machine.",
        "",
        "| fit | features | classes | seconds | peak, GiB | |",
        "|---|---|---|---|---|---|",
    ]
    for name, (_, d, n_classes) in FITS.items():
        if arguments.only in name:
            command = [sys.executable, __file__, "--fit", name]
            seconds, peak = json.loads(subprocess.check_output(command))
            verdict = "holds" if peak <= LIMIT else "does not hold"
            cells = [name, f"{d:,}", n_classes, f"{seconds:.0f}", f"{peak / 1024:.2f}", verdict]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    n, d, n_classes = COMPARED
    methods = {"GramPCA": GramPCA(20), "LFDA": LFDA(20, alpha=0.1), "MPDA": MPDA(20)}
    gaps = [f"{name} {largest_difference(model):.1e}" for name, model in methods.items()]
    lines += [
        "",
        f"Largest difference of 20 components from those of a dense copy, relative to the largest "
        f"entry ({n:,} x {d:,}, {n_classes} classes): {', '.join(gaps)}.",
        "",
        f"Made by `python benchmarks/sparse_samples.py`; {provenance()}.",
    ]
    print("\n".join(lines[-4:]))
    if arguments.out:
        (arguments.out / "sparse-samples.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
