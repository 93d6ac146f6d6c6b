"""Maps of embeddings for retrieval: mpda, whitening, PCA, LDA and trained heads.

    python benchmarks/retrieval_maps.py --data DIR [--out docs/evidence/retrieval-maps.jsonl]
        [--study unseen seen] [--sets clinc150 ..] [--draws 0 1 ..] [--train 2500 5000 all]
        [--only NAME ..] [--skip NAME ..] [--device cuda] [--epochs 10 20 40]
    python benchmarks/retrieval_maps.py --out FILE --merge OTHER ..

"unseen": half of the classes are labelled, and the others are searched. "seen": the classes that
are searched have labels. ``--only`` and ``--skip`` take beginnings of names of methods, so parts of
a study can run on different machines. FILE gets a line of JSON for each method, and a run goes on
where an earlier one was stopped. ``--merge`` adds the lines of other files and runs nothing. The
tables are next to FILE (.md). Methods that begin with "head" need torch and
pytorch-metric-learning.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from mpda import MPDA, NeighborhoodRefinement, WithinClassWhitening
from mpda.assessment import score_queries
from mpda.assessment.data_split import PCA_ENERGY
from mpda.assessment.label_classifier import CLASSIFIER, fit_label_classifier
from mpda.discriminant.fit import reduced_eigenproblem
from mpda.exceptions import DatasetError, FeatureScaleWarning, SmallClassWarning
from mpda.experiments.embeddings import load_embeddings
from mpda.io import AffineMap, affine_map
from mpda.model_selection import UnseenClassFolds
from protocol import Array, data_argument, provenance
from retrieval_tables import format_page

SETS = {
    "unseen": ("banking77_minilm", "banking77", "clinc150", "cifar10"),
    "seen": ("banking77_minilm", "clinc150"),
}
DRAWS = {"unseen": 6, "seen": 3}
# Rows of the training part that are drawn; None takes all.
TRAIN: dict[str, tuple[int | None, ...]] = {"unseen": (5000,), "seen": (2500, 5000, None)}
KEY = ("study", "data", "draw", "train", "method", "numbers")
MEASURES = ("recall_at_1", "map_at_r", "recall_at_10")
UNLABELED = -1
# Labelled rows that choose settings: the searches take minutes with as many.
LARGEST_VALIDATION = 5000
# Shrinkage of the within-class scatter of WithinClassWhitening, for the tangent form as well.
SHRINKAGE = 0.5

Transform = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Problem:
    """Labelled rows X, y, and the gallery in which queries are searched.

    Without queries the rows of the gallery are searched among themselves. For unseen classes the
    labels of the gallery are not given to a method; for seen ones the gallery is X.
    """

    X: Array
    y: Array
    gallery: Array
    gallery_labels: Array
    queries: Array | None
    query_labels: Array | None
    unseen: bool
    seed: int

    @property
    def rows(self) -> Array:
        """All rows of the database."""
        return np.concatenate([self.X, self.gallery]) if self.unseen else self.X

    @property
    def labels(self) -> Array:
        """Labels of all rows; UNLABELED for those that have none."""
        return np.concatenate([self.y, np.full(len(self.rows) - len(self.y), UNLABELED)])

    @cached_property
    def validation(self) -> Problem:
        """Division of the labelled rows for the choice of settings.

        A fifth of the rows of each class are queries or, for unseen classes, a quarter of the
        classes are searched among themselves. Of more rows than LARGEST_VALIDATION a draw is taken.
        """
        if len(self.y) > LARGEST_VALIDATION:
            kept, _ = train_test_split(
                np.arange(len(self.y)),
                train_size=LARGEST_VALIDATION,
                stratify=self.y,
                random_state=self.seed,
            )
            return replace(self, X=self.X[kept], y=self.y[kept]).validation
        if self.unseen:
            n_folds = min(4, len(np.unique(self.y)) // 2)
            train, test = next(
                UnseenClassFolds(n_folds, random_state=self.seed).split(self.X, self.y)
            )
            held_out = self.X[test], self.y[test]
            return Problem(self.X[train], self.y[train], *held_out, None, None, True, self.seed)
        folds = StratifiedKFold(5, shuffle=True, random_state=self.seed)
        train, test = next(folds.split(self.X, self.y))
        kept, held_out = (self.X[train], self.y[train]), (self.X[test], self.y[test])
        return Problem(*kept, *kept, *held_out, False, self.seed)


def draw_problem(study: str, data: str, draw: int, n: int | None, directory: Path) -> Problem:
    """Draw n rows of the training part and, for unseen classes, the labelled half of the classes.

    The test part of a set without an official split is a random half.
    """
    X, y, is_test = load_embeddings(data, directory)
    X = X.astype(np.float32)
    rng = np.random.default_rng(draw)
    if not is_test.any():
        is_test = rng.random(len(y)) >= 0.5
    rows, labels, queries, query_labels = X[~is_test], y[~is_test], X[is_test], y[is_test]
    if n is not None and n < len(labels):
        kept = rng.permutation(len(labels))[:n]
        rows, labels = rows[kept], labels[kept]
    if study == "seen":
        return Problem(rows, labels, rows, labels, queries, query_labels, False, draw)
    classes = rng.permutation(np.unique(y))
    known = classes[: len(classes) // 2]
    labelled, searched = np.isin(labels, known), ~np.isin(query_labels, known)
    return Problem(
        *(rows[labelled], labels[labelled], rows[~labelled], labels[~labelled]),
        *(queries[searched], query_labels[searched], True, draw),
    )


@dataclass(frozen=True)
class FittedMap:
    """A fitted map, whether its vectors are compared by their cosine, and what was chosen."""

    transform: Transform
    cosine: bool = True
    search_seconds: float = 0.0
    settings: Mapping[str, Any] | None = None


def score_map(problem: Problem, fitted: FittedMap, as_int8: bool = False) -> dict[str, float]:
    """Return the measures of a map; with ``as_int8`` of its vectors in one byte a number.

    One scale for all numbers maps the largest magnitude of the gallery to 127.
    """
    queries = problem.queries
    mapped = [fitted.transform(problem.gallery)]
    mapped += [] if queries is None else [fitted.transform(queries)]
    if fitted.cosine:
        mapped = [normalize(Z) for Z in mapped]
    if as_int8:
        scale = 127.0 / np.abs(mapped[0]).max()
        mapped = [np.rint(np.clip(scale * Z, -127.0, 127.0)) for Z in mapped]
        mapped = [normalize(Z) for Z in mapped] if fitted.cosine else mapped
    labels = problem.gallery_labels, problem.query_labels
    Z, Z_query = mapped[0], None if queries is None else mapped[1]
    return score_queries(Z, labels[0], Z_query, labels[1], MEASURES).means


def score_validation(problem: Problem, transform: Transform, cosine: bool = True) -> float:
    return score_map(problem.validation, FittedMap(transform, cosine))["map_at_r"]


@dataclass(frozen=True)
class HeadOptions:
    """Device of the heads, and the numbers of epochs among which the validation part chooses."""

    device: str
    epochs: Sequence[int]


# Methods take a problem, a number of outputs or None for all, and the options of heads. They return
# None where there are fewer outputs.
Fit = Callable[[Problem, int | None, HeadOptions], FittedMap | None]


def keep_all(problem: Problem, r: int | None, options: HeadOptions) -> FittedMap:
    return FittedMap(lambda X: X)


def fit_pca(problem: Problem, r: int | None, options: HeadOptions, labelled: bool) -> FittedMap:
    return FittedMap(PCA(r).fit(problem.X if labelled else problem.rows).transform)


def fit_lda(
    problem: Problem, r: int | None, options: HeadOptions, shrinkage: str | None
) -> FittedMap | None:
    largest = min(len(np.unique(problem.y)) - 1, problem.X.shape[1])
    if r is not None and r > largest:
        return None
    solver = "svd" if shrinkage is None else "eigen"
    model = LinearDiscriminantAnalysis(solver, shrinkage=shrinkage, n_components=r)
    return FittedMap(model.fit(problem.X.astype(np.float64), problem.y).transform)


def fit_whitening(
    problem: Problem,
    r: int | None,
    options: HeadOptions,
    database: bool = True,
    refined: bool = False,
) -> FittedMap:
    X, y = (problem.rows, problem.labels) if database else (problem.X, problem.y)
    model: Any = WithinClassWhitening(r, shrinkage=SHRINKAGE, unlabeled=UNLABELED)
    if refined:
        model = NeighborhoodRefinement(model, radius=1.0, temperature=2.0)
    return FittedMap(model.fit(X, y).transform)


def fit_tangent_whitening(problem: Problem, r: int | None, options: HeadOptions) -> FittedMap:
    """Fit the whitening with MPDA's within-class form in place of the within-class scatter."""
    # Relative units follow from a first summary, the Schur complement needs a second one.
    model = MPDA().set_params(**MPDA().summarize(problem.X, problem.y).absolute_parameters())
    state = model.summarize(problem.X, problem.y).state.without_rotation()
    form = reduced_eigenproblem(state.sums, 0.0)[0].denominator
    d, rows = len(form), problem.rows.astype(np.float64)
    form = (1.0 - SHRINKAGE) * form + SHRINKAGE * np.trace(form) / d * np.eye(d)
    mean = rows.mean(axis=0)
    _, vectors = eigh((rows - mean).T @ (rows - mean) / len(rows), form)
    return FittedMap(AffineMap(mean, vectors.T[::-1][:r], np.zeros(r or d), unit_length=True))


def fit_refined(
    problem: Problem, r: int | None, options: HeadOptions, settings: Mapping[str, Any]
) -> FittedMap:
    model = NeighborhoodRefinement(MPDA(), n_components=r, **settings)
    n, d = problem.X.shape
    # Fewer samples than features: PCA comes first, as in `mpda reproduce embeddings`.
    steps = [PCA(PCA_ENERGY, svd_solver="full")] if n < d else []
    fitted = make_pipeline(*steps, model).fit(problem.X, problem.y)
    return FittedMap(fitted.transform, cosine=model.radius is not None)


def fit_searched(problem: Problem, r: int | None, options: HeadOptions) -> FittedMap:
    """Refine MPDA with the penalty and the objective that are best on the validation part."""
    begin = time.perf_counter()
    part = problem.validation
    start = FrozenEstimator(MPDA(r).fit(part.X, part.y))
    scores = []
    for objective, penalty in itertools.product(OBJECTIVES, PENALTIES):
        settings: dict[str, Any] = {**objective, "penalty_per_coefficient": penalty}
        model = NeighborhoodRefinement(start, n_components=r, **SPHERE, **settings)
        model.fit(part.X, part.y)
        scores.append((score_validation(problem, model.transform), settings))
    best = max(scores, key=lambda entry: entry[0])[1]
    seconds = time.perf_counter() - begin
    refined = fit_refined(problem, r, options, {**SPHERE, **best})
    return FittedMap(refined.transform, True, seconds, best)


def fit_head(problem: Problem, r: int | None, options: HeadOptions, loss: str) -> FittedMap:
    """Train a head with the settings that are best on the validation part."""
    import trained_heads  # needs torch, which the other methods do not

    assert r is not None
    begin = time.perf_counter()
    part = problem.validation
    start = affine_map(PCA(r).fit(part.rows))
    score = partial(score_validation, problem)
    trainer = trained_heads.HeadTrainer(loss, problem.seed, options.device)
    best = trainer.search(part.X, part.y, start, score, LEARNING_RATES, options.epochs)
    seconds = time.perf_counter() - begin
    start, epochs = affine_map(PCA(r).fit(problem.rows)), best["epochs"]
    head = trainer.train(problem.X, problem.y, start, best["rate"], [epochs])[epochs]
    return FittedMap(head, True, seconds, {**best, "epochs_tried": list(options.epochs)})


SPHERE: dict[str, Any] = {"radius": 1.0, "temperature": 2.0}
# For whole classes more candidates were better on validation parts (candidates.py).
MANY: dict[str, Any] = {"objective": "class", "n_own_neighbors": 30, "n_candidates": 100}
OBJECTIVES: tuple[dict[str, Any], ...] = ({"objective": "nearest"}, {"objective": "class"}, MANY)
# The default and three weaker ones, in steps of five to eight.
PENALTIES = (0.1, 0.02, 0.004, 0.0005)
REFINED: dict[str, dict[str, Any]] = {
    "refined, Euclidean, nearest, 0.1": {"radius": None, "temperature": 4.0},
    "refined, sphere, nearest, 0.1": {**SPHERE, "penalty_per_coefficient": 0.1},
    "refined, sphere, class, 0.02": {
        **SPHERE,
        "objective": "class",
        "penalty_per_coefficient": 0.02,
    },
    "refined, sphere, class, 0.02, 100 candidates": {
        **SPHERE,
        **MANY,
        "penalty_per_coefficient": 0.02,
    },
}
# Learning rates among which the validation part chooses.
LEARNING_RATES = (1e-3, 3e-3, 1e-2)
LOSSES = ("SupCon", "ProxyAnchor", "multi-similarity", "normalised softmax")
ALL = (32, 64, 128, None)
# Methods with the numbers of outputs that they are fitted with; the classifier has no map.
METHODS: dict[str, dict[str, tuple[Fit | None, Sequence[int | None]]]] = {
    "unseen": {
        "raw": (keep_all, (None,)),
        "PCA of the database": (partial(fit_pca, labelled=False), ALL),
        "PCA of the labelled": (partial(fit_pca, labelled=True), ALL),
        "LDA": (partial(fit_lda, shrinkage=None), ALL),
        "shrinkage LDA": (partial(fit_lda, shrinkage="auto"), ALL),
        "whitening of the labelled": (partial(fit_whitening, database=False), ALL),
        "whitening": (fit_whitening, ALL),
        "whitening, refined": (partial(fit_whitening, refined=True), ALL),
        "tangent whitening": (fit_tangent_whitening, ALL),
        **{f"head, {loss}": (partial(fit_head, loss=loss), (64,)) for loss in LOSSES[:3]},
    },
    "seen": {
        "raw": (keep_all, (None,)),
        CLASSIFIER: (None, (None,)),
        **{
            name: (partial(fit_refined, settings=settings), (16, 32, 64))
            for name, settings in REFINED.items()
        },
        "refined, sphere, by validation": (fit_searched, (64,)),
        **{f"head, {loss}": (partial(fit_head, loss=loss), (64,)) for loss in LOSSES},
    },
}


def measure(
    problem: Problem, fit: Fit, r: int | None, options: HeadOptions
) -> dict[str, Any] | None:
    """Return the measures, sizes and seconds of a method; None where it has fewer outputs."""
    begin = time.perf_counter()
    fitted = fit(problem, r, options)
    seconds = time.perf_counter() - begin
    if fitted is None:
        return None
    row: dict[str, Any] = {
        "outputs": fitted.transform(problem.gallery[:1]).shape[1],
        **count_rows(problem),
        "seconds": round(seconds - fitted.search_seconds, 2),
    }
    if fitted.settings is not None:
        row |= {"search_seconds": round(fitted.search_seconds, 2), "settings": fitted.settings}
    for kind in ("float32", "int8"):
        scores = score_map(problem, fitted, kind == "int8")
        row[kind] = {name: round(value, 5) for name, value in scores.items()}
    return row


def measure_classifier(problem: Problem) -> dict[str, Any]:
    """Return the error of logistic regression on all numbers, which has no neighbours."""
    assert problem.queries is not None
    assert problem.query_labels is not None
    begin = time.perf_counter()
    model = fit_label_classifier(problem.X, problem.y, seed=problem.seed)
    seconds = time.perf_counter() - begin
    error = 1.0 - model.score(problem.queries, problem.query_labels)
    return {
        "outputs": problem.X.shape[1],
        **count_rows(problem),
        "seconds": round(seconds, 2),  # with the choice of the penalty
        "settings": {"C": model[-1].C},
        "error": round(float(error), 5),
    }


def count_rows(problem: Problem) -> dict[str, int]:
    """Return the sizes of a problem."""
    n_queries = 0 if problem.queries is None else len(problem.queries)
    return {"labelled": len(problem.y), "gallery": len(problem.gallery), "queries": n_queries}


def run(arguments: argparse.Namespace, done: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the selected parts of the studies that are not done."""
    measured, options = provenance(), HeadOptions("cpu", arguments.epochs)
    for study in arguments.study:
        names = [
            name
            for name in METHODS[study]
            if name.startswith(tuple(arguments.only)) and not name.startswith(tuple(arguments.skip))
        ]
        if any(name.startswith("head") for name in names):
            import trained_heads

            options = HeadOptions(trained_heads.find_device(arguments.device), arguments.epochs)
            measured = f"{provenance()}, {trained_heads.versions(options.device)}"
        draws = arguments.draws or range(DRAWS[study])
        sets = [name for name in SETS[study] if name in (arguments.sets or SETS[study])]
        sizes = TRAIN[study] if arguments.train is None else arguments.train
        for data, n, draw in itertools.product(sets, sizes, draws):
            if n is None and study == "seen" and draw > 0:
                continue  # the official split: nothing is drawn
            problem: Problem | None = None
            for name in names:
                fit, numbers = METHODS[study][name]
                for r in numbers:
                    key = (study, data, draw, n or "all", name, r or "all")
                    if key in done:
                        continue
                    if problem is None:
                        problem = draw_problem(study, data, draw, n, arguments.data)
                    if fit is None:
                        row: dict[str, Any] | None = measure_classifier(problem)
                    else:
                        row = measure(problem, fit, r, options)
                    if row is not None:
                        yield {**dict(zip(KEY, key, strict=True)), **row, "measured": measured}


def read_rows(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of a file by their key; of equal keys the last row counts."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {tuple(row[name] for name in KEY): row for row in rows}


def parse_size(text: str) -> int | None:
    return None if text == "all" else int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data_argument(parser)
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/retrieval-maps.jsonl"))
    parser.add_argument("--study", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--sets", nargs="+", choices=SETS["unseen"], help="data sets")
    parser.add_argument("--draws", nargs="+", type=int, help="seeds of the draws")
    parser.add_argument(
        "--train",
        nargs="+",
        type=parse_size,
        help="numbers of training rows that are drawn, or all",
    )
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of methods")
    parser.add_argument("--skip", nargs="+", default=[], help="the same, of methods to leave out")
    parser.add_argument("--device", help="device of the heads; a GPU if there is one")
    parser.add_argument(
        "--epochs",
        nargs="+",
        type=int,
        default=[10, 20, 40],
        help="numbers of epochs of the heads that are tried, 10 20 40 by default",
    )
    parser.add_argument("--merge", nargs="+", type=Path, help="files whose rows are added")
    arguments = parser.parse_args()
    # Small classes and features that hardly vary are usual here, and would be named by every fit.
    warnings.simplefilter("ignore", SmallClassWarning)
    warnings.simplefilter("ignore", FeatureScaleWarning)
    rows = read_rows(arguments.out)
    if arguments.merge:
        for path in arguments.merge:
            rows |= read_rows(path)
        lines = (json.dumps(row) + "\n" for row in rows.values())
        arguments.out.write_text("".join(lines))
    else:
        try:
            for row in run(arguments, set(rows)):
                rows[tuple(row[name] for name in KEY)] = row
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(*(row.get(name) for name in (*KEY, "float32", "seconds")), file=sys.stderr)
        except DatasetError as error:
            sys.exit(str(error))
        except ImportError as error:
            sys.exit(f"{error}: heads need torch and pytorch-metric-learning. Add --skip head.")
    text = format_page(list(rows.values()), {study: list(METHODS[study]) for study in METHODS})
    arguments.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
