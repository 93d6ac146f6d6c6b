"""MPDA beside PCA, LDA and plain 1-NN on scikit-learn's bundled digits: a table and a picture.

    python examples/digits.py [--splits 10] [--picture demo-output/digits.png]

Each split trains on a quarter of the 1797 images and tests on the rest. The number of components is
chosen on the training part alone, by 4-fold cross-validation of 1-NN; LDA has at most 9.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from mpda import MPDA, PMPDA

METHODS = {
    "1-NN on pixels": None,
    "PCA": PCA(random_state=0),
    "LDA": LinearDiscriminantAnalysis(),
    "PMPDA": PMPDA(),
    "MPDA": MPDA(),
}
COMPONENTS = (5, 9, 14, 20, 28, 40)


def compare(X, y, n_splits):
    """For each method the errors, the components chosen and the seconds of a fit, by split."""
    rows = {name: [] for name in METHODS}
    for seed in range(n_splits):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=0.25, stratify=y, random_state=seed
        )
        for name, method in METHODS.items():
            classifier = KNeighborsClassifier(1)
            if method is None:
                error = 1.0 - classifier.fit(X_train, y_train).score(X_test, y_test)
                rows[name].append((error, X.shape[1], 0.0))
                continue
            reducer, error = tuned(method, X_train, y_train, X_test, y_test, seed)
            begin = time.perf_counter()
            clone(reducer).fit(X_train, y_train)
            seconds = time.perf_counter() - begin
            rows[name].append((error, reducer.n_components, seconds))
        if sys.stderr.isatty():
            print(f"\rsplit {seed + 1}/{n_splits}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return {name: np.array(values) for name, values in rows.items()}


def tuned(method, X_train, y_train, X_test, y_test, seed):
    """The method with the number of components that cross-validation prefers, and its error."""
    most = len(np.unique(y_train)) - 1
    components = (most,) if isinstance(method, LinearDiscriminantAnalysis) else COMPONENTS
    search = GridSearchCV(
        Pipeline([("reduce", method), ("classify", KNeighborsClassifier(1))]),
        {"reduce__n_components": components},
        cv=StratifiedKFold(4, shuffle=True, random_state=seed),
    ).fit(X_train, y_train)
    return search.best_estimator_["reduce"], 1.0 - search.score(X_test, y_test)


def table(rows):
    """One line a method: mean error and its spread over splits, mean components, mean time."""
    lines = [f"{'':16}{'test error':>16}{'components':>12}{'fit':>10}"]
    for name, values in rows.items():
        error, components, seconds = values.mean(axis=0)
        spread = 100 * values[:, 0].std(ddof=1) if len(values) > 1 else 0.0
        fit = f"{1000 * seconds:.0f} ms" if seconds else ""
        lines.append(f"{name:16}{100 * error:8.2f} ± {spread:.2f} %{components:12.1f}{fit:>10}")
    return "\n".join(lines)


def curve(method, X, y, most, n_splits):
    """The mean test error with the first 1 to ``most`` components."""
    errors = np.zeros(most)
    for seed in range(n_splits):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=0.25, stratify=y, random_state=seed
        )
        model = clone(method).set_params(n_components=most).fit(X_train, y_train)
        Z_train, Z_test = model.transform(X_train), model.transform(X_test)
        for r in range(1, most + 1):
            classifier = KNeighborsClassifier(1).fit(Z_train[:, :r], y_train)
            errors[r - 1] += 1.0 - classifier.score(Z_test[:, :r], y_test)
    return 100 * errors / n_splits


def picture(X, y, pixel_error, path, n_splits=5):
    """The digits in two components of MPDA, and test error against the number of components."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (plane, curves) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=0.25, stratify=y, random_state=0
    )
    Z = MPDA(2).fit(X_train, y_train).transform(X_test)
    for digit in range(10):
        # The digit itself is the marker, so the picture does not depend on colour.
        plane.scatter(*Z[y_test == digit].T, marker=f"${digit}$", s=24, color=f"C{digit}", lw=0)
    plane.set(title="Test digits in the first two components of MPDA", xticks=[], yticks=[])

    for name, most, style in (("PCA", 40, "--"), ("LDA", 9, ":"), ("MPDA", 40, "-")):
        errors = curve(METHODS[name], X, y, most, n_splits)
        curves.plot(np.arange(1, most + 1), errors, style, lw=2, label=name)
    curves.axhline(100 * pixel_error, color="0.5", lw=1, label="1-NN on 64 pixels")
    curves.set(
        title=f"1-NN error on the test part, mean of {n_splits} splits",
        xlabel="components",
        ylabel="error in %",
        ylim=(0, 15),
    )
    curves.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--picture", type=Path, default=Path("demo-output/digits.png"))
    arguments = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    print(
        f"digits: {len(X)} images of {X.shape[1]} pixels, {arguments.splits} splits, 25 % training"
    )
    rows = compare(X, y, arguments.splits)
    print(table(rows))
    picture(X, y, rows["1-NN on pixels"][:, 0].mean(), arguments.picture)
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
