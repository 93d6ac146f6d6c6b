"""Tasks of experiments other than the paper's: one method on one split of a data set, resumable."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

from mpda._lib.provenance import machine, results_versions, versions
from mpda.assessment import Contender
from mpda.exceptions import DatasetError, SmallClassWarning
from mpda.experiments.row_store import Row

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class ContenderTask:
    """One method on one split of a data set.

    Parameters
    ----------
    experiment : str
        Name of the experiment.
    dataset : str
        Name of the data set.
    contender : Contender
        Method with its grid.
    split : int
        Number of the split or of the fold that is tested, from 0 on.
    """

    experiment: str
    dataset: str
    contender: Contender
    split: int

    @property
    def title(self) -> str:
        """Description for people."""
        return f"{self.contender.name} on {self.dataset}, split {self.split}"

    @property
    def fingerprint(self) -> str:
        """Hash of everything the result depends on but the samples."""
        content = {
            "experiment": self.experiment,
            "dataset": self.dataset,
            "split": self.split,
            "name": self.contender.name,
            "fixed": dict(self.contender.fixed),
            "grid": dict(self.contender.grid),
            "most": self.contender.max_components,
            "dimensions": self.contender.component_counts,
            "versions": results_versions(),
        }
        if self.contender.n_neighbors > 1:
            content["neighbors"] = self.contender.n_neighbors
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def run(self, measure: Callable[[], Mapping[str, Any]]) -> Row:
        """Carry out the task.

        Parameters
        ----------
        measure : callable
            Fits the method and returns the entries of the row that it measures.

        Returns
        -------
        Row
            These entries, or "error" if the method failed.
        """
        try:
            with warnings.catch_warnings():
                # Expected: small classes, singular forms at grid points, limited iterations of NCA.
                for category in (SmallClassWarning, FitFailedWarning, ConvergenceWarning):
                    warnings.simplefilter("ignore", category)
                result = {"status": "done", **measure()}
        except Exception as error:  # one failure must not end a run of hours
            result = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        return {
            "task": self.fingerprint,
            "problem": self.dataset,
            "method": self.contender.name,
            "seed": self.split,
            **result,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "machine": machine(),
        }


def load_available(
    names: Iterable[str], load: Callable[[str], Loaded]
) -> tuple[dict[str, Loaded], list[str]]:
    """Load the data sets that there are.

    Parameters
    ----------
    names : iterable of str
        Names of data sets.
    load : callable
        ``load(name)`` returns a data set, or raises a ``DatasetError``.

    Returns
    -------
    loaded : dict of str to object
        Data sets by name.
    missing : list of str
        One message for each that could not be loaded.
    """
    loaded, missing = {}, []
    for name in names:
        try:
            loaded[name] = load(name)
        except DatasetError as error:
            missing.append(f"{name}: {error}")
    return loaded, missing
