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
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import dctn, idctn
from sklearn.exceptions import FitFailedWarning

from mpda._lib.array_types import Floats, Ints
from mpda.estimators._base import LinearMap
from mpda.estimators.methods import METHODS, method
from mpda.exceptions import SmallClassWarning
from mpda.model_selection import DiscriminantSearchCV
from mpda.model_selection.grid import SearchGrid, build_grid
from mpda.model_selection.nearest_by_dimension import nearest_by_dimension
from mpda.model_selection.selection_rules import (
    RULES,
    GridScores,
    SelectedPoint,
    pooled_means,
    select_robust,
    smooth_counts,
    smooth_points,
)
from mpda.parallel import map_ordered
from protocol import FIRST_SEED, TRAIN_SHARE, Split, data_argument, load, provenance, split

SETS = ("vehicle", "semeion", "coil20", "face_detection", "mnist_2k2k", "optdigits", "coil100")
MOST = 50
FOLDS = 4
LARGEST_TEST = 3000
IDEAL_DRAWS = 20
USUAL = "usual parameters, only the dimension chosen"
LEAST = "least error in the grid"
IDEAL = "ideal validation"
NESTED = "robust, its usual point and price from the other sets"
NESTED_GRID = "minimum, ranges of the grid from the other sets"
PRICES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
SEEN = "best fixed choice, seen on the test parts"


def _largest(values: Floats) -> SelectedPoint:
    point, place = np.unravel_index(int(np.argmax(values)), values.shape)
    return SelectedPoint(int(point), int(place))


def _priced(grid: GridScores, values: Floats, price: float) -> SelectedPoint:
    return _largest(values - price * grid.standard_error * grid.steps[:, None])


def _centre(grid: GridScores, share: float) -> SelectedPoint:
    """The middle of the best points and dimensions: the nearest point, the median dimension."""
    means = grid.means
    points, places = np.nonzero(means >= np.quantile(means, 1.0 - share))
    shape = [axis.size for axis in grid.axes[0]]
    where = np.array(np.unravel_index(np.arange(len(means)), shape)).T
    gaps = ((where - where[points].mean(axis=0)) ** 2).sum(axis=1)
    return SelectedPoint(int(np.argmin(gaps)), int(np.median(places)))


def _shrunken(grid: GridScores) -> SelectedPoint:
    """Components of the score surface (which parameters, which band of frequencies over the
    dimensions) shrunk by what their variance over folds says of their noise."""
    scores = grid.scores[:, :, np.isfinite(grid.scores).all(axis=(0, 1))]
    shape = [axis.size for axis in grid.axes[0]]
    waves = dctn(
        scores.reshape(len(scores), *shape, -1), axes=range(1, 2 + len(shape)), norm="ortho"
    )
    mean, noise = waves.mean(axis=0), waves.var(axis=0, ddof=1) / len(waves)
    band = np.ceil(np.log2(np.arange(mean.shape[-1]) + 1)).astype(int)
    key = np.zeros(mean.shape, dtype=int)
    for axis, n in enumerate(mean.shape):
        kind = band if axis == len(shape) else np.minimum(np.arange(n), 1)
        key = 10 * key + kind.reshape([-1 if i == axis else 1 for i in range(mean.ndim)])
    _, group = np.unique(key.ravel(), return_inverse=True)
    power = np.bincount(group, (mean**2).ravel())
    kept = np.maximum(0.0, 1.0 - np.bincount(group, noise.ravel()) / np.maximum(power, 1e-300))
    kept[group[0]] = 1.0
    smooth = idctn(mean * kept[group].reshape(mean.shape), norm="ortho")
    return _largest(smooth.reshape(scores.shape[1], -1))


ATTEMPTS: dict[str, Callable[[GridScores], SelectedPoint]] = {
    "price 0.3 without pooling": lambda g: _priced(g, g.means, 0.3),
    "price 0.1 with pooling": lambda g: select_robust(g, 0.1),
    "price 0.5 with pooling": lambda g: select_robust(g, 0.5),
    "price 1 with pooling": lambda g: select_robust(g, 1.0),
    "pooled over dimensions only": lambda g: _largest(smooth_counts(g.means, g.component_counts)),
    "pooled over points only": lambda g: _largest(smooth_points(g.means, g.axes)),
    "pooled over points twice": lambda g: _largest(
        smooth_points(smooth_points(smooth_counts(g.means, g.component_counts), g.axes), g.axes)
    ),
    "centre of the best 0.5 %": lambda g: _centre(g, 0.005),
    "centre of the best 5 %": lambda g: _centre(g, 0.05),
    "shrunken components": _shrunken,
}


@dataclass(frozen=True)
class Study:
    """The method that is searched over, and where its scores are kept."""

    name: str
    store: Path

    @property
    def estimator(self) -> Any:
        return method(self.name).estimator()

    @property
    def grid(self) -> SearchGrid:
        return build_grid(self.estimator, None)

    def paths(self, data: str) -> list[Path]:
        return sorted((self.store / self.name).glob(f"{data}-*.npz"))


def collected(study: Study, directory: Path, name: str, seed: int, n_repeats: int) -> str:
    """The scores of one split, kept in the store; what is there is not made again."""
    path = study.store / study.name / f"{name}-{seed}.npz"
    if path.exists():
        return f"{path.name}: kept"
    path.parent.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", SmallClassWarning)  # COIL20 and COIL100 have 18 a class
    warnings.simplefilter("ignore", FitFailedWarning)  # without a ridge some points have no answer
    begin = time.monotonic()
    X, y = load(directory, name)
    part = split(X, y, TRAIN_SHARE[name], seed, LARGEST_TEST)
    test, ideal = on_test(study, part, seed)
    np.savez_compressed(path, scores=on_folds(study, part, seed, n_repeats), test=test, ideal=ideal)
    return f"{path.name}: {time.monotonic() - begin:.0f} s"


def on_folds(study: Study, part: Split, seed: int, n_repeats: int) -> Floats:
    """(folds, points, dimensions) scores, the folds of all repeats one after the other."""
    search = DiscriminantSearchCV(
        study.estimator,
        cv=FOLDS,
        n_repeats=n_repeats,
        n_components=MOST,
        random_state=seed,
        refit=False,
    ).fit(part.X, part.y)
    folds = [search.cv_results_[f"split{i}_test_score"] for i in range(search.n_splits_)]
    return np.array(folds).reshape(len(folds), len(study.grid.points), -1)


def on_test(study: Study, part: Split, seed: int) -> tuple[Floats, Floats]:
    """Scores (points, dimensions) on the test part, and regrets of an ideal validation.

    The ideal validation has as many samples as the training part (but at most half of the test
    part), which training did not see, and judges what was fitted to the whole training part. It
    takes the least error; the regret is the error of this choice on the rest of the test part over
    the least error on all of the test part. That is what the noise of so many samples costs the
    plain minimum when nothing else stands in its way.
    """
    estimator, points = study.estimator, study.grid.points
    correct = {}  # (dimensions, samples) for each grid point with an answer
    for path in estimator.fit_many(part.X, part.y, points, range(1, MOST + 1)):
        if path.components is not None:
            Z, Z_test = part.X @ path.components.T, part.X_test @ path.components.T
            correct[path.index] = part.y[nearest_by_dimension(Z, Z_test)] == part.y_test
    scores = np.full((len(points), max(map(len, correct.values()))), np.nan)
    for index, curve in correct.items():
        scores[index, : len(curve)] = curve.mean(axis=1)
    width = min(map(len, correct.values()))
    hits = np.stack([curve[:width] for curve in correct.values()])
    best = 1.0 - hits.mean(axis=2).max()
    rng = np.random.default_rng(seed)
    n_test = hits.shape[2]
    ideal = []
    for _ in range(IDEAL_DRAWS):
        order = rng.permutation(n_test)
        n_chosen = min(len(part.y), n_test // 2)
        chooses = hits[:, :, order[:n_chosen]].mean(axis=2)
        place = int(np.flatnonzero((chooses == chooses.max()).any(axis=0))[0])
        chosen = hits[np.argmax(chooses[:, place]), place]
        ideal.append((1.0 - chosen[order[n_chosen:]].mean()) / best)
    return scores, np.array(ideal)


def regrets(study: Study, name: str) -> dict[str, list[float]]:
    """The regrets by split: of each rule, with one repeat of the folds and with all, and beside
    them of choices that no rule could make; and the least errors in per cent."""
    found: dict[str, list[float]] = {}
    tests = []
    for path in study.paths(name):
        with np.load(path) as content:
            scores, test, ideal = content["scores"], content["test"], content["ideal"]
        width = min(scores.shape[2], test.shape[1])
        errors = 1.0 - test[:, :width]
        best = float(np.nanmin(errors))
        tests.append(errors / best)
        for n_repeats in sorted({1, len(scores) // FOLDS}):
            table = grid_scores(study.grid, scores[: n_repeats * FOLDS, :, :width], n_repeats)
            again = "" if n_repeats == 1 else f", {n_repeats} repeats"
            for rule, choose in RULES.items():
                choice = choose(table)
                row = found.setdefault(rule + again, [])
                row.append(float(errors[choice.point, choice.column]) / best)
        choice = select_robust(grid_scores(study.grid, scores[:FOLDS, :, :width], 1), penalty=1e9)
        found.setdefault(USUAL, []).append(float(errors[choice.point, choice.column]) / best)
        found.setdefault(LEAST, []).append(100.0 * best)
        found.setdefault(IDEAL, []).append(float(ideal.mean()))
    shortest = min(test.shape[1] for test in tests)
    fixed = np.mean([test[:, :shortest] for test in tests], axis=0)
    seen = np.unravel_index(np.nanargmin(fixed), fixed.shape)
    return {**found, SEEN: [float(test[seen]) for test in tests]}


def scored(study: Study, name: str) -> Iterator[tuple[GridScores, Floats]]:
    """The scores on folds, drawn once, and the regret of every choice, by split."""
    for path in study.paths(name):
        with np.load(path) as content:
            scores, test = content["scores"], content["test"]
        width = min(scores.shape[2], test.shape[1])
        errors = 1.0 - test[:, :width]
        yield grid_scores(study.grid, scores[:FOLDS, :, :width], 1), errors / np.nanmin(errors)


def grid_scores(grid: SearchGrid, scores: Floats, n_repeats: int) -> GridScores:
    component_counts = np.arange(1, scores.shape[2] + 1)
    return GridScores(scores, component_counts, grid.axes, grid.ridges, grid.steps, n_repeats)


def report(study: Study) -> list[str]:
    names = [name for name in SETS if study.paths(name)]
    by_set = {name: regrets(study, name) for name in names}
    known = dict.fromkeys(rule for name in names for rule in by_set[name])
    means = {
        rule: np.array([np.mean(by_set[name].get(rule, np.nan)) for name in names])
        for rule in known
        if rule != LEAST
    }
    rules = [rule for rule in RULES if np.isfinite(means[rule]).all()]
    lines = [
        "| rule | " + " | ".join(names) + " | mean |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    lines += [_line(rule, row) for rule, row in means.items()]
    chosen = [_best_without(i, {rule: means[rule] for rule in rules}) for i in range(len(names))]
    judged = np.array([means[rule][i] for i, rule in enumerate(chosen)])
    lines.append(_line("best rule of the other sets", judged))
    nested = [nested_regret(study, name, [n for n in names if n != name]) for name in names]
    lines.append(_line(NESTED, np.array(nested)))
    lines.append(_line(NESTED_GRID, nested_grid(study, names)))
    spreads = [np.std(by_set[n]["minimum"], ddof=1) / np.sqrt(len(by_set[n][LEAST])) for n in names]
    lines.append("| standard error of a mean | " + " | ".join(f"{s:.3f}" for s in spreads) + " | |")
    least = [f"{np.mean(by_set[name][LEAST]):.2f} %" for name in names]
    lines.append(f"| {LEAST} | " + " | ".join(least) + " | |")
    splits = [str(len(by_set[name][LEAST])) for name in names]
    lines.append("| splits | " + " | ".join(splits) + " | |")
    others = [f"{name}: {rule}" for name, rule in zip(names, chosen, strict=True)]
    lines += ["", "Best rule of the other sets, for " + "; ".join(others) + "."]
    return [*lines, "", "Other rules that were tried:", "", *attempts(study, names)]


def attempts(study: Study, names: list[str]) -> list[str]:
    found: dict[str, list[float]] = {title: [] for title in ATTEMPTS}
    for name in names:
        splits = list(scored(study, name))
        for title, choose in ATTEMPTS.items():
            choices = [(choose(table), test) for table, test in splits]
            found[title].append(float(np.mean([test[c.point, c.column] for c, test in choices])))
    header = ["| rule | " + " | ".join(names) + " | mean |", "|---|" + "---|" * (len(names) + 1)]
    return header + [_line(title, np.array(row)) for title, row in found.items()]


def nested_regret(study: Study, left_out: str, others: list[str]) -> float:
    """The regret of "robust" with usual parameters and price chosen on the other data sets alone.

    The usual parameters come from the three points that do best on them as a fixed choice, with
    the number of components by the best pooled score.
    """
    splits = {name: list(scored(study, name)) for name in [*others, left_out]}
    fixed = np.mean(
        [np.mean([_fixed(*s) for s in splits[name]], axis=0) for name in others], axis=0
    )

    def mean_regret(name: str, usual: int, price: float) -> float:
        found = []
        for table, test in splits[name]:
            choice = select_robust(replace(table, steps=_steps_from(table, usual)), price)
            found.append(test[choice.point, choice.column])
        return float(np.mean(found))

    candidates = [(int(point), price) for point in np.argsort(fixed)[:3] for price in PRICES]
    best = min(candidates, key=lambda c: np.mean([mean_regret(name, *c) for name in others]))
    return mean_regret(left_out, *best)


def nested_grid(study: Study, names: list[str]) -> Floats:
    """The regrets of "minimum" with a grid whose ranges are chosen on the other data sets alone.

    A range is what a person chooses who makes a grid: a lowest and a highest value of each
    parameter. Of all products of ranges, the one with the least mean regret on the others is taken.
    """
    values = [axis.size for axis in study.grid.axes[0]]
    ranges = [
        [slice(low, high) for low in range(n) for high in range(low + 1, n + 1)] for n in values
    ]
    subgrids = list(itertools.product(*ranges))
    by_set = []
    for name in names:
        found = []
        for table, test in scored(study, name):
            # Points in the order in which "minimum" prefers them, at their best dimension.
            means = np.round(table.means, 12)
            places = means.argmax(axis=1)
            best = means[np.arange(len(means)), places]
            order = np.lexsort((-table.ridges, places, -best))
            rank = np.argsort(order).reshape(values)
            regret = test[np.arange(len(test)), places]
            found.append([regret[order[rank[ranges_].min()]] for ranges_ in subgrids])
        by_set.append(np.mean(found, axis=0))
    regrets = np.array(by_set)  # (data sets, subgrids)
    chosen = [int(np.delete(regrets, i, axis=0).mean(axis=0).argmin()) for i in range(len(names))]
    return np.asarray(regrets[np.arange(len(names)), chosen])


def _fixed(table: GridScores, test: Floats) -> Floats:
    """The regret of each point at the number of components that its pooled scores prefer."""
    alone = [(np.zeros(1, dtype=np.intp),)] * len(test)  # points are not pooled with each other
    places = np.argmax(pooled_means(replace(table, axes=alone)), axis=1)
    return np.asarray(test[np.arange(len(test)), places])


def _steps_from(table: GridScores, usual: int) -> Ints:
    shape = [places.size for places in table.axes[0]]
    places = np.array(np.unravel_index(np.arange(len(table.steps)), shape))
    return np.abs(places - places[:, [usual]]).sum(axis=0)


def _line(title: str, row: Floats) -> str:
    cells = ["" if np.isnan(value) else f"{value:.3f}" for value in [*row, row.mean()]]
    return f"| {title} | " + " | ".join(cells) + " |"


def _best_without(left_out: int, means: dict[str, Floats]) -> str:
    return min(means, key=lambda rule: float(np.delete(means[rule], left_out).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("collect", "report"))
    data_argument(parser)
    parser.add_argument("--store", type=Path, required=True, help="directory of the scores")
    own = [entry.name for entry in METHODS if issubclass(entry.estimator, LinearMap)]
    parser.add_argument("--method", default="MPDA", choices=own)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1, help="how often folds are drawn")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, help="directory for regret-METHOD.md")
    arguments = parser.parse_args()
    study = Study(arguments.method, arguments.store)
    if arguments.action == "collect":
        work = [
            (study, arguments.data, name, seed, arguments.repeats)
            for seed in range(FIRST_SEED, FIRST_SEED + arguments.splits)
            for name in arguments.sets
        ]
        for line in map_ordered(collected, work, len(work), n_jobs=arguments.n_jobs):
            print(line, file=sys.stderr, flush=True)
        return
    lines = [*report(study), "", provenance()]
    print("\n".join(lines))
    if arguments.out:
        (arguments.out / f"regret-{study.name}.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
