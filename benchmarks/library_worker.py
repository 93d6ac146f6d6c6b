"""Fit an estimator of any library, in the environment where that library is installed.

    python benchmarks/library_worker.py probe SPEC OUT
    python benchmarks/library_worker.py measure SPEC PARAMETERS LIMIT OUT SPLIT...

Started by ``libraries.py``. Imports NumPy, scikit-learn and the library only, since mpda and its
dependencies need not be there. SPEC is ``module`` or ``module:name``, PARAMETERS a JSON object,
LIMIT the CPU seconds that a fit may take, and SPLIT an .npz file with X, y, X_test and y_test, in a
folder for its data set. OUT is a file of JSON lines, because libraries print messages of their own.
"""

from __future__ import annotations

import importlib
import inspect
import json
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class FunctionAdapter:
    """Estimator made of a function ``function(X, y, ...)`` that returns (basis, projection)."""

    def __init__(self, function: Any, parameters: dict[str, Any]) -> None:
        self.function, self.parameters = function, parameters

    def fit(self, X: Array, y: Array) -> FunctionAdapter:
        self.transform = self.function(X, y, **self.parameters)[1]
        return self


def make_estimator(spec: str, parameters: dict[str, Any]) -> Any:
    """Return the estimator that a spec ``module:name`` names."""
    module, _, name = spec.partition(":")
    found = getattr(importlib.import_module(module), name)
    return found(**parameters) if inspect.isclass(found) else FunctionAdapter(found, parameters)


def probe(spec: str) -> dict[str, Any]:
    """Import a module, or fit and apply an estimator; return the first line of the error."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    try:
        if ":" not in spec:
            importlib.import_module(spec)
        else:
            X, y = load_breast_cancer(return_X_y=True)
            X = StandardScaler().fit_transform(X[:, :8])
            Z = np.asarray(make_estimator(spec, {}).fit(X, y).transform(X))
            if len(Z) != len(X) or not np.isfinite(Z).all():
                raise ValueError(f"transform returned an array of shape {Z.shape} or nan")
    except Exception as error:
        return {"error": describe(error)}
    return {"error": ""}


def describe(error: Exception) -> str:
    """Return type and first line of an error."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"


def measure(spec: str, parameters: dict[str, Any], limit: float, path: Path) -> dict[str, Any]:
    """Return the 1-NN error in per cent, the CPU seconds of the fit and the number of components.

    CPU seconds, because other programs may run on the machine.
    """
    from sklearn.neighbors import KNeighborsClassifier

    with np.load(path) as file:
        X, y, X_test, y_test = (file[name] for name in ("X", "y", "X_test", "y_test"))
    begin = time.process_time()
    seconds = 0.0
    if spec:  # else 1-NN on the features
        try:
            model = fit_within(limit, make_estimator(spec, parameters), X, y)
        except Exception as error:
            return {"error": describe(error)}
        seconds = time.process_time() - begin
        X, X_test = np.asarray(model.transform(X)), np.asarray(model.transform(X_test))
    predicted = KNeighborsClassifier(1).fit(X, y).predict(X_test)
    wrong = 100.0 * float(np.mean(predicted != y_test))
    return {"error": "", "wrong": wrong, "seconds": seconds, "components": X.shape[1]}


def fit_within(limit: float, estimator: Any, X: Array, y: Array) -> Any:
    """Fit an estimator; raise a TimeoutError once it has taken ``limit`` CPU seconds."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"a fit takes more than {limit:g} s of CPU time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return estimator.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def warm_up(spec: str, parameters: dict[str, Any]) -> None:
    """Fit 200 samples once, so that no timed fit loads or compiles code."""
    from sklearn.datasets import load_breast_cancer

    if spec:
        X, y = load_breast_cancer(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        make_estimator(spec, parameters).fit(X[:200], y[:200]).transform(X[200:300])


def main() -> None:
    warnings.simplefilter("ignore")
    action, spec, *rest = sys.argv[1:]
    if action == "probe":
        write(rest[0], probe(spec))
        return
    parameters, limit, out, *paths = rest
    warm_up(spec, json.loads(parameters))
    too_slow: dict[Path, dict[str, Any]] = {}
    for path in map(Path, paths):
        # Other splits of the same data set would take as long.
        result = too_slow.get(path.parent)
        result = result or measure(spec, json.loads(parameters), float(limit), path)
        if result["error"].startswith("TimeoutError"):
            too_slow[path.parent] = result
        write(out, result)


def write(path: str, result: dict[str, Any]) -> None:
    """Append a result to a file, so that it is kept if a later one takes too long."""
    with open(path, "a") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
