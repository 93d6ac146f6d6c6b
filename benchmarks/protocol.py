"""Shared code of the studies: data sets, splits, PCA before a method, and 1-NN errors.

Data sets are found as by ``mpda.experiments.datasets``, with --data or MPDA_DATA. Seeds start at
1000. The reproduction of the paper uses smaller ones, so no default is chosen on the splits it is
judged by.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray

import mpda
from mpda.assessment import Split as Split
from mpda.assessment.data_split import reduce_by_pca
from mpda.exceptions import DatasetError
from mpda.experiments import PROBLEMS, datasets
from mpda.experiments.protocol import split_stratified

FIRST_SEED = 1000
_SETS = ("coil20", "coil100", "face_detection", "mnist_2k2k", "optdigits", "semeion", "vehicle")
TRAIN_SHARE = {**{name: PROBLEMS[name].train_share for name in _SETS}, "usps": 0.25}
DIMENSIONS = (2, 3, 5, 7, 10, 14, 20, 28, 40, 56, 80)
# Test samples of a split: enough for a standard error below one point, in a fraction of the time.
_LARGEST_TEST = 1500

Array = NDArray[Any]


def data_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("MPDA_DATA"),
        help="directory of the data sets as .npz files (or set MPDA_DATA)",
    )


def load(directory: Path | str | None, name: str) -> tuple[Array, Array]:
    """Load X and y of a data set; exit with a message if it is not available."""
    try:
        X, y = datasets.load(name, directory)
    except DatasetError as error:
        raise SystemExit(str(error)) from None
    return X.astype(float), y


def split(
    X: Array,
    y: Array,
    train_share: float,
    seed: int,
    largest_test: int | None = _LARGEST_TEST,
) -> Split:
    """Draw a stratified split and reduce it by PCA; keep at most ``largest_test`` test samples."""
    samples = reduce_by_pca(split_stratified(X, y, train_share, seed))
    index = np.random.default_rng(seed).permutation(len(samples.y_test))[:largest_test]
    return Split(samples.X, samples.y, samples.X_test[index], samples.y_test[index])


def splits(directory: Path | str | None, name: str, n_splits: int) -> Iterator[Split]:
    """Yield the splits of a data set, seeds from 1000 on."""
    X, y = load(directory, name)
    for seed in range(FIRST_SEED, FIRST_SEED + n_splits):
        yield split(X, y, TRAIN_SHARE[name], seed)


def errors_by_dimension(samples: Split, components: Array) -> dict[int, float]:
    """Return 1-NN errors in per cent with the first r components, r in DIMENSIONS and all."""
    wrong = wrong_by_dimension(samples, components)
    return {r: 100.0 * count / len(samples.y_test) for r, count in wrong.items()}


def wrong_by_dimension(samples: Split, components: Array) -> dict[int, int]:
    """Return how many test samples 1-NN gets wrong with the first r components."""
    n = len(components)
    Z, Z_test = samples.X @ components.T, samples.X_test @ components.T
    return {
        r: count_wrong(Z[:, :r], samples.y, Z_test[:, :r], samples.y_test)
        for r in [*(r for r in DIMENSIONS if r < n), n]
    }


def count_wrong(Z: Array, y: Array, Z_test: Array, y_test: Array) -> int:
    """Return how many mapped test samples 1-NN gets wrong."""
    # Ranks by |z|^2 - 2 z'z_test, which differs from the squared distance by a constant per row.
    scores = np.einsum("ij,ij->i", Z, Z) - 2.0 * Z_test @ Z.T
    return int(np.count_nonzero(y[scores.argmin(axis=1)] != y_test))


def provenance() -> str:
    """Return date, machine size and versions for the foot of a table."""
    return (
        f"{date.today().isoformat()}; {os.cpu_count()} cores, {platform.machine()}; "
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, mpda {mpda.__version__}"
    )


def resident() -> float:
    """Return the resident memory of this process in MiB (on Linux)."""
    return _status("VmRSS")


def highest_resident() -> float:
    """Return the peak resident memory in MiB; getrusage would count the parent's peak too."""
    return _status("VmHWM")


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1]) / 1024
