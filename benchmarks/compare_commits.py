"""Old and new code in turns: the ratio new / old of every line of ``make bench`` or a large study.

    python benchmarks/compare_commits.py OLD [--new REV] [--turns 7] [--data DIR]
                                         [--study bench mnist million] --out FILE

Each turn runs the benchmark of both commits in fresh processes, because the speed of a shared
machine changes from minute to minute. Values are times or ratios of times; where a line divides
another program's time by ours, the ratio is inverted, so that more than 1 always means slower.
Both commits run the new ``bench.py`` and compare with the slow definition of the new commit, and
measure every size of ``growth`` once a turn. The study "nca" has only the rows against NCA, LDA and
k-NN, which vary most. The study "methods" has the time of the search over each method of scikit-
learn, on one split of Vehicle and OptDigits (``mpda reproduce table2``). FILE gets a line of JSON
for each turn, and a run goes on where an earlier one was stopped. The table next to it (.md) has
the median and the quartiles over turns.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from protocol import data_argument, provenance

# Lines that divide the time of another program by ours.
_INVERTED = ("definition / MPDA", "GridSearchCV / DiscriminantSearchCV")
# A line of the new code may take longer than that of the old by this factor.
_LARGEST_RATIO = 1.10
# Columns of Markdown tables that hold what a fit costs.
_COST_COLUMNS = ("seconds", "times the k-NN", "MiB above the data", "MiB above the start")


def measure(tree: Path, study: str, data: Path | None) -> dict[str, float]:
    """Run a benchmark of the code in a tree; return its values by line."""
    if study == "methods":
        return _measure_searches(tree, data)
    script = {"bench": ["bench.py"], "nca": ["bench.py", "--only", "nca"]}.get(study)
    script = script or ["scale.py", study]
    command = [sys.executable, str(tree / "benchmarks" / script[0]), *script[1:]]
    command += ["--data", str(data)] if data else []
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    # A benchmark exits with an error if a claim does not hold; the values are printed all the same.
    printed = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    values = {**_read_lines(printed), **_read_tables(printed)}
    if not values:
        raise RuntimeError(f"{' '.join(command)} printed no values.")
    return values


def _measure_searches(tree: Path, data: Path | None) -> dict[str, float]:
    """Return the seconds of the search over methods of scikit-learn, by method and data set."""
    methods, problems = "PCA,LDA,shrinkage LDA,NCA", "vehicle,optdigits"
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "mpda", "reproduce", "table2", "--splits", "1"]
        command += ["--methods", methods, "--datasets", problems, "--out", out, "--quiet"]
        command += ["--data", str(data)] if data else []
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        rows = map(json.loads, (Path(out) / "rows.jsonl").read_text().splitlines())
        return {f"{row['method']}, {row['problem']}": row["search_seconds"] for row in rows}


def _read_lines(printed: str) -> dict[str, float]:
    """Return the last number of lines like ``MPDA / NCA time (...)   <= 0.06   0.084``."""
    values: dict[str, float] = {}
    for line in printed.splitlines():
        match = re.match(r"\s*(\S.*?)\s{2,}.*?([\d.]+)(?: s| MiB)?(?:\s+DOES NOT HOLD)?$", line)
        if match and "|" not in line:
            name = re.sub(r"\s*\(.*", "", match[1])
            values[name] = values.get(name, 0.0) + float(match[2])
    return values


def _read_tables(printed: str) -> dict[str, float]:
    """Return the sums of the cost columns of Markdown tables, by row and column."""
    values: dict[str, float] = {}
    header: list[str] = []
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        else:
            for column, cell in zip(header[1:], cells[1:], strict=False):
                numbers = re.findall(r"[\d.]+", cell)
                if column in _COST_COLUMNS and numbers:
                    values[f"{cells[0]}, {column}"] = sum(map(float, numbers))
    return values


def take_turn(trees: dict[str, Path], study: str, data: Path | None, turn: int) -> dict[str, Any]:
    """Run a study once with each commit; the commit that goes first alternates."""
    order = ("old", "new") if turn % 2 == 0 else ("new", "old")
    values = {name: measure(trees[name], study, data) for name in order}
    return {"study": study, "turn": turn, **values}


def build_table(rows: list[dict[str, Any]], study: str) -> list[str]:
    """Return a table of the ratios new / old of a study over all turns.

    Lines that the study "nca" has measured too, by longer and steadier runs, are marked.
    """
    again = {name for row in rows if row["study"] == "nca" != study for name in row["new"]}
    rows = [row for row in rows if row["study"] == study]
    lines = [
        f"| {study}, {len(rows)} turns: new / old | quartile | median | quartile | at most 1.10 |",
        "|---|---|---|---|---|",
    ]
    names = set.intersection(*({*row["old"]} & {*row["new"]} for row in rows))
    for name in sorted(names):
        pairs = [(row["new"][name], row["old"][name]) for row in rows]
        if name.startswith(_INVERTED):
            pairs = [(old, new) for new, old in pairs]
        low, median, high = np.quantile([a / b if b else 1.0 for a, b in pairs], [0.25, 0.5, 0.75])
        holds = "yes" if median <= _LARGEST_RATIO else "NO"
        holds += "; measured again in nca" if name in again else ""
        lines.append(f"| {name} | {low:.2f} | {median:.2f} | {high:.2f} | {holds} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="commit to compare with")
    parser.add_argument("--new", default="HEAD", help="commit that is compared")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument(
        "--study", nargs="+", default=["bench"], help="bench, or studies of scale.py"
    )
    parser.add_argument("--out", type=Path, required=True, help="file for the values (.jsonl)")
    data_argument(parser)
    arguments = parser.parse_args()
    rows = []
    if arguments.out.exists():
        rows = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    hashes = [
        subprocess.check_output(["git", "rev-parse", "--short", revision], text=True).strip()
        for revision in (arguments.old, arguments.new)
    ]
    commits = " -> ".join(hashes)
    with tempfile.TemporaryDirectory() as folder:
        trees = {}
        for name in ("old", "new"):
            trees[name] = Path(folder) / name
            trees[name].mkdir()
            archive = subprocess.check_output(["git", "archive", getattr(arguments, name)])
            subprocess.run(["tar", "-x", "-C", str(trees[name])], input=archive, check=True)
        for tree in trees.values():
            scale = tree / "benchmarks" / "scale.py"
            text = scale.read_text().replace("repeats=2", "repeats=1")
            scale.write_text(text.replace("1 if max(sizes) > 5000 else 3", "1"))
        for name in ("tests/oracles.py", "benchmarks/bench.py"):
            shutil.copy(trees["new"] / name, trees["old"] / name)
        for turn, study in itertools.product(range(arguments.turns), arguments.study):
            if any((row["study"], row["turn"]) == (study, turn) for row in rows):
                continue
            row = take_turn(trees, study, arguments.data, turn)
            rows.append({"commits": commits, "measured": provenance(), **row})
            with arguments.out.open("a") as lines:
                lines.write(json.dumps(rows[-1]) + "\n")
            print(f"{study}: turn {turn + 1} of {arguments.turns}", file=sys.stderr, flush=True)
    studies = dict.fromkeys(row["study"] for row in rows)
    table = [line for study in studies for line in build_table(rows, study)]
    sources = dict.fromkeys(f"{row['commits']}; {row['measured']}" for row in rows)
    text = "\n".join([f"# Old and new code in turns: {commits}", "", *table, *sources, ""])
    print(text)
    arguments.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
