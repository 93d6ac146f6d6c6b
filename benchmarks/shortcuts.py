"""What the paper's "further improvements" cost in accuracy and save in time.

    python benchmarks/shortcuts.py --data DIR

For every data set: the mean 1-NN error at the best dimension over the splits, and in brackets the
time of a fit over that of MPDA as it is by default, best of three, in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from mpda import MPDA
from mpda.exceptions import SmallClassWarning
from protocol import TRAIN_SHARE, Split, data_argument, errors_by_dimension, provenance, splits

VARIANTS = {
    "MPDA": MPDA(),
    'partition="euclidean"': MPDA(partition="euclidean"),
    "anchors=True": MPDA(anchors=True),
    'solver="two-stage"': MPDA(solver="two-stage"),
    "all three": MPDA(partition="euclidean", anchors=True, solver="two-stage"),
}


def measured(part: Split) -> list[tuple[float, float]]:
    """The error and the time of every variant."""
    found = []
    for model in VARIANTS.values():
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            model.fit(part.X, part.y)
            times.append(time.perf_counter() - begin)
        found.append((min(errors_by_dimension(part, model.components_).values()), min(times)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_argument(parser)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/shortcuts.md"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallClassWarning)  # COIL has 18 samples a class
    lines = [
        "| data set | " + " | ".join(f"`{name}`" for name in VARIANTS) + " |",
        "|" + "---|" * (1 + len(VARIANTS)),
    ]
    for name in TRAIN_SHARE:
        results = [measured(part) for part in splits(arguments.data, name, arguments.splits)]
        error, seconds = np.mean(results, axis=0).T
        cells = [f"{e:.2f} ({s / seconds[0]:.2f})" for e, s in zip(error, seconds, strict=True)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(name, *cells, file=sys.stderr)
    command = f"python benchmarks/shortcuts.py --data DIR --splits {arguments.splits}"
    text = "\n".join(lines) + f"\n\nMade by `{command}`; {provenance()}.\n"
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
