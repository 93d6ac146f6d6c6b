"""What it costs to refine only the best start where the method is chosen automatically.

    python benchmarks/automatic.py --data ../shared/data --out docs/evidence/automatic.md

``mpda fit`` chooses among PCA, shrinkage LDA, LFDA and MPDA. In a small table each of them is
refined; within a time budget only the one that is best alone, or none. On the KEEL sets and the
bundled sentences this compares the three: the error of the chosen model on samples that took no
part, and the CPU seconds of the choice. Half of the samples of each
class train, at most --samples in all. One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split

from mpda._lib.atomic_write import write_atomically
from mpda.assessment import AssessmentProtocol, make_contender, select_model
from mpda.experiments.datasets import load_intents
from mpda.experiments.error_tables import format_markdown
from protocol import Array, provenance

# Refined starts, by their names in the table; None refines all.
CHOICES = {"none": 0, "best": 1, "all": None}
# Errors of 0 have no ratio: as many wrong samples are added to both sides.
_ADDED = 0.5


def read_sets(data: Path) -> Iterator[tuple[str, Array, Array]]:
    """Yield name, samples and labels of the data sets."""
    intents = load_intents()
    kept = np.isin(intents.labels, np.unique(intents.labels)[:40])
    yield "intents (40 of 150)", intents.vectors[kept], intents.labels[kept]
    for path in sorted((data / "keel").glob("*.npz")):
        with np.load(path) as arrays:
            yield path.stem, np.asarray(arrays["X"], dtype=float), arrays["y"]


def measure(name: str, X: Array, y: Array, n_most: int) -> tuple[str, int, int, dict[str, Array]]:
    """Return wrong samples and CPU seconds by choice, with the sizes of both halves."""
    n_train = min(n_most, len(y) // 2)
    train, test = train_test_split(
        np.arange(len(y)), train_size=n_train, stratify=y, random_state=0
    )
    found = {}
    for choice, n_refined in CHOICES.items():
        protocol = AssessmentProtocol(n_refined=n_refined)
        start = time.process_time()
        selected = select_model(X[train], y[train], make_contender("auto", search=False), protocol)
        seconds = time.process_time() - start
        n_wrong = np.count_nonzero(selected.model.predict(X[test]) != y[test])
        found[choice] = np.array([n_wrong, seconds])
    return name, len(train), len(test), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tasks = (delayed(measure)(*entry, arguments.samples) for entry in read_sets(arguments.data))
    rows: list[list[str]] = []
    wrong, seconds = [], []
    for name, n_train, n_test, found in Parallel(arguments.jobs, return_as="generator")(tasks):
        errors = [f"{100 * found[choice][0] / n_test:.2f}" for choice in CHOICES]
        spent = [f"{found[choice][1]:.1f}" for choice in CHOICES]
        rows.append([name, str(n_train), str(n_test), *errors, *spent])
        wrong.append([(found[choice][0] + _ADDED) / (n_test + 2 * _ADDED) for choice in CHOICES])
        seconds.append([found[choice][1] for choice in CHOICES])
        print(*rows[-1], flush=True)
    ratios: Array = np.exp(np.log(np.array(wrong)).mean(axis=0))
    ratios /= ratios[-1]
    times = np.array(seconds)
    header = ["data", "training", "test", *(f"error, {c}" for c in CHOICES)]
    header += [f"seconds, {c}" for c in CHOICES]
    better = np.sign(np.array(wrong)[:, 1] - np.array(wrong)[:, 2])
    text = "\n".join(
        [
            "# The choice of the method within a time budget",
            "",
            "`mpda fit` chooses among PCA, shrinkage LDA, LFDA and MPDA. In a small table each of "
            "them is refined (all); within a time budget only the one that is best without (best), "
            "or none where a refinement of all samples would take longer than the budget.",
            "",
            f"Over {len(rows)} sets the geometric mean of the error is {ratios[1]:.3f} times that "
            f"of refining all where only the best start is refined, and {ratios[0]:.3f} times "
            f"where none is. Refining all is better on {np.count_nonzero(better > 0)} sets, worse "
            f"on {np.count_nonzero(better < 0)}. The choice with the best start refined takes "
            f"{np.median(times[:, 1] / times[:, 0]):.1f} times (median) the time of the starts "
            f"alone, at most {np.max(times[:, 1] / times[:, 0]):.1f} times; with all refined "
            f"{np.median(times[:, 2] / times[:, 0]):.1f} times, at most "
            f"{np.max(times[:, 2] / times[:, 0]):.1f} times.",
            "",
            format_markdown(header, rows),
            "",
            "Errors in % on samples that took no part, CPU seconds of the choice and one fit. "
            "Selection, by cross-validation on the training half, of method, number of components "
            "and preparation. One split: differences on single sets are within chance.",
            "",
            f"`python benchmarks/automatic.py --data DIR --samples {arguments.samples}`. "
            f"{provenance()}",
        ]
    )
    if arguments.out is None:
        print(text)
    else:
        write_atomically(arguments.out, text + "\n")


if __name__ == "__main__":
    main()
