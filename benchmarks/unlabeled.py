"""Five labelled samples a class: do unlabelled ones help?

    python benchmarks/unlabeled.py --data DIR [--draws 10] [--out docs/evidence]

MNIST (2000 images of the quarter) and Banking77 (the official training part). In each draw five
samples of every class keep their label, and the others of the training part have none. Features
are reduced by PCA of all training samples to 95 % of their variance. 1-NN compares test samples
with the labelled ones. All methods have their default parameters. Weights are shown side by side;
none is chosen here. p: corrected resampled t-test against MPDA without unlabelled samples, by Holm
for the comparisons of a column.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from mpda import MPDA, NeighborhoodRefinement
from mpda.assessment.significance import adjust_by_holm, corrected_t_test
from mpda.exceptions import SmallClassWarning
from mpda.experiments.embeddings import load_embeddings
from protocol import Array, data_argument, load, provenance

N_LABELLED, N_TEST = 5, 2000
COMPONENTS = {"mnist_2k2k": 9, "banking77": 64}
WEIGHTS = (0.1, 1.0, 10.0)
REFERENCE = "MPDA"


def read_parts(name: str, directory: Path, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return training and test samples with their labels, after PCA of the training samples."""
    rng = np.random.default_rng(seed)
    if name == "banking77":
        X, y, is_test = load_embeddings(name, directory)
    else:
        X, y = load(directory, name)
        is_test = rng.permutation(len(y)) >= len(y) // 2
    pca = PCA(0.95, random_state=0).fit(X[~is_test])
    test = rng.permutation(np.flatnonzero(is_test))[:N_TEST]
    return pca.transform(X[~is_test]), y[~is_test], pca.transform(X[test]), y[test]


def measure_draw(name: str, directory: Path, seed: int) -> dict[str, float]:
    """Return the 1-NN error of every method on one draw, in per cent."""
    X, y, X_test, y_test = read_parts(name, directory, seed)
    y = np.unique(y, return_inverse=True)[1]
    y_test = np.unique(y_test, return_inverse=True)[1]
    order = np.random.default_rng(1000 + seed).permutation(len(y))
    known = np.concatenate([order[y[order] == c][:N_LABELLED] for c in np.unique(y)])
    labels = np.full(len(y), -1)
    labels[known] = y[known]
    r = COMPONENTS[name]
    models: dict[str, Any] = {
        "PCA of all samples": None,
        "shrinkage LDA": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        REFERENCE: MPDA(r),
        "MPDA refined": NeighborhoodRefinement(MPDA(r)),
        **{
            f"MPDA, unlabelled, w = {w:g}": MPDA(r, unlabeled=-1, unlabeled_weight=w)
            for w in WEIGHTS
        },
    }
    errors = {}
    for title, model in models.items():
        Z, Z_test = X[known][:, :r], X_test[:, :r]
        if model is not None:
            rows = slice(None) if "unlabelled" in title else known
            fitted = model.fit(X[rows], labels[rows])
            Z, Z_test = fitted.transform(X[known]), fitted.transform(X_test)
        wrong = KNeighborsClassifier(1).fit(Z, y[known]).predict(Z_test) != y_test
        errors[title] = 100.0 * float(np.mean(wrong))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallClassWarning)  # five samples a class
    lines = ["# Five labelled samples a class", ""]
    for name, r in COMPONENTS.items():
        errors = defaultdict(list)
        for seed in range(arguments.draws):
            for title, error in measure_draw(name, arguments.data, seed).items():
                errors[title].append(error)
        others = [title for title in errors if title != REFERENCE]
        gaps = [np.subtract(errors[title], errors[REFERENCE]) for title in others]
        # Draws share test samples and unlabelled ones: as many test as training samples.
        p_values = adjust_by_holm([corrected_t_test(gap, 1.0) for gap in gaps])
        adjusted = dict(zip(others, p_values, strict=True))
        lines += [f"{name}, {r} components, 1-NN error in per cent, {arguments.draws} draws:", ""]
        lines += ["| method | error | ± | p |", "|---|---|---|---|"]
        for title, values in errors.items():
            value = adjusted.get(title, np.nan)
            p = "" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
            lines.append(
                f"| {title} | {np.mean(values):.2f} | {np.std(values, ddof=1):.2f} | {p} |"
            )
        lines.append("")
        print("\n".join(lines), flush=True)
    lines.append(f"Made by `python benchmarks/unlabeled.py --data DIR`; {provenance()}.")
    if arguments.out:
        (arguments.out / "unlabeled.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
