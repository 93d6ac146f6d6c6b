"""Other libraries: which of them run with the current scikit-learn, how well and how fast.

    python benchmarks/libraries.py --environments DIR [--data DIR] [--out docs/evidence]

Each library is installed by pip in virtual environments below DIR (a package index is needed). Its
supervised estimators are then fitted to a small table, each in a process of its own. Those that run
are compared on the same splits, with their default parameters and one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from mpda.assessment import ErrorEstimate, find_best_methods
from mpda.assessment.significance import SPLITS_TEST
from protocol import FIRST_SEED, TRAIN_SHARE, Array, Split, data_argument, load, provenance, split

WORKER = Path(__file__).with_name("library_worker.py")
BUNDLED = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}
PAPER = ("vehicle", "semeion")  # with --data
# Features in different units; standardised by the training samples. The others are pixels.
STANDARDISED = ("wine", "breast cancer", "vehicle")
# Seconds of one estimator in a probe.
PROBE_LIMIT = 300


@dataclass(frozen=True)
class Attempt:
    """Packages of one environment.

    Parameters
    ----------
    packages : tuple of str
        Requirements next to the library.
    build : tuple of str, default=()
        Packages that its setup needs and does not declare. They are installed first, and pip is
        called with --no-build-isolation.
    """

    packages: tuple[str, ...] = ("scikit-learn",)
    build: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join((*self.packages, *self.build))


@dataclass(frozen=True)
class Library:
    """A library, its supervised estimators, and environments to try until all of them run.

    Parameters
    ----------
    requirement : str
        Name for pip.
    module : str
        Name for import.
    estimators : tuple of str
        Supervised estimators: classes, or functions that return a basis and a projection.
    attempts : tuple of Attempt
        The current scikit-learn first, then what helps.
    """

    requirement: str
    module: str
    estimators: tuple[str, ...]
    attempts: tuple[Attempt, ...] = (Attempt(),)


_METRIC_LEARN = "ITML_Supervised LFDA LMNN LSML_Supervised MLKR MMC_Supervised NCA RCA_Supervised "
_METRIC_LEARN += "SCML_Supervised SDML_Supervised"
_PYDML = "ANMM DMLMJ DML_eig ITML LDA LDML LLDA LMNN LSI MCML NCA NCMC NCMML"
_OLDER = (Attempt(("scikit-learn==1.8.*",)), Attempt(("scikit-learn==1.7.*",)))
_UNDECLARED = Attempt(("scikit-learn", "six", "GPyOpt", "GPy", "matplotlib"))
_CYTHON = Attempt(("scikit-learn", "six"), ("Cython", "numpy", "setuptools", "wheel"))
LIBRARIES = (
    Library("metric-learn", "metric_learn", tuple(_METRIC_LEARN.split()), (Attempt(), *_OLDER)),
    Library("pylmnn", "pylmnn", ("LargeMarginNearestNeighbor",), (Attempt(), _UNDECLARED)),
    Library("pyDML", "dml", tuple(_PYDML.split()), (Attempt(), _CYTHON)),
    Library("POT[dr]", "ot.dr", ("wda", "fda")),
    Library("umap-learn", "umap", ("UMAP",)),
)


@dataclass(frozen=True)
class Method:
    """A method that is measured.

    Parameters
    ----------
    name : str
        Name in tables.
    spec : str
        ``module:name``, or "" for 1-NN on the features.
    library : str or None, default=None
        Requirement of the library whose environment it runs in. None: that of mpda.
    parameters : dict, default=None
        Parameters other than the defaults.
    """

    name: str
    spec: str
    library: str | None = None
    parameters: dict[str, Any] | None = None


METHODS = (
    Method("1-NN", ""),
    Method("LDA (scikit-learn)", "sklearn.discriminant_analysis:LinearDiscriminantAnalysis"),
    Method("NCA (scikit-learn)", "sklearn.neighbors:NeighborhoodComponentsAnalysis"),
    Method("LMNN (metric-learn)", "metric_learn:LMNN", "metric-learn"),
    Method("UMAP (umap-learn)", "umap:UMAP", "umap-learn", {"random_state": 0, "n_jobs": 1}),
    Method(
        "UMAP, 10 components",
        "umap:UMAP",
        "umap-learn",
        {"random_state": 0, "n_jobs": 1, "n_components": 10},
    ),
    Method("WDA (POT)", "ot.dr:wda", "POT[dr]"),
    Method("WDA, 10 components", "ot.dr:wda", "POT[dr]", {"k": 10}),
    Method("LFDA (mpda)", "mpda:LFDA"),
    Method("LFDA, alpha=0.1", "mpda:LFDA", None, {"alpha": 0.1}),
    Method("MPDA (mpda)", "mpda:MPDA"),
    Method("NeighborhoodRefinement (mpda)", "mpda:NeighborhoodRefinement"),
)
REFERENCE = "MPDA (mpda)"  # times are divided by its time
COLUMNS = ("method", "data", "seed", "wrong", "components", "seconds", "error")


@dataclass(frozen=True)
class Outcome:
    """What happened to a library in one environment.

    Parameters
    ----------
    library : Library
        The library.
    attempt : Attempt
        Its environment.
    python : Path
        Interpreter of the environment.
    versions : str
        Versions of the library, scikit-learn and NumPy; "" if pip failed.
    problem : str
        Error of pip or of the import; "" if both succeeded.
    errors : dict of str to str
        Error of every estimator; "" where it runs.
    """

    library: Library
    attempt: Attempt
    python: Path
    versions: str
    problem: str
    errors: dict[str, str]

    @property
    def n_running(self) -> int:
        """Number of estimators that run."""
        return sum(not error for error in self.errors.values())


def try_library(library: Library, folder: Path) -> Iterator[Outcome]:
    """Yield the outcome of each attempt, up to the first in which every estimator runs."""
    for number, attempt in enumerate(library.attempts):
        path = folder / f"{library.module.split('.')[0]}-{number}"
        if not path.exists():
            venv.create(path, with_pip=True)
        python = path / ("Scripts" if os.name == "nt" else "bin") / "python"
        problem = install(python, library, attempt)
        outcome = Outcome(library, attempt, python, "", problem, {})
        if not problem:
            problem = probe(python, library.module)
            names = () if problem else library.estimators
            errors = {name: probe(python, f"{library.module}:{name}") for name in names}
            versions = read_versions(python, library)
            outcome = Outcome(library, attempt, python, versions, problem, errors)
        yield outcome
        if outcome.n_running == len(library.estimators):
            return


def install(python: Path, library: Library, attempt: Attempt) -> str:
    """Install a library; return the last error of pip, or ""."""
    commands = [[library.requirement, *attempt.packages]]
    if attempt.build:
        commands = [list(attempt.build), ["--no-build-isolation", *commands[0]]]
    for words in commands:
        command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *words]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            errors = re.findall(
                r"^\s*(\w*(?:Error|ERROR): .*)$", result.stdout + result.stderr, re.M
            )
            return errors[0] if errors else f"pip exited with status {result.returncode}"
    return ""


def read_versions(python: Path, library: Library) -> str:
    """Return the versions of a library and of what it runs on."""
    names = [re.sub(r"\[.*", "", library.requirement), "scikit-learn", "numpy"]
    code = "import sys; from importlib.metadata import version as v; "
    code += "print(', '.join(f'{n} {v(n)}' for n in sys.argv[1:]))"
    return subprocess.check_output([str(python), "-c", code, *names], text=True).strip()


def probe(python: Path, spec: str) -> str:
    """Import a module or fit an estimator in another environment; return the error, or ""."""
    results = run_worker(python, ["probe", spec], [], PROBE_LIMIT)
    return str(results[0]["error"]) if results else f"no result within {PROBE_LIMIT} s"


def run_worker(
    python: Path | str, words: list[str], paths: list[str], limit: float
) -> list[dict[str, Any]]:
    """Run ``library_worker.py`` with one thread; return the results it had within the limit."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(threads, "1")}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.jsonl"
        command = [str(python), str(WORKER), *words, str(out), *paths]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, env=environment, capture_output=True, timeout=limit)
        return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def make_splits(data: Path | None, n_splits: int) -> dict[str, list[Split]]:
    """Return the splits of every data set: 50 % training, or the share of the paper."""
    sets = {name: loader(return_X_y=True) for name, loader in BUNDLED.items()}
    sets |= {name: load(data, name) for name in PAPER if data is not None}
    seeds = range(FIRST_SEED, FIRST_SEED + n_splits)
    return {name: [_prepare(name, X, y, seed) for seed in seeds] for name, (X, y) in sets.items()}


def _prepare(name: str, X: Array, y: Array, seed: int) -> Split:
    samples = split(X, y, TRAIN_SHARE.get(name, 0.5), seed)
    if name not in STANDARDISED:
        return samples
    scaler = StandardScaler().fit(samples.X)
    return Split(
        scaler.transform(samples.X), samples.y, scaler.transform(samples.X_test), samples.y_test
    )


def measure(
    method: Method, python: Path | str, splits: dict[str, list[Split]], limit: float
) -> list[dict[str, Any]]:
    """Return one row for each data set and split, without those that took too long."""
    rows = []
    for data, samples in splits.items():
        with tempfile.TemporaryDirectory() as folder:
            paths = [str(Path(folder) / f"{i}.npz") for i in range(len(samples))]
            for path, part in zip(paths, samples, strict=True):
                np.savez(path, X=part.X, y=part.y, X_test=part.X_test, y_test=part.y_test)
            words = ["measure", method.spec, json.dumps(method.parameters or {})]
            results = run_worker(python, words, paths, limit)
        for i, result in enumerate(results):
            rows.append({"method": method.name, "data": data, "seed": FIRST_SEED + i, **result})
        print(method.name, data, results[-1:], file=sys.stderr, flush=True)
    return rows


def format_outcomes(outcomes: list[Outcome]) -> tuple[str, str]:
    """Return a table of what happened to each library, and a list of the errors of estimators."""
    lines = ["| library, with | installs and imports | estimators that run | versions |"]
    lines.append("|---|---|---|---|")
    details = []
    for outcome in outcomes:
        name = f"{outcome.library.requirement}, {outcome.attempt}"
        count = f"{outcome.n_running} of {len(outcome.library.estimators)}"
        state = f"`{outcome.problem}`" if outcome.problem else "yes"
        state = state.replace("|", "\\|")
        lines.append(f"| {name} | {state} | {count} | {outcome.versions} |")
        by_error: dict[str, list[str]] = {}
        for estimator, error in outcome.errors.items():
            by_error.setdefault(error, []).append(estimator)
        details += [
            f"- {name}: {', '.join(names)}: `{error[:160]}`"
            if error
            else f"- {name}: {', '.join(names)}: run"
            for error, names in by_error.items()
        ]
    return "\n".join(lines), "\n".join(details)


def format_errors(rows: list[dict[str, Any]], splits: dict[str, list[Split]]) -> str:
    """Return the table of mean 1-NN errors; the best of a data set are marked."""
    lines = ["| method | " + " | ".join(splits) + " |", "|---|" + "---|" * len(splits)]
    cells: dict[tuple[str, str], str] = {}
    for data, samples in splits.items():
        shared = len(samples[0].y_test) / len(samples[0].y)
        estimates = {}
        for method in METHODS:
            chosen = [r for r in rows if (r["method"], r["data"]) == (method.name, data)]
            failed = next((r["error"] for r in chosen if r["error"]), "")
            if failed or len(chosen) < len(samples):
                cells[method.name, data] = failed.split(":")[0] or "too slow"
                continue
            seeds, errors, sizes = np.array(
                [(r["seed"], r["wrong"], r["components"]) for r in chosen]
            ).T
            estimates[method.name] = ErrorEstimate(seeds.astype(int), errors, sizes, shared)
        best = find_best_methods(estimates)
        for name, estimate in estimates.items():
            mark = " *" if name in best else ""
            size = f"{estimate.dimensions.mean():.0f}"
            cells[name, data] = f"{estimate.mean:.2f} ± {estimate.std:.2f} ({size}){mark}"
    for method in METHODS:
        lines.append(
            "| " + " | ".join([method.name, *(cells[method.name, d] for d in splits)]) + " |"
        )
    return "\n".join(lines)


def format_times(rows: list[dict[str, Any]], splits: dict[str, list[Split]]) -> str:
    """Return the table of CPU times of a fit, median over splits, relative to MPDA."""
    lines = ["| method | " + " | ".join(splits) + " |", "|---|" + "---|" * len(splits)]

    def median(name: str, data: str) -> float:
        seconds = [
            r["seconds"]
            for r in rows
            if (r["method"], r["data"]) == (name, data) and not r["error"]
        ]
        return float(np.median(seconds)) if seconds else np.nan

    for method in METHODS[1:]:
        ratios = [median(method.name, data) / median(REFERENCE, data) for data in splits]
        cells = ["" if np.isnan(ratio) else f"{ratio:.2g}" for ratio in ratios]
        lines.append("| " + " | ".join([method.name, *cells]) + " |")
    return "\n".join(lines)


def format_page(
    outcomes: list[Outcome], rows: list[dict[str, Any]], splits: dict[str, list[Split]]
) -> str:
    """Return the page with all tables."""
    n_splits = len(next(iter(splits.values())))
    shapes = [
        f"{name} {len(s[0].y)} x {s[0].X.shape[1]}, {len(s[0].y_test)} test"
        for name, s in splits.items()
    ]
    parts = [
        "# Other libraries",
        "Made by `python benchmarks/libraries.py --environments DIR --data DIR --out "
        f"docs/evidence`; {provenance()}.",
        "## What runs",
        "Each supervised estimator, with default parameters, on 569 x 8 samples of scikit-learn's "
        "breast cancer data. pip chose the newest version of the library. A row is an environment: "
        "the current scikit-learn first, then what is needed to go further.",
        *format_outcomes(outcomes),
        "## Errors",
        f"1-NN error in per cent on test samples, mean ± standard deviation over {n_splits} "
        "splits; in brackets the number of components. Default parameters except where the name "
        "says otherwise. LMNN, UMAP and WDA run in the last environments above.",
        format_errors(rows, splits),
        f"\\* lowest, or not significantly higher ({SPLITS_TEST}). Training samples x features: "
        f"{'; '.join(shapes)}. Wine, breast cancer and Vehicle are standardised; Semeion is "
        "reduced by PCA to 95 % of the variance.",
        "## Times",
        "CPU time of a fit with one thread, divided by that of MPDA in the same run; medians over "
        "splits. The first fit of a process is not counted.",
        format_times(rows, splits),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data_argument(parser)
    parser.add_argument("--environments", type=Path, required=True, help="folder to install in")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds of a method on one data set"
    )
    parser.add_argument("--out", type=Path, help="directory for libraries.md and libraries.csv")
    arguments = parser.parse_args()
    outcomes = []
    for library in LIBRARIES:
        for outcome in try_library(library, arguments.environments.resolve()):
            outcomes.append(outcome)
            print(*format_outcomes([outcome]), sep="\n", file=sys.stderr, flush=True)
    splits = make_splits(arguments.data, arguments.splits)
    rows = []
    for method in METHODS:
        python: Path | str = sys.executable
        if method.library is not None:
            tried = [o for o in outcomes if o.library.requirement == method.library]
            python = max(tried, key=lambda outcome: outcome.n_running).python
        rows += measure(method, python, splits, arguments.limit)
    text = format_page(outcomes, rows, splits)
    print(text)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "libraries.md").write_text(text)
        with (arguments.out / "libraries.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
