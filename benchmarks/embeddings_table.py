"""The table of embeddings: maps, quantisation, a classifier and trained heads at equal bytes.

    python benchmarks/embeddings_table.py --data DIR [--out docs/evidence/embeddings.jsonl]
        [--known docs/evidence/retrieval-maps.jsonl] [--study unseen seen] [--sets clinc150 ..]
        [--draws 0 1 ..] [--only NAME ..] [--skip NAME ..] [--jobs N] [--epochs 10 20 40]
    python benchmarks/embeddings_table.py --out FILE --merge OTHER ..

Splits, rows and the choice of settings are those of ``retrieval_maps.py``, whose rows (``--known``)
are taken where they have both types of numbers. "seen" has the whole training part, "unseen" 5,000
rows of it. FILE gets a line of JSON for each method, and a run goes on where an earlier one was
stopped. ``--merge`` adds the lines of other files and runs nothing. The page is next to FILE (.md).
"PQ" needs faiss, "head" torch and pytorch-metric-learning.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.preprocessing import normalize

from embeddings_page import HEADS, METHODS, OURS, RAW, format_page, is_complete
from mpda.assessment import score_queries
from mpda.assessment.label_classifier import CLASSIFIER
from mpda.exceptions import DatasetError, FeatureScaleWarning, SmallClassWarning
from mpda.experiments.embeddings import EMBEDDING_SETS, load_embeddings
from protocol import data_argument, provenance
from retrieval_maps import (
    KEY,
    MEASURES,
    REFINED,
    FittedMap,
    HeadOptions,
    Problem,
    count_rows,
    draw_problem,
    fit_head,
    fit_lda,
    fit_pca,
    fit_refined,
    fit_whitening,
    keep_all,
    measure,
    measure_classifier,
    read_rows,
    score_map,
)

Row = dict[str, Any]
Key = tuple[Any, ...]
# Rows of the training part.
TRAIN = {"seen": None, "unseen": 5000}
# Draws of sets without an official split, and of unseen classes.
N_DRAWS = 6
# Settings among which "ours" chooses: those of the rows that are known.
CHOICES = {name: settings for name, settings in REFINED.items() if settings["radius"]}


@dataclass(frozen=True)
class Task:
    """A method on a draw, with what a worker needs to measure it."""

    study: str
    data: str
    draw: int
    method: str
    numbers: int | None
    directory: Path
    epochs: tuple[int, ...]
    # Rows of fits that need not be repeated, by method.
    known: Mapping[str, Row]

    @property
    def key(self) -> Key:
        """Values of KEY."""
        n, numbers = TRAIN[self.study] or "all", self.numbers or "all"
        return (self.study, self.data, self.draw, n, self.method, numbers)

    @property
    def problem(self) -> Problem:
        """Rows and queries."""
        return load_problem(self.study, self.data, self.draw, self.directory)

    @property
    def options(self) -> HeadOptions:
        """Settings of heads."""
        return HeadOptions("cpu", self.epochs)


@lru_cache(maxsize=1)
def load_problem(study: str, data: str, draw: int, directory: Path) -> Problem:
    """Draw a problem; consecutive tasks have the same one."""
    return draw_problem(study, data, draw, TRAIN[study], directory)


def fit_best_lda(problem: Problem, r: int | None, options: HeadOptions) -> FittedMap:
    """Fit LDA without or with shrinkage, whichever has the higher MAP@R on the validation part."""
    assert r is not None
    begin, part = time.perf_counter(), problem.validation
    scores: dict[str | None, float] = {}
    for shrinkage in (None, "auto"):
        fitted = fit_lda(part, count_lda(part, r), options, shrinkage)
        assert fitted is not None
        scores[shrinkage] = score_map(part, fitted)["map_at_r"]
    best = max(scores, key=lambda shrinkage: scores[shrinkage])
    seconds = time.perf_counter() - begin
    fitted = fit_lda(problem, count_lda(problem, r), options, best)
    assert fitted is not None
    return FittedMap(fitted.transform, True, seconds, {"shrinkage": best})


def count_lda(problem: Problem, r: int) -> int:
    """Return at most r components, and not more than LDA has."""
    return min(r, len(np.unique(problem.y)) - 1, problem.X.shape[1])


def measure_codes(task: Task) -> Row:
    """Measure product quantisation: queries stay as they are, rows have one byte a part."""
    import faiss  # the other methods do not need it

    faiss.omp_set_num_threads(1)
    problem, m = task.problem, task.numbers
    assert m is not None
    assert problem.queries is not None
    rows, gallery, queries = (
        np.ascontiguousarray(normalize(X), dtype=np.float32)
        for X in (problem.rows, problem.gallery, problem.queries)
    )
    begin = time.perf_counter()
    quantizer: Any = faiss.ProductQuantizer(rows.shape[1], m, 8)
    quantizer.cp.min_points_per_centroid = 1  # otherwise faiss prints a warning for each part
    quantizer.train(rows)
    seconds = time.perf_counter() - begin
    decoded = quantizer.decode(quantizer.compute_codes(gallery))
    labels = problem.gallery_labels, problem.query_labels
    means = score_queries(decoded, labels[0], queries, labels[1], MEASURES).means
    scores = {name: round(value, 5) for name, value in means.items()}
    return {"outputs": m, **count_rows(problem), "seconds": round(seconds, 2), "codes": scores}


@lru_cache(maxsize=2)
def score_choices(
    study: str, data: str, draw: int, directory: Path, r: int
) -> dict[str, dict[str, float]]:
    """Return the measures of each setting of CHOICES on the validation part, with the seconds."""
    part = load_problem(study, data, draw, directory).validation
    scores = {}
    for name, settings in CHOICES.items():
        begin = time.perf_counter()
        fitted = fit_refined(part, r, HeadOptions("cpu", ()), settings)
        scores[name] = score_map(part, fitted)
        scores[name]["seconds"] = time.perf_counter() - begin
    return scores


def measure_ours(task: Task, measure_name: str) -> Row:
    """Measure the refinement with the settings that have the best measure on the validation part.

    A row that is known with these settings is taken.
    """
    assert task.numbers is not None
    where = (task.study, task.data, task.draw, task.directory)
    scores = score_choices(*where, task.numbers)
    best = max(scores, key=lambda name: scores[name][measure_name])
    row = task.known.get(best)
    if row is None:
        fit = partial(fit_refined, settings=CHOICES[best])
        row = measure(task.problem, fit, task.numbers, task.options)
        assert row is not None
    seconds = sum(score["seconds"] for score in scores.values())
    chosen = {"settings": {"chosen": best}, "search_seconds": round(seconds, 2)}
    return {**{name: row[name] for name in row if name not in (*KEY, "measured")}, **chosen}


def measure_map(task: Task, fit: Callable[..., FittedMap]) -> Row:
    """Measure a map as float32 and as int8."""
    row = measure(task.problem, fit, task.numbers, task.options)
    assert row is not None
    return row


_HEADS = {name: partial(measure_map, fit=partial(fit_head, loss=HEADS[name])) for name in HEADS}
MEASURE: dict[str, dict[str, Callable[[Task], Row]]] = {
    "seen": {
        RAW: partial(measure_map, fit=keep_all),
        "PCA": partial(measure_map, fit=partial(fit_pca, labelled=True)),
        "LDA": partial(measure_map, fit=fit_best_lda),
        "PQ": measure_codes,
        CLASSIFIER: lambda task: measure_classifier(task.problem),
        **_HEADS,
        OURS["seen"][0]: partial(measure_ours, measure_name="map_at_r"),
        OURS["seen"][1]: partial(measure_ours, measure_name="recall_at_1"),
    },
    "unseen": {
        RAW: partial(measure_map, fit=keep_all),
        "PCA of the database": partial(measure_map, fit=partial(fit_pca, labelled=False)),
        "LDA": partial(measure_map, fit=fit_best_lda),
        "PQ": measure_codes,
        **_HEADS,
        OURS["unseen"][0]: partial(measure_map, fit=fit_whitening),
        OURS["unseen"][1]: partial(measure_map, fit=partial(fit_whitening, refined=True)),
    },
}


def list_tasks(arguments: argparse.Namespace, rows: Mapping[Key, Row]) -> list[Task]:
    """Return the tasks of the selected parts that have no complete row."""
    tasks = []
    sets = [name for name in EMBEDDING_SETS if name in (arguments.sets or EMBEDDING_SETS)]
    for study, data in itertools.product(arguments.study, sets):
        is_drawn = study == "unseen" or not load_embeddings(data, arguments.data)[2].any()
        draws = [d for d in arguments.draws or range(N_DRAWS) if is_drawn or d == 0]
        names = [
            name
            for name in METHODS[study]
            if name.startswith(tuple(arguments.only)) and not name.startswith(tuple(arguments.skip))
        ]
        for draw, name in itertools.product(draws, names):
            for numbers in METHODS[study][name]:
                keys = (study, data, draw, TRAIN[study] or "all")
                found = {
                    choice: rows[key]
                    for choice in CHOICES
                    if (key := (*keys, choice, numbers or "all")) in rows
                }
                epochs = tuple(arguments.epochs)
                task = Task(study, data, draw, name, numbers, arguments.data, epochs, found)
                if not is_complete(rows.get(task.key)):
                    tasks.append(task)
    return tasks


def carry_out(task: Task) -> Row:
    """Return the row of a task."""
    # Small classes and features that hardly vary are usual here, and would be named by every fit.
    warnings.simplefilter("ignore", SmallClassWarning)
    warnings.simplefilter("ignore", FeatureScaleWarning)
    measured = provenance()
    if task.method in HEADS:
        import torch

        import trained_heads  # needs torch, which the other methods do not

        torch.set_num_threads(1)
        measured += f", {trained_heads.versions('cpu')}"
    row = MEASURE[task.study][task.method](task)
    return {**dict(zip(KEY, task.key, strict=True)), **row, "measured": measured}


def run(tasks: Sequence[Task], path: Path, n_jobs: int) -> None:
    """Append the row of each task to a file."""
    with parallel_config("loky", inner_max_num_threads=1):
        results = Parallel(n_jobs, return_as="generator_unordered")(map(delayed(carry_out), tasks))
        for row in results:
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(*(row[name] for name in (*KEY, "seconds")), file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data_argument(parser)
    evidence = Path("docs/evidence")
    parser.add_argument("--out", type=Path, default=evidence / "embeddings.jsonl")
    parser.add_argument("--known", type=Path, default=evidence / "retrieval-maps.jsonl")
    parser.add_argument("--study", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--sets", nargs="+", choices=list(EMBEDDING_SETS), help="data sets")
    parser.add_argument("--draws", nargs="+", type=int, help="seeds of the draws")
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of methods")
    parser.add_argument("--skip", nargs="+", default=[], help="the same, of methods to leave out")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes of one thread each")
    parser.add_argument(
        "--epochs",
        nargs="+",
        type=int,
        default=[10, 20, 40, 80, 160],
        help="numbers of epochs of the heads that are tried",
    )
    parser.add_argument("--merge", nargs="+", type=Path, help="files whose rows are added")
    arguments = parser.parse_args()
    if arguments.merge:
        merged = read_rows(arguments.out)
        for path in arguments.merge:
            merged |= read_rows(path)
        arguments.out.write_text("".join(json.dumps(row) + "\n" for row in merged.values()))
    else:
        try:
            tasks = list_tasks(arguments, read_rows(arguments.known) | read_rows(arguments.out))
            run(tasks, arguments.out, arguments.jobs)
        except DatasetError as error:
            sys.exit(str(error))
        except ImportError as error:
            sys.exit(f"{error}: PQ needs faiss, heads torch and pytorch-metric-learning (--skip).")
    text = format_page(read_rows(arguments.known) | read_rows(arguments.out))
    arguments.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
