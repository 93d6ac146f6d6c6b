"""What the studies share: data sets, splits, the PCA before a method, and 1-NN errors.

Data sets are .npz files with X and y in a directory named by --data or MPDA_DATA. They are third
party and not part of this repository. Seeds start at 1000; the reproduction of the paper does not
use them, so nothing is chosen on what it will be judged by.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import mpda

FIRST_SEED = 1000
TRAIN_SHARE = {
    "coil20": 0.25,
    "coil100": 0.25,
    "face_detection": 0.25,
    "mnist_2k2k": 0.25,
    "optdigits": 0.25,
    "semeion": 0.25,
    "usps": 0.25,
    "vehicle": 0.5,
}
DIMENSIONS = (2, 3, 5, 7, 10, 14, 20, 28, 40, 56, 80)
_LARGEST_TEST = 1500

Array = NDArray[Any]


@dataclass(frozen=True)
class Split:
    """One split, after PCA to 95 % energy fitted on the training part where d > 100."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def data_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("MPDA_DATA"),
        help="directory of the data sets as .npz files (or set MPDA_DATA)",
    )


def load(directory: Path | str | None, name: str) -> tuple[Array, Array]:
    """X and y of a data set, or an exit that says what to do."""
    if directory is None:
        raise SystemExit("Name the directory of the data sets with --data, or set MPDA_DATA.")
    path = Path(directory) / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} does not exist: {name} is looked for there as an .npz with X, y.")
    with np.load(path) as content:
        return content["X"].astype(float), content["y"]


def split(
    X: Array,
    y: Array,
    train_share: float,
    seed: int,
    largest_test: int | None = _LARGEST_TEST,
) -> Split:
    """A stratified split; the test part is cut to 1500 samples unless said otherwise."""
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=train_share, stratify=y, random_state=seed
    )
    if X.shape[1] > 100:
        pca = PCA(0.95, svd_solver="full").fit(X)
        X, X_test = pca.transform(X), pca.transform(X_test)
    kept = np.random.default_rng(seed).permutation(len(y_test))[:largest_test]
    return Split(X, y, X_test[kept], y_test[kept])


def splits(directory: Path | str | None, name: str, n_splits: int) -> Iterator[Split]:
    X, y = load(directory, name)
    for seed in range(FIRST_SEED, FIRST_SEED + n_splits):
        yield split(X, y, TRAIN_SHARE[name], seed)


def errors_by_dimension(part: Split, components: Array) -> dict[int, float]:
    """The 1-NN error in per cent with the first r components, for r in DIMENSIONS and for all."""
    most = len(components)
    Z, Z_test = part.X @ components.T, part.X_test @ components.T
    return {
        r: _one_nn_error(Z[:, :r], part.y, Z_test[:, :r], part.y_test)
        for r in [*(r for r in DIMENSIONS if r < most), most]
    }


def _one_nn_error(Z: Array, y: Array, Z_test: Array, y_test: Array) -> float:
    # Ranks by |z|^2 - 2 z'z_test, which differs from the squared distance by a constant per row.
    scores = np.einsum("ij,ij->i", Z, Z) - 2.0 * Z_test @ Z.T
    return 100.0 * float(np.mean(y[scores.argmin(axis=1)] != y_test))


def provenance() -> str:
    """Date, machine size and versions, for the foot of a table."""
    return (
        f"{date.today().isoformat()}; {os.cpu_count()} cores, {platform.machine()}; "
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, mpda {mpda.__version__}"
    )
