"""Full MNIST on a GPU: PCA and MPDA from arrays on the device, beside NumPy on the same machine.

    python benchmarks/gpu.py [--library torch|cupy] [--device cuda] [--data DIR] [--out DIR]
                             [--all-pairs]

Times are those after a first run, which loads the kernels of the library.
"""

from __future__ import annotations

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn asks for it before it lets arrays through

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy.linalg import subspace_angles
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier

from mpda import LFDA, MPDA, PMPDA, GramPCA, NeighborhoodRefinement
from mpda._lib.arrays import array_namespace
from mpda._lib.validation import load_class, validate_samples
from mpda.neighbors.neighbor_lists import ClassPoints, find_neighbors
from mpda.partition.principal_axis_tree import principal_axis_forest
from mpda.partition.rules import PartitionRule
from protocol import data_argument, load, provenance

PARAMETERS: dict[str, Any] = {"n_components": 40, "n_neighbors": 12, "tangent_alpha": 0.1}
_REPEATS = 5
# Bounds of what is measured: seconds, and points of error beside NumPy's.
_SECONDS = {"torch": 0.3, "cupy": 0.5}
_PMPDA_SECONDS, _REFINED_SECONDS, _POINTS = 0.8, 3.0, 0.1


class Device:
    """A library with a device: how arrays come there and back, and how to wait for it."""

    def __init__(self, name: str, device: str) -> None:
        try:
            self.module = importlib.import_module(name)
        except ImportError as error:
            sys.exit(f"{name} is not installed: pip install 'mpda[{name}]' ({error})")
        self.torch = name == "torch"
        self.device = device
        self.version = f"{name} {self.module.__version__}"

    def given(self, X: Any) -> Any:
        return self.module.asarray(X, **({"device": self.device} if self.torch else {}))

    def host(self, X: Any) -> Any:
        return X.cpu().numpy() if self.torch else X.get()

    def wait(self) -> None:
        if not self.torch:
            self.module.cuda.Device().synchronize()
        elif self.device != "cpu":
            self.module.cuda.synchronize()

    @property
    def name(self) -> str:
        if not self.torch:
            return str(self.module.cuda.runtime.getDeviceProperties(0)["name"].decode())
        return str(self.module.cuda.get_device_name()) if self.device != "cpu" else "CPU"


def seconds(device: Device, work: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """The median time of some runs after a first one."""
    work()
    times = []
    for _ in range(repeats):
        device.wait()
        begin = time.perf_counter()
        work()
        device.wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def study(device: Device, data: Path | None, all_pairs: bool) -> Iterator[str]:
    pixels, labels = load(data, "mnist")
    X = (pixels / 255.0).astype(np.float32)
    X, X_test, y, y_test = X[:60_000], X[60_000:], labels[:60_000], labels[60_000:]
    there = device.given(X)
    pca = GramPCA(0.95).fit(there)
    Z = pca.transform(there)

    def both() -> MPDA:
        reduced = GramPCA(0.95).fit(there)
        return MPDA(**PARAMETERS).fit(reduced.transform(there), y)

    total = seconds(device, both)
    model = both()
    begin = time.perf_counter()
    here_pca = GramPCA(0.95).fit(X)
    here = MPDA(**PARAMETERS).fit(here_pca.transform(X), y)
    host_seconds = time.perf_counter() - begin
    wrong = error(
        device.host(model.transform(Z)),
        y,
        device.host(model.transform(pca.transform(device.given(X_test)))),
        y_test,
    )
    wrong_here = error(
        here.transform(here_pca.transform(X)), y, here.transform(here_pca.transform(X_test)), y_test
    )
    ours = device.host(model.components_) @ device.host(pca.components_)
    angle = subspace_angles(
        ours.T.astype(float), (here.components_ @ here_pca.components_).T.astype(float)
    ).max()
    yield f"| full MNIST, 60000 x 784 in single precision, on {device.name} | | bound | |"
    yield "|---|---|---|---|"
    title = f"PCA 95 % and MPDA, {Z.shape[1]} to 40 dimensions, seconds"
    yield bounded(title, total, _SECONDS["torch" if device.torch else "cupy"])
    taken = seconds(device, lambda: PMPDA(**PARAMETERS).fit(Z, y))
    yield bounded("PMPDA of the reduced samples, seconds", taken, _PMPDA_SECONDS)
    gap = abs(wrong - wrong_here)
    yield (
        f"| 1-NN error in per cent, on the device and by NumPy | {wrong:.2f} and {wrong_here:.2f} "
        f"| {_POINTS} apart | {'' if gap <= _POINTS else 'does not hold'} |"
    )
    yield f"| largest principal angle to the components by NumPy | {angle:.1e} | | |"
    start = FrozenEstimator(MPDA(40).fit(Z, y))
    refined = NeighborhoodRefinement(start).fit(Z, y)
    taken = seconds(device, lambda: NeighborhoodRefinement(start).fit(Z, y))
    yield bounded("refinement of MPDA, seconds", taken, _REFINED_SECONDS)
    Z_test = pca.transform(device.given(X_test))
    errors = [
        error(device.host(m.transform(Z)), y, device.host(m.transform(Z_test)), y_test)
        for m in (start, refined)
    ]
    yield f"| 1-NN error in per cent before and after | {errors[0]:.2f} and {errors[1]:.2f} | | |"
    beside = f"by NumPy on the {os.cpu_count()} cores of that machine"
    yield f"| PCA 95 % and MPDA {beside}, seconds | {host_seconds:.1f} | | |"
    yield ""
    yield "| parts of it, and other methods on the same arrays | seconds |"
    yield "|---|---|"
    yield f"| PCA 95 % | {seconds(device, lambda: GramPCA(0.95).fit(there), 2):.3f} |"
    for title, work in parts(Z, y):
        yield f"| {title} | {seconds(device, work, 2):.3f} |"
    if all_pairs:
        euclidean = MPDA(**PARAMETERS, partition="euclidean")
        taken = seconds(device, lambda: euclidean.fit(Z, y), 1)
        yield f'| MPDA, partition="euclidean" | {taken:.1f} |'


def bounded(title: str, taken: float, bound: float) -> str:
    return f"| {title} | {taken:.3f} | <= {bound} | {'' if taken <= bound else 'does not hold'} |"


def parts(Z: Any, y: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    method = MPDA(**PARAMETERS)
    samples = validate_samples(method, Z, y, devices=True)
    settings = method.check_parameters().classes
    classes = [ClassPoints(load_class(samples, c).points) for c in range(len(samples.members))]
    sizes = [members.size for members in samples.members]
    X = array_namespace(Z).concat([points.X for points in classes])
    k = max(settings.n_neighbors, settings.partition_neighbors)
    yield "neighbours in classes", lambda: [find_neighbors(points, k) for points in classes]
    rule = settings.partition
    assert isinstance(rule, PartitionRule)
    size = rule.max_patch_size
    yield "patches of all classes", lambda: principal_axis_forest(X, sizes, size)
    yield "MPDA, all of it", lambda: MPDA(**PARAMETERS).fit(Z, y)
    yield "LFDA", lambda: LFDA(40).fit(Z, y)
    yield 'LFDA, affinity="knn"', lambda: LFDA(40, affinity="knn").fit(Z, y)
    model = method.fit(Z, y)
    yield "transform", lambda: model.transform(Z)


def error(Z: Any, y: Any, Z_test: Any, y_test: Any) -> float:
    classifier = KNeighborsClassifier(1, algorithm="brute").fit(Z, y)
    return 100.0 * float(np.mean(classifier.predict(Z_test) != y_test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=["torch", "cupy"], default="torch")
    parser.add_argument("--device", default="cuda", help="of torch; cpu tries it all without a GPU")
    parser.add_argument("--all-pairs", action="store_true", help='also partition="euclidean"')
    data_argument(parser)
    parser.add_argument("--out", type=Path, help="directory for gpu-LIBRARY.md")
    options = parser.parse_args()
    device = Device(options.library, options.device)
    lines = []
    with sklearn.config_context(array_api_dispatch=True):
        for line in study(device, options.data, options.all_pairs):
            print(line, flush=True)
            lines.append(line)
    lines += ["", f"{provenance()}, {device.version}"]
    print(*lines[-2:], sep="\n")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"gpu-{options.library}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
