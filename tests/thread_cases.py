"""Every estimator, what a fit leaves behind, and what work records of the threads around it."""

import json
import os
import threading

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from threadpoolctl import threadpool_info

import mpda
from cases import bent_classes
from mpda.model_selection import DiscriminantSearchCV

DATA = [bent_classes(seed, sizes=(24, 20, 22)) for seed in range(2)]
MODELS = {
    name: getattr(mpda, name) for name in mpda.__all__ if isinstance(getattr(mpda, name), type)
}
# Few iterations: what is compared is not how well a fit ends.
MODELS["LSDR"] = lambda: mpda.LSDR(n_components=2, max_iter=3)
MODELS["search"] = lambda: DiscriminantSearchCV(
    mpda.MPDA(), {"n_neighbors": [3, 6], "alpha": [0.1, 1.0]}, cv=2
)


def learnt(model):
    """The attributes of a fit as bytes and words, without times."""
    model = getattr(model, "best_estimator_", model)
    found = {}
    for name, value in vars(model).items():
        if name.endswith("_") and name != "history_":
            found[name] = value.tobytes() if isinstance(value, np.ndarray) else repr(value)
    return found


def threads_now():
    """The largest number of threads inside BLAS, and in loops with OpenMP."""
    found = threadpool_info()
    return {
        api: max((each["num_threads"] for each in found if each["user_api"] == api), default=1)
        for api in ("blas", "openmp")
    }


class Recorder:
    """Writes down where it was called, and how many threads would be used there."""

    def __init__(self, path):
        self.path = str(path)

    def record(self):
        here = {
            "process": os.getpid(),
            "thread": threading.get_ident(),
            "main": threading.current_thread() is threading.main_thread(),
            **threads_now(),
        }
        with open(self.path, "a") as file:
            file.write(json.dumps(here) + "\n")

    def read(self):
        with open(self.path) as file:
            return [json.loads(line) for line in file]


class RecordedScore(Recorder):
    """A score for a search that is also a record."""

    def __call__(self, y, predicted):
        self.record()
        return float(np.mean(y == predicted))


class RecordedPartition(ClusterMixin, BaseEstimator):
    """One patch for each class, and a record of it."""

    def __init__(self, path=None):
        self.path = path

    def fit(self, X, y=None):
        Recorder(self.path).record()
        self.labels_ = np.zeros(len(X), dtype=int)
        return self


class RecordedAttempt(Recorder):
    """In the place of a task of an experiment."""

    def __call__(self, number, task, directory):
        self.record()
        return number, {"task": task.identity, "status": "failed", "error": "none was wanted"}
