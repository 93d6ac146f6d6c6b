"""What cross-validated choices cost: the evidence for how a search selects.

    python benchmarks/regret.py collect --data DIR --store DIR     (long: hours on one core)
    python benchmarks/regret.py report --store DIR --out docs/evidence

For every data set and split, ``collect`` keeps the scores of every grid point, number of components
and fold, and the 1-NN errors of the same on the test part. The regret of a rule on a split is
the test error of what it chooses over the least test error in the grid. ``report`` applies the
rules. The least of thousands of test errors is partly luck, so no rule can have a regret of 1; the
best fixed choice of a data set, picked by its test errors over all splits, shows how near one
comes. Seeds are not those of the reproduction.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from mpda import MPDA
from mpda.engines import in_order
from mpda.estimators._linear_map import LabelledSamples
from mpda.exceptions import SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV
from mpda.search._fold import PointScores
from mpda.search._grid import SearchGrid
from mpda.search._walk import walk
from mpda.selection import RULES, GridScores
from protocol import FIRST_SEED, TRAIN_SHARE, data_argument, load, provenance, split

SETS = ("vehicle", "semeion", "coil20", "face_detection", "mnist_2k2k", "optdigits", "coil100")
GRID = {
    "alpha": (1e-2, 1e-1, 0.2, 1.0),
    "eigenvalue_power": (0.0, 0.25, 0.5),
    "gamma": (1e-3, 1e-2, 1e-1, 1.0),
    "n_neighbors": (5, 10, 20),
}
MOST = 50
BOUNDS = {"semeion": 1.15, "mnist_2k2k": 1.15, "optdigits": 1.15, "coil100": 1.15}


def collected(directory: Path, name: str, seed: int, store: Path) -> str:
    """The scores of one split, kept in the store; what is there is not made again."""
    path = store / f"{name}-{seed}.npz"
    if path.exists():
        return f"{path.name}: kept"
    warnings.simplefilter("ignore", SmallClassWarning)  # COIL20 and COIL100 have 18 a class
    begin = time.monotonic()
    X, y = load(directory, name)
    part = split(X, y, TRAIN_SHARE[name], seed, largest_test=None)
    search = DiscriminantSearchCV(
        MPDA(), GRID, n_components=MOST, random_state=seed, refit=False
    ).fit(part.X, part.y)
    grid = SearchGrid.of(MPDA(), GRID)
    folds = [search.cv_results_[f"split{i}_test_score"] for i in range(search.n_splits_)]
    method = MPDA()
    samples: LabelledSamples = method._labelled(part.X, part.y)
    test = PointScores(samples, part.X_test, part.y_test, MOST, None)
    for solved in walk(method, samples, grid.points, MOST):
        test.add(solved)
    np.savez_compressed(
        path,
        scores=np.array(folds).reshape(len(folds), len(grid.points), -1),
        test=test.table(len(grid.points)),
    )
    return f"{path.name}: {time.monotonic() - begin:.0f} s"


def regrets(store: Path, name: str) -> dict[str, Any]:
    """For each rule the regrets by split; and the least errors."""
    grid = SearchGrid.of(MPDA(), GRID)
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    found["default, best dimension on CV"] = []
    least = []
    tests = []
    default = next(
        i
        for i, point in enumerate(grid.points)
        if point == {"alpha": 0.2, "eigenvalue_power": 0.0, "gamma": 0.1, "n_neighbors": 20}
    )
    for path in sorted(store.glob(f"{name}-*.npz")):
        with np.load(path) as content:
            scores, test = content["scores"], content["test"]
        width = min(scores.shape[2], test.shape[1])
        scores, test = scores[:, :, :width], 1.0 - test[:, :width]
        best = np.nanmin(test)
        least.append(100 * best)
        tests.append(test / best)
        table = GridScores(scores, np.arange(1, width + 1), grid.shapes, grid.ridges)
        for rule, choose in RULES.items():
            choice = choose(table)
            found[rule].append(test[choice.point, choice.place] / best)
        place = int(np.argmax(table.means[default]))
        found["default, best dimension on CV"].append(test[default, place] / best)
    shortest = min(test.shape[1] for test in tests)
    fixed = np.mean([test[:, :shortest] for test in tests], axis=0)
    seen = np.unravel_index(np.nanargmin(fixed), fixed.shape)
    found["best fixed choice, seen on the test parts"] = [float(test[seen]) for test in tests]
    return {"least": least, **found}


def report(store: Path) -> list[str]:
    names = [name for name in SETS if list(store.glob(f"{name}-*.npz"))]
    by_set = {name: regrets(store, name) for name in names}
    rules = [rule for rule in by_set[names[0]] if rule != "least"]
    lines = [
        "| rule | " + " | ".join(names) + " | mean |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for rule in rules:
        means = [float(np.mean(by_set[name][rule])) for name in names]
        cells = [*(f"{m:.3f}" for m in means), f"{np.mean(means):.3f}"]
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    least = [f"{np.mean(by_set[name]['least']):.2f} %" for name in names]
    lines.append("| least error in the grid | " + " | ".join(least) + " | |")
    splits = [str(len(by_set[name]["least"])) for name in names]
    lines.append("| splits | " + " | ".join(splits) + " | |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("collect", "report"))
    data_argument(parser)
    parser.add_argument("--store", type=Path, required=True, help="directory of the scores")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, help="directory for regret.md")
    arguments = parser.parse_args()
    arguments.store.mkdir(parents=True, exist_ok=True)
    if arguments.action == "collect":
        work = [
            (arguments.data, name, seed, arguments.store)
            for seed in range(FIRST_SEED, FIRST_SEED + arguments.splits)
            for name in arguments.sets
        ]
        for line in in_order(collected, work, len(work), n_jobs=arguments.n_jobs):
            print(line, file=sys.stderr, flush=True)
        return
    lines = [*report(arguments.store), "", provenance()]
    print("\n".join(lines))
    if arguments.out:
        (arguments.out / "regret.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
