"""Which fixed parameters are best untuned: the evidence for the defaults of MPDA and PMPDA.

    python benchmarks/defaults.py --data DIR --out docs/evidence

For every data set, split and point of the grid: the 1-NN error at the best dimension. A point's
regret on a data set is its mean error over that of the best point of the grid there, minus 1. The
table ranks points by mean regret over data sets. Judged leaving one data set out: the point chosen
on the others, and its regret on the one left out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mpda
from mpda.parallel import map_ordered
from protocol import TRAIN_SHARE, Split, data_argument, errors_by_dimension, provenance, splits

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "MPDA": {
        "n_neighbors": (8, 12, 20, 30),
        "gamma": (0.01, 0.1),
        "alpha": (0.01, 0.1, 0.2, 0.3, 0.5),
        "tangent_alpha": (None, 1.0, 3.0, 10.0),
    },
    "PMPDA": {
        "n_neighbors": (8, 12, 20),
        "gamma": (0.01, 0.1),
        "alpha": (0.01, 0.1, 0.2, 0.3, 0.5),
        "tangent_alpha": (None, 1.0, 3.0, 10.0),
    },
}
Point = tuple[int, float, float, float | None]


def grid(method: str) -> list[Point]:
    return list(itertools.product(*GRIDS[method].values()))


def grid_errors(method: str, part: Split) -> dict[Point, tuple[float, float]]:
    """The error at the best dimension and with all directions, for every point of the grid."""
    estimator = mpda.MPDA(partition="geodesic") if method == "MPDA" else mpda.PMPDA()
    points = grid(method)
    parameter_sets = [dict(zip(GRIDS[method], point, strict=True)) for point in points]
    errors = {}
    for path in estimator.fit_many(part.X, part.y, parameter_sets):
        assert path.components is not None  # every point has a ridge
        by_dimension = errors_by_dimension(part, path.components)
        errors[points[path.index]] = min(by_dimension.values()), list(by_dimension.values())[-1]
    return {point: errors[point] for point in points}


def study(
    method: str, directory: Path, n_splits: int, n_jobs: int | None
) -> dict[str, NDArray[np.float64]]:
    """Mean errors (points, 2) by data set."""
    results = {}
    for name in TRAIN_SHARE:
        begin = time.monotonic()
        work = [(method, part) for part in splits(directory, name, n_splits)]
        found = map_ordered(grid_errors, work, n_splits, n_jobs=n_jobs)
        results[name] = np.mean([list(errors.values()) for errors in found], axis=0)
        print(f"{method} {name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return results


def report(method: str, names: list[str], errors: NDArray[np.float64], n_splits: int) -> str:
    """The study in words, from the mean errors at the best dimension (data sets, points)."""
    points = grid(method)
    regret = errors / errors.min(axis=1, keepdims=True) - 1.0
    mean = regret.mean(axis=0)
    order = np.argsort(mean, kind="stable")

    def row(i: int, label: str = "") -> str:
        cells = [label, *map(str, points[i]), f"{100 * mean[i]:.1f} %"]
        return "| " + " | ".join([*cells, *(f"{e:.2f}" for e in errors[:, i])]) + " |"

    chosen = getattr(mpda, method)()
    default = points.index(tuple(getattr(chosen, key) for key in GRIDS[method]))
    paper = [int(i) for i in order if points[i][3] is None]
    lines = [
        f"# {method}: {len(points)} fixed choices, {n_splits} splits of {len(names)} data sets",
        "",
        "1-NN error in % at the best dimension, mean over splits.",
        "",
        "| | k | gamma | alpha | tangent_alpha | mean regret | " + " | ".join(names) + " |",
        "|" + "---|" * (6 + len(names)),
        row(default, "default"),
        *(row(int(i)) for i in order[:10]),
        row(paper[0], "best with None"),
        "| best in the grid | | | | | | "
        + " | ".join(f"{e:.2f}" for e in errors.min(axis=1))
        + " |",
        "",
        "Best mean regret with one parameter held:",
        "",
    ]
    for position, (key, values) in enumerate(GRIDS[method].items()):
        held = []
        for value in values:
            best = min(mean[i] for i, point in enumerate(points) if point[position] == value)
            held.append(f"{value}: {100 * best:.1f} %")
        lines.append(f"- {key}: {', '.join(held)}")
    lines += ["", "Leaving one data set out (the point is chosen on the others):", ""]
    out_of_sample = []
    for left, name in enumerate(names):
        others = int(np.delete(regret, left, axis=0).mean(axis=0).argmin())
        out_of_sample.append(regret[left, others])
        ours, theirs = (f"{100 * regret[left, i]:.1f} %" for i in (default, others))
        lines.append(f"- {name}: {points[others]}, regret {theirs} (the default: {ours})")
    lines += [
        "",
        "Mean regret of the default, which was chosen on these data sets: "
        f"{100 * mean[default]:.1f} %. Out of sample, each point chosen without its data set: "
        f"{100 * np.mean(out_of_sample):.1f} %.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=None, help="splits worked on at a time")
    parser.add_argument("--method", choices=list(GRIDS), default="MPDA")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"))
    parser.add_argument("--again", action="store_true", help="write the report from the .csv")
    arguments = parser.parse_args()
    method, n_splits = arguments.method, arguments.splits
    stem = arguments.out / f"defaults-{method.lower()}"
    table = stem.with_suffix(".csv")
    if not arguments.again:
        results = study(method, arguments.data, n_splits, arguments.jobs)
        stem.parent.mkdir(parents=True, exist_ok=True)
        with table.open("w") as file:
            print(*GRIDS[method], *results, sep=",", file=file)
            for i, point in enumerate(grid(method)):
                errors = (f"{means[i, 0]:.3f}" for means in results.values())
                print(*point, *errors, sep=",", file=file)
    header, *rows = (line.split(",") for line in table.read_text().splitlines())
    errors_by_set = np.array([row[4:] for row in rows], dtype=float).T
    text = report(method, header[4:], errors_by_set, n_splits)
    command = f"python benchmarks/defaults.py --data DIR --method {method} --splits {n_splits}"
    stem.with_suffix(".md").write_text(f"{text}\nMade by `{command}`; {provenance()}.\n")
    print(text)


if __name__ == "__main__":
    main()
