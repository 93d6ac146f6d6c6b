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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler

from mpda import NeighborhoodRefinement
from mpda._lib.array_types import Floats, Ints, Labels
from mpda._lib.validation import check_option
from mpda.assessment import Contender
from mpda.assessment.contender import SPARSE_COUNTS
from mpda.assessment.significance import RankComparison, compare_ranks
from mpda.estimators.methods import method
from mpda.exceptions import DatasetError, ReproductionError
from mpda.experiments import experiment
from mpda.experiments.contender_task import ContenderTask, load_available
from mpda.experiments.datasets.loading import find_directory
from mpda.experiments.error_tables import format_markdown
from mpda.experiments.experiment import ExperimentOptions, ExperimentResult
from mpda.experiments.least_error import select_least_error
from mpda.experiments.paper_methods import CONTENDERS, EUCLIDEAN
from mpda.experiments.protocol import N_FOLDS
from mpda.experiments.row_store import Row
from mpda.experiments.runner import run_tasks
from mpda.experiments.wrong_samples import hash_indices, pack_wrong

N_NEIGHBORS = 3
N_TEST_FOLDS = 10
# Every how many samples the publication took of large data sets.
_FIFTH = "segment optdigits banana texture ring phoneme page-blocks thyroid twonorm"
_THINNED = {**dict.fromkeys(_FIFTH.split(), 5), "letter": 10, "magic": 10}
# Largest difference of the accuracy of plain 3-NN, which shows that the samples are the same.
_AGREEMENT = 0.02
BASELINE = "Euclidean"


def _untuned(name: str) -> Contender:
    """Return a method with its defaults and all its components, as the published ones were run.

    A refinement on a sphere has as many outputs as there are components; one is the constant.
    """
    return Contender(name, method(name), published=False)


_CONTENDERS = (
    Contender(BASELINE),
    *map(_untuned, ("LFDA", "MPDA", "LFDA refined", "MPDA refined")),
    Contender("MPDA refined Euclidean", method("MPDA refined"), fixed=EUCLIDEAN, published=False),
    # NCA is fitted once for each of these numbers of components, and for the number of features.
    replace(
        CONTENDERS["NCA"],
        name="NCA tuned",
        component_counts=SPARSE_COUNTS,
        n_neighbors=N_NEIGHBORS,
    ),
    *(
        replace(CONTENDERS[name], n_neighbors=N_NEIGHBORS)
        for name in ("LFDA tuned", "MPDA tuned", "MPDA tuned refined")
    ),
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
    path = (find_directory(directory) or Path()) / "keel" / f"{name.replace('-', '_')}.npz"
    if not path.is_file():
        raise DatasetError(
            f"{path} does not exist. --data names the directory of the folder keel, whose .npz "
            "files hold X, y and the published folds."
        )
    with np.load(path) as arrays:
        step = _THINNED.get(name, 1)
        return KeelSamples(*(arrays[key][::step] for key in ("X", "y", "fold")))


def run_keel_task(task: ContenderTask, directory: Path | None) -> Row:
    """Carry out a task.

    Parameters
    ----------
    task : ContenderTask
        The task.
    directory : Path or None
        Directory with the folder ``keel``.

    Returns
    -------
    Row
        "accuracy" of 3-NN, "wrong_samples": which of the "n_test" test samples are wrong, and
        "tested_hash" of their indices; or "error" if the method failed.
    """
    samples = load_samples(task.dataset, directory)
    return task.run(lambda: _measure_fold(task.contender, samples, task.split))


def _measure_fold(contender: Contender, samples: KeelSamples, fold: int) -> Row:
    """Return the accuracy of 3-NN on one fold, and the samples that are wrong."""
    is_test = samples.folds == fold
    scaler = MinMaxScaler().fit(samples.X[~is_test])
    X, X_test = (scaler.transform(samples.X[rows]) for rows in (~is_test, is_test))
    y, y_test = samples.y[~is_test], samples.y[is_test]
    if contender.method is not None:
        estimator = contender.estimator({})
        if contender.grid or contender.component_counts:
            if contender.component_counts:
                d = X.shape[1]
                numbers = tuple(r for r in contender.component_counts if r < d)
                contender = replace(contender, component_counts=(*numbers, d))
            selection = select_least_error(contender, X, y, N_FOLDS, fold)
            estimator = contender.estimator(selection.parameters, selection.n_components)
        elif isinstance(estimator, NeighborhoodRefinement):
            # As many outputs as the start has components: the constant of a sphere is one of them.
            start = clone(estimator.estimator).fit(X, y)
            estimator.set_params(n_components=len(start.components_))
        estimator.fit(X, y)
        X, X_test = estimator.transform(X), estimator.transform(X_test)
    wrong = KNeighborsClassifier(N_NEIGHBORS).fit(X, y).predict(X_test) != y_test
    return {
        "accuracy": float(np.mean(~wrong)),
        "wrong_samples": pack_wrong(wrong),
        "n_test": len(wrong),
        "tested_hash": hash_indices(np.flatnonzero(is_test)),
    }


def run_keel(options: ExperimentOptions) -> ExperimentResult:
    """Rank our methods among the published metric learners.

    Parameters
    ----------
    options : ExperimentOptions
        ``problems`` are names of data sets, ``methods`` keys of ``KEEL_CONTENDERS``.

    Returns
    -------
    ExperimentResult
        Ranks and accuracies as ``keel.md``, and the rows of all folds.
    """
    published = read_published()
    names = [check_option("datasets", n, tuple(published)) for n in options.problems or published]
    methods = [
        check_option("methods", name, tuple(KEEL_CONTENDERS))
        for name in dict.fromkeys((BASELINE, *(options.methods or KEEL_CONTENDERS)))
    ]
    available, missing = load_available(names, partial(load_samples, directory=options.directory))
    if not available:
        raise DatasetError(missing[0])
    # Plain 3-NN comes first: the others are run only where it agrees with the publication.
    rows, failures = _run_methods(options, [BASELINE], list(available))
    datasets = select_agreeing(compute_accuracies(rows))
    if len(datasets) < 2:
        raise ReproductionError(
            "Ranks need two data sets on which plain 3-NN has the published accuracy, but of "
            f"{', '.join(available)} it has it on {', '.join(datasets) or 'none'}."
        )
    more_rows, more_failures = _run_methods(options, methods[1:], datasets)
    accuracies = compute_accuracies([*rows, *more_rows])
    text = "\n\n".join(
        [
            f"Accuracy of {N_NEIGHBORS}-NN on the ten folds of KEEL. Each of our methods is ranked "
            f"among the twelve published metric learners, on {len(datasets)} data sets on which "
            f"plain {N_NEIGHBORS}-NN agrees with the publication within {100 * _AGREEMENT:.0f} "
            "points. Tuned methods select their parameters by the cross-validated accuracy of "
            f"{N_NEIGHBORS}-NN on the training part; the published ones have their defaults.",
            rank_table(accuracies, methods, datasets),
            accuracy_table(accuracies, methods, datasets),
        ]
    )
    failed = [*missing, *failures, *more_failures]
    run = ExperimentResult(failed=failed, rows=[*rows, *more_rows])
    result = experiment.write_result(options, "keel", text, run)
    return replace(result, rows=())  # the page of the paper's experiments cannot draw these rows


def _run_methods(
    options: ExperimentOptions, methods: Sequence[str], datasets: Sequence[str]
) -> tuple[list[Row], list[str]]:
    """Return the rows of methods on all folds of data sets, and messages of failed tasks."""
    tasks = [
        ContenderTask("keel", dataset, KEEL_CONTENDERS[name], fold)
        for fold in range(N_TEST_FOLDS)
        for dataset in datasets
        for name in methods
    ]
    path = options.out / "keel.jsonl"
    return run_tasks(
        tasks, path, options.directory, options.jobs, options.progress, run=run_keel_task
    )


def compute_accuracies(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """Compute mean accuracies over folds.

    Parameters
    ----------
    rows : sequence of Row
        Rows of finished tasks.

    Returns
    -------
    dict of (str, str) to float
        By data set and method, for those with all folds.
    """
    folds = defaultdict(list)
    for row in rows:
        folds[row["problem"], row["method"]].append(row["accuracy"])
    return {k: float(np.mean(v)) for k, v in folds.items() if len(v) == N_TEST_FOLDS}


def rank_table(
    accuracies: Mapping[tuple[str, str], float], methods: Sequence[str], datasets: Sequence[str]
) -> str:
    """Make the table of average ranks among the published metric learners.

    Parameters
    ----------
    accuracies : mapping of (str, str) to float
        Mean accuracy by data set and method.
    methods : sequence of str
        Our methods. Those that lack a data set are left out.
    datasets : sequence of str
        Data sets.

    Returns
    -------
    str
        In Markdown: rank of each method among thirteen, and that of published methods next to it.
    """
    lines = []
    for name in methods:
        if all((dataset, name) in accuracies for dataset in datasets):
            ranks = rank_among_published(accuracies, name, datasets)
            best = int(np.argmin(ranks.ranks[1:])) + 1
            mean = np.mean([accuracies[dataset, name] for dataset in datasets])
            lines.append(
                [
                    name,
                    f"{ranks.ranks[0]:.2f}",
                    f"{ranks.methods[best]} {ranks.ranks[best]:.2f}",
                    f"{ranks.p_value:.2g}",
                    f"{ranks.critical_difference:.2f}",
                    f"{100.0 * mean:.2f}",
                ]
            )
    header = ["method", "average rank among 13", "best published", "Friedman's p"]
    return format_markdown([*header, "critical difference", "mean accuracy"], lines)


def accuracy_table(
    accuracies: Mapping[tuple[str, str], float], methods: Sequence[str], datasets: Sequence[str]
) -> str:
    """Make the table of accuracies in per cent, next to the published ones.

    Parameters
    ----------
    accuracies : mapping of (str, str) to float
        Mean accuracy by data set and method.
    methods : sequence of str
        Our methods.
    datasets : sequence of str
        Data sets.

    Returns
    -------
    str
        One line for each data set, in Markdown.
    """
    published = read_published()
    columns = list(published[datasets[0]])
    lines = []
    for dataset in datasets:
        ours = [accuracies.get((dataset, name)) for name in methods]
        line = [*ours, *(published[dataset][name] for name in columns)]
        lines.append([dataset, *("" if a is None else f"{100.0 * a:.1f}" for a in line)])
    return format_markdown(
        ["data set", *methods, *(f"{name}, published" for name in columns)], lines
    )


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
