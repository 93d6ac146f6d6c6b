"""Maps of embeddings to few numbers: ``mpda reproduce embeddings``.

Sentence embeddings of Banking77 and CLINC150 (official splits, rows of length 1) and features of
CIFAR-10 images (five random halves) are mapped to 8, 16, 32 and 64 numbers. The error is that of
1-NN and 5-NN by Euclidean and by cosine distances, with MAP@R next to it, and that of logistic
regression on all numbers, which has no map. All methods have their defaults; the tuned ones select
their parameters by cross-validation on the training part for each number of components.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from mpda._lib.array_types import Bools, Floats, Ints, Labels
from mpda._lib.validation import check_option
from mpda.assessment import (
    CLASSIFIER,
    CLASSIFIER_NOTE,
    MAP_ADVANTAGE,
    Contender,
    Split,
    fit_label_classifier,
    make_contender,
    score_queries,
)
from mpda.assessment.data_split import make_preprocessing, preprocess
from mpda.estimators.methods import BY_NAME
from mpda.exceptions import DatasetError
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

NUMBERS = (8, 16, 32, 64)
NEIGHBORS = (1, 5)
METRICS = ("Euclidean", "cosine")
RAW, TRUNCATION = "raw", "truncation"
# Fits after the first maps: each starts from the map on its left.
_NAMES = ("PCA", "shrinkage LDA", "NCA", "LFDA", "MPDA")
_REFINED = ("PCA refined", "shrinkage LDA refined", "LFDA refined", "MPDA refined")
_TUNED = ("LFDA tuned", "MPDA tuned", "MPDA tuned refined")
EMBEDDING_CONTENDERS = MappingProxyType(
    {
        RAW: Contender(RAW, note="has all numbers in every column"),
        TRUNCATION: Contender(
            TRUNCATION, component_counts=NUMBERS, note="is the first numbers of the embedding"
        ),
        CLASSIFIER: Contender(CLASSIFIER, note=CLASSIFIER_NOTE),
        **{name: make_contender(name, search=False) for name in (*_NAMES, *_REFINED)},
        "MPDA refined Euclidean": Contender(
            "MPDA refined Euclidean", BY_NAME["MPDA refined"], fixed=EUCLIDEAN, published=False
        ),
        **{name: CONTENDERS[name] for name in _TUNED},
    }
)


@dataclass(frozen=True)
class EmbeddingSet:
    """A set of embeddings.

    Parameters
    ----------
    title : str
        Name in tables.
    file : str
        Name of the .npz file.
    n_splits : int
        Number of splits; 1 for the official one.
    energy : float or None
        Share of the variance that PCA keeps before a method, None for no PCA.
    unit : bool
        True if rows are scaled to length 1.
    """

    title: str
    file: str
    n_splits: int
    energy: float | None
    unit: bool


EMBEDDING_SETS = MappingProxyType(
    {
        "banking77": EmbeddingSet("Banking77", "banking77_wordllama256.npz", 1, None, True),
        "banking77_minilm": EmbeddingSet(
            "Banking77 (MiniLM)", "banking77_minilm384.npz", 1, None, True
        ),
        "clinc150": EmbeddingSet("CLINC150 (MiniLM)", "clinc150_minilm384.npz", 1, None, True),
        # Fewer training samples than features, so that every method needs PCA before it.
        "cifar10": EmbeddingSet("CIFAR-10", "cifar10_efficientnet_lite0.npz", 5, 0.95, False),
    }
)


def load_embeddings(name: str, directory: Path | None) -> tuple[Floats, Labels, Labels]:
    """Load a set of embeddings.

    Parameters
    ----------
    name : str
        Key of ``EMBEDDING_SETS``.
    directory : Path or None
        Directory of .npz files.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Embeddings, of length 1 where that is usual.
    y : ndarray of shape (n_samples,)
        Labels.
    is_test : ndarray of bool of shape (n_samples,)
        True in the official test part; False everywhere if there is none.

    Raises
    ------
    DatasetError
        If the file does not exist.
    """
    entry = EMBEDDING_SETS[name]
    path = (find_directory(directory) or Path()) / entry.file
    if not path.is_file():
        raise DatasetError(f"{path} does not exist. --data names the directory of {entry.file}.")
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"]
        # An official validation part (1) belongs to the training samples.
        is_test = arrays["split"] == 2 if "split" in arrays else np.zeros(len(y), dtype=bool)
    return normalize(X) if entry.unit else X, y, is_test


def split_embeddings(name: str, directory: Path | None, seed: int) -> Split:
    """Return the training and test part of a split.

    Parameters
    ----------
    name : str
        Key of ``EMBEDDING_SETS``.
    directory : Path or None
        Directory of .npz files.
    seed : int
        Seed of a random half. It has no effect on the official split.

    Returns
    -------
    Split
        Samples before PCA.
    """
    X, y, is_test = load_embeddings(name, directory)
    train, test = _draw_indices(y, is_test, seed)
    return Split(X[train], y[train], X[test], y[test])


def _draw_indices(y: Labels, is_test: Bools, seed: int) -> tuple[Ints, Ints]:
    """Return the training and test samples, of the official split or of a random half."""
    if is_test.any():
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed, stratify=y)
    return train, test


def run_embedding_task(task: ContenderTask, directory: Path | None) -> Row:
    """Carry out a task.

    Parameters
    ----------
    task : ContenderTask
        The task.
    directory : Path or None
        Directory of .npz files.

    Returns
    -------
    Row
        "errors" in per cent by neighbours and metric, with an entry for each number of components;
        "map_at_r" by metric, None for the classifier; "wrong_samples": which of the "n_test" test
        samples are wrong, by neighbours and metric, and "tested_hash" of their indices; or "error"
        if the method failed.
    """
    split = split_embeddings(task.dataset, directory, task.split)
    _, y, is_test = load_embeddings(task.dataset, directory)
    tested = _draw_indices(y, is_test, task.split)[1]
    facts = {"n_test": len(tested), "tested_hash": hash_indices(tested)}
    return task.run(lambda: {**_measure(task, split), **facts})


def _measure(task: ContenderTask, split: Split) -> Row:
    """Return lists with one entry for each number of components."""
    contender = task.contender
    if contender.is_classifier:
        return _measure_classifier(split, task.split)
    if contender.method is None:
        numbers = contender.component_counts or (split.X.shape[1],)
        maps = [(split.X[:, :r], split.X_test[:, :r]) for r in numbers]
        maps *= len(NUMBERS) // len(maps)
    else:
        energy = EMBEDDING_SETS[task.dataset].energy
        split = preprocess(split, make_preprocessing(scaled=False, energy=energy))
        maps = [_fit(contender, split, r, task.split) for r in NUMBERS]
    errors, wrong_samples, map_at_r = {}, {}, {}
    for metric in METRICS:
        mapped = [_scale(pair, metric) for pair in maps]
        map_at_r[metric] = [
            score_queries(Z, split.y, Z_test, split.y_test, "map_at_r").means["map_at_r"]
            for Z, Z_test in mapped
        ]
        for k in NEIGHBORS:
            wrong = [_find_wrong(Z, split.y, Z_test, split.y_test, k) for Z, Z_test in mapped]
            errors[f"{k}-NN {metric}"] = [100.0 * float(np.mean(each)) for each in wrong]
            wrong_samples[f"{k}-NN {metric}"] = list(map(pack_wrong, wrong))
    return {"errors": errors, "map_at_r": map_at_r, "wrong_samples": wrong_samples}


def _measure_classifier(split: Split, seed: int) -> Row:
    """Return the error of the classifier on all numbers, the same in every column."""
    model = fit_label_classifier(split.X, split.y, seed=seed)
    wrong = model.predict(split.X_test) != split.y_test
    kinds = [f"{k}-NN {metric}" for k in NEIGHBORS for metric in METRICS]
    return {
        "errors": {kind: [100.0 * float(np.mean(wrong))] * len(NUMBERS) for kind in kinds},
        "map_at_r": None,
        "wrong_samples": {kind: [pack_wrong(wrong)] * len(NUMBERS) for kind in kinds},
    }


def _fit(contender: Contender, split: Split, r: int, seed: int) -> tuple[Floats, Floats]:
    """Return the training and test samples, mapped to at most r components."""
    assert contender.method is not None
    r = min(r, contender.count_components(split.X.shape[1], split.y))
    parameters: dict[str, Any] = {}
    if contender.grid:
        candidates = replace(contender, component_counts=(r,), max_components=None)
        parameters = select_least_error(candidates, split.X, split.y, N_FOLDS, seed).parameters
    fitted = contender.estimator(parameters, r).fit(split.X, split.y)
    return np.asarray(fitted.transform(split.X)), np.asarray(fitted.transform(split.X_test))


def _scale(mapped: tuple[Floats, Floats], metric: str) -> tuple[Floats, Floats]:
    """Return mapped samples whose Euclidean neighbours are those of a metric."""
    Z, Z_test = mapped
    return (normalize(Z), normalize(Z_test)) if metric == "cosine" else mapped


def _find_wrong(Z: Floats, y: Labels, Z_test: Floats, y_test: Labels, k: int) -> Bools:
    """Return True for each test sample that k-NN gets wrong."""
    classifier = KNeighborsClassifier(k, algorithm="brute").fit(Z, y)
    return np.asarray(classifier.predict(Z_test) != y_test)


def run_embeddings(options: ExperimentOptions) -> ExperimentResult:
    """Map embeddings to few numbers.

    Parameters
    ----------
    options : ExperimentOptions
        ``problems`` are keys of ``EMBEDDING_SETS``, ``methods`` keys of ``EMBEDDING_CONTENDERS``.

    Returns
    -------
    ExperimentResult
        Errors as ``embeddings.md``, and the rows of all splits.
    """
    names, methods = (
        [check_option(option, name, tuple(known)) for name in dict.fromkeys(wanted or known)]
        for option, wanted, known in (
            ("datasets", options.problems, EMBEDDING_SETS),
            ("methods", options.methods, EMBEDDING_CONTENDERS),
        )
    )
    load = partial(load_embeddings, directory=options.directory)
    available, missing = load_available(names, load)
    if not available:
        raise DatasetError(missing[0])
    tasks = [
        ContenderTask(f"embeddings, MAP@R {NUMBERS}", name, EMBEDDING_CONTENDERS[method], seed)
        for method in methods
        for name in available
        for seed in range(min(options.n_splits, EMBEDDING_SETS[name].n_splits))
    ]
    path = options.out / "embeddings.jsonl"
    rows, failures = run_tasks(
        tasks, path, options.directory, options.jobs, options.progress, run=run_embedding_task
    )
    tables = [error_table(rows, name) for name in available]
    if CLASSIFIER in methods:
        tables.append(f"{CLASSIFIER.capitalize()}: {CLASSIFIER_NOTE}. {MAP_ADVANTAGE}")
    run = ExperimentResult(failed=[*missing, *failures], rows=rows)
    result = experiment.write_result(options, "embeddings", "\n\n".join(tables), run)
    return replace(result, rows=())  # the page of the paper's experiments cannot draw these rows


def error_table(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Format the errors on a set of embeddings.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of finished tasks.
    name : str
        Key of ``EMBEDDING_SETS``.

    Returns
    -------
    str
        One Markdown table for each number of neighbours and metric, and one of MAP@R for each
        metric, with means over splits.
    """
    rows = [row for row in rows if row["problem"] == name]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    n_splits = len({row["seed"] for row in rows})
    parts = [f"## {EMBEDDING_SETS[name].title}, {n_splits} split{'s' * (n_splits > 1)}"]
    for kind in (f"{k}-NN {metric}" for k in NEIGHBORS for metric in METRICS):
        lines = []
        for method in methods:
            errors = [row["errors"][kind] for row in rows if row["method"] == method]
            lines.append([method, *(f"{mean:.2f}" for mean in np.mean(errors, axis=0))])
        header = [f"error of {kind} in %", *(f"{r} numbers" for r in NUMBERS)]
        parts.append(format_markdown(header, lines))
    for metric in METRICS:
        lines = []
        for method in methods:
            of_method = [row["map_at_r"] for row in rows if row["method"] == method]
            if None in of_method:  # a classifier has no neighbours
                lines.append([method, *("\N{EN DASH}" for _ in NUMBERS)])
                continue
            means = np.mean([values[metric] for values in of_method], axis=0)
            lines.append([method, *(f"{mean:.3f}" for mean in means)])
        header = [f"MAP@R {metric}", *(f"{r} numbers" for r in NUMBERS)]
        parts.append(format_markdown(header, lines))
    return "\n\n".join(parts)
