"""Which fixed parameters are best untuned: the evidence for the defaults.

    python benchmarks/defaults.py --data DIR --out docs/evidence
    python benchmarks/defaults.py --data DIR --method refinement
    python benchmarks/defaults.py --data DIR --method refinement --components 64

For every data set, split and point of the grid: the 1-NN error on the test part. For MPDA and PMPDA
it is the error at the best number of components; for the refinement, which starts from MPDA with
its defaults, the mean over 10 and 30 components, or over those that ``--components`` lists. A data
set of fewer features has as many components as it can; with ``--components`` it takes no part.

A point's regret on a data set is its mean error over that of the best point of the grid there,
minus 1. Its ratio is its error over that of the default there; means of ratios are geometric, so
that small data sets, whose best point is mostly luck, do not decide. Judged leaving one data set
out: the point with the least mean on the others, and its ratio on the one left out; once by the
mean over data sets, once by the mean over the three kinds, because there are 29 small tables of
KEEL and 11 larger sets. Half a sample is added to the wrong ones, so that no error is 0. The
numbers of components of a refinement on a sphere include the constant; up to three numbers are
Euclidean with every radius.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import MinMaxScaler

import mpda
from mpda.exceptions import SmallClassWarning
from mpda.experiments.embeddings import load_embeddings
from mpda.experiments.keel import load_samples, read_published
from mpda.parallel import map_ordered
from protocol import (
    TRAIN_SHARE,
    Split,
    count_wrong,
    data_argument,
    provenance,
    split,
    splits,
    wrong_by_dimension,
)

_TANGENT_GRID = {
    "n_neighbors": (8, 12, 20),
    "gamma": (0.01, 0.1),
    "alpha": (0.03, 0.1, 0.2, 0.5, 1.0),
    "tangent_alpha": (None, 1.0, 10.0),
    "eigenvalue_power": (0.0, 0.25, 0.5),
}
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "MPDA": _TANGENT_GRID,
    "PMPDA": _TANGENT_GRID,
    "refinement": {
        "radius": (None, 0.0, 0.5, 1.0, 2.0),
        "temperature": (1.0, 2.0, 4.0),
        "penalty_per_coefficient": (0.03, 0.1, 0.3),
    },
}
# A data set of fewer features has as many components as it can.
_REFINED_COMPONENTS = [10, 30]
_MOST_DRAWN = 3
# Official test parts take no part: they are the test parts of other tables.
_EMBEDDINGS = ("banking77", "clinc150", "cifar10")
_MOST_EMBEDDINGS = 4000
_LARGEST_TEST = 1500

Points = list[dict[str, Any]]
Errors = NDArray[np.float64]


def data_sets(
    directory: Path, n_splits: int, kinds: list[str], known: Container[str]
) -> Iterator[tuple[str, list[Split]]]:
    """Yield data sets that are not known with their splits, after PCA or scaling."""
    if "paper" in kinds:
        for name in TRAIN_SHARE:
            if name not in known:
                yield name, list(splits(directory, name, n_splits))
    if "keel" in kinds:
        for name in read_published():
            file = directory / "keel" / f"{name.replace('-', '_')}.npz"
            if file.is_file() and f"keel {name}" not in known:
                folds = [keel_split(directory, name, fold) for fold in range(n_splits)]
                yield f"keel {name}", folds
    if "embeddings" in kinds:
        for name in _EMBEDDINGS:
            if name in known:
                continue
            X, y, is_test = load_embeddings(name, directory)
            X, y = X[~is_test], y[~is_test]
            drawn = np.random.default_rng(0).permutation(len(y))[:_MOST_EMBEDDINGS]
            X, y = X[drawn], y[drawn]
            yield name, [split(X, y, 0.5, 1000 + seed) for seed in range(n_splits)]


def keel_split(directory: Path, name: str, fold: int) -> Split:
    """Return one published fold, scaled to [0, 1] on its training part."""
    samples = load_samples(name, directory)
    is_test = samples.folds == fold
    X, X_test = samples.X[~is_test], samples.X[is_test]
    scaler = MinMaxScaler().fit(X)
    y, y_test = samples.y[~is_test], samples.y[is_test]
    return Split(
        scaler.transform(X), y, scaler.transform(X_test)[:_LARGEST_TEST], y_test[:_LARGEST_TEST]
    )


def grid_errors(method: str, points: Points, components: Sequence[int], part: Split) -> Errors:
    """Return the error (n_points,) of every point on the test part of a split."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", SmallClassWarning
        )  # classes of KEEL have 2 samples and more
        if method == "refinement":
            wrong = _refined_wrong(points, components, part)
        else:
            wrong = _wrong(method, points, part)
    return (wrong + 0.5) / (len(part.y_test) + 1.0)


def _wrong(method: str, points: Points, part: Split) -> Errors:
    estimator = mpda.MPDA(partition="geodesic") if method == "MPDA" else mpda.PMPDA()
    wrong = np.full(len(points), float(len(part.y_test)))
    for path in estimator.fit_many(part.X, part.y, points):
        if path.components is not None:
            wrong[path.index] = min(wrong_by_dimension(part, path.components).values())
    return wrong


def _refined_wrong(points: Points, components: Sequence[int], part: Split) -> Errors:
    start = mpda.MPDA().fit(part.X, part.y)
    numbers = sorted({min(r, len(start.components_)) for r in components})
    wrong = np.zeros(len(points))
    for i, point in enumerate(points):
        for r in numbers:
            # As with radius="auto": up to three numbers are for pictures.
            geometry = {} if r > _MOST_DRAWN else {"radius": None}
            refine = mpda.NeighborhoodRefinement(
                FrozenEstimator(start), n_components=r, **{**point, **geometry}
            )
            refined = refine.fit(part.X, part.y)
            mapped = refined.transform(part.X), part.y, refined.transform(part.X_test), part.y_test
            wrong[i] += count_wrong(*mapped) / len(numbers)
    return wrong


def study(
    method: str,
    directory: Path,
    n_splits: int,
    kinds: list[str],
    n_jobs: int | None,
    known: dict[str, list[float]],
    components: Sequence[int] | None,
    keep: Callable[[str, Errors], None],
) -> dict[str, Errors]:
    """Return the mean errors (n_points,) by data set; those that are known are not measured.

    Splits of all data sets are worked on side by side.
    """
    least = 1 if components is None else min(components)
    points = grid(method)
    results = {name: np.array(errors) for name, errors in known.items()}
    todo = [
        (name, part)
        for name, parts in data_sets(directory, n_splits, kinds, known)
        for part in parts
        if part.X.shape[1] >= least
    ]
    # Largest first, so that no long one is left for the end.
    todo.sort(key=lambda entry: entry[1].X.size, reverse=True)
    work = [(method, points, components or _REFINED_COMPONENTS, part) for _, part in todo]
    measured: dict[str, list[Errors]] = {}
    begin = time.monotonic()
    errors = map_ordered(grid_errors, work, len(work), n_jobs=n_jobs)
    for (name, _), split_errors in zip(todo, errors, strict=True):
        measured.setdefault(name, []).append(split_errors)
        if len(measured[name]) == n_splits:
            results[name] = np.mean(measured[name], axis=0)
            keep(name, results[name])
            print(f"{method} {name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return results


def grid(method: str) -> Points:
    """Return all points of the grid; the refinement has "no refinement" at the end."""
    names = GRIDS[method]
    if method != "refinement":
        return list(ParameterGrid(names))
    return [*ParameterGrid(names), {"n_rounds": 0, "radius": None}]


def report(method: str, names: list[str], errors: Errors, n_splits: int) -> str:
    """Return the study in words, from the errors (n_sets, n_points)."""
    points = grid(method)
    default = points.index(default_point(method))
    regret = errors / errors.min(axis=1, keepdims=True) - 1.0
    ratios = np.log(errors / errors[:, [default]])
    mean, worst = regret.mean(axis=0), regret.max(axis=0)
    order = np.argsort(mean, kind="stable")
    kinds: dict[str, list[int]] = {"paper": [], "KEEL": [], "embeddings": []}
    for i, name in enumerate(names):
        kinds[
            "KEEL" if name.startswith("keel") else "embeddings" if name in _EMBEDDINGS else "paper"
        ].append(i)
    kinds = {kind: rows for kind, rows in kinds.items() if rows}

    def describe(i: int) -> str:
        return ", ".join(f"{name} {value}" for name, value in points[i].items())

    def row(i: int, label: str = "") -> str:
        by_kind = [f"{100 * regret[rows, i].mean():.1f} %" for rows in kinds.values()]
        numbers = [f"{100 * mean[i]:.1f} %", f"{100 * worst[i]:.0f} %", *by_kind]
        every = range(len(names))
        numbers += [f"{np.exp(ratios[rows, i].mean()):.3f}" for rows in (every, *kinds.values())]
        return "| " + " | ".join([label, describe(i), *numbers]) + " |"

    columns = [
        "",
        "point",
        "mean regret",
        "worst",
        *(f"{kind} ({len(r)})" for kind, r in kinds.items()),
        "ratio to the default",
        *(f"ratio, {kind}" for kind in kinds),
    ]
    lines = [
        f"# {method}: {len(points)} fixed choices, {n_splits} splits of {len(names)} data sets",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        row(default, "default"),
        *(row(int(i)) for i in order[:10]),
        *(row(int(i), "by ratio") for i in np.argsort(ratios.mean(axis=0), kind="stable")[:5]),
    ]
    if method == "refinement":
        lines.append(row(len(points) - 1, "no refinement"))
    lines += ["", "Best mean regret with one parameter held:", ""]
    for name, values in GRIDS[method].items():
        held = []
        for value in values:
            held_points = [i for i, point in enumerate(points) if point.get(name, "") == value]
            best = mean[held_points].min()
            held.append(f"{value}: {100 * best:.1f} %")
        lines.append(f"- {name}: {', '.join(held)}")
    by_kind = np.zeros(len(names))
    for rows in kinds.values():
        by_kind[rows] = 1.0 / len(rows)
    for title, weights in (("the data sets", np.ones(len(names))), ("the kinds", by_kind)):
        lines += ["", *_leave_one_out(title, regret, weights, default, describe)]
        lines += ["", *_leave_one_out(title, ratios, weights, default, describe, geometric=True)]
    return "\n".join(lines) + "\n"


def _leave_one_out(
    title: str,
    losses: Errors,
    weights: Errors,
    default: int,
    describe: Callable[[int], str],
    *,
    geometric: bool = False,
) -> list[str]:
    """Say which points have the least weighted mean loss where one data set is left out.

    ``losses`` (n_sets, n_points) are regrets or, with ``geometric``, logarithms of ratios.
    """
    others = weights @ losses - weights[:, None] * losses
    chosen = others.argmin(axis=1).tolist()
    outside = np.average(losses[np.arange(len(losses)), chosen], weights=weights)
    inside = np.average(losses[:, default], weights=weights)
    counts = [
        f"- {describe(i)}: {chosen.count(i)} of {len(chosen)} times" for i in dict.fromkeys(chosen)
    ]
    loss = "geometric mean of the ratio" if geometric else "mean regret"
    shown = [f"{np.exp(x):.3f}" if geometric else f"{100 * x:.1f} %" for x in (inside, outside)]
    return [
        f"Points with the least {loss} over {title}, one data set left out:",
        "",
        *counts,
        "",
        f"The {loss} over {title}: default {shown[0]}; out of sample, each point chosen without "
        f"its data set, {shown[1]}.",
    ]


def default_point(method: str) -> dict[str, Any]:
    """Return the defaults of the estimator as a point of the grid."""
    if method == "refinement":
        usual = mpda.estimators.methods.method("MPDA refined").usual
        return {name: usual[name] for name in sorted(GRIDS[method])}
    estimator = getattr(mpda, method)()
    return {name: getattr(estimator, name) for name in sorted(GRIDS[method])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=None, help="splits worked on at a time")
    parser.add_argument("--method", choices=list(GRIDS), default="MPDA")
    parser.add_argument("--sets", nargs="+", default=["paper", "keel", "embeddings"])
    parser.add_argument("--components", nargs="+", type=int, help="of a refinement: 10 and 30")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"))
    parser.add_argument("--again", action="store_true", help="write the report from the .csv")
    arguments = parser.parse_args()
    method, n_splits = arguments.method, arguments.splits
    components = arguments.components
    suffix = "".join(f"-{number}" for number in components or ())
    stem = arguments.out / f"defaults-{method.lower()}{suffix}"
    table = stem.with_suffix(".csv")
    if not arguments.again:
        stem.parent.mkdir(parents=True, exist_ok=True)
        # One line for each data set, so that a run goes on where an earlier one was stopped.
        rows = stem.with_suffix(".jsonl")
        facts = [n_splits, *grid(method), *(components or ())]
        settings = sha256(repr(facts).encode()).hexdigest()[:16]
        lines = rows.read_text().splitlines() if rows.exists() else []
        done = [row for row in map(json.loads, lines) if row["settings"] == settings]

        def keep(name: str, errors: Errors) -> None:
            row = {"name": name, "errors": errors.tolist(), "settings": settings}
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")

        known = {row["name"]: row["errors"] for row in done}
        options = arguments.sets, arguments.jobs, known, components, keep
        results = study(method, arguments.data, n_splits, *options)
        with table.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["point", *results])
            for i, point in enumerate(grid(method)):
                values = [f"{means[i]:.6f}" for means in results.values()]
                writer.writerow([" ".join(f"{k}={v}" for k, v in point.items()), *values])
    with table.open(newline="") as file:
        header, *rows = csv.reader(file)
    errors_by_set = np.array([row[1:] for row in rows], dtype=float).T
    text = report(method, header[1:], errors_by_set, n_splits)
    command = f"python benchmarks/defaults.py --data DIR --method {method} --splits {n_splits}"
    command += f" --components {' '.join(map(str, components))}" if components else ""
    stem.with_suffix(".md").write_text(f"{text}\nMade by `{command}`; {provenance()}.\n")
    print(text)


if __name__ == "__main__":
    main()
