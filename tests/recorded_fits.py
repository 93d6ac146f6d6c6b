"""Fits whose components are recorded, so that a change of the code can be held against them.

``python tests/recorded_fits.py`` fits every estimator to ten small data sets, in double and single
precision, with NumPy arrays and PyTorch tensors, and writes ``tests/recorded/components.npz``.
``test_recorded_fits.py`` compares later fits with that file. A fit is recorded only where rounding
does not decide its result: changes of X by 1e-15 standard deviations must not change the components
by more than a tenth of the tolerance of the comparison.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import sklearn
from scipy.sparse import coo_array
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from mpda import (
    LFDA,
    LLTSA,
    LPFE,
    LSDA,
    LSDR,
    MFA,
    MPDA,
    PMPDA,
    GramPCA,
    GraphDiscriminant,
)
from mpda.exceptions import NumericalWarning, SmallClassWarning

FILE = Path(__file__).parent / "recorded" / "components.npz"
# Relative to the largest entry of a component.
TOLERANCES = {"float64": 1e-10, "float32": 1e-5}
N_COMPONENTS = 3


def without_ties(X, y):
    """Measurements with noise, so that no two distances are equal."""
    return X + 1e-3 * np.random.default_rng(0).normal(size=X.shape), y


def digits(n_class, start, n):
    X, y = load_digits(n_class=n_class, return_X_y=True)
    return without_ties(X[start : start + n], y[start : start + n])


def curved_classes(seed, sizes, d, offset=0.0, scale=1.0):
    """Curved surfaces with noise, one for each class."""
    rng = np.random.default_rng(seed)
    X, y = [], np.repeat(np.arange(len(sizes)), sizes)
    for c, size in enumerate(sizes):
        u = rng.uniform(-1.0, 1.0, (size, 2))
        surface = np.column_stack([u, u**2, np.sin(2.0 * u)])
        frame = rng.normal(size=(6, d))
        X.append(surface @ frame + 0.1 * rng.normal(size=(size, d)) + 1.5 * c * rng.normal(size=d))
    order = rng.permutation(len(y))
    return offset + scale * np.concatenate(X)[order], y[order]


def with_duplicates():
    """Classes of very different sizes, one of a single sample, with duplicate samples."""
    X, y = curved_classes(3, (40, 15, 6, 1), 7)
    first = np.flatnonzero(y == 0)
    X[first[-4:]] = X[first[:4]]
    return X, y


DATA = {
    "iris": lambda: without_ties(*load_iris(return_X_y=True)),
    "wine": lambda: (StandardScaler().fit_transform(load_wine().data), load_wine().target),
    "cancer": lambda: (
        StandardScaler().fit_transform(load_breast_cancer().data[:150]),
        load_breast_cancer().target[:150],
    ),
    "digits": lambda: digits(5, 0, 180),
    "few digits": lambda: digits(4, 300, 50),
    "surfaces": lambda: curved_classes(0, (60, 50, 40), 10),
    "offset": lambda: curved_classes(1, (45, 45, 45), 8, offset=1e6),
    "tiny scale": lambda: curved_classes(2, (50, 30, 40, 20), 9, scale=1e-9),
    "duplicates": with_duplicates,
    "more features": lambda: curved_classes(4, (12, 12, 12), 60),
}


def same_class_chain(X, y):
    """A sparse graph that joins each sample to the next of its class."""
    pairs = [
        np.column_stack([m[:-1], m[1:]]) for m in (np.flatnonzero(y == c) for c in np.unique(y))
    ]
    rows, columns = np.concatenate(pairs).T
    weights = np.ones(2 * rows.size)
    indices = np.r_[rows, columns], np.r_[columns, rows]
    return coo_array((weights, indices), shape=(len(y), len(y)))


ESTIMATORS = {
    "MPDA": MPDA(n_neighbors=8),
    "MPDA geodesic": MPDA(n_neighbors=8, partition="geodesic", tangent_alpha=1.0, gamma=1.0),
    "MPDA euclidean": MPDA(n_neighbors=8, partition="euclidean", solver="two-stage"),
    "MPDA absolute": MPDA(n_neighbors=8, units="absolute", affinity="full", eigenvalue_power=0.5),
    "PMPDA": PMPDA(n_neighbors=6),
    "LFDA": LFDA(alpha=0.05),
    "LFDA knn": LFDA(alpha=0.05, affinity="knn", orthonormal=True),
    "GramPCA": GramPCA(),
    "MFA": MFA(alpha=0.05),
    "LSDA": LSDA(alpha=0.05),
    "LLTSA": LLTSA(alpha=0.01),
    "LPFE": LPFE(alpha=0.05, n_neighbors=8),
    "LSDR": LSDR(n_centers=40, widths=[2.0], ridges=[0.1], init="pca", max_iter=3),
    "GraphDiscriminant": GraphDiscriminant("local", "pairs", alpha=0.05),
    "GraphDiscriminant callable": GraphDiscriminant(same_class_chain, "local", alpha=0.1),
}
ON_TENSORS = ("MPDA", "MPDA geodesic", "MPDA absolute", "PMPDA", "LFDA", "GramPCA")


def fit_components(name, data, dtype, library, noise=None):
    """The components (r, d) of one fit, as a NumPy array; None where the method has no answer."""
    X, y = DATA[data]()
    if noise is not None:
        X = X + 1e-15 * X.std(axis=0) * np.random.default_rng(noise).normal(size=X.shape)
    X = X.astype(dtype)
    estimator = sklearn.clone(ESTIMATORS[name]).set_params(n_components=N_COMPONENTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallClassWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # LSDR is stopped early on purpose
        warnings.simplefilter("error", NumericalWarning)
        try:
            if library == "numpy":
                return estimator.fit(X, y).components_
            import torch

            with sklearn.config_context(array_api_dispatch=True):
                return estimator.fit(torch.asarray(X), y).components_.numpy()
        except (ValueError, NumericalWarning):
            return None


def recorded_cases():
    """The name, data set, precision and library of every fit."""
    for data in DATA:
        for dtype in TOLERANCES:
            for name in ESTIMATORS:
                yield name, data, dtype, "numpy"
            for name in ON_TENSORS:
                yield name, data, dtype, "torch"


def largest_error(components, recorded):
    """The largest difference relative to the largest entry of its component."""
    recorded = recorded.astype(float)
    return float(
        np.max(np.abs(components - recorded) / np.abs(recorded).max(axis=1, keepdims=True))
    )


def main():
    recorded = {}
    for case in recorded_cases():
        components = fit_components(*case)
        if components is None:
            print("no answer:", *case)
            continue
        errors = []
        for noise in range(4):
            again = fit_components(*case, noise)
            errors.append(np.inf if again is None else largest_error(again, components))
        if max(errors) > 0.1 * TOLERANCES[case[2]]:
            print(f"not recorded, changes by {max(errors):.1e}:", *case)
            continue
        recorded["|".join(case)] = components
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **recorded)
    print(f"{len(recorded)} fits recorded, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
