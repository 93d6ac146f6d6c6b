"""How long ``mpda fit`` takes on large tables, and what reading a column of vectors costs.

    python benchmarks/tables.py [--vectors] [--out docs/evidence/tables.md]

The tables are generated (scikit-learn's ``make_classification``, five classes of three clusters).
Each is written as .npz and fitted by the command line in a process of its own, with its defaults.
``--vectors`` measures a Parquet file of 100,000 vectors of 384 numbers in single precision instead:
the time of reading relative to pyarrow alone, and the peak memory relative to the matrix, each in a
process of its own and without what the imports take. Linux only.
"""

from __future__ import annotations

import argparse
import json
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

# Vectors: rows, numbers and classes. Bounds of the time of reading relative to pyarrow, and of the
# peak memory relative to the matrix.
VECTORS, MAX_TIME, MAX_MEMORY = (100_000, 384, 50), 1.5, 3.0
# The shortest of so many readings counts: the first one also brings the file into the cache.
N_READINGS = 3
METHODS = ("within-class-whitening", "pca", "mpda")
# Runs one task and prints its seconds, and the bytes by which the peak of the memory has grown.
WORKER = """
import json, re, sys, time
from pathlib import Path
import mpda.assessment, pandas, pyarrow.parquet
from mpda.cli import run
from mpda.cli.tables.reading import read_table
def peak():  # resource.getrusage counts the parent, too
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
task, path, *words = sys.argv[1:]
before, begin = peak(), time.perf_counter()
if task == "pyarrow":
    pyarrow.parquet.read_table(path)
elif task == "read":
    read_table(Path(path), label="label")
else:
    try:
        run(["fit", path, *words])
    except SystemExit as end:
        assert end.code == 0, end.code
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "bytes": peak() - before}), file=sys.stderr)
"""


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


def write_vectors(path: Path) -> int:
    """Write vectors of overlapping classes and return the bytes of their matrix."""
    import pyarrow as pa
    from pyarrow import parquet

    n, d, n_classes = VECTORS
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X += 0.5 * rng.standard_normal((n_classes, d), dtype=np.float32)[y]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), d)
    parquet.write_table(pa.table({"id": np.arange(n), "label": y, "embedding": vectors}), path)
    return X.nbytes


def run_task(task: str, path: Path, *words: object) -> dict[str, float]:
    """Return seconds and bytes of a task in a process of its own."""
    command = [sys.executable, "-c", WORKER, task, str(path), *map(str, words)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return dict(json.loads(printed.splitlines()[-1]))


def measure_vectors(folder: Path) -> list[str]:
    """Return a table of reading and of fits."""
    path = folder / "vectors.parquet"
    size = write_vectors(path)
    tasks = {"pyarrow": "pyarrow.parquet.read_table", "read": "mpda"}
    best: dict[str, dict[str, float]] = {}
    for _ in range(N_READINGS):
        for task in tasks:
            found = run_task(task, path)
            best[task] = min(best.get(task, found), found, key=lambda entry: entry["seconds"])
    lines = [
        "| step | seconds | relative to pyarrow | peak memory / matrix | |",
        "|---|---|---|---|---|",
    ]

    def add(name: str, found: dict[str, float], time_ratio: float | None = None) -> None:
        memory = found["bytes"] / size
        holds = memory < MAX_MEMORY and (time_ratio is None or time_ratio <= MAX_TIME)
        verdict = "" if holds or name == tasks["pyarrow"] else "does not hold"
        ratio = "" if time_ratio is None else f"{time_ratio:.2f}"
        lines.append(f"| {name} | {found['seconds']:.2f} | {ratio} | {memory:.2f} | {verdict} |")
        print(lines[-1], file=sys.stderr, flush=True)

    for task, name in tasks.items():
        add(
            f"reading, {name}" if task == "read" else name,
            best[task],
            best[task]["seconds"] / best["pyarrow"]["seconds"],
        )
    for method in METHODS:
        words = ["--label", "label", "--folds", 0, "--components", 32, "--scale", "none"]
        words += ["--pca", "none", "--method", method, "--out", folder / "map.mpda", "--quiet"]
        add(f"from the file to the map of {method}", run_task("fit", path, *words))
    n, d, _ = VECTORS
    bounds = f"bounds: {MAX_TIME} and {MAX_MEMORY:g}"
    return [*lines, "", f"{n:,} vectors of {d} numbers in float32, {size / 1e6:.0f} MB; {bounds}."]


def measure_tables(folder: Path) -> list[str]:
    """Return a table of the seconds of fits."""
    lines = ["| table | seconds | bound | |", "|---|---|---|---|"]
    for n, d, bound in TABLES:
        seconds = measure(folder, n, d)
        verdict = "" if seconds <= bound else "does not hold"
        lines.append(f"| {n} x {d} | {seconds:.1f} | {bound} | {verdict} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    parser.add_argument("--vectors", action="store_true", help="measure a column of vectors")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lines = (measure_vectors if arguments.vectors else measure_tables)(Path(name))
    command = f"python benchmarks/tables.py{' --vectors' if arguments.vectors else ''}"
    text = "\n".join([*lines, "", f"Made by `{command}`; {provenance()}.", ""])
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
