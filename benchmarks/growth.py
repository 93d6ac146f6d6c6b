"""How the time and memory of every method grow with samples, features and classes.

    python benchmarks/growth.py --out docs/evidence

Generated classes: curved sheets of three dimensions in d, with noise. From a middle size, n, d and
C are varied one at a time. Time is the best of two fits, memory the peak of what Python and NumPy
allocate in another fit. The exponent is the slope of log(time) or log(memory) over the three
largest sizes, so 1 means proportional. What dominates is the function of mpda with the most time
of its own (NumPy and SciPy calls included) at the largest n.
"""

from __future__ import annotations

import argparse
import cProfile
import csv
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mpda.estimators._base import LinearMap
from mpda.estimators.methods import METHODS, Method
from mpda.exceptions import SmallClassWarning
from protocol import Array, provenance

MIDDLE = {"n": 1000, "d": 50, "C": 10}
SIZES = {"n": (500, 1000, 2000, 4000), "d": (25, 50, 100, 200), "C": (5, 10, 20, 40)}


def sheets(n: int, d: int, C: int) -> tuple[Array, Array]:
    """Classes that are curved sheets."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % C
    u = rng.uniform(-1.0, 1.0, size=(n, 3))
    bent = np.column_stack([u, u**2, np.sin(3.0 * u)])
    turns = rng.normal(size=(C, bent.shape[1], d)) / np.sqrt(bent.shape[1])
    X = np.einsum("ni,nid->nd", bent, turns[y]) + 0.7 * rng.normal(size=(C, d))[y]
    return X + 0.1 * rng.normal(size=(n, d)), y


def estimator(method: Method) -> Any:
    return method.make(n_components=5)


def measured(method: Method, size: dict[str, int]) -> dict[str, Any]:
    X, y = sheets(**size)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        estimator(method).fit(X, y)
        seconds.append(time.perf_counter() - begin)
    tracemalloc.start()
    estimator(method).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {**size, "seconds": round(min(seconds), 4), "MiB": round(peak / 2**20, 2)}


def dominating(method: Method) -> str:
    """The function of mpda with the most time of its own at the largest n, and its share."""
    X, y = sheets(**{**MIDDLE, "n": SIZES["n"][-1]})
    profile = cProfile.Profile()
    profile.runcall(estimator(method).fit, X, y)
    profile.create_stats()
    stats: dict[Any, Any] = profile.stats
    ours = {f for f in stats if "/mpda/" in f[0].replace("\\", "/")}
    own = {f: stats[f][3] for f in ours}
    for f in ours:
        for caller, (_, _, _, spent) in stats[f][4].items():
            if caller in own and caller != f:
                own[caller] -= spent
    total = max(stats[f][3] for f in ours)
    first = max(own, key=lambda f: own[f])
    return f"`{Path(first[0]).stem}.{first[2]}` {100 * own[first] / total:.0f} %"


def exponent(rows: list[dict[str, Any]], varied: str, quantity: str) -> float:
    chosen = sorted(
        (r[varied], r[quantity])
        for r in rows
        if all(r[k] == MIDDLE[k] for k in MIDDLE if k != varied)
    )[-3:]
    sizes, values = np.log(np.array(chosen).T)
    return float(np.polyfit(sizes, values, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="directory for growth.csv and growth.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallClassWarning)  # 25 samples a class at 40 classes
    warnings.simplefilter("ignore", ConvergenceWarning)  # LSDR may stop at max_iter
    lines = [
        "| method | seconds | n | d | C | MiB | n | d | C | dominated at n = 4000 by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    table: list[dict[str, Any]] = []
    for method in METHODS:
        if not issubclass(method.estimator, LinearMap) or method.start not in ("", "MPDA"):
            continue
        sizes = [
            {**MIDDLE, varied: size}
            for varied in SIZES
            for size in SIZES[varied]
            if varied == "n" or size != MIDDLE[varied]
        ]
        rows = []
        for size in sizes:
            rows.append({"method": method.name, **measured(method, size)})
            print(rows[-1], file=sys.stderr, flush=True)
        table += rows
        middle = next(r for r in rows if all(r[k] == MIDDLE[k] for k in MIDDLE))
        slopes = {
            quantity: " | ".join(f"{exponent(rows, varied, quantity):.1f}" for varied in SIZES)
            for quantity in ("seconds", "MiB")
        }
        cells = [
            method.name,
            f"{middle['seconds']:.2f}",
            slopes["seconds"],
            f"{middle['MiB']:.0f}",
            slopes["MiB"],
            dominating(method),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))
    print(provenance())
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        with (arguments.out / "growth.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
        (arguments.out / "growth.md").write_text("\n".join([*lines, "", provenance(), ""]))


if __name__ == "__main__":
    main()
