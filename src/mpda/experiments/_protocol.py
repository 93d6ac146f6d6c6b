"""The paper's protocol as data, and the splits that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from mpda._lib.array_types import Floats, Labels
from mpda.assessment import Split
from mpda.experiments import datasets

# Studies that choose rules and defaults use seeds from 1000 on.
SEEDS = tuple(range(1, 21))
N_FOLDS = 4


@dataclass(frozen=True)
class Problem:
    """A classification problem: a data set, how it is prepared and how it is split.

    train_share : share of the samples that train, by class
    per_label : in its place, so many samples of every label train and as many test
    equalized : whether each image has its histogram equalised
    classes : labels that are joined into one class; all others are the other class
    published : whether the paper's table has it
    """

    name: str
    title: str
    dataset: str
    train_share: float = 0.25
    per_label: int | None = None
    equalized: bool = False
    classes: frozenset[int] = field(default_factory=frozenset)
    published: bool = True


_ALL = (
    Problem("coil20", "COIL20", "coil20"),
    Problem("coil100", "COIL100", "coil100"),
    Problem("face_detection", "FaceDetection", "face_detection"),
    Problem(
        "face_detection_equalized", "FaceDetection, equalised", "face_detection", equalized=True
    ),
    Problem("mnist_2k2k", "MNIST", "mnist_2k2k"),
    Problem("optdigits", "OptDigits", "optdigits"),
    Problem("semeion", "Semeion", "semeion"),
    Problem("vehicle", "Vehicle", "vehicle", train_share=0.5),
    Problem("digits", "digits", "digits", published=False),
    Problem(
        "usps_eo",
        "USPS, even against odd",
        "usps",
        per_label=100,
        classes=frozenset({0, 2, 4, 6, 8}),
        published=False,
    ),
    Problem(
        "usps_sl",
        "USPS, 0 to 4 against 5 to 9",
        "usps",
        per_label=100,
        classes=frozenset({0, 1, 2, 3, 4}),
        published=False,
    ),
)
PROBLEMS = MappingProxyType({problem.name: problem for problem in _ALL})
TABLE2 = tuple(problem.name for problem in _ALL if problem.published)
USPS = ("usps_eo", "usps_sl")


@lru_cache(maxsize=2)
def _loaded(name: str, directory: Path | None) -> tuple[Any, Labels]:
    return datasets.load(name, directory)


def samples(problem: Problem, directory: Path | None) -> tuple[Floats, Labels]:
    X, y = _loaded(problem.dataset, directory)
    return np.asarray(equalized(X) if problem.equalized else X, dtype=np.float64), y


def data_checksum(problem: Problem, directory: Path | None) -> str:
    """Of the samples as they are, their order included: splits depend on it."""
    X, y = _loaded(problem.dataset, directory)
    found = sha256(np.ascontiguousarray(X).tobytes())
    found.update(np.ascontiguousarray(y).tobytes())
    return found.hexdigest()[:16]


def split(problem: Problem, directory: Path | None, seed: int) -> Split:
    X, y = samples(problem, directory)
    if problem.per_label is None:
        return stratified(X, y, problem.train_share, seed)
    rng = np.random.default_rng(seed)
    n = problem.per_label
    drawn = [rng.permutation(np.flatnonzero(y == label))[: 2 * n] for label in np.unique(y)]
    train = np.concatenate([rows[:n] for rows in drawn])
    test = np.concatenate([rows[n:] for rows in drawn])
    joined = np.isin(y, sorted(problem.classes)).astype(int)
    return Split(X[train], joined[train], X[test], joined[test])


def stratified(X: Floats, y: Labels, train_share: float, seed: int) -> Split:
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=train_share, stratify=y, random_state=seed
    )
    return Split(X, y, X_test, y_test)


def equalized(X: Any) -> Floats:
    """Each row of levels 0 to 255 with its histogram made as flat as can be."""
    levels = np.asarray(X, dtype=np.intp)
    counts = np.zeros((len(levels), 256), dtype=np.intp)
    np.add.at(counts, (np.arange(len(levels))[:, None], levels), 1)
    ranks = np.cumsum(counts, axis=1)
    lowest = np.take_along_axis(ranks, levels.min(axis=1)[:, None], axis=1)
    spread = np.maximum(levels.shape[1] - lowest, 1)
    return np.rint(255.0 * (np.take_along_axis(ranks, levels, axis=1) - lowest) / spread)
