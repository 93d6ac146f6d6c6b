"""Other libraries: which of them run with the current scikit-learn, how well and how fast.

    python benchmarks/libraries.py --environments DIR [--data DIR] [--out docs/evidence]

Each library is installed by pip in virtual environments below DIR (a package index is needed). Its
supervised estimators are then fitted to a small table, each in a process of its own. The outcome is
kept as outcome.json in the environment; remove DIR to try again. Estimators that run are compared
on the same splits, with their default parameters and one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
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
# Shares of training samples other than half: those of the paper, and that of the demo.
TRAIN_SHARES = {**TRAIN_SHARE, "digits": 0.25}
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
    size : str, default="n_components"
        Parameter for the number of components; "" if there is no choice.
    seed : dict, default=None
        Parameters that make the result repeatable.
    """

    name: str
    spec: str
    library: str | None = None
    size: str = "n_components"
    seed: dict[str, Any] | None = None


METHODS = (
    Method("1-NN", "", size=""),
    Method(
        "LDA (scikit-learn)", "sklearn.discriminant_analysis:LinearDiscriminantAnalysis", size=""
    ),
    Method("NCA (scikit-learn)", "sklearn.neighbors:NeighborhoodComponentsAnalysis"),
    Method("LMNN (metric-learn)", "metric_learn:LMNN", "metric-learn"),
    Method("UMAP (umap-learn)", "umap:UMAP", "umap-learn", seed={"random_state": 0, "n_jobs": 1}),
    Method("WDA (POT)", "ot.dr:wda", "POT[dr]", "p"),
    Method("LFDA (mpda)", "mpda:LFDA"),
    Method("MPDA (mpda)", "mpda:MPDA"),
    Method("NeighborhoodRefinement (mpda)", "mpda:NeighborhoodRefinement"),
)
REFERENCE = "MPDA (mpda)"  # times are divided by its time
# Default parameters, which mean all components for some methods and two for others; and one number
# of components for all. It was added after default errors of one split had been seen: MPDA with all
# components was poor on Semeion. Other numbers were not tried.
SETTINGS = {"default": None, "10 components": 10}
COLUMNS = ("method", "setting", "data", "seed", "wrong", "components", "seconds", "error")


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
    date : str
        Day of the attempt.
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
    date: str
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
        python = path / ("Scripts" if os.name == "nt" else "bin") / "python"
        stored = path / "outcome.json"
        if not stored.exists():
            venv.create(path, with_pip=True, clear=True)
            stored.write_text(json.dumps(try_attempt(library, attempt, python), indent=1))
        outcome = Outcome(library, attempt, python, **json.loads(stored.read_text()))
        yield outcome
        if outcome.n_running == len(library.estimators):
            return


def try_attempt(library: Library, attempt: Attempt, python: Path) -> dict[str, Any]:
    """Install a library, import it and fit its estimators; return the entries of an outcome."""
    entries: dict[str, Any] = {"date": str(date.today()), "versions": "", "errors": {}}
    if problem := install(python, library, attempt):
        return {**entries, "problem": f"does not install: {problem}"}
    entries["versions"] = read_versions(python, library)
    if problem := probe(python, library.module):
        return {**entries, "problem": f"does not import: {problem}"}
    errors = {name: probe(python, f"{library.module}:{name}") for name in library.estimators}
    return {**entries, "problem": "", "errors": errors}


def install(python: Path, library: Library, attempt: Attempt) -> str:
    """Install a library; return the last error of pip, or ""."""
    commands = [[library.requirement, *attempt.packages]]
    if attempt.build:
        commands = [list(attempt.build), ["--no-build-isolation", *commands[0]]]
    for words in commands:
        # Without the cache: it may have a wheel that was built with other packages.
        options = ["--no-cache-dir", "--disable-pip-version-check"]
        command = [str(python), "-m", "pip", "install", *options, *words]
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
    results = run_worker(python, ["probe", spec], limit=PROBE_LIMIT)
    return str(results[0]["error"]) if results else f"no result within {PROBE_LIMIT} s"


def run_worker(
    python: Path | str, words: list[str], paths: Sequence[str] = (), limit: float | None = None
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
    """Return the splits of every data set."""
    sets = {name: loader(return_X_y=True) for name, loader in BUNDLED.items()}
    sets |= {name: load(data, name) for name in PAPER if data is not None}
    seeds = range(FIRST_SEED, FIRST_SEED + n_splits)
    return {name: [_prepare(name, X, y, seed) for seed in seeds] for name, (X, y) in sets.items()}


def _prepare(name: str, X: Array, y: Array, seed: int) -> Split:
    samples = split(X, y, TRAIN_SHARES.get(name, 0.5), seed)
    if name not in STANDARDISED:
        return samples
    scaler = StandardScaler().fit(samples.X)
    return Split(
        scaler.transform(samples.X), samples.y, scaler.transform(samples.X_test), samples.y_test
    )


def measure(
    method: Method, python: Path | str, splits: dict[str, list[Split]], limit: float
) -> Iterator[dict[str, Any]]:
    """Yield one row for each setting, data set and split; one process for each setting."""
    settings = SETTINGS if method.size else {"default": None}
    for setting, number in settings.items():
        parameters = (method.seed or {}) | ({method.size: number} if number else {})
        words = ["measure", method.spec, json.dumps(parameters), str(limit)]
        key = {"method": method.name, "setting": setting}
        keys: list[dict[str, Any]] = []
        paths: list[str] = []
        with tempfile.TemporaryDirectory() as folder:
            for data, samples in splits.items():
                (Path(folder) / data).mkdir()
                for seed, part in enumerate(samples, start=FIRST_SEED):
                    path = Path(folder) / data / f"{seed}.npz"
                    np.savez(path, X=part.X, y=part.y, X_test=part.X_test, y_test=part.y_test)
                    paths.append(str(path))
                    keys.append({**key, "data": data, "seed": seed})
            results = run_worker(python, words, paths)
        # Fewer results than splits if the process was killed.
        for key, result in zip(keys, results, strict=False):
            yield {**key, **result}
        print(method.name, setting, results[-1:], file=sys.stderr, flush=True)


def format_outcomes(outcomes: list[Outcome]) -> tuple[str, str]:
    """Return a table of what happened to each library, and a list of the errors of estimators."""
    lines = ["| library | with | outcome | versions | date |", "|---|---|---|---|---|"]
    details = []
    for outcome in outcomes:
        name = outcome.library.requirement
        state = f"{outcome.n_running} of {len(outcome.library.estimators)} estimators run"
        state = (outcome.problem or state).replace("|", "\\|")
        cells = (name, str(outcome.attempt), state, outcome.versions, outcome.date)
        lines.append("| " + " | ".join(cells) + " |")
        by_error: dict[str, list[str]] = {}
        for estimator, error in outcome.errors.items():
            by_error.setdefault(f"`{error[:160]}`" if error else "run", []).append(estimator)
        details += [
            f"- {name}, {outcome.attempt}: {', '.join(names)}: {error}"
            for error, names in by_error.items()
        ]
    return "\n".join(lines), "\n".join(details)


def select_rows(
    rows: list[dict[str, Any]], method: Method, setting: str, data: str
) -> list[dict[str, Any]]:
    """Return the rows of one cell; methods without a choice have the default setting only."""
    key = (method.name, setting if method.size else "default", data)
    return [row for row in rows if (row["method"], row["setting"], row["data"]) == key]


def format_errors(rows: list[dict[str, Any]], splits: dict[str, list[Split]], setting: str) -> str:
    """Return the table of mean 1-NN errors; those significantly above the lowest are marked."""
    cells: dict[tuple[str, str], str] = {}
    for data, samples in splits.items():
        shared = len(samples[0].y_test) / len(samples[0].y)
        estimates = {}
        for method in METHODS:
            chosen = select_rows(rows, method, setting, data)
            failed = next((row["error"] for row in chosen if row["error"]), "")
            if failed or len(chosen) < len(samples):
                cells[method.name, data] = failed.split(":")[0] or "no result"
                continue
            seeds = np.array([row["seed"] for row in chosen])
            errors, sizes = np.array([(row["wrong"], row["components"]) for row in chosen]).T
            estimates[method.name] = ErrorEstimate(seeds, errors, sizes, shared)
        best = find_best_methods(estimates)
        for name, estimate in estimates.items():
            size = f"({estimate.component_counts.mean():.0f})"
            mark = "" if name in best else " †"
            cells[name, data] = f"{estimate.mean:.2f} ± {estimate.std:.2f} {size}{mark}"
    return format_cells(cells, splits)


def format_times(rows: list[dict[str, Any]], splits: dict[str, list[Split]], setting: str) -> str:
    """Return the table of CPU times of a fit, median over splits, relative to MPDA."""
    times: dict[tuple[str, str], float] = {}
    for method, data in itertools.product(METHODS[1:], splits):
        chosen = select_rows(rows, method, setting, data)
        if chosen and not any(row["error"] for row in chosen):
            times[method.name, data] = float(np.median([row["seconds"] for row in chosen]))
    return format_cells(
        {key: _round(value / times[REFERENCE, key[1]]) for key, value in times.items()}, splits
    )


def _round(ratio: float) -> str:
    """Return a ratio with two digits, without an exponent."""
    return f"{float(f'{ratio:.2g}'):g}"


def format_cells(cells: dict[tuple[str, str], str], splits: dict[str, list[Split]]) -> str:
    """Return a Markdown table of methods and data sets."""
    lines = [["method", *splits], ["---"] * (1 + len(splits))]
    names = {name for name, _ in cells}
    for method in METHODS:
        if method.name in names:
            lines.append([method.name, *(cells.get((method.name, data), "") for data in splits)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def format_page(
    outcomes: list[Outcome],
    rows: list[dict[str, Any]],
    splits: dict[str, list[Split]],
    limit: float,
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
        "splits; in brackets the number of components. LMNN, UMAP and WDA run in the environments "
        "above in which most estimators run. UMAP has a seed and one thread. TimeoutError: a fit "
        f"takes more than {limit:g} s of CPU time.",
        "Default parameters:",
        format_errors(rows, splits, "default"),
        "10 components, else default parameters. This setting was added after the default errors "
        "of mpda's methods and NCA on one split had been seen. No other number was tried.",
        format_errors(rows, splits, "10 components"),
        f"† significantly higher than the lowest of the column ({SPLITS_TEST}). {n_splits} splits "
        "that share samples separate large differences only. Training samples x features: "
        f"{'; '.join(shapes)}. Wine, breast cancer and Vehicle are standardised; Semeion is "
        "reduced by PCA to 95 % of the variance.",
        "## Times",
        "CPU time of a fit with one thread, divided by that of MPDA in the same run; medians over "
        "splits, default parameters. The first fit of a process is not counted.",
        format_times(rows, splits, "default"),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data_argument(parser)
    parser.add_argument("--environments", type=Path, required=True, help="folder to install in")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds of CPU time that a fit may take"
    )
    parser.add_argument("--out", type=Path, help="directory for libraries.md and libraries.csv")
    arguments = parser.parse_args()
    outcomes = []
    for library in LIBRARIES:
        for outcome in try_library(library, arguments.environments.resolve()):
            outcomes.append(outcome)
            print(*format_outcomes([outcome]), sep="\n", file=sys.stderr, flush=True)
    splits = make_splits(arguments.data, arguments.splits)
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        python: Path | str = sys.executable
        if method.library is not None:
            tried = [o for o in outcomes if o.library.requirement == method.library]
            python = max(tried, key=lambda outcome: outcome.n_running).python
        rows += measure(method, python, splits, arguments.limit)
    text = format_page(outcomes, rows, splits, arguments.limit)
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
