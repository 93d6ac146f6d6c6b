"""Does the search find the better geometry of a refinement: errors with one geometry and with both.

    python benchmarks/geometry.py --data DIR --out docs/evidence/geometry.jsonl
                                  [--sets coil100 semeion keel:ring] [--splits 5]

On every split three searches refine MPDA with its default parameters: with the Euclidean geometry
only, with spheres only, and with both, which is the default grid. All choose temperature, penalty,
number of components, and whether to refine at all, by cross-validation on the training part. FILE
gets a line of JSON for each split and search; a run goes on where an earlier one was stopped. The
table next to it (.md) has the mean 1-NN error on the test part, and the ratio of the search over
both to the better of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from defaults import keel_split
from mpda import MPDA, NeighborhoodRefinement
from mpda.estimators.methods import method
from mpda.exceptions import SmallClassWarning
from mpda.experiments.error_tables import format_markdown
from mpda.model_selection import DiscriminantSearchCV
from protocol import FIRST_SEED, TRAIN_SHARE, Split, data_argument, provenance, splits

# Where one geometry was better than the other in first measurements: three sets on either side.
_SETS = ("coil100", "semeion", "keel:ring", "vehicle", "face_detection", "keel:ionosphere")
_RADII = tuple(method("MPDA refined").grid["radius"])
GEOMETRIES: dict[str, tuple[float | None, ...]] = {
    "Euclidean": (None,),
    "sphere": tuple(radius for radius in _RADII if radius is not None),
    "both": _RADII,
}


def draw_split(name: str, number: int, directory: Path) -> Split:
    """Return a split of a data set, in the protocol of the other studies."""
    if name.startswith("keel:"):
        return keel_split(directory, name.removeprefix("keel:"), number)
    return list(splits(directory, name, number + 1))[number]


def measure(part: Split, radii: tuple[float | None, ...], n_jobs: int | None) -> dict[str, Any]:
    """Search on the training part; return the error on the test part and what was selected."""
    own = {k: v for k, v in method("MPDA refined").grid.items() if not k.startswith("estimator__")}
    begin = time.perf_counter()
    search = DiscriminantSearchCV(
        NeighborhoodRefinement(MPDA()), {**own, "radius": radii}, n_jobs=n_jobs
    ).fit(part.X, part.y)
    seconds = time.perf_counter() - begin
    return {
        "wrong": int(np.count_nonzero(search.predict(part.X_test) != part.y_test)),
        "n_test": len(part.y_test),
        "selected": search.best_params_,
        "seconds": round(seconds, 1),
    }


def build_table(rows: list[dict[str, Any]]) -> str:
    """Return the mean errors by data set and geometry."""
    errors: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        errors[row["set"]][row["geometry"]].append(100.0 * row["wrong"] / row["n_test"])
    lines = []
    for name, by_geometry in errors.items():
        means = {g: float(np.mean(by_geometry[g])) for g in GEOMETRIES if g in by_geometry}
        if len(means) < len(GEOMETRIES):
            continue
        better = min(means["Euclidean"], means["sphere"])
        ratio = means["both"] / better if better else float("nan")
        n_splits = len(by_geometry["both"])
        lines.append([name, str(n_splits), *(f"{m:.2f}" for m in means.values()), f"{ratio:.3f}"])
    header = ["data set", "splits", *(f"{g}, %" for g in GEOMETRIES), "both / the better one"]
    return format_markdown(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data_argument(parser)
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/geometry.jsonl"))
    parser.add_argument("--sets", nargs="+", default=list(_SETS), choices=[*TRAIN_SHARE, *_SETS])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--jobs", type=int, help="folds worked on at a time")
    arguments = parser.parse_args()
    # Classes of a few samples are usual here, and would be named by every fit.
    warnings.simplefilter("ignore", SmallClassWarning)
    lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {(row["set"], row["split"], row["geometry"]) for row in rows}
    for name in arguments.sets:
        for number in range(arguments.splits):
            part = None
            for geometry, radii in GEOMETRIES.items():
                key = {"set": name, "split": number, "geometry": geometry}
                if tuple(key.values()) in done:
                    continue
                part = draw_split(name, number, arguments.data) if part is None else part
                rows.append({**key, **measure(part, radii, arguments.jobs), "run": provenance()})
                with arguments.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
                print(*rows[-1].values(), file=sys.stderr)
    runs = "\n".join(f"- {run}" for run in dict.fromkeys(row["run"] for row in rows))
    text = (
        "# The geometry of a refinement: given, and chosen by the search\n\n"
        f"{build_table(rows)}\n\nSplits begin with seed {FIRST_SEED} (the paper's sets) and fold 0 "
        "(KEEL). Made by `python benchmarks/geometry.py --data DIR`:\n"
        f"\n{runs}\n"
    )
    arguments.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
