"""Comparison with published metric learners on data sets of KEEL: ``mpda reproduce keel``.

Suarez, Garcia and Herrera compared twelve metric learners by the accuracy of 3-NN on the ten folds
that the KEEL repository publishes. Features are scaled to [0, 1] on the training part of a fold.
Here the same folds are used for our methods, and each of them is ranked among the twelve. Data sets
on which plain 3-NN does not have the published accuracy are left out.

References
----------
J. L. Suarez, S. Garcia and F. Herrera, "A Tutorial on Distance Metric Learning", Neurocomputing
425, 2021. Figures from the repository pyDML-Stats (MIT licence).
"""

import csv
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import numpy as np
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler

from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.provenance import machine, versions
from mpda.assessment import Contender
from mpda.assessment.parameter_scores import select_minimum
from mpda.assessment.significance import RankComparison, compare_ranks
from mpda.exceptions import DatasetError, SmallClassWarning
from mpda.experiments.paper_methods import CONTENDERS
from mpda.experiments.protocol import N_FOLDS
from mpda.experiments.row_store import Row
from mpda.model_selection.methods import method

N_NEIGHBORS = 3
# Every how many samples the publication took of large data sets.
_FIFTH = "segment optdigits banana texture ring phoneme page-blocks thyroid twonorm"
_THINNED = {**dict.fromkeys(_FIFTH.split(), 5), "letter": 10, "magic": 10}
# Largest difference of the accuracy of plain 3-NN, which shows that the samples are the same.
_AGREEMENT = 0.02
BASELINE = "Euclidean"


def _untuned(name: str) -> Contender:
    """Return a method with its defaults and all its components, as the published ones were run."""
    return Contender(name, method(name), published=False)


_CONTENDERS = (
    Contender(BASELINE),
    *map(_untuned, ("LFDA", "MPDA", "LFDA refined", "MPDA refined")),
    replace(CONTENDERS["NCA"], name="NCA tuned"),
    *(CONTENDERS[name] for name in ("LFDA tuned", "MPDA tuned", "MPDA tuned refined")),
)
KEEL_CONTENDERS = MappingProxyType({contender.name: contender for contender in _CONTENDERS})


@dataclass(frozen=True)
class KeelSamples:
    """Samples of a data set with their folds.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    y : ndarray of shape (n_samples,)
        Labels.
    folds : ndarray of int of shape (n_samples,)
        Fold in which each sample is tested.
    """

    X: Floats
    y: Labels
    folds: Ints


@cache
def read_published() -> Mapping[str, Mapping[str, float]]:
    """Read the published accuracies.

    Returns
    -------
    mapping of str to mapping of str to float
        Accuracy of 3-NN by data set and metric learner. Data sets on which a metric learner has no
        published accuracy are left out.
    """
    text = files("mpda.experiments").joinpath("metric_learners_3nn.csv").read_text("utf-8")
    return {
        row.pop("data set"): {name: float(value) for name, value in row.items()}
        for row in csv.DictReader(text.splitlines())
        if all(row.values())
    }


def load_samples(name: str, directory: Path | None) -> KeelSamples:
    """Load a data set, thinned as in the publication.

    Parameters
    ----------
    name : str
        Name of the data set.
    directory : Path or None
        Directory with a folder ``keel`` of .npz files.

    Returns
    -------
    KeelSamples
        Samples and folds.

    Raises
    ------
    DatasetError
        If the file does not exist.
    """
    path = Path(directory or ".") / "keel" / f"{name.replace('-', '_')}.npz"
    if not path.is_file():
        raise DatasetError(
            f"{path} does not exist. --data names the directory of the folder keel, whose .npz "
            "files hold X, y and the published folds."
        )
    with np.load(path) as arrays:
        step = _THINNED.get(name, 1)
        return KeelSamples(*(arrays[key][::step] for key in ("X", "y", "fold")))


@dataclass(frozen=True)
class KeelTask:
    """One method on one data set, all folds.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    contender : Contender
        Method with its grid.
    """

    dataset: str
    contender: Contender

    @property
    def title(self) -> str:
        """Description for people."""
        return f"{self.contender.name} on {self.dataset}"

    @property
    def fingerprint(self) -> str:
        """Hash of everything the result depends on but the samples."""
        content = {
            "keel": self.dataset,
            "name": self.contender.name,
            "fixed": dict(self.contender.fixed),
            "grid": dict(self.contender.grid),
            "most": self.contender.max_components,
            "dimensions": self.contender.dimensions,
            "versions": versions(),
        }
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def run_keel_task(task: KeelTask, directory: Path | None) -> Row:
    """Carry out a task.

    Parameters
    ----------
    task : KeelTask
        The task.
    directory : Path or None
        Directory with the folder ``keel``.

    Returns
    -------
    Row
        "accuracies" of the folds, or "error" if the method failed.
    """
    samples = load_samples(task.dataset, directory)
    try:
        accuracies = [_measure_fold(task.contender, samples, fold) for fold in range(10)]
        result = {"status": "done", "accuracies": accuracies}
    except Exception as error:  # one failure must not end a run of hours
        result = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return {
        "task": task.fingerprint,
        "problem": task.dataset,
        "method": task.contender.name,
        "seed": 0,
        **result,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": machine(),
    }


def _measure_fold(contender: Contender, samples: KeelSamples, fold: int) -> float:
    """Return the accuracy of 3-NN on one fold."""
    is_test = samples.folds == fold
    scaler = MinMaxScaler().fit(samples.X[~is_test])
    X, X_test = (scaler.transform(samples.X[rows]) for rows in (~is_test, is_test))
    y, y_test = samples.y[~is_test], samples.y[is_test]
    if contender.method is not None:
        with warnings.catch_warnings():
            # Expected: small classes, singular forms at some grid points, limited iterations.
            for category in (SmallClassWarning, FitFailedWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", category)
            estimator = contender.estimator({})
            if contender.grid or contender.dimensions:
                selection = select_minimum(contender, X, y, N_FOLDS, fold)
                estimator = contender.estimator(selection.parameters, selection.n_components)
            estimator.fit(X, y)
        X, X_test = estimator.transform(X), estimator.transform(X_test)
    return float(KNeighborsClassifier(N_NEIGHBORS).fit(X, y).score(X_test, y_test))


def select_agreeing(accuracies: Mapping[tuple[str, str], float]) -> list[str]:
    """Return the data sets on which plain 3-NN has the published accuracy.

    Parameters
    ----------
    accuracies : mapping of (str, str) to float
        Mean accuracy by data set and method.

    Returns
    -------
    list of str
        Data sets in the order of the publication.
    """
    return [
        name
        for name, published in read_published().items()
        if abs(accuracies.get((name, BASELINE), np.inf) - published[BASELINE]) <= _AGREEMENT
    ]


def rank_among_published(
    accuracies: Mapping[tuple[str, str], float], name: str, datasets: Sequence[str]
) -> RankComparison:
    """Rank one of our methods among the twelve published ones.

    Parameters
    ----------
    accuracies : mapping of (str, str) to float
        Mean accuracy by data set and method.
    name : str
        Our method.
    datasets : sequence of str
        Data sets.

    Returns
    -------
    RankComparison
        Ranks of thirteen methods, ours first.
    """
    published = read_published()
    errors = [
        [1.0 - accuracies[dataset, name], *(1.0 - a for a in published[dataset].values())]
        for dataset in datasets
    ]
    return compare_ranks((f"{name} (ours)", *published[datasets[0]]), errors)
