"""How long ``mpda fit`` takes on large tables, the search, the assessment and the page included.

    python benchmarks/tables.py [--out docs/evidence/tables.md]

The tables are generated (scikit-learn's ``make_classification``, five classes of three clusters).
Each is written as .npz and fitted by the command line in a process of its own, with its defaults.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

from protocol import provenance

# Samples and features, and the seconds that two cores may take.
TABLES = ((50_000, 40, 120), (1500, 384, 30))


def write_table(path: Path, n: int, d: int) -> None:
    X, y = make_classification(
        n,
        d,
        n_informative=min(20, d // 2),
        n_redundant=0,
        n_classes=5,
        n_clusters_per_class=3,
        class_sep=1.5,
        random_state=1,
    )
    np.savez(path, X=X, y=y)


def measure(folder: Path, n: int, d: int) -> float:
    """Return the seconds of the command."""
    table = folder / f"{n}x{d}.npz"
    write_table(table, n, d)
    outputs = "--out", table.with_suffix(".mpda"), "--report", table.with_suffix(".html")
    words = ["fit", table, *outputs, "--quiet"]
    begin = time.perf_counter()
    subprocess.check_output([sys.executable, "-m", "mpda", *map(str, words)])
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    arguments = parser.parse_args()
    lines = ["| table | seconds | bound | |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        for n, d, bound in TABLES:
            seconds = measure(Path(name), n, d)
            verdict = "" if seconds <= bound else "does not hold"
            lines.append(f"| {n} x {d} | {seconds:.1f} | {bound} | {verdict} |")
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join([*lines, "", f"Made by `python benchmarks/tables.py`; {provenance()}.", ""])
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
