"""What fits take of memory beside what they say beforehand that they will take.

    python robustness/memory.py [--out docs/evidence]

Every fit is made in a process of its own, after a small one for what is loaded at the first. Taken
is the highest resident memory during the fit above that before it; the samples are there before.
Said is what the fit is refused by if less is free, 61 MiB of which are for
blocks, for each class at a time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import mpda

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

# Samples, features and classes.
SHAPES = ((6000, 40, 3), (1500, 300, 2), (200, 3000, 4))
METHODS: dict[str, dict[str, Any]] = {
    "MPDA": {},
    "PMPDA": {},
    "LFDA": {"alpha": 0.1},
    "MFA": {"alpha": 0.1},
    "LSDA": {"alpha": 0.1},
    "LLTSA": {},
    "LPFE": {"n_components": 10},
    "GraphDiscriminant": {"alpha": 0.1, "between": "pairs"},
    "LSDR": {"n_components": 2, "max_iter": 2},
    "GramPCA": {},
}
_HIGHEST, _NOW = "VmHWM", "VmRSS"


def blobs(n: int, d: int, n_classes: int) -> tuple[Any, Any]:
    y = np.arange(n) % n_classes
    X = np.random.default_rng(0).normal(size=(n, d))
    X[:, :2] += y[:, None]
    return X, y


def taken(name: str, shape: tuple[int, int, int]) -> tuple[float, float]:
    """The bytes that a fit says it will take, and those that it takes; for a process of its own."""
    from mpda.estimators import _linear_map

    warnings.simplefilter("ignore")  # classes are small on purpose, and LSDR is cut short
    said: list[float] = []
    vars(_linear_map)["refuse_beyond_memory"] = lambda needed, what, advice: said.append(needed)
    method = getattr(mpda, name)(**METHODS[name])
    method.fit(*blobs(200, 10, 2))
    X, y = blobs(*shape)
    Path("/proc/self/clear_refs").write_text("5")  # the highest value begins anew
    before = _status(_NOW)
    method.fit(X, y)
    return said[-1], _status(_HIGHEST) - before


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * float(next(line for line in lines if line.startswith(field)).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="directory for memory.md")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, n, d, n_classes = options.one
        print(*taken(name, (int(n), int(d), int(n_classes))))
        return
    from protocol import provenance

    lines = [
        "# Memory of fits, said and taken",
        "",
        f"`python robustness/memory.py`. {provenance()}.",
        "",
        "| method | samples | features | classes | X, MiB | said, MiB | taken, MiB | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in METHODS:
        for n, d, n_classes in SHAPES:
            if name == "LSDR" and d > 1000:
                continue  # takes minutes
            command = [sys.executable, __file__, "--one", name, str(n), str(d), str(n_classes)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            said, used = (float(each) / 2**20 for each in done.stdout.split())
            samples = 8.0 * n * d / 2**20
            row = [name, n, d, n_classes, f"{samples:.1f}", f"{said:.0f}", f"{used:.0f}"]
            lines.append("| " + " | ".join(map(str, [*row, f"{said / used:.1f}"])) + " |")
            print(lines[-1], file=sys.stderr)
    page = "\n".join([*lines, ""])
    print(page)
    if options.out:
        (options.out / "memory.md").write_text(page)


if __name__ == "__main__":
    main()
