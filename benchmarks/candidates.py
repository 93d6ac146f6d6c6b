"""Which candidates the objective "class" needs: more near ones, drawn own ones, random ones.

    python benchmarks/candidates.py [--data DIR] [--device cuda] [--train 2500 5000 0]
                                    [--out docs/evidence/candidates.md]

Sentence embeddings (Banking77 and CLINC150, MiniLM), MPDA with 64 outputs and its refinement on a
sphere. Everything is measured on validation parts: the official one of CLINC150, a fifth of the
training texts of Banking77. Test parts are not read. Drawn candidates are no part of the library;
here they are added to its own in each round. Without --device the host computes.
"""

from __future__ import annotations

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn asks for it before it lets arrays through

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from mpda import MPDA, NeighborhoodRefinement
from mpda._lib.arrays import array_namespace, to_device, to_host
from mpda.assessment import score_queries
from mpda.exceptions import FeatureScaleWarning, SmallClassWarning
from mpda.experiments.datasets.loading import find_directory
from mpda.refinement.candidates import search_candidates
from protocol import data_argument, provenance

SETS = {"CLINC150": "clinc150_minilm384", "Banking77": "banking77_minilm384"}
_TEST, _VALIDATION = 2, 1
_N_OUTPUTS = 64
# Parameters of the refinement besides radius 1, temperature 2 and the objective "class"; "own" and
# "random" are numbers of candidates that are drawn for each query in each round.
VARIANTS: tuple[dict[str, Any], ...] = (
    {"objective": "nearest", "penalty_per_coefficient": 0.1},
    {},
    {"n_own_neighbors": 30},
    {"own": 30},
    {"random": 60},
    {"random": 200},
    {"own": 30, "random": 200},
    {"n_candidates": 100},
    {"n_candidates": 100, "n_own_neighbors": 30},
    {"n_candidates": 100, "n_own_neighbors": 30, "random": 100},
    {"n_candidates": 100, "own": 30, "random": 100},
    {"n_candidates": 100, "penalty_per_coefficient": 0.004},
    {"n_candidates": 200},
    {"n_candidates": 200, "penalty_per_coefficient": 0.004},
    {"n_candidates": 200, "penalty_per_coefficient": 0.004, "n_rounds": 10},
    {"n_candidates": 400},
)
_COMMON = {
    "radius": 1.0,
    "temperature": 2.0,
    "objective": "class",
    "penalty_per_coefficient": 0.02,
    "n_components": _N_OUTPUTS,
}
Part = tuple[np.ndarray, np.ndarray]


def load_parts(directory: Path, name: str, n_train: int) -> tuple[Part, Part]:
    """Return training and validation samples, vectors of length 1; 0 stands for all."""
    with np.load(directory / f"{SETS[name]}.npz") as arrays:
        kept = arrays["split"] != _TEST
        X, y, split = (arrays[key][kept] for key in ("X", "y", "split"))
    X = normalize(X.astype(np.float32))
    indices = np.arange(len(y))
    if (split == _VALIDATION).any():
        train, other = indices[split != _VALIDATION], indices[split == _VALIDATION]
    else:
        train, other = train_test_split(indices, test_size=0.2, random_state=0, stratify=y)
    if 0 < n_train < len(train):
        train, _ = train_test_split(train, train_size=n_train, random_state=1, stratify=y[train])
    return (X[train], y[train]), (X[other], y[other])


class DrawnCandidates:
    """Adds drawn candidates to those of the library."""

    def __init__(self, n_own: int, n_random: int) -> None:
        self.n_own, self.n_random = n_own, n_random
        self.rng = np.random.default_rng(0)

    def __call__(self, Z: Any, members: Sequence[Any], queries: Sequence[Any], *rest: Any) -> Any:
        found: Any = search_candidates(Z, members, queries, *rest)
        drawn = [self.rng.integers(Z.shape[0], size=(found.shape[0], self.n_random))]
        if self.n_own:
            drawn.append(
                np.concatenate(
                    [
                        own[self.rng.integers(own.size, size=(asking.size, self.n_own))]
                        for own, asking in zip(members, queries, strict=True)
                    ]
                )
            )
        return array_namespace(found).concat([found, *(to_device(d, found) for d in drawn)], axis=1)


def measure(start: MPDA, train: Part, other: Part, variant: dict[str, Any], device: str) -> str:
    """Return the line of a table: error, MAP@R and seconds."""
    X: Any = train[0]
    if device:
        import torch

        X = torch.asarray(X, device=device)
    parameters = {**_COMMON, **variant}
    drawn = DrawnCandidates(parameters.pop("own", 0), parameters.pop("random", 0))
    begin = time.perf_counter()
    with patch("mpda.refinement.optimize.search_candidates", drawn):
        refined = NeighborhoodRefinement(FrozenEstimator(start), **parameters).fit(X, train[1])
    seconds = time.perf_counter() - begin
    Z, Z_other = (
        np.asarray(to_host(refined.transform(to_device(part, X) if device else part)))
        for part in (train[0], other[0])
    )
    names = ("recall_at_1", "map_at_r")
    scores = score_queries(Z, train[1], Z_other, other[1], names).means
    title = ", ".join(f"{name} {value}" for name, value in variant.items()) or "as it is"
    error = 100.0 * (1.0 - scores["recall_at_1"])
    return f"| {title} | {error:.2f} | {scores['map_at_r']:.3f} | {seconds:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--device", default="", help="device of torch, such as cuda")
    parser.add_argument("--train", type=int, nargs="+", default=[2500, 5000, 0])
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/candidates.md"))
    arguments = parser.parse_args()
    directory = find_directory(arguments.data) or Path()
    sklearn.set_config(array_api_dispatch=bool(arguments.device))
    # Expected: a few texts a class, and a feature that hardly varies.
    for category in (SmallClassWarning, FeatureScaleWarning):
        warnings.simplefilter("ignore", category)
    common = ", ".join(f"{name} {value}" for name, value in _COMMON.items())
    lines = [f"# Candidates of the refinement ({common}, where a line says nothing else)", ""]
    for name in SETS:
        for n_train in arguments.train:
            train, other = load_parts(directory, name, n_train)
            start = MPDA(_N_OUTPUTS).fit(train[0].astype(np.float64), train[1])
            size = f"{len(train[1])} training texts, {len(np.unique(train[1]))} classes"
            lines += [
                f"| {name}, {size}, {len(other[1])} validation texts | 1-NN error, % | MAP@R | s |",
                "|---|---|---|---|",
            ]
            for variant in VARIANTS:
                lines.append(measure(start, train, other, variant, arguments.device))
                print(lines[-1], flush=True)
            lines.append("")
    machine = "the host"
    if arguments.device:
        import torch

        machine = torch.cuda.get_device_name()
    command = f"python benchmarks/candidates.py --device {arguments.device or repr('')}"
    lines.append(f"Made by `{command}` on {machine}; {provenance()}.")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
