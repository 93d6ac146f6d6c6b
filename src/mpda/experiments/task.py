"""One task of an experiment: one method on one split of one problem.

The steps are those of the paper: draw the split, reduce it by PCA to 95 % of the variance, select
parameters and number of components by 4-fold cross-validation on the training samples, and count
the errors of 1-NN on the test samples for every number of components.
"""

import json
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

from mpda._lib.array_types import Bools
from mpda._lib.provenance import machine, results_versions, versions
from mpda.assessment import Contender
from mpda.assessment.data_split import (
    PCA_ENERGY,
    PCA_MIN_FEATURES,
    default_pca_energy,
    make_preprocessing,
    preprocess,
)
from mpda.assessment.error_statistics import find_column
from mpda.assessment.outer_fold import FoldResult, assess_features, measure_curve
from mpda.exceptions import DatasetError, SmallClassWarning
from mpda.experiments.least_error import select_least_error
from mpda.experiments.protocol import N_FOLDS, Problem, draw_indices, load_samples, split
from mpda.experiments.row_store import Row
from mpda.experiments.wrong_samples import hash_indices, pack_wrong

# Number of the protocol. Rows of another one are not reused. 2: the PCA of an inner fold is fitted
# inside the fold, and ties of the partition do not depend on the order of the samples.
_PROTOCOL = 2


@dataclass(frozen=True)
class Task:
    """One method on one split of one problem.

    Parameters
    ----------
    problem : Problem
        The classification problem.
    contender : Contender
        The method with its grid.
    seed : int
        Seed of the split.
    data : str
        Fingerprint of the samples; see :func:`.protocol.compute_fingerprint`.
    shares_pca : bool, default=False
        True if inner folds share the PCA of all training samples, as they did at first. Results of
        slow methods are kept in this form.
    """

    problem: Problem
    contender: Contender
    seed: int
    data: str
    shares_pca: bool = False

    @property
    def title(self) -> str:
        """Description for people."""
        return f"{self.contender.name} on {self.problem.title}, split {self.seed}"

    @property
    def fingerprint(self) -> str:
        """Hash of everything the result depends on, including the versions of packages."""
        # Rows of files are found by this hash: renaming a key, or a field of Problem, would orphan
        # every row that was ever stored. The keys are therefore older than some of the names.
        method = self.contender.method
        problem = {**asdict(self.problem), "classes": sorted(self.problem.classes)}
        if self.problem.reduced:  # younger than the first rows
            del problem["reduced"]
        content = {
            "problem": problem,
            "data": self.data,
            "name": self.contender.name,
            "path": method.path if method else None,
            "fixed": dict(self.contender.fixed),
            "grid": dict(self.contender.grid),
            "most": self.contender.max_components,
            "dimensions": self.contender.component_counts,
            "seed": self.seed,
            "folds": N_FOLDS,
            "energy": PCA_ENERGY,
            "most features": PCA_MIN_FEATURES,
            "versions": results_versions(),
        }
        if not self.shares_pca:  # the first protocol had no number
            content["protocol"] = _PROTOCOL
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def run_task(task: Task, directory: Path | None) -> Row:
    """Carry out a task.

    Parameters
    ----------
    task : Task
        The task.
    directory : Path or None
        Directory of .npz files.

    Returns
    -------
    Row
        The result as JSON values. "status" is "done" or "failed"; a failed row has the message
        under "error". "task" is the fingerprint of the task.

    Raises
    ------
    DatasetError
        If the data set is not available; other tasks would fail too.
    """
    begin = time.perf_counter()
    try:
        result = {"status": "done", **measure_errors(task, directory)}
    except DatasetError:
        raise
    # A method may fail on one split, for example by a singular matrix. The failure is recorded,
    # and the run, which may have hours to go, continues.
    except Exception as error:
        result = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return {
        "task": task.fingerprint,
        "problem": task.problem.name,
        "method": task.contender.name,
        "seed": task.seed,
        "data": task.data,
        "fixed": dict(task.contender.fixed),
        **result,
        "seconds": round(time.perf_counter() - begin, 3),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": machine(),
    }


def measure_errors(task: Task, directory: Path | None) -> Row:
    """Measure the 1-NN errors of a method on one split of a problem.

    Parameters
    ----------
    task : Task
        The method, the problem, and the seed of the split and of the folds.
    directory : Path or None
        Directory of .npz files.

    Returns
    -------
    Row
        "dimensions" and "wrong": numbers of components, and errors among the "n_test" test samples
        for each; "parameters" and "cv_dimension": selected by cross-validation; "wrong_samples":
        which test samples are wrong at that number ("cv") and at the best one ("best"), and
        "tested_hash" of their indices; "fit_seconds" and "fit_mib": cost of a fit with them.
    """
    contender = task.contender
    with warnings.catch_warnings():
        # Expected: classes of COIL have 18 samples, forms without a ridge are singular at some grid
        # points, and the iterations of NCA and LSDR are limited.
        for category in (SmallClassWarning, FitFailedWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        raw = samples = split(task.problem, directory, task.seed)
        energy = default_pca_energy(raw.X.shape[1]) if task.problem.reduced else None
        steps = make_preprocessing(scaled=False, energy=energy)
        if contender.method is not None:
            samples = preprocess(raw, steps)
        test_share = len(samples.y_test) / len(samples.y)
        tested = draw_indices(task.problem, load_samples(task.problem, directory)[1], task.seed)[1]
        facts = {"test_share": test_share, "tested_hash": hash_indices(tested)}
        if contender.method is None:
            row, wrong = assess_features(samples)
            return {**row, **facts, "wrong_samples": _pack_readings(row, wrong)}
        start = time.perf_counter()
        # The folds see the raw samples and have a PCA of their own.
        X, inner_steps = (samples.X, []) if task.shares_pca else (raw.X, steps)
        selected = select_least_error(contender, X, raw.y, N_FOLDS, task.seed, inner_steps)
        # PCA in a fold may keep more than PCA of all training samples.
        n_components = min(selected.n_components, samples.X.shape[1])
        selected = replace(selected, n_components=n_components)
        seconds = time.perf_counter() - start
        row, wrong = measure_curve(contender, samples, selected)
        row["search_seconds"] = round(seconds, 3)
        facts["wrong_samples"] = _pack_readings(row, wrong)
        # The times of the search do not compare: it shares work between grid points for some
        # methods only. One more fit, with the selected parameters, is timed for all alike.
        estimator = contender.estimator(row["parameters"], row["cv_dimension"])
        seconds, mib = _measure_cost(lambda: estimator.fit(samples.X, samples.y))
        return {**row, **facts, "fit_seconds": round(seconds, 4), "fit_mib": round(mib, 2)}


def _pack_readings(row: FoldResult, wrong: Bools) -> dict[str, str]:
    """Return the wrong samples at the best and at the selected number of components."""
    return {reading: pack_wrong(wrong[find_column(row, reading)]) for reading in ("best", "cv")}


def _measure_cost(call: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a call, and the peak memory in MiB of Python and NumPy in another."""
    begin = time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    tracemalloc.start()  # only now, because tracing slows the call down
    try:
        call()
        return seconds, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
