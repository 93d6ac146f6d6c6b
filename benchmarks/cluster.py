"""A Dask cluster of two workers: two million samples on disk, and how it keeps up with one machine.

    python benchmarks/cluster.py millions|throughput|refinement [--data DIR] [--out DIR]

millions     2,000,000 x 64 samples in single precision, 100 classes in mixed order, written as
             parquet in chunks; MPDA fitted by two workers with 3 GiB each
throughput   300,000 x 64 such samples, from parquet to components: the cluster beside this machine
refinement   the 60000 training images of MNIST: MPDA on the cluster, refined on a drawn sample
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier

from mpda import MPDA, NeighborhoodRefinement
from protocol import data_argument, highest_resident, load, provenance

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


def refinement(data: Path | None) -> Iterator[str]:
    X, y = load(data, "mnist")
    X = np.asarray(X / 255.0, dtype=np.float32)
    train, test = slice(60_000), slice(60_000, None)
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X[train])
    X = pca.transform(X)
    method = NeighborhoodRefinement(MPDA(40), max_queries=20_000, random_state=0)
    with two_workers() as cluster, Client(cluster):
        rows = da.from_array(X[train], chunks=(10_000, X.shape[1]))
        labels = da.from_array(y[train], chunks=10_000)
        begin = time.perf_counter()
        start = MPDA(40).fit(rows, labels)
        fitted = time.perf_counter()
        model = clone(method).set_params(estimator=FrozenEstimator(start)).fit(rows, labels)
        refined = time.perf_counter()
    models = {
        "MPDA on the cluster": start,
        "refined on 20,000 drawn samples": model,
        "refined in memory, 20,000 queries among all samples": method.fit(X[train], y[train]),
    }
    yield f"| MNIST, 60,000 x {X.shape[1]} to 40; 2 workers | |"
    yield "|---|---|"
    yield f"| MPDA on the cluster, seconds | {fitted - begin:.0f} |"
    yield f"| refinement on the client, seconds | {refined - fitted:.0f} |"
    for title, each in models.items():
        knn = KNeighborsClassifier(1).fit(each.transform(X[train]), y[train])
        wrong = 100.0 * (1.0 - knn.score(each.transform(X[test]), y[test]))
        yield f"| 1-NN error on the 10,000 test images, {title}, % | {wrong:.2f} |"


STUDIES = {
    "millions": lambda _: millions(),
    "throughput": lambda _: throughput(),
    "refinement": refinement,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--out", type=Path, help="directory for cluster-STUDY.md")
    data_argument(parser)
    arguments = parser.parse_args()
    lines = [*STUDIES[arguments.study](arguments.data), "", provenance()]
    print("\n".join(lines))
    if arguments.out:
        (arguments.out / f"cluster-{arguments.study}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
