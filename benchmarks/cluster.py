"""A Dask cluster of two workers: two million samples on disk, and how it keeps up with one machine.

    python benchmarks/cluster.py millions|throughput [--out DIR]

millions     2,000,000 x 64 samples in single precision, 100 classes in mixed order, written as
             parquet in chunks; MPDA fitted by two workers with 3 GiB each
throughput   300,000 x 64 such samples, from parquet to components: the cluster beside this machine
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from scipy.linalg import subspace_angles

from mpda import MPDA
from protocol import highest_resident, provenance

D = 64
PARAMETERS: dict[str, Any] = {"n_components": 20, "n_neighbors": 12, "tangent_alpha": 0.1}


def write_mixed(folder: Path, n: int, n_classes: int, chunk: int = 50_000) -> None:
    """Classes that are curved sheets, in files in each of which there are samples of all."""
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(n_classes, 4, D)).astype(np.float32)
    centres = 3.0 * rng.normal(size=(n_classes, D)).astype(np.float32)
    for number in range(n // chunk):
        labels = rng.permutation(np.arange(chunk) % n_classes)
        u = rng.uniform(-1, 1, size=(chunk, 2)).astype(np.float32)
        bent = np.column_stack([u, u**2])
        X = 0.1 * rng.normal(size=(chunk, D)).astype(np.float32) + centres[labels]
        for c in range(n_classes):
            X[labels == c] += bent[labels == c] @ maps[c]
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)]).assign(label=labels)
        frame.to_parquet(folder / f"{number:04}.parquet")


def two_workers() -> LocalCluster:
    return LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="3GiB", dashboard_address=":0"
    )


def millions() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name, two_workers() as cluster, Client(cluster) as client:
        write_mixed(Path(name), 2_000_000, 100)
        size = sum(path.stat().st_size for path in Path(name).iterdir()) / 2**20
        before = client.run(_process)
        begin = time.perf_counter()
        model = MPDA(**PARAMETERS, verbose=1).fit(dd.read_parquet(name), "label")
        seconds = time.perf_counter() - begin
        after = client.run(_process)
    survived = sorted(each[0] for each in before.values()) == sorted(
        each[0] for each in after.values()
    )
    highest = ", ".join(f"{each[1]:.0f}" for each in after.values())
    yield "| 2,000,000 x 64 in parquet, mixed, 100 classes; 2 workers of 3 GiB | |"
    yield "|---|---|"
    yield f"| on disk, MiB | {size:.0f} |"
    yield f"| seconds | {seconds:.0f} |"
    yield f"| highest resident memory of the workers, MiB | {highest} |"
    yield f"| highest resident memory of the client, MiB | {highest_resident():.0f} |"
    yield f"| workers that were not restarted | {'both' if survived else 'not both'} |"
    yield f"| residual of the components | {model.residual_:.1e} |"


def _process() -> tuple[int, float]:
    """The number of a worker process and its highest resident memory in MiB; runs on the worker."""
    import os

    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return os.getpid(), int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM")


def throughput() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        write_mixed(Path(name), 300_000, 30)
        here, there = [], []
        for _ in range(2):  # they take turns
            begin = time.perf_counter()
            frame = pd.read_parquet(name)
            alone = MPDA(**PARAMETERS).fit(frame.drop(columns="label"), frame["label"])
            here.append(time.perf_counter() - begin)
            del frame
            with two_workers() as cluster, Client(cluster):
                begin = time.perf_counter()
                model = MPDA(**PARAMETERS).fit(dd.read_parquet(name), "label")
                there.append(time.perf_counter() - begin)
            print(f"here {here[-1]:.1f} s, cluster {there[-1]:.1f} s", file=sys.stderr)
    ratio = min(here) / min(there)
    angle = subspace_angles(alone.components_.T.astype(float), model.components_.T.astype(float))
    yield "| 300,000 x 64 in parquet, mixed, 30 classes | seconds |"
    yield "|---|---|"
    yield f"| this machine, joblib | {min(here):.1f} |"
    yield f"| 2 workers | {min(there):.1f} |"
    yield f"| throughput of the cluster beside it (claim: >= 0.6) | {ratio:.2f} |"
    yield f"| largest principal angle between the two | {angle.max():.1e} |"


STUDIES = {"millions": millions, "throughput": throughput}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--out", type=Path, help="directory for cluster-STUDY.md")
    arguments = parser.parse_args()
    lines = [*STUDIES[arguments.study](), "", provenance()]
    print("\n".join(lines))
    if arguments.out:
        (arguments.out / f"cluster-{arguments.study}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
